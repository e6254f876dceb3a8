"""How often a label wins a vote among some of the nearest points: products of small polynomials over the classes.

A coalition of s voters in which the label has f votes is won if no other class has more; the number of such coalitions
is C(N_label, f) times the coefficient of z**(s-f) in the product over the other classes of

    P_c(z) = sum_{m<f} C(N_c, m) z**m + tie_c C(N_c, f) z**f,

where tie_c is what a tie with class c leaves to the label: all or nothing by the order of the classes, or, for a shared
win, a power of x, since a win shared with j others is worth 1/(1+j), the integral of x**j over (0, 1).
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from fwshapley.games.neighbours import Ties


def win_chances(
    counts: Float[Tensor, "classes references ranks"], label: Int[Tensor, " references"], size: int, ties: Ties
) -> Float[Tensor, "classes references ranks"]:
    """Chance that the label wins among `size` voters of those counted, given that a certain point of a class votes.

    Where fewer than `size` can vote, or a class has no points, there is no such chance, and the number is meaningless
    but finite.
    """
    everyone = counts.sum(0)
    unit = everyone.clamp(min=1)
    is_label = torch.nn.functional.one_hot(label, len(counts)).T[..., None].bool()
    ours = torch.where(is_label, counts, 0).sum(0)
    won = torch.zeros_like(counts)
    for votes in range(1, size + 1):
        # Binomials in units of everyone**m, so that none overflows.
        among, others = _binomials(ours, votes, unit), everyone - ours
        short = _binomials((ours - 1).clamp(min=0), votes - 1, unit)[votes - 1]
        if 2 * votes > size:  # no other class can keep up
            rest, rest_but_one = (
                _binomials(number.clamp(min=0), size - votes, unit) for number in (others, others - 1)
            )
            of_label = short * rest[size - votes]
            of_others = among[votes] * rest_but_one[size - votes - 1] if votes < size else torch.zeros_like(ours)
            won += torch.where(is_label, of_label, of_others)
        else:
            for tie, share in _tie_terms(is_label, votes, size, ties):
                product, joined = _products(counts, tie, is_label, votes, size - votes)
                won += share * torch.where(is_label, short * product, among[votes] * joined)
    return won / _binomials((everyone - 1).clamp(min=0), size - 1, unit)[size - 1].clamp(
        min=torch.finfo(won.dtype).tiny
    )


def _products(
    counts: Float[Tensor, "classes references ranks"], tie: Tensor, is_label: Tensor, votes: int, degree: int
) -> tuple[Float[Tensor, "references ranks"], Float[Tensor, "classes references ranks"]]:
    """Coefficient of z**degree in the product of the P_c, and of z**(degree-1) when one point of a class is given."""
    unit = counts.sum(0).clamp(min=1)
    polynomial = _binomials(torch.where(is_label, 0, counts), votes, unit)  # 1 for the label, which is no factor
    polynomial[votes] = polynomial[votes] * tie
    given = _binomials((counts - 1).clamp(min=0), votes - 1, unit)
    given[votes - 1] = given[votes - 1] * tie
    product = [torch.ones_like(unit)] + [torch.zeros_like(unit) for _ in range(degree)]
    for number in range(len(counts)):
        for power in reversed(range(1, degree + 1)):
            for m in range(1, min(votes, power) + 1):
                product[power].addcmul_(polynomial[m][number], product[power - m])
    without: list[Tensor] = []  # the product over all classes but one, by division
    for power in range(degree):
        rest = product[power].expand_as(counts).clone()
        for m in range(1, min(votes, power) + 1):
            rest.addcmul_(polynomial[m], without[power - m], value=-1)
        without.append(rest)
    joined = sum((given[m] * without[degree - 1 - m] for m in range(min(votes, degree))), torch.zeros_like(counts))
    return product[degree], joined


def _tie_terms(is_label: Tensor, votes: int, size: int, ties: Ties) -> list[tuple[Tensor, float]]:
    """What a tie with each class leaves to the label, and the weight of that term."""
    if ties == "lowest":
        return [((is_label.cumsum(0) > 0).double(), 1.0)]  # the label wins against the classes after it
    most_tied = (size - votes) // votes
    x, weight = np.polynomial.legendre.leggauss(most_tied // 2 + 1)
    everywhere = torch.ones_like(is_label, dtype=torch.float64)
    return [((1 + float(node)) / 2 * everywhere, float(share) / 2) for node, share in zip(x, weight, strict=True)]


def _binomials(number: Tensor, most: int, unit: Tensor) -> list[Tensor]:
    """C(number, m) / unit**m for m = 0..most."""
    found = [torch.ones_like(number)]
    for m in range(most):
        found.append(found[-1] * ((number - m).clamp(min=0) / (unit * (m + 1))))
    return found
