from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fwshapley as fw
from fwshapley.cli import app


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_version_is_the_package_version() -> None:
    assert run("--version") == (0, f"fwshapley {fw.__version__}\n", "")


def test_help_names_the_commands_and_a_first_step() -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert "weights" in out
    assert "fwshapley weights --alpha 16 --beta 1 --players 12" in out


def test_weights_shows_one_row_per_size() -> None:
    code, out, _ = run("weights", "--alpha", "16", "--beta", "1", "--players", "12")
    assert code == 0
    assert "Beta(16, 1), 12 players" in out
    assert "0.593" in out  # w(0) = 16/27
    assert all(len(line) <= 80 for line in out.splitlines())


@pytest.mark.parametrize("players", ["1", "2", "1000000"])
def test_weights_of_few_and_of_very_many_players(players: str) -> None:
    code, out, _ = run("weights", "-n", players)
    assert code == 0
    assert "Shapley" in out
    assert len(out.splitlines()) < 40


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--alpha", "-1"], "alpha must be positive, got -1"),
        (["--beta", "nan"], "beta must be finite"),
        (["--players", "0"], "--players must be at least 1"),
        (["--players", "100000000000"], "--players must be at most 10,000,000"),
        (["--plot", "plot.nonsense"], "--plot must end in .png, .svg, .pdf; got plot.nonsense"),
        (["--plot", "plot"], "got plot"),
        (["--plot", "[red]plot"], "got [red]plot"),
    ],
)
def test_bad_options_are_explained_and_leave_nothing(
    arguments: list[str], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run("weights", *arguments)
    assert code == 2
    assert complaint in err
    assert not list(tmp_path.iterdir())


def test_weights_plot_is_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "weights.png"
    code, _, _ = run("weights", "--alpha", "4", "--plot", str(path))
    assert code == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    assert list(path.parent.iterdir()) == [path]


FLIPPED = np.arange(4, 94, 9)
"""Rows of `table`, from 0, whose label is wrong."""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a file of two well-separated classes, one label in ten flipped, with a column of each kind."""
    generator = np.random.default_rng(0)
    truth = np.arange(100) % 2
    flipped = truth.copy()
    flipped[FLIPPED] = 1 - flipped[FLIPPED]
    frame = pd.DataFrame(generator.normal(size=(100, 3)) + 3 * truth[:, None], columns=["a", "b", "value"])
    frame["town"] = np.where(generator.random(100) < 0.5, "Rome", "Oslo")
    frame["remark"] = [f"note <i>{row}</i>" for row in range(100)]
    frame["kind"] = np.array(["<b>tea</b>", "coffee [red]"])[flipped]
    path = tmp_path / "drinks.csv"
    frame.to_csv(path, index=False)
    return path


def results_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def assert_verdicts_hold(ranking: pd.DataFrame) -> None:
    """Every row says what neighbors say of its label: another one, the same one, or that they were not compared."""
    another = ranking.verdict == "another label"
    assert set(ranking.verdict) <= {"another label", "neighbors agree", "not compared"}
    assert ranking.suggested.notna().equals(another)
    assert not (ranking.label == ranking.suggested).any()
    assert ranking.votes.notna().equals(ranking.verdict != "not compared")
    assert not (ranking.verdict[ranking.value < 0] == "not compared").any()


def test_neighbors_that_agree_suggest_nothing(table: Path, tmp_path: Path) -> None:
    code, out, _ = run("value", str(table), "--label", "kind", "--out", str(tmp_path / "out"), "--top", "100")
    ranking = pd.read_csv(tmp_path / "out" / "ranking.csv")
    assert code == 0
    assert_verdicts_hold(ranking)
    agree = int((ranking.verdict == "neighbors agree").sum())
    assert 80 < agree == 100 - int((ranking.verdict == "another label").sum())
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("(they agree)") - 1 == agree  # and once where it is explained
    assert "(they agree)" in out


def test_value_finds_flipped_labels(table: Path, tmp_path: Path) -> None:
    code, out, err = run("value", str(table), "--label", "kind", "--out", str(tmp_path / "new" / "out"), "--top", "10")
    assert (code, err) == (0, "")
    assert all(len(line) <= 80 for line in out.partition("Most suspicious")[2].splitlines() if " to " not in line)
    assert (
        "100 rows in 2 classes (<b>tea</b>: 50, coffee [red]: 50), valued by how much each helps to predict the others"
        in " ".join(out.split())
    )
    assert "Left out: remark" in out
    assert results_in(tmp_path / "new" / "out") == ["ranking.csv", "report.html", "valuation.safetensors"]

    ranking = pd.read_csv(tmp_path / "new" / "out" / "ranking.csv")
    assert ranking.columns.tolist() == [
        *("rank", "row", "label", "verdict", "suggested", "votes", "value", "stderr"),
        *("a", "b", "value (drinks.csv)", "town", "remark"),
    ]
    assert ranking["rank"].tolist() == list(range(1, 101))
    assert ranking.value.is_monotonic_increasing
    assert len(set(ranking.row[:10]) & set(FLIPPED + 2)) >= 9
    assert (ranking.verdict == "another label")[:10].sum() >= 9
    assert_verdicts_hold(ranking)
    assert "suggested: the label of most" in " ".join(out.split())
    original = pd.read_csv(table).iloc[ranking.row - 2].reset_index(drop=True)
    assert original.kind.equals(ranking.label)
    assert np.allclose(original["value"], ranking["value (drinks.csv)"])

    valuation = fw.Valuation.load(tmp_path / "new" / "out" / "valuation.safetensors")
    assert valuation.classes == ("<b>tea</b>", "coffee [red]")
    assert np.allclose(valuation.values[ranking.row.to_numpy() - 2], ranking.value)
    assert valuation.provenance["first_row"] == 2
    assert valuation.provenance["rows_left_out"] == []


def test_the_report_of_values_is_self_contained_and_escaped(table: Path, tmp_path: Path) -> None:
    assert run("value", str(table), "--label", "kind", "--out", str(tmp_path / "out"))[0] == 0
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<b>" not in page
    assert "&lt;b&gt;tea&lt;/b&gt;" in page
    assert "http" not in re.sub(r"base64,[^\"]*", "", page)
    assert re.findall(r"(?:src|href)=.(?!data:)", page) == []
    assert page.count("<td>") == 20 * 6 + 2 * 4
    for heading in ("Most suspicious rows", "Values", "Classes", "How the data were prepared"):
        assert f"<h2>{heading}</h2>" in page


def test_value_by_a_reference_under_other_settings(table: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(table)
    trusted = frame.drop(index=FLIPPED.tolist())[:40]
    trusted.to_csv(tmp_path / "trusted.csv", index=False)
    arguments = ["--reference", str(tmp_path / "trusted.csv"), "--alpha", "4", "--k", "3", "--utility", "vote"]
    arguments += ["--metric", "cosine", "--jobs", "1", "--no-report", "--ignore", "town", "--no-scale"]
    code, out, _ = run("value", str(table), "-l", "kind", "-o", str(tmp_path / "out"), *arguments)
    assert code == 0
    summary = (
        "predict the 40 rows of trusted.csv: Beta(4, 1) values, 3 nearest neighbors, vote utility, cosine distance."
    )
    assert summary in " ".join(out.split())
    assert results_in(tmp_path / "out") == ["ranking.csv", "valuation.safetensors"]
    found = fw.Valuation.load(tmp_path / "out" / "valuation.safetensors").values
    columns = ["a", "b", "value"]
    expected = fw.value_neighbors(
        frame[columns].to_numpy(),
        frame.kind.to_numpy(object),
        (trusted[columns].to_numpy(), trusted.kind.to_numpy(object)),
        k=3,
        weights=fw.Beta(4, 1),
        utility="vote",
        metric="cosine",
    )
    assert np.allclose(found, expected.values)


def test_all_rows_may_be_neighbors_of_a_reference(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,y\n1,p\n2,q\n3,p\n")
    code, out, _ = run("value", str(path), "-l", "y", "-r", str(path), "-k", "3", "-o", str(tmp_path / "out"))
    assert code == 0
    assert "1 of 2" in out


def test_value_reads_arrays(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    y = np.arange(60) % 2
    x = generator.normal(size=(60, 4)) + 3 * y[:, None]
    y[7] = 1 - y[7]
    np.savez(tmp_path / "arrays.npz", x=x, y=y)
    code, out, _ = run("value", str(tmp_path / "arrays.npz"), "--out", str(tmp_path / "out"), "--no-report")
    assert code == 0
    assert "row: counted from 0" in out
    ranking = pd.read_csv(tmp_path / "out" / "ranking.csv")
    assert ranking.row[0] == 7
    assert ranking.columns.tolist() == ["rank", "row", "label", "verdict", "suggested", "votes", "value", "stderr"]


def test_rows_without_a_label_are_accounted_for(tmp_path: Path) -> None:
    lines = ["a,y", "1,p", "2,", "3,q", "4,p", "", "5,q", "7,p"]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    code, out, _ = run("value", str(tmp_path / "table.csv"), "-l", "y", "-k", "1", "-o", str(tmp_path / "out"))
    assert code == 0
    assert "1 row without a label left out: 3" in out
    valuation = fw.Valuation.load(tmp_path / "out" / "valuation.safetensors")
    assert valuation.provenance["rows_left_out"] == [3, 6]
    assert sorted(pd.read_csv(tmp_path / "out" / "ranking.csv").row) == [2, 4, 5, 7, 8]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--label", "Kind"], "has no column 'Kind' (did you mean 'kind'?); its columns are a, b, value, town"),
        ([], "--label must name the column of"),
        (["--label", "remark"], "column remark of"),
        (["--label", "kind", "--task", "regression"], "column kind of"),
        (["--label", "kind", "--task", "regression", "--utility", "vote"], "--utility vote is for classification"),
        (["--label", "kind", "--utility", "radius"], "radius must be a distance"),
        (["--label", "kind", "--radius", "2"], "radius is for the utilities"),
        (["--label", "kind", "--task", "ranking"], "--task"),
        (["--label", "kind", "--k", "100"], "k must be at most 99"),
        (["--label", "kind", "--alpha", "0"], "alpha must be positive, got 0"),
        (["--label", "kind", "--reference", "nowhere.csv"], "there is no file nowhere.csv"),
        (["--label", "kind", "--encoding", "utf-9"], "there is no text encoding 'utf-9'"),
        (["--label", "kind", "--utility", "hard"], "--utility"),
        (["--label", "kind", "--top", "0"], "--top"),
    ],
)
def test_bad_input_to_value_is_explained_and_leaves_nothing(
    table: Path, arguments: list[str], complaint: str, tmp_path: Path
) -> None:
    code, out, err = run("value", str(table), "--out", str(tmp_path / "out"), *arguments)
    assert (code, out) == (2, "")
    assert complaint in err
    assert "Traceback" not in err
    assert results_in(tmp_path) == ["drinks.csv"]


def test_an_error_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,y\n1,p\n2,q,r\n")
    code, _, err = run("value", str(tmp_path / "table.csv"), "-l", "y", "-o", str(tmp_path / "out"))
    assert code == 2
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert results_in(tmp_path) == ["table.csv"]


def test_a_row_without_direction_is_named(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,y\n-1,p\n0,q\n1,p\n")
    path, out = str(tmp_path / "table.csv"), str(tmp_path / "out")
    code, _, err = run("value", path, "-l", "y", "-o", out, "-k", "1", "--metric", "cosine")
    assert code == 2
    assert "row 3 of" in err
    assert "use --metric euclidean" in err


def test_results_are_replaced_only_by_force(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "ranking.csv").write_text("mine")
    (out / "other.txt").write_text("mine")
    arguments = ["value", str(table), "-l", "kind", "-o", str(out), "--no-report"]
    code, _, err = run(*arguments)
    assert code == 2
    assert "already has ranking.csv: replace it with --force" in err
    assert (out / "ranking.csv").read_text() == "mine"
    assert run(*arguments, "--force")[0] == 0
    assert (out / "ranking.csv").read_text() != "mine"
    assert (out / "other.txt").read_text() == "mine"


def test_out_must_be_a_folder(table: Path) -> None:
    for out in (table, table / "inside"):
        code, _, err = run("value", str(table), "-l", "kind", "-o", str(out))
        assert code == 2
        assert f"{table} is a file" in err


def test_out_must_be_writable(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.W_OK)
    code, _, err = run("value", str(table), "-l", "kind", "-o", str(tmp_path / "out"))
    assert code == 2
    assert f"{tmp_path} may not be written to" in err


def test_without_matplotlib_there_is_advice_before_any_work(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    arguments = ["value", str(table), "-l", "kind", "-o", str(tmp_path / "out")]
    code, _, err = run(*arguments)
    assert code == 2
    assert "pip install 'fwshapley[plots]'; or do without the report: --no-report" in err
    assert not (tmp_path / "out").exists()
    assert run(*arguments, "--no-report")[0] == 0


@pytest.mark.parametrize(("kind", "code"), [(KeyboardInterrupt, 130), (OSError, 2)])
def test_a_stop_while_writing_leaves_nothing(
    kind: type[BaseException], code: int, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise kind("no more")

    monkeypatch.setattr("fwshapley.cli.value_report.write_valuation_report", stop)
    assert run("value", str(table), "-l", "kind", "-o", str(tmp_path / "out"))[0] == code
    assert results_in(tmp_path) == ["drinks.csv"]


def test_long_work_is_announced(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fwshapley.valuation.knn.engine.PAIR_SECONDS", {"cpu": 1.0})
    code, _, err = run("value", str(table), "-l", "kind", "-o", str(tmp_path / "out"), "--no-report")
    assert code == 0
    assert "100 points by 100 reference points, about" in err


def test_a_reference_of_the_points_themselves_is_warned_of(table: Path, tmp_path: Path) -> None:
    arguments = ["value", str(table), "-l", "kind", "--no-report", "--reference"]
    code, _, err = run(*arguments, str(table), "-o", str(tmp_path / "out"))
    assert code == 0
    assert "100 of 100 reference points are also among the rows" in err
    moved, mended = tmp_path / "moved.csv", tmp_path / "mended.csv"
    pd.read_csv(table).assign(a=lambda frame: frame.a + 0.5).to_csv(moved, index=False)
    pd.read_csv(table).assign(kind=lambda frame: frame.kind.where(frame.index > 0, frame.kind.iloc[1])).to_csv(
        mended, index=False
    )
    assert run(*arguments, str(moved), "-o", str(tmp_path / "moved"))[2] == ""
    assert run(*arguments, str(mended), "-o", str(tmp_path / "mended"))[2] == ""


@pytest.mark.parametrize("extra", [[], ["--utility", "kernel_error", "--radius", "1"]], ids=["squared error", "kernel"])
def test_value_finds_corrupted_targets(extra: list[str], tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.normal(size=(80, 2)), columns=["a", "b"])
    frame["price"] = (frame.a + frame.b).round(3) + 20
    wrong = [5, 40, 77]
    frame.loc[wrong, "price"] += 15
    frame.to_csv(tmp_path / "homes.csv", index=False)
    out = tmp_path / "out"
    code, printed, _ = run("value", str(tmp_path / "homes.csv"), "--label", "price", "--out", str(out), *extra)
    assert code == 0
    assert "80 rows with targets from" in " ".join(printed.split())
    assert "mean target of the 5 nearest neighbors" in " ".join(printed.split())
    ranking = pd.read_csv(out / "ranking.csv")
    assert ranking.columns.tolist() == ["rank", "row", "target", "neighbors_mean", "value", "stderr", "a", "b"]
    assert set(ranking.row[:3] - 2) == set(wrong)
    assert (ranking.target - ranking.neighbors_mean)[:3].between(8, 20).all()
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Suspicious targets in homes.csv" in page
    assert "more likely its target is wrong" in page
    assert "<h2>Classes</h2>" not in page
    valuation = fw.Valuation.load(out / "valuation.safetensors")
    assert np.allclose(valuation.labels, frame.price)
    arguments = ["--reference", str(tmp_path / "homes.csv"), "--no-report", "--force", "--out", str(out)]
    assert run("value", str(tmp_path / "homes.csv"), "--label", "price", *arguments)[0] == 0


def test_help_on_value_says_how_to_start() -> None:
    code, out, _ = run("value", "--help")
    assert code == 0
    for text in ("fwshapley value train.csv --label species --out results", "--reference", "--encoding", "--force"):
        assert text in out
