"""Branches of trees: groups of leaves whose values depend on a row through one short code.

A leaf asks of a row only which players on its path it satisfies: a player misses the leaf if it fails any of the path's
splits on its features. Leaves that are close to each other share most of their path, so a *branch* is the path from a
root to a node together with all leaves below it. Bits of a row's code for a branch:

- one per player on the path to the node: whether the row fails any of the player's splits there;
- one per split below the node: whether the row goes to the right.

Each leaf of the branch reads its own players' misses from the code. Long paths have long codes; a branch gets larger
until its code would have more than `most_bits` bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64, UInt8, UInt32
from numpy import ndarray

from fwshapley._internal.compilation import compiled
from fwshapley.trees.decisions import Splits, goes_left


class Branches(NamedTuple):
    """All branches of some trees, as flat arrays with offsets.

    Attributes:
        bits: number of bits of a branch's code.
        conditions, condition_node, condition_left, condition_bit: per branch, the splits that make up the code: the bit
            is set if the row does not go to the named side.
        players, player: per branch, the players of its leaves.
        leaves, leaf: per branch, its leaves, as indices of nodes.
        factors, slot, care, want, share: per leaf, the players on its path: the position among the branch's players;
            the row satisfies the player's splits if `code & care == want`; and the product of the cover shares of
            those splits.
    """

    bits: Int32[ndarray, " branches"]
    conditions: Int64[ndarray, " starts"]
    condition_node: Int32[ndarray, " conditions"]
    condition_left: Bool[ndarray, " conditions"]
    condition_bit: UInt8[ndarray, " conditions"]
    players: Int64[ndarray, " starts"]
    player: Int32[ndarray, " slots"]
    leaves: Int64[ndarray, " starts"]
    leaf: Int32[ndarray, " leaves"]
    factors: Int64[ndarray, " leaf_starts"]
    slot: Int32[ndarray, " factors"]
    care: UInt32[ndarray, " factors"]
    want: UInt32[ndarray, " factors"]
    share: Float64[ndarray, " factors"]


def find_branches(
    splits: Splits,
    cover: Float64[ndarray, " nodes"],
    roots: Int32[ndarray, " trees"],
    player_of: Int32[ndarray, " features"],
    most_bits: int,
) -> Branches:
    """Return the branches of some trees, in the order of the trees.

    Args:
        splits: `TreeEnsemble.splits`.
        cover: `TreeEnsemble.cover`.
        roots: of the trees.
        player_of: the player that each feature belongs to.
        most_bits: longest code of a branch of several leaves; a leaf on its own takes a bit per player on its path.
    """
    parent = find_parents(splits)
    tops = _find_tops(splits, parent, roots, player_of, count_splits(splits, roots), most_bits)
    counts = _lay_out(splits, cover, parent, player_of, tops, _allocate(np.zeros(5, dtype=np.int64)), False)
    branches = _allocate(counts)
    _lay_out(splits, cover, parent, player_of, tops, branches, True)
    return branches


def find_parents(splits: Splits) -> Int32[ndarray, " nodes"]:
    """Return the parent of each node, -1 for roots."""
    parent = np.full(len(splits.feature), -1, dtype=np.int32)
    inner = np.flatnonzero(splits.feature >= 0)
    parent[splits.left[inner]] = inner
    parent[splits.right[inner]] = inner
    return parent


def _allocate(counts: Int64[ndarray, " 5"]) -> Branches:
    """Return empty arrays for some numbers of branches, conditions, players, leaves and factors."""
    branches, conditions, players, leaves, factors = map(int, counts)
    return Branches(
        bits=np.zeros(branches, dtype=np.int32),
        conditions=np.zeros(branches + 1, dtype=np.int64),
        condition_node=np.zeros(conditions, dtype=np.int32),
        condition_left=np.zeros(conditions, dtype=np.bool_),
        condition_bit=np.zeros(conditions, dtype=np.uint8),
        players=np.zeros(branches + 1, dtype=np.int64),
        player=np.zeros(players, dtype=np.int32),
        leaves=np.zeros(branches + 1, dtype=np.int64),
        leaf=np.zeros(leaves, dtype=np.int32),
        factors=np.zeros(leaves + 1, dtype=np.int64),
        slot=np.zeros(factors, dtype=np.int32),
        care=np.zeros(factors, dtype=np.uint32),
        want=np.zeros(factors, dtype=np.uint32),
        share=np.zeros(factors),
    )


@compiled
def count_splits(splits: Splits, roots: Int32[ndarray, " trees"]) -> Int32[ndarray, " nodes"]:
    """Return the number of splits in the subtree of each node."""
    below = np.zeros(len(splits.feature), dtype=np.int32)
    order = np.empty(len(splits.feature), dtype=np.int32)
    for tree in range(len(roots)):
        order[0] = roots[tree]
        count = 1
        position = 0
        while position < count:
            node = order[position]
            if splits.feature[node] >= 0:
                order[count] = splits.left[node]
                order[count + 1] = splits.right[node]
                count += 2
            position += 1
        for reverse in range(count):
            node = order[count - 1 - reverse]
            if splits.feature[node] >= 0:
                below[node] = 1 + below[splits.left[node]] + below[splits.right[node]]
    return below


@compiled
def count_players(
    splits: Splits, roots: Int32[ndarray, " trees"], player_of: Int32[ndarray, " features"]
) -> Int32[ndarray, " trees"]:
    """Return the most different players on a path of each tree."""
    size = len(splits.feature)
    n_players = player_of.max() + 1 if len(player_of) else 0
    times = np.zeros(n_players, dtype=np.int32)
    stack = np.empty(2 * size + 2, dtype=np.int32)
    most = np.zeros(len(roots), dtype=np.int32)
    for tree in range(len(roots)):
        stack[0] = roots[tree]
        top = 1
        distinct = 0
        while top:
            top -= 1
            node = stack[top]
            if node < 0:  # leaving the subtree of split -node - 1
                player = player_of[splits.feature[-node - 1]]
                times[player] -= 1
                distinct -= times[player] == 0
            elif splits.feature[node] >= 0:
                player = player_of[splits.feature[node]]
                distinct += times[player] == 0
                times[player] += 1
                stack[top] = -node - 1
                stack[top + 1] = splits.left[node]
                stack[top + 2] = splits.right[node]
                top += 3
            else:
                most[tree] = max(most[tree], distinct)
    return most


@compiled
def cover_share(splits: Splits, cover: Float64[ndarray, " nodes"], node: int, child: int) -> float:
    """Share of the training weight of a node's children that one of them has; one half if they have none.

    XGBoost rounds weights, so that those of the children do not add up to the node's.
    """
    below = cover[splits.left[node]] + cover[splits.right[node]]
    return cover[child] / below if below > 0 else 0.5


@compiled
def _find_tops(
    splits: Splits,
    parent: Int32[ndarray, " nodes"],
    roots: Int32[ndarray, " trees"],
    player_of: Int32[ndarray, " features"],
    below: Int32[ndarray, " nodes"],
    most_bits: int,
) -> Int32[ndarray, " branches"]:
    """Return the node at the top of each branch."""
    tops = np.empty(len(parent), dtype=np.int32)
    stack = np.empty(len(parent) + 1, dtype=np.int32)
    seen = np.full(player_of.max() + 1 if len(player_of) else 0, -1, dtype=np.int32)
    count = 0
    for tree in range(len(roots)):
        stack[0] = roots[tree]
        height = 1
        while height:
            height -= 1
            node = stack[height]
            distinct = 0
            above = parent[node]
            while above >= 0:
                player = player_of[splits.feature[above]]
                distinct += seen[player] != node
                seen[player] = node
                above = parent[above]
            if splits.feature[node] < 0 or distinct + below[node] <= most_bits:
                tops[count] = node
                count += 1
            else:
                stack[height] = splits.right[node]
                stack[height + 1] = splits.left[node]
                height += 2
    return tops[:count].copy()


@compiled
def _lay_out(
    splits: Splits,
    cover: Float64[ndarray, " nodes"],
    parent: Int32[ndarray, " nodes"],
    player_of: Int32[ndarray, " features"],
    tops: Int32[ndarray, " branches"],
    out: Branches,
    fill: bool,  # noqa: FBT001 - numba takes no keywords
) -> Int64[ndarray, " 5"]:
    """Count branches, conditions, players, leaves and factors; write them if `fill`."""
    slot_of = np.full(player_of.max() + 1 if len(player_of) else 0, -1, dtype=np.int32)  # of a player in the branch
    factor_of = np.full(len(slot_of), -1, dtype=np.int64)  # of a player on a leaf's path
    members = np.empty(len(slot_of), dtype=np.int32)  # players of the branch
    bit_of = np.full(len(parent), -1, dtype=np.int32)  # of a split at or below the branch's top
    stack = np.empty(len(parent) + 1, dtype=np.int32)
    conditions, players, leaves, factors = 0, 0, 0, 0
    for branch in range(len(tops)):
        slots = 0
        child = tops[branch]
        while parent[child] >= 0:
            node = parent[child]
            player = player_of[splits.feature[node]]
            if slot_of[player] < 0:
                slot_of[player] = slots
                members[slots] = player
                slots += 1
            if fill:
                out.condition_node[conditions] = node
                out.condition_left[conditions] = splits.left[node] == child
                out.condition_bit[conditions] = slot_of[player]
            conditions += 1
            child = node
        bits = slots
        stack[0] = tops[branch]
        height = 1
        while height:
            height -= 1
            top = stack[height]
            if splits.feature[top] >= 0:
                player = player_of[splits.feature[top]]
                if slot_of[player] < 0:
                    slot_of[player] = slots
                    members[slots] = player
                    slots += 1
                if fill:
                    out.condition_node[conditions] = top
                    out.condition_left[conditions] = True
                    out.condition_bit[conditions] = bits
                conditions += 1
                bit_of[top] = bits
                bits += 1
                stack[height] = splits.right[top]
                stack[height + 1] = splits.left[top]
                height += 2
                continue
            if fill:
                out.leaf[leaves] = top
            child = top
            while parent[child] >= 0:
                node = parent[child]
                player = player_of[splits.feature[node]]
                if factor_of[player] < 0:
                    factor_of[player] = factors
                    if fill:
                        out.slot[factors] = slot_of[player]
                        out.share[factors] = 1
                    factors += 1
                if fill:
                    factor = factor_of[player]
                    inside = bit_of[node] >= 0
                    bit = np.uint32(1) << np.uint32(bit_of[node] if inside else slot_of[player])
                    out.care[factor] |= bit
                    if inside and splits.right[node] == child:
                        out.want[factor] |= bit
                    out.share[factor] *= cover_share(splits, cover, node, child)
                child = node
            leaves += 1
            child = top
            while parent[child] >= 0:
                child = parent[child]
                factor_of[player_of[splits.feature[child]]] = -1
            if fill:
                out.factors[leaves] = factors
        if fill:
            out.bits[branch] = bits
            out.player[players : players + slots] = members[:slots]
        slot_of[members[:slots]] = -1
        players += slots
        if fill:
            out.conditions[branch + 1], out.players[branch + 1], out.leaves[branch + 1] = conditions, players, leaves
    return np.array([len(tops), conditions, players, leaves, factors])


@compiled
def encode_block(
    splits: Splits,
    branches: Branches,
    first: int,
    columns: Float64[ndarray, "features rows"],
    codes: UInt32[ndarray, "branches rows"],
    count: int,
) -> None:
    """Write the code of each row for some branches, from the first one on."""
    node_of, left_of, bit_of = branches.condition_node, branches.condition_left, branches.condition_bit
    feature, threshold, missing_left, categories = (
        splits.feature, splits.threshold, splits.missing_left, splits.categories
    )  # fmt: skip
    for position in range(count):
        codes[position] = 0
        for condition in range(branches.conditions[first + position], branches.conditions[first + position + 1]):
            node = node_of[condition]
            left = left_of[condition]
            bit = np.uint32(1) << np.uint32(bit_of[condition])
            if categories[node] >= 0:
                _mark_categorical(splits, node, left, columns, bit, codes, position)
            else:
                mark_failures(threshold[node], missing_left[node], left, columns, feature[node], bit, codes, position)


@compiled
def mark_failures(threshold, missing_left, left, columns, feature, bit, codes, position):
    """Set a bit in the codes of the rows that do not go to a side of a numerical split.

    The rule is that of `goes_left`, for a whole column: comparisons with NaN are false.
    """
    zero = np.uint32(0)
    to_left, to_right = (zero, bit) if left else (bit, zero)
    if missing_left:
        for row in range(codes.shape[1]):
            codes[position, row] |= to_right if columns[feature, row] > threshold else to_left
    else:
        for row in range(codes.shape[1]):
            codes[position, row] |= to_left if columns[feature, row] <= threshold else to_right


@compiled
def _mark_categorical(splits, node, left, columns, bit, codes, position):
    """Do as `mark_failures` for any split."""
    feature = splits.feature[node]
    for row in range(codes.shape[1]):
        if goes_left(splits, node, columns[feature, row]) != left:
            codes[position, row] |= bit


@compiled
def mark_edge(splits, node, left, columns, bit, codes, position):
    """Set a bit in the codes of the rows that do not go to a side of a split."""
    if splits.categories[node] >= 0:
        _mark_categorical(splits, node, left, columns, bit, codes, position)
    else:
        mark_failures(
            splits.threshold[node], splits.missing_left[node], left, columns, splits.feature[node], bit, codes, position
        )
