"""Values of fitted models of every library beside enumeration of all coalitions by the model's own `predict`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from jaxtyping import Float64
from numpy import ndarray
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import fwshapley as fw
from fwshapley.semivalues import FEASIBLE_SET
from fwshapley.trees.model_reader import read_model
from trees.brute_trees import path_game, semivalues_of, subsets
from trees.rows import Model

COLUMNS = 4
WEIGHTINGS = [fw.Shapley(), *FEASIBLE_SET, fw.Beta(0.7, 2.3)]
BACKGROUND = slice(0, 5)
EXPLAINED = slice(60, 63)
EXACT = 1e-10
SINGLE = 2e-5
"""XGBoost adds in single precision."""

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(120, COLUMNS))
GAPPY = np.where(GENERATOR.random(X.shape) < 0.2, np.nan, X)
TARGET = X[:, 0] * X[:, 1] + np.abs(X[:, 2]) + 0.5 * X[:, 3]
CLASSES = np.digitize(TARGET, np.quantile(TARGET, [0.4, 0.7]))
TABLE = pd.DataFrame(
    {
        "first": GAPPY[:, 0],
        "city": pd.Categorical(GENERATOR.choice(["Bonn", "Kiel", "Ulm", "Jena"], 120)),
        "second": GAPPY[:, 1],
        "size": pd.Categorical(GENERATOR.choice(["s", "m", "l"], 120)),
    }
)
OF_TABLE = TABLE["first"].fillna(1) * (TABLE["city"] == "Ulm") + (TABLE["size"] == "s") - TABLE["second"].isna()
SEED = {"random_state": 0}
TREES = {"n_estimators": 4, "max_depth": 4, **SEED}


def values(model: Model) -> Callable[[Any], Any]:
    return model.predict


def probabilities(model: Model) -> Callable[[Any], Any]:
    return model.predict_proba


def scores(model: Model) -> Callable[[Any], Any]:
    return model.decision_function


def xgboost_margins(model: Model) -> Callable[[Any], Any]:
    return lambda x: model.predict(x, output_margin=True)


def lightgbm_scores(model: Model) -> Callable[[Any], Any]:
    return lambda x: model.predict(x, raw_score=True)


def catboost_scores(model: Model) -> Callable[[Any], Any]:
    return lambda x: model.predict(x, prediction_type="RawFormulaVal")


def of_xgboost(name: str = "XGBRegressor", **options: Any) -> Model:  # noqa: ANN401 - of the library
    model = getattr(pytest.importorskip("xgboost"), name)
    return model(**{"n_estimators": 4, "max_depth": 4, "n_jobs": 1} | options)


def of_lightgbm(name: str = "LGBMRegressor", **options: Any) -> Model:  # noqa: ANN401 - of the library
    model = getattr(pytest.importorskip("lightgbm"), name)
    small = {"n_estimators": 4, "num_leaves": 8, "min_child_samples": 3, "verbose": -1, "n_jobs": 1}
    return model(**small | options)


def of_catboost(name: str = "CatBoostRegressor", **options: Any) -> Model:  # noqa: ANN401 - of the library
    model = getattr(pytest.importorskip("catboost"), name)
    small = {"iterations": 4, "depth": 4, "verbose": False, "thread_count": 1, "allow_writing_files": False}
    return model(**small | options)


CASES: dict[str, tuple[Callable[[], Model], Any, Any, Callable[[Model], Callable[[Any], Any]]]] = {
    "tree": (lambda: DecisionTreeRegressor(max_depth=5, **SEED), X, TARGET, values),
    "tree, NaN": (lambda: DecisionTreeRegressor(max_depth=5, **SEED), GAPPY, TARGET, values),
    "tree, classes": (lambda: DecisionTreeClassifier(max_depth=5, **SEED), X, CLASSES, probabilities),
    "forest": (lambda: RandomForestRegressor(**TREES), X, TARGET, values),
    "forest, NaN": (lambda: RandomForestRegressor(**TREES), GAPPY, TARGET, values),
    "forest, classes": (lambda: RandomForestClassifier(**TREES), X, CLASSES, probabilities),
    "extra trees": (lambda: ExtraTreesRegressor(**TREES), X, TARGET, values),
    "extra trees, classes": (lambda: ExtraTreesClassifier(**TREES), X, CLASSES, probabilities),
    "gradient boosting": (lambda: GradientBoostingRegressor(**TREES), X, TARGET, values),
    "gradient boosting, classes": (lambda: GradientBoostingClassifier(**TREES), X, CLASSES, scores),
    "histograms, NaN": (lambda: HistGradientBoostingRegressor(max_iter=4, **SEED), GAPPY, TARGET, values),
    "histograms, categories": (
        lambda: HistGradientBoostingRegressor(max_iter=4, categorical_features="from_dtype", **SEED),
        TABLE,
        OF_TABLE,
        values,
    ),
    "histograms, classes": (lambda: HistGradientBoostingClassifier(max_iter=4, **SEED), GAPPY, CLASSES, scores),
    "XGBoost": (of_xgboost, GAPPY, TARGET, xgboost_margins),
    "XGBoost, classes": (lambda: of_xgboost("XGBClassifier"), GAPPY, CLASSES, xgboost_margins),
    "XGBoost, dart": (lambda: of_xgboost(booster="dart", rate_drop=0.5), GAPPY, TARGET, xgboost_margins),
    "XGBoost, categories": (lambda: of_xgboost(enable_categorical=True), TABLE, OF_TABLE, xgboost_margins),
    "LightGBM": (of_lightgbm, GAPPY, TARGET, lightgbm_scores),
    "LightGBM, classes": (lambda: of_lightgbm("LGBMClassifier"), GAPPY, CLASSES, lightgbm_scores),
    "LightGBM, categories": (
        lambda: of_lightgbm(min_data_per_group=3, cat_smooth=0),
        TABLE,
        OF_TABLE,
        lightgbm_scores,
    ),
    "CatBoost": (of_catboost, GAPPY, TARGET, catboost_scores),
    "CatBoost, classes": (lambda: of_catboost("CatBoostClassifier"), GAPPY, CLASSES, catboost_scores),
    "CatBoost, categories": (
        lambda: of_catboost(cat_features=["city", "size"], one_hot_max_size=10),
        TABLE,
        OF_TABLE,
        catboost_scores,
    ),
}


def filled(row: Any, background: Any) -> Any:  # noqa: ANN401 - an array or a DataFrame
    """For each coalition, the background rows with its columns taken from a row."""
    count = len(background)
    shown = [[column in s for column in range(COLUMNS)] for s in subsets(COLUMNS)]
    place = np.where(np.repeat(shown, count, 0), 0, 1 + np.tile(np.arange(count), len(shown))[:, None])
    if isinstance(row, np.ndarray):
        return np.concatenate([row, background])[place, np.arange(COLUMNS)]
    both = pd.concat([row, background], ignore_index=True)
    return pd.DataFrame({name: both[name].take(place[:, number]).array for number, name in enumerate(both.columns)})


def interventional_values(
    predict: Callable[[Any], Any],
    row: Any,  # noqa: ANN401 - an array or a DataFrame
    background: Any,  # noqa: ANN401 - an array or a DataFrame
) -> tuple[Float64[ndarray, "weightings players outputs"], Float64[ndarray, " outputs"]]:
    """Values and the empty coalition's value, by one call of the model on all coalitions."""
    predictions = np.asarray(predict(filled(row, background)), np.float64)
    means = predictions.reshape(2**COLUMNS, len(background), -1).mean(1)
    worth = dict(zip(subsets(COLUMNS), means, strict=True))
    return semivalues_of(worth.__getitem__, COLUMNS, WEIGHTINGS), means[0]


