"""Which explanations find what matters in an image? Inclusion and exclusion curves of all methods, CIFAR-10 and SVHN.

A ResNet-18, 256 players of 2 x 2 pixels, the class predicted, 1000 test images. As the players that a method finds most
important are shown (inclusion, higher is better) or hidden (exclusion, lower is better): does an evaluator still
predict the class? There are two: a second surrogate that no explainer has seen, which knows masked images, and the
model itself on images masked by zeros, the FW-Shapley paper's measure.

Learned methods get the same GPU time and the same surrogate, data and optimiser:

- "FastSHAP", as published: a plain UNet, Shapley values, coalitions in complementary pairs, additive normalisation;
- "UNet, chosen", the FW-Shapley paper's method: of UNets for each weighting of the feasible set, the best. Their
  objective is centred by size, which has the same minimiser and less noise; "not centred" is as published. With
  `--search-seconds` the search is shorter, and only the best of it is trained for the whole time;
- "encoder" and "encoder, chosen": the same for a network that starts from the surrogate;
- "every weighting": our network for all weightings, an encoder started from the surrogate; it chooses for itself.

Weightings are chosen by the inclusion area on validation images, by the surrogate that is explained, before any number
on test images; these are judged by others.

"KernelSHAP" is a long run of least squares on the surrogate's game, for as many images as time allows; it defines skill
1, a random order skill 0. Intervals are bootstraps over images, which stay paired.

    python benchmarks/inclusion.py --data cifar10.npz --datasets cifar10 --work /tmp/inclusion
    python benchmarks/inclusion.py --join --work /tmp/inclusion     # only sum up what is kept there
    python benchmarks/inclusion.py --smoke --out build --figures build

Every finished piece is kept in <work>/pieces, so that a run that was cut goes on. Copy the pieces of several machines
into one folder to join them. Models differ wherever they are trained anew, so each piece knows its sitting, and only
pieces of one sitting are compared. Sittings that --out has a record of and --work has no pieces of stay in the record.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

import fwshapley as fw
import resnet
from agreement import quickly
from data_option import existing_device, existing_path, need_data
from fwshapley.metrics import Evaluator, area, exclusion_curves, inclusion_curve, inclusion_curves
from fwshapley.objective import SumConstraint
from fwshapley.saving import FILE
from inclusion_results import (
    BASE,
    CHOSEN,
    EVALUATORS,
    EVERY,
    FIGURES,
    KERNEL_SHAP,
    LONG_RUN,
    MADE_UP,
    NOT_CENTRED,
    SIMPLE,
    draw,
    gather,
    searched_name,
)  # fmt: skip
from measure import timed
from paired import Kept, pack, read_row
from pieces import keep_piece, take_piece
from record import record, recorded
from script import marked, quoted, run_script

SEEDS = (0, 1, 2)
IMAGES, STEPS = 1000, 32
SECONDS, LONGER_SECONDS = 60, (240, 960)
CALLS, CALLS_AT_ONCE = 16_384, 40
KERNEL_SECONDS = 240
CLASS_MEAN_IMAGES = 5000


@dataclass(frozen=True)
class Learner:
    """A way to learn: which network, and which weightings it is taught."""

    network: Literal["auto", "unet"]
    weights: Literal["every", "chosen"] | fw.Semivalue
    constraint: SumConstraint = "centre"


LEARNERS: Mapping[str, Learner] = {
    EVERY: Learner("auto", "every"),
    BASE: Learner("unet", fw.Shapley(), "normalise"),
    "encoder": Learner("auto", fw.Shapley()),
    "encoder, chosen": Learner("auto", "chosen"),
    NOT_CENTRED: Learner("unet", "chosen", "normalise"),
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
        """What to print of it: a smoke run has nothing of the data set."""
        return f"smoke run, {MADE_UP}" if self.arguments.smoke else self.name

    @property
    def x(self) -> Float[Tensor, "images 3 32 32"]:
        """Test images."""
        return self.setting.images.x_test[: self.arguments.images]

    @cached_property
    def labels(self) -> Int[Tensor, " images"]:
        """What the model says they are, once and for all: rounding may turn near ties from call to call."""

        def make() -> dict[str, Any]:
            return {"facts": self.setting.facts, "labels": self.setting.model(self.x).argmax(1).tolist()}

        return torch.tensor(self.keep("setting", 0, make)["labels"], device=self.x.device)

    def keep(self, method: str, seed: int, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return a piece: what was kept of an earlier call, or else what is made now."""
        path = pieces_in(self.arguments.work) / f"{self.name}, {self.setting.sitting}, {method}, {seed}.json"
        settings = {"seconds": self.arguments.seconds, "search seconds": self.arguments.search_seconds}
        kept = take_piece(path, settings)
        if kept is not None:
            return kept
        found, seconds = timed(make)
        about = {"dataset": self.name, "sitting": self.setting.sitting, "method": method, "seed": seed}
        about["settings"] = settings
        keep_piece(path, {**about, **found, "seconds": seconds}, self.arguments.device)
        print(f"{self.title}: {method}, seed {seed}: {seconds:.0f} s", *told(found), flush=True)
        return found


