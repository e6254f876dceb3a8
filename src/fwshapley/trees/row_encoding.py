"""Rows of a table as the splits of an ensemble read them: checked, rounded, categories as codes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

from fwshapley._internal.arrays import to_numpy
from fwshapley._internal.checks import Array, check_numbers, shorten
from fwshapley._internal.compilation import compiled
from fwshapley.tables.unusable_entries import UnusableEntry
from fwshapley.trees.compiled import run_ranges

TABLE_DIMENSIONS = 2
TEXTS = {"str", "string"}
"""Dtypes of pandas that contain texts alone."""

UNKNOWN = "must be among the categories of the training data"
MISSING = "is missing, and the model has no rule for missing values of it: impute them as in training"


class ReadRows(NamedTuple):
    """Rows as float64, and the entries that the splits cannot read.

    Attributes:
        rows: rounded, with NaN for missing values and codes for categories.
        unusable: entries for which the model has no rule, row by row.
    """

    rows: Float64[ndarray, "rows features"]
    unusable: list[UnusableEntry]


class Wrong(NamedTuple):
    """Rows of a column whose entries cannot be read, and why."""

    column: int
    rows: Bool[ndarray, " rows"]
    problem: str


def read_rows(
    x: Array,
    *,
    argument: str,
    names: Sequence[str],
    named: bool,
    dtype: str,
    levels: Mapping[int, Sequence[Any]],
    levels_in_frames: bool,
    unseen: str,
    is_categorical: Bool[ndarray, " features"],
    missing_number: Float64[ndarray, " features"],
    zero_threshold: float,
    accepts_missing: Bool[ndarray, " features"],
) -> ReadRows:
    """Return rows as float64, rounded to `dtype`, with NaN for missing values and codes for categories.

    `TreeEnsemble` documents the arguments, except `argument`, which errors call the rows.
    """
    is_frame = hasattr(x, "iloc")
    x = select_columns(argument, x, names) if named else x
    try:
        shape = tuple(np.shape(x))
    except ValueError as error:
        raise ValueError(f"{argument} must have rows of equal length: {error}") from error
    if len(shape) != TABLE_DIMENSIONS or shape[1] != len(names):
        hint = "; pass one row as a batch, x[[0]] or x.iloc[[0]]" if len(shape) == 1 else ""
        raise ValueError(
            f"{argument} must have shape (rows, {len(names)}), one column per feature of the model; got {shape}{hint}"
        )
    wrong: list[Wrong] = []
    if is_frame or (levels and not levels_in_frames):
        if levels_in_frames:
            _check_categorical_columns(argument, x, names, levels)
        rows, wrong = _to_numbers(x, names, levels, unseen)
    else:
        numbers = to_numpy(x)
        if numbers.dtype.kind in "bO":
            numbers = _to_floats(numbers, argument)
        rows = np.ascontiguousarray(check_numbers(argument, numbers))
    if dtype == "float32":
        run_ranges(_round_to_float32, len(rows), rows)
    if zero_threshold > 0:
        rows[np.abs(rows) <= zero_threshold] = 0
    for column in np.flatnonzero(~np.isnan(missing_number)):
        rows[rows[:, column] == missing_number[column], column] = np.nan
    wrong += _find_fractions(rows, is_categorical)
    wrong += _find_missing(rows, accepts_missing, wrong)
    return ReadRows(rows, _list_entries(x, names, wrong))


@compiled
def _round_to_float32(begin, end, rows):
    for row in range(begin, end):
        for column in range(rows.shape[1]):
            rows[row, column] = np.float32(rows[row, column])  # a split sends an infinite value to the same side


def select_columns(argument: str, x: Array, names: Sequence[str]) -> Array:
    """Return the columns of a DataFrame that the model was fitted on, in its order; anything else unchanged."""
    if not hasattr(x, "iloc") or not hasattr(x, "columns"):
        return x
    wanted, columns = ([str(name).replace(" ", "_") for name in some] for some in (names, x.columns))
    if columns == wanted:  # LightGBM replaces spaces
        return x
    absent = [name for name, spelled in zip(names, wanted, strict=True) if spelled not in columns]
    if absent:
        unknown = [str(name) for name, spelled in zip(x.columns, columns, strict=True) if spelled not in wanted]
        parts = [f"{what} {shorten(of, 200)}" for what, of in (("lacks", absent), ("also has", unknown)) if of]
        raise ValueError(f"{argument} must have the columns that the model was fitted on; it {' and '.join(parts)}")
    repeated = [name for name, spelled in zip(names, wanted, strict=True) if columns.count(spelled) > 1]
    if repeated:
        raise ValueError(f"{argument} has several columns {repeated[0]!r}; rename all but one of them")
    return x.iloc[:, [columns.index(spelled) for spelled in wanted]]


def _find_fractions(
    rows: Float64[ndarray, "rows features"], is_categorical: Bool[ndarray, " features"]
) -> Iterator[Wrong]:
    """Yield the columns of categories that contain fractions."""
    for column in np.flatnonzero(is_categorical).tolist():
        codes = rows[:, column]
        fractional = (codes != np.trunc(codes)) & ~np.isnan(codes)
        if fractional.any():
            yield Wrong(column, fractional, "must be a whole category code")


def _find_missing(
    rows: Float64[ndarray, "rows features"], accepts_missing: Bool[ndarray, " features"], wrong: Sequence[Wrong]
) -> Iterator[Wrong]:
    """Yield the columns that contain missing values for which the model has no rule."""
    unread = {column: rows for column, rows, _ in wrong}
    for column in np.flatnonzero(~accepts_missing).tolist():
        missing = np.isnan(rows[:, column])
        if column in unread:
            missing &= ~unread[column]
        if missing.any():
            yield Wrong(column, missing, MISSING)


def _list_entries(x: Array, names: Sequence[str], wrong: Sequence[Wrong]) -> list[UnusableEntry]:
    """Return the entries that cannot be read, row by row."""
    if not wrong:
        return []
    table: Any = x if hasattr(x, "iloc") else to_numpy(x)
    entries = []
    for column, rows, problem in wrong:
        values = table.iloc[:, column] if hasattr(table, "iloc") else table[:, column]
        chosen = np.flatnonzero(rows)
        entries += [
            UnusableEntry(row, names[column], value, problem)
            for row, value in zip(chosen.tolist(), values[rows].tolist(), strict=True)
        ]
    return sorted(entries, key=lambda entry: entry.row)


def _check_categorical_columns(
    argument: str, x: Array, names: Sequence[str], levels: Mapping[int, Sequence[Any]]
) -> None:
    """Raise a ValueError unless exactly the columns with levels contain categories: of pandas, or as text."""
    are_categories = {column for column, dtype in enumerate(x.dtypes) if dtype.name == "category"}
    for column, of in levels.items():
        dtype = x.dtypes.iloc[column]
        fits = dtype.kind == "O" if any(isinstance(level, str) for level in of) else dtype.name not in TEXTS
        if fits or x.iloc[:, column].isna().all():
            are_categories.add(column)
    if are_categories != set(levels):
        expected, actual = ([names[column] for column in sorted(columns)] for columns in (levels, are_categories))
        raise ValueError(
            f"{argument} must have the categorical columns that the model was fitted on, {shorten(expected, 200)}; got "
            f"{shorten(actual, 200)}: pass them as text or convert them with astype('category'), or pass an array of "
            "codes"
        )


def _to_numbers(
    x: Array, names: Sequence[str], levels: Mapping[int, Sequence[Any]], unseen: str
) -> tuple[Float64[ndarray, "rows features"], list[Wrong]]:
    """Return a table as numbers, column by column: codes where a column has levels, else what it contains."""
    is_frame = hasattr(x, "iloc")
    table: Any = x if is_frame else to_numpy(x)
    rows = np.empty(tuple(np.shape(x)))
    wrong = []
    for column, name in enumerate(names):
        values = table.iloc[:, column] if is_frame else table[:, column]
        if column in levels:
            rows[:, column] = _to_codes(name, values.tolist(), levels[column], unseen)
            unknown = rows[:, column] == -1
            if unseen == "error" and unknown.any():
                wrong.append(Wrong(column, unknown, UNKNOWN))
                rows[unknown, column] = np.nan
            continue
        try:
            rows[:, column] = _to_floats(values, f"column {name!r}")
        except TypeError:
            numbers = list(map(_to_number, values.tolist()))
            unread = np.array([number is None for number in numbers])
            if unread.all():  # not a matter of some rows
                raise
            rows[:, column] = [np.nan if number is None else number for number in numbers]
            wrong.append(Wrong(column, unread, "is not a number"))
    return rows, wrong


def _to_floats(values: Any, name: str) -> Float64[ndarray, ...]:  # noqa: ANN401 - a column or an array
    """Return flags, or objects that are numbers or missing, as floats."""
    try:
        return (
            values.to_numpy(np.float64, na_value=np.nan) if hasattr(values, "to_numpy") else values.astype(np.float64)
        )
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must contain numbers, as in training ({error})") from error


def _to_number(value: Any) -> float | None:  # noqa: ANN401 - an entry of a table
    """Return an entry as a number, NaN if it is missing; None if it is none."""
    if is_missing(value):
        return np.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _to_codes(name: str, values: list[Any], levels: Sequence[Any], unseen: str) -> list[float]:
    """Return the code of each category: NaN if it is missing, and -1 if it is unseen but does not count as missing."""
    codes = {level: float(code) for code, level in enumerate(levels)}
    other = np.nan if unseen == "missing" else -1.0
    if unseen == "other":
        values = [to_text(name, value) for value in values]
    return [np.nan if is_missing(value) else codes.get(value, other) for value in values]


def to_text(name: str, value: object) -> object:
    """Return a category as text, as CatBoost compares categories; missing ones are returned as they are."""
    if is_missing(value):
        return value
    if isinstance(value, float):
        raise TypeError(f"column {name!r} must contain categories as strings or whole numbers, got {value!r}")
    return str(int(value) if isinstance(value, bool) else value)


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN, or the missing value of pandas."""
    return value is None or type(value).__name__ in {"NAType", "NaTType"} or value != value  # noqa: PLR0124 - NaN
