"""Interventional game of deep trees: pairs of patterns that occur, instead of tables of all patterns.

On the way down a tree, rows that satisfy the same players' splits so far form a group, and so do background rows. A
pair of groups (P of rows, R of background rows, by the players that R misses) is alive while every player on the path
is satisfied by one of them, that is R is a subset of P. A split divides each group in two and each pair in at most
three; groups without a living pair are dropped. At a leaf, a pair adds what `code_tables` adds for (p, r). The cost
grows with the pairs of groups that occur, at most the rows times the background and far fewer in practice.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int32
from numpy import ndarray

from fwshapley._internal.compilation import compiled
from fwshapley.trees.compiled import run_ranges
from fwshapley.trees.decisions import Splits, goes_left

MAX_PLAYERS = 63
"""Most different players on a path: a pattern is one machine word."""

PARTS = 16
"""Parts of the trees that are summed up separately: a constant, so that sums do not depend on the number of cores."""


def add_pairs(
    splits: Splits,
    roots: Int32[ndarray, " trees"],
    player_of: Int32[ndarray, " features"],
    n_players: int,
    value: Float64[ndarray, "nodes outputs"],
    moments: Float64[ndarray, "channels powers powers"],
    x: Float64[ndarray, "rows features"],
    background: Float64[ndarray, "background features"],
    weight: Float64[ndarray, " background"],
) -> Float64[ndarray, "parts rows players outputs channels"]:
    """Return each row's sums over the trees of each part."""
    parts = min(PARTS, len(roots))
    sums = np.zeros((parts, len(x), n_players, value.shape[1], len(moments)))
    run_ranges(_add_parts, parts, splits, roots, player_of, value, moments, x, background, weight, sums)
    return sums


@compiled
def _add_parts(begin, end, splits, roots, player_of, value, moments, x, background, weight, sums):
    for part in range(begin, end):
        for tree in range(part, len(roots), len(sums)):
            _add_tree(splits, roots[tree], player_of, value, moments, x, background, weight, sums[part])


@compiled
def _add_tree(splits, root, player_of, value, moments, x, background, weight, sums):
    """Visit the nodes of a tree, each with the players on its path and the groups and pairs that are alive there.

    A list of nodes to visit instead of a recursive function: numba cannot load one of those from its cache.
    """
    stack = [
        (
            np.int64(root), np.empty(0, np.int64),
            np.arange(len(x)), np.zeros(len(x), np.int64), np.zeros(1, np.uint64),
            np.arange(len(background)), np.zeros(len(background), np.int64), np.zeros(1, np.uint64),
            np.zeros((1, 2), np.int64),
        )
    ]  # fmt: skip
    while len(stack) > 0:
        node, players, rows, row_group, met, others, other_group, missed, pairs = stack.pop()
        if splits.feature[node] < 0:
            _add_leaf(
                value[node], moments, weight, sums, players, rows, row_group, met, others, other_group, missed, pairs
            )
            continue
        feature = splits.feature[node]
        slot = 0
        while slot < len(players) and players[slot] != player_of[feature]:
            slot += 1
        is_new = slot == len(players)
        if is_new:
            players = np.append(players, np.int64(player_of[feature]))
        for left in (True, False):
            row_part = _divide(splits, node, left, x, feature, rows, row_group, met, slot, is_new, False)
            other_part = _divide(
                splits, node, left, background, feature, others, other_group, missed, slot, is_new, True
            )
            new_met, row_source, row_target = _merge(row_part, met, slot)
            new_missed, other_source, other_target = _merge(other_part, missed, slot)
            living = _pair(pairs, row_source, other_source)
            if not len(living):
                continue
            row_name, new_met = _renumber(living[:, 0], new_met)
            other_name, new_missed = _renumber(living[:, 1], new_missed)
            for pair in range(len(living)):
                living[pair, 0] = row_name[living[pair, 0]]
                living[pair, 1] = other_name[living[pair, 1]]
            next_rows, next_row_group = _keep(rows, row_part, row_target, row_name)
            next_others, next_other_group = _keep(others, other_part, other_target, other_name)
            child = np.int64(splits.left[node] if left else splits.right[node])
            stack.append((
                child, players, next_rows, next_row_group, new_met,
                next_others, next_other_group, new_missed, living,
            ))  # fmt: skip