def main() -> None:
    """Prepare, learn, judge, print, draw, record."""
    arguments = parse()
    if arguments.draw:
        draw_all(json.loads((arguments.out / "inclusion.json").read_text())["results"], arguments)
        return
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    for name in [] if arguments.join else arguments.datasets:
        work = arguments.work / name
        work.mkdir(parents=True, exist_ok=True)
        setting = resnet.prepare(arguments.data, torch.device(arguments.device), work, name)
        study = Study(name, setting, arguments)
        print(f"{study.title}: {len(study.labels)} test images, sitting {setting.sitting}", flush=True)
        for part in arguments.parts:
            PARTS[part](study)
    results = gather(pieces_in(arguments.work), {} if arguments.smoke else recorded("inclusion", arguments.out))
    started = time.perf_counter() - results["seconds"]
    record(
        "inclusion", results, out=arguments.out, seeds=results["seeds"], started=started, packages=["accelerate"],
        device=arguments.device,
    )  # fmt: skip
    if not arguments.no_figure:
        draw_all(results, arguments)


def draw_all(results: Mapping[str, Any], arguments: argparse.Namespace) -> None:
    """Draw the curves by each evaluator."""
    for evaluator, name in FIGURES.items():
        figure = draw(results, evaluator, smoke=arguments.smoke)
        marked(figure, smoke=arguments.smoke).savefig(arguments.figures / f"{name}.png")


