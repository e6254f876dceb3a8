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

from fwshapley.trees.compiled import compiled, run_ranges
from fwshapley.trees.decisions import Splits, goes_left
from fwshapley.trees.paths import Branches, encode_block

ROWS_AT_ONCE = 2048
"""Rows of a block; a table's entries and a target's sums of a block stay in a core's cache."""

BATCH = 16
"""Branches whose codes are computed before their tables are looked up."""


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
    """
    tables = np.empty(offsets[-1])
    run_ranges(_tabulate, len(offsets) - 1, branches, first, value, moments, count_offsets, counts, offsets, tables)
    return tables


@compiled
def _tabulate(begin, end, branches, first, value, moments, count_offsets, counts, offsets, tables):
    for position in range(begin, end):
        branch = first + position
        slots = branches.players[branch + 1] - branches.players[branch]
        counted = counts[:0]
        if len(counts):
            counted = counts[count_offsets[position] : count_offsets[position + 1]]
        shape = (slots, value.shape[1], len(moments), 1 << branches.bits[branch])
        table = tables[offsets[position] : offsets[position + 1]].reshape(shape)
        _tabulate_branch(branches, branch, value, moments, counted, table)


class Schedule(NamedTuple):
    """The order in which the tables of some branches are looked up: by batches of branches, then by target.

    Within a batch, a target's sums stay in the core's fastest cache while all of its tables are added.

    Attributes:
        runs: where the runs of tables of the same batch and target begin, and where the last one ends.
        batches: the first run of each batch, and the end of the last one.
        target: of each run.
        branch: of each table, its position in the batch.
        start: of each table, its first number.
    """

    runs: Int64[ndarray, " starts"]
    batches: Int64[ndarray, " batch_starts"]
    target: Int64[ndarray, " runs"]
    branch: Int64[ndarray, " tables"]
    start: Int64[ndarray, " tables"]


def schedule(
    branches: Branches, targets: Targets, first: int, offsets: Int64[ndarray, " starts"], width: int
) -> Schedule:
    """Return the order in which the tables of some branches are looked up.

    Args:
        branches: of all trees.
        targets: of all branches.
        first: the first branch.
        offsets: where the numbers of each branch begin.
        width: outputs times channels.
    """
    count = len(offsets) - 1
    per_branch = np.diff(targets.begin[first : first + count + 1])
    branch = np.repeat(np.arange(count), per_branch)
    index = np.arange(len(branch)) - np.repeat(np.cumsum(per_branch) - per_branch, per_branch)
    start = offsets[branch] + (index * width << branches.bits[first + branch])
    name = targets.name[targets.begin[first] : targets.begin[first + count]].astype(np.int64)
    order = np.lexsort((name, branch // BATCH))
    batch, name = branch[order] // BATCH, name[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (batch[1:] != batch[:-1]) | (name[1:] != name[:-1])
    runs = np.flatnonzero(is_new)
    n_batches = (count + BATCH - 1) // BATCH
    return Schedule(
        runs=np.append(runs, len(order)),
        batches=np.searchsorted(batch[runs], np.arange(n_batches + 1)),
        target=name[runs],
        branch=branch[order] % BATCH,
        start=start[order],
    )


def look_up(
    splits: Splits,
    branches: Branches,
    plan: Schedule,
    first: int,
    n_branches: int,
    tables: Float64[ndarray, " numbers"],
    x: Float64[ndarray, "rows features"],
    sums: Float64[ndarray, "rows targets width"],
) -> None:
    """Add the table entries of each row's codes to its sums; `width` are the outputs times the channels."""
    run_ranges(_look_up, -(-len(x) // ROWS_AT_ONCE), splits, branches, plan, first, n_branches, tables, x, sums)


@compiled
def _look_up(first_block, last_block, splits, branches, plan, first, n_branches, tables, x, sums):
    rows, names, width = sums.shape
    for block in range(first_block, last_block):
        begin = block * ROWS_AT_ONCE
        count = min(rows, begin + ROWS_AT_ONCE) - begin
        columns = x[begin : begin + count].T.copy()
        codes = np.empty((BATCH, count), np.uint32)
        block_sums = np.zeros((names, width, count))
        for batch in range(len(plan.batches) - 1):
            start = batch * BATCH
            encode_block(splits, branches, first + start, columns, codes, min(n_branches - start, BATCH))
            _add_batch(branches.bits, plan, batch, first, tables, codes, block_sums)
        for name in range(names):
            for number in range(width):
                for row in range(count):
                    sums[begin + row, name, number] += block_sums[name, number, row]


@compiled
def _add_batch(bits, plan, batch, first, tables, codes, sums):
    """Add the table entries of a batch of branches."""
    _, width, rows = sums.shape
    runs, target_of, branch_of, start_of = plan.runs, plan.target, plan.branch, plan.start
    for run in range(plan.batches[batch], plan.batches[batch + 1]):
        target = target_of[run]
        for number in range(width):
            for table in range(runs[run], runs[run + 1]):
                branch = branch_of[table]
                size = np.int64(1) << bits[first + batch * BATCH + branch]
                start = np.uint64(start_of[table] + number * size)
                for row in range(rows):  # a gather, which compilers vectorize
                    sums[target, number, row] += tables[start + np.uint64(codes[branch, row])]


def arrange_by_code(
    branches: Branches, first: int, offsets: Int64[ndarray, " starts"], tables: Float64[ndarray, " numbers"]
) -> Float64[ndarray, " numbers"]:
    """Return tables with all numbers of a code next to each other, for `look_up_few`."""
    arranged = np.empty_like(tables)
    run_ranges(_arrange_by_code, len(offsets) - 1, branches, first, offsets, tables, arranged)
    return arranged


@compiled
def _arrange_by_code(begin, end, branches, first, offsets, tables, arranged):
    for position in range(begin, end):
        size = 1 << branches.bits[first + position]
        table = tables[offsets[position] : offsets[position + 1]].reshape((-1, size))
        arranged[offsets[position] : offsets[position + 1]] = table.T.copy().ravel()


@compiled
def look_up_few(
    splits: Splits,
    branches: Branches,
    targets: Targets,
    first: int,
    offsets: Int64[ndarray, " starts"],
    tables: Float64[ndarray, " numbers"],
    x: Float64[ndarray, "rows features"],
    sums: Float64[ndarray, "rows targets width"],
) -> None:
    """Do as `look_up`, with tables from `arrange_by_code`: faster for a few rows, on one core."""
    rows, _, width = sums.shape
    conditions, node_of, left_of, bit_of = (
        branches.conditions, branches.condition_node, branches.condition_left, branches.condition_bit
    )  # fmt: skip
    target_begin, target_name = targets.begin, targets.name
    for position in range(len(offsets) - 1):
        branch = first + position
        count = target_begin[branch + 1] - target_begin[branch]
        for row in range(rows):
            code = np.int64(0)
            for condition in range(conditions[branch], conditions[branch + 1]):
                node = node_of[condition]
                left = goes_left(splits, node, x[row, splits.feature[node]])
                if left != left_of[condition]:
                    code |= np.int64(1) << np.int64(bit_of[condition])
            start = offsets[position] + code * count * width
            for target in range(count):
                name = target_name[target_begin[branch] + target]
                for number in range(width):
                    sums[row, name, number] += tables[start]
                    start += 1
