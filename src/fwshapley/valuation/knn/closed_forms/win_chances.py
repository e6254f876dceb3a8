"""Probability that a label wins a vote among some of the nearest points: products of polynomials over the classes.

The label wins a coalition of s voters in which it has f votes if no other class has more. The number of such coalitions
is C(N_label, f) times the coefficient of z**(s-f) in the product over the other classes of

    P_c(z) = sum_{m<f} C(N_c, m) z**m + tie_c C(N_c, f) z**f,

where tie_c is the label's share of a tie with class c: 0 or 1 by the order of the classes, or, for a shared win, a
power of x, since a win shared with j others counts 1/(1+j), the integral of x**j over (0, 1).
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
    """Return the probability that the label wins among `size` of the points, given that one point of a class votes.

    Args:
        counts: number of points of each class.
        label: label of each reference point.
        size: number of voters.
        ties: who wins a tie.

    Returns:
        The probability by the class of the given voter. Where there are fewer than `size` points, or none of a class,
        the number is finite but has no meaning.
    """
    total = counts.sum(0)
    unit = total.clamp(min=1) / size  # binomials in units of unit**m do not overflow or underflow
    is_label = torch.nn.functional.one_hot(label, len(counts)).T[..., None].bool()
    matching = torch.where(is_label, counts, 0).sum(0)
    won = torch.zeros_like(counts)
    for votes in range(1, size + 1):
        among = _binomials(matching, votes, unit)
        others = total - matching
        short = _binomials((matching - 1).clamp(min=0), votes - 1, unit)[votes - 1]
        if 2 * votes > size:  # no other class can have as many votes
            rest, rest_but_one = (
                _binomials(number.clamp(min=0), size - votes, unit) for number in (others, others - 1)
            )
            of_label = short * rest[size - votes]
            of_others = among[votes] * rest_but_one[size - votes - 1] if votes < size else torch.zeros_like(matching)
            won += torch.where(is_label, of_label, of_others)
        else:
            for tie, share in _tie_terms(is_label, votes, size, ties):
                product, joined = _products(counts, tie, is_label, votes, degree=size - votes, unit=unit)
                won += share * torch.where(is_label, short * product, among[votes] * joined)
    coalitions = _binomials((total - 1).clamp(min=0), size - 1, unit)[size - 1]
    return won / coalitions.clamp(min=torch.finfo(won.dtype).tiny)


def _products(
    counts: Float[Tensor, "classes references ranks"],
    tie: Tensor,
    is_label: Tensor,
    votes: int,
    *,
    degree: int,
    unit: Tensor,
) -> tuple[Float[Tensor, "references ranks"], Float[Tensor, "classes references ranks"]]:
    """Return the coefficient of z**degree in the product of the P_c, and of z**(degree-1) given a point of a class."""
    polynomial = _binomials(torch.where(is_label, 0, counts), votes, unit)  # the label's factor is 1
    polynomial[votes] = polynomial[votes] * tie
    conditional = _binomials((counts - 1).clamp(min=0), votes - 1, unit)
    conditional[votes - 1] = conditional[votes - 1] * tie
    # Products over the classes before and after a class: dividing by its polynomial would lose all digits at large K.
    before: list[Polynomial] = [[torch.ones_like(unit)]]
    for number in range(len(counts)):
        before.append(_multiply(before[-1], [coefficient[number] for coefficient in polynomial], degree))
    joined = torch.empty_like(counts)
    after = [torch.ones_like(unit)]
    for number in reversed(range(len(counts))):
        joined[number] = sum(
            conditional[m][number] * _coefficient(before[number], after, degree - 1 - m)
            for m in range(min(votes, degree))
        )
        after = _multiply(after, [coefficient[number] for coefficient in polynomial], degree - 1)
    product = before[-1]
    return product[degree] if degree < len(product) else torch.zeros_like(unit), joined


def _multiply(one: Polynomial, other: Polynomial, degree: int) -> Polynomial:
    """Return the product of two polynomials, up to a degree."""
    powers = range(min(len(one) + len(other) - 2, degree) + 1)
    return [_coefficient(one, other, power) for power in powers]


def _coefficient(one: Polynomial, other: Polynomial, power: int) -> Tensor:
    """Return the coefficient of a power in the product of two polynomials."""
    terms = range(max(power - len(one) + 1, 0), min(power, len(other) - 1) + 1)
    if not terms:
        return torch.zeros_like(one[0])
    total = one[power - terms[0]] * other[terms[0]]
    for m in terms[1:]:
        total.addcmul_(one[power - m], other[m])
    return total


def _tie_terms(is_label: Tensor, votes: int, size: int, ties: Ties) -> list[tuple[Tensor, float]]:
    """Return the label's share of a tie with each class, and the weight of that term."""
    if ties == "lowest":
        return [((is_label.cumsum(0) > 0).double(), 1.0)]  # the label wins against the classes after it
    most_tied = (size - votes) // votes
    x, weight = np.polynomial.legendre.leggauss(most_tied // 2 + 1)
    ones = torch.ones_like(is_label, dtype=torch.float64)
    return [((1 + float(node)) / 2 * ones, float(share) / 2) for node, share in zip(x, weight, strict=True)]


def _binomials(number: Tensor, most: int, unit: Tensor) -> list[Tensor]:
    """Return C(number, m) / unit**m for m = 0..most."""
    binomials = [torch.ones_like(number)]
    for m in range(most):
        binomials.append(binomials[-1] * ((number - m).clamp(min=0) / (unit * (m + 1))))
    return binomials
