"""How figures that were measured again agree with recorded ones, in a line, and whether their seeds are the same."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

ABOUT = ("commands", "codes", "dates", "machines", "made", "seed", "seeds", "settings")
"""What results say of how they came about, which is no figure."""

ABOUT_ALL = (*ABOUT, "seconds")
"""What they say of all of it; deeper down, seconds are figures of what was timed."""

FINGERPRINT = re.compile("[0-9a-f]{8}")
"""Of models that were trained anew, for which their place stands: they come out otherwise every time."""

CLOSE = 0.01
"""Relative difference up to which figures are called close."""


def compare_figures(found: Mapping[str, Any], recorded: Mapping[str, Any]) -> str:
    """Return how many figures of a record were found again, how many of them are close, and where the farthest is.

    Args:
        found: what was measured now, a tree as JSON holds it.
        recorded: what was measured then.
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
    return f"{told}; the largest difference, relative to the larger of two, is {100 * most:.3g} %: {farthest}"


def compare_seeds(found: Sequence[int], recorded: Sequence[int]) -> str:
    """Return both in brackets, if they differ: figures of other seeds, or of fewer, cannot be the same."""
    if set(found) == set(recorded):
        return ""
    word = "seed" if len(set(found)) == 1 else "seeds"
    return f" ({word} {_listed(found)}; recorded with {_listed(recorded)})"


def _listed(seeds: Sequence[int]) -> str:
    """Return seeds in words: 0 to 9; 0 and 1; 0, 2 and 7; none."""
    if not seeds:
        return "none"
    *firsts, last = sorted(set(seeds))
    if len(firsts) > 1 and last - firsts[0] == len(firsts):
        return f"{firsts[0]} to {last}"
    return f"{', '.join(map(str, firsts))} and {last}" if firsts else str(last)


def figures(tree: object, place: str = "") -> Iterator[tuple[str, float]]:
    """Yield all numbers of a tree, each with its place; that in a list knows the length, as others do not compare."""
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
    """Relative to the larger: 0 to 1, or up to 2 where signs differ."""
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    found = abs(one - other) / max(abs(one), abs(other))
    return 2.0 if math.isnan(found) else found
