"""Files as pandas reads them, with every failure explained: which file, what is wrong with it, what to do."""

from __future__ import annotations

import codecs
import lzma
import struct
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.errors import EmptyDataError, ParserError, ParserWarning

from fwshapley._internal.checks import find_closest
from fwshapley._internal.wording import counted, listed

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}

ARRAYS = (("x", "y"), ("X", "y"), ("features", "labels"))
"""Names of features and labels in an .npz file."""

COMPRESSED = {".gz", ".bz2", ".xz", ".zip"}
"""Endings behind .csv of files that are read as they are."""

FOREIGN = {
    *(".xlsx", ".xls", ".ods", ".parquet", ".feather", ".json", ".jsonl", ".h5", ".hdf5", ".sav", ".dta", ".db"),
    *(".npy", ".pkl", ".pickle", ".joblib", ".pt", ".pth", ".pt2", ".onnx", ".safetensors", ".ckpt", ".bin"),
    *(".py", ".ipynb", ".html", ".pdf", ".doc", ".docx", ".gif", ".tif", ".tiff"),
    *(".tar", ".tgz", ".zst", ".7z", ".rar"),
}
"""Endings of files that are no tables, or cannot be read here."""

NO_LABEL = ["", "#N/A", "#NA", "<NA>", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null", "?"]
"""What stands for a missing label; "None", which pandas counts among them, often is a class."""

MISSING = [*NO_LABEL, "None", "#N/A N/A", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"]

DECIMAL_COMMA = r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?|[+-]?\d+"

WIDE = ("utf-16", "utf-32")
LOOKED_AT = 2**20
"""Bytes at the start of a file that are looked at for what no text holds."""

ENCRYPTED = 1
"""Flag of a file in a .zip file."""

FIRST_ROW = 2
"""Row of a spreadsheet below its header."""

MOST_COLUMNS_LISTED = 12

DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError)
"""What is raised on compressed files that are cut off, changed, or compressed in another way than their name says."""


class Sheet(NamedTuple):
    """What a file holds.

    Attributes:
        frame: a column per feature, indexed by row: as a spreadsheet counts, or from 0 for arrays.
        labels: as text, missing where there is none.
        label: name of their column.
        notes: what was done to read it.
    """

    frame: pd.DataFrame
    labels: pd.Series
    label: str
    notes: list[str]


def read_sheet(path: Path, label: str | None, encoding: str = "utf-8", as_text: Collection[str] = ()) -> Sheet:
    """Read a table.

    Args:
        path: of a .csv file, whose separator is found in its header, or an .npz file with arrays x and y.
        label: name of the column (or array) of labels; an .npz file can do without.
        encoding: of a .csv file.
        as_text: columns not to be taken for numbers.
    """
    _check_file(path)
    if path.suffix.lower() == ".npz":
        return _read_arrays(path, label)
    with _failures_explained(path, encoding):
        return _read_csv(path, label, encoding, as_text)


def read_frame(path: Path, encoding: str = "utf-8", as_text: Collection[str] = ()) -> tuple[pd.DataFrame, list[str]]:
    """Read a .csv file as pandas.read_csv would for a model, with notes on what was done besides.

    Entries are pandas' own: blanks at their start stay, and what is missing is what pandas counts as such.

    Args:
        path: of the file, whose separator is found in its header.
        encoding: of the file.
        as_text: columns not to be taken for numbers.
    """
    _check_file(path)
    with _failures_explained(path, encoding):
        encoding = _check_encoding(encoding)
        separator, names = _read_header(path, encoding)
        types = dict.fromkeys(set(as_text) & set(names), str)
        frame = _read_rows(path, encoding, separator, names, dtype=types, low_memory=False)
        return _tidy(path, frame, separator, as_text)


def _check_file(path: Path) -> None:
    """Raise unless a path may be that of a table."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give a .csv or .npz file")
    if not path.is_file():
        raise ValueError(f"{path} is a pipe or a device, and tables are read more than once: save it to a file first")
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty")
    if is_foreign(path):
        raise ValueError(
            f"{path} cannot be read: tables come as .csv files, perhaps compressed ({', '.join(sorted(COMPRESSED))}), "
            "or as .npz files, so save it as one of these first"
        )
    if path.suffix.lower() == ".zip":
        _check_zip(path)


def is_foreign(path: Path) -> bool:
    """Return whether the name of a file says that it is no table, or in a format that is not read."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    compressed = suffixes[-1:] and suffixes[-1] in COMPRESSED
    return any(suffix in FOREIGN for suffix in (suffixes if compressed else suffixes[-1:]))


def _check_zip(path: Path) -> None:
    """Raise unless a .zip file holds one file that can be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            held = archive.infolist()
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path} is damaged or cut off ({error}): get it again, whole") from error
    if len(held) != 1 or held[0].is_dir():
        raise ValueError(f"{path} must hold one .csv file, it holds {listed(each.filename for each in held) or 'none'}")
    if held[0].flag_bits & ENCRYPTED:
        raise ValueError(f"{path} is encrypted: unpack it first")


@contextmanager
def _failures_explained(path: Path, encoding: str) -> Iterator[None]:
    """Turn what pandas raises on a file into what is wrong with it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ParserWarning)
            yield
    except UnicodeError as error:
        raise ValueError(_about_encoding(path, encoding)) from error
    except EmptyDataError as error:
        raise ValueError(f"the first line of {path} is blank: it must hold the names of the columns") from error
    except ParserWarning as error:
        raise ValueError(f"{path} is malformed: its rows have more fields than its header has names") from error
    except ParserError as error:
        reason = " ".join(str(error).removeprefix("Error tokenizing data. C error: ").split())
        raise ValueError(f"{path} is malformed: {reason}") from error
    except DAMAGED as error:
        if path.suffix.lower() not in COMPRESSED:
            raise
        raise ValueError(f"{path} is damaged or cut off ({error}): get it again, whole") from error


