"""Tables as coordinates to measure distances with, so that every column counts the same.

Numbers get mean 0 and standard deviation 1: two rows are then sqrt(2) apart in a column, in root mean square. Each
category becomes a coordinate that is 0 or 1: two different categories are sqrt(2) apart, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fwshapley._internal.wording import counted, listed
from fwshapley.tables.columns import (
    Column,
    Kind,
    infer_dtype,
    is_datetime,
    is_number,
    parse_dates,
    parse_numbers,
    repeated,
)

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

    def to_numbers(self, entries: pd.Series) -> NDArray[np.float64]:
        """Return numbers, days, or codes of categories, NaN where an entry is missing or unknown; nothing is scaled."""
        return self.column.to_numbers(_readable(infer_dtype(entries), self.kind))

    def write_coordinates(self, entries: pd.Series, x: NDArray[np.float64]) -> Flaws:
        """Write coordinates of entries into x (rows, width); unknown categories are all 0, equally far from others."""
        entries = infer_dtype(entries)
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


@dataclass(frozen=True)
class TableScaling:
    """How the columns of a table become coordinates.

    Attributes:
        columns: those that are used.
        left_out: the others, and why.
        standardize: whether numbers get mean 0 and standard deviation 1.
    """

    columns: tuple[ScaledColumn, ...]
    left_out: tuple[LeftOut, ...]
    standardize: bool

    @property
    def notes(self) -> list[str]:
        """How the columns are used, in short sentences."""
        return _about_columns(self.columns, standardize=self.standardize) + _about_left_out(self.left_out)

    def coordinates(
        self, frame: pd.DataFrame, where: str, *, scaled_by: str = ""
    ) -> tuple[NDArray[np.float64], list[str]]:
        """Return coordinates of rows, and notes on what was missing or odd.

        Args:
            frame: a table with these columns; its others are ignored.
            where: what the table is, for errors.
            scaled_by: what the scaling was computed from, if it is another table.
        """
        names = list(map(str, frame.columns))
        x = np.empty((len(frame), sum(column.width for column in self.columns)))
        start = 0
        flaws = []
        for column in self.columns:
            if column.name not in names:
                raise ValueError(f"{where} must have the columns of {scaled_by}, but lacks {column.name!r}")
            entries = frame.iloc[:, names.index(column.name)]
            try:
                flaws.append(column.write_coordinates(entries, x[:, start : start + column.width]))
            except ValueError as error:
                raise ValueError(f"{where}: {error}, unlike {scaled_by}") from error
            start += column.width
        return x, _about_flaws(self.columns, flaws, scaled_by)


def scale_table(frame: pd.DataFrame, where: str, *, standardize: bool = True) -> TableScaling:
    """Decide how the columns of a table become coordinates, or raise an error if none can be used.

    Args:
        frame: the table, without labels.
        where: what it is, for errors.
        standardize: give numbers mean 0 and standard deviation 1; otherwise they stay as they are.
    """
    twice = repeated(map(str, frame.columns))
    if twice:
        raise ValueError(f"{where} has several columns {twice[0]!r}; rename all but one of them")
    described = [scale_column(frame[name], standardize=standardize) for name in frame]
    columns = tuple(column for column in described if isinstance(column, ScaledColumn))
    left_out = tuple(column for column in described if isinstance(column, LeftOut))
    if not columns:
        reasons = "; ".join(f"{column.name}: {column.reason}" for column in left_out[:3]) or "it has no other column"
        raise ValueError(f"{where} has no column to compare its rows by, other than the label ({reasons})")
    return TableScaling(columns, left_out, standardize)


def scale_column(entries: pd.Series, *, standardize: bool = True) -> ScaledColumn | LeftOut:
    """Decide what a column contains and how it becomes coordinates, or why it is left out.

    Args:
        entries: the column as pandas read it from a file, or of any DataFrame.
        standardize: give numbers mean 0 and standard deviation 1; otherwise they stay as they are.
    """
    entries = infer_dtype(entries)
    name = str(entries.name)
    if pd.api.types.is_complex_dtype(entries):
        raise ValueError(f"column {name} contains complex numbers: pass real and imaginary parts as two columns")
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
    """Whether entries can be read as numbers, dates or categories; flags are categories, as are pandas' own."""
    if kind == "category" or is_number(entries):
        return kind in {"category", "number"}
    if isinstance(entries.dtype, pd.CategoricalDtype):
        return False
    if is_datetime(entries.dtype):
        return kind == "date"
    if kind == "number":
        flags = pd.api.types.infer_dtype(entries, skipna=True) == "boolean"
        count = int(np.isfinite(parse_numbers(entries)).sum())
        return not flags and count >= NUMBER_SHARE * max(int(entries.count()), 1)
    texts = _to_text(entries).dropna()
    return all(bool(parse_dates(some, strict=False).notna().all()) for some in (texts.iloc[:SAMPLE], texts))


def _readable(entries: pd.Series, kind: Kind) -> pd.Series:
    """Return entries as `Column.to_numbers` reads those of a kind: numbers and dates unchanged, all others as text."""
    return entries if kind == "number" or is_datetime(entries.dtype) else _to_text(entries)


def _to_text(entries: pd.Series) -> pd.Series:
    """Return entries as text without blanks at the ends, missing ones as missing."""
    texts: pd.Series[Any] = entries.astype(object).astype(str).str.strip()
    return texts.where(entries.notna())


def _about_flaws(columns: Sequence[ScaledColumn], flaws: Sequence[Flaws], scaled_by: str) -> list[str]:
    """Notes on missing and odd entries; a missing category is a category itself, so not noted."""
    pairs = list(zip(columns, flaws, strict=True))
    missing = [(column.name, flaw.missing) for column, flaw in pairs if column.kind != "category" and flaw.missing]
    odd = [(column.kind, f"{column.name} ({listed(flaw.odd, most=3)})") for column, flaw in pairs if flaw.odd]
    texts = [name for kind, name in odd if kind != "category"]
    unknown = [name for kind, name in odd if kind == "category"]
    notes = []
    if texts:
        notes.append(f"texts among numbers count as missing: {listed(texts)}")
    if missing:
        total = counted(sum(number for _, number in missing), "missing number")
        median = "the median of the column" + f" in {scaled_by}" * bool(scaled_by)
        notes.append(f"{total} replaced by {median}: {listed(f'{name} ({number:,})' for name, number in missing)}")
    if unknown:
        notes.append(f"categories that {scaled_by} lacks are equally far from all that it has: {listed(unknown)}")
    return notes


def _about_columns(columns: Sequence[ScaledColumn], *, standardize: bool) -> list[str]:
    """Notes on how the columns that are used became coordinates."""
    how = "standardized (mean 0, standard deviation 1)" if standardize else "used as they are"
    notes = []
    for kind, about in (("number", f"of numbers, {how}"), ("date", f"of dates, as days, {how}")):
        names = [column.name for column in columns if column.kind == kind]
        if names:
            notes.append(f"{counted(len(names), 'column')} {about}: {listed(names)}")
    categories = [f"{column.name} ({column.width})" for column in columns if column.kind == "category"]
    if categories:
        count = counted(len(categories), "column")
        notes.append(f"{count} of categories, one 0/1 coordinate per category: {listed(categories)}")
    return notes


def _about_left_out(left_out: Iterable[LeftOut]) -> list[str]:
    """Notes on columns that are not used, together where the reason is the same."""
    by_reason: dict[str, list[str]] = {}
    for column in left_out:
        by_reason.setdefault(column.reason, []).append(column.name)
    return [f"left out: {listed(names)} ({reason})" for reason, names in by_reason.items()]
