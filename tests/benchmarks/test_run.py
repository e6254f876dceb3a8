"""benchmarks/run.py: list, run an experiment, compare it with its record."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks.harness import provenance
from benchmarks.harness.comparison import compare_figures, compare_seeds, difference
from benchmarks.harness.options import ExperimentParser
from benchmarks.harness.provenance import measured_on, measured_with, recompressed, seconds_spent

from benchmarks import run

CPU = {"gpu": None, "cores": 2, "processor": "AMD EPYC"}
GPU = {"gpu": "NVIDIA H200", "cores": 16, "processor": "Xeon"}
DOCUMENT: dict[str, Any] = {
    "command": "python benchmarks/run.py sheep", "date": "2026-11-15T10:00:00", "wall_time_s": 1234.5,
    "seeds": [0, 1, 2], "machine": CPU, "versions": {"python": "3.11", "fwshapley": "0.1"},
    "results": {"sheep": 100, "wolves": [1, 2]},
}  # fmt: skip


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder of one experiment, sheep, with records of a CPU and of a GPU."""
    experiments, records = tmp_path / "experiments", tmp_path / "results"
    experiments.mkdir()
    records.mkdir()
    (experiments / "sheep.py").write_text('"""Counts sheep.\n\nMore of it.\n"""\n')
    (experiments / "goats.py").write_text('"""Counts goats."""\n')
    (records / "sheep.json").write_text(json.dumps(DOCUMENT))
    (records / "sheep_gpu.json").write_text(json.dumps(DOCUMENT | {"machine": GPU}))
    monkeypatch.setattr(provenance, "EXPERIMENTS", experiments)
    monkeypatch.setattr(
        run, "read_records", lambda name, folder=records, **more: provenance.read_records(name, folder, **more)
    )
    monkeypatch.setattr(run, "import_module", lambda _: SimpleNamespace(parse=parse, main=count))
    return tmp_path


def parse(options: list[str]) -> Any:  # noqa: ANN401 - argparse's Namespace
    parser = ExperimentParser("Counts sheep.", smoke="few", seeds=[0, 1, 2], seeds_of="shepherds")
    return parser.parse(options)


def count(arguments: Any) -> None:  # noqa: ANN401 - argparse's Namespace
    found = DOCUMENT | {"seeds": arguments.seeds, "results": {"sheep": 100.5, "wolves": [1, 1]}}
    (arguments.out / "sheep.json").write_text(json.dumps(found))


@pytest.mark.usefixtures("checkout")
def test_list_has_a_line_for_each_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    run.main(["list"])
    goats, sheep = capsys.readouterr().out.splitlines()
    assert goats == "goats  Counts goats. [not recorded]"
    assert sheep.startswith("sheep  Counts sheep. [2026-11-15, 2 cores of AMD EPYC, 21 min; 2026-11-15, NVIDIA H200")


def test_every_experiment_has_a_one_line_summary_and_every_record_an_experiment() -> None:
    experiments = provenance.experiments()
    for name, summary in experiments.items():
        assert 20 < len(summary) < 120, name
    recorded = {stem for name in experiments for stem in provenance.read_records(name)}
    assert recorded == {path.stem for path in provenance.RECORDS.glob("*.json")}


def test_a_run_is_compared_with_the_record(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = ["--out", str(checkout / "new"), "--figures", str(checkout / "new")]
    run.main(["sheep", *folders])
    out = capsys.readouterr().out
    assert "sheep: 3 of 3 recorded figures were measured again: 2 within 1 %" in out
    assert "1 at wolves.2 of 2, recorded 2" in out
    run.main(["sheep", "--seeds", "1", *folders])
    assert "sheep (seed 1; recorded with 0 to 2): 3 of 3 recorded figures" in capsys.readouterr().out
    run.main(["compare", "sheep", str(checkout / "new")])
    assert "3 of 3 recorded figures were measured again" in capsys.readouterr().out
    run.main(["sheep", "--smoke", *folders])
    assert "recorded figures" not in capsys.readouterr().out


def test_a_run_says_that_its_record_needed_a_gpu(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = ["--out", str(checkout / "new"), "--figures", str(checkout / "new")]
    run.main(["sheep", *folders])
    assert "without that GPU" not in capsys.readouterr().out
    (checkout / "results" / "sheep.json").unlink()
    run.main(["sheep", *folders])
    assert (
        "recorded as 2026-11-15, NVIDIA H200, 21 min; it takes far longer without that GPU" in capsys.readouterr().out
    )


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["shep"], r"no experiment 'shep' \(did you mean sheep\?\); there are goats, sheep"),
        (["../sheep"], r"no experiment '\.\./sheep'"),
        (["compare"], "no experiment ''"),
        (["compare", "goats", "nowhere"], "no run of goats in nowhere"),
    ],
)
def test_wrong_names_are_explained(words: list[str], complaint: str) -> None:
    with pytest.raises(SystemExit, match=complaint):
        run.main(words)


