"""`fwshapley fit`: train an explainer of a model."""

from __future__ import annotations

import math
import shlex
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch
import typer
from numpy.typing import NDArray
from rich.markup import escape
from rich.text import Text

import fwshapley as fw
from fwshapley._internal.checks import MAX_SEED
from fwshapley._internal.files import check_free, locked
from fwshapley._internal.tensor_checks import choose_device
from fwshapley._internal.wording import counted
from fwshapley.cli.checkpoints import Checkpoints
from fwshapley.cli.console import (
    MOST_STEPS,
    about_budget,
    check_matplotlib,
    console,
    errors_explained,
    new_table,
    print_line,
    print_notes,
    print_table,
)
from fwshapley.cli.fit_record import COMMAND, FitRecord, open_explainer
from fwshapley.cli.input_files import InputFormat, Inputs, image_format, read_inputs
from fwshapley.cli.model_loading import OutputChoice, as_in_file, find_model
from fwshapley.explanation.error_model import MIN_INPUTS
from fwshapley.explanation.fitting import PARTS, NetworkName, ObjectiveName
from fwshapley.explanation.inputs import hold_out
from fwshapley.explanation.persistence import FILE
from fwshapley.objectives import Kernel

DEFAULT_SECONDS = 120.0
REPORT = "report.html"

MOST_REPORTED = 64
"""Largest number of inputs that the report measures."""

REPORTED_PATCHES = 2048
"""Players of all inputs that the report measures, so that it takes minutes at most."""

MOST_PATCHES = 16
"""Largest number of patches along a side, without --patch."""

read = partial(typer.Option, rich_help_panel="Inputs")
explained = partial(typer.Option, rich_help_panel="What to explain")
trained = partial(typer.Option, rich_help_panel="Training")
written = partial(typer.Option, rich_help_panel="Results")

MODEL_HELP = (
    "package.module:attribute or file.py:attribute: a torch module, a function or an estimator; with () at the end, "
    "the attribute is called and returns one. Or a .pt2 file of torch.export. Each of them can run code, so use only "
    "models that you trust."
)
DATA_HELP = "Inputs without labels, like those to explain: a .csv (also .csv.gz) or .npz file, or a folder of pictures."
VALID_HELP = "Inputs for validation; otherwise a tenth of DATA is held out."
PATCH_HELP = "Players are patches of N x N pixels; by default at most 16 along a side."
SEGMENTS_HELP = "Players are segments of images: a .npy file of numbers 0, 1, 2, ..., (height, width)."
OUTPUT_HELP = (
    "How to read outputs. auto: probabilities of classes for a torch module, and for other models whose outputs sum "
    "to 1; otherwise raw numbers."
)
CALIBRATE_HELP = "Also estimate the errors of values, for `fwshapley explain --errors`; takes some seconds."
KERNEL_HELP = "Only with --objective kernel, the semivalue to learn: Beta(alpha, beta)."