@compiled
def _divide(splits, node, left, x, feature, rows, group, patterns, slot, is_new, misses):
    """Return twice the group of each row, plus the new bit of the split's player."""
    part = np.empty(len(rows), np.int64)
    one = np.uint64(1)
    for position in range(len(rows)):
        met = goes_left(splits, node, x[rows[position], feature]) == left
        if not is_new:
            bit = (patterns[group[position]] >> np.uint64(slot)) & one == one
            met = met and bit != misses
        part[position] = 2 * group[position] + (met != misses)
    return part


@compiled
def _merge(part, patterns, slot):
    """Number the patterns that occur after a split.

    Groups whose patterns become equal are merged. Such groups have the same partners, so that one of them, the source,
    stands for all when pairs are formed.

    Returns:
        The new patterns; the new number of each half of an old group if that is the source, else -1; and in any case.
    """
    source, target = np.full(2 * len(patterns), -1), np.full(2 * len(patterns), -1)
    bit = np.uint64(1) << np.uint64(slot)
    new = np.empty(2 * len(patterns), np.uint64)
    present = np.zeros(2 * len(patterns), np.bool_)
    for position in range(len(part)):
        present[part[position]] = True
    size = 4
    while size < 4 * len(patterns):
        size *= 2
    seats = np.full(size, -1)  # a hash table of patterns
    count = 0
    for half in range(len(present)):
        if not present[half]:
            continue
        pattern = patterns[half >> 1] | bit if half & 1 else patterns[half >> 1] & ~bit
        seat = np.int64((pattern * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & (size - 1)
        while seats[seat] >= 0 and new[seats[seat]] != pattern:
            seat = (seat + 1) & (size - 1)
        if seats[seat] < 0:
            seats[seat] = count
            new[count] = pattern
            source[half] = count
            count += 1
        target[half] = seats[seat]
    return new[:count], source, target


@compiled
def _pair(pairs, row_source, other_source):
    """Return the living pairs of new groups: all but those in which the rows fail and the others miss."""
    living = np.empty((3 * len(pairs), 2), np.int64)
    count = 0
    for pair in range(len(pairs)):
        for met in range(2):
            row = row_source[2 * pairs[pair, 0] + met]
            if row < 0:
                continue
            for missed in range(met + 1):
                other = other_source[2 * pairs[pair, 1] + missed]
                if other >= 0:
                    living[count, 0] = row
                    living[count, 1] = other
                    count += 1
    return living[:count].copy()


@compiled
def _renumber(used, patterns):
    """Return the numbers of the groups that are in a pair, -1 for others, and their patterns."""
    name = np.full(len(patterns), -1)
    kept = np.empty(len(patterns), np.uint64)
    count = 0
    for position in range(len(used)):
        if name[used[position]] < 0:
            name[used[position]] = count
            kept[count] = patterns[used[position]]
            count += 1
    return name, kept[:count].copy()


@compiled
def _keep(rows, part, target, name):
    """Return the rows whose groups are in a pair, and their groups."""
    kept, group = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    count = 0
    for position in range(len(rows)):
        number = name[target[part[position]]]
        if number >= 0:
            kept[count] = rows[position]
            group[count] = number
            count += 1
    return kept[:count].copy(), group[:count].copy()


@compiled
def _add_leaf(y, moments, weight, sums, players, rows, row_group, met, others, other_group, missed, pairs):
    """Add a leaf's values to its rows."""
    channels, outputs, k = len(moments), len(y), len(players)
    share = np.zeros(len(missed))
    for position in range(len(others)):
        share[other_group[position]] += weight[others[position]]
    gain = np.zeros((len(met), k, channels))
    loss = np.zeros((len(met), channels))
    one = np.uint64(1)
    for pair in range(len(pairs)):
        row, other = pairs[pair]
        a, b = 0, k
        for slot in range(k):
            a += int((missed[other] >> np.uint64(slot)) & one)
            b -= int((met[row] >> np.uint64(slot)) & one)
        for channel in range(channels):
            if b:
                loss[row, channel] += share[other] * moments[channel, b - 1, a]
            if a:
                add = share[other] * moments[channel, b, a - 1]
                for slot in range(k):
                    if (missed[other] >> np.uint64(slot)) & one:
                        gain[row, slot, channel] += add
    for position in range(len(rows)):
        row = row_group[position]
        for slot in range(k):
            target = sums[rows[position], players[slot]]
            is_met = (met[row] >> np.uint64(slot)) & one
            for output in range(outputs):
                for channel in range(channels):
                    effect = gain[row, slot, channel] if is_met else -loss[row, channel]
                    target[output, channel] += y[output] * effect
