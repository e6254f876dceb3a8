"""Finding wrong labels with data values on ResNet-18 features: SVHN and Fashion-MNIST.

The paper's figures c and d again. The labels of the players are wrong in three ways: 10 % become y + 1, 10 % any other
class, 30 % become y + 1. Features come from ResNet-18s that are trained on the players in this run
(models/resnet_features.py): on their noisy labels; cross-fitted; and on the true labels, an upper bound. Players, clean
reference images and unseen images are disjoint. K = 5. Parts:

- "exact": nearest-neighbor values, soft utility, for Shapley, the paper's eight weightings and leave-one-out, with 100,
  1,000 and all reference images, and with none (each image by the others, wrong labels included); and the vote with
  100 and 1,000 reference images.
- "improved", "published": networks that learn values from 1,000 references, by regression (soft utility) for
  `--seconds`, and in the paper's form (vote), which learns more slowly and so has `--published-seconds`. They are
  compared with exact values of their utility, and they value unseen images.
- "scores": loss of the network trained on the noisy labels; for cross-fitted features, cleanlab's self-confidence;
  Data-OOB (100 trees); a random order.
- "gradient", "tmc", "beta": G-, TMC- and Beta-Shapley(16, 1) of a logistic regression on 32 principal components of
  the features, for 1,000 references. G-Shapley makes eight passes. The others have 24,000 fits, about one per player.
  That is too few for 20,000 players, so these methods value a sample of 2,000 players and are judged on it.

Each finished part is kept in `--work`, so that an interrupted run continues, and calls with other parts, on other
machines, add to it. "exact", "improved" and "published" need a GPU and leave reduced features (`points/`) for the other
parts, which need CPU cores and cleanlab. The recorded networks learned six at a time on one GPU: one call for each of
three seeds and two kinds of features. Noise types without parts in --work stay as they are in the record of --out.

    python benchmarks/run.py wrong_labels_resnet --data svhn.npz fashion_mnist.npz --device cuda --no-join
    python benchmarks/run.py wrong_labels_resnet --parts scores gradient tmc beta
    python benchmarks/run.py wrong_labels_resnet --parts
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.measuring import timed
from benchmarks.harness.options import ExperimentParser, dataset_at
from benchmarks.harness.pieces import keep_piece, take_piece
from benchmarks.harness.record import record, recorded
from benchmarks.harness.wrong_labels_joining import (
    CURVE,
    PAPER_NOISE,
    PARTS,
    REFERENCES,
    SCORED,
    SEEDS,
    TITLES,
    USUAL,
    Job,
    Row,
    draw,
    join,
    plan,
    reference_name,
)
from benchmarks.models.label_scores import out_of_bag, self_confidence
from benchmarks.models.resnet_features import (
    KINDS,
    NOISES,
    SMOKE_WIDTH,
    WIDTH,
    Features,
    Points,
    Sizes,
    Trainer,
    draw_sample,
)
from fwshapley.games.knn import Utility
from fwshapley.valuation import ValuationFidelity, detection_curve, measure_detection
from fwshapley.valuation.retraining.valuator import Method

K, CLASSES = 5, 10
POINTS = Sizes(20_000, 5_000, 5_000)
SMOKE_POINTS = Sizes(160, 120, 60)
STEPS, TREES, PASSES = 600, 100, 8
SECONDS, PUBLISHED_SECONDS = 12, 60
RETRAINED, FITS = 2_000, 24_000
WEIGHTS = (fw.Shapley(), *fw.semivalues.FEASIBLE_SET, fw.LeaveOneOut())
FEW_WEIGHTS = (fw.Shapley(), fw.Beta(16, 1), fw.LeaveOneOut())
"""For all reference sizes but the usual one."""

Found = dict[str, Row]


def main(arguments: argparse.Namespace) -> None:
    """Train, value, judge, print, draw, record."""
    if arguments.draw:
        curves = recorded("wrong_labels_resnet", arguments.out)["curves"]
        save_figure(partial(draw, curves), "wrong_labels_resnet", arguments)
        return
    wanted = [job for job in plan(arguments.seeds, list(arguments.data)) if is_wanted(job, arguments)]
    for _, jobs in itertools.groupby(wanted, key=lambda job: job.task):
        run(list(jobs), arguments)
    if arguments.no_join:
        return
    known = ["digits"] if arguments.smoke else [name for name in TITLES if name != "digits"]
    earlier = {} if arguments.smoke else recorded("wrong_labels_resnet", arguments.out)
    results = join(arguments.work, arguments.seeds, known, earlier)
    started = time.perf_counter() - results["seconds"]
    record(
        "wrong_labels_resnet", results, out=arguments.out, seeds=results["seeds"], started=started,
        packages=["cleanlab", "scikit-learn"], device=arguments.device,
    )  # fmt: skip
    if results["curves"]:  # there are none before the paper's noise was run
        save_figure(partial(draw, results["curves"]), "wrong_labels_resnet", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments."""
    parser = ExperimentParser(
        __doc__,
        smoke="scikit-learn's digits and hardly trained networks",
        seeds=SEEDS,
        seeds_of="images, flips and networks",
    )
    parser.add_data("svhn, fashion_mnist, cifar10: files or folders", nargs="+", default=[])
    parser.add_device(default="cpu")
    parser.add_choices("--parts", PARTS, "parts to run (none: only join finished parts)", nargs="*")
    parser.add_choices("--noises", NOISES, "noise types", nargs="+", default=list(NOISES))
    parser.add_choices("--features", KINDS, "kinds of features", nargs="+", default=list(KINDS))
    parser.add_argument("--points", type=int, default=POINTS.players, help="number of training images")
    parser.add_argument("--steps", type=int, default=STEPS, help="training steps of a ResNet-18")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time that our network learns")
    parser.add_argument(
        "--published-seconds", type=float, default=PUBLISHED_SECONDS, help="time that the paper's network learns"
    )
    parser.add_argument("--jobs", type=int, default=-1, help="processes for fitting models and trees")
    parser.add_argument(
        "--work", type=Path, default=Path("build/wrong_labels_resnet"), help="folder that keeps finished parts"
    )
    parser.add_argument("--no-join", action="store_true", help="do not join the parts")
    parser.add_draw()
    arguments = parser.parse(options)
    arguments.data = {dataset_at(path, parser): path for path in arguments.data}
    arguments.sizes = POINTS._replace(players=arguments.points)
    arguments.budgets = {
        part: fw.Budget(seconds=seconds)
        for part, seconds in (("improved", arguments.seconds), ("published", arguments.published_seconds))
    }
    arguments.trees, arguments.passes, arguments.retrained, arguments.fits = TREES, PASSES, RETRAINED, FITS
    arguments.width = WIDTH
    if arguments.parts is None:
        on_gpu = arguments.device != "cpu"
        arguments.parts = [part for part in PARTS if arguments.smoke or (part in NEED_ALL) == on_gpu]
    features_are_kept = any((arguments.work / "points").glob("*.safetensors"))
    if not arguments.draw and arguments.parts and (not features_are_kept or {*NEED_ALL} & {*arguments.parts}):
        parser.need_data(arguments, f"the parts {', '.join(arguments.parts)}")
    if arguments.smoke:
        arguments.data, arguments.noises = {"digits": None}, [PAPER_NOISE]
        arguments.work, arguments.sizes, arguments.jobs = arguments.out / "wrong_labels_resnet", SMOKE_POINTS, 1
        arguments.features, arguments.parts = KINDS[:2], [part for part in arguments.parts if part != "tmc"]
        arguments.steps, arguments.width = 8, SMOKE_WIDTH
        arguments.budgets = dict.fromkeys(arguments.budgets, fw.Budget(steps=2))
        arguments.trees, arguments.passes, arguments.retrained, arguments.fits = 3, 8, 90, 800
    return arguments


