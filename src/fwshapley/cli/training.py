"""What `fwshapley fit` does to train an explainer: inputs for validation, what it prints, errors, and the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import torch
from numpy.typing import NDArray

import fwshapley as fw
from fwshapley._internal.wording import counted
from fwshapley.cli.checkpoints import Checkpoints
from fwshapley.cli.console import new_table, print_line, print_table
from fwshapley.cli.input_files import Inputs, read_inputs
from fwshapley.cli.input_format import InputFormat
from fwshapley.explanation.inputs.input_checks import hold_out
from fwshapley.explanation.learned.fitting import ObjectiveName
from fwshapley.objectives import Kernel

MAX_REPORTED = 64
"""Largest number of inputs that the report measures."""

REPORTED_PATCHES = 2048
"""Players of all inputs that the report measures, so that it takes minutes at most."""


def learned_weights(objective: ObjectiveName, alpha: float | None, beta: float | None) -> fw.Semivalue | None:
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


def validation_inputs(
    inputs: Inputs, valid: Path | None, wanted: InputFormat, seed: int
) -> tuple[pd.DataFrame | NDArray[Any], pd.DataFrame | NDArray[Any], str]:
    """Return inputs to train on, inputs for validation, and a note on these."""
    if valid is not None:
        others, _ = read_inputs([valid], wanted)
        return inputs.x, others.x, f"{counted(len(others), 'input')} of {valid.name} for validation"
    places = torch.arange(len(inputs), dtype=torch.float64)[:, None]
    train, held_out = (part[:, 0].long().numpy() for part in hold_out(places, seed))
    return inputs.take(train), inputs.take(held_out), f"{counted(len(held_out), 'input')} held out for validation"


def train_explainer(
    explainer: fw.FeatureExplainer,
    x: pd.DataFrame | NDArray[Any] | list[str],
    x_valid: pd.DataFrame | NDArray[Any] | list[str] | None,
    budget: fw.Budget,
    saved: Checkpoints,
    *,
    resume: bool,
) -> None:
    """Train an explainer from the start, or from where training was stopped, and print how it went."""
    if not resume:
        saved.remove()
    explainer.fit(x, x_valid, budget=budget, checkpoint=saved.path, resume=resume)
    show_training(explainer)


def show_training(explainer: fw.FeatureExplainer) -> None:
    """Print how training went, and how well the surrogate agrees with the model."""
    print_line(f"\nexplained output: {explainer.fitted_.provenance['output']}")
    left = ("network", "stopped by")
    table = new_table("Training", ("network", "steps", "seconds", "validation loss", "stopped by"), left)
    for name, history in explainer.histories_.items():
        losses = [loss for _, loss in history.validation]
        change = f"{losses[0]:.3g} → {min(losses):.3g}" if losses else ""
        table.add_row(name, f"{history.steps:,}", f"{history.seconds:.1f}", change, history.stopped)
    print_table(table)
    quality = explainer.quality_
    print_line(f"Quality: {'not measured, since the budget is too small' if quality is None else quality}.")
    fidelity = explainer.fidelity_
    if fidelity is None:
        return
    parts = len(fidelity.divergence)
    headings = [f"{100 * (part + 1) // parts}%" for part in range(parts)]
    caption = "by share of visible features; should approach 0 on the right"
    table = new_table("Divergence of the surrogate from the model", headings, caption=caption)
    table.add_row(*(f"{divergence:.2g}" for divergence in fidelity.divergence))
    print_table(table)
    advice = ": poor, so train longer (--seconds)." if fidelity.is_poor else "."
    print_line(f"The surrogate {fidelity.summary}{advice}")


def calibrate_errors(explainer: fw.FeatureExplainer, x_valid: pd.DataFrame | NDArray[Any]) -> None:
    """Estimate errors, for the semivalue that was learned or for the usual ones, and print how good that is."""
    weights = None if isinstance(explainer.fitted_.objective, Kernel) else [fw.Shapley(), *fw.semivalues.FEASIBLE_SET]
    error_model = explainer.calibrate(x_valid, weights=weights)
    score = error_model.scores[0]
    print_line(
        f"Errors calibrated for {counted(len(error_model.weights), 'semivalue')} on {error_model.n_inputs} inputs not "
        f"trained on. On half of them, expected and measured errors of {error_model.weights[0]} have a rank "
        f"correlation of {score.spearman:.2f}; the ratio of their mean squares is {score.ratio:.2f}."
    )


def report_explainer(explainer: fw.FeatureExplainer, x_valid: pd.DataFrame | NDArray[Any], path: Path) -> None:
    """Measure the explainer on inputs not trained on: on fewer, the more players they have."""
    from fwshapley.explanation.report import write_report  # noqa: PLC0415 - slow to import, and rarely needed

    count = min(max(REPORTED_PATCHES // explainer.players_.n_players, MAX_REPORTED // 2), MAX_REPORTED)
    print_line(f"writing the report on {counted(min(count, len(x_valid)), 'input')}; this takes minutes")
    write_report(explainer, x_valid[:count], path)
