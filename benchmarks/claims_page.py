"""What became of the claims of the FW-Shapley paper's title and abstract: a line each, from what was recorded."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from fwshapley.cli.reproduce import measured_on
from inclusion_longer import usual_time
from inclusion_page import CLAIM, gain_of, papers_method, preliminary_text, room_in, verdict_in
from inclusion_results import BASE, CHOSEN, EVALUATORS, EVERY, NOT_CENTRED, Sitting, first_sitting
from inclusion_sitting_page import is_of_earlier_objective
from noisy_page import CLOSE, LEARNT, of_paper
from noisy_results import TITLES, USUAL, reference_name
from page_text import duration, hardware, listed, spanned
from resnet import DATASETS
from table2_page import TIMES_FASTER, Speed

Document = Mapping[str, Any]
Line = tuple[str, str]
"""What was measured, and what that says of the claim."""

NETWORKS = {"its UNet as published": NOT_CENTRED, "its UNet by our objective": CHOSEN, "our network": EVERY}
"""Networks whose gain over FastSHAP is told."""

AS_EVER = (NOT_CENTRED, EVERY)
"""Those of them whose objective has not changed between sittings."""

REAL_TIME = 30
"""Images a second that are called real time: a film's."""

MOST_ERRORS = 4
"""Standard errors up to which two figures are called equal."""

UNKNOWN: Line = ("", "not measured yet")
KNN_SHAPLEY, VOTE = f"Shapley, {reference_name(USUAL)}", f"Shapley, vote, {reference_name(USUAL)}"
COMPARABLE = {"as good as": "confirmed", "worse than": "not confirmed", "not decided against": "not decided"}
UNDECIDED = ("not measured", "not decided", "undecided", "preliminary")


def claim_rows(documents: Mapping[str, Document]) -> tuple[list[str], list[list[str]]]:
    """Return the claims with what those documents say that are there, by name of the benchmark."""
    speeds = [document for name, document in documents.items() if name.startswith("explain_speed")]
    judged: list[tuple[str, str, Callable[[Document], Line]]] = [
        (f"{CLAIM:.0%} more inclusion AUC than FastSHAP, on average", "inclusion", gain_line),
        (
            f"data values {TIMES_FASTER} times as fast as KNN-Shapley, 30 minutes of training included",
            "table2",
            speed_line,
        ),
        ("data values comparable to KNN-Shapley", "noisy_labels", accuracy_line),
        ("real time", "table1", partial(time_line, speeds=speeds)),
        ("a weighted-least-squares characterisation", "lemma", kernel_line),
        ("training is valid without ground truth", "enumeration", identity_line),
    ]
    rows = []
    for claim, name, judge in judged:
        measured, verdict = judge(documents[name]) if name in documents else UNKNOWN
        rows.append([claim, measured, verdict])
    return ["the paper says", "measured", "verdict"], rows


def claims_summary(rows: list[list[str]]) -> str:
    """Return what was asked and what was found, in two sentences."""
    open_still = [claim for claim, _, verdict in rows if any(word in verdict for word in UNDECIDED)]
    decided = [f"{claim}: {shortly(verdict)}" for claim, _, verdict in rows if claim not in open_still]
    told = [f"{'; '.join(decided)[:1].upper()}{'; '.join(decided)[1:]}"] if decided else []
    told += [f"Open or preliminary: {'; '.join(open_still)}"] if open_still else []
    return (
        "Do the claims of the FW-Shapley paper's title and abstract hold when they are measured again, by other code? "
        f"{'. '.join(told)}."
    )


def shortly(verdict: str) -> str:
    """Return a verdict without its reasons."""
    return verdict.partition(":")[0].partition(";")[0]


