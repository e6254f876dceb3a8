"""Fits that tests start in processes of their own: some are killed half way, one runs as two.

Run as `python runs.py interrupted FOLDER CALL`, `python runs.py NAME FOLDER CALL` for a name of RESUMED or, under
torch.distributed.run, `runs.py shared FOLDER`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from sklearn.linear_model import LogisticRegression
from torch import Tensor

import cli_cases
import fwshapley as fw
from fwshapley.explanation.learned.fitting import SURROGATE_SHARE
from fwshapley.training import loop as training
from fwshapley.valuation.retraining import checkpoint as retraining
from models import TableModel, images, rows, seeded

STEPS = 20
SURROGATE_STEPS = round(SURROGATE_SHARE * STEPS)


def fit_with_dropout(checkpoints: Path | None, on_batch: Callable[[], None] = lambda: None) -> fw.FeatureExplainer:
    """Fit with a surrogate that has dropout and BatchNorm; `on_batch` is called before every step."""

    def augment(x: Tensor, generator: torch.Generator) -> Tensor:
        on_batch()
        return x + 0.1 * torch.randn(x.shape, generator=generator)

    model = seeded(TableModel)
    explainer = fw.FeatureExplainer(model, surrogate=model, network=lambda channels: seeded(Linear, channels))
    return explainer.fit(
        rows(64, 4),
        budget=fw.Budget(steps=STEPS),
        batch_size=16,
        n_coalitions=4,
        augment=augment,
        checkpoint=checkpoints,
        resume=checkpoints is not None,
        progress=False,
    )


def fit_together() -> fw.FeatureExplainer:
    """Fit with batches that two processes cannot share evenly."""
    explainer = fw.FeatureExplainer(seeded(TableModel), device="cpu")
    return explainer.fit(rows(64, 4), budget=fw.Budget(steps=STEPS), batch_size=7, n_coalitions=4, progress=False)


def learn_together() -> dict[str, Tensor]:
    """Values of networks that two processes train, by method."""
    x = rows(60, 2)
    y = (x[:, 0] > 0).long()
    options: dict[str, Any] = {"budget": fw.Budget(steps=3), "batch_size": 25, "device": "cpu", "progress": False}
    methods: tuple[Literal["regression", "published"], ...] = ("regression", "published")
    return {name: fw.AmortizedValuator(method=name, **options).fit(x, y, (x, y)).values_ for name in methods}


def fit_by_command(folder: Path, *, resume: bool) -> Tensor:
    """Run `fwshapley fit` in a folder, and explain some rows."""
    model, data = f"{cli_cases.write_models(folder)}:rows", cli_cases.write_rows(folder)
    arguments = ["--steps", "10", "--device", "cpu", "--out", folder / "out", *["--resume"] * resume]
    code, _, error = cli_cases.run("fit", model, data, *arguments)
    assert code == 0, error
    return fw.load(folder / "out").explain(rows(3, 4)).values


def cross_fit_images(folder: Path, *, resume: bool) -> Tensor:
    """Cross-fit networks of two folds, of eight steps each."""
    x, labels = images(24), torch.arange(24) % 2
    budget, checkpoints = fw.Budget(steps=16), folder / "checkpoints"
    found = fw.cross_fit(x, labels, folds=2, budget=budget, device="cpu", checkpoint=checkpoints, resume=resume)
    return found.features


def value_by_retraining(folder: Path, *, resume: bool) -> Tensor:
    """Value rows by many fits."""
    x = rows(12, 3)
    y = (x[:, 0] > 0).long()
    checkpoint = folder / "run.safetensors"
    valuator = fw.RetrainingValuator(LogisticRegression(), n_fits=100, checkpoint=checkpoint, resume=resume)
    return valuator.fit(x.numpy(), y.numpy(), reference=(x.numpy(), y.numpy())).result_.values


RESUMED = {"command": fit_by_command, "cross_fit": cross_fit_images, "retraining": value_by_retraining}
"""What can be resumed after it was killed: functions of a folder to values."""


class Linear(torch.nn.Module):
    """A small explaining network with dropout and BatchNorm: (batch, 4) to (batch, 4 players, channels)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.1), torch.nn.Linear(4, 4 * channels)
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x).unflatten(1, (4, -1))
        return out


def be_killed_at(call: int) -> Callable[[], None]:
    """Return a function that ends the process for good when it is called for the n-th time."""
    left = iter(range(1, call))

    def count() -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    return count


def be_killed_before(owner: type, name: str, call: int) -> None:
    """End the process for good when a method is called for the n-th time, before it does anything."""
    method, count = getattr(owner, name), be_killed_at(call)

    def counted(*arguments: object) -> object:
        count()
        return method(*arguments)

    setattr(owner, name, counted)


if __name__ == "__main__":
    task, folder = sys.argv[1], Path(sys.argv[2])
    torch.set_num_threads(1)
    training.CHECKPOINT_SECONDS = retraining.CHECKPOINT_SECONDS = -1.0  # after every step
    if task == "interrupted":
        fit_with_dropout(folder, be_killed_at(int(sys.argv[3])))
    elif task in RESUMED:
        be_killed_before(training._Run, "step", int(sys.argv[3]))  # noqa: SLF001 - every training is one
        be_killed_before(retraining.Checkpoint, "update", int(sys.argv[3]))
        RESUMED[task](folder, resume=False)
    else:
        explainer, values = fit_together(), learn_together()
        rank = torch.distributed.get_rank()
        save_file(values, folder / f"values of process {rank}.safetensors")
        if rank == 0:
            explainer.save(folder / "explainer")