def read_texts(path: Path, encoding: str = "utf-8") -> pd.DataFrame:
    """Return all entries of a .csv file exactly as they are written, indexed by row as `read_sheet` does."""
    encoding = _check_encoding(encoding)
    separator, names = _read_header(path, encoding)
    return _read_rows(path, encoding, separator, names, dtype=str, na_filter=False)


def _read_rows(
    path: Path,
    encoding: str,
    separator: str,
    names: list[str],
    **how: Any,  # noqa: ANN401 - options of pandas
) -> pd.DataFrame:
    """Return the rows below a header, indexed as a spreadsheet counts."""
    frame = pd.read_csv(
        path,
        sep=separator,
        encoding=encoding,
        names=names,
        header=0,
        index_col=False,
        skip_blank_lines=False,  # so that rows keep their numbers
        **how,
    )
    frame.index = pd.RangeIndex(FIRST_ROW, FIRST_ROW + len(frame))
    return frame


def _read_csv(path: Path, label: str | None, encoding: str, as_text: Collection[str]) -> Sheet:
    encoding = _check_encoding(encoding)
    separator, names = _read_header(path, encoding)
    label = check_column(path, label, names, "--label")
    frame = _read_rows(
        path,
        encoding,
        separator,
        names,
        dtype=dict.fromkeys({label, *as_text} & set(names), str),
        na_values={name: NO_LABEL if name == label else MISSING for name in names},
        keep_default_na=False,
        skipinitialspace=True,
        low_memory=False,  # so that a column has one type
    )
    frame, notes = _tidy(path, frame, separator, {label, *as_text})
    labels = frame.pop(label).str.strip()
    return Sheet(frame, labels.mask(labels == ""), label, notes)


def _tidy(path: Path, frame: pd.DataFrame, separator: str, as_text: Collection[str]) -> tuple[pd.DataFrame, list[str]]:
    """Leave out blank rows and mend decimal commas, with notes on it."""
    if frame.empty:
        raise ValueError(f"{path} has a header, but no rows below it")
    notes = [f"columns are separated by {SEPARATORS[separator]}"] if separator != "," else []
    blank = frame.isna().all(axis=1)
    if blank.any():
        frame = frame[~blank].copy()
        notes.append(f"{counted(int(blank.sum()), 'blank row')} skipped")
    if separator != ",":
        notes += _mend_decimal_commas(frame, as_text)
    return frame, notes


