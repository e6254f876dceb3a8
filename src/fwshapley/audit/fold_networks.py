"""Networks that are cross-fitted on features: a perceptron and a linear model for each fold, trained all at once.

A batch goes through all networks in one matrix product; the networks of a fold ignore the rows of their own fold. So
five folds cost little more than one, and what a network says of a point it was not trained on is not influenced by the
label of that point.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Int64
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fwshapley._internal.safetensors_file import digest
from fwshapley.audit.cross_fitted import CrossFitted
from fwshapley.training.batches import Batch, Loss
from fwshapley.training.budget import Budget, TrainingOptions
from fwshapley.training.loop import train
from fwshapley.training.shared_state import private_randomness
from fwshapley.valuation.training_margins import MarginRecorder, margins_of, recorder_in

KINDS = ("perceptron", "linear model")
WIDTH = 256
DROPOUT = 0.5
LEARNING_RATE = 2e-3
PASSES, MIN_STEPS = 12, 600
"""Default training: passes over the points, and the least steps."""

MIN_BATCH, MAX_BATCH = 16, 256
BATCHES_PER_PASS = 40
PREDICTION_BATCH = 4096

GRADIENT_SCALE = 0.01
"""Gradients are this much smaller, which AdamW does not notice, so that they are never clipped: the norm of all would
tie each network to the labels that only the others learn."""


class FoldNetworks(nn.Module):
    """A perceptron with one hidden layer and a linear model for each fold: (batch, columns) to all their logits."""

    def __init__(self, columns: int, classes: int, folds: int) -> None:
        super().__init__()
        self.folds, self.classes = folds, classes
        self.first = nn.Linear(columns, folds * (WIDTH + classes))
        self.second = nn.Parameter(torch.randn(folds, WIDTH, classes) * 0.1 * (2 / WIDTH) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(folds, classes))
        nn.init.kaiming_normal_(self.first.weight[: folds * WIDTH], nonlinearity="relu")
        nn.init.zeros_(self.first.weight[folds * WIDTH :])
        nn.init.zeros_(self.first.bias)

    def forward(self, x: Float32[Tensor, "batch columns"]) -> Float32[Tensor, "kinds folds batch classes"]:
        """Return logits of the perceptrons and of the linear models."""
        hidden, linear = self.first(x).split([self.folds * WIDTH, self.folds * self.classes], dim=1)
        hidden = functional.dropout(functional.relu(hidden), DROPOUT, self.training)
        hidden = hidden.view(len(x), self.folds, WIDTH).transpose(0, 1)
        perceptron = torch.baddbmm(self.bias[:, None], hidden, self.second)
        return torch.stack([perceptron, linear.view(len(x), self.folds, self.classes).transpose(0, 1)])


class NetworkTraining(NamedTuple):
    """How networks are trained.

    Attributes:
        budget: None depends on the number of points.
        seed: of everything random.
        device: where they are trained.
        checkpoint: file to save to, or None.
        resume: continue from that file.
        progress: whether to show progress.
        description: of the training.
    """

    budget: Budget | None
    seed: int
    device: torch.device
    checkpoint: Path | None
    resume: bool
    progress: bool
    description: str


def cross_fit_networks(
    x: NDArray[np.float32],
    labels: NDArray[np.int64],
    classes: int,
    folds: Int64[Tensor, " n"],
    training: NetworkTraining,
) -> list[CrossFitted]:
    """Train networks on features, and return what those of each kind say of all points.

    Args:
        x: features of about unit size.
        labels: class numbers, of which some may be wrong.
        classes: number of classes.
        folds: fold of each point.
        training: how the networks are trained.
    """
    device, count = training.device, int(folds.max()) + 1
    points, targets = torch.from_numpy(x).to(device), torch.from_numpy(labels).to(device)
    with private_randomness(device):
        torch.manual_seed(training.seed)
        networks = FoldNetworks(x.shape[1], classes, count)
    recorder = MarginRecorder(networks, len(x))
    learns = (folds[None] != torch.arange(count)[:, None]).to(device)
    batch_size = min(max(len(x) // BATCHES_PER_PASS, MIN_BATCH), MAX_BATCH)
    budget = training.budget or Budget(steps=max(PASSES * len(x) // batch_size, MIN_STEPS))
    options = TrainingOptions(
        budget, batch_size, LEARNING_RATE, seed=training.seed, checkpoint=training.checkpoint, resume=training.resume,
        progress=training.progress,
    )  # fmt: skip
    identity = {} if training.checkpoint is None else {"points": digest({"x": points, "y": targets, "folds": folds})}
    train(
        recorder,
        _classification(points, targets, learns),
        options,
        n_rows=len(x),
        device=device,
        identity=identity,
        description=training.description,
        mixed_precision=False,
    )
    return _ask(recorder, points, targets, folds)


def _classification(x: Tensor, targets: Int64[Tensor, " n"], learns: Tensor) -> Loss:
    """Return the mean cross-entropy of all networks, each on the points that it learns."""

    def loss(module: nn.Module, batch: Batch) -> Tensor:
        rows = batch.shard.of(batch.rows)
        there = rows.to(x.device)
        labels, learned = targets[there], learns[:, there]
        logits = module(x[there]).float()
        if logits.requires_grad:
            logits.register_hook(lambda gradient: GRADIENT_SCALE * gradient)
        margins = margins_of(logits[0].detach(), labels.expand(len(learned), -1))
        recorder_in(module).record(rows, (margins * learned).sum(0), learned.sum(0))
        losses = functional.cross_entropy(
            logits.flatten(0, 2), labels.repeat(len(logits) * len(learned)), reduction="none"
        )
        return (losses.view(len(logits), -1) * learned.flatten()).sum(1).mean() / learned.sum().clamp(min=1)

    return loss


@torch.no_grad()
def _ask(
    recorder: MarginRecorder, x: Tensor, targets: Int64[Tensor, " n"], folds: Int64[Tensor, " n"]
) -> list[CrossFitted]:
    """Return what the trained networks say, by kind."""
    logits = torch.cat([recorder(part).cpu() for part in x.split(PREDICTION_BATCH)], dim=2)
    labels = targets.cpu().expand(logits.shape[1], -1)
    fitted = []
    for kind, of_kind in zip(KINDS, logits, strict=True):
        learned = folds[None] != torch.arange(len(of_kind))[:, None]
        final = (margins_of(of_kind, labels) * learned).sum(0) / learned.sum(0).clamp(min=1)
        margins = recorder.means(final) if kind == KINDS[0] else None
        fitted.append(CrossFitted.of(kind, of_kind.softmax(2).numpy(), folds.numpy(), margins))
    return fitted
