"""Learned values against exact values of tree ensembles, at 30 and 200 columns: how good is a learned explainer?

Enumeration ends at about 24 players; `fw.TreeExplainer` is exact at hundreds. An XGBoost regression is fitted to made
data with interactions, half of whose columns are correlated in groups of five. Two questions are kept apart:

- The same game: hidden columns take the values of one background row, the column means. Trees give its exact values,
  and an explainer without a trained surrogate learns it, so that every difference is an error of learning. Beside it:
  the mean explanation of other rows, and least squares with several numbers of model calls for each row.
- The default: an explainer with a trained surrogate, whose game is that of visible columns alone, against the exact
  interventional values with a background of 1,000 rows. Long sampling of the surrogate's game tells how much of the
  difference is between the games, and how much is an error of learning.

Each part of a seed is kept beside the record, so that an interrupted run goes on where it was.

    python benchmarks/run.py learned_vs_trees    # 22 minutes on two cores, which must be free
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.formats import emphasis
from benchmarks.harness.measuring import timed
from benchmarks.harness.options import ExperimentParser
from benchmarks.harness.pieces import keep_piece, take_piece
from benchmarks.harness.record import record
from benchmarks.harness.statistics import summarize
from fwshapley.explanation.metrics import measure_agreement
from fwshapley.plots import COLORS, new_figure

SEEDS = (0, 1, 2)
SMOKE_COLUMNS = (10,)
COLUMNS = (30, 200)
BUDGETS = (20, 100)
DEFAULT_SECONDS = 60
WEIGHTS = (fw.Beta(16, 1), fw.Beta(4, 1), fw.Shapley(), fw.Beta(1, 4))
FITTED_ROWS, EXPLAINED, SAMPLED, BACKGROUND = 10_000, 200, 16, 1000
TREES, DEPTH, RATE = 200, 5, 0.1
GROUP, CORRELATION, NOISE = 5, 0.7, 0.3
CALLS = (2, 16)
"""Model calls of least squares for each row, in multiples of the fewest that it accepts."""
LONG = 16
"""The same, of each half of the long sampling of a surrogate's game."""
PACKAGES = ("scikit-learn", "xgboost-cpu", "numba")

Rows = NDArray[np.float32]
Values = Float[Tensor, "weights rows players"]


@dataclass(frozen=True)
class Case:
    """A model and the rows around it.

    Attributes:
        model: an XGBoost regression.
        train: rows that it was fitted to, which explainers learn from.
        test: rows to explain.
        skill: R2 of the model on the test rows.
    """

    model: Any
    train: Rows
    test: Rows
    skill: float


class CountedModel:
    """A model that counts the rows that it is called with."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401 - XGBoost's
        self.model, self.calls = model, 0

    def predict(self, rows: Rows) -> NDArray[Any]:
        """Return the predictions of the model."""
        self.calls += len(rows)
        predictions: NDArray[Any] = self.model.predict(rows)
        return predictions


def main(arguments: argparse.Namespace) -> None:
    """Fit, learn, compare, print, draw, record."""
    started = time.perf_counter()
    work = arguments.work or arguments.out / "learned_vs_trees_parts"
    work.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    for columns in arguments.columns:
        runs: list[dict[str, Any]] = []
        for seed in arguments.seeds:
            run, kept = run_once(columns, seed, work, arguments)
            runs.append(run)
            started -= kept
        results[str(columns)] = {
            "agreement": summarize([run["agreement"] for run in runs]),
            "facts": [run["facts"] for run in runs],
        }
    results["setting"] = setting_of(arguments)
    record(
        "learned_vs_trees", results, out=arguments.out, seeds=arguments.seeds, started=started, packages=PACKAGES,
        device="cpu",
    )  # fmt: skip
    if arguments.work is None:
        shutil.rmtree(work)
    save_figure(partial(draw, results), "learned_vs_trees", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments; a smoke run trains for a few steps."""
    parser = ExperimentParser(
        __doc__, smoke="four steps of training, few rows", seeds=SEEDS, seeds_of="data, models and explainers"
    )
    parser.add_argument(
        "--columns", type=int, nargs="+", default=list(COLUMNS), help="numbers of columns, multiples of 10"
    )
    parser.add_argument(
        "--budgets", type=int, nargs=2, default=list(BUDGETS), help="seconds of training on the same game, two numbers"
    )
    parser.add_argument("--default-seconds", type=int, default=DEFAULT_SECONDS, help="seconds of training by default")
    parser.add_argument(
        "--work", type=Path, help="folder that keeps the parts; by default one beside the record, until it is written"
    )
    arguments = parser.parse(options)
    arguments.rows = {"fitted": FITTED_ROWS, "explained": EXPLAINED, "sampled": SAMPLED, "background": BACKGROUND}
    arguments.trees = TREES
    if arguments.smoke:
        arguments.columns = list(SMOKE_COLUMNS)
        arguments.rows = {"fitted": 400, "explained": 4, "sampled": 2, "background": 10}
        arguments.trees = 5
    return arguments


