"""What every script here does alike: end quietly on Ctrl-C, list choices, mark the figures of a mere trial."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable
from typing import Any

INTERRUPTED = 128 + signal.SIGINT
"""Exit status of a shell for a program that Ctrl-C ended."""


def run_script(main: Callable[[], None]) -> None:
    """Run a script; Ctrl-C ends it without a traceback."""
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def quoted(choices: Iterable[str]) -> str:
    """Return choices for the help of an option, as a shell takes them; argparse reads % as its own."""
    return ", ".join(f"'{each}'" if " " in each else each for each in choices).replace("%", "%%")


def marked(figure: Any, *, smoke: bool) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Return a figure, with a title that says so if a smoke run made it."""
    if smoke:
        figure.suptitle("smoke run, on bundled or made-up data: no result", color="firebrick", fontsize="medium")
    return figure
