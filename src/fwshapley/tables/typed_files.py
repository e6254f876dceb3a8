"""Reading .parquet and .xlsx files, whose entries have types, with the interface of `CsvFile`."""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fwshapley._internal.wording import counted, listed
from fwshapley.tables.columns import infer_dtype, is_text, repeated

PARQUET, EXCEL = ".parquet", ".xlsx"
ENGINES = {PARQUET: "pyarrow", EXCEL: "openpyxl"}

FIRST_ROWS = {PARQUET: 0, EXCEL: 2}
"""Number of the first row: as in a DataFrame, and as in a spreadsheet below its header."""

EMPTY = ("", "#N/A", "#NA", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
"""Texts in cells that stand for a missing entry, as in a .csv file."""


@dataclass(frozen=True, eq=False)
class TypedFile:
    """A .parquet file or a sheet of an .xlsx file that was read.

    Attributes:
        path: of the file; perhaps with the name of a sheet, as in homes.xlsx:prices.
        frame: its rows, indexed as people count them: from 0 in a .parquet file, as a spreadsheet counts otherwise.
        has_cells: whether entries are cells that each have a type, rather than columns.
    """

    path: Path
    frame: pd.DataFrame
    has_cells: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.frame.columns)

    def read(self, as_text: Collection[str] = ()) -> tuple[pd.DataFrame, list[str]]:
        """Return the rows, with notes on what was done besides.

        Columns of a .parquet file keep their types. In a sheet, blank rows are left out, and a column of cells is read
        as it would be from a .csv file, except that dates are dates.

        Args:
            as_text: columns that are read as text, also if they contain numbers.
        """
        return self._read(set(as_text), ())

    def read_labeled(self, label: str, as_text: Collection[str] = ()) -> tuple[pd.DataFrame, pd.Series, list[str]]:
        """Return features, labels as text (missing where there is none), and notes; "?" is a missing entry, too.

        Args:
            label: column of the labels.
            as_text: columns of features that are read as text.
        """
        frame, notes = self._read({label, *as_text}, ("?",))
        return frame, frame.pop(label), notes

    def read_texts(self) -> pd.DataFrame:
        """Return all entries as text; missing ones are empty."""
        return self.frame.apply(lambda entries: _to_texts(entries).fillna("")).astype(object)

    def _read(self, as_text: set[str], missing: Collection[str]) -> tuple[pd.DataFrame, list[str]]:
        frame, notes = self.frame, []
        if self.has_cells:
            blank = frame.isna().all(axis=1)
            frame = frame[~blank]
            notes = [f"{counted(int(blank.sum()), 'blank row')} skipped"] * bool(blank.any())
        columns = {name: self._read_column(frame[name], as_text=name in as_text, missing=missing) for name in frame}
        return pd.DataFrame(columns, index=frame.index), notes

    def _read_column(self, entries: pd.Series, *, as_text: bool, missing: Collection[str]) -> pd.Series:
        is_category = isinstance(entries.dtype, pd.CategoricalDtype)
        if as_text and not is_category:
            entries = _to_texts(entries).str.strip()
        elif self.has_cells:
            entries = _read_cells(entries)
        if missing and is_text(entries) and not is_category:
            entries = entries.where(~entries.str.strip().isin(missing))
        return entries


def split_sheet(path: Path) -> tuple[Path, str | None]:
    """Return a path and the name of a sheet, as in homes.xlsx:prices; None if there is none."""
    start, mark, sheet = str(path).rpartition(f"{EXCEL}:")
    return (Path(start + EXCEL), sheet) if mark and not path.exists() else (path, None)


def is_typed(path: Path) -> bool:
    """Return whether a path is that of a .parquet or an .xlsx file, perhaps with a sheet."""
    return split_sheet(path)[0].suffix.lower() in ENGINES


