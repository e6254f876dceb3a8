"""The examples run, from the command line and from start to end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = {
    "explain_images": "correlation with the exact values",
    "explain_table": "10 players: radius",
    "find_bad_labels": "LogisticRegression, accuracy",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_script_says_what_it_found_and_draws_it(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--smoke"]
    alone = os.environ | {"OMP_NUM_THREADS": "1"}  # the tensors are small: threads would only wait for each other
    ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path, env=alone)  # noqa: S603 - ours
    assert SCRIPTS[name] in ran.stdout
    assert (tmp_path / f"{name}.png").exists()


def test_every_script_is_tested() -> None:
    assert {script.stem for script in EXAMPLES.glob("*.py")} - {"bundled", "demo"} == SCRIPTS.keys()


@pytest.mark.slow
def test_the_demo_writes_its_report(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "demo.py"), "--out", str(tmp_path), "--seconds", "0.5", "--exact", "1"]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own script
    assert "every weighting: Shapley" in ran.stdout
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<img") == 5
    assert "FastSHAP" in page
    assert "leave-one-out" in page
