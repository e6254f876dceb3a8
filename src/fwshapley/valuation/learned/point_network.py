"""A network from a point to its values under every label and at every node t_j.

    psi(x, y, t_j) = center(y, j) + spread(j) f(x, N(x))[y, j]
    N(x)[c, r] = log sum over landmarks z of class c of exp(-|x - z|**2 / 2 r**2)

Landmarks z are some of the reference points. N is the number of them that are near, by class and at several ranges r,
which is what nearest-neighbor values depend on. Each label has values of its own, of either sign, because a point may
harm the prediction of close neighbors of another class.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from fwshapley.networks.mlp import MLP, Coordinates, zero

WIDTH = 512
DEPTH = 3
N_LANDMARKS = 512
N_RANGES = 7
"""Each is 0.7 of the previous one; the first is the median distance between landmarks."""

MIN_COUNT = 1e-6
"""Added to a number of neighbors, so that its logarithm is finite."""

COINCIDENT = 1e-6
"""Squared distance, in units of the median, below which a landmark may be the point itself and is not counted."""


class Neighborhood(nn.Module):
    """Log numbers of near landmarks by class and range, standardized.

    Args:
        landmarks: points with labels.
        labels: their class numbers.
        n_classes: number of classes.
        x: points that give the mean and the standard deviation.
    """

    landmarks: Tensor
    one_hot: Tensor
    unit: Tensor
    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        landmarks: Float[Tensor, "landmarks columns"],
        labels: Int[Tensor, " landmarks"],
        n_classes: int,
        x: Float[Tensor, "rows columns"],
    ) -> None:
        super().__init__()
        self.count = N_RANGES * n_classes
        squares = torch.pdist(landmarks.double()).square()
        squares = squares[squares > 0]
        self.register_buffer("landmarks", landmarks)
        self.register_buffer("one_hot", functional.one_hot(labels, n_classes).float())
        self.register_buffer("unit", (squares.median() if len(squares) else squares.new_ones(())).float())
        self.register_buffer("mean", torch.zeros(self.count))
        self.register_buffer("deviation", torch.ones(self.count))
        counts = self(x)
        self.mean.copy_(counts.mean(0))
        self.deviation.copy_(counts.std(0, correction=0).clamp(min=COINCIDENT))

    def forward(self, x: Float[Tensor, "batch columns"]) -> Float[Tensor, "batch count"]:
        """Return the features. A range is 0.7 of the previous one, so its kernel is the square of that one's."""
        squares = torch.cdist(x.float(), self.landmarks).square() / self.unit
        kernel = torch.exp(-squares / 2).masked_fill(squares < COINCIDENT, 0)
        logs = []
        for _ in range(N_RANGES):
            logs.append((kernel @ self.one_hot + MIN_COUNT).log())
            kernel = kernel.square()
        return (torch.cat(logs, 1) - self.mean) / self.deviation


class PointNetwork(nn.Module):
    """Values of points, (batch, columns) to (batch, classes, nodes); the outputs are 0 at the start.

    Args:
        x: points that give the scale of the columns.
        landmarks: reference points to count as neighbors.
        labels: their class numbers.
        center: mean value, by label and node.
        spread: standard deviation of the values, by node.
    """

    center: Tensor
    spread: Tensor

    def __init__(
        self,
        x: Float[Tensor, "rows columns"],
        landmarks: Float[Tensor, "landmarks columns"],
        labels: Int[Tensor, " landmarks"],
        center: Float[Tensor, "classes nodes"],
        spread: Float[Tensor, " nodes"],
    ) -> None:
        super().__init__()
        self.coordinates = Coordinates(x)
        self.neighborhood = Neighborhood(landmarks, labels, len(center), x)
        self.body = MLP(self.coordinates.count + self.neighborhood.count, center.numel(), width=WIDTH, depth=DEPTH)
        zero(self.body.last)
        self.register_buffer("center", center.float())
        self.register_buffer("spread", torch.where(spread > 0, spread, 1.0).float())

    def forward(self, x: Float[Tensor, "batch columns"]) -> Float[Tensor, "batch classes nodes"]:
        """Return the values around their center, in units of their spread."""
        out: Tensor = self.body(torch.cat([self.coordinates(x), self.neighborhood(x)], 1))
        return out.unflatten(1, self.center.shape)

    def values(self, x: Float[Tensor, "batch columns"]) -> Float[Tensor, "batch classes nodes"]:
        """Return the values in their own units."""
        return self.center + self.spread * self(x)

    @classmethod
    def with_shapes_of(cls, state: Mapping[str, Tensor], n_columns: int) -> PointNetwork:
        """Return a network into which a saved state can be loaded."""
        landmarks = torch.zeros_like(state["neighborhood.landmarks"])
        labels = torch.zeros(len(landmarks), dtype=torch.int64)
        return cls(torch.zeros(2, n_columns), landmarks, labels, state["center"], state["spread"])
