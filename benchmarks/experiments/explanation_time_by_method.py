"""Time to explain 1,000 images with every method on one machine: the paper's Table 1.

Medians of repeated calls in one run, 250 images at once, after a warm-up; in bf16 on a GPU. Learned methods explain
all classes, gradient methods (captum's) the predicted one. Methods that sample coalitions run in single precision,
because they need small differences; they explain a few images one by one, and we extrapolate to 1,000. The time to
train a learned method comes on top.

    python benchmarks/run.py explanation_time_by_method    # untrained networks, which are as fast as trained ones
    python benchmarks/run.py explanation_time_by_method --data cifar10.npz --work build/inclusion_curves
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

import fwshapley as fw
from benchmarks.experiments.inclusion_curves import LEARNERS, SECONDS, Study, folder_of
from benchmarks.harness.figures import save_figure
from benchmarks.harness.inclusion_joining import BASE, EVERY
from benchmarks.harness.measuring import synchronize, use_fast_kernels
from benchmarks.harness.options import ExperimentParser, best_device
from benchmarks.harness.record import record, recorded
from benchmarks.models import resnet
from fwshapley._internal.progress import ProgressBar
from fwshapley.explanation.attribution import Unweighted
from fwshapley.explanation.baselines import BASELINES
from fwshapley.explanation.baselines.task import BaselineTask
from fwshapley.plots import COLORS, new_figure

MANY, AT_ONCE, FEW = 1000, 250, 2
CALLS = 3072
WARM_UP, LEAST_REPEATS, MOST_REPEATS, ENOUGH_SECONDS = 2, 5, 50, 3.0
LEARNED = (BASE, "encoder", EVERY)
GRADIENTS: Mapping[str, Mapping[str, str]] = {
    "saliency": {},
    "gradcam": {"layer": "blocks"},  # or it would look for it at each call
    "integrated gradients": {},
}
SAMPLED = ("least squares", "kernel shap")
TITLES = {
    "encoder": "encoder, Shapley",
    EVERY: "ours, nine weightings",
    f"{EVERY}, Shapley alone": "ours, Shapley",
    "gradcam": "GradCAM",
    "kernel shap": "KernelSHAP on the {game}, captum's",
    "least squares": "KernelSHAP on the {game}, our least squares",
}
"""Names of methods, for readers."""


def main(arguments: argparse.Namespace) -> None:
    """Time, print, draw, record."""
    if arguments.draw:
        save_figure(
            partial(draw, recorded("explanation_time_by_method", arguments.out)),
            "explanation_time_by_method",
            arguments,
        )
        return
    started = time.perf_counter()
    use_fast_kernels()
    device = torch.device(arguments.device)
    model, explainers, x = trained(arguments, device) if arguments.data else untrained(arguments, device)
    rows = time_all(model, explainers, x.contiguous(memory_format=torch.channels_last), arguments)
    results = {
        "images": MANY, "at once": arguments.at_once, "calls": arguments.calls, "trained": arguments.data is not None,
        "weightings": len(resnet.WEIGHTS), "methods": rows,
    }  # fmt: skip
    record(
        "explanation_time_by_method", results, out=arguments.out, seeds=arguments.seeds, started=started,
        packages=["captum"], device=arguments.device,
    )  # fmt: skip
    save_figure(partial(draw, results), "explanation_time_by_method", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments; a smoke run times narrow networks on a few images."""
    parser = ExperimentParser(
        __doc__,
        smoke="narrow networks",
        seeds=[0],
        seeds_of="explainers and of sampling",
        single_seed=True,
    )
    parser.add_data("as for inclusion_curves; without it, the networks are untrained")
    parser.add_argument("--datasets", nargs=1, choices=list(resnet.DATASETS), default=["cifar10"])
    parser.add_argument("--work", type=Path, help="work folder of inclusion_curves, with its trained explainers")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="training time of those explainers")
    parser.add_device(default=best_device())
    parser.add_draw()
    arguments = parser.parse(options)
    if arguments.data and not arguments.work:
        parser.error("--data needs the --work folder of the experiment inclusion_curves")
    small = (8, 4, 1, 530)
    arguments.images, arguments.at_once, arguments.few, arguments.calls = (
        small if arguments.smoke else (MANY, AT_ONCE, FEW, CALLS)
    )
    return arguments


def trained(
    arguments: argparse.Namespace, device: torch.device
) -> tuple[nn.Module, dict[str, fw.FeatureExplainer], Tensor]:
    """Return model, explainers and test images of an earlier run of inclusion.py."""
    name = arguments.datasets[0]
    setting = resnet.prepare(arguments.data, device, arguments.work / name, name)
    study = Study(name, setting, arguments)
    explainers = {
        method: fw.FeatureExplainer.load(
            folder_of(study, method, arguments.seconds, arguments.seeds[0]) / "explainer",
            model=setting.model,
            device=device,
        )
        for method in LEARNED
    }
    return setting.model, explainers, setting.images.x_test[: arguments.images]


def untrained(
    arguments: argparse.Namespace, device: torch.device
) -> tuple[nn.Module, dict[str, fw.FeatureExplainer], Tensor]:
    """Return a model, explainers and images whose times are those of trained ones."""
    torch.manual_seed(arguments.seeds[0])
    x = torch.randn(arguments.images, 3, resnet.SIDE, resnet.SIDE, device=device)
    model = resnet.ResNet(width=8 if arguments.smoke else 64).to(device).eval().requires_grad_(requires_grad=False)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # missing from torch's stubs
    players = fw.grid(resnet.SIDE, resnet.SIDE, patch=2)
    explainers = {}
    for method in LEARNED:
        learner = LEARNERS[method]
        options: dict[str, Any] = {} if learner.weights == "every" else {"objective": "kernel", "weights": fw.Shapley()}
        explainers[method] = fw.FeatureExplainer(
            model, players, surrogate=None, network=learner.network, seed=arguments.seeds[0], device=device, **options
        ).fit(x[:4], x[4:8], budget=fw.Budget(steps=1), batch_size=2, n_coalitions=2, progress=False)
    return model, explainers, x


