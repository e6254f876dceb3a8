"""Which method the front door chooses, why, and that its values are those of that method."""

from __future__ import annotations

import json
import math
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import fwshapley as fw
from fwshapley.explanation import explainer as explainer_module
from fwshapley.explanation.method_choice import Game, expected_seconds
from models import ImageModel, TableModel, images, seeded

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
WIDE = RNG.normal(size=(40, 14))
Y = X[:, 0] * X[:, 1] + X[:, 2]
CLASSES = np.digitize(Y, [-0.5, 0.5])
TABLE = pd.DataFrame(
    {
        "age": np.where(RNG.random(40) < 0.2, np.nan, X[:, 0]),
        "city": pd.Categorical(RNG.choice(["Bonn", "Oslo", "Rome"], 40)),
    }
)
ONE_HOT = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
BUDGET = fw.Budget(steps=2)
CHOSEN: dict[str, tuple[Any, Any, str, str]] = {
    "forest": (RandomForestRegressor(3).fit(X, Y), X, "trees", "RandomForestRegressor is a tree ensemble; .* 40 back"),
    "boosted classes": (GradientBoostingClassifier(n_estimators=3).fit(X, CLASSES), X, "trees", "tree ensemble"),
    "no data": (RandomForestRegressor(3).fit(X, Y), None, "trees", "training weights"),
    "categories and NaN": (
        HistGradientBoostingRegressor(max_iter=3, categorical_features="from_dtype").fit(TABLE, Y),
        TABLE,
        "trees",
        "tree ensemble",
    ),
    "linear": (LinearRegression().fit(X, Y), X, "linear", "LinearRegression is a sum of effects"),
    "support vectors": (LinearSVC().fit(X, CLASSES), X, "linear", "LinearSVC is a sum"),
    "pipeline": (make_pipeline(StandardScaler(), LogisticRegression()).fit(X, CLASSES), X, "linear", "StandardScaler"),
    "pca": (make_pipeline(PCA(3), LinearRegression()).fit(X, Y), X, "enumeration", "4 players have 16 coalitions"),
    "link": (PoissonRegressor().fit(X, np.abs(Y)), X, "enumeration", "16 coalitions; .* 40 background rows"),
    "neighbors": (KNeighborsRegressor().fit(X, Y), X, "enumeration", "16 coalitions"),
    "labels": (KNeighborsClassifier().fit(X, np.stack([Y > 0, X[:, 3] > 0], 1)), X, "enumeration", "16 coalitions"),
    "function": (lambda rows: rows[:, 0] * rows[:, 1], X, "enumeration", "16 coalitions"),
    "module": (seeded(TableModel), X.astype(np.float32), "enumeration", "16 coalitions"),
    "trees in a pipeline": (
        make_pipeline(ONE_HOT, HistGradientBoostingRegressor(max_iter=3)).fit(TABLE, Y),
        TABLE,
        "trees",
        "HistGradientBoostingRegressor behind ColumnTransformer is a tree ensemble; .* 40 background rows",
    ),
    "lists": (lambda rows: rows[:, 0] * rows[:, 1], X.tolist(), "enumeration", "16 coalitions"),
}


def explain(model: Any, data: Any, **options: Any) -> fw.Explainer:  # noqa: ANN401 - any model
    chosen: dict[str, Any] = {"progress": False, "device": "cpu", "budget": BUDGET} | options
    return fw.Explainer(model, data, **chosen)


@pytest.mark.parametrize(("model", "data", "method", "reason"), CHOSEN.values(), ids=list(CHOSEN))
def test_the_method_is_chosen_by_the_model(model: Any, data: Any, method: str, reason: str) -> None:  # noqa: ANN401 - any model
    chosen = explain(model, data)
    assert chosen.method == method
    found = chosen.explain(X if data is None else data[:5], weights=[fw.Shapley(), fw.Beta(0.7, 2.3)])
    makers: dict[str, Any] = {
        "trees": lambda: (fw.PipelineExplainer if hasattr(model, "steps") else fw.TreeExplainer)(model, data),
        "linear": lambda: fw.LinearExplainer(model, data),
        "enumeration": lambda: fw.InterventionalExplainer(model, data, device="cpu", progress=False),
    }
    direct = makers[method]()
    expected = direct.explain(X if data is None else data[:5], weights=[fw.Shapley(), fw.Beta(0.7, 2.3)])
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.base_values, expected.base_values)
    assert found.output_names == expected.output_names
    assert re.search(reason, chosen.reason)
    assert chosen.game == ("path-dependent" if data is None else "interventional")
    assert repr(chosen) == f"Explainer({method}, {chosen.game} game: {chosen.reason})"


