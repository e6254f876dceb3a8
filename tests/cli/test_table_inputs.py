"""Tables as people have them: rows that cannot be explained, categories of boosted trees, and files other than .csv."""

from __future__ import annotations

import importlib.util
import json
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fwshapley as fw
from cli_cases import run

STEPS = ("--steps", "2", "--device", "cpu")
QUIET = ("--pictures", "0", "--top", "1")

MODELS = """
from pathlib import Path

import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

table = pd.read_csv(Path(__file__).parent / "train.csv", dtype={"code": str})
kind = table.pop("kind") == "tea"
towns, codes = pd.CategoricalDtype(["Rome", "Bonn", "Oslo"]), pd.CategoricalDtype(["2", "1", "x"])
categories = table.astype({"town": towns, "code": codes})
small = dict(n_estimators=5, max_depth=3)
encode = make_column_transformer((OneHotEncoder(), ["town", "code"]), remainder="passthrough")
pipeline = make_pipeline(encode, LogisticRegression()).fit(table, kind)
line = make_pipeline(encode, Ridge()).fit(table, kind)
grown = make_pipeline(encode, GradientBoostingClassifier(n_estimators=5)).fit(table, kind)


def lgb():
    import lightgbm

    return lightgbm.LGBMClassifier(**small, min_child_samples=2, verbose=-1).fit(categories, kind)


def xgb():
    import xgboost

    return xgboost.XGBClassifier(**small, enable_categorical=True).fit(categories, kind)


def hist():
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=2).fit(categories, kind)


def texts(x):
    assert pd.api.types.is_string_dtype(x["town"]), x.dtypes
    return x["a"] + (x["town"] == "Rome") * (x["code"] == "x")


def wrapped(x):
    return lgb().predict_proba(x)
"""
BOOSTED = ["lgb()", "xgb()", "hist()"]

