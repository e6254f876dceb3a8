"""Reading tables in files; every error names the file, what is wrong with it, and what to do.

A .csv file may be compressed; .parquet and .xlsx files are read by `typed_files`.
"""

from __future__ import annotations

import codecs
import lzma
import struct
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.errors import EmptyDataError, ParserError, ParserWarning

from fwshapley._internal.checks import find_closest
from fwshapley._internal.wording import counted, listed
from fwshapley.tables.columns import repeated
from fwshapley.tables.typed_files import ENGINES, PARQUET, TypedFile, is_typed, open_typed, split_sheet

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}

INPUT_ARRAYS = ("x", "X", "features", "images", "x_train", "X_train", "data", "x_test", "X_test")
LABEL_ARRAYS = ("y", "labels", "y_train", "y_test")
"""Names of arrays in an .npz file; the first that it has is read."""

COMPRESSED = {".gz", ".bz2", ".xz", ".zip"}
"""Endings of compressed .csv files, such as .csv.gz."""

FOREIGN = {
    *(".xls", ".xlsm", ".xlsb", ".ods", ".feather", ".json", ".jsonl", ".h5", ".hdf5", ".sav", ".dta", ".db"),
    *(".npy", ".pkl", ".pickle", ".joblib", ".pt", ".pth", ".pt2", ".onnx", ".safetensors", ".ckpt", ".bin"),
    *(".py", ".ipynb", ".html", ".pdf", ".doc", ".docx", ".gif", ".tif", ".tiff"),
    *(".tar", ".tgz", ".zst", ".7z", ".rar"),
}
"""Endings of files that are not tables, or not of a format that is read."""

READABLE = f".csv file, perhaps compressed ({', '.join(sorted(COMPRESSED))}), or as a .parquet, .xlsx or .npz file"
"""What a table can be saved as."""

