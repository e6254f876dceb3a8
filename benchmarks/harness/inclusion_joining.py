"""Joining the partial results of experiments/inclusion_curves.py from several runs and machines, and drawing them.

A sitting is the results on one data set with one trained model and its surrogates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness.pieces import origin
from benchmarks.harness.statistics import Kept, Row, describe, read_row
from benchmarks.models import resnet
from fwshapley.plots import COLORS, new_figure

EVALUATORS = ("second surrogate", "zero-masked model")
CURVES = [f"{kind}, {evaluator}" for evaluator in EVALUATORS for kind in ("inclusion", "exclusion")]
EVERY, BASE, KERNEL_SHAP, LONG_RUN = "every weighting", "FastSHAP", "KernelSHAP", "long run"
CHOSEN, NOT_CENTERED = "UNet, chosen", "UNet, chosen, not centered"
MADE_UP = "generated images"
SIMPLE = ("random", "class mean", "gradcam", "integrated gradients", "saliency")


def searched_name(weights: object) -> str:
    """Name of the UNet of the search for a weighting."""
    return f"UNet of {weights}"


STYLES: Mapping[str, Mapping[str, Any]] = {
    KERNEL_SHAP: {"color": "black", "linestyle": "-."},
    EVERY: {"color": COLORS[0]},
    "encoder, chosen": {"color": COLORS[5]},
    "encoder": {"color": COLORS[2]},
    CHOSEN: {"color": COLORS[4]},
    searched_name("Shapley"): {"color": COLORS[3]},
    NOT_CENTERED: {"color": COLORS[6]},
    BASE: {"color": COLORS[1]},
    "gradcam": {"color": COLORS[0], "linestyle": "--"},
    "integrated gradients": {"color": COLORS[1], "linestyle": "--"},
    "saliency": {"color": COLORS[2], "linestyle": "--"},
    "class mean": {"color": COLORS[3], "linestyle": "--"},
    "random": {"color": "gray", "linestyle": ":"},
}
"""How the curve of each method is drawn: solid if it learns."""

ITS_TIME = re.compile(r", ([\d.]+) s$")
"""End of the name of a method that was trained for another time than the others."""

Sitting = Mapping[str, Any]
"""What was found on one data set with models trained once."""


MADE: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "machines": lambda piece: origin(piece).partition(";")[0],
    "torch": lambda piece: piece["versions"]["torch"],
    "dates": lambda piece: piece["date"],
    "commands": lambda piece: piece["command"],
    "codes": lambda piece: piece.get("code", "an earlier one"),
}
"""How a sitting was made, beside its seeds: keys of the record, and where a piece has them."""


def untimed(method: str) -> str:
    """Name of a method without its training time."""
    return ITS_TIME.sub("", method)


def gather(folder: Path, earlier: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sittings of each data set, the one with the most methods first, and how they were made.

    Args:
        folder: folder of the pieces, each of which belongs to a sitting.
        earlier: recorded results; sittings without pieces in the folder stay as they are.
    """
    pieces = [json.loads(path.read_text()) for path in sorted(folder.glob("[!.]*.json"))]
    found: dict[str, dict[str, Any]] = {name: dict(sittings) for name, sittings in earlier.get("datasets", {}).items()}
    for name, sitting in sorted({(piece["dataset"], piece["sitting"]) for piece in pieces}):
        of_sitting = [piece for piece in pieces if (piece["dataset"], piece["sitting"]) == (name, sitting)]
        before, now = found.setdefault(name, {}).get(sitting), sum_up(of_sitting)
        lost = find_lost(before, now) if before else []
        if lost:
            raise SystemExit(
                f"{folder} lacks pieces of sitting {sitting} on {name} that were recorded, such as {lost[0]}: put "
                "them there, or give another --out"
            )
        found[name][sitting] = now
    ordered = {name: dict(sorted(found[name].items(), key=_fullest_first)) for name in resnet.DATASETS if name in found}
    made = [sitting["made"] for sittings in ordered.values() for sitting in sittings.values()]
    several = {key: sorted({each for one in made for each in one[key]}) for key in ("seeds", *MADE)}
    return {"datasets": ordered, "seconds": round(sum(one["seconds"] for one in made), 1), **several}


