"""What the results page says of wrong labels on learnt features, and of what data values cost: the paper's Table 2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noisy_labels import PAPER_NOISE, TITLES, USUAL, reference_name
from page_text import duration, listed, spread, table
from provenance import calls_text, joined_provenance

NOISY = """## Wrong labels: learnt features, the paper's figures c and d

{summary}

{preliminary}{players:,} players, of whose labels 10 % became y + 1; up to {references:,} clean reference images,
disjoint from them and from {unseen:,} unseen ones. Features: the last hidden layer of a ResNet-18 that was trained on
the players and their noisy labels for {steps} steps, from scratch (the paper fine-tunes one). Accuracy of the networks
on other images: {accuracy}. K = {k}, the soft utility unless it says vote. AUROC of finding the wrong labels, share of
them found after inspecting 10 % and 20 % of the players, F1 of the lower of two clusters, seconds; mean and standard
deviation over {seeds}. {learning}"unseen" values are of images that nothing was trained on, a tenth of them
mislabelled too; "exact" is the rank correlation with exact values of the same utility. Weightings of one kind share
their time. G-Shapley made {passes} passes; TMC- and Beta-Shapley had {fits:,} fits of a logistic regression each, spent
on {retrained:,} of the players and judged by these alone: for all players this budget is {each:.1f} fits each.

{methods}

![Wrong labels found against images inspected](figures/noisy_labels.png)

{failed}{accurate}

{leave_one_out}

AUROC by noise and by what the features were learnt from: the noisy labels; all of them but the one that is judged
(cross-fitted); and the true labels, which nobody has. Values are exact Shapley values on {usual}, and on none.

{noises}

{origins}
"""

TIMES = """## What data values cost: the paper's Table 2

{speedup}

{preliminary}Every method values the same {points:,} training images of SVHN for the same {references:,} references, its
whole test set: 512 features ({features}), K = {k}, all on one machine: {machine}. The first row, which all the others
need and none includes, is of {images:,} images. "~" is extrapolated to one contribution of every image, from what was
measured; values of any use take many times that. A learned network's time to learn comes second. Methods that retrain
use the processor alone. The paper's times are minutes on a GTX 1080.

{times}

![Seconds by method](figures/table2.png)

{command}, {date}.
"""

EXACT = "KNN-Shapley"
CLOSE = 0.01
"""Difference of AUROCs that is called none."""

LEARNT = 0.5
"""Rank correlation with exact values below which a network has not learnt what it was to learn."""


def noisy_section(noisy: Mapping[str, Any] | None, times: Mapping[str, Any] | None) -> str:
    """Both sections, from what was recorded; nothing of what was not."""
    parts = [detection_section(noisy) if noisy else "", times_section(times) if times else ""]
    return "\n".join(part for part in parts if part)


def detection_section(document: Mapping[str, Any]) -> str:
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
        origins=joined_provenance(document),
        each=settings["fits"] / sizes[0],
        **{name: settings[name] for name in ("k", "steps", "passes", "fits", "retrained")},
        learning=learning_text(settings),
    )


def learning_text(settings: Mapping[str, Any]) -> str:
    """Say how long networks had to learn values."""
    times = {part: settings.get(f"seconds, {part}") for part in ("improved", "published")}
    told = listed(f"{seconds:g} s ({part})" for part, seconds in times.items() if seconds)
    return f"Learned values had {told} to learn, on {reference_name(USUAL)}; " if told else ""


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


def preliminary(missing: str) -> str:
    """Say that figures are not final, where something is missing."""
    return f"Preliminary: {missing}.\n\n" if missing else ""


def missing_text(missing: list[Mapping[str, Any]]) -> str:
    """What is still to be done, by data set and noise."""
    groups: dict[str, dict[int, int]] = {}
    for job in missing:
        seeds = groups.setdefault(f"{TITLES[job['dataset']]} ({job['noise']})", {})
        seeds[job["seed"]] = seeds.get(job["seed"], 0) + 1
    told = []
    for name, seeds in groups.items():
        alike = {count: [str(seed) for seed in seeds if seeds[seed] == count] for count in seeds.values()}
        parts = [
            f"{count} part{'s' * (count > 1)} of {'each of the seeds' if len(those) > 1 else 'seed'} {listed(those)}"
            for count, those in alike.items()
        ]
        told.append(f"{name}, {listed(parts)}")
    return f"still missing are {'; '.join(told)}" if told else ""


def of_paper(tables: Mapping[str, Any], kind: str = "noisy labels") -> dict[str, Mapping[str, Any]]:
    """Methods under the paper's noise, by data set."""
    here = {dataset: noises.get(PAPER_NOISE, {}).get(kind, {}) for dataset, noises in tables.items()}
    return {dataset: rows["methods"] for dataset, rows in here.items() if rows}


