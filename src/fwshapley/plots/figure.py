"""What all figures share: colors, layout, and notes about errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtyping import Float
from numpy import ndarray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999", "#F0E442")
"""Okabe and Ito's palette, which color-blind readers can tell apart."""


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


def new_figure(*, width: float, height: float) -> Figure:
    """Return an empty figure in the project's layout, or explain how to get matplotlib."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional, so imported where it is needed
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("plots need matplotlib: pip install 'fwshapley[plots]'") from error
    return Figure(figsize=(width, height), layout="constrained", dpi=120)


def label_axes(axes: Axes, title: str, x: str, y: str) -> None:
    """Give axes a title, names and a grid, without a frame."""
    axes.set_title(title, fontsize="medium")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, alpha=0.25, linewidth=0.6)
