"""Progress of long work: a bar on a terminal, and a line from time to time where output goes to a file."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from fwshapley._internal.wording import duration

PATIENCE_SECONDS = 1.0
"""Time that work takes before a bar is shown."""

FIRST_LINE_SECONDS = 10.0
"""Time that work takes before its first line, where there is no terminal."""

LINE_SECONDS = 30.0
"""Time between two lines."""

LONG_SECONDS = 20.0
"""Expected time from which on a call announces what it will cost."""


def announce(
    task: str, *costs: str, seconds: float | None = None, memory: int | None = None, enabled: bool = True
) -> None:
    """Write one line to standard error that says what a long call will cost, before it starts.

    Args:
        task: what is about to be done, in a few words.
        costs: counts such as "2,000 game calls".
        seconds: expected time; a call that takes less than `LONG_SECONDS` is not announced.
        memory: expected peak memory, in bytes.
        enabled: False writes nothing; pass the caller's `progress` argument.

    Example:
        >>> announce("exact values", "16,777,216 game calls", seconds=300)  # on standard error
        exact values: 16,777,216 game calls, about 5.0 min
    """
    if not enabled or (seconds is not None and seconds < LONG_SECONDS):
        return
    parts = [*costs]
    if seconds is not None:
        parts.append(f"about {duration(seconds)}")
    if memory is not None:
        parts.append(f"about {max(memory / 2**30, 0.1):.1f} GB of memory")
    _print(f"{task}: {', '.join(parts)}")


class ProgressBar:
    """Counts steps towards a total and shows them on standard error; as a context manager it always cleans up.

    On a terminal that is a bar. Elsewhere, as in the log of a batch job, it is a line after some seconds, one every
    half a minute from then on, and one at the end. Work that will take long, judged by its first second, is announced.

    Args:
        description: what is being done, in a few words.
        total: number of steps.
        unit: what a step is called in the announcement, such as "game calls"; without, nothing is announced.
        enabled: False never shows anything.
    """

    def __init__(self, description: str, total: int, *, unit: str = "", enabled: bool = True) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
            disable=not (enabled and console.is_terminal),
        )
        self._task = self._progress.add_task(description, total=total, note="")
        self._born = time.monotonic()
        self._description = description
        self._total = total
        self._unit = unit if enabled else ""
        self._done = 0
        self._in_lines = enabled and not console.is_terminal
        self._next_line = FIRST_LINE_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
        if self._next_line > FIRST_LINE_SECONDS and kind is None:  # lines were printed, so the last one is expected
            _print(f"{self._description}: done in {self._elapsed:.0f} s")

    def advance(self, steps: int, note: str = "") -> None:
        """Count steps as done and show a note beside them."""
        self._done += steps
        if self._unit and self._elapsed > PATIENCE_SECONDS:  # earlier, start-up would distort the estimate
            expected = self._elapsed * self._total / self._done
            announce(self._description, f"{self._total:,} {self._unit}", seconds=expected)
            self._unit = ""
        self._progress.update(self._task, advance=steps, note=note)
        if self._elapsed > PATIENCE_SECONDS:
            self._progress.start()
        if self._in_lines and self._elapsed > self._next_line and self._done < self._total:
            self._next_line = self._elapsed + LINE_SECONDS
            _print(self._line(note))

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._born

    def _line(self, note: str) -> str:
        share = self._done / self._total if self._total else 0.0
        left = f", about {self._elapsed * (1 / share - 1):.0f} s left" if 0 < share < 1 else ""
        return f"{self._description}: {share:.0%} after {self._elapsed:.0f} s{left}" + (f"; {note}" if note else "")


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - plain, for logs
