"""The usual rows of JSON as numbers of a network, without a DataFrame, which would take most of a request's time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fwshapley.tables.network_encoding import TableSchema

NUMBERS = frozenset({int, float, type(None)})


@dataclass(frozen=True)
class PlainRows:
    """Encodes rows of numbers, texts and flags as `TableSchema` does; it leaves to it whatever is unusual.

    Attributes:
        width: number of columns.
        select: returns the entries of an object in the order of the columns; None if rows must be lists.
        codes: of the categories of some columns, by number of the column.
        kinds: type of the categories of these columns.
        gaps: which columns may have missing numbers.
        largest: number that can be used.
        dtype: of the network's inputs.
    """

    width: int
    select: Callable[[Mapping[str, Any]], Sequence[Any]] | None
    codes: Mapping[int, Mapping[Any, int]]
    kinds: Mapping[int, type]
    gaps: NDArray[np.bool_]
    largest: float
    dtype: type[np.floating[Any]]

    @classmethod
    def of(cls, schema: TableSchema) -> Self | None:
        """Return what encodes the rows of a table; None if it has dates, or categories of several types.

        Args:
            schema: of the table.
        """
        codes: dict[int, dict[Any, int]] = {}
        kinds: dict[int, type] = {}
        for place, column in enumerate(schema.columns):
            types = {type(category) for category in column.categories}
            if column.kind == "date" or (column.n_codes and types not in ({str}, {bool})):
                return None
            if column.n_codes:
                codes[place] = {category: code for code, category in enumerate(column.categories)}
                kinds[place] = types.pop()
                if column.has_missing:
                    codes[place][None] = len(column.categories)
        dtype: type[np.floating[Any]] = np.float64 if schema.double else np.float32
        is_wide = len(schema.columns) > 1  # of a single name, itemgetter returns the entry itself
        select = itemgetter(*schema.names) if schema.is_frame and is_wide else None
        largest = float(np.finfo(dtype).max)
        return cls(len(schema.columns), select, codes, kinds, np.array(schema.gaps), largest, dtype)

    def encode(self, instances: object, most: int) -> NDArray[Any] | None:
        """Return instances as the network takes them; None if any of them is not plain, wrong ones among them.

        Args:
            instances: as a client sent them.
            most: largest number of instances.
        """
        if not isinstance(instances, list) or not 0 < len(instances) <= most:
            return None
        rows = [self._read_row(row) for row in instances]
        if None in rows:
            return None
        numbers = np.array(rows, dtype=np.float64)  # None becomes NaN
        usable = np.abs(numbers) <= self.largest
        if not usable.all() and not (usable | (np.isnan(numbers) & self.gaps)).all():
            return None
        return numbers.astype(self.dtype)

    def _read_row(self, row: object) -> Sequence[Any] | None:
        """Return the entries of a row, with codes for categories; None if it is not plain."""
        if isinstance(row, dict):
            if self.select is None or len(row) != self.width:
                return None
            try:
                entries = list(self.select(row))
            except KeyError:
                return None
        elif isinstance(row, list) and len(row) == self.width:
            entries = row.copy() if self.codes else row
        else:
            return None
        for place, codes in self.codes.items():
            entry = entries[place]
            code = codes.get(entry) if entry is None or type(entry) is self.kinds[place] else None
            if code is None:
                return None
            entries[place] = code
        return entries if NUMBERS.issuperset(map(type, entries)) else None
