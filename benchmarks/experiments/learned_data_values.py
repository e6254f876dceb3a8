"""Learned data values against exact ones, on points seen and unseen; and values of models that are retrained.

A tenth of the labels become y + 1. Networks learn the values of points for a K-nearest-neighbor classifier, K = 5, with
clean reference points. They are compared with the exact values of the *same* utility and weighting:

- "regression": learns from the exact values of the training points under every label, at every t;
- "multilinear": least squares on coalitions of all points, at every t;
- "published": the FW-Shapley paper's form, least squares on batches of 256 points that play alone. It is also compared
  with what that estimates, the semivalue whose size law is that of 256 players ("batch law").

Unseen points, a tenth of them mislabeled too, are compared with exact values in N + {point}. Beside the networks stands
the stored index, with all references and with as few as take no longer than the network.

An earlier study, of values learned from few fits of a model, is kept in the record: its method ranked points no better
than the simpler models that it started from, so its code was removed. This script copies those results.

    python benchmarks/run.py learned_data_values --data fashion_mnist.npz --device cuda
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from torch import Tensor

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.measuring import timed
from benchmarks.harness.options import ExperimentParser, read_data
from benchmarks.harness.parallel import map_parallel
from benchmarks.harness.pieces import commands, keep_piece, origins, read_piece
from benchmarks.harness.record import record, recorded
from benchmarks.harness.statistics import summarize
from fwshapley.plots import COLORS, new_figure
from fwshapley.valuation import ValuationFidelity, flip_labels, measure_detection
from fwshapley.valuation.learned.paper_network import batch_law
from fwshapley.valuation.learned.valuator import Method, NetworkUtility

SEEDS = (0, 1, 2)
K, SHARE, BATCH = 5, 0.1, 256
WEIGHTS = (fw.Shapley(), fw.Beta(16, 1), fw.Beta(1, 4))
METHODS: tuple[tuple[Method, NetworkUtility], ...] = (
    ("regression", "soft"), ("multilinear", "soft"), ("regression", "vote"), ("published", "vote"),
)  # fmt: skip
TITLES = dict(zip(METHODS, ("ours, soft", "from all coalitions, soft", "ours, vote", "the paper's, vote"), strict=True))
"""Names of networks in the figure."""

SECONDS = (3, 9, 27)
SIZES = {"breast cancer": (300, 130), "digits": (1000, 400), "Fashion-MNIST": (10_000, 1_000)}
NEED_IMAGES = ("Fashion-MNIST", "large")
QUERIES = 1_000
LARGE, LARGE_QUERIES = (50_000, 2_000), 8_000
MANY_QUERIES = 1_000_000

Labeled = tuple[NDArray[np.float64], NDArray[np.int64]]
"""Points and their labels."""


class Truth(NamedTuple):
    """Exact values under all weightings and the batch law, of points seen; and under all weightings, of others."""

    seen: Tensor
    unseen: Tensor


class Points(NamedTuple):
    """Training points, clean reference points and unseen ones, with labels of which some were flipped."""

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    wrong: NDArray[np.bool_]
    reference: Labeled
    x_new: NDArray[np.float64]
    y_new: NDArray[np.int64]
    wrong_new: NDArray[np.bool_]


def main(arguments: argparse.Namespace) -> None:
    """Learn, compare, print, draw, record."""
    if arguments.draw:
        save_figure(partial(draw, recorded("learned_data_values", arguments.out)), "learned_data_values", arguments)
        return
    jobs = [
        (part, seed) for part in arguments.parts for seed in (arguments.seeds if part in SIZES else arguments.seeds[:1])
    ]
    alone = [job for job in jobs if job[0] not in SIZES]  # these use all cores, or time what they do
    map_parallel(partial(run, arguments), [job for job in jobs if job[0] in SIZES], arguments.workers)
    for job in alone:
        run(arguments, job)
    results = gather(arguments)
    started = time.perf_counter() - results["seconds"]
    record(
        "learned_data_values", results, out=arguments.out, seeds=arguments.seeds, started=started,
        packages=["scikit-learn"], device=arguments.device,
    )  # fmt: skip
    save_figure(partial(draw, results), "learned_data_values", arguments)


def run(arguments: argparse.Namespace, job: tuple[str, int]) -> None:
    """Run one part for one seed and keep its results in a file, unless that exists already."""
    part, seed = job
    path = arguments.work / f"{part}, {seed}.json"
    if path.exists():
        return
    if arguments.workers > 1 and part in SIZES and arguments.device == "cpu":
        torch.set_num_threads(1)
    print("begun:", part, seed, flush=True)
    measure = partial(compare, part) if part in SIZES else ONCE[part]
    found, seconds = timed(partial(measure, seed, arguments))
    keep_piece(path, {"found": found, "seconds": seconds}, arguments.device)
    print("done:", part, seed, f"{seconds:.0f} s", flush=True)


def gather(arguments: argparse.Namespace) -> dict[str, Any]:
    """Join the results of all finished parts."""
    kept = {
        (part, seed): piece
        for part, seed in itertools.product((*SIZES, *ONCE), arguments.seeds)
        if (piece := read_piece(arguments.work / f"{part}, {seed}.json")) is not None
    }
    earlier = recorded("learned_data_values", arguments.out)
    results: dict[str, Any] = {name: earlier[name] for name in EARLIER if name in earlier}
    results |= {"tasks": {}, "settings": {"k": K, "batch": BATCH, "queries": QUERIES}, "sizes": SIZES}
    for part in dict.fromkeys(part for part, _ in kept):
        runs = [each["found"] for (name, _), each in kept.items() if name == part]
        if part in ONCE:
            results[part] = runs[0]
        else:
            results["tasks"][part] = summarize(runs)
    results["commands"] = commands(kept.values())
    results["machines"] = origins((part, each) for (part, _), each in kept.items())
    results["seconds"] = sum(each["seconds"] for each in kept.values())
    results["runs"] = {part: sum(name == part for name, _ in kept) for part in results["machines"]}
    return results


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments."""
    parser = ExperimentParser(
        __doc__,
        smoke="a small table and untrained networks",
        seeds=SEEDS,
        seeds_of="points, flips and networks",
    )
    parser.add_data("Fashion-MNIST: a folder or an npz file; without it, this data set is skipped")
    parser.add_device(default="cpu")
    parser.add_argument(
        "--workers", type=int, default=1, help="networks that learn in parallel; on a CPU, one core each"
    )
    parser.add_argument(
        "--work", type=Path, default=Path("build/learned_data_values"), help="folder that keeps finished parts"
    )
    parser.add_choices("--parts", [*SIZES, *ONCE], "parts to run (all finished parts are joined)", nargs="+")
    parser.add_draw()
    arguments = parser.parse(options)
    of_images = [part for part in arguments.parts or [] if part in NEED_IMAGES]
    if of_images and not arguments.draw:
        parser.need_data(arguments, f"the parts {', '.join(of_images)}")
    arguments.parts = arguments.parts or [
        part
        for part in (*SIZES, *ONCE)
        if (arguments.data or part not in NEED_IMAGES) and (arguments.device != "cpu" or part != "throughput")
    ]
    arguments.budgets = {f"{seconds} s": fw.Budget(seconds=seconds) for seconds in SECONDS}
    arguments.sizes = None
    if arguments.smoke:
        arguments.parts = ["breast cancer"]
        arguments.work = arguments.out / "parts"
        arguments.budgets = {"2 steps": fw.Budget(steps=2)}
        arguments.sizes = (60, 40)
    return arguments