@pytest.mark.usefixtures("checkout")
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise ModuleNotFoundError(name="shapiq")

    monkeypatch.setattr(run, "import_module", fail)
    with pytest.raises(SystemExit, match=r"sheep needs shapiq, which is not installed: pip install '\.\[dev\]'"):
        run.main(["sheep"])


def test_help_shows_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    run.main([])
    assert "python benchmarks/run.py list" in capsys.readouterr().out


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(SystemExit):
        parse(["--out", str(tmp_path / "taken")])
    assert "--out: cannot make the folder" in capsys.readouterr().err


def test_runs_never_replace_a_record_unless_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    options = sys.modules[ExperimentParser.__module__]
    for name in ("REPRODUCED", "SMOKED"):
        monkeypatch.setattr(options, name, tmp_path / name)
    assert parse([]).out == parse([]).figures == tmp_path / "REPRODUCED"
    assert parse(["--smoke"]).out == tmp_path / "SMOKED"
    assert parse(["--smoke"]).seeds == [0]


@pytest.mark.parametrize(
    "machines",
    [
        {"one part": ["NVIDIA H200; torch 2"], "another": ["NVIDIA H200; torch 2", "8 cores of Z80; torch 3"]},
        ["NVIDIA H200; torch 2", "8 cores of Z80; torch 3"],
    ],
)
def test_machines_are_those_that_measured_not_the_one_that_joined(machines: object) -> None:
    document = DOCUMENT | {"results": {"machines": machines}}
    assert measured_on(document) == ["NVIDIA H200", "8 cores of Z80"]
    assert measured_with(document) == ["NVIDIA H200 (torch 2)", "8 cores of Z80 (torch 3)"]
    assert measured_with(DOCUMENT) == ["2 cores of AMD EPYC (python 3.11)"]


def test_joined_runs_count_with_the_time_of_their_training() -> None:
    runs = {"2 minutes": {"seconds": 120.0}, "30 minutes": {"seconds": 1800.0}}
    assert seconds_spent(DOCUMENT | {"results": {"runs": runs}}) == 1920
    assert seconds_spent(DOCUMENT | {"results": {"runs": {"digits": 3}}}) == 1234.5


def test_commands_are_without_folders_and_name_recompressed_images_once() -> None:
    command = "python benchmarks/a.py --data carry/svhn_jpeg95.npz --runs '2 minutes, log odds'"
    document = DOCUMENT | {"command": command, "results": {"commands": [command]}}
    (shown,) = provenance.commands_of(document)
    assert shown == "python benchmarks/a.py --data svhn_jpeg95.npz --runs '2 minutes, log odds'"
    assert recompressed([document, DOCUMENT]) == [("svhn", "95")]


@pytest.mark.parametrize(
    ("new", "recorded", "expected"),
    [
        ([0, 1], range(10), " (seeds 0 and 1; recorded with 0 to 9)"),
        ([7], [0], " (seed 7; recorded with 0)"),
        ([5, 0, 2], [2, 1, 0], " (seeds 0, 2 and 5; recorded with 0 to 2)"),
        ([2, 1, 0], [0, 1, 2], ""),
    ],
)
def test_other_seeds_are_named(new: list[int], recorded: list[int], expected: str) -> None:
    assert compare_seeds(new, recorded) == expected


def test_figures_compare_at_the_same_place_only() -> None:
    recorded = {"a": {"b": [1.0, 2.0], "yes": True, "name": "x"}, "c": 0, "d": None, "e": float("nan")}
    assert compare_figures(recorded, recorded).endswith("4 within 1 %, no difference at all")
    assert "none of the 4 recorded" in compare_figures({"a": {"b": [1.0, 2.0, 3.0]}, "f": 1}, recorded)
    assert compare_figures({"c": -1e-3}, recorded).endswith("is 100 %: -0.001 at c, recorded 0")


def test_times_are_figures_but_the_time_of_the_whole_run_is_not() -> None:
    recorded = {"seconds": 60, "rows": [{"seed": 0, "seconds": 2.0}]}
    compared = compare_figures({"seconds": 90, "rows": [{"seed": 1, "seconds": 3.0}]}, recorded)
    assert compared.startswith("1 of 1 recorded figures were measured again: 0 within 1 %")


@pytest.mark.parametrize(
    ("one", "other", "expected"), [(0, 0, 0), (99, 100, 0.01), (1, -1, 2), (0, 5, 1), (float("nan"), 1, 2)]
)
def test_differences_are_relative_to_the_larger(one: float, other: float, expected: float) -> None:
    assert difference(one, other) == difference(other, one) == pytest.approx(expected)
