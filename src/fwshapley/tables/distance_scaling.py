"""Tables as coordinates to measure distances with, so that every column counts the same.

Numbers get mean 0 and standard deviation 1: two rows are then sqrt(2) apart in a column, in root mean square. Each
category becomes a coordinate that is 0 or 1: two different categories are sqrt(2) apart, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fwshapley._internal.wording import listed
from fwshapley.tables.columns import Column, Kind, is_number, parse_dates, parse_numbers

MAX_CATEGORIES = 50
DIFFERENT_SHARE = 0.9
"""A column is left out if this share of its rows have a category of their own."""

NUMBER_SHARE = 0.9
"""A column of texts contains numbers if this share of them are numbers; the others count as missing."""

MIN_ROWS_TO_COUNT = 20
"""From this many rows on, a column of whole numbers in order is taken for row numbers."""

ROW_NUMBER_NAME = re.compile(r"(unnamed: \d+|index|row|nr|(.*[ _-])?id)", re.IGNORECASE)
"""What people and pandas call a column of row numbers."""

SAMPLE = 100
"""Entries that must be dates before all others are tried."""

DATE_DTYPE = "datetime64[us, UTC]"


class Flaws(NamedTuple):
    """What was wrong in a column.

    Attributes:
        missing: number of missing entries.
        odd: the different entries without a meaning: texts among numbers, or unknown categories.
    """

    missing: int
    odd: list[str]


@dataclass(frozen=True)
class LeftOut:
    """A column that is not used, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class ScaledColumn:
    """A column and how its numbers become coordinates.

    Attributes:
        column: its description; missing entries of a column of categories are a category of their own.
        median: replaces missing numbers.
        mean: subtracted from numbers.
        deviation: divides them, after that.
    """

    column: Column
    median: float = 0.0
    mean: float = 0.0
    deviation: float = 1.0

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.column.name

    @property
    def kind(self) -> Kind:
        """What the column contains."""
        return self.column.kind

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return self.column.n_codes or 1

    def write_coordinates(self, entries: pd.Series, x: NDArray[np.float64]) -> Flaws:
        """Write coordinates of entries into x (rows, width); unknown categories are all 0, equally far from others."""
        if not _contains(entries, self.kind):
            strange = listed(_to_text(entries).dropna().unique(), most=3)
            raise ValueError(f"column {self.name} must contain {self.kind}s, got {strange}")
        numbers, missing = self.column.to_numbers(_readable(entries, self.kind)), entries.isna().to_numpy()
        odd = [] if is_number(entries) else _to_text(entries)[np.isnan(numbers) & ~missing].unique().tolist()
        if self.kind != "category":
            absent = np.isnan(numbers)
            x[:, 0] = (np.where(absent, self.median, numbers) - self.mean) / self.deviation
            return Flaws(int(absent.sum()), odd)
        if self.column.has_missing:
            numbers = np.where(missing, len(self.column.categories), numbers)
        elif missing.any():
            odd.append("missing entries")
        x[:] = 0
        rows = np.flatnonzero(~np.isnan(numbers))
        x[rows, numbers[rows].astype(int)] = 1
        return Flaws(int(missing.sum()), odd)


def scale_column(entries: pd.Series, *, standardize: bool = True) -> ScaledColumn | LeftOut:
    """Decide what a column contains and how it becomes coordinates, or why it is left out.

    Args:
        entries: the column as pandas read it from a file.
        standardize: give numbers mean 0 and standard deviation 1; otherwise they stay as they are.
    """
    name = str(entries.name)
    if entries.isna().all():
        return LeftOut(name, "it is empty")
    kind = next(kind for kind in get_args(Kind) if _contains(entries, kind))
    if kind == "category":
        return _scale_categories(name, _to_text(entries))
    column = Column(name, kind, DATE_DTYPE if kind == "date" else "float64")
    return _scale_numbers(column, column.to_numbers(_readable(entries, kind)), standardize=standardize)


def _scale_numbers(column: Column, numbers: NDArray[np.float64], *, standardize: bool) -> ScaledColumn | LeftOut:
    present = numbers[~np.isnan(numbers)]
    if not len(present):
        return LeftOut(column.name, "it contains no finite number")
    if standardize and present.min() == present.max():
        return LeftOut(column.name, "it is the same in every row")
    if column.kind == "number" and len(present) == len(numbers) and _are_row_numbers(column.name, numbers):
        return LeftOut(column.name, "it numbers the rows")
    median = float(np.median(present))
    if not standardize:
        return ScaledColumn(column, median)
    filled = np.where(np.isnan(numbers), median, numbers)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(filled.mean()), float(filled.std())
    if not np.isfinite(deviation) or deviation == 0:
        reason = f"its numbers, {present.min():g} to {present.max():g}, are too large or too close to standardize"
        return LeftOut(column.name, reason)
    return ScaledColumn(column, median, mean, deviation)


def _scale_categories(name: str, texts: pd.Series) -> ScaledColumn | LeftOut:
    present = texts.dropna()
    categories, has_missing = sorted(present.unique()), len(present) < len(texts)
    if len(categories) + has_missing == 1:
        return LeftOut(name, "it is the same in every row")
    if len(categories) >= DIFFERENT_SHARE * len(present):
        return LeftOut(name, "nearly every row has a text of its own, as names and remarks do")
    if len(categories) > MAX_CATEGORIES:
        return LeftOut(name, f"it has {len(categories):,} different texts, more than {MAX_CATEGORIES} categories")
    return ScaledColumn(Column(name, "category", "str", tuple(categories), has_missing))


def _are_row_numbers(name: str, numbers: NDArray[np.float64]) -> bool:
    """Whether numbers count the rows: in order, shuffled without a gap, or all different under a telling name."""
    if len(numbers) < MIN_ROWS_TO_COUNT or (numbers != np.round(numbers)).any():
        return False
    steps = np.diff(numbers)
    in_order = bool((steps > 0).all() or (steps < 0).all())
    different = bool((np.diff(np.sort(numbers)) > 0).all())
    has_name = ROW_NUMBER_NAME.fullmatch(name) is not None
    return in_order or (different and (has_name or bool(np.ptp(numbers) == len(numbers) - 1)))


def _contains(entries: pd.Series, kind: Kind) -> bool:
    """Whether entries can be read as numbers, dates or categories; flags are categories."""
    if kind == "category" or is_number(entries):
        return kind in {"category", "number"}
    if kind == "number":
        flags = pd.api.types.infer_dtype(entries, skipna=True) == "boolean"
        count = int(np.isfinite(parse_numbers(entries)).sum())
        return not flags and count >= NUMBER_SHARE * max(int(entries.count()), 1)
    texts = _to_text(entries).dropna()
    return all(bool(parse_dates(some, strict=False).notna().all()) for some in (texts.iloc[:SAMPLE], texts))


def _readable(entries: pd.Series, kind: Kind) -> pd.Series:
    """Return entries as `Column.to_numbers` reads those of a kind: numbers as they are, all others as text."""
    return entries if kind == "number" else _to_text(entries)


def _to_text(entries: pd.Series) -> pd.Series:
    """Return entries as text without blanks at the ends, missing ones as missing."""
    texts: pd.Series[Any] = entries.astype(str).str.strip()
    return texts.where(entries.notna())
