"""What `fwshapley fit` does: find model and inputs, say so, and leave an explainer in a folder."""

from __future__ import annotations

import math
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from torch import nn

import fwshapley as fw
from fwshapley._internal.files import check_free, check_writable
from fwshapley._internal.printing import print_notes, print_table
from fwshapley._internal.wording import counted
from fwshapley.cli.console import check_matplotlib, console
from fwshapley.cli.fit_record import COMMAND, Record, look_into
from fwshapley.cli.input_reading import Inputs, Reading, read_inputs
from fwshapley.cli.model_loading import OutputChoice, as_in_file, find_model
from fwshapley.explanation.error_model import FEWEST_INPUTS
from fwshapley.explanation.fitting import PARTS
from fwshapley.explanation.inputs import hold_out
from fwshapley.explanation.options import ObjectiveName
from fwshapley.explanation.persistence import FILE
from fwshapley.objectives import Kernel

CHECKPOINTS = "checkpoints"
REPORT = "report.html"
FEWEST_REPORTED, MOST_REPORTED = 32, 64
REPORT_CALLS = 2**15
"""Coalitions of all inputs that a run of sampling for the report may take, beyond those of the fewest inputs."""

MOST_CELLS = 16
"""Patches along a side, where --patch does not say otherwise."""

POOR_AGREEMENT = 0.9

Rows = pd.DataFrame | NDArray[Any]


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be explained.

    Attributes:
        source: what the model is called on the command line.
        model: itself.
        kind: name of its class; empty for a function.
        x: inputs to train on.
        valid: others, to select by.
        players: who is credited; None for the columns of a table, by their names.
        reading: how inputs were read.
        notes: what was read.
    """

    source: str
    model: Any
    kind: str
    x: Rows
    valid: Rows
    players: fw.Players | None
    reading: Reading
    notes: tuple[str, ...]


def check_folder(folder: Path, *, resume: bool, report: bool, force: bool) -> None:
    """Raise an error if the folder is taken, or holds nothing to resume, before there is any work to lose."""
    if report:
        check_matplotlib("it: --no-report")
    stopped = any((folder / CHECKPOINTS / f"{part}.safetensors").exists() for part in PARTS)
    if resume and not stopped:
        raise FileNotFoundError(
            f"{folder} holds no fit that was stopped, so there is nothing to resume: leave --resume out"
        )
    check_free(folder, [FILE, *[REPORT] * (report or _has_own_report(folder))], force=force)
    check_writable(folder / CHECKPOINTS)
    if stopped and not (resume or force):
        raise FileExistsError(f"{folder} holds a fit that was stopped: go on with --resume, or start anew with --force")
    if any((folder / CHECKPOINTS).glob("[!.]*")) and not (stopped or force):
        raise FileExistsError(
            f"{folder / CHECKPOINTS} holds other files: remove them with --force, or choose another --out"
        )


def _has_own_report(folder: Path) -> bool:
    """Whether the fit that left its explainer in a folder also left a report; one by others is not ours to remove."""
    if not (folder / FILE).exists():
        return False
    try:
        return bool((look_into(folder).record.arguments or {}).get("report"))
    except (OSError, ValueError):  # damaged, so it says nothing
        return False


def about_going_on(folder: Path, since: float) -> str:
    """Return how to go on after Ctrl-C, of a command that began at some time."""
    if any((folder / CHECKPOINTS).glob("*.safetensors")):
        return f"stopped. What was learned is in {folder / CHECKPOINTS}: the same command with --resume goes on"
    if (folder / FILE).exists() and (folder / FILE).stat().st_mtime >= since:
        return f"stopped. The explainer is in {folder}, without a report"
    return "stopped before anything was saved"


def learned_weights(objective: ObjectiveName, alpha: float | None, beta: float | None) -> fw.Semivalue | None:
    """Return the weighting that --objective kernel learns; the other one learns all."""
    if objective == "kernel":
        if alpha is None and beta is None:
            raise ValueError("--objective kernel learns one weighting: say which by --alpha and --beta")
        return fw.Beta(1.0 if alpha is None else alpha, 1.0 if beta is None else beta)
    if alpha is not None or beta is not None:
        raise ValueError(
            "multilinear learns all weightings at once: give --alpha and --beta to fwshapley explain, or use "
            "--objective kernel"
        )
    return None


def prepare_task(
    name: str,
    data: Path,
    reading: Reading,
    *,
    valid: Path | None,
    sample: int | None,
    patch: int | None,
    segments: Path | None,
    output: OutputChoice,
    seed: int,
) -> Task:
    """Find the model, read the inputs, hold some out, and decide who plays."""
    if not data.exists():
        raise FileNotFoundError(f"there is no file {data}")
    model = find_model(name, output)
    reading = _with_columns_of(model, reading)
    inputs, reading = read_inputs([data], reading, most=sample, seed=seed)
    notes = list(inputs.notes)
    if valid is None:
        train, held = _hold_out(len(inputs), seed)
        x, others = inputs.take(train), inputs.take(held)
        notes.append(f"{counted(len(held), 'input')} held out, to select by")
    else:
        held_out, reading = read_inputs([valid], reading)
        x, others = inputs.x, held_out.x
        notes.append(f"{counted(len(others), 'input')} of {valid.name} to select by")
    players, about = choose_players(inputs, reading, patch, segments)
    kind = "" if isinstance(model, FunctionType) else type(model).__name__
    if reading.layout is not None and not isinstance(model, nn.Module):
        model = as_in_file(model, reading.layout)
    return Task(name, model, kind, x, others, players, reading, (*notes, about))


def _with_columns_of(model: Any, reading: Reading) -> Reading:  # noqa: ANN401 - any model
    """Return a reading of the columns that an estimator was fitted with, if it says so."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return reading
    columns = tuple(map(str, names))
    needed = [name for name in reading.left_out if name in columns]
    if needed:
        raise ValueError(f"column {needed[0]} cannot be left out: the model was fitted with it")
    return replace(reading, columns=columns)


