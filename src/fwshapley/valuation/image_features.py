"""Features of images for nearest neighbors, learned by cross-fitting: an image's own label has no say in them.

The images are dealt to folds, and those of a fold get their features from a network that was trained on the others. The
hidden layers of networks that were trained apart are not comparable, so that distances across folds would mean nothing
there. What the networks share is the classes, so features are the log probabilities that they give to these, where one
in a thousand is as good as none:

    x = max(log p(class | image), -7)

No label of a fold has a say in any feature of that fold, which alignments of hidden layers cannot promise.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int64
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fwshapley._internal.bundle import digest
from fwshapley._internal.checks import Array, check_seed, check_whole
from fwshapley._internal.files import check_checkpoint
from fwshapley._internal.tensors import as_tensor
from fwshapley.explanation.inputs import check_budget, choose_device
from fwshapley.explanation.surrogate import in_chunks
from fwshapley.networks.cnn import SmallCNN
from fwshapley.training.budget import Batch, Budget, Loss, Recipe
from fwshapley.training.loop import own_randomness, train
from fwshapley.valuation.validation import check_labels

Pixels = Float32[Tensor, "n channels height width"]

WIDTH = 16
LEAST_LOG = -7.0
"""Log probability below which it does not matter how improbable a class is."""

RECIPE = Recipe(batch_size=64, learning_rate=3e-3)
PASSES, LEAST_STEPS, MOST_STEPS = 10, 300, 3000
"""How long a network is trained without a budget: passes over its images, and steps at least and at most."""


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Networks that were trained on all folds but one each, and what they say of the images.

    Attributes:
        features: of each image, by the network that has not seen it.
        folds: the fold of each image.
        networks: one for each fold, from images to logits of classes.
        agreement: share of the images whose label is what the network that has not seen them predicts.
    """

    features: Float32[Tensor, "n features"]
    folds: Int64[Tensor, " n"]
    networks: tuple[nn.Module, ...]
    agreement: float

    def embed(self, images: Array) -> Float32[Tensor, "n features"]:
        """Return features of images that no network has seen: the mean over networks."""
        pixels = _check_images(images)
        return torch.stack([_features(network, pixels) for network in self.networks]).mean(0)


def cross_fit(
    images: Array,
    labels: Array,
    *,
    folds: int | Array = 5,
    budget: Budget | None = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    checkpoints: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
) -> CrossFit:
    """Learn features of images that tell their classes apart, without a look at an image's own label.

    For each fold a small convolutional network is trained on the images of the other folds, labels as given, and says
    how probable each class is for those of the fold: features are the logs of that. For photographs, features of a
    network that was trained on many more images are likely better: `value_neighbors` takes any.

    Args:
        images: (n, channels, height, width), or (n, height, width); in any units.
        labels: numbers or text, some of which may be wrong.
        folds: how many, dealt at random and evenly within each class; or the fold of each image, so that those that
            belong together (of one patient, or of one film) are kept together.
        budget: for all networks together; by default ten passes over the images, from 300 to 3000 steps a
            network.
        seed: of everything random.
        device: "cpu", "cuda", or "auto" for a GPU if there is one.
        checkpoints: folder to save to every 20 seconds, and when interrupted.
        resume: go on from there, where it was saved for the same images, labels and options.
        progress: show progress when it takes long: a bar on a terminal, lines elsewhere.

    Example:
        >>> value_neighbors(cross_fit(images, labels).features, labels).suspects(20)
    """
    began = time.monotonic()
    pixels = _check_images(images)
    numbers, classes = check_labels("labels", labels, len(pixels))
    dealt = _check_folds(folds, numbers, classes, check_seed(seed))
    count = int(dealt.max()) + 1
    if budget is not None:
        check_budget(budget)
    saved = [
        None if checkpoints is None else Path(checkpoints) / f"fold_{fold + 1}.safetensors" for fold in range(count)
    ]
    for path in saved:
        check_checkpoint(path, "checkpoints=...")
    targets, where = torch.from_numpy(numbers), choose_device(device)
    known = {"images": pixels, "labels": targets, "folds": dealt}
    identity = {} if checkpoints is None else {"points": digest(known)}
    features = torch.empty(len(pixels), len(classes))
    networks = []
    for fold in range(count):
        held_out = dealt == fold
        share = None if budget is None else budget.part(1 / count)
        before = 0.0 if share is None else fold * (share.seconds or 0.0)
        network = _new_network(pixels, len(classes), seed, where)
        train(
            network,
            _classification(pixels[~held_out], targets[~held_out]),
            rows=int((~held_out).sum()),
            recipe=RECIPE,
            budget=_default_budget(int((~held_out).sum())) if share is None else share,
            seed=seed,
            device=where,
            checkpoint=saved[fold],
            resume=resume,
            began=began + before,
            identity=identity,
            description=f"training network {fold + 1} of {count}",
            progress=progress,
        )
        features[held_out] = _features(network, pixels[held_out])
        networks.append(network)
    agreement = float((features.argmax(1) == targets).float().mean())
    return CrossFit(features, dealt, tuple(networks), agreement)


