"""What the pages say of inclusion and exclusion, from benchmarks/results/inclusion.json."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inclusion_longer import last_step_text, lead_text, longer_table, longest_training, usual_time
from inclusion_results import (
    BASE,
    CHOSEN,
    EVALUATORS,
    EVERY,
    KERNEL_SHAP,
    NOT_CENTRED,
    STYLES,
    Sitting,
    chosen_in,
    first_sitting,
    is_timed,
    main_row,
    searched_name,
)  # fmt: skip
from inclusion_sitting_page import EARLIER, is_of_earlier_objective, sitting_text
from page_text import listed, percent, spanned, table
from provenance import calls_text
from resnet import DATASETS, Name

Datasets = Mapping[Name, Mapping[str, Sitting]]

CLAIM = 0.27
WANTED_SEEDS = 3
JUDGED = {
    NOT_CENTRED: "that with its objective as published",
    CHOSEN: "that with our objective, until its own is measured on all data sets",
}
"""What stands for the paper's method."""

LONGER_MISSING = "whether longer training helps is not measured yet"
LEARN = (EVERY, BASE, searched_name("Shapley"), CHOSEN, NOT_CENTRED, "encoder", "encoder, chosen")
PAGE = """## Inclusion and exclusion: who finds what matters?

{summary}

{preliminary}A ResNet-18, 256 players of 2 x 2 pixels, the predicted class of {images:,} test images. Area under the
inclusion curve (share of images that keep their class as the most important players are shown; higher is better) and
under the exclusion curve (as they are hidden; lower is better). Two evaluators: a second surrogate, of another seed and
initialisation, that no explainer has seen; and the model itself on images masked by zeros, which it has never met: the
FW-Shapley paper's measure. {skill}Learned methods share surrogate, data, optimiser and the GPU time in the table; what
a search for the weighting takes comes on top of it. FastSHAP has its published objective, in our setting: a plain UNet,
Shapley values, coalitions in complementary pairs, additive normalisation. "UNet" and "encoder" (started from the
surrogate) learn one weighting by the same least squares, centred by size, which leaves the minimiser and takes noise
away; "not centred" has the FW-Shapley paper's objective as published; "every weighting" is our network for all of them.
Weightings were chosen among the paper's eight, of which Shapley is none, by the inclusion area on validation images,
judged by the surrogate that is explained, before any number on test images; those come from other judges. Brackets
after a gain are 95 % intervals of a bootstrap over images, which stay paired, and over seeds: three tell little of how
trainings differ, and one nothing. A sitting is one session at a GPU, with model and surrogates trained once, anew for
each; seeds are of explainers. A curve ends, with everything shown, at the share of images of which judge and model say
the same.

{sittings}
{trainings}

![Inclusion and exclusion curves by the second surrogate](figures/inclusion.png)

![Inclusion and exclusion curves by the zero-masked model](figures/inclusion_zero_masked.png)

**The claim.** The paper says that its method has {claim:.0%} more inclusion area than FastSHAP, on average. Its method
is the UNet with the weighting chosen; the verdict is on {judged}. The UNet for Shapley values differs from FastSHAP in
the objective and in how coalitions are drawn. "Room" is the gain of a perfect explanation, whose first players suffice
to keep every class: more cannot be had (with all players or none, all methods are alike). "Best of nine" is under the
weighting that is best on the test images themselves, Shapley included, which nobody may pick.

{claims}

{verdict}

{provenance}
"""

FIRST_PAGE = """\
How well do the most important of 256 patches alone keep the class of an image? Inclusion area (1 is best), by two
judges: a second surrogate, taught to accept masked images, that no explainer has seen; and, as in the paper, the model
itself on images masked by zeros, which it has never met. Ours is the network for every weighting, under the one chosen
on validation images ({chosen}), FastSHAP that for Shapley values; both were trained for {seconds} on one GPU. Means
over {counts}, each sitting with a model and surrogates trained anew, and the standard deviation of trainings.
KernelSHAP, our least squares, asked the surrogate about {calls:,} coalitions of each of the first {images} images;
all others explained {most:,} ([all methods](docs/results.md)).{missing}

{areas}
{longer}"""

LONGER = """
Trained for longer ({title}, sitting {number}; {evaluators}), {lead}; {last_step}.

{table}
"""

SHOWN = {"ours": EVERY, "FastSHAP": BASE, "GradCAM": "gradcam", "random order": "random", "KernelSHAP": KERNEL_SHAP}
"""Methods of which the first page tells."""

SKILL = """In brackets the skill: 0 is a random order, 1 that of KernelSHAP (a long run of our least squares on the
surrogate, {calls:,} calls an image), on the images that have one. """


