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

from fwshapley.games.knn import Ties

Polynomial = list[Tensor]
"""Coefficients, from that of z**0 on."""


def win_chances(
    counts: Float[Tensor, "classes references ranks"], label: Int[Tensor, " references"], size: int, ties: Ties
) -> Float[Tensor, "classes references ranks"]:
    """Chance that the label wins among `size` voters of those counted, given that a certain point of a class votes.

    Where fewer than `size` can vote, or a class has no points, there is no such chance, and the number is meaningless
    but finite.
    """
    everyone = counts.sum(0)
    unit = everyone.clamp(min=1) / size  # binomials in units of unit**m neither over- nor underflow
    is_label = torch.nn.functional.one_hot(label, len(counts)).T[..., None].bool()
    ours = torch.where(is_label, counts, 0).sum(0)
    won = torch.zeros_like(counts)
    for votes in range(1, size + 1):
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
                product, joined = _products(counts, tie, is_label, votes, degree=size - votes, unit=unit)
                won += share * torch.where(is_label, short * product, among[votes] * joined)
    return won / _binomials((everyone - 1).clamp(min=0), size - 1, unit)[size - 1].clamp(
        min=torch.finfo(won.dtype).tiny
    )


def _products(
    counts: Float[Tensor, "classes references ranks"],
    tie: Tensor,
    is_label: Tensor,
    votes: int,
    *,
    degree: int,
    unit: Tensor,
) -> tuple[Float[Tensor, "references ranks"], Float[Tensor, "classes references ranks"]]:
    """Coefficient of z**degree in the product of the P_c, and of z**(degree-1) when one point of a class is given."""
    polynomial = _binomials(torch.where(is_label, 0, counts), votes, unit)  # 1 for the label, which is no factor
    polynomial[votes] = polynomial[votes] * tie
    given = _binomials((counts - 1).clamp(min=0), votes - 1, unit)
    given[votes - 1] = given[votes - 1] * tie
    # Products over the classes before and after each: dividing by its polynomial would lose all digits at large K.
    before: list[Polynomial] = [[torch.ones_like(unit)]]
    for number in range(len(counts)):
        before.append(_times(before[-1], [each[number] for each in polynomial], degree))
    joined, after = torch.empty_like(counts), [torch.ones_like(unit)]
    for number in reversed(range(len(counts))):
        joined[number] = sum(
            given[m][number] * _coefficient(before[number], after, degree - 1 - m) for m in range(min(votes, degree))
        )
        after = _times(after, [each[number] for each in polynomial], degree - 1)
    product = before[-1]
    return product[degree] if degree < len(product) else torch.zeros_like(unit), joined


def _times(one: Polynomial, other: Polynomial, degree: int) -> Polynomial:
    """Product of two polynomials, up to a degree."""
    powers = range(min(len(one) + len(other) - 2, degree) + 1)
    return [_coefficient(one, other, power) for power in powers]


def _coefficient(one: Polynomial, other: Polynomial, power: int) -> Tensor:
    """Coefficient of a power in the product of two polynomials."""
    terms = range(max(power - len(one) + 1, 0), min(power, len(other) - 1) + 1)
    if not terms:
        return torch.zeros_like(one[0])
    found = one[power - terms[0]] * other[terms[0]]
    for m in terms[1:]:
        found.addcmul_(one[power - m], other[m])
    return found


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