MISSING_LABELS = ["", "#N/A", "#NA", "<NA>", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null", "?"]
"""Texts that stand for a missing label; "None", which pandas counts among them, often is a class."""

MISSING = [*MISSING_LABELS, "None", "#N/A N/A", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"]

DECIMAL_COMMA = r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?|[+-]?\d+"

BINARY_PREFIX = 2**20
"""Bytes at the start of a file that are searched for what no text contains."""

ENCRYPTED = 1
"""Flag of a file in a .zip file."""

FIRST_ROW = 2
"""Row of a spreadsheet below its header."""

MAX_COLUMNS_LISTED = 12

DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError)
"""Errors of reading a compressed file that is damaged, or compressed in another way than its ending suggests."""


@dataclass(frozen=True)
class CsvFile:
    """A .csv file whose header was read.

    Attributes:
        path: of the file.
        encoding: of its text.
        separator: of its columns: the one of commas, semicolons and tabs that finds most names.
        names: of its columns.
    """

    path: Path
    encoding: str
    separator: str
    names: tuple[str, ...]

    def read(self, as_text: Collection[str] = ()) -> tuple[pd.DataFrame, list[str]]:
        """Return the rows as pandas.read_csv returns them, with notes on what was done besides.

        Rows are indexed as a spreadsheet counts them (the header is row 1); blank ones are left out.

        Args:
            as_text: columns that are read as text, also if they look like numbers.
        """
        return self._tidy(self._read(dtype=dict.fromkeys(set(as_text) & {*self.names}, str)), as_text)

    def read_labeled(self, label: str, as_text: Collection[str] = ()) -> tuple[pd.DataFrame, pd.Series, list[str]]:
        """Return features, labels as text (missing where there is none), and notes.

        Texts lose the blanks at their start, and "?" is a missing entry, too.

        Args:
            label: column of the labels.
            as_text: columns of features that are read as text.
        """
        frame, notes = self._tidy(
            self._read(
                dtype=dict.fromkeys({label, *as_text} & {*self.names}, str),
                na_values={name: MISSING_LABELS if name == label else MISSING for name in self.names},
                keep_default_na=False,
                skipinitialspace=True,
            ),
            {label, *as_text},
        )
        labels = frame.pop(label).str.strip()
        return frame, labels.mask(labels == ""), notes

    def read_texts(self) -> pd.DataFrame:
        """Return all entries exactly as they are written, indexed as a spreadsheet counts rows."""
        return self._read(dtype=str, na_filter=False)

    def _read(self, **options: Any) -> pd.DataFrame:  # noqa: ANN401 - options of pandas
        with _errors_explained(self.path, self.encoding):
            frame = pd.read_csv(
                self.path,
                sep=self.separator,
                encoding=self.encoding,
                names=list(self.names),
                header=0,
                index_col=False,
                skip_blank_lines=False,  # so that rows keep their numbers
                low_memory=False,  # so that a column has one type
                **options,
            )
        if frame.empty:
            raise ValueError(f"{self.path} has a header, but no rows below it")
        frame.index = pd.RangeIndex(FIRST_ROW, FIRST_ROW + len(frame))
        return frame

    def _tidy(self, frame: pd.DataFrame, as_text: Collection[str]) -> tuple[pd.DataFrame, list[str]]:
        """Leave out blank rows and read decimal commas, which are possible where commas do not separate columns."""
        notes = []
        blank = frame.isna().all(axis=1)
        if blank.any():
            frame = frame[~blank].copy()
            notes.append(f"{counted(int(blank.sum()), 'blank row')} skipped")
        if self.separator == ",":
            return frame, notes
        notes.insert(0, f"columns are separated by {SEPARATORS[self.separator]}")
        decimal = []
        for name in frame.columns.difference([*as_text], sort=False):
            column = frame[name].dropna()
            if pd.api.types.is_string_dtype(column) and len(column) and column.str.fullmatch(DECIMAL_COMMA).all():
                frame[name] = pd.to_numeric(frame[name].str.replace(",", ".", regex=False))
                decimal.append(name)
        if decimal:
            notes.append(f"numbers with a decimal comma: {listed(decimal)}")
        return frame, notes


TableFile = CsvFile | TypedFile


def open_table(path: Path, encoding: str = "utf-8") -> TableFile:
    """Open a table: a .csv file, a .parquet file, or an .xlsx file, perhaps with a sheet, as in homes.xlsx:prices."""
    if not is_typed(path):
        return open_csv(path, encoding)
    _check_file(split_sheet(path)[0])
    return open_typed(path)


def check_exists(path: Path) -> None:
    """Raise an error unless there is a file, or a folder; a path may name a sheet of an .xlsx file."""
    file, _ = split_sheet(path)
    if not file.exists():
        raise FileNotFoundError(f"there is no file {file}")


def about_rows(paths: Iterable[Path]) -> str:
    """Return how rows of files are counted, in words."""
    from_zero = {path.suffix.lower() in {PARQUET, ".npz"} for path in paths}
    if len(from_zero) > 1:
        return f"as in a spreadsheet, the header is row 1; counted from 0 in {PARQUET} files"
    return "counted from 0" if True in from_zero else "as in a spreadsheet, the header is row 1"


def open_csv(path: Path, encoding: str = "utf-8") -> CsvFile:
    """Read the header of a .csv file, perhaps compressed; its separator is a comma, a semicolon or a tab."""
    _check_file(path)
    encoding = _check_encoding(encoding)
    with _errors_explained(path, encoding):
        _check_text(path, encoding)
        headers = {
            separator: pd.read_csv(
                path,
                sep=separator,
                encoding=encoding,
                header=None,
                nrows=1,
                dtype=str,
                skip_blank_lines=False,
                na_filter=False,
            )
            for separator in SEPARATORS
        }
    separator = max(headers, key=lambda candidate: headers[candidate].shape[1])
    cells = [str(name).strip() for name in headers[separator].iloc[0]]
    names = [name or f"Unnamed: {number}" for number, name in enumerate(cells)]  # as pandas names them
    if repeated(names):
        raise ValueError(f"{path} has more than one column of the name {listed(repeated(names))}: rename them")
    return CsvFile(path, encoding, separator, tuple(names))


def is_foreign(path: Path) -> bool:
    """Return whether the name of a file has the ending of another format than those that are read."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes[-1:] and suffixes[-1] in COMPRESSED:
        return any(suffix in FOREIGN or suffix in ENGINES for suffix in suffixes)
    return any(suffix in FOREIGN for suffix in suffixes[-1:])


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an .npz file; nothing in it is run."""
    _check_file(path)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, AttributeError, RuntimeError) as error:
        raise ValueError(f"{path} is damaged, or not an .npz file of plain arrays") from error