def is_wanted(job: Job, arguments: argparse.Namespace) -> bool:
    """Whether a job is to be done in this call, and has not been done."""
    chosen = job.part in arguments.parts and job.noise in arguments.noises and job.kind in arguments.features
    return chosen and take_piece(arguments.work / f"{job.name}.json", settings_of(job, arguments)) is None


def run(jobs: Sequence[Job], arguments: argparse.Namespace) -> None:
    """Run parts of one task and keep the results of each in a file."""
    path = arguments.work / "points" / f"{jobs[0].task}.safetensors"
    whole, few = None, Points.load(path) if path.exists() else None
    if few is None or any(job.part in NEED_ALL for job in jobs):
        if jobs[0].dataset not in arguments.data:
            print(f"left out: {jobs[0].task}, for want of features; make them with --data", flush=True)
            return
        whole, seconds = timed(partial(make_points, jobs[0], arguments))
        few = whole.reduced()
        if jobs[0].kind in SCORED:
            few.save(path)
        print(f"features: {jobs[0].task}, {seconds:.1f} s, accuracy {float(whole.accuracy):.3f}", flush=True)
    for job in jobs:
        points = whole if whole is not None and job.part in NEED_ALL else few
        found, seconds = timed(partial(METHODS[job.part], points, job, arguments))
        piece = {"found": found, "accuracy": float(few.accuracy), "seconds": seconds}
        piece["settings"] = settings_of(job, arguments)
        device = arguments.device if job.part in NEED_ALL else "cpu"
        keep_piece(arguments.work / f"{job.name}.json", piece, device)
        for method, row in found.items():
            if "failed" in row:
                print(f"failed: {job.name}, {method}: {row['failed']}", flush=True)
        best = max(found, key=lambda method: found[method].get("auroc", 0.0))
        print(f"done: {job.name}, {seconds:.1f} s, {best} {found[best].get('auroc', math.nan):.3f}", flush=True)


