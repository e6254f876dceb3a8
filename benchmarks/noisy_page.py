"""What the results page says of wrong labels on learnt features."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from features18 import KINDS, NOISES
from noisy_results import PAPER_NOISE, REFERENCES, TITLES, USUAL, reference_name
from page_text import listed, preliminary, spread, table
from provenance import joined_provenance

NOISY = """## Wrong labels: learnt features, the paper's figures c and d

{summary}

{preliminary}{players:,} players, of whose labels 10 % became y + 1; up to {references:,} clean reference images,
disjoint from them and from {unseen:,} unseen ones. Features: the last hidden layer of a ResNet-18 that was trained on
the players and their noisy labels for {steps} steps, from scratch (the paper fine-tunes one). Accuracy of the networks
on other images: {accuracy}. K = {k}, the soft utility unless it says vote. AUROC of finding the wrong labels, share of
them found after inspecting 10 % and 20 % of the players, F1 of calling the lower of two clusters of values wrong,
seconds; mean and standard deviation over {seeds}. Learned: "improved" is our network, taught by exact values;
"published" is the paper's, which learns from coalitions alone, for the vote. {learning}"unseen" values are of images
that nothing was trained on, a tenth of them mislabelled too; "rank corr." is that with exact values of the same
utility. Weightings of one kind share their time. G-Shapley made {passes} passes; TMC- and Beta-Shapley had {fits:,}
fits of a logistic regression each, spent on {retrained:,} of the players and judged by these alone: for all players
this budget is {each:.1f} fits each.

{methods}

![Wrong labels found against images inspected](figures/noisy_labels.png)

{failed}{accurate}

{leave_one_out}

AUROC by noise and by what the features were learnt from: the noisy labels; all of them but the one that is judged
(cross-fitted); and the true labels, which nobody has. Values are exact Shapley values on {usual}, and on none.

{noises}

{best}

{origins}
"""

BOUND = "clean labels"
"""Features that nobody has."""

CLOSE = 0.01
"""Difference of AUROCs that is called none."""

LEARNT = 0.5
"""Rank correlation with exact values below which a network has not learnt what it was to learn."""


def noisy_section(document: Mapping[str, Any]) -> str:
    """Return the section on wrong labels."""
    found, settings = document["results"], document["results"]["settings"]
    tables, sizes = found["tables"], settings["points"]
    return NOISY.format(
        summary=summary_text(tables),
        preliminary=preliminary(missing_text(found["missing"])),
        players=sizes[0],
        references=sizes[1],
        unseen=sizes[2],
        accuracy=accuracy_text(tables),
        seeds=f"{len(found['seeds'])} seed{'s' * (len(found['seeds']) > 1)}",
        usual=reference_name(USUAL),
        methods=table(*method_rows(tables)),
        failed=failed_text(tables),
        accurate=accurate_text(tables),
        leave_one_out=leave_one_out_text(tables),
        noises=table(*noise_rows(tables)),
        best=best_text(tables),
        origins=joined_provenance(document),
        each=settings["fits"] / sizes[0],
        **{name: settings[name] for name in ("k", "steps", "passes", "fits", "retrained")},
        learning=learning_text(settings),
    )


def noisy_text(document: Mapping[str, Any]) -> str:
    """What the first page says of clean reference points, by share of wrong labels."""
    ways = {way: f"Shapley, {way}" for way in (reference_name(USUAL), reference_name(REFERENCES[0]), "no reference")}
    parts = []
    for dataset, noises in document["results"]["tables"].items():
        for noise, kinds in noises.items():
            rows = kinds.get("noisy labels", {}).get("methods", {})
            if noise.startswith("next") and all(method in rows for method in ways.values()):
                areas = " / ".join(f"{rows[method]['auroc'][0]:.3f}" for method in ways.values())
                parts.append(f"{areas} on {TITLES[dataset]} with {noise.partition(', ')[2]} wrong")
    return (
        f" On features of a ResNet-18 that learnt from the same labels, some of them those of the next class, AUROC "
        f"with {' / '.join(ways)}, mean over {len(document['seeds'])} seeds: "
        f"{listed(parts)} ([all methods](docs/results.md))."
        if parts
        else ""
    )


def learning_text(settings: Mapping[str, Any]) -> str:
    """Say how long networks had to learn values."""
    times = {part: settings.get(f"seconds, {part}") for part in ("improved", "published")}
    told = listed(f"{seconds:g} s ({part})" for part, seconds in times.items() if seconds)
    sharing = "six networks at a time on one GPU"
    first = "what is worked out before comes on top"
    return f"They had {told} to learn ({first}), on {reference_name(USUAL)}, {sharing}; " if told else ""


def summary_text(tables: Mapping[str, Any]) -> str:
    """Return what was asked and what was found, in two sentences."""
    asked = "Do low data values on learnt features find wrong labels, and learned values as well as exact ones?"
    parts = []
    for dataset, rows in of_paper(tables).items():
        named = {
            "exact Shapley values": f"Shapley, {reference_name(USUAL)}",
            "the improved network": "learned, improved, Shapley",
            "the published one": "learned, published, Shapley",
            "the loss of the model itself": "model loss",
        }
        told = [f"{label} {rows[method]['auroc'][0]:.3f}" for label, method in named.items() if method in rows]
        parts.append(f"on {TITLES[dataset]} {listed(told)}")
    return f"{asked} AUROC with 10 % wrong: {'; '.join(parts)}." if parts else f"{asked} Not measured yet."


def missing_text(missing: list[Mapping[str, Any]]) -> str:
    """What is still to be done, by data set and noise."""
    groups: dict[str, dict[str, None]] = {}
    for job in missing:
        groups.setdefault(f"{TITLES[job['dataset']]} ({job['noise']})", {})[f"{job['part']}"] = None
    told = [f"{name}, {listed(parts)}" for name, parts in groups.items()]
    return f"still missing, of some seeds or all, are {'; '.join(told)}" if told else ""


def of_paper(tables: Mapping[str, Any], kind: str = "noisy labels") -> dict[str, Mapping[str, Any]]:
    """Methods under the paper's noise, by data set."""
    here = {dataset: noises.get(PAPER_NOISE, {}).get(kind, {}) for dataset, noises in tables.items()}
    return {dataset: rows["methods"] for dataset, rows in here.items() if rows}


