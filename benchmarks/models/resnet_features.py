"""Features of images whose labels may be wrong, by ResNet-18s: trained on these labels, cross-fitted, or on true ones.

- "noisy labels": the 512 channels before the last layer of a network that was trained on all players, wrong labels
  included. It has seen the label that it is to judge.
- "cross-fitted": players are dealt to two folds, and a network that was trained on the other fold says how probable
  each class is; features are the log probabilities, at least -7, as in `fwshapley.valuation.cross_fit`. Reference and
  unseen images get the mean over the networks.
- "clean labels": as the first, but trained on the true labels, which nobody has: an upper bound.

All images are 3 x 32 x 32, so that one compiled network does for all: gray ones are repeated and padded.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, cast, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from safetensors.torch import load_file, save_file
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold
from torch import Tensor
from torch.nn import functional

from benchmarks.harness.options import read_data
from benchmarks.models.resnet import SIDE, ResNet, cut_out, flip_and_shift, shift
from fwshapley._internal.files import written_whole
from fwshapley.datasets.catalog import Name
from fwshapley.datasets.formats import Split
from fwshapley.valuation import flip_labels
from fwshapley.valuation.image_features import MIN_LOG

Kind = Literal["noisy labels", "cross-fitted", "clean labels"]
How = Literal["next", "uniform"]

KINDS: tuple[Kind, ...] = get_args(Kind)
NOISES: dict[str, tuple[How, float]] = {
    "next, 10 %": ("next", 0.1), "uniform, 10 %": ("uniform", 0.1), "next, 30 %": ("next", 0.3),
}  # fmt: skip
FOLDS, BATCH, WIDTH, RATE = 2, 512, 64, 0.2
SMOKE_BATCH, SMOKE_WIDTH = 64, 4
COMPONENTS = 32
FLIPPED_SIDEWAYS = ("cifar10", "fashion_mnist")
"""Data sets whose images mean the same when mirrored; digits do not."""


class Sizes(NamedTuple):
    """Number of players, of reference images and of unseen ones."""

    players: int
    references: int
    unseen: int


class Sample(NamedTuple):
    """Images of a seed on a device, players before references before unseen ones, and their true labels."""

    x: Float[Tensor, "images 3 32 32"]
    y: Int[Tensor, " images"]
    sizes: Sizes
    sideways: bool


class Points(NamedTuple):
    """Input of the valuation: features, labels of which some are wrong, and class probabilities.

    Attributes:
        x: features of the players.
        y: their labels, some of them wrong.
        wrong: which.
        x_reference: features of the reference images.
        y_reference: their true labels.
        x_unseen: features of images that no network or valuator has seen.
        y_unseen: their labels, some of them wrong.
        wrong_unseen: which.
        log_probabilities: of the classes, for the players, by the networks that made the features.
        accuracy: of these networks on reference and unseen images.
    """

    x: Float[Tensor, "players features"]
    y: Int[Tensor, " players"]
    wrong: Bool[Tensor, " players"]
    x_reference: Float[Tensor, "references features"]
    y_reference: Int[Tensor, " references"]
    x_unseen: Float[Tensor, "unseen features"]
    y_unseen: Int[Tensor, " unseen"]
    wrong_unseen: Bool[Tensor, " unseen"]
    log_probabilities: Float[Tensor, "players classes"]
    accuracy: Float[Tensor, ""]

    def reduced(self) -> Points:
        """Return the first principal components of the features, which are small to copy."""
        center = self.x.double().mean(0)
        _, axes = torch.linalg.eigh((self.x.double() - center).T.cov())
        first = axes[:, -COMPONENTS:]
        x, reference, unseen = (
            ((each.double() - center) @ first).float() for each in (self.x, self.x_reference, self.x_unseen)
        )
        return self._replace(x=x, x_reference=reference, x_unseen=unseen)

    def save(self, path: Path) -> None:
        """Write to one file, features in half precision."""
        tensors = {name: each.half() if each.is_floating_point() else each for name, each in self._asdict().items()}
        keep(tensors, path)

    @staticmethod
    def load(path: Path) -> Points:
        """Read what `save` wrote."""
        tensors = load_file(path)
        return Points(**{name: each.float() if each.is_floating_point() else each for name, each in tensors.items()})


class Outputs(NamedTuple):
    """Features and log probabilities of all images of a sample."""

    features: Float[Tensor, "images features"]
    log_probabilities: Float[Tensor, "images classes"]


class Trainer:
    """One compiled ResNet-18 that is reset for every network, because compiling takes longer than training.

    Args:
        classes: of the images.
        width: channels of the first layers.
        device: where it is trained.
    """

    def __init__(self, classes: int, width: int, device: torch.device) -> None:
        self.classes, self.width, self.device = classes, width, device
        self.model = ResNet(classes, width).to(device)
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # missing from torch's stubs
        compiled = torch.compile(self.model) if device.type == "cuda" else self.model
        self.run = cast("Callable[[Tensor], Tensor]", compiled)

    def train(
        self, sample: Sample, rows: Int[Tensor, " rows"], labels: Int[Tensor, " rows"], *, steps: int, seed: int
    ) -> None:
        """Train from scratch: SGD with Nesterov momentum, one cycle, label smoothing, shifted and blanked images."""
        torch.manual_seed(seed)
        self.model.load_state_dict(ResNet(self.classes, self.width).state_dict())
        self.model.train()
        generator = torch.Generator(self.device).manual_seed(seed)
        batch = BATCH if self.width == WIDTH else SMOKE_BATCH
        optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE, momentum=0.9, nesterov=True, weight_decay=5e-4)
        cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps, pct_start=0.2)
        rows, labels = rows.to(self.device), labels.to(self.device)
        for some in itertools.islice(batches(len(rows), batch, generator), steps):
            x = (flip_and_shift if sample.sideways else shift)(sample.x[rows[some]], generator)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
                logits = self.run(cut_out(x, generator))
            loss = functional.cross_entropy(logits.float(), labels[some], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            cycle.step()

    @torch.no_grad()
    def predict(self, x: Float[Tensor, "images 3 32 32"]) -> Outputs:
        """Features and log probabilities of images, on the CPU; means and the last layer in single precision."""
        self.model.eval()
        features, logs = [], []
        for part in x.split(1000):
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
                channels = self.model.blocks(self.model.stem(part))
            hidden = channels.float().mean((2, 3))
            features.append(hidden.cpu())
            logs.append(self.model.head(hidden).log_softmax(1).cpu())
        return Outputs(torch.cat(features), torch.cat(logs))


def batches(count: int, size: int, generator: torch.Generator) -> Iterator[Int[Tensor, " batch"]]:
    """Yield batches of one size forever; each pass uses every row once, except a remainder."""
    size = min(size, count)
    while True:
        order = torch.randperm(count, generator=generator, device=generator.device)
        yield from order[: count // size * size].split(size)


@lru_cache(maxsize=3)
def read(
    name: str, path: Path | None, sizes: Sizes
) -> tuple[tuple[UInt8[Tensor, "train 3 32 32"], Tensor], tuple[UInt8[Tensor, "test 3 32 32"], Tensor]]:
    """Images and labels, to train and to test, as many as are needed; scikit-learn's digits without a path."""
    if path is None:
        digits = load_digits()
        x = torch.from_numpy(digits.images * 255 / 16).to(torch.uint8)
        x, y = x[:, None].repeat_interleave(4, 2).repeat_interleave(4, 3), torch.from_numpy(digits.target)
        return (colored(x[:1000]), y[:1000]), (colored(x[1000:]), y[1000:])
    least: dict[Split, int] = {"train": sizes.players, "test": sizes.references + sizes.unseen}
    train, test = (read_data(cast("Name", name), path, split, least=least[split]) for split in get_args(Split))
    return (colored(train.images), train.labels), (colored(test.images), test.labels)