def find_array(path: Path, arrays: Mapping[str, NDArray[Any]], names: Sequence[str], contents: str) -> str:
    """Return the first of some names that an .npz file has an array of, or raise an error.

    Args:
        path: of the file.
        arrays: what it has.
        names: to look for, as `INPUT_ARRAYS`.
        contents: what the array contains, for errors.
    """
    present = [name for name in names if name in arrays]
    if not present:
        listing = listed(arrays, MAX_COLUMNS_LISTED)
        raise ValueError(f"{path} must have an array {names[0]!r} of {contents}; it has {listing}")
    return present[0]


def check_column(path: Path, wanted: str | None, names: Sequence[str], option: str) -> str:
    """Return the name of a column that the file has, or raise an error that lists those that it has."""
    columns = f"its columns are {listed(names, MAX_COLUMNS_LISTED)}"
    if wanted is None:
        raise ValueError(f"{option} must name the column of {path} that contains the labels; {columns}")
    if wanted in names:
        return wanted
    meant = find_closest(wanted, names)
    hint = f" (did you mean {meant!r}?)" if meant else ""
    if meant is None and any(_is_number(name) for name in names):
        hint = " (is the line with their names missing?)"
    raise ValueError(f"{path} has no column {wanted!r}{hint}; {columns}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_file(path: Path) -> None:
    """Raise an error unless a path may be that of a table."""
    check_exists(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give a table, such as a .csv file")
    if not path.is_file():
        raise ValueError(f"{path} is a pipe or a device, and tables are read more than once: save it to a file first")
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty")
    if is_foreign(path):
        raise ValueError(f"{path} cannot be read: save the table as a {READABLE}")
    if path.suffix.lower() == ".zip":
        _check_zip(path)


def _check_zip(path: Path) -> None:
    """Raise an error unless a .zip file contains one file that can be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path} is damaged or cut off ({error}): get it again") from error
    if len(members) != 1 or members[0].is_dir():
        names = listed(member.filename for member in members) or "none"
        raise ValueError(f"{path} must contain one .csv file, it contains {names}")
    if members[0].flag_bits & ENCRYPTED:
        raise ValueError(f"{path} is encrypted: unpack it first")


def _check_text(path: Path, encoding: str) -> None:
    """Raise an error on NUL bytes, which pandas would skip; files of a wide encoding or compressed may have them."""
    if path.suffix.lower() in COMPRESSED or encoding.startswith(("utf-16", "utf-32")):
        return
    with path.open("rb") as file:
        start = file.read(BINARY_PREFIX)
    if b"\0" in start and not start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError(f"{path} contains NUL bytes: it is damaged, not a text file, or needs --encoding utf-16")


def _check_encoding(encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name
        "".encode(encoding)  # some codecs, such as hex, are not of text
    except (LookupError, ValueError) as error:
        raise ValueError(
            f"there is no text encoding {encoding!r}; common ones are utf-8, cp1252, latin-1, utf-16"
        ) from error
    return "utf-8-sig" if name == "utf-8" else name  # Excel puts a mark before UTF-8


@contextmanager
def _errors_explained(path: Path, encoding: str) -> Iterator[None]:
    """Turn what pandas raises on a file into what is wrong with it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ParserWarning)
            yield
    except UnicodeError as error:
        with path.open("rb") as file:
            wide = file.read(2) in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}
        likely = "utf-16" if wide else "cp1252 (Windows) or latin-1"
        raise ValueError(
            f"{path} is not {encoding.removesuffix('-sig')} text: give its encoding, as in --encoding {likely}"
        ) from error
    except EmptyDataError as error:
        raise ValueError(f"the first line of {path} is blank: it must contain the names of the columns") from error
    except ParserWarning as error:
        raise ValueError(f"{path} is malformed: its rows have more fields than its header has names") from error
    except ParserError as error:
        reason = " ".join(str(error).removeprefix("Error tokenizing data. C error: ").split())
        raise ValueError(f"{path} is malformed: {reason}") from error
    except DAMAGED as error:
        if path.suffix.lower() not in COMPRESSED:
            raise
        raise ValueError(f"{path} is damaged or cut off ({error}): get it again") from error