def fit(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    data: Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP)],
    *,
    valid: Annotated[Path | None, read(metavar="DATA", help=VALID_HELP)] = None,
    label: Annotated[str | None, read("--label", "-l", metavar="COLUMN", help="Column of labels: left out.")] = None,
    ignore: Annotated[list[str] | None, read(metavar="COLUMN", help="Column to leave out; may be repeated.")] = None,
    encoding: Annotated[str, read(metavar="NAME", help="Of .csv files, such as cp1252.")] = "utf-8",
    size: Annotated[str | None, read(metavar="HxW", help="Resize pictures, such as to 32x32.")] = None,
    gray: Annotated[bool | None, read("--gray/--rgb", help="Convert pictures to gray or to color.")] = None,
    scale: Annotated[bool, read(help="Divide bytes of images by 255.")] = True,
    mean: Annotated[str | None, read(metavar="X,X,X", help="Subtracted from each channel, after scaling.")] = None,
    std: Annotated[str | None, read(metavar="X,X,X", help="Each channel is divided by it, after that.")] = None,
    sample: Annotated[int | None, read(min=2, metavar="N", help="Use only N inputs, chosen at random.")] = None,
    patch: Annotated[int | None, explained(min=1, metavar="N", help=PATCH_HELP)] = None,
    segments: Annotated[Path | None, explained(metavar="FILE", help=SEGMENTS_HELP)] = None,
    output: Annotated[OutputChoice, explained(help=OUTPUT_HELP)] = "auto",
    names: Annotated[str | None, explained(metavar="A,B,C", help="Names of the model's outputs.")] = None,
    seconds: Annotated[float | None, trained(metavar="X", help="Time to train; 120 without --steps.")] = None,
    steps: Annotated[int | None, trained(min=1, max=MOST_STEPS, metavar="N", help="Steps to train.")] = None,
    objective: Annotated[ObjectiveName, trained(help="Learn all semivalues at once, or one (kernel).")] = "multilinear",
    alpha: Annotated[float | None, trained(metavar="X", help=KERNEL_HELP)] = None,
    beta: Annotated[float | None, trained(metavar="X", help=KERNEL_HELP)] = None,
    network: Annotated[NetworkName, trained(help="Network that predicts values; unet and slim need images.")] = "auto",
    seed: Annotated[int, trained(min=0, max=MAX_SEED, metavar="N", help="Of everything random.")] = 0,
    device: Annotated[
        str, trained(metavar="NAME", help="Such as cpu or cuda; auto is a GPU if there is one.")
    ] = "auto",
    resume: Annotated[bool, trained("--resume", help="Continue training that was stopped.")] = False,
    out: Annotated[Path, written("--out", "-o", metavar="FOLDER", help="Folder for the explainer.")],
    calibrate: Annotated[bool, written("--calibrate", help=CALIBRATE_HELP)] = False,
    report: Annotated[bool, written(help="Also measure the explainer and write report.html; takes minutes.")] = False,
    force: Annotated[bool, written("--force", help="Replace what the folder contains, also stopped training.")] = False,
) -> None:
    """Train an explainer of a model; then `fwshapley explain` explains each input in milliseconds.

    Players, to which values are assigned, are the columns of a table or patches of an image.
    Progress is saved every 20 seconds and on Ctrl-C; --resume continues.

    Start with: fwshapley fit model.py:model train.csv --label species --out explainer
    """
    arguments = dict(locals())
    saved = Checkpoints(out, PARTS)
    with errors_explained(saved.about_stopping), ExitStack() as stack:
        choose_device(device)  # or raise an error before any work
        stack.enter_context(locked(out))
        _check_folder(saved, resume=resume, report=report, force=force)
        left_out = tuple(dict.fromkeys([*([] if label is None else [label]), *(ignore or [])]))
        wanted = image_format(size, gray, mean, std, scaled=scale, left_out=left_out, encoding=encoding)
        budget = fw.Budget(DEFAULT_SECONDS if seconds is None and steps is None else seconds, steps)
        weights = _learned_weights(objective, alpha, beta)
        if not data.exists():
            raise FileNotFoundError(f"there is no file {data}")
        loaded_model = find_model(model, output)
        inputs, wanted = read_inputs([data], _with_columns_of(loaded_model, wanted), most=sample, seed=seed)
        x, x_valid, about_valid = _validation_inputs(inputs, valid, wanted, seed)
        players, about_players = _players_of_options(inputs, wanted, patch, segments)
        if calibrate and len(x_valid) < MIN_INPUTS:
            raise ValueError(
                f"--calibrate needs at least {MIN_INPUTS} inputs that are not trained on, got {len(x_valid)}: give "
                "them by --valid"
            )
        notes = (*inputs.notes, about_valid, about_players)
        _print_plan(model, loaded_model, notes, budget)
        explainer = fw.FeatureExplainer(
            as_in_file(loaded_model, wanted.layout),
            players,
            output=output,
            objective=objective,
            weights=weights,
            network=network,
            output_names=None if names is None else [name.strip() for name in names.split(",")],
            device=device,
            seed=seed,
        )
        if not resume:
            saved.remove()
        explainer.fit(x, x_valid, budget=budget, checkpoint=saved.path, resume=resume)
        _show_training(explainer)
        if calibrate:
            _calibrate(explainer, x_valid)
        explainer.metadata = {COMMAND: FitRecord(model, wanted, notes, arguments).facts()}
        _save(explainer, saved)
        if report:
            _report_explainer(explainer, x_valid, out / REPORT)
        next_command = shlex.join(
            ["fwshapley", "explain", str(out), "INPUT", "--model", model, "--out", "explanations"]
        )
        print_line(f"written to [bold]{escape(str(out))}[/bold]: {', '.join([FILE, *[REPORT] * report])}")
        print_line(f"next: {escape(next_command)}")


