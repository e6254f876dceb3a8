"""G-Shapley: points are met one after the other, each for one step of gradient descent (Ghorbani & Zou, 2019).

A pass starts from the model's own parameters and takes the points in random order, one step each. What a point adds is
the change of the score on the reference points over its step. A pass costs as much as one epoch with batches of one,
and a prediction of the reference points per step: far less than a fit per point. It estimates the Shapley value of
another game, though, in which a model has seen each point once, and in that order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import SupportsFloat

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fwshapley._internal.checks import check_choice
from fwshapley.valuation.retraining.estimator import Draw, Estimator

TorchScore = Callable[[nn.Module, Tensor, Tensor], SupportsFloat]
"""How good a module is on some points: from (module, x, class numbers) to a number, the higher the better."""


@dataclass(frozen=True, eq=False)
class Passes(Estimator):
    """Random orders of the points, with a step of gradient descent for each.

    Attributes:
        module: from features to a logit per class; copied for every pass.
        score: of the module, after each step.
        x: features of the training points.
        y: their class numbers.
        x_reference: points that the module is scored on.
        y_reference: their class numbers.
        learning_rate: of the steps.
        seed: of the orders.
    """

    module: nn.Module
    score: TorchScore
    x: Float[Tensor, "n ..."]
    y: Int64[Tensor, " n"]
    x_reference: Float[Tensor, "references ..."]
    y_reference: Int64[Tensor, " references"]
    learning_rate: float
    seed: int

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self.y)

    def draw(self, number: int) -> Draw:
        """Go through the points once. Layers act as they do after training: there is no dropout."""
        order = torch.from_numpy(np.random.default_rng((self.seed, number)).permutation(self.n))
        module = deepcopy(self.module).eval()
        scores = torch.empty(self.n + 1, dtype=torch.float64)
        scores[0] = self._score(module)
        for step, point in enumerate(order, start=1):
            self._descend(module, point)
            scores[step] = self._score(module)
        contributions = torch.empty(self.n, dtype=torch.float64).scatter_(0, order, scores.diff())
        return Draw(torch.stack([contributions, contributions.square()]), 1)

    def _descend(self, module: nn.Module, point: Tensor) -> None:
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        loss = cross_entropy(module(self.x[point][None]), self.y[point][None])
        self._check_finite("loss", float(loss.detach()))
        with torch.no_grad():
            for parameter, gradient in zip(trained, torch.autograd.grad(loss, trained), strict=True):
                parameter.sub_(gradient, alpha=self.learning_rate)

    def _score(self, module: nn.Module) -> float:
        with torch.no_grad():
            score = float(self.score(module, self.x_reference, self.y_reference))
        self._check_finite("score", score)
        return score

    def _check_finite(self, name: str, value: float) -> None:
        if not math.isfinite(value):
            raise FloatingPointError(
                f"the {name} is {value} on the way down: lower learning_rate, now {self.learning_rate:g}, or check "
                "that the module's outputs are finite"
            )


class LinearSoftmax(nn.Module):
    """Logistic regression on standardized columns, before its first step: all classes are equally likely.

    Args:
        x: training points, which give the columns' means and deviations.
        classes: their number.
    """

    center: Tensor
    scale: Tensor

    def __init__(self, x: Float[Tensor, "n ..."], classes: int) -> None:
        super().__init__()
        columns = x.flatten(1).double()
        self.register_buffer("center", columns.mean(0))
        self.register_buffer("scale", columns.std(0, correction=0).clamp(min=1e-12))
        self.linear = nn.Linear(columns.shape[1], classes, dtype=torch.float64)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch classes"]:
        """Logits of the classes."""
        logits: Tensor = self.linear((x.flatten(1).double() - self.center) / self.scale)
        return logits


def accuracy(module: nn.Module, x: Float[Tensor, "points ..."], y: Int64[Tensor, " points"]) -> float:
    """Share of points whose class has the highest logit; the lowest of several that are equal."""
    return float((module(x).argmax(1) == y).double().mean())


def neg_log_loss(module: nn.Module, x: Float[Tensor, "points ..."], y: Int64[Tensor, " points"]) -> float:
    """Mean log probability of the classes."""
    return -float(cross_entropy(module(x).double(), y).detach())


TORCH_SCORES: dict[str, TorchScore] = {"accuracy": accuracy, "neg_log_loss": neg_log_loss}


def find_torch_score(scoring: str | TorchScore | None) -> TorchScore:
    """Return the function that scores a module; accuracy by default."""
    if callable(scoring):
        return scoring
    name = scoring or "accuracy"
    check_choice("scoring of method='gradient', if no function,", name, list(TORCH_SCORES))
    return TORCH_SCORES[name]
