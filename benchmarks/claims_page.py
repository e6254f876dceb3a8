"""What became of the claims of the FW-Shapley paper's abstract: a line each, from what was recorded."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inclusion_page import CLAIM, gain_of, papers_gain, preliminary_text, room_in, verdict_on
from inclusion_results import CHOSEN, EVALUATORS, EVERY, NOT_CENTRED
from noisy_labels import TITLES, USUAL, reference_name
from noisy_page import CLOSE, EXACT, LEARNT, of_paper
from page_text import duration, listed
from resnet import DATASETS

Document = Mapping[str, Any]
Line = tuple[str, str]
"""What was measured, and what that says of the claim."""

JUDGED = {"its UNet as published": NOT_CENTRED, "its UNet by our objective": CHOSEN, "our network": EVERY}
"""Networks whose gain over FastSHAP is told."""

UNKNOWN: Line = ("", "not measured yet")
TIMES_FASTER = 14
UNDECIDED = ("not measured", "not decided", "undecided", "preliminary")
VERDICTS = {True: "yes", False: "no"}


def claim_rows(documents: Mapping[str, Document]) -> tuple[list[str], list[list[str]]]:
    """Return the claims with what those documents say that are there, by name of the benchmark."""
    judged: list[tuple[str, str, Callable[[Document], Line]]] = [
        (f"{CLAIM:.0%} more inclusion AUC than FastSHAP, on average", "inclusion", gain_line),
        (f"data values {TIMES_FASTER} times as fast as KNN-Shapley", "table2", speed_line),
        ("data values comparable to KNN-Shapley", "noisy_labels", accuracy_line),
        ("real time", "table1", time_line),
        ("a weighted-least-squares characterisation", "lemma", kernel_line),
    ]
    rows = []
    for claim, name, judge in judged:
        measured, verdict = judge(documents[name]) if name in documents else UNKNOWN
        rows.append([claim, measured, verdict])
    return ["the paper says", "measured", "so"], rows


def claims_summary(rows: list[list[str]]) -> str:
    """Return what was asked and what was found, in two sentences."""
    open_still = [claim for claim, _, verdict in rows if any(word in verdict for word in UNDECIDED)]
    decided = [f"{claim}: {shortly(verdict)}" for claim, _, verdict in rows if claim not in open_still]
    told = f" ({'; '.join(decided)})" if decided else ""
    left = f"; {len(open_still)} {'is' if len(open_still) == 1 else 'are'} open or preliminary" if open_still else ""
    return (
        "Do the claims of the FW-Shapley paper's abstract hold when they are measured again, by other code? Of "
        f"{len(rows)}, {len(decided)} {'is' if len(decided) == 1 else 'are'} decided{told}{left}."
    )


def shortly(verdict: str) -> str:
    """Return a verdict without its reasons."""
    return verdict.partition(":")[0].partition(";")[0]


def gain_line(document: Document) -> Line:
    """Gain over FastSHAP of UNets that chose their weighting themselves, as the paper's, and of our network."""
    datasets = document["results"]["datasets"]
    first = {DATASETS[name].title: next(iter(sittings.values())) for name, sittings in datasets.items()}
    told = [f"on {title} {found}" for title, sitting in first.items() if (found := gains_text(sitting))]
    verdicts = {
        verdict_on(gain).partition(",")[0]
        for sitting in first.values()
        for evaluator in EVALUATORS
        if (gain := papers_gain(sitting, evaluator))
    }
    measured = f"by the {' and the '.join(EVALUATORS)}, {'; '.join(told)}" if told else ""
    return measured, (listed(sorted(verdicts)) or UNKNOWN[1]) + so_far(preliminary_text(datasets))


def gains_text(sitting: Mapping[str, Any]) -> str:
    """Return the gains in one sitting, by each evaluator, beside the most that could be gained."""
    gains = {
        label: [gain[0] for evaluator in EVALUATORS if (gain := gain_of(sitting, method, evaluator))]
        for label, method in JUDGED.items()
    }
    told = [f"{label} {signed(several)}" for label, several in gains.items() if several]
    room = f" (at most {signed([room_in(sitting, evaluator) for evaluator in EVALUATORS])} can be had)" if told else ""
    return ", ".join(told) + room


