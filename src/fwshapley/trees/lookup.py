"""Look up tables: add the entries of each row's codes to the row's sums."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from fwshapley._internal.compilation import compiled
from fwshapley.trees.code_tables import Targets
from fwshapley.trees.compiled import VECTOR_LENGTH, add_vectors, count_cores, run_ranges
from fwshapley.trees.decisions import Splits, goes_left
from fwshapley.trees.layout import Layout
from fwshapley.trees.paths import Branches, encode_block

LANES = np.uint64(VECTOR_LENGTH)

BATCH = 64
"""Branches whose codes are computed before their tables are looked up."""

MAX_BLOCK_ROWS = 8192
"""Rows of a block: each block reads all tables from memory, so that a few large ones are best."""

MAX_BLOCK_SUMS = 2**21
"""Numbers that a block sums up: 16 MB."""


class Schedule(NamedTuple):
    """The order in which the tables of some branches are looked up: by batches of branches, then by target.

    Within a batch, all tables of a target follow each other, and a target's sums are read once for several.

    Attributes:
        n_branches: number of branches.
        runs: where the runs of tables of the same batch and target begin, and where the last one ends.
        batches: the first run of each batch, and the end of the last one.
        target: of each run.
        branch: of each table, its position in the batch.
        start: of each table, its first number.
        size: of each table, the number of its codes.
    """

    n_branches: int
    runs: Int64[ndarray, " starts"]
    batches: Int64[ndarray, " batch_starts"]
    target: Int64[ndarray, " runs"]
    branch: Int64[ndarray, " tables"]
    start: Int64[ndarray, " tables"]
    size: Int64[ndarray, " tables"]


def order_tables(
    branches: Branches,
    targets: Targets,
    first: int,
    offsets: Int64[ndarray, " starts"],
    layout: Layout,
    *,
    at_once: int = BATCH,
) -> Schedule:
    """Return the order in which the tables of some branches are looked up.

    Args:
        branches: of all trees.
        targets: of all branches.
        first: the first branch.
        offsets: where the numbers of each branch begin.
        layout: of the tables.
        at_once: branches of a batch.
    """
    count = len(offsets) - 1
    per_branch = np.diff(targets.begin[first : first + count + 1])
    branch = np.repeat(np.arange(count), per_branch)
    index = np.arange(len(branch)) - np.repeat(np.cumsum(per_branch) - per_branch, per_branch)
    bits = branches.bits[first + branch].astype(np.int64)
    start = offsets[branch] + (index * layout.padded << bits)
    name = targets.name[targets.begin[first] : targets.begin[first + count]].astype(np.int64)
    order = np.lexsort((name, branch // at_once))
    batch, name = branch[order] // at_once, name[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (batch[1:] != batch[:-1]) | (name[1:] != name[:-1])
    runs = np.flatnonzero(is_new)
    n_batches = -(-count // at_once)
    return Schedule(
        n_branches=count,
        runs=np.append(runs, len(order)),
        batches=np.searchsorted(batch[runs], np.arange(n_batches + 1)),
        target=name[runs],
        branch=branch[order] % at_once,
        start=start[order],
        size=1 << bits[order],
    )


def look_up(
    splits: Splits,
    branches: Branches,
    plan: Schedule,
    first: int,
    layout: Layout,
    tables: Float64[ndarray, " numbers"],
    x: Float64[ndarray, "rows features"],
    sums: Float64[ndarray, "rows targets width"],
) -> None:
    """Add the table entries of each row's codes to its sums.

    Args:
        splits: of the ensemble.
        branches: of all trees.
        plan: order of the tables.
        first: the first branch.
        layout: of the tables, not by code.
        tables: from `code_tables.tabulate`.
        x: the rows.
        sums: `layout.width` numbers per target.
    """
    rows, names, _ = sums.shape
    most = int(np.clip(MAX_BLOCK_SUMS // (names * layout.padded), 64, MAX_BLOCK_ROWS))
    cores = count_cores()
    n_blocks = -(-rows // (cores * most)) * cores  # as many for each core
    at_once = -(-rows // n_blocks)
    run_ranges(_look_up, -(-rows // at_once), at_once, splits, branches, plan, first, layout, tables, x, sums)


@compiled
def _look_up(first_block, last_block, at_once, splits, branches, plan, first, layout, tables, x, sums):
    rows, names, width = sums.shape
    lanes = layout.lanes
    groups = layout.padded // lanes
    for block in range(first_block, last_block):
        begin = block * at_once
        count = min(rows, begin + at_once) - begin
        columns = x[begin : begin + count].T.copy()
        codes = np.empty((BATCH, count), np.uint32)
        block_sums = np.zeros((names, groups, count, lanes))
        flat = block_sums.ravel()
        for batch in range(len(plan.batches) - 1):
            start = batch * BATCH
            encode_block(splits, branches, first + start, columns, codes, min(plan.n_branches - start, BATCH))
            for run in range(plan.batches[batch], plan.batches[batch + 1]):
                for group in range(groups):
                    base = (plan.target[run] * groups + group) * count * lanes
                    _add_run(plan, run, group, lanes, tables, codes, flat, base)
        for row in range(count):
            for name in range(names):
                for number in range(width):
                    sums[begin + row, name, number] += block_sums[name, number // lanes, row, number % lanes]


@compiled
def _add_run(plan, run, group, lanes, tables, codes, sums, base):
    """Add the entries of a run of tables to one group of a target's sums, of four tables at a time."""
    table, last = plan.runs[run], plan.runs[run + 1]
    while table + 4 <= last:
        a, a_start = _locate(plan, table, group, lanes)
        b, b_start = _locate(plan, table + 1, group, lanes)
        c, c_start = _locate(plan, table + 2, group, lanes)
        d, d_start = _locate(plan, table + 3, group, lanes)
        if lanes == 1:
            for row in range(codes.shape[1]):  # a gather, which compilers vectorize
                one = tables[a_start + np.uint64(codes[a, row])] + tables[b_start + np.uint64(codes[b, row])]
                two = tables[c_start + np.uint64(codes[c, row])] + tables[d_start + np.uint64(codes[d, row])]
                sums[base + row] += one + two
        else:
            for row in range(codes.shape[1]):
                starts = (
                    a_start + np.uint64(codes[a, row]) * LANES,
                    b_start + np.uint64(codes[b, row]) * LANES,
                    c_start + np.uint64(codes[c, row]) * LANES,
                    d_start + np.uint64(codes[d, row]) * LANES,
                )
                add_vectors(sums, base + row * VECTOR_LENGTH, tables, starts)
        table += 4
    while table < last:
        a, a_start = _locate(plan, table, group, lanes)
        for row in range(codes.shape[1]):
            if lanes == 1:
                sums[base + row] += tables[a_start + np.uint64(codes[a, row])]
            else:
                add_vectors(sums, base + row * VECTOR_LENGTH, tables, (a_start + np.uint64(codes[a, row]) * LANES,))
        table += 1


