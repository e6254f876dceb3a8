"""Dependence: the values of one player against the values of its column."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from fwshapley.plots.features import GRAY, Feature, add_color_bar, draw_points, marker_size, spread_out
from fwshapley.plots.figure import COLORS, label_axes, name_panels, new_figure, readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure

MAX_COLORED = 8
"""Categories that have a color of their own."""
MANY_CATEGORIES = 5
MAX_NAMED = 20
LONGEST_NAME = 18
MAX_SLICES = 10
MIN_IN_SLICE = 20
MIN_KNOWN = 5
LEAST_SHARE = 0.1
CHANCE = 6.0
"""Times the share that chance explains on average in a slice."""
TINY = 1e-12
STEP, ROOM, N_BINS = 0.03, 0.32, 60


def plot_dependence(
    values: Float[ndarray, "weights rows"],
    feature: Feature,
    titles: Sequence[str],
    *,
    color: Feature | None = None,
    heading: str = "",
) -> Figure:
    """Draw the values of a player against the values of its column, a panel per weighting.

    Categories are on the axis by name. Rows without a value have a place of their own at the right end.

    Args:
        values: of the player, under each weighting and in each row.
        feature: the player with the values of its column.
        titles: of the weightings.
        color: another player, whose column colors the points; gray points have no value.
        heading: title of the figure.

    Example:
        >>> age = fw.plots.Feature("age", numbers=np.array([20.0, 30.0, 40.0]))
        >>> figure = fw.plots.plot_dependence(np.array([[-1.0, 0.0, 1.0]]), age, ["Shapley"])
        >>> figure.axes[0].get_xlabel()
        'age'
    """
    figure = new_figure(width=4.3 * len(values) + 0.9, height=3.4)
    panels = figure.subplots(1, len(values), squeeze=False, sharex=True, sharey=True)[0]
    limits = (float(values.min()), float(values.max()))
    points = None
    for axes, row_values in zip(panels, values, strict=True):
        points = _draw_panel(axes, row_values, feature, color, limits)
        label_axes(axes, "", readable(feature.name), "")
        axes.axhline(0, color="gray", linewidth=0.8, zorder=1)
        axes.tick_params(labelsize="small")
    panels[0].set_ylabel(f"value for {readable(feature.name)}")
    if color is not None and points is not None:
        add_color_bar(figure, points, readable(color.name))
        _label_colors(figure.axes[-1], color)
    elif color is not None and color.categories:
        panels[-1].legend(
            title=readable(color.name), frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1)
        )
    name_panels(figure, panels, titles, heading)
    return figure


def find_partner(values: Float[ndarray, " rows"], player: int, features: Sequence[Feature]) -> int | None:
    """Return the player whose column best explains what a player's own column does not; None if none does.

    Rows are sorted by the player's column and cut into slices. In each, straight lines in that column are subtracted
    from the values and from the partner's column; a multiple of what remains of the latter explains a share of what
    remains of the former. The partner has the largest share over all slices, of at least a tenth, and more where rows
    are few and a share may be due to chance.

    Args:
        values: of the player in each row.
        player: number of the player.
        features: of all players.
    """
    numbers = features[player].shades()
    n_slices = min(MAX_SLICES, len(values) // MIN_IN_SLICE)
    if numbers is None or np.isnan(numbers).all() or not n_slices:
        return None
    slices = np.array_split(numbers.argsort(kind="stable"), n_slices)
    best, partner = max(LEAST_SHARE, CHANCE / len(slices[-1])), None
    for number, other in enumerate(features):
        shades = other.shades() if number != player else None
        share = 0.0 if shades is None else _share_explained(values, numbers, shades, slices)
        if share > best:
            best, partner = share, number
    return partner


def _share_explained(
    values: Float[ndarray, " rows"],
    numbers: Float[ndarray, " rows"],
    shades: Float[ndarray, " rows"],
    slices: Sequence[Int[ndarray, " some"]],
) -> float:
    """Return the share of the values' variance inside slices that shades explain beyond numbers; NaN is left out."""
    explained = total = 0.0
    for rows in slices:
        known = rows[~np.isnan(shades[rows] + numbers[rows])]
        if len(known) <= MIN_KNOWN:
            continue
        value, shade = (_without_line(part[known], numbers[known]) for part in (values, shades))
        total += float(value @ value)
        if shade @ shade > TINY:
            explained += float(value @ shade) ** 2 / float(shade @ shade)
    return explained / total if total > 0 else 0.0


def _without_line(y: Float[ndarray, " rows"], x: Float[ndarray, " rows"]) -> Float[ndarray, " rows"]:
    """Return y less the straight line in x that fits it best."""
    x, y = x - x.mean(), y - y.mean()
    return y - x * ((x @ y) / max(x @ x, TINY))


