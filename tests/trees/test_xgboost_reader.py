import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwshapley.trees.model_reader import read_model
from trees.rows import Model, at_thresholds, make_table

xgboost = pytest.importorskip("xgboost")

X = make_table()
FILLED = np.nan_to_num(X)
GENERATOR = np.random.default_rng(2)
TARGET = FILLED[:, 0] * (FILLED[:, 1] > 0) + np.isnan(X[:, 2]) + GENERATOR.normal(0, 0.3, len(X))
CLASSES = np.digitize(TARGET, np.quantile(TARGET, [0.4, 0.7]))
WEIGHTS = GENERATOR.integers(0, 4, len(X)).astype(float)
SMALL: dict[str, Any] = {"n_estimators": 6, "max_depth": 4, "learning_rate": 0.5}
TOLERANCE: dict[str, Any] = {"rtol": 2e-6, "atol": 2e-6}  # XGBoost adds in float32


def check_margins(model: Model, x: np.ndarray = X) -> None:
    ensemble = read_model(model)
    booster = model if isinstance(model, xgboost.Booster) else model.get_booster()
    missing = getattr(model, "missing", np.nan)
    beside = at_thresholds(ensemble, x)
    for rows in filter(len, (x, beside)):
        data = xgboost.DMatrix(rows, missing=missing, feature_types=booster.feature_types, enable_categorical=True)
        expected = booster.predict(data, output_margin=True, validate_features=False)
        np.testing.assert_allclose(ensemble.predict(rows), expected.reshape(len(rows), -1), **TOLERANCE)


REGRESSIONS = ["reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:squaredlogerror"]
LINKED = ["count:poisson", "reg:gamma", "reg:tweedie", "survival:cox"]
BINARY = ["binary:logistic", "binary:logitraw", "binary:hinge", "reg:logistic"]
RANKS = ["rank:pairwise", "rank:ndcg"]


@pytest.mark.parametrize("base_score", [None, 0.3])
@pytest.mark.parametrize("objective", [*REGRESSIONS, *LINKED, *BINARY, *RANKS])
def test_margin_of_every_objective(objective: str, base_score: float | None) -> None:
    y = (CLASSES > 0).astype(float) if objective in {*BINARY, *RANKS} else np.abs(TARGET) + 0.1
    parameters = {"objective": objective, "max_depth": 3}
    if base_score is not None:
        parameters["base_score"] = base_score
    data = xgboost.DMatrix(X, y, weight=None if objective in RANKS else WEIGHTS)
    if objective in RANKS:
        data.set_group([100, 200])
    booster = xgboost.train(parameters, data, 5)
    check_margins(booster)
    assert read_model(booster).output == ("value" if objective in REGRESSIONS else "margin")


@pytest.mark.parametrize("objective", ["multi:softprob", "multi:softmax"])
def test_classes(objective: str) -> None:
    model = xgboost.XGBClassifier(objective=objective, **SMALL).fit(X, CLASSES, sample_weight=WEIGHTS)
    check_margins(model)
    assert read_model(model).output_names == ("0", "1", "2")
    two = xgboost.XGBClassifier(**SMALL).fit(X, CLASSES > 0)
    check_margins(two)
    assert read_model(two).output_names == ("1",)


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_several_outputs(strategy: str) -> None:
    targets = np.stack([TARGET, -FILLED[:, 3], CLASSES], 1)
    model = xgboost.XGBRegressor(multi_strategy=strategy, tree_method="hist", **SMALL).fit(X, targets)
    check_margins(model)


def test_quantiles() -> None:
    model = xgboost.XGBRegressor(objective="reg:quantileerror", quantile_alpha=[0.2, 0.5], **SMALL).fit(X, TARGET)
    check_margins(model)


@pytest.mark.parametrize(
    "options",
    [
        {"booster": "dart", "rate_drop": 0.5},
        {"booster": "dart", "rate_drop": 0.5, "one_drop": 1, "normalize_type": "forest"},
        {"num_parallel_tree": 3, "subsample": 0.5},
        {"tree_method": "exact", "gamma": 5},
        {"tree_method": "approx", "grow_policy": "lossguide", "max_leaves": 5},
        {"monotone_constraints": (1, 0, 0, 0, -1), "max_delta_step": 0.2},
        {"min_child_weight": 1e6},  # single leaves
    ],
    ids=str,
)
@pytest.mark.parametrize("y", [TARGET, CLASSES], ids=["values", "classes"])
def test_boosters(options: dict[str, Any], y: np.ndarray) -> None:
    kind = xgboost.XGBRegressor if y is TARGET else xgboost.XGBClassifier
    check_margins(kind(random_state=0, **SMALL | options).fit(X, y))


def test_a_forest() -> None:
    check_margins(xgboost.XGBRFRegressor(n_estimators=5, random_state=0).fit(X, TARGET))


