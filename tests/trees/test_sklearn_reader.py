from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    AdaBoostRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

from fwshapley.trees.model_reader import read_model
from trees.rows import Model, at_thresholds, make_table

X = make_table()
FILLED = np.nan_to_num(X)
GENERATOR = np.random.default_rng(2)
TARGET = FILLED[:, 0] * (FILLED[:, 1] > 0) + np.isnan(X[:, 2]) + GENERATOR.normal(0, 0.3, len(X))
CLASSES = np.digitize(TARGET, np.quantile(TARGET, [0.4, 0.7]))
NAMED_CLASSES = np.array(["low", "middle", "top"])[CLASSES]
WEIGHTS = GENERATOR.integers(0, 4, len(X)).astype(float)
SEED = {"random_state": 0}

MISSING = {
    "tree": (DecisionTreeRegressor(**SEED), TARGET),
    "tree absolute error": (DecisionTreeRegressor(criterion="absolute_error", max_depth=4, **SEED), TARGET),
    "tree, random splits": (DecisionTreeRegressor(splitter="random", max_depth=6, **SEED), TARGET),
    "extra tree": (ExtraTreeRegressor(**SEED), TARGET),
    "tree, two outputs": (DecisionTreeRegressor(max_depth=5, **SEED), np.stack([TARGET, -FILLED[:, 3]], 1)),
    "tree, single leaf": (DecisionTreeRegressor(max_depth=1, min_samples_leaf=290, **SEED), TARGET),
    "forest": (RandomForestRegressor(8, **SEED), TARGET),
    "forest, poisson": (RandomForestRegressor(4, criterion="poisson", max_depth=5, **SEED), np.abs(TARGET)),
    "extra trees": (ExtraTreesRegressor(8, **SEED), TARGET),
}
CLASSIFIERS = {
    "tree": (DecisionTreeClassifier(max_depth=5, **SEED), NAMED_CLASSES),
    "extra tree": (ExtraTreeClassifier(max_depth=5, **SEED), CLASSES),
    "tree, class weights": (DecisionTreeClassifier(class_weight="balanced", max_depth=5, **SEED), CLASSES),
    "forest": (RandomForestClassifier(8, max_depth=6, **SEED), NAMED_CLASSES),
    "forest, two outputs": (RandomForestClassifier(5, max_depth=5, **SEED), np.stack([CLASSES, CLASSES > 1], 1)),
    "extra trees": (ExtraTreesClassifier(8, max_depth=6, bootstrap=True, **SEED), CLASSES > 0),
}
BOOSTED = {
    "squared error": (GradientBoostingRegressor(n_estimators=20, **SEED), TARGET),
    "quantile": (GradientBoostingRegressor(loss="quantile", n_estimators=20, subsample=0.5, **SEED), TARGET),
    "zero init": (GradientBoostingRegressor(init="zero", n_estimators=10, **SEED), TARGET),
    "two classes": (GradientBoostingClassifier(n_estimators=20, **SEED), CLASSES > 0),
    "exponential": (GradientBoostingClassifier(loss="exponential", n_estimators=20, **SEED), CLASSES > 0),
    "three classes": (GradientBoostingClassifier(n_estimators=10, **SEED), NAMED_CLASSES),
    "stopped early": (GradientBoostingClassifier(n_estimators=300, n_iter_no_change=2, **SEED), CLASSES > 0),
}
HISTOGRAMS = {
    "squared error": (HistGradientBoostingRegressor(max_iter=20, **SEED), TARGET),
    "gamma": (HistGradientBoostingRegressor(loss="gamma", max_iter=20, **SEED), np.abs(TARGET) + 0.1),
    "two classes": (HistGradientBoostingClassifier(max_iter=20, **SEED), CLASSES > 0),
    "three classes": (HistGradientBoostingClassifier(max_iter=20, **SEED), NAMED_CLASSES),
    "stopped early": (HistGradientBoostingClassifier(max_iter=300, early_stopping=True, **SEED), CLASSES),
    "single leaves": (HistGradientBoostingRegressor(max_iter=2, min_samples_leaf=200, **SEED), TARGET),
}


