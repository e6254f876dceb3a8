"""Enumerated values beside the sum over all coalitions, written out, and beside shap; sampled ones beside those."""

from __future__ import annotations

import itertools
import math
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
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from torch import nn

import fwshapley as fw
from fwshapley.explanation.learned.sampled_values import default_calls
from fwshapley.explanation.untrained import background_rows, interventional_explainer
from fwshapley.explanation.untrained.background_rows import choose_representatives, read_background
from fwshapley.tables.network_encoding import describe_table
from models import TableModel, seeded

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4))
CLASSES = np.digitize(X[:, 0] * X[:, 1] + X[:, 2], [-0.5, 0.5])
WEIGHTINGS = [fw.Shapley(), fw.Beta(16, 1), fw.Beta(0.7, 2.3), fw.Banzhaf(), fw.LeaveOneOut()]
TABLE = pd.DataFrame(
    {
        "age": np.where(RNG.random(30) < 0.3, np.nan, X[:, 0]),
        "city": pd.Categorical(RNG.choice(["Bonn", "Oslo", "Rome"], 30)),
        "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, 30), unit="D"),
    }
)


def product(rows: Float64[ndarray, "rows columns"]) -> Float64[ndarray, " rows"]:
    return rows[:, 0] * rows[:, 1] + np.sin(rows[:, 2]) * rows[:, 3]


def tell(table: pd.DataFrame) -> ndarray:
    """A function of numbers, missing ones, categories and dates."""
    days = (table["since"] - pd.Timestamp("2020-01-01")).dt.days / 900
    rome = (table["city"] == "Rome").astype(float)
    return np.stack([table["age"].fillna(5.0) * rome + days, days * rome], 1)


def brute_values(
    predict: Callable[[Any], ndarray],
    row: Any,  # noqa: ANN401 - a row of an array or a DataFrame
    background: Any,  # noqa: ANN401 - an array or a DataFrame
    weights: fw.Semivalue,
    player_of: list[int],
) -> Float64[ndarray, "players outputs"]:
    """phi_i = sum over S without i of p(|S|) (v(S + i) - v(S))."""
    n = max(player_of) + 1

    def worth(coalition: frozenset[int]) -> ndarray:
        filled = background.copy()
        for column, player in enumerate(player_of):
            if player not in coalition:
                continue
            if isinstance(filled, pd.DataFrame):
                name = filled.columns[column]
                filled[name] = pd.Series([row[name].iloc[0]] * len(filled), filled.index).astype(filled[name].dtype)
            else:
                filled[:, column] = row[0, column]
        return np.asarray(predict(filled), np.float64).reshape(len(filled), -1).mean(0)

    law = weights.join_law(n)
    values = []
    for player in range(n):
        others = [other for other in range(n) if other != player]
        gains = [
            law[size] / math.comb(n - 1, size) * (worth(frozenset(s) | {player}) - worth(frozenset(s)))
            for size in range(n)
            for s in itertools.combinations(others, size)
        ]
        values.append(sum(gains))
    return np.array(values)


CATEGORIES = make_pipeline(
    make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough"),
    HistGradientBoostingRegressor(max_iter=5),
).fit(TABLE.drop(columns="since"), X[:, 1])
CASES: dict[str, tuple[Any, Callable[[Any], ndarray], Any]] = {
    "function": (product, product, X),
    "classifier": (LogisticRegression().fit(X, CLASSES), LogisticRegression().fit(X, CLASSES).predict_proba, X),
    "table": (tell, tell, TABLE),
    "pipeline with categories and NaN": (CATEGORIES, CATEGORIES.predict, TABLE.drop(columns="since")),
}


@pytest.mark.parametrize(("model", "predict", "table"), CASES.values(), ids=list(CASES))
def test_values_are_the_sum_over_coalitions(model: Any, predict: Callable[[Any], ndarray], table: Any) -> None:  # noqa: ANN401 - any model
    background, some = table[:6], table[20:22]
    player_of = list(range(table.shape[1]))
    explainer = fw.InterventionalExplainer(model, background, progress=False)
    found = explainer.explain(some, weights=WEIGHTINGS)
    for (number, weights), row in itertools.product(enumerate(WEIGHTINGS), range(2)):
        truth = brute_values(predict, some[row : row + 1], background, weights, player_of)
        np.testing.assert_allclose(found.values[number, row], truth, atol=1e-10)
    mean = np.asarray(predict(background)).reshape(6, -1).mean(0)
    np.testing.assert_allclose(found.base_values, np.broadcast_to(mean, found.base_values.shape), atol=1e-10)
    shapley = found.values[0].sum(1) + found.base_values
    np.testing.assert_allclose(shapley, np.asarray(predict(some)).reshape(2, -1), atol=1e-10)
    efficient = explainer.explain(some, weights=WEIGHTINGS, total="efficient")
    np.testing.assert_allclose(
        efficient.values.sum(2) + efficient.base_values, np.broadcast_to(shapley, (5, *shapley.shape)), atol=1e-10
    )


