"""Error of sampled Shapley values against game calls, beside shapiq; and the cost of exact values and of draws.

    python benchmarks/run.py estimator_accuracy            # minutes on 2 cores

One run compares our least squares, permutations (with and without reverse orders) and multilinear extension with
shapiq's KernelSHAP (plain and paired) and permutations: at the Shapley value, on six games of 12 and 16 players.
An error is the root mean square over players, seeds and instances of the game, relative to the spread of the true
values.
The calls ratio is the number of calls that a method needs for the error of the better KernelSHAP, divided by the calls
of that KernelSHAP: a geometric mean over budgets and instances, with its range over instances. Below 1 is better.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib.ticker import LogLocator, NullLocator
from numpy.typing import NDArray
from shapiq.approximator import KernelSHAP, PermutationSamplingSV
from torch import Tensor

import fwshapley as fw
from benchmarks.harness.estimate_errors import relative_errors, rms
from benchmarks.harness.figures import save_figure
from benchmarks.harness.games import make_games, tabulate
from benchmarks.harness.options import ExperimentParser
from benchmarks.harness.record import record
from fwshapley.coalitions import draw_of_sizes, make_generator
from fwshapley.plots import COLORS, new_figure

Method = Callable[[fw.games.Game, int, int], Tensor]  # game, budget, seed -> values
Array = NDArray[np.float64]
Errors = dict[str, dict[str, dict[str, list[list[list[float]]]]]]  # players, game, method: instances x budgets x seeds


def ours(estimator: Callable[..., fw.Estimate]) -> Method:
    """Adapt one of our estimators."""
    return lambda game, budget, seed: estimator(game, fw.Shapley(), n_calls=budget, seed=seed, progress=False).values


def shapiq(approximator: Callable[..., Any]) -> Method:
    """Adapt one of shapiq's approximators."""

    def method(game: fw.games.Game, budget: int, seed: int) -> Tensor:
        n = game.n_players
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the border trick leaves budget over
            found = approximator(n=n, random_state=seed).approximate(
                budget, lambda s: np.asarray(game(torch.from_numpy(np.atleast_2d(s))))
            )
        return torch.tensor([found[(player,)] for player in range(n)], dtype=torch.float64)

    return method


METHODS: dict[str, Method] = {
    "least squares": ours(fw.least_squares_values),
    "permutations": ours(fw.permutation_values),
    "permutations, one way": ours(partial(fw.permutation_values, antithetic=False)),
    "multilinear": ours(fw.multilinear_values),
    "shapiq KernelSHAP": shapiq(KernelSHAP),
    "shapiq KernelSHAP, paired": shapiq(partial(KernelSHAP, pairing_trick=True)),
    "shapiq permutations": shapiq(PermutationSamplingSV),
}
KERNEL_SHAP = ("shapiq KernelSHAP", "shapiq KernelSHAP, paired")


def measure_errors(sizes: list[int], budgets: dict[int, list[int]], instances: int, seeds: list[int]) -> Errors:
    """Relative error of every method: by number of players, game, method, then instance x budget x seed."""
    errors: Errors = {}
    for n in sizes:
        for instance in range(instances):
            for name, game in make_games(n, seed=instance).items():
                truth = game.values([fw.Shapley()])[0]
                for label, method in METHODS.items():
                    found = [torch.stack([method(game, budget, seed) for seed in seeds]) for budget in budgets[n]]
                    by_method = errors.setdefault(str(n), {}).setdefault(name, {})
                    by_method.setdefault(label, []).append(relative_errors(torch.stack(found), truth))
            print(f"n = {n}, instance {instance}: done", flush=True)
    return errors


def calls_ratios(errors: Errors, budgets: dict[int, list[int]]) -> dict[str, Any]:
    """How many calls a method needs, relative to the better KernelSHAP, for the same error."""
    ratios: dict[str, Any] = {}
    for n, games in errors.items():
        for game, curves in games.items():
            by_instance = {label: rms(np.array(runs), 2) for label, runs in curves.items()}  # (instances, budgets)
            for label, own in by_instance.items():
                each = []
                for instance, error in enumerate(own):
                    peers = [by_instance[peer][instance] for peer in KERNEL_SHAP]
                    each.append(calls_ratio(budgets[int(n)], error, min(peers, key=lambda peer: peer[-1])))
                found = [ratio for ratio in each if ratio is not None]
                ratios.setdefault(n, {}).setdefault(game, {})[label] = (
                    {"mean": math.exp(np.mean(np.log(found))), "low": min(found), "high": max(found)} if found else None
                )
    return ratios


def calls_ratio(budgets: list[int], error: Array, reference: Array) -> float | None:
    """Geometric mean of calls / reference calls at equal error; None where the reference is exact throughout.

    By log-log interpolation. Where the smallest budget already does better it counts as is, a bound;
    beyond the largest, error is taken to fall with the square root of the calls.
    """
    exact = 1e-9
    accuracy = np.maximum.accumulate(-np.log(np.maximum(error, exact)))
    log_calls = np.log(budgets)
    wanted = -np.log(reference[reference > exact])
    needed = np.interp(wanted, accuracy, log_calls) + 2 * np.maximum(wanted - accuracy[-1], 0)
    ratios = needed - log_calls[reference > exact]
    return float(np.exp(ratios.mean())) if len(ratios) else None


