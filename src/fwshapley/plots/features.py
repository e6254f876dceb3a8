"""Players of a table with the values of their columns: as text beside a value, and as the color of a point."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from fwshapley.plots.figure import MAX_LETTERS, readable, short_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

GRAY = "#8c8c8c"
"""Points without a value: missing entries, unordered categories, and groups of columns."""

LOW_PERCENTILE, HIGH_PERCENTILE = 5, 95
"""Colors reach from one to the other, so that a few extreme values do not make all others look the same."""

LIGHTEST = 0.86
"""Share of matplotlib's map "plasma" that is dark enough on white."""

MAX_VALUE_LETTERS = 14
FEW_POINTS, MANY_POINTS = 100, 2000
MARKER_SIZES = (16.0, 9.0, 4.5)
"""Areas of points in points², for few, some and many of them."""


class Feature(NamedTuple):
    """A player of a table, with the value of its column in each row.

    Attributes:
        name: of the player.
        numbers: numbers, codes of categories or days since 1970; NaN where missing. None if the player is a group of
            several columns, which has no single value.
        categories: names of the codes 0, 1, ...; a code that has none is a missing or unknown category.
        is_date: whether numbers are days since 1970.
    """

    name: str
    numbers: Float[ndarray, " rows"] | None = None
    categories: tuple[str, ...] = ()
    is_date: bool = False

    @property
    def missing(self) -> Bool[ndarray, " rows"]:
        """Which rows have no value."""
        assert self.numbers is not None  # noqa: S101 - callers have checked
        if not self.categories:
            return np.isnan(self.numbers)
        return ~((self.numbers >= 0) & (self.numbers < len(self.categories)))

    @property
    def is_ordered(self) -> bool:
        """Whether low and high mean something: for numbers, dates, and two categories."""
        return self.numbers is not None and len(self.categories) <= 2  # noqa: PLR2004 - one is low, one is high

    @property
    def label(self) -> str:
        """The name, and which category counts as high if there are two."""
        name = readable(self.name)
        return f"{name} (high: {readable(self.categories[1])})" if len(self.categories) == 2 else name  # noqa: PLR2004 - as above

    def text(self, row: int) -> str:
        """Return the name and the value in one row, such as "age = 61"."""
        if self.numbers is None:
            return readable(self.name)
        value = "missing" if self.missing[row] else self.value_text(float(self.numbers[row]))
        text = readable(value, MAX_VALUE_LETTERS)
        return f"{readable(self.name, MAX_LETTERS - len(text))} = {text}"

    def value_text(self, number: float) -> str:
        """Return a number, date or category as text."""
        if self.categories:
            return self.categories[int(number)]
        if self.is_date:
            return str(dt.date(1970, 1, 1) + dt.timedelta(days=number))
        return short_number(number)

    def shades(self) -> Float[ndarray, " rows"] | None:
        """Return a number between 0 (low) and 1 (high) for each row, NaN where missing; None without an order."""
        if self.numbers is None or not self.is_ordered:
            return None
        numbers = np.where(self.missing, np.nan, self.numbers)
        finite = numbers[np.isfinite(numbers)]
        if not len(finite):
            return np.full(len(numbers), np.nan)
        low, high = np.percentile(finite, [LOW_PERCENTILE, HIGH_PERCENTILE])
        if low == high:
            low, high = finite.min(), finite.max()
        if low == high:
            return np.where(np.isnan(numbers), np.nan, 0.5)
        return ((numbers - low) / (high - low)).clip(0, 1)


def color_map() -> Colormap:
    """Return colors from low (dark blue) to high (orange) that color-blind readers can tell apart on white."""
    from matplotlib import colormaps  # noqa: PLC0415 - optional, so imported where it is needed
    from matplotlib.colors import ListedColormap  # noqa: PLC0415 - as above

    return ListedColormap(colormaps["plasma"](np.linspace(0, LIGHTEST, 256)), name="low to high")


def marker_size(n_points: int) -> float:
    """Return the area of a point, smaller where there are many."""
    return MARKER_SIZES[(n_points > FEW_POINTS) + (n_points > MANY_POINTS)]


def draw_points(
    axes: Axes,
    x: Float[ndarray, " rows"],
    y: Float[ndarray, " rows"],
    shades: Float[ndarray, " rows"] | None,
    limits: tuple[float, float] = (0.0, 1.0),
) -> PathCollection | None:
    """Draw points in the colors of their shades, gray where these are NaN; return the colored ones."""
    style: dict[str, Any] = {"s": marker_size(len(x)), "linewidths": 0, "rasterized": len(x) > MANY_POINTS}
    shades = np.full(len(x), np.nan) if shades is None else shades
    gray = np.isnan(shades)
    if gray.any():
        axes.scatter(x[gray], y[gray], color=GRAY, zorder=2, label="gray", **style)
    if gray.all():
        return None
    return axes.scatter(
        x[~gray], y[~gray], c=shades[~gray], cmap=color_map(), vmin=limits[0], vmax=limits[1], zorder=3, **style
    )


def add_color_bar(figure: Figure, points: PathCollection, label: str) -> None:
    """Add a narrow bar of the colors to the right of all panels."""
    bar = figure.colorbar(points, ax=figure.axes, aspect=30, pad=0.015, fraction=0.04)
    bar.set_label(label, fontsize="small")
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize="small", length=0)


def spread_out(
    values: Float[ndarray, " rows"], limits: tuple[float, float], *, step: float, room: float, n_bins: int
) -> Float[ndarray, " rows"]:
    """Return offsets that place points of about the same value side by side around 0, the first in the middle.

    Args:
        values: of the points.
        limits: the lowest and highest value of the axis.
        step: offset between neighbors, unless room is short.
        room: largest offset to either side.
        n_bins: values that fall into one of so many intervals are about the same.
    """
    low, high = limits
    bins = np.floor((values - low) / (high - low) * n_bins) if high > low else np.zeros(len(values))
    order = bins.argsort(kind="stable")
    _, starts, counts = np.unique(bins[order], return_index=True, return_counts=True)
    place = np.arange(len(values)) - np.repeat(starts, counts)
    steps = np.empty(len(values))
    steps[order] = (place + 1) // 2 * np.where(place % 2, 1, -1)
    return steps * min(step, room / max(float(np.abs(steps).max(initial=0)), 1))
