"""Inclusion and exclusion curves of all methods on CIFAR-10 and SVHN: which one finds the patches that matter?

A ResNet-18, 256 players of 2 x 2 pixels, the predicted class of 1,000 test images. The most important players are shown
(inclusion, higher is better) or hidden (exclusion, lower is better), and we count how many images keep their class.
Two evaluators judge: a second surrogate, trained on masked images, that no explainer has seen; and the model itself on
zero-masked images, which is the measure of the FW-Shapley paper.

Learned methods share GPU time, surrogate, data and optimizer:

- "FastSHAP", as published: a UNet, Shapley values, coalitions in complementary pairs, additive normalization.
- "UNet, chosen": the best of UNets for each weighting of the feasible set, the FW-Shapley paper's method. Our objective
  is centered by coalition size, which has the same minimizer and less noise; "not centered" is the published one. With
  `--search-seconds` the search is shorter, and only the best weighting is trained for the full time.
- "encoder", "encoder, chosen": the same for a network that starts from the surrogate.
- "every weighting": our network for all weightings, an encoder that starts from the surrogate.

A weighting is chosen by the inclusion area on validation images, judged by the surrogate that is explained, before
anything is measured on test images.

"KernelSHAP" is a long run of least squares on the surrogate, for as many images as time allows. It has skill 1, a
random order has skill 0. Intervals are a paired bootstrap over images.

    python benchmarks/run.py inclusion_curves --data cifar10.npz --datasets cifar10 --work build/inclusion_curves
    python benchmarks/run.py inclusion_curves --join --work build/inclusion_curves     # only join finished parts

Finished pieces are kept in <work>/pieces, so that an interrupted run continues. To join the pieces of several machines,
copy them into one folder. Only pieces of the same sitting, with the same trained model, are compared. Sittings without
pieces in --work stay as they are in the record of --out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

import fwshapley as fw
from benchmarks.experiments.learned_vs_sampled import quickly
from benchmarks.harness.figures import save_figure
from benchmarks.harness.inclusion_joining import (
    BASE,
    CHOSEN,
    EVALUATORS,
    EVERY,
    FIGURES,
    KERNEL_SHAP,
    LONG_RUN,
    MADE_UP,
    NOT_CENTERED,
    SIMPLE,
    draw,
    gather,
    searched_name,
)  # fmt: skip
from benchmarks.harness.measuring import timed, use_fast_kernels
from benchmarks.harness.options import ExperimentParser, best_device
from benchmarks.harness.pieces import keep_piece, take_piece
from benchmarks.harness.record import record, recorded
from benchmarks.harness.statistics import Kept, pack, read_row
from benchmarks.models import resnet
from fwshapley.explanation.learned.persistence import FILE
from fwshapley.explanation.metrics import Evaluator, area, exclusion_curves, inclusion_curve, inclusion_curves
from fwshapley.objectives import Kernel, SumConstraint

SEEDS = (0, 1, 2)
IMAGES, STEPS = 1000, 32
SECONDS, LONGER_SECONDS = 60, (240, 960)
CALLS, CALLS_AT_ONCE = 16_384, 40
KERNEL_SECONDS = 240
CLASS_MEAN_IMAGES = 5000


@dataclass(frozen=True)
class Learner:
    """How a method learns: its network, its weightings and its constraint."""

    network: Literal["auto", "unet"]
    weights: Literal["every", "chosen"] | fw.Semivalue
    constraint: SumConstraint = "center"


LEARNERS: Mapping[str, Learner] = {
    EVERY: Learner("auto", "every"),
    BASE: Learner("unet", fw.Shapley(), "normalize"),
    "encoder": Learner("auto", fw.Shapley()),
    "encoder, chosen": Learner("auto", "chosen"),
    NOT_CENTERED: Learner("unet", "chosen", "normalize"),
    **{searched_name(weights): Learner("unet", weights) for weights in resnet.WEIGHTS},
}


@dataclass(frozen=True)
class Study:
    """One data set in one sitting.

    Attributes:
        name: of the data set.
        setting: model, surrogates and images.
        arguments: of the command line.
        explainers: those at hand, by method, seconds and seed.
    """

    name: resnet.Name
    setting: resnet.Setting
    arguments: argparse.Namespace
    explainers: dict[tuple[str, float, int], fw.FeatureExplainer] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Name to print; a smoke run uses generated images."""
        return f"smoke run, {MADE_UP}" if self.arguments.smoke else self.name

    @property
    def x(self) -> Float[Tensor, "images 3 32 32"]:
        """Test images."""
        return self.setting.images.x_test[: self.arguments.images]

    @cached_property
    def labels(self) -> Int[Tensor, " images"]:
        """Predicted classes. They are computed once, because rounding can change near ties from call to call."""

        def make() -> dict[str, Any]:
            return {"facts": self.setting.facts, "labels": self.setting.model(self.x).argmax(1).tolist()}

        return torch.tensor(self.keep("setting", 0, make)["labels"], device=self.x.device)

    def keep(self, method: str, seed: int, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return a piece: that of an earlier call, or a new one, which is then kept."""
        path = pieces_in(self.arguments.work) / f"{self.name}, {self.setting.sitting}, {method}, {seed}.json"
        settings = {"seconds": self.arguments.seconds, "search seconds": self.arguments.search_seconds}
        kept = take_piece(path, settings)
        if kept is not None:
            return kept
        found, seconds = timed(make)
        about = {"dataset": self.name, "sitting": self.setting.sitting, "method": method, "seed": seed}
        about["settings"] = settings
        keep_piece(path, {**about, **found, "seconds": seconds}, self.arguments.device)
        print(f"{self.title}: {method}, seed {seed}: {seconds:.0f} s", *summary(found), flush=True)
        return found


def main(arguments: argparse.Namespace) -> None:
    """Prepare, learn, judge, print, draw, record."""
    if arguments.draw:
        draw_all(recorded("inclusion_curves", arguments.out), arguments)
        return
    use_fast_kernels()
    for name in [] if arguments.join else arguments.datasets:
        work = arguments.work / name
        work.mkdir(parents=True, exist_ok=True)
        setting = resnet.prepare(arguments.data, torch.device(arguments.device), work, name)
        study = Study(name, setting, arguments)
        print(f"{study.title}: {len(study.labels)} test images, sitting {setting.sitting}", flush=True)
        for part in arguments.parts:
            PARTS[part](study)
    results = gather(pieces_in(arguments.work), {} if arguments.smoke else recorded("inclusion_curves", arguments.out))
    started = time.perf_counter() - results["seconds"]
    record(
        "inclusion_curves", results, out=arguments.out, seeds=results["seeds"], started=started,
        packages=["accelerate"], device=arguments.device,
    )  # fmt: skip
    draw_all(results, arguments)


def draw_all(results: Mapping[str, Any], arguments: argparse.Namespace) -> None:
    """Draw the curves by each evaluator."""
    for evaluator, name in FIGURES.items():
        save_figure(partial(draw, results, evaluator, smoke=arguments.smoke), name, arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments; a smoke run explains two classes of stripes with tiny, untrained networks."""
    parser = ExperimentParser(__doc__, smoke="generated images", seeds=SEEDS, seeds_of="explainers; most use the first")
    parser.add_data("folder with the data sets, or the npz file of one")
    parser.add_choices("--datasets", resnet.DATASETS, "data sets", nargs="+", default=list(resnet.DATASETS))
    parser.add_argument(
        "--work", type=Path, default=Path("build/inclusion_curves"), help="folder that keeps models and finished parts"
    )
    parser.add_choices("--parts", PARTS, "parts to run", nargs="+", default=list(PARTS))
    parser.add_argument("--join", action="store_true", help="run nothing: join the parts in --work")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="GPU time of each learned method")
    parser.add_argument("--search-seconds", type=float, help="GPU time of each UNet of the search (default: --seconds)")
    parser.add_argument(
        "--longer", type=float, nargs="+", default=list(LONGER_SECONDS), help="longer GPU times to compare"
    )
    parser.add_argument("--kernel-seconds", type=float, default=KERNEL_SECONDS, help="time for KernelSHAP in this call")
    parser.add_device(default=best_device())
    parser.add_draw()
    arguments = parser.parse(options)
    if not (arguments.draw or arguments.join):
        parser.need_data(arguments)
    arguments.search_seconds = arguments.search_seconds or arguments.seconds
    arguments.images, arguments.steps, arguments.calls = IMAGES, STEPS, CALLS
    arguments.validation, arguments.searched = resnet.VALIDATION, fw.semivalues.FEASIBLE_SET
    if arguments.smoke:
        arguments.searched = fw.semivalues.FEASIBLE_SET[:1]
        arguments.work = arguments.out / "parts"
        arguments.datasets = ["cifar10"]
        left_out = {"encoder", CHOSEN, NOT_CENTERED, "long run, chosen", f"{BASE}, longer", f"{EVERY}, longer"}
        arguments.parts = [part for part in PARTS if part not in left_out]
        arguments.images, arguments.steps, arguments.calls, arguments.validation = 4, 4, 530, 8
    return arguments


