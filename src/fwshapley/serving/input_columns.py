"""Instances of requests as inputs of explainers: rows of a table from JSON or tensors, and images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fwshapley.serving.request_errors import RequestError
from fwshapley.tables.network_encoding import TableSchema

Rows = pd.DataFrame | NDArray[Any]
"""Inputs in the form that an explainer takes."""

MAX_LETTERS = 60


@dataclass(frozen=True)
class InputColumn:
    """A column of a table, as clients see it.

    Attributes:
        name: of the column.
        kind: what it contains.
        categories: of a column of categories, if they are known.
    """

    name: str
    kind: Literal["number", "date", "category"] = "number"
    categories: tuple[Any, ...] = ()


@dataclass(frozen=True)
class InputFields:
    """Which instances a model takes.

    Attributes:
        shape: of one instance: (columns,) of a table, (channels, height, width) of images.
        columns: of a table; None for images.
        is_frame: whether the table has names of columns, so that an instance may be an object.
    """

    shape: tuple[int, ...]
    columns: tuple[InputColumn, ...] | None = None
    is_frame: bool = False

    @classmethod
    def of_schema(cls, schema: TableSchema) -> InputFields:
        """Return the fields of a table that a schema describes."""
        columns = tuple(InputColumn(column.name, column.kind, column.categories) for column in schema.columns)
        return cls((len(columns),), columns, schema.is_frame)

    def read_instances(self, instances: object, most: int) -> Rows:
        """Return instances of a JSON request; raise a RequestError that names the first wrong one.

        Args:
            instances: a list: of numbers, nested for images; or of rows of a table, as lists or objects.
            most: largest number of instances.
        """
        if not isinstance(instances, list) or not instances:
            raise RequestError("instances must be a list of at least one input", "instances")
        check_count(len(instances), most, "instances")
        if self.columns is None:
            return self._check_shape(_as_numbers(instances, "instances"), "instances")
        rows = [self._read_row(row, f"instances[{place}]") for place, row in enumerate(instances)]
        entries = {
            column.name: _read_entries(column, [row[place] for row in rows])
            for place, column in enumerate(self.columns)
        }
        if self.is_frame:
            return pd.DataFrame(entries)
        return np.stack(list(entries.values()), 1)

    def read_tensors(self, tensors: Mapping[str, NDArray[Any]], most: int) -> Rows:
        """Return the inputs of a request of tensors: one named "inputs", or one for each column.

        Args:
            tensors: by name.
            most: largest number of instances.
        """
        if "inputs" in tensors:
            if len(tensors) > 1:
                raise RequestError('expected one tensor named "inputs", or one for each column', "inputs")
            numbers = tensors["inputs"]
            if numbers.dtype.kind not in "iufb":
                raise RequestError(f"inputs must contain numbers, got {numbers.dtype}", "inputs")
            self._check_shape(numbers, "inputs")
            check_count(len(numbers), most, "inputs")
            if not self.is_frame or self.columns is None:
                return numbers
            texts = [column.name for column in self.columns if column.kind != "number"]
            if texts:
                raise RequestError(f"give one tensor for each column, since {texts[0]!r} contains no numbers", "inputs")
            return pd.DataFrame(numbers.astype(np.float64), columns=[column.name for column in self.columns])
        if self.columns is None or not self.is_frame:
            raise RequestError('the tensor "inputs" is missing', "inputs")
        return self._read_columns(tensors, most)

    def _read_columns(self, tensors: Mapping[str, NDArray[Any]], most: int) -> pd.DataFrame:
        """Return a table whose columns are tensors of shape (batch,) or (batch, 1)."""
        assert self.columns is not None  # noqa: S101 - the caller has checked it
        self._check_names(tensors, "inputs")
        first = self.columns[0].name
        entries = {}
        for column in self.columns:
            tensor = tensors[column.name]
            if tensor.shape not in ((len(tensor),), (len(tensor), 1)) or len(tensor) != len(tensors[first]):
                raise RequestError(f"the shape must be ({len(tensors[first])}, 1), got {tensor.shape}", column.name)
            entries[column.name] = _read_entries(column, tensor.reshape(-1).tolist())
        table = pd.DataFrame(entries)
        if not len(table):
            raise RequestError("at least one input is needed", first)
        check_count(len(table), most, first)
        return table

    def _read_row(self, row: object, field: str) -> Sequence[Any]:
        """Return the entries of a row in the order of the columns."""
        assert self.columns is not None  # noqa: S101 - the caller has checked it
        if isinstance(row, Mapping) and self.is_frame:
            self._check_names(row, field)
            return [row[column.name] for column in self.columns]
        if not isinstance(row, list):
            what = "a list or an object" if self.is_frame else "a list"
            raise RequestError(f"each instance must be {what} of {len(self.columns)} entries", field)
        if len(row) != len(self.columns):
            raise RequestError(f"expected {len(self.columns)} entries, got {len(row)}", field)
        return row

    def _check_names(self, given: Mapping[str, Any], field: str) -> None:
        """Raise a RequestError unless there is an entry for each column, and no other."""
        assert self.columns is not None  # noqa: S101 - the caller has checked it
        names = [column.name for column in self.columns]
        missing = [name for name in names if name not in given]
        if missing:
            raise RequestError(f"the column {missing[0]!r} is missing", f"{field}.{missing[0]}")
        unknown = [name for name in given if name not in names]
        if unknown:
            raise RequestError("there is no such column", f"{field}.{str(unknown[0])[:MAX_LETTERS]}")

    def _check_shape(self, numbers: NDArray[Any], field: str) -> NDArray[Any]:
        if numbers.shape[1:] != self.shape or not len(numbers):
            expected = ", ".join(map(str, self.shape))
            raise RequestError(f"expected shape (batch, {expected}) of at least one input, got {numbers.shape}", field)
        return numbers


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Return the rows of several requests, which come from the same `InputFields`, as one batch."""
    if len(parts) == 1:
        return parts[0]
    frames = [part for part in parts if isinstance(part, pd.DataFrame)]
    if frames:
        return pd.concat(frames, ignore_index=True)
    return np.concatenate([np.asarray(part) for part in parts])


