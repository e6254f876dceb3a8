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

MAX_DIVIDED = 6
"""Highest degree up to which products are divided: 6! times the rounding error is 2e-13."""


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
    unit = size / total.clamp(min=1)  # binomials times unit**m do not overflow or underflow
    is_label = torch.nn.functional.one_hot(label, len(counts)).T[..., None].bool()
    where_label = label[None, :, None].expand(1, *total.shape)
    matching = counts.gather(0, where_label)[0]
    others = total - matching
    among, rest = binomials(matching, size, unit), binomials(others, size - 1, unit)
    short = binomials((matching - 1).clamp(min=0), size - 1, unit)
    rest_but_one = binomials((others - 1).clamp(min=0), size - 2, unit)
    of_label, of_any_other = torch.zeros_like(total), torch.zeros_like(total)
    won = torch.zeros_like(counts)
    rivals = counts.scatter(0, where_label, 0)
    for votes in range(1, size + 1):
        if 2 * votes > size:  # no other class can have as many votes
            of_label.addcmul_(short[votes - 1], rest[size - votes])
            if votes < size:
                of_any_other.addcmul_(among[votes], rest_but_one[size - votes - 1])
            continue
        for tie, share in _tie_terms(is_label, votes, size, ties):
            product, joined = _products(rivals, tie, votes, degree=size - votes, unit=unit)
            of_label.addcmul_(short[votes - 1], product, value=share)
            won.addcmul_(among[votes], joined, value=share)
    won.add_(of_any_other).scatter_(0, where_label, of_label[None])
    coalitions = binomials((total - 1).clamp(min=0), size - 1, unit)[size - 1]
    return won.div_(coalitions.clamp_(min=torch.finfo(won.dtype).tiny))


def _products(
    rivals: Float[Tensor, "classes references ranks"], tie: Tensor, votes: int, *, degree: int, unit: Tensor
) -> tuple[Float[Tensor, "references ranks"], Float[Tensor, "classes references ranks"]]:
    """Return the coefficient of z**degree in the product of the P_c, and of z**(degree-1) given a point of a class.

    Given a point of a class, the product of the other classes' polynomials is the whole one divided by that of the
    class. The division loses digits in proportion to degree!, so above `MAX_DIVIDED` it is avoided.

    Args:
        rivals: number of points of each class; 0 for the label.
        tie: the label's share of a tie with each class.
        votes: of the label.
        degree: number of other voters.
        unit: of the binomials.
    """
    polynomial = binomials(rivals, votes - 1, unit)
    last = (rivals - (votes - 1)).mul_(tie * (unit / votes))  # C(N, f) = C(N, f-1) (N-f+1) / f
    polynomial.append(last.mul_(polynomial[-1]) if votes > 1 else last)
    conditional = binomials((rivals - 1).clamp_(min=0), votes - 1, unit) if votes > 1 else [tie.expand_as(rivals)]
    if votes > 1:
        conditional[-1].mul_(tie)
    if degree > MAX_DIVIDED:
        return _products_without_division(polynomial, conditional, degree)
    product = [torch.zeros_like(unit) for _ in range(degree + 1)]
    product[0] += 1
    for number in range(len(rivals)):
        for power in range(degree, 0, -1):
            for m in range(1, min(votes, power) + 1):
                product[power].addcmul_(polynomial[m][number], product[power - m])
    joined = torch.zeros_like(rivals)
    quotient: Polynomial = []
    for power in range(degree):
        if power == 0:
            quotient.append(torch.ones_like(unit).expand_as(rivals))
        else:
            coefficient = product[power] - polynomial[1] * quotient[power - 1]
            for m in range(2, min(votes, power) + 1):
                coefficient.addcmul_(polynomial[m], quotient[power - m], value=-1)
            quotient.append(coefficient)
        if degree - 1 - power < votes:
            joined.addcmul_(quotient[power], conditional[degree - 1 - power])
    return product[degree], joined


def _products_without_division(
    polynomial: Polynomial, conditional: Polynomial, degree: int
) -> tuple[Float[Tensor, "references ranks"], Float[Tensor, "classes references ranks"]]:
    """Return the same from products over the classes before and after a class."""
    ones = torch.ones_like(polynomial[0][0])
    before: list[Polynomial] = [[ones]]
    for number in range(len(polynomial[0])):
        before.append(_multiply(before[-1], [coefficient[number] for coefficient in polynomial], degree))
    joined = torch.empty_like(polynomial[0])
    after = [ones]
    for number in reversed(range(len(joined))):
        joined[number] = sum(
            one[number] * _coefficient(before[number], after, degree - 1 - m)
            for m, one in enumerate(conditional[:degree])
        )
        after = _multiply(after, [coefficient[number] for coefficient in polynomial], degree - 1)
    product = before[-1]
    return product[degree] if degree < len(product) else torch.zeros_like(ones), joined


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
    ones = torch.ones_like(is_label, dtype=torch.float64)
    return [(node * ones, share) for node, share in shared_tie_nodes(votes, size)]


def shared_tie_nodes(votes: int, size: int) -> list[tuple[float, float]]:
    """Return nodes and weights of an integral over x in (0, 1): a win shared with j others counts 1/(1+j)."""
    most_tied = (size - votes) // votes
    x, weight = np.polynomial.legendre.leggauss(most_tied // 2 + 1)
    return [((1 + float(node)) / 2, float(share) / 2) for node, share in zip(x, weight, strict=True)]


def binomials(number: Tensor, most: int, unit: Tensor | float = 1.0) -> list[Tensor]:
    """Return C(number, m) unit**m for m = 0..most."""
    found = [torch.ones_like(number)]
    for m in range(most):
        found.append((number - m).mul_(unit / (m + 1)).mul_(found[-1]))
    return found