def make_points(job: Job, arguments: argparse.Namespace) -> Points:
    """Features of a task; networks that are missing are trained."""
    images = sample(job.dataset, arguments.data[job.dataset], arguments.sizes, job.seed, arguments.device)
    features = Features(
        images, partial(trainer, arguments.width, arguments.device), folder=arguments.work / "networks",
        name=f"{job.dataset}, {job.seed}", steps=arguments.steps, seed=job.seed,
    )  # fmt: skip
    return features.points(job.noise, job.kind)


@lru_cache(maxsize=1)
def sample(name: str, path: Path | None, sizes: Sizes, seed: int, device: str) -> Any:  # noqa: ANN401 - lru_cache hides it
    """Images of a data set and seed, until others are asked for."""
    return draw_sample(name, path, sizes, seed, torch.device(device))


@lru_cache(maxsize=1)
def trainer(width: int, device: str) -> Trainer:
    """One trainer for all networks."""
    return Trainer(CLASSES, width, torch.device(device))


def settings_of(job: Job, arguments: argparse.Namespace) -> dict[str, Any]:
    """What pieces of a part that are joined must have in common."""
    shared = {
        "k": K, "points": list(arguments.sizes), "steps": arguments.steps, "trees": arguments.trees,
        "passes": arguments.passes, "retrained": arguments.retrained, "fits": arguments.fits,
    }  # fmt: skip
    budget = arguments.budgets.get(job.part)
    return shared | ({f"seconds, {job.part}": budget.seconds} if budget else {})


def score(values: Tensor | NDArray[Any], wrong: Tensor, seconds: float) -> Row:
    """Detection of wrong labels by low values, and the time; or why the method failed."""
    missing = int((~torch.as_tensor(values).isfinite()).sum())
    if missing:
        return {"failed": f"{missing:,} of {len(values):,} values are not numbers"}
    curve = detection_curve(values, wrong)
    found = [round(float(curve[round(share * len(wrong))]), 4) for share in CURVE]
    return {**asdict(measure_detection(values, wrong)), "seconds": seconds, "curve": found}


def exact(points: Points, job: Job, arguments: argparse.Namespace) -> Found:
    """Nearest-neighbor values, by weighting and reference."""
    del job
    found: Found = {}
    everything = len(points.y_reference)
    neighbors(points, min(REFERENCES), WEIGHTS[:1], "soft", arguments.device)  # to get going: the first call is slow
    for references in (*REFERENCES, everything, 0):
        weights = WEIGHTS if references == USUAL else FEW_WEIGHTS
        values, seconds = neighbors(points, references, weights, "soft", arguments.device)
        for each, row in zip(weights, values, strict=True):
            found[f"{each}, {reference_name(references)}"] = score(row, points.wrong, seconds)
    for references in REFERENCES:
        values, seconds = neighbors(points, references, FEW_WEIGHTS[:2], "vote", arguments.device)
        for each, row in zip(FEW_WEIGHTS, values, strict=False):
            found[f"{each}, vote, {reference_name(references)}"] = score(row, points.wrong, seconds)
    return found


def neighbors(
    points: Points, references: int, weights: Sequence[fw.Semivalue], utility: Utility, device: str
) -> tuple[Tensor, float]:
    """Exact values of the players, and the seconds that all weightings took."""
    valuator = fw.KNNValuator(K, weights=list(weights), utility=utility, device=device, progress=False)
    fitted, seconds = timed(
        partial(valuator.fit, points.x, points.y, first(points, references) if references else None)
    )
    return fitted.values_, seconds


def first(points: Points, references: int) -> tuple[Tensor, Tensor]:
    """The first reference images, which are in random order."""
    return points.x_reference[:references], points.y_reference[:references]


def improved(points: Points, job: Job, arguments: argparse.Namespace) -> Found:
    """Values learned by regression, of players and of unseen images; the latter also by the exact index."""
    weights = list(FEW_WEIGHTS[:2])
    valuator = fw.AmortizedValuator(
        weights, k=K, budget=arguments.budgets["improved"], seed=job.seed, device=arguments.device, progress=False
    )
    found = learn(valuator, points, weights, "soft", arguments)
    index = fw.KNNValuator(K, device=arguments.device, progress=False).fit(points.x, points.y, first(points, USUAL))
    index.value(points.x_unseen, points.y_unseen)
    values, seconds = timed(partial(index.value, points.x_unseen, points.y_unseen))
    return found | {"Shapley, unseen": score(values.values, points.wrong_unseen, seconds)}


