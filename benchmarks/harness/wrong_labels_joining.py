"""The parts of experiments/wrong_labels_resnet.py, joining their results from several machines, and drawing them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness.pieces import commands, joined_origins, origins, read_piece
from benchmarks.harness.statistics import summarize
from benchmarks.models.resnet_features import KINDS, NOISES, Kind
from fwshapley.plots import COLORS, new_figure

SEEDS = (0, 1, 2)
REFERENCES = (100, 1_000)
USUAL = REFERENCES[-1]
PAPER_NOISE = next(iter(NOISES))
TITLES = {"svhn": "SVHN", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "digits": "digits"}
PARTS = ("exact", "improved", "published", "scores", "gradient", "tmc", "beta")
SCORED = KINDS[:2]
"""Features that all methods are asked for; those of clean labels are only a bound."""

CURVE = tuple(share / 40 for share in range(21))
"""Shares inspected, of a curve: up to a half."""

Row = dict[str, Any]


class Job(NamedTuple):
    """One part of one task."""

    noise: str
    seed: int
    dataset: str
    kind: Kind
    part: str

    @property
    def name(self) -> str:
        """Name of its file."""
        return f"{self.task}, {self.part}"

    @property
    def task(self) -> str:
        """Name of the file of its points."""
        return f"{self.dataset}, {self.noise}, {self.seed}, {self.kind}"


def plan(seeds: Sequence[int], datasets: Sequence[str]) -> Iterator[Job]:
    """All jobs of a full run, the most important first: the paper's noise, one seed of every data set."""
    for noise, seed, dataset, kind in itertools.product(NOISES, seeds, datasets or list(TITLES)[:2], KINDS):
        for part in PARTS:
            everywhere = part == "exact" or (part == "scores" and kind in SCORED)
            learned = part in ("improved", "published") and kind in SCORED
            retrained = part in ("gradient", "tmc", "beta") and kind == "noisy labels"
            if everywhere or (noise == PAPER_NOISE and (learned or retrained)):
                yield Job(noise, seed, dataset, kind, part)


def reference_name(references: int) -> str:
    """Name of a reference in the tables."""
    return f"{references:,} references" if references else "no reference"


