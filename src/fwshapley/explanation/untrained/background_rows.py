"""Tables that explainers without training get: a background, and rows to explain. Nothing here imports torch."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64
from numpy import ndarray
from scipy.spatial.distance import cdist

from fwshapley._internal.checks import Array
from fwshapley.tables.network_encoding import TableSchema, Trained, describe_table
from fwshapley.tables.unusable_entries import UnusableEntry

Rows = Float64[ndarray, "rows columns"]

TABLE_AXES = 2

CANDIDATES = 2000
"""Rows that representatives are chosen from and should represent; their distances take 32 MB."""


def read_background(background: Array, *, any_model: bool, trained: Trained | None = None) -> tuple[TableSchema, Rows]:
    """Return the schema of a background and its rows as numbers, or raise an error that says what is wrong.

    Args:
        background: an array (rows, columns), lists, or a DataFrame.
        any_model: as for `describe_table`.
        trained: as for `describe_table`.
    """
    table = check_table("background", background)
    schema = describe_table(table, any_model=any_model, trained=trained)
    return schema, encode_rows("background", table, schema)


def encode_rows(name: str, x: Array, schema: TableSchema) -> Rows:
    """Return rows of a table as numbers, or raise an error that names the argument.

    Args:
        name: of the argument.
        x: rows, in the form of the background.
        schema: of the background.
    """
    table = check_table(name, x)
    try:
        rows = schema.to_numbers(table)
    except TypeError as error:
        raise TypeError(f"{name} cannot be used: {error}") from error
    if rows.shape[1] != len(schema.columns):
        raise ValueError(f"{name} must have {len(schema.columns)} columns as the background, got {rows.shape[1]}")
    largest = np.finfo(np.float64 if schema.double else np.float32).max
    wrong = ~(np.abs(rows) <= largest) & ~(np.isnan(rows) & np.array(schema.gaps))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        hint = "replace it"
        if np.isnan(rows[row, column]) and name != "background":
            hint = "fill it, or have missing entries of this column in the background too"
        raise ValueError(
            f"{name} must contain finite numbers: row {row}, {schema.names[column]!r} is {rows[row, column]:g} "
            f"({int(wrong.sum())} in all); {hint}"
        )
    return rows


def find_unusable(name: str, x: Array, schema: TableSchema) -> list[UnusableEntry]:
    """Return the entries that `encode_rows` refuses; its arguments."""
    table = check_table(name, x)
    try:
        return schema.find_unusable(table)
    except TypeError as error:
        raise TypeError(f"{name} cannot be used: {error}") from error


def choose_representatives(rows: Rows, schema: TableSchema, most: int, seed: int) -> Int64[ndarray, " some"]:
    """Return the numbers of some rows whose distribution is close to that of all, in increasing order.

    Rows are added one by one, each such that the energy distance between the chosen rows and all of them becomes least
    (the greedy form of Mak and Joseph's support points, 2018). They count the same. Of more than `CANDIDATES` rows, a
    random sample is represented.

    Args:
        rows: of a table, as numbers.
        schema: of the table.
        most: rows to return; all if there are fewer.
        seed: of the sample.
    """
    if len(rows) <= most:
        return np.arange(len(rows))
    generator = np.random.default_rng(seed)
    sample = np.sort(generator.choice(len(rows), min(max(CANDIDATES, 2 * most), len(rows)), replace=False))
    points = _as_points(rows[sample], schema)
    to_all = cdist(points, points).mean(1)
    to_chosen = np.zeros(len(points))
    chosen: list[int] = []
    for count in range(1, most + 1):
        gain = to_all - to_chosen / count
        gain[chosen] = np.inf
        chosen.append(int(gain.argmin()))
        to_chosen += cdist(points, points[chosen[-1:]])[:, 0]
    return np.sort(sample[chosen])


def _as_points(rows: Rows, schema: TableSchema) -> Float64[ndarray, "rows coordinates"]:
    """Return rows as points in which every column counts the same: two rows are sqrt(2) apart in each, or nearly so."""
    coordinates = []
    for numbers, column in zip(rows.T, schema.columns, strict=True):
        if column.n_codes:
            coordinates.append(np.eye(column.n_codes)[numbers.astype(int)])
            continue
        missing = np.isnan(numbers)
        known = numbers[~missing]
        spread = known.std() if len(known) else 0.0
        scaled = np.zeros(len(numbers))
        if spread > 0:
            scaled[~missing] = (known - known.mean()) / spread
        coordinates += [scaled[:, None], missing[:, None]]
    return np.concatenate(coordinates, 1, dtype=np.float64)


def check_table(name: str, x: Array) -> Array:
    """Return a table that is not empty, lists as an array."""
    table = x
    if isinstance(x, list | tuple):
        try:
            table = np.array(x)
        except ValueError as error:
            raise ValueError(f"{name} must have rows of equal length: {error}") from error
    shape = tuple(getattr(table, "shape", ()))
    if isinstance(x, pd.Series) or len(shape) != TABLE_AXES:
        got = f"shape {shape}" if shape else type(x).__name__
        hint = "; pass one row as a batch, x[[0]] or x.iloc[[0]]" if len(shape) == 1 else ""
        raise ValueError(f"{name} must be a table, (rows, columns); got {got}{hint}")
    if not shape[0]:
        raise ValueError(f"{name} has no rows")
    return table