def pieces_in(work: Path) -> Path:
    """Folder of the pieces."""
    return work / "pieces"


def summary(piece: Mapping[str, Any]) -> list[str]:
    """Return what to print of a piece: mean inclusion and exclusion by the second surrogate."""
    rows = {weights: read_row([kept], piece["points"]) for weights, kept in piece.get("kept", {}).items()}
    named = {kind: f"{kind}, {EVALUATORS[0]}" for kind in ("inclusion", "exclusion")}
    return [
        f"{weights} {row.areas[named['inclusion']].mean():.3f} / {row.areas[named['exclusion']].mean():.3f}"
        for weights, row in rows.items()
    ] or [f"{key} {piece[key]}" for key in ("chosen", "area") if key in piece]


def learn(study: Study, method: str, seed: int, seconds: float) -> fw.FeatureExplainer:
    """Return a trained explainer: from memory, from an earlier call, or trained now."""
    if method == CHOSEN:
        method = searched_name(search(study))
    known = (method, seconds, seed)
    if known not in study.explainers:
        folder = folder_of(study, *known)
        device = study.setting.images.x_train.device
        if not (folder / "explainer" / FILE).exists():
            train(study, LEARNERS[method], seed, seconds, folder)
        loaded = fw.FeatureExplainer.load(folder / "explainer", model=study.setting.model, device=device)
        study.explainers[known] = loaded
    return study.explainers[known]


