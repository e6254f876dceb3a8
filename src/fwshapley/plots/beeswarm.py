"""Beeswarm: the values of all rows, a line per player and a point per row, colored by the entry in the column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from fwshapley.plots.features import Feature, add_color_bar, draw_points, spread_out
from fwshapley.plots.figure import name_panels, new_figure, strip_frame
from fwshapley.plots.ranking import MAX_PLAYERS, rank

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure

LINE_HEIGHT = 0.3
PANEL_WIDTH = 4.0
LETTER_WIDTH = 0.075
ROOM = 0.42
"""Points stay so close to their line; lines have a distance of 1."""
STEP = 0.15
N_BINS = 90
"""About as many points fit side by side on a panel."""
MARGIN = 0.03


def plot_beeswarm(
    values: Float[ndarray, "weights rows players"],
    features: Sequence[Feature],
    titles: Sequence[str],
    *,
    heading: str = "",
    kind: str = "players",
    n_shown: int = MAX_PLAYERS,
) -> Figure:
    """Draw a point per row and player, with a panel per weighting, players of the largest mean |value| on top.

    All panels have the order of players of the first weighting and the same scale. Gray points have no value: it is
    missing, one of several categories without an order, or the player is a group of columns.

    Args:
        values: of each weighting, row and player.
        features: players with the values of their columns.
        titles: of the weightings.
        heading: title of the figure.
        kind: what the players are called in the line of those that are not shown, which has the sum of their values.
        n_shown: players that have a line of their own.

    Example:
        >>> feature = fw.plots.Feature("age", numbers=np.array([20.0, 30.0, 40.0]))
        >>> figure = fw.plots.plot_beeswarm(np.array([[[-1.0], [0.0], [1.0]]]), [feature], ["Shapley"])
        >>> figure.axes[0].get_yticklabels()[0].get_text()
        'age'
    """
    ranking = rank(np.abs(values[0]).mean(0), n_shown)
    labels = [features[player].label for player in ranking.shown] + ranking.label_rest(kind)
    letters = max(map(len, labels))
    figure = new_figure(
        width=PANEL_WIDTH * len(values) + LETTER_WIDTH * letters + 0.8, height=LINE_HEIGHT * ranking.n_lines + 1.2
    )
    panels = figure.subplots(1, len(values), squeeze=False, sharex=True, sharey=True)[0]
    lines = ranking.split(values)
    extent = MARGIN * float(np.ptp(lines)) or 1.0
    limits = (float(lines.min()) - extent, float(lines.max()) + extent)
    colored = [
        _draw_lines(axes, lines[number], [features[player] for player in ranking.shown], limits)
        for number, axes in enumerate(panels)
    ]
    for axes in panels:
        axes.set_xlabel("value", fontsize="small")
    panels[0].set_yticks(np.arange(ranking.n_lines), labels)
    panels[0].set_ylim(ranking.n_lines - 0.4, -0.6)
    panels[0].set_xlim(limits)
    points = next((points for points in colored if points is not None), None)
    if points is not None:
        add_color_bar(figure, points, "entry in the column")
        figure.axes[-1].set_yticks([0, 1], ["low", "high"])
    name_panels(figure, panels, titles, heading)
    return figure


def _draw_lines(
    axes: Axes, lines: Float[ndarray, "rows lines"], features: Sequence[Feature], limits: tuple[float, float]
) -> PathCollection | None:
    """Draw a line of points for each player and for the sum of the others; return some that are colored."""
    colored = None
    for line, values in enumerate(lines.T):
        axes.axhline(line, color="#dddddd", linewidth=0.6, zorder=1)
        offsets = spread_out(values, limits, step=STEP, room=ROOM, n_bins=N_BINS)
        shades = features[line].shades() if line < len(features) else None
        colored = draw_points(axes, values, line + offsets, shades) or colored
    axes.axvline(0, color="gray", linewidth=0.8, zorder=1)
    strip_frame(axes)
    return colored
