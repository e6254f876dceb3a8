"""Values of every code of a branch: computed once per branch, then looked up for each row.

Take a leaf with k players on its path. A row satisfies a set p of them; what stands in for hidden features misses a set
r, with probability c(r). The leaf is reached by a coalition only if every player is satisfied by the row or by the
stand-in, that is if r is a subset of p. Then the row's side decides for the players A = r, and the stand-in's for
B = not p, so that with E(m, l) = E[t^m (1-t)^l], s = |r| and b = k - |p| the leaf's value y adds

    for i in p:      + y * sum over r in p with i of c(r) E(s-1, b)  =  y (U(p) - V(p - i))
    for i not in p:  - y * sum over r in p of c(r) E(s, b-1)         = -y W(p)

    U(p) = sum_s F_s(p) E(s-1, b),    V(p) = sum_s F_s(p) E(s-1, b-1),    W(p) = sum_s F_s(p) E(s, b-1),

where F_s(p) is the total c(r) of the subsets r of p of size s. One transform over the k bits gives F for all p, in
k**2 2**(k-1) additions. The table of a branch adds up its leaves. The game is only in c: shares of the background
that have each pattern (interventional), or products of cover shares (path-dependent).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int32, Int64, UInt32
from numpy import ndarray

from fwshapley._internal.compilation import compiled
from fwshapley.trees.compiled import run_ranges
from fwshapley.trees.layout import Layout, arrange
from fwshapley.trees.paths import Branches


class Targets(NamedTuple):
    """What the tables of each branch are about: players, or pairs of players.

    Attributes:
        begin: where the targets of each branch begin in `name`.
        name: number of each target among those of all branches.
    """

    begin: Int64[ndarray, " starts"]
    name: Int32[ndarray, " targets"]


@compiled
def spread_over_subsets(
    k: int, probability: Float64[ndarray, " patterns"], totals: Float64[ndarray, "patterns sizes"]
) -> None:
    """Write F: for each pattern and size, the total probability of the pattern's subsets of this size."""
    totals[:] = 0
    for pattern in range(1 << k):
        totals[pattern, count_bits(pattern)] = probability[pattern]
    for player in range(k):
        bit = 1 << player
        for pattern in range(1 << k):
            if pattern & bit:
                for size in range(k + 1):
                    totals[pattern, size] += totals[pattern ^ bit, size]


@compiled
def count_bits(pattern: int) -> int:
    """Return the number of set bits."""
    count = 0
    while pattern:
        pattern &= pattern - 1
        count += 1
    return count


@compiled
def leaf_patterns(branches: Branches, leaf: int, missed: UInt32[ndarray, " codes"]) -> int:
    """Write, for each code, the players that it misses on the leaf's path; return the number of these players."""
    first = branches.factors[leaf]
    k = branches.factors[leaf + 1] - first
    missed[:] = 0
    for player in range(k):
        care = branches.care[first + player]
        want = branches.want[first + player]
        bit = np.uint32(player)
        for code in range(len(missed)):
            missed[code] |= np.uint32((np.uint32(code) & care) != want) << bit
    return k


@compiled
def pattern_law(
    branches: Branches,
    leaf: int,
    missed: UInt32[ndarray, " codes"],
    counts: Float64[ndarray, " codes"],
    law: Float64[ndarray, " patterns"],
) -> None:
    """Write the probability that a stand-in misses each set of players: by counts of codes, or cover shares if none."""
    first = branches.factors[leaf]
    k = branches.factors[leaf + 1] - first
    if len(counts):
        law[: 1 << k] = 0
        for code in range(len(missed)):
            law[missed[code]] += counts[code]
        return
    law[0] = 1
    for player in range(k):
        share = branches.share[first + player]
        for pattern in range(1 << player):
            law[pattern | (1 << player)] = law[pattern] * (1 - share)
            law[pattern] *= share