def test_log_odds_are_of_mean_probabilities() -> None:
    model = CASES["classifier"][0]
    found = fw.InterventionalExplainer(model, X[:6], output="logit", progress=False)
    p = model.predict_proba(X[:6]).mean(0)
    np.testing.assert_allclose(found.base_values, np.log(p / (1 - p)), atol=1e-12)
    p = model.predict_proba(X[20:23])
    explained = found.explain(X[20:23])
    np.testing.assert_allclose(explained.values.sum(1) + explained.base_values, np.log(p / (1 - p)), atol=1e-9)


def test_a_torch_module_is_called_in_evaluation_mode_and_left_as_it_is() -> None:
    module = seeded(TableModel).train()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    explainer = fw.InterventionalExplainer(module, X[:6].astype(np.float32), device="cpu", progress=False)
    found = explainer.explain(X[20:22], weights=WEIGHTINGS)
    assert module.training
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    frozen = seeded(TableModel).eval()

    def probabilities(rows: ndarray) -> ndarray:
        with torch.no_grad():
            return frozen(torch.from_numpy(rows).float()).softmax(1).double().numpy()

    background = X[:6].astype(np.float32).astype(np.float64)
    for number, weights in enumerate(WEIGHTINGS):
        truth = brute_values(probabilities, X[20:21], background, weights, [0, 1, 2, 3])
        np.testing.assert_allclose(found.values[number, 0], truth, atol=1e-6)


def test_groups_of_columns_are_players() -> None:
    players = fw.groups({"a": [0, 2]}, 4)
    explainer = fw.InterventionalExplainer(product, X[:6], players=players, progress=False)
    found = explainer.explain(X[20:21], weights=WEIGHTINGS)
    for number, weights in enumerate(WEIGHTINGS):
        truth = brute_values(product, X[20:21], X[:6], weights, players.assignment.tolist())
        np.testing.assert_allclose(found.values[number, 0], truth, atol=1e-10)


def test_values_do_not_depend_on_how_many_rows_are_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer = fw.InterventionalExplainer(product, X[:6], progress=False)
    expected = explainer.explain(X).values
    monkeypatch.setattr(interventional_explainer, "NUMBERS_AT_ONCE", 100)
    np.testing.assert_allclose(explainer.explain(X).values, expected, atol=1e-12)


def test_shap_computes_the_same_shapley_values() -> None:
    shap = pytest.importorskip("shap")
    ours = fw.InterventionalExplainer(product, X[:6], progress=False)(X[20:23])
    theirs = shap.explainers.Exact(product, shap.maskers.Independent(X[:6], max_samples=6))(X[20:23])
    assert ours.values.shape == theirs.values.shape
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-10)
    np.testing.assert_allclose(ours.base_values, theirs.base_values, atol=1e-10)
    np.testing.assert_allclose(ours.values.sum(1) + ours.base_values, product(X[20:23]), atol=1e-10)


weightings = st.one_of(
    st.builds(fw.Beta, st.floats(0.2, 20), st.floats(0.2, 20)), st.builds(fw.Banzhaf, st.floats(0.05, 0.95))
)


@given(seed=st.integers(0, 10**6), weights=weightings)
@settings(max_examples=15)
def test_axioms_of_semivalues(seed: int, weights: fw.Semivalue) -> None:
    generator = np.random.default_rng(seed)
    inner, outer = generator.normal(size=(2, 5)), generator.normal(size=5)
    x = generator.normal(size=(8, 4))
    x[:, 1] = x[:, 0]  # equal entries, which the model treats alike

    def one(rows: ndarray) -> ndarray:
        return np.tanh(np.stack([rows[:, 0] + rows[:, 1], rows[:, 2]], 1) @ inner) @ outer

    def two(rows: ndarray) -> ndarray:
        return rows[:, 0] * rows[:, 1] * rows[:, 2]

    def values(model: Callable[[ndarray], ndarray]) -> ndarray:
        explainer = fw.InterventionalExplainer(model, x[:5], progress=False)
        return np.asarray(explainer.explain(x[5:], weights=weights).values)

    found = values(one)
    np.testing.assert_allclose(found[:, 3], 0, atol=1e-12)  # a column that the model ignores
    np.testing.assert_allclose(found[:, 0], found[:, 1], atol=1e-10)  # symmetry
    both = values(lambda rows: 2 * one(rows) - 3 * two(rows))
    np.testing.assert_allclose(both, 2 * found - 3 * values(two), atol=1e-9)  # linearity


