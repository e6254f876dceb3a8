"""Explaining 1,000 inputs: a learned explainer beside the methods of shap and captum, on the same games.

Two models: scikit-learn's gradient boosting on breast cancer (30 columns), as a black box; and a small convolutional
network on digits (16 players of 2 x 2 pixels). Every method that samples coalitions calls the same surrogate, so that
all estimate the same Shapley values. Each is compared with a long least-squares reference: two halves, whose agreement
gives the ceiling. Gradient methods use the network itself. Times are for the predicted class only, where a method
supports it; ours always explains all classes. Slow methods explain a few inputs, and we extrapolate to 1,000.

A sanity check follows: gradient boosting is trained on shuffled labels and judged by the labels of held-out inputs,
which it cannot know. No order of its features can have skill, and the report must say so.

    python benchmarks/run.py shap_and_captum        # about a quarter of an hour on two cores, which must be free
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import shap
import torch
from jaxtyping import Float
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split
from torch import Tensor

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.options import ExperimentParser
from benchmarks.harness.record import record
from fwshapley.explanation.learned.reliability import STEPS, draw_curves, measure_skill
from fwshapley.explanation.metrics import measure_agreement
from fwshapley.explanation.report import write_report
from fwshapley.explanation.semivalue_selection import surrogate_evaluator
from fwshapley.plots import COLORS, new_figure

sys.path.append(str(Path(__file__).parents[2] / "examples"))  # scripts of another folder, not a package
import bundled

SEEDS = (0, 1, 2)
MANY = 1000
INPUTS = 32
EPOCHS = 30
REFERENCE_CALLS = 16_384
SECONDS = 60
REFINED_CALLS = 256
SANITY_CALLS = 256


@dataclass(frozen=True)
class Case:
    """A fitted explainer, and held-out inputs to compare methods on.

    Attributes:
        explainer: ours.
        x: inputs that it was not trained on, as the model takes them.
        y: their true classes.
        gradients: whether the model has any.
    """

    explainer: fw.FeatureExplainer
    x: Any
    y: Tensor
    gradients: bool


def main(arguments: argparse.Namespace) -> None:
    """Fit, compare, print, draw, record."""
    started = time.perf_counter()
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in CASES}
    sanity: dict[str, list[dict[str, Any]]] = {"true labels": [], "shuffled labels": []}
    for seed in arguments.seeds:
        for name, make in CASES.items():
            case = make(seed, arguments)
            found = compare(case, seed, arguments)
            runs[name].append(found)
            print(name, seed, *(f"\n  {method}: {row}" for method, row in found.items()), flush=True)
        for name, cases in sanity.items():
            cases.append(check_sanity(breast_cancer(seed, arguments, shuffled=name == "shuffled labels"), arguments))
            print(name, cases[-1], flush=True)
    tables = {name: summarize(found) for name, found in runs.items()}
    results = {"tables": tables, "sanity": sanity, "inputs": arguments.inputs, "calls": 2 * arguments.calls}
    results |= {"seconds": SECONDS, "many": MANY}
    packages = ["shap", "captum", "scikit-learn"]
    record("shap_and_captum", results, out=arguments.out, seeds=arguments.seeds, started=started, packages=packages)
    save_figure(partial(draw, tables), "shap_and_captum", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments."""
    parser = ExperimentParser(
        __doc__,
        smoke="untrained networks",
        seeds=SEEDS,
        seeds_of="data, models and methods",
    )
    arguments = parser.parse(options)
    arguments.inputs, arguments.calls, arguments.few = (INPUTS, REFERENCE_CALLS, 8)
    arguments.timed, arguments.judged, arguments.epochs = MANY, None, EPOCHS
    arguments.budget = fw.Budget(seconds=SECONDS)
    if arguments.smoke:
        arguments.inputs, arguments.calls, arguments.few = 3, 256, 1
        arguments.timed, arguments.judged, arguments.epochs = 20, 12, 1
        arguments.budget = fw.Budget(steps=4)
    return arguments


def breast_cancer(seed: int, arguments: argparse.Namespace, *, shuffled: bool = False) -> Case:
    """Gradient boosting on a table, as a black box; its labels may be shuffled first."""
    x, y = load_breast_cancer(return_X_y=True, as_frame=True)
    y = y.sample(frac=1, random_state=seed, ignore_index=True) if shuffled else y
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.3, random_state=seed)
    model = HistGradientBoostingClassifier(max_iter=100, random_state=seed).fit(x_train, y_train)
    explainer = fw.FeatureExplainer(model, seed=seed).fit(x_train, budget=arguments.budget, progress=False)
    return Case(explainer, x_test, torch.tensor(y_test.to_numpy()), gradients=False)


