"""Preprocessing of scikit-learn that treats each column by itself, and which column each of its outputs comes from.

Hiding a column then hides exactly the outputs that come from it: the game of a model behind such preprocessing is the
game of the model itself, with the outputs of a column as one player. Nothing here imports scikit-learn.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Int64
from numpy import ndarray

COLUMN_WISE = {
    "Binarizer",
    "KBinsDiscretizer",
    "MaxAbsScaler",
    "MinMaxScaler",
    "MissingIndicator",
    "OneHotEncoder",
    "OrdinalEncoder",
    "PowerTransformer",
    "QuantileTransformer",
    "RobustScaler",
    "SelectKBest",
    "SelectPercentile",
    "SimpleImputer",
    "SplineTransformer",
    "StandardScaler",
    "TargetEncoder",
    "VarianceThreshold",
}
"""Transformers of scikit-learn, each of whose outputs depends on one column."""

INNER = {"Pipeline": "steps", "ColumnTransformer": "transformers_", "FeatureUnion": "transformer_list"}
"""Attributes with the parts of transformers that consist of others."""

SOURCE = re.compile(r"(?:missingindicator_)?<(\d+)>")
"""How the name of an output begins if inputs are named <0>, <1>, ..."""

Inputs = Int64[ndarray, " inputs"]
Outputs = Int64[ndarray, " outputs"]
"""Number of the column that each comes from."""


class SplitPipeline(NamedTuple):
    """A pipeline in two parts.

    Attributes:
        steps: transformers, in order.
        final: the model behind them.
    """

    steps: tuple[Any, ...]
    final: Any


def split_pipeline(model: Any) -> SplitPipeline:  # noqa: ANN401 - any model
    """Return the transformers of a pipeline of scikit-learn and its last step, also of pipelines in pipelines."""
    *steps, final = _flatten(model)
    return SplitPipeline(tuple(step for step in steps if not _is_identity(step)), final)


def _flatten(step: Any) -> Iterator[Any]:  # noqa: ANN401 - of scikit-learn
    if type(step).__name__ != "Pipeline":
        yield step
        return
    for _, inner in step.steps:
        yield from _flatten(inner)


def find_mixing(step: Any) -> str | None:  # noqa: ANN401 - of scikit-learn
    """Return the name of a transformer in a step that may combine columns; None if there is none."""
    name = type(step).__name__
    if step is None or isinstance(step, str) or _is_identity(step) or _is_numpy_function(step):  # a text may be "drop"
        return None
    if name in COLUMN_WISE and _is_of_sklearn(step):
        return None
    if name not in INNER or not _is_of_sklearn(step):
        return name
    return next(filter(None, (find_mixing(part[1]) for part in getattr(step, INNER[name], ()))), None)


def trace_columns(steps: Sequence[Any], count: int) -> Outputs:
    """Return the input column that each output of fitted transformers comes from; `find_mixing` finds none in them.

    Args:
        steps: transformers, in order.
        count: number of input columns.
    """
    sources = np.arange(count)
    for step in steps:
        sources = _trace(step, sources)
    return sources


def first_names(steps: Sequence[Any]) -> tuple[str, ...] | None:
    """Return the names of the columns that transformers were fitted on, if they are known."""
    names = getattr(steps[0], "feature_names_in_", None) if steps else None
    return None if names is None else tuple(map(str, names))


def _trace(step: Any, sources: Inputs) -> Outputs:  # noqa: ANN401 - of scikit-learn
    """Return the sources of a step's outputs from those of its inputs."""
    if _is_identity(step) or _is_numpy_function(step):
        return sources
    if isinstance(step, str):  # "drop"
        return sources[:0]
    name = type(step).__name__
    if name == "Pipeline":
        for _, inner in step.steps:
            sources = _trace(inner, sources)
        return sources
    if name == "FeatureUnion":
        return np.concatenate([_trace(inner, sources) for _, inner in step.transformer_list])
    if name == "ColumnTransformer":
        return np.concatenate([sources[:0], *_trace_parts(step, sources)])
    return sources[_trace_transformer(step, len(sources))]


def _trace_parts(step: Any, sources: Inputs) -> Iterator[Int64[ndarray, " part"]]:  # noqa: ANN401 - a ColumnTransformer
    for _, inner, columns in step.transformers_:
        inputs = _find_inputs(columns, getattr(step, "feature_names_in_", None), len(sources))
        if len(inputs):  # a transformer of no columns is not fitted
            yield _trace(inner, sources[inputs])


def _find_inputs(
    columns: Any,  # noqa: ANN401 - as users write them
    names: Any,  # noqa: ANN401 - an array of texts, or None
    count: int,
) -> Int64[ndarray, " some"]:
    """Return the numbers of the columns that a ColumnTransformer selects by numbers, flags, names or a slice."""
    if isinstance(columns, slice):
        if isinstance(columns.start, str) or isinstance(columns.stop, str):
            columns = pd.Index(names).slice_indexer(columns.start, columns.stop, columns.step)
        return np.arange(count)[columns]
    chosen = np.atleast_1d(columns)
    if not chosen.size:
        return np.arange(0)
    return pd.Index(names).get_indexer(chosen) if chosen.dtype.kind in "OUT" else np.arange(count)[chosen]


def _trace_transformer(transformer: Any, count: int) -> Outputs:  # noqa: ANN401 - of scikit-learn
    """Return which input each output of a single transformer comes from, by the names that it gives them.

    The names of its own inputs may be ambiguous ("a" and "a_b"), and users may replace how names are combined: a copy
    without both is asked instead.
    """
    plain = copy.copy(transformer)
    vars(plain).pop("feature_names_in_", None)
    if hasattr(plain, "feature_name_combiner"):
        plain.feature_name_combiner = "concat"
    names = plain.get_feature_names_out([f"<{place}>" for place in range(count)])
    matches = [SOURCE.match(name) for name in names]
    return np.array([int(match[1]) for match in matches if match is not None], dtype=np.int64)


def _is_identity(step: Any) -> bool:  # noqa: ANN401 - of scikit-learn
    if step is None or isinstance(step, str):
        return step is None or step == "passthrough"
    return _is_function_transformer(step) and step.func is None


def _is_numpy_function(step: Any) -> bool:  # noqa: ANN401 - of scikit-learn
    """Whether a step applies a function of numpy such as log1p to each number."""
    function = step.func if _is_function_transformer(step) else None
    return isinstance(function, np.ufunc) and (function.nin, function.nout) == (1, 1) and not step.kw_args


def _is_function_transformer(step: Any) -> bool:  # noqa: ANN401 - of scikit-learn
    return type(step).__name__ == "FunctionTransformer" and _is_of_sklearn(step)


def _is_of_sklearn(step: Any) -> bool:  # noqa: ANN401 - of scikit-learn, or not
    return type(step).__module__.partition(".")[0] == "sklearn"
