"""Sort points by distance from a reference point, in loops that numba compiles.

The order is that of a stable sort in double precision. A point's code, a whole number of 31 bits, never decreases with
the distance. Two passes of a radix sort put the upper 23 bits in order, and an insertion sort the rest: it compares
codes, and where they are equal the distances themselves, then the indices. Where few codes differ, since the distances
are close to each other and far from the least one, a radix sort by all bits of the distances takes over.

An entry of 64 bits is a word and the point's index: word << 32 | index. A word is the point's code and whether it has
the label of the reference point: code << 1 | match. Whole numbers without sign index arrays faster: numba need not ask
whether they count from the end.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int32, Int64
from numpy import ndarray

from fwshapley._internal.compilation import compiled
from fwshapley.valuation.knn.workspace import HIGH_BITS, LOW_BITS, Scratch

CODE_BITS = 31
CAP = (1 << CODE_BITS) - 1
NEVER = 0x7FF0000000000000
"""Bits of infinity."""

HIGH = np.uint32(32 - HIGH_BITS)
LOW = np.uint32(32 - HIGH_BITS - LOW_BITS)
LOW_DIGIT = np.uint32((1 << LOW_BITS) - 1)
"""Lowest bit of the two digits of a word by which the radix sort goes, and the bits of the lower one."""

INDEX = np.uint64(0xFFFFFFFF)
MATCH = np.uint64(1 << 32)
WORD, CODE = np.uint64(32), np.uint64(33)
HIGH_OF_ENTRY = np.uint64(64 - HIGH_BITS)
"""Parts of an entry: the index, whether the label matches, and the lowest bits of word, code and higher digit."""

ONE = np.uint32(1)

ALL_BITS_PASSES, ALL_BITS_DIGIT = 6, 11
"""Passes of the radix sort by all bits of a distance; an even number of them ends where it started."""

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
    sort_nearest(distances, scratch.words, 0, len(order), scratch)  # any labels, since matches are of no interest
    for rank in range(len(order)):
        order[rank] = scratch.ordered[rank] & INDEX


@compiled
def sort_nearest(
    distances: Float64[ndarray, " n"], labels: Int32[ndarray, " n"], label: int, ranks: int, scratch: Scratch
) -> None:
    """Put the entries of the nearest points in order; more than `ranks` of them may be sorted."""
    words, entries, ordered, low, high = scratch
    _encode(distances, labels, label, words)
    largest = np.uint32(len(high) - 1)  # digit of the farthest of the nearest points
    _count(words, largest, low, high)
    if ranks < len(words):
        largest = _find_digit(high, ranks)
        _count(words, largest, low, high)
    _count_before(low)
    kept = _count_before(high)
    for point in range(len(words)):
        word = words[point]
        if word >> HIGH <= largest:
            digit = (word >> LOW) & LOW_DIGIT
            at = low[digit]
            low[digit] = at + ONE
            entries[at] = np.uint64(word) << WORD | np.uint64(point)
    for number in range(kept):
        entry = entries[number]
        digit = entry >> HIGH_OF_ENTRY
        at = high[digit]
        high[digit] = at + ONE
        ordered[at] = entry
    if not _insert(ordered, kept, distances):
        _sort_by_all_bits(distances, largest, scratch)


@compiled
def _encode(distances, labels, label, words):
    """Write the words. Codes are bits of the distance plus a quarter of the median, from those of the least one on.

    The bits of positive doubles are in the order of the numbers. The quarter makes codes as dense near 0 as elsewhere.
    """
    bits = distances.view(np.int64)
    low, high = NEVER, 0
    for point in range(len(bits)):
        low = min(low, bits[point])
        high = max(high, bits[point] if bits[point] < NEVER else 0)
    least, largest = np.int64(low).view(np.float64), np.int64(high).view(np.float64)
    offset = min(_middle(distances), largest) / 4
    base = np.float64(least + offset).view(np.int64)
    span = np.float64(largest + offset).view(np.int64) - base
    shift = 0
    while span >> shift > CAP:
        shift += 1
    for point in range(len(distances)):
        code = np.float64(distances[point] + offset).view(np.int64) - base >> shift
        words[point] = np.minimum(code, CAP) << 1 | (labels[point] == label)


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
def _count(words, largest, low, high):
    """Count the digits of the words whose higher digit is at most `largest`."""
    low[:] = 0
    high[:] = 0
    for point in range(len(words)):
        word = words[point]
        if word >> HIGH <= largest:
            low[(word >> LOW) & LOW_DIGIT] += ONE
            high[word >> HIGH] += ONE


@compiled
def _find_digit(high, ranks):
    """Return the higher digit of the last of the nearest points."""
    kept = largest = 0
    while kept + high[largest] < ranks:
        kept += high[largest]
        largest += 1
    return np.uint32(largest)


@compiled
def _count_before(counts):
    """Replace counts by the sums of those before, and return the sum of all."""
    total = np.uint32(0)
    for digit in range(len(counts)):
        count = counts[digit]
        counts[digit] = total
        total += count
    return total


@compiled
def _is_before(one, other, distances):
    """Return whether an entry comes before another."""
    if one >> CODE != other >> CODE:
        return one >> CODE < other >> CODE
    distance, other_distance = distances[one & INDEX], distances[other & INDEX]
    return distance < other_distance or (distance == other_distance and one & INDEX < other & INDEX)


@compiled
def _insert(ordered, count, distances):
    """Finish the order by insertion; return False if that would take many moves, since few codes differ."""
    moves = 0
    for number in range(1, count):
        entry, at = ordered[number], number
        if entry >> CODE > ordered[number - 1] >> CODE:
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
def _sort_by_all_bits(distances, largest, scratch):
    """Put the entries of words up to a higher digit in order by as many passes as the distances have digits."""
    words, source, target, counts, _ = scratch
    bits = distances.view(np.uint64)
    digits = np.uint64((1 << ALL_BITS_DIGIT) - 1)
    kept = 0
    for point in range(len(words)):
        if words[point] >> HIGH <= largest:
            target[kept] = np.uint64(words[point]) << WORD | np.uint64(point)
            kept += 1
    for number in range(ALL_BITS_PASSES):
        shift = np.uint64(number * ALL_BITS_DIGIT)
        source, target = target, source
        counts[:] = 0
        for at in range(kept):
            counts[(bits[source[at] & INDEX] >> shift) & digits] += ONE
        _count_before(counts)
        for at in range(kept):
            digit = (bits[source[at] & INDEX] >> shift) & digits
            target[counts[digit]] = source[at]
            counts[digit] += ONE