@pytest.mark.parametrize("parallel", [1, 2])
def test_a_model_is_read_up_to_its_best_iteration_as_its_predict_does(parallel: int, tmp_path: Path) -> None:
    model = xgboost.XGBClassifier(
        n_estimators=60, learning_rate=0.8, early_stopping_rounds=3, num_parallel_tree=parallel, subsample=0.9
    )
    model.fit(X[:200], CLASSES[:200], eval_set=[(X[200:], CLASSES[200:])], verbose=False)
    best = model.best_iteration + 1
    assert best < model.get_booster().num_boosted_rounds()
    ensemble = read_model(model)
    assert ensemble.n_trees == best * 3 * parallel
    np.testing.assert_allclose(ensemble.predict(X), model.predict(X, output_margin=True), **TOLERANCE)
    check_margins(model.get_booster())
    model.save_model(tmp_path / "model.json")
    assert read_model(tmp_path / "model.json").n_trees == ensemble.n_trees
    model.get_booster().set_attr(scikit_learn=None)
    model.get_booster().save_model(tmp_path / "booster.json")
    assert read_model(tmp_path / "booster.json").n_trees == model.get_booster().num_boosted_rounds() * 3 * parallel


def test_another_number_that_counts_as_missing() -> None:
    x = np.where(np.isnan(X), -999.1, X)
    model = xgboost.XGBRegressor(missing=-999.1, **SMALL).fit(x, TARGET)
    rows = np.where(GENERATOR.random(x.shape) < 0.1, np.nan, x)
    np.testing.assert_allclose(read_model(model).predict(rows)[:, 0], model.predict(rows), **TOLERANCE)


def make_categories() -> pd.DataFrame:
    table = pd.DataFrame(X[:, :2], columns=["first", "second"])
    cities = pd.Series(GENERATOR.choice(["Bonn", "Ulm", "Kiel", "Jena", "Trier", ""], len(X))).replace("", None)
    table.insert(1, "city", cities.astype("category"))
    table["size"] = pd.Categorical(GENERATOR.choice([10, 20, 30, 55, 70, 99], len(X)))
    return table


@pytest.mark.parametrize("max_cat_to_onehot", [1, 10])
@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_categories_of_a_table(max_cat_to_onehot: int, booster: str) -> None:
    table = make_categories()
    target = TARGET + 2 * table["city"].isin(["Ulm", "Jena"]) - 3 * table["size"].isin([20, 99])
    model = xgboost.XGBRegressor(
        enable_categorical=True, max_cat_to_onehot=max_cat_to_onehot, booster=booster, **SMALL
    ).fit(table, target)
    ensemble = read_model(model)
    assert ensemble.is_categorical.tolist() == [False, True, False, True]
    np.testing.assert_allclose(ensemble.predict(table)[:, 0], model.predict(table), **TOLERANCE)
    reordered = table.assign(city=table["city"].cat.reorder_categories(["Trier", "Jena", "Ulm", "Kiel", "Bonn"]))
    np.testing.assert_allclose(ensemble.predict(reordered)[:, 0], model.predict(reordered), **TOLERANCE)
    with pytest.raises(ValueError, match=r"'Rome' in column 'city', row 0, must be among"):
        ensemble.predict(table.assign(city=pd.Categorical(["Rome"] * len(table))))
    texts = table.astype({"city": object})  # as a .csv file has it
    np.testing.assert_allclose(ensemble.predict(texts)[:, 0], model.predict(table), **TOLERANCE)
    wrong = texts.assign(city=["Rome", *texts["city"][1:]], first=[*texts["first"][:-1], "x"])
    assert [(entry.row, entry.column) for entry in ensemble.find_unusable(wrong)] == [
        (0, "city"),
        (len(X) - 1, "first"),
    ]
    with pytest.raises(ValueError, match=r"categorical columns.*\['city', 'size'\]; got \['size'\]"):
        ensemble.predict(table.assign(city=table["city"].cat.codes))


@pytest.mark.parametrize("max_cat_to_onehot", [1, 100])
def test_category_codes_of_an_array_and_codes_that_training_did_not_have(max_cat_to_onehot: int) -> None:
    x = X.copy()
    codes = GENERATOR.choice([0, 3, 4, 17, 40, 41], len(x)).astype(float)
    x[:, 3] = np.where(GENERATOR.random(len(x)) < 0.1, np.nan, codes)
    target = TARGET + 2 * np.isin(x[:, 3], [3, 41]) - np.isnan(x[:, 3])
    types = ["q", "q", "q", "c", "q"]
    model = xgboost.XGBRegressor(
        feature_types=types, enable_categorical=True, max_cat_to_onehot=max_cat_to_onehot, **SMALL
    ).fit(x, target)
    check_margins(model, x)
    unseen = x.copy()
    unseen[:, 3] = GENERATOR.choice([1, 5, 42, 1000, -1, 33], len(x))
    check_margins(model, unseen)
    with pytest.raises(ValueError, match="whole category code"):
        read_model(model).predict(np.full((1, 5), 0.5))


