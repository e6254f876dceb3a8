"""Learned values of a ResNet-18 on CIFAR-10 (256 players, nine weightings) against long sampling.

The game is that of the surrogate, with 256 players of 2 x 2 pixels. Each run trains an explainer for some minutes of
GPU time. The explanation of the predicted class of 32 test images is compared with least-squares references: two halves
of 16,384 calls each, whose agreement gives the ceiling. 1,000 test images are also judged by inclusion and exclusion
curves, with a second surrogate that no explainer has seen and with the model on zero-masked images.

    python benchmarks/run.py learned_vs_sampled --data cifar10.npz --work build/sampled --runs "2 minutes" "5 minutes"

A run continues from the models, references and runs that an earlier call left in the work folder. Runs recorded with
another work folder, so with another ResNet-18 and other references, are added by `--add other/learned_vs_sampled.json`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file, save_file
from torch import Tensor

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.formats import emphasis
from benchmarks.harness.measuring import use_fast_kernels
from benchmarks.harness.options import ExperimentParser, best_device
from benchmarks.harness.record import command_line, record
from benchmarks.models import resnet
from fwshapley._internal.files import written_whole
from fwshapley.explanation.metrics import area, exclusion_curve, inclusion_curve, measure_agreement, skill
from fwshapley.games.scales import Output
from fwshapley.objectives import Kernel, Multilinear
from fwshapley.plots import COLORS, new_figure

IMAGES, JUDGED = 32, 1000
CALLS = 16_384
CURVE_STEPS = 16
CLASS_MEAN_IMAGES = 5000
FIRST_QUARTER = 0.25
SMOKE_IMAGES, SMOKE_JUDGED, SMOKE_STEPS = 2, 4, 4
SMOKE_CALLS = 530  # least squares refuses fewer, of 256 players

RUNS: Mapping[str, Mapping[str, Any]] = {
    "2 minutes": {"seconds": 120},
    "2 minutes, uneven": {"seconds": 120, "objective": Multilinear(evenness=0)},
    "2 minutes, log odds": {"seconds": 120, "output": "logit"},
    "2 minutes, UNet": {"seconds": 120, "network": "unet"},
    "2 minutes, FastSHAP": {
        "seconds": 120,
        "network": "unet",
        "objective": Kernel(fw.Shapley(), constraint="normalize"),
    },
    "5 minutes": {"seconds": 300},
    "10 minutes": {"seconds": 600},
}
ITS_SEED = re.compile(r", seed (\d+)$")
"""End of the name of a run with another seed than the first."""


def main(arguments: argparse.Namespace) -> None:
    """Train, judge, print, draw, record."""
    if arguments.draw or arguments.add:
        runs = join(arguments.out / "learned_vs_sampled.json", arguments.add)
        save_figure(partial(draw, runs), "learned_vs_sampled", arguments)
        return
    started = time.perf_counter()
    device = torch.device(arguments.device)
    use_fast_kernels()
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        setting = resnet.prepare(arguments.data, device, work)
        print(json.dumps(setting.facts), flush=True)
        before = runs_in(work)
        for run, seed in itertools.product(arguments.runs, arguments.seeds):
            run_once(run, seed, setting, work, smoke=arguments.smoke)
        runs = runs_in(work)
    started -= time_of(before.values())
    results = {"setting": setting.facts, "images": arguments.images, "calls": 2 * arguments.calls, "runs": runs}
    record(
        "learned_vs_sampled", results, out=arguments.out, seeds=seeds_of(runs), started=started,
        packages=["accelerate"], device=arguments.device,
    )  # fmt: skip
    save_figure(partial(draw, runs), "learned_vs_sampled", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments; a smoke run explains two classes of stripes by a tiny network."""
    parser = ExperimentParser(
        __doc__, smoke="generated images", seeds=[0], seeds_of="explainers; each seed is a separate run"
    )
    parser.add_data("CIFAR-10: a folder of its files, or a packed npz file")
    parser.add_argument("--work", type=Path, help="folder that keeps models, references and runs")
    parser.add_choices("--runs", RUNS, "runs to do", nargs="+", default=["2 minutes", "5 minutes", "10 minutes"])
    parser.add_device(default=best_device())
    parser.add_draw()
    parser.add_argument(
        "--add",
        type=Path,
        nargs="+",
        default=[],
        help="run nothing: add the runs of these files to the record in --out",
    )
    arguments = parser.parse(options)
    if not (arguments.draw or arguments.add):
        parser.need_data(arguments)
    if arguments.smoke:
        arguments.runs = ["2 minutes"]
    arguments.images, arguments.calls = (SMOKE_IMAGES, SMOKE_CALLS) if arguments.smoke else (IMAGES, CALLS)
    return arguments


