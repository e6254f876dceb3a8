"""Read CatBoost's models from their JSON.

A split sends x > border to the right, in float32; a symmetric tree has one split per level. A missing value is the
smallest or the largest number, as the feature says. A one-hot split sends one category to the right; the JSON has a
hash of it, which CatBoost computes for us. Splits on statistics of categories (CTR) are refused.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from fwshapley._internal.arrays import to_numpy
from fwshapley._internal.checks import Array
from fwshapley.trees.ensemble import TreeEnsemble
from fwshapley.trees.row_encoding import TABLE_DIMENSIONS, is_missing, to_text
from fwshapley.trees.tree import Model, Tree, join_trees, name_columns, number_outputs, reading

VALUES = {"Expectile", "Huber", "Lq", "MAE", "MAPE", "MultiQuantile", "MultiRMSE", "Quantile", "RMSE"}
"""Losses whose predictions are the sum of the trees."""

CLASSES = {"CrossEntropy", "Focal", "Logloss", "MultiClass", "MultiClassOneVsAll"}
"""Losses of mutually exclusive classes."""


class Split(NamedTuple):
    """One split: x > threshold goes to the right, or the listed category."""

    feature: int
    threshold: float
    missing_left: bool
    listed: Int[ndarray, " codes"] | None


LEAF = Split(-1, 0, missing_left=True, listed=None)


class SplitRules(NamedTuple):
    """What the splits of a model refer to.

    Attributes:
        floats, categorical: the features, in CatBoost's numbering.
        codes: code of each category, by its hash.
    """

    floats: Sequence[Mapping[str, Any]]
    categorical: Sequence[Mapping[str, Any]]
    codes: Mapping[int, int]


def read_catboost(model: Model, categories: Array | None = None) -> TreeEnsemble:
    """Return a CatBoost model as an ensemble.

    Args:
        model: a fitted model.
        categories: rows that contain every category of the training data.
    """
    source = type(model).__name__
    if not hasattr(model, "save_model"):
        raise TypeError(f"model must be a model of CatBoost, got {source}")
    if not model.is_fitted():
        raise ValueError(f"model must be fitted, got an unfitted {source}; call fit first")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        try:
            model.save_model(str(path), format="json")
        except Exception as error:
            if type(error).__name__ != "CatBoostError":
                raise
            raise ValueError(
                f"CatBoost cannot save this model as JSON ({error}); train without text and embedding features"
            ) from error
        document = json.loads(path.read_text(encoding="utf-8"))
    hashes = {} if categories is None else _read_hashes(model, categories)
    return read_catboost_json(document, source=source, hashes=hashes)


def read_catboost_json(
    document: Mapping[str, Any], *, source: str = "", hashes: Mapping[str, int] | None = None
) -> TreeEnsemble:
    """Return the model that CatBoost saved as JSON as an ensemble.

    Args:
        document: the parsed JSON.
        source: class of the model.
        hashes: CatBoost's hash of every category.
    """
    with reading("CatBoost"):
        info, features = document["model_info"], document["features_info"]
        scale, bias = document["scale_and_bias"]
        base = np.atleast_1d(np.array(bias, dtype=np.float64))
        floats, categorical = features.get("float_features", []), features.get("categorical_features", [])
        columns = {feature["flat_feature_index"]: feature for feature in (*floats, *categorical)}
        texts = tuple(hashes or {})
        codes = {number: code for code, number in enumerate((hashes or {}).values())}
        rules = SplitRules(floats, categorical, codes)
        is_symmetric = "oblivious_trees" in document
        read = _read_symmetric if is_symmetric else _read_nested
        saved = document["oblivious_trees" if is_symmetric else "trees"]
        if not saved:
            raise ValueError("it has no trees; train it first")
        trees = [read(tree, rules, scale, len(base)) for tree in saved]
        names = [str(columns[column]["feature_id"]) if column in columns else "" for column in range(max(columns) + 1)]
        named = all(names) and names != [str(column) for column in range(len(names))]
        loss = info["params"]["loss_function"]["type"]
        classes = [str(name) for name in info.get("class_params", {}).get("class_names", [])]
        output_names = classes if len(classes) == len(base) else classes[1:] if len(base) == 1 else []
        accepts_missing = np.ones(len(names), dtype=bool)
        accepts_missing[[feature["flat_feature_index"] for feature in categorical]] = False
        return TreeEnsemble(
            **join_trees(trees),
            base=base,
            feature_names=tuple(names) if named else name_columns(len(names)),
            named=named,
            output_names=tuple(output_names) or number_outputs(len(base)),
            output="value" if loss in VALUES else "margin",
            has_classes=loss in CLASSES,
            input_dtype="float32",
            accepts_missing=accepts_missing,
            levels={feature["flat_feature_index"]: texts for feature in categorical},
            unseen="other",
            source=f"catboost.{source or 'CatBoost'}",
        )


def _read_hashes(model: Model, categories: Array) -> dict[str, int]:
    """Return CatBoost's hashes of the categories in some rows, which it writes into a model exported as Python code."""
    from catboost import CatBoost, Pool  # noqa: PLC0415 - the library of the model

    columns = model.get_cat_feature_indices()
    if not columns:
        return {}
    shape = tuple(np.shape(categories))
    if len(shape) != TABLE_DIMENSIONS or shape[1] <= max(columns):
        raise ValueError(f"categories must be rows with the columns of the training data, got shape {shape}")
    levels: dict[str, int] = {}
    for column in columns:
        values = categories.iloc[:, column] if hasattr(categories, "iloc") else to_numpy(categories)[:, column]
        name = model.feature_names_[column]
        levels |= dict.fromkeys((str(to_text(name, value)) for value in values.tolist() if not is_missing(value)), 0)
    if not levels:
        return {}
    rows = [[number, level] for number, level in enumerate([*levels, ""])]
    options = {"iterations": 1, "depth": 1, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
    pool = Pool(rows, list(range(len(rows))), cat_features=[1])
    with TemporaryDirectory() as folder:  # only models with symmetric trees are written as Python, so we train one
        path = Path(folder) / "model.py"
        CatBoost(options).fit(pool).save_model(str(path), format="python", pool=pool)
        text = path.read_text(encoding="utf-8")
    written = re.search(r"^cat_features_hashes = (\{.*?^\})", text, flags=re.DOTALL | re.MULTILINE)
    if written is None:
        raise ValueError("this CatBoost writes no hashes of categories; encode the columns as numbers before training")
    hashes = {name.encode("latin-1").decode(): number for name, number in ast.literal_eval(written[1]).items()}
    return {level: hashes[level] for level in levels}


def _read_symmetric(tree: Mapping[str, Any], rules: SplitRules, scale: float, outputs: int) -> Tree:
    """Return a tree with one split per level, the last split at the root: then leaves are in CatBoost's order."""
    splits_of_levels = tree["splits"] or []  # null if there is none
    depth = len(splits_of_levels)
    inner, leaves = 2**depth - 1, 2**depth
    values = np.array(tree["leaf_values"], dtype=np.float64).reshape(leaves, outputs)
    covers = [np.array(tree.get("leaf_weights") or np.zeros(leaves), dtype=np.float64)]
    while len(covers[-1]) > 1:
        covers.append(covers[-1].reshape(-1, 2).sum(1))
    levels = [_read_split(split, rules) for split in reversed(splits_of_levels)]
    at_level = np.repeat(np.arange(depth), 2 ** np.arange(depth))
    nodes = np.arange(inner)
    none = np.full(leaves, -1)
    return Tree(
        feature=np.append(np.array([level.feature for level in levels], dtype=np.int64)[at_level], none),
        threshold=np.append(np.array([level.threshold for level in levels], dtype=np.float64)[at_level], none),
        left=np.append(2 * nodes + 1, none),
        right=np.append(2 * nodes + 2, none),
        missing_left=np.append(np.array([level.missing_left for level in levels], dtype=bool)[at_level], none < 0),
        value=np.concatenate([np.zeros((inner, outputs)), scale * values]),
        cover=np.concatenate(covers[::-1]),
        categories={int(node): listed for node in nodes if (listed := levels[at_level[node]].listed) is not None},
        listed_left=False,
    )


def _read_nested(tree: Mapping[str, Any], rules: SplitRules, scale: float, outputs: int) -> Tree:
    """Return a tree whose nodes are written inside each other."""
    nodes, children = [tree], [(-1, -1)]
    for number, node in enumerate(nodes):  # grows while it runs
        if "split" in node:
            children[number] = (len(nodes), len(nodes) + 1)
            nodes += [node["left"], node["right"]]
            children += [(-1, -1)] * 2
    is_leaf = np.array(children)[:, 0] < 0
    splits = [_read_split(node["split"], rules) if "split" in node else LEAF for node in nodes]
    value = np.array(
        [
            np.broadcast_to(node["value"], outputs) if leaf else np.zeros(outputs)
            for node, leaf in zip(nodes, is_leaf, strict=True)
        ]
    )
    cover = np.array([node.get("weight", 0) for node in nodes], dtype=np.float64)
    for number in range(len(nodes) - 1, -1, -1):
        if not is_leaf[number]:
            cover[number] = cover[list(children[number])].sum()
    return Tree(
        feature=np.array([split.feature for split in splits]),
        threshold=np.array([split.threshold for split in splits], dtype=np.float64),
        left=np.array(children)[:, 0],
        right=np.array(children)[:, 1],
        missing_left=np.array([split.missing_left for split in splits]),
        value=scale * value,
        cover=cover,
        categories={number: split.listed for number, split in enumerate(splits) if split.listed is not None},
        listed_left=False,
    )


def _read_split(split: Mapping[str, Any], rules: SplitRules) -> Split:
    """Return a split, or raise a ValueError that names its kind if it cannot be represented."""
    kind = split.get("split_type")
    if kind == "FloatFeature":
        feature = rules.floats[split["float_feature_index"]]
        missing_left = feature["nan_value_treatment"] != "AsTrue"
        return Split(feature["flat_feature_index"], float(np.float32(split["border"])), missing_left, listed=None)
    if kind == "OneHotFeature":
        feature = rules.categorical[split["cat_feature_index"]]
        if split["value"] not in rules.codes:
            name = feature["feature_id"] or feature["flat_feature_index"]
            raise ValueError(
                f"a split on column {name!r} compares with a category of which CatBoost stores a hash alone; pass the "
                "fitted model with rows that contain every category of the training data: as the background, or as "
                "categories of read_model"
            )
        listed = np.array([rules.codes[split["value"]]])
        return Split(feature["flat_feature_index"], 0, missing_left=True, listed=listed)
    if kind == "OnlineCtr":
        raise ValueError(
            "CatBoost's CTR splits (statistics of categories) cannot be represented; train with one_hot_max_size of at "
            "least the number of categories of each column, or encode the columns as numbers"
        )
    raise ValueError(
        f"CatBoost's splits of type {kind!r} cannot be represented; train without text and embedding features"
    )
