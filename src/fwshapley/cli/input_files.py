"""Files as inputs of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.text import Text

from fwshapley._internal.wording import counted, listed, listed_whole
from fwshapley.cli.console import errors
from fwshapley.cli.input_format import InputFormat, with_kind
from fwshapley.cli.pictures.files import (
    SUFFIXES,
    Color,
    Size,
    about_skipped,
    find_images,
    find_layout,
    read_images,
)
from fwshapley.explanation.inputs.image_layout import AXES, channels_first
from fwshapley.tables.columns import is_number, is_text
from fwshapley.tables.file_reader import (
    COMPRESSED,
    INPUT_ARRAYS,
    about_rows,
    check_column,
    check_exists,
    find_array,
    is_foreign,
    load_arrays,
    open_table,
)
from fwshapley.tables.unusable_entries import UnusableEntry

NAME_ARRAYS = ("names", "columns", "feature_names")
COLORS: Mapping[int, Color] = {1: "gray", 3: "rgb"}
MAX_BYTE = 255
UNUSABLE_COLUMNS = ["file", "row", "column", "entry", "problem"]


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs that were read.

    Attributes:
        x: a DataFrame whose index contains the row numbers of the file, which errors mention; or an array: (rows,
            columns) or (images, channels, height, width).
        files: the file of each input.
        rows: its row there, as a spreadsheet counts (the header is row 1), or from 0 in a .parquet or .npz file; None
            for a picture.
        names: of columns, if an .npz file has them.
        notes: what was done.
        skipped: names of pictures that cannot be read, and of rows that cannot be explained.
        unusable: entries of these rows that the explainer has no rule for, as lines of a table.
    """

    x: pd.DataFrame | NDArray[Any]
    files: tuple[str, ...]
    rows: tuple[int | None, ...]
    names: tuple[str, ...] | None
    notes: tuple[str, ...]
    skipped: tuple[str, ...] = ()
    unusable: pd.DataFrame | None = None

    def __len__(self) -> int:
        return len(self.x)

    @property
    def about_rows(self) -> str:
        """How rows are counted; empty for pictures."""
        if self.rows[0] is None:
            return ""
        return f"row numbers: {about_rows(map(Path, set(self.files)))}"

    def name(self, place: int) -> str:
        """Return the name of an input: its file, or its row and file."""
        path, row = Path(self.files[place]), self.rows[place]
        if row is None:
            return str(path)
        return f"row {row} of {path.name}" if len(set(self.files)) > 1 else f"row {row}"

    def take(self, places: NDArray[np.int64]) -> pd.DataFrame | NDArray[Any]:
        """Return some of the inputs."""
        return self.x.iloc[places] if isinstance(self.x, pd.DataFrame) else self.x[places]

    def choose(self, places: NDArray[np.int64]) -> Inputs:
        """Return some of the inputs, with all that is known of them."""
        files, rows = (tuple(values[place] for place in places) for values in (self.files, self.rows))
        return replace(self, x=self.take(places), files=files, rows=rows)

    def without(self, unusable: Sequence[UnusableEntry]) -> Inputs:
        """Return the rows without unusable entries, which are listed in `unusable`."""
        if not unusable:
            return self
        lines = [
            (self.files[entry.row], self.rows[entry.row], entry.column, entry.entry, entry.problem)
            for entry in unusable
        ]
        skipped = list(dict.fromkeys(entry.row for entry in unusable))
        kept = self.choose(np.setdiff1d(np.arange(len(self)), skipped))
        names = tuple(map(self.name, skipped))
        return replace(kept, skipped=(*self.skipped, *names), unusable=pd.DataFrame(lines, columns=UNUSABLE_COLUMNS))


