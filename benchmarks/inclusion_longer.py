"""What the pages say of longer training, from one sitting of the inclusion benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inclusion_results import BASE, CURVES, EVALUATORS, EVERY, Sitting, chosen_in, label_of, main_row, untimed
from page_text import listed, percent

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
    rows = by_time(sitting, BASE)
    gains = [rows[-1]["over shorter"][curve].get("relative") for curve in INCLUSION]
    seeds = {len(row["by seed"][curve]) for row in rows[-2:] for curve in INCLUSION}
    told = [f"{BASE}'s inclusion area is {growth_text(rows)} ({' / '.join(EVALUATORS)})"]
    few, verdict = ", one seed each" * (min(seeds) == 1), plateau_text([gain for gain in gains if gain])
    told += [f"the last step adds {' / '.join(map(percent, gains))}{few}, so {verdict}"]
    ours = by_time(sitting, EVERY)
    told += [f'that of "{label_of(EVERY, chosen_in(sitting))}" is {growth_text(ours)}'] if len(ours) > 1 else []
    return "; ".join(told) + "."


def longest_training(sitting: Sitting) -> float:
    """Seconds that FastSHAP was given at most, 0 if never more than usual."""
    if BASE not in sitting["methods"]:
        return 0.0
    usual, longest = given(main_row(sitting, BASE)[1]), given(by_time(sitting, BASE)[-1])
    return longest if longest > usual else 0.0


def by_time(sitting: Sitting, method: str) -> list[dict[str, Any]]:
    """Return the figures of a method by the time it was given, the shortest first."""
    names = [name for name in sitting["methods"] if untimed(name) == method]
    return sorted((main_row(sitting, name)[1] for name in names), key=given)


def given(row: Mapping[str, Any]) -> float:
    """Seconds that training was given; early records know only those it took."""
    training = row["training"]
    return float(training.get("budget", training["seconds"]))


def time_text(row: Mapping[str, Any]) -> str:
    """Seconds that training was given, and whether it stopped before."""
    training = row["training"]
    early = f" (stopped after {training['seconds']:.0f} s: {training['stopped']})"
    return f"{given(row):.0f} s{early * (training['stopped'] != 'budget')}"


def growth_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Inclusion areas by each evaluator, by the time of training."""
    areas = (" / ".join(f"{row['areas'][curve][0]:.3f}" for curve in INCLUSION) for row in rows)
    return listed(f"{each} after {time_text(row)}" for each, row in zip(areas, rows, strict=True))


def plateau_text(gains: Sequence[Sequence[float]]) -> str:
    """Say what relative gains by the longest training, with their intervals, tell of training still longer."""
    if gains and all(high < PLATEAU for _, _, high in gains):
        return "longer does not help"
    if gains and all(low > PLATEAU for _, low, _ in gains):
        return "longer still helps and where it stops is not known"
    return "whether longer helps is not clear"
