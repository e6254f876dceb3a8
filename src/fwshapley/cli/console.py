"""What all commands share: how they take arguments, print notes and tables, and explain errors on one line."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand

import fwshapley as fw
from fwshapley._internal.wording import counted
from fwshapley.cli.user_errors import describe, find_origin
from fwshapley.plots import new_figure

INTERRUPTED = 130
"""Exit status of a command stopped by Ctrl-C."""

MAX_LETTERS = 1000
WIDEST = 10_000

MAX_STEPS = 10**9
"""Largest --steps."""

EXPLAINED = (ValueError, TypeError, OSError, ModuleNotFoundError, FloatingPointError)
"""Errors that say what the user can do, the last one after training that diverged. All others are bugs of ours and keep
their traceback, unless the user's code raised them or memory ran out."""

OUT_OF_MEMORY = "can't allocate memory"
"""Part of torch's message on a CPU; on a GPU it raises `torch.OutOfMemoryError`."""

ARGUMENT = re.compile(r"\b(model|method|objective|output|outputs|network|total|x_valid|device)=('[^']*'|\.\.\.)")
"""Arguments in Python that are options of the command line."""

console = Console()
errors = Console(stderr=True)


class Command(TyperCommand):
    """A command that refuses empty arguments and explains errors, also those before its own code runs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - of the click that typer brings
        """Raise an error for an empty argument: mostly a variable that is not set; as a path, the current folder."""
        for place, arg in enumerate(args):
            if not arg or (arg.startswith("--") and arg.endswith("=")):
                where = arg or (f"after {args[place - 1]}" if place else "the first one")
                raise typer.BadParameter(f"an argument is empty ({where}): leave it out, or give it a value", ctx=ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - of the click that typer brings
        """Run the command."""
        with errors_explained():
            return super().invoke(ctx)


def print_line(line: str) -> None:
    """Print a line with markup; a terminal wraps it, and names can be copied whole."""
    console.print(line, highlight=False, soft_wrap=True)


def print_notes(notes: Iterable[str], to: Console = console) -> None:
    """Print notes, a line with a bullet for each; nothing in them is cut, or broken over lines."""
    for note in notes:
        to.print(Text(f"• {note}"), soft_wrap=True)


def new_table(title: str, headings: Iterable[str], left: Iterable[str] = (), caption: str | None = None) -> Table:
    """Return an empty table.

    Args:
        title: above it.
        headings: of its columns.
        left: those of columns that are aligned left; others are aligned right.
        caption: below it.
    """
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, caption=caption)
    table.caption_justify = "left"
    texts = set(left)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in texts else "right")
    return table


def print_table(table: Table, to: Console = console) -> None:
    """Print a table as wide as it needs to be, also where the terminal is narrower."""
    needed = Measurement.get(to, to.options.update(max_width=WIDEST), table).maximum
    if needed > to.width:
        table.width = needed
    to.print(table, crop=False)


def about_budget(budget: fw.Budget) -> str:
    """Return a budget in words, such as "120 seconds or 10 steps"."""
    limits = [f"{budget.seconds:g} seconds"] if budget.seconds else []
    limits += [counted(budget.steps, "step")] if budget.steps else []
    return " or ".join(limits)


@contextmanager
def errors_explained(when_stopped: Callable[[], str] = lambda: "stopped") -> Iterator[None]:
    """Print an error on one line instead of its traceback, and warnings without the line of code that raised them.

    Args:
        when_stopped: returns the message after Ctrl-C.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning
            warnings.filterwarnings("ignore", "X has feature names, but")  # `NamedModel.about_columns` says it once
            yield
    except KeyboardInterrupt as error:
        errors.print(when_stopped(), highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from error
    except typer.Exit:
        raise
    except BaseException as error:  # the user's code may raise anything
        line = _explain(error)
        if line is None and isinstance(error, EOFError):  # typer would take it for the end of typed input
            raise RuntimeError("a file ended too early") from error
        if line is None:
            raise
        errors.print(f"[bold red]error:[/bold red] {escape(line)}", highlight=False, soft_wrap=True)
        raise typer.Exit(code=2) from None  # contextlib mistakes an error caused by StopIteration for its own


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    errors.print(f"[yellow]warning:[/yellow] {escape(_message(message))}", highlight=False, soft_wrap=True)


def _explain(error: BaseException) -> str | None:
    """Return the message for the user about an error; None if it is a bug of ours."""
    origin = find_origin(error)
    if isinstance(error, EXPLAINED) and (origin is None or origin.error is not error):
        message = _message(error)
        return message if origin is None else f"{message} (raised at {origin.place})"
    if origin is not None:
        return _shorten(f"your model raised {describe(origin.error)}, at {origin.place}")
    if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):  # rich's, for `| head`
        return _shorten(f"the command was ended by {describe(error)}")
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or OUT_OF_MEMORY in str(error):
        return _shorten(f"not enough memory: {str(error) or 'use less data, or smaller inputs'}")
    return None


def _message(error: Exception | str) -> str:
    """Return a message on one line, with options of the command line in place of arguments in Python."""
    line = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        line = f"{error.filename}: {error.strerror}"
    line = line.replace("resume=False", "--force instead of --resume")
    line = ARGUMENT.sub(lambda match: f"--{match[1].removeprefix('x_')} {match[2]}", line)
    return _shorten(line)


def _shorten(line: str) -> str:
    return line if len(line) <= MAX_LETTERS else line[:MAX_LETTERS] + " …"


def check_matplotlib(otherwise: str) -> None:
    """Raise an error that says how to install matplotlib, or what to do without it."""
    try:
        new_figure(width=1, height=1)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error}; or do without {otherwise}") from error
