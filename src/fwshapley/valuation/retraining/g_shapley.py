"""G-Shapley: points are visited in random order, each for one step of gradient descent (Ghorbani & Zou, 2019).

A pass starts from the module's own parameters. The contribution of a point is the change of the score on the reference
points over its step. A pass costs as much as an epoch with batches of one and a prediction of the reference points per
step, far less than a fit per point. But it estimates the Shapley value of another game, in which a model has seen each
point once, and in that order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from copy import deepcopy
from typing import ClassVar, SupportsFloat

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fwshapley._internal.checks import check_choice
from fwshapley.valuation.retraining.sampling import Draw, Sampler

TorchScore = Callable[[nn.Module, Tensor, Tensor], SupportsFloat]
"""Function of (module, x, class numbers) that returns a number, the higher the better."""

Points = tuple[Float[Tensor, "_ ..."], Int64[Tensor, " _"]]
"""Features and class numbers of points."""


class GradientSampler(Sampler):
    """Draws random orders of the points, with a step of gradient descent for each point.

    Args:
        module: from features to a logit per class; copied for every pass.
        score: scores the module after each step.
        points: features and class numbers of the training points.
        reference: features and class numbers of the points that the module is scored on.
        learning_rate: of the steps.
        seed: of the orders.
    """

    n_setup_fits: ClassVar[int] = 0

    def __init__(
        self,
        module: nn.Module,
        score: TorchScore,
        *,
        points: Points,
        reference: Points,
        learning_rate: float,
        seed: int,
    ) -> None:
        dtype = next((parameter.dtype for parameter in module.parameters()), torch.float32)
        self.module = module
        self.score = score
        self.x, self.y = points[0].to(dtype), points[1]
        self.x_reference, self.y_reference = reference[0].to(dtype), reference[1]
        self.learning_rate = learning_rate
        self.seed = seed
        self.n = len(self.y)

    def draw(self, number: int) -> Draw:
        """Make a pass over the points. The module is in evaluation mode, so there is no dropout."""
        order = torch.from_numpy(np.random.default_rng((self.seed, number)).permutation(self.n))
        module = deepcopy(self.module).eval()
        scores = torch.empty(self.n + 1, dtype=torch.float64)
        scores[0] = self._score(module)
        for step, point in enumerate(order, start=1):
            self._descend(module, point)
            scores[step] = self._score(module)
        contributions = torch.empty(self.n, dtype=torch.float64).scatter_(0, order, scores.diff())
        return Draw(torch.stack([contributions, contributions.square()]), 1)

    def seconds_per_pass(self) -> float:
        """Return the expected time of a pass, from one step."""
        module = deepcopy(self.module).eval()
        started = time.perf_counter()
        self._descend(module, torch.tensor(0))
        self._score(module)
        return self.n * (time.perf_counter() - started)

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
                f"the {name} became {value}; lower learning_rate, now {self.learning_rate:g}, or check that the "
                "module's outputs are finite"
            )


class LinearSoftmax(nn.Module):
    """Logistic regression on standardized columns, initialized so that all classes are equally likely.

    Args:
        x: training points, which give the columns' means and standard deviations.
        n_classes: number of classes.
    """

    center: Tensor
    scale: Tensor

    def __init__(self, x: Float[Tensor, "n ..."], n_classes: int) -> None:
        super().__init__()
        columns = x.flatten(1).double()
        self.register_buffer("center", columns.mean(0))
        self.register_buffer("scale", columns.std(0, correction=0).clamp(min=1e-12))
        self.linear = nn.Linear(columns.shape[1], n_classes, dtype=torch.float64)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch classes"]:
        """Return the logits of the classes."""
        logits: Tensor = self.linear((x.flatten(1).double() - self.center) / self.scale)
        return logits


def accuracy(module: nn.Module, x: Float[Tensor, "points ..."], y: Int64[Tensor, " points"]) -> float:
    """Share of points whose class has the highest logit; the first of several that are equal."""
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
    check_choice("scoring of method='gradient', if not a function,", name, list(TORCH_SCORES))
    return TORCH_SCORES[name]