def digits(seed: int, arguments: argparse.Namespace) -> Case:
    """Return a small convolutional network on images."""
    task = bundled.digits(seed, arguments.epochs)
    explainer = fw.FeatureExplainer(task.model, task.players, output_names=task.output_names, seed=seed)
    explainer.fit(task.x_train, budget=arguments.budget, learning_rate=6e-3, progress=False)
    images, classes = bundled.digit_images()
    torch.manual_seed(seed)
    y = classes[torch.randperm(len(images))][: len(task.x_test)]
    return Case(explainer, task.x_test, y, gradients=True)


CASES: Mapping[str, Callable[[int, argparse.Namespace], Case]] = {
    "breast cancer, gradient boosting": breast_cancer,
    "digits, convolutional network": digits,
}


def compare(case: Case, seed: int, arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Agreement with the reference, and time for a thousand inputs, of every method."""
    explainer, x = case.explainer, case.x[: arguments.inputs]
    labels = explainer.explain(x, outputs="predicted").outputs
    halves = [
        fw.baseline("least_squares", explainer, n_calls=arguments.calls, seed=each)
        .explain(x, outputs=labels, progress=False)
        .values[..., 0]
        for each in (1000 + seed, 2000 + seed)
    ]
    reference = (halves[0] + halves[1]) / 2
    between = measure_agreement(*halves).pearson
    found: dict[str, dict[str, Any]] = {"ceiling": {"pearson": math.sqrt(max(2 * between / (1 + between), 0))}}
    for name, (explain, quick) in methods(case, seed).items():
        count = len(x) if quick else min(arguments.few, len(x))
        values = explain(x[:count], labels[:count])
        agreed = measure_agreement(values, reference[:count])
        many = repeat(case.x, arguments.timed) if quick else x[:count]
        numbers = (
            repeat(explainer.explain(case.x, outputs="predicted").outputs, arguments.timed) if quick else labels[:count]
        )
        began = time.perf_counter()
        explain(many, numbers)
        each = (time.perf_counter() - began) / len(many)
        row = {"pearson": agreed.pearson, "nrmse": agreed.nrmse, "seconds": MANY * each, "measured": len(many)}
        found[name] = row
    return found


Explain = Callable[[Any, Tensor], Float[Tensor, "inputs players"]]


def methods(case: Case, seed: int) -> dict[str, tuple[Explain, bool]]:
    """Every method, and whether it is fast enough to explain a thousand inputs."""
    explainer = case.explainer
    found: dict[str, tuple[Explain, bool]] = {
        "learned": (lambda x, labels: explainer.explain(x, outputs=labels).values[..., 0], True),
        f"learned, refined by {REFINED_CALLS} calls": (
            lambda x, labels: explainer.refine(x, n_calls=REFINED_CALLS, outputs=labels, progress=False).values[..., 0],
            False,
        ),
        "shap KernelExplainer": (lambda x, labels: by_shap(kernel_shap, explainer, x, labels, seed), False),
        "shap PermutationExplainer": (lambda x, labels: by_shap(permutation_shap, explainer, x, labels, seed), False),
        "captum KernelShap": (by_baseline(explainer, "kernel_shap", seed=seed), False),
        "captum ShapleyValueSampling": (by_baseline(explainer, "shapley_sampling", seed=seed), False),
        "our least squares": (by_baseline(explainer, "least_squares", seed=seed), False),
        "random": (by_baseline(explainer, "random", seed=seed), True),
        "class mean": (by_baseline(explainer, "class_mean", examples=case.x), True),
    }
    if case.gradients:
        found |= {
            "captum IntegratedGradients": (by_baseline(explainer, "integrated_gradients", start=0), True),
            "captum Saliency": (by_baseline(explainer, "saliency"), True),
            "captum GradCAM": (by_baseline(explainer, "gradcam"), True),
        }
    return found


def by_baseline(explainer: fw.FeatureExplainer, name: str, **options: Any) -> Explain:  # noqa: ANN401 - a row's own
    """Return a method of the registry."""
    method = fw.baseline(name, explainer, **options)
    return lambda x, labels: method.explain(x, outputs=labels, progress=False).values[..., 0]


def by_shap(
    ask: Callable[..., np.ndarray],
    explainer: fw.FeatureExplainer,
    x: Any,  # noqa: ANN401 - a DataFrame or a tensor
    labels: Tensor,
    seed: int,
) -> Float[Tensor, "inputs players"]:
    """Shap's explainers on the surrogate's game: a feature is whether a player is visible."""
    found = []
    for row, label in zip(range(len(x)), labels[:, 0].tolist(), strict=True):
        game = explainer.game(x[row : row + 1])

        def worth(shown: np.ndarray, game: Any = game, label: int = label) -> np.ndarray:  # noqa: ANN401
            return game(torch.as_tensor(shown) > 1 / 2)[:, label].double().numpy()

        found.append(torch.as_tensor(ask(worth, game.n_players, seed), dtype=torch.float32))
    return torch.stack(found)


def kernel_shap(worth: Callable[[np.ndarray], np.ndarray], n: int, seed: int) -> np.ndarray:
    """KernelExplainer with its default number of samples."""
    np.random.seed(seed)  # noqa: NPY002 - shap has no other way
    return shap.KernelExplainer(worth, np.zeros((1, n))).shap_values(np.ones((1, n)), silent=True)[0]


def permutation_shap(worth: Callable[[np.ndarray], np.ndarray], n: int, seed: int) -> np.ndarray:
    """PermutationExplainer with its default number of permutations."""
    explain = shap.PermutationExplainer(worth, np.zeros((1, n)), seed=seed)
    return explain(np.ones((1, n)), silent=True).values[0]


def repeat(x: Any, count: int) -> Any:  # noqa: ANN401 - a DataFrame or a tensor
    """Repeat inputs until there are that many."""
    times = -(-count // len(x))
    if isinstance(x, pd.DataFrame):
        return pd.concat([x] * times, ignore_index=True)[:count]
    return torch.cat([x] * times)[:count]


def check_sanity(case: Case, arguments: argparse.Namespace) -> dict[str, Any]:
    """Skill of the learned order by the labels of held-out inputs, and whether the report warns."""
    explainer, x, y = case.explainer, case.x[: arguments.judged], case.y[: arguments.judged]
    explained = explainer.explain(x, outputs="predicted")
    sampled = fw.baseline("least_squares", explainer, n_calls=SANITY_CALLS)
    orders = {
        "learned": explained.values[..., 0],
        "long sampling": sampled.explain(x, outputs=explained.outputs, progress=False).values[..., 0],
        "random order": torch.rand(len(x), explainer.players_.n_players, generator=torch.Generator().manual_seed(0)),
    }
    judged = draw_curves(surrogate_evaluator(explainer.masked_model_), explained.inputs, y, orders)
    areas = {name: float(torch.trapezoid(each.included.mean(0), dx=1 / STEPS)) for name, each in judged.items()}
    skill = measure_skill(judged["learned"], judged["random order"], judged["long sampling"])
    path = arguments.out / "sanity.html"
    page = write_report(explainer, x, path, labels=y, n_calls=SANITY_CALLS, weights=[fw.Shapley()], progress=False)
    text = page.read_text(encoding="utf-8")
    path.unlink()
    return {
        "areas": areas,
        "skill": None if math.isnan(skill.value) else skill.value,
        "report warns": "no explanation of them has skill" in text or "Do not rely on it" in text,
    }


def summarize(runs: list[dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Mean and standard deviation over seeds of each figure."""
    return {
        method: {
            key: {
                "mean": statistics.mean(run[method][key] for run in runs),
                "deviation": statistics.stdev([run[method][key] for run in runs]) if len(runs) > 1 else 0.0,
            }
            for key in row
        }
        for method, row in runs[0].items()
    }


def draw(tables: Mapping[str, Mapping[str, Any]]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Correlation with the reference against the time to explain a thousand inputs."""
    figure = new_figure(width=11, height=4)
    for axes, (case, rows) in zip(figure.subplots(1, len(tables)), tables.items(), strict=True):
        timed = [(name, row) for name, row in rows.items() if "seconds" in row]
        styles = [(color, marker) for marker in "o^" for color in COLORS]
        for (name, row), (color, marker) in zip(timed, styles, strict=False):
            axes.plot(row["seconds"]["mean"], row["pearson"]["mean"], marker, color=color, label=name)
        axes.axhline(rows["ceiling"]["pearson"]["mean"], color="gray", linestyle="--", linewidth=0.8)
        axes.set_xscale("log")
        axes.set_title(case, fontsize="medium")
        axes.set_xlabel("seconds to explain 1000 inputs")
        axes.set_ylabel("correlation with the reference")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(visible=True, alpha=0.25)
    figure.axes[-1].legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    return figure
