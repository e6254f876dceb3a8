"""Rows of a table as the splits of an ensemble read them: checked, rounded, categories as codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

from fwshapley._internal.arrays import to_numpy
from fwshapley._internal.checks import Array, check_numbers, shorten
from fwshapley.trees.compiled import compiled, run_ranges

TABLE_DIMENSIONS = 2


def encode_for_splits(
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
) -> Float64[ndarray, "rows features"]:
    """Return rows as float64, rounded to `dtype`, with NaN for missing values and codes for categories.

    `TreeEnsemble` documents the arguments, except `argument`, which errors call the rows.
    """
    is_frame = hasattr(x, "iloc")
    if named and is_frame:
        check_columns(argument, list(map(str, x.columns)), names)
    try:
        shape = tuple(np.shape(x))
    except ValueError as error:
        raise ValueError(f"{argument} must have rows of equal length: {error}") from error
    if len(shape) != TABLE_DIMENSIONS or shape[1] != len(names):
        raise ValueError(
            f"{argument} must have shape (rows, {len(names)}), one column per feature of the model; got {shape}"
        )
    if is_frame or (levels and not levels_in_frames):
        if levels_in_frames:
            _check_categorical_columns(argument, x, names, levels)
        rows = _to_numbers(x, names, levels, unseen)
    else:
        numbers = to_numpy(x)
        rows = np.ascontiguousarray(
            check_numbers(argument, _to_floats(numbers, argument) if numbers.dtype.kind in "bO" else numbers)
        )
    if dtype == "float32":
        run_ranges(_round_to_float32, len(rows), rows)
    if zero_threshold > 0:
        rows[np.abs(rows) <= zero_threshold] = 0
    for column in np.flatnonzero(~np.isnan(missing_number)):
        rows[rows[:, column] == missing_number[column], column] = np.nan
    _check_codes(rows, is_categorical, names)
    _check_missing(argument, rows, accepts_missing, names, x.index if is_frame else range(len(rows)))
    return rows


@compiled
def _round_to_float32(begin, end, rows):
    for row in range(begin, end):
        for column in range(rows.shape[1]):
            rows[row, column] = np.float32(rows[row, column])  # a split sends an infinite value to the same side


def check_columns(argument: str, columns: Sequence[str], names: Sequence[str]) -> None:
    """Raise a ValueError that names the difference unless a table has the columns that the model was fitted on."""
    if [column.replace(" ", "_") for column in columns] == [name.replace(" ", "_") for name in names]:
        return  # LightGBM replaces spaces
    if sorted(columns) == sorted(names):
        raise ValueError(f"{argument} must have its columns in the order of the model: {shorten(list(names), 200)}")
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise ValueError(f"{argument} must have each column once, got {twice!r} several times")
    absent = [name for name in names if name not in columns]
    unknown = [name for name in columns if name not in names]
    parts = [f"{what} {shorten(which, 200)}" for what, which in (("lacks", absent), ("also has", unknown)) if which]
    raise ValueError(f"{argument} must have the columns that the model was fitted on; it {' and '.join(parts)}")


def _check_codes(
    rows: Float64[ndarray, "rows features"], is_categorical: Bool[ndarray, " features"], names: Sequence[str]
) -> None:
    """Raise a ValueError if a categorical feature contains fractions."""
    for column in np.flatnonzero(is_categorical):
        fractional = rows[:, column] != np.trunc(rows[:, column])
        fractional &= ~np.isnan(rows[:, column])
        if fractional.any():
            raise ValueError(
                f"column {names[int(column)]!r} must contain whole category codes, got {rows[fractional, column][0]:g}"
            )


def _check_missing(
    argument: str,
    rows: Float64[ndarray, "rows features"],
    accepts_missing: Bool[ndarray, " features"],
    names: Sequence[str],
    labels: Any,  # noqa: ANN401 - an index or a range
) -> None:
    """Raise a ValueError if a value is missing for which the model has no rule."""
    refused = np.isnan(rows[:, ~accepts_missing])
    if refused.any():
        row, number = np.argwhere(refused)[0]
        name = names[int(np.flatnonzero(~accepts_missing)[number])]
        raise ValueError(
            f"{argument} must not contain missing values: row {labels[row]}, column {name!r} is NaN, and the model has "
            "no rule for its missing values; impute them as in training"
        )


def _check_categorical_columns(
    argument: str, x: Array, names: Sequence[str], levels: Mapping[int, Sequence[Any]]
) -> None:
    """Raise a ValueError unless the columns of pandas' category type are those that have levels."""
    categorical = {column for column, dtype in enumerate(x.dtypes) if dtype.name == "category"}
    if categorical != set(levels):
        expected, actual = ([names[column] for column in sorted(columns)] for columns in (levels, categorical))
        raise ValueError(
            f"{argument} must have the categorical columns that the model was fitted on, {shorten(expected, 200)}; got "
            f"{shorten(actual, 200)}: convert them with astype('category'), or pass an array of codes"
        )


def _to_numbers(
    x: Array, names: Sequence[str], levels: Mapping[int, Sequence[Any]], unseen: str
) -> Float64[ndarray, "rows features"]:
    """Return a table as numbers, column by column: codes where a column has levels, else what it contains."""
    is_frame = hasattr(x, "iloc")
    table: Any = x if is_frame else to_numpy(x)
    rows = np.empty(tuple(np.shape(x)))
    for column, name in enumerate(names):
        values = table.iloc[:, column] if is_frame else table[:, column]
        if column in levels:
            rows[:, column] = _to_codes(name, values.tolist(), levels[column], unseen)
        else:
            rows[:, column] = _to_floats(values, f"column {name!r}")
    return rows


def _to_floats(values: Any, name: str) -> Float64[ndarray, ...]:  # noqa: ANN401 - a column or an array
    """Return flags, or objects that are numbers or missing, as floats."""
    try:
        return (
            values.to_numpy(np.float64, na_value=np.nan) if hasattr(values, "to_numpy") else values.astype(np.float64)
        )
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must contain numbers, as in training ({error})") from error


def _to_codes(name: str, values: list[Any], levels: Sequence[Any], unseen: str) -> list[float]:
    """Return the code of each category: NaN if it is missing, and -1 if it is unseen but does not count as missing."""
    codes = {level: float(code) for code, level in enumerate(levels)}
    other = np.nan if unseen == "missing" else -1.0
    if unseen == "other":
        values = [to_text(name, value) for value in values]
    found = [np.nan if is_missing(value) else codes.get(value, other) for value in values]
    if unseen == "error" and -1.0 in found:
        value = values[found.index(-1.0)]
        raise ValueError(f"column {name!r} must contain categories of the training data, got {shorten(value)}")
    return found


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