def wide(rows: Any) -> Any:  # noqa: ANN401 - rows
    return rows[:, 0] * rows[:, 13]


@pytest.mark.filterwarnings("ignore::fwshapley.training.FewStepsWarning")
@pytest.mark.filterwarnings("ignore::fwshapley.explanation.FidelityWarning")
def test_many_players_are_learned_and_groups_are_few() -> None:
    learned = explain(wide, WIDE)
    assert learned.method == "learned"
    assert learned.game == "conditional"
    assert "14 players are too many to enumerate coalitions (limit 12; game='interventional'" in learned.reason
    same = fw.FeatureExplainer(wide, device="cpu").fit(WIDE, budget=BUDGET, progress=False)
    found, expected = learned.explain(WIDE[:3]), same.explain(WIDE[:3])
    torch.testing.assert_close(found.values, expected.values, atol=0, rtol=0)
    grouped = explain(wide, WIDE, players=fw.groups({"first": range(7), "last": range(7, 14)}))
    assert grouped.method == "enumeration"
    assert grouped.explain(WIDE[:3]).values.shape == (3, 2, 1)


@pytest.mark.filterwarnings("ignore::fwshapley.training.FewStepsWarning")
@pytest.mark.filterwarnings("ignore::fwshapley.explanation.FidelityWarning")
def test_sampling_that_is_sooner_than_training_is_named_before(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"budget": fw.Budget(seconds=60, steps=1), "device": "cpu"}
    assert 0 < expected_seconds(wide, WIDE, players=None, output="auto") < math.inf
    assert math.isinf(expected_seconds(seeded(ImageModel), images(4), players=fw.grid(8, 8, patch=4), output="auto"))
    cases: list[tuple[float, Game, bool]] = [(0.5, "auto", True), (2.0, "auto", False), (0.5, "conditional", False)]
    for seconds, game, is_named in cases:
        monkeypatch.setattr(explainer_module, "expected_seconds", lambda *_, seconds=seconds, **__: seconds)
        fw.Explainer(wide, WIDE, game=game, **options)
        told = "sampling explains the 40 rows of data without training, in about 20.0 s: game='interventional'"
        assert (told in capsys.readouterr().err) == is_named


def test_a_trained_explainer_answers_by_what_was_measured_to_be_good() -> None:
    learned = explain(CHOSEN["linear"][0], X, game="conditional")
    assert isinstance(learned.explainer, fw.FeatureExplainer)
    assert learned.explain(X[:2]).provenance["method"] == "network"  # of unknown quality
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fw.explanation.QualityWarning)
        quality = learned.explainer.measure_quality(X, n_inputs=8, progress=False)
    assert quality.is_poor  # after two steps
    sampled = learned.explain(X[:1], outputs="all")
    assert sampled.provenance["method"] in ("refinement", "sampling")  # whichever was faster; both are exact
    exact = fw.exact_values(learned.explainer.game(X[0]), fw.Shapley(), progress=False)
    torch.testing.assert_close(sampled.values[0], exact.float(), atol=1e-5, rtol=1e-4)
    assert np.allclose(learned(X[:1]).values.ravel(), sampled.values.numpy().ravel(), atol=1e-5)


