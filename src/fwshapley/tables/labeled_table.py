"""A table of rows with labels or targets as coordinates to measure distances with, and notes on how they came about."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fwshapley._internal.wording import counted, listed, shortened
from fwshapley.tables.distance_scaling import ScaledColumn, TableScaling, scale_table
from fwshapley.tables.file_reader import (
    INPUT_ARRAYS,
    LABEL_ARRAYS,
    TableFile,
    about_rows,
    check_column,
    find_array,
    load_arrays,
    open_table,
)
from fwshapley.tables.labels import Classes, find_classes
from fwshapley.tables.targets import Task, TaskChoice, infer_task

FLAGS = {"False", "True"}
HOW_TO_CHOOSE = "choose with --task classification or --task regression"


@dataclass(frozen=True, eq=False)
class Table:
    """Labeled rows as coordinates.

    Attributes:
        path: of the file that they come from.
        label: name of the column or array of labels or targets.
        x: coordinates, a row for each row of the file that has a label.
        y: position of each label among the classes, or targets.
        classes: the different labels, in order; none for targets.
        rows: where each row is in the file, as a spreadsheet counts (the header is row 1); from 0 in a .parquet or .npz
            file.
        scaling: of the columns that are used.
        unused: names of the others.
        notes: what was done, in short sentences.
        file: the file, if people read it in rows and columns; None for an .npz file.
        frame: the features as they were read.
    """

    path: Path
    label: str
    x: NDArray[np.float64]
    y: NDArray[np.int64] | NDArray[np.float64]
    classes: Classes
    rows: NDArray[np.int64]
    scaling: TableScaling
    unused: tuple[str, ...]
    notes: tuple[str, ...]
    file: TableFile | None
    frame: pd.DataFrame

    noun: ClassVar[str] = "row"
    key: ClassVar[str] = "row"

    def __len__(self) -> int:
        return len(self.y)

    @property
    def task(self) -> Task:
        """Whether rows have labels or targets."""
        return "classification" if self.classes.names else "regression"

    @property
    def is_spreadsheet(self) -> bool:
        """Whether people read the file in rows and columns; otherwise it contains arrays."""
        return self.file is not None

    @property
    def columns(self) -> tuple[ScaledColumn, ...]:
        """The columns that are used."""
        return self.scaling.columns

    @property
    def keys(self) -> list[str]:
        """Where each row is in the file, as text."""
        return [str(row) for row in self.rows]

    @property
    def about_keys(self) -> str:
        """How rows are counted."""
        return f"row: {about_rows([self.path])}"

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
        """Read the rows of a file again, all entries as they are written."""
        if self.file is None:
            raise ValueError(f"{self.path} contains arrays, not texts")
        return self.file.read_texts().loc[self.rows]

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
        frame, labels, label, file, notes = _read_labeled(path, self.label, encoding, as_text=texts)
        used = [column.name for column in self.columns]
        absent = [column for column in used if column not in frame]
        if absent:
            raise ValueError(f"{path} lacks columns that {self.path} has: {listed(absent)}")
        ignored = frame.columns.difference([*used, *self.unused], sort=False)
        if len(ignored):
            notes.append(f"ignored, since {name} has no such column: {listed(ignored)}")
        y: NDArray[np.int64] | NDArray[np.float64]
        if self.task == "regression":
            y = _read_targets(labels, f"column {self.label} of {path}")
        else:
            y = self.classes.positions(labels)
            if (y < 0).any():
                raise ValueError(
                    f"column {self.label} of {path} has labels that {self.path} does not have: "
                    f"{listed(labels[y < 0].unique())}; drop these rows, or correct their labels"
                )
        x, more = self.scaling.coordinates(frame, str(path), scaled_by=name)
        unseen = [label for code, label in enumerate(self.classes.names) if code not in set(y.tolist())]
        if unseen:
            more.append(f"no row has label {listed(unseen)}: rows of {name} with that label get negative values or 0")
        notes = [f"{path.name}: {note}" for note in (*notes, *more)]
        rows = frame.index.to_numpy(np.int64)
        return Table(path, label, x, y, self.classes, rows, self.scaling, self.unused, tuple(notes), file, frame)


def read_table(
    path: Path,
    label: str | None,
    *,
    task: TaskChoice = "auto",
    encoding: str = "utf-8",
    ignore: Collection[str] = (),
    scale: bool = True,
) -> Table:
    """Read rows with labels or targets and turn them into coordinates, 8 bytes for each row and coordinate.

    Numbers are standardized, dates become days, categories one coordinate each; missing numbers become the median.
    Columns that are constant, name or number the rows, or have too many categories are left out, and so are rows
    without a label. The notes of the table list what was left out.

    Args:
        path: of a .csv file, whose separator (comma, semicolon or tab) is found in its header; of a .parquet or .xlsx
            file, perhaps with a sheet, as in homes.xlsx:prices; or an .npz file with arrays of inputs and labels, such
            as x and y.
        label: name of the column or array of labels; an .npz file can do without.
        task: whether the column contains classes or a target; "auto" tells by the numbers, or raises an error.
        encoding: of a .csv file.
        ignore: columns to leave out.
        scale: standardize numbers; otherwise they stay as they are.
    """
    frame, labels, label, file, notes = _read_labeled(path, label, encoding)
    where = f"column {label} of {path}"
    task = _find_task(labels, where) if task == "auto" else task
    classes = find_classes(labels, where) if task == "classification" else Classes((), numeric=True)
    for name in ignore:
        check_column(path, name, [*frame.columns], "--ignore")
    frame = frame.drop(columns=[*ignore])
    scaling = scale_table(frame, str(path), standardize=scale)
    notes += scaling.notes + [f"left out: {listed(ignore)} (--ignore)"] * bool(ignore)
    x, more = scaling.coordinates(frame, str(path))
    used = {column.name for column in scaling.columns}
    return Table(
        path=path,
        label=label,
        x=x,
        y=_read_targets(labels, where) if task == "regression" else classes.positions(labels),
        classes=classes,
        rows=frame.index.to_numpy(np.int64),
        scaling=scaling,
        unused=tuple(str(name) for name in [*frame, *ignore] if name not in used),
        notes=tuple(note[:1].upper() + note[1:] for note in (*notes, *more)),
        file=file,
        frame=frame,
    )


def _read_labeled(
    path: Path, label: str | None, encoding: str, as_text: Collection[str] = ()
) -> tuple[pd.DataFrame, pd.Series, str, TableFile | None, list[str]]:
    """Return features, labels as text, the name of their column, the file and notes; without unlabeled rows."""
    file: TableFile | None = None
    if path.suffix.lower() == ".npz":
        frame, labels, label = _read_labeled_arrays(path, label)
        notes = [f"rows are counted from 0, as in {path.name}"]
    else:
        file = open_table(path, encoding)
        label = check_column(path, label, file.names, "--label")
        frame, labels, notes = file.read_labeled(label, as_text)
    unlabeled = labels.isna()
    if unlabeled.all():
        raise ValueError(f"column {label} of {path} has no label in any row")
    if unlabeled.any():
        rows = frame.index[unlabeled]
        notes.append(f"{counted(len(rows), 'row')} without a label left out: {listed(rows)}")
    return frame[~unlabeled], labels[~unlabeled], label, file, notes


def _find_task(labels: pd.Series, where: str) -> Task:
    """Return whether labels, as text, are classes or targets."""
    numbers = pd.to_numeric(labels, errors="coerce").to_numpy(np.float64)
    return infer_task(where, numbers, HOW_TO_CHOOSE) if np.isfinite(numbers).all() else "classification"


def _read_targets(labels: pd.Series, where: str) -> NDArray[np.float64]:
    """Return targets as numbers, or raise an error that names the first that is none."""
    numbers = pd.to_numeric(labels, errors="coerce").to_numpy(np.float64)
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        raise ValueError(
            f"{where} must be finite numbers for regression, got {shortened(str(labels[wrong].iloc[0]))!r} in row "
            f"{labels.index[wrong][0]}"
        )
    return numbers


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
