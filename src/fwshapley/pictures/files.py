"""Pictures in files, as arrays of bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fwshapley.progress import ProgressBar
from fwshapley.tables.wording import listed

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp"}
MOST_NAMED = 10
DEEP = 256
"""Grey levels of 16 bits for each of 8."""

Colour = Literal["grey", "rgb"]
MODES = {"grey": "L", "rgb": "RGB"}
GREY_MODES = {"1", "L", "LA", "I", "I;16", "I;16B", "I;16L", "F"}


class UnreadableError(ValueError):
    """A file is no picture, or a damaged one."""


class Size(NamedTuple):
    """Height and width in pixels."""

    height: int
    width: int

    def __str__(self) -> str:
        return f"{self.height} x {self.width}"


def parse_size(text: str) -> Size:
    """Return the size that HEIGHTxWIDTH says; one number is both."""
    numbers = text.lower().split("x")
    if len(numbers) > 2 or not all(each.isdecimal() and int(each) for each in numbers):  # noqa: PLR2004 - two sides
        raise ValueError(f"--size {text} is no size: give HEIGHTxWIDTH, such as 32x32")
    return Size(int(numbers[0]), int(numbers[-1]))


class Look(NamedTuple):
    """What pictures are like, from a look at their first bytes.

    Attributes:
        sizes: all that there are.
        greys: how many are grey.
        colour: that all can be in without a loss.
    """

    sizes: frozenset[Size]
    greys: int
    colour: Colour


def find_images(path: Path) -> list[Path]:
    """Return all pictures in a folder and below it, in order; or the one picture that it is."""
    if path.is_file():
        return [path]
    found = sorted(each for each in path.rglob("*") if each.suffix.lower() in SUFFIXES and each.is_file())
    if not found:
        raise ValueError(f"{path} holds no pictures ({', '.join(sorted(SUFFIXES))})")
    return found


def look_at(paths: Sequence[Path]) -> Look:
    """Return what pictures are like, without reading their pixels."""
    sizes: set[Size] = set()
    greys = 0
    with _all_named(paths):
        for path in paths:
            with _open(path) as picture:
                sizes.add(Size(picture.height, picture.width))
                greys += picture.mode in GREY_MODES
    return Look(frozenset(sizes), greys, "grey" if greys == len(paths) else "rgb")


def read_images(
    paths: Sequence[Path], size: Size | None, colour: Colour | None
) -> tuple[NDArray[np.uint8], Size, Colour]:
    """Return pictures as (images, channels, height, width) bytes, their size and colour.

    Args:
        paths: of the files.
        size: to resize to; None if all are of one size already.
        colour: to convert to; None is grey if all are, else rgb.
    """
    colour = colour or look_at(paths).colour
    pictures: list[NDArray[np.uint8]] = []
    found = size
    with _all_named(paths), ProgressBar("reading pictures", len(paths)) as bar:
        for path in paths:
            pixels = _read(path, size, colour)
            this = Size(*pixels.shape[1:])
            found = found or this
            if this != found:
                raise ValueError(
                    f"{path} is {this} pixels, {paths[0]} is {found}: give one size to all by --size {found.height}x"
                    f"{found.width}"
                )
            pictures.append(pixels)
            bar.advance(1)
    assert found is not None  # noqa: S101 - there are pictures
    return np.stack(pictures), found, colour


@contextmanager
def _all_named(paths: Sequence[Path]) -> Iterator[None]:
    """Where one picture cannot be read, look at all of them and name all that cannot, so that one run finds them."""
    try:
        yield
    except UnreadableError as error:
        bad = [path for path in paths if not _is_readable(path)]
        if len(bad) < 2:  # noqa: PLR2004 - the error names one already
            raise
        named = listed((Path(*path.parts[-2:]) for path in bad), MOST_NAMED)
        raise UnreadableError(
            f"{len(bad):,} of {len(paths):,} files cannot be read as pictures: {named}; mend them or remove them"
        ) from error


def _is_readable(path: Path) -> bool:
    try:
        load_picture(path)
    except UnreadableError:
        return False
    return True


def load_picture(path: Path, colour: Colour | None = None) -> Image:
    """Return a picture in 8 bits, in the colour asked for or its own, or say that it is damaged."""
    from PIL import Image  # noqa: PLC0415 - optional, so imported where it is needed

    try:
        with _open(path) as stored:
            deep = stored.mode.startswith("I")
            picture = Image.fromarray((np.asarray(stored) // DEEP).astype(np.uint8)) if deep else stored
            return picture.convert(MODES[colour or ("grey" if stored.mode in GREY_MODES else "rgb")])
    except (OSError, SyntaxError) as error:  # what Pillow raises on damaged files
        raise UnreadableError(f"{path} cannot be read as a picture: {error}") from error


def _read(path: Path, size: Size | None, colour: Colour) -> NDArray[np.uint8]:
    from PIL import Image  # noqa: PLC0415 - optional, so imported where it is needed

    picture = load_picture(path, colour)
    if size is not None and picture.size != (size.width, size.height):
        picture = picture.resize((size.width, size.height), Image.Resampling.BILINEAR)
    pixels = np.asarray(picture)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)  # noqa: PLR2004 - no axis for channels


def _open(path: Path) -> Image:
    """Open a picture without reading its pixels yet, or say what is wrong."""
    try:
        from PIL import Image  # noqa: PLC0415 - optional, so imported where it is needed
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("pictures need Pillow: pip install 'fwshapley[images]'") from error
    try:
        return Image.open(path)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UnreadableError(f"{path} cannot be read as a picture: {error}") from error
