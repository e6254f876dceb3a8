"""The estimator as the FW-Shapley paper has it (section 2.4), learned by weighted least squares on batches.

    q = f1(x),  k = f2(r),   sim(q, k) = q . k / sqrt(d) where the labels agree, else 0
    psi(x, y) = f3(mean over reference points of sim(q, k) k)

A batch of b points plays for a batch of reference points; coalitions of them are drawn by the size law of b players.
Averaged over random batches, such a value is an n-player semivalue whose size law is that of b players, and zero
beyond: `batch_law` gives it as a `Cardinality`, to compare with the exact engine.

Where this deviates from the paper: the exact kernel in place of its approximate one; the level of all values, which
the loss leaves open, is measured at the end, where the paper speaks of a regularizer. For one point the references
enter through sum_j k_j k_j' over each class, so those sums are all that is kept of them.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from fwshapley.networks.mlp import MLP, Coordinates
from fwshapley.semivalues import Cardinality, Semivalue

WIDTH, DEPTH, CODE = 256, 1, 64


class PublishedNetwork(nn.Module):
    """Encoders of points and reference points, their masked similarity, and what it says of a value.

    Args:
        x: points, to take the scale of their columns from.
        classes: number of labels.

    Attributes:
        moments: mean over the reference points of k k', class by class, once `remember` was told them.
        level: shift of all values, which the loss leaves open.
    """

    moments: Tensor
    level: Tensor

    def __init__(self, x: Float[Tensor, "rows columns"], classes: int) -> None:
        super().__init__()
        self.coordinates = Coordinates(x)
        self.of_point = MLP(self.coordinates.count, CODE, width=WIDTH, depth=DEPTH)
        self.of_reference = MLP(self.coordinates.count, CODE, width=WIDTH, depth=DEPTH)
        self.value = MLP(CODE, 1, width=WIDTH, depth=DEPTH)
        self.register_buffer("moments", torch.zeros(classes, CODE, CODE))
        self.register_buffer("level", torch.zeros(()))

    def moments_of(
        self, x: Float[Tensor, "references columns"], labels: Int[Tensor, " references"]
    ) -> Float[Tensor, "classes code code"]:
        """Return what attention needs of reference points."""
        codes = self.of_reference(self.coordinates(x))
        agree = functional.one_hot(labels, len(self.moments)).to(codes)
        return torch.einsum("jc,jd,je->cde", agree, codes, codes) / (len(x) * math.sqrt(CODE))

    def remember(self, x: Float[Tensor, "references columns"], labels: Int[Tensor, " references"], size: int) -> None:
        """Keep what attention needs of all reference points, which are looked at so many at a time."""
        self.moments.zero_()
        for part, some in zip(x.split(size), labels.split(size), strict=True):
            self.moments.add_(self.moments_of(part, some), alpha=len(part) / len(x))

    def values(self, x: Float[Tensor, "batch columns"]) -> Float[Tensor, "batch classes 1"]:
        """Values for the references remembered."""
        return self.level + self(x)[..., None]

    def forward(
        self,
        x: Float[Tensor, "batch columns"],
        references: Float[Tensor, "references columns"] | None = None,
        labels: Int[Tensor, " references"] | None = None,
    ) -> Float[Tensor, "batch classes"]:
        """Values of points under every label, for the references remembered or for others."""
        moments = self.moments
        if references is not None and labels is not None:
            moments = self.moments_of(references, labels)
        queries = self.of_point(self.coordinates(x))
        attention = torch.einsum("bd,cde->bce", queries, moments)
        found: Tensor = self.value(attention.flatten(0, 1)).view(attention.shape[:2])
        return found


def batch_law(weights: Semivalue, batch: int, n: int) -> Cardinality:
    """Size law of n players that batches of some of them, drawn at random, amount to.

    Among b random points, a player joins s of the others with probability w_b(s), and they are a random s of the n - 1.
    """
    return Cardinality(functional.pad(torch.from_numpy(weights.join_law(batch)), (0, n - batch)))
