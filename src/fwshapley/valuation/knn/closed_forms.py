"""Semivalues of the nearest-neighbor game in closed form, for every weighting: docs/math.md, section 6.

For one reference point, let the n training points be sorted by distance, ranks 1..n. A point's value is

    phi_i = by_class(y_i) + by_rank(i),

where the first part depends only on its label, and the second on its rank and on the labels of all ranks. The weighting
enters through the membership law: w_k(m) is the probability that m of k given other points are in the coalition, and
c_i = sum_{m<K} w_{i-1}(m) is the probability that a point of rank i is among the K nearest when it joins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot, pad

from fwshapley.games.knn import Ties, Utility
from fwshapley.semivalues import Semivalue
from fwshapley.valuation.knn.vote import win_chances

STRETCH_ENTRIES = {"cpu": 2**16, "cuda": 2**23}
"""Entries (classes x references x ranks) of a stretch of ranks in `Vote.by_rank`, which fit the cache of a core."""


class ClosedForm(ABC):
    """Values of points by label and rank, under several weightings.

    Args:
        weights: semivalues.
        counts: training points of each class.
        k: number of nearest neighbors.
        held_out: each reference point is one of the training points, and not a player of its own game.

    Attributes:
        n: number of players of a game.
        reach: by weighting and rank 1..n, the probability c that a point of that rank is among the K nearest.
    """

    def __init__(
        self, weights: Sequence[Semivalue], counts: Int[Tensor, " classes"], k: int, *, held_out: bool = False
    ) -> None:
        self.counts, self.k, self.held_out = counts, k, held_out
        self.n = int(counts.sum()) - held_out
        laws = torch.stack([torch.from_numpy(one.membership_law(self.n, k)) for one in weights]).to(counts.device)
        ranks = torch.arange(self.n, dtype=torch.float64, device=counts.device)
        self.law = laws
        self.reach: Float[Tensor, "weights n"] = laws[..., :k].sum(2)
        # c_{j-1} - c_j = w_{j-1}(K) K / (j-1), without the cancellation
        self.drop: Float[Tensor, "weights n"] = laws[..., k] * k / ranks.clamp(min=1)

    @abstractmethod
    def by_class(
        self, label: Int[Tensor, " references"], farthest: Int[Tensor, " references"]
    ) -> Float[Tensor, "weights references classes"] | None:
        """Return the part of a value that is the same for all points of a class, or None if there is none.

        Args:
            label: label of each reference point.
            farthest: label of the point farthest from it.
        """

    @abstractmethod
    def by_rank(
        self, labels: Int[Tensor, "references ranks"], label: Int[Tensor, " references"]
    ) -> Float[Tensor, "weights references ranks"]:
        """Return the part of a value that depends on the rank; labels are those of all points or of the nearest few."""

    @abstractmethod
    def for_newcomer(
        self,
        labels: Int[Tensor, "references others"],
        label: Int[Tensor, " references"],
        newcomer: Int[Tensor, " references"],
    ) -> Float[Tensor, "weights references others+1"]:
        """Return the part of a new point's value that depends on its rank, for each number of closer points.

        The new point is a player too, so the form must have one player more than there are labels.

        Args:
            labels: labels of all other points, from the nearest to the farthest.
            label: label of each reference point.
            newcomer: label of the new point, for each reference point.
        """

    @abstractmethod
    def under_every_label(
        self, labels: Int[Tensor, "references ranks"], label: Int[Tensor, " references"]
    ) -> Float[Tensor, "weights classes references ranks"]:
        """Return the part of the value that depends on the rank, of points of all ranks, under each possible label."""

    def cut(self, tolerance: float) -> tuple[int, float]:
        """Return the fewest ranks whose values have at most an error of tolerance if the rest is 0, and that error.

        Cutting after rank T causes errors of at most c_T - c_n up to it and c_{T+1} beyond, times `stake`.
        """
        beyond = torch.cat([self.reach[:, 1:], self.reach.new_zeros(len(self.reach), 1)], 1)
        bound = self.stake * torch.maximum(self.reach - self.reach[:, -1:], beyond).amax(0)
        # A point beyond the cut has at most the value of the first one there; beyond the last rank there is none.
        bound[-1] = 0
        ranks = int((bound > tolerance).sum()) + 1
        return ranks, float(bound[ranks - 1])

    def counts_for(self, label: Int[Tensor, " references"]) -> Float[Tensor, "references classes"]:
        """Return the number of players of each class in the games of some reference points."""
        same = one_hot(label, len(self.counts))
        return (self.counts - same * self.held_out).double()

    @property
    def stake(self) -> float:
        """Largest change of the utility when one of the K nearest is exchanged."""
        return 1 / self.k


class Soft(ClosedForm):
    """Matches of the K nearest / K: phi_i = c_i a_i / K - sum_{j>i} (c_{j-1} - c_j) a_j / K, a_j = 1 for a match."""

    def by_class(
        self,
        label: Int[Tensor, " references"],  # noqa: ARG002 - the base class passes it
        farthest: Int[Tensor, " references"],  # noqa: ARG002 - as above
    ) -> Float[Tensor, "weights references classes"] | None:
        """Return None: the value of the empty coalition is 0."""
        return None

    def by_rank(
        self, labels: Int[Tensor, "references ranks"], label: Int[Tensor, " references"]
    ) -> Float[Tensor, "weights references ranks"]:
        """Return the gain of a point's own match, minus the sum over farther matches.

        `radix_sort.add_soft_values` does the same arithmetic in the same order, so that both have the same bits.
        """
        match = (labels == label[:, None]).double().div_(self.k)
        ranks = labels.shape[1]
        values = match.new_empty(len(self.reach), *match.shape)
        for out, reach, drop in zip(values, self.reach[:, :ranks], self.drop[:, :ranks], strict=True):
            torch.sub(match * reach, _sums_from(match * drop)[:, 1:], out=out)
        return values

    def for_newcomer(
        self,
        labels: Int[Tensor, "references others"],
        label: Int[Tensor, " references"],
        newcomer: Int[Tensor, " references"],
    ) -> Float[Tensor, "weights references others+1"]:
        """Return the gain of the new point's own match, minus the loss of the matches that move back by a rank."""
        match = (labels == label[:, None]).double()
        loss = _sums_from(match * self.drop[:, None, 1:])
        return ((newcomer == label)[:, None] * self.reach[:, None] - loss) / self.k

    def under_every_label(
        self, labels: Int[Tensor, "references ranks"], label: Int[Tensor, " references"]
    ) -> Float[Tensor, "weights classes references ranks"]:
        """Return the values; a label only decides whether the point itself matches."""
        match = (labels == label[:, None]).double()
        ranks = labels.shape[1]
        loss = _sums_from(match * self.drop[:, None, :ranks])[..., 1:]
        matches = one_hot(label, len(self.counts)).T[..., None]
        return (matches * self.reach[:, None, None, :ranks] - loss[:, None]) / self.k