def join(work: Path, seeds: Sequence[int], known: Sequence[str], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """Join all pieces in a folder, and list the missing ones.

    Args:
        work: folder of the pieces.
        seeds: seeds that were asked for.
        known: names of data sets; the first two belong to a full run.
        earlier: recorded results; noise types without pieces in the folder stay as they are.
    """
    found = {job: read_piece(work / f"{job.name}.json") for job in plan(sorted({*SEEDS, *seeds}), known)}
    kept = {job: piece for job, piece in found.items() if piece is not None}
    if not kept:
        raise SystemExit(f"nothing is kept in {work}: do some parts first")
    anew, tabled = {job.noise for job in kept}, tables(kept)
    stay = {noise for noises in earlier.get("tables", {}).values() for noise in noises} - anew
    settings = dict(earlier.get("settings", {})) if stay else {}
    for piece in kept.values():
        for name, setting in piece["settings"].items():
            if settings.setdefault(name, setting) != setting:
                raise SystemExit(f"pieces in {work}, or an earlier record, were made with other settings: {name}")
    check_complete(tabled, earlier.get("tables", {}), anew, work)
    made = {noise: earlier["made"][noise] if noise in stay else made_of(noise, found, known) for noise in NOISES}
    for dataset, noises in earlier.get("tables", {}).items():
        tabled[dataset] = {noise: noises[noise] for noise in stay & noises.keys()} | tabled.get(dataset, {})
    return {
        "tables": in_order(tabled),
        "curves": curves(kept) if PAPER_NOISE in anew else earlier.get("curves", {}),
        "settings": settings,
        "made": made,
        "seeds": sorted({seed for how in made.values() for seed in how["seeds"]}),
        "missing": [job for how in made.values() for job in how["missing"]],
        "commands": sorted({command for how in made.values() for command in how["commands"]}),
        "machines": joined_origins(how["machines"] for how in made.values()),
        "seconds": sum(how["seconds"] for how in made.values()),
    }


def check_complete(tabled: Mapping[str, Any], earlier: Mapping[str, Any], anew: Collection[str], work: Path) -> None:
    """End with a message if joining would drop methods that were recorded."""
    for dataset, noises in earlier.items():
        for noise, kinds in noises.items():
            now = tabled.get(dataset, {}).get(noise, {})
            for kind, rows in kinds.items():
                lost = rows.get("methods", {}).keys() - now.get(kind, {}).get("methods", {}).keys()
                if noise in anew and lost:
                    raise SystemExit(
                        f"{work} lacks pieces of {TITLES[dataset]} ({noise}, {kind}) that were recorded, such as "
                        f"{min(lost)}: put them there, or give another --out"
                    )


def made_of(noise: str, found: Mapping[Job, Any], known: Sequence[str]) -> dict[str, Any]:
    """How the pieces of one noise type were made, and which are missing."""
    kept = {job: piece for job, piece in found.items() if piece is not None and job.noise == noise}
    wanted = {*known[:2], *(job.dataset for job in kept)}  # the third data set is a bonus
    missing = [job for job, piece in found.items() if piece is None and job.noise == noise and job.dataset in wanted]
    return {
        "seeds": sorted({job.seed for job in kept}),
        "missing": [job._asdict() for job in missing],
        "commands": commands(kept.values()),
        "machines": origins((job.part, piece) for job, piece in kept.items()),
        "seconds": sum(piece["seconds"] for piece in kept.values()),
    }


def in_order(tabled: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return tables with data sets and noises in the order they are named in."""
    return {
        dataset: {noise: tabled[dataset][noise] for noise in NOISES if noise in tabled[dataset]}
        for dataset in TITLES
        if dataset in tabled
    }


def tables(kept: Mapping[Job, Any]) -> dict[str, Any]:
    """Mean and spread over seeds, by data set, noise, features and method."""
    found: dict[str, Any] = {}
    for job in kept:
        here = found.setdefault(job.dataset, {}).setdefault(job.noise, {}).setdefault(job.kind, {})
        if job.part in here.get("runs", {}):
            continue
        seeds = {other.seed: piece for other, piece in kept.items() if other._replace(seed=job.seed) == job}
        pieces = list(seeds.values())
        for name in dict.fromkeys(name for piece in pieces for name in piece["found"]):
            rows = {seed: piece["found"][name] for seed, piece in seeds.items() if name in piece["found"]}
            failed = {str(seed): row["failed"] for seed, row in rows.items() if "failed" in row}
            if failed:  # a mean over those seeds that went well would flatter
                here.setdefault("failed", {})[name] = failed
            else:
                summary = summarize(in_common(list(rows.values())))
                here.setdefault("methods", {})[name] = summary | {"seeds": len(rows)}
        here.setdefault("runs", {})[job.part] = len(pieces)
        if job.part == "exact":
            here["accuracy"] = summarize([piece["accuracy"] for piece in pieces])
    return found


def in_common(rows: Sequence[Row]) -> list[Row]:
    """Return the figures of a method's rows that go into a table: those that all seeds have."""
    names = [key for key in rows[0] if key != "curve" and all(key in row for row in rows)]
    return [{key: row[key] for key in names} for row in rows]


def curves(kept: Mapping[Job, Any]) -> dict[str, dict[str, list[float]]]:
    """Mean detection curves under the paper's noise, by data set and method; the features are those of the paper."""
    found: dict[str, dict[str, list[list[float]]]] = {}
    for job, piece in kept.items():
        if job.noise == PAPER_NOISE:
            for method, row in piece["found"].items():
                name = f"{method}, {job.kind}"
                if name in DRAWN and "failed" not in row:
                    found.setdefault(job.dataset, {}).setdefault(name, []).append(row["curve"])
    return {
        dataset: {name: np.mean(rows[name], axis=0).round(4).tolist() for name in DRAWN if name in rows}
        for dataset, rows in found.items()
    }


DRAWN = {
    f"Shapley, {reference_name(USUAL)}, noisy labels": "exact Shapley",
    f"Beta(16, 1), {reference_name(USUAL)}, noisy labels": "exact Beta(16, 1)",
    f"leave-one-out, {reference_name(USUAL)}, noisy labels": "leave-one-out",
    "learned, improved, Shapley, noisy labels": "learned, ours",
    "learned, published, Shapley, noisy labels": "learned, the paper's",
    "G-Shapley, noisy labels": "G-Shapley",
    "model loss, noisy labels": "model loss",
    "self-confidence (cleanlab), cross-fitted": "self-confidence, cross-fitted",
    "random order, noisy labels": "random order",
}
"""Curves that are drawn, and what the figure calls them."""

STYLES = (
    (COLORS[0], "-", 5.0),
    (COLORS[1], "-", 3.2),
    (COLORS[2], "-", 1.5),
    (COLORS[3], "--", 2.2),
    (COLORS[4], "--", 1.5),
    (COLORS[5], "-", 1.5),
    (COLORS[6], "-", 1.0),
    (COLORS[0], "-.", 1.5),
    (COLORS[7], ":", 1.5),
)
"""Color, line and width of each: curves that lie upon each other get narrower, so that all are seen."""


def draw(found: Mapping[str, Mapping[str, Sequence[float]]]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Share of the wrong labels found against the share of images inspected, a panel for each data set."""
    figure = new_figure(width=3.6 * len(found) + 2, height=3.6)
    styles = dict(zip(DRAWN, STYLES, strict=True))
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for axes, (dataset, rows) in zip(panels, found.items(), strict=True):
        for name, curve in rows.items():
            color, style, width = styles[name]
            shares = [100 * share for share in CURVE]
            axes.plot(shares, [100 * each for each in curve], style, color=color, linewidth=width, label=DRAWN[name])
        axes.set_title(TITLES[dataset], fontsize="medium")
        axes.set_xlabel("images inspected, %")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(visible=True, alpha=0.25)
    panels[0].set_ylabel("wrong labels found, %")
    most = max(panels, key=lambda axes: len(axes.get_lines()))
    figure.legend(*most.get_legend_handles_labels(), frameon=False, fontsize="small", loc="outside right center")
    return figure
