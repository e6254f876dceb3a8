"""Finding wrong labels with nearest-neighbor values on raw pixels: Fashion-MNIST and CIFAR-10.

The labels of 10 % of the training images become y + 1. Features are the first 64 principal components of the pixels.
Values are for K = 5 and the soft utility, with

- a clean reference: 2,000 test images, or
- no reference: every image is valued by the others, wrong labels included.

Compared on the same features: leave-one-out and Banzhaf values, cleanlab's self-confidence (out-of-sample probabilities
of a logistic regression and of K nearest neighbors, by five folds) and Data-OOB (out-of-bag correctness of 100 trees;
Kwon & Zou, 2023). Mean and spread over three seeds, which draw images and wrong labels.

    python benchmarks/run.py wrong_labels_pixels --data fashion_mnist.npz data/cifar10
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.measuring import timed
from benchmarks.harness.options import ExperimentParser, dataset_at, read_data
from benchmarks.harness.record import record, recorded
from benchmarks.models.label_scores import out_of_bag, self_confidence
from fwshapley.datasets.catalog import DATASETS, Name
from fwshapley.datasets.formats import Split
from fwshapley.plots import COLORS, new_figure
from fwshapley.valuation import flip_labels, measure_detection

K, SHARE, COMPONENTS = 5, 0.1, 64
POINTS, REFERENCES, TREES, SEEDS = 10_000, 2_000, 100, (0, 1, 2)
WEIGHTS = (fw.Shapley(), *fw.semivalues.FEASIBLE_SET, fw.Banzhaf(), fw.LeaveOneOut())

Source = tuple[Name, Path]
"""A data set, and where it is."""


def title_of(name: str) -> str:
    """Title of a data set, by the name of its file or folder."""
    return next((source.title for each, source in DATASETS.items() if name.startswith(each)), name)


class Images(NamedTuple):
    """Features of images, their classes of which some were flipped, and those of reference images."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    wrong: NDArray[np.bool_]
    x_reference: NDArray[np.float32]
    y_reference: NDArray[np.int64]


