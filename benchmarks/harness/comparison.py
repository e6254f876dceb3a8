"""Compare the figures and seeds of a new run with those of a record."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

ABOUT = ("commands", "codes", "dates", "machines", "made", "seed", "seeds", "settings")
"""Keys of results that describe how they were measured; they are not compared."""

ABOUT_ALL = (*ABOUT, "seconds")
"""The same at the top level, where "seconds" is the time of the whole run; deeper down it is a measured figure."""

FINGERPRINT = re.compile("[0-9a-f]{8}")
"""Hash of a trained model. It differs from run to run, so entries are matched by their position instead."""

CLOSE = 0.01
"""Relative difference up to which two figures count as equal."""


def compare_figures(found: Mapping[str, Any], recorded: Mapping[str, Any]) -> str:
    """Return how many figures of a record were measured again, how many are close, and the largest difference.

    Args:
        found: new results, as read from JSON.
        recorded: recorded results.
    """
    before, now = dict(figures(recorded)), dict(figures(found))
    shared = {place: difference(now[place], figure) for place, figure in before.items() if place in now}
    if not shared:
        return f"none of the {len(before):,} recorded figures was measured again"
    close = sum(each <= CLOSE for each in shared.values())
    again = f"{len(shared):,} of {len(before):,} recorded figures were measured again"
    told = f"{again}: {close:,} within {100 * CLOSE:g} %"
    place, most = max(shared.items(), key=lambda item: item[1])
    if not most:
        return f"{told}, no difference at all"
    farthest = f"{now[place]:.4g} at {place}, recorded {before[place]:.4g}"
    return f"{told}; the largest relative difference is {100 * most:.3g} %: {farthest}"


def compare_seeds(found: Sequence[int], recorded: Sequence[int]) -> str:
    """Return both sets of seeds in brackets if they differ, else nothing."""
    if set(found) == set(recorded):
        return ""
    word = "seed" if len(set(found)) == 1 else "seeds"
    return f" ({word} {listed_seeds(found)}; recorded with {listed_seeds(recorded)})"


def listed_seeds(seeds: Sequence[int]) -> str:
    """Return seeds in a sentence: 0 to 9; 0 and 1; 0, 2 and 7; none."""
    if not seeds:
        return "none"
    *firsts, last = sorted(set(seeds))
    if len(firsts) > 1 and last - firsts[0] == len(firsts):
        return f"{firsts[0]} to {last}"
    return f"{', '.join(map(str, firsts))} and {last}" if firsts else str(last)


def figures(tree: object, place: str = "") -> Iterator[tuple[str, float]]:
    """Yield all numbers of a tree with their places; that in a list includes the list's length."""
    if isinstance(tree, bool):
        return
    if isinstance(tree, int | float):
        yield place, tree
        return
    branches: Mapping[Any, Any] = {}
    if isinstance(tree, Mapping):
        about = ABOUT if place else ABOUT_ALL
        branches = {
            f"run {number}" if FINGERPRINT.fullmatch(str(name)) else name: branch
            for number, (name, branch) in enumerate(tree.items(), 1)
            if name not in about
        }
    elif isinstance(tree, list):
        branches = {f"{number} of {len(tree)}": each for number, each in enumerate(tree, 1)}
    for name, branch in branches.items():
        yield from figures(branch, f"{place}.{name}" if place else str(name))


def difference(one: float, other: float) -> float:
    """Difference relative to the larger of two numbers: 0 to 1, or up to 2 if the signs differ."""
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    found = abs(one - other) / max(abs(one), abs(other))
    return 2.0 if math.isnan(found) else found