def test_background_rows_are_distributed_like_all(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = fw.InterventionalExplainer(product, X, n_background=5)
    assert chosen.provenance["background_rows"] == 5
    assert chosen.provenance["background_available"] == 30
    many = np.random.default_rng(1).normal(size=(500, 3)) ** 3
    _, rows = read_background(many, any_model=True)
    schema = describe_table(many, any_model=True)
    mean = np.abs(many[choose_representatives(rows, schema, 40, seed=0)].mean(0) - many.mean(0)).sum()
    at_random = [
        np.abs(many[np.random.default_rng(seed).choice(500, 40, replace=False)].mean(0) - many.mean(0)).sum()
        for seed in range(20)
    ]
    assert mean < np.quantile(at_random, 0.3)
    monkeypatch.setattr(background_rows, "CANDIDATES", 100)
    found = [choose_representatives(rows, schema, 40, seed=seed) for seed in (0, 0, 1)]
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    assert len(set(found[0].tolist())) == 40


def test_representatives_have_the_categories_and_gaps_of_all() -> None:
    table = pd.DataFrame({"city": pd.Categorical(["Bonn"] * 40 + ["Oslo"] * 20 + ["Rome"] * 20), "age": np.nan})
    table.loc[::2, "age"] = np.arange(40.0)
    schema, rows = read_background(table, any_model=True)
    some = table.iloc[choose_representatives(rows, schema, 16, seed=0)]
    assert some.city.value_counts().to_dict() == {"Bonn": 8, "Oslo": 4, "Rome": 4}
    assert some.age.isna().sum() == 8


def test_missing_numbers_are_accepted_where_the_background_has_some() -> None:
    table = TABLE.drop(columns="since")
    explainer = fw.InterventionalExplainer(CATEGORIES, table, progress=False)
    assert np.isfinite(explainer.explain(table).values).all()
    x = X.copy()
    x[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"row 2, 'column 1' is nan"):
        fw.InterventionalExplainer(product, X).explain(x)
    with pytest.raises(ValueError, match="not finite"):
        fw.InterventionalExplainer(product, x)


class Reciprocal(nn.Module):
    """A model that divides by zero for some combinations of columns."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 1 / (x[:, :1] + x[:, 1:2])


def test_outputs_that_are_not_finite_are_refused() -> None:
    explainer = fw.InterventionalExplainer(Reciprocal(), np.array([[1.0, 2.0]]), output="raw", device="cpu")
    with pytest.raises(ValueError, match="not finite"):
        explainer.explain(np.array([[-2.0, 3.0]]))


WIDE = RNG.normal(size=(40, 14))
SAMPLED = [fw.Shapley(), fw.Beta(4, 1), fw.Beta(0.7, 2.3), fw.Banzhaf()]


def wide(rows: Float64[ndarray, "rows columns"]) -> Float64[ndarray, "rows outputs"]:
    """Two outputs with interactions; the last column is ignored."""
    return np.stack([np.tanh(rows[:, 0] * rows[:, 1] + rows[:, 2:8].sum(1)), np.sin(rows[:, 7:13]).prod(1)], 1)


class WideModel(nn.Module):
    """Log odds of two classes from 14 columns."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(14, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


CITIES = pd.DataFrame(WIDE[:, :12], columns=list("abcdefghijkl")).assign(
    city=pd.Categorical(RNG.choice(["Bonn", "Oslo", "Rome"], 40)), m=WIDE[:, 12]
)


def of_cities(table: pd.DataFrame) -> ndarray:
    """A function of numbers and a category."""
    return np.where(table["city"] == "Rome", table["a"], table["b"] * table["c"]) + np.tanh(table["d"] + table["m"])


SAMPLED_CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "function": (wide, WIDE, {}),
    "module": (seeded(WideModel), WIDE.astype(np.float32), {"device": "cpu"}),
    "log odds": (seeded(WideModel), WIDE.astype(np.float32), {"device": "cpu", "output": "logit"}),
    "table with categories": (of_cities, CITIES, {}),
    "groups": (wide, WIDE, {"players": fw.groups({"a": [0, 2]}, 14)}),
}