def colored(images: UInt8[Tensor, "images channels height width"]) -> UInt8[Tensor, "images 3 32 32"]:
    """Images of three channels and 32 x 32 pixels: gray ones repeated, small ones with a margin."""
    margin = (SIDE - images.shape[3]) // 2
    return functional.pad(images, (margin,) * 4).expand(-1, 3, -1, -1)


def draw_sample(name: str, path: Path | None, sizes: Sizes, seed: int, device: torch.device) -> Sample:
    """Images of a seed, standardized: players from those to train on, the others from those to test on."""
    (x_train, y_train), (x_test, y_test) = read(name, path, sizes)
    generator = np.random.default_rng(seed)
    players = generator.permutation(len(x_train))[: sizes.players]
    others = generator.permutation(len(x_test))[: sizes.references + sizes.unseen]
    x = torch.cat([x_train[players], x_test[others]]).to(device).float() / 255
    deviation, mean = torch.std_mean(x[: len(players)], (0, 2, 3), keepdim=True)
    x = ((x - mean) / deviation.clamp(min=1e-6)).contiguous(memory_format=torch.channels_last)
    y = torch.cat([y_train[players], y_test[others]])
    found = Sizes(len(players), min(sizes.references, len(others)), len(others) - min(sizes.references, len(others)))
    return Sample(x, y, found, name in FLIPPED_SIDEWAYS)


