"""Format numbers on pages and in figures, and order weightings."""

from __future__ import annotations

from collections.abc import Iterable


def duration(seconds: float) -> str:
    """Time to three digits, in a unit that suits it."""
    if seconds < 1:
        return f"{1e3 * seconds:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"


def emphasis(weighting: str) -> float:
    """Place of a weighting between small coalitions (below 1) and large ones (above 1)."""
    if weighting == "Shapley":
        return 1.0
    alpha, beta = map(float, weighting.removeprefix("Beta(").removesuffix(")").split(", "))
    return beta / alpha


def listed(parts: Iterable[str]) -> str:
    """Return parts as a list in a sentence: a, b and c."""
    *firsts, last = [*parts] or [""]
    return f"{', '.join(firsts)} and {last}" if firsts else last
