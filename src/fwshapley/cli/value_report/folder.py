"""The folder that findings are written to."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from fwshapley._internal.files import check_free, written_whole
from fwshapley.cli.value_report.findings import Findings
from fwshapley.cli.value_report.page import make_report
from fwshapley.cli.value_report.ranking import rank_points

RANKING, VALUES, REPORT = "ranking.csv", "valuation.safetensors", "report.html"


def write(findings: Findings, folder: Path, *, report: bool) -> list[Path]:
    """Write ranking, values and, if wanted, the report: all of them or none."""
    paths = [folder / name for name in _file_names(report=report)]
    made = not folder.exists()
    try:
        with ExitStack() as stack:
            temporary = {path.name: stack.enter_context(written_whole(path)) for path in paths}
            rank_points(findings).to_csv(temporary[RANKING], index=False)
            findings.valuation.save(temporary[VALUES])
            if report:
                make_report(findings).write(temporary[REPORT])
    finally:
        if made and folder.exists() and not any(folder.iterdir()):
            folder.rmdir()
    return paths


def check_folder(folder: Path, *, report: bool, force: bool) -> None:
    """Raise an error if files cannot or should not be written to a folder, before there is any work to lose."""
    check_free(folder, _file_names(report=report), force=force)


def _file_names(*, report: bool) -> list[str]:
    return [RANKING, REPORT, VALUES] if report else [RANKING, VALUES]