def gain_line(document: Document) -> Line:
    """Gain over FastSHAP of UNets that chose their weighting themselves, as the paper's, and of our network."""
    datasets = document["results"]["datasets"]
    every = {DATASETS[name].title: [*sittings.values()] for name, sittings in datasets.items()}
    told = [f"<br>{title}: {found}" for title, sittings in every.items() if (found := networks_text(sittings))]
    method = papers_method(datasets)
    verdicts = {
        verdict_in(first_sitting(sittings), method, evaluator).partition(",")[0]
        for sittings in datasets.values()
        for evaluator in EVALUATORS
    }
    trained = f", after {usual_time(itertools.chain.from_iterable(every.values()))} of training each"
    measured = f"gain as judged by the {' / by the '.join(EVALUATORS)}{trained}{''.join(told)}" if told else ""
    return measured, listed(sorted(verdicts)) + so_far(preliminary_text(datasets))


def networks_text(sittings: Sequence[Sitting]) -> str:
    """Return what each network gains in all sittings on a data set, beside the most that could be gained."""
    told = []
    for label, method in NETWORKS.items():
        alike = [each for each in sittings if method in AS_EVER or not is_of_earlier_objective(each)]
        gains = [
            [gain[0] for sitting in alike if (gain := gain_of(sitting, method, evaluator))] for evaluator in EVALUATORS
        ]
        if all(gains):
            told.append(f"{label} {spans_text(gains)} ({counted(len(gains[0]), 'sitting')})")
    if not told:
        return ""
    rooms = [[room_in(each, evaluator) for each in sittings if BASE in each["methods"]] for evaluator in EVALUATORS]
    return f"{', '.join(told)}; over our {BASE}, nothing could gain more than {spans_text(rooms)}"


def spans_text(gains: Sequence[Sequence[float]]) -> str:
    """Gains in percent, from the smallest to the largest, by each evaluator."""
    return " / ".join(spanned(each, "+.1%") for each in gains)


def counted(number: int, noun: str) -> str:
    """How many of something."""
    return f"{number} {noun}{'s' * (number != 1)}"


def so_far(missing: object) -> str:
    """Say that a verdict is preliminary, where something is missing."""
    return ", preliminary" if missing else ""


def speed_line(document: Document) -> Line:
    """Time of the published network, with learning and without, beside exact values."""
    speed = Speed.of(document["results"]["rows"])
    if speed is None:
        return UNKNOWN
    measured = (
        f"values of SVHN's training images for its test set, on {listed(measured_on(document))}, by our code: exact in "
        f"{duration(speed.exact)}; its network learns for {duration(speed.learning)}, then takes "
        f"{duration(speed.asking)}"
    )
    confirmed = speed.exact > TIMES_FASTER * (speed.asking + speed.learning)
    return measured, f"{'confirmed' if confirmed else 'not confirmed'}: {speed.verdict}"


def accuracy_line(document: Document) -> Line:
    """AUROC of published and improved networks beside exact values, of KNN-Shapley's utility and of the vote."""
    found = of_paper(document["results"]["tables"])
    measured = "; ".join(f"{TITLES[dataset]}: {accuracies_text(rows)}" for dataset, rows in found.items())
    its, its_own, ours = (
        compared([gap for rows in found.values() if (gap := learned_gap(rows, way, exact)) is not None])
        for way, exact in (("published", KNN_SHAPLEY), ("published", VOTE), ("improved", KNN_SHAPLEY))
    )
    verdict = (
        f"{COMPARABLE[its]}: its network is {its} KNN-Shapley, {its_own} exact values for the vote, which it learns; "
        f"ours, taught by exact values, is {ours} KNN-Shapley"
    )
    times = [document["results"]["settings"].get(f"seconds, {part}") for part in ("published", "improved")]
    learning = " after {:g} s of learning (its network) and {:g} s (ours)".format(*times) if all(times) else ""
    return f"AUROC of wrong labels{learning}, {measured}", verdict + so_far(document["results"]["missing"])


def accuracies_text(rows: Mapping[str, Any]) -> str:
    """Return the AUROC of each on one data set."""
    methods = {
        "KNN-Shapley": KNN_SHAPLEY, "exact for the vote": VOTE,
        "its network": "learned, published, Shapley", "ours": "learned, improved, Shapley",
    }  # fmt: skip
    return listed(f"{label} {rows[method]['auroc'][0]:.3f}" for label, method in methods.items() if method in rows)