def _check_folder(saved: Checkpoints, *, resume: bool, report: bool, force: bool) -> None:
    """Raise an error if results cannot be written to the folder, before there is any work to lose."""
    if report:
        check_matplotlib("it: --no-report")
    saved.check(resume=resume, force=force)
    check_free(saved.out, [FILE, *[REPORT] * (report or _has_our_report(saved.out))], force=force)


def _has_our_report(folder: Path) -> bool:
    """Whether the fit that wrote the explainer in a folder also wrote a report; a user's own is not removed."""
    if not (folder / FILE).exists():
        return False
    try:
        return bool((open_explainer(folder).record.arguments or {}).get("report"))
    except (OSError, ValueError):  # damaged
        return False


def _learned_weights(objective: ObjectiveName, alpha: float | None, beta: float | None) -> fw.Semivalue | None:
    """Return the semivalue that --objective kernel learns; the other objective learns all."""
    if objective == "kernel":
        if alpha is None and beta is None:
            raise ValueError("--objective kernel learns one semivalue: give --alpha and --beta")
        return fw.Beta(1.0 if alpha is None else alpha, 1.0 if beta is None else beta)
    if alpha is not None or beta is not None:
        raise ValueError(
            "--objective multilinear learns all semivalues at once: give --alpha and --beta to fwshapley explain, or "
            "use --objective kernel"
        )
    return None


