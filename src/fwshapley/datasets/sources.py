"""The data sets by name: one row each, which says what its files are called, where they come from, what reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fwshapley.datasets.downloads import RemoteFile
from fwshapley.datasets.official import CIFAR_BATCHES, CIFAR_FOLDER, read_cifar10, read_fashion_mnist, read_svhn
from fwshapley.datasets.packed import Arrays, Split

Name = Literal["cifar10", "fashion_mnist", "svhn"]

CIFAR = "https://www.cs.toronto.edu/~kriz"
SVHN = "http://ufldl.stanford.edu/housenumbers"
FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"  # such sites of S3 have no https


@dataclass(frozen=True)
class Source:
    """One data set.

    Attributes:
        title: as its authors write it.
        classes: names, in the order of the labels.
        shape: channels, height and width of an image.
        counts: of the images of each split.
        remote: official files of a split.
        stored: sets of files that a split may be read from.
        folders: of the root, to look for those in; downloads go to the first.
        read: reads one of those sets.
        pickled: names of a version that is not read, as reading it would run what is in it.
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
        """Return the files to read a split from, official ones before packed ones, if there are any."""
        for folder in self.folders:
            for names in self.stored[split]:
                paths = tuple(root / folder / name for name in names)
                if all(path.is_file() for path in paths):
                    return paths
        name = self.folders[0]
        packed = (root / folder / f"{name}{ending}.npz" for folder in ("", name) for ending in ("", "_jpeg95"))
        return next(((path,) for path in packed if path.is_file()), None)

    def advice(self, root: Path, split: Split) -> str:
        """Return which files to put where, and what cannot take their place."""
        addresses = " and ".join(file.address for file in self.remote[split])
        there = [name for folder in self.folders for name in self.pickled if (root / folder / name).exists()]
        pickled = f" ({there[0]} is pickled: reading it could run any code, so it is not read)" if there else ""
        packed = f"a packed {self.folders[0]}.npz into {root}"
        return f"put {addresses} into {root / self.folders[0]}{pickled}, or {packed}"


def _idx_files(prefix: str, md5_of_images: str, md5_of_labels: str) -> tuple[RemoteFile, RemoteFile]:
    return (
        RemoteFile(f"{FASHION}/{prefix}-images-idx3-ubyte.gz", md5_of_images),
        RemoteFile(f"{FASHION}/{prefix}-labels-idx1-ubyte.gz", md5_of_labels),
    )


def _idx_names(prefix: str) -> tuple[tuple[str, ...], ...]:
    """Names of images and labels, gzipped or unpacked."""
    unpacked = (f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte")
    return tuple(f"{name}.gz" for name in unpacked), unpacked


CIFAR_ARCHIVE = RemoteFile(f"{CIFAR}/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530")

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
            "train": _idx_files("train", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe"),
            "test": _idx_files("t10k", "bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310"),
        },
        stored={"train": _idx_names("train"), "test": _idx_names("t10k")},
        folders=("fashion_mnist", "FashionMNIST/raw"),  # not the root itself: MNIST's files have the same names
        read=read_fashion_mnist,
    ),
    "svhn": Source(
        title="SVHN",
        classes=tuple("0123456789"),
        shape=(3, 32, 32),
        counts={"train": 73_257, "test": 26_032},
        remote={
            "train": (RemoteFile(f"{SVHN}/train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),),
            "test": (RemoteFile(f"{SVHN}/test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),),
        },
        stored={"train": (("train_32x32.mat",),), "test": (("test_32x32.mat",),)},
        folders=("svhn", ""),
        read=read_svhn,
    ),
}