@contextmanager
def named(inputs: Inputs | None) -> Iterator[None]:
    """Name the file in an error about inputs."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if inputs is None or not str(error).startswith("x must "):
            raise
        files = listed(dict.fromkeys(Path(file).name for file in inputs.files))
        raise type(error)(f"{files} {str(error).removeprefix('x ')}") from error


def read_inputs(
    paths: Sequence[Path], wanted: InputFormat, *, most: int | None = None, seed: int = 0
) -> tuple[Inputs, InputFormat]:
    """Read files as inputs, and return with them their format, now complete.

    Args:
        paths: .csv, .parquet, .xlsx or .npz files, or pictures and folders of them.
        wanted: the format, as far as it is known.
        most: number of inputs to read at most, chosen at random.
        seed: of the choice.
    """
    readers = [_find_reader(path) for path in paths]
    pictures = [path for path, reader in zip(paths, readers, strict=True) if reader is None]
    if pictures and len(pictures) < len(paths):
        raise ValueError(
            f"{pictures[0]} contains pictures, {listed(set(paths) - set(pictures))} do not: read them separately"
        )
    if pictures:
        return _read_pictures(pictures, wanted, most, seed)
    parts = []
    for path, reader in zip(paths, readers, strict=True):
        assert reader is not None  # noqa: S101 - there are no pictures
        part, wanted = reader(path, wanted)
        parts.append(part)
    return _choose(_join(parts), most, seed), wanted


def _find_reader(path: Path) -> Any:  # noqa: ANN401 - a function
    """Return the function that reads a table or arrays, None for pictures; raise an error for other files."""
    suffix = path.suffix.lower()
    check_exists(path)
    if path.is_dir() or suffix in SUFFIXES:
        return None
    if suffix == ".npz":
        return _read_arrays
    if not is_foreign(path):
        return _read_table
    raise ValueError(
        f"{path} cannot be read: inputs are .csv files, perhaps compressed ({', '.join(sorted(COMPRESSED))}), "
        f".parquet, .xlsx or .npz files, or pictures ({', '.join(sorted(SUFFIXES))}) and folders of them"
    )


def _read_table(path: Path, wanted: InputFormat) -> tuple[Inputs, InputFormat]:
    is_first, are_known = wanted.kind is None, wanted.columns is not None
    wanted = with_kind(wanted, "table", path)
    file = open_table(path, wanted.encoding)
    columns = wanted.columns or tuple(name for name in file.names if name not in wanted.left_out)
    if is_first:
        columns = _as_in_file(columns, file.names)
        wanted = replace(wanted, columns=columns, texts=_as_in_file(wanted.texts or (), file.names))
    for name in (*columns, *wanted.left_out) if is_first else columns:
        check_column(path, name, file.names, "--ignore")
    if not columns:
        raise ValueError(f"{path} has no column left to explain: all of them are left out")
    frame, notes = file.read(wanted.texts or ())
    x = frame[list(columns)]
    empty = [] if are_known else [name for name in columns if x[name].isna().all()]
    if empty:
        raise ValueError(f"column {empty[0]} of {path} is empty: leave it out by --ignore {empty[0]!r}")
    if is_first:
        texts = tuple(name for name in columns if name in (wanted.texts or ()) or _is_text(x[name]))
        wanted = replace(wanted, texts=texts)
        notes = _about_features(path, x, texts, [name for name in file.names if name not in columns]) + notes
    else:
        notes = [f"{path.name}: {counted(len(x), 'row')}", *notes]
    return Inputs(x, (str(path),) * len(x), tuple(map(int, frame.index)), None, tuple(notes)), wanted


def _as_in_file(names: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return names of columns as a file has them: LightGBM has replaced their spaces."""
    spaced = {name.replace(" ", "_"): name for name in known}
    return tuple(name if name in known else spaced.get(name, name) for name in names)


def _is_text(entries: pd.Series) -> bool:
    """Whether entries are texts, also as categories; flags and dates are not."""
    return is_text(pd.Series(entries.cat.categories) if isinstance(entries.dtype, pd.CategoricalDtype) else entries)


def _about_features(path: Path, features: pd.DataFrame, texts: Sequence[str], others: Sequence[str]) -> list[str]:
    numbers = [name for name in features if is_number(features[name])]
    rest = [name for name in features if name not in (*numbers, *texts)]
    kinds = [f"{len(numbers):,} of numbers"] if numbers else []
    kinds += [
        f"{len(some):,} of {kind} ({listed(some)})"
        for kind, some in (("text", texts), ("flags or dates", rest))
        if some
    ]
    missing = int(features.isna().sum().sum())
    notes = [
        f"{path.name}: {counted(len(features), 'row')}, {counted(features.shape[1], 'column')}: {', '.join(kinds)}"
    ]
    if missing:
        notes.append(f"{missing:,} missing entr{'y' if missing == 1 else 'ies'}, passed to the model as they are")
    if others:
        notes.append(f"left out: {listed(others)}")
    return notes


def _read_arrays(path: Path, wanted: InputFormat) -> tuple[Inputs, InputFormat]:
    arrays = load_arrays(path)
    name = next(iter(arrays)) if len(arrays) == 1 else find_array(path, arrays, INPUT_ARRAYS, "inputs")
    x = arrays[name]
    if x.dtype.kind not in "fiub" or x.ndim not in (2, 3, 4) or not x.size:
        raise ValueError(f"{name} of {path} must be numbers, a row or an image per input; got {x.dtype} {x.shape}")
    if x.ndim > 2:  # noqa: PLR2004 - rows and columns
        return _read_image_array(path, x, wanted)
    wanted = with_kind(wanted, "rows", path)
    named = next((arrays[key] for key in NAME_ARRAYS if key in arrays), None)
    columns = None if named is None or named.size != x.shape[1] else tuple(map(str, named.reshape(-1)))
    note = f"{path.name}: {counted(len(x), 'row')}, {counted(x.shape[1], 'column')} of numbers"
    return Inputs(x, (str(path),) * len(x), tuple(range(len(x))), columns, (note,)), wanted


