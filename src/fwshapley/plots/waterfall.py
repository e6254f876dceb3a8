"""Waterfall: how the values of one row lead from the base value to its prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from fwshapley.plots.figure import COLORS, NO_ERRORS, Errors, new_figure, short_number, signed, strip_frame
from fwshapley.plots.ranking import MOST_SHOWN, rank

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINE_HEIGHT = 0.3
PANEL_WIDTH = 3.9
LETTER_WIDTH = 0.075
BAR_HEIGHT = 0.62
MARGIN = 0.17
"""Room for numbers beside the bars, as a share of their extent."""
SUM = "base value + values"


class Steps(NamedTuple):
    """Bars of a waterfall, from the lowest to the highest line.

    Attributes:
        values: length of each bar.
        starts: where each bar begins: the base value and the bars below it.
        errors: of the values, if they are known; the bar of several players has none.
    """

    values: Float[ndarray, " lines"]
    starts: Float[ndarray, " lines"]
    errors: Float[ndarray, " lines"] | None

    @property
    def ends(self) -> Float[ndarray, " lines"]:
        """Where each bar ends."""
        return self.starts + self.values


def plot_waterfall(
    values: Float[ndarray, "weights players"],
    base_value: float,
    labels: Sequence[str],
    titles: Sequence[str],
    *,
    adds_up: Sequence[bool],
    heading: str = "",
    kind: str = "players",
    n_shown: int = MOST_SHOWN,
    errors: Errors = NO_ERRORS,
) -> Figure:
    """Draw a bar per player from the base value at the bottom to the prediction at the top, a panel per weighting.

    Only values that add up to it lead to the prediction: Shapley values, and those with total="efficient". The values
    of another weighting do not divide the prediction among the players, so that the difference belongs to nobody: the
    top line is then called the base value plus the values, and a note says that it is not the prediction.

    Args:
        values: of each weighting and player.
        base_value: the value of the empty coalition.
        labels: of the players, such as "age = 61".
        titles: of the weightings.
        adds_up: for each weighting, whether base value and values sum to the prediction.
        heading: title of the figure.
        kind: what the players are called in the bar of those that are not shown, which is the sum of their values.
        n_shown: players that have a bar of their own: those of the largest |value| under the first weighting.
        errors: of the values, with one row; whiskers have two of them to either side.

    Example:
        >>> values = np.array([[2.0, -0.5]])  # weightings, players
        >>> figure = fw.plots.plot_waterfall(values, 1.0, ["age = 61", "bmi = 30"], ["Shapley"], adds_up=[True])
        >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
        ['base value', 'bmi = 30', 'age = 61', 'prediction']
    """
    ranking = rank(np.abs(values[0]), n_shown)
    players = [labels[player] for player in ranking.shown] + ranking.label_rest(kind)
    lines = ["base value", *players[::-1], "prediction" if all(adds_up) else SUM]
    width = PANEL_WIDTH * len(values) + LETTER_WIDTH * max(map(len, lines))
    figure = new_figure(width=width, height=LINE_HEIGHT * len(lines) + 1.1)
    panels = figure.subplots(1, len(values), squeeze=False, sharex=True, sharey=True)[0]
    for number, (axes, title) in enumerate(zip(panels, titles, strict=True)):
        parts = ranking.split(values[number])[::-1]
        starts = base_value + np.concatenate([[0.0], parts.cumsum()[:-1]])
        steps = Steps(parts, starts, _errors_of(errors, number, ranking.shown, len(parts)))
        end = short_number(float(base_value + values[number].sum()))
        _draw_steps(axes, steps, base_value, f"{end} = prediction" if adds_up[number] and not all(adds_up) else end)
        axes.set_title(title, fontsize="small")
    panels[0].set_yticks(np.arange(len(lines)), lines)
    panels[0].set_ylim(-0.7, len(lines) - 0.3)
    panels[0].margins(x=MARGIN)
    figure.suptitle(heading, fontsize="medium")
    others = [title for title, sums in zip(titles, adds_up, strict=True) if not sums]
    note = f"{', '.join(others)}: base value + values is not the prediction" if others else ""
    errors.describe(figure, "whiskers: two {}s to either side", note)
    return figure


def _errors_of(
    errors: Errors, number: int, shown: Sequence[int] | ndarray, n_lines: int
) -> Float[ndarray, " lines"] | None:
    """Return the errors of the shown players from the lowest line on, NaN for the sum of the others."""
    if errors.sizes is None:
        return None
    sizes = errors.sizes[number, 0][shown]
    return np.concatenate([sizes, np.full(n_lines - len(sizes), np.nan)])[::-1]


def _draw_steps(axes: Axes, steps: Steps, base_value: float, end: str) -> None:
    """Draw the bars with their numbers, lines that connect them, and the two ends as points."""
    n_lines = len(steps.values)
    lines = np.arange(1, n_lines + 1)
    colors = [COLORS[1] if value > 0 else COLORS[0] for value in steps.values.tolist()]
    axes.barh(lines, steps.values, left=steps.starts, height=BAR_HEIGHT, color=colors)
    corners = np.concatenate([[base_value], steps.ends])
    axes.vlines(corners, np.arange(n_lines + 1), [*lines.tolist(), n_lines + 1], color="gray", linewidth=0.7, zorder=0)
    reach = np.zeros(n_lines)
    if steps.errors is not None:
        reach = np.nan_to_num(2 * steps.errors)
        style = {"fmt": "none", "elinewidth": 0.9, "capsize": 2, "ecolor": "#444444"}
        axes.errorbar(steps.ends, lines, xerr=2 * steps.errors, **style)
    for line, text in zip(lines.tolist(), signed(steps.values), strict=True):
        step = line - 1
        up = bool(steps.values[step] > 0)
        place = float(steps.ends[step]) + (1 if up else -1) * float(reach[step])
        _write(axes, text, place, line, right=up, color=colors[step])
    axes.plot([base_value, corners[-1]], [0, n_lines + 1], linestyle="none", marker="o", markersize=4, color="black")
    _write(axes, short_number(base_value), base_value, 0, right=True, color="black")
    _write(axes, end, float(corners[-1]), n_lines + 1, right=True, color="black")
    strip_frame(axes)


def _write(axes: Axes, text: str, x: float, y: float, *, right: bool, color: str) -> None:
    """Write a number beside a place."""
    axes.annotate(
        text,
        (x, y),
        xytext=(4 if right else -4, 0),
        textcoords="offset points",
        ha="left" if right else "right",
        va="center",
        fontsize="x-small",
        color=color,
    )
