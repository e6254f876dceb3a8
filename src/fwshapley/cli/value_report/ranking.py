"""All points from the most suspicious on, and the cells of tables that show some of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fwshapley._internal.wording import decimals_for, printable, shortened
from fwshapley.cli.labeled_table import Table
from fwshapley.cli.value_report.findings import Findings
from fwshapley.valuation import Valuation

ANOTHER, AGREE, NOT_ASKED = "another label", "neighbors agree", "not asked"
"""What neighbors say of a label, in a ranking."""

KEPT = "(they agree)"
"""Shown instead of a suggestion where neighbors have the label that a point has."""

COLUMNS = ("label", "verdict", "suggested", "votes", "value", "stderr")
"""Columns of ours in a ranking, after the rank and what a point is called."""


def rank_points(findings: Findings) -> pd.DataFrame:
    """Return all points from the most suspicious on: rank, key and our columns, then the file's own columns.

    The verdict says of each point what its k nearest neighbors say of its label: "another label", which is then
    suggested; "neighbors agree", where most have the label that it has; "not asked", where it is not suspicious. Votes
    are the neighbors that have the label suggested, or agree with the one there is.

    Labels and columns are as they are written in the file; a column that has one of our names is marked as the file's.
    """
    points, suspects = findings.points, findings.suspects.numpy()
    ours = findings.valuation.to_dataframe()
    ours[points.key] = points.keys
    verdicts = [AGREE if name is None else ANOTHER for name in findings.suggested]
    ours["verdict"] = pd.Series(verdicts, index=suspects, dtype=object).reindex(ours.index, fill_value=NOT_ASKED)
    ours["suggested"] = pd.Series(findings.suggested, index=suspects, dtype=object)
    votes = [f"{votes} of {findings.asked}" for votes in findings.suggestions.votes.tolist()]
    ours["votes"] = pd.Series(votes, index=suspects, dtype=object)
    theirs = pd.DataFrame(index=ours.index)
    if isinstance(points, Table) and points.is_spreadsheet:
        theirs = points.texts().reset_index(drop=True)
        ours["label"] = theirs.pop(points.label)
    ours = ours[["rank", points.key, *COLUMNS]]
    theirs = theirs.rename(columns={name: f"{name} ({points.path.name})" for name in ours.columns})
    return pd.concat([ours, theirs], axis=1).sort_values("rank")


def headings(findings: Findings) -> list[str]:
    """Headings of the table of suspects."""
    return ["rank", findings.points.key, "label", "suggested", "votes", "value ± standard error"]


def about_headings(findings: Findings) -> str:
    """Return what is not plain about them."""
    return (
        f"{findings.points.about_keys}; suggested: another label that most of the {findings.asked} nearest neighbors "
        f"have, or {KEPT!r} where most have the label there is; votes: how many those are"
    )


def suspect_cells(findings: Findings) -> list[list[str]]:
    """Cells of the table of suspects, under its headings."""
    valuation, suspects, keys = findings.valuation, findings.suspects[: findings.top], findings.points.keys
    values, stderr = valuation.values[suspects], valuation.stderr[suspects]
    decimals = decimals_for(values)
    columns: list[Sequence[str]] = [
        [str(rank) for rank in range(1, len(suspects) + 1)],
        [printable(keys[point]) for point in suspects.tolist()],
        list(map(shortened, findings.class_names(valuation.labels[suspects]))),
        [KEPT if name is None else shortened(name) for name in findings.suggested[: findings.top]],
        [f"{votes} of {findings.asked}" for votes in findings.suggestions.votes[: findings.top].tolist()],
        [f"{value:.{decimals}f} ± {error:.{decimals}f}" for value, error in zip(values, stderr, strict=True)],
    ]
    return [list(cells) for cells in zip(*columns, strict=True)]


def class_cells(valuation: Valuation) -> list[list[str]]:
    """Cells of the table of classes: name, points, mean value, share of negative values."""
    labels, values = valuation.labels.numpy(), valuation.values.numpy()
    size, total, negative = (np.bincount(labels, weights=each) for each in (None, values, values < 0))
    decimals = decimals_for(valuation.values)
    rows = zip(valuation.classes, size, total / size, negative / size, strict=True)
    return [[shortened(name), f"{n:,}", f"{mean:.{decimals}f}", f"{share:.0%}"] for name, n, mean, share in rows]
