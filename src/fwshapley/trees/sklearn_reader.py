"""Read trees, forests and boosted trees of scikit-learn from the arrays of the fitted model.

Trees, forests and GradientBoosting round inputs to float32, HistGradientBoosting keeps float64. Values of forests are
means over trees. Classification trees predict class fractions, boosted classifiers margins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from fwshapley._internal.checks import shorten
from fwshapley.trees.ensemble import InputType, Output, TreeEnsemble
from fwshapley.trees.tree import Model, Tree, in_column, join_trees, name_columns, number_outputs

BITS = 32
CONSTANT_INITS = ("DummyClassifier", "DummyRegressor")


def read_sklearn(model: Model) -> TreeEnsemble:
    """Return a fitted scikit-learn model as an ensemble, or raise a TypeError that names its class.

    Args:
        model: the estimator.
    """
    parents = [parent.__name__ for parent in type(model).__mro__]
    for name, read in READERS.items():
        if name in parents and hasattr(model, "predict"):
            if not hasattr(model, FITTED[name]):
                raise ValueError(f"model must be fitted, got {shorten(model)}; call fit first")
            return read(model)
    hint = "use FeatureExplainer for other models"
    if "Pipeline" in parents:
        hint = "use fw.PipelineExplainer, or fw.Explainer, which does so"
    elif hasattr(model, "estimators_") or hasattr(model, "best_estimator_"):
        hint = "pass the estimators inside it one by one"
    raise TypeError(f"model must be one of {', '.join(READERS)} or a subclass, got {type(model).__name__}; {hint}")


def _read_tree(model: Model) -> TreeEnsemble:
    return _read_mean(model, [model])


def _read_forest(model: Model) -> TreeEnsemble:
    return _read_mean(model, model.estimators_)


def _read_mean(model: Model, estimators: Sequence[Any]) -> TreeEnsemble:
    """Return the mean of trees: of class fractions, or of regression values."""
    is_classifier = hasattr(model, "classes_")
    if is_classifier:
        classes = model.classes_ if model.n_outputs_ > 1 else [model.classes_]
        names = [str(label) for label in classes[0]]
        if len(classes) > 1:
            names = [f"output {number}: {label}" for number, labels in enumerate(classes) for label in labels]
    else:
        names = list(number_outputs(model.n_outputs_))
    trees = [
        _from_tree(estimator.tree_, _class_fractions(estimator) if is_classifier else estimator.tree_.value[:, :, 0])
        for estimator in estimators
    ]
    mean = [tree._replace(value=tree.value / len(trees)) for tree in trees]
    output: Output = "probability" if is_classifier else "value"
    has_classes = is_classifier and model.n_outputs_ == 1
    return _make_ensemble(model, mean, names, np.zeros(len(names)), output=output, has_classes=has_classes)


def _class_fractions(estimator: Model) -> Float64[ndarray, "nodes outputs"]:
    """Return the class fractions of every node, for all outputs of a tree one after another."""
    counts = np.atleast_1d(estimator.n_classes_)
    parts = [estimator.tree_.value[:, number, :count] for number, count in enumerate(counts)]
    return np.concatenate([part / np.where(total := part.sum(1, keepdims=True), total, 1) for part in parts], axis=1)


def _from_tree(tree: Model, value: Float64[ndarray, "nodes outputs"]) -> Tree:
    return Tree(
        feature=tree.feature,
        threshold=tree.threshold,
        left=tree.children_left,
        right=tree.children_right,
        missing_left=tree.missing_go_to_left.astype(bool),
        value=value,
        cover=tree.weighted_n_node_samples,
    )


def _read_gradient_boosting(model: Model) -> TreeEnsemble:
    """Return init + learning_rate * the sum of the regression trees of each class."""
    init = type(model.init_).__name__
    if init not in CONSTANT_INITS and not (isinstance(model.init_, str) and model.init_ == "zero"):
        raise ValueError(
            f"init of {type(model).__name__} must be None or 'zero', got {init}: its predictions are no sum of trees; "
            "train without it, or explain it separately"
        )
    base = model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32))[0]  # noqa: SLF001 - not public
    classes, output = _boosted_outputs(model, len(base), has_link=False)
    trees = [
        _from_tree(tree.tree_, in_column(model.learning_rate * tree.tree_.value[:, 0, 0], column, len(base)))
        for stage in model.estimators_
        for column, tree in enumerate(stage)
    ]
    return _make_ensemble(model, trees, classes, base, output=output, has_classes=hasattr(model, "classes_"))


def _read_hist_gradient_boosting(model: Model) -> TreeEnsemble:
    """Return baseline + the sum of the trees of each class, whose categories are first turned into codes."""
    base = np.ravel(model._baseline_prediction)  # noqa: SLF001 - not public
    has_link = "Identity" not in type(model._loss.link).__name__  # noqa: SLF001 - not public
    names, output = _boosted_outputs(model, len(base), has_link=has_link)
    columns = np.arange(model.n_features_in_)
    levels: dict[int, list[Any]] = {}
    if model.is_categorical_ is not None:  # the model's own preprocessor moves categorical columns to the front
        categorical = np.flatnonzero(model.is_categorical_)
        columns = np.concatenate([categorical, np.flatnonzero(~model.is_categorical_)])
        encoder = model._preprocessor.named_transformers_["encoder"]  # noqa: SLF001 - not public
        levels = {
            int(column): [level for level in of.tolist() if level is not None and level == level]  # noqa: PLR0124 - not NaN
            for column, of in zip(categorical, encoder.categories_, strict=True)
        }
    trees = [
        _from_predictor(predictor, columns, column, len(base))
        for stage in model._predictors  # noqa: SLF001 - not public
        for column, predictor in enumerate(stage)
    ]
    return _make_ensemble(
        model,
        trees,
        names,
        base,
        output=output,
        has_classes=hasattr(model, "classes_"),
        input_dtype="float64",
        levels=levels,
    )


def _from_predictor(predictor: Model, columns: ndarray, column: int, outputs: int) -> Tree:
    nodes = predictor.nodes
    is_leaf = nodes["is_leaf"].astype(bool)
    categorical = np.flatnonzero(nodes["is_categorical"].astype(bool) & ~is_leaf)
    bitsets = predictor.raw_left_cat_bitsets
    codes = np.arange(bitsets.shape[1] * BITS if len(categorical) else 0)
    return Tree(
        feature=columns[np.where(is_leaf, 0, nodes["feature_idx"])],
        threshold=nodes["num_threshold"],
        left=np.where(is_leaf, -1, nodes["left"].astype(np.int64)),
        right=np.where(is_leaf, -1, nodes["right"].astype(np.int64)),
        missing_left=nodes["missing_go_to_left"].astype(bool),
        value=in_column(nodes["value"], column, outputs),
        cover=nodes["count"].astype(np.float64),
        categories={
            int(node): np.flatnonzero(bitsets[nodes["bitset_idx"][node]][codes // BITS] >> (codes % BITS) & 1)
            for node in categorical
        },
    )


def _boosted_outputs(model: Model, outputs: int, *, has_link: bool) -> tuple[Sequence[str], Output]:
    """Return the names of the outputs of boosted trees, and what their sum is."""
    if not hasattr(model, "classes_"):
        return number_outputs(outputs), "margin" if has_link else "value"
    classes = [str(label) for label in model.classes_]
    return classes if outputs > 1 else classes[-1:], "margin"  # the margin of two classes is that of the second


def _make_ensemble(
    model: Model,
    trees: Sequence[Tree],
    output_names: Sequence[str],
    base: Float64[ndarray, " outputs"],
    *,
    output: Output,
    has_classes: bool,
    input_dtype: InputType = "float32",
    levels: Mapping[int, Sequence[Any]] | None = None,
) -> TreeEnsemble:
    source = type(model).__name__
    named = hasattr(model, "feature_names_in_")
    return TreeEnsemble(
        **join_trees(trees),
        base=base,
        feature_names=tuple(model.feature_names_in_) if named else name_columns(model.n_features_in_),
        named=named,
        output_names=tuple(output_names),
        output=output,
        accepts_missing=np.full(model.n_features_in_, bool(model.__sklearn_tags__().input_tags.allow_nan)),
        source=f"sklearn.{source}",
        has_classes=has_classes,
        input_dtype=input_dtype,
        levels=levels or {},
    )


READERS: dict[str, Callable[[Any], TreeEnsemble]] = {
    "BaseDecisionTree": _read_tree,
    "BaseForest": _read_forest,
    "BaseGradientBoosting": _read_gradient_boosting,
    "BaseHistGradientBoosting": _read_hist_gradient_boosting,
}
"""Readers, by the name of the base class."""

FITTED = {
    "BaseDecisionTree": "tree_",
    "BaseForest": "estimators_",
    "BaseGradientBoosting": "estimators_",
    "BaseHistGradientBoosting": "_predictors",
}
"""The attribute that a fitted model has, by the name of the base class."""
