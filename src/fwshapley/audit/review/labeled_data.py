"""The labels of a data set in a file or a folder, and copies of it in which some points have other labels.

A corrected point gets the label of another point as it is written there, so that types and spelling remain.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fwshapley._internal.files import folder_written_whole, written_whole
from fwshapley._internal.progress import ProgressBar
from fwshapley.audit.review.csv_cells import CsvText
from fwshapley.tables.file_reader import (
    LABEL_ARRAYS,
    CsvFile,
    check_column,
    check_exists,
    find_array,
    load_arrays,
    open_table,
)
from fwshapley.tables.labels import Classes, find_classes
from fwshapley.tables.typed_files import PARQUET, TypedFile, split_sheet


@dataclass(frozen=True, eq=False)
class LabeledTable:
    """A .csv, .parquet or .xlsx file; its points are named by the numbers of their rows."""

    file: CsvFile | TypedFile
    column: str
    labels: Mapping[str, str]
    classes: Classes

    noun: ClassVar[str] = "row"

    @property
    def path(self) -> Path:
        """Path of the file, without the name of a sheet."""
        return split_sheet(self.file.path)[0]

    @classmethod
    def read(cls, path: Path, label: str | None, encoding: str) -> LabeledTable:
        """Read the labels of a table."""
        file = open_table(path, encoding)
        column = check_column(path, label, file.names, "label")
        _, labels, _ = file.read_labeled(column)
        return cls(file, column, *_name_labels(labels, f"column {column} of {path}"))

    def write(self, out: Path, donors: Mapping[str, str]) -> None:
        """Write a copy of the file in its format."""
        rows = {int(point): int(donor) for point, donor in donors.items()}
        with written_whole(out) as temporary:
            if isinstance(self.file, CsvFile):
                text = CsvText.read(self.file)
                text.write(text.copy_cells(self.column, rows), temporary)
            elif self.path.suffix.lower() == PARQUET:
                _write_parquet(self.file, self.column, rows, temporary)
            else:
                _write_sheet(self.file, self.column, rows, temporary)


def _write_parquet(file: TypedFile, column: str, donors: Mapping[int, int], out: Path) -> None:
    """Write a .parquet file with some labels replaced; all types and the metadata remain."""
    from pyarrow import array, parquet  # noqa: PLC0415 - optional

    table = parquet.ParquetFile(file.path).read()
    place = [name.strip() for name in table.column_names].index(column)
    labels = table.column(place).take(array(_replaced(len(table), donors)))
    parquet.write_table(table.set_column(place, table.schema.field(place), labels), out)


def _write_sheet(file: TypedFile, column: str, donors: Mapping[int, int], out: Path) -> None:
    """Write an .xlsx file with some labels of a sheet replaced; other sheets, formulas and formats remain."""
    from openpyxl import load_workbook  # noqa: PLC0415 - optional

    path, sheet = split_sheet(file.path)
    book = load_workbook(path)
    cells = book[sheet or book.sheetnames[0]]
    place = file.names.index(column) + 1
    for row, donor in donors.items():
        cells.cell(row, place).value = file.frame[column][donor]
    book.save(out)


@dataclass(frozen=True, eq=False)
class LabeledArrays:
    """An .npz file; its points are named by their positions, from 0."""

    path: Path
    array: str
    labels: Mapping[str, str]
    classes: Classes

    noun: ClassVar[str] = "row"

    @classmethod
    def read(cls, path: Path, label: str | None) -> LabeledArrays:
        """Read the array of labels."""
        arrays = load_arrays(path)
        name = find_array(path, arrays, LABEL_ARRAYS if label is None else [label], "labels")
        labels = pd.Series(arrays[name].reshape(-1))
        texts = labels.astype(str).where(labels.notna())
        return cls(path, name, *_name_labels(texts, f"{name} of {path}"))

    def write(self, out: Path, donors: Mapping[str, str]) -> None:
        """Write all arrays, the labels with their type; compressed if they were."""
        arrays = load_arrays(self.path)
        with zipfile.ZipFile(self.path) as archive:
            compression = archive.infolist()[0].compress_type
        old = arrays[self.array]
        order = _replaced(old.size, {int(point): int(donor) for point, donor in donors.items()})
        arrays[self.array] = old.reshape(-1)[order].reshape(old.shape)
        with written_whole(out) as temporary, zipfile.ZipFile(temporary, "w", compression) as archive:
            for name, array in arrays.items():  # np.savez has arguments whose names arrays may have
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)


@dataclass(frozen=True, eq=False)
class LabeledFolder:
    """A folder with one folder per class; its points are the files in them, named by their paths."""

    path: Path
    labels: Mapping[str, str]
    classes: Classes

    noun: ClassVar[str] = "file"

    @classmethod
    def read(cls, path: Path) -> LabeledFolder:
        """Find the files of each class."""
        names = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
        labels = {name: name.partition("/")[0] for name in names if "/" in name}
        if not labels:
            raise ValueError(f"{path} has no folders with files: it needs one folder per class, as in photos/cat/1.png")
        return cls(path, labels, Classes(tuple(sorted(set(labels.values()))), numeric=False))

    def write(self, out: Path, donors: Mapping[str, str]) -> None:
        """Copy all files, corrected ones into the folders of their new classes."""
        taken = {*self.labels} - {*donors}
        with folder_written_whole(out) as temporary, ProgressBar("copying files", len(self.labels)) as bar:
            for name, label in self.labels.items():
                target = name
                if name in donors:
                    target = _free_name(name.replace(label, self.labels[donors[name]], 1), label, taken)
                    taken.add(target)
                (temporary / target).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.path / name, temporary / target)
                bar.advance(1)


def _free_name(name: str, label: str, taken: set[str]) -> str:
    """Return a path that no file has: the one that was asked for, or one that tells where the file came from."""
    path, number = Path(name), 1
    while name in taken:
        name = path.with_stem(f"{path.stem}-from-{label}{f'-{number}' * (number > 1)}").as_posix()
        number += 1
    return name


LabeledData = LabeledTable | LabeledArrays | LabeledFolder
"""Points by name with their labels, which can be written with some points having the labels of others, their donors."""


def open_labeled(path: Path, label: str | None, encoding: str) -> LabeledData:
    """Read the labels of a table, of an .npz file, or of a folder with one folder per class.

    Args:
        path: of the file or folder.
        label: column of the labels; an .npz file can do without, a folder has none.
        encoding: of a .csv file.
    """
    check_exists(path)
    if path.is_dir():
        if label is not None:
            raise ValueError(f"label={label!r} is for tables, and {path} is a folder, whose folders are the labels")
        return LabeledFolder.read(path)
    if path.suffix.lower() == ".npz":
        return LabeledArrays.read(path, label)
    return LabeledTable.read(path, label, encoding)


def _name_labels(labels: pd.Series, where: str) -> tuple[dict[str, str], Classes]:
    """Return the labels that there are by the names of their rows, and the classes."""
    there = labels.dropna()
    return dict(zip(map(str, there.index), there, strict=True)), find_classes(there, where)


def _replaced(count: int, donors: Mapping[int, int]) -> NDArray[np.int64]:
    """Return the position from which each of some entries is taken: its own, or that of its donor."""
    order = np.arange(count)
    order[list(donors)] = list(donors.values())
    return order