def parse() -> argparse.Namespace:
    """Arguments; a smoke run explains two classes of stripes by tiny networks that have learnt nothing."""
    parser = argparse.ArgumentParser(allow_abbrev=False, description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=existing_path, help="folder with the data sets, or the npz file of one")
    parser.add_argument("--datasets", nargs="+", choices=list(resnet.DATASETS), default=list(resnet.DATASETS))
    parser.add_argument("--work", type=Path, default=Path("build/inclusion"), help="folder for models and pieces, kept")
    parser.add_argument(
        "--parts", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART",
        help=f"those to do now, of {quoted(PARTS)}",
    )  # fmt: skip
    parser.add_argument("--join", action="store_true", help="do nothing but join the pieces kept in --work")
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=list(SEEDS), help="seed numbers, of explainers; most use the first"
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help="GPU time of each learned method")
    parser.add_argument("--search-seconds", type=float, help="GPU time of each UNet of the search, if not the same")
    parser.add_argument("--longer", type=float, nargs="+", default=list(LONGER_SECONDS), help="GPU times to compare")
    parser.add_argument("--kernel-seconds", type=float, default=KERNEL_SECONDS, help="for long runs, in this call")
    parser.add_argument("--device", type=existing_device, default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--figures", type=Path, default=Path(__file__).parents[1] / "docs" / "figures")
    parser.add_argument("--no-figure", action="store_true", help="where matplotlib is missing; --draw makes it later")
    parser.add_argument("--draw", action="store_true", help="only draw what was recorded")
    parser.add_argument("--smoke", action="store_true", help="some seconds on made-up images")
    arguments = parser.parse_args()
    arguments.figures.mkdir(parents=True, exist_ok=True)
    if not (arguments.draw or arguments.join):
        need_data(parser, arguments)
    arguments.search_seconds = arguments.search_seconds or arguments.seconds
    arguments.images, arguments.steps, arguments.calls = IMAGES, STEPS, CALLS
    arguments.validation, arguments.searched = resnet.VALIDATION, fw.FEASIBLE_SET
    if arguments.smoke:
        arguments.searched = fw.FEASIBLE_SET[:1]
        arguments.work = arguments.out / "parts"
        arguments.datasets, arguments.seeds = ["cifar10"], arguments.seeds[:1]
        left_out = {"encoder", CHOSEN, NOT_CENTRED, "long run, chosen", f"{BASE}, longer", f"{EVERY}, longer"}
        arguments.parts = [part for part in PARTS if part not in left_out]
        arguments.images, arguments.steps, arguments.calls, arguments.validation = 4, 4, 530, 8
    return arguments


def pieces_in(work: Path) -> Path:
    """Folder of the pieces."""
    return work / "pieces"


def told(piece: Mapping[str, Any]) -> list[str]:
    """Return what to print of a piece: mean inclusion and exclusion by the second surrogate."""
    rows = {weights: read_row([kept], piece["points"]) for weights, kept in piece.get("kept", {}).items()}
    named = {kind: f"{kind}, {EVALUATORS[0]}" for kind in ("inclusion", "exclusion")}
    return [
        f"{weights} {row.areas[named['inclusion']].mean():.3f} / {row.areas[named['exclusion']].mean():.3f}"
        for weights, row in rows.items()
    ] or [f"{key} {piece[key]}" for key in ("chosen", "area") if key in piece]


def learn(study: Study, method: str, seed: int, seconds: float) -> fw.FeatureExplainer:
    """Return a trained explainer: one at hand, one that an earlier call saved, or one that is trained now."""
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
        options = {"objective": "kernel", "weights": weights, "constraint": learner.constraint}
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
        masks=4 if smoke else 16,
        learning_rate=2e-3,
        augment=setting.augment,
        compiled=on_gpu,
        checkpoints=folder,
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
        best = max(fw.FEASIBLE_SET, key=lambda weights: areas[weights])
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
    """Judge the UNet for Shapley on test images and, where they had the same time, those of the search, once over."""
    search(study)
    alike = study.arguments.search_seconds == study.arguments.seconds
    for weights in (fw.Shapley(), *(study.arguments.searched if alike else ())):
        judge_learned(study, searched_name(weights), study.arguments.seeds[0])


def judge_learned(study: Study, method: str, seed: int, *, seconds: float | None = None) -> None:
    """Judge a learned method under all weightings that it knows."""
    if method == EVERY:
        choose(study)  # before any number on test images
    longer = "" if seconds is None else f", {seconds:g} s"
    lasting = seconds or study.arguments.seconds

    def make() -> dict[str, Any]:
        explainer = learn(study, method, seed, lasting)
        one = getattr(explainer.objective, "weights", None)
        several = [one] if one else list(resnet.WEIGHTS)
        values = explainer.explain(study.x, weights=several, outputs=study.labels[:, None]).values[..., 0]
        judged = judge(study, dict(zip(map(str, several), values, strict=True)))
        return judged | {"training": training_of(explainer)}

    study.keep(method + longer, seed, make)


def training_of(explainer: fw.FeatureExplainer) -> dict[str, Any]:
    """Return how an explainer was trained."""
    history = explainer.histories["explainer"]
    training = {"steps": history.steps, "seconds": history.seconds, "stopped": history.stopped}
    by_spread = getattr(explainer.objective, "spread", None) is not None
    return training | {"loss": min(loss for _, loss in history.validation), "by spread": by_spread}


def judge_simple(study: Study) -> None:
    """Judge methods that learn nothing, or look at nothing."""
    seed = study.arguments.seeds[0]
    for method in SIMPLE:

        def make(method: str = method) -> dict[str, Any]:
            explainer = learn(study, EVERY, seed, study.arguments.seconds)  # it knows model, players and surrogate
            options = {"examples": study.setting.x_train[:CLASS_MEAN_IMAGES]} if method == "class mean" else {}
            explained = fw.baseline(method, explainer, **options).explain(
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
    """Return who judges."""
    zero = torch.zeros(1, 1, 1, 1, device=setting.images.x_train.device)
    judges = (setting.judge, fw.Surrogate(setting.model, setting.players, zero))
    return {name: quickly(each) for name, each in zip(EVALUATORS, judges, strict=True)}


def repeat(study: Study) -> None:
    """Judge the two that matter most with other seeds."""
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
    NOT_CENTRED: learned_part(NOT_CENTRED),
    **{f"{method}, longer": partial(lengthen, method=method) for method in (BASE, EVERY)},
    "long run, chosen": lambda study: judge_long_run(study, LONG_RUN, search(study)),
}
"""In the order of their importance; the model and its surrogates come before them."""


if __name__ == "__main__":
    run_script(main)