def _with_columns_of(model: Any, wanted: InputFormat) -> InputFormat:  # noqa: ANN401 - any model
    """Return the format with the columns that an estimator was fitted with, if it has their names."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return wanted
    columns = tuple(map(str, names))
    needed = [name for name in wanted.left_out if name in columns]
    if needed:
        raise ValueError(f"column {needed[0]} cannot be left out: the model was fitted with it")
    return replace(wanted, columns=columns)


def _validation_inputs(
    inputs: Inputs, valid: Path | None, wanted: InputFormat, seed: int
) -> tuple[pd.DataFrame | NDArray[Any], pd.DataFrame | NDArray[Any], str]:
    """Return inputs to train on, inputs for validation, and a note on these."""
    if valid is not None:
        others, _ = read_inputs([valid], wanted)
        return inputs.x, others.x, f"{counted(len(others), 'input')} of {valid.name} for validation"
    places = torch.arange(len(inputs), dtype=torch.float64)[:, None]
    train, held_out = (part[:, 0].long().numpy() for part in hold_out(places, seed))
    return inputs.take(train), inputs.take(held_out), f"{counted(len(held_out), 'input')} held out for validation"


def _players_of_options(
    inputs: Inputs, wanted: InputFormat, patch: int | None, segments: Path | None
) -> tuple[fw.players.Players | None, str]:
    """Return the players, None for the columns of a DataFrame, and a note on them."""
    if wanted.size is None:
        if patch is not None or segments is not None:
            raise ValueError("--patch and --segments are for images; players of a table are its columns")
        count = inputs.x.shape[1]
        players = None if inputs.names is None else fw.columns(count, inputs.names)
        return players, f"players: {counted(count, 'column')}"
    if segments is not None:
        if patch is not None:
            raise ValueError("--patch and --segments exclude each other")
        players = fw.segments(_read_segments(segments))
        return players, f"players: {counted(players.n_players, 'segment')} of {segments.name}"
    height, width = wanted.size
    side = _choose_patch(height, width) if patch is None else patch
    players = fw.grid(height, width, patch=side)
    hint = "" if patch is not None else "; --patch gives another size"
    return players, f"players: {players.n_players} patches of {side} x {side} pixels{hint}"


def _choose_patch(height: int, width: int) -> int:
    """Return the side of the smallest square patches that tile an image, at most 16 along a side."""
    common = math.gcd(height, width)
    for side in range(1, common + 1):
        if common % side == 0 and max(height, width) <= side * MOST_PATCHES and (height, width) != (side, side):
            return side
    raise ValueError(
        f"no square patches, at most {MOST_PATCHES} along a side, tile images of {height} x {width} pixels: give "
        "--patch, or another --size"
    )


def _read_segments(path: Path) -> NDArray[np.int64]:
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with path.open("rb") as file:
            numbers = np.load(file, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is not a .npy file of segments") from error
    if not isinstance(numbers, np.ndarray) or numbers.dtype.kind not in "iu":
        raise ValueError(f"{path} must be a .npy file of whole numbers, (height, width)")
    return numbers.astype(np.int64)


def _print_plan(name: str, model: Any, notes: tuple[str, ...], budget: fw.Budget) -> None:  # noqa: ANN401 - any model
    """Print what was read, and how long training takes."""
    kind = "" if isinstance(model, FunctionType) else f" ({type(model).__name__})"
    console.print(Text(f"Explaining {name}{kind}", style="bold"), soft_wrap=True)
    print_notes(notes)
    print_line(f"training for {about_budget(budget)}; Ctrl-C stops it, --resume continues")


def _show_training(explainer: fw.FeatureExplainer) -> None:
    """Print how training went, and how well the surrogate agrees with the model."""
    print_line(f"\nexplained output: {explainer.fitted_.provenance['output']}")
    left = ("network", "stopped by")
    table = new_table("Training", ("network", "steps", "seconds", "validation loss", "stopped by"), left)
    for name, history in explainer.histories_.items():
        losses = [loss for _, loss in history.validation]
        change = f"{losses[0]:.3g} → {min(losses):.3g}" if losses else ""
        table.add_row(name, f"{history.steps:,}", f"{history.seconds:.1f}", change, history.stopped)
    print_table(table)
    fidelity = explainer.fidelity_
    if fidelity is None:
        return
    parts = len(fidelity.divergence)
    headings = [f"{100 * (part + 1) // parts}%" for part in range(parts)]
    caption = "by share of visible features; should approach 0 on the right"
    table = new_table("Divergence of the surrogate from the model", headings, caption=caption)
    table.add_row(*(f"{divergence:.2g}" for divergence in fidelity.divergence))
    print_table(table)
    if fidelity.agreement is not None:
        advice = ": poor, so train longer (--seconds)." if fidelity.is_poor else "."
        print_line(
            f"Surrogate and model predict the same class for {fidelity.agreement:.1%} of complete inputs{advice}"
        )


def _calibrate(explainer: fw.FeatureExplainer, x_valid: pd.DataFrame | NDArray[Any]) -> None:
    """Estimate errors, for the semivalue that was learned or for the usual ones, and print how good that is."""
    weights = None if isinstance(explainer.fitted_.objective, Kernel) else [fw.Shapley(), *fw.semivalues.FEASIBLE_SET]
    error_model = explainer.calibrate(x_valid, weights=weights)
    score = error_model.scores[0]
    print_line(
        f"Errors calibrated for {counted(len(error_model.weights), 'semivalue')} on {error_model.n_inputs} inputs not "
        f"trained on. On half of them, expected and measured errors of {error_model.weights[0]} have a rank "
        f"correlation of {score.spearman:.2f}; the ratio of their mean squares is {score.ratio:.2f}."
    )


def _save(explainer: fw.FeatureExplainer, saved: Checkpoints) -> None:
    """Write the explainer; remove its checkpoints, and the report of the explainer that it replaces."""
    outdated = _has_our_report(saved.out)
    explainer.save(saved.out)
    saved.remove()
    if outdated:
        (saved.out / REPORT).unlink(missing_ok=True)


def _report_explainer(explainer: fw.FeatureExplainer, x_valid: pd.DataFrame | NDArray[Any], path: Path) -> None:
    """Measure the explainer on inputs not trained on: on fewer, the more players they have."""
    from fwshapley.explanation.report import write_report  # noqa: PLC0415 - slow to import, and rarely needed

    count = min(max(REPORTED_PATCHES // explainer.players_.n_players, MOST_REPORTED // 2), MOST_REPORTED)
    print_line(f"writing the report on {counted(min(count, len(x_valid)), 'input')}; this takes minutes")
    write_report(explainer, x_valid[:count], path)
