from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwshapley.trees.model_reader import read_model
from trees.rows import Model, at_thresholds, make_table

lightgbm = pytest.importorskip("lightgbm")

X = make_table()
FILLED = np.nan_to_num(X)
GENERATOR = np.random.default_rng(2)
TARGET = FILLED[:, 0] * (FILLED[:, 1] > 0) + np.isnan(X[:, 2]) + GENERATOR.normal(0, 0.3, len(X))
CLASSES = np.digitize(TARGET, np.quantile(TARGET, [0.4, 0.7]))
WEIGHTS = GENERATOR.integers(0, 4, len(X)).astype(float)
SMALL: dict[str, Any] = {
    "n_estimators": 6,
    "num_leaves": 8,
    "min_child_samples": 5,
    "learning_rate": 0.5,
    "verbose": -1,
    "n_jobs": 1,
}
PARAMETERS: dict[str, Any] = {"num_leaves": 8, "min_data_in_leaf": 5, "verbose": -1, "num_threads": 1}
TOLERANCE: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-12}


def check_scores(model: Model, x: np.ndarray = X) -> None:
    ensemble = read_model(model)
    booster = model if isinstance(model, lightgbm.Booster) else model.booster_
    zeros = np.where(GENERATOR.random(x.shape) < 0.3, GENERATOR.choice([0.0, 1e-36, -1e-35, 1e-30], x.shape), x)
    for rows in filter(len, (x, zeros, at_thresholds(ensemble, x))):
        expected = booster.predict(rows, raw_score=True).reshape(len(rows), -1)
        np.testing.assert_allclose(ensemble.predict(rows), expected, **TOLERANCE)


REGRESSIONS = ["regression", "regression_l1", "huber", "fair", "quantile", "mape"]
LINKED = ["poisson", "gamma", "tweedie"]
BINARY = ["binary", "cross_entropy", "cross_entropy_lambda", "lambdarank", "rank_xendcg"]


@pytest.mark.parametrize("objective", [*REGRESSIONS, *LINKED, *BINARY])
def test_score_of_every_objective(objective: str) -> None:
    y = (CLASSES > 0).astype(float) if objective in BINARY else np.abs(TARGET) + 0.1
    ranks = objective in {"lambdarank", "rank_xendcg"}
    data = lightgbm.Dataset(
        X,
        y,
        weight=None if ranks else WEIGHTS + (objective == "cross_entropy_lambda"),
        group=[100, 200] if ranks else None,
    )
    booster = lightgbm.train(PARAMETERS | {"objective": objective}, data, 5)
    check_scores(booster)
    assert read_model(booster).output == ("value" if objective in REGRESSIONS else "margin")
    if objective in REGRESSIONS:
        np.testing.assert_allclose(read_model(booster).predict(X)[:, 0], booster.predict(X), **TOLERANCE)


def test_square_roots_are_a_link() -> None:
    booster = lightgbm.train(PARAMETERS | {"reg_sqrt": True}, lightgbm.Dataset(X, np.abs(TARGET)), 5)
    check_scores(booster)
    assert read_model(booster).output == "margin"
    with pytest.raises(ValueError, match="output='margin'"):
        read_model(booster, output="value")


@pytest.mark.parametrize("objective", ["multiclass", "multiclassova"])
def test_classes(objective: str) -> None:
    names = np.array(["low", "middle", "top"])[CLASSES]
    model = lightgbm.LGBMClassifier(objective=objective, **SMALL).fit(X, names, sample_weight=WEIGHTS)
    check_scores(model)
    assert read_model(model).output_names == ("low", "middle", "top")
    two = lightgbm.LGBMClassifier(**SMALL).fit(X, CLASSES > 0)
    check_scores(two)
    assert read_model(two).output_names == ("True",)