def folder_of(study: Study, method: str, seconds: float, seed: int) -> Path:
    """Where an explainer is saved, and its checkpoints."""
    place: Path = study.arguments.work / study.name / f"{method}, {seconds:g} s, seed {seed}"
    return place


def train(study: Study, learner: Learner, seed: int, seconds: float, folder: Path) -> None:
    """Train an explainer and save it."""
    setting, smoke = study.setting, study.arguments.smoke
    on_gpu = setting.images.x_train.device.type == "cuda"
    options: dict[str, Any] = {}
    if learner.weights != "every":
        weights = search(study) if learner.weights == "chosen" else learner.weights
        options = {"objective": Kernel(weights, constraint=learner.constraint)}
    if on_gpu:
        torch.compiler.reset()  # or, after some networks of one class, those to come would not be compiled
    explainer = fw.FeatureExplainer(
        setting.model, setting.players, surrogate=setting.surrogate, network=learner.network, seed=seed,
        device=setting.images.x_train.device, **options,
    ).fit(
        setting.x_train[:8] if smoke else setting.x_train,
        setting.x_valid[:8] if smoke else setting.x_valid,
        budget=fw.Budget(steps=1) if smoke else fw.Budget(seconds=seconds),
        batch_size=8 if smoke else 128,
        n_coalitions=4 if smoke else 16,
        learning_rate=2e-3,
        augment=setting.augment,
        compiled=on_gpu,
        checkpoint=folder,
        resume=True,
        progress=False,
    )  # fmt: skip
    explainer.save(folder / "explainer")


