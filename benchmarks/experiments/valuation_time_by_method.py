"""Time to value the training images of SVHN with every method on one machine: the paper's Table 2.

Every method values the same points for the same references: all 73,257 training images for all 26,032 test images. The
paper reports "run-times for entire test set of 26k samples". All methods work on 512 features of a ResNet-18 that is
trained in this run (models/resnet_features.py); a smoke run takes few points around ten class centers. K = 5. Parts:

- "features": of all images, by the ResNet-18. All methods need them; no other row includes their time.
- "exact": nearest-neighbor values.
- "learned": a network as published (vote) and improved (regression, soft utility). Each learns for `--seconds`, then
  values all points. The time to learn includes what is computed before the first step.
- "gradient", "tmc", "beta": G-, TMC- and Beta-Shapley(16, 1) of a logistic regression, on the CPU. They take too long
  to finish. Each runs for about `--seconds` and is extrapolated to one contribution of every image (on average, for
  TMC-Shapley, whose walks are truncated). Useful values take many times that.

    python benchmarks/run.py valuation_time_by_method --data svhn.npz --device cuda
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.formats import duration
from benchmarks.harness.measuring import timed
from benchmarks.harness.options import ExperimentParser
from benchmarks.harness.pieces import commands, keep_piece, origin, read_piece, take_piece
from benchmarks.harness.record import record, recorded
from benchmarks.models.resnet_features import SMOKE_WIDTH, WIDTH, Sizes, Trainer, draw_sample, keep
from fwshapley.games.retraining import RetrainingGame
from fwshapley.plots import COLORS, new_figure
from fwshapley.valuation.learned.valuator import Method
from fwshapley.valuation.retraining.g_shapley import GradientSampler, LinearSoftmax, accuracy
from fwshapley.valuation.retraining.tmc import TRUNCATION_STEPS
from fwshapley.valuation.retraining.valuator import DEFAULT_TOLERANCE

K, CLASSES, COLUMNS = 5, 10, 512
POINTS, REFERENCES = 73_257, 26_032
"""What every method values, and for what: SVHN's training images and its test images, all of them."""

TAUGHT, STEPS, SECONDS = 20_000, 600, 12.0
SMOKE_SHRINKS = 200
ALL_WEIGHTS = (fw.Shapley(), *fw.semivalues.FEASIBLE_SET)
PAPER_MINUTES = {
    "KNN-Shapley": "456",
    "KNN leave-one-out": "145",
    "G-Shapley": "734",
    "TMC-Shapley": "> 800",
    "Beta-Shapley": "> 800",
    "learned, published": "1.3 + 30",
}
"""Of the paper, on a GTX 1080; a learned network's time to learn comes second."""

FEATURES = "features by the ResNet-18"
TITLES = {"learned, published": "learned, the paper's", "learned, improved": "learned, ours"}
"""Names of methods in the figure."""

Row = dict[str, Any]


class Points(NamedTuple):
    """Features and labels of points and references, and the seconds that the features took."""

    x: Float[Tensor, "points features"]
    y: Int[Tensor, " points"]
    x_reference: Float[Tensor, "references features"]
    y_reference: Int[Tensor, " references"]
    seconds: Float[Tensor, ""]

    @property
    def reference(self) -> tuple[Tensor, Tensor]:
        """As valuators take it."""
        return self.x_reference, self.y_reference


