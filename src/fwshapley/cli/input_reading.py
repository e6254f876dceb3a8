"""Files as inputs of a model: settled when an explainer is fitted, and repeated when it explains."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.text import Text

from fwshapley._internal.wording import counted, listed, listed_whole
from fwshapley.cli.console import errors
from fwshapley.cli.images.files import SUFFIXES, Color, Size, about_skipped, find_images, read_images
from fwshapley.tables.reading import COMPRESSED, check_column, is_foreign, load_arrays, read_frame

Kind = Literal["table", "rows", "images"]
"""Columns of a .csv file with their names; rows of numbers in an .npz file; images, wherever they come from."""

Layout = Literal["NCHW", "NHWC", "NHW"]
"""Order of the axes of images in a file."""

ARRAYS = ("x", "X", "features", "images", "x_train", "X_train", "data", "x_test", "X_test")
"""Names of the inputs in an .npz file, the first that is there."""

NAMES = ("names", "columns", "feature_names")
CHANNEL_COUNTS = (1, 3, 4)
COLORS: Mapping[int, Color] = {1: "gray", 3: "rgb"}
BYTES = 255
ARRAY_FILE = ".npz"
KIND_NAMES: Mapping[Kind, str] = {
    "table": "a .csv file",
    "rows": "an .npz file of rows of numbers",
    "images": "pictures, or an .npz file of images",
}


@dataclass(frozen=True)
class Reading:
    """How files become inputs. What is None is settled by the first file that is read.

    Attributes:
        kind: what inputs are.
        columns: of a table, in the order of the model.
        texts: columns of a table that hold text.
        left_out: columns of a table that are no features.
        encoding: of .csv files.
        layout: order of the axes of images in the first file.
        size: of images.
        channels: of images.
        color: of pictures.
        held_bytes: whether images in the first file were bytes.
        scaled: whether bytes are divided by 255.
        mean: subtracted from each channel of images, after that.
        std: that each channel is divided by, after that.
    """

    kind: Kind | None = None
    columns: tuple[str, ...] | None = None
    texts: tuple[str, ...] | None = None
    left_out: tuple[str, ...] = ()
    encoding: str = "utf-8"
    layout: Layout | None = None
    size: Size | None = None
    channels: int | None = None
    color: Color | None = None
    held_bytes: bool | None = None
    scaled: bool = True
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        wrong = [each for each in self.std or () if not np.float32(each) >= np.finfo(np.float32).tiny]
        if wrong:
            raise ValueError(f"--std must be positive, got {wrong[0]:g}: images are divided by it")

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Reading:
        """Return the reading that was saved as JSON."""
        plain: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()
        }
        return cls(**plain | {"size": None if plain["size"] is None else Size(*plain["size"])})

    def normalize(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """Put images on the scale of the model, in place, and return them."""
        mean, std = self._constants(images.shape[1])
        if mean is not None:
            images -= mean
        if std is not None:
            images /= std
        return images

    def picture(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return images as they were before `normalize`."""
        mean, std = self._constants(images.shape[1])
        scaled = images if std is None else images * std
        return scaled if mean is None else scaled + mean

    def _constants(self, channels: int) -> list[NDArray[np.float32] | None]:
        """Mean and deviation of each channel where they are given, to broadcast against images."""
        for name, constants in (("mean", self.mean), ("std", self.std)):
            if constants and len(constants) not in (1, channels):
                raise ValueError(f"--{name} has {len(constants)} numbers for images of {counted(channels, 'channel')}")
        return [np.asarray(each, np.float32).reshape(-1, 1, 1) if each else None for each in (self.mean, self.std)]


@dataclass(frozen=True, eq=False)
class Inputs:
    """What was read.

    Attributes:
        x: a DataFrame, indexed as its rows are called, so that errors call them the same; or an array: (rows, columns)
            or (images, channels, height, width).
        files: where each input comes from.
        rows: which one of its file it is, as a spreadsheet counts (the header is row 1), or from 0 for an .npz file;
            None for a picture.
        names: of columns, where the file says so.
        notes: what was done.
        skipped: names of pictures that cannot be read.
    """

    x: pd.DataFrame | NDArray[Any]
    files: tuple[str, ...]
    rows: tuple[int | None, ...]
    names: tuple[str, ...] | None
    notes: tuple[str, ...]
    skipped: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.x)

    @property
    def about_rows(self) -> str:
        """How rows are counted; empty for pictures."""
        if self.rows[0] is None:
            return ""
        how = "as a spreadsheet counts, the header is row 1" if isinstance(self.x, pd.DataFrame) else "counted from 0"
        return f"row numbers: {how}"

    def take(self, places: NDArray[np.int64]) -> pd.DataFrame | NDArray[Any]:
        """Return some of the inputs."""
        return self.x.iloc[places] if isinstance(self.x, pd.DataFrame) else self.x[places]


