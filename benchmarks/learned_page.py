"""What the results page says of learned data values, from benchmarks/results/learned_valuation.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from learned_valuation import FITS, METHODS, WEIGHTS
from page_text import listed, spread, table
from provenance import joined_provenance

CLOSE = 0.01
"""Difference of correlations that is none."""

PAGE = """## Learned data values

A tenth of the labels became y + 1. Spearman correlation of learned with exact values of the same utility (K = {k}),
mean and standard deviation over {seeds} seeds, after {longest} of training: points seen, and unseen ones (in N +
{{point}}). The network taught by regression knows all weightings at once; the published form was taught Shapley alone,
on batches of {batch}, and is also held against what that estimates, the semivalue of the size law of {batch} players
("batch law"). AUROC of finding the wrong labels, at the Shapley value, beside that of exact values.

{agreement}

Which learns faster? Spearman correlation with exact values at the Shapley value, points seen, against training time:

{speed}

![Agreement against training time, and ranking quality against fits](figures/learned_valuation.png)

**Unseen points: the network or the index?** {latency}

{large}{throughput}

**A model that is retrained.** Two models, each on {players} digits, and its accuracy on {references} others: Spearman
correlation with a run of least squares on {fits:,} fits, and AUROC of the wrong labels in brackets, against fits.

{study}

{payoff}

Runs: {runs}.

{provenance}
"""


def learned_section(document: Mapping[str, Any]) -> str:
    """The section, from what was recorded."""
    found, settings = document["results"], document["results"]["settings"]
    tasks, study = found["tasks"], found["study"]
    longest = list(next(iter(tasks.values()))["regression, soft"])[-1]
    return PAGE.format(
        k=settings["k"],
        batch=settings["batch"],
        seeds=len(document["seeds"]),
        longest=longest,
        agreement=table(*agreement_rows(tasks, longest)),
        speed=table(*speed_rows(tasks)),
        latency=latency_text(tasks, longest, settings["queries"]),
        large=large_text(found.get("large")),
        throughput=throughput_text(found.get("throughput")),
        players=found["players"],
        references=2 * found["players"],
        fits=found["reference fits"],
        study=table(*study_rows(study)),
        payoff=" ".join(payoff_text(model, rows) for model, rows in study.items()),
        runs=listed(f"{runs} seed{'s' * (runs > 1)} of {part}" for part, runs in found["runs"].items()),
        provenance=joined_provenance(document),
    )


def learned_text(document: Mapping[str, Any]) -> str:
    """What the first page says."""
    tasks = document["results"]["tasks"]
    longest = list(next(iter(tasks.values()))["regression, soft"])[-1]
    runs = {task: found["regression, soft"][longest] for task, found in tasks.items()}
    seen, unseen, small, large = (
        listed(f"{run[f'{which} spearman'][0]:.2f} on {task}" for task, run in runs.items())
        for which in ("seen Shapley", "unseen Shapley", "unseen Beta(16, 1)", "unseen Beta(1, 4)")
    )
    return (
        f"After {longest} of learning, a network ranks training points as their exact Shapley values do with a "
        f"Spearman correlation of {seen}; unseen points with {unseen}. At Beta(16, 1), unseen points: {small}; at "
        f"Beta(1, 4), where few neighbours decide: {large} ([all figures](docs/results.md))."
    )


def agreement_rows(tasks: Mapping[str, Any], longest: str) -> tuple[list[str], list[list[str]]]:
    """Agreement after the longest training, a row for each task and way to learn."""
    rows = []
    for task, found in tasks.items():
        for method, utility in METHODS:
            if f"{method}, {utility}" not in found:
                continue
            run = found[f"{method}, {utility}"][longest]
            cells = [
                f"{spread(run[f'seen {each} spearman'])} / {spread(run[f'unseen {each} spearman'])}"
                if f"seen {each} spearman" in run
                else ""
                for each in WEIGHTS
            ]
            detected = f"{run['auroc Shapley'][0]:.3f} ({found[f'exact, {utility}']['auroc Shapley'][0]:.3f})"
            rows.append([f"{task}: {method}, {utility}", *cells, spread(run["batch law spearman"]), detected])
    header = ["", *(f"{each}, seen / unseen" for each in WEIGHTS), "batch law", "AUROC (exact)"]
    return header, rows


def speed_rows(tasks: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Agreement by training time."""
    budgets = list(next(iter(tasks.values()))["regression, soft"])
    rows = [
        [
            f"{task}: {method}, {utility}",
            *(spread(found[f"{method}, {utility}"][each]["seen Shapley spearman"]) for each in budgets),
        ]
        for task, found in tasks.items()
        for method, utility in METHODS
        if f"{method}, {utility}" in found
    ]
    return ["", *budgets], rows


