"""How notes and errors name things: counts and lists that stay short."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from fwshapley._internal.arrays import to_numpy
from fwshapley._internal.checks import Array

MOST_NAMED = 6
MOST_LETTERS = 40
MINUTE = 60

DIGITS = 3
"""Digits of the largest number of a table; all others have as many decimals."""


def counted(number: int, noun: str) -> str:
    """Return "1 row", "1,000 rows"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def listed(names: Iterable[object], most: int = MOST_NAMED) -> str:
    """Return the first few names, and how many more there are."""
    return listed_whole((shortened(str(name)) for name in names), most)


def listed_whole(names: Iterable[object], most: int = MOST_NAMED) -> str:
    """Return the first few names as `listed` does, none of them cut: names of files, which people copy."""
    shown = [printable(str(name)) for name in names]
    more = f" and {len(shown) - most:,} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def duration(seconds: float) -> str:
    """Return "0.41 ms", "130 ms", "9.1 s", "3.2 min"."""
    if seconds >= MINUTE:
        return f"{seconds / MINUTE:.1f} min"
    amount = 1e3 * seconds
    if round(amount) >= 1000:  # noqa: PLR2004 - a second
        return f"{seconds:.1f} s"
    return f"{amount:.0f} ms" if amount >= 10 else f"{amount:.2g} ms"  # noqa: PLR2004 - two digits or more


def printable(text: str) -> str:
    """Return a text on one line, without what a terminal might obey."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def shortened(text: str) -> str:
    """Return a text that may be printed, cut where it gets long."""
    plain = printable(text)
    return plain if len(plain) <= MOST_LETTERS else plain[: MOST_LETTERS - 1] + "…"


def decimals_for(values: Array) -> int:
    """Return how many decimals to write numbers of a table with."""
    largest = float(np.abs(to_numpy(values)).max())
    return max(DIGITS - 1 - math.floor(math.log10(largest)), 0) if largest > 0 else DIGITS
