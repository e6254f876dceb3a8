"""Features of labeled pictures, to measure distances with: from networks trained on them, or from your own network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import fwshapley as fw
from fwshapley._internal.progress import ProgressBar
from fwshapley._internal.tensor_checks import choose_device
from fwshapley._internal.wording import counted
from fwshapley.cli.console import about_budget, errors
from fwshapley.cli.input_files import read_inputs
from fwshapley.cli.input_format import InputFormat
from fwshapley.cli.model_loading import find_model
from fwshapley.cli.pictures.files import Look, Size, look_at
from fwshapley.cli.pictures.labeled_folder import ClassFolder, Pictures, find_pictures
from fwshapley.explanation.inputs.model_functions import find_function

MAX_SIDE = 32
"""Pixels along the longer side of pictures that networks are trained on, without --size."""

POOR_LABEL_AGREEMENT = 0.5
BATCH = 64

Features = NDArray[np.float32] | NDArray[np.float64]


class Training(NamedTuple):
    """How networks are trained on pictures.

    Attributes:
        folds: number of networks; each is trained without the pictures of one fold.
        budget: of all of them together; None depends on the number of pictures.
        seed: of everything random.
        checkpoints: folder to save progress to.
        resume: continue from there.
    """

    folds: int
    budget: fw.Budget | None
    seed: int
    checkpoints: Path
    resume: bool


def read_folders(
    path: Path,
    reference: Path | None,
    wanted: InputFormat,
    *,
    backbone: str | None,
    training: Training,
    k: int,
    device: str,
) -> tuple[Pictures, Pictures | None]:
    """Read a folder of labeled pictures, perhaps a reference folder, and compute the features of both.

    Args:
        path: of the folder, which contains one folder per class.
        reference: of another folder with the same classes.
        wanted: the format of the pictures, as far as it is known.
        backbone: name of the network whose outputs are the features; None trains networks on the folder.
        training: how these are trained.
        k: number of nearest neighbors; there must be more pictures.
        device: where networks run.
    """
    folder = find_pictures(path)
    references = None if reference is None else folder.find_reference(reference)
    folds = training.folds if backbone is None else 1
    check_picture_count(folder, folds, k, by_each_other=reference is None)
    network = None if backbone is None else Backbone(backbone, device)
    folder, images, wanted, skipped = read_pixels(folder, wanted, trained=backbone is None)
    check_picture_count(folder, folds, k, by_each_other=reference is None)
    reference_inputs = None if references is None else read_inputs([references.path], wanted)[0]
    if network is None:
        x, embed, note, how = _train(folder, images, training, device)
    else:
        x, embed, how = network(images), network, {"features": network.name}
        note = f"features: {counted(x.shape[1], 'output')} of {network.name}"
    how = {**how, "size": str(wanted.size), "color": wanted.color, "skipped": skipped}
    pictures = Pictures.of(folder, x, (note[:1].upper() + note[1:] for note in (*folder.notes, note)), how)
    if references is None or reference_inputs is None:
        return pictures, None
    references = references.without(reference_inputs.skipped)
    notes = tuple(f"{references.path.name}: {note}" for note in (*references.notes, *reference_inputs.notes))
    return pictures, Pictures.of(references, embed(np.asarray(reference_inputs.x, np.float32)), notes, how)


def read_pixels(
    folder: ClassFolder, wanted: InputFormat, *, trained: bool
) -> tuple[ClassFolder, NDArray[np.float32], InputFormat, list[str]]:
    """Read the pictures of a folder: return those that can be read, their pixels, the format, and those that cannot.

    Args:
        folder: of the pictures.
        wanted: the format of the pictures, as far as it is known.
        trained: whether networks are trained on the pictures, which are small then.
    """
    wanted, chosen = choose_format(wanted, look_at(folder.files), len(folder), trained=trained)
    inputs, wanted = read_inputs([folder.path], wanted)
    kept = folder.without(inputs.skipped) if inputs.skipped else folder
    kept = replace(kept, notes=(*kept.notes, *inputs.notes, *chosen))
    return kept, np.asarray(inputs.x, np.float32), wanted, list(inputs.skipped)


def choose_format(wanted: InputFormat, look: Look, count: int, *, trained: bool) -> tuple[InputFormat, list[str]]:
    """Return the format with the size and color that were left open, and notes on what was chosen.

    A backbone gets pictures in their own size; networks that this command trains get small ones.
    """
    notes = []
    if wanted.color is None:
        wanted = replace(wanted, color=look.color)
        if 0 < look.grays < count and look.color == "rgb":
            notes.append(f"{counted(look.grays, 'picture')} in gray, the others in color: all are read as rgb")
    if wanted.size is None and trained:
        size = _common_size(look.sizes)
        if look.sizes != {size}:
            before = next(iter(look.sizes)) if len(look.sizes) == 1 else f"{len(look.sizes):,} different sizes"
            notes.append(f"resized from {before} to {size} pixels; --size gives another")
        wanted = replace(wanted, size=size)
    return wanted, notes


def _common_size(sizes: frozenset[Size]) -> Size:
    """Return the one size that all pictures have, made smaller if it is large; otherwise a square."""
    if len(sizes) > 1:
        return Size(MAX_SIDE, MAX_SIDE)
    (size,) = sizes
    share = min(1.0, MAX_SIDE / max(size))
    return Size(*(max(1, round(share * side)) for side in size))


def check_picture_count(folder: ClassFolder, folds: int, k: int, *, by_each_other: bool) -> None:
    """Raise an error if there are too few pictures, before there is any work to lose."""
    sizes = np.bincount(folder.y)
    neighbors = len(folder) - by_each_other
    if k > neighbors:
        raise ValueError(f"--k must be at most {neighbors}, the number of pictures to choose from; got {k}")
    if sizes.min() < folds:
        smallest, name = int(sizes.min()), folder.classes.names[int(sizes.argmin())]
        fewer = f"--folds {smallest}, or " if smallest > 1 else ""
        raise ValueError(
            f"--folds {folds} needs {folds} pictures per class; class {name} of {folder.path} has {smallest}: use "
            f"{fewer}a --backbone, or add pictures"
        )


def _train(
    folder: ClassFolder, images: NDArray[np.float32], training: Training, device: str
) -> tuple[Features, Callable[[NDArray[np.float32]], Features], str, Mapping[str, Any]]:
    """Train networks on the folder; return features, the function that computes others, a note, and facts."""
    budget = training.budget
    limit = "300 to 3,000 steps each" if budget is None else f"{about_budget(budget)} in all"
    errors.print(
        f"training {training.folds} networks on {counted(len(folder), 'picture')}: {limit}; Ctrl-C stops, --resume "
        "continues",
        highlight=False,
        soft_wrap=True,
    )
    fitted = fw.cross_fit(
        images,
        folder.labels,
        folds=training.folds,
        budget=budget,
        seed=training.seed,
        device=device,
        checkpoint=training.checkpoints,
        resume=training.resume,
    )
    poor = fitted.agreement < POOR_LABEL_AGREEMENT
    note = (
        f"features: cross-fitted class probabilities; each of {training.folds} networks predicts pictures that it was "
        f"not trained on, and finds the label of {fitted.agreement:.0%}"
        + (", which is poor: name a --backbone, or train longer (--seconds)" if poor else "")
    )
    how = {
        "features": "log probabilities of classes, cross-fitted",
        "folds": training.folds,
        "seed": training.seed,
        "budget": None if budget is None else asdict(budget),
        "agreement": fitted.agreement,
    }
    return fitted.features.numpy(), lambda others: fitted.embed(others).numpy(), note, how


class Backbone:
    """A network of the user whose outputs are features: a row of finite numbers per image, of any shape.

    Args:
        name: of the network, as `find_model` takes it.
        device: where a torch module runs.
    """

    def __init__(self, name: str, device: str) -> None:
        self.name = name
        self._predict = _as_function(find_model(name, "raw"), choose_device(device))

    def __call__(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """Features of images, (images, channels, height, width)."""
        parts: list[NDArray[np.float32]] = []
        with ProgressBar("computing features", len(images)) as bar:
            for start in range(0, len(images), BATCH):
                batch = images[start : start + BATCH]
                parts.append(self._predict_batch(batch, start))
                bar.advance(len(batch))
        if len({part.shape[1] for part in parts}) > 1:
            raise ValueError(f"{self.name} must return the same number of features for all images")
        return np.concatenate(parts)

    def _predict_batch(self, batch: NDArray[np.float32], start: int) -> NDArray[np.float32]:
        """Features of a batch, or an error that says what is wrong with them."""
        try:
            output = self._predict(batch)
        except Exception as error:  # the user's code may raise anything
            raise ValueError(
                f"{self.name} failed on images of shape {batch.shape[1:]} (channels, height, width): "
                f"{type(error).__name__}: {error}; --size and --rgb or --gray give them another"
            ) from error
        try:
            plain = np.asarray(output.detach().cpu().float() if isinstance(output, Tensor) else output, np.float32)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.name} must return numbers, it returned {type(output).__name__}") from error
        if not plain.ndim or len(plain) != len(batch) or not plain.size:
            raise ValueError(
                f"{self.name} must return a row of features for each image, it returned shape {plain.shape} for "
                f"{len(batch)} images"
            )
        rows = plain.reshape(len(batch), -1)
        wrong = ~np.isfinite(rows).all(1)
        if wrong.any():
            first = start + int(wrong.argmax())
            raise ValueError(f"{self.name} must return finite features, it did not for image {first}")
        return rows


def _as_function(model: Any, device: torch.device) -> Callable[[NDArray[np.float32]], Any]:  # noqa: ANN401 - any model
    """Return a model as a function of arrays; a torch module gets tensors."""
    if not isinstance(model, nn.Module):
        return find_function(model).call
    module = model.to(device).eval()

    def predict(batch: NDArray[np.float32]) -> Any:  # noqa: ANN401 - whatever the module returns
        with torch.no_grad():
            return module(torch.from_numpy(batch).to(device))

    return predict