def parse_numbers(text: str) -> tuple[float, ...]:
    """Return numbers separated by commas."""
    try:
        numbers = tuple(float(each) for each in text.split(","))
    except ValueError as error:
        raise ValueError(f"{text!r} is no number, nor several separated by commas") from error
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"{text!r} must be finite numbers")
    return numbers


def read_inputs(
    paths: Sequence[Path], reading: Reading, *, most: int | None = None, seed: int = 0
) -> tuple[Inputs, Reading]:
    """Read files as inputs, and return with them how it was done, settled.

    Args:
        paths: .csv files, .npz files, or pictures and folders of them.
        reading: how, as far as it is settled.
        most: as many inputs at most, chosen at random.
        seed: of the choice.
    """
    kinds = [_kind_of(path) for path in paths]
    pictures = [path for path, kind in zip(paths, kinds, strict=True) if kind == "pictures"]
    if pictures and len(pictures) < len(paths):
        raise ValueError(f"{pictures[0]} holds pictures, {listed(set(paths) - set(pictures))} do not: one at a time")
    if pictures:
        return _read_pictures(pictures, reading, most, seed)
    parts = []
    for path, kind in zip(paths, kinds, strict=True):
        part, reading = READERS[kind](path, reading)
        parts.append(part)
    return _choose(_join(parts), most, seed), reading


def _kind_of(path: Path) -> str:
    """Return what kind of file a path is of, or say which are read: tables are those that `fwshapley value` reads."""
    suffix = path.suffix.lower()
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.is_dir() or suffix in SUFFIXES:
        return "pictures"
    if suffix == ARRAY_FILE:
        return "arrays"
    if not is_foreign(path):
        return "table"
    raise ValueError(
        f"{path} cannot be read: inputs are .csv files, perhaps compressed ({', '.join(sorted(COMPRESSED))}), .npz "
        f"files, or pictures ({', '.join(sorted(SUFFIXES))}) and folders of them"
    )


def _settle_kind(reading: Reading, kind: Kind, path: Path) -> Reading:
    found = f"{path} holds images" if kind == "images" else f"{path} is {KIND_NAMES[kind]}"
    if reading.kind not in (None, kind):
        raise ValueError(f"{found}, and the explainer takes {KIND_NAMES[reading.kind]}")
    if kind != "images" and (reading.mean or reading.std or reading.size):
        raise ValueError(f"--size, --mean and --std are for images; {found}")
    if kind != "table" and reading.left_out:
        raise ValueError(f"there is no column {reading.left_out[0]} to leave out: {found}")
    return replace(reading, kind=kind)


def _read_table(path: Path, reading: Reading) -> tuple[Inputs, Reading]:
    reading = _settle_kind(reading, "table", path)
    frame, notes = read_frame(path, reading.encoding, reading.texts or ())
    there = list(map(str, frame.columns))
    wanted = reading.columns or tuple(name for name in there if name not in reading.left_out)
    for name in (*wanted, *reading.left_out) if reading.texts is None else wanted:
        check_column(path, name, there, "--ignore")
    if not wanted:
        raise ValueError(f"{path} has no column to explain by: all of them are left out")
    x = frame[list(wanted)]
    if reading.texts is None:
        reading = replace(reading, columns=wanted, texts=tuple(name for name in wanted if _holds_text(x[name])))
        notes = _about_columns(path, x, reading.texts or (), [name for name in there if name not in wanted]) + notes
    else:
        notes = [f"{path.name}: {counted(len(x), 'row')}", *notes]
    rows = tuple(int(row) for row in frame.index)
    return Inputs(x, (str(path),) * len(x), rows, None, tuple(notes)), reading


def _holds_text(entries: pd.Series) -> bool:
    present = entries.dropna()
    return pd.api.types.is_string_dtype(present) and all(isinstance(each, str) for each in present)