def _read_image_array(path: Path, x: NDArray[Any], wanted: InputFormat) -> tuple[Inputs, InputFormat]:
    wanted = with_kind(wanted, "images", path)
    layout = wanted.layout if wanted.layout is not None and x.ndim == len(wanted.layout) else find_layout(x)
    images = channels_first(x, layout)
    size = Size(*images.shape[2:])
    if wanted.size not in (None, size):
        raise ValueError(f"images of {path} are {size} pixels, expected {wanted.size}; --size resizes only pictures")
    notes = [f"{path.name}: {counted(len(x), 'image')} of {size} pixels, {counted(images.shape[1], 'channel')}"]
    if layout != "NCHW":
        notes.append(f"its axes, {x.shape}, are read as {AXES[layout]}")
    images, more, wanted = _scale_images(images, replace(wanted, layout=wanted.layout or layout, size=size), path)
    return Inputs(images, (str(path),) * len(x), tuple(range(len(x))), None, (*notes, *more)), wanted


def _scale_images(
    images: NDArray[Any], wanted: InputFormat, path: Path
) -> tuple[NDArray[np.float32], list[str], InputFormat]:
    """Return images on the scale of the model, with notes, and the format with what is known of them now."""
    has_bytes, channels = images.dtype == np.uint8, images.shape[1]
    if wanted.channels not in (None, channels):
        raise ValueError(f"images of {path} have {counted(channels, 'channel')}, expected {wanted.channels}")
    floats = images.astype(np.float32)
    notes = []
    if has_bytes and wanted.scaled:
        floats /= MAX_BYTE
        notes.append("bytes are divided by 255: values from 0 to 1")
    if not has_bytes:
        notes.append(f"values from {floats.min():.3g} to {floats.max():.3g}, not scaled")
    if wanted.has_bytes not in (None, has_bytes):
        fitted = "bytes" if wanted.has_bytes else "numbers that are not bytes"
        notes.append(f"warning: the explainer was fitted with {fitted}; check that values have the same scale")
    if wanted.mean or wanted.std:
        constants = [
            ", ".join(f"{number:g}" for number in numbers) for numbers in (wanted.mean or (0,), wanted.std or (1,))
        ]
        notes.append(f"normalized with mean {constants[0]}, std {constants[1]}")
    complete = replace(wanted, channels=channels, has_bytes=has_bytes if wanted.has_bytes is None else wanted.has_bytes)
    return wanted.normalize(floats), notes, complete


def _read_pictures(
    paths: Sequence[Path], wanted: InputFormat, most: int | None, seed: int
) -> tuple[Inputs, InputFormat]:
    wanted = with_kind(wanted, "images", paths[0])
    folders = {file: path for path in paths for file in find_images(path)}
    files = list(folders)
    chosen = [files[place] for place in _places(len(files), most, seed)]
    images = read_images(chosen, wanted.size, wanted.color or COLORS.get(wanted.channels or 0))
    unreadable = [path for path in images.skipped if path in paths]
    if unreadable:
        raise ValueError(f"{listed_whole(unreadable)} cannot be read as a picture")
    notes = [f"{counted(len(images.files), 'picture')} of {images.size} pixels, {images.color}"]
    if len(chosen) < len(files):
        notes.append(f"{len(chosen):,} of {len(files):,}, chosen at random")
    if images.skipped:
        notes.append(about_skipped(images.skipped, len(chosen)))
        errors.print(Text(f"warning: {notes[-1]}"), soft_wrap=True)
    wanted = replace(wanted, size=images.size, color=images.color, layout=wanted.layout or "NCHW")
    x, more, wanted = _scale_images(images.pixels, wanted, paths[0])
    names, skipped = (
        tuple(str(file.relative_to(folders[file]) if folders[file].is_dir() else file.name) for file in group)
        for group in (images.files, images.skipped)
    )
    return Inputs(x, names, (None,) * len(names), None, (*notes, *more), skipped), wanted


def _join(parts: Sequence[Inputs]) -> Inputs:
    if len(parts) == 1:
        return parts[0]
    tables: list[Any] = [part.x for part in parts]
    shapes = {table.shape[1:] for table in tables}
    if len(shapes) > 1:
        raise ValueError(f"the files contain inputs of different shapes: {listed(sorted(shapes))}")
    files = tuple(name for part in parts for name in part.files)
    rows = tuple(row for part in parts for row in part.rows)
    x = np.concatenate(tables) if isinstance(tables[0], np.ndarray) else pd.concat(tables)
    if isinstance(x, pd.DataFrame):
        x.index = pd.Index([f"{row} of {Path(file).name}" for file, row in zip(files, rows, strict=True)])
    return Inputs(x, files, rows, parts[0].names, tuple(note for part in parts for note in part.notes))


def _choose(inputs: Inputs, most: int | None, seed: int) -> Inputs:
    places = _places(len(inputs), most, seed)
    if len(places) == len(inputs):
        return inputs
    note = f"{len(places):,} of {len(inputs):,}, chosen at random"
    return replace(inputs.choose(places), notes=(*inputs.notes, note))


def _places(count: int, most: int | None, seed: int) -> NDArray[np.int64]:
    """Return positions of at most some of the inputs, in order."""
    if most is None or most >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))