def test_the_interventional_game_trains_nothing() -> None:
    for name in ("forest", "linear", "neighbors"):
        model, data, method, _ = CHOSEN[name]
        assert explain(model, data, game="interventional").method == method
    sampled = explain(wide, WIDE, game="interventional")
    assert (sampled.method, sampled.game) == ("sampling", "interventional")
    assert re.search(r"coalitions of 14 players are sampled .* 40 background rows", sampled.reason)
    weights = [fw.Shapley(), fw.Beta(4, 1)]
    found = sampled.explain(WIDE[:3], weights=weights)
    exact = explain(wide, WIDE, method="enumeration")
    assert exact.method == "enumeration"
    expected = exact.explain(WIDE[:3], weights=weights)
    assert (np.abs(found.values - expected.values) < 4 * np.asarray(found.stderr) + 1e-12).all()
    assert explain(wide, WIDE, n_calls=120).method == "sampling"  # whoever asks for calls wants sampling
    assert explain(wide, WIDE, method="sampling").method == "sampling"


def test_a_method_of_the_other_game_is_refused() -> None:
    for method in ("trees", "linear", "enumeration", "sampling"):
        with pytest.raises(ValueError, match=f"method='{method}' explains the interventional game"):
            explain(wide, WIDE, method=method, game="conditional")
    with pytest.raises(ValueError, match="method='learned' explains the conditional game"):
        explain(wide, WIDE, method="learned", game="interventional")
    with pytest.raises(ValueError, match="data must be given"):
        explain(CHOSEN["forest"][0], None, game="interventional")
    with pytest.raises(ValueError, match=r"game='interventional' cannot be used: .*sampling needs a table"):
        explain(seeded(ImageModel), images(4), players=fw.grid(8, 8, patch=4), game="interventional")
    with pytest.raises(ValueError, match=r"method='enumeration' cannot be used: 17 players.*limit 16"):
        explain(wide, np.zeros((3, 17)), method="enumeration")


@pytest.mark.filterwarnings("ignore::fwshapley.training.FewStepsWarning")
@pytest.mark.filterwarnings("ignore::fwshapley.explanation.FidelityWarning")
def test_the_conditional_game_is_learned_for_any_model() -> None:
    learned = explain(CHOSEN["linear"][0], X, game="conditional")
    assert (learned.method, learned.game, learned.reason) == ("learned", "conditional", "it was requested")


@pytest.mark.filterwarnings("ignore::fwshapley.training.FewStepsWarning")
@pytest.mark.filterwarnings("ignore::fwshapley.explanation.FidelityWarning")
def test_images_are_learned_and_saved(tmp_path: Path) -> None:
    learned = explain(seeded(ImageModel), images(24), players=fw.grid(8, 8, patch=4))
    assert learned.method == "learned"
    assert "enumeration needs a table" in learned.reason
    learned.save(tmp_path / "explainer")
    loaded = fw.load(tmp_path / "explainer", model=seeded(ImageModel), device="cpu")
    torch.testing.assert_close(loaded.explain(images(2)).values, learned.explain(images(2)).values)


@pytest.mark.filterwarnings("ignore::fwshapley.training.FewStepsWarning")
@pytest.mark.filterwarnings("ignore::fwshapley.explanation.FidelityWarning")
def test_a_method_can_be_requested() -> None:
    forest = CHOSEN["forest"][0]
    trees, enumerated = explain(forest, X), explain(forest, X, method="enumeration")
    assert enumerated.method == "enumeration"
    weights = [fw.Shapley(), fw.Beta(0.7, 2.3)]
    found, expected = enumerated.explain(X[:5], weights=weights), trees.explain(X[:5], weights=weights)
    np.testing.assert_allclose(found.values, expected.values, atol=1e-10)  # two ways to the same game
    learned = explain(forest, X, method="learned")
    assert (learned.method, learned.reason) == ("learned", "it was requested")


@pytest.mark.parametrize(
    ("method", "model", "message"),
    [
        ("trees", LinearRegression().fit(X, Y), "LinearRegression is not a tree ensemble"),
        ("linear", CHOSEN["forest"][0], "coef_ and intercept_"),
        ("linear", CHOSEN["pca"][0], "PCA may combine columns"),
        ("linear", CHOSEN["link"][0], "link function"),
    ],
)
def test_a_method_that_cannot_be_used_is_refused(method: str, model: Any, message: str) -> None:  # noqa: ANN401 - any model
    with pytest.raises(ValueError, match=f"method='{method}' cannot be used: .*{message}"):
        explain(model, X, method=method)


