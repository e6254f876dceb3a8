"""From how many inputs on learning takes less time than sampling of the same error, and whether `fit` knows.

Explainers are trained for some budgets: digits with 16 and with 64 players, and the breast cancer table with 30. Each
is compared with `explainer.sample` of the same surrogate on inputs that were not trained on: Shapley values of the
predicted class. References are exact for 16 players, and long sampling for more.

Sampling at the error of the network takes so many seconds per input, between the measured numbers of calls by linear
interpolation on logarithmic scales, beyond them by error in proportion to 1 / sqrt(calls), but never fewer calls than
least squares needs. Learning takes the seconds of the explaining network's training, and then seconds per input of a
batch. Both need the surrogate, whose training is therefore not counted. The break-even is the number of inputs for
which both take equally long.

    python benchmarks/run.py learn_or_sample                  # about ten minutes on two cores, which must be free
    python benchmarks/run.py learn_or_sample --device cuda    # on a GPU
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

import fwshapley as fw
from benchmarks.experiments.refinement import TASKS
from benchmarks.harness.figures import save_figure
from benchmarks.harness.measuring import synchronize, timed
from benchmarks.harness.options import ExperimentParser
from benchmarks.harness.parallel import map_parallel
from benchmarks.harness.record import record
from benchmarks.harness.statistics import summarize
from fwshapley.explanation.learned.quality import Score
from fwshapley.explanation.learned.sampled_values import fewest_calls
from fwshapley.plots import COLORS, new_figure

SEEDS = (0, 1, 2)
SECONDS = (10, 30, 60)
RATE = 6e-3
INPUTS = 64
EPOCHS = 30
CALLS = (160, 320, 640, 1280, 2560)
"""The first is enough for the fewest calls of 30 players; with fewer than 2**players, no sample is exact."""

REFERENCE_CALLS = 40_000
LARGEST = 10**5
"""Inputs at the right end of the figure."""


def main(arguments: argparse.Namespace) -> None:
    """Train, compare, print, draw, record."""
    started = time.perf_counter()
    jobs = [(name, seed) for name in TASKS for seed in arguments.seeds]
    found = dict(zip(jobs, map_parallel(partial(measure_once, arguments), jobs, arguments.workers), strict=True))
    results = {name: summarize([found[name, seed] for seed in arguments.seeds]) for name in TASKS}
    for name, budgets in results.items():
        for budget, row in budgets.items():
            print(f"{name}, {budget}: error {row['network']['error'][0]:.2f}, break-even {row['break-even'][0]:,.0f}")
    options: dict[str, Any] = {"out": arguments.out, "seeds": arguments.seeds, "device": str(arguments.device)}
    record("learn_or_sample", results, started=started, packages=["scikit-learn"], **options)
    save_figure(partial(draw, results), "learn_or_sample", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments; a smoke run trains for a few steps."""
    parser = ExperimentParser(
        __doc__, smoke="few steps of training and few calls", seeds=SEEDS, seeds_of="data, models and draws"
    )
    parser.add_device(default="cpu")
    arguments = parser.parse(options)
    smoke = arguments.smoke
    arguments.inputs = 2 if smoke else INPUTS
    arguments.calls = (320, 640) if smoke else CALLS
    arguments.reference_calls = 700 if smoke else REFERENCE_CALLS
    arguments.budgets = (1,) if smoke else SECONDS
    arguments.epochs = 1 if smoke else EPOCHS
    arguments.workers = 1 if smoke or torch.device(arguments.device).type != "cpu" else 2
    return arguments


def measure_once(arguments: argparse.Namespace, job: tuple[str, int]) -> dict[str, Any]:
    """Errors and times of a task and a seed, by budget."""
    name, seed = job
    torch.set_num_threads(1)  # each run has a core
    task = TASKS[name](seed, arguments.epochs)
    x, rest = task.x_test[: arguments.inputs], task.x_test[arguments.inputs :]
    found = {}
    for seconds in arguments.budgets:
        budget = fw.Budget(steps=4) if arguments.smoke else fw.Budget(seconds=seconds)
        explainer = fw.FeatureExplainer(task.model, task.players, device=arguments.device, seed=seed)
        explainer.fit(task.x_train, budget=budget, learning_rate=RATE, progress=False)
        if explainer.quality_ is None:  # after the steps of a smoke run
            explainer.measure_quality(rest[:8], n_calls=fewest_calls(task.players.n_players), progress=False)
        found[f"{seconds} s"] = compare(explainer, x, arguments)
    return found


