"""Values of linear models beside enumeration of the same game, and beside shap, which computes Shapley values only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float64
from numpy import ndarray
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, SplineTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeRegressor

import fwshapley as fw
from fwshapley.semivalues import FEASIBLE_SET

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
Y = X @ [1.0, -2.0, 0.5, 0.0] + RNG.normal(0, 0.1, 40)
CLASSES = np.digitize(Y, [-1.5, 1.5])
BACKGROUND = X[:7]
TABLE = pd.DataFrame(
    {
        "age": np.where(RNG.random(40) < 0.2, np.nan, X[:, 0]),
        "city": [*("Bonn", "Oslo", "Rome"), *RNG.choice(["Bonn", "Oslo", "Rome"], 37)],
        "size": pd.Categorical(RNG.choice([10, 20, 55], 40)),
        "rooms": RNG.integers(1, 6, 40),
    }
)
PREPARED = make_column_transformer(
    (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ["age"]),
    (OneHotEncoder(), ["city", "size"]),
    (SplineTransformer(4), ["rooms"]),
)
WEIGHTINGS = [fw.Shapley(), *FEASIBLE_SET, fw.Beta(0.7, 2.3), fw.Banzhaf(0.2), fw.LeaveOneOut()]
MODELS: dict[str, tuple[Any, Any]] = {
    "regression": (LinearRegression().fit(X, Y), X),
    "two targets": (Ridge().fit(X, np.stack([Y, -X[:, 3]], 1)), X),
    "binary": (LogisticRegression().fit(X, CLASSES > 0), X),
    "three classes": (LogisticRegression().fit(X, CLASSES), X),
    "support vectors": (LinearSVC().fit(X, CLASSES), X),
    "ridge classifier": (RidgeClassifier().fit(X, CLASSES), X),
    "sparse coefficients": (SGDClassifier(random_state=0).fit(X, CLASSES).sparsify(), X),
    "scaler": (make_pipeline(StandardScaler(), LinearRegression()).fit(X, Y), X),
    "table": (make_pipeline(PREPARED, Ridge()).fit(TABLE, Y), TABLE),
    "table, classes": (make_pipeline(PREPARED, LogisticRegression()).fit(TABLE, CLASSES), TABLE),
    "categories of numbers": (LinearRegression().fit(TABLE[["size", "rooms"]], Y), TABLE[["size", "rooms"]]),
}
every_model = pytest.mark.parametrize(("model", "table"), MODELS.values(), ids=list(MODELS))


def scores_of(model: Any, rows: Any) -> Float64[ndarray, "rows outputs"]:  # noqa: ANN401 - of scikit-learn
    """What a linear explainer explains."""
    ask = getattr(model, "decision_function", model.predict)
    return np.asarray(ask(rows), np.float64).reshape(len(rows), -1)


def hide(table: Any, row: int, background: Any, visible: ndarray) -> Any:  # noqa: ANN401 - an array or a DataFrame
    """Background rows in which the visible columns are those of one row."""
    if isinstance(table, np.ndarray):
        return np.where(visible, table[row], background)
    filled = background.copy()
    for place in np.flatnonzero(visible):
        name = table.columns[place]
        filled[name] = pd.Series([table[name].iloc[row]] * len(filled), index=filled.index).astype(table[name].dtype)
    return filled


def game_of(model: Any, table: Any, row: int, background: Any, player_of: ndarray) -> Callable[[Any], torch.Tensor]:  # noqa: ANN401 - of scikit-learn
    """The interventional game of one row, by hand."""

    def worth(coalitions: torch.Tensor) -> torch.Tensor:
        means = [
            scores_of(model, hide(table, row, background, coalition[player_of])).mean(0)
            for coalition in coalitions.numpy()
        ]
        return torch.from_numpy(np.stack(means))

    return worth


@every_model
def test_values_are_those_of_enumeration(model: Any, table: Any) -> None:  # noqa: ANN401 - of scikit-learn
    n = table.shape[1]
    found = fw.LinearExplainer(model, table[:7]).explain(table[20:23], weights=WEIGHTINGS)
    for row in range(3):
        game = game_of(model, table[20:23], row, table[:7], np.arange(n))
        truth = fw.exact_values(game, WEIGHTINGS, n_players=n, progress=False).numpy().reshape(len(WEIGHTINGS), n, -1)
        np.testing.assert_allclose(found.values[:, row], truth, atol=1e-10)
        empty = game(torch.zeros(1, n, dtype=torch.bool))[0]
        np.testing.assert_allclose(found.base_values[row], empty, atol=1e-10)


@every_model
def test_values_of_every_weighting_add_up_to_the_score(model: Any, table: Any) -> None:  # noqa: ANN401 - of scikit-learn
    found = fw.LinearExplainer(model, table[:7]).explain(table, weights=WEIGHTINGS)
    total = found.values.sum(2) + found.base_values
    np.testing.assert_allclose(total, np.broadcast_to(scores_of(model, table), total.shape), atol=1e-9)


def test_groups_are_sums_and_enumeration_agrees() -> None:
    model, players = MODELS["table"][0], fw.groups({"place": ["city", "size"]}, names=list(TABLE.columns))
    found = fw.LinearExplainer(model, TABLE[:7], players=players).explain(TABLE[20:21], weights=WEIGHTINGS)
    game = game_of(model, TABLE[20:21], 0, TABLE[:7], players.assignment)
    truth = fw.exact_values(game, WEIGHTINGS, n_players=3, progress=False).numpy()
    np.testing.assert_allclose(found.values[:, 0], truth, atol=1e-10)
    shuffled = fw.LinearExplainer(model, TABLE[:7], players=players).explain(TABLE[20:21][TABLE.columns[::-1]])
    np.testing.assert_array_equal(shuffled.values, found.values[0])


@given(seed=st.integers(0, 10**6), rows=st.integers(1, 5))
@settings(max_examples=15)
def test_the_closed_form_holds_and_columns_without_effect_get_nothing(seed: int, rows: int) -> None:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(12, 3)) * 10.0 ** generator.integers(-3, 4, 3)
    coefficients = generator.normal(size=3) * [1, 0, 1]
    model = LinearRegression().fit(np.eye(3), np.zeros(3))
    model.coef_, model.intercept_ = coefficients, generator.normal()
    found = fw.LinearExplainer(model, x[:rows]).explain(x, weights=fw.Beta(0.7, 2.3)).values[..., 0]
    np.testing.assert_allclose(found, (x - x[:rows].mean(0)) * coefficients, rtol=1e-9, atol=1e-9)
    assert not found[:, 1].any()


def test_shapley_values_are_those_of_shap() -> None:
    shap = pytest.importorskip("shap")
    for name in ("regression", "binary", "three classes"):
        model = MODELS[name][0]
        theirs = shap.LinearExplainer(model, shap.maskers.Independent(BACKGROUND)).shap_values(X[20:])
        ours = fw.LinearExplainer(model, BACKGROUND).explain(X[20:]).values
        np.testing.assert_allclose(ours, theirs.reshape(ours.shape), atol=1e-10)


def test_outputs_have_names() -> None:
    names = {name: fw.LinearExplainer(model, table).output_names for name, (model, table) in MODELS.items()}
    assert names["regression"] == ("output 0",)
    assert names["binary"] == ("True",)
    assert names["three classes"] == names["table, classes"] == ("0", "1", "2")
    model = MODELS["three classes"][0]
    predicted = fw.LinearExplainer(model, X).explain(X, outputs="predicted")
    assert np.array_equal(predicted.outputs[:, 0], model.predict(X))


@pytest.mark.parametrize("name", ["regression", "binary", "three classes"])
def test_saved_explainer_explains_the_same(name: str, tmp_path: Path) -> None:
    explainer = fw.LinearExplainer(MODELS[name][0], X, players=fw.groups({"both": [0, 2]}, 4))
    explainer.save(tmp_path / "linear.safetensors")
    loaded = fw.load(tmp_path / "linear.safetensors")
    assert repr(loaded) == repr(explainer)
    assert loaded.provenance == explainer.provenance
    one, other = loaded.explain(X, total="efficient"), explainer.explain(X, total="efficient")
    assert np.array_equal(one.values, other.values)
    assert np.array_equal(one.base_values, other.base_values)
    assert one.output_names == other.output_names


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (make_pipeline(PCA(2), LinearRegression()), "PCA may combine columns"),
        (make_pipeline(make_column_transformer((PolynomialFeatures(), [0, 1])), Ridge()), "PolynomialFeatures"),
        (PoissonRegressor(), "link function"),
        (make_pipeline(StandardScaler(), PoissonRegressor()), "link function"),
        (SVC(kernel="linear"), "linear functions|not a sum"),
        (DecisionTreeRegressor(), "coef_ and intercept_"),
    ],
    ids=["pca", "products", "link", "link in a pipeline", "pairs of classes", "tree"],
)
def test_models_that_are_no_sums_are_refused(model: Any, message: str) -> None:  # noqa: ANN401 - of scikit-learn
    target = np.digitize(Y, [-2, 0, 2]) if isinstance(model, SVC) else np.abs(Y)
    with pytest.raises(TypeError, match=message):
        fw.LinearExplainer(model.fit(X, target), X)


def test_a_link_function_is_found_with_a_background_of_one_row() -> None:
    with pytest.raises(TypeError, match="link function"):
        fw.LinearExplainer(PoissonRegressor().fit(X, np.abs(Y)), X[:1])
    behind_a_scaler = make_pipeline(StandardScaler(), PoissonRegressor()).fit(X, np.abs(Y))
    with pytest.raises(TypeError, match="link function"):
        fw.LinearExplainer(behind_a_scaler, X[:1]).explain(X)


def test_a_fitted_model_is_needed() -> None:
    with pytest.raises(TypeError, match="not a fitted linear model"):
        fw.LinearExplainer(LinearRegression(), X)


def test_missing_numbers_are_refused_by_name() -> None:
    model, x = MODELS["regression"][0], X.copy()
    x[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        fw.LinearExplainer(model, x)
    with pytest.raises(ValueError, match=r"x must contain finite numbers: row 3, 'column 2' is nan \(1 in all\)"):
        fw.LinearExplainer(model, X).explain(x)
    with pytest.raises(ValueError, match="games of 2 players"):
        fw.LinearExplainer(model, X).explain(X, weights=fw.Cardinality([1, 1]))


def test_lists_and_tensors_are_tables_too() -> None:
    explainer = fw.LinearExplainer(MODELS["regression"][0], BACKGROUND.tolist())
    expected = explainer.explain(X).values
    np.testing.assert_array_equal(explainer.explain(X.tolist()).values, expected)
    np.testing.assert_array_equal(explainer.explain(torch.from_numpy(X)).values, expected)
