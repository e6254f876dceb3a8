"""Curves and histograms: weightings, values of points, inclusion curves, fidelity and training."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from fwshapley.plots.figure import COLORS, label_axes, new_figure
from fwshapley.semivalues import Semivalue, check_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_MARKED_SIZES = 64
LOPSIDED = 100


def plot_weights(weights: Semivalue | Sequence[Semivalue], n: int) -> Figure:
    """Plot join law, least-squares kernel and size law of one semivalue or a list of them, for n players.

    Example:
        >>> len(fw.plots.plot_weights([fw.Shapley(), fw.Beta(4, 1)], n=8).axes)
        3
    """
    figure = new_figure(width=11, height=3.4)
    join, kernel, sampled = figure.subplots(1, 3)
    marker = "o" if n <= MAX_MARKED_SIZES else ""
    for weighting, color in zip(check_weights(weights), itertools.cycle(COLORS), strict=False):
        style = {"color": color, "label": str(weighting), "marker": marker, "markersize": 3.5}
        join.plot(np.arange(n), weighting.join_law(n), **style)
        kernel.plot(np.arange(1, n), weighting.log_kernel(n) / np.log(10), **style)
        sampled.plot(np.arange(1, n), weighting.size_law(n), **style)
    label_axes(join, "coalition that a player joins", "its size $s$", "probability $w(s)$")
    label_axes(kernel, "least-squares weight of a coalition", "its size $s$", "$\\log_{10}\\, m(s)$")
    label_axes(sampled, "coalition drawn for least squares", "its size $s$", "probability $P(s)$")
    join.set_ylim(bottom=0)
    sampled.set_ylim(bottom=0)
    join.legend(frameon=False, title=f"{n} players")
    return figure


def plot_values(valuations: Sequence[tuple[str, Float[ndarray, " n"], Float[ndarray, " n"]]]) -> Figure:
    """Draw values of points: a histogram, and all values in order with two standard errors; a row per weighting."""
    figure = new_figure(width=9, height=2.8 * len(valuations))
    axes = figure.subplots(len(valuations), 2, squeeze=False)
    for (name, values, stderr), (histogram, ranked) in zip(valuations, axes, strict=True):
        spread, size = float(values.max() - values.min()), float(np.abs(values).max())
        bins = MAX_MARKED_SIZES if spread > MAX_MARKED_SIZES * np.spacing(size) else 1
        counts, edges, bars = histogram.hist(values, bins=bins, color=COLORS[0])
        for bar, right in zip(bars, edges[1:], strict=True):
            if right <= 0:
                bar.set_color(COLORS[1])
        histogram.set_yscale("log" if counts.max() > LOPSIDED * max(float(np.median(counts)), 1) else "linear")
        label_axes(
            histogram, f"{name}: {int((values < 0).sum()):,} of {len(values):,} points below 0", "value", "points"
        )
        histogram.axvline(0, color="gray", linewidth=0.8)
        order = values.argsort()
        place = np.arange(1, len(values) + 1)
        low, high = (values - 2 * stderr)[order], (values + 2 * stderr)[order]
        ranked.fill_between(place, low, high, color=COLORS[5], alpha=0.4, linewidth=0)
        ranked.plot(place, values[order], color=COLORS[0])
        ranked.axhline(0, color="gray", linewidth=0.8)
        label_axes(ranked, "all points, with two standard errors", "rank, from the most suspicious", "value")
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
        label_axes(
            axes, title, "share of the players, the most important first", "share of inputs that keep their class"
        )
        axes.set_ylim(0, 1.02)
    figure.axes[1].legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def plot_fidelity(divergence: Sequence[float]) -> Figure:
    """Draw the divergence of a surrogate from its model, by decile of coalition size."""
    figure = new_figure(width=6, height=2.6)
    axes = figure.subplots()
    edges = np.linspace(0, 1, len(divergence) + 1)
    axes.bar(edges[:-1], divergence, width=edges[1], align="edge", color=COLORS[0], edgecolor="white")
    label_axes(axes, "divergence from the model", "share of players shown", "divergence")
    return figure


def plot_training(histories: Mapping[str, Sequence[tuple[int, float]]]) -> Figure:
    """Draw validation losses over steps, a panel per part."""
    figure = new_figure(width=4.6 * len(histories), height=2.6)
    for axes, (name, points) in zip(
        figure.subplots(1, len(histories), squeeze=False)[0], histories.items(), strict=True
    ):
        axes.plot([step for step, _ in points], [loss for _, loss in points], color=COLORS[0])
        label_axes(axes, name, "step", "validation loss")
    return figure
