"""Values in the games of one reference point after another, added up in loops that numba compiles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int32, Int64
from numpy import ndarray

from fwshapley._internal.compilation import compiled
from fwshapley.valuation.knn.distances import CLOSE, NEAREST
from fwshapley.valuation.knn.loops.radix_sort import INDEX, MATCH, sort_nearest
from fwshapley.valuation.knn.loops.tables import SoftTables
from fwshapley.valuation.knn.workspace import Scratch


class Block(NamedTuple):
    """Some reference points.

    Attributes:
        distances: of all points. They change: products are rounded to whole numbers, and a reference point itself
            becomes infinitely far.
        rounded: whether distances come from products, so that rounding may decide the order of close points.
        own: index of the point that is the reference point, or -1.
        labels: of the points.
        reference_labels: of the reference points.
    """

    distances: Float64[ndarray, "rows n"]
    rounded: bool
    own: Int64[ndarray, " rows"]
    labels: Int32[ndarray, " n"]
    reference_labels: Int64[ndarray, " rows"]


@compiled
def add_soft_values(
    block: Block, first: int, last: int, tables: SoftTables, scratch: Scratch, total: Float64[ndarray, "2 weights n"]
) -> int:
    """Add the values of all points in the games of some reference points, and their squares, to a total.

    The formula is that of `closed_forms.Soft.by_rank`, and so is the order of its sums.

    Args:
        block: the reference points.
        first: first row to add.
        last: the row after the last one.
        tables: of the closed form, for the ranks that are needed.
        scratch: memory for the sort.
        total: sums of values and of squared values.

    Returns:
        The first row that was not added since its points are too close to each other for products, or `last`.
    """
    values = np.empty(total.shape[2])
    for row in range(first, last):
        if not sort_row(block, row, tables.reach.shape[1], scratch):
            return row
        for weighting in range(total.shape[1]):
            _value(scratch.ordered, tables.reach[weighting], tables.drop[weighting], tables.gain, values)
            add_up(values, total[0, weighting], total[1, weighting])
    return last


@compiled
def sort_row(block: Block, row: int, ranks: int, scratch: Scratch) -> bool:
    """Sort points by distance from a reference point; return False if direct distances are needed for that."""
    distances = block.distances[row]
    if block.own[row] >= 0:
        distances[block.own[row]] = np.inf
    if block.rounded:
        for point in range(len(distances)):
            whole = np.floor(distances[point])
            distances[point] = whole if whole > 0 else 0.0
    sort_nearest(distances, block.labels, block.reference_labels[row], ranks, scratch)
    return not block.rounded or distances[scratch.ordered[min(NEAREST, ranks) - 1] & INDEX] >= CLOSE


@compiled
def _value(ordered, reach, drop, gain, values):
    """Write the values of one game, from the farthest point to the nearest.

    Writing them down first, then adding them up by index, is faster than adding to two arrays in the order of ranks.
    """
    values[:] = 0
    farther = 0.0  # the sum over all farther matches
    for rank in range(len(reach) - 1, -1, -1):
        match = gain if ordered[rank] & MATCH else 0.0
        values[ordered[rank] & INDEX] = match * reach[rank] - farther
        farther += match * drop[rank]


@compiled
def add_up(values: Float64[ndarray, " n"], total: Float64[ndarray, " n"], squares: Float64[ndarray, " n"]) -> None:
    """Add values and their squares to sums."""
    for point in range(len(values)):
        total[point] += values[point]
        squares[point] += values[point] * values[point]
