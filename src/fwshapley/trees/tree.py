"""One tree as a reader returns it, how trees become an ensemble, and what all readers check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int
from numpy import ndarray

from fwshapley.trees.ensemble import TYPES

MAX_CATEGORY_CELLS = 2**30
"""Most entries of `TreeEnsemble.category_sets`, one byte each."""

Model = Any
"""A fitted model of scikit-learn, XGBoost, LightGBM or CatBoost."""

COPIED = ("threshold", "missing_left", "cover")
"""Fields that are only strung together."""


class Tree(NamedTuple):
    """Nodes of one tree, the root first; children are numbered within the tree, and leaves have none (-1).

    Attributes:
        feature, threshold, left, right, missing_left, cover: as in `TreeEnsemble`.
        value: (nodes, outputs), read at leaves only.
        categories: the category codes that a categorical split lists, by node.
        listed_left: whether the listed codes go to the left, and all others to the right, or the other way round.
    """

    feature: Int[ndarray, " nodes"]
    threshold: Float64[ndarray, " nodes"]
    left: Int[ndarray, " nodes"]
    right: Int[ndarray, " nodes"]
    missing_left: Bool[ndarray, " nodes"]
    value: Float64[ndarray, "nodes outputs"]
    cover: Float64[ndarray, " nodes"]
    categories: Mapping[int, Int[ndarray, " codes"]] = {}
    listed_left: bool = True


def join_trees(trees: Sequence[Tree]) -> dict[str, Any]:
    """Return the arrays of a `TreeEnsemble` with these trees, by the names of its fields."""
    sizes = [len(tree.feature) for tree in trees]
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    is_leaf = np.concatenate([tree.left < 0 for tree in trees])
    arrays: dict[str, Any] = {name: np.concatenate([getattr(tree, name) for tree in trees]) for name in COPIED}
    for name in ("left", "right"):
        children = [getattr(tree, name) + root for tree, root in zip(trees, roots, strict=True)]
        arrays[name] = np.where(is_leaf, -1, np.concatenate(children))
    arrays["feature"] = np.where(is_leaf, -1, np.concatenate([tree.feature for tree in trees]))
    arrays["threshold"] = np.where(is_leaf, 0, arrays["threshold"])
    arrays["value"] = np.where(is_leaf[:, None], np.concatenate([tree.value for tree in trees]), 0)
    arrays |= {"roots": roots} | _join_categories(trees, roots, len(is_leaf))
    return {name: array.astype(TYPES[name]) for name, array in arrays.items()}


def drop_unreached(tree: Tree) -> Tree:
    """Return a tree without the nodes that pruning has cut off, which some libraries keep in their arrays."""
    reached = [np.zeros(1, dtype=np.int64)]
    while len(front := reached[-1][tree.left[reached[-1]] >= 0]) and len(reached) <= len(tree.feature):
        reached.append(np.concatenate([tree.left[front], tree.right[front]]))
    kept = np.unique(np.concatenate(reached))
    if len(kept) == len(tree.feature):
        return tree
    number = np.full(len(tree.feature), -1)
    number[kept] = np.arange(len(kept))
    arrays: dict[str, Any] = {name: getattr(tree, name)[kept] for name in ("feature", "missing_left", "value", *COPIED)}
    arrays |= {name: np.where(tree.left < 0, -1, number[getattr(tree, name)])[kept] for name in ("left", "right")}
    categories = {int(number[node]): listed for node, listed in tree.categories.items() if number[node] >= 0}
    return tree._replace(**arrays, categories=categories)


@contextmanager
def reading(library: str) -> Iterator[None]:
    """Turn what goes wrong inside a damaged or incomplete model into a ValueError that names the library."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"the {library} model cannot be read: {error}") from error
    except (KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(
            f"the {library} model is damaged, incomplete or of an unknown version ({type(error).__name__}: {error}); "
            f"save it again with save_model of {library}"
        ) from error


def in_column(values: Float64[ndarray, " nodes"], column: int, columns: int) -> Float64[ndarray, "nodes columns"]:
    """Return values in one of several columns, and zeros in the others."""
    wide = np.zeros((len(values), columns))
    wide[:, column] = values
    return wide


def name_columns(count: int) -> tuple[str, ...]:
    """Return the names of features that the model has no names for."""
    return tuple(f"column {number}" for number in range(count))


def number_outputs(count: int) -> tuple[str, ...]:
    """Return the names of outputs that the model has no names for."""
    return tuple(f"output {number}" for number in range(count))


def _join_categories(trees: Sequence[Tree], roots: Int[ndarray, " trees"], nodes: int) -> dict[str, Any]:
    """Return the fields of categorical splits; splits that list the same codes share a row."""
    categories = np.full(nodes, -1)
    unseen_left = np.zeros(nodes, dtype=bool)
    codes = 1 + max((listed.max(initial=-1) for tree in trees for listed in tree.categories.values()), default=0)
    rows: dict[bytes, int] = {}
    sets: list[Bool[ndarray, " codes"]] = []
    for tree, root in zip(trees, roots, strict=True):
        for node, listed in tree.categories.items():
            if (len(sets) + 1) * codes > MAX_CATEGORY_CELLS:  # before that memory is asked for
                raise ValueError(
                    f"a category code of {codes - 1:,} is too large for {len(sets) + 1:,} sets of categories; number "
                    "the categories 0, 1, ... before training"
                )
            goes_left = np.full(codes, not tree.listed_left)
            goes_left[listed] = tree.listed_left
            row = rows.setdefault(goes_left.tobytes(), len(sets))
            if row == len(sets):
                sets.append(goes_left)
            categories[root + node] = row
            unseen_left[root + node] = not tree.listed_left
    return {
        "categories": categories,
        "category_sets": np.array(sets) if sets else np.zeros((0, codes), dtype=bool),
        "unseen_left": unseen_left,
    }
