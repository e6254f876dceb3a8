"""Muon and AdamW in equal time: networks that explain images and tables, and networks that predict values of data.

Each task is trained by both optimizers, with half, once and twice the default learning rates, for the same seconds on
one core. Measured are the surrogate (share of the model's variance that it explains, and its divergence with hidden
features), the explainer (agreement with exact Shapley values of the surrogate's game, or with long least squares), and
the learned data values (agreement with exact values of held-out points).

    python benchmarks/run.py optimizers             # 25 minutes on two cores, which must be free
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import torch
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import nn

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.options import ExperimentParser
from benchmarks.harness.parallel import map_parallel
from benchmarks.harness.record import record
from benchmarks.harness.statistics import summarize
from fwshapley.explanation.metrics import measure_agreement
from fwshapley.games.scales import Output
from fwshapley.plots import COLORS, new_figure
from fwshapley.training import loop, optimizers
from fwshapley.training.budget import OptimizerName, TrainingOptions

sys.path.append(str(Path(__file__).parents[2] / "examples"))  # scripts of another folder, not a package
import bundled

SEEDS = (0, 1, 2)
SECONDS = 30
WORKERS = 2
FACTORS = (0.5, 1.0, 2.0)
"""Of the default learning rates."""

OPTIMIZERS: tuple[OptimizerName, ...] = ("muon", "adamw")
JUDGED, CALLS, MOST_ENUMERATED = 16, 8192, 12
HELD_OUT = 150
SMOKE = {"judged": 2, "calls": 150, "epochs": 1, "points": 60}
FULL = {"judged": JUDGED, "calls": CALLS, "epochs": 30, "points": 1500}

Measure = Callable[[int, fw.Budget, Mapping[str, int]], dict[str, float]]
"""Trains with a seed and a budget, and returns numbers."""


def main(arguments: argparse.Namespace) -> None:
    """Train, compare, print, draw, record."""
    started = time.perf_counter()
    jobs = list(itertools.product(TASKS, OPTIMIZERS, arguments.factors, arguments.seeds))
    found = dict(zip(jobs, map_parallel(partial(measure_once, arguments), jobs, arguments.workers), strict=True))
    results: dict[str, Any] = {}
    for task, optimizer, factor in itertools.product(TASKS, OPTIMIZERS, arguments.factors):
        row = summarize([found[task, optimizer, factor, seed] for seed in arguments.seeds])
        results.setdefault(task, {}).setdefault(optimizer, {})[f"{factor:g}"] = row
        print(task, optimizer, factor, row, flush=True)
    record("optimizers", results, out=arguments.out, seeds=arguments.seeds, started=started, packages=["scikit-learn"])
    save_figure(partial(draw, results), "optimizers", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments; a smoke run trains for two steps."""
    parser = ExperimentParser(__doc__, smoke="two steps of training", seeds=SEEDS, seeds_of="models and training")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each training (default: %(default)g)")
    arguments = parser.parse(options)
    arguments.budget = fw.Budget(steps=2) if arguments.smoke else fw.Budget(seconds=arguments.seconds)
    arguments.sizes = SMOKE if arguments.smoke else FULL
    arguments.factors = FACTORS[1:2] if arguments.smoke else FACTORS
    arguments.workers = 1 if arguments.smoke else WORKERS
    return arguments


def measure_once(arguments: argparse.Namespace, job: tuple[str, OptimizerName, float, int]) -> dict[str, float]:
    """Numbers of a task, trained by an optimizer with a multiple of the default learning rates and a seed."""
    task, optimizer, factor, seed = job
    torch.set_num_threads(1)
    with trained_by(optimizer, factor):
        return TASKS[task](seed, arguments.budget, arguments.sizes)


@contextmanager
def trained_by(optimizer: OptimizerName, factor: float) -> Iterator[None]:
    """Let the package train every network by an optimizer, with learning rates multiplied by a factor."""

    def make(module: nn.Module, options: TrainingOptions) -> list[torch.optim.Optimizer]:
        return optimizers.make_optimizers(module, replace(options, optimizer=optimizer))

    schedule = loop.schedule
    with (
        mock.patch.object(loop, "make_optimizers", make),
        mock.patch.object(loop, "schedule", lambda spent: factor * schedule(spent)),
    ):
        yield


