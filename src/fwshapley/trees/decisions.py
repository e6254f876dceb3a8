"""The decision of a split, and the leaf of each tree that a row reaches: one rule, which all engines call."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int32
from numpy import ndarray

from fwshapley._internal.compilation import compiled
from fwshapley.trees.compiled import run_ranges


class Splits(NamedTuple):
    """Arrays over all nodes that decide where a row goes; `TreeEnsemble` documents them."""

    feature: Int32[ndarray, " nodes"]
    threshold: Float64[ndarray, " nodes"]
    left: Int32[ndarray, " nodes"]
    right: Int32[ndarray, " nodes"]
    missing_left: Bool[ndarray, " nodes"]
    categories: Int32[ndarray, " nodes"]
    category_sets: Bool[ndarray, "sets codes"]
    unseen_left: Bool[ndarray, " nodes"]


@compiled
def goes_left(splits: Splits, node: int, x: float) -> bool:
    """Whether a value goes to the left child of an inner node.

    Args:
        splits: `TreeEnsemble.splits`.
        node: the inner node.
        x: value of the node's feature in a row that `TreeEnsemble.encode` returned; NaN is a missing value.
    """
    if np.isnan(x):
        return splits.missing_left[node]
    row = splits.categories[node]
    if row < 0:
        return x <= splits.threshold[node]
    if x < 0 or x >= splits.category_sets.shape[1]:
        return splits.unseen_left[node]
    return splits.category_sets[row, int(x)]


@compiled
def find_leaf(splits: Splits, root: int, x: Float64[ndarray, " features"]) -> int:
    """Return the leaf that a row reaches from a root."""
    node = root
    while splits.feature[node] >= 0:
        left = goes_left(splits, node, x[splits.feature[node]])
        node = splits.left[node] if left else splits.right[node]
    return node


def find_leaves(
    splits: Splits, roots: Int32[ndarray, " trees"], x: Float64[ndarray, "rows features"]
) -> Int32[ndarray, "rows trees"]:
    """Return the leaf that each row reaches in each tree."""
    leaves = np.empty((len(x), len(roots)), dtype=np.int32)
    run_ranges(_find_leaves, len(x), splits, roots, x, leaves)
    return leaves


@compiled
def _find_leaves(begin, end, splits, roots, x, leaves):
    for row in range(begin, end):
        for tree in range(len(roots)):
            leaves[row, tree] = find_leaf(splits, roots[tree], x[row])


def sum_leaf_values(
    splits: Splits,
    roots: Int32[ndarray, " trees"],
    value: Float64[ndarray, "nodes outputs"],
    x: Float64[ndarray, "rows features"],
) -> Float64[ndarray, "rows outputs"]:
    """Return the sum of the values of the leaves that each row reaches."""
    sums = np.zeros((len(x), value.shape[1]))
    run_ranges(_sum_leaf_values, len(x), splits, roots, value, x, sums)
    return sums


@compiled
def _sum_leaf_values(begin, end, splits, roots, value, x, sums):
    for row in range(begin, end):
        for tree in range(len(roots)):
            leaf = find_leaf(splits, roots[tree], x[row])
            for output in range(value.shape[1]):
                sums[row, output] += value[leaf, output]
