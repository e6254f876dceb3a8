"""The form in which a user holds a table, and the one in which networks take it: DataFrames and arrays, and tensors.

A tensor has a column for each of the table's: a number as it is, a date as days, a category as its code. For black
boxes it is in double precision, so that nothing is lost: they are asked about tensors turned back into tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.checks import Array
from fwshapley._internal.tensors import as_tensor, to_precision
from fwshapley.networks.mlp import ColumnKinds

MOST_CATEGORIES = 1000
FEW, MOSTLY = 20, 0.5
"""Different entries, at least and as a share of the rows, from which on a column of texts holds no categories."""

DATE = "%Y-%m-%d"
DAY = 86_400 * 10**6
"""Microseconds."""


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        label: as its DataFrame has it.
        dtype: of the column in its DataFrame.
        categories: in the order of their codes, where it holds some.
        gap: whether entries may be missing; a missing category has the last code, a missing number is NaN.
        none: whether entries that are missing among objects are None rather than NaN.
        inner: dtype of the categories, and whether they are in order, of a column that is a Categorical.
        written: whether it holds dates written as texts, such as 2024-05-31.
    """

    label: Any
    dtype: str
    categories: tuple[Any, ...] | None = None
    gap: bool = False
    none: bool = False
    inner: tuple[str, bool] | None = None
    written: bool = False

    @property
    def name(self) -> str:
        """What to call it."""
        return str(self.label)

    @property
    def codes(self) -> int:
        """Number of codes of a column of categories, 0 for numbers."""
        return 0 if self.categories is None else len(self.categories) + self.gap

    def encode(self, entries: pd.Series) -> NDArray[np.float64]:
        """Return numbers or codes; an entry that the column cannot have is an error that names its row, by index."""
        if pd.api.types.is_complex_dtype(entries):
            raise TypeError(f"column {self.name!r} holds complex numbers, whose imaginary parts would be lost")
        allowed = entries.isna().to_numpy() & self.gap
        if self.written:
            days = _numbers(_read_dates(entries))
            self._refuse(entries, np.isnan(days) & ~allowed, "is no date such as 2024-05-31")
            return days
        if self.categories is None:
            numbers = _numbers(self._check_dates(entries.infer_objects()))
            self._refuse(entries, ~np.isfinite(numbers) & ~allowed, "is no number")
            return numbers
        codes = pd.Index(self.categories).get_indexer(pd.Index(_plain(entries)))
        self._refuse(entries, (codes < 0) & ~allowed, "is none of the categories that it was fitted with")
        return np.where(codes < 0, len(self.categories), codes).astype(np.float64)

    def decode(self, numbers: NDArray[np.float64]) -> pd.Series:
        """Return entries as they were."""
        kind: Any = pd.api.types.pandas_dtype(self.dtype)
        if self.categories is not None:
            if self.inner is not None:
                kind = pd.CategoricalDtype(pd.Index(self.categories, dtype=self.inner[0]), ordered=self.inner[1])
            entries = pd.Series([*self.categories, None if self.none else np.nan], dtype=object)
            return entries.take(numbers.astype(int)).reset_index(drop=True).astype(kind)
        if self.written:
            texts = _dates(numbers, np.dtype("datetime64[s]")).dt.strftime(DATE).astype(object)
            return texts.where(~np.isnan(numbers), None if self.none else np.nan).astype(kind)
        if pd.api.types.is_datetime64_any_dtype(kind):
            return _dates(numbers, kind)
        if not pd.api.types.is_integer_dtype(kind):
            return pd.Series(numbers).astype(kind)
        limits = np.iinfo(getattr(kind, "numpy_dtype", kind))  # which rounding may go beyond
        highest = np.nextafter(float(limits.max), 0) if float(limits.max) > limits.max else limits.max
        return pd.Series(np.round(numbers).clip(limits.min, highest)).astype(kind)

    def _check_dates(self, entries: pd.Series) -> pd.Series:
        """Return entries if they are dates where dates are expected, in a time zone or in none, and only there."""
        fitted, found = (
            (pd.api.types.is_datetime64_any_dtype(dtype), getattr(dtype, "tz", None) is None)
            for dtype in (pd.api.types.pandas_dtype(self.dtype), entries.dtype)
        )
        if fitted != found and not entries.isna().all():
            raise TypeError(
                f"column {self.name!r} holds {entries.dtype} entries; it was fitted with {self.dtype} entries"
            )
        return entries

    def _refuse(self, entries: pd.Series, wrong: NDArray[np.bool_], why: str) -> None:
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            entry, row = _as_python(entries.iloc[first]), entries.index[first]
            raise ValueError(f"{entry!r} in column {self.name!r}, row {row}, {why} ({int(wrong.sum())} in all)")


