"""Values of a vote of few neighbors, added up in loops that numba compiles; `closed_forms.Vote` has the formula.

Sums over farther ranks go from the farthest stretch of ranks to the nearest. The power series of `vote_series` are
computed for a whole stretch, from the counts of the classes before it on, so memory does not grow with their number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from fwshapley._internal.compilation import compiled
from fwshapley.valuation.knn.loops.radix_sort import INDEX
from fwshapley.valuation.knn.loops.soft_values import Block, add_up, sort_row
from fwshapley.valuation.knn.loops.tables import VoteTables
from fwshapley.valuation.knn.workspace import Scratch

STRETCH = 496
"""Ranks of a stretch, whose series stay in the cache; powers of two would have rows share its lines."""


class Stretch(NamedTuple):
    """Numbers by rank of a stretch, from near to far. A term is a power of one of the series.

    Attributes:
        row: of `VoteTables.by_count`, for the rank's class and the number of its points up to it.
        matching: points of the label up to it.
        others: all other points up to it.
        logarithms: of the products over rivals, by term; the first column is that before the stretch.
        series: the products themselves, by power; of one series at a time.
        steps: what the series contribute given a rival, by term.
        of_label: coalitions in which the label wins, given a point that has it.
        of_others: those in which no rival can have as many votes, given another point.
        among, rest, rest_but_one: ways to choose from the label's points, from the others, and from all but one.
    """

    row: Int64[ndarray, " ranks"]
    matching: Float64[ndarray, " ranks"]
    others: Float64[ndarray, " ranks"]
    logarithms: Float64[ndarray, "terms columns"]
    series: Float64[ndarray, "powers ranks"]
    steps: Float64[ndarray, "terms ranks"]
    of_label: Float64[ndarray, " ranks"]
    of_others: Float64[ndarray, " ranks"]
    among: Float64[ndarray, "sizes ranks"]
    rest: Float64[ndarray, "powers ranks"]
    rest_but_one: Float64[ndarray, "powers ranks"]


class Farther(NamedTuple):
    """Sums over farther ranks, by weighting.

    Attributes:
        sums: of the three terms that do not depend on a point's class: of_label, of_others, and of the rank's class.
        steps: of the steps, by term.
        by_class: of the steps so far times the change of g, over points of a class.
    """

    sums: Float64[ndarray, "weights 3"]
    steps: Float64[ndarray, "weights terms"]
    by_class: Float64[ndarray, "weights classes"]


@compiled
def add_vote_values(
    block: Block, first: int, last: int, tables: VoteTables, scratch: Scratch, total: Float64[ndarray, "2 weights n"]
) -> int:
    """Add the values of all points in the games of some reference points, and their squares, to a total.

    Arguments and result are those of `add_soft_values`.
    """
    _, weights, n = total.shape
    ranks, classes, terms = tables.chances.shape[1], tables.small.shape[2], tables.by_count.shape[2]
    stretch = _allocate(tables.k, terms)
    farther = Farther(np.empty((weights, 3)), np.empty((weights, terms)), np.empty((weights, classes)))
    values, by_rank, counts = np.empty((weights, n)), np.empty(ranks, np.int32), np.empty(classes, np.int64)
    for row in range(first, last):
        if not sort_row(block, row, ranks, scratch):
            return row
        label = block.reference_labels[row]
        _begin(block, row, tables, scratch.ordered, farther, by_rank, counts, values)
        for start in range((ranks - 1) // STRETCH * STRETCH, -1, -STRETCH):
            some = by_rank[start : start + STRETCH]
            _follow(some, counts, label, tables, stretch)
            _expand(start, len(some), tables, stretch)
            for weighting in range(weights):
                _add_ranks(start, some, label, tables, weighting, stretch, farther, scratch.ordered, values[weighting])
        for weighting in range(weights):
            add_up(values[weighting], total[0, weighting], total[1, weighting])
    return last


@compiled
def _allocate(k, terms):
    """Return memory for a stretch."""
    return Stretch(
        np.empty(STRETCH, np.int64), np.empty(STRETCH), np.empty(STRETCH), np.empty((terms, STRETCH + 1)),
        np.empty((k, STRETCH)), np.empty((terms, STRETCH)), np.empty(STRETCH), np.empty(STRETCH),
        np.empty((k + 1, STRETCH)), np.empty((k, STRETCH)), np.empty((k, STRETCH)),
    )  # fmt: skip


@compiled
def _begin(block, row, tables, ordered, farther, by_rank, counts, values):
    """Write down the classes by rank, their counts, and the part of the values that depends on the class alone."""
    counts[:] = 0
    for rank in range(len(by_rank)):
        by_rank[rank] = block.labels[ordered[rank] & INDEX]
        counts[by_rank[rank]] += 1
    for sums in farther:
        sums[:] = 0
    for weighting in range(len(values)):
        small = tables.small[weighting, block.reference_labels[row]]
        for point in range(values.shape[1]):
            values[weighting, point] = small[block.labels[point]]
        if block.own[row] >= 0:
            values[weighting, block.own[row]] = 0


@compiled
def _follow(by_rank, counts, label, tables, stretch):
    """Write down counts and logarithms at each rank. Counts are those up to the last rank, then those before the first.

    The logarithms start from the counts, so rounding errors do not add up over stretches.
    """
    after = len(tables.by_count) // 2  # rows of the classes before the label
    for rank in range(len(by_rank) - 1, -1, -1):
        rival = by_rank[rank]
        stretch.row[rank] = 1 + int(rival != label) * (counts[rival] + after * int(rival > label))
        stretch.matching[rank] = counts[label]
        counts[rival] -= 1
    logarithms, terms = stretch.logarithms, len(stretch.logarithms)
    logarithms[:, 0] = 0
    for rival in range(len(counts)):
        if rival != label:
            total = tables.by_count[1 + counts[rival] + after * int(rival > label), 0]
            for term in range(terms):
                logarithms[term, 0] += total[term]
    for rank in range(len(by_rank)):
        fewer, now = tables.by_count[stretch.row[rank] - 1, 0], tables.by_count[stretch.row[rank], 0]
        for term in range(terms):
            logarithms[term, rank + 1] = logarithms[term, rank] + (now[term] - fewer[term])


@compiled
def _expand(start, size, tables, stretch):
    """Compute the chances of all ranks of a stretch from the logarithms."""
    k, most_rest = tables.k, tables.k - tables.k // 2 - 1
    for rank in range(size):
        stretch.others[rank] = start + rank + 1 - stretch.matching[rank]
    _binomials(stretch.matching, 0.0, k, size, stretch.among)
    _binomials(stretch.others, 0.0, most_rest, size, stretch.rest)
    _binomials(stretch.others, 1.0, most_rest - 1, size, stretch.rest_but_one)
    stretch.of_label[:] = 0
    stretch.of_others[:] = 0
    for votes in range(k // 2 + 1, k + 1):  # no rival can have as many votes
        _add_product(stretch.among[votes], stretch.rest[k - votes], float(votes), size, stretch.of_label)
        if votes < k:
            _add_product(stretch.among[votes], stretch.rest_but_one[k - votes - 1], 1.0, size, stretch.of_others)
    stretch.series[0] = 1
    first = 0
    for number in range(len(tables.votes)):
        votes, share = tables.votes[number], tables.shares[number]
        degree, among = k - votes, stretch.among[votes]
        _exponential(stretch.logarithms[first : first + degree], size, stretch.series)
        _add_product(among, stretch.series[degree], share * votes, size, stretch.of_label)
        for power in range(degree):
            steps, series = stretch.steps[first + power], stretch.series[degree - 1 - power]
            for rank in range(size):
                steps[rank] = share * among[rank] * series[rank]
        first += degree
    for rank in range(size):
        stretch.of_label[rank] /= max(stretch.matching[rank], 1.0)


@compiled
def _binomials(number, less, most, size, found):
    """Write C(number - less, m) for m up to `most`, of 0 instead of a negative number."""
    found[0] = 1
    for m in range(most):
        share = 1 / (m + 1)
        fewer, more = found[m], found[m + 1]
        for rank in range(size):
            more[rank] = fewer[rank] * (max(number[rank] - less, 0.0) - m) * share


@compiled
def _add_product(one, other, factor, size, total):
    """Add the product of two rows and a factor to a row."""
    for rank in range(size):
        total[rank] += factor * one[rank] * other[rank]


@compiled
def _exponential(logarithms, size, series):
    """Write the power series whose logarithm has these coefficients, from that of z**1 on, behind its first one."""
    for power in range(1, len(logarithms) + 1):
        series[power, :size] = logarithms[power - 1, 1 : size + 1]
        for m in range(1, power):
            _add_product(logarithms[m - 1, 1:], series[power - m], m / power, size, series[power])


@compiled
def _add_ranks(start, by_rank, label, tables, weighting, stretch, farther, ordered, values):
    """Add the sums over farther ranks to the values of the points of a stretch, from the farthest to the nearest.

    The sum over l > i of steps(l) g(N_c(l)) is summed by parts, as in `vote_series.sums_behind_rank`.
    """
    sums, of_steps, by_class = farther.sums[weighting], farther.steps[weighting], farther.by_class[weighting]
    of_label, of_others, of_own = sums[0], sums[1], sums[2]
    for rank in range(len(by_rank) - 1, -1, -1):
        rival, row = by_rank[rank], stretch.row[rank]
        chance = tables.chances[weighting, start + rank]
        given_fewer, given = tables.by_count[row - 1, 1], tables.by_count[row, 1]
        behind = by_class[rival]
        own = later = 0.0
        for term in range(len(of_steps)):
            step = stretch.steps[term, rank] * chance
            behind += of_steps[term] * given[term]
            own += step * given[term]
            of_steps[term] += step
            later += of_steps[term] * (given[term] - given_fewer[term])
        by_class[rival] += later
        label_here, others_here = stretch.of_label[rank] * chance, stretch.of_others[rank] * chance
        matches = rival == label
        values[ordered[start + rank] & INDEX] += (of_label if matches else of_others + behind) - of_own
        of_own += label_here if matches else others_here + own
        of_label += label_here
        of_others += others_here
    sums[0], sums[1], sums[2] = of_label, of_others, of_own
