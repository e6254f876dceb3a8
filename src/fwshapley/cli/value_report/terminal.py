"""Findings on the terminal."""

from __future__ import annotations

import rich.table
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.text import Text

from fwshapley._internal.printing import print_notes, print_table
from fwshapley.cli.value_report.findings import Findings
from fwshapley.cli.value_report.ranking import about_headings, headings, suspect_cells

TEXTS = {"label", "suggested", "file"}


def show(findings: Findings, console: Console) -> None:
    """Print what was done, what was found, and the most suspicious points; names are never broken over lines."""
    console.print(Text(str(findings.points.path), style="bold"), soft_wrap=True)
    print_notes(findings.notes, console)
    console.print()
    for sentence in findings.summary:
        console.print(Text(sentence), soft_wrap=True)
    console.print()
    suspects = rich.table.Table(
        title=f"Most suspicious {findings.points.noun}s", title_justify="left", box=SIMPLE_HEAD, pad_edge=False,
        caption=about_headings(findings), caption_justify="left",
    )  # fmt: skip
    for heading in headings(findings):
        suspects.add_column(heading, justify="left" if heading in TEXTS else "right")
    for cells in suspect_cells(findings):
        suspects.add_row(*map(Text, cells))
    print_table(suspects, console)
