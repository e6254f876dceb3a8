"""Sort points by distance, and add up the values of the soft utility in that order: loops that numba compiles.

The order is that of a stable sort in double precision. A point's code, a whole number of 31 bits, never decreases with
the distance. Two passes of a radix sort put the upper 22 bits in order, and an insertion sort the rest: it compares
codes, and where they are equal the distances themselves, then the indices. Where few codes differ, since the distances
are close to each other and far from the least one, a radix sort by all bits of the distances takes over.

An entry is a code, whether the point has the label of the reference point, and its index: code << 32 | match << 31 |
index.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from fwshapley._internal.compilation import compiled
from fwshapley.valuation.knn.distances import CLOSE, DIGIT_BITS, DIGITS, NEAREST, Scratch

CODE_BITS = 31
HIGH, LOW = CODE_BITS - DIGIT_BITS, CODE_BITS - 2 * DIGIT_BITS
"""Lowest bit of the two digits of a code by which the radix sort goes."""

MATCH = 1 << 31
INDEX = MATCH - 1
"""Bits of an entry: whether the label matches, and the index."""

SAMPLE = 32
"""Distances whose median sets the scale of the codes."""

MOVES = 4
"""Moves for each entry after which the insertion sort gives up."""


@compiled
def order_nearest(distances: Float64[ndarray, " n"], scratch: Scratch, order: Int64[ndarray, " ranks"]) -> None:
    """Write the indices of the nearest points, from the nearest on; of ties, the lower index comes first.

    Args:
        distances: numbers of at least 0, or infinity.
        scratch: memory for the sort.
        order: the result, for as many points as are wanted.
    """
    _sort(distances, scratch.codes, 1, len(order), scratch)  # any labels, none of which match
    for rank in range(len(order)):
        order[rank] = scratch.ordered[rank] & INDEX


@compiled
def add_soft_values(
    distances: Float64[ndarray, "rows n"],
    first: int,
    last: int,
    rounded: bool,  # noqa: FBT001 - numba takes no keywords
    own: Int64[ndarray, " rows"],
    labels: Int64[ndarray, " n"],
    reference_labels: Int64[ndarray, " rows"],
    reach: Float64[ndarray, "weights ranks"],
    drop: Float64[ndarray, "weights ranks"],
    share: float,
    scratch: Scratch,
    total: Float64[ndarray, "2 weights n"],
) -> int:
    """Add the values of all points in the games of some reference points, and their squares, to a total.

    The formula is that of `closed_forms.Soft.by_rank`, and so is the order of its sums.

    Args:
        distances: of a row for each reference point. They change: products are rounded to whole numbers, and a
            reference point itself is infinitely far.
        first: first row to add.
        last: the row after the last one.
        rounded: whether distances come from products, so that rounding may decide the order of close points.
        own: index of the point that is the reference point, or -1.
        labels: of the points.
        reference_labels: of the reference points.
        reach: probabilities of the closed form, for the ranks that are needed.
        drop: their differences.
        share: gain of one match among the nearest.
        scratch: memory for the sort.
        total: sums of values and of squared values.

    Returns:
        The first row that was not added since its points are too close to each other for products, or `last`.
    """
    ranks = reach.shape[1]
    for row in range(first, last):
        places = distances[row]
        if rounded:
            for point in range(len(places)):
                places[point] = max(np.floor(places[point]), 0.0)
        if own[row] >= 0:
            places[own[row]] = np.inf
        _sort(places, labels, reference_labels[row], ranks, scratch)
        if rounded and places[scratch.ordered[min(NEAREST, ranks) - 1] & INDEX] < CLOSE:
            return row
        for weighting in range(len(reach)):
            sums, squares = total[0, weighting], total[1, weighting]
            _add(scratch.ordered, reach[weighting], drop[weighting], share, scratch.values, sums, squares)
    return last


@compiled
def _add(ordered, reach, drop, share, values, total, squares):
    """Add the values of one game, from the farthest point to the nearest.

    Writing them down first, then adding them up by index, is faster than adding to two arrays in the order of ranks.
    """
    values[:] = 0
    farther = 0.0  # the sum over all farther matches
    for rank in range(len(reach) - 1, -1, -1):
        match = share if ordered[rank] & MATCH else 0.0
        values[ordered[rank] & INDEX] = match * reach[rank] - farther
        farther += match * drop[rank]
    for point in range(len(values)):
        total[point] += values[point]
        squares[point] += values[point] * values[point]


@compiled
def _sort(distances, labels, label, ranks, scratch):
    """Put the entries of the nearest points in order; more than `ranks` of them may be sorted."""
    codes, entries, ordered, counts, _ = scratch
    low, high = counts
    _encode(distances, codes)
    _count(codes, DIGITS, low, high)
    largest = kept = 0  # digit of the farthest of the nearest points, and how many have it at most
    while kept + high[largest] < ranks:
        kept += high[largest]
        largest += 1
    kept += high[largest]
    if kept < len(codes):
        _count(codes, largest, low, high)
    _count_before(low)
    _count_before(high)
    for point in range(len(codes)):
        code = np.int64(codes[point])
        if code >> HIGH <= largest:
            digit = (code >> LOW) & (DIGITS - 1)
            at = low[digit]
            low[digit] = at + 1
            entries[at] = code << 32 | np.int64(labels[point] == label) << 31 | point
    for number in range(kept):
        entry = entries[number]
        digit = entry >> 32 + HIGH
        at = high[digit]
        high[digit] = at + 1
        ordered[at] = entry
    if not _insert(ordered, kept, distances):
        _sort_by_all_bits(distances, labels, label, largest, scratch)


@compiled
def _encode(distances, codes):
    """Write the codes: bits of the distance plus a quarter of the median, from those of the least distance on.

    The bits of positive doubles are in the order of the numbers. The quarter makes codes as dense near 0 as elsewhere.
    """
    low, high = np.inf, 0.0
    for distance in distances:
        low = min(low, distance)
        high = max(high, distance if distance < np.inf else 0.0)
    offset = min(_middle(distances), high) / 4
    base = np.float64(low + offset).view(np.int64)
    span = np.float64(high + offset).view(np.int64) - base
    shift = 0
    while span >> shift >= 1 << CODE_BITS:
        shift += 1
    for point in range(len(distances)):
        bits = np.float64(distances[point] + offset).view(np.int64)
        codes[point] = min(bits - base >> shift, (1 << CODE_BITS) - 1)


@compiled
def _middle(distances):
    """Return the median of a sample."""
    sample = np.empty(SAMPLE)
    stride = max(len(distances) // SAMPLE, 1)
    count = min(SAMPLE, len(distances))
    for number in range(count):
        at = number
        while at > 0 and sample[at - 1] > distances[number * stride]:
            sample[at] = sample[at - 1]
            at -= 1
        sample[at] = distances[number * stride]
    return sample[count // 2]


@compiled
def _count(codes, largest, low, high):
    """Count the digits of the codes whose higher digit is at most `largest`."""
    low[:] = 0
    high[:] = 0
    for code in codes:
        if code >> HIGH <= largest:
            low[(code >> LOW) & (DIGITS - 1)] += 1
            high[code >> HIGH] += 1


@compiled
def _count_before(counts):
    """Replace counts by the sums of those before."""
    total = 0
    for digit in range(len(counts)):
        count = counts[digit]
        counts[digit] = total
        total += count


@compiled
def _is_before(one, other, distances):
    """Return whether an entry comes before another."""
    if one >> 32 != other >> 32:
        return one >> 32 < other >> 32
    distance, other_distance = distances[one & INDEX], distances[other & INDEX]
    return distance < other_distance or (distance == other_distance and one & INDEX < other & INDEX)


@compiled
def _insert(ordered, count, distances):
    """Finish the order by insertion; return False if that would take many moves, since few codes differ."""
    moves = largest = 0
    for number in range(count):
        entry, at = ordered[number], number
        if entry >> 32 > largest:
            largest = entry >> 32
            continue
        while at > 0 and _is_before(entry, ordered[at - 1], distances):
            ordered[at] = ordered[at - 1]
            at -= 1
        ordered[at] = entry
        moves += number - at
        if moves > MOVES * count:
            return False
    return True


@compiled
def _sort_by_all_bits(distances, labels, label, largest, scratch):
    """Put the entries of codes up to a digit in order by as many passes as the distances have digits."""
    codes, source, target, counts, _ = scratch
    bits = distances.view(np.int64)
    kept = 0
    for point in range(len(codes)):
        if codes[point] >> HIGH <= largest:
            target[kept] = np.int64(labels[point] == label) << 31 | point
            kept += 1
    count = counts[0]
    for shift in range(0, 6 * DIGIT_BITS, DIGIT_BITS):  # an even number of passes ends where it started
        source, target = target, source
        count[:] = 0
        for number in range(kept):
            count[(bits[source[number] & INDEX] >> shift) & (DIGITS - 1)] += 1
        _count_before(count)
        for number in range(kept):
            digit = (bits[source[number] & INDEX] >> shift) & (DIGITS - 1)
            target[count[digit]] = source[number]
            count[digit] += 1
