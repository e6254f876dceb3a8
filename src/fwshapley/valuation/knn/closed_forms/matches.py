"""Matches of the nearest neighbors with a label: docs/math.md, section 6."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from fwshapley.valuation.knn.closed_forms.form import ClassForm, sums_behind, sums_from
from fwshapley.valuation.knn.loops.tables import SoftTables


class Soft(ClassForm):
    """Matches of the K nearest / K: phi_i = c_i a_i / K - sum_{j>i} (c_{j-1} - c_j) a_j / K, a_j = 1 for a match."""

    degree: int | None = 1

    @property
    def stake(self) -> float:
        """Return 1/K, what a match is worth."""
        return 1 / self.k

    def tables(self, ranks: int) -> SoftTables | None:
        """Return the probabilities, and the gain of a match; None for subclasses, which value matches otherwise."""
        if type(self) is not Soft:
            return None
        reach, drop = (table[:, :ranks].contiguous().numpy() for table in (self.reach, self.drop))
        return SoftTables(reach, drop, 1 / self.k)

    def contributions(
        self,
        labels: Int[Tensor, "references ranks"],
        label: Int[Tensor, " references"],
        closeness: Float[Tensor, "references ranks"] | None = None,
    ) -> Float[Tensor, "references ranks"]:
        """Return a."""
        match = (labels == label[:, None]).double()
        return match if closeness is None else match.mul_(closeness)

    def by_rank(
        self,
        labels: Int[Tensor, "references ranks"],
        label: Int[Tensor, " references"],
        closeness: Float[Tensor, "references ranks"] | None = None,
    ) -> Float[Tensor, "weights references ranks"]:
        """Return the gain of a point's own match, minus the sum over farther matches."""
        match = self.contributions(labels, label, closeness).div_(self.k)
        ranks = labels.shape[1]
        values = match.new_empty(len(self.reach), *match.shape)
        for out, reach, drop in zip(values, self.reach[:, :ranks], self.drop[:, :ranks], strict=True):
            torch.sub(match * reach, sums_behind(match * drop), out=out)
        return values

    def for_any_newcomer(
        self,
        labels: Int[Tensor, "references others"],
        label: Int[Tensor, " references"],
        closeness: Float[Tensor, "references others"] | None = None,
    ) -> Float[Tensor, "weights 2 references others+1"]:
        """Return the loss of the matches that move back by a rank, and the gain for each match of the new point."""
        loss = sums_from(self.contributions(labels, label, closeness) * self.drop[:, None, 1:])
        gain = self.reach[:, None].expand_as(loss)
        return torch.stack([-loss, gain], 1) / self.k

    def under_every_label(
        self, labels: Int[Tensor, "references ranks"], label: Int[Tensor, " references"]
    ) -> Float[Tensor, "weights classes references ranks"]:
        """Return the values; a label only decides whether the point itself matches."""
        match = (labels == label[:, None]).double()
        ranks = labels.shape[1]
        loss = sums_behind(match * self.drop[:, None, :ranks])
        matches = one_hot(label, len(self.counts)).T[..., None]
        return (matches * self.reach[:, None, None, :ranks] - loss[:, None]) / self.k


class Kernel(Soft):
    """Matches of the K nearest, each times its closeness, / K: the form of `Soft` for a_j = closeness of a match."""


class Normalized(Soft):
    """Matches / min(K, members); the value of the empty coalition is 1/C. Differs from `Soft` for fewer than K members.

    phi_i is the soft value + eta a_i + (phi_n - (c_n / K + eta) a_n), with eta = sum_{s<K-1} w_{n-2}(s) (1/(s+1) - 1/K)
    and phi_n = w_{n-1}(0) (a_n - 1/C) + (a_n - mean of a_1..a_{n-1}) sum_{0<s<K} w_{n-1}(s) / (s+1).
    """

    degree = None  # a new point also changes the mean

    def by_class(
        self, label: Int[Tensor, " references"], farthest: Int[Tensor, " references"]
    ) -> Float[Tensor, "weights references classes"]:
        """Return the last two terms of the formula."""
        classes, n, k = len(self.counts), self.n, self.k
        sizes = torch.arange(1, k + 1, dtype=torch.float64, device=label.device)
        eta = (self.law[:, max(n - 2, 0), :k] * (1 / sizes - 1 / k)).sum(1) * (n > 1)
        small = (self.law[:, -1, 1:k] / sizes[1:]).sum(1)
        last = (farthest == label).double()
        matches = self.counts_for(label).gather(1, label[:, None])[:, 0]
        mean = (matches - last) / max(n - 1, 1)
        of_farthest = self.law[:, -1, :1] * (last - 1 / classes) + small[:, None] * (last - mean)
        shift = of_farthest - (self.reach[:, -1] / k + eta)[:, None] * last
        return eta[:, None, None] * one_hot(label, classes).double() + shift[..., None]

    def for_newcomer(
        self,
        labels: Int[Tensor, "references others"],
        label: Int[Tensor, " references"],
        newcomer: Int[Tensor, " references"],
    ) -> Float[Tensor, "weights references others+1"]:
        """Return the part of the soft value."""
        constant, slope = self.for_any_newcomer(labels, label).unbind(1)
        return constant + slope * (newcomer == label)[:, None]
