"""Learned values against exact enumeration: digits (16 players) and a generated table (12 players).

One network for every weighting trains for two minutes on two cores, surrogate included. It is compared with the exact
values of the same game on 32 inputs that it has not seen. Beside it: the mean explanation of each class; a network for
one weighting (kernel objective, exact kernel) trained for as long as the other explainer; and least squares with the
game calls that take as long as one explanation. The games are of probabilities and of log odds.

A second figure compares the loss of explainers during training with their measured error: Prop. 2.2 as an identity.

    python benchmarks/run.py learned_vs_exact             # 35 minutes on two cores, which must be free
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.options import ExperimentParser
from benchmarks.harness.record import record
from benchmarks.harness.statistics import summarize
from fwshapley.coalitions import draw_bernoulli
from fwshapley.explanation.metrics import measure_agreement
from fwshapley.games.masked_model import MaskedModel
from fwshapley.games.scales import Output
from fwshapley.objectives import Kernel, Multilinear, multilinear_loss, shift_to_total
from fwshapley.plots import COLORS, new_figure
from fwshapley.training.batches import Shard

sys.path.append(str(Path(__file__).parents[2] / "examples"))  # scripts of another folder, not a package
import bundled

WEIGHTS = (fw.Shapley(), *fw.semivalues.FEASIBLE_SET)
GAMES: Sequence[tuple[str, Output]] = (("digits", "probability"), ("digits", "logit"), ("generated", "probability"))
FIXED = (fw.Shapley(), fw.Beta(16, 1))
"""Weightings that networks of their own are trained for, on the first game."""
SEEDS = (0, 1, 2)
INPUTS = 32
EPOCHS = 30
SECONDS = 120
SURROGATE_SHARE = 0.3
PLACES = (0.1, 0.5, 0.9)
SNAPSHOTS = (30, 100, 300, 1000, 3000)
SHARED_MASKS = 512
RATE = 6e-3


def main(arguments: argparse.Namespace) -> None:
    """Train, compare, print, draw, record."""
    started = time.perf_counter()
    results: dict[str, Any] = {}
    for task, output in GAMES:
        runs = [agreement_once(task, output, seed, arguments) for seed in arguments.seeds]
        results[f"{task}, {output}"] = {
            "facts": [run["facts"] for run in runs],
            "agreement": summarize([run["agreement"] for run in runs]),
        }
        print(f"{task}, {output}", flush=True)
        for method, rows in results[f"{task}, {output}"]["agreement"].items():
            found = {name: f"{row['pearson'][0]:.3f} {row['nrmse'][0]:.2f}" for name, row in rows.items()}
            print(f"  {method}: {found}", flush=True)
    results["identity"] = identity(arguments)
    record(
        "learned_vs_exact",
        results,
        out=arguments.out,
        seeds=arguments.seeds,
        started=started,
        packages=["scikit-learn"],
    )
    save_figure(partial(draw_agreement, results), "learned_vs_exact", arguments)
    save_figure(partial(draw_identity, results["identity"]), "learned_vs_exact_identity", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments; a smoke run trains for a few steps."""
    parser = ExperimentParser(
        __doc__, smoke="four steps of training", seeds=SEEDS, seeds_of="data, models and explainers"
    )
    arguments = parser.parse(options)
    arguments.inputs = 1 if arguments.smoke else INPUTS
    arguments.epochs = 1 if arguments.smoke else EPOCHS
    return arguments