@compiled
def contract(
    k: int,
    totals: Float64[ndarray, "patterns sizes"],
    moments: Float64[ndarray, "powers powers"],
    u: Float64[ndarray, " patterns"],
    v: Float64[ndarray, " patterns"],
    w: Float64[ndarray, " patterns"],
) -> None:
    """Write U, V and W of one channel; its moments are indexed by l and m."""
    for pattern in range(1 << k):
        size = count_bits(pattern)
        b = k - size
        u_sum, v_sum, w_sum = 0.0, 0.0, 0.0
        for s in range(1, size + 1):
            u_sum += totals[pattern, s] * moments[b, s - 1]
        if b:
            for s in range(1, size + 1):
                v_sum += totals[pattern, s] * moments[b - 1, s - 1]
            for s in range(size + 1):
                w_sum += totals[pattern, s] * moments[b - 1, s]
        u[pattern] = u_sum
        v[pattern] = v_sum
        w[pattern] = w_sum


@compiled
def _tabulate_branch(
    branches: Branches,
    branch: int,
    value: Float64[ndarray, "nodes outputs"],
    moments: Float64[ndarray, "channels powers powers"],
    counts: Float64[ndarray, " codes"],
    table: Float64[ndarray, "slots outputs channels codes"],
) -> None:
    """Add up the values of the branch's leaves for each code."""
    _, outputs, channels, codes = table.shape
    missed = np.empty(codes, np.uint32)
    most = 0
    for leaf in range(branches.leaves[branch], branches.leaves[branch + 1]):
        most = max(most, branches.factors[leaf + 1] - branches.factors[leaf])
    law, effect = np.empty(1 << most), np.empty(1 << most)
    u, v, w = np.empty(1 << most), np.empty(1 << most), np.empty(1 << most)
    scratch = np.empty((1 << most) * (most + 1))
    table[:] = 0
    for leaf in range(branches.leaves[branch], branches.leaves[branch + 1]):
        k = leaf_patterns(branches, leaf, missed)
        pattern_law(branches, leaf, missed, counts, law)
        totals = scratch[: (1 << k) * (k + 1)].reshape((1 << k, k + 1))
        spread_over_subsets(k, law, totals)
        full = np.uint32((1 << k) - 1)
        for channel in range(channels):
            contract(k, totals, moments[channel], u, v, w)
            for player in range(k):
                bit = 1 << player
                for pattern in range(1 << k):  # by the set that the row misses, as its code has it
                    met = pattern ^ full
                    effect[pattern] = u[met] - v[met ^ bit] if met & bit else -w[met]
                slot = branches.slot[branches.factors[leaf] + player]
                for output in range(outputs):
                    y = value[branches.leaf[leaf], output]
                    entries = table[slot, output, channel]
                    for code in range(codes):
                        entries[code] += y * effect[missed[code]]


def tabulate(
    branches: Branches,
    first: int,
    value: Float64[ndarray, "nodes outputs"],
    moments: Float64[ndarray, "channels powers powers"],
    count_offsets: Int64[ndarray, " starts"],
    counts: Float64[ndarray, " counts"],
    offsets: Int64[ndarray, " starts"],
    layout: Layout,
) -> Float64[ndarray, " numbers"]:
    """Return the tables of some branches, one after another; each has an entry per slot, output, channel and code.

    Args:
        branches: of all trees.
        first: the first branch; there are as many as `offsets` has tables.
        value: (nodes, outputs), values of the leaves.
        moments: of the channels.
        count_offsets: where the codes of each of these branches begin in `counts`.
        counts: share of the background with each code of each branch; empty for cover shares.
        offsets: where each table begins.
        layout: of the tables.
    """
    tables = np.zeros(offsets[-1])
    run_ranges(
        _tabulate, len(offsets) - 1, branches, first, value, moments, count_offsets, counts, offsets, layout, tables
    )
    return tables


@compiled
def _tabulate(begin, end, branches, first, value, moments, count_offsets, counts, offsets, layout, tables):
    for position in range(begin, end):
        branch = first + position
        slots = branches.players[branch + 1] - branches.players[branch]
        counted = counts[:0]
        if len(counts):
            counted = counts[count_offsets[position] : count_offsets[position + 1]]
        table = np.empty((slots, value.shape[1], len(moments), 1 << branches.bits[branch]))
        _tabulate_branch(branches, branch, value, moments, counted, table)
        arrange(table, layout, tables[offsets[position] : offsets[position + 1]])
