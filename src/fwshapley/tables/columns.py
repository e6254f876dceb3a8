"""The column schema: whether a column contains numbers, dates or categories, and how its entries become numbers.

A number stays as it is, a date becomes days since 1970, a category becomes its position among the column's categories.
`network_encoding` turns these numbers into inputs of networks, for explaining; `distance_scaling` turns them into
coordinates to measure distances with, for valuing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Kind = Literal["number", "date", "category"]

DATE_FORMAT = "%Y-%m-%d"
DATE_LENGTH = len("2024-05-31")
MICROSECONDS_PER_DAY = 86_400 * 10**6
NUMBERS = {"integer", "floating", "mixed-integer-float", "decimal"}
"""What pandas infers of objects that are real numbers."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        label: label of the column in its DataFrame; text, a number, or a tuple of these.
        kind: "number", "date" or "category".
        dtype: its dtype in pandas; dates of a text dtype are written as 2024-05-31.
        categories: the different entries of a column of categories, in the order of their codes.
        has_missing: whether entries may be missing.
        missing_is_none: whether missing entries of dtype object are None rather than NaN.
        categorical: dtype of the categories and whether they are ordered, for a pandas Categorical.
    """

    label: Any
    kind: Kind
    dtype: str
    categories: tuple[Any, ...] = ()
    has_missing: bool = False
    missing_is_none: bool = False
    categorical: tuple[str, bool] | None = None

    @property
    def name(self) -> str:
        """The label as text."""
        return str(self.label)

    @property
    def n_codes(self) -> int:
        """Number of codes of a column of categories, of which the last is that of a missing entry; 0 for others."""
        return len(self.categories) + self.has_missing if self.kind == "category" else 0

    @property
    def has_dates_as_text(self) -> bool:
        """Whether the column contains dates that are written as text."""
        return self.kind == "date" and not is_datetime(pd.api.types.pandas_dtype(self.dtype))

    def to_numbers(self, entries: pd.Series) -> NDArray[np.float64]:
        """Return numbers, days since 1970, or codes; NaN where an entry is missing or cannot be read as such."""
        if self.kind == "category":
            codes = pd.Index(self.categories).get_indexer(pd.Index(entries.astype(object)))
            return np.where(codes < 0, np.nan, codes)
        if self.kind == "date":
            return to_days(
                entries if is_datetime(entries.dtype) else parse_dates(entries, strict=self.has_dates_as_text)
            )
        return parse_numbers(entries)


def infer_dtype(entries: pd.Series) -> pd.Series:
    """Return a column of objects that are all numbers, or all dates, with a dtype of these; others unchanged."""
    if entries.dtype != object:
        return entries
    kind = pd.api.types.infer_dtype(entries, skipna=True)
    if kind in NUMBERS:
        return pd.to_numeric(entries)
    if kind == "date":
        return pd.to_datetime(entries)
    return entries.infer_objects() if kind == "datetime" else entries


def is_text(entries: pd.Series) -> bool:
    """Return whether all entries that are not missing are texts; categories of pandas are not."""
    return pd.api.types.infer_dtype(entries, skipna=True) == "string"


def is_number(entries: pd.Series) -> bool:
    """Return whether a column has a dtype of real numbers; flags are categories."""
    kinds = pd.api.types
    return kinds.is_numeric_dtype(entries) and not (kinds.is_bool_dtype(entries) or kinds.is_complex_dtype(entries))


def is_datetime(dtype: Any) -> bool:  # noqa: ANN401 - of numpy or pandas
    """Return whether a dtype is one of dates."""
    return pd.api.types.is_datetime64_any_dtype(dtype)


def parse_numbers(entries: pd.Series) -> NDArray[np.float64]:
    """Return entries as finite numbers, NaN where they are not."""
    numbers = pd.to_numeric(entries, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def parse_dates(entries: pd.Series, *, strict: bool) -> pd.Series:
    """Return texts as dates, NaT where they are not; ambiguous forms such as 01/02/2024 are not dates.

    Args:
        entries: texts.
        strict: only dates such as 2024-05-31, which can be written back; otherwise ISO 8601 with times, too.
    """
    if not strict:
        return pd.to_datetime(entries, format="ISO8601", utc=True, errors="coerce")
    whole = entries.map(lambda entry: isinstance(entry, str) and len(entry) == DATE_LENGTH)
    return pd.to_datetime(entries.where(whole), format=DATE_FORMAT, errors="coerce")


def to_days(dates: pd.Series) -> NDArray[np.float64]:
    """Return dates as days since 1970 in universal time, NaN where missing."""
    universal = dates if dates.dt.tz is None else dates.dt.tz_convert("UTC").dt.tz_localize(None)
    days = universal.to_numpy("datetime64[us]").astype(np.int64) / MICROSECONDS_PER_DAY
    return np.where(dates.isna(), np.nan, days)


def from_days(days: NDArray[np.float64], dtype: np.dtype[Any] | pd.DatetimeTZDtype) -> pd.Series:
    """Return days since 1970 as dates, rounded to the resolution of their dtype."""
    missing = np.isnan(days)
    moments = np.round(np.where(missing, 0, days) * MICROSECONDS_PER_DAY).astype(np.int64).astype("datetime64[us]")
    dates = pd.Series(moments).mask(missing)
    if isinstance(dtype, pd.DatetimeTZDtype):
        return dates.dt.round(dtype.unit).dt.tz_localize("UTC").astype(dtype)
    return dates.dt.round(np.datetime_data(dtype)[0]).astype(dtype)


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name, count in Counter(names).items() if count > 1]
