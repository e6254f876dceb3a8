"""Features of images for nearest neighbors, learned by cross-fitting: an image's own label does not influence them.

The images are divided into folds. The images of a fold get their features from a network trained on the other folds.
The hidden layers of separately trained networks are not comparable, so distances between folds would be meaningless
there. What the networks share is the classes, so the features are the log probabilities of the classes, cut off where
a class has a probability below one in a thousand:

    x = max(log p(class | image), -7)

No label of a fold influences any feature of that fold, which an alignment of hidden layers could not guarantee.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int64
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fwshapley._internal.checks import Array, check_callable, check_checkpoint, check_seed, check_whole
from fwshapley._internal.files import check_writable_file
from fwshapley._internal.safetensors_file import digest
from fwshapley._internal.tensor_checks import check_tensor, choose_device
from fwshapley.explanation.inputs.predictions import split_inputs
from fwshapley.networks.cnn import SmallCNN
from fwshapley.training.batches import Batch, Loss
from fwshapley.training.budget import Budget, TrainingOptions, check_budget
from fwshapley.training.loop import train
from fwshapley.training.shared_state import private_randomness
from fwshapley.valuation.folds import draw_folds
from fwshapley.valuation.training_margins import MarginRecorder, margins_of, recorder_in
from fwshapley.valuation.validation import check_labels

Pixels = Float32[Tensor, "n channels height width"]

NetworkMaker = Callable[[int], nn.Module]
"""Returns a new network, given the number of classes."""

WIDTH = 16
MIN_LOG = -7.0
"""Log probability below which classes are not distinguished."""

BATCH_SIZE = 64
LEARNING_RATE = 3e-3
PASSES, MIN_STEPS, MAX_STEPS = 10, 300, 3000
"""Default training of a network: passes over its images, and the least and most steps."""


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Features of images from networks that were not trained on them.

    Attributes:
        features: log probabilities of the classes for each image, by the network that was not trained on it.
        folds: the fold of each image.
        networks: one for each fold, from images to logits of classes.
        agreement: share of the images whose label is the one that their network predicts.
        margins: margin of each image's label while networks were trained on it: its logit minus the largest of the
            other classes, averaged over the steps of the training and over these networks. Low for wrong labels.
        probabilities: of the classes for each image, by each network, (networks, n, classes).
    """

    features: Float32[Tensor, "n features"]
    folds: Int64[Tensor, " n"]
    networks: tuple[nn.Module, ...]
    agreement: float
    margins: Float32[Tensor, " n"]
    probabilities: Float32[Tensor, "networks n classes"]

    @property
    def n_channels(self) -> int:
        """Channels of an image."""
        return int(self.networks[0].get_buffer("0.mean").shape[1])

    def embed(self, images: Array) -> Float32[Tensor, "n features"]:
        """Return features of other images: the mean over all networks.

        Args:
            images: of the same shape as those of `cross_fit`, in the same units.
        """
        pixels = _check_images(images)
        if pixels.shape[1] != self.n_channels:
            raise ValueError(f"images must have {self.n_channels} channels, got {pixels.shape[1]}")
        return torch.stack([_log_probabilities(network, pixels) for network in self.networks]).mean(0)


def cross_fit(
    images: Array,
    labels: Array,
    *,
    folds: int | Array = 5,
    network: NetworkMaker | None = None,
    batch_size: int = BATCH_SIZE,
    learning_rate: float = LEARNING_RATE,
    budget: Budget | None = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool = True,
) -> CrossFit:
    """Learn features of images that distinguish their classes, without using an image's own label.

    For each fold, a small convolutional network is trained on the images and labels of the other folds. The features
    of the fold's images are the log probabilities of the classes that it predicts. For photographs, features of a
    network that was trained on many more images are probably better; `value_neighbors` accepts any.

    Args:
        images: (n, channels, height, width), or (n, height, width), in any units.
        labels: numbers or text, some of which may be wrong.
        folds: number of folds, drawn at random with all classes in equal shares; or the fold of each image, to keep
            related images together (of one patient, or of one film).
        network: returns a new network, from standardized images to logits, given the number of classes; None is a small
            convolutional network. Layers that change images while training, such as shifts, belong into it.
        batch_size: images in a step.
        learning_rate: peak of the schedule.
        budget: of all networks together; by default ten passes over the images, and 300 to 3000 steps per network.
        seed: of the folds and the training.
        device: "cpu", "cuda", or "auto" for a GPU if there is one.
        checkpoint: folder to save to every 20 seconds, and when interrupted.
        resume: continue from the checkpoint, which must be of the same images, labels and options.
        progress: show progress when it takes long: a bar on a terminal, lines elsewhere.

    Example:
        >>> import fwshapley as fw
        >>> from sklearn.datasets import load_digits
        >>> digits = load_digits(n_class=2)
        >>> fitted = fw.cross_fit(digits.images, digits.target, folds=2, budget=fw.Budget(steps=20), progress=False)
        >>> fitted.features.shape
        torch.Size([360, 2])
    """
    began = time.monotonic()
    if network is not None:
        check_callable("network", network)
    pixels = _check_images(images)
    numbers, classes = check_labels("labels", labels, len(pixels))
    fold_of = _check_folds(folds, numbers, classes, check_seed(seed))
    count = int(fold_of.max()) + 1
    if budget is not None:
        check_budget(budget)
    folder = check_checkpoint(checkpoint, resume=resume)
    saved = [None if folder is None else folder / f"fold_{fold + 1}.safetensors" for fold in range(count)]
    for path in saved:
        check_writable_file(path)
    targets = torch.from_numpy(numbers)
    torch_device = choose_device(device)
    identity = {} if folder is None else {"points": digest({"images": pixels, "labels": targets, "folds": fold_of})}
    logits = torch.empty(count, len(pixels), len(classes))
    margins = torch.zeros(len(pixels))
    networks = []
    for fold in range(count):
        held_out = fold_of == fold
        share = None if budget is None else budget.part(1 / count)
        before = 0.0 if share is None else fold * (share.seconds or 0.0)
        module = _new_network(network, pixels, len(classes), seed, torch_device)
        recorder = MarginRecorder(module, int((~held_out).sum()))
        train(
            recorder,
            _classification(pixels[~held_out], targets[~held_out]),
            TrainingOptions(
                _default_budget(int((~held_out).sum()), batch_size) if share is None else share,
                batch_size,
                learning_rate,
                seed=seed,
                checkpoint=saved[fold],
                resume=resume,
                progress=progress,
                started=began + before,
            ),
            n_rows=int((~held_out).sum()),
            device=torch_device,
            identity=identity,
            description=f"training network {fold + 1} of {count}",
        )
        logits[fold] = _logits(module, pixels)
        margins[~held_out] += recorder.means(margins_of(logits[fold], targets)[~held_out]) / (count - 1)
        networks.append(module)
    log_probabilities = logits.log_softmax(2)
    features = log_probabilities[fold_of, torch.arange(len(pixels))].clamp(min=MIN_LOG)
    agreement = float((features.argmax(1) == targets).float().mean())
    return CrossFit(features, fold_of, tuple(networks), agreement, margins, log_probabilities.exp())


