"""Read LightGBM's models from their text.

A split sends x <= threshold to the left, in float64, and a categorical one the codes in its bitset. Where a feature had
no missing values in training, a missing value is read as 0; with `zero_as_missing`, zeros are missing too. Numbers
next to 0 are zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from fwshapley.tables.trained_categories import read_lightgbm_levels
from fwshapley.trees.ensemble import TreeEnsemble
from fwshapley.trees.tree import Model, Tree, in_column, join_trees, name_columns, number_outputs, reading

VERSIONS = ("v2", "v3", "v4")
"""Versions of the text that are read."""

VALUES = ("regression", "regression_l1", "huber", "fair", "quantile", "mape")
"""Objectives whose predictions are the sum of the trees."""

CLASSES = ("binary", "multiclass", "multiclassova")
"""Objectives of mutually exclusive classes."""

CATEGORICAL, DEFAULT_LEFT, MISSING_SHIFT, MISSING_MASK = 1, 2, 2, 3
"""Bits of a split's decision type."""

MISSING_IS_ZERO, MISSING_IS_NAN = 1, 2
"""What is missing, by decision type; 0 if nothing is."""

ZERO = float(np.float32(1e-35))
"""Numbers of at most this size are read as 0."""

BITS = 32


def read_lightgbm(model: Model) -> TreeEnsemble:
    """Return a LightGBM model as an ensemble, up to its best iteration if it stopped early.

    Args:
        model: a `Booster`, or a model with the scikit-learn interface.
    """
    source = type(model).__name__
    if hasattr(model, "model_to_string"):
        return read_lightgbm_text(model.model_to_string(), source=source)
    if not hasattr(model, "booster_") and not hasattr(model, "__sklearn_is_fitted__"):
        raise TypeError(f"model must be a Booster or a model of LightGBM, got {source}")
    if not model.__sklearn_is_fitted__():
        raise ValueError(f"model must be fitted, got an unfitted {source}; call fit first")
    classes = tuple(map(str, model.classes_)) if hasattr(model, "classes_") else ()
    return read_lightgbm_text(model.booster_.model_to_string(), source=source, classes=classes)


def read_lightgbm_text(text: str, *, source: str = "", classes: tuple[str, ...] = ()) -> TreeEnsemble:
    """Return the model that LightGBM saved as text as an ensemble.

    Args:
        text: contents of the file.
        source: class of the model.
        classes: names of the classes.
    """
    with reading("LightGBM"):
        body, _, footer = text.partition("end of trees")
        head, *blocks = body.split("\nTree=")
        header = _read_fields(head)
        if header["version"] not in VERSIONS:
            raise ValueError(f"its text has version {header['version']!r}; {', '.join(VERSIONS)} can be read")
        if not blocks or not footer:
            raise ValueError("it has no trees, or its file is cut off; train it or save it again")
        outputs = int(header["num_tree_per_iteration"])
        weight = outputs / len(blocks) if "average_output" in header else 1.0
        trees = [
            _read_tree(_read_fields(block), number % outputs, outputs, weight) for number, block in enumerate(blocks)
        ]
        objective = header.get("objective", "custom").split()
        is_value = objective[0] in VALUES and "sqrt" not in objective
        names = header["feature_names"].split()
        if len(names) != int(header["max_feature_idx"]) + 1:
            raise ValueError(f"it names {len(names)} of {int(header['max_feature_idx']) + 1} features")
        named = names != [f"Column_{number}" for number in range(len(names))]
        output_names = classes if len(classes) == outputs else classes[1:] if outputs == 1 else ()
        return TreeEnsemble(
            **join_trees([tree for tree, _ in trees]),
            base=np.zeros(outputs),
            feature_names=tuple(names) if named else name_columns(len(names)),
            named=named,
            output_names=output_names or number_outputs(outputs),
            output="value" if is_value else "margin",
            has_classes=objective[0] in CLASSES,
            input_dtype="float64",
            missing_number=_read_missing_number(trees, len(names)),
            zero_threshold=ZERO,
            levels=read_lightgbm_levels(header, footer),
            levels_in_frames=True,
            source=f"lightgbm.{source or 'Booster'}",
        )