def _check_text(path: Path, encoding: str) -> None:
    """Raise on NUL bytes at the start of a file, which pandas would read past; wide encodings have them."""
    if path.suffix.lower() in COMPRESSED or encoding.startswith(WIDE):
        return
    with path.open("rb") as file:
        start = file.read(LOOKED_AT)
    if b"\0" in start and not start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError(f"{path} holds NUL bytes: it is damaged, no text, or needs --encoding utf-16")


def _read_header(path: Path, encoding: str) -> tuple[str, list[str]]:
    """Return the separator, which is the one that finds most names in the header, and those names."""
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
    separator = max(headers, key=lambda each: headers[each].shape[1])
    cells = [str(name).strip() for name in headers[separator].iloc[0]]
    names = [name or f"Unnamed: {number}" for number, name in enumerate(cells)]  # as pandas names them
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{path} has more than one column of the name {listed(twice)}: rename them")
    return separator, names


def _mend_decimal_commas(frame: pd.DataFrame, as_text: Collection[str]) -> list[str]:
    """Turn columns of numbers such as 3,14 into numbers: no separator is in the way."""
    mended = []
    for name in frame.columns.difference([*as_text], sort=False):
        column = frame[name].dropna()
        if pd.api.types.is_string_dtype(column) and len(column) and column.str.fullmatch(DECIMAL_COMMA).all():
            frame[name] = pd.to_numeric(frame[name].str.replace(",", ".", regex=False))
            mended.append(name)
    return [f"numbers with a decimal comma read as such: {listed(mended)}"] if mended else []


def _read_arrays(path: Path, label: str | None) -> Sheet:
    arrays = load_arrays(path)
    x_name, y_name = _name_arrays(path, list(arrays), label)
    x, y = arrays[x_name], arrays[y_name]
    if not x.size or len(x) != y.size:
        raise ValueError(f"{path} must hold a label per row: {x_name} has shape {x.shape}, {y_name} {y.shape}")
    if x.dtype.kind not in "fiub":
        raise ValueError(f"{x_name} of {path} must be numbers, got {x.dtype}")
    table = x.reshape(len(x), -1)
    labels = pd.Series(y.reshape(-1))
    frame = pd.DataFrame(table, columns=[f"{x_name}[{number}]" for number in range(table.shape[1])])
    return Sheet(frame, labels.astype(str).where(labels.notna()), y_name, [f"rows are counted from 0, as in {x_name}"])


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an .npz file; nothing in it is run."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, AttributeError, RuntimeError) as error:
        raise ValueError(f"{path} is damaged, or not an .npz file of plain arrays") from error


def _name_arrays(path: Path, names: list[str], label: str | None) -> tuple[str, str]:
    """Names of the arrays of features and of labels."""
    for x_name, y_name in ARRAYS:
        if x_name in names and (label or y_name) in names:
            return x_name, label or y_name
    pairs = " or ".join(f"{x_name} and {y_name}" for x_name, y_name in ARRAYS)
    raise ValueError(f"{path} must have arrays {pairs}; it has {listed(names, MOST_COLUMNS_LISTED)}")


def check_column(path: Path, wanted: str | None, names: list[str], option: str) -> str:
    """Return the name of a column that is there, or say which are."""
    there = f"its columns are {listed(names, MOST_COLUMNS_LISTED)}"
    if wanted is None:
        raise ValueError(f"which column of {path} holds the labels? Give {option}; {there}")
    if wanted in names:
        return wanted
    meant = find_closest(wanted, names)
    hint = f" (did you mean {meant!r}?)" if meant else ""
    if meant is None and any(_is_number(name) for name in names):
        hint = " (is the line with their names missing?)"
    raise ValueError(f"{path} has no column {wanted!r}{hint}; {there}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_encoding(encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name
        "".encode(encoding)  # there are codecs that are none of text, such as hex
    except (LookupError, ValueError) as error:
        raise ValueError(
            f"there is no text encoding {encoding!r}; common ones are utf-8, cp1252, latin-1, utf-16"
        ) from error
    return "utf-8-sig" if name == "utf-8" else name  # Excel puts a mark before UTF-8


def _about_encoding(path: Path, encoding: str) -> str:
    with path.open("rb") as file:
        wide = file.read(2) in {b"\xff\xfe", b"\xfe\xff"}
    likely = "utf-16" if wide else "cp1252 (Windows) or latin-1"
    return f"{path} is not {encoding} text: say how it is encoded, as in --encoding {likely}"
