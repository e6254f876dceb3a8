"""Importance: the mean size of each player's values over the rows of a table."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from fwshapley.plots.figure import COLORS, new_figure, readable, signed, strip_frame
from fwshapley.plots.ranking import MAX_PLAYERS, rank

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_LEGEND = 4
PALE = 0.45
THICKNESS = 0.78
"""Of the bars of a player together; the remainder is the space between players."""


def plot_importance(
    values: Float[ndarray, "weights rows players"],
    names: Sequence[str],
    titles: Sequence[str],
    *,
    heading: str = "",
    kind: str = "players",
    n_shown: int = MAX_PLAYERS,
) -> Figure:
    """Draw the mean |value| of each player as a bar, one for each weighting, largest first under the first weighting.

    Args:
        values: of each weighting, row and player.
        names: of the players.
        titles: of the weightings.
        heading: title of the figure.
        kind: what the players are called in the bar of those that are not shown, which is the sum of their means.
        n_shown: players that have a bar of their own.

    Example:
        >>> values = np.array([[[1.0, -3.0], [2.0, 3.0]]])  # weightings, rows, players
        >>> figure = fw.plots.plot_importance(values, ["age", "bmi"], ["Shapley"])
        >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
        ['bmi', 'age']
    """
    means = np.abs(values).mean(1)
    ranking = rank(means[0], n_shown)
    widths = ranking.split(means)
    labels = [readable(names[player]) for player in ranking.shown] + ranking.label_rest(kind)
    height = 0.27 + 0.1 * (len(values) - 1)
    figure = new_figure(width=6.4, height=height * ranking.n_lines + 1.15)
    axes = figure.subplots()
    lines = np.arange(ranking.n_lines)
    thickness = THICKNESS / len(values)
    for number, (title, color) in enumerate(zip(titles, itertools.cycle(COLORS), strict=False)):
        middle = lines - THICKNESS / 2 + (number + 0.5) * thickness
        bars = axes.barh(middle, widths[number], height=thickness, color=color, label=title)
        if len(ranking.rest):  # a sum, which is not to be compared with single players
            bars[-1].set(alpha=PALE)
        if len(values) == 1:
            texts = [text.removeprefix("+") for text in signed(widths[number])]
            axes.bar_label(bars, texts, padding=3, fontsize="x-small")
            axes.margins(x=0.12)
    axes.set_yticks(lines, labels)
    axes.set_ylim(ranking.n_lines - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"mean |value|{'' if len(values) > 1 else f' ({titles[0]})'}", fontsize="small")
    axes.set_title(heading, fontsize="medium")
    strip_frame(axes)
    if len(values) > 1:
        figure.legend(frameon=False, fontsize="small", loc="outside lower center", ncols=MAX_LEGEND)
    return figure
