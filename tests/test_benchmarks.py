"""Every benchmark has a --smoke that runs and records what it should."""

from __future__ import annotations

import json
import subprocess
import sys
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
    document = json.loads((BENCHMARKS / "results" / f"{script.stem}.json").read_text(encoding="utf-8"))
    assert "--smoke" not in document["command"]


def test_pages_say_what_was_recorded() -> None:
    command = [sys.executable, str(BENCHMARKS / "publish.py"), "--check"]
    checked = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - our own script
    assert checked.returncode == 0, checked.stderr
