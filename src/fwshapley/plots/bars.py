"""Values of single inputs as bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from fwshapley.plots.figure import COLORS, MAX_LETTERS, MAX_TICKS, NO_ERRORS, Errors, new_figure, readable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_BARS = 12
BAR_WIDTH = 2.9
LETTER_WIDTH = 0.07


def plot_bars(
    values: Float[ndarray, "weights rows players"],
    names: Sequence[str],
    labels: Sequence[str],
    titles: Sequence[str],
    errors: Errors = NO_ERRORS,
    *,
    entries: Sequence[Sequence[str]] | None = None,
) -> Figure:
    """Draw the players of each row as bars, those of the largest values on top, with whiskers of two errors.

    Args:
        values: of each weighting, row and player.
        names: of the players.
        labels: of the rows, such as an input and its output.
        titles: of the weightings.
        errors: of the values.
        entries: labels of the players in each row in place of their names, such as "age = 61".
    """
    shown = min(len(names), MAX_BARS)
    lines = [list(map(readable, names))] * len(labels) if entries is None else entries
    width = BAR_WIDTH + LETTER_WIDTH * min(max(len(text) for line in lines for text in line), MAX_LETTERS)
    figure = new_figure(width=width * len(values), height=len(labels) * (0.24 * shown + 1.05))
    axes = figure.subplots(len(labels), len(values), squeeze=False)
    for row, label in enumerate(labels):
        for column, title in enumerate(titles):
            value, cell = values[column, row], axes[row, column]
            first = np.abs(value).argsort(kind="stable")[-shown:]
            cell.barh(
                [lines[row][player] for player in first.tolist()],
                value[first],
                color=[COLORS[1] if amount > 0 else COLORS[0] for amount in value[first].tolist()],
                xerr=None if errors.sizes is None else 2 * errors.sizes[column, row][first],
                error_kw={"elinewidth": 0.9, "capsize": 2, "ecolor": "#444444"},
            )
            cell.axvline(0, color="gray", linewidth=0.8)
            cell.set_title(f"{label}\n{title}", fontsize="small")
            cell.tick_params(labelsize="small")
            cell.locator_params(axis="x", nbins=MAX_TICKS)
            cell.spines[["top", "right"]].set_visible(False)
    left_out = "" if shown == len(names) else f"{shown} of {len(names)} players shown: the largest values"
    errors.describe(figure, "whiskers: two {}s to either side", left_out)
    return figure
