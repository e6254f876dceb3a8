"""The signed form: a network from a point to its value under every label and at every t.

    psi(x, y, t_j) = center(y, j) + spread(j) f(x, N(x))[y, j]
    N(x)[c, r] = log sum over landmarks z of class c of exp(-|x - z|**2 / 2 r**2)

Landmarks are some of the reference points: N tells how many of each class are near, at several ranges, which is what
values are made of. A close neighbor of another class can do harm: each label has values of its own, of either sign.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from fwshapley.networks.mlp import MLP, Coordinates, zero

WIDTH, DEPTH = 512, 3
LANDMARKS = 512
RANGES = 7
"""Each is 0.7 of the one before; the first is the median distance between landmarks."""

FEWEST = 1e-6
"""Neighbors that nobody counts as."""

SAME = 1e-6
"""Squared distance, in units of the median, of a landmark that may be the point itself; it does not count."""


class Neighborhood(nn.Module):
    """How many landmarks of each class are near, at several ranges: logarithms of mean 0 and deviation 1.

    Args:
        landmarks: points with known labels.
        labels: their class numbers.
        classes: number of labels.
        x: points to take mean and deviation from.
    """

    landmarks: Tensor
    cast: Tensor
    unit: Tensor
    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        landmarks: Float[Tensor, "landmarks columns"],
        labels: Int[Tensor, " landmarks"],
        classes: int,
        x: Float[Tensor, "rows columns"],
    ) -> None:
        super().__init__()
        self.count = RANGES * classes
        apart = torch.pdist(landmarks.double()).square()
        apart = apart[apart > 0]
        self.register_buffer("landmarks", landmarks)
        self.register_buffer("cast", functional.one_hot(labels, classes).float())
        self.register_buffer("unit", (apart.median() if len(apart) else apart.new_ones(())).float())
        self.register_buffer("mean", torch.zeros(self.count))
        self.register_buffer("deviation", torch.ones(self.count))
        found = self(x)
        self.mean.copy_(found.mean(0))
        self.deviation.copy_(found.std(0, correction=0).clamp(min=SAME))

    def forward(self, x: Float[Tensor, "batch columns"]) -> Float[Tensor, "batch count"]:
        """Counts of neighbors; a range is 0.7 of the last, so its kernel is that one's square."""
        squares = torch.cdist(x.float(), self.landmarks).square() / self.unit
        kernel = torch.exp(-squares / 2).masked_fill(squares < SAME, 0)
        near = []
        for _ in range(RANGES):
            near.append((kernel @ self.cast + FEWEST).log())
            kernel = kernel.square()
        return (torch.cat(near, 1) - self.mean) / self.deviation


class PointNetwork(nn.Module):
    """Values of points: (batch, columns) to (batch, classes, nodes), 0 to begin with.

    Args:
        x: points, to take the scale of their columns from.
        landmarks: reference points, of which some are kept.
        labels: their class numbers.
        center: value that points have on average, by label and node.
        spread: how far values are from it, by node.
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
        """Values around their center, in units of their spread."""
        out: Tensor = self.body(torch.cat([self.coordinates(x), self.neighborhood(x)], 1))
        return out.unflatten(1, self.center.shape)

    def values(self, x: Float[Tensor, "batch columns"]) -> Float[Tensor, "batch classes nodes"]:
        """Values in their own units."""
        return self.center + self.spread * self(x)
