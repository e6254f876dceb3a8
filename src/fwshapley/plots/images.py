"""Images: with values drawn over them, or many of them with titles."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Num
from numpy import ndarray

from fwshapley.plots.figure import COLORS, new_figure, readable
from fwshapley.plots.overlays import (
    MIDDLE,
    Sign,
    Style,
    as_picture,
    choose_sign,
    colors_of,
    gray_of,
    heat_of,
    masked,
    scale_pixels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

PANEL = 1.75
"""Width of a panel in inches."""

LINE = 0.18
"""Height of a line above a panel, in inches."""

BAR_HEIGHT = 0.38
"""Height of a color bar with its numbers, in inches."""

LETTER = 0.075
"""Width of a letter of the name of a row, in inches."""

MIN_LETTERS = 8
COLOR_STEPS = 255


class Captions(NamedTuple):
    """What is written around images and values.

    Attributes:
        rows: names of the images, to the left of each; may be empty.
        images: above each image.
        panels: above the values, for each row and output.
        weights: names of the weightings.
        note: below the figure, such as the unit of the values.
    """

    rows: Sequence[str]
    images: Sequence[str]
    panels: Sequence[Sequence[str]]
    weights: Sequence[str]
    note: str = ""


@dataclass(frozen=True)
class ImageStyle:
    """How values are drawn over images.

    Attributes:
        style: "blended" gives a gray image the hues of the values; "heat_map" draws the values alone; "masked_image"
            shows the image where values are large.
        sign: which values are drawn: "all", "positive", "negative", or the size of all, "absolute".
        limit: value of the strongest color; by default the largest |value| of each row and weighting.
    """

    style: Style = "blended"
    sign: Sign = "all"
    limit: float | None = None

    def draw(
        self, image: Float[ndarray, "channels height width"], shares: Float[ndarray, "height width"]
    ) -> Float[ndarray, "height width 3"]:
        """Return the colors of values, from -1 to 1, over an image, from 0 to 1."""
        if self.style == "masked_image":
            return masked(image, shares)
        return heat_of(shares, self.sign) if self.style == "heat_map" else colors_of(shares, gray_of(image), self.sign)

    def color_map(self, shares: Float[ndarray, " steps"]) -> Float[ndarray, "steps 3"]:
        """Return the colors of a bar."""
        return self.draw(np.full((1, 1, len(shares)), MIDDLE), shares[None])[0]


def plot_heat_maps(
    images: Num[ndarray, "rows channels height width"],
    maps: Float[ndarray, "weights outputs rows height width"],
    captions: Captions,
    style: ImageStyle = ImageStyle(),  # noqa: B008 - immutable
    *,
    errors: Float[ndarray, "weights outputs rows"] | None = None,
) -> Figure:
    """Draw each image, and to its right the values of each weighting and output over it.

    All outputs of a row and weighting have one symmetric scale, which the color bars below them show. The part of a bar
    between two lines is within two errors of 0.

    Args:
        images: the images.
        maps: value at each pixel.
        captions: what is written around them.
        style: how values are drawn.
        errors: root mean square error of the values of each panel, if it is known.

    Example:
        >>> images, maps = np.ones((1, 3, 8, 8)), np.linspace(-1, 1, 64).reshape(1, 1, 1, 8, 8)
        >>> captions = fw.plots.Captions([""], ["cat"], [[""]], ["Shapley"])
        >>> [cell.get_title() for cell in fw.plots.plot_heat_maps(images, maps, captions).axes[:2]]
        ['cat', 'Shapley']
    """
    n_weights, n_outputs, n_rows, height, width = maps.shape
    shown = choose_sign(maps, style.sign)
    largest = np.abs(shown).max((1, 3, 4))
    panel = PANEL * height / width
    breaks = max(text.count("\n") for text in (*captions.images, *itertools.chain(*captions.panels)))
    above = LINE * (breaks + (2 if n_outputs > 1 else 1))
    figure = new_figure(width=PANEL * (1 + n_weights * n_outputs), height=n_rows * (panel + above + BAR_HEIGHT) + 0.45)
    axes = figure.subplots(n_rows, 1 + n_weights * n_outputs, squeeze=False)
    for row, cells in enumerate(axes):
        image = scale_pixels(images[row])
        name = readable(captions.rows[row], max(MIN_LETTERS, int(panel / LETTER)))
        _draw_image(cells[0], image, name, captions.images[row])
        for number, group in enumerate(np.reshape(cells[1:], (n_weights, n_outputs))):
            limit = style.limit or float(largest[number, row]) or 1.0
            for output, cell in enumerate(group):
                draw_pixels(cell, style.draw(image, np.clip(shown[number, output, row] / limit, -1, 1)))
                lines = [captions.weights[number]] * (not row) + [captions.panels[row][output]]
                cell.set_title("\n".join(filter(None, lines)), fontsize="small")
                _add_bar(cell, style, limit, None if errors is None else float(errors[number, output, row]))
    figure.supxlabel(captions.note, fontsize="small")
    return figure


def plot_gallery(
    images: Num[ndarray, "images channels height width"],
    titles: Sequence[str],
    marked: Sequence[bool],
    columns: int = 8,
) -> Figure:
    """Draw images in rows, each with a title; marked images get another color."""
    rows = -(-len(images) // columns)
    figure = new_figure(width=1.25 * columns, height=1.5 * rows)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for cell, image, title, mark in zip(axes, images, titles, marked, strict=False):
        _draw_image(cell, scale_pixels(image))
        cell.set_title(title, fontsize="small", color=COLORS[1] if mark else "black")
        for edge in cell.spines.values():
            edge.set(visible=True, color=COLORS[1] if mark else "lightgray", linewidth=2)
    for cell in axes[len(images) :]:
        cell.set_axis_off()
    return figure


def _add_bar(cell: Axes, style: ImageStyle, limit: float, error: float | None) -> None:
    """Add the color bar of a panel below it, with lines two errors from 0."""
    from matplotlib.cm import ScalarMappable  # noqa: PLC0415 - optional, so imported where it is needed
    from matplotlib.colors import ListedColormap, Normalize  # noqa: PLC0415 - see above

    low = 0.0 if style.sign in {"positive", "absolute"} else -limit
    high = 0.0 if style.sign == "negative" else limit
    colors = style.color_map(np.linspace(low, high, COLOR_STEPS) / limit)
    place = cell.inset_axes((0.1, -0.1, 0.8, 0.045))
    scale = ScalarMappable(Normalize(low, high), ListedColormap(colors.tolist()))
    bar = cell.figure.colorbar(scale, cax=place, orientation="horizontal")
    bar.set_ticks(ends := sorted({low, 0.0, high}), labels=[f"{end:+.2g}" if end else "0" for end in ends])
    bar.ax.tick_params(labelsize="x-small", length=2, pad=1.5)
    bar.outline.set_visible(False)
    if error is not None:
        bar.ax.vlines([side for side in (-2 * error, 2 * error) if low < side < high], 0, 1, color="black")


def _draw_image(axes: Axes, image: Float[ndarray, "channels height width"], label: str = "", title: str = "") -> None:
    """Draw an image from 0 to 1, in colors or gray."""
    draw_pixels(axes, as_picture(image))
    axes.set_ylabel(label, fontsize="small")
    axes.set_title(title, fontsize="small")


def draw_pixels(axes: Axes, pixels: Float[ndarray, "height width *channels"]) -> AxesImage:
    """Draw colors or grays from 0 to 1, without a frame."""
    drawn = axes.imshow(pixels, cmap="gray", vmin=0, vmax=1, interpolation="antialiased")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    return drawn