def learned_gap(rows: Mapping[str, Any], way: str, exact: str) -> float | None:
    """By how much a network's AUROC is above that of exact values, if it has learnt those that it was to learn."""
    learned = rows.get(f"learned, {way}, Shapley", {})
    if learned.get("spearman", [0.0])[0] <= LEARNT or exact not in rows:
        return None
    gap: float = learned["auroc"][0] - rows[exact]["auroc"][0]
    return gap


def compared(gaps: Sequence[float]) -> str:
    """Say how good something is by its mean distance from another."""
    if not gaps:
        return "not decided against"
    return "as good as" if statistics.fmean(gaps) > -CLOSE else "worse than"


def time_line(document: Document, speeds: Sequence[Document]) -> Line:
    """Time of the network for every weighting, one by one and for many at once."""
    found, where = document["results"], hardware(document["machine"])
    single, many = uncompiled(speeds, 1), uncompiled(speeds, found["images"])
    alone = listed(f"{duration(seconds)} on {machine}" for machine, seconds in single.items())
    runs = [found["methods"][EVERY]["seconds"], *([many[where]] if where in many else [])]
    together = f"{listed(map(duration, runs))} on {where}{', two records' * (len(runs) > 1)}"
    rate = 1 / max(single.values(), default=runs[0] / found["images"])
    verdict = "yes" if rate >= REAL_TIME else "no"
    trained = [found.get("trained", False), *(each["results"].get("trained", False) for each in speeds)]
    untrained = "" if any(trained) else ", by networks that were not trained"
    asked = f"one image, {found['weightings']} weightings, all classes{untrained}"
    return (
        f"{asked}: {alone}; {found['images']:,} images: {together}",
        f"{verdict}: {rate:,.0f} images a second or more, one by one",
    )


def uncompiled(speeds: Sequence[Document], images: int) -> dict[str, float]:
    """Return the seconds that so many images take where nothing is compiled, by machine."""
    return {
        hardware(each["machine"]): row["explainer_s"]
        for each in speeds
        for row in each["results"]["times"]
        if row["batch"] == images and not row["compiled"]
    }


def identity_line(document: Document) -> Line:
    """Excess loss, in units of the error, beside the error itself, of explainers on their way, with the exact kernel.

    The paper's kernel has its least loss at other values, unless alpha is 1: docs/math.md, section 4.
    """
    rows = document["results"]["identity"]
    objectives = dict.fromkeys(row["objective"].partition(",")[0] for row in rows)
    ratios = [row["excess"] / row["error"] for row in rows]
    equal = sum(abs(row["excess"] - row["error"]) <= MOST_ERRORS * row["stderr"] for row in rows)
    measured = (
        f"excess loss over squared error to enumerated values, which must be 1, for explainers of digits on their way "
        f"({listed(objectives)} objective): {min(ratios):.2f} to {max(ratios):.2f}; {equal} of {len(rows)} equal "
        f"within {MOST_ERRORS} standard errors"
    )
    verdict = "yes, with the exact kernel; with its own only if alpha is 1"
    return measured, verdict if equal == len(rows) else "not confirmed"


def kernel_line(document: Document) -> Line:
    """Error of least squares with the paper's kernel and with the exact one, where values can be enumerated."""
    every = document["results"]["solution"]
    rows = [row for row in every if 1 in {row["alpha"], row["beta"]}]
    paper, exact = (max(row[key] for row in rows) for key in ("relative_error", "relative_error_of_exact_kernel"))
    ours = max(exact, 1e-15)
    sizes = [row["n"] for row in rows]
    measured = (
        f"largest relative error of least squares, games of {min(sizes)} to {max(sizes)} players, for its weightings "
        f"(alpha or beta is 1): {paper:.2g} with its kernel, {ours:.0e} with the exact one; for all that were tried, "
        f"up to {max(row['relative_error'] for row in every):.2g} with its kernel"
    )
    return measured, "approximately; exactly with our kernel" if paper > 1e3 * ours else "yes"