def explain(
    model: Any,  # noqa: ANN401 - as `FeatureExplainer` takes it
    players: fw.players.Players | None,
    x_train: Any,  # noqa: ANN401 - as `fit` takes it
    x_test: Any,  # noqa: ANN401 - as above
    *,
    seed: int,
    budget: fw.Budget,
    sizes: Mapping[str, int],
    output: Output | Literal["auto"] = "auto",
) -> dict[str, float]:
    """Fit an explainer with default settings; judge its surrogate, and its Shapley values of the first output."""
    explainer = fw.FeatureExplainer(model, players, output=output, seed=seed, device="cpu")
    explainer.fit(x_train, budget=budget, progress=False)
    x = x_test[: sizes["judged"]]
    learned = explainer.explain(x, outputs="all").values[..., 0]
    games = [explainer.game(x[place : place + 1]) for place in range(len(x))]
    truth = [values_of(game, sizes["calls"])[:, 0] for game in games]
    agreement = measure_agreement(learned.double(), torch.stack(truth).double())
    fidelity = explainer.fidelity_
    assert fidelity is not None  # noqa: S101 - a surrogate was trained
    return {
        "explained": fidelity.explained,
        "divergence": statistics.fmean(fidelity.divergence),
        "pearson": agreement.pearson,
        "nrmse": agreement.nrmse,
        "steps of the surrogate": explainer.histories_["surrogate"].steps,
        "steps": explainer.histories_["explainer"].steps,
    }


def values_of(game: fw.games.masked_model.PredictionGame, calls: int) -> torch.Tensor:
    """Shapley values, exact or by long least squares."""
    if game.n_players <= MOST_ENUMERATED:
        return fw.exact_values(game, fw.Shapley(), progress=False)
    return fw.least_squares_values(game, fw.Shapley(), n_calls=calls, seed=0, progress=False).values


def explain_digits(seed: int, budget: fw.Budget, sizes: Mapping[str, int]) -> dict[str, float]:
    """Images of the demo and its network; 16 players."""
    task = bundled.digits(seed, sizes["epochs"])
    return explain(task.model, task.players, task.x_train, task.x_test, seed=seed, budget=budget, sizes=sizes)


def explain_diabetes(seed: int, budget: fw.Budget, sizes: Mapping[str, int]) -> dict[str, float]:
    """A perceptron on a table of 10 columns."""
    task = bundled.diabetes(seed)
    options: dict[str, Any] = {"seed": seed, "budget": budget, "sizes": sizes, "output": "raw"}
    return explain(task.model, task.players, task.x_train, task.x_test, **options)


def explain_tumors(seed: int, budget: fw.Budget, sizes: Mapping[str, int]) -> dict[str, float]:
    """Boosted trees on a table of 30 columns, as a black box."""
    x, y = load_breast_cancer(return_X_y=True)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed)).numpy()
    train, test = order[HELD_OUT:], order[:HELD_OUT]
    model = HistGradientBoostingClassifier(max_iter=sizes["epochs"], random_state=seed).fit(x[train], y[train])
    return explain(model, None, x[train], x[test], seed=seed, budget=budget, sizes=sizes)


def value_digits(seed: int, budget: fw.Budget, sizes: Mapping[str, int]) -> dict[str, float]:
    """Values of digits for nearest neighbors, learned from exact ones."""
    x, y = bundled.digit_images()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[: sizes["points"]]
    points, labels = x[order].flatten(1), y[order]
    valuator = fw.AmortizedValuator(method="regression", budget=budget, device="cpu", seed=seed, progress=False)
    fidelity = valuator.fit(points, labels).fidelity_
    assert fidelity is not None  # noqa: S101 - "regression" holds points out
    return {"pearson": fidelity.pearson, "rmse": fidelity.rmse, "steps": valuator.history_.steps}


TASKS: Mapping[str, Measure] = {
    "digits": explain_digits,
    "diabetes, perceptron": explain_diabetes,
    "tumors, boosted trees": explain_tumors,
    "values of digits": value_digits,
}


def draw(results: Mapping[str, Any]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Draw the correlation of each task against the learning rate."""
    figure = new_figure(width=2.6 * len(results), height=2.9)
    for axes, (task, rows) in zip(figure.subplots(1, len(results)), results.items(), strict=True):
        for (optimizer, found), color in zip(rows.items(), COLORS, strict=False):
            means, spreads = zip(*(row["pearson"] for row in found.values()), strict=True)
            axes.errorbar(list(map(float, found)), means, spreads, fmt="o-", color=color, label=optimizer, capsize=2)
        axes.set_xscale("log", base=2)
        axes.set_title(task, fontsize="small")
        axes.set_xlabel("learning rate / default", fontsize="small")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(visible=True, alpha=0.25)
    figure.axes[0].set_ylabel("correlation")
    figure.axes[0].legend(frameon=False, fontsize="small")
    return figure
