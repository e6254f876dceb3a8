"""`fwshapley value`: which rows of a table have a wrong label."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import fwshapley as fw
from fwshapley import valuation_report
from fwshapley.cli.console import check_matplotlib, console, errors, errors_explained
from fwshapley.games.neighbours import Utility
from fwshapley.tables import read_table
from fwshapley.tables.wording import counted
from fwshapley.valuation.distances import Metric

reading = partial(typer.Option, rich_help_panel="What is read")
writing = partial(typer.Option, rich_help_panel="What is written")
valuing = partial(typer.Option, rich_help_panel="How rows are valued")

LABEL_HELP = "Column of labels; an .npz file can do without."
REFERENCE_HELP = "Table of rows to be predicted, best known to be right. Without it rows are valued by each other."
UTILITY_HELP = (
    "What neighbours are worth: the share of k that has the right label (soft), the share of those there are "
    "(normalised), or whether it wins the vote."
)

MANY_PAIRS = 10**10
"""Pairs of rows from which on a valuation takes a quarter of an hour or more on one core."""


def value(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A .csv file, or an .npz file with arrays x and y.")],
    *,
    label: Annotated[str | None, reading("--label", "-l", metavar="COLUMN", help=LABEL_HELP)] = None,
    reference: Annotated[Path | None, reading("--reference", "-r", metavar="FILE", help=REFERENCE_HELP)] = None,
    ignore: Annotated[list[str] | None, reading(metavar="COLUMN", help="Column to leave out; may be repeated.")] = None,
    scale: Annotated[bool, reading(help="Standardise numbers, or use them as they are.")] = True,
    encoding: Annotated[str, reading(metavar="NAME", help="Of .csv files, such as cp1252.")] = "utf-8",
    alpha: Annotated[float, valuing(metavar="X", help="Larger favours small coalitions.")] = 1.0,
    beta: Annotated[float, valuing(metavar="X", help="Larger favours large ones; 1 and 1 is Shapley.")] = 1.0,
    k: Annotated[int, valuing("--k", "-k", min=1, metavar="N", help="Nearest neighbours that decide.")] = 5,
    utility: Annotated[Utility, valuing(help=UTILITY_HELP)] = "soft",
    metric: Annotated[Metric, valuing(help="How far two rows are apart.")] = "euclidean",
    jobs: Annotated[
        int | None, valuing("--jobs", "-j", min=1, metavar="N", help="Cores to use instead of all.")
    ] = None,
    out: Annotated[Path, writing("--out", "-o", metavar="FOLDER", help="Folder for the results.")],
    top: Annotated[int, writing(min=1, metavar="N", help="Suspicious rows to show.")] = 20,
    report: Annotated[bool, writing(help="Write report.html, which needs matplotlib.")] = True,
    force: Annotated[bool, writing("--force", help="Replace results that are in the folder.")] = False,
) -> None:
    """Find rows of a table whose label is probably wrong: what each row is worth to its neighbours.

    Numbers are standardised, categories and dates turned into numbers, and what was done is said.
    The folder gets ranking.csv with all rows, the most suspicious first, report.html and valuation.safetensors.

    Start with: fwshapley value train.csv --label species --out results
    """
    with errors_explained():
        weights = fw.Beta(alpha=alpha, beta=beta)
        valuation_report.check_folder(out, report=report, force=force)
        if report:
            check_matplotlib("the report: --no-report")
        rows = read_table(table, label, encoding=encoding, ignore=ignore or (), scale=scale)
        references = None if reference is None else rows.read_reference(reference, encoding=encoding)
        _warn_of_long_work(len(rows), len(rows if references is None else references))
        findings = valuation_report.value_table(
            rows, references, weights=weights, k=k, utility=utility, metric=metric, top=top, jobs=jobs
        )
        written = valuation_report.write(findings, out, report=report)
        valuation_report.show(findings, console)
        names = ", ".join(path.name for path in written)
        console.print(f"\nwritten to [bold]{escape(str(out))}[/bold]: {names}", highlight=False, soft_wrap=True)


def _warn_of_long_work(rows: int, references: int) -> None:
    if rows * references > MANY_PAIRS:
        errors.print(
            f"{counted(rows, 'row')} for {counted(references, 'reference')} are many: this takes long. "
            "A --reference of some thousand rows would do.",
            highlight=False,
        )
