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
    levels_in_frames: bool,
    refuses_unseen: bool,
    is_categorical: Bool[ndarray, " features"],
    missing_range: Float64[ndarray, "features 2"],
    accepts_missing: bool,
) -> Float64[ndarray, "rows features"]:
    """Return rows as float64, rounded to `dtype`, with NaN for missing values and codes for categories.

    `TreeEnsemble` documents the arguments.
    """
    is_frame = hasattr(x, "iloc")
    if named and is_frame:
        check_columns(list(map(str, x.columns)), names)
    shape = tuple(np.shape(x))
    if len(shape) != TABLE_DIMENSIONS or shape[1] != len(names):
        raise ValueError(f"x must have shape (rows, {len(names)}), one column per feature of the model; got {shape}")
    if is_frame or (levels and not levels_in_frames):
        rows = _to_numbers(x, names, levels, refuses_unseen=refuses_unseen)
    else:
        rows = np.ascontiguousarray(check_numbers("x", x))
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
            f"x must not contain missing values: row {row}, column {names[column]!r} is NaN, and this model has no "
            "rule for missing values; impute them as in training"
        )
    return rows


def check_columns(columns: Sequence[str], names: Sequence[str]) -> None:
    """Raise a ValueError that names the difference unless a table has the columns that the model was fitted on."""
    if list(columns) == list(names):
        return
    if sorted(columns) == sorted(names):
        raise ValueError(f"x must have its columns in the order of the model: {shorten(list(names), 200)}")
    absent = [name for name in names if name not in columns]
    unknown = [name for name in columns if name not in names]
    parts = [f"{what} {shorten(which, 200)}" for what, which in (("lacks", absent), ("also has", unknown)) if which]
    raise ValueError(f"x must have the columns that the model was fitted on; it {' and '.join(parts)}")


def _to_numbers(
    x: Array, names: Sequence[str], levels: Mapping[int, Sequence[Any]], *, refuses_unseen: bool
) -> Float64[ndarray, "rows features"]:
    """Return a table as numbers, column by column: codes where a column has levels, else what it contains."""
    is_frame = hasattr(x, "iloc")
    table = x if is_frame else to_numpy(x)
    rows = np.empty(tuple(np.shape(x)))
    for column, name in enumerate(names):
        values = table.iloc[:, column] if is_frame else table[:, column]
        if column in levels:
            rows[:, column] = _to_codes(name, values.tolist(), levels[column], refuses_unseen=refuses_unseen)
        else:
            try:
                rows[:, column] = (
                    values.to_numpy(np.float64, na_value=np.nan) if is_frame else values.astype(np.float64)
                )
            except (TypeError, ValueError) as error:
                raise TypeError(f"column {name!r} must contain numbers, as in training ({error})") from error
    return rows


def _to_codes(name: str, values: list[Any], levels: Sequence[Any], *, refuses_unseen: bool) -> list[float]:
    """Return the code of each category; a missing or unseen one is NaN."""
    codes = {level: float(code) for code, level in enumerate(levels)}
    found = [codes.get(value, np.nan) for value in values]
    if refuses_unseen:
        for value, code in zip(values, found, strict=True):
            if code != code and not _is_missing(value):  # noqa: PLR0124 - NaN differs from itself
                raise ValueError(f"column {name!r} must contain categories of the training data, got {shorten(value)}")
    return found


def _is_missing(value: object) -> bool:
    """Whether a value is None, NaN, or the missing value of pandas."""
    return value is None or type(value).__name__ in {"NAType", "NaTType"} or value != value  # noqa: PLR0124 - NaN
