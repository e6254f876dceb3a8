"""The official files of three data sets, by format; a file that is cut off or of another format is refused by name.

- CIFAR-10, binary version: records of a label and 3 x 32 x 32 pixels, five files to train and one to test. The Python
  version is pickled, and reading a pickle runs what is in it: it is never read.
- SVHN, cropped digits: MATLAB files of X (32, 32, 3, images) and y, where 10 stands for the digit 0.
- Fashion-MNIST: idx files, a header of whole numbers, then bytes; mostly gzipped.
"""

from __future__ import annotations

import gzip
import math
import struct
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fwshapley.datasets.packed import Arrays, Split

CIFAR_FOLDER = "cifar-10-batches-bin"
CIFAR_BATCHES: dict[Split, tuple[str, ...]] = {
    "train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    "test": ("test_batch.bin",),
}
CIFAR_SHAPE = (3, 32, 32)
CIFAR_RECORD = 1 + math.prod(CIFAR_SHAPE)
SVHN_ZERO = 10
IDX_MAGIC = 0x0800
"""First number of an idx file of bytes, to which its number of axes is added."""

CUT_OFF = (EOFError, OSError, tarfile.TarError, zlib.error)
"""What the standard library raises on archives that are damaged."""


def read_cifar10(paths: Sequence[Path], split: Split) -> Arrays:
    """Read the .bin files of a split, or the archive that holds them."""
    if paths[0].suffix == ".bin":
        batches = {str(path): path.read_bytes() for path in paths}
    else:
        batches = _read_archive(paths[0], CIFAR_BATCHES[split])
    for name, batch in batches.items():
        if not batch or len(batch) % CIFAR_RECORD:
            raise ValueError(
                f"{name} is cut off, or not of CIFAR-10's binary version: {len(batch)} bytes are no multiple of "
                f"{CIFAR_RECORD}"
            )
    records = np.frombuffer(b"".join(batches.values()), np.uint8).reshape(-1, CIFAR_RECORD)
    return np.ascontiguousarray(records[:, 1:]).reshape(-1, *CIFAR_SHAPE), records[:, 0].astype(np.int64)


def read_svhn(paths: Sequence[Path], split: Split) -> Arrays:
    """Read the MATLAB file of a split."""
    from scipy.io import loadmat  # noqa: PLC0415 - takes a while, and only this data set needs it

    del split  # its file has been found
    try:
        found = loadmat(paths[0], variable_names=["X", "y"])
        pixels, labels = found["X"], found["y"].ravel().astype(np.int64)
        pixels = np.ascontiguousarray(pixels.transpose(3, 2, 0, 1))
    except KeyError as error:
        raise ValueError(f"{paths[0]} has no variable {error}: is it of SVHN's cropped digits?") from error
    except Exception as error:  # scipy raises what its parser stumbles over, TypeError and IndexError among others
        raise ValueError(f"{paths[0]} is cut off, or no MATLAB file of SVHN's cropped digits: {error}") from error
    return pixels, np.where(labels == SVHN_ZERO, 0, labels)


def read_fashion_mnist(paths: Sequence[Path], split: Split) -> Arrays:
    """Read the idx files of images and of labels."""
    del split  # its files have been found
    images, labels = paths
    return read_idx(images, axes=3)[:, None], read_idx(labels, axes=1).astype(np.int64)


def read_idx(path: Path, axes: int) -> NDArray[np.uint8]:
    """Read an idx file of bytes, gzipped or not.

    Args:
        path: of the file.
        axes: that it must have.
    """
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except CUT_OFF as error:
        raise ValueError(f"{path} is cut off, or not gzipped: {error}") from error
    start = 4 * (1 + axes)
    magic, *shape = struct.unpack_from(f">{1 + axes}I", content.ljust(start, b"\0"))
    wanted = IDX_MAGIC + axes
    if magic != wanted:
        raise ValueError(f"{path} is no idx file of {axes} axes: it starts with {magic:#06x}, not {wanted:#06x}")
    announced, there = math.prod(shape), len(content) - start
    if there != announced:
        raise ValueError(f"{path} is cut off: {announced} bytes were announced, {there} are there")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()


def _read_archive(path: Path, wanted: Sequence[str]) -> dict[str, bytes]:
    """Return files of CIFAR-10's archive in the order wanted, reading it once, from end to end."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                file = archive.extractfile(member)
                if file is not None and member.name in {f"{CIFAR_FOLDER}/{name}" for name in wanted}:
                    found[member.name] = file.read()
    except CUT_OFF as error:
        raise ValueError(f"{path} is cut off, or no gzipped archive: {error}") from error
    missing = [name for name in wanted if f"{CIFAR_FOLDER}/{name}" not in found]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}: it is not CIFAR-10's binary version")
    return {f"{path}, {name}": found[f"{CIFAR_FOLDER}/{name}"] for name in wanted}
