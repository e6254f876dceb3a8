"""The form in which a user holds a table, and the one in which networks take it: DataFrames and arrays, and tensors.

A tensor has a column for each of the table's: a number as it is (less an offset where single precision would blur it),
a category as its code. Nothing is lost on the way, so a model that takes DataFrames can be asked about tensors.
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

from fwshapley.checks import Array, as_tensor
from fwshapley.networks.mlp import ColumnKinds

MOST_CATEGORIES = 1000
BLUR = 1e-3
"""Share of a column's deviation that rounding to single precision may move its numbers by."""

DAY = 86_400 * 10**9
"""Nanoseconds."""


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: of the column.
        dtype: of the column in its DataFrame.
        categories: in the order of their codes, where it holds some.
        offset: subtracted from its numbers.
        gap: whether entries may be missing; a missing category has the last code, a missing number is NaN.
    """

    name: str
    dtype: str
    categories: tuple[Any, ...] | None = None
    offset: float = 0.0
    gap: bool = False

    @property
    def codes(self) -> int:
        """Number of codes of a column of categories, 0 for numbers."""
        return 0 if self.categories is None else len(self.categories) + self.gap

    def encode(self, entries: pd.Series) -> NDArray[np.float64]:
        """Return numbers or codes; an entry that the column cannot have is an error that names its row."""
        if self.categories is None:
            numbers = _numbers(entries)
            self._refuse(entries, ~np.isfinite(numbers) & ~(np.isnan(numbers) & self.gap), "is no number")
            return numbers - self.offset
        codes = pd.Index(self.categories).get_indexer(pd.Index(_plain(entries)))
        missing = entries.isna().to_numpy()
        self._refuse(entries, (codes < 0) & ~(missing & self.gap), "is none of the categories that it was fitted with")
        return np.where(missing & (codes < 0), len(self.categories), codes).astype(np.float64)

    def decode(self, numbers: NDArray[np.float64]) -> pd.Series:
        """Return entries as they were."""
        if self.categories is not None:
            entries = pd.Series([*self.categories, None], dtype=object).take(numbers.astype(int)).reset_index(drop=True)
            kind: Any = pd.CategoricalDtype(list(self.categories)) if self.dtype == "category" else self.dtype
            return entries.astype(kind)
        kind = self.dtype
        exact = numbers + self.offset
        if self.dtype.startswith("datetime"):
            return pd.Series(pd.to_datetime(exact * DAY, unit="ns")).astype(kind)
        whole = not (self.dtype.lower().startswith("float") or np.isnan(exact).any())
        return pd.Series(np.round(exact) if whole else exact).astype(kind)

    def _refuse(self, entries: pd.Series, wrong: NDArray[np.bool_], why: str) -> None:
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"{entries.iloc[first]!r} in column {self.name!r}, row {first}, {why} ({int(wrong.sum())} in all)"
            )


@dataclass(frozen=True)
class Form:
    """The form of a table.

    Attributes:
        columns: in order.
        frame: whether it is a DataFrame rather than an array.
    """

    columns: tuple[Column, ...]
    frame: bool

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
        if not isinstance(table, pd.DataFrame):
            return self._encode_array(table)
        if not self.frame:
            return self._encode_array(table)
        table = table.rename(columns=str)
        absent = [name for name in self.names if name not in table.columns]
        if absent:
            raise ValueError(f"the table has no column {absent[0]!r}; it was fitted with {', '.join(self.names)}")
        columns = [column.encode(table[column.name]) for column in self.columns]
        return torch.from_numpy(np.stack(columns, 1).astype(np.float32))

    def decode(self, rows: Float[Tensor, "rows columns"]) -> pd.DataFrame | NDArray[np.float64]:
        """Return numbers as the table that they stand for."""
        numbers = rows.detach().double().cpu().numpy()
        if not self.frame:
            return numbers + np.array([column.offset for column in self.columns])
        entries = {column.name: column.decode(numbers[:, place]) for place, column in enumerate(self.columns)}
        return pd.DataFrame(entries)

    def _encode_array(self, table: Array) -> Float[Tensor, "*shape"]:
        if any(self.kinds.categories):
            kinds = [column.name for column in self.columns if column.codes]
            raise TypeError(f"give a DataFrame: {', '.join(kinds)} hold categories, which an array does not")
        numbers = as_tensor(table)
        offsets = torch.tensor([column.offset for column in self.columns], dtype=torch.float64)
        if numbers.shape[-1:] != offsets.shape or not bool(offsets.any()):
            return numbers.float()  # whoever knows the players says what is wrong with its shape
        return (numbers.double() - offsets.to(numbers.device)).float()

    def facts(self) -> dict[str, Any]:
        """Return everything about it, as JSON holds it."""
        return asdict(self)

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Form:
        """Return the form whose `facts` were saved."""
        columns = []
        for column in facts["columns"]:
            categories = None if column["categories"] is None else tuple(column["categories"])
            columns.append(Column(**{**column, "categories": categories}))
        return cls(tuple(columns), facts["frame"])


def form_of(table: Array, *, any_model: bool) -> Form:
    """Find the form of a table.

    Args:
        table: a DataFrame, or an array (rows, columns).
        any_model: whether what is asked about it takes whatever a table may hold, rather than tensors alone: then text,
            dates and missing entries are welcome.
    """
    if not isinstance(table, pd.DataFrame):
        numbers = as_tensor(table).detach().cpu()
        blank = numbers.isnan().any(0).tolist() if any_model and numbers.is_floating_point() else None
        gaps: Sequence[bool] = blank or [False] * numbers.shape[1]
        offsets = [_offset(each) for each in numbers.double().numpy().T] if any_model else [0.0] * numbers.shape[1]
        described = zip(gaps, offsets, strict=True)
        columns = [
            Column(f"column {place}", "float64", None, offset, gap) for place, (gap, offset) in enumerate(described)
        ]
        return Form(tuple(columns), frame=False)
    names = list(map(str, table.columns))
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ValueError(f"the table has several columns {min(repeated)!r}; give each a name of its own")
    return Form(tuple(_column(table.iloc[:, place], any_model=any_model) for place in range(len(names))), frame=True)


def _column(entries: pd.Series, *, any_model: bool) -> Column:
    name, dtype = str(entries.name), str(entries.dtype)
    gap = bool(entries.isna().any())
    if _holds_numbers(entries):
        if gap and not any_model:
            raise ValueError(f"column {name!r} has missing entries, which a torch module cannot take; mend them first")
        return Column(name, dtype, None, _offset(_numbers(entries)) if any_model else 0.0, gap)
    if not any_model:
        raise TypeError(
            f"column {name!r} holds {dtype} entries, which a torch module cannot take: encode them as numbers first, "
            "or give the model as a function (or scikit-learn pipeline) that takes the table as it is"
        )
    if isinstance(entries.dtype, pd.CategoricalDtype):
        categories = entries.cat.categories.tolist()
    else:
        categories = sorted(_plain(entries).dropna().unique().tolist(), key=lambda each: (str(type(each)), each))
    if len(categories) > MOST_CATEGORIES:
        raise ValueError(
            f"column {name!r} has {len(categories):,} different entries, more than {MOST_CATEGORIES:,} categories; "
            "leave it out or group them"
        )
    strange = next((each for each in categories if not isinstance(each, str | int | float | bool)), None)
    if strange is not None:
        raise TypeError(f"column {name!r} holds {strange!r}, which is neither text nor a number")
    return Column(name, dtype, tuple(categories), gap=gap)


def _holds_numbers(entries: pd.Series) -> bool:
    kinds = pd.api.types
    return (kinds.is_numeric_dtype(entries) and not kinds.is_bool_dtype(entries)) or kinds.is_datetime64_dtype(entries)


def _numbers(entries: pd.Series) -> NDArray[np.float64]:
    """Return numbers, dates as days, NaN where missing or none at all."""
    if pd.api.types.is_datetime64_dtype(entries):
        days = entries.astype("datetime64[ns]").astype("int64").to_numpy(np.float64) / DAY
        return np.where(entries.isna(), np.nan, days)
    return pd.to_numeric(entries, errors="coerce").to_numpy(np.float64, na_value=np.nan)


def _plain(entries: pd.Series) -> pd.Series:
    """Return entries as Python objects, whatever holds them."""
    return entries.astype(object)


def _offset(numbers: NDArray[np.float64]) -> float:
    """Return what to subtract so that single precision can tell the numbers apart: mostly nothing."""
    there = numbers[np.isfinite(numbers)]
    if not len(there):
        return 0.0
    moved = np.abs(there - there.astype(np.float32)).max()
    return float(there.mean()) if moved > BLUR * there.std() else 0.0