def published(points: Points, job: Job, arguments: argparse.Namespace) -> Found:
    """Values learned as in the paper, of players and of unseen images."""
    valuator = fw.AmortizedValuator(
        fw.Shapley(), utility="vote", k=K, method="published",
        budget=arguments.budgets["published"], seed=job.seed, device=arguments.device, progress=False,
    )  # fmt: skip
    return learn(valuator, points, [fw.Shapley()], "vote", arguments)


def learn(
    valuator: fw.AmortizedValuator,
    points: Points,
    weights: Sequence[fw.Semivalue],
    utility: Utility,
    arguments: argparse.Namespace,
) -> Found:
    """Judge learned values, and compare them with exact ones of the same utility."""
    truth, _ = neighbors(points, USUAL, weights, utility, arguments.device)
    _, seconds = timed(partial(valuator.fit, points.x, points.y, first(points, USUAL)))
    valuator.value(points.x_unseen, points.y_unseen)
    unseen, query = timed(partial(valuator.value, points.x_unseen, points.y_unseen))
    found: Found = {}
    rows = zip(weights, truth, valuator.values_.reshape(len(weights), -1), strict=True)
    for each, right, ours in rows:
        name = f"learned, {'published' if utility == 'vote' else 'improved'}, {each}"
        found[name] = score(ours, points.wrong, seconds) | agreement(ours, right)
    values = unseen.values.reshape(len(weights), -1)
    for each, ours in zip(weights, values, strict=True):
        name = f"learned, {'published' if utility == 'vote' else 'improved'}, {each}, unseen"
        found[name] = score(ours, points.wrong_unseen, query)
    return found


def agreement(ours: Tensor, right: Tensor) -> Row:
    """Rank correlation with exact values; empty if values are constant or not finite."""
    varied = bool(ours.isfinite().all()) and bool((ours != ours[0]).any())
    return {"spearman": ValuationFidelity.between(ours, right).spearman} if varied else {}


def scores(points: Points, job: Job, arguments: argparse.Namespace) -> Found:
    """Scores other than data values: of the networks, Data-OOB, and a random order."""
    x, y = points.x.numpy(), points.y.numpy()
    found: Found = {}
    if job.kind == "cross-fitted":
        probabilities = points.log_probabilities.double().softmax(1).numpy()
        confident, seconds = timed(partial(self_confidence, y, probabilities))
        found["self-confidence (cleanlab)"] = score(confident, points.wrong, seconds)
    else:
        own = points.log_probabilities.gather(1, points.y[:, None])[:, 0]
        found["model loss"] = score(own, points.wrong, 0.0)
    bagged, seconds = timed(partial(out_of_bag, x, y, arguments.trees, job.seed, jobs=arguments.jobs))
    found["Data-OOB"] = score(bagged, points.wrong, seconds)
    chance = np.random.default_rng((job.seed, len(y))).random(len(y))
    return found | {"random order": score(chance, points.wrong, 0.0)}


def retrain(method: Method, points: Points, job: Job, arguments: argparse.Namespace) -> Found:
    """Values of a logistic regression by retraining, or by single gradient steps (G-Shapley)."""
    name = {"gradient": "G-Shapley", "tmc": "TMC-Shapley", "beta": "Beta-Shapley"}[method]
    passes = method == "gradient"
    some = slice(None) if passes else slice(arguments.retrained)
    valuator = fw.RetrainingValuator(
        None if passes else LogisticRegression(max_iter=100, tol=1e-2), method=method,
        n_fits=arguments.passes if passes else arguments.fits, seed=job.seed, n_jobs=arguments.jobs,
        progress=False,
    )  # fmt: skip
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        fitted, seconds = timed(partial(valuator.fit, points.x[some], points.y[some], first(points, USUAL)))
    return {name: score(fitted.values_, points.wrong[some], seconds)}


METHODS: Mapping[str, Callable[[Points, Job, argparse.Namespace], Found]] = {
    "exact": exact,
    "improved": improved,
    "published": published,
    "scores": scores,
    "gradient": partial(retrain, "gradient"),
    "tmc": partial(retrain, "tmc"),
    "beta": partial(retrain, "beta"),
}
NEED_ALL = ("exact", "improved", "published")
"""Parts that need all features, and a GPU if they are to be quick."""
