"""Columns of features: which are numbers, dates or categories, and how each becomes coordinates to measure by.

Numbers are brought to mean 0 and deviation 1, so that two rows are typically (in root mean square) the square root of
2 apart in a column. Categories become one coordinate each, 0 or 1: two different ones are the square root of 2 apart,
too, so that a column counts the same whatever it holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fwshapley._internal.wording import listed

MOST_CATEGORIES = 50
NEARLY_ALL = 0.9
"""Share of rows of a category of their own from which on a column names its rows."""

MOSTLY = 0.9
"""Share of texts that are numbers from which on a column is one of numbers, and the other texts count as missing."""

FEWEST_TO_COUNT = 20
"""Rows from which on whole numbers in order are taken for a count of the rows."""

ROW_NAMES = re.compile(r"(unnamed: \d+|index|row|nr|(.*[ _-])?id)", re.IGNORECASE)
"""What people and pandas call a column that numbers the rows."""

FEW = 100
EPOCH, DAY = pd.Timestamp(0, tz="UTC"), pd.Timedelta(days=1)


class Flaws(NamedTuple):
    """What was not as it should be in a column.

    Attributes:
        missing: rows without an entry.
        odd: entries that mean nothing here, each once: texts among numbers, or categories never seen.
    """

    missing: int
    odd: list[str]


@dataclass(frozen=True)
class LeftOut:
    """A column that is not used, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Numbers:
    """A column of numbers, or of dates as days, on a common scale.

    Attributes:
        name: of the column.
        dates: whether it holds dates.
        median: stands for missing numbers.
        center: mean of the column, or 0 where numbers stay as they are.
        spread: its standard deviation, or 1.
    """

    name: str
    dates: bool
    median: float
    center: float
    spread: float

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return 1

    def encode(self, column: pd.Series, x: NDArray[np.float64]) -> Flaws:
        """Write numbers into x, on the scale of the table that this was made for."""
        numbers = _read_dates(column) if self.dates else _read_numbers(column)
        if numbers is None:
            kind = "dates" if self.dates else "numbers"
            strange = listed(_texts(column).dropna().unique(), most=3)
            raise ValueError(f"column {self.name} should hold {kind}, but holds {strange}")
        missing = np.isnan(numbers)
        x[:, 0] = (np.where(missing, self.median, numbers) - self.center) / self.spread
        odd = [] if _is_numeric(column) else _texts(column[missing]).dropna().unique().tolist()
        return Flaws(int(missing.sum()), odd)


@dataclass(frozen=True)
class Categories:
    """A column of categories, a coordinate for each; a missing entry is one of them if the table has any."""

    name: str
    categories: tuple[str, ...]
    missing: bool

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return len(self.categories) + self.missing

    def encode(self, column: pd.Series, x: NDArray[np.float64]) -> Flaws:
        """Write 1 into the coordinate of each entry; entries never seen have none, so are equally far from all."""
        texts = _texts(column)
        codes = pd.Index(self.categories).get_indexer(pd.Index(texts))
        absent = texts.isna().to_numpy()
        odd = texts[(codes < 0) & ~absent].unique().tolist()
        if self.missing:
            codes = np.where(absent, len(self.categories), codes)
        elif absent.any():
            odd.append("missing entries")
        x[:] = 0
        known = np.flatnonzero(codes >= 0)
        x[known, codes[known]] = 1
        return Flaws(int(absent.sum()), odd)


def understand(column: pd.Series, *, scale: bool = True) -> Numbers | Categories | LeftOut:
    """Decide what a column holds.

    Args:
        column: as pandas read it.
        scale: bring numbers to mean 0 and deviation 1; otherwise they stay as they are.
    """
    name = str(column.name)
    if column.isna().all():
        return LeftOut(name, "it is empty")
    numbers, dates = _read_numbers(column), False
    if numbers is None:
        numbers = _read_dates(column)
        dates = numbers is not None
    if numbers is None:
        return _understand_categories(name, _texts(column))
    return _understand_numbers(name, numbers, dates=dates, scale=scale)


def _understand_numbers(name: str, numbers: NDArray[np.float64], *, dates: bool, scale: bool) -> Numbers | LeftOut:
    there = numbers[~np.isnan(numbers)]
    if not len(there):
        return LeftOut(name, "it holds no finite number")
    if scale and there.min() == there.max():
        return LeftOut(name, "it is the same in every row")
    if not dates and len(there) == len(numbers) and _counts_rows(name, numbers):
        return LeftOut(name, "it numbers the rows")
    median = float(np.median(there))
    if not scale:
        return Numbers(name, dates, median, center=0.0, spread=1.0)
    filled = np.where(np.isnan(numbers), median, numbers)
    with np.errstate(over="ignore", invalid="ignore"):
        center, spread = float(filled.mean()), float(filled.std())
    if not np.isfinite(spread) or spread == 0:
        return LeftOut(name, f"its numbers, {there.min():g} to {there.max():g}, have no scale")
    return Numbers(name, dates, median, center, spread)


def _understand_categories(name: str, texts: pd.Series) -> Categories | LeftOut:
    there = texts.dropna()
    categories = sorted(there.unique())
    if len(categories) + (len(there) < len(texts)) == 1:
        return LeftOut(name, "it is the same in every row")
    if len(categories) >= NEARLY_ALL * len(there):
        return LeftOut(name, "nearly every row has a text of its own, as a name or a remark")
    if len(categories) > MOST_CATEGORIES:
        return LeftOut(name, f"its {len(categories):,} different texts are more than {MOST_CATEGORIES} categories")
    return Categories(name, tuple(categories), missing=len(there) < len(texts))


def _counts_rows(name: str, numbers: NDArray[np.float64]) -> bool:
    """Whether numbers are those of the rows: by their name and all different, in order, or shuffled without a gap."""
    if len(numbers) < FEWEST_TO_COUNT or (numbers != np.round(numbers)).any():
        return False
    steps = np.diff(numbers)
    in_order = bool((steps > 0).all() or (steps < 0).all())
    different = bool((np.diff(np.sort(numbers)) > 0).all())
    named = ROW_NAMES.fullmatch(name) is not None
    return in_order or (different and (named or bool(np.ptp(numbers) == len(numbers) - 1)))


def _read_numbers(column: pd.Series) -> NDArray[np.float64] | None:
    """Return numbers, NaN where there is none; None if the column is not one of numbers."""
    if pd.api.types.is_bool_dtype(column):
        return None
    if _is_numeric(column):
        numbers = column.to_numpy(np.float64, na_value=np.nan)
        return np.where(np.isfinite(numbers), numbers, np.nan)
    if pd.api.types.infer_dtype(column, skipna=True) == "boolean":
        return None
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    finite = np.isfinite(numbers)
    return np.where(finite, numbers, np.nan) if finite.sum() >= MOSTLY * max(column.count(), 1) else None


def _read_dates(column: pd.Series) -> NDArray[np.float64] | None:
    """Return days since 1970 for dates such as 2024-05-31; other forms leave day and month open, so are texts."""
    texts = _texts(column)
    there = texts.dropna()
    if _parse_dates(there.iloc[:FEW]).isna().any():
        return None
    days = _parse_dates(texts)
    return None if days.count() < len(there) else days.to_numpy(np.float64)


def _parse_dates(texts: pd.Series) -> pd.Series:
    moments = pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
    return (moments - EPOCH) / DAY


def _texts(column: pd.Series) -> pd.Series:
    """Return entries as text, missing ones as missing."""
    texts: pd.Series[Any] = column.astype(str).str.strip()
    return texts.where(column.notna())


def _is_numeric(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