@pytest.mark.parametrize(("make", "table", "target", "own"), CASES.values(), ids=list(CASES))
def test_values_of_fitted_models_are_those_of_enumeration(
    make: Callable[[], Model],
    table: Any,  # noqa: ANN401 - an array or a DataFrame
    target: Any,  # noqa: ANN401 - as libraries have it
    own: Callable[[Model], Callable[[Any], Any]],
) -> None:
    model = make().fit(table, target)
    ensemble = read_model(model, categories=table)
    background, some = table[BACKGROUND], table[EXPLAINED]
    tolerance = SINGLE if ensemble.source.startswith("xgboost") else EXACT
    explainer = fw.TreeExplainer(ensemble, background)
    found = explainer.explain(some, weights=WEIGHTINGS).values
    assert np.abs(found).max() > 0
    by_paths = fw.TreeExplainer(ensemble).explain(some, weights=WEIGHTINGS)
    paths, base_of_paths = by_paths.values, by_paths.base_values[0]
    encoded = ensemble.encode(some)
    for row in range(len(some)):
        truth, empty = interventional_values(own(model), some[row : row + 1], background)
        np.testing.assert_allclose(found[:, row], truth, atol=tolerance)
        np.testing.assert_allclose(explainer.base_values, empty, atol=tolerance)
        read, _ = interventional_values(ensemble.predict, some[row : row + 1], background)
        np.testing.assert_allclose(found[:, row], read, atol=EXACT)
        np.testing.assert_allclose(paths[0, row].sum(0), ensemble.predict(some)[row] - base_of_paths, atol=EXACT)
        of_paths = path_game(ensemble, encoded[row], np.arange(COLUMNS))
        np.testing.assert_allclose(paths[:, row], semivalues_of(of_paths, COLUMNS, WEIGHTINGS), atol=EXACT)


def test_all_kinds_of_splits_are_among_the_models() -> None:
    """Or the comparison above would say nothing about them."""
    for name, (make, table, target, _) in CASES.items():
        if "categories" in name:
            assert read_model(make().fit(table, target), categories=table).is_categorical.any(), name
        elif "classes" in name:
            assert read_model(make().fit(table, target)).n_outputs == 3, name
    missing = {name.split(",")[0] for name, case in CASES.items() if case[1] is not X}
    assert missing >= {
        "tree",
        "forest",
        "histograms",
        "XGBoost",
        "LightGBM",
        "CatBoost",
    }
    assert np.isnan(GAPPY[EXPLAINED]).any(), "explained rows have missing entries"
    assert np.isnan(GAPPY[BACKGROUND]).any(), "background rows have missing entries"
