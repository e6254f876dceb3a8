"""Rows of a table as the splits of an ensemble read them: checked, rounded, categories as codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

from fwshapley._internal.arrays import to_numpy
from fwshapley._internal.checks import Array, check_numbers, shorten

TABLE_DIMENSIONS = 2


def encode_rows(
    x: Array,
    *,
    names: Sequence[str],
    named: bool,
    dtype: str,
    levels: Mapping[int, Sequence[Any]],
    is_categorical: Bool[ndarray, " features"],
    missing_range: Float64[ndarray, "features 2"],
    accepts_missing: bool,
) -> Float64[ndarray, "rows features"]:
    """Return rows as float64, rounded to `dtype`, with NaN for missing values and codes for categories.

    `TreeEnsemble` documents the arguments.
    """
    if named and hasattr(x, "columns"):
        check_columns(list(map(str, x.columns)), names)
    shape = tuple(np.shape(x))
    if len(shape) != TABLE_DIMENSIONS or shape[1] != len(names):
        raise ValueError(f"x must have shape (rows, {len(names)}), one column per feature of the model; got {shape}")
    rows = np.ascontiguousarray(_to_codes(x, levels, names) if levels else check_numbers("x", x))
    if dtype == "float32":
        with np.errstate(over="ignore"):  # the splits send an infinite value to the same side
            rows = rows.astype(np.float32).astype(np.float64)
    for column in np.flatnonzero(~np.isnan(missing_range[:, 0])):
        low, high = missing_range[column]
        rows[(rows[:, column] >= low) & (rows[:, column] <= high), column] = np.nan
    for column in np.flatnonzero(is_categorical):
        fractional = rows[:, column] % 1 > 0
        if fractional.any():
            raise ValueError(
                f"column {names[column]!r} must contain whole category codes, got {rows[fractional, column][0]:g}"
            )
    if not accepts_missing and np.isnan(rows).any():
        row, column = np.argwhere(np.isnan(rows))[0]
        raise ValueError(
            f"x must not contain missing values: row {row}, column {names[column]!r} is NaN, and this model has no rule "
            "for missing values; impute them as in training"
        )
    return rows


def check_columns(columns: Sequence[str], names: Sequence[str]) -> None:
    """Raise a ValueError that names the first difference unless a table has the columns that the model was fitted on."""
    if list(columns) == list(names):
        return
    if sorted(columns) == sorted(names):
        raise ValueError(f"x must have its columns in the order of the model: {shorten(list(names), 200)}")
    absent = [name for name in names if name not in columns]
    unknown = [name for name in columns if name not in names]
    parts = [f"{what} {shorten(which, 200)}" for what, which in (("lacks", absent), ("also has", unknown)) if which]
    raise ValueError(f"x must have the columns that the model was fitted on; it {' and '.join(parts)}")


def _to_codes(x: Array, levels: Mapping[int, Sequence[Any]], names: Sequence[str]) -> Float64[ndarray, "rows features"]:
    """Return a table as numbers, with the codes of categories in the columns that have levels."""
    is_frame = hasattr(x, "iloc")
    table = x if is_frame else to_numpy(x)
    rows = np.empty(tuple(np.shape(x)))
    for column, name in enumerate(names):
        values = table.iloc[:, column].to_numpy() if is_frame else table[:, column]
        if column in levels:
            codes = {level: code for code, level in enumerate(levels[column])}
            rows[:, column] = [codes.get(value, np.nan) for value in values.tolist()]
        else:
            numbers = values.astype(np.float64) if values.dtype == object else values
            rows[:, column] = check_numbers(f"column {name!r}", numbers)
    return rows