def inclusion_section(document: Mapping[str, Any]) -> str:
    """Return a section of the results page."""
    found = document["results"]
    sittings = [
        sitting_text(DATASETS[name].title, sitting, number)
        for name, several in found["datasets"].items()
        for number, sitting in enumerate(several.values(), 1)
    ]
    every = [sitting for several in found["datasets"].values() for sitting in several.values()]
    rows = [row for sitting in every for several in sitting["methods"].values() for row in several.values()]
    named = found["datasets"].items()
    missing, calls = preliminary_text(found["datasets"]), max(sitting["calls"] for sitting in every)
    return PAGE.format(
        summary=summary_text(found["datasets"]),
        preliminary=f"{missing}\n\n" if missing else "",
        skill=SKILL.format(calls=calls) if calls else "",
        images=max(row["images"] for row in rows),
        sittings="\n".join(sittings),
        trainings="\n\n".join(trainings_text(DATASETS[name].title, [*several.values()]) for name, several in named),
        claim=CLAIM,
        claims=table(*gain_rows(found["datasets"])),
        judged=JUDGED[papers_method(found["datasets"])],
        verdict=verdict_text(found["datasets"]),
        provenance=provenance_text(document),
    )


def inclusion_text(document: Mapping[str, Any]) -> str:
    """Return what the first page says."""
    datasets = document["results"]["datasets"]
    rows = [
        [
            f"{DATASETS[name].title}, {evaluator}",
            *(pooled_text(sittings.values(), method, evaluator) for method in SHOWN.values()),
            by_sitting_text(sittings.values(), EVERY, evaluator),
        ]
        for name, sittings in datasets.items()
        for evaluator in EVALUATORS
    ]
    missing = " Preliminary: some runs are missing, which the page names." if preliminary_text(datasets) else ""
    first = {DATASETS[name].title: first_sitting(sittings) for name, sittings in datasets.items()}
    every = [sitting for sittings in datasets.values() for sitting in sittings.values()]
    sampled = [main_row(sitting, KERNEL_SHAP)[1]["images"] for sitting in every if KERNEL_SHAP in sitting["methods"]]
    return FIRST_PAGE.format(
        areas=table(["", *SHOWN, "ours over FastSHAP, by sitting"], rows),
        calls=max(sitting["calls"] for sitting in every),
        images=spanned(sampled, "d"),
        most=max(main_row(sitting, EVERY)[1]["images"] for sitting in every if EVERY in sitting["methods"]),
        missing=missing,
        longer="".join(longest_text(name, sittings) for name, sittings in datasets.items()).rstrip(),
        chosen=listed(f"{chosen_in(sitting)} on {title}" for title, sitting in first.items()),
        seconds=usual_time(every),
        counts=listed(counts_text(DATASETS[name].title, sittings) for name, sittings in datasets.items()),
    )


def areas_of(sittings: Iterable[Sitting], method: str, evaluator: str) -> list[float]:
    """Inclusion areas of a method in all its trainings in all sittings."""
    rows = [main_row(sitting, method)[1] for sitting in sittings if method in sitting["methods"]]
    return [area for row in rows for area in row["by seed"][f"inclusion, {evaluator}"]]


def pooled_text(sittings: Iterable[Sitting], method: str, evaluator: str) -> str:
    """Mean inclusion area of a method, and the standard deviation of its trainings, if it learns."""
    areas = areas_of(sittings, method, evaluator)
    if not areas:
        return ""
    several = method in LEARN and len(areas) > 1
    return f"{statistics.fmean(areas):.3f}" + (f" ± {statistics.stdev(areas):.3f}" if several else "")


def by_sitting_text(sittings: Iterable[Sitting], method: str, evaluator: str) -> str:
    """Relative gains over FastSHAP, one for each sitting that measured it."""
    gains = [gain[0] for sitting in sittings if (gain := gain_of(sitting, method, evaluator))]
    return ", ".join(f"{gain:+.1%}" for gain in gains)


def counts_text(title: str, sittings: Mapping[str, Sitting]) -> str:
    """Say how many trainings stand behind our figures and FastSHAP's."""
    ours, base = (seeds_of(sittings, method) for method in (EVERY, BASE))
    return f"{ours} trainings of ours and {base} of {BASE} in {len(sittings)} sittings on {title}"


def longest_text(name: Name, sittings: Mapping[str, Sitting]) -> str:
    """Say what longer training gains on a data set, in the sitting where it was the longest."""
    number, sitting = max(enumerate(sittings.values(), 1), key=lambda item: longest_training(item[1]))
    if not longest_training(sitting):
        return ""
    return LONGER.format(
        title=DATASETS[name].title,
        number=number,
        evaluators=" / ".join(EVALUATORS),
        lead=lead_text(sitting),
        last_step=last_step_text(sitting),
        table=longer_table(sitting),
    )