@dataclass(frozen=True)
class Form:
    """The form of a table.

    Attributes:
        columns: in order.
        frame: whether it is a DataFrame rather than an array.
        double: whether tensors are in double precision.
    """

    columns: tuple[Column, ...]
    frame: bool
    double: bool

    @property
    def dtype(self) -> torch.dtype:
        """Of tensors."""
        return torch.float64 if self.double else torch.float32

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def kinds(self) -> ColumnKinds:
        """What the columns hold, as networks need to know it."""
        codes = tuple(column.codes for column in self.columns)
        return ColumnKinds(codes, tuple(column.gap and not column.codes for column in self.columns))

    def encode(self, table: Array) -> Float[Tensor, "*shape"]:
        """Return a table as numbers, its columns found by name if it is a DataFrame."""
        if not self.frame or not isinstance(table, pd.DataFrame):
            return self._encode_array(table)
        table = self.pick(table)
        columns = [column.encode(table.iloc[:, place]) for place, column in enumerate(self.columns)]
        return to_precision(torch.from_numpy(np.stack(columns, 1)), self.dtype)

    def pick(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return its columns of a DataFrame that may hold them in another order, and others."""
        there = list(map(str, table.columns))
        for name in self.names:
            if name not in there:
                raise ValueError(f"the table has no column {name!r}; it was fitted with {', '.join(self.names)}")
            if there.count(name) > 1:
                raise ValueError(f"the table has several columns {name!r}; give each a name of its own")
        return table.iloc[:, [there.index(name) for name in self.names]]

    def decode(self, rows: Float[Tensor, "rows columns"]) -> pd.DataFrame | NDArray[np.float64]:
        """Return numbers as the table that they stand for."""
        numbers = rows.detach().double().cpu().numpy()
        if not self.frame:
            return numbers.copy()
        entries = {column.label: column.decode(numbers[:, place]) for place, column in enumerate(self.columns)}
        return pd.DataFrame(entries)

    def _encode_array(self, table: Array) -> Float[Tensor, "*shape"]:
        if any(self.kinds.categories):
            kinds = [column.name for column in self.columns if column.codes]
            raise TypeError(f"give a DataFrame: {', '.join(kinds)} hold categories, which an array does not")
        return to_precision(as_tensor(table), self.dtype)

    def facts(self) -> dict[str, Any]:
        """Return everything about it, as JSON holds it."""
        return asdict(self)

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Form:
        """Return the form whose `facts` were saved."""
        columns = []
        for column in facts["columns"]:
            listed = {name: tuple(value) for name, value in column.items() if isinstance(value, list | tuple)}
            columns.append(Column(**{**column, **listed}))  # JSON has lists alone
        return cls(tuple(columns), facts["frame"], facts["double"])


def form_of(table: Array, *, any_model: bool, more: Array | None = None) -> Form:
    """Find the form of a table.

    Args:
        table: a DataFrame, or an array (rows, columns).
        any_model: whether what is asked about it takes whatever a table may hold, rather than tensors alone: then text,
            dates and missing entries are welcome.
        more: further rows of the table, which may hold categories and gaps of their own.
    """
    if not isinstance(table, pd.DataFrame):
        return _form_of_array(table, any_model=any_model)
    names = list(map(str, table.columns))
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ValueError(f"the table has several columns {min(repeated)!r}; give each a name of its own")
    if not names:
        raise ValueError("the table has no columns")
    columns = []
    for place, name in enumerate(names):
        entries = table.iloc[:, place]
        there = isinstance(more, pd.DataFrame) and name in map(str, more.columns)
        others = more.rename(columns=str)[name] if isinstance(more, pd.DataFrame) and there else entries[:0]
        columns.append(_column(entries, others, any_model=any_model))
    return Form(tuple(columns), frame=True, double=any_model)


def _form_of_array(table: Array, *, any_model: bool) -> Form:
    try:
        numbers = as_tensor(table).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        found = f"{type(table).__name__} ({error})"
        raise TypeError(f"inputs must be an array or tensor of numbers, or a DataFrame, got {found}") from error
    blank = numbers.isnan().any(0).tolist() if any_model and numbers.is_floating_point() else None
    gaps: Sequence[bool] = blank or [False] * numbers.shape[1]
    columns = [Column(f"column {place}", "float64", gap=gap) for place, gap in enumerate(gaps)]
    return Form(tuple(columns), frame=False, double=any_model)


def _column(entries: pd.Series, others: pd.Series, *, any_model: bool) -> Column:
    name, dtype = str(entries.name), str(entries.dtype)
    every = pd.concat([_plain(entries), _plain(others)], ignore_index=True)
    missing = every.isna()
    gap = bool(missing.any())
    label = _label(entries.name) if any_model else name
    if _holds_numbers(entries):
        if gap and not any_model:
            raise ValueError(f"column {name!r} has missing entries, which a torch module cannot take; mend them first")
        return Column(label, dtype, gap=gap)
    if not any_model:
        raise TypeError(
            f"column {name!r} holds {dtype} entries, which a torch module cannot take: encode them as numbers first, "
            "or give the model as a function (or scikit-learn pipeline) that takes the table as it is"
        )
    none = gap and every[missing].iloc[0] is None
    if isinstance(entries.dtype, pd.CategoricalDtype):
        inner = (str(entries.cat.categories.dtype), bool(entries.cat.ordered))
        return Column(label, dtype, _categories(name, entries.cat.categories), gap=gap, none=none, inner=inner)
    if pd.api.types.is_bool_dtype(entries):
        return Column(label, dtype, (False, True), gap=gap)
    if len(missing) > missing.sum() and not _read_dates(every[~missing]).isna().any():
        return Column(label, dtype, gap=gap, none=none, written=True)
    return Column(label, dtype, _categories(name, every[~missing]), gap=gap, none=none)


def _categories(name: str, entries: pd.Series | pd.Index) -> tuple[Any, ...]:
    """Return the different entries: those of a Categorical in their order, others sorted."""
    plain = [_as_python(each) for each in entries]
    strange = next((each for each in plain if not isinstance(each, str | int | float | bool)), None)
    if strange is not None:
        raise TypeError(f"column {name!r} holds {strange!r}, which is neither text nor a number")
    different = list(dict.fromkeys(plain))
    if isinstance(entries, pd.Series) and len(different) > max(FEW, MOSTLY * len(plain)):
        raise ValueError(
            f"nearly every row has an entry of its own in column {name!r}, as names and remarks have: no network can "
            "learn what each means. Leave it out, or turn it into columns that say what matters"
        )
    if len(different) > MOST_CATEGORIES:
        raise ValueError(
            f"column {name!r} has {len(different):,} different entries, more than {MOST_CATEGORIES:,} categories; "
            "leave it out or group them"
        )
    in_order = isinstance(entries, pd.Index)
    return tuple(different if in_order else sorted(different, key=lambda each: (str(type(each)), each)))


def _label(label: Any) -> Any:  # noqa: ANN401 - of a DataFrame's column
    """Return the label of a column as JSON can hold it: text, a number, or several of those."""
    parts = [_as_python(each) for each in label] if isinstance(label, tuple) else [_as_python(label)]
    if not all(isinstance(part, str | int | float | bool) for part in parts):
        raise TypeError(f"{label!r} is no name for a column: rename it, by text or a number")
    return tuple(parts) if isinstance(label, tuple) else parts[0]


def _holds_numbers(entries: pd.Series) -> bool:
    kinds = pd.api.types
    counts = kinds.is_numeric_dtype(entries) and not (kinds.is_bool_dtype(entries) or kinds.is_complex_dtype(entries))
    return counts or kinds.is_datetime64_any_dtype(entries)


def _numbers(entries: pd.Series) -> NDArray[np.float64]:
    """Return numbers, dates as days, NaN where missing or none at all."""
    if pd.api.types.is_datetime64_any_dtype(entries):
        universal = entries if entries.dt.tz is None else entries.dt.tz_convert("UTC").dt.tz_localize(None)
        days = universal.to_numpy("datetime64[us]").astype(np.int64) / DAY
        return np.where(entries.isna(), np.nan, days)
    return pd.to_numeric(entries, errors="coerce").to_numpy(np.float64, na_value=np.nan)


def _dates(days: NDArray[np.float64], dtype: np.dtype[Any] | pd.DatetimeTZDtype) -> pd.Series:
    """Return dates of a dtype, rounded to what it can hold."""
    missing = np.isnan(days)
    moments = np.round(np.where(missing, 0, days) * DAY).astype(np.int64).astype("datetime64[us]")
    dates = pd.Series(moments).mask(missing)
    if isinstance(dtype, pd.DatetimeTZDtype):
        return dates.dt.round(dtype.unit).dt.tz_localize("UTC").astype(dtype)
    return dates.dt.round(np.datetime_data(dtype)[0]).astype(dtype)


def _read_dates(entries: pd.Series) -> pd.Series:
    """Return dates of texts such as 2024-05-31, nothing where there are none; other forms leave day and month open."""
    whole = entries.map(lambda each: isinstance(each, str) and len(each) == len("2024-05-31"))
    return pd.to_datetime(entries.where(whole), format=DATE, errors="coerce")


def _plain(entries: pd.Series) -> pd.Series:
    """Return entries as Python objects, whatever holds them."""
    return entries.astype(object)


def _as_python(entry: Any) -> Any:  # noqa: ANN401 - of a table
    """Return one of numpy's scalars as what Python has for it."""
    return entry.item() if isinstance(entry, np.generic) else entry
