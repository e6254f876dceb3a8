"""How every script here starts and ends: quietly on Ctrl-C, its figures marked where it was only tried."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Any

INTERRUPTED = 128 + signal.SIGINT
"""Exit status of a shell for a program that Ctrl-C ended."""


def run_script(main: Callable[[], None]) -> None:
    """Run a script; Ctrl-C ends it without a traceback."""
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def marked(figure: Any, *, smoke: bool) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Return a figure, with a title that says so if a smoke run made it."""
    if smoke:
        figure.suptitle("smoke run, on bundled or made-up data: no result", color="firebrick", fontsize="medium")
    return figure