def compare(explainer: fw.FeatureExplainer, x: Tensor, arguments: argparse.Namespace) -> dict[str, Any]:
    """Errors, times and break-even of one explainer."""
    quality, histories = explainer.quality_, explainer.histories_
    if quality is None:
        raise RuntimeError("the quality of the explainer was not measured")
    outputs = explainer.predictions(x).surrogate.argmax(1, keepdim=True)
    options: dict[str, Any] = {"outputs": outputs, "progress": False}
    truth = explainer.sample(x, n_calls=arguments.reference_calls, seed=10**6, **options).values
    n_players = truth.shape[1]

    def explain(n_calls: int | None) -> tuple[dict[str, float], Score]:
        def run() -> Tensor:
            if n_calls is None:
                values = explainer.explain(x, outputs=outputs).values
            else:
                values = explainer.sample(x, n_calls=n_calls, **options).values
            synchronize(values.device)
            return values

        run()  # the first call prepares the device
        values, seconds = timed(run)
        score = Score.of(values, truth, truth)
        return {"error": score.error, "seconds": seconds / len(x)}, score

    network, score = explain(None)
    sampling = {calls: explain(calls)[0] for calls in arguments.calls if calls >= fewest_calls(n_players)}
    equal = at_error(sampling, network["error"], fewest=fewest_calls(n_players))
    training = histories["explainer"].seconds
    known = quality.break_even(training, n_players)
    saved = equal["seconds"] - network["seconds"]
    return {
        "training": {name: history.seconds for name, history in histories.items()},
        "network": network | {"correlation": score.correlation},
        "sampling": {str(calls): row for calls, row in sampling.items()},
        "equal error": equal,
        "break-even": min(training / saved, float(10**9)) if saved > 0 else float(10**9),
        "measured by fit": {"error": quality.error, "break-even": min(known, float(10**9))},
    }


def at_error(sampling: Mapping[int, Mapping[str, float]], error: float, *, fewest: int) -> dict[str, float]:
    """Calls of sampling at an error, and its seconds per input; see the module's docstring."""
    points = sorted((calls, row["error"], row["seconds"]) for calls, row in sampling.items())
    low, high = points[0], points[-1]
    if error >= low[1]:
        calls = max(low[0] * (low[1] / error) ** 2, fewest)
        return {"calls": calls, "seconds": low[2] * calls / low[0]}
    for before, after in itertools.pairwise(points):
        if after[1] <= error <= before[1]:
            share = math.log(before[1] / error) / max(math.log(before[1] / after[1]), 1e-12)
            calls, seconds = (before[at] * (after[at] / before[at]) ** share for at in (0, 2))
            return {"calls": calls, "seconds": seconds}
    factor = (high[1] / error) ** 2
    return {"calls": high[0] * factor, "seconds": high[2] * factor}


def draw(results: Mapping[str, Any]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Draw seconds against the number of inputs: a panel per task, a color per budget, sampling of its error dashed."""
    figure = new_figure(width=3.6 * len(results), height=3.4)
    panels = figure.subplots(1, len(results), squeeze=False, sharey=True)[0]
    for axes, (name, budgets) in zip(panels, results.items(), strict=True):
        for (budget, row), color in zip(budgets.items(), COLORS, strict=False):
            inputs = [10 ** (power / 8) for power in range(8 * round(math.log10(LARGEST)) + 1)]
            training, network = row["training"]["explainer"][0], row["network"]["seconds"][0]
            label = f"{budget}: error {row['network']['error'][0]:.2f}"
            axes.plot(inputs, [training + count * network for count in inputs], color=color, label=label)
            axes.plot(inputs, [count * row["equal error"]["seconds"][0] for count in inputs], "--", color=color)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(name, fontsize="small")
        axes.set_xlabel("inputs to explain")
        axes.legend(frameon=False, fontsize="x-small", title="training (dashed: sampling)", title_fontsize="x-small")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(visible=True, alpha=0.25)
    panels[0].set_ylabel("seconds, training included")
    return figure
