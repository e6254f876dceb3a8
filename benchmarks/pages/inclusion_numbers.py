"""Numbers of the inclusion experiment for the pages: areas, gains over FastSHAP, and the largest gain possible.

A sitting is the results on one data set with one trained model and its surrogates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

Sitting = Mapping[str, Any]
Row = Mapping[str, Any]

JUDGES = ("second surrogate", "zero-masked model")
OURS, FASTSHAP, PAPER = "every weighting", "FastSHAP", "UNet, chosen, not centered"
UNET, UNET_SHAPLEY, ENCODER, ENCODER_SHAPLEY = "UNet, chosen", "UNet of Shapley", "encoder, chosen", "encoder"
CLAIM = 0.27
"""Relative gain in inclusion area over FastSHAP that the FW-Shapley paper claims, on average."""

UNCHANGED = {OURS, FASTSHAP, PAPER}
"""Learned methods whose objective has not changed between sittings."""

ITS_TIME = re.compile(r", ([\d.]+) s$")
"""End of the name of a method that was trained for another time than the others."""


def first(sittings: Mapping[str, Sitting]) -> Sitting:
    """Return the sitting with the most methods."""
    return next(iter(sittings.values()))


def chosen(sitting: Sitting) -> str:
    """Weighting that our network chose on validation images."""
    name: str = sitting["choice"]["chosen"]
    return name


def row(sitting: Sitting, method: str) -> Row:
    """Figures of a method, under the chosen weighting if it has learned several."""
    rows = sitting["methods"][method]
    found: Row = rows.get(chosen(sitting)) or next(iter(rows.values()))
    return found


def areas(sittings: Iterable[Sitting], method: str, judge: str, kind: str = "inclusion") -> list[float]:
    """Areas of a method, one for each training in all sittings whose objective is today's."""
    rows = [row(each, method) for each in sittings if method in each["methods"] and _is_current(each, method)]
    return [area for each in rows for area in each["by seed"][f"{kind}, {judge}"]]


def gain(sitting: Sitting, method: str, judge: str) -> list[float] | None:
    """Relative gain in inclusion area over FastSHAP in the same sitting, with its 95 % interval, if measured."""
    if method not in sitting["methods"] or (method == UNET and not sitting["search"]):
        return None
    found: list[float] | None = row(sitting, method).get("over base", {}).get(f"inclusion, {judge}", {}).get("relative")
    return found


def gains(sittings: Iterable[Sitting], method: str, judge: str) -> list[float]:
    """Relative gains over FastSHAP, one for each sitting."""
    current = [each for each in sittings if _is_current(each, method)]
    return [found[0] for each in current if (found := gain(each, method, judge))]


def room(sitting: Sitting, judge: str) -> float:
    """Relative gain over FastSHAP of a perfect explanation: images keep their class from the first patch on."""
    fastshap, name = sitting["methods"][FASTSHAP]["Shapley"], f"inclusion, {judge}"
    hidden, *between, complete = fastshap["curves"][name]
    most = ((hidden + complete) / 2 + len(between)) / (len(between) + 1)
    area: float = fastshap["areas"][name][0]
    return most / area - 1


def confirmed(sitting: Sitting, judge: str) -> bool:
    """Whether the whole interval of the gain of the paper's method lies at or above its claim."""
    found = gain(sitting, PAPER, judge)
    return found is not None and found[1] >= CLAIM


def longest(sittings: Iterable[Sitting]) -> Sitting:
    """Return the sitting in which FastSHAP was trained the longest."""
    return max(sittings, key=lambda sitting: max(by_time(sitting, FASTSHAP)))


def by_time(sitting: Sitting, method: str) -> dict[float, Row]:
    """Figures of a method by the seconds it was trained, the shortest first."""
    names = [name for name in sitting["methods"] if ITS_TIME.sub("", name) == method]
    rows = [row(sitting, name) for name in names]
    return dict(sorted((_seconds(each), each) for each in rows))


def below_random(sitting: Sitting) -> list[str]:
    """Weightings of the search whose UNet has a smaller inclusion area than a random order."""
    chance = sitting["methods"]["random"]["random"]["areas"][f"inclusion, {JUDGES[0]}"][0]
    return [weighting for weighting, area in sitting["search"].items() if area < chance]


def _seconds(found: Row) -> float:
    training = found["training"]
    return float(training.get("budget", training["seconds"]))


def _is_current(sitting: Sitting, method: str) -> bool:
    """Whether a network for one weighting was trained with today's objective, which draws sizes by their spread."""
    training = row(sitting, method).get("training") if method in sitting["methods"] else None
    return method in UNCHANGED or training is None or bool(training.get("by spread"))
