import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwshapley.trees.model_reader import read_model
from trees.rows import Model, at_thresholds, make_table

catboost = pytest.importorskip("catboost")

X = make_table()
FILLED = np.nan_to_num(X)
GENERATOR = np.random.default_rng(2)
TARGET = FILLED[:, 0] * (FILLED[:, 1] > 0) + np.isnan(X[:, 2]) + GENERATOR.normal(0, 0.3, len(X))
CLASSES = np.digitize(TARGET, np.quantile(TARGET, [0.4, 0.7]))
WEIGHTS = GENERATOR.integers(0, 4, len(X)).astype(float)
SMALL: dict[str, Any] = {
    "iterations": 6,
    "depth": 3,
    "learning_rate": 0.5,
    "verbose": 0,
    "allow_writing_files": False,
    "thread_count": 1,
}
TOLERANCE: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-12}
POLICIES = ["SymmetricTree", "Depthwise", "Lossguide"]


def check_scores(model: Model, x: np.ndarray = X) -> None:
    ensemble = read_model(model)
    for rows in filter(len, (x, at_thresholds(ensemble, x))):
        expected = model.predict(rows, prediction_type="RawFormulaVal").reshape(len(rows), -1)
        np.testing.assert_allclose(ensemble.predict(rows), expected, **TOLERANCE)


VALUES = ["RMSE", "MAE", "Quantile:alpha=0.3", "MAPE", "Huber:delta=1", "Expectile:alpha=0.3", "Lq:q=3"]
LINKED = ["Poisson", "Tweedie:variance_power=1.5", "LogLinQuantile", "RMSEWithUncertainty", "Logloss", "CrossEntropy"]


@pytest.mark.parametrize("loss", [*VALUES, *LINKED])
def test_score_of_every_loss(loss: str) -> None:
    y = CLASSES > 0 if loss in {"Logloss", "CrossEntropy"} else np.abs(TARGET) + 0.1
    model = catboost.CatBoost({"loss_function": loss} | SMALL).fit(X, y.astype(float), sample_weight=WEIGHTS + 0.5)
    check_scores(model)
    assert read_model(model).output == ("value" if loss in VALUES else "margin")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("nan_mode", ["Min", "Max"])
@pytest.mark.parametrize("data", [X, FILLED], ids=["missing", "filled"])
def test_missing_values(policy: str, nan_mode: str, data: np.ndarray) -> None:
    check_scores(catboost.CatBoostRegressor(grow_policy=policy, nan_mode=nan_mode, **SMALL).fit(data, TARGET))


@pytest.mark.parametrize("policy", POLICIES)
def test_classes(policy: str) -> None:
    names = np.array(["low", "middle", "top"])[CLASSES]
    for loss in ("MultiClass", "MultiClassOneVsAll"):
        model = catboost.CatBoostClassifier(grow_policy=policy, loss_function=loss, **SMALL).fit(X, names)
        check_scores(model)
        assert read_model(model).output_names == ("low", "middle", "top")
    two = catboost.CatBoostClassifier(grow_policy=policy, **SMALL).fit(X, CLASSES > 0)
    check_scores(two)
    assert read_model(two).output_names == ("True",)


def test_several_outputs() -> None:
    targets = np.stack([TARGET, -FILLED[:, 3], CLASSES], 1)
    check_scores(catboost.CatBoostRegressor(loss_function="MultiRMSE", **SMALL).fit(X, targets))
    check_scores(catboost.CatBoostRegressor(loss_function="MultiQuantile:alpha=0.2,0.7", **SMALL).fit(X, TARGET))


@pytest.mark.parametrize("policy", POLICIES)
def test_single_leaves(policy: str) -> None:
    model = catboost.CatBoostRegressor(grow_policy=policy, **SMALL | {"depth": 0}).fit(X, TARGET)
    assert read_model(model).feature.max() < 0
    check_scores(model)


def test_a_changed_scale_and_bias() -> None:
    model = catboost.CatBoostRegressor(**SMALL).fit(X, TARGET)
    model.set_scale_and_bias(2.5, -1.0)
    check_scores(model)


def test_a_model_that_stopped_early() -> None:
    model = catboost.CatBoostClassifier(**SMALL | {"iterations": 80})
    model.fit(X[:200], CLASSES[:200], eval_set=(X[200:], CLASSES[200:]), early_stopping_rounds=3)
    assert read_model(model).n_trees == model.tree_count_ == model.best_iteration_ + 1 < 80
    check_scores(model)


def make_categories() -> pd.DataFrame:
    table = pd.DataFrame(X[:, :2], columns=["first", "second"])
    table.insert(1, "city", GENERATOR.choice(["Bonn", "Ulm", "Köln", 'J"e\\n\na', "Trier"], len(X)))
    table["size"] = GENERATOR.choice([10, 20, 30, -55, 70, 99], len(X))
    table["flag"] = GENERATOR.choice([True, False], len(X)).astype(object)
    return table