class Standardize(nn.Module):
    """Scales images such that each channel of those it was made from has mean 0 and standard deviation 1."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, images: Pixels) -> None:
        super().__init__()
        deviation, mean = torch.std_mean(images, (0, 2, 3), correction=0, keepdim=True)
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", torch.where(deviation > 0, deviation, 1))

    def forward(self, x: Pixels) -> Pixels:
        """Return scaled images."""
        return (x - self.mean) / self.deviation


def _check_images(images: Array) -> Pixels:
    """Return images as a tensor of finite numbers with channels."""
    pixels = check_tensor("images", images, flags=True).detach().cpu().float()
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels  # noqa: PLR2004 - no axis for channels
    if pixels.ndim != 4 or not pixels.numel():  # noqa: PLR2004 - images, channels, height, width
        raise ValueError(
            f"images must be (n, channels, height, width) or (n, height, width), got shape {tuple(pixels.shape)}"
        )
    finite = pixels.isfinite().flatten(1).all(1)
    if not finite.all():
        raise ValueError(f"images must be finite, got NaN or infinite numbers in image {int((~finite).int().argmax())}")
    return pixels


def _check_folds(
    folds: int | Array, labels: NDArray[np.int64], classes: NDArray[Any], seed: int
) -> Int64[Tensor, " n"]:
    """Return the fold of each image, such that the images outside each fold contain every class."""
    if isinstance(folds, (int, np.integer)):
        sizes = np.bincount(labels)
        folds = check_whole("folds", folds, 2)
        if sizes.min() < folds:
            raise ValueError(
                f"folds must be at most {sizes.min()}, the number of images of class {classes[sizes.argmin()]}, got "
                f"{folds}; use fewer folds, or drop the class"
            )
        return draw_folds(labels, folds, seed)
    chosen = torch.from_numpy(check_labels("folds", folds, len(labels))[0])
    occurs = torch.zeros(len(classes), int(chosen.max()) + 1, dtype=torch.bool)
    occurs[torch.from_numpy(labels), chosen] = True
    alone = (occurs.sum(1) == 1).nonzero()[:, 0]
    if len(alone):
        raise ValueError(f"folds must divide every class, but all images of class {classes[alone[0]]} are in one fold")
    return chosen


def _new_network(make: NetworkMaker | None, images: Pixels, classes: int, seed: int, device: torch.device) -> nn.Module:
    with private_randomness(device):
        torch.manual_seed(seed)
        if make is None:
            network: nn.Module = SmallCNN(images.shape[1], classes, min(images.shape[2:]), width=WIDTH)
        else:
            network = make(classes)
    if not isinstance(network, nn.Module):
        raise TypeError(f"network must return a torch module, got {type(network).__name__}")
    return nn.Sequential(Standardize(images), network).to(device)


def _default_budget(rows: int, batch_size: int) -> Budget:
    return Budget(steps=min(max(PASSES * rows // batch_size, MIN_STEPS), MAX_STEPS))


def _classification(images: Pixels, targets: Int64[Tensor, " n"]) -> Loss:
    def loss(module: nn.Module, batch: Batch) -> Tensor:
        rows = batch.shard.of(batch.rows)
        device = batch.generator.device
        labels = targets[rows].to(device)
        logits = module(images[rows].to(device)).float()
        recorder_in(module).record(rows, margins_of(logits, labels), torch.ones(len(rows), device=device))
        return functional.cross_entropy(logits, labels)

    return loss


def _log_probabilities(network: nn.Module, images: Pixels) -> Float32[Tensor, "n classes"]:
    return _logits(network, images).log_softmax(1).clamp(min=MIN_LOG)


@torch.no_grad()
def _logits(network: nn.Module, images: Pixels) -> Float32[Tensor, "n classes"]:
    device = next(network.parameters()).device
    return torch.cat([network(part.to(device)).float().cpu() for part in split_inputs(images)])