def _hold_out(count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return places of inputs to train on and of others, as `FeatureExplainer.fit` divides them."""
    places = torch.arange(count, dtype=torch.float64)[:, None]
    train, held = (part[:, 0].long().numpy() for part in hold_out(places, seed))
    return train, held


def choose_players(
    inputs: Inputs, reading: Reading, patch: int | None, segments: Path | None
) -> tuple[fw.Players | None, str]:
    """Return who is credited, and a note on it."""
    if reading.size is None:
        if patch is not None or segments is not None:
            raise ValueError("--patch and --segments are for images; players of a table are its columns")
        count = inputs.x.shape[1]
        players = None if inputs.names is None else fw.columns(count, inputs.names)
        return players, f"players: {counted(count, 'column')}"
    if segments is not None:
        if patch is not None:
            raise ValueError("--patch and --segments exclude each other")
        players = fw.segments(_read_map(segments))
        return players, f"players: {counted(players.n_players, 'segment')} of {segments.name}"
    height, width = reading.size
    side = _choose_patch(height, width) if patch is None else patch
    players = fw.grid(height, width, patch=side)
    chosen = "" if patch is not None else "; choose others by --patch"
    return players, f"players: {players.n_players} patches of {side} x {side} pixels{chosen}"


def _choose_patch(height: int, width: int) -> int:
    """Return the side of the smallest square patches that tile an image, at most 16 along a side."""
    common = math.gcd(height, width)
    fitting = [side for side in range(1, common + 1) if common % side == 0]
    side = next((each for each in fitting if max(height, width) <= each * MOST_CELLS), None)
    if side is None or (height, width) == (side, side):
        raise ValueError(
            f"no patches, at most {MOST_CELLS} along a side, tile images of {height} x {width} pixels: give --patch, "
            "or another --size"
        )
    return side


def _read_map(path: Path) -> NDArray[Any]:
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is no .npy file of segments") from error
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "iu":
        raise ValueError(f"{path} must be a .npy file of whole numbers, (height, width)")
    return found.astype(np.int64)


def check_calibration(task: Task, *, wanted: bool) -> None:
    """Raise an error if there are too few inputs to calibrate with, before there is any work to lose."""
    if wanted and len(task.valid) < FEWEST_INPUTS:
        raise ValueError(
            f"--calibrate needs at least {FEWEST_INPUTS} inputs that are not trained on, got {len(task.valid)}: give "
            "them by --valid"
        )


def measure_errors(explainer: fw.FeatureExplainer, task: Task) -> None:
    """Calibrate an explainer, for the weighting that it has learned or for the usual ones, and say how good that is."""
    weights = None if isinstance(explainer.objective, Kernel) else [fw.Shapley(), *fw.FEASIBLE_SET]
    found = explainer.calibrate(task.valid, weights=weights)
    first = found.judged[0]
    console.print(
        f"Errors calibrated for {counted(len(found.weights), 'weighting')} on {found.inputs} inputs not trained on; of "
        f"{found.weights[0]}, expected and measured errors have a rank correlation of {first.spearman:.2f} and mean "
        f"squares in the ratio {first.ratio:.2f}, on half of them.",
        highlight=False,
        soft_wrap=True,
    )


def announce(task: Task, budget: fw.Budget) -> None:
    """Say what was read, and how long it will take."""
    kind = f" ({task.kind})" if task.kind else ""
    console.print(Text(f"Explaining {task.source}{kind}", style="bold"), soft_wrap=True)
    print_notes(task.notes, console)
    limits = [counted(budget.steps, "step")] if budget.steps else []
    limits += [f"{budget.seconds:g} seconds"] if budget.seconds else []
    console.print(f"training: {' or '.join(limits)}; Ctrl-C stops it, --resume goes on", highlight=False)


def show_training(explainer: fw.FeatureExplainer) -> None:
    """Print how well the surrogate stands in for the model, and how training went."""
    console.print(f"\nlearned to explain: {explainer.provenance['output']}", highlight=False)
    print_table(_training_table(explainer), console)
    fidelity = explainer.fidelity_
    if fidelity is None:
        return
    print_table(_fidelity_table(fidelity.divergence), console)
    if fidelity.agreement is None:
        return
    poor = fidelity.agreement < POOR_AGREEMENT
    console.print(
        f"The surrogate decides as the model does on {fidelity.agreement:.1%} of inputs shown whole"
        + (": poor, so train longer (--seconds)." if poor else "."),
        highlight=False,
    )


def _training_table(explainer: fw.FeatureExplainer) -> Table:
    table = Table(title="Training", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("part", "steps", "seconds", "validation loss", "ended by"):
        table.add_column(heading, justify="left" if heading in {"part", "ended by"} else "right")
    for name, history in explainer.histories_.items():
        losses = [loss for _, loss in history.validation]
        change = f"{losses[0]:.3g} → {min(losses):.3g}" if losses else ""
        table.add_row(name, f"{history.steps:,}", f"{history.seconds:.1f}", change, history.stopped)
    return table


def _fidelity_table(divergence: tuple[float, ...]) -> Table:
    table = Table(
        title="Surrogate: divergence from the model", title_justify="left", box=SIMPLE_HEAD, pad_edge=False,
        caption="by share of features shown; it should fall towards 0", caption_justify="left",
    )  # fmt: skip
    for decile in range(len(divergence)):
        table.add_column(f"{100 * (decile + 1) // len(divergence)}%", justify="right")
    table.add_row(*(f"{each:.2g}" for each in divergence))
    return table


def write_explainer(
    explainer: fw.FeatureExplainer, task: Task, folder: Path, *, arguments: Mapping[str, Any], report: bool
) -> str:
    """Leave the explainer in the folder, with its record and perhaps a report; return where it is and what to do.

    A report of the explainer that it takes the place of is removed.
    """
    record, outdated = Record(task.source, task.reading, task.notes, dict(arguments)), _has_own_report(folder)
    explainer.metadata = {COMMAND: record.facts()}
    explainer.save(folder)
    if outdated:
        (folder / REPORT).unlink(missing_ok=True)
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    if report:
        _write_report(explainer, task, folder / REPORT)
    names = f"{FILE}, {REPORT}" if report else FILE
    return f"written to [bold]{escape(str(folder))}[/bold]: {names}\nnext: {escape(_next_command(task, folder))}"


def _write_report(explainer: fw.FeatureExplainer, task: Task, path: Path) -> None:
    """Measure an explainer on inputs not trained on: on fewer, the more calls sampling takes for each."""
    from fwshapley.explanation.report import choose_calls, write_report  # noqa: PLC0415 - no other command needs it

    affordable = REPORT_CALLS // choose_calls(explainer.masked_model_.n_players)
    write_report(explainer, task.valid[: min(max(affordable, FEWEST_REPORTED), MOST_REPORTED)], path)


def _next_command(task: Task, folder: Path) -> str:
    return shlex.join(["fwshapley", "explain", str(folder), "INPUT", "--model", task.source, "--out", "explanations"])