class Normalized(Soft):
    """Matches / min(K, members); the value of the empty coalition is 1/C. Differs from `Soft` for fewer than K members.

    phi_i is the soft value + eta a_i + (phi_n - (c_n / K + eta) a_n), with eta = sum_{s<K-1} w_{n-2}(s) (1/(s+1) - 1/K)
    and phi_n = w_{n-1}(0) (a_n - 1/C) + (a_n - mean of a_1..a_{n-1}) sum_{0<s<K} w_{n-1}(s) / (s+1).
    """

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


class Vote(ClosedForm):
    """Whether the label has a plurality among the K nearest; the value of the empty coalition is 1/C.

    phi_i = E(y_i) + sum_{l>i} w_{l-1}(K) K / (l-K) (h_l(y_i) - h_l(y_l)), where h_l(c) is the chance that the label
    wins among K of the l nearest, given that some point of class c is one of them; E covers coalitions of fewer than K.
    A point thus enters through its class alone, so a sum over l per class serves all points.
    """

    def __init__(
        self,
        weights: Sequence[Semivalue],
        counts: Int[Tensor, " classes"],
        k: int,
        *,
        held_out: bool = False,
        ties: Ties = "lowest",
    ) -> None:
        super().__init__(weights, counts, k, held_out=held_out)
        self.ties: Ties = ties
        ranks = torch.arange(1, self.n + 1, dtype=torch.float64, device=counts.device)
        self.full = self.law[..., k] * k / (ranks - k).clamp(min=1)
        self.small = self._small(torch.arange(len(counts), device=counts.device))

    @property
    def stake(self) -> float:
        """Return 1: one neighbor can decide the vote."""
        return 1.0

    def by_class(
        self,
        label: Int[Tensor, " references"],
        farthest: Int[Tensor, " references"],  # noqa: ARG002 - the base class passes it
    ) -> Float[Tensor, "weights references classes"]:
        """Return E(c), which depends on the label alone."""
        return self.small[:, label]

    def _small(self, label: Int[Tensor, " references"]) -> Float[Tensor, "weights references classes"]:
        """Return E(c) = sum_{s<K} w_{n-1}(s) (win with a point of class c among s+1 - win among s without it)."""
        classes, n = len(self.counts), self.n
        counts = self.counts_for(label).T[..., None]
        before: Tensor | float = 1 / classes
        gained = []
        for size in range(min(self.k, n)):
            joined = win_chances(counts, label, size + 1, self.ties)
            gained.append(joined - before)
            left_out = (counts * joined).sum(0) - (size + 1) * joined
            before = left_out / max(n - size - 1, 1)
        gains = torch.stack(gained)[..., 0]
        return torch.einsum("ws,scr->wrc", self.law[:, -1, : len(gains)], gains)

    def by_rank(
        self, labels: Int[Tensor, "references ranks"], label: Int[Tensor, " references"]
    ) -> Float[Tensor, "weights references ranks"]:
        """Return sums over l > i, computed from the farthest stretch of ranks inwards."""
        references, ranks = labels.shape
        classes = len(self.counts)
        stretch = max(STRETCH_ENTRIES[labels.device.type] // (references * classes), 1)
        indicators = one_hot(labels, classes).permute(2, 0, 1)
        starts = range(0, ranks, stretch)
        before = torch.stack([indicators[..., start : start + stretch].sum(2) for start in starts]).cumsum(0)
        values = self.full.new_empty(len(self.full), references, ranks)
        beyond = self.full.new_zeros(len(self.full), classes, references, 1)
        for part in reversed(range(len(starts))):
            in_part = slice(starts[part], starts[part] + stretch)
            members = indicators[..., in_part]
            counts = members.cumsum(2) + (before[part] - members.sum(2))[..., None]
            chances = win_chances(counts.double(), label, self.k, self.ties)
            excess = chances - (chances * members).sum(0)
            steps = self.full[:, None, None, :ranks][..., in_part] * excess
            sums = steps.flip(3).cumsum(3).flip(3) + beyond
            beyond = sums[..., :1]
            values[..., in_part] = ((sums - steps) * members).sum(1)
        return values

    def for_newcomer(
        self,
        labels: Int[Tensor, "references others"],
        label: Int[Tensor, " references"],
        newcomer: Int[Tensor, " references"],
    ) -> Float[Tensor, "weights references others+1"]:
        """Return the same sums over the ranks behind the new point, which counts among the nearest there."""
        classes = len(self.counts)
        indicators = one_hot(labels, classes).permute(2, 0, 1)
        joined = one_hot(newcomer, classes).T[..., None]
        chances = win_chances((indicators.cumsum(2) + joined).double(), label, self.k, self.ties)
        excess = (chances * (joined - indicators)).sum(0)
        return _sums_from(self.full[:, None, 1:] * excess)

    def under_every_label(
        self, labels: Int[Tensor, "references ranks"], label: Int[Tensor, " references"]
    ) -> Float[Tensor, "weights classes references ranks"]:
        """Return values, exact for the label of a point; another label counts in addition, not instead of it."""
        classes = len(self.counts)
        indicators = one_hot(labels, classes).permute(2, 0, 1)
        values = self.full.new_empty(len(self.full), classes, *labels.shape)
        for newcomer in range(classes):
            same = torch.arange(classes, device=labels.device) == newcomer
            joined = (indicators.cumsum(2) + same[:, None, None]).double()
            chances = win_chances(joined, label, self.k, self.ties)
            excess = chances[newcomer] - (chances * indicators).sum(0)
            values[:, newcomer] = _sums_from(self.full[:, None, : labels.shape[1]] * excess)[..., 1:]
        exact = self.by_rank(labels, label)[:, None]
        return values.scatter_(1, labels.expand(len(values), 1, -1, -1), exact)


def _sums_from(steps: Float[Tensor, "*shape ranks"]) -> Float[Tensor, "*shape ranks+1"]:
    """Return the sums of the last steps: of all, of all but the first, and so on to none."""
    return pad(steps, (0, 1)).flip(-1).cumsum(-1).flip(-1)


def make_form(
    utility: Utility,
    weights: Sequence[Semivalue],
    counts: Int[Tensor, " classes"],
    k: int,
    *,
    held_out: bool = False,
    ties: Ties = "lowest",
) -> ClosedForm:
    """Return the closed form of a utility."""
    if utility == "vote":
        return Vote(weights, counts, k, held_out=held_out, ties=ties)
    return {"soft": Soft, "normalized": Normalized}[utility](weights, counts, k, held_out=held_out)