def main(arguments: argparse.Namespace) -> None:
    """Flip, value, judge, print, draw, record."""
    if arguments.draw:
        tables = recorded("wrong_labels_pixels", arguments.out)["tables"]
        save_figure(partial(draw, tables), "wrong_labels_pixels", arguments)
        return
    started = time.perf_counter()
    trees, seeds = 3 if arguments.smoke else TREES, arguments.seeds
    tables = {name: table(name, source, seeds, trees) for name, source in arguments.sources.items()}
    results = {"tables": tables, "points": POINTS, "references": REFERENCES, "share": SHARE, "k": K, "trees": trees}
    record(
        "wrong_labels_pixels",
        results,
        out=arguments.out,
        seeds=seeds,
        started=started,
        packages=["cleanlab", "scikit-learn"],
    )
    save_figure(partial(draw, tables), "wrong_labels_pixels", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments."""
    parser = ExperimentParser(
        __doc__, smoke="scikit-learn's digits and three trees", seeds=SEEDS, seeds_of="images, flips and folds"
    )
    parser.add_data("files or folders whose names start with the name of the data set", nargs="+")
    parser.add_draw()
    arguments = parser.parse(options)
    if not arguments.draw:
        parser.need_data(arguments)
    arguments.sources = {path.stem: (dataset_at(path, parser), path) for path in arguments.data or []} or {
        "digits": None
    }
    return arguments


def table(name: str, source: Source | None, seeds: Sequence[int], trees: int) -> dict[str, dict[str, list[float]]]:
    """Scores of all methods on one data set, a number per seed."""
    rows: dict[str, dict[str, list[float]]] = {}
    for seed in seeds:
        images = load(source, seed)
        for method, (values, seconds) in judged(images, seed, trees).items():
            found = asdict(measure_detection(values, images.wrong)) | {"seconds": seconds}
            for key, number in found.items():
                rows.setdefault(method, {}).setdefault(key, []).append(number)
            print(name, seed, method, {key: round(number, 3) for key, number in found.items()}, flush=True)
    return rows


def load(source: Source | None, seed: int) -> Images:
    """Images of a seed: drawn, flipped, and brought to principal components of the training images."""
    if source is None:
        x, y = load_digits(return_X_y=True)
        x_train, y_train, x_test, y_test = x[:1400], y[:1400], x[1400:], y[1400:]
    else:
        x_train, y_train = images_of(source, "train")
        x_test, y_test = images_of(source, "test")
    generator = np.random.default_rng(seed)
    train = generator.permutation(len(x_train))[:POINTS]
    test = generator.permutation(len(x_test))[:REFERENCES]
    flipped = flip_labels(y_train[train], share=SHARE, how="next", seed=generator)
    flat = x_train[train].reshape(len(train), -1) / np.float32(255)
    pca = PCA(min(COMPONENTS, flat.shape[1] // 2), random_state=seed).fit(flat)
    reference = pca.transform(x_test[test].reshape(len(test), -1) / np.float32(255))
    return Images(pca.transform(flat), flipped.labels, flipped.flipped, reference, y_test[test])


def images_of(source: Source, split: Split) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pixels and classes of a split, channels last as recorded: a randomized PCA depends on the order of columns."""
    found = read_data(*source, split, least=POINTS if split == "train" else REFERENCES)
    return found.images.numpy().transpose(0, 2, 3, 1), found.labels.numpy()


def judged(images: Images, seed: int, trees: int) -> Mapping[str, tuple[NDArray[np.float64], float]]:
    """Values of all methods, and the seconds each took; values of several weightings share their time."""
    x, y = images.x, images.y
    found: dict[str, tuple[NDArray[np.float64], float]] = {}
    for kind, reference in (("clean reference", (images.x_reference, images.y_reference)), ("no reference", None)):
        valuator = fw.KNNValuator(K, weights=WEIGHTS, progress=False)
        fitted, seconds = timed(partial(valuator.fit, x, y, reference))
        for weights in WEIGHTS:
            found[f"{weights}, {kind}"] = (fitted.result_.of(weights).values.numpy(), seconds)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    for name, model in (
        ("logistic regression", LogisticRegression(max_iter=300, tol=1e-3)),
        ("nearest neighbors", KNeighborsClassifier(K)),
    ):
        probabilities, seconds = timed(
            partial(cross_val_predict, model, x, y, cv=folds, method="predict_proba", n_jobs=-1)
        )
        scores = self_confidence(y, probabilities)
        found[f"cleanlab self-confidence, {name}"] = (scores, seconds)
    found["Data-OOB"] = timed(partial(out_of_bag, x, y, trees, seed))
    return found


def draw(tables: Mapping[str, Mapping[str, Mapping[str, list[float]]]]) -> Any:  # noqa: ANN401 - matplotlib's Figure
    """AUROC by weighting, from small coalitions to large ones, with and without a clean reference."""
    figure = new_figure(width=4.6 * len(tables), height=3.6)
    names = [
        str(each)
        for each in sorted((*fw.semivalues.FEASIBLE_SET, fw.Shapley()), key=lambda each: each.beta / each.alpha)
    ]
    for axes, (title, rows) in zip(figure.subplots(1, len(tables), squeeze=False)[0], tables.items(), strict=True):
        for kind, color in (("clean reference", COLORS[0]), ("no reference", COLORS[1])):
            scores = [rows[f"{name}, {kind}"]["auroc"] for name in names]
            spread = [np.std(each) for each in scores]
            axes.errorbar(names, [np.mean(each) for each in scores], spread, marker="o", color=color, label=kind)
        for peer, style in (("Data-OOB", ":"), ("cleanlab self-confidence, logistic regression", "--")):
            axes.axhline(float(np.mean(rows[peer]["auroc"])), color="gray", linestyle=style, label=peer)
        axes.set_title(title_of(title), fontsize="medium")
        axes.set_ylabel("AUROC of finding wrong labels")
        axes.tick_params(axis="x", rotation=60)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(visible=True, alpha=0.25)
        axes.legend(frameon=False, fontsize="x-small")
    return figure
