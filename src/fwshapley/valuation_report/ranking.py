"""All points from the most suspicious on, and the cells of tables that show some of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fwshapley.tables import Table
from fwshapley.tables.wording import decimals_for, printable, shortened
from fwshapley.valuation import Valuation
from fwshapley.valuation_report.findings import Findings


def rank_points(findings: Findings) -> pd.DataFrame:
    """Return all points from the most suspicious on: rank, key, label, suggestion, value, then the file's own columns.

    Labels and columns are as they are written in the file; a column that has one of our names is marked as the file's.
    """
    points, suggested = findings.points, findings.class_names(findings.suggestions.labels)
    ours = findings.valuation.to_dataframe()
    ours[points.key] = points.keys
    ours["suggested"] = pd.Series(suggested, index=findings.suspects.numpy(), dtype=object)
    theirs = pd.DataFrame(index=ours.index)
    if isinstance(points, Table) and points.is_spreadsheet:
        theirs = points.texts().reset_index(drop=True)
        ours["label"] = theirs.pop(points.label)
    ours = ours[["rank", points.key, "label", "suggested", "value", "stderr"]]
    theirs = theirs.rename(columns={name: f"{name} ({points.path.name})" for name in ours.columns})
    return pd.concat([ours, theirs], axis=1).sort_values("rank")


def headings(findings: Findings) -> list[str]:
    """Headings of the table of suspects."""
    return ["rank", findings.points.key, "label", "neighbours say", "votes", "value ± standard error"]


def about_headings(findings: Findings) -> str:
    """Return what is not plain about them."""
    return f"{findings.points.about_keys}; votes: how many of the nearest neighbours have the label they say"


def suspect_cells(findings: Findings) -> list[list[str]]:
    """Cells of the table of suspects, under its headings."""
    valuation, suspects, keys = findings.valuation, findings.suspects[: findings.top], findings.points.keys
    values, stderr = valuation.values[suspects], valuation.stderr[suspects]
    decimals = decimals_for(values)
    columns: list[Sequence[str]] = [
        [str(rank) for rank in range(1, len(suspects) + 1)],
        [printable(keys[point]) for point in suspects.tolist()],
        list(map(shortened, findings.class_names(valuation.labels[suspects]))),
        list(map(shortened, findings.class_names(findings.suggestions.labels[: findings.top]))),
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