def find_lost(before: Sitting, now: Sitting) -> list[str]:
    """Methods that have fewer weightings, seeds or images than before, and choices that are missing."""

    def extent(sitting: Sitting, method: str) -> dict[str, tuple[int, int]]:
        rows = sitting["methods"].get(method, {})
        return {weights: (len(row["by seed"][CURVES[0]]), row["images"]) for weights, row in rows.items()}

    def is_lost(method: str) -> bool:
        found = extent(now, method)
        return method not in now["methods"] or any(
            seeds > found.get(weights, (0, 0))[0] or images > found.get(weights, (0, 0))[1]
            for weights, (seeds, images) in extent(before, method).items()
        )

    searched = (before["search"] or {}).keys() - (now["search"] or {}).keys()
    chosen = ["choice"] if before["choice"] and not now["choice"] else []
    return sorted([*filter(is_lost, before["methods"]), *(f"search {each}" for each in searched), *chosen])


def _fullest_first(named: tuple[str, Mapping[str, Any]]) -> int:
    return -len(STYLES.keys() & named[1]["methods"].keys())


def made_of(pieces: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How pieces were made; seeds are those of explainers."""
    return {
        "seconds": round(sum(piece["seconds"] for piece in pieces), 1),
        "seeds": sorted({piece["seed"] for piece in pieces if "training" in piece}),
        **{key: sorted({find(piece) for piece in pieces}) for key, find in MADE.items()},
    }


def sum_up(pieces: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the results of one sitting: facts, the chosen weighting, and figures by method and weighting."""
    rows = read_rows(pieces)
    base, best = (rows.get((method, "Shapley")) for method in (BASE, KERNEL_SHAP))
    by_method = {piece["method"]: piece for piece in pieces}
    choice = by_method.get("choice")
    searched = [piece for piece in pieces if "searched" in piece]
    shown = {"Shapley", choice["chosen"] if choice else ""}
    budgets = {method: _budget_of(piece) for method, piece in by_method.items() if "training" in piece}
    methods: dict[str, dict[str, Any]] = {}
    for (method, weights), row in rows.items():
        over = {"base": base, "shorter": rows.get((_shorter(method, budgets), weights))}
        over["base in equal time"] = rows.get((_base_in_time_of(method, budgets), "Shapley"))
        described = describe(row, over=over, random=rows.get(("random", "random")), best=best)
        if untimed(method) == EVERY and weights not in shown:
            del described["curves"]  # of no figure
        if method in budgets:
            described["training"] = by_method[method]["training"] | {"budget": budgets[method]}
        methods.setdefault(method, {})[weights] = described
    return {
        "facts": by_method["setting"]["facts"],
        "choice": {key: choice[key] for key in ("chosen", "areas", "areas, zero-masked model")} if choice else None,
        "search": {piece["searched"]: piece["area"] for piece in searched} or None,
        "search seconds": round(median(piece["training"]["seconds"] for piece in searched)) if searched else None,
        "calls": max(piece.get("calls", 0) for piece in pieces),
        "methods": methods,
        "made": made_of(pieces),
    }


def _budget_of(piece: Mapping[str, Any]) -> float:
    """Training budget of a method in seconds."""
    own = ITS_TIME.search(piece["method"])
    return float(own.group(1) if own else piece["settings"]["seconds"])


def _base_in_time_of(method: str, budgets: Mapping[str, float]) -> str:
    """Name of the FastSHAP that was trained as long as our network, if any."""
    alike = [other for other in budgets if untimed(other) == BASE and budgets[other] == budgets.get(method)]
    return alike[0] if alike and untimed(method) == EVERY else ""


def _shorter(method: str, budgets: Mapping[str, float]) -> str:
    """Name of the same method with the next shorter training time, if any."""
    given = budgets.get(method, 0.0)
    alike = [other for other in budgets if untimed(other) == untimed(method) and budgets[other] < given]
    return max(alike, key=lambda other: budgets[other], default="")


def read_rows(pieces: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Row]:
    """Return the curves of each method and weighting: seeds side by side, parts of a long run end to end."""
    kept: dict[tuple[str, str], dict[int, dict[str, Kept]]] = {}
    points = {piece["points"] for piece in pieces if "points" in piece}
    for piece in sorted(pieces, key=lambda piece: (piece["seed"], piece.get("first", 0))):
        method, first = piece["method"].partition(" from ")[0], piece.get("first", 0)
        for weights, curves in piece.get("kept", {}).items():
            before = kept.setdefault((method, weights), {}).setdefault(piece["seed"], {name: [] for name in curves})
            for name, numbers in curves.items():
                if len(before[name]) == first:  # else what comes before it is not there yet
                    before[name] += numbers
    return {key: read_row(list(seeds.values()), max(points)) for key, seeds in kept.items()}


def first_sitting(sittings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sitting with the most methods."""
    first: dict[str, Any] = next(iter(sittings.values()))
    return first


def chosen_in(sitting: Mapping[str, Any]) -> str:
    """Weighting that was chosen on validation images."""
    return sitting["choice"]["chosen"] if sitting["choice"] else "Shapley"


def main_row(sitting: Mapping[str, Any], method: str) -> tuple[str, dict[str, Any]]:
    """Return the name and figures of a method, under the chosen weighting if it has learned several."""
    rows = sitting["methods"][method]
    weights = chosen_in(sitting) if chosen_in(sitting) in rows else next(iter(rows))
    return label_of(method, weights), rows[weights]


def label_of(method: str, weights: str) -> str:
    """Name of a method under a weighting."""
    if method == NOT_CENTERED:
        return f"FW-Shapley as published, {weights}"
    if ", chosen" in method:
        return method.replace("chosen", weights)
    if method in {EVERY, LONG_RUN}:
        return f"{'ours' if method == EVERY else method}, {weights}"
    titles = {"encoder": "encoder, Shapley", searched_name("Shapley"): "UNet, Shapley", "gradcam": "GradCAM"}
    return titles.get(method, method)


FIGURES = dict(zip(EVALUATORS, ("inclusion_curves", "inclusion_curves_zero_masked"), strict=True))
"""Name of the figure of curves by each evaluator."""


def draw(results: Mapping[str, Any], evaluator: str, *, smoke: bool = False) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Curves by an evaluator, two panels for each data set, of its first sitting; the legend has the areas."""
    found = results["datasets"]
    figure = new_figure(width=13, height=4 * len(found))
    panels = figure.subplots(len(found), 2, squeeze=False)
    for (name, sittings), row in zip(found.items(), panels, strict=True):
        for kind, axes in zip(("inclusion", "exclusion"), row, strict=True):
            _draw_curves(axes, first_sitting(sittings), kind, evaluator)
            title = MADE_UP if smoke else resnet.DATASETS[name].title
            axes.set_title(f"{title}: {kind}, by the {evaluator}", fontsize="medium")
    return figure


def _draw_curves(axes: Any, sitting: Mapping[str, Any], kind: str, evaluator: str) -> None:  # noqa: ANN401 - matplotlib's Axes
    curve = f"{kind}, {evaluator}"
    lines = [(*main_row(sitting, method), style) for method, style in STYLES.items() if method in sitting["methods"]]
    better, most = -1 if kind == "inclusion" else 1, max(row["images"] for _, row, _ in lines)
    for label, row, style in sorted(lines, key=lambda line: better * line[1]["areas"][curve][0]):
        heights, area = row["curves"][curve], row["areas"][curve][0]
        shares = [point / (len(heights) - 1) for point in range(len(heights))]
        few = f" ({row['images']} images)" if row["images"] < most else ""
        axes.plot(shares, heights, label=f"{area:.3f}  {label}{few}", linewidth=1.4, **style)
    axes.set_xlabel(f"share {'shown' if kind == 'inclusion' else 'hidden'}, the most important first")
    axes.set_ylabel("images that keep their class")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.005)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, alpha=0.25)
    axes.legend(
        frameon=False, fontsize="small", title="area, best first", title_fontsize="small", alignment="left",
        loc="upper left", bbox_to_anchor=(1, 1),
    )  # fmt: skip