TRAINED = pd.DataFrame({"town": ["Oslo", "Rome", "Bonn"] * 20, "code": ["1", "x", "2", "2"] * 15})
TRAINED.insert(0, "a", np.random.default_rng(0).normal(size=60).round(2))
TRAINED["b"] = np.random.default_rng(1).normal(size=60).round(2)
TRAINED["kind"] = np.where(TRAINED.a + (TRAINED.town == "Rome") > 0.5, "tea", "coffee")
TEST = TRAINED.drop(columns="kind")[:8]
NAMES = ["a", "town", "code", "b"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with models, a table that they were trained on, and rows to explain, some of them bad."""
    path = tmp_path_factory.mktemp("tables")
    TRAINED.to_csv(path / "train.csv", index=False)
    TEST.to_csv(path / "test.csv", index=False)
    bad = TEST.astype(object)
    bad.loc[1, "town"], bad.loc[1, "a"], bad.loc[4, "b"], bad.loc[6, "a"] = "Paris", None, None, "abc"
    bad.to_csv(path / "bad.csv", index=False)
    (path / "models.py").write_text(MODELS)
    return path


def values_of(out: Path) -> pd.DataFrame:
    return pd.read_csv(out / "values.csv")


@pytest.mark.parametrize("name", ["line", "texts", "pipeline", "grown", "xgb()", "learned"])
def test_rows_that_cannot_be_explained_are_skipped_and_listed(name: str, folder: Path, tmp_path: Path) -> None:
    """Linear, by enumeration, by trees whose library or preprocessing has no rule for some entries, and learned."""
    model = f"{folder / 'models.py'}:{name if name != 'learned' else 'pipeline'}"
    given = ["--background", folder / "train.csv", "--label", "kind"]
    source: object = model
    if name == "learned":
        source = tmp_path / "explainer"
        assert run("fit", model, folder / "train.csv", "--label", "kind", "--out", source, *STEPS)[0] == 0
        given = ["--device", "cpu"]
    code, said, err = run("explain", source, folder / "bad.csv", *given, "--out", tmp_path / "out", *QUIET)
    assert (code, err) == (0, "")
    skipped = {3, 8} if name == "xgb()" else {3, 6, 8}  # XGBoost has a rule for missing numbers
    assert f"warning: {len(skipped)} of 8 rows cannot be explained and are skipped: row 3: " in said
    assert "written to" in said
    assert "values.csv, skipped.csv" in said
    assert set(values_of(tmp_path / "out").row) == set(range(2, 10)) - skipped
    table = pd.read_csv(tmp_path / "out" / "skipped.csv")
    assert list(table) == ["file", "row", "column", "entry", "problem"]
    assert set(table.row) == skipped
    paris = table[table.entry == "Paris"].iloc[0]
    assert (paris.row, paris.column) == (3, "town")
    assert "abc" in set(table.entry)
    record = json.loads((tmp_path / "out" / "explain.json").read_text())
    assert record["skipped"] == [f"row {row}" for row in sorted(skipped)]
    good = ["explain", source, folder / "test.csv", *given, "--out", tmp_path / "out", "--force", *QUIET]
    code, said, _ = run(*good)
    assert code == 0
    assert "skipped" not in said
    assert not (tmp_path / "out" / "skipped.csv").exists()


@pytest.mark.parametrize("of", ["pipeline", "grown"])
def test_values_of_the_other_rows_are_those_without_the_bad_ones(of: str, folder: Path, tmp_path: Path) -> None:
    arguments = ["--background", folder / "train.csv", "--label", "kind", *QUIET]
    for name in ("bad", "test"):
        model = f"{folder / 'models.py'}:{of}"
        assert run("explain", model, folder / f"{name}.csv", *arguments, "--out", tmp_path / name)[0] == 0
    both = [values_of(tmp_path / name).set_index("row")[NAMES] for name in ("bad", "test")]
    assert len(both[0]) == 5
    pd.testing.assert_frame_equal(both[0], both[1].loc[both[0].index])


@pytest.mark.parametrize("name", ["lgb()", "hist()"])
def test_missing_and_unknown_entries_are_explained_where_trees_have_a_rule(
    name: str, folder: Path, tmp_path: Path
) -> None:
    gaps = pd.read_csv(folder / "bad.csv").assign(a=TEST.a)
    gaps.loc[2, "a"] = np.nan
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    out = tmp_path / "out"
    code, said, _ = run("explain", f"{folder / 'models.py'}:{name}", tmp_path / "gaps.csv", "--out", out, *QUIET)
    assert code == 0
    assert "cannot be explained" not in said
    assert "column town has categories that the model was not trained with, Paris: treated as missing" in said
    assert set(values_of(out).row) == set(range(2, 10))


@pytest.mark.parametrize(
    ("name", "method"),
    [*((name, method) for name in BOOSTED for method in ("auto", "enumeration", "learned")), ("texts", "auto")],
)
def test_texts_reach_a_model_as_it_was_trained(name: str, method: str, folder: Path, tmp_path: Path) -> None:
    model, train = f"{folder / 'models.py'}:{name}", folder / "train.csv"
    fit = ["fit", model, train, "--label", "kind", "--method", method, "--out", tmp_path / "explainer"]
    code, said, err = run(*fit, *(STEPS if method == "learned" else ()))
    assert (code, err) == (0, ""), err
    assert "2 of text (town, code)" in said
    named = [] if method == "auto" and name in BOOSTED else ["--model", model]
    options = ["--outputs", "all", "--device", "cpu", *QUIET, "--out", tmp_path / "out"]
    code, _, err = run("explain", tmp_path / "explainer", folder / "test.csv", *named, *options)
    assert (code, err) == (0, ""), err
    if name in BOOSTED and method != "auto":
        lines = values_of(tmp_path / "out")
        space = runpy.run_path(str(folder / "models.py"))
        expected = space[name.removesuffix("()")]().predict_proba(space["categories"][:8])[:, 1]
        last = lines.output == lines.output.iloc[-1]
        np.testing.assert_allclose(lines.model_prediction[last], expected, rtol=1e-5)


def test_a_model_that_hides_its_categories_is_told_how_to_get_them(folder: Path) -> None:
    model = f"{folder / 'models.py'}:wrapped"
    code, _, err = run("explain", model, folder / "test.csv", "--background", folder / "train.csv", "--label", "kind")
    assert code == 2
    assert "Columns of text: town, code. If the model was trained on another dtype, such as category" in err
    assert "x.astype({'town': train['town'].dtype})" in err


def write(table: pd.DataFrame, path: Path) -> Path:
    """Write a table as its name says; .xlsx files get a first sheet of notes where they have a second."""
    if path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    elif path.suffix == ".xlsx":
        with pd.ExcelWriter(path) as book:
            table.to_excel(book, sheet_name="rows", index=False)
            pd.DataFrame({"note": ["nothing"]}).to_excel(book, sheet_name="notes", index=False)
    else:
        table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("suffix", [".parquet", ".xlsx"])
def test_other_files_are_explained_as_a_csv_file_is(suffix: str, folder: Path, tmp_path: Path) -> None:
    model = f"{folder / 'models.py'}:pipeline"
    bad = pd.read_csv(folder / "bad.csv").assign(a=TEST.a)
    train = write(TRAINED, tmp_path / f"train{suffix}")
    test = write(bad, tmp_path / f"test{suffix}")
    sheet = f"{train}:rows" if suffix == ".xlsx" else train
    options = ["--label", "kind", *QUIET]
    code, said, err = run("explain", model, test, "--background", sheet, *options, "--out", tmp_path / "other")
    assert (code, err) == (0, "")
    first = 0 if suffix == ".parquet" else 2
    assert ("counted from 0" if suffix == ".parquet" else "the header is row 1") in said
    assert f"2 of 8 rows cannot be explained and are skipped: row {first + 1}: 'Paris'" in said
    csv = write(bad, tmp_path / "test.csv")
    run("explain", model, csv, "--background", folder / "train.csv", *options, "--out", tmp_path / "csv")
    ours, expected = values_of(tmp_path / "other"), values_of(tmp_path / "csv")
    np.testing.assert_allclose(ours[NAMES], expected[NAMES])
    assert (ours.row - first).tolist() == (expected.row - 2).tolist()
    assert run("fit", model, sheet, "--label", "kind", "--out", tmp_path / "fitted")[0] == 0
    assert run("explain", tmp_path / "fitted", csv, test, "--model", model, *QUIET)[0] == 0


def test_a_parquet_file_keeps_its_types(tmp_path: Path) -> None:
    days = pd.Series(pd.date_range("2024-01-01", periods=60))
    table = TRAINED.astype({"town": "category", "code": "category"})
    table = table.assign(day=days, date=days.dt.date, flag=days.dt.day > 9)
    table["whole"] = pd.array([1, None] * 30, dtype="Int64")
    (tmp_path / "model.py").write_text(
        "def model(x):\n"
        "    kinds = [str(dtype).split('[')[0] for dtype in x.dtypes]\n"
        "    expected = ['float64', 'category', 'category', 'float64', 'datetime64', 'datetime64', 'bool', 'Int64']\n"
        "    assert kinds == expected, kinds\n"
        "    return x['a'] + x['whole'].fillna(0).astype(float) + x['flag'] * x['day'].dt.day\n"
    )
    path = write(table, tmp_path / "train.parquet")
    options = ["--label", "kind", "--background", path, *QUIET]
    code, said, err = run("explain", f"{tmp_path / 'model.py'}:model", path, *options)
    assert (code, err) == (0, "")
    assert "2 of text (town, code), 3 of flags or dates (day, date, flag)" in said


@pytest.mark.parametrize("suffix", [".parquet", ".xlsx"])
def test_values_of_other_files_are_those_of_a_csv_file(suffix: str, tmp_path: Path) -> None:
    table = TRAINED.astype({"town": object})
    table.loc[3, "town"], table.loc[5, "kind"] = None, None
    options = ["--label", "kind", "--no-report"]
    rankings = []
    for path in (tmp_path / "table.csv", tmp_path / f"table{suffix}"):
        code, said, err = run("value", write(table, path), *options, "--out", tmp_path / path.suffix)
        assert (code, err) == (0, "")
        assert "1 row without a label left out" in said
        rankings.append(pd.read_csv(tmp_path / path.suffix / "ranking.csv", dtype={"code": str}))
    rankings[1]["row"] += 2 if suffix == ".parquet" else 0
    pd.testing.assert_frame_equal(rankings[0], rankings[1])


def test_cells_of_a_sheet_are_read_as_from_a_csv_file(tmp_path: Path) -> None:
    from fwshapley.tables.file_reader import open_table  # noqa: PLC0415 - only here

    table = pd.DataFrame(
        {
            "number": [1, 2.5, None, 3],
            "text of numbers": ["1", "2", None, "3"],
            "mixed": [1, "x", None, True],
            "flag": [True, False, None, True],
            "word": ["a", "NA", None, "b"],
            "day": pd.to_datetime(["2024-01-01", "2024-01-02", "", "2024-01-04"]),
        }
    )
    frame, notes = open_table(write(table, tmp_path / "table.xlsx")).read()
    csv, _ = open_table(write(table, tmp_path / "table.csv")).read()
    assert notes == ["1 blank row skipped"]
    pd.testing.assert_frame_equal(frame.drop(columns="day"), csv.drop(columns="day"), check_dtype=False)
    assert frame.index.tolist() == [2, 3, 5]
    assert frame["day"].dtype.kind == "M"
    as_text, _ = open_table(tmp_path / "table.xlsx").read(["number"])
    assert as_text["number"].tolist() == ["1", "2.5", "3"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("table.xlsx:none", "table.xlsx has no sheet 'none'; it has rows, notes"),
        ("gone.xlsx:rows", "there is no file gone.xlsx"),
        ("gone.parquet", "there is no file gone.parquet"),
        ("text.parquet", "text.parquet is damaged, or of another format than its name says"),
        ("text.xlsx", "text.xlsx is damaged, or of another format than its name says"),
        ("empty.xlsx", "the first row of empty.xlsx is blank"),
        ("twice.xlsx", "more than one column of the name a"),
        ("header.parquet", "header.parquet has no rows"),
        ("table.xls", "table.xls cannot be read"),
    ],
)
def test_files_that_cannot_be_read_say_why(
    name: str, words: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(TEST, Path("table.xlsx"))
    pd.DataFrame().to_excel("empty.xlsx", index=False)
    pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]).to_excel("twice.xlsx", index=False)
    write(TEST[:0], Path("header.parquet"))
    for path in ("text.parquet", "text.xlsx", "table.xls"):
        Path(path).write_text("a,b\n1,2\n")
    commands: list[list[object]] = [
        ["value", name, "--label", "a", "--out", "out"],
        ["explain", f"{folder / 'models.py'}:texts", name, "--background", folder / "train.csv", "--label", "kind"],
        ["fit", f"{folder / 'models.py'}:texts", name, "--out", "out"],
    ]
    for command in commands:
        code, _, err = run(*command)
        assert code == 2
        assert words in err


@pytest.mark.parametrize(("name", "engine"), [("table.xlsx", "openpyxl"), ("table.parquet", "pyarrow")])
def test_the_extra_that_reads_a_file_is_named(
    name: str, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(TEST, tmp_path / name)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    code, _, err = run("value", path, "--label", "town", "--out", tmp_path / "out")
    assert code == 2
    assert f"needs {engine}, which is not installed: pip install 'fwshapley[files]'" in err


def test_python_marks_rows_that_cannot_be_explained() -> None:
    table = TRAINED[["a", "town", "b"]]
    wrong = table[:4].assign(town=pd.Series(["Rome", "Paris", "Bonn", None], dtype=object))
    trees = fw.Explainer(lambda x: x["a"] * (x["town"] == "Rome"), table, progress=False)
    assert trees.usable(wrong).tolist() == [True, False, True, False]
    assert trees.explain(wrong[trees.usable(wrong)]).values.shape == (2, 3, 1)
    with pytest.raises(
        ValueError, match=r"'Paris' in column 'town', row 1, is an unknown category \(2 in all\); correct"
    ):
        trees.explain(wrong)