def agreement_once(task: str, output: Output, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train on one seed and compare with enumeration, for the output that is most likely."""
    data = bundled.generated(seed) if task == "generated" else bundled.digits(seed, arguments.epochs)
    budget = fw.Budget(steps=4) if arguments.smoke else fw.Budget(seconds=SECONDS)
    explainer = fw.FeatureExplainer(data.model, data.players, output=output, seed=seed)
    explainer.fit(data.x_train, budget=budget, learning_rate=RATE, progress=False)
    x = data.x_test[: arguments.inputs]
    exact = torch.stack([fw.exact_values(explainer.game(each), WEIGHTS) for each in x], 1)
    attribution = explainer.explain(x, weights=WEIGHTS, outputs="predicted")
    predicted = attribution.outputs
    truth = pick(exact, predicted)
    estimates = {"every weighting": attribution.values[..., 0].double()}
    estimates["class mean"] = class_means(explainer, data.x_train, predicted)
    estimates["sampled in equal time"], calls = sampled(explainer, x, predicted)
    found = {method: compare(values, truth, WEIGHTS) for method, values in estimates.items()}
    for weights in FIXED if (task, output) == GAMES[0] else ():
        fixed = fw.FeatureExplainer(
            data.model,
            data.players,
            surrogate=explainer.surrogate_,
            objective="kernel",
            weights=weights,
            output=output,
            seed=seed,
        ).fit(data.x_train, budget=budget.part(1 - SURROGATE_SHARE), learning_rate=RATE, progress=False)
        values = fixed.explain(x, outputs=predicted).values[None, ..., 0].double()
        only = compare(values, truth[WEIGHTS.index(weights)][None], [weights])
        found["one weighting"] = found.get("one weighting", {}) | only
    if explainer.fidelity_ is None:
        raise RuntimeError("the surrogate was trained here, so its fidelity is known")
    facts = {
        "skill of the model": data.skill,
        "fidelity": asdict(explainer.fidelity_),
        "steps": {name: history.steps for name, history in explainer.histories_.items()},
        "seconds": {name: history.seconds for name, history in explainer.histories_.items()},
        "rows": len(data.x_train),
        "game calls of the sampled": calls,
    }
    return {"agreement": found, "facts": facts}


def pick(
    values: Float[Tensor, "weights inputs players outputs"], predicted: Int[Tensor, "inputs 1"]
) -> Float[Tensor, "weights inputs players"]:
    """Values of each input's predicted output."""
    return values.gather(-1, predicted[None, :, None].expand(*values.shape[:3], 1))[..., 0]


def class_means(
    explainer: fw.FeatureExplainer, x: Tensor, predicted: Int[Tensor, "inputs 1"]
) -> Float[Tensor, "weights inputs players"]:
    """Return the mean explanation of the training inputs of each input's class: one map per class."""
    every = explainer.explain(x, weights=WEIGHTS, outputs="predicted")
    classes = every.outputs[:, 0]
    return torch.stack([every.values[:, classes == each, :, 0].mean(1) for each in predicted[:, 0]], 1).double()


def sampled(
    explainer: fw.FeatureExplainer, x: Tensor, predicted: Int[Tensor, "inputs 1"]
) -> tuple[Float[Tensor, "weights inputs players"], int]:
    """Least-squares estimates with the calls that take as long as an explanation, or the fewest allowed."""
    game = explainer.game(x[0])
    coalitions = torch.rand(512, game.n_players) < 1 / 2
    explaining = seconds(lambda: explainer.explain(x, weights=WEIGHTS)) / len(x)
    calls = max(2 * game.n_players + 10, round(explaining / (seconds(lambda: game(coalitions)) / len(coalitions))))
    values = [
        torch.stack(
            [fw.least_squares_values(explainer.game(each), w, n_calls=calls, progress=False).values for each in x]
        )
        for w in WEIGHTS
    ]
    return pick(torch.stack(values), predicted), calls


def seconds(call: Callable[[], object]) -> float:
    """Return the time of a call, the second one."""
    call()
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def compare(estimate: Tensor, truth: Tensor, weights: Sequence[fw.Semivalue]) -> dict[str, dict[str, float]]:
    """Agreement by weighting."""
    return {str(each): asdict(measure_agreement(e, t)) for each, e, t in zip(weights, estimate, truth, strict=True)}


def identity(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Excess loss and error of explainers during training, on held-out inputs.

    The loss of a prediction minus that of the exact values, on shared coalitions, in units of the error.
    """
    seed = arguments.seeds[0]
    data = bundled.digits(seed, arguments.epochs)
    steps = (2,) if arguments.smoke else SNAPSHOTS
    explainer = fw.FeatureExplainer(data.model, data.players, seed=seed)
    explainer.fit(data.x_train, budget=fw.Budget(steps=10 if arguments.smoke else 3000), progress=False)
    x = data.x_test[: arguments.inputs]
    places = [fw.Banzhaf(t) for t in PLACES]
    exact = torch.stack([fw.exact_values(explainer.game(each), [fw.Shapley(), *places]) for each in x], 1)
    points = []
    for count in steps:
        for objective in (Kernel(fw.Shapley()), Multilinear()):
            trained = fw.FeatureExplainer(
                data.model, data.players, surrogate=explainer.surrogate_, objective=objective, seed=seed
            ).fit(data.x_train, budget=fw.Budget(steps=count), learning_rate=RATE, progress=False)
            masked = MaskedModel(trained.surrogate_, "probability", 16, x.device)
            points += excess_and_error(trained, masked, x, exact, count)
    return points


def excess_and_error(
    trained: fw.FeatureExplainer, masked: MaskedModel, x: Tensor, exact: Tensor, steps: int
) -> list[dict[str, Any]]:
    """Points of the figure of the identity, one for each weighting of the explainer."""
    generator = torch.Generator().manual_seed(1)
    if isinstance(trained.objective, Kernel):
        plain = Kernel(fw.Shapley(), constraint="none")
        sample = plain.sample(masked, x, SHARED_MASKS, generator, Shard())
        predicted = trained.explain(x).values
        truth = shift_to_total(exact[0].float(), predicted.sum(1))
        losses = [plain.loss(psi, sample) for psi in (predicted, truth)]
        per_loss = fw.Shapley().error_per_loss(16)
        return [point("kernel, Shapley", steps, losses, predicted - truth, per_loss)]
    points = []
    for t, truth in zip(PLACES, exact[1:].float(), strict=True):
        predicted = trained.explain(x, weights=fw.Banzhaf(t)).values
        losses = [at_one_t(psi, masked, x, t) for psi in (predicted, truth)]
        points.append(point(f"multilinear, t = {t}", steps, losses, predicted - truth, 1.0))
    return points


def at_one_t(psi: Tensor, masked: MaskedModel, x: Tensor, t: float) -> Tensor:
    """Multilinear loss of values on shared coalitions."""
    generator = torch.Generator().manual_seed(1)
    coalitions = draw_bernoulli([t] * len(x) * SHARED_MASKS, 16, generator).unflatten(0, (len(x), -1))
    each = torch.full((len(x),), t)
    return multilinear_loss(psi, masked(x, coalitions), coalitions, each)


def point(name: str, steps: int, losses: Sequence[Tensor], error: Tensor, per_loss: float) -> dict[str, Any]:
    """Mean over inputs, with the standard error of the excess."""
    excess = per_loss * (losses[0] - losses[1]).double()
    squared = error.double().square().sum((1, 2))
    return {
        "objective": name,
        "steps": steps,
        "excess": float(excess.mean()),
        "error": float(squared.mean()),
        "stderr": float((excess - squared).std() / len(excess) ** 0.5) if len(excess) > 1 else 0.0,
    }


def draw_agreement(results: dict[str, Any]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Draw correlation and relative error by weighting, a panel per game."""
    games = [name for name in results if name != "identity"]
    figure = new_figure(width=4 * len(games), height=5.4)
    panels = figure.subplots(2, len(games), squeeze=False, sharex=True)
    for column, game in enumerate(games):
        for row, (metric, label) in enumerate(
            (("pearson", "Pearson correlation"), ("nrmse", "relative error (nRMSE)"))
        ):
            axes = panels[row, column]
            for (method, found), color in zip(results[game]["agreement"].items(), COLORS, strict=False):
                names = sorted(found, key=emphasis)
                places = [sorted(map(str, WEIGHTS), key=emphasis).index(name) for name in names]
                means = [found[name][metric][0] for name in names]
                spreads = [found[name][metric][1] for name in names]
                line = "o" if len(names) < len(WEIGHTS) else "o-"
                axes.errorbar(places, means, spreads, fmt=line, color=color, label=method, capsize=2, markersize=4)
            axes.set_ylim(0, 1.05)
            axes.set_ylabel(label if not column else "")
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(visible=True, alpha=0.25)
        panels[0, column].set_title(game, fontsize="medium")
        ticks = [name.replace("Beta", "") for name in sorted(map(str, WEIGHTS), key=emphasis)]
        panels[1, column].set_xticks(range(len(WEIGHTS)), ticks, rotation=60, fontsize="small")
    panels[0, 0].legend(frameon=False, fontsize="small")
    return figure


def draw_identity(points: Sequence[dict[str, Any]]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Draw excess loss against error: the identity says that they are equal."""
    figure = new_figure(width=4.6, height=4.2)
    axes = figure.subplots()
    names = list(dict.fromkeys(each["objective"] for each in points))
    for name, color in zip(names, COLORS, strict=False):
        mine = [each for each in points if each["objective"] == name]
        errors, excesses = [each["error"] for each in mine], [each["excess"] for each in mine]
        bars = [2 * each["stderr"] for each in mine]
        axes.errorbar(errors, excesses, bars, fmt="o", color=color, label=name, capsize=2, markersize=4)
    ends = [min(each["error"] for each in points) / 1.5, max(each["error"] for each in points) * 1.5]
    axes.plot(ends, ends, color="gray", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("squared error, by enumeration")
    axes.set_ylabel("excess loss, in its units")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small")
    return figure


def emphasis(name: str) -> float:
    """Place of a weighting between small coalitions and large ones."""
    weights = next(each for each in WEIGHTS if str(each) == name)
    return math.log(weights.beta / weights.alpha)