def load(
    name: str, seed: int, data: Path | None, *, sizes: tuple[int, int] | None = None, queries: int = QUERIES
) -> Points:
    """Points of a seed: drawn, and flipped."""
    if name == "Fashion-MNIST":
        assert data is not None  # noqa: S101 - `need_data` has seen to it
        images = read_data("fashion_mnist", data, least=sum(sizes or SIZES[name]) + queries)
        x, y = images.images.flatten(1).double().numpy() / 255, images.labels.numpy()
    else:
        x, y = {"digits": load_digits, "breast cancer": load_breast_cancer}[name](return_X_y=True)
        x = (x - x.mean(0)) / x.std(0) if name == "breast cancer" else x / 16
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(x))
    n, references = sizes or SIZES[name]
    train, reference, unseen = order[:n], order[n : n + references], order[n + references :][:queries]
    flipped, flipped_new = (flip_labels(y[rows], share=SHARE, how="next", seed=generator) for rows in (train, unseen))
    return Points(
        x[train], flipped.labels, flipped.flipped, (x[reference], y[reference]),
        x[unseen], flipped_new.labels, flipped_new.flipped,
    )  # fmt: skip


def compare(name: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Agreement with exact values of every way to learn, by utility, weighting and time."""
    points = load(name, seed, arguments.data, sizes=arguments.sizes)
    found: dict[str, Any] = {}
    for utility in ("soft", "vote"):
        laws = [*WEIGHTS, batch_law(fw.Shapley(), min(BATCH, len(points.x)), len(points.x))]
        valuator = fw.KNNValuator(K, weights=laws, utility=utility, device=arguments.device, progress=False)
        exact, seconds = timed(partial(valuator.fit, points.x, points.y, points.reference))
        indexed = fw.KNNValuator(
            K, weights=list(WEIGHTS), utility=utility, device=arguments.device, progress=False
        ).fit(points.x, points.y, points.reference)
        unseen = indexed.value(points.x_new, points.y_new).values
        _, query = timed(partial(indexed.value, points.x_new, points.y_new))
        found[f"exact, {utility}"] = {
            "seconds": seconds,
            "seconds unseen": query,
            **{
                f"auroc {each}": auroc(values, points.wrong)
                for each, values in zip(WEIGHTS, exact.values_, strict=False)
            },
        }
        for method, taught in METHODS:
            if taught == utility:
                found[f"{method}, {utility}"] = {
                    each: judge(points, Truth(exact.values_, unseen), learner(method, utility, budget, seed, arguments))
                    for each, budget in arguments.budgets.items()
                }
        longest = found[f"regression, {utility}"][list(arguments.budgets)[-1]]
        found[f"index in the time of the network, {utility}"] = short_index(
            points, unseen, valuator, share=longest["seconds unseen"] / query, seed=seed
        )
    return found


def learner(
    method: Method, utility: NetworkUtility, budget: fw.Budget, seed: int, arguments: argparse.Namespace
) -> fw.AmortizedValuator:
    """Return a network that has not learned yet."""
    weights = WEIGHTS[0] if method == "published" else list(WEIGHTS)
    return fw.AmortizedValuator(
        weights, utility=utility, k=K, method=method, batch_size=BATCH, budget=budget, seed=seed,
        device=arguments.device, progress=False,
    )  # fmt: skip


def judge(points: Points, truth: Truth, valuator: fw.AmortizedValuator) -> dict[str, Any]:
    """Agreement of one network."""
    _, seconds = timed(lambda: valuator.fit(points.x, points.y, points.reference))
    valuator.value(points.x_new, points.y_new)
    answered, query = timed(lambda: valuator.value(points.x_new, points.y_new))
    seen, new = valuator.values_.reshape(-1, len(points.x)), answered.values.reshape(-1, len(points.x_new))
    row: dict[str, Any] = {"seconds": seconds, "seconds unseen": query, "steps": valuator.history_.steps}
    for each, ours, right, ours_new, right_new in zip(WEIGHTS, seen, truth.seen, new, truth.unseen, strict=False):
        row |= {f"seen {each} {key}": value for key, value in likeness(ours, right).items()}
        row |= {f"unseen {each} {key}": value for key, value in likeness(ours_new, right_new).items()}
        row |= {f"auroc {each}": auroc(ours, points.wrong), f"auroc unseen {each}": auroc(ours_new, points.wrong_new)}
    return row | {f"batch law {key}": value for key, value in likeness(seen[0], truth.seen[-1]).items()}


def short_index(points: Points, unseen: Tensor, like: fw.KNNValuator, *, share: float, seed: int) -> dict[str, Any]:
    """Agreement of an index with as few references as take the time of the network, at least one of each class."""
    x, y = points.reference
    order = np.random.default_rng(seed).permutation(len(y))
    of_each_class = [order[y[order] == each][0] for each in np.unique(y)]
    few = np.unique(np.concatenate([order[: round(len(y) * min(share, 1))], of_each_class]))
    short = fw.KNNValuator(**like.get_params() | {"weights": list(WEIGHTS)})
    short.fit(points.x, points.y, (x[few], y[few])).value(points.x_new, points.y_new)
    found, took = timed(partial(short.value, points.x_new, points.y_new))
    rows = zip(WEIGHTS, found.values, unseen, strict=True)
    spearman = {f"unseen {each} spearman": likeness(ours, truth)["spearman"] for each, ours, truth in rows}
    return {"references": len(few), "seconds unseen": took, **spearman}


def large(seed: int, arguments: argparse.Namespace) -> dict[str, float]:
    """What unseen points of Fashion-MNIST cost, by a network and by an index, for many training points."""
    points = load("Fashion-MNIST", seed, arguments.data, sizes=LARGE, queries=LARGE_QUERIES)
    exact = fw.KNNValuator(K, device=arguments.device, progress=False).fit(points.x, points.y, points.reference)
    unseen, building = timed(partial(exact.value, points.x_new, points.y_new))
    _, by_index = timed(partial(exact.value, points.x_new, points.y_new))
    learned = learner("regression", "soft", list(arguments.budgets.values())[-1], seed, arguments)
    _, learning = timed(partial(learned.fit, points.x, points.y, points.reference))
    found = learned.value(points.x_new, points.y_new, WEIGHTS[0])
    _, by_network = timed(partial(learned.value, points.x_new, points.y_new, WEIGHTS[0]))
    few = max(round(LARGE[1] * by_network / by_index), 10)
    short = fw.KNNValuator(K, device=arguments.device, progress=False)
    short.fit(points.x, points.y, (points.reference[0][:few], points.reference[1][:few]))
    some = short.value(points.x_new, points.y_new)
    _, by_few = timed(partial(short.value, points.x_new, points.y_new))
    return {
        "points": LARGE[0],
        "references": LARGE[1],
        "unseen": LARGE_QUERIES,
        "index made in": building - by_index,
        "index": by_index,
        "network learned in": learning,
        "network": by_network,
        "network spearman": likeness(found.values, unseen.values)["spearman"],
        "few references": few,
        "index of few": by_few,
        "index of few spearman": likeness(some.values, unseen.values)["spearman"],
        "auroc": auroc(unseen.values, points.wrong_new),
        "network auroc": auroc(found.values, points.wrong_new),
        "index of few auroc": auroc(some.values, points.wrong_new),
    }


def throughput(seed: int, arguments: argparse.Namespace) -> dict[str, float]:
    """Points that a network values in a second, of 512 columns, already on the GPU."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(2_000, 512, generator=generator), torch.arange(2_000) % 10
    valuator = fw.AmortizedValuator(budget=fw.Budget(steps=10), device=arguments.device, progress=False)
    valuator.fit(x, y, reference=(x[:1_000] + 0.1, y[:1_000]))
    many = torch.randn(MANY_QUERIES, 512, generator=generator).to(arguments.device)
    labels = torch.arange(MANY_QUERIES) % 10
    valuator.value(many, labels)
    _, seconds = timed(lambda: valuator.value(many, labels))
    return {"points": MANY_QUERIES, "seconds": seconds, "points per second": MANY_QUERIES / seconds}


ONCE: Mapping[str, Callable[[int, argparse.Namespace], dict[str, Any]]] = {"large": large, "throughput": throughput}
"""Parts that have one seed."""

EARLIER = ("study", "players", "reference fits")
"""Results of the earlier study of few fits, which are copied from the record."""


def likeness(values: Tensor, truth: Tensor) -> dict[str, float]:
    """Correlations of values and of ranks."""
    found = ValuationFidelity.between(values, truth)
    return {"spearman": found.spearman, "pearson": found.pearson}


def auroc(values: Tensor, wrong: NDArray[np.bool_]) -> float:
    """AUROC of finding wrong labels by low values."""
    return measure_detection(values, wrong).auroc


def draw(results: Mapping[str, Any]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Draw agreement against training time for each task."""
    tasks = results["tasks"]
    figure = new_figure(width=3.4 * len(tasks), height=3.6)
    panels = figure.subplots(1, len(tasks), squeeze=False)[0]
    for axes, (task, found) in zip(panels, tasks.items(), strict=True):
        for (way, utility), color in zip(METHODS, COLORS, strict=False):
            if f"{way}, {utility}" not in found:
                continue
            runs = list(found[f"{way}, {utility}"].values())
            means, spreads = zip(*(run[f"seen {WEIGHTS[0]} spearman"] for run in runs), strict=True)
            seconds = [run["seconds"][0] for run in runs]
            axes.errorbar(seconds, means, spreads, fmt="o-", color=color, capsize=2, label=TITLES[way, utility])
        axes.set_xscale("log")
        axes.set_xticks([3, 10, 30], ["3", "10", "30"])
        axes.set_xticks([], minor=True)
        axes.set_title(task, fontsize="medium")
        axes.set_xlabel("seconds to learn")
        axes.set_ylabel("Spearman correlation with exact values")
    panels[0].legend(frameon=False, fontsize="small")
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(visible=True, alpha=0.25)
    return figure