def _about_columns(path: Path, features: pd.DataFrame, texts: Sequence[str], others: Sequence[str]) -> list[str]:
    empty = [name for name in features if features[name].isna().all()]
    if empty:
        raise ValueError(f"column {empty[0]} of {path} is empty: leave it out by --ignore {empty[0]!r}")
    numbers = features.shape[1] - len(texts)
    held = [f"{numbers:,} of numbers"] * bool(numbers) + [f"{len(texts):,} of text ({listed(texts)})"] * bool(texts)
    missing = int(features.isna().sum().sum())
    notes = [f"{path.name}: {counted(len(features), 'row')}, {counted(features.shape[1], 'column')}: {', '.join(held)}"]
    if missing:
        notes.append(f"{missing:,} missing entr{'y' if missing == 1 else 'ies'}, left so for the model")
    if others:
        notes.append(f"left out: {listed(others)}")
    return notes


def _read_arrays(path: Path, reading: Reading) -> tuple[Inputs, Reading]:
    arrays = load_arrays(path)
    name = next((each for each in ARRAYS if each in arrays), None)
    if name is None and len(arrays) == 1:
        name = next(iter(arrays))
    if name is None:
        raise ValueError(f"{path} must have an array x of inputs; it has {listed(arrays)}")
    x = arrays[name]
    if x.dtype.kind not in "fiub" or x.ndim not in (2, 3, 4) or not x.size:
        raise ValueError(f"{name} of {path} must be numbers, a row or an image each; it is {x.dtype} {x.shape}")
    if x.ndim > 2:  # noqa: PLR2004 - rows and columns
        return _read_image_array(path, x, reading)
    reading = _settle_kind(reading, "rows", path)
    named = next((arrays[each] for each in NAMES if each in arrays), None)
    columns = None if named is None or named.size != x.shape[1] else tuple(map(str, named.reshape(-1)))
    note = f"{path.name}: {counted(len(x), 'row')}, {counted(x.shape[1], 'column')} of numbers"
    return Inputs(x, (str(path),) * len(x), tuple(range(len(x))), columns, (note,)), reading


def _read_image_array(path: Path, x: NDArray[Any], reading: Reading) -> tuple[Inputs, Reading]:
    reading = _settle_kind(reading, "images", path)
    layout = reading.layout if reading.layout is not None and x.ndim == len(reading.layout) else _layout_of(x)
    images = TO_CHANNELS_FIRST[layout](x)
    size = Size(*images.shape[2:])
    if reading.size not in (None, size):
        raise ValueError(f"images of {path} are {size} pixels, {reading.size} are needed: --size resizes pictures only")
    notes = [f"{path.name}: {counted(len(x), 'image')} of {size} pixels, {counted(images.shape[1], 'channel')}"]
    if layout != "NCHW":
        notes.append(f"its axes, {x.shape}, are taken for {AXES[layout]}")
    images, more, reading = _scale(images, replace(reading, layout=reading.layout or layout, size=size), path)
    return Inputs(images, (str(path),) * len(x), tuple(range(len(x))), None, (*notes, *more)), reading


def _layout_of(x: NDArray[Any]) -> Layout:
    if x.ndim == 3:  # noqa: PLR2004 - no axis for channels
        return "NHW"
    return "NHWC" if x.shape[3] in CHANNEL_COUNTS and x.shape[1] not in CHANNEL_COUNTS else "NCHW"


def _scale(images: NDArray[Any], reading: Reading, path: Path) -> tuple[NDArray[np.float32], list[str], Reading]:
    """Return images on the scale of the model, with notes on it, and the reading with what they are settled."""
    held_bytes, channels = images.dtype == np.uint8, images.shape[1]
    if reading.channels not in (None, channels):
        raise ValueError(f"images of {path} have {counted(channels, 'channel')}, {reading.channels} are needed")
    floats, notes = images.astype(np.float32), []
    if held_bytes and reading.scaled:
        floats /= BYTES
        notes.append("bytes are divided by 255: values from 0 to 1")
    if not held_bytes:
        notes.append(f"values from {floats.min():.3g} to {floats.max():.3g}, as they are")
    if reading.held_bytes not in (None, held_bytes):
        other = "bytes" if reading.held_bytes else "other numbers than bytes"
        notes.append(f"mind the scale: the explainer was fitted with {other}")
    if reading.mean or reading.std:
        notes.append(f"normalized by mean {_numbers(reading.mean or (0.0,))}, std {_numbers(reading.std or (1.0,))}")
    settled = replace(
        reading, channels=channels, held_bytes=held_bytes if reading.held_bytes is None else reading.held_bytes
    )
    return reading.normalize(floats), notes, settled