def choose(study: Study) -> fw.Semivalue:
    """Return the weighting of the feasible set whose inclusion area on validation images is the largest."""
    seed = study.arguments.seeds[0]

    def make() -> dict[str, Any]:
        explainer = learn(study, EVERY, seed, study.arguments.seconds)
        surrogate, reporter = quickly(study.setting.surrogate), evaluators(study.setting)["zero-masked model"]
        found = fw.choose_weights(
            explainer, study.setting.x_valid[: study.arguments.validation], candidates=resnet.WEIGHTS,
            steps=study.arguments.steps, evaluator=surrogate, reporter=reporter, progress=False,
        )  # fmt: skip
        areas = dict(zip(resnet.WEIGHTS, found.areas, strict=True))
        best = max(fw.semivalues.FEASIBLE_SET, key=lambda weights: areas[weights])
        assert found.reported is not None  # noqa: S101 - there is a reporter
        reported = {str(each): area for each, area in zip(resnet.WEIGHTS, found.reported.areas, strict=True)}
        return {
            "chosen": str(best),
            "weights": best.to_json(),
            "areas": {str(each): area for each, area in areas.items()},
            "areas, zero-masked model": reported,
        }

    return fw.Semivalue.from_json(study.keep("choice", seed, make)["weights"])


def search(study: Study) -> fw.Semivalue:
    """Return the weighting of the feasible set whose UNet has the largest inclusion area on validation images."""
    seed, seconds = study.arguments.seeds[0], study.arguments.search_seconds
    areas = {}
    for weights in study.arguments.searched:

        def make(weights: fw.Semivalue = weights) -> dict[str, Any]:
            explainer = learn(study, searched_name(weights), seed, seconds)
            x = study.setting.x_valid[: study.arguments.validation]
            labels = study.setting.model(x).argmax(1)
            values = explainer.explain(x, outputs=labels[:, None]).values[..., 0].float()
            curve = inclusion_curve(quickly(study.setting.surrogate), x, values, labels, steps=study.arguments.steps)
            return {"searched": str(weights), "area": area(curve), "training": training_of(explainer)}

        areas[weights] = study.keep(f"search {weights}", seed, make)["area"]
    return max(areas, key=lambda weights: areas[weights])


def judge_search(study: Study) -> None:
    """Judge on test images the UNet for Shapley and, if they were trained as long, the UNets of the search."""
    search(study)
    alike = study.arguments.search_seconds == study.arguments.seconds
    for weights in (fw.Shapley(), *(study.arguments.searched if alike else ())):
        judge_learned(study, searched_name(weights), study.arguments.seeds[0])


def judge_learned(study: Study, method: str, seed: int, *, seconds: float | None = None) -> None:
    """Judge a learned method under all weightings that it has learned."""
    if method == EVERY:
        choose(study)  # before any number on test images
    longer = "" if seconds is None else f", {seconds:g} s"
    lasting = seconds or study.arguments.seconds

    def make() -> dict[str, Any]:
        explainer = learn(study, method, seed, lasting)
        one = getattr(explainer.fitted_.objective, "weights", None)
        several = [one] if one else list(resnet.WEIGHTS)
        values = explainer.explain(study.x, weights=several, outputs=study.labels[:, None]).values[..., 0]
        judged = judge(study, dict(zip(map(str, several), values, strict=True)))
        return judged | {"training": training_of(explainer)}

    study.keep(method + longer, seed, make)


def training_of(explainer: fw.FeatureExplainer) -> dict[str, Any]:
    """Return how an explainer was trained."""
    history = explainer.histories_["explainer"]
    training = {"steps": history.steps, "seconds": history.seconds, "stopped": history.stopped}
    by_spread = getattr(explainer.fitted_.objective, "spread", None) is not None
    return training | {"loss": min(loss for _, loss in history.validation), "by spread": by_spread}


