"""Every benchmark has a --smoke that runs and records what it should."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
SCRIPTS = sorted(path for path in BENCHMARKS.glob("*.py") if '"--smoke"' in path.read_text(encoding="utf-8"))
"""Not those that only help the others."""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_smoke_run_records_results_and_how_they_came_about(script: Path, tmp_path: Path) -> None:
    subprocess.run(  # noqa: S603 - our own script
        [sys.executable, script, "--smoke", "--out", tmp_path, "--figures", tmp_path], check=True, capture_output=True
    )
    document = json.loads((tmp_path / f"{script.stem}.json").read_text(encoding="utf-8"))
    assert {"command", "date", "machine", "results", "seeds", "versions", "wall_time_s"} <= document.keys()
    assert "--smoke" in document["command"]
    assert document["results"]
    assert any(path.suffix == ".png" for path in tmp_path.iterdir())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_recorded_results_are_of_a_full_run(script: Path) -> None:
    path = BENCHMARKS / "results" / f"{script.stem}.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    assert "--smoke" not in document["command"]


def test_pages_say_what_was_recorded() -> None:
    command = [sys.executable, str(BENCHMARKS / "publish.py"), "--check"]
    checked = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - our own script
    assert checked.returncode == 0, checked.stderr


def test_page_of_noisy_labels_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from noisy_page import missing_text  # noqa: PLC0415 - a script, on the path only here

    assert missing_text([]) == ""
    job = {"noise": "next, 10 %", "dataset": "svhn", "kind": "cross-fitted", "part": "exact"}
    assert missing_text([job | {"seed": 1}, job | {"seed": 2}]).endswith("are SVHN (next, 10 %), exact")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("table2 --data {}/no.npz", "argument --data: there is no file or folder {}/no.npz"),
        ("table1 --data {}/no.npz", "argument --data: there is no file or folder {}/no.npz"),
        ("noisy_labels --data {}/no.npz", "argument --data: there is no file or folder {}/no.npz"),
        ("learned_valuation --data {}/no.npz", "argument --data: there is no file or folder {}/no.npz"),
        ("table2 --work {}", "--data is needed, or --smoke"),
        ("inclusion --smoke --data {}", "--smoke takes no --data: it runs on what is bundled or made up"),
        ("noisy_labels --parts exact --work {}", "--data is needed for the parts exact, or --smoke"),
        ("learned_valuation --parts large --work {}", "--data is needed for the parts large, or --smoke"),
    ],
)
def test_data_that_are_missing_are_named_at_once(
    arguments: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    script, *rest = arguments.format(tmp_path).split()
    monkeypatch.setattr(sys, "argv", [script, *rest])
    with pytest.raises(SystemExit):
        import_module(script).parse()
    assert complaint.format(tmp_path) in capsys.readouterr().err
