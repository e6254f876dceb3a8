"""Fits that tests start in processes of their own: one is killed half way, one runs as two.

Run as `python runs.py interrupted FOLDER CALL` or, under torch.distributed.run, `runs.py shared FOLDER`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import fwshapley as fw
from fwshapley import training
from fwshapley.fitting import SURROGATE_SHARE
from models import TableModel, rows, seeded

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
        masks=4,
        augment=augment,
        checkpoints=checkpoints,
        resume=checkpoints is not None,
        progress=False,
    )


def fit_together() -> fw.FeatureExplainer:
    """Fit with batches that two processes cannot share evenly."""
    explainer = fw.FeatureExplainer(seeded(TableModel), device="cpu")
    return explainer.fit(rows(64, 4), budget=fw.Budget(steps=STEPS), batch_size=7, masks=4, progress=False)


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


if __name__ == "__main__":
    task, folder = sys.argv[1], Path(sys.argv[2])
    torch.set_num_threads(1)
    if task == "interrupted":
        training.CHECKPOINT_SECONDS = -1.0  # after every step
        fit_with_dropout(folder, be_killed_at(int(sys.argv[3])))
    else:
        explainer = fit_together()
        if torch.distributed.get_rank() == 0:
            explainer.save(folder)
