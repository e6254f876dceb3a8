"""What the pages say of longer training, from one sitting of the inclusion benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inclusion_results import BASE, CURVES, EVALUATORS, EVERY, Sitting, chosen_in, label_of, main_row, untimed
from page_text import listed, percent, spanned, table

PLATEAU = 0.005
"""Relative gain by longer training below which there is called none."""

INCLUSION = [f"inclusion, {evaluator}" for evaluator in EVALUATORS]


def longer_rows(sitting: Sitting) -> list[list[str]]:
    """Areas of methods that were trained for longer too, by time."""
    rows = []
    for method in (BASE, EVERY):
        found = by_time(sitting, method)
        for row in found if len(found) > 1 else []:
            areas = [f"{row['areas'][curve][0]:.3f}" for curve in CURVES]
            rows.append([label_of(method, chosen_in(sitting)), time_text(row), *areas])
    return rows


def longer_text(sitting: Sitting) -> str:
    """Say how FastSHAP, and our network, gain by longer training, if that was measured."""
    if not longest_training(sitting):
        return ""
    told = [f"{BASE}'s inclusion area is {growth_text(by_time(sitting, BASE))} ({' / '.join(EVALUATORS)})"]
    told += [last_step_text(sitting)]
    ours = by_time(sitting, EVERY)
    if len(ours) > 1:
        gained = [f"{gain} after {time_text(row)} each" for row in ours if (gain := gain_text(row))]
        more = f", {listed(gained)}" if gained else ""
        told += [f'that of "{label_of(EVERY, chosen_in(sitting))}" is {growth_text(ours)}{more}']
    return "; ".join(told) + "."


def longer_table(sitting: Sitting) -> str:
    """Inclusion areas of FastSHAP and of our network by the time of training, and the gain in equal time."""
    rows = {method: {seconds_given(row): row for row in by_time(sitting, method)} for method in (EVERY, BASE)}
    times = sorted({seconds for found in rows.values() for seconds in found})
    names = {EVERY: "ours", BASE: BASE}
    lines = [
        [names[method], *(areas_text(found[seconds]) if seconds in found else "" for seconds in times)]
        for method, found in rows.items()
    ]
    gains = [gain_text(rows[EVERY][seconds]) if seconds in rows[EVERY] else "" for seconds in times]
    return table(["", *(f"{seconds:.0f} s" for seconds in times)], [*lines, [f"ours over {BASE}", *gains]])


def areas_text(row: Mapping[str, Any]) -> str:
    """Inclusion area by each evaluator."""
    return " / ".join(f"{row['areas'][curve][0]:.3f}" for curve in INCLUSION)


def gain_text(row: Mapping[str, Any]) -> str:
    """Gain over FastSHAP in equal time, by each evaluator, if that was measured."""
    return " / ".join(f"{gain:+.1%}" for gain in gains_of(row))


def gains_of(row: Mapping[str, Any]) -> list[float]:
    """Relative gains over FastSHAP in equal time, by evaluator, if they were measured."""
    over = row.get("over base in equal time", {})
    return [gain[0] for curve in INCLUSION if (gain := over.get(curve, {}).get("relative"))]


def lead_text(sitting: Sitting) -> str:
    """Say what becomes of our lead over FastSHAP as both are trained for longer."""
    gains = [found[0] for row in by_time(sitting, EVERY) if (found := gains_of(row))]
    if len(gains) < 2:
        return "our network was not measured"
    return f"our lead over {BASE} {'shrinks' if gains[-1] < gains[0] else 'does not shrink'}"


def last_step_text(sitting: Sitting) -> str:
    """Say what FastSHAP's longest training gains, and what that tells of training still longer."""
    before, last = by_time(sitting, BASE)[-2:]
    gains = [last["over shorter"][curve].get("relative") for curve in INCLUSION]
    seeds = {len(row["by seed"][curve]) for row in (before, last) for curve in INCLUSION}
    told, verdict = " / ".join(map(percent, gains)), plateau_text([gain for gain in gains if gain])
    so = "; as far as one training each can tell," if min(seeds) == 1 else ", so"
    return f"from {seconds_given(before):.0f} s to {seconds_given(last):.0f} s {BASE} gains {told}{so} {verdict}"


def longest_training(sitting: Sitting) -> float:
    """Seconds that FastSHAP was given at most, 0 if never more than usual."""
    if BASE not in sitting["methods"]:
        return 0.0
    usual, longest = seconds_given(main_row(sitting, BASE)[1]), seconds_given(by_time(sitting, BASE)[-1])
    return longest if longest > usual else 0.0


def by_time(sitting: Sitting, method: str) -> list[dict[str, Any]]:
    """Return the figures of a method by the time it was given, the shortest first."""
    names = [name for name in sitting["methods"] if untimed(name) == method]
    return sorted((main_row(sitting, name)[1] for name in names), key=seconds_given)


def seconds_given(row: Mapping[str, Any]) -> float:
    """Seconds that training was given; early records know only those it took."""
    training = row["training"]
    return float(training.get("budget", training["seconds"]))


def usual_time(sittings: Iterable[Sitting]) -> str:
    """Seconds that FastSHAP, and so every method that learns, was usually given."""
    rows = [main_row(sitting, BASE)[1] for sitting in sittings if BASE in sitting["methods"]]
    return f"{spanned([seconds_given(row) for row in rows], '.0f')} s"


def time_text(row: Mapping[str, Any]) -> str:
    """Seconds that training was given, and whether it stopped before."""
    training = row["training"]
    early = f" (stopped after {training['seconds']:.0f} s: {training['stopped']})"
    return f"{seconds_given(row):.0f} s{early * (training['stopped'] != 'budget')}"


def growth_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Inclusion areas by each evaluator, by the time of training."""
    return listed(f"{areas_text(row)} after {time_text(row)}" for row in rows)


def plateau_text(gains: Sequence[Sequence[float]]) -> str:
    """Say what relative gains by the longest training, with their intervals, tell of training still longer."""
    if gains and all(high < PLATEAU for _, _, high in gains):
        return "longer does not help"
    if gains and all(low > PLATEAU for _, low, _ in gains):
        return "longer still helps and where it stops is not known"
    return "whether longer helps is not clear"
