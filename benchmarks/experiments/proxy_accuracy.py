"""Error of values by a proxy against game calls, beside least squares and shapiq's newest estimators.

    python benchmarks/run.py proxy_accuracy --shapiq-python shapiq312/bin/python

The games are predictions of boosted trees and of networks for rows of real tables of 13, 16 and 64 columns, and the
six games of `estimator_accuracy`. `proxy_values` and `least_squares_values` estimate several weightings, each with as
many calls; shapiq's RegressionMSR, OddSHAP and LeverageSHAP those that they support. shapiq 1.8 needs Python 3.12: it
computes in an environment of its own, made with `python3.12 -m venv shapiq312` and
`shapiq312/bin/pip install 'shapiq>=1.8' xgboost-cpu lightgbm`.

An error is the root mean square over players, seeds and instances of the game, relative to the spread of the true
values.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.ticker import LogLocator, NullLocator
from torch import Tensor

import fwshapley as fw
from benchmarks.harness.estimate_errors import relative_errors, rms
from benchmarks.harness.figures import save_figure
from benchmarks.harness.games import KnownGame, make_games, make_model_games
from benchmarks.harness.options import ExperimentParser, existing_path
from benchmarks.harness.record import record
from fwshapley.plots import COLORS, new_figure

WEIGHTINGS: list[fw.Semivalue] = [fw.Shapley(), fw.Beta(4, 1), fw.Beta(1, 4), fw.Beta(16, 1), fw.Banzhaf()]
OURS: dict[str, Callable[..., fw.Estimate]] = {"least squares": fw.least_squares_values, "proxy": fw.proxy_values}
OTHERS = ("shapiq RegressionMSR", "shapiq OddSHAP", "shapiq LeverageSHAP")
FEW: list[fw.Semivalue] = WEIGHTINGS[:3]
"""Weightings of the games that no model plays."""

BUDGETS = {6: [44, 60], 12: [150, 330, 750], 13: [150, 400, 1000], 16: [200, 600, 1800], 64: [700, 1500, 3000]}
CHILD = Path(__file__).parents[1] / "harness" / "shapiq_estimates.py"

Errors = dict[str, dict[str, dict[str, list[list[list[float]]]]]]  # game, weighting, method: instance x budget x seed


def main(arguments: argparse.Namespace) -> None:
    """Estimate, compare, print, draw, record."""
    started = time.perf_counter()
    errors: Errors = {}
    covered: dict[str, dict[str, dict[str, list[float]]]] = {}  # share of true values within two standard errors
    players: dict[str, int] = {}
    versions: set[str] = set()
    for instance in range(arguments.instances):
        games = make_known_games(instance, smoke=arguments.smoke)
        players |= {name: game.n_players for name, game in games.items()}
        others = ask_shapiq(arguments.shapiq_python, games, arguments.seeds) if arguments.shapiq_python else {}
        versions |= {str(others.pop("version"))} if others else set()
        for name, game in games.items():
            weightings = weightings_of(name)
            for weights, truth in zip(weightings, game.values(weightings), strict=True):
                runs = {label: estimate(method, game, weights, arguments.seeds) for label, method in OURS.items()}
                found = {label: values for label, (values, _) in runs.items()}
                prefix = f"{name}/{weights}/"
                found |= {key.removeprefix(prefix): others[key] for key in others if key.startswith(prefix)}
                for label, (values, stderr) in runs.items():
                    inside = float(((values - truth).abs() <= 2 * stderr).double().mean())
                    covered.setdefault(name, {}).setdefault(str(weights), {}).setdefault(label, []).append(inside)
                by_method = errors.setdefault(name, {}).setdefault(str(weights), {})
                for label, each in found.items():
                    by_method.setdefault(label, []).append(relative_errors(each, truth))
                print(f"instance {instance}, {name}, {weights}: {summary(by_method)}", flush=True)
    results = {
        "players": players,
        "budgets": {name: BUDGETS[n] for name, n in players.items()},
        "relative_error": errors,
        "error_ratio": error_ratios(errors),
        "covered": covered,
        "instances": arguments.instances,
        "others": {"shapiq": sorted(versions)},
    }
    path = record(
        "proxy_accuracy", results, out=arguments.out, seeds=arguments.seeds, started=started,
        packages=["lightgbm", "scikit-learn"], device="cpu",
    )  # fmt: skip
    save_figure(partial(draw, errors, players), "proxy_accuracy", arguments, dpi=80)
    print(f"written to {path}")


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments."""
    parser = ExperimentParser(
        __doc__, smoke="tiny games, without shapiq", seeds=range(3), seeds_of="the draws for each instance"
    )
    parser.add_argument("--instances", type=int, default=2, help="instances of each game")
    parser.add_argument(
        "--shapiq-python",
        type=existing_path,
        help="Python of an environment that has shapiq 1.8; without it, no shapiq",
    )
    arguments = parser.parse(options)
    arguments.instances = 1 if arguments.smoke else arguments.instances
    return arguments


