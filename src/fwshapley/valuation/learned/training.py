"""A network is made, taught and judged by points that it has not learned from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float64, Int64
from torch import Tensor, nn

from fwshapley._internal.files import check_checkpoint
from fwshapley.explanation.inputs import MOST_HELD_OUT, VALIDATION_SHARE
from fwshapley.semivalues import Semivalue
from fwshapley.training.budget import Budget, History, Loss, Recipe
from fwshapley.training.loop import own_randomness, train
from fwshapley.valuation.learned.losses import BatchKernel, Lesson, Multilinear, regression
from fwshapley.valuation.learned.paper_network import PublishedNetwork
from fwshapley.valuation.learned.point_network import LANDMARKS, PointNetwork

POINTS_AT_ONCE = 2**14
LEARNING_RATE = 2e-3


@dataclass(frozen=True)
class Plan:
    """How long and how to train: as `AmortizedValuator` takes it."""

    budget: Budget
    batch: int
    seed: int
    device: torch.device
    checkpoint: Path | None
    resume: bool
    identity: Mapping[str, Any]
    progress: bool

    def __post_init__(self) -> None:
        check_checkpoint(self.checkpoint)

    def train(self, network: nn.Module, loss: Loss, rows: int, **more: Any) -> History:  # noqa: ANN401 - as `train` has it
        """Train by the one loop."""
        return train(
            network,
            loss,
            rows=rows,
            recipe=Recipe(self.batch, LEARNING_RATE),
            budget=self.budget,
            seed=self.seed,
            device=self.device,
            checkpoint=self.checkpoint,
            resume=self.resume,
            identity=self.identity,
            description="learning values",
            progress=self.progress,
            **more,
        )


class Learned(NamedTuple):
    """A network, how it came about, and points that it was not taught."""

    network: PointNetwork | PublishedNetwork
    history: History
    held_out: Int64[Tensor, " rows"]


def learn_by_regression(lesson: Lesson, targets: Float64[Tensor, "n classes nodes"], plan: Plan) -> Learned:
    """Teach a network the targets of all points but some, and keep its best state by those."""
    count = min(max(round(VALIDATION_SHARE * len(lesson.x)), 1), MOST_HELD_OUT)
    order = torch.randperm(len(lesson.x), generator=torch.Generator().manual_seed(plan.seed))
    held_out, taught = order[:count], order[count:]
    center = targets[taught].mean(0)
    spread = (targets[taught] - center).square().mean((0, 1)).sqrt()
    network = _point_network(lesson, center, spread, plan)
    in_units = ((targets - center).to(plan.device) / network.spread).float()
    rows, others = taught.to(plan.device), held_out.to(plan.device)
    loss = regression(lesson.x[rows], lesson.labels[rows], in_units[rows])

    def validate(module: nn.Module) -> float:
        own = lesson.labels[others][:, None, None].expand(-1, 1, in_units.shape[2])
        return float((module(lesson.x[others]) - in_units[others]).gather(1, own).square().mean())

    history = plan.train(network, loss, len(taught), validate=validate)
    return Learned(network, history, held_out)


def learn_by_coalitions(
    lesson: Lesson, nodes: Float64[Tensor, " nodes"], unit: Float64[Tensor, " nodes"], plan: Plan
) -> Learned:
    """Teach a network what coalitions of all points are worth."""
    network = _point_network(lesson, torch.zeros(lesson.classes, len(nodes)), unit, plan)
    network.register_buffer("said", torch.zeros(len(lesson.x), len(nodes), device=plan.device))
    history = plan.train(network, Multilinear(lesson, nodes.to(plan.device), unit.to(plan.device)), len(lesson.x))
    del network.said
    return Learned(network, history, torch.zeros(0, dtype=torch.int64))


def learn_as_published(lesson: Lesson, weights: Semivalue, plan: Plan) -> Learned:
    """Teach a network of the paper's form what coalitions of batches are worth."""
    batch = min(plan.batch, len(lesson.x))
    with own_randomness(plan.device):
        torch.manual_seed(plan.seed)
        network = PublishedNetwork(lesson.x.cpu(), lesson.classes).to(plan.device)
    generator = torch.Generator(plan.device).manual_seed(plan.seed)
    kernel = BatchKernel(lesson, torch.from_numpy(weights.size_law(batch)).to(plan.device)).measured(batch, generator)
    history = plan.train(network, kernel, len(lesson.x))
    with torch.no_grad():
        network.remember(lesson.references, lesson.other_labels, POINTS_AT_ONCE)
        parts = zip(lesson.x.split(POINTS_AT_ONCE), lesson.labels.split(POINTS_AT_ONCE), strict=True)
        said = torch.cat([network(x).gather(1, labels[:, None])[:, 0] for x, labels in parts]).mean()
        network.level.copy_(kernel.level(weights, batch, generator) - said)
    return Learned(network, history, torch.zeros(0, dtype=torch.int64))


def _point_network(lesson: Lesson, center: Tensor, spread: Tensor, plan: Plan) -> PointNetwork:
    some = torch.randperm(len(lesson.references), generator=torch.Generator().manual_seed(plan.seed))[:LANDMARKS]
    landmarks, labels = lesson.references.cpu()[some], lesson.other_labels.cpu()[some]
    with own_randomness(plan.device):
        torch.manual_seed(plan.seed)
        return PointNetwork(lesson.x.cpu(), landmarks, labels, center.cpu(), spread.cpu()).to(plan.device)