def setting_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """What pieces of one record must have in common."""
    trees = {"trees": arguments.trees, "depth": DEPTH, "correlation": CORRELATION}
    budgets = {"budgets": arguments.budgets, "default seconds": arguments.default_seconds}
    return arguments.rows | trees | budgets | {"calls": list(CALLS), "long": LONG}


def run_once(columns: int, seed: int, work: Path, arguments: argparse.Namespace) -> tuple[dict[str, Any], float]:
    """Return the agreement and the facts of one seed, and the seconds of the parts that an earlier call has kept."""
    parts: dict[str, Callable[[Case], dict[str, Any]]] = {
        "baselines": lambda case: measure_baselines(case, seed, arguments),
        **{
            name_of_budget(seconds): partial(learn_same_game, seconds=seconds, seed=seed, arguments=arguments)
            for seconds in arguments.budgets
        },
        "default": lambda case: learn_default(case, seed, arguments),
    }
    agreement: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    case, kept = None, 0.0
    for name, measure in parts.items():
        path = work / f"{columns} columns, seed {seed}, {name}.json"
        piece = take_piece(path, setting_of(arguments))
        if piece is None:
            case = case or make_case(columns, seed, arguments)
            found, seconds = timed(partial(measure, case))
            keep_piece(path, found | {"settings": setting_of(arguments), "took": seconds}, "cpu")
            piece = found
            told = {method: rows["Shapley"]["pearson"] for method, rows in found["agreement"].items()}
            print(path.stem, json.dumps({method: round(each, 3) for method, each in told.items()}), flush=True)
        else:
            kept += piece["took"]
        agreement |= piece["agreement"]
        facts |= piece["facts"]
    return {"agreement": agreement, "facts": facts}, kept


def name_of_budget(seconds: int) -> str:
    """Name of the explainer that learns the same game for so long."""
    return f"learned in {seconds} s"


def make_case(columns: int, seed: int, arguments: argparse.Namespace) -> Case:
    """Draw a table and fit a model to it."""
    from xgboost import XGBRegressor  # noqa: PLC0415 - `--help` does without

    fitted = arguments.rows["fitted"]
    x, y = draw_table(fitted + arguments.rows["explained"], columns, np.random.default_rng(seed))
    model = XGBRegressor(n_estimators=arguments.trees, max_depth=DEPTH, learning_rate=RATE, random_state=seed)
    model.fit(x[:fitted], y[:fitted])
    return Case(model, x[:fitted], x[fitted:], float(model.score(x[fitted:], y[fitted:])))


