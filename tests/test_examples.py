"""The examples run, from the command line and from start to end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_the_demo_writes_its_report(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "demo.py"), "--out", str(tmp_path), "--seconds", "1", "--exact", "2"]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own script
    assert "every weighting: Shapley" in ran.stdout
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<img") == 4
    assert "FastSHAP" in page
    assert "leave-one-out" in page
