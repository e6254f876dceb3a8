"""Values where all members within a distance of the reference point predict it: docs/math.md, section 6.

Points outside are worth 0. A point inside joins m other points inside, s of which are members with the probability
w_m(s) of the membership law, whatever their distances. So its value depends on its own label or target and on sums over
the others inside alone, and nothing is sorted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from numpy import ndarray
from torch import Tensor

from fwshapley.semivalues import Semivalue


class RadiusForm:
    """Values of points within a distance of a reference point, under several weightings.

    Args:
        weights: semivalues.
        n: number of players of a game.

    Attributes:
        n: number of players of a game.
    """

    def __init__(self, weights: Sequence[Semivalue], n: int) -> None:
        self.weights, self.n = tuple(weights), n
        self._means: dict[int, Float64[ndarray, "weights means"]] = {}
        self._all = [None if one.is_mixture else _means_by_thinning(one.join_law(n)) for one in self.weights]

    def of_labels(
        self,
        matches: Float[Tensor, "references points"],
        others: Int[Tensor, "#references #points"],
        matching: Float[Tensor, "#references #points"],
        *,
        empty: float,
    ) -> Float[Tensor, "weights references points"]:
        """Return the values for the share of matches: (a - r) E[1/(s+1); s > 0] + w(0) (a - v0).

        Args:
            matches: a, 1 for a match and 0 otherwise.
            others: m, number of other points inside.
            matching: how many of them match; r is their share.
            empty: v0, value of the empty coalition.
        """
        nobody, inverse, *_ = self._expectations(others)
        share = matching / others.clamp(min=1)
        return inverse * (matches - share) + nobody * (matches - empty)

    def of_targets(
        self,
        excess: Float[Tensor, "references points"],
        others: Int[Tensor, "#references #points"],
        total: Float[Tensor, "#references #points"],
        squares: Float[Tensor, "#references #points"],
        *,
        empty: Float[Tensor, "#references #points"],
    ) -> Float[Tensor, "weights references points"]:
        """Return the values for minus the squared error of the mean target.

        With z the excess of a target over that of the reference point, T and Q the sums of z_j and z_j**2 over the m
        others, and P = (T**2 - Q) / (m (m-1)) the mean product of two of them,

            phi = - w(0) v0 - E[1/(s+1)**2] z**2 - 2 E[s/(s+1)**2] z T/m + E[(2s+1)/(s (s+1)**2); s > 0] Q/m
                  + E[(s-1) (2s+1)/(s (s+1)**2); s > 1] P.

        Args:
            excess: z.
            others: m, number of other points inside.
            total: T.
            squares: Q.
            empty: v0, value of the empty coalition.
        """
        nobody, _, own, cross, single, pair = self._expectations(others)
        mean = total / others.clamp(min=1)
        products = (total.square() - squares) / (others * (others - 1)).clamp(min=1)
        own_part = own * excess.square() + 2 * cross * excess * mean
        return single * squares / others.clamp(min=1) + pair * products - own_part - nobody * empty

    def _expectations(
        self, others: Int[Tensor, "references points"]
    ) -> tuple[Float[Tensor, "weights references points"], ...]:
        """Return w(0) and the expectations of the formulas for numbers of other points inside."""
        unique, where = others.unique(return_inverse=True)
        table = np.stack([self._means_of(count) for count in unique.tolist()])
        gathered = torch.from_numpy(table).to(others.device)[where]
        return tuple(gathered.movedim((-1, -2), (0, 1)))

    def _means_of(self, others: int) -> Float64[ndarray, "weights means"]:
        if others not in self._means:
            self._means[others] = np.stack(
                [
                    _means(one.join_law(others + 1)) if table is None else table[others]
                    for one, table in zip(self.weights, self._all, strict=True)
                ]
            )
        return self._means[others]


def _means(law: Float64[ndarray, " sizes"]) -> Float64[ndarray, " means"]:
    """Return w(0) and the expectations over the number s of members among the others."""
    s = np.arange(len(law), dtype=np.float64)
    after = 1 / (s + 1)
    single = np.divide((2 * s + 1) * after**2, s, out=np.zeros_like(s), where=s > 0)
    terms = np.stack([s == 0, after * (s > 0), after**2, s * after**2, single, (s - 1) * single])
    return terms @ law


def _means_by_thinning(law: Float64[ndarray, " n"]) -> Float64[ndarray, "n means"]:
    """Return the same for every number of others, from the law of all of them: each law follows from the next one."""
    rows = []
    for others in range(len(law) - 1, -1, -1):
        rows.append(_means(law))
        s = np.arange(others, dtype=np.float64)
        law = (law[:-1] * (others - s) + law[1:] * (s + 1)) / max(others, 1)
    return np.stack(rows[::-1])
