"""The picture of the README: clothes of Fashion-MNIST explained under two weightings in one forward pass.

A small convolutional network is trained, then one explainer for every weighting, with 196 players (patches of 2 x 2
pixels). One test image of each of six classes is drawn, the first that the model predicts correctly. Agreement with
least squares on the same games is measured under a third weighting too, which is too uncertain to be drawn.

    python benchmarks/run.py clothes_explained --data fashion_mnist.npz
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.options import ExperimentParser, best_device, read_data
from benchmarks.harness.record import record
from fwshapley.explanation.metrics import measure_agreement
from fwshapley.plots import new_figure

WEIGHTS = (fw.Beta(16, 1), fw.Shapley(), fw.Beta(1, 4))
ROWS = ("prediction", "Beta(16, 1):\nis it enough alone?", "Shapley:\nall sizes count")
DRAWN = ("T-shirt/top", "Trouser", "Dress", "Sandal", "Bag", "Ankle boot")
EPOCHS, BATCH, PEAK = 12, 256, 3e-3
SECONDS, JUDGED, CALLS = 150, 24, 2**14
STRONGEST = 0.85
"""Opacity of the patch of the largest value."""


def main(arguments: argparse.Namespace) -> None:
    """Train, explain, measure, draw, record."""
    started = time.perf_counter()
    device = torch.device(arguments.device)
    x_train, y_train, x_test, y_test, classes = load(arguments)
    torch.manual_seed(arguments.seeds[0])
    model = make_model(len(classes)).to(device)
    train(model, x_train.to(device), y_train.to(device), epochs=1 if arguments.smoke else EPOCHS)
    with torch.no_grad():
        predicted = torch.cat([model(part.to(device)).argmax(1).cpu() for part in x_test.split(1000)])
    is_correct = predicted == y_test
    budget = fw.Budget(steps=3) if arguments.smoke else fw.Budget(seconds=arguments.seconds)
    side = x_train.shape[-1]
    explainer = fw.FeatureExplainer(
        model, fw.grid(side, side, patch=2), output_names=classes, device=device, seed=arguments.seeds[0]
    ).fit(x_train, budget=budget)
    drawn = [number for number, name in enumerate(classes) if name in DRAWN]
    rows = [int(((y_test == number) * (1 + is_correct.long())).argmax()) for number in drawn]  # correct ones first
    attribution = explainer.explain(x_test[rows], weights=list(WEIGHTS), outputs="predicted")
    results = {
        "accuracy": float(is_correct.double().mean()),
        "agreement_of_surrogate": explainer.fitted_.provenance["fidelity"]["agreement"],
        "seconds": arguments.seconds,
        "images_judged": JUDGED,
        "calls": CALLS,
        "pearson": agreement(explainer, x_test[:JUDGED], calls=64 * side if arguments.smoke else CALLS),
    }
    print(results)
    record("clothes_explained", results, out=arguments.out, seeds=arguments.seeds, started=started, device=device.type)
    save_figure(partial(draw, attribution, x_test[rows]), "clothes", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments."""
    parser = ExperimentParser(
        __doc__, smoke="scikit-learn's digits and three steps", seeds=[0], seeds_of="all training", single_seed=True
    )
    parser.add_data("fashion_mnist.npz, or a folder of its official files")
    parser.add_device(default=best_device())
    parser.add_argument("--seconds", type=float, default=SECONDS, help="to train the explainer (default: %(default)s)")
    arguments = parser.parse(options)
    parser.need_data(arguments)
    return arguments


def load(arguments: argparse.Namespace) -> tuple[Tensor, Tensor, Tensor, Tensor, list[str]]:
    """Training and test images from 0 to 1, their classes, and the names of the classes."""
    if arguments.smoke:
        x, y = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
        x = x.reshape(-1, 1, 8, 8).float() / 16
        names = [*DRAWN, "7", "8", "9", "10"]
        return x[200:600], y[200:600], x[:200], y[:200], names
    train_set, test_set = (read_data("fashion_mnist", arguments.data, split) for split in ("train", "test"))
    x_train, x_test = (part.images.float() / 255 for part in (train_set, test_set))
    return x_train, train_set.labels, x_test, test_set.labels, list(train_set.classes)


def make_model(classes: int) -> nn.Module:
    """Return a small convolutional network, untrained."""
    layers: list[nn.Module] = []
    channels = 1
    for width, stride in ((32, 1), (64, 2), (64, 1), (128, 2), (128, 1)):
        layers += [
            nn.Conv2d(channels, width, 3, stride, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
        ]  # fmt: skip
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def train(model: nn.Module, x: Tensor, y: Tensor, epochs: int) -> None:
    """Train with AdamW on a one-cycle schedule; images are mirrored at random."""
    optimizer = torch.optim.AdamW(model.parameters(), PEAK, weight_decay=0.01)
    steps = epochs * -(-len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK, total_steps=steps)
    for _ in range(epochs):
        for rows in torch.randperm(len(x), device=x.device).split(BATCH):
            mirrored = torch.rand(len(rows), 1, 1, 1, device=x.device) < 1 / 2
            images = torch.where(mirrored, x[rows].flip(-1), x[rows])
            optimizer.zero_grad()
            functional.cross_entropy(model(images), y[rows], label_smoothing=0.1).backward()
            optimizer.step()
            schedule.step()
    model.eval()


def agreement(explainer: fw.FeatureExplainer, x: Tensor, calls: int) -> dict[str, float]:
    """Mean correlation with least squares for the predicted class, for each weighting."""
    attribution = explainer.explain(x, weights=list(WEIGHTS), outputs="predicted")
    found = {}
    for weights, values in zip(WEIGHTS, attribution.values, strict=True):
        games = zip(map(explainer.game, x), attribution.outputs[:, 0].tolist(), strict=True)
        estimates = [
            (fw.least_squares_values(game, weights, n_calls=calls, batch_size=4096), output) for game, output in games
        ]
        sampled = torch.stack([estimate.values[:, output] for estimate, output in estimates])
        found[str(weights)] = measure_agreement(values[..., 0], sampled).pearson
    return found


def draw(attribution: fw.Attribution, images: Tensor) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Return a figure with a column for each image; patches are smoothed and as opaque as their value is large."""
    values = attribution.values[..., 0].float().cpu().numpy()
    side = attribution.players.assignment.shape[0]
    patches = round(values.shape[-1] ** 0.5)
    figure = new_figure(width=1.35 * len(images) + 1.2, height=1.5 * len(ROWS))
    axes = figure.subplots(len(ROWS), len(images))
    for column, image in enumerate(images[:, 0].numpy()):
        for row, cell in enumerate(axes[:, column]):
            cell.imshow(1 - image if not row else 1 - 0.55 * image, cmap="gray", vmin=0, vmax=1)
            cell.set_xticks([])
            cell.set_yticks([])
            cell.spines[:].set_visible(False)
            if not row:
                cell.set_title(attribution.output_names[int(attribution.outputs[column, 0])], fontsize="medium")
                continue
            heat = values[row - 1, column].reshape(patches, patches) / np.abs(values[row - 1, column]).max()
            cell.imshow(
                heat, cmap="bwr", vmin=-1, vmax=1, alpha=STRONGEST * np.abs(heat) ** (1 / 2), interpolation="bicubic",
                extent=(-0.5, side - 0.5, side - 0.5, -0.5),
            )  # fmt: skip
    for row, text in enumerate(ROWS):
        axes[row, 0].set_ylabel(text, fontsize="small")
    return figure