def test_scales_that_have_no_closed_form_are_enumerated() -> None:
    binary = LogisticRegression().fit(X, CLASSES > 0)
    assert explain(binary, X).method == "linear"
    log_odds = explain(binary, X, output="logit")
    assert log_odds.method == "linear"
    probability = explain(binary, X, output="probability")
    assert probability.method == "enumeration"
    np.testing.assert_allclose(probability.explainer.base_values, binary.predict_proba(X).mean(0), atol=1e-12)
    boosted = GradientBoostingClassifier(n_estimators=3).fit(X, CLASSES > 0)
    assert explain(boosted, X, output="logit").method == "trees"
    assert explain(boosted, X, output="probability").method == "enumeration"
    exponential = GradientBoostingClassifier(loss="exponential", n_estimators=3).fit(X, CLASSES > 0)
    assert explain(exponential, X).method == "trees"
    assert explain(exponential, X, output="logit").method == "enumeration"  # its margins are half the log odds
    several = LogisticRegression().fit(X, CLASSES)
    assert explain(several, X, output="logit").method == "enumeration"
    forest = RandomForestClassifier(3).fit(X, CLASSES)
    assert explain(forest, X, output="probability").method == "trees"
    assert explain(forest, X, output="logit").method == "enumeration"


@pytest.mark.parametrize("name", ["forest", "linear"])
def test_saved_explainers_are_those_of_the_method(name: str, tmp_path: Path) -> None:
    explainer = explain(*CHOSEN[name][:2])
    explainer.save(tmp_path / "file.safetensors")
    loaded = fw.load(tmp_path / "file.safetensors")
    assert type(loaded) is type(explainer.explainer)
    np.testing.assert_array_equal(loaded.explain(X).values, explainer.explain(X).values)


def test_a_call_returns_what_shap_plots() -> None:
    pytest.importorskip("shap")
    model = CHOSEN["neighbors"][0]
    explanation = explain(model, X)(X[:3], weights=fw.Beta(16, 1))
    np.testing.assert_allclose(explanation.values.sum(1) + explanation.base_values, model.predict(X[:3]), atol=1e-10)


def test_one_line_says_what_was_chosen(capfd: pytest.CaptureFixture[str]) -> None:
    explain(CHOSEN["linear"][0], X, progress=True)
    assert capfd.readouterr().err == (
        "fw.Explainer: interventional game, exact values of the prediction, since LinearRegression is a sum of effects "
        "of its columns; hidden features take values from 40 background rows\n"
    )
    explain(CHOSEN["linear"][0], X)
    assert capfd.readouterr().err == ""


def test_data_is_needed_except_by_trees() -> None:
    for name in ("linear", "function"):
        with pytest.raises(ValueError, match="data must be given"):
            explain(CHOSEN[name][0], None)


def test_a_file_that_cannot_be_read_is_no_other_model(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(json.dumps({"a": 1}))
    with pytest.raises(ValueError, match="save_model of XGBoost"):
        explain(tmp_path / "model.json", X)
    with pytest.raises(FileNotFoundError, match="missing"):
        explain(tmp_path / "nothing.json", X)


def test_columns_in_another_order_are_found_and_others_ignored() -> None:
    table = pd.DataFrame(X, columns=list("abcd"))
    linear = explain(LinearRegression().fit(table, Y), table)
    np.testing.assert_array_equal(linear.explain(table[list("dcba")]).values, linear.explain(table).values)
    trees = explain(RandomForestRegressor(2).fit(table, Y), table)
    shuffled = trees.explain(table.assign(more="?")[["more", *"dcba"]])
    np.testing.assert_array_equal(shuffled.values, trees.explain(table).values)
    np.testing.assert_array_equal(shuffled.inputs, X)
    with pytest.raises(ValueError, match="no column 'a'"):
        linear.explain(table.rename(columns={"a": "z"}))
