"""Tables as tensors for networks, and back: a DataFrame or an array as its user has it, and a tensor of its numbers.

A tensor has one column per column of the table: a number as it is, a date as days since 1970, a category as its code.
For models that are not torch modules it is in double precision, so that decoding restores the table exactly. Nothing
here imports torch, except methods that return tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Float64
from numpy import ndarray
from numpy.typing import NDArray

from fwshapley._internal.arrays import Tensor, to_numpy
from fwshapley._internal.checks import Array
from fwshapley._internal.wording import listed
from fwshapley.tables.columns import (
    DATE_FORMAT,
    Column,
    from_days,
    infer_dtype,
    is_datetime,
    is_number,
    is_text,
    parse_dates,
    repeated,
)
from fwshapley.tables.unusable_entries import UnusableEntry, refuse

if TYPE_CHECKING:
    import torch

    from fwshapley.networks.mlp import ColumnKinds

MAX_CATEGORIES = 1000
MIN_FREE_TEXTS = 20
FREE_TEXT_SHARE = 0.5
"""A column of texts is refused if it has more different ones than both this number and this share of the rows."""

PROBLEMS = {
    "number": "is not a number",
    "date": "is not a date such as 2024-05-31",
    "category": "is an unknown category",
}
MISSING = "is missing, as no entry of this column was when the explainer was made"
TOO_LARGE = "overflows float32, in which torch modules compute"

Trained = Mapping[str, Sequence[Any]]
"""Categories that a model was trained with in pandas' dtype for them, by name of the column."""


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table that is explained, and the form in which its user has it.

    Attributes:
        columns: in order.
        is_frame: whether the table is a DataFrame rather than an array.
        double: whether tensors are in double precision.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"age": [30, 40], "city": ["Rome", "Oslo"]})
        >>> schema = describe_table(table, any_model=True)
        >>> schema.encode(table).tolist()
        [[30.0, 1.0], [40.0, 0.0]]
        >>> schema.decode(schema.encode(table)).equals(table)
        True
    """

    columns: tuple[Column, ...]
    is_frame: bool
    double: bool

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of tensors."""
        import torch  # noqa: PLC0415 - explainers without networks do not need it

        return torch.float64 if self.double else torch.float32

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def kinds(self) -> ColumnKinds:
        """Number of codes and missing numbers of the columns, as networks need to know them."""
        from fwshapley.networks.mlp import ColumnKinds  # noqa: PLC0415 - imports torch

        return ColumnKinds(tuple(column.n_codes for column in self.columns), self.gaps)

    @property
    def gaps(self) -> tuple[bool, ...]:
        """Which columns of numbers may have missing entries."""
        return tuple(column.has_missing and not column.n_codes for column in self.columns)

    @property
    def encodings(self) -> dict[str, Any]:
        """What numbers stand for, by number of the column as text: names of categories, or "date"; for JSON."""
        meanings = {
            str(place): "date" if column.kind == "date" else list(map(str, column.categories))
            for place, column in enumerate(self.columns)
        }
        return {place: meaning for place, meaning in meanings.items() if meaning}

    def encode(self, table: Array) -> Float[Tensor, "*shape"]:
        """Return a table as a tensor; the columns of a DataFrame are found by their names."""
        from fwshapley._internal.tensor_checks import as_tensor, to_precision  # noqa: PLC0415 - imports torch

        encoded = self._encode_frame(table) if self._has_names(table) else table
        return to_precision(as_tensor(encoded), self.dtype)

    def to_numbers(self, table: Array) -> Float64[ndarray, "*shape"]:
        """Return a table as `encode` does, in double precision and without torch."""
        return self._encode_frame(table) if self._has_names(table) else as_numbers(table)

    def find_unusable(self, table: Array) -> list[UnusableEntry]:
        """Return the entries that `encode` and the checks after it refuse, row by row."""
        return self.read(table)[1]

    def read(self, table: Array) -> tuple[Float64[ndarray, "rows columns"], list[UnusableEntry]]:
        """Return a table as `to_numbers` does, and what `find_unusable` does."""
        if self._has_names(table):
            return self._read_frame(table)
        try:
            numbers = as_numbers(table)
        except (TypeError, ValueError) as error:
            raise TypeError(f"inputs must be an array of numbers, or a DataFrame: {error}") from error
        if numbers.ndim != 2 or numbers.shape[1] != len(self.columns):  # noqa: PLR2004 - rows and columns
            raise ValueError(f"inputs must have shape (batch, {len(self.columns)}), got {numbers.shape}")
        wrong = ~(np.abs(numbers) <= self._largest) & ~(np.isnan(numbers) & np.array(self.gaps))
        return numbers, [
            UnusableEntry(row, self.names[column], float(numbers[row, column]), "is not a finite number")
            for row, column in np.argwhere(wrong).tolist()
        ]

    @property
    def _largest(self) -> float:
        return float(np.finfo(np.float64 if self.double else np.float32).max)

    def _has_names(self, table: Array) -> bool:
        """Whether columns are found by their names; raises a TypeError if they must be and cannot."""
        if self.is_frame and isinstance(table, pd.DataFrame):
            return True
        names = [column.name for column in self.columns if column.n_codes]
        if names:
            raise TypeError(f"inputs must be a DataFrame, since columns {', '.join(names)} contain categories")
        return False

    def _encode_frame(self, table: pd.DataFrame) -> Float64[ndarray, "rows columns"]:
        numbers, unusable = self._read_frame(table)
        refuse(unusable, table.index)
        return numbers

    def _read_frame(self, table: pd.DataFrame) -> tuple[Float64[ndarray, "rows columns"], list[UnusableEntry]]:
        """Return the entries as numbers, and those that cannot be."""
        selected = self.select_columns(table)
        numbers = np.empty((len(table), len(self.columns)))
        unusable: list[UnusableEntry] = []
        for place, column in enumerate(self.columns):
            numbers[:, place], wrong = _read_column(column, selected.iloc[:, place], self._largest)
            unusable += wrong
        return numbers, sorted(unusable, key=lambda entry: entry.row)

    def select_columns(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the columns of the schema from a DataFrame that may have them in another order, and others."""
        names = list(map(str, table.columns))
        for name in self.names:
            if name not in names:
                raise ValueError(f"the table has no column {name!r}; it was fitted with {', '.join(self.names)}")
        _check_different([name for name in names if name in self.names])
        return table.iloc[:, [names.index(name) for name in self.names]]

    def decode(self, rows: Float[Tensor, "rows columns"]) -> pd.DataFrame | NDArray[np.float64]:
        """Return a tensor as the table that it was encoded from."""
        return self.from_numbers(rows.detach().double().cpu().numpy())

    def from_numbers(self, numbers: Float64[ndarray, "rows columns"]) -> pd.DataFrame | NDArray[np.float64]:
        """Return a copy of the table that `to_numbers` returned."""
        if not self.is_frame:
            return numbers.copy()
        return pd.DataFrame({column.label: _decode(column, numbers[:, n]) for n, column in enumerate(self.columns)})

    def facts(self) -> dict[str, Any]:
        """Return everything about the schema, JSON-compatible."""
        return asdict(self)

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> TableSchema:
        """Return the schema whose `facts` were saved."""
        columns = []
        for column in facts["columns"]:
            tuples = {name: tuple(value) for name, value in column.items() if isinstance(value, list | tuple)}
            columns.append(Column(**{**column, **tuples}))  # JSON has only lists
        return cls(tuple(columns), facts["is_frame"], facts["double"])


def describe_table(
    table: Array, *, any_model: bool, more: Array | None = None, trained: Trained | None = None
) -> TableSchema:
    """Find the schema of a table.

    Args:
        table: a DataFrame, or an array (rows, columns).
        any_model: whether the model may accept any table. A torch module accepts only numbers, none missing; other
            models may also accept text, dates and missing entries.
        more: further rows of the table, which may contain other categories and missing entries.
        trained: what the model was trained with; it gets these columns in pandas' dtype of categories, also if the
            table contains them as text.
    """
    if not isinstance(table, pd.DataFrame):
        return _describe_array(table, any_model=any_model)
    names = list(map(str, table.columns))
    if not names:
        raise ValueError("the table has no columns")
    _check_different(names)
    others = more.rename(columns=str) if isinstance(more, pd.DataFrame) else table.iloc[:0].rename(columns=str)
    columns = []
    for place, name in enumerate(names):
        entries = table.iloc[:, place]
        levels = None if trained is None else trained.get(name, trained.get(name.replace(" ", "_")))  # as LightGBM
        column = _describe_column(entries, others.get(name, entries[:0]), any_model=any_model, levels=levels)
        columns.append(column)
    return TableSchema(tuple(columns), is_frame=True, double=any_model)


def _check_different(names: Sequence[str]) -> None:
    twice = repeated(names)
    if twice:
        raise ValueError(f"the table has several columns {twice[0]!r}; rename all but one of them")


def _describe_array(table: Array, *, any_model: bool) -> TableSchema:
    try:
        numbers = as_numbers(table)
    except (TypeError, ValueError, RuntimeError) as error:
        got = f"{type(table).__name__} ({error})"
        raise TypeError(f"inputs must be an array or tensor of numbers, or a DataFrame, got {got}") from error
    missing = np.isnan(numbers).any(0) & any_model
    columns = [Column(f"column {n}", "number", "float64", has_missing=some) for n, some in enumerate(missing.tolist())]
    return TableSchema(tuple(columns), is_frame=False, double=any_model)


def as_numbers(table: Array) -> Float64[ndarray, "*shape"]:
    """Return an array or tensor of real numbers in double precision, or raise a TypeError."""
    array = to_numpy(table)
    if array.dtype.kind not in "iufb":
        raise TypeError(f"it contains {array.dtype}, not real numbers")
    return array.astype(np.float64)


def _describe_column(entries: pd.Series, others: pd.Series, *, any_model: bool, levels: Sequence[Any] | None) -> Column:
    entries = infer_dtype(entries)
    name, dtype = str(entries.name), str(entries.dtype)
    together = pd.concat([entries.astype(object), others.astype(object)], ignore_index=True)
    missing = together.isna()
    has_missing = bool(missing.any())
    label = _check_label(entries.name) if any_model else name
    if levels is None and (is_datetime(entries.dtype) or is_number(entries)):
        if has_missing and not any_model:
            raise ValueError(f"column {name!r} has missing entries, which a torch module cannot take; fill them first")
        return Column(label, "date" if is_datetime(entries.dtype) else "number", dtype, has_missing=has_missing)
    if not any_model:
        raise TypeError(
            f"column {name!r} has dtype {dtype}, which a torch module cannot take: encode it as numbers first, or give "
            "the model as a function (or a scikit-learn pipeline) that takes the table as it is"
        )
    is_none = has_missing and together[missing].iloc[0] is None
    if levels is not None:
        return _describe_trained(label, levels, together[~missing], has_missing=has_missing)
    if isinstance(entries.dtype, pd.CategoricalDtype):
        index = entries.cat.categories
        categorical = (str(index.dtype), bool(entries.cat.ordered))
        categories = _check_categories(name, _check_entries(name, index))
        return Column(label, "category", dtype, categories, has_missing, is_none, categorical)
    if pd.api.types.is_bool_dtype(entries):
        return Column(label, "category", dtype, (False, True), has_missing)
    present = together[~missing]
    if len(present) and not parse_dates(present, strict=True).isna().any():
        return Column(label, "date", dtype, (), has_missing, is_none)
    return Column(label, "category", dtype, _find_categories(name, present), has_missing, is_none)


def _describe_trained(label: Any, levels: Sequence[Any], present: pd.Series, *, has_missing: bool) -> Column:  # noqa: ANN401 - of a column
    """Return a column of a model's own categories; those that only the table has come last."""
    known = pd.Index(levels).astype(object)
    others = present[known.get_indexer(pd.Index(present)) < 0].unique().tolist()
    if len(present) and len(others) == present.nunique():
        raise ValueError(
            f"column {str(label)!r} contains {listed(map(repr, others), most=3)}, and the model was trained with the "
            f"categories {listed(map(repr, levels), most=3)}: pass the table as the model was trained on it"
        )
    categories = _check_categories(str(label), _check_entries(str(label), [*known, *others]))
    return Column(
        label, "category", "category", categories, has_missing, False, (str(pd.Index(categories).dtype), False)
    )


def _find_categories(name: str, entries: pd.Series) -> tuple[Any, ...]:
    """Return the different entries, sorted; raise an error if they are free text."""
    different = list(dict.fromkeys(_check_entries(name, entries)))
    if len(different) > max(MIN_FREE_TEXTS, FREE_TEXT_SHARE * len(entries)):
        raise ValueError(
            f"column {name!r} looks like free text: {len(different):,} different entries in {len(entries):,} rows. "
            "Leave it out, or replace it by columns of numbers or categories"
        )
    return _check_categories(name, sorted(different, key=lambda entry: (str(type(entry)), entry)))


def _check_entries(name: str, entries: Iterable[Any]) -> list[Any]:
    """Return entries as Python objects, or raise an error unless each is text or a number."""
    plain = [_as_python(entry) for entry in entries]
    for entry in plain:
        if not isinstance(entry, str | int | float | bool):
            raise TypeError(f"column {name!r} contains {entry!r}, which is neither text nor a number")
    return plain


def _check_categories(name: str, categories: Sequence[Any]) -> tuple[Any, ...]:
    if len(categories) > MAX_CATEGORIES:
        raise ValueError(
            f"column {name!r} has {len(categories):,} different entries, more than {MAX_CATEGORIES:,} categories; "
            "leave it out or group them"
        )
    return tuple(categories)


def _check_label(label: Any) -> Any:  # noqa: ANN401 - of a DataFrame's column
    """Return the label of a column as JSON can hold it: text, a number, or a tuple of those."""
    parts = [_as_python(part) for part in (label if isinstance(label, tuple) else [label])]
    if not all(isinstance(part, str | int | float | bool) for part in parts):
        raise TypeError(f"names of columns must be text or numbers, got {label!r}; rename it")
    return tuple(parts) if isinstance(label, tuple) else parts[0]


def _read_column(column: Column, entries: pd.Series, largest: float) -> tuple[NDArray[np.float64], list[UnusableEntry]]:
    """Return a column as numbers, and the entries that it cannot have."""
    if pd.api.types.is_complex_dtype(entries):
        raise TypeError(f"column {column.name!r} contains complex numbers; their imaginary parts would be lost")
    if column.kind != "category" and not column.has_dates_as_text:
        entries = infer_dtype(entries)
        _check_dates(column, entries)
    numbers, missing = column.to_numbers(entries), entries.isna().to_numpy()
    wrong = np.isnan(numbers) & ~(missing & column.has_missing)
    large = np.abs(numbers) > largest
    unusable = []
    for row in np.flatnonzero(wrong | large).tolist():
        problem = MISSING if missing[row] else TOO_LARGE if large[row] else PROBLEMS[column.kind]
        unusable.append(UnusableEntry(row, column.name, _as_python(entries.iloc[row]), problem))
    return np.where(np.isnan(numbers), len(column.categories), numbers) if column.n_codes else numbers, unusable


def _check_dates(column: Column, entries: pd.Series) -> None:
    """Raise an error unless dates are where dates are expected, in a time zone or in none, and only there.

    Texts may stand for dates without a time zone, as in a .csv file.
    """
    kinds = [
        (is_datetime(dtype), getattr(dtype, "tz", None) is None)
        for dtype in (pd.api.types.pandas_dtype(column.dtype), entries.dtype)
    ]
    as_text = kinds[0] == (True, True) and is_text(entries)
    if kinds[0] != kinds[1] and not as_text and not entries.isna().all():
        raise TypeError(f"column {column.name!r} has dtype {entries.dtype}; it was fitted with {column.dtype}")


def _decode(column: Column, numbers: NDArray[np.float64]) -> pd.Series:
    """Return a column as pandas had it."""
    dtype: Any = pd.api.types.pandas_dtype(column.dtype)
    missing = None if column.missing_is_none else np.nan
    if column.kind == "category":
        codes = numbers.astype(int)
        if column.categorical is not None:
            categories_dtype, ordered = column.categorical
            dtype = pd.CategoricalDtype(pd.Index(column.categories, dtype=categories_dtype), ordered=ordered)
            codes[codes == len(column.categories)] = -1  # missing
            return pd.Series(pd.Categorical.from_codes(codes, dtype=dtype))
        different = [*column.categories, missing] if column.has_missing else column.categories
        return pd.Series(different, dtype=object).astype(dtype).take(codes).reset_index(drop=True)
    if column.has_dates_as_text:
        texts = from_days(numbers, np.dtype("datetime64[s]")).dt.strftime(DATE_FORMAT).astype(object)
        return texts.where(~np.isnan(numbers), missing).astype(dtype)
    if column.kind == "date":
        return from_days(numbers, dtype)
    if not pd.api.types.is_integer_dtype(dtype):
        return pd.Series(numbers).astype(dtype)
    limits = np.iinfo(getattr(dtype, "numpy_dtype", dtype))  # which rounding may exceed
    highest = np.nextafter(float(limits.max), 0) if float(limits.max) > limits.max else limits.max
    return pd.Series(np.round(numbers).clip(limits.min, highest)).astype(dtype)


def _as_python(entry: Any) -> Any:  # noqa: ANN401 - of a table
    """Return one of numpy's scalars as what Python has for it."""
    return entry.item() if isinstance(entry, np.generic) else entry