def cases(table: dict[str, Any]) -> list[Any]:
    return [pytest.param(*case, id=name) for name, case in table.items()]


def check_predictions(model: Model, predict: Callable[[Any], Any], x: np.ndarray, tolerance: float = 1e-12) -> None:
    ensemble = read_model(model)
    for rows in (x, at_thresholds(ensemble, x)):
        if len(rows):
            expected = np.asarray(predict(rows)).reshape(len(rows), -1)
            np.testing.assert_allclose(ensemble.predict(rows), expected, rtol=tolerance, atol=tolerance)


def margin(model: Model) -> Callable[[Any], Any]:
    """The sum of a boosted model's trees, before its link function."""
    if hasattr(model, "decision_function"):
        return model.decision_function
    if getattr(model, "loss", "") in {"gamma", "poisson"}:
        return lambda x: np.log(model.predict(x))
    return model.predict


@pytest.mark.parametrize(("model", "y"), cases(MISSING))
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weighted"])
def test_regression_values_with_missing_values(model: Model, y: np.ndarray, weights: np.ndarray | None) -> None:
    model.fit(X, y, sample_weight=weights)
    check_predictions(model, model.predict, X)
    assert read_model(model).output == "value"


@pytest.mark.parametrize(("model", "y"), cases(MISSING))
def test_trees_fitted_without_missing_values_send_them_where_the_library_does(model: Model, y: np.ndarray) -> None:
    check_predictions(model.fit(FILLED, y), model.predict, X)


@pytest.mark.parametrize(("model", "y"), cases(CLASSIFIERS))
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weighted"])
def test_class_probabilities(model: Model, y: np.ndarray, weights: np.ndarray | None) -> None:
    model.fit(X, y, sample_weight=weights)
    probabilities = (lambda x: np.concatenate(model.predict_proba(x), 1)) if y.ndim > 1 else model.predict_proba
    check_predictions(model, probabilities, X)
    ensemble = read_model(model)
    assert ensemble.output == "probability"
    if y.ndim == 1:
        assert ensemble.output_names == tuple(map(str, model.classes_))


@pytest.mark.parametrize(("model", "y"), cases(BOOSTED))
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weighted"])
def test_gradient_boosting(model: Model, y: np.ndarray, weights: np.ndarray | None) -> None:
    model.fit(FILLED, y, sample_weight=weights)
    check_predictions(model, margin(model), FILLED)
    with pytest.raises(ValueError, match=r"nan in column 'column \d', row \d+, is missing, and"):
        read_model(model).predict(X)


@pytest.mark.parametrize(("model", "y"), cases(HISTOGRAMS))
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weighted"])
def test_hist_gradient_boosting(model: Model, y: np.ndarray, weights: np.ndarray | None) -> None:
    model.fit(X, y, sample_weight=weights)
    check_predictions(model, margin(model), X)


def make_categories() -> pd.DataFrame:
    """Numbers and three kinds of categories, with values that are missing and, in the last rows, unseen."""
    generator = np.random.default_rng(3)
    table = pd.DataFrame(X[:, :2], columns=["first", "second"])
    cities = pd.Series(generator.choice(["Bonn", "Ulm", "Kiel", "Jena", ""], len(X))).replace("", None)
    table.insert(1, "city", cities.astype("category"))
    table["size"] = pd.Categorical(generator.choice([10, 20, 30, 55, 70, 99], len(X)))
    return table


def with_unseen(table: pd.DataFrame) -> pd.DataFrame:
    changed = table[["first", "city", "second", "size"]].astype({"city": object, "size": object})
    changed.loc[changed.index[:20], "city"] = "Rome"
    changed.loc[changed.index[10:30], "size"] = -7
    changed.loc[changed.index[30:40], "size"] = None
    return changed


