"""Votes of the nearest neighbors: docs/math.md, section 6."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from numpy import ndarray
from torch import Tensor
from torch.nn.functional import one_hot

from fwshapley.games.knn import Ties
from fwshapley.semivalues import Semivalue
from fwshapley.valuation.knn.closed_forms.class_order import order_by_class
from fwshapley.valuation.knn.closed_forms.form import ClassForm, sums_behind, sums_from
from fwshapley.valuation.knn.closed_forms.vote_series import (
    MAX_VOTERS,
    CountTables,
    changes,
    count_tables,
    exponential,
    sums_behind_rank,
)
from fwshapley.valuation.knn.closed_forms.win_chances import binomials, shared_tie_nodes, win_chances
from fwshapley.valuation.knn.loops.tables import VoteTables

STRETCH_ENTRIES = {"cpu": 2**16, "cuda": 2**23}
"""Entries (classes x references x ranks) of a stretch of ranks in `Vote.by_rank`, which fit the cache of a core."""


class Vote(ClassForm):
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
        self,
        labels: Int[Tensor, "references ranks"],
        label: Int[Tensor, " references"],
        closeness: Float[Tensor, "references ranks"] | None = None,  # noqa: ARG002 - votes have no weights
    ) -> Float[Tensor, "weights references ranks"]:
        """Return sums over l > i, computed from the farthest stretch of ranks inwards."""
        if self.k <= MAX_VOTERS:
            return self._by_rank_of_few(labels, label)
        references, ranks = labels.shape
        classes = torch.arange(len(self.counts), device=labels.device)[:, None, None]
        stretch = max(STRETCH_ENTRIES[labels.device.type] // (references * len(classes)), 1)
        up_to = self.full.new_zeros(references, len(classes))
        up_to = up_to.scatter_add_(1, labels, self.full.new_ones(1, 1).expand_as(labels)).T[..., None]
        values = self.full.new_empty(len(self.full), references, ranks)
        beyond = self.full.new_zeros(len(self.full), len(classes), references, 1)
        for start in reversed(range(0, ranks, stretch)):
            in_part = slice(start, start + stretch)
            own = labels[None, :, in_part].flip(2)  # from the farthest to the nearest
            members = (own == classes).double()
            beyond_rank = members.cumsum(2).sub_(members)
            counts = up_to - beyond_rank
            up_to = counts[..., -1:] - members[..., -1:]
            chances = win_chances(counts, label, self.k, self.ties)
            excess = chances.sub_(chances.gather(0, own))
            full = self.full[:, None, None, :ranks][..., in_part].flip(3)
            sums = (full * excess).cumsum_(3)
            where = own.expand(len(values), 1, -1, -1)
            # A rank's own step is 0 for its own class, so the sum from it on is that over farther ranks.
            farther = sums.gather(1, where) + beyond.expand_as(sums).gather(1, where)
            values[..., in_part] = farther[:, 0].flip(2)
            beyond = beyond + sums[..., -1:]
        return values

    def _by_rank_of_few(
        self, labels: Int[Tensor, "references ranks"], label: Int[Tensor, " references"]
    ) -> Float[Tensor, "weights references ranks"]:
        """Return the same for few neighbors: all classes at once, by power series of their counts."""
        k, order, is_label = self.k, order_by_class(labels), labels == label[:, None]
        number = torch.arange(1, labels.shape[1] + 1, dtype=torch.float64, device=labels.device)
        matching = is_label.double().cumsum_(1)
        among = binomials(matching, k)
        inverse = 1 / matching.clamp(min=1)
        index = torch.where(is_label, 0, order.counts + (labels > label[:, None]) * (int(self.counts.max()) + 1))
        of_label, of_any_other = torch.zeros_like(matching), torch.zeros_like(matching)
        steps: list[Tensor] = []
        at_rank: list[tuple[Tensor, Tensor]] = []
        for (votes, share, tables), (steps_up, given_steps_up) in zip(self._series, self._changes, strict=True):
            degree = k - votes
            series = exponential([_look_up(change, index).cumsum_(1) for change in steps_up])
            of_label.addcmul_(among[votes] * inverse, series[degree], value=share * votes)
            base = among[votes] * share
            steps += [series[degree - 1 - m].mul_(base) for m in range(degree)]
            at_rank += [
                (_look_up(given, index), _look_up(change, index))
                for given, change in zip(tables.given.flatten(1), given_steps_up, strict=True)
            ]
        rest = binomials(number - matching, k - k // 2 - 1)
        rest_but_one = binomials((number - matching - 1).clamp_(min=0), max(k - k // 2 - 2, 0))
        for votes in range(k // 2 + 1, k + 1):  # no other class can have as many votes
            of_label.addcmul_(among[votes] * inverse, rest[k - votes], value=votes)
            if votes < k:
                of_any_other.addcmul_(among[votes], rest_but_one[k - votes - 1])
        joined = of_any_other.clone()
        for step, (given, _) in zip(steps, at_rank, strict=True):
            joined.addcmul_(step, given)
        joined = torch.where(is_label, of_label, joined)
        values = self.full.new_empty(len(self.full), *labels.shape)
        for out, chance in zip(values, self._chances[:, : labels.shape[1]], strict=True):
            others = sums_behind(of_any_other * chance)
            if steps:
                others += sums_behind_rank([step * chance for step in steps], at_rank, order)
            out[:] = torch.where(is_label, sums_behind(of_label * chance), others).sub_(sums_behind(joined * chance))
        return values

    @cached_property
    def _chances(self) -> Float[Tensor, "weights n"]:
        """By rank l, w_{l-1}(K) K / (l-K) for each coalition of K - 1 of l - 1 points."""
        others = torch.arange(self.n, dtype=torch.float64, device=self.full.device)
        return self.full / binomials(others, self.k - 1)[-1].clamp(min=1)

    @cached_property
    def _series(self) -> list[tuple[int, float, CountTables]]:
        """Power series by number of votes, with their share: tables by power, and class before or after the label."""
        most = int(self.counts.max())
        found = []
        for votes in range(1, self.k // 2 + 1):
            nodes = [(None, 1.0)] if self.ties == "lowest" else shared_tie_nodes(votes, self.k)
            for node, share in nodes:
                pair = [
                    count_tables(votes, tie, self.k, most) for tie in ((0.0, 1.0) if node is None else (node, node))
                ]
                both = CountTables(*(torch.stack(parts, 1).to(self.counts.device) for parts in zip(*pair, strict=True)))
                found.append((votes, share, both))
        return found

    @cached_property
    def _changes(self) -> list[tuple[Tensor, ...]]:
        """Changes of both tables of each series from one count to the next."""
        return [tuple(changes(table).flatten(1) for table in tables) for _, _, tables in self._series]

    def tables(self, ranks: int) -> VoteTables | None:
        """Return the tables of the power series, or None if there are too many neighbors for them."""
        if self.k > MAX_VOTERS:
            return None
        classes = torch.arange(len(self.counts))
        return VoteTables(
            self.k,
            self.by_class(classes, classes).contiguous().numpy(),
            self._chances[:, :ranks].contiguous().numpy(),
            np.array([votes for votes, _, _ in self._series], dtype=np.int64),
            np.array([share for _, share, _ in self._series], dtype=np.float64),
            self._by_count,
        )

    @cached_property
    def _by_count(self) -> Float64[ndarray, "rows 2 terms"]:
        """The tables of all series in the order in which compiled loops read them, behind a row of zeros."""
        terms = sum(self.k - votes for votes, _, _ in self._series)
        by_count = np.zeros((1 + 2 * (int(self.counts.max()) + 1), 2, terms))
        first = 0
        for _, _, tables in self._series:
            for which, table in enumerate(tables):
                by_count[1:, which, first : first + len(table)] = table.flatten(1).T.numpy()
            first += len(tables.given)
        return by_count

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
        return sums_from(self.full[:, None, 1:] * excess)

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
            values[:, newcomer] = sums_from(self.full[:, None, : labels.shape[1]] * excess)[..., 1:]
        exact = self.by_rank(labels, label)[:, None]
        return values.scatter_(1, labels.expand(len(values), 1, -1, -1), exact)


def _look_up(table: Float[Tensor, " counts"], index: Int[Tensor, "references ranks"]) -> Tensor:
    """Return the entries of a table, faster than by indexing."""
    return table.index_select(0, index.flatten()).view(index.shape)
