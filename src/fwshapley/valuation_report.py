"""What a person is shown of a valued table: suspects on the terminal, and a folder with ranking, report and values."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import rich.table
from jaxtyping import Int64
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.text import Text
from torch import Tensor

from fwshapley.files import check_free, written_whole
from fwshapley.games.neighbours import Utility
from fwshapley.report import Report
from fwshapley.tables import Table
from fwshapley.tables.wording import counted, decimals_for, listed, shortened
from fwshapley.valuation import Valuation, value_neighbours
from fwshapley.valuation.distances import Metric
from fwshapley.valuation.suggest import Suggestions, suggest_labels
from fwshapley.weights import Semivalue

RANKING, VALUES, REPORT = "ranking.csv", "valuation.safetensors", "report.html"

MOST_ASKED = 1000
"""Rows of negative value whose neighbours are asked, each at the cost of a look at the whole table."""

HEADINGS = ("rank", "row", "label", "neighbours say", "votes", "value ± standard error")


@dataclass(frozen=True, eq=False)
class Findings:
    """A table with what its rows are worth.

    Attributes:
        table: what was valued.
        reference: what it was valued by; None if rows were valued by each other.
        valuation: of the rows of the table.
        suspects: indices of the rows of lowest value, from the lowest on.
        suggestions: labels that their neighbours suggest.
        top: how many of them to show.
    """

    table: Table
    reference: Table | None
    valuation: Valuation
    suspects: Int64[Tensor, " suspects"]
    suggestions: Suggestions
    top: int

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the tables."""
        return self.table.notes + (() if self.reference is None else self.reference.notes)

    @property
    def summary(self) -> list[str]:
        """What was found, in two sentences."""
        table, how = self.table, self.valuation.provenance
        sizes = np.bincount(table.y).tolist()
        classes = listed(f"{name} {size:,}" for name, size in zip(table.classes.names, sizes, strict=True))
        by = "each other" if self.reference is None else f"the {len(self.reference):,} of {self.reference.path.name}"
        negative = int((self.valuation.values < 0).sum())
        what = (
            f"{counted(len(table), 'row')} of {len(sizes)} classes ({classes}), valued by {by}: "
            f"{self.valuation.weights} for {how['k']} nearest neighbours, utility {how['utility']}, "
            f"{how['metric']} distance."
        )
        if not negative:
            return [what, "No row is of negative value: under this weighting the order tells, not the sign."]
        harmful = f"{counted(negative, 'row')} ({negative / len(table):.0%})"
        return [what, f"Of negative value, so harmful to the prediction of others: {harmful}."]


def value_table(
    table: Table,
    reference: Table | None,
    *,
    weights: Semivalue,
    k: int,
    utility: Utility,
    metric: Metric,
    top: int,
    jobs: int | None,
) -> Findings:
    """Value the rows of a table, and ask the neighbours of the most suspicious ones for a better label.

    These are the `top` rows of lowest value that are shown, and all others of negative value, up to some number.
    Arguments are those of `value_neighbours`.
    """
    for each in (table, reference):
        if metric == "cosine" and each is not None:
            _check_directions(each)
    x_reference, y_reference = (None, None) if reference is None else (reference.x, reference.y)
    valuation = value_neighbours(
        table.x, table.y, x_reference, y_reference, k=k, weights=weights, utility=utility, metric=metric, n_jobs=jobs
    )
    first, last = int(table.rows[0]), int(table.rows[-1])
    origin = {
        "table": table.path.name,
        "label": table.label,
        "first_row": first,
        "rows_left_out": np.setdiff1d(np.arange(first, last), table.rows).tolist(),
    }
    valuation = replace(valuation, classes=table.classes.names, provenance={**valuation.provenance, **origin})
    negative = int((valuation.values < 0).sum())
    suspects, others = valuation.suspects(max(top, min(negative, MOST_ASKED))), min(k, len(table) - 1)
    suggestions = suggest_labels(table.x, table.y, suspects, k=others, metric=metric)
    return Findings(table, reference, valuation, suspects, suggestions, top)


def _check_directions(table: Table) -> None:
    nowhere = ~table.x.any(axis=1)
    if nowhere.any():
        raise ValueError(
            f"row {table.rows[nowhere][0]} of {table.path} has no direction, since all its numbers are 0: "
            "use --metric euclidean"
        )


