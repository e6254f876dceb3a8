"""`fwshapley value`: which rows of a table, or pictures of a folder, have a wrong label or target."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import fwshapley as fw
from fwshapley._internal.checks import MAX_SEED
from fwshapley._internal.files import check_free, locked
from fwshapley._internal.tensor_checks import choose_device
from fwshapley._internal.wording import counted
from fwshapley.cli.checkpoints import Checkpoints
from fwshapley.cli.console import (
    MAX_STEPS,
    check_matplotlib,
    errors,
    errors_explained,
    print_line,
)
from fwshapley.cli.input_format import image_format
from fwshapley.cli.labeled_options import (
    BACKBONE_HELP,
    Data,
    Deviations,
    Encoding,
    Force,
    Gray,
    Ignored,
    Means,
    Options,
    Out,
    PictureSize,
    Top,
    pictured,
    reading,
    refuse,
    refuse_others,
    writing,
)
from fwshapley.cli.pictures.features import Training, read_folders
from fwshapley.cli.value_report import Labeled, inspect, result_names, show, write_results
from fwshapley.games.knn import AnyUtility
from fwshapley.tables.labeled_table import read_table
from fwshapley.tables.targets import TaskChoice
from fwshapley.valuation.knn.distances import Metric
from fwshapley.valuation.knn.problem import task_of

valuing = partial(typer.Option, rich_help_panel="Values")
LABEL_HELP = "Column of labels, or of numbers to predict; not needed for an .npz file."
TASK_HELP = (
    "Whether labels are classes or numbers to predict. auto decides by the labels, and stops with an error if they may "
    "be either."
)
REFERENCE_HELP = "Reference points: data that the points help to predict. Without it, points are valued by each other."
SCALE_HELP = "Standardize numbers, or use them as they are. For a --backbone: divide bytes by 255, or not."
UTILITY_HELP = (
    "What a point is valued for. Classes: the share of the k nearest neighbors with the correct label (soft, the "
    "default; or normalized), whether it wins their vote (vote), or minus the squared error of all shares (brier). "
    "Numbers: minus the squared error of the mean of the k nearest (squared_error, the default; or normalized_error). "
    "With weights by distance: kernel, kernel_error; of all within a radius: radius, radius_error."
)
SAMPLE_HELP = "Without --reference: value points by a sample of N of them. By default all of up to 100,000 points."
RADIUS_HELP = "Distance for --utility radius, kernel, radius_error and kernel_error."
DEFAULT_FOLDS = 5
MANY_SHARED = 0.1
"""Share of the reference points that are also valued, from which the user is warned."""


def value(
    data: Data,
    *,
    label: Annotated[str | None, reading("--label", "-l", metavar="COLUMN", help=LABEL_HELP)] = None,
    reference: Annotated[Path | None, reading("--reference", "-r", metavar="DATA", help=REFERENCE_HELP)] = None,
    task: Annotated[TaskChoice, reading(help=TASK_HELP)] = "auto",
    ignore: Ignored = None,
    scale: Annotated[bool, reading(help=SCALE_HELP)] = True,
    encoding: Encoding = None,
    size: PictureSize = None,
    gray: Gray = None,
    folds: Annotated[int | None, pictured(min=2, metavar="N", help="Number of networks, one per fold; 5.")] = None,
    seconds: Annotated[float | None, pictured(metavar="X", help="Training time of all networks together.")] = None,
    steps: Annotated[
        int | None, pictured(min=1, max=MAX_STEPS, metavar="N", help="Training steps of all networks together.")
    ] = None,
    seed: Annotated[int | None, pictured(min=0, max=MAX_SEED, metavar="N", help="Seed of the training.")] = None,
    resume: Annotated[bool, pictured("--resume", help="Continue training that was stopped.")] = False,
    backbone: Annotated[str | None, pictured(metavar="MODEL", help=BACKBONE_HELP)] = None,
    mean: Means = None,
    std: Deviations = None,
    alpha: Annotated[float, valuing(metavar="X", help="A larger alpha gives small coalitions more weight.")] = 1.0,
    beta: Annotated[float, valuing(metavar="X", help="A larger beta gives large ones more; 1 and 1 is Shapley.")] = 1.0,
    k: Annotated[int, valuing("--k", "-k", min=1, metavar="N", help="Number of nearest neighbors.")] = 5,
    utility: Annotated[AnyUtility | None, valuing(help=UTILITY_HELP)] = None,
    radius: Annotated[float | None, valuing(metavar="X", help=RADIUS_HELP)] = None,
    metric: Annotated[Metric, valuing(help="Distance between points.")] = "euclidean",
    jobs: Annotated[
        int | None, valuing("--jobs", "-j", min=1, metavar="N", help="Number of cores; all by default.")
    ] = None,
    n_references: Annotated[int | None, valuing("--n-references", min=2, metavar="N", help=SAMPLE_HELP)] = None,
    device: Annotated[str, valuing(metavar="NAME", help="E.g. cpu or cuda; auto is a GPU if there is one.")] = "auto",
    out: Out,
    top: Top = 20,
    report: Annotated[bool, writing(help="Write report.html, which needs matplotlib.")] = True,
    force: Force = False,
) -> None:
    """Find rows or pictures whose label or target is probably wrong, by how much each helps to predict its neighbors.

    In a table, numbers are standardized, and categories and dates are converted to numbers; the output says how.
    Pictures are compared by cross-fitted class probabilities, or by the features of your own network (--backbone).
    The output folder contains ranking.csv (all points, the most suspicious first), report.html, and
    valuation.safetensors. In ranking.csv, the verdict of a suspicious point is "another label" if most of its neighbors
    have another one, which is then suggested, or "neighbors agree"; other points are not compared. For numbers to
    predict, ranking.csv has the mean target of the neighbors beside each suspicious target. Rows of a .csv file are
    counted as in a spreadsheet: the header is row 1, and row 2 is row 0 of a DataFrame.

    Start with: fwshapley value train.csv --label species --out results

    With numbers: fwshapley value homes.csv --label price --out results

    Or with: fwshapley value photos/ --out results
    """
    trained = data.is_dir() and backbone is None
    saved = Checkpoints(out, ["fold_*"])
    with errors_explained(saved.about_stopping if trained else lambda: "stopped"), ExitStack() as kept:
        weights = fw.Beta(alpha, beta)
        chosen = task if utility is None else task_of(utility)
        if task not in ("auto", chosen):
            raise ValueError(f"--utility {utility} is for {chosen}, and --task is {task}: omit one of them")
        choose_device(device)  # raises an error if it cannot be used
        _check_options(
            data,
            of_tables={
                "--label": label,
                "--ignore": ignore or None,
                "--encoding": encoding,
                f"--utility {utility}" if utility else "--task": chosen == "regression",
            },
            of_pictures={"--size": size, "--gray/--rgb": None if gray is None else "given", "--backbone": backbone},
            of_training={"--folds": folds, "--seconds": seconds, "--steps": steps, "--seed": seed, "--resume": resume},
            of_backbones={"--mean": mean, "--std": std, "--no-scale": data.is_dir() and not scale},
        )
        kept.enter_context(locked(out))
        check_free(out, result_names(report=report), force=force)
        if trained:
            saved.check(resume=resume, force=force)
            if not resume:
                saved.remove()
        if report:
            check_matplotlib("the report: --no-report")
        points: Labeled
        references: Labeled | None
        if data.is_dir():
            budget = None if seconds is None and steps is None else fw.Budget(seconds, steps)
            points, references = read_folders(
                data,
                reference,
                image_format(size, gray, mean, std, scaled=scale),
                backbone=backbone,
                training=Training(folds or DEFAULT_FOLDS, budget, seed or 0, saved.path, resume),
                k=k,
                device=device,
            )
        else:
            points = read_table(
                data, label, task=chosen, encoding=encoding or "utf-8", ignore=ignore or (), scale=scale
            )
            references = None if reference is None else points.read_reference(reference, encoding=encoding or "utf-8")
        if references is not None:
            _warn_of_shared_points(points, references)
        if metric == "cosine":
            _check_directions(points, references)
        valuation = fw.value_neighbors(
            points.x,
            points.y,
            None if references is None else (references.x, references.y),
            k=k,
            weights=weights,
            task=points.task,
            utility=utility,
            radius=radius,
            metric=metric,
            device=device,
            n_references=n_references,
            n_jobs=jobs,
        )
        provenance = {**valuation.provenance, **points.origin}
        valuation = replace(valuation, classes=points.classes.names, provenance=provenance)
        valued = inspect(points, references, valuation, top)
        written = write_results(valued, out, report=report)
        if trained:
            saved.remove()
        show(valued)
        print_line(f"\nwritten to [bold]{escape(str(out))}[/bold]: {', '.join(path.name for path in written)}")


def _check_options(
    data: Path, *, of_tables: Options, of_pictures: Options, of_training: Options, of_backbones: Options
) -> None:
    """Raise an error if an option was given that does not apply to the data."""
    refuse_others(data, of_tables=of_tables, of_pictures={**of_pictures, **of_training, **of_backbones})
    if not data.is_dir():
        return
    if of_pictures["--backbone"] is None:
        refuse(of_backbones, "is for a --backbone: networks that this command trains standardize pictures themselves")
    else:
        refuse(of_training, "is for networks that are trained on the pictures: omit it, or the --backbone")


def _check_directions(points: Labeled, references: Labeled | None) -> None:
    """Raise an error if a point has no direction, which the cosine compares."""
    for labeled in (points, references):
        if labeled is None:
            continue
        is_zero = ~labeled.x.any(axis=1)
        if is_zero.any():
            raise ValueError(
                f"{labeled.noun} {labeled.keys[int(is_zero.argmax())]} of {labeled.path} is 0 in all columns and has "
                "no direction; use --metric euclidean"
            )


def _warn_of_shared_points(points: Labeled, references: Labeled) -> None:
    """Warn if the reference contains points to be valued: each is then its own nearest neighbor.

    Points that are equal to each other do not count; nor is there a warning if the reference corrects some labels.
    """
    rows = [row.tobytes() for row in points.x]
    counts = Counter(rows)
    labels = {row: label for row, label in zip(rows, points.y.tolist(), strict=True) if counts[row] == 1}
    reference_rows = zip((row.tobytes() for row in references.x), references.y.tolist(), strict=True)
    agree = [labels[row] == label for row, label in reference_rows if row in labels]
    shared = len(agree)
    if shared > MANY_SHARED * len(references) and all(agree):
        errors.print(
            f"{shared:,} of {counted(len(references), 'reference point')} are also among the {points.noun}s to be "
            "valued, so that wrong labels predict themselves and look correct. Use another --reference, or none.",
            highlight=False,
            soft_wrap=True,
        )
