"""Exact explainers on the command line: nothing is trained, and values are those of the same explainer in Python."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost

import fwshapley as fw
from cli_cases import run
from fwshapley.cli.fit_record import open_explainer

MODELS = """
from pathlib import Path

import pandas as pd
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

table = pd.read_csv(Path(__file__).parent / "train.csv")
x, size, kind = table[["a", "b", "c"]], table["size"], table["kind"]
forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(x, kind)
unnamed = RandomForestClassifier(5, max_depth=3, random_state=0).fit(x.to_numpy(), kind)
line, pipeline = Ridge().fit(x, size), make_pipeline(StandardScaler(), Ridge()).fit(x, size)
boosting = GradientBoostingRegressor(n_estimators=3, random_state=0).fit(x, size)
other = make_pipeline(StandardScaler(), Ridge(alpha=100)).fit(x, size)
trees = make_pipeline(StandardScaler(), GradientBoostingRegressor(n_estimators=3, random_state=0)).fit(x, size)
stumps = make_pipeline(StandardScaler(), GradientBoostingRegressor(n_estimators=3, max_depth=1)).fit(x, size)


def product(x):
    return x["a"] * x["b"] + x["c"]


def total(x):
    return x.sum(axis=1)
"""

NAMES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with tables, a file of Python models, and model files of XGBoost."""
    path = tmp_path_factory.mktemp("exact")
    generator = np.random.default_rng(0)
    x = pd.DataFrame(generator.normal(size=(60, 3)).round(3), columns=NAMES)
    size = x.a * x.b + x.c
    x.assign(size=size, kind=np.where(size > 0, "tea", "coffee"))[:50].to_csv(path / "train.csv", index=False)
    x[50:].to_csv(path / "test.csv", index=False)
    x[50:].rename(columns={"c": "d"}).to_csv(path / "others.csv", index=False)
    x[50:].assign(b=np.nan).to_csv(path / "gaps.csv", index=False)
    pd.DataFrame(generator.normal(size=(20, 13))).to_csv(path / "wide.csv", index=False)
    (path / "models.py").write_text(MODELS)
    boosted = xgboost.XGBRegressor(n_estimators=5, max_depth=3).fit(x[:50], size[:50])
    boosted.save_model(path / "boosted.json")
    homes = pd.DataFrame({"a": x.a, "town": np.array(["Rome", "Oslo"])[x.index % 2], "code": (x.index % 3).astype(str)})
    homes.to_csv(path / "homes.csv", index=False)
    homes.assign(town="Paris").to_csv(path / "unknown.csv", index=False)
    categories = homes.astype({"town": "category", "code": "category"})
    xgboost.XGBRegressor(n_estimators=5, enable_categorical=True).fit(categories, size).save_model(path / "homes.json")
    return path


def model(folder: Path, name: str) -> Any:  # noqa: ANN401 - of several kinds
    return runpy.run_path(str(folder / "models.py"))[name]


