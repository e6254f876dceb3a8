"""Read labeled images from files. Damaged or wrong files raise an error that names them; nothing is unpickled.

- CIFAR-10, binary version: records of one label and 3 x 32 x 32 pixels. (The Python version is pickled. Reading a
  pickle runs the code inside, so it is not supported.)
- SVHN, cropped digits: MATLAB files with X (32, 32, 3, images) and y, where 10 stands for the digit 0.
- Fashion-MNIST: idx files, a header of big-endian integers followed by bytes, often gzipped.
- Packed: one npz file for all splits, with arrays or with mosaics of JPEG-coded tiles; see `read_packed`.
"""

from __future__ import annotations

import gzip
import io
import itertools
import math
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Int64, UInt8
from numpy.typing import NDArray

from fwshapley._internal.checks import check_choice

Split = Literal["train", "test"]
Arrays = tuple[UInt8[np.ndarray, "images channels height width"], Int64[np.ndarray, " labels"]]

CIFAR_FOLDER = "cifar-10-batches-bin"
CIFAR_BATCHES: dict[Split, tuple[str, ...]] = {
    "train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    "test": ("test_batch.bin",),
}
CIFAR_SHAPE = (3, 32, 32)
CIFAR_RECORD_BYTES = 1 + math.prod(CIFAR_SHAPE)
SVHN_ZERO = 10
IDX_BYTES = 0x0800
"""Magic number of an idx file of bytes, without its number of axes."""
TILE = 32
COLORS = (1, 3)
GRAY_AXES, COLOR_AXES = 3, 4

ARCHIVE_ERRORS = (EOFError, OSError, tarfile.TarError, zlib.error)
"""Errors of the standard library for damaged archives."""


def read_cifar10(paths: Sequence[Path], split: Split) -> Arrays:
    """Read the .bin files of a split, or the archive that contains them."""
    if paths[0].suffix == ".bin":
        batches = {str(path): path.read_bytes() for path in paths}
    else:
        batches = _read_archive(paths[0], CIFAR_BATCHES[split])
    for name, batch in batches.items():
        if not batch or len(batch) % CIFAR_RECORD_BYTES:
            raise ValueError(
                f"{name} is cut off, or not in CIFAR-10's binary format: "
                f"{len(batch)} bytes are not a multiple of {CIFAR_RECORD_BYTES}"
            )
    records = np.frombuffer(b"".join(batches.values()), np.uint8).reshape(-1, CIFAR_RECORD_BYTES)
    return np.ascontiguousarray(records[:, 1:]).reshape(-1, *CIFAR_SHAPE), records[:, 0].astype(np.int64)