def test_names_of_columns_are_checked() -> None:
    table = pd.DataFrame(X, columns=list("abcde"))
    ensemble = read_model(xgboost.XGBRegressor(**SMALL).fit(table, TARGET))
    with pytest.raises(ValueError, match=r"lacks \['a'\] and also has \['z'\]"):
        ensemble.predict(table.rename(columns={"a": "z"}))


def test_a_flag_and_nullable_columns_are_numbers() -> None:
    table = pd.DataFrame({"flag": FILLED[:, 0] > 0, "number": FILLED[:, 1].round()}).astype({"number": "Int64"})
    table.loc[3:9, "number"] = pd.NA
    model = xgboost.XGBRegressor(**SMALL).fit(table, TARGET)
    np.testing.assert_allclose(read_model(model).predict(table)[:, 0], model.predict(table), **TOLERANCE)


def document(**options: str) -> dict[str, Any]:
    booster = xgboost.train({"max_depth": 2} | options, xgboost.DMatrix(X, CLASSES > 0), 2)
    return json.loads(booster.save_raw("json"))


def test_what_has_no_closed_form_is_refused() -> None:
    model = xgboost.XGBClassifier(**SMALL).fit(X, CLASSES > 0)
    with pytest.raises(ValueError, match=r"probability of xgboost\.XGBClassifier.*output='margin'"):
        read_model(model, output="probability")
    poisson = xgboost.XGBRegressor(objective="count:poisson", **SMALL).fit(X, CLASSES)
    with pytest.raises(ValueError, match="output='margin'"):
        read_model(poisson, output="value")
    linear = xgboost.train({"booster": "gblinear"}, xgboost.DMatrix(FILLED, TARGET), 2)
    with pytest.raises(ValueError, match="gblinear"):
        read_model(linear)
    with pytest.raises(ValueError, match="fitted"):
        read_model(xgboost.XGBRegressor())


def write(folder: Path, content: dict[str, Any]) -> Path:
    path = folder / "model.json"
    path.write_text(json.dumps(content))
    return path


def test_damaged_and_unknown_files_are_refused(tmp_path: Path) -> None:
    content = document()
    assert read_model(write(tmp_path, content)).n_trees == 2
    with pytest.raises(ValueError, match=r"XGBoost 9\.0\.0"):
        read_model(write(tmp_path, content | {"version": [9, 0, 0]}))
    unknown = document()
    unknown["learner"]["objective"]["name"] = "reg:new"
    with pytest.raises(ValueError, match="'reg:new'"):
        read_model(write(tmp_path, unknown))
    leafless = document()
    for tree in leafless["learner"]["gradient_booster"]["model"]["trees"]:
        for name in ("split_conditions", "base_weights"):
            del tree[name]
    with pytest.raises(ValueError, match="split_conditions"):
        read_model(write(tmp_path, leafless))
    cut = document()
    tree = cut["learner"]["gradient_booster"]["model"]["trees"][1]
    for name in ("left_children", "right_children", "split_conditions", "split_indices", "default_left", "sum_hessian"):
        tree[name] = tree[name][:3]
    with pytest.raises(ValueError, match=r"nodes|damaged"):
        read_model(write(tmp_path, cut))
    unnamed = document()
    unnamed["learner"]["feature_names"] = ["one"]
    with pytest.raises(ValueError, match="1 entries for 5"):
        read_model(write(tmp_path, unnamed))
    based = document()
    based["learner"]["learner_model_param"]["base_score"] = "high"
    with pytest.raises(ValueError, match="XGBoost model cannot be read"):
        read_model(write(tmp_path, based))
    old = document(objective="binary:logitraw") | {"version": [2, 1, 0]}
    with pytest.raises(ValueError, match=r"binary:logitraw.*3\.1"):
        read_model(write(tmp_path, old))


def test_the_json_of_earlier_versions(tmp_path: Path) -> None:
    content = document(objective="binary:logistic") | {"version": [1, 7, 6]}
    learner = content["learner"]
    learner["learner_model_param"]["base_score"] = "2.5E-1"
    model = learner["gradient_booster"]["model"]
    del model["cats"], model["iteration_indptr"]
    for tree in model["trees"]:
        tree["default_left"] = [bool(flag) for flag in tree["default_left"]]
    path = write(tmp_path, content)
    booster = xgboost.Booster(model_file=path)
    expected = booster.predict(xgboost.DMatrix(X), output_margin=True)
    np.testing.assert_allclose(read_model(path).predict(X)[:, 0], expected, **TOLERANCE)


def test_a_dump_of_single_trees_is_refused(tmp_path: Path) -> None:
    booster = xgboost.train({"max_depth": 2}, xgboost.DMatrix(X, TARGET), 2)
    booster.dump_model(tmp_path / "dump.json", dump_format="json")
    with pytest.raises(ValueError, match="base score"):
        read_model(tmp_path / "dump.json")
    booster.save_model(tmp_path / "model.ubj")
    with pytest.raises(ValueError, match="JSON"):
        read_model(tmp_path / "model.ubj")
    with pytest.raises(FileNotFoundError, match=r"nothing\.json"):
        read_model(tmp_path / "nothing.json")
