"""Time of one explanation divided by the time of one forward pass of the model; and a smaller, distilled network.

All classes under nine weightings, for a ResNet-18. Times are medians of repeated calls in one run: the forward pass of
the model, `explain` of the explainer and of a small student distilled from it, as they are and compiled. They go to
explanation_vs_forward_pass.json, or to ..._gpu.json. With an explainer that learned_vs_sampled trained, the run also
measures how well the student agrees with the references of its teacher: ..._student.json.

    python benchmarks/run.py explanation_vs_forward_pass   # times only, untrained networks: enough on a CPU
    python benchmarks/run.py explanation_vs_forward_pass --data cifar10.npz --work build/sampled --explainer "5 minutes"
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import fwshapley as fw
from benchmarks.experiments import learned_vs_sampled as agreement
from benchmarks.harness.figures import save_figure
from benchmarks.harness.measuring import synchronize, use_fast_kernels
from benchmarks.harness.options import ExperimentParser, best_device
from benchmarks.harness.record import record, recorded
from benchmarks.models import resnet
from fwshapley.plots import COLORS, new_figure

TIMED = ("explanation_vs_forward_pass", "explanation_vs_forward_pass_gpu")
BATCHES = (1, 256)
MANY = 1000
DISTILLING_SECONDS = 90


def main(arguments: argparse.Namespace) -> None:
    """Time, print, draw, record."""
    if arguments.draw:
        for name in TIMED:
            if times := recorded(name, arguments.out).get("times"):
                save_figure(partial(draw, times), name, arguments)
        return
    started = time.perf_counter()
    device = torch.device(arguments.device)
    use_fast_kernels()
    keep = partial(record, out=arguments.out, seeds=arguments.seeds, device=arguments.device)
    if arguments.data:
        model, teacher, student, x, compared = distilled(arguments, device)
        print(json.dumps(compared), flush=True)
        keep("explanation_vs_forward_pass_student", compared, started=started)
        started = time.perf_counter()
    else:
        model, teacher, student, x = untrained(device, arguments.seeds[0], width=8 if arguments.smoke else 64)
    compiled = (False, True) if device.type == "cuda" else (False,)
    times = [
        row
        for quick in compiled
        for row in time_all(model, {"explainer": teacher, "student": student}, x, compiled=quick, smoke=arguments.smoke)
    ]
    name = TIMED[device.type == "cuda"]
    keep(name, {"trained": arguments.data is not None, "times": times}, started=started)
    save_figure(partial(draw, times), name, arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments."""
    parser = ExperimentParser(
        __doc__,
        smoke="a narrow network",
        seeds=(),
        seeds_of="untrained networks",
        single_seed=True,
    )
    parser.add_data("CIFAR-10, as for learned_vs_sampled; without it, the networks are untrained")
    parser.add_argument("--work", type=Path, help="work folder of learned_vs_sampled, with its trained explainers")
    parser.add_argument(
        "--explainer", default="5 minutes", help="which of its runs to distill, such as '5 minutes, seed 1'"
    )
    parser.add_device(default=best_device())
    parser.add_draw()
    arguments = parser.parse(options)
    if arguments.data and not arguments.work:
        parser.error("--data needs the --work folder of the experiment learned_vs_sampled")
    if arguments.data and arguments.seeds:
        parser.error("--seeds is not for --data: a student has its teacher's, which --explainer names")
    arguments.seeds = [agreement.seed_of(arguments.explainer)] if arguments.data else arguments.seeds or [0]
    return arguments


def distilled(
    arguments: argparse.Namespace, device: torch.device
) -> tuple[nn.Module, fw.FeatureExplainer, fw.FeatureExplainer, Tensor, dict[str, Any]]:
    """Return model, trained explainer, student, images to time on, and how the student compares."""
    setting = resnet.prepare(arguments.data, device, arguments.work)
    folder = arguments.work / f"{arguments.explainer} explainer"
    teacher = fw.FeatureExplainer.load(folder, model=setting.model, device=device)
    student = teacher.distill(
        setting.x_train,
        setting.x_valid,
        budget=fw.Budget(seconds=DISTILLING_SECONDS),
        augment=setting.augment,
        compiled=device.type == "cuda",
        progress=False,
    )
    halves = agreement.load_references(setting, arguments.work, "probability", smoke=False)
    rows = {
        name: agreement.agreements(each, setting, halves) for name, each in (("teacher", teacher), ("student", student))
    }
    compared = {weights: {name: rows[name][weights]["pearson"] for name in rows} for weights in rows["teacher"]}
    sizes = {name: parameters(each) for name, each in (("teacher", teacher), ("student", student))}
    facts = {"pearson": compared, "parameters": sizes, "seconds": DISTILLING_SECONDS, "explainer": arguments.explainer}
    return setting.model, teacher, student, setting.images.x_test[:MANY], facts