def test_categories_by_name_in_any_place_of_the_table() -> None:
    table = make_categories()[["first", "city", "second", "size"]]
    target = TARGET + 2 * (table["city"] == "Ulm") - 3 * table["size"].isin([20, 99]) + table["city"].isna()
    model = HistGradientBoostingRegressor(max_iter=20, categorical_features="from_dtype", **SEED).fit(table, target)
    ensemble = read_model(model)
    assert ensemble.is_categorical.tolist() == [False, True, False, True]
    np.testing.assert_allclose(ensemble.predict(table)[:, 0], model.predict(table), rtol=1e-12)
    unseen = with_unseen(table)
    np.testing.assert_allclose(ensemble.predict(unseen)[:, 0], model.predict(unseen), rtol=1e-12)


def test_categories_as_numbers_in_an_array() -> None:
    x = X.copy()
    x[:, 3] = GENERATOR.choice([-3, 0, 2.5, 40, 1000], len(x))
    x[::7, 3] = np.nan
    target = TARGET + 2 * (x[:, 3] == 2.5) - np.isnan(x[:, 3])
    model = HistGradientBoostingRegressor(max_iter=10, categorical_features=[3], **SEED).fit(x, target)
    rows = x.copy()
    rows[::5, 3] = 7
    check_predictions(model, model.predict, x)
    check_predictions(model, model.predict, rows)


def test_names_of_columns_are_checked() -> None:
    table = pd.DataFrame(FILLED, columns=list("abcde"))
    ensemble = read_model(DecisionTreeRegressor(max_depth=2).fit(table, TARGET))
    assert ensemble.feature_names == tuple("abcde")
    assert ensemble.predict(table).shape == (len(X), 1)
    with pytest.raises(ValueError, match=r"lacks \['a'\] and also has \['z'\]"):
        ensemble.predict(table.rename(columns={"a": "z"}))
    assert np.array_equal(ensemble.predict(table.assign(z=1)[list("zedcba")]), ensemble.predict(table))
    with pytest.raises(ValueError, match="several columns 'a'"):
        ensemble.predict(pd.concat([table, table[["a"]]], axis=1))
    with pytest.raises(ValueError, match=r"\(rows, 5\)"):
        ensemble.predict(FILLED[:, :4])


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (LinearRegression(), TypeError, "LinearRegression"),
        (IsolationForest(n_estimators=2), TypeError, "IsolationForest"),
        (RandomTreesEmbedding(n_estimators=2), TypeError, "RandomTreesEmbedding"),
        (AdaBoostRegressor(n_estimators=2), TypeError, "one by one"),
        (make_pipeline(StandardScaler(), DecisionTreeRegressor()), TypeError, "PipelineExplainer"),
        (GradientBoostingRegressor(init=LinearRegression(), n_estimators=2), ValueError, "init"),
    ],
)
def test_other_models_are_refused(model: Model, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_model(model.fit(FILLED, TARGET))


def test_a_constant_init_estimator_is_a_constant() -> None:
    model = GradientBoostingRegressor(init=DummyRegressor(strategy="quantile", quantile=0.9), n_estimators=3)
    check_predictions(model.fit(FILLED, TARGET), model.predict, FILLED)


def test_an_unfitted_model_is_refused() -> None:
    with pytest.raises(ValueError, match="fitted"):
        read_model(RandomForestClassifier())


def test_what_has_no_closed_form_is_refused() -> None:
    boosted = GradientBoostingClassifier(n_estimators=2).fit(FILLED, CLASSES)
    with pytest.raises(ValueError, match="output='margin'"):
        read_model(boosted, output="probability")
    forest = RandomForestClassifier(2).fit(FILLED, CLASSES)
    with pytest.raises(ValueError, match="output='probability'"):
        read_model(forest, output="margin")
    with pytest.raises(ValueError, match="did you mean 'probability'"):
        read_model(forest, output="probabilities")
    assert read_model(DecisionTreeRegressor().fit(FILLED, TARGET), output="margin").output == "value"