def join(path: Path, others: Sequence[Path]) -> dict[str, Any]:
    """Add the runs of other files to a record, with their time, and return all runs."""
    if not path.exists():
        raise SystemExit(f"there is no {path}: give the folder of the record as --out")
    documents = [json.loads(each.read_text()) for each in (path, *others)]
    last = documents[-1]
    if not others:
        return dict(last["results"]["runs"])
    runs = {name: row for document in documents for name, row in document["results"]["runs"].items()}
    added = [row for name, row in runs.items() if name not in last["results"]["runs"]]
    last["wall_time_s"] = round(last["wall_time_s"] + time_of(added), 2)
    last["results"]["runs"] = in_order(runs)
    last["seeds"] = seeds_of(runs)
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(last, indent=1) + "\n")
    return runs


def name_of(run: str, seed: int) -> str:
    """Name of a run with a seed; seed 0 is not named."""
    return run if seed == 0 else f"{run}, seed {seed}"


def seed_of(name: str) -> int:
    """Seed of a run by its name."""
    found = ITS_SEED.search(name)
    return int(found.group(1)) if found else 0


def seeds_of(names: Iterable[str]) -> list[int]:
    """All seeds of runs by their names."""
    return sorted({seed_of(name) for name in names})


def runs_in(work: Path) -> dict[str, Any]:
    """Return the runs that a work folder keeps, of all seeds."""
    kept = {path.stem: path for path in work.glob("*.json") if ITS_SEED.sub("", path.stem) in RUNS}
    return in_order({name: json.loads(path.read_text()) for name, path in kept.items()})


def in_order(runs: Mapping[str, Any]) -> dict[str, Any]:
    """Return runs in the order of RUNS, unknown ones last."""
    known = list(RUNS)

    def place(name: str) -> tuple[int, int]:
        run = ITS_SEED.sub("", name)
        return known.index(run) if run in known else len(known), seed_of(name)

    return {name: runs[name] for name in sorted(runs, key=place)}


def time_of(runs: Iterable[Mapping[str, Any]]) -> float:
    """Total time of runs; for early or interrupted runs at least the time of training."""
    return sum(max(run.get("took", 0.0), run["seconds"]) for run in runs)