def accuracy_text(tables: Mapping[str, Any]) -> str:
    """How accurate the networks are on images they have not seen, by data set."""
    parts = []
    for dataset, noises in tables.items():
        kinds = noises.get(PAPER_NOISE, {})
        known = [f"{spread(rows['accuracy'])} ({kind})" for kind, rows in kinds.items() if "accuracy" in rows]
        parts += [f"{TITLES[dataset]} {', '.join(known)}"] if known else []
    return "; ".join(parts) or "not recorded"


def method_rows(tables: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """All methods under the paper's noise and features, and those that need cross-fitted ones."""
    seen, crossed = of_paper(tables), of_paper(tables, "cross-fitted")
    names = {(method, "noisy labels"): method for rows in seen.values() for method in rows}
    names |= {
        (method, "cross-fitted"): f"{method}, cross-fitted"
        for rows in crossed.values()
        for method in rows
        if method.startswith(("self-confidence", "learned")) or method in shown_crossed()
    }
    lines = []
    for (method, kind), name in names.items():
        several = seen if kind == "noisy labels" else crossed
        cells = [cell for dataset in tables for cell in cells_of(several.get(dataset, {}).get(method))]
        lines.append([name, *cells])
    header = [
        f"{TITLES[dataset]}: {what}" for dataset in tables for what in ("AUROC", "10 % / 20 %", "F1", "rank corr.", "s")
    ]
    return ["", *header], lines


def shown_crossed() -> tuple[str, ...]:
    """Exact values on cross-fitted features that the main table shows."""
    return (f"Shapley, {reference_name(USUAL)}", "Shapley, no reference", "Data-OOB")


def cells_of(row: Mapping[str, list[float]] | None) -> list[str]:
    """AUROC, shares found, F1, agreement with exact values where there are some, and seconds."""
    if row is None:
        return ["", "", "", "", ""]
    found = f"{row['found_at_10'][0]:.0%} / {row['found_at_20'][0]:.0%}"
    agreed = f"{row['spearman'][0]:.2f}" if "spearman" in row else ""
    return [auroc_of(row), found, f"{row['f1'][0]:.2f}", agreed, f"{row['seconds'][0]:.2g}"]


def auroc_of(row: Mapping[str, Any]) -> str:
    """AUROC with its spread, where there are seeds enough for one."""
    return spread(row["auroc"]) if row["seeds"] > 1 else f"{row['auroc'][0]:.3f} (1 seed)"


def failed_text(tables: Mapping[str, Any]) -> str:
    """Say which methods gave no values, for which there is no figure."""
    told = [
        f"{method} ({kind}) on {TITLES[dataset]} ({noise}), seed {seed}: {why}"
        for dataset, noises in tables.items()
        for noise, kinds in noises.items()
        for kind, rows in kinds.items()
        for method, seeds in rows.get("failed", {}).items()
        for seed, why in seeds.items()
    ]
    return f"Failed, and left out for all seeds: {'; '.join(told)}.\n\n" if told else ""


def accurate_text(tables: Mapping[str, Any]) -> str:
    """Is the published network as accurate as exact values, as the paper says? The improved one?"""
    parts = []
    for dataset, rows in of_paper(tables).items():
        exact, vote = rows.get(f"Shapley, {reference_name(USUAL)}"), rows.get(f"Shapley, vote, {reference_name(USUAL)}")
        for way in ("published", "improved"):
            learned = rows.get(f"learned, {way}, Shapley")
            if learned and exact and vote:
                gap = learned["auroc"][0] - exact["auroc"][0]
                verdict = (
                    "as accurate" if abs(gap) < CLOSE else f"{'more' if gap > 0 else 'less'} accurate ({gap:+.3f})"
                )
                own = (
                    f"; exact values of its own utility, the vote: {vote['auroc'][0]:.3f}" if way == "published" else ""
                )
                if learned.get("spearman", [0.0])[0] <= LEARNT:
                    own += " (it has learnt too little for a verdict)"
                parts.append(
                    f"on {TITLES[dataset]} the {way} network, {learned['auroc'][0]:.3f}, is {verdict} beside exact "
                    f"Shapley values, {exact['auroc'][0]:.3f}{own}"
                )
    claim = f'The paper calls its network "equally accurate" as KNN-Shapley. By AUROC (equal: within {CLOSE}), '
    return f"{claim}{'; '.join(parts)}." if parts else "Learned values are not recorded yet."


def leave_one_out_text(tables: Mapping[str, Any]) -> str:
    """How leave-one-out does, and which method is best."""
    parts = []
    for dataset, rows in of_paper(tables).items():
        row = rows.get(f"leave-one-out, {reference_name(USUAL)}")
        judged = {name: each for name, each in rows.items() if is_comparable(name)}
        best = max(judged, key=lambda name: judged[name]["auroc"][0])
        beside = f"leave-one-out on {reference_name(USUAL)} {row['auroc'][0]:.3f}, " if row else ""
        found = f"best of all methods with these references or none: {best}, {judged[best]['auroc'][0]:.3f}"
        parts.append(f"{TITLES[dataset]}: {beside}{found}")
    scores = f"{'; '.join(parts)}. " if parts else ""
    return (
        f"{scores}Leave-one-out, done right, counts every point among the K nearest of some reference image; of the "
        "values in the files that the paper's authors published for it, at most one is not 0."
    )


def is_comparable(method: str) -> bool:
    """Whether a method values the players, and has as many clean references as usual or none at all."""
    return "unseen" not in method and ("references" not in method or reference_name(USUAL) in method)


COMPARED = {
    **{
        f"{method}: {kind}": (kind, method)
        for method in (f"Shapley, {reference_name(USUAL)}", f"Shapley, {reference_name(0)}")
        for kind in KINDS
    },
    "model loss": ("noisy labels", "model loss"),
    "self-confidence": ("cross-fitted", "self-confidence (cleanlab)"),
    "Data-OOB": ("noisy labels", "Data-OOB"),
}
"""Under all noises: exact values by features, and scores that need no reference; each with its features and method."""


def noise_rows(tables: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """AUROC by data set and noise."""
    rows = []
    for dataset, noises in tables.items():
        for noise, kinds in noises.items():
            found = [kinds.get(kind, {}).get("methods", {}).get(method) for kind, method in COMPARED.values()]
            rows.append([f"{TITLES[dataset]}, {noise}", *(auroc_of(row) if row else "" for row in found)])
    return ["", *COMPARED], rows


def best_text(tables: Mapping[str, Any]) -> str:
    """Say what finds the most under each noise, of what can be had without the players' true labels."""
    parts = []
    for noise in NOISES:
        means = {}
        known = [noises[noise] for noises in tables.values() if noise in noises]
        for column, (kind, method) in COMPARED.items():
            named = [kinds.get(kind, {}).get("methods", {}).get(method) for kinds in known]
            if kind != BOUND and named and all(named):
                means[column] = statistics.fmean(row["auroc"][0] for row in named)
        best = sorted(means, key=lambda column: -means[column])[:2]
        told = ", then ".join(f'"{column}" {means[column]:.3f}' for column in best)
        parts += [f"{noise}, {told}"] if told else []
    found = f"The best of them without true labels of the players, mean over data sets: {'; '.join(parts)}."
    return f"{found} (The references are clean.)" if parts else ""
