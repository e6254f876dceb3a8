"""The network of the FW-Shapley paper (section 2.4), trained by weighted least squares on batches.

    q = f1(x),  k = f2(r),   sim(q, k) = q . k / sqrt(d) where the labels agree, else 0
    psi(x, y) = f3(mean over reference points of sim(q, k) k)

The players of a game are the b points of a batch; coalitions of them are drawn by the size law of b players. The mean
over random batches is an n-player semivalue whose size law is that of b players, and zero for larger sizes: `batch_law`
returns it as a `Cardinality`, for a comparison with exact values.

Deviations from the paper: the kernel is exact, not approximate; and the level of all values, which the loss does not
determine, is estimated after training, where the paper mentions a regularizer. The reference points enter through
sum_j k_j k_j' over each class, so the network stores only these sums.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from fwshapley.networks.mlp import MLP, Coordinates
from fwshapley.semivalues import Cardinality, Semivalue

WIDTH = 256
DEPTH = 1
CODE_WIDTH = 64


class PublishedNetwork(nn.Module):
    """Encoders of points and reference points, and a value from their masked similarity.

    Args:
        x: points that give the scale of the columns.
        n_classes: number of classes.

    Attributes:
        moments: mean over the reference points of k k', by class; set by `remember`.
        level: constant that is added to all values, which the loss does not determine.
    """

    moments: Tensor
    level: Tensor

    def __init__(self, x: Float[Tensor, "rows columns"], n_classes: int) -> None:
        super().__init__()
        self.coordinates = Coordinates(x)
        self.of_point = MLP(self.coordinates.count, CODE_WIDTH, width=WIDTH, depth=DEPTH)
        self.of_reference = MLP(self.coordinates.count, CODE_WIDTH, width=WIDTH, depth=DEPTH)
        self.value = MLP(CODE_WIDTH, 1, width=WIDTH, depth=DEPTH)
        self.register_buffer("moments", torch.zeros(n_classes, CODE_WIDTH, CODE_WIDTH))
        self.register_buffer("level", torch.zeros(()))

    def moments_of(
        self, x: Float[Tensor, "references columns"], labels: Int[Tensor, " references"]
    ) -> Float[Tensor, "classes code code"]:
        """Return the mean of k k' over reference points, by class."""
        codes = self.of_reference(self.coordinates(x))
        one_hot = functional.one_hot(labels, len(self.moments)).to(codes)
        return torch.einsum("jc,jd,je->cde", one_hot, codes, codes) / (len(x) * math.sqrt(CODE_WIDTH))

    def remember(self, x: Float[Tensor, "references columns"], labels: Int[Tensor, " references"], size: int) -> None:
        """Store the moments of all reference points, computed in parts of a size."""
        self.moments.zero_()
        for part, part_labels in zip(x.split(size), labels.split(size), strict=True):
            self.moments.add_(self.moments_of(part, part_labels), alpha=len(part) / len(x))

    def values(self, x: Float[Tensor, "batch columns"]) -> Float[Tensor, "batch classes 1"]:
        """Return the values for the stored reference points."""
        return self.level + self(x)[..., None]

    def forward(
        self,
        x: Float[Tensor, "batch columns"],
        references: Float[Tensor, "references columns"] | None = None,
        labels: Int[Tensor, " references"] | None = None,
    ) -> Float[Tensor, "batch classes"]:
        """Return values under every label, for the stored reference points or for those passed."""
        moments = self.moments
        if references is not None and labels is not None:
            moments = self.moments_of(references, labels)
        queries = self.of_point(self.coordinates(x))
        attention = torch.einsum("bd,cde->bce", queries, moments)
        values: Tensor = self.value(attention.flatten(0, 1)).view(attention.shape[:2])
        return values


def batch_law(weights: Semivalue, batch: int, n: int) -> Cardinality:
    """Return the semivalue of n players that is the mean over random batches of them.

    In a batch of b points a player joins s others with probability w_b(s), and they are a random s of the n - 1 others.
    """
    return Cardinality(functional.pad(torch.from_numpy(weights.join_law(batch)), (0, n - batch)))