def latency_text(tasks: Mapping[str, Any], longest: str, queries: int) -> str:
    """Time and agreement of network and index on the tasks."""
    parts = []
    for task, found in tasks.items():
        network, exact = found["regression, soft"][longest], found["exact, soft"]
        parts.append(
            f"{task} {1e3 * network['seconds unseen'][0]:.0f} ms by the network, "
            f"{1e3 * exact['seconds unseen'][0]:.0f} ms by the index"
        )
    return (
        f"Up to {queries:,} unseen points, three weightings: {'; '.join(parts)}. The index is exact, so where it fits "
        "into memory and its time will do, take it."
    )


def large_text(large: Mapping[str, float] | None) -> str:
    """Return the comparison on many points."""
    if large is None:
        return ""
    return (
        f"With {large['points']:,} points and {large['references']:,} reference points of Fashion-MNIST, "
        f"{large['unseen']:,} unseen ones take {1e3 * large['network']:.0f} ms by the network (Spearman "
        f"{large['network spearman']:.3f}, AUROC {large['network auroc']:.3f}; learnt in "
        f"{large['network learnt in']:.0f} s) and {1e3 * large['index']:.0f} ms by the index (exact, AUROC "
        f"{large['auroc']:.3f}; made in {large['index made in']:.0f} s). An index of {large['few references']:.0f} "
        f"reference points, {1e3 * large['index of few']:.0f} ms, has a Spearman correlation of "
        f"{large['index of few spearman']:.3f} and an AUROC of {large['index of few auroc']:.3f}. One seed. "
    )


def throughput_text(throughput: Mapping[str, float] | None) -> str:
    """Return how many points a network values in a second."""
    if throughput is None:
        return ""
    return (
        f"A network values {throughput['points per second'] / 1e6:.1f} million points of 512 columns a second, where "
        "they are on the GPU already."
    )


def study_rows(study: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Ranking quality by fits, of each model."""
    budgets = sorted({int(fits) for found in study.values() for method in FITS for fits in found[method]})
    rows = []
    for model, found in study.items():
        free = ("nearest neighbours", "simpler models")
        rows += [[f"{model}: {each}", score(found[each]), *[""] * len(budgets)] for each in free]
        for method in FITS:
            cells = [score(found[method][str(fits)]) if str(fits) in found[method] else "" for fits in budgets]
            rows.append([f"{model}: {method}", "", *cells])
    return ["fits", "none", *(f"{fits:,}" for fits in budgets)], rows


def payoff_text(model: str, study: Mapping[str, Any]) -> str:
    """How many fits sampling needs for the ranking that the fewest give when learnt, and what more of them add."""
    fewest, most = min(map(int, study["learned"])), max(map(int, study["learned"]))
    reached, guess = study["learned"][str(fewest)]["spearman"][0], study["simpler models"]["spearman"][0]
    added = study["learned"][str(most)]["spearman"][0] - guess
    parts = []
    for method in ("least squares", "tmc"):
        enough = [int(fits) for fits, row in study[method].items() if row["spearman"][0] >= reached]
        parts.append(f"{min(enough):,}" if enough else f"more than {max(map(int, study[method])):,}")
    without = guess >= reached - CLOSE
    found = [study["simpler models"]["auroc"][0], *(study["learned"][str(fits)]["auroc"][0] for fits in (fewest, most))]
    return (
        f"{model.capitalize()}: the simpler models alone, no fit at all, have {guess:.3f}, to which {fewest} fits add "
        f"{reached - guess:+.3f} and {most:,} add {added:+.3f} (the long run's reliability is "
        f"{study['reference']['reliability'][0]:.2f}). So with {'no fit or ' * without}{fewest} fits values rank as "
        f"well as with {parts[0]} fits of least squares and {parts[1]} of TMC-Shapley. Wrong labels are found with an "
        f"AUROC of {found[0]:.3f} by the simpler models, {found[1]:.3f} after {fewest} fits, {found[2]:.3f} after "
        f"{most:,}, and {study['reference']['auroc'][0]:.3f} by the long run: the model's own values are not the best "
        "to find them by."
    )


def score(row: Mapping[str, Any]) -> str:
    """Spearman correlation, and AUROC."""
    return f"{spread(row['spearman'])} ({row['auroc'][0]:.3f})"
