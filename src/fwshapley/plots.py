"""Figures. They need matplotlib (`pip install 'fwshapley[plots]'`), take numpy arrays and leave pyplot as it is."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from fwshapley.semivalues import Semivalue, check_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999", "#F0E442")
"""Okabe and Ito's palette, which color-blind readers can tell apart."""

MOST_MARKED_SIZES = 64
MOST_BARS = 12
BAR_WIDTH = 2.9
LETTER_WIDTH = 0.07
MOST_LETTERS = 40
MOST_TICKS = 5
RGB = 3
PALE = 0.6
LOPSIDED = 100


class Errors(NamedTuple):
    """Errors of values that are drawn.

    Attributes:
        sizes: one per value, or None.
        kind: such as "standard error".
        source: of the values, such as "refined, 128 calls"; may be empty.
    """

    sizes: Float[ndarray, "weights rows players"] | None = None
    kind: str = ""
    source: str = ""

    def describe(self, figure: Figure, how: str, shown: str = "") -> None:
        """Write a note about errors and values below a figure."""
        notes = [shown, self.source, how.format(self.kind) if self.sizes is not None else ""]
        if any(notes):
            figure.supxlabel("; ".join(filter(None, notes)), fontsize="small")


NO_ERRORS = Errors()


def plot_weights(weights: Semivalue | Sequence[Semivalue], n: int) -> Figure:
    """Plot join law, least-squares kernel and size law of one semivalue or a list of them, for n players.

    Example:
        >>> len(fw.plots.plot_weights([fw.Shapley(), fw.Beta(4, 1)], n=8).axes)
        3
    """
    figure = new_figure(width=11, height=3.4)
    join, kernel, sampled = figure.subplots(1, 3)
    marker = "o" if n <= MOST_MARKED_SIZES else ""
    for weighting, color in zip(check_weights(weights), itertools.cycle(COLORS), strict=False):
        style = {"color": color, "label": str(weighting), "marker": marker, "markersize": 3.5}
        join.plot(np.arange(n), weighting.join_law(n), **style)
        kernel.plot(np.arange(1, n), weighting.log_kernel(n) / np.log(10), **style)
        sampled.plot(np.arange(1, n), weighting.size_law(n), **style)
    _label(join, "coalition that a player joins", "its size $s$", "probability $w(s)$")
    _label(kernel, "least-squares weight of a coalition", "its size $s$", "$\\log_{10}\\, m(s)$")
    _label(sampled, "coalition drawn for least squares", "its size $s$", "probability $P(s)$")
    join.set_ylim(bottom=0)
    sampled.set_ylim(bottom=0)
    join.legend(frameon=False, title=f"{n} players")
    return figure


def plot_heat_maps(
    images: Float[ndarray, "rows channels height width"],
    maps: Float[ndarray, "weights rows height width"],
    labels: Sequence[str],
    titles: Sequence[str],
    errors: Errors = NO_ERRORS,
) -> Figure:
    """Draw each image beside its heat maps: red raises the output, blue lowers it.

    Each map has its own scale, written below it with the root mean square of its errors, if there are any.
    """
    figure = new_figure(width=1.7 * (1 + len(maps)), height=1.95 * len(images) + 0.3)
    axes = figure.subplots(len(images), 1 + len(maps), squeeze=False)
    for row, (image, label) in enumerate(zip(images, labels, strict=True)):
        _draw_image(axes[row, 0], image, label)
        for column, title in enumerate(titles):
            heat, cell = maps[column, row], axes[row, 1 + column]
            _draw_image(cell, image.mean(0, keepdims=True), "", palest=PALE)
            limit = float(np.abs(heat).max()) or 1.0
            cell.imshow(heat, cmap="RdBu_r", vmin=-limit, vmax=limit, alpha=0.7, interpolation="nearest")
            scale = f"colors to ±{limit:.2g}"
            if errors.sizes is not None:
                scale += f", error {np.sqrt(np.square(errors.sizes[column, row]).mean()):.1g}"
            cell.set_xlabel(scale, fontsize="x-small")
            if not row:
                cell.set_title(title, fontsize="small")
    errors.describe(figure, "below maps: scale, and {}")
    return figure


def plot_bars(
    values: Float[ndarray, "weights rows players"],
    names: Sequence[str],
    labels: Sequence[str],
    titles: Sequence[str],
    errors: Errors = NO_ERRORS,
) -> Figure:
    """Draw the players of each row as bars, those of the largest values on top, with whiskers of two errors.

    Labels name the input and output of each row, titles the weighting of each column.
    """
    shown = min(len(names), MOST_BARS)
    width = BAR_WIDTH + LETTER_WIDTH * min(max(map(len, names)), MOST_LETTERS)
    figure = new_figure(width=width * len(values), height=len(labels) * (0.24 * shown + 1.05))
    axes = figure.subplots(len(labels), len(values), squeeze=False)
    for row, label in enumerate(labels):
        for column, title in enumerate(titles):
            value, cell = values[column, row], axes[row, column]
            first = np.abs(value).argsort(kind="stable")[-shown:]
            cell.barh(
                [names[player] for player in first.tolist()],
                value[first],
                color=[COLORS[1] if amount > 0 else COLORS[0] for amount in value[first].tolist()],
                xerr=None if errors.sizes is None else 2 * errors.sizes[column, row][first],
                error_kw={"elinewidth": 0.9, "capsize": 2, "ecolor": "#444444"},
            )
            cell.axvline(0, color="gray", linewidth=0.8)
            cell.set_title(f"{label}\n{title}", fontsize="small")
            cell.tick_params(labelsize="small")
            cell.locator_params(axis="x", nbins=MOST_TICKS)
            cell.spines[["top", "right"]].set_visible(False)
    left_out = "" if shown == len(names) else f"{shown} of {len(names)} players shown: the largest values"
    errors.describe(figure, "whiskers: two {}s to either side", left_out)
    return figure


