"""Path-dependent game of deep trees: cover shares stand in for hidden features, no background is needed.

    v(S) = sum over leaves of y prod_i (s_i h_i + (1 - s_i) c_i),

where h_i is 1 if the row satisfies all of player i's splits on the path and c_i the product of their cover shares. Its
weighted Banzhaf values are polynomials in t, known completely by their values at shared nodes:

    psi_i(t) = sum over leaves of y (h_i - c_i) / f_i prod_j f_j,    f_j = t h_j + (1 - t) c_j.

One pass down a tree multiplies the factors, one pass up adds the leaves below each split. Where a player splits again
further down, its factor is replaced, and what the earlier split counted below is taken back. The cost is proportional
to nodes times shared nodes, whatever the number of weightings. Trees with few players on each path are faster by
tables; `code_tables.pattern_law` has their cover shares.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int32
from numpy import ndarray

from fwshapley._internal.compilation import compiled
from fwshapley.trees.compiled import run_ranges
from fwshapley.trees.decisions import Splits
from fwshapley.trees.ensemble import TreeEnsemble
from fwshapley.trees.paths import cover_share, find_parents, mark_edge

ROWS_AT_ONCE = 64

LOST, FAILED = np.uint32(2), np.uint32(3)
"""How a row stands at an edge: it fails this split of the player first, or failed one above. Both have the bit LOST."""


class Edges(NamedTuple):
    """The edge into each node, in an order in which parents come first.

    Attributes:
        begin: where each tree begins in `node`, and where the last one ends.
        node: the nodes, tree after tree.
        parent: position of each node's parent among its tree's nodes; -1 for the root.
        left: whether the edge is that of a left child.
        player: whose split the edge follows; -1 for the root.
        previous: position of the next edge of the same player towards the root; -1 if there is none.
        share: product of the cover shares of the player's edges up to and including this one.
    """

    begin: Int32[ndarray, " starts"]
    node: Int32[ndarray, " nodes"]
    parent: Int32[ndarray, " nodes"]
    left: Bool[ndarray, " nodes"]
    player: Int32[ndarray, " nodes"]
    previous: Int32[ndarray, " nodes"]
    share: Float64[ndarray, " nodes"]


def find_edges(
    splits: Splits,
    cover: Float64[ndarray, " nodes"],
    roots: Int32[ndarray, " trees"],
    player_of: Int32[ndarray, " features"],
) -> Edges:
    """Return the edges of some trees.

    Args:
        splits: `TreeEnsemble.splits`.
        cover: `TreeEnsemble.cover`.
        roots: of the trees.
        player_of: the player that each feature belongs to.
    """
    return Edges(*_find_edges(splits, cover, roots, player_of, find_parents(splits)))


@compiled
def _find_edges(splits, cover, roots, player_of, parent):
    size = len(parent)
    begin = np.zeros(len(roots) + 1, np.int32)
    node = np.empty(size, np.int32)
    above, player, previous = np.full(size, -1, np.int32), np.full(size, -1, np.int32), np.full(size, -1, np.int32)
    left, share = np.zeros(size, np.bool_), np.ones(size)
    place = np.empty(size, np.int32)  # of a node among its tree's nodes
    count = 0
    for tree in range(len(roots)):
        begin[tree] = count
        node[count] = roots[tree]
        end = count + 1
        while count < end:
            here = node[count]
            place[here] = count - begin[tree]
            if parent[here] >= 0:
                top = parent[here]
                above[count] = place[top]
                left[count] = splits.left[top] == here
                player[count] = player_of[splits.feature[top]]
                share[count] = cover_share(splits, cover, top, here)
                earlier = place[top]
                while earlier >= 0:
                    if player[begin[tree] + earlier] == player[count]:
                        previous[count] = earlier
                        share[count] *= share[begin[tree] + earlier]
                        break
                    earlier = above[begin[tree] + earlier]
            if splits.feature[here] >= 0:
                node[end], node[end + 1] = splits.left[here], splits.right[here]
                end += 2
            count += 1
    begin[len(roots)] = count
    return begin, node[:count], above[:count], left[:count], player[:count], previous[:count], share[:count]


def values_at_nodes(
    splits: Splits,
    edges: Edges,
    value: Float64[ndarray, "nodes outputs"],
    t: Float64[ndarray, " points"],
    x: Float64[ndarray, "rows features"],
    sums: Float64[ndarray, "rows players outputs points"],
) -> None:
    """Add each row's weighted Banzhaf values psi(t), at all shared nodes t, to its sums."""
    longest = int(np.diff(edges.begin).max(initial=0))
    run_ranges(_add_blocks, -(-len(x) // ROWS_AT_ONCE), splits, edges, value, t, x, longest, sums)


@compiled
def _add_blocks(first_block, last_block, splits, edges, value, t, x, longest, sums):
    rows, players, outputs, points = sums.shape
    for block in range(first_block, last_block):
        first = block * ROWS_AT_ONCE
        count = min(rows, first + ROWS_AT_ONCE) - first
        columns = x[first : first + count].T.copy()
        state = np.empty((longest, count), np.uint32)
        product, below = np.empty((longest, count)), np.empty((longest, count))
        block_sums = np.zeros((outputs, points, players, count))
        for tree in range(len(edges.begin) - 1):
            begin, end = edges.begin[tree], edges.begin[tree + 1]
            _mark_states(splits, edges, begin, end, columns, state)
            for point in range(points):
                _multiply_down(edges, begin, end, t[point], state, product)
                for output in range(outputs):
                    _add_up(
                        splits, edges, begin, end, t[point], state, product, value[:, output], below,
                        block_sums[output, point],
                    )  # fmt: skip
        for row in range(count):
            for player in range(players):
                for output in range(outputs):
                    for point in range(points):
                        sums[first + row, player, output, point] += block_sums[output, point, player, row]


@compiled
def _mark_states(splits, edges, begin, end, columns, state):
    """Write how each row stands at each edge: 0 if it satisfies all of the player's splits so far."""
    for position in range(1, end - begin):
        edge = begin + position
        marks = state[position]
        marks[:] = 0
        top = edges.node[begin + edges.parent[edge]]
        mark_edge(splits, top, edges.left[edge], columns, LOST, state, position)
        previous = edges.previous[edge]
        if previous >= 0:
            earlier = state[previous]
            for row in range(len(marks)):
                marks[row] = FAILED if earlier[row] & LOST else marks[row]


@compiled
def _multiply_down(edges, begin, end, t, state, product):
    """Write the product of all players' factors up to each edge."""
    product[0] = 1
    for position in range(1, end - begin):
        edge = begin + position
        previous = edges.previous[edge]
        hidden = (1 - t) * edges.share[edge]
        met, lost, failed = t + hidden, hidden, hidden  # the ratio of the new factor to the one it replaces
        if previous >= 0:
            before = (1 - t) * edges.share[begin + previous]
            met /= t + before
            lost /= t + before
            failed = hidden / before if before > 0 else 0.0
        source, target, marks = product[edges.parent[edge]], product[position], state[position]
        for row in range(len(marks)):
            mark = marks[row]
            target[row] = source[row] * (met if mark == 0 else (lost if mark == LOST else failed))


@compiled
def _add_up(splits, edges, begin, end, t, state, product, value, below, sums):
    """Add up the leaves below each edge, and what its player gains by them."""
    below[: end - begin] = 0
    for position in range(end - begin - 1, 0, -1):
        edge = begin + position
        total, marks, target = below[position], state[position], sums[edges.player[edge]]
        node = edges.node[edge]
        if splits.feature[node] < 0:
            y = value[node]
            for row in range(len(marks)):
                total[row] = y * product[position, row]
        share = edges.share[edge]
        met = (1 - share) / (t + (1 - t) * share)
        failed = -1 / (1 - t) if share > 0 else 0.0  # (0 - share) / ((1 - t) share)
        met_before, failed_before = 0.0, 0.0
        if edges.previous[edge] >= 0:
            before = edges.share[begin + edges.previous[edge]]
            met_before = (1 - before) / (t + (1 - t) * before)
            failed_before = -1 / (1 - t) if before > 0 else 0.0
        kept, lost, gone = met - met_before, failed - met_before, failed - failed_before
        up = below[edges.parent[edge]]
        for row in range(len(marks)):
            mark = marks[row]
            target[row] += total[row] * (kept if mark == 0 else (lost if mark == LOST else gone))
            up[row] += total[row]


def cover_means(ensemble: TreeEnsemble) -> Float64[ndarray, "nodes outputs"]:
    """Return the mean value of the leaves below each node, weighted by cover shares."""
    return _cover_means(ensemble.splits, ensemble.cover, ensemble.roots, ensemble.value)


@compiled
def _cover_means(splits, cover, roots, value):
    means = value.copy()
    order = np.empty(len(cover), np.int32)
    order[: len(roots)] = roots
    end = len(roots)
    for position in range(len(cover)):
        node = order[position]
        if splits.feature[node] >= 0:
            order[end], order[end + 1] = splits.left[node], splits.right[node]
            end += 2
    for position in range(len(cover) - 1, -1, -1):
        node = order[position]
        if splits.feature[node] >= 0:
            share = cover_share(splits, cover, node, splits.left[node])
            means[node] = share * means[splits.left[node]] + (1 - share) * means[splits.right[node]]
    return means
