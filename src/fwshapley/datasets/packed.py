"""Data sets in one npz file: arrays, or labels beside mosaics of JPEG-coded tiles.

Either `x_train`, `y_train`, `x_test` and `y_test`; or, for each split, `y_train`, `blob_train` with the files of all
mosaics end to end, and `offsets_train` with where each starts, and where the last ends. A mosaic's tiles of 32 x 32
pixels go row by row; those beyond the last label are padding.
"""

from __future__ import annotations

import io
import itertools
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Int64, UInt8
from numpy.typing import NDArray

from fwshapley._internal.checks import check_choice

Split = Literal["train", "test"]
Arrays = tuple[UInt8[np.ndarray, "images channels height width"], Int64[np.ndarray, " labels"]]

TILE = 32
COLORS = (1, 3)
GRAY_AXES, COLOR_AXES = 3, 4


def read_packed(path: str | Path, split: Split = "train") -> Arrays:
    """Return images (images, channels, height, width) and labels of one split, as bytes and whole numbers.

    Args:
        path: an npz file, of arrays or of mosaics; mosaics need Pillow.
        split: "train" or "test".
    """
    check_choice("split", split, get_args(Split))
    arrays = _read_arrays(path, split)
    if "y" not in arrays or not ("x" in arrays or {"blob", "offsets"} <= arrays.keys()):
        raise ValueError(f"{path} must hold y_{split}, and x_{split} or blob_{split} with offsets_{split}")
    numbers = arrays["y"]
    if numbers.dtype.kind not in "iuf" or (numbers != numbers.round()).any():
        raise ValueError(f"{path} must hold labels y_{split} as whole numbers, got {numbers.dtype}")
    labels = numbers.astype(np.int64)
    if "x" in arrays:
        images = arrays["x"]
    else:
        images = np.concatenate(list(_tiles(path, arrays["blob"], arrays["offsets"])))[: len(labels)]
    if len(images) != len(labels):
        raise ValueError(f"{path} is damaged: there are {len(labels)} labels of {len(images)} images to {split}")
    return _channels_first(path, images), labels


def _read_arrays(path: str | Path, split: Split) -> dict[str, NDArray[Any]]:
    """Arrays of a split, by their names before the underscore."""
    ending = f"_{split}"
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as packed:
            return {name.removesuffix(ending): packed[name] for name in packed.files if name.endswith(ending)}
    except FileNotFoundError:
        raise
    except IsADirectoryError as error:
        raise ValueError(f"{path} is a folder, not an npz file: fwshapley.datasets.load reads folders") from error
    except (TypeError, ValueError) as error:  # numpy's own words advise to unpickle it
        raise ValueError(f"{path} is no npz file, or holds objects, which are not read") from error
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged or cut off: {error}. Get it again, whole") from error


def _tiles(path: str | Path, blob: NDArray[np.uint8], offsets: NDArray[np.integer]) -> Iterator[NDArray[np.uint8]]:
    """Tiles of every mosaic, (tiles, 32, 32, 3)."""
    try:
        from PIL import Image  # noqa: PLC0415 - optional, so imported where it is needed
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{path} holds pictures: they need Pillow, pip install 'fwshapley[images]'"
        ) from error
    for start, end in itertools.pairwise(offsets.tolist()):
        try:
            mosaic = np.asarray(Image.open(io.BytesIO(blob[start:end].tobytes())).convert("RGB"))
        except (OSError, SyntaxError) as error:  # what Pillow raises on damaged files
            raise ValueError(f"{path} is damaged: a mosaic cannot be read ({error})") from error
        rows, columns = mosaic.shape[0] // TILE, mosaic.shape[1] // TILE
        yield mosaic.reshape(rows, TILE, columns, TILE, 3).transpose(0, 2, 1, 3, 4).reshape(-1, TILE, TILE, 3)


def _channels_first(path: str | Path, images: NDArray[Any]) -> NDArray[np.uint8]:
    if images.dtype != np.uint8 or images.ndim not in {GRAY_AXES, COLOR_AXES}:
        raise ValueError(f"{path} must hold images as bytes; its are {images.dtype}, of shape {images.shape}")
    if images.ndim == GRAY_AXES:
        return images[:, None]
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2)) if images.shape[3] in COLORS else images
