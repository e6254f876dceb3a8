"""`fwshapley value`: which rows of a table, or pictures of a folder, have a wrong label."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import fwshapley as fw
from fwshapley._internal.checks import MAX_SEED
from fwshapley._internal.files import locked
from fwshapley._internal.wording import counted
from fwshapley.cli import value_report as valuation_report
from fwshapley.cli.console import (
    MOST_STEPS,
    check_matplotlib,
    console,
    errors,
    errors_explained,
)
from fwshapley.cli.fitting import CHECKPOINTS, about_going_on
from fwshapley.cli.image_folders import Learning, read_folders
from fwshapley.cli.images.files import parse_size
from fwshapley.cli.input_reading import Reading, parse_numbers
from fwshapley.cli.labeled_table import Table, read_table
from fwshapley.cli.value_report.findings import Labeled
from fwshapley.explanation.inputs import choose_device
from fwshapley.games.knn import Utility
from fwshapley.valuation.knn.distances import Metric

reading = partial(typer.Option, rich_help_panel="What is read")
writing = partial(typer.Option, rich_help_panel="What is written")
valuing = partial(typer.Option, rich_help_panel="How points are valued")
pictured = partial(typer.Option, rich_help_panel="Of pictures")

DATA_HELP = "A .csv file, an .npz file with arrays x and y, or a folder of pictures with a folder for each class."
LABEL_HELP = "Column of labels; an .npz file can do without."
REFERENCE_HELP = "Data that points are valued by their use for. Without it points are valued by each other."
SCALE_HELP = "Standardize numbers, or use them as they are; of pictures for a backbone, divide bytes by 255."
UTILITY_HELP = (
    "What neighbors are worth: the share of k that has the right label (soft), the share of those there are "
    "(normalized), or whether it wins the vote."
)
SIZE_HELP = "Resize pictures, such as 64x64; by default as they are, but 32 pixels a side at most without a backbone."
BACKBONE_HELP = (
    "Take features from this network instead of training some: package.module:attribute, file.py:attribute (both may "
    "run code, as may what follows), or a .pt2 file of torch.export."
)

Options = Mapping[str, object]
"""Options by name; those that were not given are None or False."""

DEFAULT_FOLDS = 5
MANY_SHARED = 0.1
"""Share of the reference points that are points to be valued too, from which on that is no coincidence."""

MANY_PAIRS = 10**10
"""Pairs of points from which on a valuation takes a quarter of an hour or more on one core."""


def value(
    data: Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP)],
    *,
    label: Annotated[str | None, reading("--label", "-l", metavar="COLUMN", help=LABEL_HELP)] = None,
    reference: Annotated[Path | None, reading("--reference", "-r", metavar="DATA", help=REFERENCE_HELP)] = None,
    ignore: Annotated[list[str] | None, reading(metavar="COLUMN", help="Column to leave out; may be repeated.")] = None,
    scale: Annotated[bool, reading(help=SCALE_HELP)] = True,
    encoding: Annotated[str | None, reading(metavar="NAME", help="Of .csv files, such as cp1252.")] = None,
    size: Annotated[str | None, pictured(metavar="HxW", help=SIZE_HELP)] = None,
    gray: Annotated[bool | None, pictured("--gray/--rgb", help="Color; by default as they are.")] = None,
    folds: Annotated[int | None, pictured(min=2, metavar="N", help="Networks to train, one for each; 5.")] = None,
    seconds: Annotated[float | None, pictured(metavar="X", help="Time to train, all networks together.")] = None,
    steps: Annotated[
        int | None, pictured(min=1, max=MOST_STEPS, metavar="N", help="Steps to train, all networks together.")
    ] = None,
    seed: Annotated[int | None, pictured(min=0, max=MAX_SEED, metavar="N", help="Of the training.")] = None,
    resume: Annotated[bool, pictured("--resume", help="Go on with training that was stopped.")] = False,
    backbone: Annotated[str | None, pictured(metavar="MODEL", help=BACKBONE_HELP)] = None,
    mean: Annotated[str | None, pictured(metavar="X,X,X", help="For a backbone: subtracted from each channel.")] = None,
    std: Annotated[str | None, pictured(metavar="X,X,X", help="For a backbone: each channel is divided by it.")] = None,
    alpha: Annotated[float, valuing(metavar="X", help="Larger favors small coalitions.")] = 1.0,
    beta: Annotated[float, valuing(metavar="X", help="Larger favors large ones; 1 and 1 is Shapley.")] = 1.0,
    k: Annotated[int, valuing("--k", "-k", min=1, metavar="N", help="Nearest neighbors that decide.")] = 5,
    utility: Annotated[Utility, valuing(help=UTILITY_HELP)] = "soft",
    metric: Annotated[Metric, valuing(help="How far two points are apart.")] = "euclidean",
    jobs: Annotated[
        int | None, valuing("--jobs", "-j", min=1, metavar="N", help="Cores to use instead of all.")
    ] = None,
    device: Annotated[str, valuing(metavar="NAME", help="Such as cpu or cuda; auto is a GPU if any.")] = "auto",
    out: Annotated[Path, writing("--out", "-o", metavar="FOLDER", help="Folder for the results.")],
    top: Annotated[int, writing(min=1, metavar="N", help="Suspicious points to show.")] = 20,
    report: Annotated[bool, writing(help="Write report.html, which needs matplotlib.")] = True,
    force: Annotated[bool, writing("--force", help="Replace results that are in the folder.")] = False,
) -> None:
    """Find points whose label is probably wrong: what each row or picture is worth to its neighbors.

    Numbers of a table are standardized, categories and dates turned into numbers, and what was done is said.
    Pictures are compared by what networks say of them that were trained on the others; or by a network of yours.
    The folder gets ranking.csv with all points, the most suspicious first, report.html and valuation.safetensors.
    In ranking.csv, the verdict of a suspicious point says whether its neighbors have another label, which is then
    suggested, or agree with its own; neighbors of other points are not asked.

    Start with: fwshapley value train.csv --label species --out results

    Or with: fwshapley value photos/ --out results
    """
    trained = data.is_dir() and backbone is None
    when_stopped = partial(about_going_on, out, time.time()) if trained else lambda: "stopped"
    with errors_explained(when_stopped), ExitStack() as kept:
        weights = fw.Beta(alpha, beta)
        choose_device(device)  # or say that it cannot be used
        _check_options(
            data,
            of_tables={"--label": label, "--ignore": ignore or None, "--encoding": encoding},
            of_pictures={"--size": size, "--gray/--rgb": None if gray is None else "given", "--backbone": backbone},
            of_training={"--folds": folds, "--seconds": seconds, "--steps": steps, "--seed": seed, "--resume": resume},
            of_backbones={"--mean": mean, "--std": std, "--no-scale": data.is_dir() and not scale},
        )
        learning = Learning(
            backbone,
            folds=folds or DEFAULT_FOLDS,
            budget=None if seconds is None and steps is None else fw.Budget(seconds, steps),
            seed=seed or 0,
            device=device,
            checkpoints=out / CHECKPOINTS,
            resume=resume,
        )
        kept.enter_context(locked(out))
        valuation_report.check_folder(out, report=report, force=force)
        if trained:
            learning.check_stopped(force=force)
        if report:
            check_matplotlib("the report: --no-report")
        points: Labeled
        references: Labeled | None
        if data.is_dir():
            how = _reading(size, gray, mean, std, scale=scale)
            points, references = read_folders(data, reference, how, learning, k)
        else:
            points, references = _read_tables(data, reference, label, encoding or "utf-8", ignore or (), scale=scale)
        _warn_of_long_work(points, references)
        if references is not None:
            _warn_of_shared_points(points, references)
        findings = valuation_report.value_points(
            points,
            references,
            weights=weights,
            k=k,
            utility=utility,
            metric=metric,
            top=top,
            jobs=jobs,
            device=device,
        )
        written = valuation_report.write(findings, out, report=report)
        if trained:
            learning.clear()
        valuation_report.show(findings, console)
        names = ", ".join(path.name for path in written)
        console.print(f"\nwritten to [bold]{escape(str(out))}[/bold]: {names}", highlight=False, soft_wrap=True)


def _check_options(
    data: Path, *, of_tables: Options, of_pictures: Options, of_training: Options, of_backbones: Options
) -> None:
    """Raise an error if an option was given that does not apply to the data."""
    if not data.is_dir():
        _refuse({**of_pictures, **of_training, **of_backbones}, f"is for folders of pictures, which {data} is not")
        return
    _refuse(of_tables, f"is for tables, and {data} is a folder of pictures")
    if of_pictures["--backbone"] is None:
        _refuse(of_backbones, "is for a --backbone: networks that are trained here standardize by themselves")
    else:
        _refuse(of_training, "is for networks that are trained on the pictures: leave it out, or the --backbone")


def _refuse(options: Options, why: str) -> None:
    for name, given in options.items():
        if given is not None and given is not False:
            raise ValueError(f"{name} {why}")


def _reading(size: str | None, gray: bool | None, mean: str | None, std: str | None, *, scale: bool) -> Reading:  # noqa: FBT001 - three-valued
    return Reading(
        size=None if size is None else parse_size(size),
        color=None if gray is None else "gray" if gray else "rgb",
        scaled=scale,
        mean=None if mean is None else parse_numbers(mean),
        std=None if std is None else parse_numbers(std),
    )


def _read_tables(
    path: Path, reference: Path | None, label: str | None, encoding: str, ignore: Sequence[str], *, scale: bool
) -> tuple[Table, Table | None]:
    table = read_table(path, label, encoding=encoding, ignore=ignore, scale=scale)
    return table, None if reference is None else table.read_reference(reference, encoding=encoding)


def _warn_of_long_work(points: Labeled, references: Labeled | None) -> None:
    others = points if references is None else references
    if len(points) * len(others) > MANY_PAIRS:
        errors.print(
            f"{counted(len(points), points.noun)} for {counted(len(others), 'reference')} are many: this takes long. "
            f"A --reference of some thousand {points.noun}s would do.",
            highlight=False,
        )


def _warn_of_shared_points(points: Labeled, references: Labeled) -> None:
    """Warn of a reference that has rows to be valued in it: right or wrong, each is its own nearest neighbor.

    Not where rows are alike anyhow, nor where the reference knows some labels better.
    """
    rows = [row.tobytes() for row in points.x]
    alike = Counter(rows)
    known = {row: label for row, label in zip(rows, points.y.tolist(), strict=True) if alike[row] == 1}
    labels = zip((row.tobytes() for row in references.x), references.y.tolist(), strict=True)
    agree = [known[row] == label for row, label in labels if row in known]
    shared = len(agree)
    if shared > MANY_SHARED * len(references) and all(agree):
        errors.print(
            f"{shared:,} of {counted(len(references), 'reference')} are among the {points.noun}s to be valued, where a "
            "wrong label looks right: it predicts itself. Give others, or no --reference at all.",
            highlight=False,
            soft_wrap=True,
        )