def signed(gains: Sequence[float]) -> str:
    """Gains in percent."""
    return listed(f"{gain:+.1%}" for gain in gains)


def so_far(missing: object) -> str:
    """Say that a verdict is preliminary, where something is missing."""
    return ", preliminary" if missing else ""


def speed_line(document: Document) -> Line:
    """Time of the published network, learning included, beside exact values."""
    times = {row["method"]: row for row in document["results"]["rows"]}
    if not {EXACT, "learned, published"} <= times.keys():
        return UNKNOWN
    exact, learned = times[EXACT]["seconds"], times["learned, published"]
    whole = learned["seconds"] + learned["learning"]
    ratio = exact / whole
    measured = (
        f"values of SVHN's training images for its test set: exact in {duration(exact)}; the published network learns "
        f"for {duration(learned['learning'])}, then takes {duration(learned['seconds'])}"
    )
    return measured, "confirmed" if ratio >= TIMES_FASTER else "not confirmed: exact values are fast"


def accuracy_line(document: Document) -> Line:
    """AUROC of published and improved networks beside exact values, of KNN-Shapley's utility and of the vote."""
    parts = []
    gaps: dict[str, list[float]] = {"published": [], "improved": []}
    gaps_to_vote: list[float] = []
    for dataset, rows in of_paper(document["results"]["tables"]).items():
        usual = reference_name(USUAL)
        exact, vote = (rows[f"Shapley, {name}"]["auroc"][0] for name in (usual, f"vote, {usual}"))
        told = []
        for way, several in gaps.items():
            learned = rows.get(f"learned, {way}, Shapley")
            if learned:
                agreed = learned["spearman"][0] if "spearman" in learned else None
                known = "all equal" if agreed is None else f"rank correlation with exact {agreed:.2f}"
                told.append(f"{learned['auroc'][0]:.3f} {way} ({known})")
                if agreed is not None and agreed > LEARNT:
                    several.append(learned["auroc"][0] - exact)
                    gaps_to_vote += [learned["auroc"][0] - vote] if way == "published" else []
        parts.append(f"{TITLES[dataset]}: {', '.join(told)}, exact {exact:.3f}, exact for the vote {vote:.3f}")
    verdicts = [
        f"{way}: {VERDICTS[statistics.fmean(several) > -CLOSE] if several else 'not decided, it has not learnt enough'}"
        for way, several in gaps.items()
    ]
    if gaps_to_vote and statistics.fmean(gaps_to_vote) > -CLOSE:
        verdicts[0] += " (but to exact values for the vote, which it learns)"
    measured = f"AUROC of wrong labels, {'; '.join(parts)}"
    return measured, ", ".join(verdicts) + so_far(document["results"]["missing"])


def time_line(document: Document) -> Line:
    """Time of the network for every weighting."""
    found = document["results"]
    row, where = found["methods"][EVERY], document["machine"]["gpu"] or f"{document['machine']['cores']} CPU cores"
    rate = found["images"] / row["seconds"]
    measured = (
        f"{found['images']:,} images, {found['weightings']} weightings, all classes: {duration(row['seconds'])} on "
        f"{where}, {row['over forward']:.2g} forward passes"
    )
    return measured, f"yes: {rate:,.0f} images a second"


def kernel_line(document: Document) -> Line:
    """Error of least squares with the paper's kernel and with the exact one, where values can be enumerated."""
    rows = [row for row in document["results"]["solution"] if 1 in {row["alpha"], row["beta"]}]  # the paper's
    paper, exact = (max(row[key] for row in rows) for key in ("relative_error", "relative_error_of_exact_kernel"))
    ours = max(exact, 1e-15)
    sizes = [row["n"] for row in rows]
    measured = (
        f"largest relative error of least squares, games of {min(sizes)} to {max(sizes)} players: {paper:.2g} with its "
        f"kernel, {ours:.0e} with the exact one"
    )
    return measured, "approximately; exactly with our kernel" if paper > 1e3 * ours else "yes"
