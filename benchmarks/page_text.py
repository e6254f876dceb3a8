"""How the pages put what was recorded: tables, lists, times and spreads, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def table(header: list[str], rows: list[list[str]], others: str = "---:") -> str:
    """A Markdown table, the first column left and the others, which are figures for the most part, right."""
    lines = [header, ["---", *[others] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def listed(parts: Iterable[str]) -> str:
    """Return parts in a sentence."""
    *firsts, last = [*parts] or [""]
    return f"{', '.join(firsts)} and {last}" if firsts else last


def rounded(value: float, digits: int) -> str:
    """Return a figure that is never -0."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def spread(pair: Sequence[float], digits: int = 3) -> str:
    """Mean and standard deviation."""
    return f"{pair[0]:.{digits}f} ± {pair[1]:.{digits}f}"


def spanned(values: Sequence[float], form: str) -> str:
    """Smallest and largest of some figures, or the one that they all are when written in a form such as ".3f"."""
    low, high = (f"{each:{form}}" for each in (min(values, default=0), max(values, default=0)))
    return low if low == high else f"{low} to {high}"


def preliminary(missing: str) -> str:
    """Say that figures are not final, where something is missing."""
    return f"Preliminary: {missing}.\n\n" if missing else ""


def percent(gain: Sequence[float] | None) -> str:
    """Relative gain with its interval."""
    return "" if gain is None else f"{gain[0]:+.1%} ({100 * gain[1]:+.1f} to {100 * gain[2]:+.1f})"


def hardware(machine: Mapping[str, Any]) -> str:
    """What a time was measured on: the GPU, or else the cores."""
    return machine["gpu"] or f"{machine['cores']} CPU cores"


def duration(seconds: float) -> str:
    """Seconds, or what is easier to read."""
    if seconds < 1:
        return f"{1e3 * seconds:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"


def emphasis(name: str) -> float:
    """Place of a weighting between small coalitions and large ones."""
    if name == "Shapley":
        return 1.0
    alpha, beta = map(float, name.removeprefix("Beta(").removesuffix(")").split(", "))
    return beta / alpha
