"""`fwshapley audit` of tables, arrays and folders of pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_iris

from cli_cases import run

WRONG = np.arange(4, 144, 12)
"""Rows of `irises`, from 0, whose label is wrong."""

QUICK = ("--steps", "60", "--folds", "2", "--device", "cpu")


@pytest.fixture(scope="module")
def irises(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with wrong labels, text, gaps, and a row without a label."""
    data = load_iris(as_frame=True)
    frame = data.frame.drop(columns="target").set_axis(["a", "b", "c", "d"], axis=1)
    codes = data.target.to_numpy().copy()
    codes[WRONG] = (codes[WRONG] + 1) % 3
    frame["site"] = np.where(np.arange(150) % 3, "north", "south")
    frame["kind"] = data.target_names[codes]
    frame.loc[7, "a"] = np.nan
    frame.loc[9, "kind"] = None
    path = tmp_path_factory.mktemp("irises") / "irises.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def audited(irises: Path) -> tuple[str, Path]:
    out = irises.parent / "out"
    code, printed, err = run("audit", irises, "--label", "kind", "--test", irises, "--out", out, *QUICK)
    assert (code, err) == (0, "")
    return printed, out


def test_wrong_labels_of_a_table_come_first(audited: tuple[str, Path]) -> None:
    printed, out = audited
    ranking = pd.read_csv(out / "ranking.csv")
    assert ranking.columns.tolist()[:7] == [
        *("rank", "row", "label", "suggested", "suggested_probability", "wrong_probability", "reasons"),
    ]
    assert ranking.columns.tolist()[-5:] == ["a", "b", "c", "d", "site"]
    assert len(ranking) == 149
    assert len(set(ranking["row"][:12]) & set(WRONG + 2)) >= 10
    assert "nearest neighbors are labeled" in ranking["reasons"][0]
    assert "of 149 labels" in printed
    assert "1 row without a label left out: 11" in printed
    assert "Evidence by its weight: self confidence" in printed


def test_what_else_was_found_is_listed_by_row(audited: tuple[str, Path]) -> None:
    _, out = audited
    shared = pd.read_csv(out / "leakage.csv")
    assert len(shared) == 149  # the table itself
    confusions = pd.read_csv(out / "confusions.csv", index_col="given")
    assert confusions.to_numpy().sum() == pytest.approx(149, abs=1)
    assert "Suspicious labels in irises.csv" in (out / "review.html").read_text(encoding="utf-8")


def test_results_are_written_again_without_training(irises: Path, audited: tuple[str, Path]) -> None:
    printed, out = audited
    before = (out / "ranking.csv").read_bytes()
    arguments = ("audit", irises, "--label", "kind", "--out", out, *QUICK)
    code, _, err = run(*arguments)
    assert code == 2
    assert "replace them with --force" in err
    code, again, err = run(*arguments, "--resume", "--top", "3")
    assert (code, err) == (0, "")
    assert len(again) < len(printed)
    assert (out / "ranking.csv").read_bytes() == before


def test_decisions_are_applied_to_a_copy(irises: Path, audited: tuple[str, Path], tmp_path: Path) -> None:
    row = pd.read_csv(audited[1] / "ranking.csv").iloc[0]
    decisions, corrected = tmp_path / "decisions.csv", tmp_path / "corrected.csv"
    line = f"{row['row'] - 2},{row['row']},{row['label']},accept,{row['suggested']}"
    decisions.write_text(f"index,name,label,decision,new_label\n{line}\n", encoding="utf-8")
    code, printed, err = run("audit", irises, "--label", "kind", "--apply", decisions, "--out", corrected)
    assert (code, err) == (0, "")
    assert str(corrected) in printed
    old, new = pd.read_csv(irises), pd.read_csv(corrected)
    assert (old["kind"].fillna("") != new["kind"].fillna("")).sum() == 1
    assert new["kind"][row["row"] - 2] == row["suggested"]


def test_arrays_are_audited(tmp_path: Path) -> None:
    x, y = load_iris(return_X_y=True)
    y[WRONG] = (y[WRONG] + 1) % 3
    np.savez(tmp_path / "irises.npz", x=x, y=y)
    code, printed, err = run("audit", tmp_path / "irises.npz", "--out", tmp_path / "out", *QUICK)
    assert (code, err) == (0, "")
    ranking = pd.read_csv(tmp_path / "out" / "ranking.csv")
    assert len(set(ranking["row"][:12]) & set(WRONG)) >= 9
    assert "Rows are counted from 0" in printed


@pytest.fixture(scope="module")
def shades(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of two shades, three of them in the wrong folder."""
    folder, generator = tmp_path_factory.mktemp("shades") / "shades", np.random.default_rng(0)
    for number in range(60):
        is_light = number % 2 == 1
        pixels = generator.integers(0, 80, (8, 8)) + 150 * is_light
        kind = "light" if is_light != (number in {5, 20, 41}) else "dark"
        path = folder / kind / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
    return folder


def test_pictures_are_audited_by_networks_or_by_features(shades: Path, tmp_path: Path) -> None:
    module = tmp_path / "brightness.py"
    module.write_text("def mean(x):\n    return x.reshape(len(x), -1)[:, ::7]\n", encoding="utf-8")
    for backbone in ("none", f"{module}:mean"):
        out = tmp_path / backbone.rpartition(":")[2]
        code, printed, err = run(
            "audit", shades, "--backbone", backbone, "--out", out, "--steps", "120", "--folds", "2"
        )
        assert (code, err) == (0, "")
        assert set(pd.read_csv(out / "ranking.csv")["file"][:3]) == {"dark/05.png", "light/20.png", "dark/41.png"}
        assert "Features: " in printed
        assert (out / "review.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["irises", "--size", "8x8"], "--size is for folders of pictures"),
        (["shades", "--label", "kind"], "--label is for tables"),
        (["irises"], "--label"),
        (["irises", "--label", "kind", "--apply", "decisions.csv", "--resume"], "--resume is for audits"),
        (["irises", "--label", "kind", "--apply", "absent.csv"], "absent.csv"),
        (["irises", "--label", "a"], "numbers that are not whole"),
    ],
)
def test_bad_options_are_explained(
    arguments: list[str], complaint: str, irises: Path, shades: Path, tmp_path: Path
) -> None:
    places = {"irises": irises, "shades": shades}
    code, _, err = run("audit", *(places.get(argument, argument) for argument in arguments), "--out", tmp_path / "out")
    assert code == 2
    assert complaint in err
