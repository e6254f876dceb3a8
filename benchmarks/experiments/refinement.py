"""Error of learned values after `refine` with sampled coalitions, against the number of calls.

Digits with 16 players (exact by enumeration) and with 64 (long least-squares references), and the breast cancer table
with 30 players (the same), each with an explainer trained for 45 s on one core. Compared on inputs that were not
trained on, over all classes: the network alone; `refine`; the same without the network (no control variate, no line,
all players alike); least squares from scratch; and shap's KernelExplainer, for Shapley values. Calls are for one
weighting, but "refine, three at once" computes three weightings from the same calls.

Error is nRMSE: root of the summed squared error of raw values over the summed square of the centered references. The
calls ratio is the number of calls that another method needs for the error of `refine`, over the calls of `refine`.

    python benchmarks/run.py refinement             # 12 minutes on two cores, which must be free
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import shap
import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn
from torch.nn import functional

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.options import ExperimentParser
from benchmarks.harness.parallel import map_parallel
from benchmarks.harness.record import record
from benchmarks.harness.statistics import summarize
from fwshapley.explanation.learned.error_model import calibrate
from fwshapley.explanation.learned.refinement import refine
from fwshapley.explanation.learned.refinement.control_variate import MIN_GRID, Slopes
from fwshapley.explanation.learned.refinement.correction import best_sizes, predict_game, refine_game
from fwshapley.plots import COLORS, new_figure
from fwshapley.semivalues import join_laws

sys.path.append(str(Path(__file__).parents[2] / "examples"))  # scripts of another folder, not a package
import bundled

WEIGHTS = (fw.Shapley(), fw.Beta(4, 1), fw.Beta(1, 4))
SEEDS = (0, 1, 2)
SECONDS = 45
WORKERS = 2
RATE = 6e-3
INPUTS = 6
EPOCHS = 30
CALLS = (64, 128, 256, 512)
MORE_CALLS = (1024, 2048, 4096)
REFERENCE_CALLS, MOST_ENUMERATED = 20_000, 16
HELD_OUT, CALIBRATION_CALLS = 40, 128


def main(arguments: argparse.Namespace) -> None:
    """Train, compare, print, draw, record."""
    started = time.perf_counter()
    torch.set_num_threads(1)  # of the figures recorded: each run has one core
    jobs = [(name, seed) for name in TASKS for seed in arguments.seeds]
    found = dict(zip(jobs, map_parallel(partial(measure_once, arguments), jobs, arguments.workers), strict=True))
    results: dict[str, Any] = {}
    for name in TASKS:
        runs = [found[name, seed] for seed in arguments.seeds]
        results[name] = summarize(runs) | {"calls ratio": ratios([run["error"] for run in runs])}
        print(name, *(f"\n  {key}: {value}" for key, value in results[name].items()), flush=True)
    packages = ["scikit-learn", "shap"]
    record("refinement", results, out=arguments.out, seeds=arguments.seeds, started=started, packages=packages)
    save_figure(partial(draw, results), "refinement", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments; a smoke run trains for a few steps."""
    parser = ExperimentParser(
        __doc__, smoke="few steps of training and few calls", seeds=SEEDS, seeds_of="data, models and draws"
    )
    arguments = parser.parse(options)
    smoke = arguments.smoke
    arguments.inputs = 1 if smoke else INPUTS
    arguments.calls = (40, 64) if smoke else CALLS
    arguments.more_calls = (256,) if smoke else MORE_CALLS
    arguments.reference_calls = 512 if smoke else REFERENCE_CALLS
    arguments.held_out = 8 if smoke else HELD_OUT
    arguments.epochs = 1 if smoke else EPOCHS
    arguments.workers = 1 if smoke else WORKERS  # each loads torch and shap
    return arguments