def measure_overhead(n: int) -> dict[str, float]:
    """Time of exact values of nine weightings, divided by the time of calling the game for as many coalitions."""
    game = tabulate(fw.games.Random(n), n)
    masks = torch.rand(2**14, n) < 0.5
    bare = best_time(lambda: [game(masks) for _ in range(2**n // len(masks))])
    exact = best_time(lambda: fw.exact_values(game, [*fw.semivalues.FEASIBLE_SET, fw.Shapley()], progress=False))
    return {"players": n, "bare_game_s": bare, "exact_values_s": exact, "us_per_coalition": (exact - bare) / 2**n * 1e6}


def measure_weights(n: int) -> dict[str, float]:
    """Time of the weights of a Beta value at n players, and how far the join law is from summing to one."""
    semivalue = fw.Beta(16, 1)
    return {
        "players": n,
        "log_weights_s": best_time(lambda: torch.from_numpy(semivalue.log_weights(n))),
        "log_kernel_s": best_time(lambda: torch.from_numpy(semivalue.log_kernel(n))),
        "size_law_s": best_time(lambda: torch.from_numpy(semivalue.size_law(n))),
        "sum_minus_one": float(torch.from_numpy(semivalue.join_law(n)).sum() - 1),
    }


def measure_sampling(shapes: list[tuple[int, int]]) -> list[dict[str, float]]:
    """Coalitions of given sizes: ours against ranking by two argsorts."""
    generator = make_generator(0)
    rows = []
    for count, n in shapes:
        sizes = torch.randint(1, n, (count,), generator=generator)
        ours_s = best_time(partial(draw_of_sizes, sizes, n, generator))
        double_s = best_time(partial(draw_by_two_argsorts, sizes, n, generator))
        rows.append({"coalitions": count, "players": n, "ours_s": ours_s, "two_argsorts_s": double_s})
    return rows


def draw_by_two_argsorts(sizes: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Rank random keys, a common implementation."""
    keys = torch.rand(len(sizes), n, generator=generator, dtype=torch.float64)
    return keys.argsort(1).argsort(1) < sizes[:, None]


def best_time(function: Callable[[], object], repeats: int = 3) -> float:
    """Shortest of a few timings, in seconds."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return min(times)


def draw(errors: Errors, budgets: dict[int, list[int]]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Error against calls, a panel per game, a row per number of players; shaded is the spread over instances."""
    figure = new_figure(width=14, height=2.9 * len(errors) + 0.5)
    axes = figure.subplots(len(errors), len(next(iter(errors.values()))), squeeze=False, sharex="row")
    for row, (n, games) in zip(axes, errors.items(), strict=True):
        calls = budgets[int(n)]
        for panel, (game, curves) in zip(row, games.items(), strict=True):
            for (label, runs), color in zip(curves.items(), itertools.cycle(COLORS)):
                relative = np.maximum(np.array(runs), 1e-12)
                style = "--" if label.startswith("shapiq") else "-"
                panel.loglog(calls, rms(relative, (0, 2)), style, color=color, label=label, marker="o", markersize=2.5)
                low, high = np.min(rms(relative, 2), 0), np.max(rms(relative, 2), 0)
                panel.fill_between(calls, low, high, color=color, alpha=0.08)
            panel.set_title(f"{game}, n = {n}", fontsize="medium")
            panel.spines[["top", "right"]].set_visible(False)
            panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            panel.yaxis.set_major_formatter("{x:g}")
            panel.yaxis.set_minor_locator(NullLocator())
        row[0].set_ylabel("relative error")
    for panel in axes[-1]:
        panel.set_xlabel("game calls")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=7, frameon=False)
    return figure


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments."""
    parser = ExperimentParser(__doc__, smoke="tiny games", seeds=range(10), seeds_of="the draws for each instance")
    parser.add_argument("--instances", type=int, default=4, help="instances of each game")
    sizes = [12, 16]
    parser.add_argument(
        "--players", type=int, nargs="+", choices=sizes, default=sizes, metavar="N", help="sizes of the games: 12, 16"
    )
    return parser.parse(options)


def main(arguments: argparse.Namespace) -> None:
    """Run everything, print the ratios, write JSON and figure."""
    started = time.perf_counter()

    smoke = arguments.smoke
    sizes = [6] if smoke else arguments.players
    instances = 2 if smoke else arguments.instances
    budgets = {6: [44, 60], 12: [100, 150, 220, 330, 500, 750, 1100, 1600], 16: [100, 180, 320, 580, 1000, 1800, 3200]}
    errors = measure_errors(sizes, budgets, instances, arguments.seeds)
    ratios = calls_ratios(errors, budgets)
    for n, games in ratios.items():
        for game, by_method in games.items():
            cells = ", ".join(
                f"{label} {'-' if ratio is None else round(ratio['mean'], 2)}" for label, ratio in by_method.items()
            )
            print(f"calls ratio, n = {n}, {game}: {cells}")
    results = {
        "budgets": {str(n): budgets[n] for n in sizes},
        "relative_error": errors,
        "calls_ratio": ratios,
        "enumeration": [measure_overhead(n) for n in ([14] if smoke else [16, 20])],
        "weights": measure_weights(10**4 if smoke else 10**6),
        "sampling": measure_sampling([(64, 16)] if smoke else [(64, 16), (4096, 16), (4096, 256), (256, 10_000)]),
    }
    print({key: results[key] for key in ("enumeration", "weights", "sampling")})
    path = record(
        "estimator_accuracy", results, out=arguments.out, seeds=arguments.seeds, started=started,
        packages=["shapiq", "scikit-learn"],
    )  # fmt: skip
    save_figure(partial(draw, errors, budgets), "estimator_accuracy", arguments, dpi=80)
    print(f"written to {path}")