def plot_gallery(
    images: Float[ndarray, "images channels height width"],
    titles: Sequence[str],
    marked: Sequence[bool],
    columns: int = 8,
) -> Figure:
    """Draw images in rows, each with a title; marked images get another color."""
    rows = -(-len(images) // columns)
    figure = new_figure(width=1.25 * columns, height=1.5 * rows)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for cell, image, title, mark in zip(axes, images, titles, marked, strict=False):
        _draw_image(cell, image, "")
        cell.set_title(title, fontsize="small", color=COLORS[1] if mark else "black")
        for edge in cell.spines.values():
            edge.set(color=COLORS[1] if mark else "lightgray", linewidth=2)
    for cell in axes[len(images) :]:
        cell.set_axis_off()
    return figure


def plot_values(valuations: Sequence[tuple[str, Float[ndarray, " n"], Float[ndarray, " n"]]]) -> Figure:
    """Draw values of points: a histogram, and all values in order with two standard errors; a row per weighting."""
    figure = new_figure(width=9, height=2.8 * len(valuations))
    axes = figure.subplots(len(valuations), 2, squeeze=False)
    for (name, values, stderr), (histogram, ranked) in zip(valuations, axes, strict=True):
        spread, size = float(values.max() - values.min()), float(np.abs(values).max())
        bins = MOST_MARKED_SIZES if spread > MOST_MARKED_SIZES * np.spacing(size) else 1
        counts, edges, bars = histogram.hist(values, bins=bins, color=COLORS[0])
        for bar, right in zip(bars, edges[1:], strict=True):
            if right <= 0:
                bar.set_color(COLORS[1])
        histogram.set_yscale("log" if counts.max() > LOPSIDED * max(float(np.median(counts)), 1) else "linear")
        _label(histogram, f"{name}: {int((values < 0).sum()):,} of {len(values):,} points below 0", "value", "points")
        histogram.axvline(0, color="gray", linewidth=0.8)
        order = values.argsort()
        place = np.arange(1, len(values) + 1)
        low, high = (values - 2 * stderr)[order], (values + 2 * stderr)[order]
        ranked.fill_between(place, low, high, color=COLORS[5], alpha=0.4, linewidth=0)
        ranked.plot(place, values[order], color=COLORS[0])
        ranked.axhline(0, color="gray", linewidth=0.8)
        _label(ranked, "all points, with two standard errors", "rank, from the most suspicious", "value")
    return figure


def plot_curves(
    curves: Mapping[str, tuple[Float[ndarray, " points"], Float[ndarray, " points"]]], bounds: Sequence[str] = ()
) -> Figure:
    """Draw inclusion and exclusion curves side by side, a line per method; bounds are gray."""
    figure = new_figure(width=10, height=3.6)
    for axes, title, place in zip(figure.subplots(1, 2), ("players shown", "players hidden"), (0, 1), strict=True):
        colors, dashes = itertools.cycle(COLORS), itertools.cycle(("--", ":"))
        for name, both in curves.items():
            style = {"color": "gray", "linestyle": next(dashes)} if name in bounds else {"color": next(colors)}
            axes.plot(np.linspace(0, 1, len(both[place])), both[place], label=name, **style)
        _label(axes, title, "share of the players, the most important first", "share of inputs that keep their class")
        axes.set_ylim(0, 1.02)
    figure.axes[1].legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def plot_fidelity(divergence: Sequence[float]) -> Figure:
    """Draw the divergence of a surrogate from its model, by decile of coalition size."""
    figure = new_figure(width=6, height=2.6)
    axes = figure.subplots()
    edges = np.linspace(0, 1, len(divergence) + 1)
    axes.bar(edges[:-1], divergence, width=edges[1], align="edge", color=COLORS[0], edgecolor="white")
    _label(axes, "divergence from the model", "share of players shown", "divergence")
    return figure


def plot_training(histories: Mapping[str, Sequence[tuple[int, float]]]) -> Figure:
    """Draw validation losses over steps, a panel per part."""
    figure = new_figure(width=4.6 * len(histories), height=2.6)
    for axes, (name, points) in zip(
        figure.subplots(1, len(histories), squeeze=False)[0], histories.items(), strict=True
    ):
        axes.plot([step for step, _ in points], [loss for _, loss in points], color=COLORS[0])
        _label(axes, name, "step", "validation loss")
    return figure


def _draw_image(axes: Axes, image: Float[ndarray, "channels height width"], label: str, *, palest: float = 0.0) -> None:
    """Draw an image; `palest` is the gray level of its darkest pixel."""
    low, high = image.min(), image.max()
    scaled = palest + (1 - palest) * ((image - low) / max(high - low, 1e-12)).transpose(1, 2, 0)
    axes.imshow(scaled if scaled.shape[2] == RGB else scaled.mean(2), cmap="gray", vmin=0, vmax=1)
    axes.set_ylabel(label, fontsize="small")
    axes.set_xticks([])
    axes.set_yticks([])


def new_figure(*, width: float, height: float) -> Figure:
    """Return an empty figure in the project's layout, or explain how to get matplotlib."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional, so imported where it is needed
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("plots need matplotlib: pip install 'fwshapley[plots]'") from error
    return Figure(figsize=(width, height), layout="constrained", dpi=120)


def _label(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize="medium")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, alpha=0.25, linewidth=0.6)