def breast_cancer(seed: int, epochs: int) -> bundled.Task:
    """Return scikit-learn's breast cancer table (569 patients, 30 measurements) and a small perceptron."""
    data = load_breast_cancer()
    x, y = torch.tensor(data.data, dtype=torch.float32), torch.tensor(data.target)
    torch.manual_seed(seed)
    order = torch.randperm(len(x))
    x, y = x[order], y[order]
    train, test = slice(150, None), slice(150)
    scale = bundled.Scale(x[train].mean(0), x[train].std(0))
    model = nn.Sequential(scale, nn.Linear(30, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    for _ in range(2 * epochs):
        for rows in torch.randperm(len(x) - 150).split(64):
            optimizer.zero_grad()
            functional.cross_entropy(model(x[train][rows]), y[train][rows]).backward()
            optimizer.step()
    right = model(x[test]).argmax(1) == y[test]
    players = fw.columns(30, list(data.feature_names))
    return bundled.Task(model, players, x[train], x[test], float(right.double().mean()), tuple(data.target_names))


def single_pixels(seed: int, epochs: int) -> bundled.Task:
    """Return the digits with a player for each pixel."""
    task = bundled.digits(seed, epochs)
    return bundled.Task(task.model, fw.grid(8, 8, patch=1), task.x_train, task.x_test, task.skill, task.output_names)


TASKS: Mapping[str, Callable[[int, int], bundled.Task]] = {
    "digits, 16 players": bundled.digits,
    "digits, 64 players": single_pixels,
    "breast cancer, 30 players": breast_cancer,
}


def measure_once(arguments: argparse.Namespace, job: tuple[str, int]) -> dict[str, Any]:
    """Errors of every method, how often standard errors cover, and how well errors are predicted, on one seed."""
    name, seed = job
    torch.set_num_threads(1)
    task = TASKS[name](seed, arguments.epochs)
    budget = fw.Budget(steps=4) if arguments.smoke else fw.Budget(seconds=SECONDS)
    explainer = fw.FeatureExplainer(task.model, task.players, seed=seed)
    explainer.fit(task.x_train, budget=budget, learning_rate=RATE, progress=False)
    x, held_out = task.x_test[: arguments.inputs], task.x_test[arguments.inputs :][: arguments.held_out]
    truth = torch.stack([reference(explainer, each, arguments.reference_calls) for each in x], 1)
    network = explainer.explain(x, weights=list(WEIGHTS)).values
    error: dict[str, dict[str, dict[str, float]]] = {name: {} for name in METHODS}
    covered = {}
    for calls in arguments.calls:
        each = [refine(explainer, x, n_calls=calls, weights=w, seed=seed, progress=False) for w in WEIGHTS]
        error["refine"][str(calls)] = by_weights(torch.stack([found.values for found in each]), truth)
        found = refine(explainer, x, n_calls=calls, weights=list(WEIGHTS), seed=seed, progress=False)
        error["refine, three at once"][str(calls)] = by_weights(found.values, truth)
        covered[str(calls)] = statistics.fmean(coverage(*pair) for pair in zip(each, truth, strict=True))
        error["without the network"][str(calls)] = by_weights(from_scratch(explainer, x, calls, seed), truth)
    for calls in (*arguments.calls, *arguments.more_calls):
        error["shap KernelExplainer"][str(calls)] = by_weights(kernel_shap(explainer, x, calls, seed), truth)
        if calls >= 2 * task.players.n_players + 10:  # else least squares refuses
            error["least squares"][str(calls)] = by_weights(least_squares(explainer, x, calls, seed), truth)
    model = calibrate(explainer, held_out, n_calls=CALIBRATION_CALLS, weights=list(WEIGHTS), seed=seed, progress=False)
    return {
        "network": by_weights(network, truth),
        "error": error,
        "coverage of two standard errors": covered,
        "calibration": {str(each): asdict(found) for each, found in zip(model.weights, model.scores, strict=True)},
        "steps": explainer.histories_["explainer"].steps,
        "skill of the model": task.skill,
    }


METHODS = ("refine", "refine, three at once", "without the network", "least squares", "shap KernelExplainer")


def by_weights(values: Tensor, truth: Tensor) -> dict[str, float]:
    """Return nRMSE by weighting, for weightings with values: (weights, inputs, players, outputs)."""
    found = {}
    for weights, some, right in zip(WEIGHTS, values.double(), truth, strict=False):
        spread = (right - right.mean(1, keepdim=True)).square().sum()
        found[str(weights)] = float(((some - right).square().sum() / spread).sqrt())
    return found


def coverage(found: fw.Attribution, truth: Tensor) -> float:
    """Share of values within two standard errors."""
    if found.stderr is None:
        raise RuntimeError("refined values have standard errors")
    return float(((found.values - truth).abs() < 2 * found.stderr).double().mean())


def reference(explainer: fw.FeatureExplainer, x: Tensor, calls: int) -> Tensor:
    """Exact values, or those of a long run if there are too many players."""
    game = explainer.game(x)
    if game.n_players <= MOST_ENUMERATED:
        return fw.exact_values(game, list(WEIGHTS), progress=False)
    runs = [fw.least_squares_values(game, each, n_calls=calls, seed=10**6, progress=False) for each in WEIGHTS]
    return torch.stack([run.values for run in runs])


def from_scratch(explainer: fw.FeatureExplainer, x: Tensor, calls: int, seed: int) -> Tensor:
    """`refine` without the network: zero slopes, and sizes drawn without its level."""
    masked, generator = explainer.game(x[0]).masked, torch.Generator().manual_seed(seed)
    n, stride = masked.n_players, math.ceil(MIN_GRID / masked.n_players)
    nothing = Slopes(torch.zeros(stride * n + 1, n, masked.full_values(x[:1]).shape[1], dtype=torch.float64), stride)
    games = [predict_game(masked, each, nothing) for each in x.split(1)]
    found = []
    for weights in WEIGHTS:
        laws = torch.from_numpy(join_laws([weights], n))
        sizes = best_sizes(laws, laws.new_ones(n - 1))
        some = [refine_game(game, laws, sizes, n_calls=calls, generator=generator)[0] for game in games]
        found.append(torch.cat(some))
    return torch.stack(found)


def least_squares(explainer: fw.FeatureExplainer, x: Tensor, calls: int, seed: int) -> Tensor:
    """Our least squares, with the calls for each weighting."""
    games = [explainer.game(each) for each in x]
    return torch.stack(
        [
            torch.stack(
                [fw.least_squares_values(game, each, n_calls=calls, seed=seed, progress=False).values for game in games]
            )
            for each in WEIGHTS
        ]
    )


def kernel_shap(explainer: fw.FeatureExplainer, x: Tensor, calls: int, seed: int) -> Tensor:
    """KernelExplainer of shap on the same game: all players against none. Shapley values only."""
    found = []
    for each in x:
        game = explainer.game(each)
        np.random.seed(seed)  # noqa: NPY002 - what shap draws from
        shown = shap.KernelExplainer(
            lambda masks, game=game: game(torch.as_tensor(masks > 0)).numpy(), np.zeros((1, game.n_players))
        ).shap_values(np.ones((1, game.n_players)), nsamples=calls - 2, l1_reg=False, silent=True)
        found.append(torch.as_tensor(shown[0]))
    return torch.stack(found)[None]


def ratios(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Calls of other methods over those of `refine` at its error, mean and deviation over seeds.

    By linear interpolation on logarithmic scales, without extrapolation.
    """
    table: dict[str, Any] = {}
    for method in METHODS[1:]:
        for weights in map(str, WEIGHTS):
            for calls in runs[0]["refine"]:
                each = [ratio(run[method], run["refine"][calls][weights], weights, int(calls)) for run in runs]
                known = [value for value in each if value is not None]
                if len(known) == len(each):
                    table.setdefault(method, {}).setdefault(weights, {})[calls] = summarize(known)
    return table


def ratio(curve: Mapping[str, Mapping[str, float]], error: float, weights: str, calls: int) -> float | None:
    """Calls at which a curve reaches an error, over those given; None where it was not measured."""
    points = sorted((int(key), found[weights]) for key, found in curve.items() if weights in found)
    for (before, high), (after, low) in itertools.pairwise(points):
        if low <= error <= high:
            share = math.log(high / error) / max(math.log(high / low), 1e-12)
            return before * (after / before) ** share / calls
    return None


def draw(results: Mapping[str, Any]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Draw error against calls, a row per task, a column per weighting."""
    figure = new_figure(width=3.4 * len(WEIGHTS), height=2.9 * len(results))
    panels = figure.subplots(len(results), len(WEIGHTS), squeeze=False, sharex=True)
    for row, (task, found) in zip(panels, results.items(), strict=True):
        for axes, weights in zip(row, map(str, WEIGHTS), strict=True):
            axes.axhline(found["network"][weights][0], color=COLORS[6], linestyle=":", label="network alone")
            for method, color in zip(METHODS, (COLORS[0], COLORS[5], *COLORS[1:4]), strict=True):
                points = sorted(
                    (int(key), each[weights]) for key, each in found["error"][method].items() if weights in each
                )
                if points:
                    calls, (means, spreads) = (
                        [key for key, _ in points],
                        zip(*(each for _, each in points), strict=True),
                    )
                    axes.errorbar(calls, means, spreads, fmt="o-", color=color, label=method, capsize=2, markersize=3)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_ylim(top=3)
            axes.set_title(f"{task}: {weights}", fontsize="small")
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(visible=True, alpha=0.25)
        row[0].set_ylabel("nRMSE")
    for axes in panels[-1]:
        axes.set_xlabel("calls of the surrogate per input")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure
