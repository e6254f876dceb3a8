"""What the results page says of one sitting of the inclusion benchmark: one data set, and models trained once."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from inclusion_longer import longer_rows, longer_text
from inclusion_results import (
    BASE,
    CHOSEN,
    CURVES,
    EVALUATORS,
    EVERY,
    KERNEL_SHAP,
    LONG_RUN,
    NOT_CENTRED,
    Sitting,
    chosen_in,
    is_timed,
    label_of,
    main_row,
    searched_name,
)  # fmt: skip
from page_text import emphasis, listed, percent, rounded, table

EARLIER = "UNets and encoders drew sizes by the law alone, as an earlier version did"


def sitting_text(title: str, sitting: Sitting, number: int) -> str:
    """Return what one sitting found on a data set; that of number 1 is the fullest."""
    again = f", sitting {number}, with models trained anew" if number > 1 else ""
    parts = [f"### {title}{again}", f"{facts_text(sitting['facts'])} {choice_text(sitting)}"]
    parts += [table(*method_rows(sitting)), spread_text(sitting)]
    if is_of_earlier_objective(sitting):
        parts += [f"{EARLIER}."]
    if EVERY in sitting["methods"]:
        parts += ["All weightings, from the one network for every weighting:", table(*weighting_rows(sitting))]
    searched = [method for method in sitting["methods"] if is_searched(method)]
    if len(searched) > 1:
        parts += ["All weightings, a UNet for each:", table(*searched_rows(sitting, searched))]
        parts += [failed_text(sitting, searched)]
    longer = longer_text(sitting)
    if longer:
        parts += [f"Does longer training help? {longer}"]
        parts += [table(["", "training", *map(short, CURVES)], longer_rows(sitting))]
    return "\n\n".join(part for part in (*parts, factors_text(sitting)) if part) + "\n"


def facts_text(facts: Mapping[str, Any]) -> str:
    """Say how good the model is, and how often its surrogates say the same of whole images."""
    explained, judging = (facts[part]["agreement"] for part in ("surrogate", "judge"))
    return (
        f"The model is {facts['accuracy']:.1%} accurate; the surrogate that is explained says the same of "
        f"{explained:.1%} of whole images, the one that judges of {judging:.1%}."
    )


def choice_text(sitting: Sitting) -> str:
    """Say which weighting was chosen, and how close it was."""
    choice = sitting["choice"]
    if choice is None:
        return "No weighting has been chosen yet."
    chosen, areas, other = choice["chosen"], choice["areas"], choice["areas, zero-masked model"]
    rival = max((name for name in other if name != "Shapley"), key=lambda name: other[name])
    search = sitting["search"]
    if search:
        best = max(search, key=lambda name: search[name])
        others = listed(f"{name} {area:.3f}" for name, area in search.items())
        searched = (
            f"Search by UNets, {sitting['search seconds']} s each, areas on validation images: {others}; so {best} "
            f"for UNet and encoder.{unlearnt_text(sitting)}"
        )
    else:
        searched = (
            "No UNets were searched through: the UNet was given the same." if CHOSEN in sitting["methods"] else ""
        )
    return (
        f"Chosen among the eight on validation images by the network for every weighting: {chosen}, with an area of "
        f"{areas[chosen]:.4f}. (By the zero-masked model it would have been {rival}.) Shapley, which was not up for "
        f"choice, has {areas['Shapley']:.4f}. {searched}".rstrip()
    )


def unlearnt_text(sitting: Sitting) -> str:
    """Say which UNets of the search are so bad that the choice was in effect among the others."""
    if "random" not in sitting["methods"]:
        return ""
    chance = sitting["methods"]["random"]["random"]["areas"][CURVES[0]][0]
    unlearnt = [name for name, area in sitting["search"].items() if area < chance]
    return (
        f" Those for {listed(unlearnt)} have less than a random order has on test images by another judge "
        f"({chance:.3f}), so the choice was in effect among {len(sitting['search']) - len(unlearnt)}."
        if unlearnt
        else ""
    )


def is_of_earlier_objective(sitting: Sitting) -> bool:
    """Whether networks for one weighting were trained before sizes were drawn by how far residuals spread."""
    methods = {name: rows for name, rows in sitting["methods"].items() if name not in {BASE, EVERY, NOT_CENTRED}}
    rows = [row for name, rows in methods.items() if not is_timed(name) for row in rows.values()]
    return any(not row["training"].get("by spread") for row in rows if "training" in row)


def method_rows(sitting: Sitting) -> tuple[list[str], list[list[str]]]:
    """Areas of all methods, from the largest inclusion area to the smallest."""
    quarters = [f"inclusion, {evaluator}, first quarter" for evaluator in EVALUATORS]
    rows = []
    others = [method for method in sitting["methods"] if is_searched(method) or is_timed(method)]
    others = [method for method in others if method != searched_name("Shapley")]
    lines = [(method, *main_row(sitting, method)) for method in sitting["methods"] if method not in others]
    if len(sitting["methods"].get(EVERY, {})) > 1:
        lines.append((EVERY, label_of(EVERY, "Shapley"), sitting["methods"][EVERY]["Shapley"]))
    for method, label, row in sorted(lines, key=lambda line: -line[2]["areas"][CURVES[0]][0]):
        seconds = f"{row['training']['seconds']:.0f} s" if "training" in row else ""
        areas = [area_of(row, name) for name in CURVES] + [f"{row['areas'][name][0]:.3f}" for name in quarters]
        own = method == BASE or "over base" not in row
        gains = ["" if own else percent(row["over base"][name].get("relative")) for name in (CURVES[0], CURVES[2])]
        few = f" ({row['images']} images)" if method in {KERNEL_SHAP, LONG_RUN} else ""
        seeds = len(row["by seed"].get(CURVES[0], []))
        few += f" ({seeds} seeds)" if seeds > 1 else ""
        rows.append([label + few, seconds, *areas, *gains])
    header = ["", "training", *map(short, CURVES), *map(short, quarters)]
    return [*header, *(f"gain over {BASE}, {short(name)}" for name in (CURVES[0], CURVES[2]))], rows


def weighting_rows(sitting: Sitting) -> tuple[list[str], list[list[str]]]:
    """Areas of the network for every weighting under each, from small coalitions to large."""
    rows = sitting["methods"][EVERY]
    ordered = sorted(rows, key=emphasis)
    chosen = chosen_in(sitting)
    return ["weighting", *map(short, CURVES)], [
        [f"**{name}**" if name == chosen else name, *(area_of(rows[name], curve) for curve in CURVES)]
        for name in ordered
    ]


def is_searched(method: str) -> bool:
    """Whether a method is a UNet of the search."""
    return method.startswith(searched_name(""))


def searched_rows(sitting: Sitting, searched: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Areas of the UNets of the search, from small coalitions to large."""
    found = {weights: row for method in searched for weights, row in sitting["methods"][method].items()}
    return ["weighting", "training", *map(short, CURVES)], [
        [name, training_text(row["training"]), *(area_of(row, curve) for curve in CURVES)]
        for name, row in sorted(found.items(), key=lambda item: emphasis(item[0]))
    ]


def training_text(training: Mapping[str, Any]) -> str:
    """Say how long a network was trained, and whether it was stopped before its time."""
    why = "" if training["stopped"] == "budget" else f", stopped: {training['stopped']}"
    return f"{training['seconds']:.0f} s{why}"


def failed_text(sitting: Sitting, searched: Sequence[str]) -> str:
    """Say which UNets are no better than chance, and whether the network for every weighting is."""
    curve = f"inclusion, {EVALUATORS[0]}"
    if "random" not in sitting["methods"]:
        return ""
    chance = sitting["methods"]["random"]["random"]["areas"][curve][0]
    found = {weights: row for method in searched for weights, row in sitting["methods"][method].items()}
    failed = [name for name, row in found.items() if row["areas"][curve][0] < chance]
    if not failed:
        return ""
    others = sitting["methods"].get(EVERY, {})
    better = all(others[name]["areas"][curve][0] > chance for name in failed) if others else False
    spared = "; the one network for every weighting does not"
    return f"UNets for {listed(failed)} stay below a random order{spared * better}."


def spread_text(sitting: Sitting) -> str:
    """Say how wide intervals are, and how far seeds lie apart."""
    rows = [row for several in sitting["methods"].values() for row in several.values()]
    whole = max(row["images"] for row in rows)
    widths = [
        (row["areas"][name][2] - row["areas"][name][1]) / 2 for row in rows if row["images"] == whole for name in CURVES
    ]
    text = f"95 % intervals of areas over {whole:,} images are ± {min(widths):.3f} to {max(widths):.3f}."
    for method in (BASE, EVERY):
        label, row = main_row(sitting, method) if method in sitting["methods"] else ("", {"by seed": {}})
        seeds = {name: row["by seed"].get(name, []) for name in CURVES}
        if len(seeds[CURVES[0]]) > 1:
            several = listed(
                f"{statistics.fmean(areas):.3f} ± {statistics.stdev(areas):.3f} ({short(name)})"
                for name, areas in seeds.items()
            )
            text += f" {label}, {len(seeds[CURVES[0]])} seeds, mean and standard deviation: {several}."
    return text


def factors_text(sitting: Sitting) -> str:
    """Return network times weighting, as a sentence for each evaluator."""
    methods = {
        ("UNet", "Shapley"): searched_name("Shapley"), ("UNet", "chosen"): CHOSEN,
        ("encoder", "Shapley"): "encoder", ("encoder", "chosen"): "encoder, chosen",
    }  # fmt: skip
    if not all(method in sitting["methods"] for method in methods.values()):
        return ""
    parts = []
    for evaluator in EVALUATORS:
        area = {
            key: main_row(sitting, method)[1]["areas"][f"inclusion, {evaluator}"][0] for key, method in methods.items()
        }
        network = statistics.fmean(area["encoder", each] - area["UNet", each] for each in ("Shapley", "chosen"))
        weighting = statistics.fmean(area[each, "chosen"] - area[each, "Shapley"] for each in ("UNet", "encoder"))
        parts.append(
            f"by the {evaluator}, the encoder adds {network:+.3f} to the inclusion area, the weighting {weighting:+.3f}"
        )
    return (
        "Network or weighting? Of the two by two with the same objective, on average, one seed each: "
        f"{'; '.join(parts)}."
    )


def area_of(row: Mapping[str, Any], name: str) -> str:
    """Area of a curve, and skill where it is known."""
    known = row.get("skill", {}).get(name)
    return f"{row['areas'][name][0]:.3f}" + (f" ({rounded(known, 2)})" if known is not None else "")


def short(name: str) -> str:
    """Name of a curve for a header."""
    return name.replace("inclusion", "incl.").replace("exclusion", "excl.").replace("second ", "2nd ")
