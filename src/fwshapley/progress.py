"""A progress bar for long work: on a terminal only, and only once the work has taken a while."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

PATIENCE_SECONDS = 1.0


class ProgressBar:
    """Counts steps towards a total and shows them; as a context manager it always cleans up.

    Args:
        description: what is being done, in a few words.
        total: number of steps.
        enabled: False never shows anything.
    """

    def __init__(self, description: str, total: int, *, enabled: bool = True) -> None:
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def advance(self, steps: int, note: str = "") -> None:
        """Count steps as done and show a note beside them."""
        self._progress.update(self._task, advance=steps, note=note)
        if time.monotonic() - self._born > PATIENCE_SECONDS:
            self._progress.start()