def time_all(
    model: nn.Module,
    explainers: Mapping[str, fw.FeatureExplainer],
    x: Float[Tensor, "images 3 32 32"],
    arguments: argparse.Namespace,
) -> dict[str, dict[str, Any]]:
    """Seconds, times the forward pass and peak memory of every method."""
    every, labels = explainers[EVERY], torch.cat([model(part).argmax(1) for part in x.split(arguments.at_once)])
    rows: dict[str, dict[str, Any]] = {}

    def note(name: str, call: Callable[[], object], images: int, **more: Any) -> None:  # noqa: ANN401 - any facts
        found = measure(call, x.device, smoke=arguments.smoke)
        found["seconds"] *= MANY / images
        bare = rows["forward pass"]["seconds"] if rows else found["seconds"]
        rows[name] = found | {"over forward": found["seconds"] / bare, "extrapolated": images < MANY, **more}
        print(name, json.dumps(rows[name]), flush=True)

    def predict() -> None:
        with torch.no_grad(), torch.autocast(x.device.type, torch.bfloat16, enabled=x.device.type == "cuda"):
            for part in x.split(arguments.at_once):
                model(part)

    note("forward pass", predict, len(x))
    for name, explainer in explainers.items():
        weights = list(resnet.WEIGHTS) if name == EVERY else None
        note(name, partial(explainer.explain, x, weights=weights, batch_size=arguments.at_once), len(x))
    note(f"{EVERY}, Shapley alone", partial(every.explain, x, batch_size=arguments.at_once), len(x))
    for name, layer in GRADIENTS.items():
        note(name, partial(ask, name, every, x, labels, arguments.at_once, **layer), len(x))
    few = slice(0, arguments.few)
    for name in SAMPLED:
        sampling = partial(ask, name, every, x[few], labels[few], 1, n_calls=arguments.calls, seed=arguments.seeds[0])
        note(name, sampling, arguments.few, calls=arguments.calls)
    return rows


def ask(
    name: str,
    explainer: fw.FeatureExplainer,
    x: Float[Tensor, "images 3 32 32"],
    labels: Int[Tensor, " images"],
    at_once: int,
    **options: int | str,
) -> None:
    """Explain by a baseline, without the forward pass of the explainer in which `fw.baseline` reads the inputs."""
    method = BASELINES[name.replace(" ", "_")]
    weights: fw.Semivalue = Unweighted(name) if method.weightings == "none" else fw.Shapley()
    quick = name in GRADIENTS and x.device.type == "cuda"
    with (
        ProgressBar(name, len(x), enabled=False) as bar,
        torch.autocast(x.device.type, torch.bfloat16, enabled=quick),
    ):
        task = BaselineTask(explainer, explainer.fitted_, x, labels[:, None], [weights], at_once, bar)
        method.compute(task, **options)


def measure(call: Callable[[], object], device: torch.device, *, smoke: bool) -> dict[str, Any]:
    """Median seconds of a call, how often it was made, and the peak of the GPU's memory."""
    least, most = (1, 1) if smoke else (LEAST_REPEATS, MOST_REPEATS)
    for _ in range(1 if smoke else WARM_UP):
        call()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    taken: list[float] = []
    while len(taken) < least or (sum(taken) < ENOUGH_SECONDS and len(taken) < most):
        synchronize(device)
        before = time.perf_counter()
        call()
        synchronize(device)
        taken.append(time.perf_counter() - before)
    peak = torch.cuda.max_memory_allocated(device) / 2**20 if device.type == "cuda" else None
    return {"seconds": statistics.median(taken), "repeats": len(taken), "peak_mb": peak}


def draw(results: Mapping[str, Any]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Draw times as bars on a scale of tens, the shortest on top; learned methods are blue."""
    rows = sorted(results["methods"].items(), key=lambda item: -item[1]["seconds"])
    figure = new_figure(width=8, height=0.4 * len(rows) + 1)
    axes = figure.subplots()
    ours = [COLORS[0] if name in LEARNED or name.startswith(EVERY) else COLORS[7] for name, _ in rows]
    titles = [title_of(name, trained=results["trained"]) for name, _ in rows]
    bars = axes.barh(titles, [row["seconds"] for _, row in rows], color=ours)
    texts = [f" {'~' * row['extrapolated']}{in_words(row['seconds'])}" for _, row in rows]
    axes.bar_label(bars, texts, fontsize="small")
    axes.set_xscale("log")
    axes.set_xlim(right=8 * max(row["seconds"] for _, row in rows))
    axes.set_xlabel(f"seconds for {results['images']:,} images; blue: it learns; ~: extrapolated")
    axes.tick_params(axis="y", labelsize="small")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def title_of(name: str, *, trained: bool) -> str:
    """Name of a method for readers: sampled is the surrogate or, where none was trained, the model on masked images."""
    return TITLES.get(name, name).format(game="surrogate" if trained else "masked model")


def in_words(seconds: float) -> str:
    """Time to three digits, in a unit that suits it."""
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
