"""A table of labeled rows as coordinates to measure distances with, and notes on how they came about."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fwshapley._internal.wording import counted, listed
from fwshapley.tables.distance_scaling import Flaws, LeftOut, ScaledColumn, scale_column
from fwshapley.tables.file_reader import (
    INPUT_ARRAYS,
    LABEL_ARRAYS,
    CsvFile,
    check_column,
    find_array,
    load_arrays,
    open_csv,
)
from fwshapley.tables.labels import Classes, find_classes

FLAGS = {"False", "True"}


@dataclass(frozen=True, eq=False)
class Table:
    """Labeled rows as coordinates.

    Attributes:
        path: of the file that they come from.
        label: name of the column or array of labels.
        x: coordinates, a row for each row of the file that has a label.
        y: position of each label among the classes.
        classes: the different labels, in order.
        rows: where each row is in the file, as a spreadsheet counts (the header is row 1); from 0 for an .npz file.
        columns: the columns that are used.
        unused: names of the others.
        notes: what was done, in short sentences.
        csv: the file, if it is a .csv file.
    """

    path: Path
    label: str
    x: NDArray[np.float64]
    y: NDArray[np.int64]
    classes: Classes
    rows: NDArray[np.int64]
    columns: tuple[ScaledColumn, ...]
    unused: tuple[str, ...]
    notes: tuple[str, ...]
    csv: CsvFile | None

    noun: ClassVar[str] = "row"
    key: ClassVar[str] = "row"

    def __len__(self) -> int:
        return len(self.y)

    @property
    def is_spreadsheet(self) -> bool:
        """Whether people read the file in rows and columns; otherwise it contains arrays."""
        return self.csv is not None

    @property
    def keys(self) -> list[str]:
        """Where each row is in the file, as text."""
        return [str(row) for row in self.rows]

    @property
    def about_keys(self) -> str:
        """How rows are counted."""
        return f"row: {'as in a spreadsheet, the header is row 1' if self.is_spreadsheet else 'counted from 0'}"

    @property
    def origin(self) -> dict[str, Any]:
        """Where the rows come from, JSON-compatible."""
        first, last = int(self.rows[0]), int(self.rows[-1])
        return {
            "table": self.path.name,
            "label": self.label,
            "first_row": first,
            "rows_left_out": np.setdiff1d(np.arange(first, last), self.rows).tolist(),
        }

    def texts(self) -> pd.DataFrame:
        """Read the rows of a .csv file again, all entries exactly as they are written."""
        if self.csv is None:
            raise ValueError(f"{self.path} contains arrays, not texts")
        return self.csv.read_texts().loc[self.rows]

    def read_reference(self, path: Path, *, encoding: str = "utf-8") -> Table:
        """Read another table with the same columns and classes, and scale it as this one was scaled.

        Columns that this table does not have are ignored; rows without a label are left out.
        """
        name = self.path.name
        texts = [
            column.name
            for column in self.columns
            if column.kind == "category" and not FLAGS.issuperset(column.column.categories)  # read as TRUE or true, too
        ]
        frame, labels, label, csv, notes = _read_labeled(path, self.label, encoding, as_text=texts)
        used = [column.name for column in self.columns]
        absent = [column for column in used if column not in frame]
        if absent:
            raise ValueError(f"{path} lacks columns that {self.path} has: {listed(absent)}")
        ignored = frame.columns.difference([*used, *self.unused], sort=False)
        if len(ignored):
            notes.append(f"ignored, since {name} has no such column: {listed(ignored)}")
        y = self.classes.positions(labels)
        if (y < 0).any():
            raise ValueError(
                f"column {self.label} of {path} has labels that {self.path} does not have: "
                f"{listed(labels[y < 0].unique())}; drop these rows, or correct their labels"
            )
        x, more = _scale_rows(path, frame, self.columns, name)
        unseen = [label for code, label in enumerate(self.classes.names) if code not in set(y.tolist())]
        if unseen:
            more.append(f"no row has label {listed(unseen)}: rows of {name} with that label get negative values or 0")
        notes = [f"{path.name}: {note}" for note in (*notes, *more)]
        rows = frame.index.to_numpy(np.int64)
        return Table(path, label, x, y, self.classes, rows, self.columns, self.unused, tuple(notes), csv)


def read_table(
    path: Path,
    label: str | None,
    *,
    encoding: str = "utf-8",
    ignore: Collection[str] = (),
    scale: bool = True,
) -> Table:
    """Read labeled rows and turn them into coordinates, 8 bytes for each row and coordinate.

    Numbers are standardized, dates become days, categories one coordinate each; missing numbers become the median.
    Columns that are constant, name or number the rows, or have too many categories are left out, and so are rows
    without a label. The notes of the table list what was left out.

    Args:
        path: of a .csv file, whose separator (comma, semicolon or tab) is found in its header, or an .npz file with
            arrays of inputs and labels, such as x and y.
        label: name of the column or array of labels; an .npz file can do without.
        encoding: of a .csv file.
        ignore: columns to leave out.
        scale: standardize numbers; otherwise they stay as they are.
    """
    frame, labels, label, csv, notes = _read_labeled(path, label, encoding)
    classes = find_classes(labels, f"column {label} of {path}")
    for name in ignore:
        check_column(path, name, [*frame.columns], "--ignore")
    described = [scale_column(frame[name], standardize=scale) for name in frame if name not in set(ignore)]
    columns = tuple(column for column in described if isinstance(column, ScaledColumn))
    left_out = [column for column in described if isinstance(column, LeftOut)]
    if not columns:
        reasons = "; ".join(f"{column.name}: {column.reason}" for column in left_out[:3]) or "it has no other column"
        raise ValueError(f"{path} has no column to compare its rows by, other than the label ({reasons})")
    notes += _about_columns(columns, scale=scale) + _about_left_out(left_out, ignore)
    x, more = _scale_rows(path, frame, columns)
    used = {column.name for column in columns}
    return Table(
        path=path,
        label=label,
        x=x,
        y=classes.positions(labels),
        classes=classes,
        rows=frame.index.to_numpy(np.int64),
        columns=columns,
        unused=tuple(str(name) for name in frame if name not in used),
        notes=tuple(note[:1].upper() + note[1:] for note in (*notes, *more)),
        csv=csv,
    )


def _read_labeled(
    path: Path, label: str | None, encoding: str, as_text: Collection[str] = ()
) -> tuple[pd.DataFrame, pd.Series, str, CsvFile | None, list[str]]:
    """Return features, labels as text, the name of their column, the .csv file and notes; without unlabeled rows."""
    if path.suffix.lower() == ".npz":
        csv = None
        frame, labels, label = _read_labeled_arrays(path, label)
        notes = [f"rows are counted from 0, as in {path.name}"]
    else:
        csv = open_csv(path, encoding)
        label = check_column(path, label, csv.names, "--label")
        frame, labels, notes = csv.read_labeled(label, as_text)
    unlabeled = labels.isna()
    if unlabeled.all():
        raise ValueError(f"column {label} of {path} has no label in any row")
    if unlabeled.any():
        rows = frame.index[unlabeled]
        notes.append(f"{counted(len(rows), 'row')} without a label left out: {listed(rows)}")
    return frame[~unlabeled], labels[~unlabeled], label, csv, notes


def _read_labeled_arrays(path: Path, label: str | None) -> tuple[pd.DataFrame, pd.Series, str]:
    """Return features, labels as text, and the name of the array of labels."""
    arrays = load_arrays(path)
    x_name = find_array(path, arrays, INPUT_ARRAYS, "inputs")
    y_name = find_array(path, arrays, LABEL_ARRAYS if label is None else [label], "labels")
    x, y = arrays[x_name], arrays[y_name]
    if not x.size or len(x) != y.size:
        raise ValueError(f"{path} must contain a label per row: {x_name} has shape {x.shape}, {y_name} {y.shape}")
    if x.dtype.kind not in "fiub":
        raise ValueError(f"{x_name} of {path} must be numbers, got {x.dtype}")
    table, labels = x.reshape(len(x), -1), pd.Series(y.reshape(-1))
    frame = pd.DataFrame(table, columns=[f"{x_name}[{number}]" for number in range(table.shape[1])])
    return frame, labels.astype(str).where(labels.notna()), y_name


def _scale_rows(
    path: Path, frame: pd.DataFrame, columns: Sequence[ScaledColumn], scaled_by: str = ""
) -> tuple[NDArray[np.float64], list[str]]:
    """Return coordinates of rows, and notes on what was missing or odd.

    Args:
        path: of the file, for errors.
        frame: its columns.
        columns: how they become coordinates.
        scaled_by: name of the file that the scaling was computed from, if it is another one.
    """
    x = np.empty((len(frame), sum(column.width for column in columns)))
    start = 0
    flaws = []
    for column in columns:
        try:
            flaws.append(column.write_coordinates(frame[column.name], x[:, start : start + column.width]))
        except ValueError as error:
            raise ValueError(f"{path}: {error}, unlike {scaled_by}") from error
        start += column.width
    return x, _about_flaws(columns, flaws, scaled_by)


def _about_flaws(columns: Sequence[ScaledColumn], flaws: Sequence[Flaws], scaled_by: str) -> list[str]:
    """Notes on missing and odd entries; a missing category is a category itself, so not noted."""
    pairs = list(zip(columns, flaws, strict=True))
    missing = [(column.name, flaw.missing) for column, flaw in pairs if column.kind != "category" and flaw.missing]
    odd = [(column.kind, f"{column.name} ({listed(flaw.odd, most=3)})") for column, flaw in pairs if flaw.odd]
    texts = [name for kind, name in odd if kind != "category"]
    unknown = [name for kind, name in odd if kind == "category"]
    notes = []
    if texts:
        notes.append(f"texts among numbers count as missing: {listed(texts)}")
    if missing:
        total = counted(sum(number for _, number in missing), "missing number")
        median = "the median of the column" + f" in {scaled_by}" * bool(scaled_by)
        notes.append(f"{total} replaced by {median}: {listed(f'{name} ({number:,})' for name, number in missing)}")
    if unknown:
        notes.append(f"categories that {scaled_by} lacks are equally far from all that it has: {listed(unknown)}")
    return notes


def _about_columns(columns: Sequence[ScaledColumn], *, scale: bool) -> list[str]:
    """Notes on how the columns that are used became coordinates."""
    how = "standardized (mean 0, standard deviation 1)" if scale else "used as they are"
    notes = []
    for kind, about in (("number", f"of numbers, {how}"), ("date", f"of dates, as days, {how}")):
        names = [column.name for column in columns if column.kind == kind]
        if names:
            notes.append(f"{counted(len(names), 'column')} {about}: {listed(names)}")
    categories = [f"{column.name} ({column.width})" for column in columns if column.kind == "category"]
    if categories:
        count = counted(len(categories), "column")
        notes.append(f"{count} of categories, one 0/1 coordinate per category: {listed(categories)}")
    return notes


def _about_left_out(left_out: Sequence[LeftOut], ignore: Collection[str]) -> list[str]:
    """Notes on columns that are not used, together where the reason is the same."""
    by_reason: dict[str, list[str]] = {}
    for column in left_out:
        by_reason.setdefault(column.reason, []).append(column.name)
    if ignore:
        by_reason["--ignore"] = list(ignore)
    return [f"left out: {listed(names)} ({reason})" for reason, names in by_reason.items()]