def rank_rows(findings: Findings) -> pd.DataFrame:
    """Return all rows from the most suspicious on: rank, row, label, suggestion, value, then the file's own columns.

    Labels and columns are as they are written in the file; a column that has one of our names is marked as the file's.
    """
    table, valuation = findings.table, findings.valuation
    ours = valuation.to_dataframe()
    ours["row"] = table.rows
    ours["suggested"] = pd.Series(
        _names(findings, findings.suggestions.labels), index=findings.suspects.numpy(), dtype=object
    )
    theirs = pd.DataFrame(index=ours.index)
    if table.is_spreadsheet:
        theirs = table.texts().reset_index(drop=True)
        ours["label"] = theirs.pop(table.label)
    ours = ours[["rank", "row", "label", "suggested", "value", "stderr"]]
    theirs = theirs.rename(columns={name: f"{name} ({table.path.name})" for name in ours.columns})
    return pd.concat([ours, theirs], axis=1).sort_values("rank")


def show(findings: Findings, console: Console) -> None:
    """Print what was done, what was found, and the most suspicious rows."""
    notes = rich.table.Table.grid(padding=(0, 1))
    for note in findings.notes:
        notes.add_row("•", Text(note))
    console.print(Text(str(findings.table.path), style="bold"), soft_wrap=True)
    console.print(notes)
    console.print()
    for sentence in findings.summary:
        console.print(Text(sentence))
    console.print()
    suspects = rich.table.Table(
        title="Most suspicious rows", title_justify="left", caption=_about_rows(findings.table), caption_justify="left",
        box=SIMPLE_HEAD, pad_edge=False,
    )  # fmt: skip
    for heading in HEADINGS:
        suspects.add_column(heading, justify="left" if heading in {"label", "neighbours say"} else "right")
    for cells in _suspect_cells(findings):
        suspects.add_row(*map(Text, cells))
    console.print(suspects)


def make_report(findings: Findings) -> Report:
    """Return the report: summary, suspects, a picture of the values, classes, notes."""
    table, valuation = findings.table, findings.valuation
    report = Report(
        f"Which rows of {table.path.name} help, which harm", "The lower its value, the more suspicious a row."
    )
    for sentence in findings.summary:
        report.text(sentence)
    report.section("Most suspicious rows").table(HEADINGS, _suspect_cells(findings), _about_rows(table))
    report.section("Values").figure(valuation.plot(), "How many rows have which value, and all rows in order of value.")
    report.section("Classes").table(
        ["class", "rows", "mean value", "share negative"],
        _class_cells(valuation),
        "A class of low values is hard to tell from others, or has many wrong labels.",
    )
    report.section("What was done to the table")
    for note in findings.notes:
        report.text(note)
    return report


def write(findings: Findings, folder: Path, *, report: bool) -> list[Path]:
    """Write ranking, values and, if wanted, the report: all of them or none."""
    paths = [folder / name for name in _file_names(report=report)]
    made = not folder.exists()
    try:
        with ExitStack() as stack:
            temporary = {path.name: stack.enter_context(written_whole(path)) for path in paths}
            rank_rows(findings).to_csv(temporary[RANKING], index=False)
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


def _about_rows(table: Table) -> str:
    rows = "row: as a spreadsheet counts, the header is row 1" if table.is_spreadsheet else "row: counted from 0"
    return f"{rows}; votes: how many of the nearest neighbours have the label they say"


def _names(findings: Findings, labels: Int64[Tensor, " points"]) -> list[str]:
    return [findings.table.classes.names[label] for label in labels.tolist()]


def _suspect_cells(findings: Findings) -> list[list[str]]:
    """Cells of the table of suspects, under `HEADINGS`."""
    valuation, suspects = findings.valuation, findings.suspects[: findings.top]
    values, stderr = valuation.values[suspects], valuation.stderr[suspects]
    decimals, asked = decimals_for(values), min(valuation.provenance["k"], len(valuation) - 1)
    columns: list[Sequence[str]] = [
        [str(rank) for rank in range(1, len(suspects) + 1)],
        [str(row) for row in findings.table.rows[suspects.numpy()]],
        list(map(shortened, _names(findings, valuation.labels[suspects]))),
        list(map(shortened, _names(findings, findings.suggestions.labels[: findings.top]))),
        [f"{votes} of {asked}" for votes in findings.suggestions.votes[: findings.top].tolist()],
        [f"{value:.{decimals}f} ± {error:.{decimals}f}" for value, error in zip(values, stderr, strict=True)],
    ]
    return [list(cells) for cells in zip(*columns, strict=True)]


def _class_cells(valuation: Valuation) -> list[list[str]]:
    """Cells of the table of classes: name, points, mean value, share of negative values."""
    labels, values = valuation.labels.numpy(), valuation.values.numpy()
    size, total, negative = (np.bincount(labels, weights=each) for each in (None, values, values < 0))
    decimals = decimals_for(valuation.values)
    rows = zip(valuation.classes, size, total / size, negative / size, strict=True)
    return [[shortened(name), f"{n:,}", f"{mean:.{decimals}f}", f"{share:.0%}"] for name, n, mean, share in rows]
