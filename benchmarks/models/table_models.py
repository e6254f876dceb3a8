"""The five models whose explanations `table_explanations.py` measures: three boosted ensembles and two pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

TREES, LEAVES, RATE = 100, 15, 0.1
FOREST = 50
MIN_LEAF = 5
HIDDEN = 64

Numbers = NDArray[np.float64]


class TableModel(NamedTuple):
    """A fitted model of a table.

    Attributes:
        estimator: as its user would explain it.
        raw: its sum of trees (margins of boosted classifiers), or what a pipeline returns: a number per row, the
            probability of the positive class of a classifier.
    """

    estimator: Any
    raw: Callable[[pd.DataFrame], Numbers]


def fit_model(name: str, x: pd.DataFrame, y: NDArray[Any], seed: int, *, smoke: bool = False) -> TableModel:
    """Fit a model to a table as `as_input` returns it."""
    has_classes = y.dtype == bool
    estimator = MODELS[name](has_classes, 5 if smoke else TREES, seed)
    estimator.fit(x, y.astype(int) if has_classes else y)
    return TableModel(estimator, partial(RAW.get(name, call_estimator), estimator))


def as_input(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table as a model takes it: LightGBM and XGBoost get numbers of categories, the others the categories."""
    return as_codes(frame) if name in ("LightGBM", "XGBoost") else frame


def as_codes(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose categories are numbers; missing entries are NaN."""
    codes = {
        str(column): entries.cat.codes.astype(np.float64).where(entries.notna())
        for column, entries in frame.items()
        if isinstance(entries.dtype, pd.CategoricalDtype)
    }
    return frame.assign(**codes)


def from_codes(codes: Numbers, like: pd.DataFrame) -> pd.DataFrame:
    """Return the table whose codes these are, with the columns and categories of another."""
    columns: dict[Any, Any] = {}
    for place, (column, entries) in enumerate(like.items()):
        numbers = codes[:, place]
        if isinstance(entries.dtype, pd.CategoricalDtype):
            whole = np.nan_to_num(numbers, nan=-1).astype(int)
            columns[column] = pd.Categorical.from_codes(whole, dtype=entries.dtype)
        else:
            columns[column] = numbers
    return pd.DataFrame(columns)


def call_estimator(estimator: Any, frame: Any) -> Numbers:  # noqa: ANN401 - of any library; a frame, or what a pipeline's last step gets
    """Return what a model predicts: the probability of the positive class, or a value."""
    return estimator.predict_proba(frame)[:, 1] if hasattr(estimator, "predict_proba") else estimator.predict(frame)


def _make_lightgbm(has_classes: bool, trees: int, seed: int) -> Any:  # noqa: ANN401, FBT001 - LightGBM's; a row of MODELS
    from lightgbm import LGBMClassifier, LGBMRegressor  # noqa: PLC0415 - `--help` does without

    kind = LGBMClassifier if has_classes else LGBMRegressor
    return kind(n_estimators=trees, num_leaves=LEAVES, learning_rate=RATE, random_state=seed, verbose=-1)


def _make_xgboost(has_classes: bool, trees: int, seed: int) -> Any:  # noqa: ANN401, FBT001 - XGBoost's, as above
    from xgboost import XGBClassifier, XGBRegressor  # noqa: PLC0415 - as above

    kind = XGBClassifier if has_classes else XGBRegressor
    return kind(n_estimators=trees, max_depth=4, learning_rate=RATE, random_state=seed)


def _make_hist(has_classes: bool, trees: int, seed: int) -> Any:  # noqa: ANN401, FBT001 - as above
    kind = HistGradientBoostingClassifier if has_classes else HistGradientBoostingRegressor
    return kind(
        max_iter=trees,
        max_leaf_nodes=LEAVES,
        learning_rate=RATE,
        early_stopping=False,
        categorical_features="from_dtype",
        random_state=seed,
    )


def _make_forest(has_classes: bool, trees: int, seed: int) -> Pipeline:  # noqa: FBT001 - as above
    kind = RandomForestClassifier if has_classes else RandomForestRegressor
    return make_pipeline(_make_preparation(), kind(min(trees, FOREST), min_samples_leaf=MIN_LEAF, random_state=seed))


def _make_perceptron(has_classes: bool, trees: int, seed: int) -> Pipeline:  # noqa: ARG001, FBT001 - as above
    options: dict[str, Any] = {"hidden_layer_sizes": (HIDDEN,), "early_stopping": True, "random_state": seed}
    network = (
        MLPClassifier(**options)
        if has_classes
        else TransformedTargetRegressor(MLPRegressor(**options), transformer=StandardScaler())
    )
    return make_pipeline(_make_preparation(), network)


def _make_preparation() -> ColumnTransformer:
    """Return what both pipelines begin with: numbers are filled and scaled, categories become one-hot columns."""
    numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    texts = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return ColumnTransformer(
        [
            ("numbers", numbers, make_column_selector(dtype_include="number")),
            ("texts", texts, make_column_selector(dtype_exclude="number")),
        ]
    )


def owners_of_prepared(pipeline: Pipeline) -> list[str]:
    """Return the column of the table that each column of a prepared table comes from."""
    preparation = pipeline[0]
    chosen = {name: list(columns) for name, _, columns in preparation.transformers_}
    texts = chosen.get("texts", [])
    levels = preparation.named_transformers_["texts"].categories_ if texts else []
    return chosen.get("numbers", []) + [
        column for column, names in zip(texts, levels, strict=True) for _ in range(len(names))
    ]


MODELS: Mapping[str, Callable[[bool, int, int], Any]] = {
    "LightGBM": _make_lightgbm,
    "XGBoost": _make_xgboost,
    "HistGradientBoosting": _make_hist,
    "forest pipeline": _make_forest,
    "perceptron pipeline": _make_perceptron,
}

RAW: Mapping[str, Callable[[Any, pd.DataFrame], Numbers]] = {
    "LightGBM": lambda estimator, frame: estimator.predict(frame, raw_score=True),
    "XGBoost": lambda estimator, frame: estimator.predict(frame, output_margin=True),
    "HistGradientBoosting": lambda estimator, frame: (
        estimator.decision_function(frame) if hasattr(estimator, "decision_function") else estimator.predict(frame)
    ),
}
"""What boosted trees add up to. Pipelines are called as `call_estimator` does."""