@compiled
def _locate(plan, table, group, lanes):
    """Return the position in the batch of a table's branch, and where a group of the table begins."""
    return plan.branch[table], np.uint64(plan.start[table] + group * lanes * plan.size[table])


def add_mixed(
    sums: Float64[ndarray, "rows targets ..."],
    mixing: Float64[ndarray, "channels weightings"],
    values: Float64[ndarray, "weightings rows targets outputs"],
) -> None:
    """Add weightings, combinations of channels, to values: values[w] += sum over c of mixing[c, w] * sums[c].

    Args:
        sums: (rows, targets, outputs, channels), or with the last two axes as one.
        mixing: of the channels.
        values: they are added to.
    """
    rows, targets = sums.shape[:2]
    run_ranges(_add_mixed, rows, sums.reshape(rows, targets, -1, len(mixing)), mixing.T.copy(), values)


@compiled
def _add_mixed(begin, end, sums, mixing, values):
    _, targets, outputs, channels = sums.shape
    for row in range(begin, end):
        for weighting in range(len(mixing)):
            for target in range(targets):
                for output in range(outputs):
                    total = 0.0
                    for channel in range(channels):
                        total += mixing[weighting, channel] * sums[row, target, output, channel]
                    values[weighting, row, target, output] += total


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
    """Do as `look_up`, with tables that are arranged by code: faster for a few rows, on one core."""
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
