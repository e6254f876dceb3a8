"""Notes and tables on a terminal whose names can be copied: nothing in them is cut, or broken over lines."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

WIDEST = 10_000


def print_notes(notes: Iterable[str], console: Console) -> None:
    """Print what was done, a line with a bullet for each; a terminal shows long lines as several."""
    for note in notes:
        console.print(Text(f"• {note}"), soft_wrap=True)


def print_table(table: Table, console: Console) -> None:
    """Print a table as wide as it needs to be, also where the terminal is narrower."""
    needed = Measurement.get(console, console.options.update(max_width=WIDEST), table).maximum
    if needed > console.width:
        table.width = needed
    console.print(table, crop=False)
