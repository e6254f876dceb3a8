r"""Ten kinds of image classifiers explained with default settings: how accurate, how fast, and beside sampling?

Each classifier is trained, then an explainer of it with a budget in seconds and default settings: 7 x 7 players of
4 x 4 pixels (8 x 8 on CIFAR-10; 7 x 7 of 32 x 32 for the one that needs 224 pixels). The values of the predicted class
of 32 test images are compared with two long runs of least squares on the surrogate's game, whose mean is the reference.
Sampling of the same games with several numbers of calls gives the time in which it is as accurate, and how accurate it
is where 1,000 explanations take as long as training.

Classifiers do not depend on the seed. Each part (an architecture and a seed) is kept in --work: an interrupted run goes
on where it was.

    python benchmarks/run.py image_models --data fashion_mnist.npz --work parts --device cpu --architectures \
        LeNet "MNIST example" VGG "pooled CNN" "pixel MLP" --keep
    python benchmarks/run.py image_models --data fashion_mnist.npz --work parts    # the others on a GPU; joins all
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file, save_file
from sklearn.datasets import load_digits
from torch import Tensor, nn

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.measuring import synchronize, timed
from benchmarks.harness.options import ExperimentParser, best_device, dataset_at, read_data
from benchmarks.harness.pieces import commands, keep_piece, origin, take_piece
from benchmarks.harness.record import record
from benchmarks.harness.statistics import summarize
from benchmarks.models.vision import ARCHITECTURES, Architecture, enlarge, train
from fwshapley._internal.files import written_whole
from fwshapley.explanation.metrics import measure_agreement
from fwshapley.games.masked_model import ManyPredictionsGame
from fwshapley.plots import COLORS, new_figure

SEEDS = (0, 1, 2)
SECONDS = 120
WEIGHTS = (fw.Shapley(), fw.Beta(16, 1), fw.Beta(4, 1), fw.Beta(1, 4))
SIZES = {"judged": 32, "timed": 4, "calls": 2**13, "large": 4000, "tested": 2000}
SMOKE_SIZES = {"judged": 4, "timed": 1, "calls": 128, "large": 200, "tested": 100}
CALLS_A_PLAYER = (4, 8, 16, 32, 64)
EXPLAINED = 1000
"""Explanations whose sampling may take as long as training and explaining."""

SMOKE_ARCHITECTURES = ("LeNet", "MLP-Mixer")
SMALL_SIDE, PATCHES = 4, 7
"""Pixels of a player's side, or more where there would be many players for large images."""


class Images(NamedTuple):
    """Images from 0 to 1, and their classes."""

    x_train: Float[Tensor, "train channels height width"]
    y_train: Int[Tensor, " train"]
    x_test: Float[Tensor, "test channels height width"]
    y_test: Int[Tensor, " test"]


