"""Pictures in files, as arrays of bytes, and as thumbnails that fit many on one page."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fwshapley._internal.html import Picture
from fwshapley._internal.progress import ProgressBar
from fwshapley._internal.wording import counted, listed_whole
from fwshapley.explanation.inputs.image_layout import CHANNEL_COUNTS, Layout

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp"}
MAX_NAMED = 10
LEVELS = 256
"""Gray levels of 16 bits per gray level of 8 bits."""

MAX_UNREADABLE = 0.5
"""Share of pictures that may be unreadable and are skipped; more are an error."""

MAX_PIXELS = 2**26
"""Largest number of pixels that --size accepts."""

BYTES_PER_PIXEL = 5
"""Per channel: one byte as it is read, four as the number that a model gets."""

SIDE = 96
"""Longer side of a thumbnail, in pixels."""

TINY = 32
"""Up to this longer side a thumbnail is enlarged by a whole factor."""

QUALITY = 80
"""Of JPEG thumbnails."""

DAMAGED = (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError, OverflowError, struct.error, zlib.error)
"""What Pillow raises on damaged files."""

Color = Literal["gray", "rgb"]
MODES = {"gray": "L", "rgb": "RGB"}
GRAY_MODES = {"1", "L", "LA", "I", "I;16", "I;16B", "I;16L", "F"}


class UnreadableError(ValueError):
    """A file is not a picture, or a damaged one."""


class Size(NamedTuple):
    """Height and width in pixels."""

    height: int
    width: int

    def __str__(self) -> str:
        return f"{self.height} x {self.width}"

    @classmethod
    def parse(cls, text: str) -> Size:
        """Return the size that HEIGHTxWIDTH describes; a single number is both."""
        numbers = text.lower().split("x")
        if len(numbers) > 2 or not all(number.isdecimal() and int(number) for number in numbers):  # noqa: PLR2004 - two sides
            raise ValueError(f"--size must be HEIGHTxWIDTH, such as 32x32; got {text}")
        size = cls(int(numbers[0]), int(numbers[-1]))
        if size.height * size.width > MAX_PIXELS:
            raise ValueError(f"--size must be at most {MAX_PIXELS:,} pixels, as 8192x8192 has; got {text}")
        return size


class Look(NamedTuple):
    """Sizes and colors of pictures, from their first bytes.

    Attributes:
        sizes: the different ones.
        grays: how many are gray.
        color: in which all can be read without a loss.
    """

    sizes: frozenset[Size]
    grays: int
    color: Color


def find_images(path: Path) -> list[Path]:
    """Return all pictures in a folder and below it, in order; or the one picture that it is."""
    if path.is_file():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    if not files:
        raise ValueError(f"{path} contains no pictures ({', '.join(sorted(SUFFIXES))})")
    return files


class Images(NamedTuple):
    """Pictures that were read.

    Attributes:
        pixels: (images, channels, height, width) bytes.
        size: of all of them.
        color: of all of them.
        files: where they come from.
        skipped: files that cannot be read.
    """

    pixels: NDArray[np.uint8]
    size: Size
    color: Color
    files: tuple[Path, ...]
    skipped: tuple[Path, ...]


def look_at(paths: Sequence[Path]) -> Look:
    """Return sizes and colors of pictures without reading their pixels; those that cannot be opened do not count."""
    sizes: set[Size] = set()
    grays = 0
    bad: list[Path] = []
    for path in paths:
        try:
            with _open(path) as picture:
                sizes.add(Size(picture.height, picture.width))
                grays += picture.mode in GRAY_MODES
        except UnreadableError as error:
            bad.append(path)
            if len(bad) == len(paths):
                raise UnreadableError(_about_unreadable(bad, len(paths), error)) from error
    return Look(frozenset(sizes), grays, "gray" if grays == len(paths) - len(bad) else "rgb")


def read_images(paths: Sequence[Path], size: Size | None, color: Color | None) -> Images:
    """Return pictures as arrays; those that cannot be read are skipped, unless they are more than half.

    Args:
        paths: of the files.
        size: to resize to; None if all are of one size already.
        color: to convert to; None is gray if all are, else rgb.
    """
    color = color or look_at(paths).color
    if size is not None:
        _check_memory(len(paths), size, color)
    pictures: dict[Path, NDArray[np.uint8]] = {}
    bad: dict[Path, UnreadableError] = {}
    with ProgressBar("reading pictures", len(paths)) as bar:
        for path in paths:
            try:
                pictures[path] = load_pixels(path, size, color)
            except UnreadableError as error:
                bad[path] = error
            else:
                _check_size(path, pictures)
            bar.advance(1)
    if len(bad) > MAX_UNREADABLE * len(paths) or not pictures:
        first = next(iter(bad.values()))
        raise UnreadableError(_about_unreadable(list(bad), len(paths), first)) from first
    pixels = np.stack(list(pictures.values()))
    return Images(pixels, Size(*pixels.shape[2:]), color, tuple(pictures), tuple(bad))


def _check_size(path: Path, pictures: dict[Path, NDArray[np.uint8]]) -> None:
    """Raise an error if a picture is of another size than the first one."""
    first = next(iter(pictures))
    size, expected = (Size(*pictures[file].shape[1:]) for file in (path, first))
    if size != expected:
        raise ValueError(
            f"{path} is {size} pixels, {first} is {expected}: resize all, such as by --size "
            f"{expected.height}x{expected.width}"
        )


def _check_memory(count: int, size: Size, color: Color) -> None:
    """Raise an error if pictures of a size exceed the memory of the machine, which would kill the process."""
    needed = count * (1 if color == "gray" else 3) * size.height * size.width * BYTES_PER_PIXEL
    try:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # unknown on this system
        return
    if needed > available:
        raise MemoryError(
            f"{counted(count, 'picture')} of {size} pixels take {needed / 2**30:,.0f} GiB, and the machine has "
            f"{available / 2**30:,.0f}: give a smaller --size, or fewer pictures"
        )


def find_layout(x: NDArray[Any]) -> Layout:
    """Return the likely order of the axes of images: channels are one, three or four."""
    if x.ndim == 3:  # noqa: PLR2004 - no axis for channels
        return "NHW"
    return "NHWC" if x.shape[3] in CHANNEL_COUNTS and x.shape[1] not in CHANNEL_COUNTS else "NCHW"


def about_skipped(skipped: Sequence[Path], count: int) -> str:
    """Return how many of some pictures were skipped, and which."""
    return f"{len(skipped):,} of {counted(count, 'file')} cannot be read and were skipped: {_named(skipped)}"


def _about_unreadable(bad: Sequence[Path], count: int, error: UnreadableError) -> str:
    if count == 1:
        return str(error)
    return f"{len(bad):,} of {counted(count, 'file')} cannot be read as pictures: {_named(bad)}; replace or remove them"


def _named(bad: Sequence[Path]) -> str:
    return listed_whole((Path(*path.parts[-2:]) for path in bad), MAX_NAMED)


def load_picture(path: Path, color: Color | None = None) -> Image:
    """Return a picture in 8 bits, in a color or its own; raise an error if it is damaged."""
    from PIL import Image  # noqa: PLC0415 - optional, so imported where it is needed

    try:
        with _open(path) as stored:
            deep = stored.mode.startswith("I")
            picture = Image.fromarray((np.asarray(stored) // LEVELS).astype(np.uint8)) if deep else stored
            return picture.convert(MODES[color or ("gray" if stored.mode in GRAY_MODES else "rgb")])
    except DAMAGED as error:
        raise UnreadableError(f"{path} cannot be read as a picture: {error}") from error


def make_thumbnail(path: Path) -> Picture:
    """Return a small version of a picture; a tiny one is enlarged, so that its pixels can be seen."""
    from PIL import Image  # noqa: PLC0415 - optional, so imported where it is needed

    picture = load_picture(path)
    buffer = io.BytesIO()
    longer = max(picture.size)
    if longer <= TINY:
        times = SIDE // longer
        enlarged = picture.resize((picture.width * times, picture.height * times), Image.Resampling.NEAREST)
        enlarged.save(buffer, "PNG", optimize=True)
        return Picture(buffer.getvalue(), "png")
    picture.thumbnail((SIDE, SIDE))
    picture.save(buffer, "JPEG", quality=QUALITY, optimize=True)
    return Picture(buffer.getvalue(), "jpeg")


def load_pixels(path: Path, size: Size | None, color: Color) -> NDArray[np.uint8]:
    """Return a picture as bytes, (channels, height, width); raise an error if it is damaged."""
    from PIL import Image  # noqa: PLC0415 - optional, so imported where it is needed

    picture = load_picture(path, color)
    if size is not None and picture.size != (size.width, size.height):
        picture = picture.resize((size.width, size.height), Image.Resampling.BILINEAR)
    pixels = np.asarray(picture)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)  # noqa: PLR2004 - no axis for channels


def _open(path: Path) -> Image:
    """Open a picture without reading its pixels yet."""
    try:
        from PIL import Image  # noqa: PLC0415 - optional, so imported where it is needed
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("pictures need Pillow: pip install 'fwshapley[images]'") from error
    try:
        return Image.open(path)
    except (*DAMAGED, Image.DecompressionBombError) as error:
        raise UnreadableError(f"{path} cannot be read as a picture: {error}") from error
