"""A table of labeled rows as numbers to value, with notes on how it came to be one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fwshapley._internal.wording import counted, listed
from fwshapley.tables.coordinates import Categories, Flaws, LeftOut, Numbers, understand
from fwshapley.tables.labels import Classes, find_classes
from fwshapley.tables.reading import Sheet, check_column, read_sheet, read_texts

Column = Numbers | Categories


@dataclass(frozen=True, eq=False)
class Table:
    """Labeled rows as numbers.

    Attributes:
        path: of the file that they come from.
        label: name of the column of labels.
        x: coordinates, a row per row of the file that has a label.
        y: place of each label among the classes.
        classes: what the labels may be, in order.
        rows: where each row is in the file, as a spreadsheet counts (the header is row 1); from 0 for an .npz file.
        features: the columns of the file other than the labels, as pandas reads them.
        notes: what was done, in short sentences.
        columns: how each column that is used became coordinates.
        encoding: of the file.
        noun: what a point is called.
        key: what says which point it is.
        whole: what all of them are called.
    """

    path: Path
    label: str
    x: NDArray[np.float64]
    y: NDArray[np.int64]
    classes: Classes
    rows: NDArray[np.int64]
    features: pd.DataFrame
    notes: tuple[str, ...]
    columns: tuple[Column, ...]
    encoding: str = "utf-8"

    noun: ClassVar[str] = "row"
    key: ClassVar[str] = "row"
    whole: ClassVar[str] = "table"

    def __len__(self) -> int:
        return len(self.y)

    @property
    def is_spreadsheet(self) -> bool:
        """Whether people read the file in rows and columns; otherwise it holds arrays."""
        return self.path.suffix.lower() != ".npz"

    @property
    def keys(self) -> list[str]:
        """Where each row is in the file, as text."""
        return [str(row) for row in self.rows]

    @property
    def about_keys(self) -> str:
        """Return how rows are counted."""
        how = "as a spreadsheet counts, the header is row 1" if self.is_spreadsheet else "counted from 0"
        return f"row: {how}"

    @property
    def origin(self) -> dict[str, Any]:
        """Return where the rows come from, as JSON holds it."""
        first, last = int(self.rows[0]), int(self.rows[-1])
        return {
            "table": self.path.name,
            "label": self.label,
            "first_row": first,
            "rows_left_out": np.setdiff1d(np.arange(first, last), self.rows).tolist(),
        }

    def texts(self) -> pd.DataFrame:
        """Read the rows of a spreadsheet again, all entries exactly as they are written."""
        return read_texts(self.path, self.encoding).loc[self.rows]

    def read_reference(self, path: Path, *, encoding: str = "utf-8") -> Table:
        """Read another table of the same columns and classes, and turn it into numbers as this one was.

        Columns that this table has none of are ignored; rows without a label are left out.
        """
        truths = {"False", "True"}  # which pandas reads in any case, as TRUE
        texts = [
            each.name
            for each in self.columns
            if isinstance(each, Categories) and not truths.issuperset(each.categories)
        ]
        sheet, notes = _drop_unlabeled(path, read_sheet(path, self.label, encoding, as_text=texts))
        used = [each.name for each in self.columns]
        absent = [name for name in used if name not in sheet.frame]
        if absent:
            raise ValueError(f"{path} lacks columns that {self.path} has: {listed(absent)}")
        extra = sheet.frame.columns.difference([*used, *self.features.columns], sort=False)
        if len(extra):
            notes.append(f"ignored, since {self.path.name} has no such column: {listed(extra)}")
        y = self.classes.codes(sheet.labels)
        if (y < 0).any():
            unknown = sheet.labels[y < 0].unique()
            raise ValueError(
                f"column {self.label} of {path} has labels that {self.path} does not have: {listed(unknown)}; no row "
                "can be of use for those, so drop these rows, or mend their labels"
            )
        x, more = _encode(path, sheet.frame, self.columns, self.path.name)
        without = [name for place, name in enumerate(self.classes.names) if place not in set(y.tolist())]
        if without:
            more.append(
                f"no row of {listed(without)}: rows of {self.path.name} with that label can only seem to do harm"
            )
        notes = [f"{path.name}: {note}" for note in (*notes, *more)]
        rows = sheet.frame.index.to_numpy(np.int64)
        return Table(path, self.label, x, y, self.classes, rows, sheet.frame, tuple(notes), self.columns, encoding)


def read_table(
    path: Path,
    label: str | None,
    *,
    encoding: str = "utf-8",
    ignore: Collection[str] = (),
    scale: bool = True,
) -> Table:
    """Read labeled rows and turn them into numbers, 8 bytes for each row and coordinate.

    Numbers are standardized, categories become a coordinate each, dates days; missing numbers become the median. Left
    out are columns that are constant, that name or number the rows, or that have too many categories, and rows without
    a label. The notes of the table say so.

    Args:
        path: of a .csv file, whose separator (comma, semicolon or tab) is found in its header, or an .npz file with
            arrays x and y, or features and labels.
        label: name of the column of labels; an .npz file can do without.
        encoding: of a .csv file.
        ignore: columns to leave out.
        scale: standardize numbers; otherwise they stay as they are.
    """
    sheet, notes = _drop_unlabeled(path, read_sheet(path, label, encoding))
    classes = find_classes(sheet.labels, f"column {sheet.label} of {path}")
    for name in ignore:
        check_column(path, name, [*sheet.frame.columns], "--ignore")
    understood = [understand(sheet.frame[name], scale=scale) for name in sheet.frame if name not in set(ignore)]
    columns = tuple(each for each in understood if not isinstance(each, LeftOut))
    left_out = [each for each in understood if isinstance(each, LeftOut)]
    if not columns:
        reasons = "; ".join(f"{each.name}: {each.reason}" for each in left_out[:3]) or "there is no other column"
        raise ValueError(f"{path} has no column to tell its rows apart by, other than the label ({reasons})")
    notes += _about_columns(columns, scale=scale) + _about_left_out(left_out, ignore)
    x, more = _encode(path, sheet.frame, columns)
    return Table(
        path=path,
        label=sheet.label,
        x=x,
        y=classes.codes(sheet.labels),
        classes=classes,
        rows=sheet.frame.index.to_numpy(np.int64),
        features=sheet.frame,
        notes=tuple(note[:1].upper() + note[1:] for note in (*notes, *more)),
        columns=columns,
        encoding=encoding,
    )


def _drop_unlabeled(path: Path, sheet: Sheet) -> tuple[Sheet, list[str]]:
    """Leave out rows without a label; the others keep their numbers."""
    unlabeled = sheet.labels.isna()
    notes = list(sheet.notes)
    if unlabeled.all():
        raise ValueError(f"column {sheet.label} of {path} has no label in any row")
    if unlabeled.any():
        rows = sheet.frame.index[unlabeled]
        notes.append(f"{counted(len(rows), 'row')} without a label left out: {listed(rows)}")
        sheet = sheet._replace(frame=sheet.frame[~unlabeled], labels=sheet.labels[~unlabeled])
    return sheet, notes


def _encode(
    path: Path, frame: pd.DataFrame, columns: Sequence[Column], known: str = ""
) -> tuple[NDArray[np.float64], list[str]]:
    """Coordinates of rows, and notes on what was missing or strange.

    Args:
        path: of the file, for errors.
        frame: its columns.
        columns: how they become coordinates.
        known: file that this was found out from, if another.
    """
    x = np.empty((len(frame), sum(each.width for each in columns)))
    at, flaws = 0, []
    for each in columns:
        try:
            flaws.append(each.encode(frame[each.name], x[:, at : at + each.width]))
        except ValueError as error:
            raise ValueError(f"{path}: {error}, unlike {known}") from error
        at += each.width
    return x, _about_flaws(columns, flaws, known)


def _about_flaws(columns: Sequence[Column], flaws: Sequence[Flaws], known: str) -> list[str]:
    """Notes on missing and strange entries; missing categories are categories, so none of them."""
    both = list(zip(columns, flaws, strict=True))
    missing = [(each.name, flaw.missing) for each, flaw in both if isinstance(each, Numbers) and flaw.missing]
    odd = [(each, f"{each.name} ({listed(flaw.odd, most=3)})") for each, flaw in both if flaw.odd]
    texts = [name for each, name in odd if isinstance(each, Numbers)]
    unseen = [name for each, name in odd if isinstance(each, Categories)]
    notes = []
    if texts:
        notes.append(f"texts among numbers taken for missing: {listed(texts)}")
    if missing:
        total = counted(sum(number for _, number in missing), "missing number")
        median = "the median of the column" + f" in {known}" * bool(known)
        notes.append(f"{total} replaced by {median}: {listed(f'{name} ({number:,})' for name, number in missing)}")
    if unseen:
        notes.append(f"categories that {known} lacks count as equally far from all it has: {listed(unseen)}")
    return notes


def _about_columns(columns: Sequence[Column], *, scale: bool) -> list[str]:
    """Notes on how the columns that are used became coordinates."""
    numbers = [each.name for each in columns if isinstance(each, Numbers) and not each.dates]
    dates = [each.name for each in columns if isinstance(each, Numbers) and each.dates]
    categories = [f"{each.name} ({each.width})" for each in columns if isinstance(each, Categories)]
    how = "standardized (mean 0, deviation 1)" if scale else "used as they are"
    notes = []
    if numbers:
        notes.append(f"{counted(len(numbers), 'column')} of numbers {how}: {listed(numbers)}")
    if dates:
        notes.append(f"{counted(len(dates), 'column')} of dates turned into days, {how}: {listed(dates)}")
    if categories:
        apart = "are as far apart as two typical rows in a standardized column" if scale else "are the root of 2 apart"
        notes.append(
            f"{counted(len(categories), 'column')} of categories turned into a 0 or 1 for each, so that different ones "
            f"{apart}: {listed(categories)}"
        )
    return notes


def _about_left_out(left_out: Sequence[LeftOut], ignore: Collection[str]) -> list[str]:
    """Notes on columns that are not used, together where the reason is the same."""
    by_reason: dict[str, list[str]] = {}
    for each in left_out:
        by_reason.setdefault(each.reason, []).append(each.name)
    if ignore:
        by_reason["as asked"] = list(ignore)
    return [f"left out: {listed(names)} ({reason})" for reason, names in by_reason.items()]