def judge_simple(study: Study) -> None:
    """Judge methods that are not trained."""
    seed = study.arguments.seeds[0]
    for method in SIMPLE:

        def make(method: str = method) -> dict[str, Any]:
            explainer = learn(study, EVERY, seed, study.arguments.seconds)  # it knows model, players and surrogate
            options = {"examples": study.setting.x_train[:CLASS_MEAN_IMAGES]} if method == "class mean" else {}
            explained = fw.baseline(method.replace(" ", "_"), explainer, **options).explain(
                study.x, outputs=study.labels[:, None], progress=False
            )
            return judge(study, {str(explained.weights): explained.values[..., 0]})

        study.keep(method, seed, make)


def judge_long_run(study: Study, method: str, weights: fw.Semivalue) -> None:
    """Judge long runs of least squares, some images at a time, until all are done or the time is over."""
    began, at_once = time.perf_counter(), 4 if study.arguments.smoke else CALLS_AT_ONCE
    for start in range(0, study.arguments.images, at_once):
        if time.perf_counter() - began > study.arguments.kernel_seconds:
            break

        def make(start: int = start) -> dict[str, Any]:
            some = slice(start, start + at_once)
            x, labels, calls = study.x[some], study.labels[some], study.arguments.calls
            every = resnet.references(study.setting, x, "probability", calls, seed=1 + start, weights=[weights])[0]
            values = every.gather(-1, labels[:, None, None].expand(-1, every.shape[1], 1))[..., 0]
            return judge(study, {str(weights): values}, some) | {"first": start, "calls": calls}

        study.keep(f"{method} from {start}", 0, make)


def judge(
    study: Study, values: Mapping[str, Float[Tensor, "images players"]], some: slice = slice(None)
) -> dict[str, Any]:
    """Curves of each image by both evaluators, under some weightings."""
    x, labels, steps = study.x[some], study.labels[some], study.arguments.steps
    kept: dict[str, dict[str, Kept]] = {}
    for weights, each in values.items():
        kept[weights] = {
            f"{kind}, {name}": pack(curves(evaluator, x, each.float(), labels, steps=steps))
            for name, evaluator in evaluators(study.setting).items()
            for kind, curves in (("inclusion", inclusion_curves), ("exclusion", exclusion_curves))
        }
    return {"kept": kept, "points": steps + 1}


def evaluators(setting: resnet.Setting) -> dict[str, Evaluator]:
    """The two evaluators."""
    zero = torch.zeros(1, 1, 1, 1, device=setting.images.x_train.device)
    judges = (setting.judge, fw.explanation.Surrogate(setting.model, setting.players, zero))
    return {name: quickly(each) for name, each in zip(EVALUATORS, judges, strict=True)}


def repeat(study: Study) -> None:
    """Judge FastSHAP and our network with the other seeds."""
    for seed in study.arguments.seeds[1:]:
        for method in (BASE, EVERY):
            judge_learned(study, method, seed)


def lengthen(study: Study, method: str) -> None:
    """Judge a method after longer training."""
    for seconds in study.arguments.longer:
        judge_learned(study, method, study.arguments.seeds[0], seconds=seconds)


def learned_part(method: str) -> Callable[[Study], None]:
    """Return the part of one learned method, with the first seed."""
    return lambda study: judge_learned(study, method, study.arguments.seeds[0])


PARTS: Mapping[str, Callable[[Study], object]] = {
    "choice": choose,
    EVERY: learned_part(EVERY),
    BASE: learned_part(BASE),
    "simple": judge_simple,
    "search": judge_search,
    CHOSEN: learned_part(CHOSEN),
    "encoder": learned_part("encoder"),
    "encoder, chosen": learned_part("encoder, chosen"),
    KERNEL_SHAP: lambda study: judge_long_run(study, KERNEL_SHAP, fw.Shapley()),
    "seeds": repeat,
    NOT_CENTERED: learned_part(NOT_CENTERED),
    **{f"{method}, longer": partial(lengthen, method=method) for method in (BASE, EVERY)},
    "long run, chosen": lambda study: judge_long_run(study, LONG_RUN, search(study)),
}
"""In the order of their importance; the model and its surrogates come before them."""