def _read_fields(block: str) -> dict[str, str]:
    """Return the lines name=value of a block, and lines without a value."""
    return dict(line.partition("=")[::2] for line in block.splitlines() if line)


def _read_tree(
    fields: Mapping[str, str], column: int, outputs: int, weight: float
) -> tuple[Tree, Int[ndarray, " nodes"]]:
    """Return a tree, inner nodes before leaves, and for its nodes what is missing."""
    if int(fields.get("is_linear", 0)):
        raise ValueError(
            "LightGBM's linear trees (linear_tree=True) have leaves that are not constant, so no closed form is known; "
            "train with linear_tree=False"
        )
    leaves = int(fields["num_leaves"])
    inner = leaves - 1

    def at_splits(name: str, dtype: type = np.int64) -> ndarray:
        """Return a field of the inner nodes; a single leaf has none."""
        numbers: ndarray = np.array(fields[name].split() if inner else [], dtype=dtype)
        if len(numbers) != inner:
            raise IndexError(f"{name} has {len(numbers)} entries for {inner} splits")
        return numbers

    none, zeros = np.full(leaves, -1), np.zeros(leaves)
    kind = at_splits("decision_type")
    missing = kind >> MISSING_SHIFT & MISSING_MASK
    threshold = at_splits("threshold", np.float64)
    is_categorical = (kind & CATEGORICAL) > 0
    missing_left = np.where(missing == 0, threshold >= 0, (kind & DEFAULT_LEFT) > 0) & ~is_categorical
    children = [np.where(child < 0, inner + ~child, child) for child in map(at_splits, ("left_child", "right_child"))]
    values = np.array(fields["leaf_value"].split(), dtype=np.float64)
    counts = np.array(fields.get("leaf_count", "").split() or ["1"] * (leaves == 1), dtype=np.float64)
    tree = Tree(
        feature=np.append(at_splits("split_feature"), none),
        threshold=np.append(threshold, zeros),
        left=np.append(children[0], none),
        right=np.append(children[1], none),
        missing_left=np.append(missing_left, zeros > 0),
        value=in_column(np.append(np.zeros(inner), weight * values), column, outputs),
        cover=np.append(at_splits("internal_count", np.float64), counts),
        categories=_read_categories(fields, np.flatnonzero(is_categorical), threshold),
    )
    return tree, np.append(np.where(is_categorical, MISSING_IS_NAN, missing), none)


def _read_categories(
    fields: Mapping[str, str], nodes: Int[ndarray, " splits"], threshold: ndarray
) -> dict[int, ndarray]:
    """Return the codes in the bitset of each categorical split, which its threshold numbers."""
    if not len(nodes):
        return {}
    bounds = np.array(fields["cat_boundaries"].split(), dtype=np.int64)
    words = np.array(fields["cat_threshold"].split(), dtype=np.int64)
    listed = {}
    for node in nodes:
        number = int(threshold[node])
        bitset = words[bounds[number] : bounds[number + 1]]
        codes = np.arange(len(bitset) * BITS)
        listed[int(node)] = np.flatnonzero(bitset[codes // BITS] >> codes % BITS & 1)
    return listed


def _read_missing_number(trees: Sequence[tuple[Tree, ndarray]], features: int) -> Float64[ndarray, " features"]:
    """Return the number that counts as missing, which is 0 if a feature's splits say so."""
    feature = np.concatenate([tree.feature for tree, _ in trees])
    missing = np.concatenate([missing for _, missing in trees])
    zero, other = (np.zeros(features, dtype=bool) for _ in range(2))
    zero[feature[(feature >= 0) & (missing == MISSING_IS_ZERO)]] = True
    other[feature[(feature >= 0) & (missing != MISSING_IS_ZERO)]] = True
    if (zero & other).any():
        raise ValueError(
            "some trees were trained with zero_as_missing and some without, so zeros have two "
            "meanings; train all of them alike"
        )
    return np.where(zero, 0.0, np.nan)
