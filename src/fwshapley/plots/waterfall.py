"""Waterfall: how the values of one row lead from the base value to its prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from fwshapley.plots.figure import COLORS, NO_ERRORS, Errors, name_panels, new_figure, short_number, signed, strip_frame
from fwshapley.plots.ranking import MAX_PLAYERS, rank

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
MARK: Mapping[str, Any] = {"linestyle": "none", "marker": "D", "markersize": 6, "color": "black", "fillstyle": "none"}
"""Where the model's own prediction is."""

Sum = Literal["the prediction", "about the prediction", "not the prediction"]
EXACT: Sum = "the prediction"


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

    @property
    def reach(self) -> Float[ndarray, " lines"]:
        """Length of the whiskers to either side."""
        return np.zeros_like(self.values) if self.errors is None else np.nan_to_num(2 * self.errors)

    @property
    def lowest(self) -> Float[ndarray, " lines"]:
        """Left ends of bars and whiskers."""
        return np.minimum(self.starts, self.ends - self.reach)

    @property
    def highest(self) -> Float[ndarray, " lines"]:
        """Right ends of bars and whiskers."""
        return np.maximum(self.starts, self.ends + self.reach)


def plot_waterfall(
    values: Float[ndarray, "weights players"],
    base_value: float,
    labels: Sequence[str],
    titles: Sequence[str],
    *,
    sums: Sequence[Sum],
    heading: str = "",
    kind: str = "players",
    n_shown: int = MAX_PLAYERS,
    errors: Errors = NO_ERRORS,
    model_prediction: float | None = None,
    is_far: bool = False,
) -> Figure:
    """Draw a bar per player from the base value at the bottom to the prediction at the top, a panel per weighting.

    Only Shapley values, and those with total="efficient", add up to the prediction less the base value. The values of
    another weighting do not divide the prediction among the players, so that a difference belongs to no player and has
    no bar: the top line is then called the base value plus the values, and a note says that it is not the prediction.

    Args:
        values: of each weighting and player.
        base_value: the value of the empty coalition.
        labels: of the players, such as "age = 61".
        titles: of the weightings.
        sums: for each weighting, what the sum of base value and values is: "the prediction", "about the prediction" if
            values are estimates, or "not the prediction".
        heading: title of the figure.
        kind: what the players are called in the bar of those that are not shown, which is the sum of their values.
        n_shown: players that have a bar of their own: those of the largest |value| under the first weighting.
        errors: of the values, with one row; whiskers have two of them to either side.
        model_prediction: what the model itself predicts, if the values explain a surrogate: a mark on the top line, and
            a note. The prediction that values add up to is then called the surrogate's.
        is_far: whether to note that it differs from that sum by more than expected.

    Example:
        >>> values, labels = np.array([[2.0, -0.5]]), ["age = 61", "bmi = 30"]
        >>> figure = fw.plots.plot_waterfall(values, 1.0, labels, ["Shapley"], sums=["the prediction"])
        >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
        ['base value', 'bmi = 30', 'age = 61', 'prediction']
    """
    ranking = rank(np.abs(values[0]), n_shown)
    all_add_up = set(sums) == {EXACT}
    prediction = "prediction" if model_prediction is None else "surrogate's prediction"
    players = [labels[player] for player in ranking.shown] + ranking.label_rest(kind)
    lines = ["base value", *players[::-1], prediction if all_add_up else SUM]
    width = PANEL_WIDTH * len(values) + LETTER_WIDTH * max(map(len, lines))
    figure = new_figure(width=width, height=LINE_HEIGHT * len(lines) + 1.1)
    panels = figure.subplots(1, len(values), squeeze=False, sharex=True, sharey=True)[0]
    extent = []
    for number, axes in enumerate(panels):
        parts = ranking.split(values[number])[::-1]
        starts = base_value + np.concatenate([[0.0], parts.cumsum()[:-1]])
        steps = Steps(parts, starts, _errors_of(errors, number, ranking.shown, len(parts)))
        end = short_number(float(base_value + values[number].sum()))
        _draw_steps(
            axes, steps, base_value, f"{end} = {prediction}" if sums[number] == EXACT and not all_add_up else end
        )
        extent += [base_value, *steps.lowest, *steps.highest]
        if model_prediction is not None:
            axes.plot([model_prediction], [len(lines) - 1], **MARK)
            extent.append(model_prediction)
    panels[0].set_yticks(np.arange(len(lines)), lines)
    panels[0].set_ylim(-0.7, len(lines) - 0.3)
    margin = MARGIN * (max(extent) - min(extent)) or 1.0
    panels[0].set_xlim(min(extent) - margin, max(extent) + margin)
    name_panels(figure, panels, titles, heading)
    notes = [
        f"{title}: base value + values is {what}" for title, what in zip(titles, sums, strict=True) if what != EXACT
    ]
    if model_prediction is not None:
        far = ", which differs by more than expected: do not rely on this explanation" if is_far else ""
        notes.append(f"◇: the model itself predicts {short_number(model_prediction)}{far}")
    errors.describe(figure, "whiskers: two {}s to either side", "\n".join(notes))
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
    for line in range(n_lines + 2):
        axes.axhline(line, color="#e4e4e4", linewidth=0.6, zorder=0)  # from a label to its bar
    lines = np.arange(1, n_lines + 1)
    colors = [COLORS[1] if value >= 0 else COLORS[0] for value in steps.values.tolist()]
    axes.barh(lines, steps.values, left=steps.starts, height=BAR_HEIGHT, color=colors)
    corners = np.concatenate([[base_value], steps.ends])
    axes.vlines(corners, np.arange(n_lines + 1), [*lines.tolist(), n_lines + 1], color="gray", linewidth=0.7, zorder=0)
    if steps.errors is not None:
        style: dict[str, Any] = {"fmt": "none", "elinewidth": 0.9, "capsize": 2, "ecolor": "#444444"}
        axes.errorbar(steps.ends, lines, xerr=2 * steps.errors, **style)
    for line, text in zip(lines.tolist(), signed(steps.values), strict=True):
        step = line - 1
        up = bool(steps.values[step] >= 0)
        _write(axes, text, float((steps.highest if up else steps.lowest)[step]), line, right=up, color=colors[step])
    axes.plot([base_value, corners[-1]], [0, n_lines + 1], linestyle="none", marker="o", markersize=4, color="black")
    _write(axes, short_number(base_value), base_value, 0, right=True, color="black")
    _write(axes, end, float(corners[-1]), n_lines + 1, right=True, color="black")
    strip_frame(axes)


def _write(axes: Axes, text: str, x: float, y: float, *, right: bool, color: str) -> None:
    """Write a number beside a place."""
    axes.annotate(
        text.replace("-", "\N{MINUS SIGN}"),
        (x, y),
        xytext=(6 if right else -6, 0),
        textcoords="offset points",
        ha="left" if right else "right",
        va="center",
        fontsize="x-small",
        color=color,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},  # over the line from the label
    )
