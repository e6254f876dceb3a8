"""Values of trees behind preprocessing beside enumeration of the pipeline's own game, which calls the pipeline."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_regression
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeRegressor

import fwshapley as fw

RNG = np.random.default_rng(0)
N = 120
X = RNG.normal(size=(N, 4))
Y = X[:, 0] * X[:, 1] + np.abs(X[:, 2]) + 0.1 * X[:, 3]
CLASSES = np.digitize(Y, [0.3, 1.0])
TABLE = pd.DataFrame(
    {
        "a": np.where(RNG.random(N) < 0.2, np.nan, X[:, 0]),
        "a_b": X[:, 1],
        "town": RNG.choice(["Bonn", "Oslo", "Rome", "b_Rome"], N),
        "size": pd.Categorical(RNG.choice(["L", "M", "S"], N), ["S", "M", "L"], ordered=True),
        "rooms": RNG.integers(1, 6, N),
    }
)
TARGET = Y + (TABLE.town == "Rome") * X[:, 1] + TABLE.rooms.to_numpy() * (TABLE["size"] == "S").to_numpy()
WEIGHTINGS = [fw.Shapley(), fw.Beta(4, 1), fw.Beta(0.7, 2.3), fw.Banzhaf(0.2), fw.LeaveOneOut()]


def named_strangely(column: str, category: str) -> str:
    return f"{category} of {len(column)}"


def boosted() -> GradientBoostingRegressor:
    return GradientBoostingRegressor(n_estimators=8, random_state=0)


def forest() -> RandomForestRegressor:
    return RandomForestRegressor(5, random_state=0)


FILL = SimpleImputer(add_indicator=True)
PREPARATIONS: dict[str, tuple[Any, Any]] = {
    "scaler": (StandardScaler(), X),
    "two scalers": (make_pipeline(MinMaxScaler(), "passthrough", PowerTransformer()), X),
    "quantiles": (QuantileTransformer(n_quantiles=20), X),
    "nothing": ("passthrough", X),
    "bins": (KBinsDiscretizer(3), X),
    "bins as numbers": (KBinsDiscretizer(3, encode="ordinal"), X),
    "splines": (SplineTransformer(4, include_bias=False), X),
    "logarithms": (make_pipeline(MinMaxScaler(), FunctionTransformer(np.log1p)), X),
    "some columns": (make_pipeline(StandardScaler(), SelectKBest(f_regression, k=2)), X),
    "union": (make_union(StandardScaler(), KBinsDiscretizer(3), "passthrough"), X),
    "weights": (FeatureUnion([("s", StandardScaler()), ("d", "drop")], transformer_weights={"s": 2}), X),
    "numbers of columns": (ColumnTransformer([("s", StandardScaler(), [3, 0]), ("d", "drop", slice(1, 2))]), X),
    "flags": (make_column_transformer((StandardScaler(), [True, False, False, True]), remainder="passthrough"), X),
    "a scalar": (make_column_transformer((StandardScaler(), [-1]), (KBinsDiscretizer(2), slice(0, 2))), X),
    "imputer": (make_pipeline(FILL, StandardScaler()), TABLE[["a", "a_b", "rooms"]]),
    "indicator": (make_union(SimpleImputer(), MissingIndicator()), TABLE[["a", "a_b", "rooms"]]),
    "one-hot": (make_column_transformer((OneHotEncoder(), ["town", "size"]), remainder="drop"), TABLE),
    "one-hot alone": (OneHotEncoder(drop="first", sparse_output=False), TABLE[["size", "town"]]),
    "its own names": (OneHotEncoder(feature_name_combiner=named_strangely), TABLE[["size", "town"]]),
    "rare categories": (OneHotEncoder(min_frequency=30, max_categories=3), TABLE[["size", "town", "rooms"]]),
    "dropped and passed": (
        make_column_transformer((OneHotEncoder(drop="if_binary"), ["size"]), ("drop", ["town"]), remainder=FILL),
        TABLE,
    ),
    "codes": (
        make_column_transformer(
            (OrdinalEncoder(), ["town", "size"]),
            (FILL, ["a"]),
            remainder="passthrough",
            verbose_feature_names_out=False,
        ),
        TABLE,
    ),
    "targets": (make_column_transformer((TargetEncoder(), ["town", "size"]), (FILL, ["a"])), TABLE),
    "nested": (
        make_pipeline(
            make_column_transformer(
                (
                    make_pipeline(FILL, make_union(StandardScaler(), SplineTransformer(3))),
                    make_column_selector("^a|^r"),
                ),
                (
                    make_pipeline(
                        OrdinalEncoder(),
                        make_column_transformer((OneHotEncoder(drop="first"), [1]), remainder="passthrough"),
                    ),
                    ["size", "town"],
                ),
                ("passthrough", slice("a_b", "a_b")),
            ),
            VarianceThreshold(),
        ),
        TABLE,
    ),
    "twice": (make_column_transformer((OneHotEncoder(), ["town"]), (TargetEncoder(), ["town"])), TABLE),
    "no columns": (make_column_transformer((FILL, ["a", "rooms"]), (OneHotEncoder(), [])), TABLE),
    "frames between": (
        make_pipeline(
            make_column_transformer((FILL, ["a"]), ("passthrough", ["rooms", "a_b"])).set_output(transform="pandas"),
            make_column_transformer((StandardScaler(), [2, 0]), remainder="passthrough").set_output(transform="pandas"),
        ),
        TABLE,
    ),
}


def fitted(name: str, final: Any = None) -> tuple[Pipeline, Any]:  # noqa: ANN401 - of any library
    """A pipeline, and the table that it was fitted on."""
    preparation, table = PREPARATIONS[name]
    target = Y if table is X else TARGET
    return Pipeline([("prepare", preparation), ("model", boosted() if final is None else final)]).fit(
        table, target
    ), table


def enumerated(model: Any, background: Any, **options: Any) -> fw.InterventionalExplainer:  # noqa: ANN401 - any model
    """Explains the same game by calling the model for all coalitions."""
    return fw.InterventionalExplainer(model, background, device="cpu", progress=False, **options)


def agree(found: fw.Attribution, truth: fw.Attribution, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(found.values, truth.values, rtol=0, atol=tolerance)
    np.testing.assert_allclose(found.base_values, truth.base_values, rtol=0, atol=tolerance)
    assert found.players.names == truth.players.names


@pytest.mark.parametrize("name", PREPARATIONS)
def test_values_are_those_of_enumeration(name: str) -> None:
    pipeline, table = fitted(name)
    explainer = fw.PipelineExplainer(pipeline, table[:9])
    found = explainer.explain(table[20:24], weights=WEIGHTINGS)
    agree(found, enumerated(pipeline, table[:9]).explain(table[20:24], weights=WEIGHTINGS))
    np.testing.assert_allclose(explainer.predict(table)[:, 0], pipeline.predict(table), atol=1e-12)


ONE_HOT = make_column_transformer((OneHotEncoder(), ["town", "size"]), remainder="passthrough", sparse_threshold=1)


def of_library(name: str) -> tuple[Any, Any]:
    """A fitted pipeline of a boosting library behind a sparse one-hot encoding, and a function of its margins."""
    xgboost, lightgbm, catboost = map(pytest.importorskip, ("xgboost", "lightgbm", "catboost"))
    makers: dict[str, Any] = {
        "xgboost": lambda: xgboost.XGBClassifier(n_estimators=6, max_depth=4, n_jobs=1),
        "lightgbm": lambda: lightgbm.LGBMClassifier(n_estimators=6, num_leaves=6, verbose=-1, n_jobs=1),
        "catboost": lambda: catboost.CatBoostClassifier(iterations=6, depth=4, verbose=0, thread_count=1),
    }
    options: dict[str, Any] = {
        "xgboost": {"output_margin": True},
        "lightgbm": {"raw_score": True},
        "catboost": {"prediction_type": "RawFormulaVal"},
    }
    frames = name == "lightgbm"  # whose predict warns of arrays without names
    encode = make_column_transformer((OneHotEncoder(sparse_output=not frames), ["town", "size"]), remainder=FILL)
    encode = encode.set_output(transform="pandas") if frames else encode.set_params(sparse_threshold=1)
    pipeline = make_pipeline(encode, makers[name]()).fit(TABLE, np.greater(TARGET, TARGET.mean()))
    return pipeline, lambda rows: pipeline[-1].predict(encode.transform(rows), **options[name])


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost"])
def test_boosting_libraries(name: str) -> None:
    """Also where XGBoost reads the absent entries of a sparse table as missing."""
    pipeline, margins = of_library(name)
    explainer = fw.PipelineExplainer(pipeline, TABLE[:9])
    tolerance = 1e-10 if name != "xgboost" else 3e-6  # XGBoost computes in single precision
    found = explainer.explain(TABLE[20:24], weights=WEIGHTINGS)
    truth = enumerated(margins, TABLE[:9], output="raw").explain(TABLE[20:24], weights=WEIGHTINGS)
    agree(found, truth, tolerance)
    np.testing.assert_allclose(explainer.predict(TABLE)[:, 0], margins(TABLE), atol=tolerance)
    assert found.output_names == ("1" if name == "xgboost" else "True",)
    assert found.provenance["output"] == "margin"


def test_classes_have_their_names() -> None:
    forests = make_pipeline(ONE_HOT, RandomForestClassifier(5, random_state=0))
    filled = TABLE.fillna({"a": 0})
    pipeline = forests.fit(filled, np.digitize(TARGET, [0.5, 2]))
    found = fw.PipelineExplainer(pipeline, filled[:9]).explain(filled[20:24], weights=WEIGHTINGS)
    truth = enumerated(pipeline, filled[:9]).explain(filled[20:24], weights=WEIGHTINGS, outputs="all")
    agree(found, truth)
    assert found.output_names == ("0", "1", "2")
    renamed = fw.PipelineExplainer(pipeline, filled[:9], output_names=["low", "middle", "high"])
    assert renamed.explain(filled[:2], outputs=["high"]).output_names == ("low", "middle", "high")
    with pytest.raises(ValueError, match="output_names has 2 names for a model of 3 outputs"):
        fw.PipelineExplainer(pipeline, filled[:9], output_names=["low", "high"])


def test_groups_of_columns_are_players() -> None:
    pipeline, table = fitted("nested", ExtraTreesRegressor(5, random_state=0))
    players = fw.groups({"home": ["rooms", "size"], "place": ["town", "a"]}, names=list(TABLE.columns))
    found = fw.PipelineExplainer(pipeline, table[:9], players=players).explain(table[20:24], weights=WEIGHTINGS)
    agree(found, enumerated(pipeline, table[:9], players=players).explain(table[20:24], weights=WEIGHTINGS))
    assert set(found.players.names) == {"home", "place", "a_b"}


def test_players_without_features_count_among_the_players() -> None:
    """Weights of coalitions depend on how many players there are, used or not."""
    pipeline, table = fitted("no columns")
    weights = fw.Cardinality([0.5, 0.1, 0.1, 0.1, 0.2])
    found = fw.PipelineExplainer(pipeline, table[:9]).explain(table[20:24], weights=weights)
    agree(found, enumerated(pipeline, table[:9]).explain(table[20:24], weights=weights))
    assert not found.values[:, [1, 2, 3]].any()


def test_interactions_are_those_of_columns() -> None:
    pipeline, table = fitted("nested")
    explainer = fw.PipelineExplainer(pipeline, table[:9])
    matrix = explainer.interactions(table[20:24], weights=WEIGHTINGS)
    assert matrix.shape == (len(WEIGHTINGS), 4, 5, 5, 1)
    np.testing.assert_allclose(matrix.sum(3), explainer.explain(table[20:24], weights=WEIGHTINGS).values, atol=1e-10)


def test_inputs_are_shown_as_users_have_them() -> None:
    pipeline, table = fitted("nested")
    found = fw.PipelineExplainer(pipeline, table[:9]).explain(table[20:24])
    assert found.players.names == tuple(table.columns)
    for place, name in enumerate(table.columns):
        shown, entries = np.asarray(found.inputs)[:, place], table[name][20:24]
        if str(place) in found.encodings:
            assert [found.encodings[str(place)][int(code)] for code in shown] == entries.tolist()
        else:
            np.testing.assert_array_equal(shown, entries)
    assert found.encodings["3"] == ["S", "M", "L"]
    arrays, _ = fitted("bins")
    np.testing.assert_array_equal(fw.PipelineExplainer(arrays, X[:9]).explain(X[20:24]).inputs, X[20:24])


def test_columns_are_found_by_name() -> None:
    pipeline, table = fitted("nested")
    explainer = fw.PipelineExplainer(pipeline, table[:9])
    expected = explainer.explain(table[20:24]).values
    shuffled = table.assign(more="?")[["more", *table.columns[::-1]]]
    np.testing.assert_array_equal(explainer.explain(shuffled[20:24]).values, expected)
    other = fw.PipelineExplainer(pipeline, shuffled[:9])
    found = other.explain(shuffled[20:24])
    assert found.players.names == tuple(shuffled.columns)
    np.testing.assert_allclose(found.values[:, :0:-1], expected, atol=1e-12)
    assert not found.values[:, 0].any()
    with pytest.raises(ValueError, match="the table has no column 'rooms'"):
        explainer.explain(table[["a", "a_b", "town", "size"]])
    scaled = make_pipeline(StandardScaler(), boosted()).fit(TABLE[["a_b", "rooms"]], TARGET)
    reversed_columns = fw.PipelineExplainer(scaled, TABLE[["rooms", "a_b"]][:9]).explain(TABLE[20:24])
    in_order = fw.PipelineExplainer(scaled, TABLE[["a_b", "rooms"]][:9]).explain(TABLE[20:24])
    np.testing.assert_allclose(reversed_columns.values[:, ::-1], in_order.values, atol=1e-12)


def test_categories_that_the_background_lacks_are_those_of_the_encoder() -> None:
    pipeline, table = fitted("one-hot")
    background, rows = table[table.town == "Oslo"][:9], table[table.town != "Oslo"][:4]
    explainer = fw.PipelineExplainer(pipeline, background)
    assert explainer.usable(rows).all()
    found = explainer.explain(rows)
    np.testing.assert_allclose(found.values.sum(1)[:, 0] + explainer.base_values, pipeline.predict(rows), atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"drop": "first"}])
def test_unknown_categories_are_ignored_as_the_model_does(options: dict[str, str]) -> None:
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore", **options), ["town", "size"]))
    pipeline = make_pipeline(encode, boosted()).fit(TABLE, TARGET)
    explainer = fw.PipelineExplainer(pipeline, TABLE[:9])
    rows = TABLE[20:24].astype({"size": object})
    rows.iloc[1, 2], rows.iloc[2, 3], rows.iloc[3, 2] = "Paris", "XXL", np.nan
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Found unknown categories")  # of the model itself
        assert explainer.usable(rows).all()
        found = explainer.explain(rows)
        expected = pipeline.predict(rows)
    np.testing.assert_allclose(found.values.sum(1)[:, 0] + explainer.base_values, expected, atol=1e-12)


def test_unknown_categories_are_refused_by_row_and_column() -> None:
    pipeline, table = fitted("nested")
    explainer = fw.PipelineExplainer(pipeline, table[:9])
    rows = table[20:26].astype({"size": object})
    rows.iloc[1, 2], rows.iloc[3, 3], rows.iloc[4, 2] = "Paris", "XXL", "Paris"
    with pytest.raises(ValueError, match=r"'Paris' in column 'town', row 21, is an unknown category \(3 in all\)"):
        explainer.explain(rows)
    entries = [(entry.row, entry.column, entry.entry) for entry in explainer.find_unusable(rows)]
    assert entries == [(1, "town", "Paris"), (3, "size", "XXL"), (4, "town", "Paris")]
    assert explainer.usable(rows).tolist() == [True, False, True, False, False, True]
    with pytest.raises(ValueError, match=r"'Paris' in column 'town', row 21, is an unknown category"):
        fw.PipelineExplainer(pipeline, rows)
    texts = table[20:23].astype(object)
    texts.iloc[2, 1] = "abc"
    with pytest.raises(ValueError, match=r"'abc' in column 'a_b', row 22, is refused by the preprocessing \(Val"):
        explainer.explain(texts)


def test_texts_where_the_trees_get_numbers_are_refused_by_row_and_column() -> None:
    pipeline, table = fitted("codes")
    explainer = fw.PipelineExplainer(pipeline, table[:9])
    rows = table[20:24].astype({"rooms": object})
    rows.iloc[1, 4] = "many"
    assert [entry[:3] for entry in explainer.find_unusable(rows)] == [(1, "rooms", "many")]
    with pytest.raises(ValueError, match=r"'many' in column 'rooms', row 21, is not a number"):
        explainer.explain(rows)
    numbers = rows[rows.rooms != "many"]
    np.testing.assert_array_equal(explainer.explain(numbers).values, explainer.explain(table.loc[numbers.index]).values)
    np.testing.assert_array_equal(np.asarray(explainer.explain(numbers).inputs)[:, 4], numbers.rooms.astype(float))


def test_missing_entries_that_the_trees_have_no_rule_for() -> None:
    filled = TABLE[["a_b", "rooms"]].astype(float)
    pipeline = make_pipeline(StandardScaler(), boosted()).fit(filled, TARGET)
    explainer = fw.PipelineExplainer(pipeline, filled[:9])
    rows = filled[20:24].copy()
    rows.iloc[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"nan in column 'rooms', row 22, is missing, and the model has no rule"):
        explainer.explain(rows)
    assert [(entry.row, entry.column) for entry in explainer.find_unusable(rows)] == [(2, "rooms")]
    with pytest.raises(ValueError, match="in column 'rooms', row 22"):
        fw.PipelineExplainer(pipeline, rows)
    numbers = make_pipeline(OneHotEncoder(sparse_output=False), boosted()).fit(np.round(X), Y)
    with pytest.raises(ValueError, match=r"99.0 in column 'column 2', row 0, is an unknown category"):
        fw.PipelineExplainer(numbers, np.round(X[:9])).explain(np.array([[0, 0, 99, 0]]))


@pytest.mark.parametrize("name", ["bins", "nested"])
def test_a_saved_explainer_is_loaded_with_its_pipeline(name: str, tmp_path: Path) -> None:
    pipeline, table = fitted(name)
    names = [f"column {number}" for number in range(4)] if table is X else list(table.columns)
    players = fw.groups({"two": names[:2]}, names=names)
    explainer = fw.PipelineExplainer(pipeline, table[:30], players=players, output_names=["price"])
    explainer.metadata = {"by": "a test"}
    explainer.save(tmp_path / "file.safetensors")
    loaded = fw.load(tmp_path / "file.safetensors", model=pipeline)
    assert isinstance(loaded, fw.PipelineExplainer)
    assert (repr(loaded), loaded.provenance, loaded.metadata) == (
        repr(explainer),
        explainer.provenance,
        {"by": "a test"},
    )
    one, other = loaded.explain(table[20:], weights=WEIGHTINGS), explainer.explain(table[20:], weights=WEIGHTINGS)
    assert np.array_equal(one.values, other.values)
    assert np.array_equal(one.base_values, other.base_values)
    assert one.output_names == ("price",)
    with pytest.raises(ValueError, match=r"pass the pipeline as model="):
        fw.load(tmp_path / "file.safetensors")
    other_trees = Pipeline([("prepare", pipeline[0]), ("model", forest())]).fit(table, Y if table is X else TARGET)
    with pytest.raises(ValueError, match="model must be the model that"):
        fw.load(tmp_path / "file.safetensors", model=other_trees)
    with pytest.raises(TypeError, match="model must be a pipeline"):
        fw.load(tmp_path / "file.safetensors", model=forest())


class Doubler(StandardScaler):  # type: ignore[misc]  # scikit-learn has no types
    """A class of a user, which may do anything."""


def twice(x: Any) -> Any:  # noqa: ANN401 - a table
    return 2 * x


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([PCA(2)], "PCA may combine columns"),
        ([StandardScaler(), PolynomialFeatures()], "PolynomialFeatures may combine columns"),
        ([make_column_transformer((KNNImputer(), [0, 1]))], "KNNImputer may combine columns"),
        ([make_column_transformer((StandardScaler(), [0]), remainder=PCA(2))], "PCA may combine columns"),
        ([make_union(StandardScaler(), make_pipeline(StandardScaler(), PCA(1)))], "PCA may combine columns"),
        ([FunctionTransformer(twice)], "FunctionTransformer may combine columns"),
        ([FunctionTransformer(np.cumsum, kw_args={"axis": 1})], "FunctionTransformer may combine columns"),
        ([Doubler()], "Doubler may combine columns"),
    ],
)
def test_preprocessing_that_may_combine_columns_is_refused(steps: list[Any], message: str) -> None:
    pipeline = make_pipeline(*steps, boosted()).fit(X, Y)
    with pytest.raises(TypeError, match=message):
        fw.PipelineExplainer(pipeline, X)
    with pytest.raises(ValueError, match=f"method='trees' cannot be used: {message}"):
        fw.Explainer(pipeline, X, method="trees", progress=False)
    chosen = fw.Explainer(pipeline, X[:9], progress=False, device="cpu")
    assert chosen.method == "enumeration"


def test_a_transformer_that_combines_columns_against_its_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = make_pipeline(StandardScaler(), boosted()).fit(X, Y)
    monkeypatch.setattr(StandardScaler, "transform", lambda _, x: x + x[:, ::-1])
    with pytest.raises(TypeError, match="does not treat column 'column 0' by itself"):
        fw.PipelineExplainer(pipeline, X)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (boosted(), "model must be a pipeline of scikit-learn"),
        (make_pipeline(StandardScaler(), LinearRegression()), "LinearRegression, the last step .* not a tree ensemble"),
        (make_pipeline(StandardScaler(), boosted().set_params(init=LinearRegression())), "init of Gradient"),
    ],
)
def test_other_models_are_refused(model: Any, message: str) -> None:  # noqa: ANN401 - any model
    with pytest.raises(TypeError, match=message):
        fw.PipelineExplainer(model.fit(X, Y), X)


def test_tables_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"background cannot be used: StandardScaler failed: NotFittedError"):
        fw.PipelineExplainer(make_pipeline(StandardScaler(), boosted()), X)
    pipeline, _ = fitted("scaler")
    with pytest.raises(ValueError, match=r"background cannot be used: StandardScaler failed: ValueError: X has 3"):
        fw.PipelineExplainer(pipeline, X[:, :3])
    explainer = fw.PipelineExplainer(pipeline, X[:1])
    with pytest.raises(ValueError, match="x must have 4 columns as the background, got 3"):
        explainer.explain(X[:, :3])
    with pytest.raises(TypeError, match="pass a DataFrame"):
        explainer.explain(np.full((2, 4), "a"))
    np.testing.assert_array_equal(explainer.explain(X[:5].tolist()).values, explainer.explain(X[:5]).values)
    framed, table = fitted("imputer")
    explainer = fw.PipelineExplainer(framed, table[:9])
    np.testing.assert_allclose(explainer.explain(table[:5].to_numpy()).values, explainer.explain(table[:5]).values)


def test_the_front_door_chooses_trees(capfd: pytest.CaptureFixture[str]) -> None:
    pipeline, table = fitted("nested", HistGradientBoostingRegressor(max_iter=4, min_samples_leaf=5))
    chosen = fw.Explainer(pipeline, table[:9], device="cpu")
    assert "HistGradientBoostingRegressor behind ColumnTransformer + VarianceThreshold is a tree ensemble" in (
        capfd.readouterr().err
    )
    assert (chosen.method, chosen.game) == ("trees", "interventional")
    expected = fw.PipelineExplainer(pipeline, table[:9]).explain(table[20:24])
    np.testing.assert_array_equal(chosen.explain(table[20:24]).values, expected.values)
    with pytest.raises(ValueError, match="data must be given"):
        fw.Explainer(pipeline, None, progress=False)
    classes = make_pipeline(StandardScaler(), GradientBoostingClassifier(n_estimators=3)).fit(X, CLASSES > 0)
    assert fw.Explainer(classes, X, progress=False, output="logit").method == "trees"
    assert fw.Explainer(classes, X[:9], progress=False, output="probability", device="cpu").method == "enumeration"
    assert fw.Explainer(classes, X[:9], progress=False, output_names=["high"]).explain(X).output_names == ("high",)
    inner = Pipeline(
        [("scale", StandardScaler()), ("inner", make_pipeline(KBinsDiscretizer(3), DecisionTreeRegressor()))]
    )
    assert "StandardScaler + KBinsDiscretizer" in fw.Explainer(inner.fit(X, Y), X, progress=False).reason
