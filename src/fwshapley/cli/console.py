"""What commands say, and how they end: results, notes, and errors on one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import typer
from rich.console import Console
from rich.markup import escape

from fwshapley.cli.user_code import find_origin, say
from fwshapley.plots import new_figure

INTERRUPTED = 130
"""Exit status of a command stopped by Ctrl-C."""

MOST_LETTERS = 1000

MOST_STEPS = 10**9
"""Steps of training that may be asked for; more would never end."""

EXPLAINED = (ValueError, TypeError, OSError, ModuleNotFoundError, FloatingPointError)
"""Errors that say what the user can do, the last one after training that diverged; all others are ours, and are shown
with where they were met, unless the user's own code raised them or memory ran out."""

OUT_OF_MEMORY = "can't allocate memory"
"""What torch says on a CPU; on a GPU it has a kind of error for that."""

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
    except KeyboardInterrupt as error:
        errors.print(when_stopped(), highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from error
    except typer.Exit:
        raise
    except BaseException as error:  # the user's code may raise anything
        line = _explained(error)
        if line is None and isinstance(error, EOFError):  # which typer takes for the end of what a person types
            raise RuntimeError("a file ended too early") from error
        if line is None:
            raise
        errors.print(f"[bold red]error:[/bold red] {escape(line)}", highlight=False, soft_wrap=True)
        raise typer.Exit(code=2) from None  # contextlib mistakes an error caused by StopIteration for its own


def _explained(error: BaseException) -> str | None:
    """Return what to tell the user about an error; None if it is a mistake of ours."""
    origin = find_origin(error)
    if isinstance(error, EXPLAINED) and (origin is None or origin.error is not error):
        told = _worded(error)
        return told if origin is None else f"{told} (raised at {origin.place})"
    if origin is not None:
        return _shortened(f"your model raised {say(origin.error)}, at {origin.place}")
    if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):  # rich's, for `| head`
        return _shortened(f"the command was ended by {say(error)}")
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or OUT_OF_MEMORY in str(error):
        return _shortened(f"not enough memory: {str(error) or 'use less data, or smaller inputs'}")
    return None


def _worded(error: Exception) -> str:
    """Return a message on one line, in terms of the command line."""
    line = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        line = f"{error.filename}: {error.strerror}"
    line = line.replace("resume=False", "--force instead of --resume")
    line = ARGUMENT.sub(lambda found: f"--{found[1].removeprefix('x_')} {found[2]}", line)
    return _shortened(line)


def _shortened(line: str) -> str:
    return line if len(line) <= MOST_LETTERS else line[:MOST_LETTERS] + " …"


def check_matplotlib(otherwise: str) -> None:
    """Raise an error that says how to get matplotlib, or what to do without it."""
    try:
        new_figure(width=1, height=1)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error}; or do without {otherwise}") from error
