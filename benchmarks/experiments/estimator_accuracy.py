"""Error of sampled Shapley values against game calls, beside shapiq; and the cost of exact values and of draws.

    python benchmarks/run.py estimator_accuracy            # minutes on 2 cores

One run compares our least squares, tree proxy, permutations (with and without reverse orders) and multilinear
extension with shapiq's KernelSHAP (plain and paired) and permutations: at the Shapley value, on six games of 12 and 16
players. An error is the root mean square over players, seeds and instances of the game, relative to the spread of the
true values.
With `--shapiq-python`, a Python that has shapiq 1.8 or newer, its RegressionMSR, OddSHAP and LeverageSHAP join in. For
four other weightings, least squares is compared with the tree proxy, for each alone and for all from the same calls.
The calls ratio is the number of calls that a method needs for the error of the better KernelSHAP, divided by the calls
of that KernelSHAP: a geometric mean over budgets and instances, with its range over instances. Below 1 is better.
"""

from __future__ import annotations

import argparse
import itertools
import math
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.ticker import LogLocator, NullLocator
from numpy.typing import NDArray
from shapiq.approximator import KernelSHAP, PermutationSamplingSV
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from torch import Tensor

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.options import ExperimentParser
from benchmarks.harness.record import record
from fwshapley.coalitions import draw_of_sizes, make_generator
from fwshapley.plots import COLORS, new_figure

Method = Callable[[fw.games.Game, int, int], Tensor]  # game, budget, seed -> values
Array = NDArray[np.float64]
Errors = dict[str, dict[str, dict[str, list[list[list[float]]]]]]  # players, game, method: instances x budgets x seeds


@dataclass(frozen=True)
class Table:
    """A game as the table of its 2**n values, so that a call takes equally long for every game."""

    n_players: int
    worth: Tensor

    def __call__(self, coalitions: Tensor, /) -> Tensor:
        """Look up the coalitions."""
        return self.worth[(coalitions * 2 ** torch.arange(self.n_players)).sum(1)]


def tabulate(function: Callable[[Tensor], Tensor], n: int) -> Table:
    """Evaluate a function of coalitions once for all coalitions."""
    masks = (torch.arange(2**n)[:, None] >> torch.arange(n)) & 1 == 1
    return Table(n, torch.as_tensor(function(masks), dtype=torch.float64))


