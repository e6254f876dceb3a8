"""Read XGBoost's models from their JSON.

A split sends x < threshold to the left, both in float32: x <= the next smaller float32. A categorical split sends the
codes that it lists to the right. DART's trees are weighted. The base score is saved before the link function of the
objective, except where `LINKS` says otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from fwshapley.tables.trained_categories import read_xgboost_levels
from fwshapley.trees.ensemble import Output, TreeEnsemble
from fwshapley.trees.tree import (
    Model,
    Tree,
    drop_unreached,
    in_column,
    join_trees,
    name_columns,
    number_outputs,
    reading,
)

VERSIONS = (1, 2, 3)
"""Major versions whose JSON is read."""

VECTOR_BASE_SCORE = (3, 1)
"""Version from which the base score of `binary:logitraw` is a margin."""

VALUES = {"absoluteerror", "linear", "pseudohubererror", "quantileerror", "squarederror", "squaredlogerror"}
"""Objectives reg:... whose predictions are the sum of the trees."""

LINKS: dict[str, Callable[[Float64[ndarray, " outputs"]], Float64[ndarray, " outputs"]]] = {
    **{f"reg:{name}": np.asarray for name in VALUES},
    **{f"rank:{name}": np.asarray for name in ("map", "ndcg", "pairwise")},
    **{f"multi:{name}": np.asarray for name in ("softmax", "softprob")},
    **{f"binary:{name}": np.asarray for name in ("hinge", "logitraw")},
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie", "survival:aft", "survival:cox"), np.log),
    **dict.fromkeys(("binary:logistic", "reg:logistic"), lambda p: np.log(p / (1 - p))),
}
"""From the saved base score to the margin, by objective."""


def read_xgboost(model: Model) -> TreeEnsemble:
    """Return an XGBoost model as an ensemble.

    Args:
        model: a `Booster`, of which all trees are read, as its `predict` does; or a model with the scikit-learn
            interface, which is read up to its best iteration if it stopped early.
    """
    if not hasattr(model, "get_booster") and not hasattr(model, "save_raw"):
        raise TypeError(f"model must be a Booster or a model of XGBoost, got {type(model).__name__}")
    if not hasattr(model, "get_booster"):
        return read_xgboost_json(json.loads(model.save_raw("json")), source="Booster")
    if not model.__sklearn_is_fitted__():
        raise ValueError(f"model must be fitted, got an unfitted {type(model).__name__}; call fit first")
    booster = model.get_booster()
    best = booster.attr("best_iteration")
    missing = model.missing
    return read_xgboost_json(
        json.loads(booster.save_raw("json")),
        source=type(model).__name__,
        n_iterations=None if best is None else int(best) + 1,
        classes=tuple(map(str, model.classes_)) if hasattr(model, "classes_") else (),
        missing=np.nan if missing is None else missing,
    )


def read_xgboost_json(
    document: Mapping[str, Any],
    *,
    source: str = "",
    n_iterations: int | None = None,
    classes: tuple[str, ...] = (),
    missing: float = np.nan,
) -> TreeEnsemble:
    """Return the model that XGBoost saved as JSON as an ensemble.

    Args:
        document: the parsed JSON.
        source: class of the model.
        n_iterations: how many boosting iterations to read; by default up to the best one if a model with the
            scikit-learn interface was saved, else all.
        classes: names of the classes.
        missing: a number that counts as missing besides NaN.
    """
    with reading("XGBoost"):
        _check_version(document["version"])
        learner = document["learner"]
        booster = learner["gradient_booster"]
        if booster["name"] == "gblinear":
            raise ValueError("booster='gblinear' has no trees; explain its coefficients instead")
        objective = str(learner["objective"]["name"])
        attributes = learner.get("attributes", {})
        if n_iterations is None and "scikit_learn" in attributes and "best_iteration" in attributes:
            n_iterations = int(attributes["best_iteration"]) + 1
        base = _read_base(learner, objective, document["version"])
        trees = _read_trees(booster, n_iterations, len(base))
        features = int(learner["learner_model_param"]["num_feature"])
        names = learner.get("feature_names") or []
        output: Output = "value" if objective.removeprefix("reg:") in VALUES else "margin"
        output_names = classes if len(classes) == len(base) else classes[1:] if len(base) == 1 else ()
        if len(names) not in {0, features}:
            raise ValueError(f"feature_names has {len(names)} entries for {features} features")
        return TreeEnsemble(
            **join_trees(trees),
            base=base,
            feature_names=tuple(names) or name_columns(features),
            named=bool(names),
            output_names=output_names or number_outputs(len(base)),
            output=output,
            has_classes=objective.startswith("multi:") or (objective.startswith("binary:") and len(base) == 1),
            input_dtype="float32",
            missing_number=np.full(features, np.float32(missing), dtype=np.float64),
            levels=read_xgboost_levels(booster),
            levels_in_frames=True,
            unseen="error",
            source=f"xgboost.{source or 'Booster'}",
        )


def _check_version(version: list[int]) -> None:
    """Raise a ValueError unless models of a version can be read."""
    if version[0] not in VERSIONS:
        raise ValueError(
            f"it was written by XGBoost {'.'.join(map(str, version))}; versions {VERSIONS[0]} to {VERSIONS[-1]} "
            "can be read: save it again with one of them"
        )


def _read_base(learner: Mapping[str, Any], objective: str, version: list[int]) -> Float64[ndarray, " outputs"]:
    """Return the margin before the first tree, one per output."""
    if objective not in LINKS:
        raise ValueError(
            f"objective {objective!r} is unknown, so the margin of its base score is unknown too; save the model with "
            f"one of {', '.join(sorted(LINKS))}"
        )
    if objective == "binary:logitraw" and tuple(version[:2]) < VECTOR_BASE_SCORE:
        raise ValueError(
            "the base score of 'binary:logitraw' has another meaning before XGBoost 3.1; save the model again with "
            "XGBoost 3.1 or later"
        )
    parameters = learner["learner_model_param"]
    outputs = max(int(parameters["num_class"]), int(parameters.get("num_target", 1)), 1)
    saved = np.atleast_1d(np.array(json.loads(parameters["base_score"]), dtype=np.float64))
    return np.broadcast_to(LINKS[objective](saved), outputs).copy()


def _read_trees(booster: Mapping[str, Any], n_iterations: int | None, outputs: int) -> list[Tree]:
    """Return the trees of the first iterations."""
    weights = booster.get("weight_drop")
    model = booster["gbtree"]["model"] if booster["name"] == "dart" else booster["model"]
    trees, columns = model["trees"], model["tree_info"]
    if not trees or len(trees) != len(columns):
        raise ValueError(f"it has {len(trees)} trees, and an output for {len(columns)} trees; train it first")
    if n_iterations is not None:
        if "iteration_indptr" in model:
            count = model["iteration_indptr"][n_iterations]
        else:
            count = n_iterations * outputs * int(model["gbtree_model_param"]["num_parallel_tree"])
        trees = trees[:count]
    return [
        _read_tree(tree, columns[number], outputs, 1.0 if weights is None else weights[number])
        for number, tree in enumerate(trees)
    ]


def _read_tree(tree: Mapping[str, Any], column: int, outputs: int, weight: float) -> Tree:
    """Return one tree; pruned nodes are dropped."""
    left, right = (np.array(tree[f"{side}_children"], dtype=np.int64) for side in ("left", "right"))
    conditions = np.array(tree["split_conditions"], dtype=np.float32)
    if int(tree["tree_param"].get("size_leaf_vector", 1)) > 1:  # the right child of a leaf is its row of leaf weights
        vectors = np.array(tree["leaf_weights"], dtype=np.float32).reshape(-1, outputs)
        value = np.where((left < 0)[:, None], vectors[np.where(left < 0, right, 0)], 0).astype(np.float64)
    else:
        value = in_column(conditions.astype(np.float64), column, outputs)
    segments = np.append(tree.get("categories_segments", []), len(tree.get("categories", []))).astype(np.int64)
    codes = np.array(tree.get("categories", []), dtype=np.int64)
    listed = [codes[start:stop] for start, stop in pairwise(segments)]
    return drop_unreached(
        Tree(
            feature=np.array(tree["split_indices"], dtype=np.int64),
            threshold=np.nextafter(conditions, np.float32(-np.inf)).astype(np.float64),
            left=left,
            right=right,
            missing_left=np.array(tree["default_left"]).astype(bool),
            value=weight * value,
            cover=np.array(tree["sum_hessian"], dtype=np.float32).astype(np.float64),
            categories=dict(zip(tree.get("categories_nodes", []), listed, strict=True)),
            listed_left=False,
        )
    )