def check_count(count: int, most: int, field: str) -> None:
    """Raise a RequestError if there are more instances than a request may have."""
    if count > most:
        raise RequestError(f"at most {most:,} instances a request, got {count:,}", field)


def _as_numbers(instances: list[Any], field: str) -> NDArray[np.float64]:
    """Return nested lists of numbers as an array."""
    try:
        numbers = np.array(instances)
        if numbers.dtype.kind in "iuf":
            return numbers.astype(np.float64)
        problem = "they must contain numbers alone"
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        problem = str(error).partition(".")[0]
    for place, instance in enumerate(instances):  # which one is it?
        try:
            fits = np.array(instance).dtype.kind in "iuf"
        except (ValueError, TypeError, OverflowError, RecursionError):
            fits = False
        if not fits:
            raise RequestError("it must be a nested list of numbers of equal lengths", f"{field}[{place}]")
    raise RequestError(f"instances must have the same shape: {problem}", field)


def _read_entries(column: InputColumn, entries: Sequence[Any]) -> NDArray[Any] | pd.Series:
    """Return the entries of a column, numbers as such; null is a missing entry."""
    if column.kind != "number":
        for place, entry in enumerate(entries):
            if not isinstance(entry, str | int | float | bool | bytes | None):
                raise RequestError("an entry must be text, a number, true, false or null", _field(place, column))
        plain = [entry.decode("utf-8", "replace") if isinstance(entry, bytes) else entry for entry in entries]
        return pd.Series(plain, dtype=object)
    numbers = np.empty(len(entries))
    for place, entry in enumerate(entries):
        if entry is not None and (isinstance(entry, bool) or not isinstance(entry, int | float)):
            raise RequestError(f"expected a number or null, got {str(entry)[:MAX_LETTERS]!r}", _field(place, column))
        try:
            numbers[place] = np.nan if entry is None else float(entry)
        except OverflowError as error:
            raise RequestError("the number is too large", _field(place, column)) from error
    return numbers


def _field(place: int, column: InputColumn) -> str:
    return f"instances[{place}].{column.name}"