@pytest.mark.parametrize("policy", POLICIES)
def test_categories(policy: str) -> None:
    table = make_categories()
    target = (
        TARGET + 2 * table["city"].isin(["Ulm", "Bonn"]) - 3 * table["size"].isin([20, 99]) + 1 * (table["flag"] == 1)
    )
    options = {"one_hot_max_size": 20, "cat_features": ["city", "size", "flag"], "grow_policy": policy}
    model = catboost.CatBoostRegressor(**SMALL | {"iterations": 12}, **options).fit(table, target)
    ensemble = read_model(model, categories=table)
    assert ensemble.is_categorical.any()
    unseen = table.copy()
    unseen.loc[:30, "city"] = "Rome"
    unseen.loc[20:50, "size"] = 7
    for rows in (table, unseen, table.astype({"city": "category", "size": str})):
        np.testing.assert_allclose(ensemble.predict(rows)[:, 0], model.predict(rows), **TOLERANCE)
    with pytest.raises(ValueError, match="categories of read_model"):
        read_model(model)
    with pytest.raises(ValueError, match="categories of read_model"):
        read_model(model, categories=table[:1])
    unseen.loc[3, "city"] = None
    with pytest.raises(ValueError, match=r"nan in column 'city', row 3, is missing"):
        ensemble.predict(unseen)
    with pytest.raises(TypeError, match="'size'"):
        ensemble.predict(table.astype({"size": float}))


def test_a_column_of_categories_that_no_split_uses_may_contain_anything() -> None:
    table = make_categories()[["first", "city"]].assign(city="same")
    model = catboost.CatBoostRegressor(**SMALL, cat_features=["city"]).fit(table, TARGET)
    np.testing.assert_allclose(read_model(model).predict(table)[:, 0], model.predict(table), **TOLERANCE)


def test_what_cannot_be_represented_is_refused() -> None:
    table = make_categories()
    model = catboost.CatBoostRegressor(cat_features=["city", "size", "flag"], **SMALL).fit(table, TARGET)
    with pytest.raises(ValueError, match=r"CTR.*one_hot_max_size"):
        read_model(model, categories=table)
    texts = pd.DataFrame({"words": ["one two three", "four five six"] * 150, "number": X[:, 0]})
    model = catboost.CatBoostClassifier(text_features=["words"], **SMALL).fit(texts, CLASSES > 0)
    with pytest.raises(ValueError, match="text"):
        read_model(model)
    with pytest.raises(ValueError, match="fitted"):
        read_model(catboost.CatBoostRegressor())
    boosted = catboost.CatBoostClassifier(**SMALL).fit(X, CLASSES > 0)
    with pytest.raises(ValueError, match="output='margin'"):
        read_model(boosted, output="probability")


def test_names_of_columns_are_checked() -> None:
    table = pd.DataFrame(X, columns=list("abcde"))
    ensemble = read_model(catboost.CatBoostRegressor(**SMALL).fit(table, TARGET))
    with pytest.raises(ValueError, match=r"lacks \['a'\] and also has \['z'\]"):
        ensemble.predict(table.rename(columns={"a": "z"}))


@pytest.mark.parametrize("policy", POLICIES)
def test_files(policy: str, tmp_path: Path) -> None:
    model = catboost.CatBoostRegressor(grow_policy=policy, **SMALL).fit(X, TARGET)
    model.save_model(tmp_path / "model.json", format="json")
    np.testing.assert_allclose(read_model(tmp_path / "model.json").predict(X)[:, 0], model.predict(X), **TOLERANCE)
    content = json.loads((tmp_path / "model.json").read_text())
    trees = "oblivious_trees" if policy == "SymmetricTree" else "trees"
    damaged = {
        "leaf_values|value": content | {trees: [leafless(tree) for tree in content[trees]]},
        "'DenseFeature'": json.loads(json.dumps(content).replace('"FloatFeature"', '"DenseFeature"')),
        "no trees": content | {trees: []},
        "scale_and_bias": {name: part for name, part in content.items() if name != "scale_and_bias"},
        "trees": {name: part for name, part in content.items() if name != trees},
    }
    for message, changed in damaged.items():
        (tmp_path / "damaged.json").write_text(json.dumps(changed))
        with pytest.raises(ValueError, match=message):
            read_model(tmp_path / "damaged.json")


def leafless(tree: dict[str, Any]) -> dict[str, Any]:
    """A tree without the values of its leaves."""
    return json.loads(json.dumps(tree).replace('"leaf_values"', '"leaf"').replace('"value"', '"leaf"'))