def table(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(folder / name)[NAMES]


def written(out: Path, names: list[str] = NAMES) -> Any:  # noqa: ANN401 - an array
    return pd.read_csv(out / "values.csv")[names].to_numpy()


def expected_forest(folder: Path, *, background: bool) -> Any:  # noqa: ANN401 - an array
    train, test = table(folder, "train.csv"), table(folder, "test.csv")
    explainer = fw.TreeExplainer(model(folder, "forest"), train if background else None)
    values = np.asarray(explainer.explain(test, weights=[fw.Shapley(), fw.Beta(16, 1)], outputs="all").values)
    return values.transpose(1, 0, 3, 2).reshape(-1, 3)


@pytest.mark.parametrize("background", [False, True])
def test_a_forest_explains_a_table_in_one_command(*, background: bool, folder: Path, tmp_path: Path) -> None:
    arguments = ["--background", folder / "train.csv"] if background else []
    options = ["-w", "1,1", "-w", "16,1", "--outputs", "all", "--out", tmp_path / "out", "--pictures", "1"]
    code, said, err = run("explain", f"{folder / 'models.py'}:forest", folder / "test.csv", *arguments, *options)
    assert (code, err) == (0, "")
    rows = "50 background rows" if background else "training weights stand in"
    game = "interventional" if background else "path-dependent"
    assert f"method trees, {game} game: sklearn.RandomForestClassifier is a tree ensemble; " in said
    assert f"{rows}" in said
    assert ("--background gives rows" in said) != background
    assert np.allclose(written(tmp_path / "out"), expected_forest(folder, background=background), atol=1e-12)
    lines = pd.read_csv(tmp_path / "out" / "values.csv")
    predicted = model(folder, "forest").predict_proba(table(folder, "test.csv"))
    assert np.allclose(lines.model_prediction[lines.weights == "Shapley"], predicted.ravel())
    assert "surrogate_prediction" not in lines
    shapley = lines[lines.weights == "Shapley"]
    assert np.allclose(shapley.base_value + shapley[NAMES].sum(axis=1), shapley.model_prediction)
    assert (tmp_path / "out" / "pictures" / "row_2.png").exists()


def test_fit_saves_an_exact_explainer_and_explain_uses_it(folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "fitted"
    name = f"{folder / 'models.py'}:forest"
    code, said, err = run("fit", name, folder / "train.csv", "--label", "kind", "--out", saved)
    assert (code, err) == (0, "")
    assert "method trees, interventional game:" in said
    assert "nothing is trained; --method learned trains a network" in said
    assert f"next: fwshapley explain {saved} INPUT --out explanations" in said
    assert open_explainer(saved).record.format.columns == ("a", "b", "c")
    options = ["-w", "1,1", "-w", "16,1", "--outputs", "all", "--out", tmp_path / "out", "--pictures", "0"]
    code, said, err = run("explain", saved, folder / "test.csv", *options)
    assert (code, err) == (0, "")
    assert "values by TreeExplainer(5 trees, 3 players, background of 50 rows)" in said
    assert np.allclose(written(tmp_path / "out"), expected_forest(folder, background=True), atol=1e-12)
    for option, *given in (
        ("--refine", "8"),
        ("--errors",),
        ("--model", name),
        ("--label", "a"),
        ("--background", "x"),
    ):
        code, _, err = run("explain", saved, folder / "test.csv", option, *given)
        assert code == 2
        assert option in err


def test_columns_without_names_are_named_by_the_table(folder: Path, tmp_path: Path) -> None:
    name = f"{folder / 'models.py'}:unnamed"
    options = ["--label", "kind", "--ignore", "size", "--outputs", "tea", "--pictures", "0", "--out", tmp_path / "out"]
    arguments = ["explain", name, folder / "train.csv", "--background", folder / "train.csv", *options]
    code, said, err = run(*arguments)
    assert (code, err) == (0, "")
    assert "without names of columns: it gets them in the order of the file" in said
    train = table(folder, "train.csv")
    expected = fw.TreeExplainer(model(folder, "forest"), train).explain(train, outputs=["tea"]).values[..., 0]
    assert np.allclose(written(tmp_path / "out"), expected, atol=1e-12)


def test_a_model_file_of_xgboost(folder: Path, tmp_path: Path) -> None:
    options = ["--names", "size", "--total", "efficient", "--alpha", "4", "--pictures", "0", "--out", tmp_path / "out"]
    code, said, err = run("explain", folder / "boosted.json", folder / "test.csv", *options)
    assert (code, err) == (0, "")
    assert "explained output: the prediction" in said
    explainer = fw.TreeExplainer(fw.trees.read_model(folder / "boosted.json"))
    expected = explainer.explain(table(folder, "test.csv"), weights=fw.Beta(4, 1), total="efficient").values
    assert np.allclose(written(tmp_path / "out"), expected[..., 0], atol=1e-12)
    assert set(pd.read_csv(tmp_path / "out" / "values.csv").output) == {"size"}


def test_texts_become_the_categories_of_training(folder: Path, tmp_path: Path) -> None:
    homes = ["a", "town", "code"]
    options = ["--pictures", "0", "--out", tmp_path / "out"]
    code, said, err = run("explain", folder / "homes.json", folder / "homes.csv", *options)
    assert (code, err) == (0, "")
    assert "2 of text (town, code)" in said
    x = pd.read_csv(folder / "homes.csv", dtype={"code": str}).astype({"town": "category", "code": "category"})
    expected = fw.TreeExplainer(fw.trees.read_model(folder / "homes.json")).explain(x).values[..., 0]
    assert np.allclose(written(tmp_path / "out", homes), expected, atol=1e-12)
    code, _, err = run("explain", folder / "homes.json", folder / "unknown.csv")
    assert code == 2
    assert "no row of unknown.csv can be explained: row 2: 'Paris' in column 'town' must be among the categories" in err


@pytest.mark.parametrize(
    ("name", "method"),
    [("line", "linear"), ("pipeline", "linear"), ("trees", "trees"), ("product", "enumeration")],
)
def test_linear_models_pipelines_and_functions(name: str, method: str, folder: Path, tmp_path: Path) -> None:
    """Without training, by both commands; enumeration in Python is the reference for all of them."""
    background, asked = folder / "train.csv", f"{folder / 'models.py'}:{name}"
    left_out = ["--label", "size", "--ignore", "kind"]
    options = ["--alpha", "16", "--pictures", "0"]
    arguments = ["--background", background, *left_out, *options, "--out", tmp_path / "direct"]
    code, said, err = run("explain", asked, folder / "test.csv", *arguments)
    assert (code, err) == (0, "")
    assert f"method {method}, interventional game:" in said
    test = table(folder, "test.csv")
    explainer = fw.InterventionalExplainer(model(folder, name), table(folder, "train.csv"), progress=False)
    expected = explainer.explain(test, weights=fw.Beta(16, 1)).values[..., 0]
    assert np.allclose(written(tmp_path / "direct"), expected, atol=1e-9)
    code, said, err = run("fit", asked, background, *left_out, "--out", tmp_path / "fitted")
    assert (code, err) == (0, "")
    assert (f"INPUT --model {asked}" in said) == (name != "line")
    needed = [] if name == "line" else ["--model", asked]
    again = ["explain", tmp_path / "fitted", folder / "test.csv", *options]
    code, _, err = run(*again, *needed, "--out", tmp_path / "again")
    assert (code, err) == (0, "")
    assert np.array_equal(written(tmp_path / "again"), written(tmp_path / "direct"))
    if needed:
        code, _, err = run(*again)
        assert code == 2
        assert f"give --model {asked}" in err
        wrong = {"pipeline": "other", "trees": "stumps"}.get(name, "total")
        code, _, err = run(*again, "--model", f"{folder / 'models.py'}:{wrong}")
        assert code == 2
        assert "model must be the model that" in err


def test_many_columns_are_sampled(folder: Path, tmp_path: Path) -> None:
    """By both commands, and with the values of Python."""
    name, wide = f"{folder / 'models.py'}:total", folder / "wide.csv"
    options = ["--pictures", "0", "--game", "interventional"]
    arguments = ["--background", wide, *options, "--out", tmp_path / "direct"]
    code, said, err = run("explain", name, wide, *arguments, "-w", "1,1", "-w", "4,1", "--n-calls", "100")
    assert (code, err) == (0, "")
    assert "method sampling, interventional game: 100 coalitions of 13 players are sampled" in said
    assert "standard error" in said
    table = pd.read_csv(wide)
    explainer = fw.InterventionalExplainer(model(folder, "total"), table, n_calls=100, progress=False)
    expected = np.asarray(explainer.explain(table, weights=[fw.Shapley(), fw.Beta(4, 1)]).values)[..., 0]
    names = list(table.columns)
    found = written(tmp_path / "direct", names)
    assert np.allclose(found, expected.transpose(1, 0, 2).reshape(-1, 13), atol=1e-9)
    code, said, err = run("fit", name, wide, "--game", "interventional", "--out", tmp_path / "fitted")
    assert (code, err) == (0, "")
    assert "method sampling, interventional game" in said
    again = ["explain", tmp_path / "fitted", wide, "--model", name, "--out", tmp_path / "again", "--pictures", "0"]
    code, said, err = run(*again)
    assert (code, err) == (0, "")
    assert "values by InterventionalExplainer(sampling, 13 players" in said
    explainer = fw.InterventionalExplainer(model(folder, "total"), table, progress=False)
    assert np.allclose(written(tmp_path / "again", names), explainer.explain(table).values[..., 0], atol=1e-9)
    for option in (["--game", "interventional"], ["--n-calls", "100"]):
        code, _, err = run(*again, "--force", *option)
        assert code == 2
        assert f"{option[0]} is for a model" in err
    refused = ["fit", name, wide, "--game", "interventional", "--out", tmp_path / "none"]
    for option, message in ((["--steps", "2"], "--steps"), (["--method", "learned"], "--method learned")):
        code, _, err = run(*refused, *option)
        assert code == 2
        assert message in err


def test_two_classes_are_explained_by_the_positive_one(folder: Path, tmp_path: Path) -> None:
    arguments = ["explain", f"{folder / 'models.py'}:forest", folder / "test.csv", "--background", folder / "train.csv"]
    code, _, err = run(*arguments, "--pictures", "0", "--out", tmp_path / "out")
    assert (code, err) == (0, "")
    assert set(pd.read_csv(tmp_path / "out" / "values.csv").output) == {"tea"}


def test_an_option_of_training_asks_for_a_learned_explainer(folder: Path, tmp_path: Path) -> None:
    arguments = ["fit", f"{folder / 'models.py'}:forest", folder / "train.csv", "--out", tmp_path / "out"]
    code, said, _ = run(*arguments, "--steps", "2", "--device", "cpu")
    assert code == 0
    assert "method learned, conditional game: --steps is an option of training" in said
    assert not open_explainer(tmp_path / "out").is_exact
    for method in ("trees", "linear", "enumeration"):
        code, _, err = run(*arguments, "--force", "--method", method, "--calibrate")
        assert code == 2
        assert f"--calibrate is an option of training, and --method {method} trains nothing" in err
    code, _, err = run(*arguments, "--force", "--method", "linear")
    assert code == 2
    assert "--method 'linear' cannot be used: RandomForestClassifier has no coefficients" in err
    code, _, err = run(*arguments, "--force", "--method", "enumeration")
    assert (code, err) == (0, "")
    assert open_explainer(tmp_path / "out").kind == "interventional explainer"


def test_an_explainer_that_python_saved(folder: Path, tmp_path: Path) -> None:
    explainer = fw.TreeExplainer(model(folder, "forest"), table(folder, "train.csv"))
    explainer.save(tmp_path / "trees.safetensors")
    options = ["--outputs", "tea", "--pictures", "0", "--out", tmp_path / "out"]
    code, said, err = run("explain", tmp_path / "trees.safetensors", folder / "train.csv", *options)
    assert (code, err) == (0, "")
    assert "fwshapley fit did not make this explainer: the input format is a guess" in said
    expected = explainer.explain(table(folder, "train.csv"), outputs=["tea"]).values[..., 0]
    assert np.allclose(written(tmp_path / "out"), expected, atol=1e-12)


BAD = [
    (["models.py:line", "test.csv"], "--background must be given"),
    (["models.py:forest", "test.csv", "--game", "interventional"], "--background must be given"),
    (["models.py:total", "wide.csv", "--background", "wide.csv", "--game", "conditional"], "run fwshapley fit"),
    (["models.py:total", "wide.csv", "--background", "wide.csv", "--n-calls", "5"], "n_calls must be at least 84"),
    (["models.py:forest", "others.csv"], "others.csv has no column 'c'"),
    (["models.py:forest", "test.csv", "--background", "others.csv"], "others.csv has no column 'c'"),
    (["models.py:forest", "test.csv", "--background", "none.csv"], "there is no file none.csv"),
    (["models.py:forest", "test.csv", "--ignore", "a"], "column a cannot be left out"),
    (["models.py:forest", "test.csv", "--outputs", "milk"], "there is no output 'milk'"),
    (["models.py:forest", "test.csv", "--names", "x"], "output_names has 1 names"),
    (["models.py:forest", "test.csv", "--model", "models.py:line"], "--model is for a folder"),
    (["models.py:line", "gaps.csv", "--background", "train.csv"], "no row of gaps.csv can be explained: row 2: nan in"),
    (["models.py:boosting", "gaps.csv"], "nan in column 'b' is missing, and the model has no rule"),
    (["models.py:boosting", "test.csv", "--background", "gaps.csv"], "nan in column 'b', row 2, is missing"),
    (["boosted.json", "test.csv", "--refine", "8"], "those of boosted.json are not learned"),
    (["boosted.json", "test.csv", "--errors"], "those of boosted.json are not learned"),
    (["none.json", "test.csv"], "none.json is missing"),
    (["test.csv", "test.csv"], "test.csv is not a folder of fwshapley fit"),
    (["none", "test.csv"], "there is no folder none"),
]


@pytest.mark.parametrize(("arguments", "word"), BAD, ids=[" ".join(row) for row, _ in BAD])
def test_bad_calls_are_refused_in_one_line(
    arguments: list[str], word: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    code, _, err = run("explain", *arguments, "--out", tmp_path / "out")
    assert code == 2
    assert err.startswith("error: ")
    assert word in err
    assert not (tmp_path / "out").exists()
