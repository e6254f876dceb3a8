"""Values of a vote of few in time that does not grow with the number of classes: power series of the class counts.

The polynomials P_c(z; N) of `win_chances` depend on the count N of their class alone. Let lambda be the logarithm of
P_c and g = P_c(given a point of the class) / P_c, power series in z whose coefficients are polynomials in N. Then

- R = product of the P_c = exp(sum of lambda(N_c)): from one rank to the next a single class changes, so the sum over
  classes is a cumulative sum over ranks of the changes of lambda;
- given a point of class c, the coefficient of z**(d-1) is sum_m R_{d-1-m} g_m(N_c). Between two points of the class N_c
  does not change, so sums over ranks of R_{d-1-m}, taken there, give the sums of `Vote` for all its points.

Power series lose digits in proportion to K!, so this is for K of at most `MAX_VOTERS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from fwshapley.valuation.knn.closed_forms.class_order import ClassOrder
from fwshapley.valuation.knn.closed_forms.win_chances import binomials

MAX_VOTERS = 7
"""Most neighbors: 6! times the rounding error is 2e-13."""

Series = list[Tensor]
"""Coefficients, from that of z**0 on."""


class CountTables(NamedTuple):
    """Coefficients of the series by the count of a class, 0 for a count of 0.

    Attributes:
        logarithms: lambda(N) for powers 1, 2, ...
        given: g(N) for powers 0, 1, ...
    """

    logarithms: Float[Tensor, "powers counts"]
    given: Float[Tensor, "powers counts"]


def count_tables(votes: int, tie: float, size: int, most: int) -> CountTables:
    """Return the tables for a label with some votes among `size`, and its share of a tie with a class.

    Args:
        votes: of the label; no class that is counted has more.
        tie: share of the label in a tie with the class.
        size: number of voters.
        most: largest count.
    """
    count = torch.arange(most + 1, dtype=torch.float64)
    polynomial, conditional = binomials(count, votes), binomials((count - 1).clamp(min=0), votes - 1)
    polynomial[votes] *= tie
    conditional[votes - 1] *= tie
    zero = torch.zeros_like(count)
    logarithm: Series = [zero]
    given: Series = []
    for power in range(1, size - votes + 1):
        term = power * (polynomial[power] if power <= votes else zero)
        for m in range(max(1, power - votes), power):
            term = term - m * logarithm[m] * polynomial[power - m]
        logarithm.append(term / power)
    for power in range(size - votes):
        term = conditional[power] if power < votes else zero
        for m in range(1, min(power, votes) + 1):
            term = term - polynomial[m] * given[power - m]
        given.append(term)
    given_point = torch.stack(given)
    given_point[:, 0] = 0
    return CountTables(torch.stack(logarithm[1:]), given_point)


def changes(table: Float[Tensor, "*table counts"]) -> Float[Tensor, "*table counts"]:
    """Return the differences between a count and the one before, 0 for a count of 0."""
    return table.diff(dim=-1, prepend=table[..., :1])


def exponential(logarithm: Series) -> Series:
    """Return the power series whose logarithm has these coefficients, from that of z**1 on."""
    series: Series = [torch.ones_like(logarithm[0])]
    for power, coefficient in enumerate(logarithm, 1):
        total = coefficient.clone()
        for m in range(1, power):
            total.addcmul_(logarithm[m - 1], series[power - m], value=m / power)
        series.append(total)
    return series


def sums_behind_rank(
    steps: Series, at_rank: Sequence[tuple[Tensor, Tensor]], order: ClassOrder
) -> Float[Tensor, "references n"]:
    """Return for every rank i of class c the sum over l > i of sum_m steps_m(l) g_m(N_c(l)).

    Summed by parts: the sum of steps_m over all l > i counts g_m(N_c(i)) times; from every farther point of the class
    on, it counts g_m(N) - g_m(N-1) times more.

    Args:
        steps: by power m and rank l.
        at_rank: by power m, g_m(N_c(i)) and g_m(N_c(i)) - g_m(N_c(i) - 1) by rank i, for the class of i.
        order: of the ranks.
    """
    here, later = torch.zeros_like(steps[0]), torch.zeros_like(steps[0])
    for step, (given, change) in zip(steps, at_rank, strict=True):
        from_rank = step.flip(1).cumsum_(1).flip(1)
        later.addcmul_(from_rank, change)
        here.addcmul_(from_rank.sub_(step), given)
    return here.add_(order.sum_behind(later))