def draw_table(rows: int, columns: int, generator: np.random.Generator) -> tuple[Rows, NDArray[np.float64]]:
    """Draw normal columns, every second group of five of them correlated, and a target of half of them.

    A fifth of the columns acts in pairs, as products; a tenth as sines, and a fifth linearly, with decreasing factors.
    """
    shared = np.repeat(generator.normal(size=(rows, columns // GROUP)), GROUP, axis=1)
    share = np.sqrt(CORRELATION) * (np.arange(columns) // GROUP % 2)
    x = (share * shared + np.sqrt(1 - share**2) * generator.normal(size=(rows, columns))).astype(np.float32)
    first, second, waves, *lines = generator.permutation(columns)[: columns // 2].reshape(5, -1)
    factors = 1 / np.sqrt(1 + np.arange(columns // 10))
    y = (x[:, first] * x[:, second] + np.sin(2 * x[:, waves]) + sum(x[:, line] for line in lines) / 2) @ factors
    return x, y + NOISE * generator.normal(size=rows)


def mean_row(case: Case) -> Rows:
    """Return the background of the same game, the column means."""
    means: Rows = case.train.mean(0)
    return means


def exact_values(case: Case, background: Rows | None, rows: Rows) -> Values:
    """Exact values of trees; without a background, those of the path-dependent game."""
    values = fw.TreeExplainer(case.model, background).explain(rows, weights=list(WEIGHTS)).values
    return torch.as_tensor(np.asarray(values)[..., 0])


def measure_baselines(case: Case, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Agreement of what needs no training: the mean explanation, sampling, and the exact values of other games."""
    background, few = mean_row(case), arguments.rows["sampled"]
    truth = exact_values(case, background[None], case.test)
    broad = interventional_values(case, arguments)
    trees = fw.TreeExplainer(case.model, background[None])
    _, seconds = timed(lambda: trees.explain(case.test, weights=list(WEIGHTS)))
    facts: dict[str, Any] = {"skill of the model": case.skill, "seconds, exact": seconds / len(case.test)}
    means = exact_values(case, background[None], case.train[: arguments.rows["background"]]).mean(1, keepdim=True)
    found = {
        "mean explanation": compare(means.expand_as(truth), truth),
        "path-dependent trees": compare(exact_values(case, None, case.test), broad),
        "background of the means": compare(truth, broad),
    }
    games = [game_of(case, background, row) for row in case.test[:few]]
    for multiple in CALLS:
        calls = multiple * fewest_calls(case)
        estimates, seconds = timed(partial(sample, games, calls, seed))
        found[f"sampled, {multiple} x"] = compare(estimates, truth[:, :few])
        facts[f"calls, {multiple} x"] = calls
        facts[f"seconds, sampled, {multiple} x"] = seconds / few / len(WEIGHTS)
    return {"agreement": found, "facts": facts}


def interventional_values(case: Case, arguments: argparse.Namespace) -> Values:
    """Exact values with a background of many training rows."""
    return exact_values(case, case.train[: arguments.rows["background"]], case.test)


def game_of(case: Case, background: Rows, row: Rows) -> fw.games.FunctionGame:
    """Return the game of a row: hidden columns take the values of the background row."""

    def value(coalitions: Tensor) -> Tensor:
        return torch.as_tensor(case.model.predict(np.where(coalitions.numpy(), row, background)))[:, None]

    return fw.games.FunctionGame(value, len(row))


def fewest_calls(case: Case) -> int:
    """Fewest calls of least squares."""
    return 2 * case.train.shape[1] + 10


def sample(games: Sequence[Any], calls: int, seed: int) -> Values:
    """Least-squares estimates of games, every weighting from calls of its own."""
    estimates = [
        fw.least_squares_values(game, list(WEIGHTS), n_calls=calls, seed=seed, progress=False).values[..., 0]
        for game in games
    ]
    return torch.stack(estimates, 1)


def learn_same_game(case: Case, seconds: int, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Agreement of an explainer that learns the game whose exact values trees give."""
    background, model = mean_row(case), CountedModel(case.model)
    explainer = fw.FeatureExplainer(model, surrogate=None, removal=background, output="raw", seed=seed)
    explainer.fit(case.train, budget=budget(seconds, arguments), progress=False)
    truth = exact_values(case, background[None], case.test)
    name, calls = name_of_budget(seconds), model.calls
    return {
        "agreement": {name: compare(learned_values(explainer, case.test), truth)},
        "facts": facts_of(explainer, case, name) | {f"calls, {name}": calls},
    }


def learn_default(case: Case, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Agreement of a default explainer with exact interventional values, and with long sampling of its own game."""
    explainer = fw.FeatureExplainer(case.model, seed=seed)
    explainer.fit(case.train, budget=budget(arguments.default_seconds, arguments), progress=False)
    learned, trees = learned_values(explainer, case.test), interventional_values(case, arguments)
    few, calls = arguments.rows["sampled"], (1 if arguments.smoke else LONG) * fewest_calls(case)
    games = [explainer.game(row) for row in case.test[:few]]
    halves = [sample(games, calls, 1000 * (1 + half) + seed) for half in (0, 1)]
    sampled = (halves[0] + halves[1]) / 2
    agreement = {
        "default": compare(learned, trees),
        "default's game": compare(sampled, trees[:, :few]),
        "default, to its game": compare(learned[:, :few], sampled),
        "halves of the sampling": compare(*halves),
    }
    facts = facts_of(explainer, case, "default")
    if explainer.fidelity_ is None:
        raise RuntimeError("the surrogate was trained here, so its fidelity is known")
    return {"agreement": agreement, "facts": facts | {"fidelity": asdict(explainer.fidelity_)}}


def budget(seconds: int, arguments: argparse.Namespace) -> fw.Budget:
    """Return the budget of a training, a few steps in a smoke run."""
    return fw.Budget(steps=4) if arguments.smoke else fw.Budget(seconds=seconds)


def learned_values(explainer: fw.FeatureExplainer, rows: Rows) -> Values:
    """Values that an explainer has learned."""
    return explainer.explain(rows, weights=list(WEIGHTS)).values[..., 0].double()


def facts_of(explainer: fw.FeatureExplainer, case: Case, name: str) -> dict[str, Any]:
    """Steps of the trainings, and the time to explain a row."""
    learned_values(explainer, case.test)  # a first call takes longer
    _, seconds = timed(partial(learned_values, explainer, case.test))
    steps = {part: history.steps for part, history in explainer.histories_.items()}
    return {f"steps, {name}": steps, f"seconds, {name}": seconds / len(case.test)}


def compare(estimates: Values, truth: Values) -> dict[str, dict[str, float]]:
    """Agreement by weighting, and the share of rows whose player of largest absolute value is the same."""
    found = {}
    for weights, estimate, reference in zip(WEIGHTS, estimates, truth, strict=True):
        first = [values.abs().argmax(1) for values in (estimate, reference)]
        same = {"top_1": float((first[0] == first[1]).double().mean())}
        found[str(weights)] = asdict(measure_agreement(estimate, reference)) | same
    return found


def draw(results: Mapping[str, Any]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Draw correlation and relative error by weighting, a column of panels per number of columns."""
    short, long = map(name_of_budget, results["setting"]["budgets"])
    lines = {
        long: ("same game, " + long, "-"),
        short: ("same game, " + short, "-"),
        f"sampled, {CALLS[0]} x": ("same game, few samples", "-"),
        "mean explanation": ("same game, mean explanation", "-"),
        "default": ("default, learned", "--"),
        "default's game": ("default's game, sampled", "--"),
    }
    names = sorted(map(str, WEIGHTS), key=emphasis)
    figure = new_figure(width=9, height=6)
    counts = [name for name in results if name != "setting"]
    panels = figure.subplots(2, len(counts), squeeze=False, sharex=True)
    for column, count in enumerate(counts):
        agreement = results[count]["agreement"]
        for row, (metric, label) in enumerate(
            (("pearson", "Pearson correlation"), ("nrmse", "relative error (nRMSE)"))
        ):
            axes = panels[row, column]
            for (method, (title, style)), color in zip(lines.items(), COLORS, strict=False):
                means, spreads = zip(*(agreement[method][name][metric] for name in names), strict=True)
                axes.errorbar(names, means, spreads, fmt="o" + style, color=color, label=title, capsize=2, markersize=4)
            axes.set_ylim(0, 1.05 if metric == "pearson" else 1.5)
            axes.set_ylabel(label if not column else "")
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(visible=True, alpha=0.25)
        panels[0, column].set_title(f"{count} columns", fontsize="medium")
    panels[0, 0].legend(frameon=False, fontsize="small")
    return figure