def main(arguments: argparse.Namespace) -> None:
    """Measure parts, join them, record and draw."""
    started = time.perf_counter()
    work = arguments.work or arguments.out / "image_models_parts"
    work.mkdir(parents=True, exist_ok=True)
    images = load(arguments)
    cells, pieces = {}, []
    for architecture in arguments.architectures:
        seeds = [measure_part(architecture, seed, images, work, arguments) for seed in arguments.seeds]
        pieces += seeds
        cells[architecture] = summarize([piece["numbers"] for piece in seeds])
    if arguments.keep:
        return
    results = {
        "cells": cells,
        "data": arguments.name,
        "small": [name for name in cells if ARCHITECTURES[name].is_small],
        "setting": setting_of(arguments),
        "machines": {name: [origin(piece) for piece in pieces if piece["architecture"] == name] for name in cells},
        "commands": commands(pieces),
    }
    started -= sum(piece["took"] for piece in pieces if piece["was kept"])
    record("image_models", results, out=arguments.out, seeds=arguments.seeds, started=started, device=arguments.device)
    if arguments.work is None:
        shutil.rmtree(work)
    save_figure(partial(draw, cells), "image_models", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments; a smoke run explains two small classifiers of digits."""
    parser = ExperimentParser(
        __doc__, smoke="scikit-learn's digits, two architectures, three steps", seeds=SEEDS, seeds_of="explainers"
    )
    parser.add_data("Fashion-MNIST or CIFAR-10: a folder of its files, or a packed npz file")
    parser.add_choices("--architectures", ARCHITECTURES, "kinds of models", nargs="+", default=list(ARCHITECTURES))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="budget of a fit (default: %(default)g)")
    parser.add_argument(
        "--work", type=Path, help="folder that keeps models and parts; by default one beside the record"
    )
    parser.add_argument("--keep", action="store_true", help="keep the parts in --work for a later call, record nothing")
    parser.add_device(default=best_device())
    arguments = parser.parse(options)
    parser.need_data(arguments)
    if arguments.keep and not arguments.work:
        parser.error("--keep needs --work, the folder that a later call reads")
    arguments.name = dataset_at(arguments.data, parser) if arguments.data else "digits"
    arguments.sizes = SMOKE_SIZES if arguments.smoke else SIZES
    if arguments.smoke:
        arguments.architectures = SMOKE_ARCHITECTURES
    return arguments


def setting_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the parts of one record must have in common."""
    return {**arguments.sizes, "data": arguments.name, "seconds": arguments.seconds}


def load(arguments: argparse.Namespace) -> Images:
    """Training and test images; for a smoke run digits, enlarged to 16 pixels."""
    if arguments.smoke:
        x, y = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
        x = enlarge(x.reshape(-1, 1, 8, 8).float() / 16, 16)
        return Images(x[200:600], y[200:600], x[:200], y[:200])
    sets = (read_data(arguments.name, arguments.data, split) for split in ("train", "test"))
    (x_train, y_train), (x_test, y_test) = ((part.images.float() / 255, part.labels) for part in sets)
    return Images(x_train, y_train, x_test, y_test)


def measure_part(name: str, seed: int, images: Images, work: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the part of an architecture and a seed; one that is kept is not measured again."""
    path = work / f"{name}, {arguments.name}, seed {seed}.json"
    piece = take_piece(path, setting_of(arguments))
    was_kept = piece is not None
    if piece is None:
        model, numbers = make_model(name, images, work, arguments)
        found, seconds = timed(partial(measure, model, ARCHITECTURES[name], seed, images, arguments))
        part = {"architecture": name, "numbers": numbers | found, "took": seconds, "settings": setting_of(arguments)}
        keep_piece(path, part, arguments.device)
        print(f"{path.stem}, {seconds:.0f} s:", json.dumps(part["numbers"]), flush=True)
        piece = take_piece(path, {}) or {}
    return piece | {"was kept": was_kept}


def make_model(
    name: str, images: Images, work: Path, arguments: argparse.Namespace
) -> tuple[nn.Module, dict[str, float]]:
    """Return a trained classifier and its accuracy; its weights are kept in the work folder."""
    architecture, sizes = ARCHITECTURES[name], arguments.sizes
    path = work / f"{name}, {arguments.name}.safetensors"
    torch.manual_seed(0)
    side = architecture.side or images.x_train.shape[-1]
    classes = int(images.y_train.max()) + 1
    model = architecture.make(images.x_train.shape[1], side, classes).to(arguments.device)
    if path.exists():
        model.load_state_dict(load_file(path))
    else:
        count = len(images.x_train) if architecture.side is None else sizes["large"]
        epochs = 1 if arguments.smoke else architecture.epochs
        train(model, images.x_train[:count], images.y_train[:count], epochs=epochs, side=architecture.side)
        with written_whole(path) as temporary:
            save_file({key: tensor.contiguous() for key, tensor in model.state_dict().items()}, temporary)
    model.eval().requires_grad_(requires_grad=False)
    parts = zip(images.x_test[: sizes["tested"]].split(100), images.y_test.split(100), strict=False)
    correct = [model(enlarge(x.to(arguments.device), architecture.side)).argmax(1).cpu() == y for x, y in parts]
    return model, {"accuracy": float(torch.cat(correct).double().mean())}


def measure(
    model: nn.Module, architecture: Architecture, seed: int, images: Images, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Fit an explainer with default settings; judge it, and sampling of the same games."""
    sizes, device = arguments.sizes, torch.device(arguments.device)
    x_train = images.x_train if architecture.side is None else images.x_train[: sizes["large"]]
    x_train = enlarge(x_train, architecture.side)
    x = enlarge(images.x_test[: sizes["judged"]], architecture.side)
    side = x.shape[-1]
    players = fw.grid(side, side, patch=max(SMALL_SIDE, side // PATCHES // SMALL_SIDE * SMALL_SIDE))
    explainer = fw.FeatureExplainer(model, players, device=device, seed=seed)
    budget = fw.Budget(steps=3) if arguments.smoke else fw.Budget(seconds=arguments.seconds)
    explainer, seconds = timed(partial(explainer.fit, x_train, budget=budget, progress=False))
    with torch.no_grad():
        predicted = model(x.to(device)).argmax(1, keepdim=True)
    judged = Judged(explainer, x, predicted)
    values, explaining = timed(judged.explain)
    halves = [judged.refer(sizes["calls"], half) for half in (1, 2)]
    reference = torch.stack(halves).mean(0)
    agreement = {}
    for number, weights in enumerate(WEIGHTS):
        between = measure_agreement(halves[0][number], halves[1][number]).nrmse
        found = asdict(measure_agreement(values[number], reference[number]))
        agreement[str(weights)] = found | {"nrmse between references": between}
    fidelity = explainer.fidelity_
    assert fidelity is not None  # noqa: S101 - a surrogate was trained
    return {
        "seconds": seconds,
        "steps": {part: history.steps for part, history in explainer.histories_.items()},
        "fidelity": {"agreement": fidelity.agreement, "explained": fidelity.explained, "error": fidelity.error},
        "agreement": agreement,
        "explaining": explaining / len(x),
        **compare_sampling(judged, reference[0], seconds / EXPLAINED + explaining / len(x), sizes),
    }


class Judged(NamedTuple):
    """Explanations that are judged.

    Attributes:
        explainer: explains.
        x: images.
        outputs: which one of each image.
    """

    explainer: fw.FeatureExplainer
    x: Float[Tensor, "images channels height width"]
    outputs: Int[Tensor, "images 1"]

    def explain(self) -> Float[Tensor, "weights images players"]:
        """Learned values."""
        values = self.explainer.explain(self.x, weights=list(WEIGHTS), outputs=self.outputs).values[..., 0]
        synchronize(values.device)
        return values.float().cpu()

    def refer(self, calls: int, seed: int) -> Float[Tensor, "weights images players"]:
        """Least squares on the games of all images at once."""
        masked = self.explainer.masked_model_
        game = ManyPredictionsGame(masked, self.x.to(masked.device), self.outputs.to(masked.device))
        estimates = [
            fw.least_squares_values(game, weights, n_calls=calls, seed=seed, batch_size=256, progress=False)
            for weights in WEIGHTS
        ]
        return torch.stack([estimate.values.mT for estimate in estimates]).float().cpu()

    def sample(self, reference: Float[Tensor, "images players"], calls: int, n_timed: int) -> dict[str, float]:
        """Shapley values by least squares with some calls for each image, on its own; the time is that of an image."""
        rows: list[Tensor] = []
        took: list[float] = []
        for number, (image, output) in enumerate(zip(self.x, self.outputs[:, 0].tolist(), strict=True)):
            run = partial(fw.least_squares_values, self.explainer.game(image), fw.Shapley(), n_calls=calls)
            estimate, seconds = timed(partial(run, seed=number, batch_size=1024, progress=False))
            rows.append(estimate.values[:, output].float().cpu())
            took.append(seconds)
        found = measure_agreement(torch.stack(rows), reference)
        return {
            "calls": calls,
            "seconds": sum(took[-n_timed:]) / n_timed,
            "pearson": found.pearson,
            "nrmse": found.nrmse,
        }


def compare_sampling(
    judged: Judged, reference: Float[Tensor, "images players"], seconds: float, sizes: Mapping[str, int]
) -> dict[str, Any]:
    """Accuracy and time of Shapley values by least squares, and with the calls that some seconds an image allow."""
    n, n_timed = judged.explainer.masked_model_.n_players, sizes["timed"]
    sampling = {f"{times} calls a player": judged.sample(reference, times * n, n_timed) for times in CALLS_A_PLAYER}
    longest = sampling[f"{CALLS_A_PLAYER[-1]} calls a player"]
    affordable = int(longest["calls"] * seconds / longest["seconds"])
    calls = min(max(affordable, CALLS_A_PLAYER[0] * n), sizes["calls"])
    return {"sampling": sampling, "equal time": judged.sample(reference, calls, n_timed)}


def draw(cells: Mapping[str, Any]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Draw correlation and relative error at Shapley of each architecture: learned, and sampled in equal time."""
    figure = new_figure(width=9, height=3.6)
    rows = {
        "learned": [cell["agreement"]["Shapley"] for cell in cells.values()],
        "sampled in equal time, 1,000 images": [cell["equal time"] for cell in cells.values()],
    }
    panels = figure.subplots(1, 2, sharey=True)
    for axes, key, title in zip(panels, ("pearson", "nrmse"), ("correlation", "relative error"), strict=True):
        for (label, found), color, marker in zip(rows.items(), COLORS, "oD", strict=False):
            means, spreads = zip(*(row[key] for row in found), strict=True)
            axes.errorbar(means, range(len(cells)), xerr=spreads, fmt=marker, color=color, label=label, capsize=2)
        axes.set_xlabel(f"{title} at Shapley")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(visible=True, alpha=0.25)
    panels[0].set_yticks(range(len(cells)), list(cells))
    panels[0].invert_yaxis()
    panels[1].legend(frameon=False, fontsize="small")
    return figure