def _draw_panel(
    axes: Axes,
    values: Float[ndarray, " rows"],
    feature: Feature,
    color: Feature | None,
    limits: tuple[float, float],
) -> PathCollection | None:
    """Draw the points of one weighting; return those that are colored by a scale."""
    places = _place_on_axis(axes, values, feature, limits)
    if color is None:
        axes.scatter(places, values, s=marker_size(len(values)), linewidths=0, color=COLORS[0], zorder=3)
        return None
    if color.categories and len(color.categories) <= MAX_COLORED:
        _draw_categories(axes, places, values, color)
        return None
    if color.categories or color.numbers is None:
        draw_points(axes, places, values, None)
        return None
    finite = color.numbers[np.isfinite(color.numbers)]
    low, high = np.percentile(finite, [5, 95]) if len(finite) else (0.0, 1.0)
    if low == high:
        low, high = (finite.min(), finite.max()) if finite.min() < finite.max() else (low - 0.5, high + 0.5)
    return draw_points(axes, places, values, color.numbers, (float(low), float(high)))


def _draw_categories(
    axes: Axes, places: Float[ndarray, " rows"], values: Float[ndarray, " rows"], color: Feature
) -> None:
    """Draw points in a color per category, with names for a legend."""
    assert color.numbers is not None  # noqa: S101 - it has categories
    size = marker_size(len(values))
    for code, (name, shade) in enumerate(zip(color.categories, itertools.cycle(COLORS), strict=False)):
        rows = color.numbers == code
        if rows.any():
            axes.scatter(places[rows], values[rows], s=size, linewidths=0, color=shade, label=readable(name), zorder=3)
    if color.missing.any():
        axes.scatter(
            places[color.missing], values[color.missing], s=size, linewidths=0, color=GRAY, label="missing", zorder=2
        )


def _place_on_axis(
    axes: Axes, values: Float[ndarray, " rows"], feature: Feature, limits: tuple[float, float]
) -> Float[ndarray, " rows"]:
    """Return where the points are along the axis, which gets its ticks."""
    assert feature.numbers is not None  # noqa: S101 - callers have checked
    missing = feature.missing
    if feature.categories:
        return _place_categories(axes, values, feature, limits)
    finite = feature.numbers[np.isfinite(feature.numbers)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    extent = (high - low) or 1.0
    places = feature.numbers.clip(low - 0.05 * extent, high + 0.05 * extent)  # infinite numbers lie beyond the others
    if missing.any():
        aside = high + 0.13 * extent
        places = np.where(missing, aside, places)
        axes.axvline(high + 0.075 * extent, color="lightgray", linewidth=0.8)
    axes.set_xlim(low - 0.07 * extent, high + (0.2 if missing.any() else 0.07) * extent)
    ticks = _ticks_between(low, high) if len(finite) else []
    names = [feature.value_text(tick) for tick in ticks]
    if missing.any():
        ticks, names = [*ticks, aside], [*names, "missing"]
    axes.set_xticks(ticks, names)
    return places


def _ticks_between(low: float, high: float) -> list[float]:
    """Return round numbers between two numbers."""
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - optional, so imported where it is needed

    if low == high:
        return [low]
    return [float(tick) for tick in MaxNLocator(5).tick_values(low, high) if low <= tick <= high]


def _place_categories(
    axes: Axes, values: Float[ndarray, " rows"], feature: Feature, limits: tuple[float, float]
) -> Float[ndarray, " rows"]:
    """Return places of points around those of their categories, of which those that occur are on the axis by name."""
    assert feature.numbers is not None  # noqa: S101 - it has categories
    missing = feature.missing
    codes = np.where(missing, len(feature.categories), feature.numbers)
    present, place = np.unique(codes, return_inverse=True)
    names = [*feature.categories, "missing"]
    labels = [readable(names[int(code)], LONGEST_NAME) for code in present]
    shown = np.arange(len(present)) if len(present) <= MAX_NAMED else np.arange(0, len(present), len(present) // 10)
    slanted = len(present) > MANY_CATEGORIES or max(map(len, labels)) * len(present) > 3 * LONGEST_NAME
    axes.set_xticks(shown, [labels[number] for number in shown])
    if slanted:
        axes.tick_params(axis="x", rotation=35)
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.6, len(present) - 0.4)
    places = place.astype(float)
    for number in range(len(present)):
        rows = place == number
        places[rows] += spread_out(values[rows], limits, step=STEP, room=ROOM, n_bins=N_BINS)
    return places


def _label_colors(axes: Axes, color: Feature) -> None:
    """Write dates at the ticks of a scale of dates."""
    if color.is_date:
        low, high = axes.get_ylim()
        ticks = _ticks_between(low, high)
        axes.set_yticks(ticks, [color.value_text(tick) for tick in ticks])
