"""What commands say, and how they end: results, notes, and errors on one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fwshapley.inputs import choose_device
from fwshapley.plots import new_figure

INTERRUPTED = 130
"""Exit status of a command stopped by Ctrl-C."""

MOST_LETTERS = 1000

EXPLAINED = (ValueError, TypeError, OSError, ModuleNotFoundError, FloatingPointError)
"""Errors that say what the user can do, the last one after training that diverged; all others are ours, and are shown
with where they were met."""

ARGUMENT = re.compile(r"\b(model|objective|output|outputs|network|total|x_valid|device)=('[^']*'|\.\.\.)")
"""Arguments of Python that are options here."""

console = Console()
errors = Console(stderr=True)


@contextmanager
def errors_explained(when_stopped: Callable[[], str] = lambda: "stopped") -> Iterator[None]:
    """Print what was wrong on one line, instead of where in the code it was met.

    Args:
        when_stopped: says how to go on after Ctrl-C.
    """
    try:
        yield
    except EXPLAINED as error:
        errors.print(f"[bold red]error:[/bold red] {escape(_worded(error))}", highlight=False, soft_wrap=True)
        raise typer.Exit(code=2) from error
    except KeyboardInterrupt as error:
        errors.print(when_stopped(), highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from error


def _worded(error: Exception) -> str:
    """Return a message on one line, in terms of the command line."""
    line = " ".join(str(error).split()) or type(error).__name__
    line = line.replace("resume=False", "--force instead of --resume")
    line = ARGUMENT.sub(lambda found: f"--{found[1].removeprefix('x_')} {found[2]}", line)
    return line if len(line) <= MOST_LETTERS else line[:MOST_LETTERS] + " …"


def print_notes(notes: Iterable[str]) -> None:
    """Print what was done, a bullet for each."""
    bullets = Table.grid(padding=(0, 1))
    for note in notes:
        bullets.add_row("•", Text(note))
    console.print(bullets)


def check_device(name: str) -> None:
    """Raise an error unless a device can be used, rather than torch's own in the midst of work."""
    try:
        torch.empty(0, device=choose_device(name))
    except (RuntimeError, AssertionError) as error:  # for a device unknown, and one that torch was built without
        raise ValueError(f"--device {name} cannot be used: {str(error).splitlines()[0]}") from error


def check_matplotlib(otherwise: str) -> None:
    """Raise an error that says how to get matplotlib, or what to do without it."""
    try:
        new_figure(width=1, height=1)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error}; or do without {otherwise}") from error