class Standardize(nn.Module):
    """Images with the mean 0 and the deviation 1 that each channel has in those it was made from."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, images: Pixels) -> None:
        super().__init__()
        deviation, mean = torch.std_mean(images, (0, 2, 3), correction=0, keepdim=True)
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", torch.where(deviation > 0, deviation, 1))

    def forward(self, x: Pixels) -> Pixels:
        """Images in these units."""
        return (x - self.mean) / self.deviation


def _check_images(images: Array) -> Pixels:
    """Return images as finite numbers, or say what they are instead."""
    pixels = as_tensor(images).detach().cpu().float()
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels  # noqa: PLR2004 - no axis for channels
    if pixels.ndim != 4 or not pixels.numel():  # noqa: PLR2004 - images, channels, height, width
        raise ValueError(
            f"images must be (n, channels, height, width) or (n, height, width), got shape {tuple(pixels.shape)}"
        )
    finite = pixels.isfinite().flatten(1).all(1)
    if not finite.all():
        raise ValueError(f"image {int((~finite).int().argmax())} holds numbers that are missing or infinite")
    return pixels


def _check_folds(
    folds: int | Array, labels: NDArray[np.int64], classes: NDArray[Any], seed: int
) -> Int64[Tensor, " n"]:
    """Return the fold of each image, such that every class is left when any of them is held out."""
    if isinstance(folds, (int, np.integer)):
        sizes, folds = np.bincount(labels), check_whole("folds", folds, 2)
        if sizes.min() < folds:
            raise ValueError(
                f"class {classes[sizes.argmin()]} has {sizes.min()} images for {folds} folds, and needs one for each: "
                "use fewer folds, or leave the class out"
            )
        return _deal(labels, folds, seed)
    given = torch.from_numpy(check_labels("folds", folds, len(labels))[0])
    apart = torch.zeros(len(classes), int(given.max()) + 1, dtype=torch.bool)
    apart[torch.from_numpy(labels), given] = True
    alone = (apart.sum(1) == 1).nonzero()[:, 0]
    if len(alone):
        raise ValueError(f"all images of class {classes[alone[0]]} are in one fold: deal them to two at least")
    return given


def _deal(labels: NDArray[np.int64], folds: int, seed: int) -> Int64[Tensor, " n"]:
    """Deal images to folds of one size, at random and evenly within each class."""
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    dealt = torch.empty(len(labels), dtype=torch.int64)
    dealt[torch.from_numpy(order)] = torch.arange(len(labels)) % folds
    return dealt


def _new_network(images: Pixels, classes: int, seed: int, device: torch.device) -> nn.Module:
    with own_randomness(device):
        torch.manual_seed(seed)
        made = SmallCNN(images.shape[1], classes, min(images.shape[2:]), width=WIDTH)
    return nn.Sequential(Standardize(images), made).to(device)


def _default_budget(rows: int) -> Budget:
    return Budget(steps=min(max(PASSES * rows // RECIPE.batch_size, LEAST_STEPS), MOST_STEPS))


def _classification(images: Pixels, targets: Int64[Tensor, " n"]) -> Loss:
    def loss(module: nn.Module, batch: Batch) -> Tensor:
        rows, device = batch.shard.of(batch.rows), batch.generator.device
        return functional.cross_entropy(module(images[rows].to(device)).float(), targets[rows].to(device))

    return loss


@torch.no_grad()
def _features(network: nn.Module, images: Pixels) -> Float32[Tensor, "n classes"]:
    device = next(network.parameters()).device
    logits = torch.cat([network(part.to(device)).float().cpu() for part in in_chunks(images)])
    return logits.log_softmax(1).clamp(min=LEAST_LOG)
