"""Which labels are wrong? Nearest-neighbour values of every weighting, on images with a tenth of the labels flipped.

Labels y become y + 1 for 10 % of the training images; features are the first 64 principal components of the pixels (the
simplest there are: those of a network find more). Values are for K = 5, the soft utility, and

- a clean reference: 2,000 test images, or
- none: every image is valued by the others, flipped labels included.

Beside them, on the same features: leave-one-out and Banzhaf values, cleanlab's self-confidence (out-of-sample
probabilities of a logistic regression, and of K nearest neighbours, by five folds) and Data-OOB (out-of-bag
correctness of 100 trees; Kwon & Zou, 2023). Mean and spread over three seeds, which draw images and flips.

    python benchmarks/label_noise.py --data fashion_mnist.npz data/cifar10
    python benchmarks/label_noise.py --smoke --out build --figures build
"""

from __future__ import annotations

import argparse
import json
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
from data_option import existing_path, name_of, need_data, read_data
from fwshapley.datasets.packed import Split
from fwshapley.datasets.sources import DATASETS, Name
from fwshapley.plots import COLOURS, new_figure
from fwshapley.valuation import flip_labels, measure_detection
from label_scores import out_of_bag, self_confidence
from measure import timed
from record import record
from script import marked, run_script

K, SHARE, COMPONENTS = 5, 0.1, 64
POINTS, REFERENCES, TREES, SEEDS = 10_000, 2_000, 100, (0, 1, 2)
WEIGHTS = (fw.Shapley(), *fw.FEASIBLE_SET, fw.Banzhaf(), fw.LeaveOneOut())

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


def main() -> None:
    """Flip, value, judge, print, draw, record."""
    arguments = parse()
    if arguments.draw:
        results = json.loads((arguments.out / "label_noise.json").read_text())["results"]
        draw(results["tables"]).savefig(arguments.figures / "label_noise.png")
        return
    started = time.perf_counter()
    trees, seeds = (3, arguments.seeds[:1]) if arguments.smoke else (TREES, arguments.seeds)
    tables = {name: table(name, source, seeds, trees) for name, source in arguments.sources.items()}
    results = {"tables": tables, "points": POINTS, "references": REFERENCES, "share": SHARE, "k": K, "trees": trees}
    record(
        "label_noise", results, out=arguments.out, seeds=seeds, started=started, packages=["cleanlab", "scikit-learn"]
    )
    marked(draw(tables), smoke=arguments.smoke).savefig(arguments.figures / "label_noise.png")


def parse() -> argparse.Namespace:
    """Arguments."""
    parser = argparse.ArgumentParser(allow_abbrev=False, description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=existing_path, nargs="+", help="files or folders of data sets, by name")
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=list(SEEDS), help="seed numbers, of images, flips and folds"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--figures", type=Path, default=Path(__file__).parents[1] / "docs" / "figures")
    parser.add_argument("--draw", action="store_true", help="only draw what was recorded")
    parser.add_argument("--smoke", action="store_true", help="scikit-learn's digits and three trees")
    arguments = parser.parse_args()
    if not arguments.draw:
        need_data(parser, arguments)
    arguments.sources = {path.stem: (name_of(path, parser), path) for path in arguments.data or []} or {"digits": None}
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
    """Pixels and classes of a split, channels last as recorded: a randomised PCA depends on the order of columns."""
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
        ("nearest neighbours", KNeighborsClassifier(K)),
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
    names = [str(each) for each in sorted((*fw.FEASIBLE_SET, fw.Shapley()), key=lambda each: each.beta / each.alpha)]
    for axes, (title, rows) in zip(figure.subplots(1, len(tables), squeeze=False)[0], tables.items(), strict=True):
        for kind, colour in (("clean reference", COLOURS[0]), ("no reference", COLOURS[1])):
            scores = [rows[f"{name}, {kind}"]["auroc"] for name in names]
            spread = [np.std(each) for each in scores]
            axes.errorbar(names, [np.mean(each) for each in scores], spread, marker="o", color=colour, label=kind)
        for peer, style in (("Data-OOB", ":"), ("cleanlab self-confidence, logistic regression", "--")):
            axes.axhline(float(np.mean(rows[peer]["auroc"])), color="grey", linestyle=style, label=peer)
        axes.set_title(title_of(title), fontsize="medium")
        axes.set_ylabel("AUROC of finding wrong labels")
        axes.tick_params(axis="x", rotation=60)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(visible=True, alpha=0.25)
        axes.legend(frameon=False, fontsize="x-small")
    return figure


if __name__ == "__main__":
    run_script(main)