def summary_text(datasets: Datasets) -> str:
    """Return what was asked and what was found, in two sentences."""
    parts = []
    for name, sittings in datasets.items():
        sitting, curve = first_sitting(sittings), f"inclusion, {EVALUATORS[0]}"
        learned = [main_row(sitting, method) for method in sitting["methods"] if method in LEARN]
        if learned:
            label, row = max(learned, key=lambda line: line[1]["areas"][curve][0])
            base = sitting["methods"].get(BASE, {}).get("Shapley")
            beside = f" beside {base['areas'][curve][0]:.3f} of {BASE}" if base and label != BASE else ""
            parts.append(f'"{label}" on {DATASETS[name].title}, {row["areas"][curve][0]:.3f}{beside}')
    found = (
        f"Of those that learn, by the {EVALUATORS[0]} the largest inclusion area has {listed(parts)}" if parts else ""
    )
    return (
        "Whose most important players keep an image's class, and does a chosen weighting gain "
        f"{CLAIM:.0%} over {BASE}? {found or 'Nothing is measured yet'}; the {CLAIM:+.0%} is {verdicts_text(datasets)}."
    )


def preliminary_text(datasets: Datasets) -> str:
    """Say what is still missing, if anything is."""
    missing = [f"{source.title} is not measured yet" for name, source in DATASETS.items() if name not in datasets]
    every = [sitting for sittings in datasets.values() for sitting in sittings.values()]
    missing += [] if any(is_timed(method) for sitting in every for method in sitting["methods"]) else [LONGER_MISSING]
    for name, sittings in datasets.items():
        title = DATASETS[name].title
        methods = {method for sitting in sittings.values() for method in sitting["methods"]}
        absent = [f'"{method}"' for method in STYLES if method not in methods]
        missing += [f"{listed(absent)} {'is' if len(absent) == 1 else 'are'} missing on {title}"] if absent else []
        searched = any(sitting["search"] for sitting in sittings.values())
        missing += [] if searched else [f"the UNet's own choice of a weighting is missing on {title}"]
        seeds = min(seeds_of(sittings, method) for method in (BASE, EVERY))
        missing += [f"{seeds} of {WANTED_SEEDS} seeds on {title}"] if seeds < WANTED_SEEDS else []
        missing += [f"{EARLIER} on {title}"] * is_of_earlier_objective(first_sitting(sittings))
    return f"**Preliminary:** {'; '.join(missing)}." if missing else ""


def trainings_text(title: str, sittings: Sequence[Sitting]) -> str:
    """Say how far trainings from scratch lie apart where models were trained anew, too."""
    parts = []
    for method in (EVERY, BASE):
        told = " / ".join(pooled_text(sittings, method, evaluator) for evaluator in EVALUATORS)
        parts.append(f'{told} for "{method}" ({len(areas_of(sittings, method, EVALUATORS[0]))} trainings)')
    return (
        f"{title}, all trainings in all {len(sittings)} sittings: inclusion area, mean and standard deviation "
        f"({' / '.join(EVALUATORS)}), {listed(parts)}."
    )


def seeds_of(sittings: Mapping[str, Sitting], method: str) -> int:
    """Return how many times a method was trained from scratch, in all sittings together."""
    rows = [next(iter(each["methods"][method].values())) for each in sittings.values() if method in each["methods"]]
    return sum(len(next(iter(row["by seed"].values()))) for row in rows)


def gain_rows(datasets: Datasets) -> tuple[list[str], list[list[str]]]:
    """Relative gains over FastSHAP in inclusion area, by data set, sitting and evaluator."""
    rows, judged = [], papers_method(datasets)
    for name, sittings in datasets.items():
        for number, sitting in enumerate(sittings.values()):
            if BASE not in sitting["methods"]:
                continue
            again = f", sitting {number + 1}" if len(sittings) > 1 else ""
            for evaluator in EVALUATORS:
                area = sitting["methods"][BASE]["Shapley"]["areas"][f"inclusion, {evaluator}"][0]
                methods = (NOT_CENTRED, searched_name("Shapley"), CHOSEN, "encoder, chosen", EVERY)
                gains = [gain_of(sitting, method, evaluator) for method in methods]
                cells = [percent(gain) for gain in (*gains, best_gain(sitting, evaluator))]
                room = room_in(sitting, evaluator)
                verdict = verdict_on(gain_of(sitting, judged, evaluator), room)
                rows.append(
                    [
                        f"{DATASETS[name].title}{again}, {evaluator}",
                        f"{area:.3f}",
                        f"{room:+.0%}",
                        *cells,
                        verdict,
                    ]
                )
    names = ["UNet, chosen, as published", "UNet, Shapley", CHOSEN, "encoder, chosen", EVERY, f"{EVERY}, best of nine"]
    return ["", BASE, "room", *names, f"{CLAIM:+.0%}?"], rows