def make_known_games(instance: int, *, smoke: bool) -> dict[str, KnownGame]:
    """Games of models, and those of `estimator_accuracy`."""
    if smoke:
        return {f"{name}, 6 players": game for name, game in make_games(6, instance).items()}
    return make_model_games(instance) | {f"{name}, 12 players": game for name, game in make_games(12, instance).items()}


def weightings_of(name: str) -> list[fw.Semivalue]:
    """Weightings that are estimated for a game."""
    return FEW if "players" in name else WEIGHTINGS


def estimate(
    method: Callable[..., fw.Estimate], game: KnownGame, weights: fw.Semivalue, seeds: list[int]
) -> tuple[Tensor, Tensor]:
    """Values and standard errors by budget, seed and player."""
    runs = [
        [method(game, weights, n_calls=budget, seed=seed, progress=False) for seed in seeds]
        for budget in BUDGETS[game.n_players]
    ]
    values = torch.stack([torch.stack([run.values for run in by_seed]) for by_seed in runs])
    stderr = torch.stack([torch.stack([run.stderr for run in by_seed]) for by_seed in runs])
    return values, stderr


def ask_shapiq(python: Path, games: dict[str, KnownGame], seeds: list[int]) -> dict[str, Any]:
    """Estimates of shapiq in another environment: by game/weighting/method, budget x seed x player; and its version."""
    with tempfile.TemporaryDirectory() as folder:
        task, result = Path(folder) / "task.npz", Path(folder) / "result.npz"
        arrays: dict[str, Any] = {"seeds": np.array(seeds)}
        for name, game in games.items():
            parts = game.arrays() | {
                "budgets": np.array(BUDGETS[game.n_players]),
                "weightings": np.array(list(map(str, weightings_of(name)))),
            }
            arrays |= {f"{name}/{part}": array for part, array in parts.items()}
        np.savez(task, **arrays)
        subprocess.run([python, str(CHILD), str(task), str(result)], check=True)  # noqa: S603 - a Python that the user names
        found = np.load(result)
        return {key: torch.from_numpy(found[key]) if "/" in key else found[key] for key in found}


def error_ratios(errors: Errors) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Error of the proxy over that of each other method at equal calls: by game, weighting, method and budget."""
    ratios: dict[str, dict[str, dict[str, list[float]]]] = {}
    for name, by_weighting in errors.items():
        for weights, by_method in by_weighting.items():
            error = {label: rms(np.array(runs), (0, 2)) for label, runs in by_method.items()}
            proxy = error.pop("proxy")
            ratios.setdefault(name, {})[weights] = {
                label: [float(f"{ratio:.3g}") for ratio in proxy / each] for label, each in error.items()
            }
    return ratios


def summary(by_method: dict[str, list[list[list[float]]]]) -> str:
    """Errors by method and budget."""
    return "; ".join(
        f"{label} {' '.join(f'{error:.3g}' for error in rms(np.array(runs), (0, 2)))}"
        for label, runs in by_method.items()
    )


def draw(errors: Errors, players: dict[str, int]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Error against calls: a column per game that a model plays (all games, if none does), a row per weighting."""
    shown = [name for name in errors if " players" not in name] or list(errors)
    weightings = list(errors[shown[0]])
    figure = new_figure(width=2.8 * len(shown), height=2.2 * len(weightings) + 0.4)
    axes = figure.subplots(len(weightings), len(shown), squeeze=False, sharex="col")
    style = dict(zip([*OURS, *OTHERS], itertools.cycle(COLORS)))
    for column, name in zip(axes.T, shown, strict=True):
        calls = BUDGETS[players[name]]
        for panel, weights in zip(column, weightings, strict=True):
            for label, runs in errors[name][weights].items():
                error = np.maximum(rms(np.array(runs), (0, 2)), 1e-12)
                line = "--" if label.startswith("shapiq") else "-"
                panel.loglog(calls, error, line, color=style[label], label=label, marker="o", markersize=3)
            panel.spines[["top", "right"]].set_visible(False)
            panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            panel.yaxis.set_major_formatter("{x:g}")
            panel.yaxis.set_minor_locator(NullLocator())
            panel.xaxis.set_minor_locator(NullLocator())
            panel.set_xticks(calls, [f"{each:,}" for each in calls])
        column[0].set_title(f"{name}, {players[name]} players" if " players" not in name else name, fontsize="medium")
        column[-1].set_xlabel("game calls")
    for panel, weights in zip(axes[:, 0], weightings, strict=True):
        panel.set_ylabel(f"{weights}\nrelative error")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return figure
