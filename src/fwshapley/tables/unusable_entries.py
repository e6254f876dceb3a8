"""Entries of a table that a model or an explainer has no rule for: each affects its row alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool
from numpy import ndarray

from fwshapley._internal.checks import shorten

ADVICE = "correct these entries, or leave their rows out: usable(x) tells which rows can be explained"


class UnusableEntry(NamedTuple):
    """An entry of a table without a meaning, such as a category that the training data does not have.

    Attributes:
        row: its position, from 0.
        column: name of its column.
        entry: what is there.
        problem: what is wrong with it.
    """

    row: int
    column: str
    entry: Any
    problem: str

    @property
    def about(self) -> str:
        """The entry in words, without its row."""
        return f"{shorten(self.entry)} in column {self.column!r} {self.problem}"


def mark_usable(entries: Iterable[UnusableEntry], count: int) -> Bool[ndarray, " rows"]:
    """Return which rows of a table are without unusable entries.

    Args:
        entries: the unusable ones.
        count: number of rows.
    """
    usable = np.ones(count, dtype=bool)
    usable[[entry.row for entry in entries]] = False
    return usable


def refuse(entries: Sequence[UnusableEntry], labels: Any) -> None:  # noqa: ANN401 - an index or a range
    """Raise a ValueError that names the first unusable entry and its row, if there is any.

    Args:
        entries: the unusable ones.
        labels: of the rows: the index of a DataFrame, or numbers from 0.
    """
    if entries:
        first = entries[0]
        raise ValueError(
            f"{shorten(first.entry)} in column {first.column!r}, row {labels[first.row]}, {first.problem} "
            f"({len(entries):,} in all); {ADVICE}"
        )
