"""Images and labels of a data set, from files that are there or are downloaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple, get_args

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from fwshapley._internal.checks import check_choice
from fwshapley.datasets import downloads
from fwshapley.datasets.packed import Arrays, Split, read_packed
from fwshapley.datasets.sources import DATASETS, Name, Source

ROOT_VARIABLE, USUAL_ROOT = "FWSHAPLEY_DATA", "~/.cache/fwshapley"


class LabeledImages(NamedTuple):
    """Images and their classes.

    Attributes:
        images: bytes, 0 to 255.
        labels: numbers of the classes.
        classes: their names.
    """

    images: UInt8[Tensor, "images channels height width"]
    labels: Int64[Tensor, " images"]
    classes: tuple[str, ...]


def load(
    name: Name, root: str | Path | None = None, *, split: Split = "train", download: bool = True, progress: bool = True
) -> LabeledImages:
    """Return images, labels and names of classes.

    Read are the official files (CIFAR-10's binary version, SVHN's cropped digits, Fashion-MNIST's idx files), or a
    packed `<name>.npz` or `<name>_jpeg95.npz` as `read_packed` takes it. Nothing is ever unpickled. What is missing is
    downloaded to <root>/<name>: checked by its md5, and there whole or not at all. Files that were there are checked by
    their format.

    Args:
        name: "cifar10", "fashion_mnist" or "svhn".
        root: folder to look in, or an npz file; None is the folder that the environment variable FWSHAPLEY_DATA names,
            else ~/.cache/fwshapley.
        split: "train" or "test", as the authors divide it.
        download: whether to fetch what is missing.
        progress: shows how far downloads are: a bar on a terminal, lines elsewhere.
    """
    check_choice("name", name, list(DATASETS))
    check_choice("split", split, get_args(Split))
    source = DATASETS[name]
    place = Path(root or os.environ.get(ROOT_VARIABLE) or USUAL_ROOT).expanduser()
    if place.suffix == ".npz" and not place.is_file():
        raise FileNotFoundError(f"there is no file {place}")
    if place.is_file() and place.suffix != ".npz":
        raise ValueError(f"root must be a folder, or an npz file; {place} is neither: give the folder that holds it")
    paths = (place,) if place.is_file() else source.find(place, split)
    if paths is None and not download:
        raise FileNotFoundError(
            f"{source.title} is not in {place}: {source.advice(place, split)}, or allow its download by download=True"
        )
    if paths is None:
        paths = _download(source, place, split, progress=progress)
    images, labels = read_packed(paths[0], split) if paths[0].suffix == ".npz" else source.read(paths, split)
    _check(source, paths[0], (images, labels), split)
    return LabeledImages(torch.from_numpy(images), torch.from_numpy(labels), source.classes)


def _download(source: Source, root: Path, split: Split, *, progress: bool) -> tuple[Path, ...]:
    """Fetch the files of a split that are missing, or say how they may come here otherwise."""
    folder = root / source.folders[0]
    try:
        for file in source.remote[split]:
            if not (folder / file.name).is_file():
                downloads.download(file, folder, progress=progress)
    except ConnectionError as error:
        raise ConnectionError(f"{error}. Without it, {source.advice(root, split)}") from error
    return tuple(folder / file.name for file in source.remote[split])


def _check(source: Source, path: Path, arrays: Arrays, split: Split) -> None:
    images, labels = arrays
    if not len(labels) or images.shape != (len(labels), *source.shape):
        raise ValueError(f"{path} is not {source.title}: its images are {images.shape}, its labels {labels.shape}")
    if labels.min() < 0 or labels.max() >= len(source.classes):
        raise ValueError(f"{path} is not {source.title}: its labels are {labels.min()} to {labels.max()}")
    for other in DATASETS.values():  # of the same shape, nothing but their number tells them apart
        alike = other.shape == source.shape and len(labels) == other.counts[split] != source.counts[split]
        if alike:
            raise ValueError(
                f"{path} seems to be {other.title}, not {source.title}: it has {len(labels):,} images to {split}"
            )
