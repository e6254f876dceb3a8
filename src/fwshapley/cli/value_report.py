"""Output of `fwshapley value`: suspicious points on the terminal; ranking, values and report in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
from rich.text import Text

from fwshapley._internal.files import written_whole
from fwshapley._internal.html import Picture
from fwshapley.cli.console import console, new_table, print_notes, print_table
from fwshapley.cli.pictures.files import make_thumbnail
from fwshapley.cli.pictures.labeled_folder import Pictures
from fwshapley.tables.labeled_table import Table
from fwshapley.valuation.report import summarize, write_valuation_report
from fwshapley.valuation.result import Valuation
from fwshapley.valuation.suspects import Suspects, find_suspects

Labeled = Table | Pictures
"""Data to value, with features x, labels or targets y, classes, and a name for its points."""

RANKING, VALUES, REPORT = "ranking.csv", "valuation.safetensors", "report.html"

MAX_COMPARED = 1000
"""Most points of negative value that are compared with their neighbors, each at the cost of its distances to all."""

ANOTHER, AGREE, NOT_COMPARED = "another label", "neighbors agree", "not compared"
"""Verdicts of a ranking: whether nearest neighbors have the label of a point."""

COLUMNS = ("label", "verdict", "suggested", "votes", "value", "stderr")
TARGET_COLUMNS = ("target", "neighbors_mean", "value", "stderr")
"""Columns of a ranking after the rank and the name of the point, of labels and of targets; those of the file follow."""


@dataclass(frozen=True, eq=False)
class ValuedPoints:
    """Points with labels or targets, and their values.

    Attributes:
        points: what was valued.
        reference: the reference points; None if the points were valued by each other.
        valuation: values of the points.
        suspects: the points of lowest value: those that are shown, and further ones of negative value.
        n_shown: how many suspects to show.
    """

    points: Labeled
    reference: Labeled | None
    valuation: Valuation
    suspects: Suspects
    n_shown: int

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the points."""
        return self.points.notes + (() if self.reference is None else self.reference.notes)


def inspect(points: Labeled, reference: Labeled | None, valuation: Valuation, n_shown: int) -> ValuedPoints:
    """Compare the points of lowest value with their neighbors."""
    negative = int((valuation.values < 0).sum())
    count = max(n_shown, min(negative, MAX_COMPARED))
    suspects = find_suspects(valuation, count, x=points.x, names=points.keys)
    return ValuedPoints(points, reference, valuation, suspects, n_shown)


def rank_points(valued: ValuedPoints) -> pd.DataFrame:
    """Return all points in increasing order of value: rank, name and our columns, then the file's own columns.

    Beside a target there is the mean target of the nearest neighbors, if the point is suspicious.

    The verdict compares the label of a point with those of its nearest neighbors: "another label", which is then
    suggested; "neighbors agree", if most have the same label; "not compared", if the point is not suspicious. Votes
    are the neighbors that have the suggested label, or agree with the label. Labels and columns are as they are
    written in the file; a column of the file that has one of our names is marked with the name of the file.
    """
    points, suspects = valued.points, valued.suspects
    index = suspects.points.numpy()
    suggested = suspects.suggested
    ours = valued.valuation.to_dataframe()
    ours[points.key] = points.keys
    if valued.valuation.has_targets:
        columns: tuple[str, ...] = TARGET_COLUMNS
        ours["neighbors_mean"] = pd.Series(suggested, index=index, dtype=object)
    else:
        columns = COLUMNS
        verdicts = [AGREE if label is None else ANOTHER for label in suggested]
        ours["verdict"] = pd.Series(verdicts, index=index, dtype=object).reindex(ours.index, fill_value=NOT_COMPARED)
        ours["suggested"] = pd.Series(suggested, index=index, dtype=object)
        ours["votes"] = pd.Series(suspects.votes, index=index, dtype=object)
    others = pd.DataFrame(index=ours.index)
    if isinstance(points, Table) and points.is_spreadsheet:
        others = points.texts().reset_index(drop=True)
        ours[columns[0]] = others.pop(points.label)
    ours = ours[["rank", points.key, *columns]]
    others = others.rename(columns={name: f"{name} ({points.path.name})" for name in ours.columns})
    return pd.concat([ours, others], axis=1).sort_values("rank")


def result_names(*, report: bool) -> list[str]:
    """Return the names of the files that `write_results` writes."""
    return [RANKING, REPORT, VALUES] if report else [RANKING, VALUES]


def write_results(valued: ValuedPoints, folder: Path, *, report: bool) -> list[Path]:
    """Write the ranking, the values and perhaps the report: all of them or none."""
    paths = [folder / name for name in result_names(report=report)]
    is_new = not folder.exists()
    try:
        with ExitStack() as stack:
            temporary = {path.name: stack.enter_context(written_whole(path)) for path in paths}
            rank_points(valued).to_csv(temporary[RANKING], index=False)
            valued.valuation.save(temporary[VALUES])
            if report:
                _write_report(valued, temporary[REPORT])
    finally:
        if is_new and folder.exists() and not any(folder.iterdir()):
            folder.rmdir()
    return paths


def _write_report(valued: ValuedPoints, path: Path) -> None:
    points = valued.points
    images = partial(_thumbnail, points.files) if isinstance(points, Pictures) else None
    write_valuation_report(
        valued.valuation,
        path,
        x=points.x,
        names=list(points.keys),
        images=images,
        n_shown=valued.n_shown,
        title=f"Suspicious {'targets' if valued.valuation.has_targets else 'labels'} in {points.path.name}",
        noun=points.noun,
        notes=[f"{points.about_keys[:1].upper()}{points.about_keys[1:]}.", *valued.notes],
    )


def _thumbnail(files: Sequence[Path], point: int) -> Picture:
    return make_thumbnail(files[point])


def show(valued: ValuedPoints) -> None:
    """Print what was done, what was found, and the suspects; names are never broken over lines."""
    points, suspects = valued.points, valued.suspects
    console.print(Text(str(points.path), style="bold"), soft_wrap=True)
    print_notes(valued.notes)
    console.print()
    reference = None
    if valued.reference is not None:
        reference = f"the {len(valued.reference):,} {points.noun}s of {valued.reference.path.name}"
    for sentence in summarize(valued.valuation, points.noun, reference):
        console.print(Text(sentence), soft_wrap=True)
    console.print()
    title, headings = f"Most suspicious {points.noun}s", suspects.headings(points.key)
    caption = f"{points.about_keys}; {suspects.explain_headings()}"
    table = new_table(title, headings, ["label", "suggested", "file"], caption)
    for row in suspects.cells(valued.n_shown):
        table.add_row(*map(Text, row))
    print_table(table)
