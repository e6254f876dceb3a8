"""The benchmark of explanations of tables: its tables, its models, its references, and how it compares samplers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.experiments import table_explanations as script
from benchmarks.harness import pieces, table_conditional, table_interventional
from benchmarks.harness.table_case import Case
from benchmarks.models import real_tables, table_models
from benchmarks.models.real_tables import Table

SMOKE = ["--smoke", "--no-figure"]


def arguments(folder: Path, *options: str) -> argparse.Namespace:
    return script.parse([*SMOKE, "--out", str(folder), "--figures", str(folder), *options])


def case_of(model: str, folder: Path) -> Case:
    """A model of the smoke table, with 10 background rows."""
    return script.make_case("smoke", model, 0, arguments(folder))


def test_tables_come_back_from_a_file_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pd.DataFrame({"age": [30, 40, 50], "town": ["Rome", None, "Oslo"], "income": [1.0, np.nan, np.nan]})
    made = Table(rows, np.array([True, False, True]))
    monkeypatch.setattr(real_tables, "TABLES", {"made": ("numpy", lambda: made), **real_tables.TABLES})
    real_tables.write_tables(["made", "tumors"], tmp_path / "tables.npz")
    for name, columns in (("made", 3), ("tumors", 30)):
        table, again = real_tables.load_table(name), real_tables.read_table(tmp_path / "tables.npz", name)
        pd.testing.assert_frame_equal(table.frame, again.frame)
        np.testing.assert_array_equal(table.target, again.target)
        assert table.frame.shape[1] == columns
        assert table.has_classes
    town = real_tables.load_table("made").frame["town"]
    assert list(town.cat.categories) == ["Oslo", "Rome"]
    assert town.isna().tolist() == [False, True, False]
    with pytest.raises(SystemExit, match="has no table wages: write it with --export"):
        real_tables.read_table(tmp_path / "tables.npz", "wages")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_tables, "find_spec", lambda _: None)
    with pytest.raises(SystemExit, match="table wages comes in the package ISLP, which is not installed"):
        real_tables.load_table("wages")
    with pytest.raises(SystemExit, match="table tumors comes in the package scikit-learn"):
        real_tables.load_table("tumors")


def test_rare_gaps_are_filled_and_others_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pd.DataFrame(
        {"rare": [np.nan, *[7.0] * 99], "often": [np.nan] * 10 + [1.0] * 90, "town": [None, *["x"] * 99]}
    )
    monkeypatch.setattr(real_tables, "TABLES", {"made": ("numpy", lambda: Table(rows, np.zeros(100)))})
    frame = real_tables.load_table("made").frame
    assert frame.isna().sum().to_dict() == {"rare": 0, "often": 10, "town": 0}
    assert frame["rare"][0] == 7


def test_codes_are_decoded_to_the_same_table(tmp_path: Path) -> None:
    frame = case_of("HistGradientBoosting", tmp_path).train
    again = table_models.from_codes(table_models.as_codes(frame).to_numpy(), frame)
    pd.testing.assert_frame_equal(frame, again)
    assert frame.isna().any().any()


@pytest.mark.slow
@pytest.mark.parametrize("model", table_models.MODELS)
def test_references_are_those_of_enumeration(model: str, tmp_path: Path) -> None:
    case = case_of(model, tmp_path)
    truth, noise = table_interventional.find_truth(case)
    rows = case.first("sampled")
    enumerated = table_interventional.sample_as_black_box(case, 1.0)(rows)
    np.testing.assert_allclose(truth[: len(rows)], enumerated, atol=1e-5)  # XGBoost predicts in single precision
    assert noise == 0


def row(seconds: float, nrmse: float) -> dict[str, float]:
    return {"seconds": seconds, "nrmse": nrmse}


@pytest.mark.parametrize(
    ("peer", "faster", "better"),
    [
        (row(10, 0.1), 10.0, 0.1 / (0.02 * np.sqrt(0.4))),  # as accurate as ours in 1 s; ours has 4 s and more
        (row(1, 0.05), 1 / 1.0, 0.5),  # between ours in 1 s and in 4 s, where 1 s is the least
        (row(4, 0.01), 4 / 16, 0.5),  # better than ours, which takes four times as long for half the error
        (row(0.25, 0.2), 0.25, 1.0),  # ours is not faster than it was measured to be
    ],
)
def test_times_are_compared_at_equal_error(peer: dict[str, float], faster: float, better: float) -> None:
    found = table_interventional.compare_times([row(1, 0.1), row(4, 0.02)], peer)
    assert found["times as long as ours"] == pytest.approx(faster)
    assert found["times our error"] == pytest.approx(better)


def test_exact_methods_are_compared_by_their_time() -> None:
    found = table_interventional.compare_times([row(2, 1e-12), row(3, 0.0)], row(5, 1e-9))
    assert found == {"times as long as ours": 2.5, "times our error": 1.0}


def test_values_are_covered_by_two_expected_errors() -> None:
    values, truth = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.1, 2.5], [3.0, 5.0]])
    assert table_conditional.cover(values, truth, np.array([0.1, 0.6])) == 3 / 4
    kept = [{"values": [[value]], "exact": [[value]], "errors": [1.0]} for value in (0.0, 1.0, 5.0)]
    assert table_conditional.cover_others(kept) == [1 / 3, 1 / 3]  # (0 + 5) / 2 is near 1; 3 is far from 0, 0.5 from 5
    kept[2] = {"values": [[3.8]], "exact": [[3.8]], "errors": [1.0]}
    assert table_conditional.cover_others(kept) == [1 / 3, 2 / 3]  # 2.4 is nearer to 0 than 2 * sqrt(3 / 2)
    assert table_conditional.cover_others(kept[:1]) is None


def test_kept_parts_are_joined_and_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []

    def measure(case: Case) -> dict[str, Any]:
        measured.append((case.name, case.seed))
        return {"numbers": {"seconds": float(case.seed)}, "kept": {}, "method": "trees", "refused": {}}

    monkeypatch.setattr(script, "MEASURES", {"interventional": measure, "conditional": measure})
    options = ["--work", str(tmp_path / "work"), "--models", "perceptron pipeline"]
    script.main(arguments(tmp_path, *options, "--keep", "--games", "conditional"))
    assert measured == [("perceptron pipeline", 0)]
    assert not (tmp_path / "table_explanations.json").exists()
    monkeypatch.setattr(script, "cover_others", lambda _: None)
    script.main(arguments(tmp_path, *options))
    assert len(measured) == 2  # the interventional game was missing
    (document,) = [pieces.read_piece(tmp_path / "table_explanations.json")]
    assert document is not None
    cell = document["results"]["cells"]["smoke"]["perceptron pipeline"]
    assert cell["interventional"] == cell["conditional"] == {"seconds": [0.0, 0.0]}
    assert document["results"]["tables"]["smoke"]["columns"] == 4
    with pytest.raises(SystemExit, match="was made with seconds 60, not 5"):
        script.main(arguments(tmp_path, *options, "--seconds", "5"))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--keep"], "--keep needs --work"),
        (["--games", "conditional"], "--games needs --keep"),
        (["--data", "."], "--smoke takes no --data"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        arguments(tmp_path, *options)
    assert complaint in capsys.readouterr().err
