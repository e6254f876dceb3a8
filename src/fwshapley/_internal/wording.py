"""Counts, lists, durations and names as notes and errors write them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from fwshapley._internal.arrays import to_numpy
from fwshapley._internal.checks import Array

MAX_NAMED = 6
MAX_LETTERS = 40
SECONDS_PER_MINUTE = 60
MILLISECONDS_PER_SECOND = 1000

DIGITS = 3
"""Significant digits of the largest number of a table; all its numbers have the same number of decimals."""


def counted(number: int, noun: str) -> str:
    """Return "1 row", "1,000 rows"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def listed(names: Iterable[object], most: int = MAX_NAMED) -> str:
    """Return the first few names, shortened, and how many more there are."""
    return listed_whole((shortened(str(name)) for name in names), most)


def listed_whole(names: Iterable[object], most: int = MAX_NAMED) -> str:
    """Return the first few names as `listed` does, but complete: names of files, which people copy."""
    shown = [printable(str(name)) for name in names]
    more = f" and {len(shown) - most:,} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def duration(seconds: float) -> str:
    """Return "0.41 ms", "130 ms", "9.1 s", "3.2 min"."""
    if seconds >= SECONDS_PER_MINUTE:
        return f"{seconds / SECONDS_PER_MINUTE:.1f} min"
    milliseconds = MILLISECONDS_PER_SECOND * seconds
    if round(milliseconds) >= MILLISECONDS_PER_SECOND:
        return f"{seconds:.1f} s"
    return f"{round(milliseconds)} ms" if milliseconds >= 10 else f"{milliseconds:.2g} ms"  # noqa: PLR2004 - two digits


def printable(text: str) -> str:
    """Return a text on one line, without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def shortened(text: str) -> str:
    """Return a printable text, cut to a length."""
    plain = printable(text)
    return plain if len(plain) <= MAX_LETTERS else plain[: MAX_LETTERS - 1] + "…"


def decimals_for(values: Array) -> int:
    """Return the number of decimals for the numbers of a table."""
    largest = float(np.abs(to_numpy(values)).max())
    return max(DIGITS - 1 - math.floor(math.log10(largest)), 0) if largest > 0 else DIGITS