def open_typed(path: Path) -> TypedFile:
    """Read a .parquet file or a sheet of an .xlsx file, by default the first."""
    file, sheet = split_sheet(path)
    kind = file.suffix.lower()
    if importlib.util.find_spec(ENGINES[kind]) is None:
        raise ModuleNotFoundError(
            f"{path} needs {ENGINES[kind]}, which is not installed: pip install 'fwshapley[files]', or save the table "
            "as a .csv file"
        )
    frame = _read_parquet(file) if kind == PARQUET else _read_sheet(file, sheet)
    frame.columns = pd.Index([str(name).strip() for name in frame.columns], dtype=object)
    if repeated(frame.columns):
        raise ValueError(f"{path} has more than one column of the name {listed(repeated(frame.columns))}: rename them")
    if frame.empty:
        raise ValueError(f"{path} has no rows")
    first = FIRST_ROWS[kind]
    frame.index = pd.RangeIndex(first, first + len(frame))
    return TypedFile(path, frame.apply(infer_dtype) if kind == PARQUET else frame, has_cells=kind == EXCEL)


def _read_parquet(file: Path) -> pd.DataFrame:
    with _errors_explained(file):
        return pd.read_parquet(file, engine="pyarrow")


def _read_sheet(file: Path, sheet: str | None) -> pd.DataFrame:
    """Return the cells of a sheet below its header, as objects; missing ones are None."""
    with _errors_explained(file), pd.ExcelFile(file, engine="openpyxl") as book:
        sheets = book.sheet_names
        chosen = sheets[0] if sheet is None else sheet
        options: dict[str, Any] = {"header": None, "dtype": object, "na_filter": False}
        cells = pd.read_excel(book, sheet_name=chosen, **options) if chosen in sheets else pd.DataFrame()
    if chosen not in sheets:
        raise ValueError(f"{file} has no sheet {sheet!r}; it has {listed(sheets)}")
    cells = cells.map(_without_empty)
    if cells.empty or cells.iloc[0].isna().all():
        raise ValueError(f"the first row of {file} is blank: it must contain the names of the columns")
    names = [f"Unnamed: {number}" if pd.isna(name) else str(name) for number, name in enumerate(cells.iloc[0])]
    return cells.iloc[1:].set_axis(names, axis=1)


def _without_empty(cell: Any) -> Any:  # noqa: ANN401 - of any type that a cell can have
    """Return a cell, None if it is empty or its text stands for a missing entry."""
    is_empty = cell.strip() in EMPTY if isinstance(cell, str) else bool(pd.isna(cell))
    return None if is_empty else cell


def _read_cells(entries: pd.Series) -> pd.Series:
    """Return a column of cells with the type that a .csv file would have: numbers, also as text; else text."""
    kind = pd.api.types.infer_dtype(entries, skipna=True)
    if kind == "string":
        numbers = pd.to_numeric(entries, errors="coerce")
        return numbers if bool((numbers.notna() == entries.notna()).all()) else _infer_text(entries)
    if kind == "boolean":
        return entries if entries.isna().any() else entries.astype(bool)
    if kind == "empty":
        return entries.astype("float64")
    typed = infer_dtype(entries)
    return _infer_text(_to_texts(typed)) if typed.dtype == object else typed


def _to_texts(entries: pd.Series) -> pd.Series:
    """Return entries as text, missing ones as missing."""
    texts: pd.Series[Any] = entries.astype(object).map(str, na_action="ignore")
    return texts.where(entries.notna())


def _infer_text(entries: pd.Series) -> pd.Series:
    """Return a column of texts with pandas' dtype for them."""
    return pd.Series(entries.tolist(), entries.index, name=entries.name)


@contextmanager
def _errors_explained(path: Path) -> Iterator[None]:
    """Turn what pandas and its engines raise on a file into what is wrong with it."""
    try:
        yield
    except (ValueError, OSError, KeyError, TypeError, zipfile.BadZipFile) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = (str(error).splitlines() or [""])[0]
        raise ValueError(f"{path} is damaged, or of another format than its name says ({reason})") from error