def accuracy_text(tables: Mapping[str, Any]) -> str:
    """How accurate the networks are on images they have not seen, by data set."""
    parts = []
    for dataset, noises in tables.items():
        kinds = noises.get(PAPER_NOISE, {})
        known = [f"{rows['accuracy'][0]:.1%} ({kind})" for kind, rows in kinds.items() if "accuracy" in rows]
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
        f"{TITLES[dataset]}: {what}" for dataset in tables for what in ("AUROC", "10 % / 20 %", "F1", "exact", "s")
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
    return [spread(row["auroc"]), found, f"{row['f1'][0]:.2f}", agreed, f"{row['seconds'][0]:.2g}"]


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
    claim = 'The paper calls its network "equally accurate" as KNN-Shapley. By AUROC (equal: within 0.01), '
    return f"{claim}{'; '.join(parts)}." if parts else "Learned values are not recorded yet."


def leave_one_out_text(tables: Mapping[str, Any]) -> str:
    """How leave-one-out does, and which method is best."""
    parts = []
    for dataset, rows in of_paper(tables).items():
        row = rows.get(f"leave-one-out, {reference_name(USUAL)}")
        judged = {name: each for name, each in rows.items() if "unseen" not in name}
        best = max(judged, key=lambda name: judged[name]["auroc"][0])
        beside = f"leave-one-out {row['auroc'][0]:.3f}, " if row else ""
        parts.append(f"{TITLES[dataset]}: {beside}best of all {best}, {judged[best]['auroc'][0]:.3f}")
    scores = f"{'; '.join(parts)}. " if parts else ""
    return (
        f"{scores}Leave-one-out, done right, counts every point among the K nearest of some reference image; of the "
        "values that the paper's authors published for it, at most one is not 0."
    )


def noise_rows(tables: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """AUROC by data set and noise: exact values by features, and scores that need no reference."""
    columns = {
        f"{label}: {kind}": (kind, method)
        for label, method in (
            ("clean reference", f"Shapley, {reference_name(USUAL)}"),
            ("none", "Shapley, no reference"),
        )
        for kind in ("noisy labels", "cross-fitted", "clean labels")
    }
    columns |= {
        "model loss": ("noisy labels", "model loss"),
        "self-confidence": ("cross-fitted", "self-confidence (cleanlab)"),
        "Data-OOB": ("noisy labels", "Data-OOB"),
    }
    rows = []
    for dataset, noises in tables.items():
        for noise, kinds in noises.items():
            found = [kinds.get(kind, {}).get("methods", {}).get(method) for kind, method in columns.values()]
            rows.append([f"{TITLES[dataset]}, {noise}", *(spread(row["auroc"]) if row else "" for row in found)])
    return ["", *columns], rows


def times_section(document: Mapping[str, Any]) -> str:
    """Return the section on time."""
    found = document["results"]
    rows = found["rows"]
    usual = next((row for row in rows if row["references"]), rows[0])
    images = next((row["points"] for row in rows if not row["references"]), usual["points"] + usual["references"])
    return TIMES.format(
        preliminary=preliminary(f"{listed(found['missing'])} not timed yet" if found["missing"] else ""),
        points=usual["points"],
        references=usual["references"],
        images=images,
        features=found["features"],
        k=found["k"],
        machine=listed(found["machines"]),
        times=table(*time_rows(found)),
        speedup=speedup_text(rows),
        command=calls_text(document),
        date=document["date"][:10],
    )


def time_rows(found: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Seconds of each method, beside the paper's minutes."""
    lines = []
    for row in found["rows"]:
        about = "~" if row["extrapolated"] else ""
        learning = f" + {duration(row['learning'])}" if "learning" in row else ""
        paper = found["paper minutes"].get(row["method"], "")
        measured = row["extrapolated"] or "whole"
        lines.append([row["method"], f"{about}{duration(row['seconds'])}{learning}", measured, paper])
    return ["", "time", "measured", "paper, min"], lines


def speedup_text(rows: list[Mapping[str, Any]]) -> str:
    """Is a learned network 14 times as fast as KNN-Shapley, learning included, as the paper says?"""
    times = {row["method"]: row for row in rows}
    if not {EXACT, "learned, published"} <= times.keys():
        return "Exact and learned values are not both timed yet."
    exact, learned = times[EXACT]["seconds"], times["learned, published"]
    alone, together = learned["seconds"] / exact, (learned["seconds"] + learned["learning"]) / exact
    return (
        "Is the paper's network 14 times as fast as KNN-Shapley, learning included? Here exact values take "
        f"{duration(exact)}. The published network, which had "
        f"{duration(learned['learning'])} to learn, takes {together:.3g} times as long with learning, and {alone:.3g} "
        "times as long without."
    )