class Features:
    """Features of one data set and seed; every network is kept in a folder once it is trained.

    Args:
        sample: the images.
        trainer: gives the trainer, if one is needed.
        folder: to keep the outputs of networks in.
        name: of data set and seed, for files.
        steps: that a network is trained for.
        seed: of flips, folds and networks.
    """

    def __init__(
        self, sample: Sample, trainer: Callable[[], Trainer], *, folder: Path, name: str, steps: int, seed: int
    ) -> None:
        self.sample, self.trainer, self.folder, self.name = sample, trainer, folder, name
        self.steps, self.seed = steps, seed

    def points(self, noise: str, kind: Kind) -> Points:
        """Features of one kind, with labels of one noise type."""
        sizes, y = self.sample.sizes, self.sample.y.cpu()
        how, share = NOISES[noise]
        generator = np.random.default_rng((self.seed, list(NOISES).index(noise)))
        seen, unseen = y[: sizes.players], y[sizes.players + sizes.references :]
        flipped = flip_labels(seen, share=share, how=how, seed=generator)
        flipped_unseen = flip_labels(unseen, share=share, how=how, seed=generator)
        everyone = torch.arange(sizes.players)
        if kind == "cross-fitted":
            x, logs = self._cross_fitted(noise, flipped.labels)
        elif kind == "clean labels":
            x, logs = self._outputs("clean", everyone, seen)
        else:
            x, logs = self._outputs(noise, everyone, flipped.labels)
        parts = x.split([sizes.players, sizes.references, sizes.unseen])
        right = (logs[sizes.players :].argmax(1) == y[sizes.players :]).float().mean()
        return Points(
            parts[0], flipped.labels, flipped.flipped, parts[1], y[sizes.players :][: sizes.references],
            parts[2], flipped_unseen.labels, flipped_unseen.flipped, logs[: sizes.players], right,
        )  # fmt: skip

    def _cross_fitted(self, noise: str, labels: Int[Tensor, " players"]) -> Outputs:
        """Log probabilities by networks that were trained on other folds: as features, and as they are."""
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=self.seed)
        everyone = np.arange(len(labels))
        logs, others = torch.empty(len(labels), 0), []
        for fold, (taught, held_out) in enumerate(folds.split(everyone, labels.numpy())):
            rows = torch.from_numpy(taught)
            found = self._outputs(f"{noise}, fold {fold + 1}", rows, labels[rows]).log_probabilities
            logs = logs if logs.shape[1] else torch.empty(len(labels), found.shape[1])
            logs[torch.from_numpy(held_out)] = found[torch.from_numpy(held_out)]
            others.append(found[len(labels) :].clamp(min=MIN_LOG))
        everything = torch.cat([logs, torch.stack(others).mean(0)])
        return Outputs(everything.clamp(min=MIN_LOG), everything)

    def _outputs(self, which: str, rows: Int[Tensor, " rows"], labels: Int[Tensor, " rows"]) -> Outputs:
        path = self.folder / f"{self.name}, {which}.safetensors"
        if not path.exists():
            trainer = self.trainer()
            trainer.train(self.sample, rows, labels, steps=self.steps, seed=self.seed)
            outputs = trainer.predict(self.sample.x)
            keep({"features": outputs.features.half(), "log_probabilities": outputs.log_probabilities}, path)
        found = load_file(path)
        return Outputs(found["features"].float(), found["log_probabilities"])


def keep(tensors: dict[str, Tensor], path: Path) -> None:
    """Write tensors to a file atomically."""
    with written_whole(path) as temporary:
        save_file({name: each.contiguous() for name, each in tensors.items()}, temporary)
