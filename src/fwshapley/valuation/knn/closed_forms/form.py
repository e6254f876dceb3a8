"""Base class of closed forms.

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
from jaxtyping import Float, Int, Num
from torch import Tensor
from torch.nn.functional import one_hot, pad

from fwshapley.semivalues import Semivalue
from fwshapley.valuation.knn.loops.tables import SoftTables, VoteTables


class ClosedForm(ABC):
    """Values of points by label (or target) and rank, under several weightings.

    Args:
        weights: semivalues.
        n: number of players of a game.
        k: number of nearest neighbors.
        device: where values are computed.

    Attributes:
        n: number of players of a game.
        reach: by weighting and rank 1..n, the probability c that a point of that rank is among the K nearest.
        drop: c_{j-1} - c_j by weighting and rank j.
        degree: the value of a new point is a polynomial of this degree in what it contributes to the prediction; None
            if it is computed for each label instead.
    """

    degree: int | None = None

    def __init__(self, weights: Sequence[Semivalue], n: int, k: int, *, device: str | torch.device = "cpu") -> None:
        self.n, self.k = n, k
        laws = torch.stack([torch.from_numpy(one.membership_law(n, k)) for one in weights]).to(device)
        ranks = torch.arange(n, dtype=torch.float64, device=device)
        self.law: Float[Tensor, "weights n sizes"] = laws
        self.reach: Float[Tensor, "weights n"] = laws[..., :k].sum(2)
        # c_{j-1} - c_j = w_{j-1}(K) K / (j-1), without the cancellation
        self.drop: Float[Tensor, "weights n"] = laws[..., k] * k / ranks.clamp(min=1)

    def by_class(
        self,
        label: Num[Tensor, " references"],  # noqa: ARG002 - for forms that have such a part
        farthest: Num[Tensor, " references"],  # noqa: ARG002 - as above
    ) -> Float[Tensor, "weights references classes"] | None:
        """Return the part of a value that is the same for all points of a class, or None if there is none.

        Args:
            label: label of each reference point.
            farthest: label of the point farthest from it.
        """
        return None

    @abstractmethod
    def by_rank(
        self,
        labels: Num[Tensor, "references ranks"],
        label: Num[Tensor, " references"],
        closeness: Float[Tensor, "references ranks"] | None = None,
    ) -> Float[Tensor, "weights references ranks"]:
        """Return the part of a value that depends on the rank.

        Args:
            labels: of the points by rank, of all or of the nearest few.
            label: of each reference point.
            closeness: weights of the points by rank; None if all have the same.
        """

    def tables(self, ranks: int) -> SoftTables | VoteTables | None:  # noqa: ARG002 - for forms that have such tables
        """Return what compiled loops need for some of the nearest ranks, on a CPU; None if torch adds up the values."""
        return None

    def for_newcomer(
        self,
        labels: Num[Tensor, "references others"],
        label: Num[Tensor, " references"],
        newcomer: Int[Tensor, " references"],
    ) -> Float[Tensor, "weights references others+1"]:
        """Return the part of a new point's value that depends on its rank, for each number of closer points.

        The new point is a player too, so the form must have one player more than there are labels.

        Args:
            labels: labels of all other points, from the nearest to the farthest.
            label: label of each reference point.
            newcomer: label of the new point, for each reference point.
        """
        raise NotImplementedError(f"the value of a new point is a polynomial: {type(self).__name__}.for_any_newcomer")

    def for_any_newcomer(
        self,
        labels: Num[Tensor, "references others"],
        label: Num[Tensor, " references"],
        closeness: Float[Tensor, "references others"] | None = None,
    ) -> Float[Tensor, "weights coefficients references others+1"]:
        """Return the coefficients, from that of power 0 on, of a new point's value in its `contributions`.

        Arguments are those of `by_rank`, of all other points; the form has one player more.
        """
        raise NotImplementedError(f"a new point is valued for each label: {type(self).__name__}.for_newcomer")

    def contributions(
        self,
        labels: Num[Tensor, "references ranks"],
        label: Num[Tensor, " references"],
        closeness: Float[Tensor, "references ranks"] | None = None,
    ) -> Float[Tensor, "references ranks"]:
        """Return what each point contributes to the prediction; arguments are those of `by_rank`."""
        raise NotImplementedError(f"points are valued by class: {type(self).__name__}.for_newcomer")

    def under_every_label(
        self, labels: Int[Tensor, "references ranks"], label: Int[Tensor, " references"]
    ) -> Float[Tensor, "weights classes references ranks"]:
        """Return the part of the value that depends on the rank, of points of all ranks, under each possible label."""
        raise NotImplementedError(f"{type(self).__name__} values points under their own label alone")

    def cut(self, tolerance: float) -> tuple[int, float]:
        """Return the fewest ranks whose values have at most an error of tolerance if the rest is 0, and that error.

        Cutting after rank T causes errors of at most c_T - c_n up to it and c_{T+1} beyond, times `stake`.
        """
        if self.stake is None:
            return self.n, 0.0
        beyond = torch.cat([self.reach[:, 1:], self.reach.new_zeros(len(self.reach), 1)], 1)
        bound = self.stake * torch.maximum(self.reach - self.reach[:, -1:], beyond).amax(0)
        # A point beyond the cut has at most the value of the first one there; beyond the last rank there is none.
        bound[-1] = 0
        ranks = int((bound > tolerance).sum()) + 1
        return ranks, float(bound[ranks - 1])

    @property
    def stake(self) -> float | None:
        """Largest change of the utility when one of the K nearest is exchanged; None if ranks cannot be cut."""
        return None


class ClassForm(ClosedForm):
    """Closed form of a utility of classes.

    Args:
        weights: semivalues.
        counts: training points of each class.
        k: number of nearest neighbors.
        held_out: each reference point is one of the training points, and not a player of its own game.
    """

    def __init__(
        self, weights: Sequence[Semivalue], counts: Int[Tensor, " classes"], k: int, *, held_out: bool = False
    ) -> None:
        super().__init__(weights, int(counts.sum()) - held_out, k, device=counts.device)
        self.counts, self.held_out = counts, held_out

    def counts_for(self, label: Int[Tensor, " references"]) -> Float[Tensor, "references classes"]:
        """Return the number of players of each class in the games of some reference points."""
        same = one_hot(label, len(self.counts))
        return (self.counts - same * self.held_out).double()


def sums_from(steps: Float[Tensor, "*shape ranks"]) -> Float[Tensor, "*shape ranks+1"]:
    """Return the sums of the last steps: of all, of all but the first, and so on to none."""
    return pad(steps, (0, 1)).flip(-1).cumsum(-1).flip(-1)


def sums_behind(steps: Float[Tensor, "*shape ranks"]) -> Float[Tensor, "*shape ranks"]:
    """Return for each rank the sum of the steps at all farther ranks."""
    return sums_from(steps)[..., 1:]