@pytest.mark.parametrize("total", ["raw", "efficient"])
@pytest.mark.parametrize(("model", "table", "options"), SAMPLED_CASES.values(), ids=list(SAMPLED_CASES))
def test_sampled_values_are_within_their_errors(
    model: Any,  # noqa: ANN401 - any model
    table: Any,  # noqa: ANN401 - an array or a DataFrame
    options: dict[str, Any],
    total: Any,  # noqa: ANN401 - of two names
) -> None:
    options = options | {"progress": False}
    exact = fw.InterventionalExplainer(model, table[:8], n_calls=2**14, **options)
    sampled = fw.InterventionalExplainer(model, table[:8], n_calls=200, **options)
    assert (exact.method, sampled.method) == ("enumeration", "sampling")
    arguments: dict[str, Any] = {"weights": SAMPLED, "total": total, "outputs": "all"}
    expected, found = exact.explain(table[20:24], **arguments), sampled.explain(table[20:24], **arguments)
    assert expected.stderr is None
    stderr = np.asarray(found.stderr)
    assert stderr.shape == found.values.shape
    assert (stderr > 0).all()
    z = np.asarray(found.values - expected.values) / stderr
    assert np.abs(z).max() < 4.5  # the largest of hundreds
    assert np.square(z).mean() < 1.5
    assert np.sqrt(np.square(stderr).mean()) < 0.3 * np.sqrt(np.square(expected.values).mean())
    np.testing.assert_array_equal(found.base_values, expected.base_values)
    gain = sampled.predict(table[20:24]) - found.base_values
    sums = found.values.sum(2) if total == "efficient" else found.values[:1].sum(2)  # of Shapley in any case
    np.testing.assert_allclose(sums, np.broadcast_to(gain, sums.shape), atol=1e-6)


def test_few_players_are_enumerated_and_more_are_sampled() -> None:
    few = fw.InterventionalExplainer(lambda rows: rows.sum(1), WIDE[:3, :12])
    many = fw.InterventionalExplainer(lambda rows: rows.sum(1), WIDE[:3, :13])
    assert (few.method, few.n_calls) == ("enumeration", 2**12)
    assert (many.method, many.n_calls) == ("sampling", default_calls(13))
    assert "sampling" in repr(many)
    assert many.explain(WIDE[:2, :13]).provenance["n_calls"] == many.n_calls


def test_sampled_values_do_not_depend_on_how_many_rows_are_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer = fw.InterventionalExplainer(wide, WIDE[:6], n_calls=120, progress=False)
    expected = explainer.explain(WIDE[:5], weights=SAMPLED)
    monkeypatch.setattr(interventional_explainer, "NUMBERS_AT_ONCE", 1000)
    monkeypatch.setattr(interventional_explainer, "VALUES_AT_ONCE", 1)
    found = explainer.explain(WIDE[:5], weights=SAMPLED)
    np.testing.assert_allclose(found.values, expected.values, atol=1e-10)
    np.testing.assert_allclose(np.asarray(found.stderr), np.asarray(expected.stderr), atol=1e-10)


def test_sampling_is_determined_by_the_seed() -> None:
    found = [
        fw.InterventionalExplainer(wide, WIDE[:6], n_calls=120, seed=seed, progress=False).explain(WIDE[:2]).values
        for seed in (0, 0, 1)
    ]
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


def test_a_sampling_explainer_is_saved(tmp_path: Path) -> None:
    explainer = fw.InterventionalExplainer(of_cities, CITIES, n_background=5, n_calls=120, progress=False)
    explainer.save(tmp_path / "explainer.safetensors")
    loaded = fw.load(tmp_path / "explainer.safetensors", model=of_cities, progress=False)
    assert repr(loaded) == repr(explainer)
    found, expected = loaded.explain(CITIES[:3]), explainer.explain(CITIES[:3])
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.stderr, expected.stderr)


def test_additive_models_have_no_errors() -> None:
    found = fw.InterventionalExplainer(lambda rows: rows @ np.arange(14), WIDE, n_calls=120, progress=False)
    explained = found.explain(WIDE[:3])
    expected = (WIDE[:3] - WIDE.mean(0)) * np.arange(14)
    np.testing.assert_allclose(explained.values[..., 0], expected, atol=1e-9)
    assert np.asarray(explained.stderr).max() < 1e-6


def test_too_few_calls_are_refused() -> None:
    with pytest.raises(ValueError, match=r"n_calls must be at least 88 for 14 players, got 50"):
        fw.InterventionalExplainer(wide, WIDE, n_calls=50)
    with pytest.raises(ValueError, match=r"n_calls must be at least 16 for 4 players"):
        fw.InterventionalExplainer(product, X, n_calls=15)


def test_two_classes_are_explained_by_the_positive_one() -> None:
    model = LogisticRegression().fit(X, CLASSES > 0)
    explainer = fw.InterventionalExplainer(model, X[:6], progress=False)
    found, both = explainer.explain(X[20:23]), explainer.explain(X[20:23], outputs="all")
    assert found.outputs.tolist() == [[1]] * 3
    np.testing.assert_array_equal(found.values, both.values[..., 1:])
    np.testing.assert_allclose(both.values[..., 0], -both.values[..., 1], atol=1e-12)
    assert fw.InterventionalExplainer(wide, WIDE[:6], n_calls=120).explain(WIDE[:1]).values.shape[2] == 2
