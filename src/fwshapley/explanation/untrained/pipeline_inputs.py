"""Tables as users of a pipeline have them, and as its last step gets them. Nothing here imports torch."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64
from numpy import ndarray

from fwshapley._internal.checks import Array
from fwshapley.explanation.untrained.background_rows import check_table
from fwshapley.explanation.untrained.preprocessing import first_names
from fwshapley.tables.columns import infer_dtype
from fwshapley.tables.network_encoding import PROBLEMS, TableSchema, as_numbers
from fwshapley.tables.unusable_entries import UnusableEntry, refuse

Table = Any
"""A DataFrame or an array, as the background is."""

MAX_MESSAGE = 200
MAX_TRIED = 100
"""Rows among which one is looked for that the preprocessing accepts."""


class PipelineInputs:
    """Selects the columns of tables, and calls the transformers of a pipeline.

    Args:
        steps: fitted transformers.
        schema: of some rows of the background: its columns, and whether it is a DataFrame.
        gap: what the last step reads where a sparse table has no entry.

    Attributes:
        order: the column of the table that each column comes from that the pipeline was fitted on; -1 if it has none.
        base: a row that the preprocessing accepts, once it is known.
        check: raises a TypeError if what the last step gets are no numbers, once the last step is read.
    """

    def __init__(self, steps: Sequence[Any], schema: TableSchema, gap: float) -> None:
        self.steps = steps
        self.schema = schema
        self.gap = gap
        self.base: Table | None = None
        self.check: Callable[[Table], object] | None = None
        names = first_names(steps) if schema.is_frame else None
        places = {name: place for place, name in enumerate(schema.names)}
        fitted = schema.names if names is None else names
        self.order: Int64[ndarray, " fitted"] = np.array([places.get(name, -1) for name in fitted])

    def select(self, argument: str, x: Array) -> Table:
        """Return the columns of the background from a table, in its form, or raise an error that names the argument."""
        table = check_table(argument, x)
        if self.schema.is_frame and isinstance(table, pd.DataFrame):
            return self.schema.select_columns(table)
        try:
            numbers = as_numbers(table)
        except TypeError as error:
            raise TypeError(f"{argument} cannot be used: {error}; pass a DataFrame") from error
        count = len(self.schema.columns)
        if numbers.shape[1] != count:
            raise ValueError(f"{argument} must have {count} columns as the background, got {numbers.shape[1]}")
        if not self.schema.is_frame:
            return numbers
        labels = pd.Index([column.label for column in self.schema.columns], tupleize_cols=False)
        return pd.DataFrame(numbers, columns=labels)

    def as_fitted(self, table: Table) -> Table:
        """Return the columns that the pipeline was fitted on, in its order."""
        return table.iloc[:, self.order[self.order >= 0]] if self.schema.is_frame else table

    def prepare(self, argument: str, table: Table) -> Table:
        """Return what the last step gets, or raise an error that names the entry that the preprocessing refuses."""
        try:
            return self._transform(table)
        except Exception as error:  # whatever transformers raise
            refuse(self.find_refused(table), labels_of(table))
            steps = " + ".join(type(step).__name__ for step in self.steps)
            raise ValueError(f"{argument} cannot be used: {steps} failed: {_describe(error)}") from error

    def show(self, table: Table) -> tuple[Float64[ndarray, "rows columns"], dict[str, Any]]:
        """Return a table as numbers for display, and what these stand for: the encodings of an `Attribution`."""
        if not isinstance(table, pd.DataFrame):
            return table, {}
        numbers = np.empty(table.shape)
        encodings: dict[str, Any] = {}
        for place, column in enumerate(self.schema.columns):
            entries = infer_dtype(table.iloc[:, place])
            if column.kind != "category":  # texts that stand for numbers are shown as numbers
                numbers[:, place] = column.to_numbers(entries)
                if not (np.isnan(numbers[:, place]) & entries.notna()).any():
                    encodings |= {str(place): "date"} if column.kind == "date" else {}
                    continue
            categorical = entries.astype("category").cat
            numbers[:, place] = np.where(categorical.codes < 0, np.nan, categorical.codes)
            encodings[str(place)] = [str(category) for category in categorical.categories]
        return numbers, encodings

    def find_refused(self, table: Table) -> list[UnusableEntry]:
        """Return the entries that the preprocessing refuses, such as categories that an encoder does not know."""
        if self._problem(table) is None:
            return []
        rows = (table[row : row + 1] for row in range(min(len(table), MAX_TRIED)))
        base = self.base if self.base is not None else next((row for row in rows if self._problem(row) is None), None)
        if base is None:
            return []
        refused = []
        for place, name in enumerate(self.schema.names):
            column = table.iloc[:, place] if self.schema.is_frame else pd.Series(table[:, place])
            codes, levels = pd.factorize(column, use_na_sentinel=False)
            entries = pd.Series(levels)
            for level, problem in self._search(base, place, entries, np.arange(len(entries))):
                refused += [
                    UnusableEntry(row, name, entries.tolist()[level], problem)
                    for row in np.flatnonzero(codes == level).tolist()
                ]
        return sorted(refused, key=lambda entry: entry.row)

    def _search(
        self, base: Table, place: int, entries: pd.Series, some: Int64[ndarray, " some"]
    ) -> Iterator[tuple[int, str]]:
        """Yield which of some entries of a column the preprocessing refuses in a good row, and why, by halving."""
        problem = self._problem(_replace(base, place, entries.iloc[some]))
        if problem is None:
            return
        if len(some) == 1:
            yield int(some[0]), problem
            return
        for half in np.array_split(some, 2):
            yield from self._search(base, place, entries, half)

    def _problem(self, table: Table) -> str | None:
        """Return what is wrong with a table according to the preprocessing; None if nothing is."""
        try:
            prepared = self._transform(table)
        except Exception as error:  # noqa: BLE001 - whatever transformers raise
            is_unknown = "unknown categor" in str(error)
            return PROBLEMS["category"] if is_unknown else f"is refused by the preprocessing ({_describe(error)})"
        try:
            if self.check is not None:
                self.check(prepared)
        except TypeError:
            return PROBLEMS["number"]
        return None

    def _transform(self, table: Table) -> Table:
        prepared = self.as_fitted(table)
        for step in self.steps:
            prepared = step.transform(prepared)
        if not hasattr(prepared, "toarray"):
            return prepared
        sparse = prepared.tocoo()
        dense = np.full(sparse.shape, self.gap)
        dense[sparse.row, sparse.col] = sparse.data
        return dense


def labels_of(table: Table) -> Any:  # noqa: ANN401 - an index or a range
    """Return the labels of rows, for errors."""
    return table.index if isinstance(table, pd.DataFrame) else range(len(table))


def mix_rows(table: Table, rows: Int64[ndarray, "columns rows"]) -> Table:
    """Return a table each of whose columns takes its entries from rows of its own.

    Args:
        table: what entries are taken from.
        rows: numbers of rows, for each column.
    """
    if not isinstance(table, pd.DataFrame):
        return np.take_along_axis(table, rows.T, 0)
    columns = [table.iloc[some, place].reset_index(drop=True) for place, some in enumerate(rows)]
    return pd.concat(columns, axis=1)


def _replace(base: Table, place: int, entries: pd.Series) -> Table:
    """Return copies of a row with other entries in one column."""
    if not isinstance(base, pd.DataFrame):
        rows = np.repeat(base, len(entries), 0)
        rows[:, place] = entries
        return rows
    copies = base.iloc[np.zeros(len(entries), dtype=int)].reset_index(drop=True)
    copies.isetitem(place, entries.array)
    return copies


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {textwrap.shorten(str(error), MAX_MESSAGE, placeholder=' ...').rstrip('.')}"
