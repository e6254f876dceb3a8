"""Save figures; those of a smoke run are marked."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fwshapley._internal.files import written_whole


def save_figure(draw: Callable[[], Any], name: str, arguments: argparse.Namespace, **options: Any) -> None:  # noqa: ANN401 - matplotlib's, which is optional
    """Draw a figure and write it to <figures>/<name>.png, unless `--no-figure` was given.

    Args:
        draw: makes the figure; it is not called, and matplotlib not needed, with `--no-figure`.
        name: of the file, without ".png".
        arguments: of the experiment.
        options: of matplotlib's savefig.
    """
    if arguments.no_figure:
        return
    with written_whole(Path(arguments.figures) / f"{name}.png") as temporary:
        marked(draw(), smoke=arguments.smoke).savefig(temporary, **options)


def marked(figure: Any, *, smoke: bool) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Return a figure; its title says so if a smoke run made it."""
    if smoke:
        figure.suptitle("smoke run, on bundled or generated data: no result", color="firebrick", fontsize="medium")
    return figure