def run_once(run: str, seed: int, setting: resnet.Setting, work: Path, *, smoke: bool) -> None:
    """Train one explainer; save it and its results in the work folder."""
    name = name_of(run, seed)
    path = work / f"{name}.json"
    if path.exists():
        return
    began, options = time.perf_counter(), {**RUNS[run], "seed": seed}
    seconds, output = options.pop("seconds"), options.get("output", "probability")
    budget = fw.Budget(steps=3) if smoke else fw.Budget(seconds=seconds)
    on_gpu = setting.images.x_train.device.type == "cuda"
    explainer = fw.FeatureExplainer(setting.model, setting.players, surrogate=setting.surrogate, **options).fit(
        setting.x_train[:8] if smoke else setting.x_train,
        setting.x_valid[:8] if smoke else setting.x_valid,
        budget=budget,
        batch_size=8 if smoke else 128,
        n_coalitions=4 if smoke else 16,
        learning_rate=2e-3,
        augment=setting.augment,
        compiled=on_gpu,
        checkpoint=work / name,
        resume=True,
        progress=False,
    )
    explainer.save(work / f"{name} explainer")
    history = explainer.histories_["explainer"]
    halves = load_references(setting, work, output, smoke=smoke)
    results: dict[str, Any] = {
        "steps": history.steps,
        "seconds": history.seconds,
        "validation": history.validation,
        "how": {"command": command_line(), "date": f"{datetime.now(UTC):%Y-%m-%d}", "fwshapley": fw.__version__},
        "accuracy": setting.facts["accuracy"],
        "agreement": agreements(explainer, setting, halves),
        "class mean": class_means(explainer, setting, halves),
        "curves": curves(
            explainer, setting, halves, *((SMOKE_JUDGED, SMOKE_STEPS) if smoke else (JUDGED, CURVE_STEPS))
        ),
    }
    path.write_text(json.dumps(results | {"took": round(time.perf_counter() - began, 2)}))
    print(name, json.dumps({key: round(row["pearson"], 3) for key, row in results["agreement"].items()}), flush=True)


def load_references(
    setting: resnet.Setting, work: Path, output: Output, *, smoke: bool
) -> Float[Tensor, "2 weights images players outputs"]:
    """Two independent halves of the references of a game, made once."""
    path = work / f"references of {output}.safetensors"
    if not path.exists():
        x = setting.images.x_test[: SMOKE_IMAGES if smoke else IMAGES]
        calls = SMOKE_CALLS if smoke else CALLS
        halves = [resnet.references(setting, x, output, calls, seed) for seed in (1, 2)]
        save_file({"halves": torch.stack(halves).cpu().contiguous()}, path)
    return load_file(path)["halves"]


def weightings(explainer: fw.FeatureExplainer) -> list[fw.Semivalue]:
    """All nine weightings, or the one that was learned."""
    one = getattr(explainer.fitted_.objective, "weights", None)
    return [one] if one else list(resnet.WEIGHTS)


def agreements(explainer: fw.FeatureExplainer, setting: resnet.Setting, halves: Tensor) -> dict[str, dict[str, float]]:
    """Agreement on the predicted class, by weighting, with the ceiling that the references' halves allow."""
    x = setting.images.x_test[: halves.shape[2]]
    predicted = setting.model(x).argmax(1, keepdim=True)
    several = weightings(explainer)
    values = explainer.explain(x, weights=several, outputs=predicted).values[..., 0].float().cpu()
    rows = {}
    for weights, estimate in zip(several, values, strict=True):
        first, second = pick(halves[:, resnet.WEIGHTS.index(weights)], predicted)
        between = measure_agreement(first, second).pearson
        found = asdict(measure_agreement(estimate, (first + second) / 2))
        rows[str(weights)] = found | {"ceiling": math.sqrt(max(2 * between / (1 + between), 0.0))}
    return rows


def class_means(explainer: fw.FeatureExplainer, setting: resnet.Setting, halves: Tensor) -> dict[str, float]:
    """Correlation of one map per class, the mean learned explanation of training images, with the references."""
    several = weightings(explainer)
    every = explainer.explain(setting.x_train[:CLASS_MEAN_IMAGES], weights=several, outputs="predicted")
    x = setting.images.x_test[: halves.shape[2]]
    predicted = setting.model(x).argmax(1, keepdim=True)
    rows = {}
    for number, weights in enumerate(several):
        of_class = [every.values[number, every.outputs[:, 0] == each, :, 0].mean(0) for each in predicted[:, 0]]
        reference = pick(halves[:, resnet.WEIGHTS.index(weights)], predicted).mean(0)
        rows[str(weights)] = measure_agreement(torch.stack(of_class).nan_to_num().cpu(), reference).pearson
    return rows


def pick(
    values: Float[Tensor, "halves images players outputs"], predicted: Int[Tensor, "images 1"]
) -> Float[Tensor, "halves images players"]:
    """Values of each image's predicted class."""
    index = predicted.cpu()[None, :, None].expand(*values.shape[:3], 1)
    return values.gather(-1, index)[..., 0]


