"""What suffices: the players of an image shown in the order of their values, and what the model then predicts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from fwshapley.plots.figure import COLORS, label_axes, new_figure, percent, readable, short_number
from fwshapley.plots.images import draw_pixels
from fwshapley.plots.overlays import hide_pixels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FRAME = 1.15
"""Width of a frame of the strip, in inches."""

ENOUGH = 0.9
"""Share of the gain of all players that is called enough."""

FRAMES_PER_SECOND = 8
PAUSE = 2.0
"""Seconds that an animation shows the complete image."""


@dataclass(frozen=True, eq=False)
class Inclusion:
    """Outputs for one input as its players are shown or hidden, those of the largest values first.

    Attributes:
        order: the players, that of the largest value first.
        sizes: numbers of players that outputs are known for, from 0 to all.
        shown: output with the first players shown, for each of the sizes.
        hidden: output with them hidden.
        random: mean output with players shown in random orders.
    """

    order: Int[ndarray, " players"]
    sizes: Int[ndarray, " points"]
    shown: Float[ndarray, " points"]
    hidden: Float[ndarray, " points"]
    random: Float[ndarray, " points"]

    def ranks(self) -> Int[ndarray, " players"]:
        """Return the place of each player in the order, from 0."""
        return self.order.argsort()

    def output(self, size: int) -> float:
        """Return the output with the first players shown."""
        return float(self.shown[self.sizes.tolist().index(size)])

    @property
    def enough(self) -> int | None:
        """Smallest of the sizes that raises the output by 90 % of what all players raise it; None if they lower it."""
        gains = self.shown - self.shown[0]
        return int(self.sizes[(gains >= ENOUGH * gains[-1]).argmax()]) if gains[-1] > 0 else None


def plot_inclusion(
    image: Float[ndarray, "height width ..."],
    assignment: Int[ndarray, "height width"],
    inclusions: Sequence[Inclusion],
    titles: Sequence[str],
    *,
    output: str = "output",
    heading: str = "",
    is_share: bool = False,
    n_shown: int = 8,
) -> Figure:
    r"""Draw an image with its first players shown, a row per weighting, and below it the outputs as curves.

    Args:
        image: colors from 0 to 1.
        assignment: number of the player of each pixel.
        inclusions: one for each weighting.
        titles: of the weightings.
        output: what the curves show, such as "probability of cat".
        heading: title of the figure.
        is_share: whether outputs are shares from 0 to 1, which are written in percent.
        n_shown: images in a row.

    Example:
        >>> line = np.linspace(0, 1, 5)
        >>> inclusion = fw.plots.Inclusion(np.arange(4), np.arange(5), line, 1 - line, line)
        >>> assignment = np.array([[0, 1], [2, 3]])
        >>> figure = fw.plots.plot_inclusion(np.ones((2, 2)), assignment, [inclusion], ["Shapley"], is_share=True)
        >>> [frame.get_xlabel() for frame in figure.axes[:3]]
        ['0 of 4\n0 %', '1 of 4\n25 %', '2 of 4\n50 %']
    """
    frames = [_choose_sizes(inclusion, n_shown) for inclusion in inclusions]
    columns = max(map(len, frames))
    height, width = assignment.shape
    strip = FRAME * height / width + 0.5
    figure = new_figure(width=FRAME * columns + 0.3, height=strip * len(inclusions) + 3.0)
    rows = figure.add_gridspec(1 + len(inclusions), 1, height_ratios=[strip] * len(inclusions) + [2.7])
    for number, (inclusion, sizes, title) in enumerate(zip(inclusions, frames, titles, strict=True)):
        ranks = inclusion.ranks()[assignment]
        cells = rows[number].subgridspec(1, columns).subplots(squeeze=False)[0]
        cells[0].set_ylabel(title, fontsize="small")
        for cell, size in zip(cells, sizes, strict=False):
            draw_pixels(cell, hide_pixels(image, ranks < size))
            text = _text_of(inclusion.output(size), is_share=is_share)
            cell.set_xlabel(f"{size} of {len(inclusion.order)}\n{text}", fontsize="small")
            if size == inclusion.enough:
                cell.spines[:].set(visible=True, color="black", linewidth=2.5)
                cell.xaxis.label.set_weight("bold")
        for cell in cells[len(sizes) :]:
            cell.set_axis_off()
    below = rows[len(inclusions)].subgridspec(1, 2)
    shown = figure.add_subplot(below[0])
    _draw_curves([shown, figure.add_subplot(below[1], sharey=shown)], inclusions, titles, output)
    figure.suptitle(readable(heading, 100), fontsize="medium")
    return figure


def animate_inclusion(
    image: Float[ndarray, "height width ..."],
    assignment: Int[ndarray, "height width"],
    inclusion: Inclusion,
    path: Path,
    *,
    output: str = "output",
    heading: str = "",
    is_share: bool = False,
) -> Path:
    """Write a GIF that shows the players of an image one after another, and the output as it rises; return its path.

    Args:
        image: colors from 0 to 1.
        assignment: number of the player of each pixel.
        inclusion: the order and the outputs.
        path: of the file.
        output: what the curve shows.
        heading: title of the figure.
        is_share: whether outputs are shares from 0 to 1, which are written in percent.
    """
    figure = new_figure(width=6.6, height=3.1)
    try:
        from matplotlib.animation import PillowWriter  # noqa: PLC0415 - optional, so imported where it is needed
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("animations need pillow: pip install 'fwshapley[images]'") from error
    picture, curve = figure.subplots(1, 2, width_ratios=[1, 1.25])
    drawn = draw_pixels(picture, hide_pixels(image, np.zeros(assignment.shape, dtype=bool)))
    _draw_random(curve, inclusion)
    (line,) = curve.plot([], [], color=COLORS[0])
    (end,) = curve.plot([], [], "o", color=COLORS[0])
    label_axes(curve, "", "players shown", output)
    curve.locator_params(axis="x", integer=True)
    every = (*inclusion.shown, *inclusion.random)
    curve.set(xlim=(0, inclusion.sizes[-1]), ylim=(min(0, *every), 1.05 * max(every)))
    figure.suptitle(readable(heading, 70), fontsize="medium")
    ranks = inclusion.ranks()[assignment]
    writer = PillowWriter(fps=FRAMES_PER_SECOND)
    with writer.saving(figure, str(path), dpi=100):
        for point, size in enumerate(inclusion.sizes):
            drawn.set_data(hide_pixels(image, ranks < size))
            line.set_data(inclusion.sizes[: point + 1], inclusion.shown[: point + 1])
            end.set_data([size], [inclusion.shown[point]])
            text = _text_of(inclusion.shown[point], is_share=is_share)
            picture.set_title(f"{size} of {inclusion.sizes[-1]} shown: {text}", fontsize="small")
            is_pause = size == inclusion.sizes[-1]
            for _ in range(round(PAUSE * FRAMES_PER_SECOND) if is_pause else 1):
                writer.grab_frame()
    return path


def _draw_curves(panels: Sequence[Axes], inclusions: Sequence[Inclusion], titles: Sequence[str], output: str) -> None:
    """Draw outputs with players shown on the left, and with players hidden on the right."""
    _draw_random(panels[0], inclusions[0])
    for inclusion, title, color in zip(inclusions, titles, itertools.cycle(COLORS), strict=False):
        panels[0].plot(inclusion.sizes, inclusion.shown, color=color, label=title)
        panels[1].plot(inclusion.sizes, inclusion.hidden, color=color)
    enough = [(inclusion.enough, inclusion.output(inclusion.enough)) for inclusion in inclusions if inclusion.enough]
    if enough:
        panels[0].plot(*zip(*enough, strict=True), "o", color="black", zorder=3, label=f"{percent(ENOUGH)} of the gain")
    label_axes(panels[0], "largest values shown first", "players shown", readable(output))
    label_axes(panels[1], "largest values hidden first", "players hidden", "")
    for panel in panels:
        panel.locator_params(axis="x", integer=True)
    panels[0].legend(frameon=False, fontsize="small")


def _draw_random(axes: Axes, inclusion: Inclusion) -> None:
    axes.plot(inclusion.sizes, inclusion.random, color="gray", linestyle=":", label="random orders, mean")


def _choose_sizes(inclusion: Inclusion, count: int) -> list[int]:
    """Return so many of the sizes, close together where few players are shown; none, enough and all are among them."""
    every = inclusion.sizes.tolist()
    enough, n = inclusion.enough or every[-1], every[-1]
    chosen = {0, enough, n}
    wanted = [min(every, key=lambda known: abs(known - size)) for size in np.geomspace(1, n, count)]
    nearest_last = sorted(wanted, key=lambda size: -abs(np.log(size / enough)))
    for size in (*nearest_last, *every):  # others, if some of those are the same
        if len(chosen) < count:
            chosen.add(size)
    return sorted(chosen)


def _text_of(output: float, *, is_share: bool) -> str:
    return percent(output) if is_share else short_number(float(f"{output:.3g}"))