def gain_of(sitting: Sitting, method: str, evaluator: str) -> list[float] | None:
    """Relative gain in inclusion area over FastSHAP, with its interval, if it was measured."""
    if method not in sitting["methods"] or (method == CHOSEN and not sitting["search"]):
        return None  # the paper's method chooses its weighting itself
    gain: list[float] | None = (
        main_row(sitting, method)[1].get("over base", {}).get(f"inclusion, {evaluator}", {}).get("relative")
    )
    return gain


def room_in(sitting: Sitting, evaluator: str) -> float:
    """Relative gain over FastSHAP of an explanation that keeps every class between nobody and everyone."""
    row, name = sitting["methods"][BASE]["Shapley"], f"inclusion, {evaluator}"
    nobody, *between, everyone = row["curves"][name]
    most = ((nobody + everyone) / 2 + len(between)) / (len(between) + 1)
    area: float = row["areas"][name][0]
    return most / area - 1


def papers_method(datasets: Datasets) -> str:
    """Return what stands for the paper's method: with its own objective, or with ours if that is not known of all."""
    every = all(NOT_CENTRED in first_sitting(sittings)["methods"] for sittings in datasets.values())
    return NOT_CENTRED if every else CHOSEN


def best_gain(sitting: Sitting, evaluator: str) -> list[float] | None:
    """Return the largest gain of any weighting, on the test images themselves."""
    rows = sitting["methods"].get(EVERY, {}).values()
    gains = [row.get("over base", {}).get(f"inclusion, {evaluator}", {}).get("relative") for row in rows]
    return max((gain for gain in gains if gain), default=None)


def verdict_on(gain: Sequence[float] | None, room: float = math.inf) -> str:
    """Whether an interval of a gain bears the claim out, where there is room for so much."""
    if gain is None:
        return "not measured"
    if room < CLAIM:
        return "not confirmed, out of reach"
    _, low, high = gain
    if low >= CLAIM:
        return "confirmed"
    if high >= CLAIM:
        return "undecided"
    return "not confirmed" + (", a smaller gain" if low > 0 else ", a loss" if high < 0 else ", no clear gain")


def verdicts_text(datasets: Datasets) -> str:
    """Say whether the claim is confirmed, and where."""
    verdicts: dict[str, list[str]] = {}
    for name, sittings in datasets.items():
        for evaluator in EVALUATORS:
            verdict = verdict_in(first_sitting(sittings), papers_method(datasets), evaluator)
            verdicts.setdefault(verdict, []).append(f"on {DATASETS[name].title} by the {evaluator}")
    return "; ".join(f"{verdict} {listed(where)}" for verdict, where in verdicts.items())


def verdict_in(sitting: Sitting, method: str, evaluator: str) -> str:
    """Whether a sitting bears the claim out."""
    room = room_in(sitting, evaluator) if BASE in sitting["methods"] else math.inf
    return verdict_on(gain_of(sitting, method, evaluator), room)


def verdict_text(datasets: Datasets) -> str:
    """Sum up the claim: confirmed or not, where, and on average."""
    first, method = [first_sitting(sittings) for sittings in datasets.values()], papers_method(datasets)
    averages = {
        evaluator: [gain[0] for sitting in first if (gain := gain_of(sitting, method, evaluator))]
        for evaluator in EVALUATORS
    }
    mean = (
        listed(f"{statistics.fmean(gains):+.1%} by the {evaluator}" for evaluator, gains in averages.items() if gains)
        if any(averages.values())
        else "not known"
    )
    counts = {min(seeds_of({"": sitting}, each) for each in (method, BASE)) for sitting in first}
    seeds = " or ".join(f"{count} seed{'s' * (count != 1)}" for count in sorted(counts)) + " on each"
    return (
        f"So the {CLAIM:+.0%} is: {verdicts_text(datasets)}. It counts as confirmed where the whole interval lies at "
        f"or above it. On average over the data sets measured the gain of the paper's method is {mean}, from {seeds}."
    )


def provenance_text(document: Mapping[str, Any]) -> str:
    """One line on where the figures come from."""
    found = document["results"]
    where, when, torch = (listed(found[key]) for key in ("machines", "dates", "torch"))
    return (
        f"{calls_text(document)}, {where}, {found['seconds']:,.0f} s, "
        f"{when}; torch {torch}{'; code ' * bool(found['codes'])}{listed(found['codes'])}."
    )