def _read_archive(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Read files of CIFAR-10's archive, in the order of names; the archive is read once, from start to end."""
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                folder, _, name = member.name.rpartition("/")
                if folder == CIFAR_FOLDER and name in names and (file := archive.extractfile(member)):
                    contents[name] = file.read()
    except ARCHIVE_ERRORS as error:
        raise ValueError(f"{path} is cut off, or not a gzipped archive: {error}") from error
    if missing := [name for name in names if name not in contents]:
        raise ValueError(f"{path} does not contain {', '.join(missing)}: it is not CIFAR-10's binary version")
    return {f"{path}, {name}": contents[name] for name in names}


def read_svhn(paths: Sequence[Path], _split: Split) -> Arrays:
    """Read the MATLAB file of a split."""
    from scipy.io import loadmat  # noqa: PLC0415 - slow to import, and only this data set needs it

    try:
        variables = loadmat(paths[0], variable_names=["X", "y"])
        labels = variables["y"].ravel().astype(np.int64)
        images = np.ascontiguousarray(variables["X"].transpose(3, 2, 0, 1))
    except KeyError as error:
        raise ValueError(f"{paths[0]} has no variable {error}; expected SVHN's cropped digits") from error
    except Exception as error:  # scipy's parser raises TypeError, IndexError and others on damaged files
        raise ValueError(f"{paths[0]} is cut off, or not a MATLAB file of SVHN's cropped digits: {error}") from error
    return images, np.where(labels == SVHN_ZERO, 0, labels)


def read_fashion_mnist(paths: Sequence[Path], _split: Split) -> Arrays:
    """Read the idx files of images and of labels."""
    images, labels = paths
    return _read_idx(images, n_axes=3)[:, None], _read_idx(labels, n_axes=1).astype(np.int64)


def _read_idx(path: Path, n_axes: int) -> NDArray[np.uint8]:
    """Read an idx file of bytes with this number of axes, gzipped or not."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except ARCHIVE_ERRORS as error:
        raise ValueError(f"{path} is cut off, or not gzipped: {error}") from error
    header_bytes = 4 * (1 + n_axes)
    magic, *shape = struct.unpack_from(f">{1 + n_axes}I", content.ljust(header_bytes, b"\0"))
    if magic != IDX_BYTES + n_axes:
        raise ValueError(
            f"{path} is not an idx file of bytes with {n_axes} axes: "
            f"it starts with {magic:#06x}, expected {IDX_BYTES + n_axes:#06x}"
        )
    n_bytes = len(content) - header_bytes
    if n_bytes != math.prod(shape):
        raise ValueError(f"{path} is cut off: its header announces {math.prod(shape)} bytes, it contains {n_bytes}")
    return np.frombuffer(content, np.uint8, offset=header_bytes).reshape(shape).copy()


def read_packed(path: str | Path, split: Split = "train") -> Arrays:
    """Return the images (images, channels, height, width) and labels of one split of an npz file.

    The file contains `x_train`, `y_train`, `x_test` and `y_test`; or, for each split, `y_train`, `blob_train` (encoded
    mosaic images, one after the other) and `offsets_train` (where each mosaic starts, and where the last one ends). A
    mosaic consists of tiles of 32 x 32 pixels, row by row; tiles after the last label are ignored.

    Example:
        >>> np.savez("tiny.npz", x_train=np.zeros((2, 8, 8), np.uint8), y_train=[0, 1])
        >>> images, labels = fw.datasets.read_packed("tiny.npz")
        >>> images.shape
        (2, 1, 8, 8)

    Args:
        path: an npz file. Mosaics need Pillow.
        split: "train" or "test".
    """
    check_choice("split", split, get_args(Split))
    arrays = _read_npz(path, f"_{split}")
    if "y" not in arrays or not ("x" in arrays or {"blob", "offsets"} <= arrays.keys()):
        raise ValueError(f"{path} must contain y_{split}, and x_{split} or blob_{split} with offsets_{split}")
    labels = arrays["y"]
    if labels.dtype.kind not in "iuf" or (labels != labels.round()).any():
        raise ValueError(f"{path} must contain whole numbers as labels y_{split}, got {labels.dtype}")
    images = arrays["x"] if "x" in arrays else _read_tiles(path, arrays["blob"], arrays["offsets"])[: len(labels)]
    if len(images) != len(labels):
        raise ValueError(f"{path} is damaged: its {split} split has {len(labels)} labels of {len(images)} images")
    if images.dtype != np.uint8 or images.ndim not in {GRAY_AXES, COLOR_AXES}:
        raise ValueError(f"{path} must contain images as bytes, got {images.dtype} of shape {images.shape}")
    if images.ndim == GRAY_AXES:
        images = images[:, None]
    elif images.shape[3] in COLORS:
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    return images, labels.astype(np.int64)


def _read_npz(path: str | Path, ending: str) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names have this ending, by their names without it."""
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as packed:
            return {name.removesuffix(ending): packed[name] for name in packed.files if name.endswith(ending)}
    except FileNotFoundError:
        raise
    except IsADirectoryError as error:
        raise ValueError(f"{path} is a folder, not an npz file; use fwshapley.datasets.load for folders") from error
    except (TypeError, ValueError) as error:  # numpy's message suggests to unpickle
        raise ValueError(f"{path} is not an npz file, or contains Python objects, which are not read") from error
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged or cut off: {error}. Download it again") from error


def _read_tiles(path: str | Path, blob: NDArray[np.uint8], offsets: NDArray[np.integer]) -> NDArray[np.uint8]:
    """Return the tiles of all mosaics, (tiles, 32, 32, 3)."""
    try:
        from PIL import Image  # noqa: PLC0415 - optional
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{path} contains encoded images, which need Pillow: pip install 'fwshapley[images]'"
        ) from error
    tiles = []
    for start, end in itertools.pairwise(offsets.tolist()):
        try:
            mosaic = np.asarray(Image.open(io.BytesIO(blob[start:end].tobytes())).convert("RGB"))
        except (OSError, SyntaxError) as error:  # what Pillow raises on damaged files
            raise ValueError(f"{path} is damaged: a mosaic cannot be read ({error})") from error
        rows, columns = mosaic.shape[0] // TILE, mosaic.shape[1] // TILE
        tiles.append(mosaic.reshape(rows, TILE, columns, TILE, 3).transpose(0, 2, 1, 3, 4).reshape(-1, TILE, TILE, 3))
    return np.concatenate(tiles)
