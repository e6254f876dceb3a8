"""The data sets by name: the files of each, where they come from, and which function reads them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from fwshapley._internal.checks import check_choice
from fwshapley.datasets import downloads
from fwshapley.datasets.downloads import RemoteFile
from fwshapley.datasets.formats import (
    CIFAR_BATCHES,
    CIFAR_FOLDER,
    Arrays,
    Split,
    read_cifar10,
    read_fashion_mnist,
    read_packed,
    read_svhn,
)

Name = Literal["cifar10", "fashion_mnist", "svhn"]

ROOT_VARIABLE = "FWSHAPLEY_DATA"
DEFAULT_ROOT = "~/.cache/fwshapley"

CIFAR_URL = "https://www.cs.toronto.edu/~kriz"
SVHN_URL = "http://ufldl.stanford.edu/housenumbers"
FASHION_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"  # S3 websites have no https


class LabeledImages(NamedTuple):
    """Images and their classes.

    Example:
        >>> images = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
        >>> data = fw.datasets.LabeledImages(images, torch.tensor([0, 1]), ("a", "b"))
        >>> data.classes[data.labels[1]]
        'b'

    Attributes:
        images: bytes, 0 to 255.
        labels: indices of the classes.
        classes: names of the classes.
    """

    images: UInt8[Tensor, "images channels height width"]
    labels: Int64[Tensor, " images"]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """One data set.

    Attributes:
        title: name as its authors write it.
        classes: names of the classes, in the order of the labels.
        shape: channels, height and width of an image.
        counts: number of images of each split.
        remote: official files of a split.
        stored: alternative sets of files that a split can be read from.
        folders: folders of the root where these files may be; downloads go to the first one.
        read: function that reads one of these sets.
        pickled: files of a pickled version, which is not supported.
    """

    title: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    counts: Mapping[Split, int]
    remote: Mapping[Split, tuple[RemoteFile, ...]]
    stored: Mapping[Split, tuple[tuple[str, ...], ...]]
    folders: tuple[str, ...]
    read: Callable[[Sequence[Path], Split], Arrays]
    pickled: tuple[str, ...] = ()

    def find(self, root: Path, split: Split) -> tuple[Path, ...] | None:
        """Return the files to read a split from, official ones before packed ones, or None."""
        for folder in self.folders:
            for names in self.stored[split]:
                paths = tuple(root / folder / name for name in names)
                if all(path.is_file() for path in paths):
                    return paths
        name = self.folders[0]
        packed = (root / folder / f"{name}{ending}.npz" for folder in ("", name) for ending in ("", "_jpeg95"))
        return next(((path,) for path in packed if path.is_file()), None)

    def advice(self, root: Path, split: Split) -> str:
        """Return which files the user can put where."""
        urls = " and ".join(file.url for file in self.remote[split])
        pickled = [name for folder in self.folders for name in self.pickled if (root / folder / name).exists()]
        note = f" ({pickled[0]} is pickled: reading it could run any code, so it is not read)" if pickled else ""
        return f"put {urls} into {root / self.folders[0]}{note}, or a packed {self.folders[0]}.npz into {root}"

    def check(self, path: Path, arrays: Arrays, split: Split) -> None:
        """Raise an error that names the file if its arrays are not those of this data set."""
        images, labels = arrays
        if not len(labels) or images.shape != (len(labels), *self.shape):
            raise ValueError(f"{path} is not {self.title}: its images are {images.shape}, its labels {labels.shape}")
        if labels.min() < 0 or labels.max() >= len(self.classes):
            raise ValueError(f"{path} is not {self.title}: its labels are {labels.min()} to {labels.max()}")
        for other in DATASETS.values():  # data sets of the same shape differ in their number of images
            if other.shape == self.shape and len(labels) == other.counts[split] != self.counts[split]:
                raise ValueError(
                    f"{path} seems to be {other.title}, not {self.title}: its {split} split has {len(labels):,} images"
                )


def load(
    name: Name, root: str | Path | None = None, *, split: Split = "train", download: bool = True, progress: bool = True
) -> LabeledImages:
    """Return the images, labels and class names of a data set.

    Reads the official files (CIFAR-10's binary version, SVHN's cropped digits, Fashion-MNIST's idx files), or a packed
    `<name>.npz` or `<name>_jpeg95.npz` (see `read_packed`). Missing files are downloaded to <root>/<name> and
    verified by their md5. Nothing is unpickled.

    Example:
        >>> images, labels, classes = fw.datasets.load("cifar10", "data", split="test")  # doctest: +SKIP
        >>> images.shape  # doctest: +SKIP
        torch.Size([10000, 3, 32, 32])

    Args:
        name: "cifar10", "fashion_mnist" or "svhn".
        root: folder with the files, or an npz file. None uses the folder in the environment variable FWSHAPLEY_DATA,
            or ~/.cache/fwshapley.
        split: "train" or "test", the official split.
        download: whether to download missing files.
        progress: shows the progress of downloads.
    """
    check_choice("name", name, list(DATASETS))
    check_choice("split", split, get_args(Split))
    source = DATASETS[name]
    root = Path(root or os.environ.get(ROOT_VARIABLE) or DEFAULT_ROOT).expanduser()
    if root.suffix == ".npz" and not root.is_file():
        raise FileNotFoundError(f"root={root} does not exist")
    if root.is_file() and root.suffix != ".npz":
        raise ValueError(f"root must be a folder or an npz file, got {root}; pass the folder that contains it")
    paths = (root,) if root.is_file() else source.find(root, split)
    if paths is None and not download:
        raise FileNotFoundError(f"{source.title} is not in {root}: {source.advice(root, split)}, or pass download=True")
    if paths is None:
        paths = _download(source, root, split, progress=progress)
    images, labels = read_packed(paths[0], split) if paths[0].suffix == ".npz" else source.read(paths, split)
    source.check(paths[0], (images, labels), split)
    return LabeledImages(torch.from_numpy(images), torch.from_numpy(labels), source.classes)


def _download(source: Source, root: Path, split: Split, *, progress: bool) -> tuple[Path, ...]:
    """Download the missing files of a split; without a connection, say which files the user can put where."""
    folder = root / source.folders[0]
    try:
        for file in source.remote[split]:
            if not (folder / file.name).is_file():
                downloads.download(file, folder, progress=progress)
    except ConnectionError as error:
        raise ConnectionError(f"{error}. Without a download, {source.advice(root, split)}") from error
    return tuple(folder / file.name for file in source.remote[split])


def _fashion_files(prefix: str, *md5: str) -> tuple[RemoteFile, ...]:
    urls = [f"{FASHION_URL}/{name}.gz" for name in _idx_names(prefix)]
    return tuple(map(RemoteFile, urls, md5))


def _stored_idx(prefix: str) -> tuple[tuple[str, ...], ...]:
    return tuple(f"{name}.gz" for name in _idx_names(prefix)), _idx_names(prefix)


def _idx_names(prefix: str) -> tuple[str, str]:
    return f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte"


CIFAR_ARCHIVE = RemoteFile(f"{CIFAR_URL}/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530")

DATASETS: dict[Name, Source] = {
    "cifar10": Source(
        title="CIFAR-10",
        classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
        shape=(3, 32, 32),
        counts={"train": 50_000, "test": 10_000},
        remote={"train": (CIFAR_ARCHIVE,), "test": (CIFAR_ARCHIVE,)},
        stored={
            split: (tuple(f"{CIFAR_FOLDER}/{batch}" for batch in batches), batches, (CIFAR_ARCHIVE.name,))
            for split, batches in CIFAR_BATCHES.items()
        },
        folders=("cifar10", ""),
        read=read_cifar10,
        pickled=("cifar-10-batches-py", "cifar-10-python.tar.gz"),
    ),
    "fashion_mnist": Source(
        title="Fashion-MNIST",
        classes=(
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
        shape=(1, 28, 28),
        counts={"train": 60_000, "test": 10_000},
        remote={
            "train": _fashion_files("train", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe"),
            "test": _fashion_files("t10k", "bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310"),
        },
        stored={"train": _stored_idx("train"), "test": _stored_idx("t10k")},
        folders=("fashion_mnist", "FashionMNIST/raw"),  # not the root itself: MNIST's files have the same names
        read=read_fashion_mnist,
    ),
    "svhn": Source(
        title="SVHN",
        classes=tuple("0123456789"),
        shape=(3, 32, 32),
        counts={"train": 73_257, "test": 26_032},
        remote={
            "train": (RemoteFile(f"{SVHN_URL}/train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),),
            "test": (RemoteFile(f"{SVHN_URL}/test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),),
        },
        stored={"train": (("train_32x32.mat",),), "test": (("test_32x32.mat",),)},
        folders=("svhn", ""),
        read=read_svhn,
    ),
}