def curves(
    explainer: fw.FeatureExplainer, setting: resnet.Setting, halves: Tensor, count: int, steps: int
) -> dict[str, Any]:
    """Areas of inclusion and exclusion by both evaluators; skill is relative to the references' own orders."""
    x = setting.images.x_test[:count]
    labels = setting.model(x).argmax(1)
    several, judged = weightings(explainer), partial(judge, setting, steps=steps)
    values = explainer.explain(x, weights=several, outputs=labels[:, None]).values[..., 0]
    found = {str(weights): judged(x, each, labels) for weights, each in zip(several, values, strict=True)}
    shuffled = torch.rand(values[0].shape, generator=torch.Generator().manual_seed(0)).to(x.device)
    few = halves.shape[2]
    best = {
        str(weights): judged(
            x[:few],
            pick(halves[:, resnet.WEIGHTS.index(weights)], labels[:few, None]).mean(0).to(x.device),
            labels[:few],
        )
        for weights in several
    }
    on_few = {
        str(weights): judged(x[:few], each[:few], labels[:few]) for weights, each in zip(several, values, strict=True)
    }
    random_on_few = judged(x[:few], shuffled[:few], labels[:few])
    skills = {
        name: {
            key: skill(row[key], random=random_on_few[key], best=best[name][key])
            for key in row
            if random_on_few[key] != best[name][key]
        }
        for name, row in on_few.items()
    }
    return {"areas": found, "random": judged(x, shuffled, labels), "skill": skills}


def judge(setting: resnet.Setting, x: Tensor, values: Tensor, labels: Tensor, *, steps: int) -> dict[str, float]:
    """Areas under the curves of some images."""
    zero_masked = fw.explanation.Surrogate(setting.model, setting.players, torch.zeros(1, 1, 1, 1, device=x.device))
    found = {}
    for name, evaluator in (("second surrogate", setting.judge), ("zero-masked model", zero_masked)):
        for kind, curve in (("inclusion", inclusion_curve), ("exclusion", exclusion_curve)):
            drawn = curve(quickly(evaluator), x, values, labels, steps=steps)
            found[f"{kind}, {name}"] = area(drawn)
            found[f"{kind}, {name}, first quarter"] = area(drawn, FIRST_QUARTER)
    return found


def quickly(evaluator: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Without gradients, in bf16 on a GPU."""

    def ask(x: Tensor, coalitions: Tensor) -> Tensor:
        with torch.no_grad(), torch.autocast(x.device.type, torch.bfloat16, enabled=x.device.type == "cuda"):
            return evaluator(x, coalitions).float()

    return ask


def draw(runs: Mapping[str, Any]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Correlation by weighting, a line per run, below the references' ceiling."""
    figure = new_figure(width=8, height=4)
    axes = figure.subplots()
    names = sorted(map(str, resnet.WEIGHTS), key=emphasis)
    whole = [row for row in runs.values() if len(row["agreement"]) == len(names)]
    if whole:
        ceiling = [whole[0]["agreement"][name]["ceiling"] for name in names]
        axes.plot(names, ceiling, color="gray", linestyle="--", label="ceiling of the references")
    for (run, row), color in zip(runs.items(), itertools.cycle(COLORS), strict=False):
        known = [name for name in names if is_known(row, name)]
        axes.plot(known, [row["agreement"][name]["pearson"] for name in known], "o-", color=color, label=run)
    axes.set_ylim(0, 1)
    axes.set_ylabel("Pearson correlation with the reference")
    axes.set_xlabel("weighting, from small coalitions to large ones")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, alpha=0.25)
    axes.legend(frameon=False, fontsize="small")
    return figure


def is_known(run: Mapping[str, Any], name: str) -> bool:
    """Whether a run has a figure for a weighting; references in bf16 are too coarse where beta is above 1."""
    return name in run["agreement"] and (run.get("references") != "bf16" or emphasis(name) <= 1)