def make_games(n: int, seed: int) -> dict[str, Table]:
    """Six games, from that of a real model to pure noise."""
    generator = torch.Generator().manual_seed(seed)
    normal = partial(torch.randn, generator=generator, dtype=torch.float64)
    first, bias, second = normal(n, 24), normal(24), normal(24)
    carriers, dividends = torch.rand(40, n, generator=generator) < 0.35, normal(40)
    return {
        "forest": tabulate(forest_game(n, seed), n),
        "network": tabulate(lambda s: torch.tanh(0.7 * s.double() @ first + bias) @ second, n),
        "dividends": tabulate(lambda s: (s[:, None] >= carriers).all(2).double() @ dividends, n),
        "airport": tabulate(fw.games.Airport(10 * torch.rand(n, generator=generator)), n),
        "voting": tabulate(fw.games.Voting(tuple(range(1 + seed, n + 1 + seed)), n * (n + 1 + 2 * seed) // 4), n),
        "random": tabulate(fw.games.Random(n, seed=seed), n),
    }


def forest_game(n: int, seed: int) -> Callable[[Tensor], Tensor]:
    """A random forest's probability of one class for one input, absent features at their mean."""
    x, y = make_classification(1000, n, n_informative=n // 2, n_redundant=n // 4, random_state=seed)
    model = RandomForestClassifier(50, max_depth=8, random_state=seed).fit(x, y)
    return lambda s: torch.from_numpy(model.predict_proba(np.where(s.numpy(), x[0], x.mean(0)))[:, y[0]])


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
    "tree proxy": ours(fw.proxy_values),
    "permutations": ours(fw.permutation_values),
    "permutations, one way": ours(partial(fw.permutation_values, antithetic=False)),
    "multilinear": ours(fw.multilinear_values),
    "shapiq KernelSHAP": shapiq(KernelSHAP),
    "shapiq KernelSHAP, paired": shapiq(partial(KernelSHAP, pairing_trick=True)),
    "shapiq permutations": shapiq(PermutationSamplingSV),
}
WEIGHTINGS = [fw.Beta(4, 1), fw.Beta(1, 4), fw.Beta(16, 1), fw.Banzhaf()]
CHILD = Path(__file__).parents[1] / "harness" / "shapiq_estimates.py"
KERNEL_SHAP = ("shapiq KernelSHAP", "shapiq KernelSHAP, paired")


def measure_errors(
    sizes: list[int], budgets: dict[int, list[int]], instances: int, seeds: list[int], shapiq_python: str | None
) -> Errors:
    """Relative error of every method: by number of players, game, method, then instance x budget x seed."""
    errors: Errors = {}
    for n in sizes:
        for instance in range(instances):
            games = make_games(n, seed=instance)
            peers = ask_newest_shapiq(shapiq_python, games, budgets[n], seeds) if shapiq_python else {}
            for name, game in games.items():
                truth = fw.exact_values(game, fw.Shapley())
                found = {
                    label: torch.stack(
                        [torch.stack([method(game, budget, seed) for seed in seeds]) for budget in budgets[n]]
                    )
                    for label, method in METHODS.items()
                }
                for label, values in (found | peers.get(name, {})).items():
                    by_method = errors.setdefault(str(n), {}).setdefault(name, {})
                    by_method.setdefault(label, []).append(relative_errors(values, truth))
            print(f"n = {n}, instance {instance}: done", flush=True)
    return errors


def relative_errors(values: Tensor, truth: Tensor) -> list[list[float]]:
    """Root mean square over players, relative to the spread of the truth: by budget and seed."""
    relative = (values - truth).square().mean(-1).sqrt() / truth.std()
    return [[float(f"{error:.4g}") for error in by_seed] for by_seed in relative.tolist()]


def ask_newest_shapiq(
    python: str, games: dict[str, Table], budgets: list[int], seeds: list[int]
) -> dict[str, dict[str, Tensor]]:
    """Shapley values by the estimators of shapiq in another environment: by game and method, budget x seed x player."""
    with tempfile.TemporaryDirectory() as folder:
        task, result = Path(folder) / "task.npz", Path(folder) / "result.npz"
        tables: dict[str, Any] = {f"game {name}": game.worth.numpy() for name, game in games.items()}
        np.savez(task, budgets=np.array(budgets), seeds=np.array(seeds), **tables)
        subprocess.run([python, str(CHILD), str(task), str(result)], check=True)  # noqa: S603 - a Python that the user names
        found = np.load(result)
        print(f"shapiq {found['version']} in an environment of its own")
        return {
            name: {
                key.removeprefix(f"{name} "): torch.from_numpy(found[key])
                for key in found
                if key.startswith(f"{name} ")
            }
            for name in games
        }


def measure_weightings(
    sizes: list[int], budgets: dict[int, list[int]], instances: int, seeds: list[int]
) -> dict[str, Errors]:
    """Relative error of least squares and the tree proxy for weightings other than Shapley's; by weighting first.

    "tree proxy, all" has all weightings from one set of calls, where the others make as many calls for each.
    """
    errors: dict[str, Errors] = {str(weights): {} for weights in WEIGHTINGS}
    for n, instance in itertools.product(sizes, range(instances)):
        for name, game in make_games(n, seed=instance).items():
            truth = fw.exact_values(game, WEIGHTINGS)
            found = {
                "least squares": estimate_weightings(fw.least_squares_values, game, budgets[n], seeds),
                "tree proxy": torch.cat(
                    [estimate_weightings(fw.proxy_values, game, budgets[n], seeds, [each]) for each in WEIGHTINGS], 2
                ),
                "tree proxy, all": estimate_weightings(fw.proxy_values, game, budgets[n], seeds),
            }
            for (label, values), (at, weights) in itertools.product(found.items(), enumerate(WEIGHTINGS)):
                by_method = errors[str(weights)].setdefault(str(n), {}).setdefault(name, {})
                by_method.setdefault(label, []).append(relative_errors(values[:, :, at], truth[at]))
    return errors


def estimate_weightings(
    estimator: Callable[..., fw.Estimate],
    game: Table,
    budgets: list[int],
    seeds: list[int],
    weightings: Sequence[fw.Semivalue] = WEIGHTINGS,
) -> Tensor:
    """Values by budget, seed, weighting and player."""
    runs = [
        [estimator(game, list(weightings), n_calls=budget, seed=seed, progress=False).values for seed in seeds]
        for budget in budgets
    ]
    return torch.stack([torch.stack(by_seed) for by_seed in runs])


def error_ratios(errors: dict[str, Errors]) -> dict[str, Any]:
    """Error over that of least squares at equal calls, by weighting, players, game, method and budget."""
    ratios: dict[str, Any] = {}
    for weights, by_size in errors.items():
        for n, games in by_size.items():
            for game, curves in games.items():
                error = {label: rms(np.array(runs), (0, 2)) for label, runs in curves.items()}
                reference = np.maximum(error.pop("least squares"), 1e-12)
                ratios.setdefault(weights, {}).setdefault(n, {})[game] = {
                    label: [float(f"{ratio:.3g}") for ratio in each / reference] for label, each in error.items()
                }
    return ratios


def rms(values: Array, axis: int | tuple[int, ...]) -> Array:
    """Root mean square."""
    return np.sqrt(np.mean(np.square(values), axis))


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
    parser.add_argument("--players", type=int, nargs="+", choices=[12, 16], default=[12, 16], help="sizes of the games")
    parser.add_argument(
        "--shapiq-python", metavar="PATH", help="Python that has shapiq 1.8 or newer, for its estimators"
    )
    return parser.parse(options)


def main(arguments: argparse.Namespace) -> None:
    """Run everything, print the ratios, write JSON and figure."""
    started = time.perf_counter()

    smoke = arguments.smoke
    sizes = [6] if smoke else arguments.players
    instances = 2 if smoke else arguments.instances
    budgets = {6: [44, 60], 12: [100, 150, 220, 330, 500, 750, 1100, 1600], 16: [100, 180, 320, 580, 1000, 1800, 3200]}
    errors = measure_errors(sizes, budgets, instances, arguments.seeds, arguments.shapiq_python)
    ratios = calls_ratios(errors, budgets)
    for n, games in ratios.items():
        for game, by_method in games.items():
            cells = ", ".join(
                f"{label} {'-' if ratio is None else round(ratio['mean'], 2)}" for label, ratio in by_method.items()
            )
            print(f"calls ratio, n = {n}, {game}: {cells}")
    other_weightings = measure_weightings(
        sizes, {6: [60]} if smoke else budgets, 1 if smoke else instances, arguments.seeds
    )
    for weights, by_size in error_ratios(other_weightings).items():
        print(f"error of the tree proxy over least squares, {weights}: {by_size}")
    results = {
        "budgets": {str(n): budgets[n] for n in sizes},
        "relative_error": errors,
        "calls_ratio": ratios,
        "relative_error_by_weighting": other_weightings,
        "error_ratio_by_weighting": error_ratios(other_weightings),
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