def _numbers(several: Sequence[float]) -> str:
    return ", ".join(f"{each:g}" for each in several)


def _read_pictures(paths: Sequence[Path], reading: Reading, most: int | None, seed: int) -> tuple[Inputs, Reading]:
    reading = _settle_kind(reading, "images", paths[0])
    folders = {each: path for path in paths for each in find_images(path)}
    found = list(folders)
    chosen = [found[place] for place in _places(len(found), most, seed)]
    color = reading.color or COLORS.get(reading.channels or 0)
    images = read_images(chosen, reading.size, color)
    _check_skipped(images.skipped, asked=paths)
    notes = [f"{counted(len(images.files), 'picture')} of {images.size} pixels, {images.color}"]
    if len(chosen) < len(found):
        notes.append(f"{len(chosen):,} of {len(found):,}, chosen at random")
    if images.skipped:
        notes.append(about_skipped(images.skipped, len(chosen)))
        errors.print(Text(f"warning: {notes[-1]}"), soft_wrap=True)
    reading = replace(reading, size=images.size, color=images.color, layout=reading.layout or "NCHW")
    x, more, reading = _scale(images.pixels, reading, paths[0])
    names, skipped = (
        tuple(str(file.relative_to(folders[file]) if folders[file].is_dir() else file.name) for file in files)
        for files in (images.files, images.skipped)
    )
    return Inputs(x, names, (None,) * len(names), None, (*notes, *more), skipped), reading


def _check_skipped(skipped: Sequence[Path], asked: Sequence[Path]) -> None:
    """Raise an error if a picture cannot be read that was asked for by its name."""
    missed = [path for path in skipped if path in set(asked)]
    if missed:
        raise ValueError(f"{listed_whole(missed)} cannot be read as a picture")


def _join(parts: Sequence[Inputs]) -> Inputs:
    if len(parts) == 1:
        return parts[0]
    tables: list[Any] = [part.x for part in parts]
    shapes = {each.shape[1:] for each in tables}
    if len(shapes) > 1:
        raise ValueError(f"the files hold inputs of different shapes: {listed(sorted(shapes))}")
    arrays = isinstance(tables[0], np.ndarray)
    files = tuple(name for part in parts for name in part.files)
    rows = tuple(row for part in parts for row in part.rows)
    x = np.concatenate(tables) if arrays else pd.concat(tables)
    if isinstance(x, pd.DataFrame):
        x.index = pd.Index([f"{row} of {Path(file).name}" for file, row in zip(files, rows, strict=True)])
    return Inputs(x, files, rows, parts[0].names, tuple(note for part in parts for note in part.notes))


def _choose(inputs: Inputs, most: int | None, seed: int) -> Inputs:
    places = _places(len(inputs), most, seed)
    if len(places) == len(inputs):
        return inputs
    note = f"{len(places):,} of {len(inputs):,}, chosen at random"
    files, rows = (tuple(each[place] for place in places) for each in (inputs.files, inputs.rows))
    return Inputs(inputs.take(places), files, rows, inputs.names, (*inputs.notes, note))


def _places(count: int, most: int | None, seed: int) -> NDArray[np.int64]:
    """Places of at most some of the inputs, in order."""
    if most is None or most >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))


READERS: Mapping[str, Callable[[Path, Reading], tuple[Inputs, Reading]]] = {
    "table": _read_table,
    "arrays": _read_arrays,
}

AXES: Mapping[Layout, str] = {
    "NCHW": "(images, channels, height, width)",
    "NHWC": "(images, height, width, channels)",
    "NHW": "(images, height, width)",
}

TO_CHANNELS_FIRST: Mapping[Layout, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "NCHW": lambda x: x,
    "NHWC": lambda x: x.transpose(0, 3, 1, 2),
    "NHW": lambda x: x[:, None],
}

FROM_CHANNELS_FIRST: Mapping[Layout, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "NCHW": lambda x: x,
    "NHWC": lambda x: x.transpose(0, 2, 3, 1),
    "NHW": lambda x: x[:, 0],
}
