"""Folders of labeled pictures as features: of networks that are trained on them, or of one that the user names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import fwshapley as fw
from fwshapley._internal.files import check_writable
from fwshapley._internal.wording import counted
from fwshapley.cli.backbone import Backbone
from fwshapley.cli.console import errors
from fwshapley.cli.images import ClassFolder, Pictures, find_pictures
from fwshapley.cli.images.files import Look, Size, look_at
from fwshapley.cli.input_reading import Reading, read_inputs

LARGEST_SIDE = 32
"""Pixels along the longer side of pictures that networks are trained on, where --size does not say otherwise."""

POOR_AGREEMENT = 0.5

Features = NDArray[np.float32] | NDArray[np.float64]


@dataclass(frozen=True)
class Learning:
    """How features come about.

    Attributes:
        backbone: name of the network whose outputs they are; None trains networks on the folder.
        folds: that these are cross-fitted by.
        budget: of their training, if it is not the default.
        seed: of their training.
        device: where networks run.
        checkpoints: folder to save their training to.
        resume: go on from there.
    """

    backbone: str | None
    folds: int
    budget: fw.Budget | None
    seed: int
    device: str
    checkpoints: Path
    resume: bool

    def check_stopped(self, *, force: bool) -> None:
        """Raise an error if training was stopped here and nobody says what to do about it; start anew if one does.

        Also if it is to be resumed and there is nothing to resume, or if it could not be saved here.
        """
        check_writable(self.checkpoints)
        if self.resume and not self._saved():
            raise FileNotFoundError(
                f"{self.checkpoints.parent} holds no training that was stopped, so there is nothing to resume: "
                "leave --resume out"
            )
        if any(self._saved()) and not (self.resume or force):
            raise FileExistsError(
                f"{self.checkpoints.parent} holds training that was stopped: go on with --resume, or start anew with "
                "--force"
            )
        if force and not self.resume:
            self.clear()

    def clear(self) -> None:
        """Remove what was saved of the training, and nothing else."""
        for path in self._saved():
            path.unlink()
        if self.checkpoints.exists() and not any(self.checkpoints.iterdir()):
            self.checkpoints.rmdir()

    def _saved(self) -> list[Path]:
        return sorted(self.checkpoints.glob("fold_*.safetensors"))


class Embedding(NamedTuple):
    """Features of pictures.

    Attributes:
        x: a row for each.
        embed: gives the features of other images.
        note: on what they are.
        how: they came about, as JSON holds it.
    """

    x: Features
    embed: Callable[[NDArray[np.float32]], Features]
    note: str
    how: Mapping[str, Any]


def read_folders(
    path: Path, reference: Path | None, reading: Reading, learning: Learning, k: int
) -> tuple[Pictures, Pictures | None]:
    """Read a folder of labeled pictures, perhaps another to value them by, and turn both into features.

    Args:
        path: of the folder, with one for each class in it.
        reference: of another with the same classes.
        reading: how pictures are read.
        learning: how features come about.
        k: neighbors that there must be.
    """
    folder = find_pictures(path)
    others = None if reference is None else folder.find_reference(reference)
    _check_enough(folder, learning, k, by_each_other=reference is None)
    look = look_at(folder.files)
    reading, about = settle(reading, look, len(folder), learned=learning.backbone is None)
    backbone = None if learning.backbone is None else Backbone(learning.backbone, learning.device)
    inputs, reading = read_inputs([path], reading)
    if inputs.skipped:
        folder = folder.without(inputs.skipped)
        _check_enough(folder, learning, k, by_each_other=reference is None)
    images = np.asarray(inputs.x, np.float32)
    references = None if others is None else read_inputs([others.path], reading)[0]
    found = _learn(folder, images, learning) if backbone is None else _ask(backbone, images)
    how = {**found.how, "size": str(reading.size), "color": reading.color, "skipped": list(inputs.skipped)}
    notes = (*folder.notes, *inputs.notes, *about, found.note)
    pictures = Pictures(folder, found.x, tuple(note[:1].upper() + note[1:] for note in notes), how)
    if others is None or references is None:
        return pictures, None
    others = others.without(references.skipped)
    told = tuple(f"{others.path.name}: {note}" for note in (*others.notes, *references.notes))
    return pictures, Pictures(others, found.embed(np.asarray(references.x, np.float32)), told, how)


def settle(reading: Reading, look: Look, count: int, *, learned: bool) -> tuple[Reading, list[str]]:
    """Return the reading with size and color where they were left open, and notes on what was chosen.

    A backbone gets pictures as they are; networks that are trained here get them small.
    """
    notes = []
    if reading.color is None:
        reading = replace(reading, color=look.color)
        if 0 < look.grays < count and look.color == "rgb":
            notes.append(f"{counted(look.grays, 'picture')} in gray, the others in color: all are read as rgb")
    if reading.size is None and learned:
        size = _common_size(look.sizes)
        if look.sizes != {size}:
            found = next(iter(look.sizes)) if len(look.sizes) == 1 else f"{len(look.sizes):,} different sizes"
            notes.append(f"resized from {found} to {size} pixels; choose another by --size")
        reading = replace(reading, size=size)
    return reading, notes


def _common_size(sizes: frozenset[Size]) -> Size:
    """Return the one size that all pictures have, made smaller if it is large; else a square."""
    if len(sizes) > 1:
        return Size(LARGEST_SIDE, LARGEST_SIDE)
    (size,) = sizes
    share = min(1.0, LARGEST_SIDE / max(size))
    return Size(*(max(1, round(share * side)) for side in size))


def _check_enough(folder: ClassFolder, learning: Learning, k: int, *, by_each_other: bool) -> None:
    """Raise an error if there are too few pictures, before there is any work to lose."""
    sizes, there = np.bincount(folder.y), len(folder) - by_each_other
    if k > there:
        raise ValueError(f"k = {k} neighbors are more than the {there} pictures there are to choose from")
    if learning.backbone is None and sizes.min() < learning.folds:
        few, name = int(sizes.min()), folder.classes.names[int(sizes.argmin())]
        fewer = f"--folds {few}, or " if few > 1 else ""
        raise ValueError(
            f"class {name} of {folder.path} has {counted(few, 'picture')} for {learning.folds} folds, and each needs "
            f"one: use {fewer}a --backbone, or add pictures"
        )


def _learn(folder: ClassFolder, images: NDArray[np.float32], learning: Learning) -> Embedding:
    """Train networks on the folder."""
    errors.print(f"training {learning.folds} networks on {counted(len(folder), 'picture')}", highlight=False)
    fitted = fw.cross_fit(
        images,
        folder.labels,
        folds=learning.folds,
        budget=learning.budget,
        seed=learning.seed,
        device=learning.device,
        checkpoints=learning.checkpoints,
        resume=learning.resume,
    )
    poor = fitted.agreement < POOR_AGREEMENT
    note = (
        f"features: what {learning.folds} networks say of pictures that they were not trained on (cross-fitting); they "
        f"predict the label of {fitted.agreement:.0%} of those"
        + (", which is poor: name a --backbone, or train longer (--seconds)" if poor else "")
    )
    how = {
        "features": "log probabilities of classes, cross-fitted",
        "folds": learning.folds,
        "seed": learning.seed,
        "budget": None if learning.budget is None else asdict(learning.budget),
        "agreement": fitted.agreement,
    }
    return Embedding(fitted.features.numpy(), lambda others: fitted.embed(others).numpy(), note, how)


def _ask(backbone: Backbone, images: NDArray[np.float32]) -> Embedding:
    features = backbone(images)
    note = f"features: {counted(features.shape[1], 'output')} of {backbone.name}"
    return Embedding(features, backbone, note, {"features": backbone.name})
