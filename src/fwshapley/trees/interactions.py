"""Pairwise interactions of players: tables of the mixed differences of a leaf, beside those of `code_tables`.

The interaction index of players i and j is I_ij = E[d^2/dt_i dt_j v(t)], the mean of v(S+i+j) - v(S+i) - v(S+j) + v(S).
With F, E, s and b as in `code_tables`, a leaf of value y adds

    i, j in p:            + y * sum over r in p with i and j of c(r) E(s-2, b)
    i in p, j not in p:   - y * sum over r in p with i of c(r) E(s-1, b-1)
    i, j not in p:        + y * sum over r in p of c(r) E(s, b-2).

Sums over r with i are those over all r in p less those over r in p - i.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from fwshapley._internal.compilation import compiled
from fwshapley.trees.code_tables import Targets, count_bits, leaf_patterns, pattern_law, spread_over_subsets
from fwshapley.trees.compiled import run_ranges
from fwshapley.trees.layout import Layout, arrange
from fwshapley.trees.paths import Branches


def pair_targets(branches: Branches, n_players: int) -> Targets:
    """Return the pairs of players of each branch; pair i < j has the number i n - i (i + 1) / 2 + j - i - 1."""
    slots = np.diff(branches.players)
    begin = np.concatenate([[0], np.cumsum(slots * (slots - 1) // 2)])
    name = np.empty(begin[-1], dtype=np.int32)
    for branch in range(len(slots)):
        players = branches.player[branches.players[branch] : branches.players[branch + 1]].astype(np.int64)
        first, second = np.triu_indices(len(players), 1)
        i, j = np.minimum(players[first], players[second]), np.maximum(players[first], players[second])
        name[begin[branch] : begin[branch + 1]] = i * n_players - i * (i + 1) // 2 + j - i - 1
    return Targets(begin, name)


@compiled
def weigh_sizes(
    totals: Float64[ndarray, "patterns sizes"],
    pattern: int,
    moments: Float64[ndarray, "powers powers"],
    fewer: int,
    b: int,
) -> float:
    """Return the sum over s of F_s(pattern) E(s - fewer, b); 0 if b is negative."""
    total = 0.0
    if b >= 0:
        for s in range(fewer, count_bits(pattern) + 1):
            total += totals[pattern, s] * moments[b, s - fewer]
    return total


@compiled
def _tabulate_branch(
    branches: Branches,
    branch: int,
    value: Float64[ndarray, "nodes outputs"],
    moments: Float64[ndarray, "channels powers powers"],
    counts: Float64[ndarray, " codes"],
    table: Float64[ndarray, "pairs outputs channels codes"],
) -> None:
    """Add up the interactions of the branch's leaves for each code."""
    _, outputs, channels, codes = table.shape
    slots = branches.players[branch + 1] - branches.players[branch]
    missed = np.empty(codes, np.uint32)
    most = 0
    for leaf in range(branches.leaves[branch], branches.leaves[branch + 1]):
        most = max(most, branches.factors[leaf + 1] - branches.factors[leaf])
    law, effect, scratch = np.empty(1 << most), np.empty(1 << most), np.empty((1 << most) * (most + 1))
    sums = np.empty((1 << most, 6))
    table[:] = 0
    for leaf in range(branches.leaves[branch], branches.leaves[branch + 1]):
        k = leaf_patterns(branches, leaf, missed)
        pattern_law(branches, leaf, missed, counts, law)
        totals = scratch[: (1 << k) * (k + 1)].reshape((1 << k, k + 1))
        spread_over_subsets(k, law, totals)
        full = (1 << k) - 1
        for channel in range(channels):
            for pattern in range(1 << k):
                b = k - count_bits(pattern)
                for number in range(3):  # of players taken out of the pattern: both met
                    sums[pattern, number] = weigh_sizes(totals, pattern, moments[channel], 2, b - number)
                for number in range(2):  # one met
                    sums[pattern, 3 + number] = weigh_sizes(totals, pattern, moments[channel], 1, b - 1 - number)
                sums[pattern, 5] = weigh_sizes(totals, pattern, moments[channel], 0, b - 2)
            for one in range(k):
                for other in range(one + 1, k):
                    _effects(1 << one, 1 << other, full, sums, effect)
                    row = branches.slot[branches.factors[leaf] + one]
                    column = branches.slot[branches.factors[leaf] + other]
                    if row > column:
                        row, column = column, row
                    pair = row * slots - row * (row + 1) // 2 + column - row - 1
                    for output in range(outputs):
                        y = value[branches.leaf[leaf], output]
                        entries = table[pair, output, channel]
                        for code in range(codes):
                            entries[code] += y * effect[missed[code]]


@compiled
def _effects(
    i: int, j: int, full: int, sums: Float64[ndarray, "patterns 6"], effect: Float64[ndarray, " patterns"]
) -> None:
    """Write the interaction of the players with bits i and j, by the set that the row misses."""
    for missed in range(full + 1):
        met = missed ^ full
        if met & i and met & j:
            effect[missed] = sums[met, 0] - sums[met ^ i, 1] - sums[met ^ j, 1] + sums[met ^ i ^ j, 2]
        elif met & i:
            effect[missed] = sums[met ^ i, 4] - sums[met, 3]
        elif met & j:
            effect[missed] = sums[met ^ j, 4] - sums[met, 3]
        else:
            effect[missed] = sums[met, 5]


def tabulate_pairs(
    branches: Branches,
    first: int,
    value: Float64[ndarray, "nodes outputs"],
    moments: Float64[ndarray, "channels powers powers"],
    count_offsets: Int64[ndarray, " starts"],
    counts: Float64[ndarray, " counts"],
    offsets: Int64[ndarray, " starts"],
    layout: Layout,
) -> Float64[ndarray, " numbers"]:
    """Return the tables of interactions of some branches; arguments as those of `code_tables.tabulate`."""
    tables = np.zeros(offsets[-1])
    run_ranges(
        _tabulate_pairs, len(offsets) - 1, branches, first, value, moments, count_offsets, counts, offsets, layout,
        tables,
    )  # fmt: skip
    return tables


@compiled
def _tabulate_pairs(begin, end, branches, first, value, moments, count_offsets, counts, offsets, layout, tables):
    for position in range(begin, end):
        branch = first + position
        slots = branches.players[branch + 1] - branches.players[branch]
        counted = counts[:0]
        if len(counts):
            counted = counts[count_offsets[position] : count_offsets[position + 1]]
        table = np.empty((slots * (slots - 1) // 2, value.shape[1], len(moments), 1 << branches.bits[branch]))
        _tabulate_branch(branches, branch, value, moments, counted, table)
        arrange(table, layout, tables[offsets[position] : offsets[position + 1]])