def main(arguments: argparse.Namespace) -> None:
    """Time, print, draw, record."""
    if arguments.draw:
        rows = recorded("valuation_time_by_method", arguments.out)["rows"]
        save_figure(partial(draw, rows), "valuation_time_by_method", arguments)
        return
    for part in arguments.parts:
        if take_piece(arguments.work / f"{part}.json", settings_of(arguments)) is None:
            run(part, arguments)
    if arguments.no_join:
        return
    results = join(arguments.work)
    started = time.perf_counter() - results["seconds"]
    record(
        "valuation_time_by_method", results, out=arguments.out, seeds=results["seeds"], started=started,
        packages=["scikit-learn"], device=arguments.device,
    )  # fmt: skip
    save_figure(partial(draw, results["rows"]), "valuation_time_by_method", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments."""
    parser = ExperimentParser(
        __doc__,
        smoke="a two-hundredth of the points, generated",
        seeds=[0],
        seeds_of="images, networks and draws",
        single_seed=True,
    )
    parser.add_data("SVHN: a folder or an npz file")
    parser.add_device(default="cpu")
    parser.add_choices(
        "--parts", PARTS, "parts to run (none: only join finished parts)", nargs="*", default=list(PARTS)
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="time to learn, and to measure what is extrapolated"
    )
    parser.add_argument(
        "--work", type=Path, default=Path("build/valuation_time_by_method"), help="folder that keeps finished parts"
    )
    parser.add_argument("--no-join", action="store_true", help="do not join the parts")
    parser.add_draw()
    arguments = parser.parse(options)
    if arguments.parts and not arguments.draw:
        parser.need_data(arguments)
    arguments.points, arguments.references = POINTS, REFERENCES
    arguments.budget = fw.Budget(seconds=arguments.seconds)
    if arguments.smoke:
        arguments.data, arguments.work, arguments.seconds = None, arguments.out / "valuation_time_by_method", 0.3
        arguments.points, arguments.references = POINTS // SMOKE_SHRINKS, REFERENCES // SMOKE_SHRINKS
        arguments.budget = fw.Budget(steps=2)
    return arguments


def run(part: str, arguments: argparse.Namespace) -> None:
    """Time a part and keep its rows in a file, with where they were measured."""
    points = prepare(arguments)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        rows, seconds = timed(lambda: list(PARTS[part](points, arguments)))
    sizes = {"points": len(points.x), "references": len(points.x_reference)}
    rows = [sizes | {"extrapolated": ""} | row for row in rows]
    source = "made up" if arguments.smoke else f"ResNet-18 on {arguments.data.name}"
    piece = {"rows": rows, "seconds": seconds, "features": source, "settings": settings_of(arguments)}
    keep_piece(arguments.work / f"{part}.json", piece, arguments.device)
    for row in rows:
        print(f"{row['method']}: {row['seconds']:.3g} s{', extrapolated' * bool(row['extrapolated'])}", flush=True)


def settings_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """What parts of one table must have in common."""
    data = None if arguments.data is None else arguments.data.name
    return {"seed": arguments.seeds[0], "seconds": arguments.seconds, "data": data, "device": arguments.device}


def prepare(arguments: argparse.Namespace) -> Points:
    """Make features and labels, or read those that an earlier call left."""
    path = arguments.work / "points.safetensors"
    if not path.exists():
        made, seconds = timed(partial(made_up if arguments.smoke else from_images, arguments))
        keep(made._asdict(), path)
        print(f"points: {seconds:.1f} s", flush=True)
    return Points(**load_file(path))


def from_images(arguments: argparse.Namespace) -> Points:
    """Features of all images, by a network trained on some of those that are valued."""
    (seed,), device = arguments.seeds, torch.device(arguments.device)
    sample = draw_sample("svhn", arguments.data, Sizes(arguments.points, arguments.references, 0), seed, device)
    trainer = Trainer(CLASSES, WIDTH, device)
    taught = torch.arange(TAUGHT)
    trainer.train(sample, taught, sample.y[taught], steps=STEPS, seed=seed)
    n = sample.sizes.players
    trainer.predict(sample.x[:1000])
    outputs, seconds = timed(partial(trainer.predict, sample.x))
    return Points(outputs.features[:n], sample.y[:n], outputs.features[n:], sample.y[n:], torch.tensor(seconds))


def made_up(arguments: argparse.Namespace) -> Points:
    """Return points around ten class centers; features of images are timed on random pixels."""
    (seed,), n = arguments.seeds, arguments.points
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CLASSES, (n + arguments.references,), generator=generator)
    centers = torch.randn(CLASSES, COLUMNS, generator=generator)
    x = centers[y] / 4 + torch.randn(len(y), COLUMNS, generator=generator)
    trainer = Trainer(CLASSES, SMOKE_WIDTH, torch.device(arguments.device))
    pixels = torch.randn(len(y), 3, 32, 32, generator=generator).to(arguments.device)
    _, seconds = timed(partial(trainer.predict, pixels.contiguous(memory_format=torch.channels_last)))
    return Points(x[:n], y[:n], x[n:], y[n:], torch.tensor(seconds))


def features(points: Points, arguments: argparse.Namespace) -> Iterator[Row]:
    """How long the features of all images took."""
    del arguments
    images = len(points.x) + len(points.x_reference)
    yield {"method": FEATURES, "points": images, "references": 0, "seconds": float(points.seconds)}


def exact(points: Points, arguments: argparse.Namespace) -> Iterator[Row]:
    """Nearest-neighbor values."""
    several: dict[str, fw.Semivalue | list[fw.Semivalue]] = {
        "KNN-Shapley": fw.Shapley(),
        "KNN Beta(16, 1)": fw.Beta(16, 1),
        f"KNN, {len(ALL_WEIGHTS)} weightings at once": list(ALL_WEIGHTS),
        "KNN leave-one-out": fw.LeaveOneOut(),
    }
    valuator = partial(fw.KNNValuator, K, device=arguments.device, progress=False)
    valuator(weights=fw.Shapley()).fit(points.x, points.y, points.reference)  # the first call of all loads libraries
    for name, weights in several.items():
        fit = partial(valuator(weights=weights).fit, points.x, points.y, points.reference)
        yield {"method": name, "seconds": timed(fit)[1]}
    vote = valuator(weights=fw.Shapley(), utility="vote")
    yield {"method": "KNN-Shapley, vote", "seconds": timed(partial(vote.fit, points.x, points.y, points.reference))[1]}


def learned(points: Points, arguments: argparse.Namespace) -> Iterator[Row]:
    """Networks: the time to learn, and the time to value all points then."""
    (seed,) = arguments.seeds
    ways: tuple[tuple[str, Method], ...] = (("published", "published"), ("improved", "regression"))
    for name, method in ways:
        valuator = fw.AmortizedValuator(
            fw.Shapley(), utility="vote" if method == "published" else "soft", k=K, method=method, seed=seed,
            budget=arguments.budget, device=arguments.device, progress=False,
        )  # fmt: skip
        _, learning = timed(partial(valuator.fit, points.x, points.y, points.reference))
        valuator.value(points.x[:100], points.y[:100])
        _, seconds = timed(partial(valuator.value, points.x, points.y))
        yield {"method": f"learned, {name}", "seconds": seconds, "learning": learning}


def gradient(points: Points, arguments: argparse.Namespace) -> Iterator[Row]:
    """G-Shapley: part of a pass, extrapolated to one pass."""
    (seed,), steps = arguments.seeds, 10
    module, columns = LinearSoftmax(points.x, CLASSES), points.x.double()
    references = points.x_reference.double()

    def go(steps: int) -> float:
        some = GradientSampler(
            module, accuracy, points=(columns[:steps], points.y[:steps]), reference=(references, points.y_reference),
            learning_rate=0.01, seed=seed,
        )  # fmt: skip
        return timed(partial(some.draw, 0))[1]

    enough = round(steps * arguments.seconds / go(steps))
    steps = min(max(enough, steps), len(points.y))
    seconds = go(steps)
    whole = "" if steps == len(points.y) else f"{steps:,} of {len(points.y):,} steps of one pass"
    yield {"method": "G-Shapley", "seconds": seconds * len(points.y) / steps, "extrapolated": whole}


def tmc(points: Points, arguments: argparse.Namespace) -> Iterator[Row]:
    """TMC-Shapley: one walk, truncated as usual or by the clock, extrapolated to one visit of every point."""
    game, n = logistic(points), len(points.y)
    everyone = worth(game, np.arange(n))
    order = np.random.default_rng(arguments.seeds[0]).permutation(n)
    began, fits, steady = time.perf_counter(), 0, 0
    while steady < TRUNCATION_STEPS and fits < n and time.perf_counter() - began < arguments.seconds:
        fits += 1
        near = abs(everyone - worth(game, order[:fits])) < DEFAULT_TOLERANCE * abs(everyone - game.empty_value)
        steady = steady + 1 if near else 0
    how = "cut short as usual" if steady == TRUNCATION_STEPS else "not at its end, where fits are dearer"
    seconds = (time.perf_counter() - began) * n / fits
    yield {"method": "TMC-Shapley", "seconds": seconds, "extrapolated": f"one walk of {fits:,} fits, {how}"}


def beta(points: Points, arguments: argparse.Namespace) -> Iterator[Row]:
    """Beta-Shapley(16, 1): fits on coalitions drawn by its size law, extrapolated to one for every point."""
    game, n = logistic(points), len(points.y)
    generator = np.random.default_rng(arguments.seeds[0])
    law = fw.Beta(16, 1).join_law(n)
    began, fits = time.perf_counter(), 0
    while not fits or (time.perf_counter() - began < arguments.seconds and fits < n):
        size = int(generator.choice(n, p=law / law.sum()))
        worth(game, generator.permutation(n)[: size + 1])
        fits += 1
    seconds = (time.perf_counter() - began) * n / fits
    yield {"method": "Beta-Shapley", "seconds": seconds, "extrapolated": f"{fits:,} of {n:,} fits"}


def logistic(points: Points) -> RetrainingGame:
    """The game of a logistic regression that is refitted for every coalition, on one core."""
    return RetrainingGame(LogisticRegression(max_iter=100, tol=1e-2), points.x, points.y, points.reference)


def worth(game: RetrainingGame, members: np.ndarray[Any, np.dtype[np.int64]]) -> float:
    """Worth of a coalition: a fit."""
    coalition = torch.zeros(1, game.n_players, dtype=torch.bool)
    coalition[0, torch.from_numpy(members)] = True
    return float(game(coalition)[0])


PARTS: Mapping[str, Callable[[Points, argparse.Namespace], Iterator[Row]]] = {
    "features": features,
    "exact": exact,
    "learned": learned,
    "gradient": gradient,
    "tmc": tmc,
    "beta": beta,
}


def join(work: Path) -> dict[str, Any]:
    """Join the finished parts; they must come from one machine."""
    found = {part: read_piece(work / f"{part}.json") for part in PARTS}
    kept = {part: piece for part, piece in found.items() if piece is not None}
    if not kept:
        raise SystemExit(f"nothing is kept in {work}: do some parts first")
    pieces = list(kept.values())
    for what in ("machine", "versions", "features"):
        if any(piece[what] != pieces[0][what] for piece in pieces):
            raise SystemExit(f"parts in {work} differ in their {what}: do all on one machine, with the same --data")
    return {
        "rows": [row for piece in pieces for row in piece["rows"]],
        "features": pieces[0]["features"],
        "commands": commands(pieces),
        "machines": [origin(pieces[0])],
        "seeds": sorted({piece.get("settings", {}).get("seed", 0) for piece in pieces}),
        "k": K,
        "paper minutes": PAPER_MINUTES,
        "missing": [part for part in PARTS if part not in kept],
        "seconds": sum(piece["seconds"] for piece in pieces),
    }


def draw(rows: list[Row]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Seconds of each method on a log scale; hatched where extrapolated, pale what a network needs to learn."""
    figure = new_figure(width=7, height=0.42 * len(rows) + 0.8)
    axes = figure.subplots()
    for place, row in enumerate(reversed(rows)):
        hatch = "//" if row["extrapolated"] else None
        if "learning" in row:
            axes.barh(place, row["seconds"] + row["learning"], color=COLORS[0], alpha=0.35)
        axes.barh(place, row["seconds"], color=COLORS[0], hatch=hatch, edgecolor="white")
        whole = row["seconds"] + row.get("learning", 0.0)
        about = "~" if row["extrapolated"] else ""
        axes.text(1.1 * whole, place, f"{about}{duration(whole)}", va="center", fontsize="small")
    methods = [str(row["method"]) for row in reversed(rows)]
    axes.set_yticks(range(len(rows)), [TITLES.get(method, method) for method in methods], fontsize="small")
    axes.set_xscale("log")
    axes.set_xlim(right=20 * max(row["seconds"] + row.get("learning", 0.0) for row in rows))
    axes.set_xlabel("seconds; hatched: extrapolated; pale: with learning")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="x", alpha=0.25)
    return figure
