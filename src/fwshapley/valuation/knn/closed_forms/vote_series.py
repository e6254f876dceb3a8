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

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from fwshapley.valuation.knn.closed_forms.form import sums_from
from fwshapley.valuation.knn.closed_forms.win_chances import binomials

MAX_VOTERS = 7
"""Most neighbors: 6! times the rounding error is 2e-13."""

Series = list[Tensor]
"""Coefficients, from that of z**0 on."""


class CountTables(NamedTuple):
    """Coefficients of the series by the count of a class, 0 for a count of 0.

    Attributes:
        changes: lambda(N) - lambda(N-1) for powers 1, 2, ...
        given: g(N) for powers 0, 1, ...
    """

    changes: Float[Tensor, "powers counts"]
    given: Float[Tensor, "powers_given counts"]


class Order(NamedTuple):
    """Ranks ordered by class, from near to far in each.

    Attributes:
        ranks: the ranks in this order.
        ends: number of ranks up to the last of the same class, by position in this order.
        counts: number of points of the class of each rank up to it, by rank.
    """

    ranks: Int[Tensor, "references n"]
    ends: Int[Tensor, "references n"]
    counts: Int[Tensor, "references n"]


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
    changes = torch.stack(logarithm[1:]).diff(dim=1, prepend=torch.zeros(len(given), 1, dtype=torch.float64))
    given_point = torch.stack(given)
    given_point[:, 0] = 0
    return CountTables(changes, given_point)


def order_by_class(labels: Int[Tensor, "references n"]) -> Order:
    """Return the order of ranks by class."""
    if labels.device.type == "cpu" and int(labels.max()) < 2**16:  # numpy sorts 16 bits by radix
        short = labels.numpy().astype(np.uint16)
        ranks = torch.from_numpy(np.argsort(short, axis=1, kind="stable"))
    else:
        ranks = labels.argsort(dim=1, stable=True)
    ordered = labels.gather(1, ranks)
    place = torch.arange(1, labels.shape[1] + 1, device=labels.device)
    changes = ordered[:, 1:] != ordered[:, :-1]
    starts = torch.nn.functional.pad(torch.where(changes, place[:-1], 0), (1, 0)).cummax(1).values
    ends = torch.nn.functional.pad(torch.where(changes, place[:-1], len(place)), (0, 1), value=len(place))
    ends = ends.flip(1).cummin(1).values.flip(1)
    return Order(ranks, ends, torch.empty_like(ordered).scatter_(1, ranks, place - starts))


def exponential(logarithm: Series) -> Series:
    """Return the power series whose logarithm has these coefficients, from that of z**1 on."""
    series: Series = [torch.ones_like(logarithm[0])]
    for power, coefficient in enumerate(logarithm, 1):
        total = coefficient.clone()
        for m in range(1, power):
            total.addcmul_(logarithm[m - 1], series[power - m], value=m / power)
        series.append(total)
    return series


def sums_from_rank(steps: Series, given: Series, order: Order) -> Float[Tensor, "references n"]:
    """Return for every rank i of class c the sum over l >= i of sum_m steps_m(l) g_m(N_c(l)).

    Args:
        steps: by power m and rank l.
        given: g_m(N_c(i)) by power and rank i, for the class of i.
        order: of the ranks.
    """
    total = torch.zeros_like(steps[0])
    is_last = order.ends == torch.arange(1, total.shape[1] + 1, device=total.device)
    from_end = total.shape[1] - 1 - order.ranks
    for step, coefficient in zip(steps, given, strict=True):
        from_here = step.flip(1).cumsum_(1).gather(1, from_end)
        from_next = torch.nn.functional.pad(from_here[:, 1:], (0, 1)).masked_fill_(is_last, 0)
        total.addcmul_(coefficient.gather(1, order.ranks), from_here.sub_(from_next))
    sums = sums_from(total)  # over all points from each on in this order: also those of later classes
    return torch.empty_like(total).scatter_(1, order.ranks, sums[:, :-1] - sums.gather(1, order.ends))