def untrained(
    device: torch.device, seed: int, width: int
) -> tuple[nn.Module, fw.FeatureExplainer, fw.FeatureExplainer, Tensor]:
    """Return a model, an explainer, a student and images whose times are those of trained ones."""
    torch.manual_seed(seed)
    x = torch.randn(MANY, 3, resnet.SIDE, resnet.SIDE, device=device)
    model = resnet.ResNet(width=width).to(device).eval().requires_grad_(requires_grad=False)
    if device.type == "cuda":  # as the images that it is timed on
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # missing from torch's stubs
    players = fw.grid(resnet.SIDE, resnet.SIDE, patch=2)
    teacher = fw.FeatureExplainer(model, players, surrogate=None, seed=seed, device=device)
    teacher.fit(x[:4], x[4:8], budget=fw.Budget(steps=1), batch_size=2, n_coalitions=2, progress=False)
    student = teacher.distill(x[:4], x[4:8], budget=fw.Budget(steps=1), batch_size=2, progress=False)
    return model, teacher, student, x


def parameters(explainer: fw.FeatureExplainer) -> int:
    """Size of an explaining network."""
    return sum(each.numel() for each in explainer.network_.parameters())


def time_all(
    model: nn.Module, explainers: dict[str, fw.FeatureExplainer], x: Tensor, *, compiled: bool, smoke: bool
) -> list[dict[str, Any]]:
    """Seconds of the forward pass and of explanations, and their ratio, by batch size; and for many images."""
    forward = torch.compile(model, mode="reduce-overhead") if compiled else model
    if compiled:
        for explainer in explainers.values():
            explainer.compile()
    x = x.contiguous(memory_format=torch.channels_last) if x.device.type == "cuda" else x

    def predict(batch: Tensor) -> None:
        with torch.no_grad(), torch.autocast(x.device.type, torch.bfloat16, enabled=x.device.type == "cuda"):
            forward(batch)

    rows: list[dict[str, Any]] = []
    for batch in (1, 8) if smoke else BATCHES:
        bare = median_seconds(partial(predict, x[:batch]), x.device, smoke=smoke)
        row: dict[str, Any] = {"batch": batch, "compiled": compiled, "forward_s": bare}
        for name, explainer in explainers.items():
            explain = partial(explainer.explain, x[:batch], weights=resnet.WEIGHTS)
            taken = median_seconds(explain, x.device, smoke=smoke)
            row |= {f"{name}_s": taken, f"{name}_ratio": taken / bare}
        rows.append(row)
    if not smoke:
        rows.append({"batch": MANY, "compiled": compiled, "forward_s": None})
        for name, explainer in explainers.items():
            explain = partial(explainer.explain, x, weights=resnet.WEIGHTS, batch_size=MANY // 4)
            rows[-1][f"{name}_s"] = median_seconds(explain, x.device, smoke=smoke)
    print(*map(json.dumps, rows), sep="\n", flush=True)
    return rows


def median_seconds(call: Callable[[], object], device: torch.device, *, smoke: bool) -> float:
    """Median time of a call, after warm-up calls."""
    warm_up, repeats = (1, 2) if smoke else (10, 50) if device.type == "cuda" else (2, 7)
    taken = []
    for _ in range(warm_up + repeats):
        synchronize(device)
        before = time.perf_counter()
        call()
        synchronize(device)
        taken.append(time.perf_counter() - before)
    return sorted(taken[warm_up:])[repeats // 2]


def draw(rows: list[dict[str, Any]]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Draw times, divided by that of the forward pass, as bars."""
    figure = new_figure(width=6, height=3)
    axes = figure.subplots()
    shown = [row for row in rows if row["forward_s"]]
    compiled = "\ncompiled"
    labels = [f"batch {row['batch']}{compiled * row['compiled']}" for row in shown]
    for offset, (name, color) in enumerate(zip(("explainer", "student"), COLORS, strict=False)):
        places = [place + 0.35 * offset for place in range(len(shown))]
        axes.bar(places, [row[f"{name}_ratio"] for row in shown], width=0.33, color=color, label=name)
    axes.axhline(1, color="gray", linewidth=0.8, linestyle="--")
    axes.set_xticks([place + 0.175 for place in range(len(shown))], labels)
    axes.set_ylabel("time over one forward pass")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    return figure