@pytest.mark.parametrize(
    "options",
    [
        {"boosting_type": "dart", "drop_rate": 0.5},
        {"data_sample_strategy": "goss"},
        {"extra_trees": True, "max_bin": 15},
        {"zero_as_missing": True},
        {"use_missing": False},
        {"monotone_constraints": [1, 0, 0, 0, -1]},
        {"min_child_samples": 290},  # single leaves
        {"path_smooth": 10, "reg_lambda": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("data", [X, FILLED], ids=["missing", "filled"])
@pytest.mark.parametrize("y", [TARGET, CLASSES], ids=["values", "classes"])
def test_boosters(options: dict[str, Any], y: np.ndarray, data: np.ndarray) -> None:
    kind = lightgbm.LGBMRegressor if y is TARGET else lightgbm.LGBMClassifier
    check_scores(kind(random_state=0, **SMALL | options).fit(data, y))


@pytest.mark.parametrize("objective", ["regression", "binary", "poisson"])
def test_the_margin_of_a_forest_is_what_its_predictions_are_made_of(objective: str) -> None:
    y = {"regression": TARGET, "binary": CLASSES > 0, "poisson": CLASSES}[objective]
    options = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "objective": objective}
    booster = lightgbm.train(PARAMETERS | options, lightgbm.Dataset(X, y), 7)
    link: Model = {"regression": lambda s: s, "binary": lambda s: 1 / (1 + np.exp(-s)), "poisson": np.exp}[objective]
    np.testing.assert_allclose(link(read_model(booster).predict(X)[:, 0]), booster.predict(X), **TOLERANCE)


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_model_is_read_up_to_its_best_iteration(*, wrapped: bool, tmp_path: Path) -> None:
    model = lightgbm.LGBMClassifier(**SMALL | {"n_estimators": 80})
    stop = lightgbm.early_stopping(3, verbose=False)
    model.fit(X[:200], CLASSES[:200], eval_X=X[200:], eval_y=CLASSES[200:], callbacks=[stop])
    best = model.best_iteration_
    assert best < 80
    ensemble = read_model(model if wrapped else model.booster_)
    assert ensemble.n_trees == best * 3
    check_scores(model)
    model.booster_.save_model(tmp_path / "model.txt")
    assert read_model(tmp_path / "model.txt").n_trees == best * 3


def make_categories() -> pd.DataFrame:
    table = pd.DataFrame(X[:, :2], columns=["the first", "second"])
    cities = pd.Series(GENERATOR.choice(["Bonn", "Ulm", "Köln", "Jena", "Trier", ""], len(X))).replace("", None)
    table.insert(1, "city", cities.astype("category"))
    table["size"] = pd.Categorical(GENERATOR.choice([10, 20, 30, 55, 70, 99], len(X)))
    return table


@pytest.mark.parametrize("max_cat_to_onehot", [1, 10])
def test_categories_of_a_table(max_cat_to_onehot: int) -> None:
    table = make_categories()
    target = TARGET + 2 * table["city"].isin(["Ulm", "Jena"]) - 3 * table["size"].isin([20, 99])
    options = {"max_cat_to_onehot": max_cat_to_onehot, "min_data_per_group": 5, "cat_smooth": 0}
    model = lightgbm.LGBMRegressor(**SMALL, **options).fit(table, target)
    ensemble = read_model(model)
    assert ensemble.is_categorical.tolist() == [False, True, False, True]
    np.testing.assert_allclose(ensemble.predict(table)[:, 0], model.predict(table), **TOLERANCE)
    cities = table["city"].astype(object)
    cities[:30] = "Rome"  # counts as missing
    cities[cities == "Jena"] = None
    changed = table.assign(city=pd.Categorical(cities, categories=["Trier", "Rome", "Ulm", "Köln", "Bonn"]))
    np.testing.assert_allclose(ensemble.predict(changed)[:, 0], model.predict(changed), **TOLERANCE)
    texts = table.astype({"city": object})  # as a .csv file has it
    np.testing.assert_allclose(ensemble.predict(texts)[:, 0], model.predict(table), **TOLERANCE)
    assert ensemble.find_unusable(texts.assign(city="Rome")) == []  # LightGBM has a rule for it
    with pytest.raises(ValueError, match="categorical columns"):
        ensemble.predict(table.assign(city=table["city"].cat.codes))


def test_ordered_categories_cannot_be_told_from_others_so_codes_are_needed() -> None:
    table = make_categories()
    table["size"] = table["size"].cat.as_ordered()
    model = lightgbm.LGBMRegressor(**SMALL).fit(table, TARGET)
    ensemble = read_model(model)
    with pytest.raises(ValueError, match="codes"):
        ensemble.predict(table)
    codes = table.assign(
        city=table["city"].cat.codes.astype(float).replace(-1, np.nan), size=table["size"].cat.codes
    ).to_numpy(float)
    np.testing.assert_allclose(ensemble.predict(codes)[:, 0], model.predict(table), **TOLERANCE)


@pytest.mark.parametrize("max_cat_to_onehot", [1, 100])
def test_category_codes_of_an_array_and_codes_that_training_did_not_have(max_cat_to_onehot: int) -> None:
    x = X.copy()
    codes = GENERATOR.choice([0, 3, 4, 17, 40, 41, 70], len(x)).astype(float)
    x[:, 3] = np.where(GENERATOR.random(len(x)) < 0.1, np.nan, codes)
    target = TARGET + 2 * np.isin(x[:, 3], [3, 41]) - np.isnan(x[:, 3])
    options = {"max_cat_to_onehot": max_cat_to_onehot, "min_data_per_group": 5, "cat_smooth": 0}
    model = lightgbm.LGBMRegressor(**SMALL, **options).fit(x, target, categorical_feature=[3])
    unseen = x.copy()
    unseen[:, 3] = GENERATOR.choice([1, 5, 42, 1000, -1, 33, 1e9], len(x))
    for rows in (x, unseen):
        np.testing.assert_allclose(read_model(model).predict(rows)[:, 0], model.predict(rows), **TOLERANCE)


def test_names_of_columns_are_checked() -> None:
    table = pd.DataFrame(X, columns=["with space", *"bcde"])
    ensemble = read_model(lightgbm.LGBMRegressor(**SMALL).fit(table, TARGET))
    assert ensemble.predict(table).shape == (len(X), 1)
    with pytest.raises(ValueError, match=r"lacks .*'b'\] and also has .*'z'\]"):
        ensemble.predict(table.rename(columns={"b": "z"}))


def test_a_custom_objective_is_a_margin() -> None:
    def squares(scores: np.ndarray, data: Model) -> tuple[np.ndarray, np.ndarray]:
        return scores - data.get_label(), np.ones(len(scores))

    booster = lightgbm.train(PARAMETERS | {"objective": squares}, lightgbm.Dataset(X, TARGET), 5)
    check_scores(booster)
    assert read_model(booster).output == "margin"
    with pytest.raises(ValueError, match=r"probability of lightgbm\.Booster"):
        read_model(booster, output="probability")


def test_trees_that_treat_zeros_differently_are_refused() -> None:
    data = lightgbm.Dataset(X, TARGET, free_raw_data=False)
    first = lightgbm.train(PARAMETERS | {"zero_as_missing": True}, data, 3)
    second = lightgbm.train(PARAMETERS, lightgbm.Dataset(X, TARGET), 3, init_model=first)
    with pytest.raises(ValueError, match="zero_as_missing"):
        read_model(second)


def test_what_cannot_be_represented_is_refused() -> None:
    linear = lightgbm.LGBMRegressor(linear_tree=True, **SMALL).fit(FILLED, TARGET)
    with pytest.raises(ValueError, match="linear_tree=False"):
        read_model(linear)
    with pytest.raises(ValueError, match="fitted"):
        read_model(lightgbm.LGBMRegressor())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version=v4", "version=v9", "v9"),
        ("leaf_value=", "leaf=", "leaf_value"),
        ("end of trees", "", "cut off"),
        ("Tree=", "Three=", "no trees"),
        ("left_child=", "left_child=5 ", "left_child"),
        ("num_tree_per_iteration=1", "", "num_tree_per_iteration"),
        ("threshold=", "threshold=x ", "LightGBM model cannot be read"),
        ("feature_names=Column_0 ", "feature_names=", "4 of 5"),
    ],
)
def test_damaged_and_unknown_files_are_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = lightgbm.LGBMRegressor(**SMALL).fit(X, TARGET).booster_.model_to_string()
    path = tmp_path / "model.txt"
    path.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=message):
        read_model(path)
