"""Pictures. They need matplotlib (`pip install 'fwshapley[plots]'`) and return a Figure, without touching pyplot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fwshapley.weights import Semivalue

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999", "#F0E442")
"""Okabe and Ito's palette, which colour-blind readers can tell apart."""

MOST_MARKED_SIZES = 64


def plot_weights(weights: Semivalue | Sequence[Semivalue], n: int) -> Figure:
    """Plot join law, least-squares kernel and size law of one or several semivalues for n players."""
    several = [weights] if isinstance(weights, Semivalue) else list(weights)
    figure = new_figure(width=11, height=3.4)
    join, kernel, sampled = figure.subplots(1, 3)
    for each, colour in zip(several, COLOURS * len(several), strict=False):
        style = {
            "color": colour,
            "label": str(each),
            "marker": "o" if n <= MOST_MARKED_SIZES else "",
            "markersize": 3.5,
        }
        join.plot(np.arange(n), each.join_law(n).numpy(), **style)
        kernel.plot(np.arange(1, n), each.log_kernel(n).numpy() / np.log(10), **style)
        sampled.plot(np.arange(1, n), each.size_law(n).numpy(), **style)
    _label(join, "coalition that a player joins", "its size $s$", "probability $w(s)$")
    _label(kernel, "least-squares weight of a coalition", "its size $s$", "$\\log_{10}\\, m(s)$")
    _label(sampled, "coalition drawn for least squares", "its size $s$", "probability $P(s)$")
    join.set_ylim(bottom=0)
    sampled.set_ylim(bottom=0)
    join.legend(frameon=False, title=f"{n} players")
    return figure


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
