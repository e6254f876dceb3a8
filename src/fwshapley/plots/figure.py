"""What all figures share: colors, layout, and notes about errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999", "#F0E442")
"""Okabe and Ito's palette, which color-blind readers can tell apart."""

MAX_LETTERS = 40
MAX_DIGITS = 6
MAX_TICKS = 5
MAX_WHOLE = 10**6
LEAST_WHOLE = 10**4
ALMOST_ALL = 0.9


class Errors(NamedTuple):
    """Errors of values that are drawn.

    Attributes:
        sizes: one per value, or None.
        kind: such as "standard error".
        source: of the values, such as "refinement, 128 calls"; may be empty.
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


def name_panels(figure: Figure, panels: Sequence[Axes], titles: Sequence[str], heading: str) -> None:
    """Write a title above each panel, and the heading above all of them, or in the title of a single panel."""
    if len(titles) == 1:
        titles = [f"{heading}, {titles[0]}" if heading else titles[0]]
    else:
        figure.suptitle(heading, fontsize="medium")
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize="small")


def readable(text: str, most: int = MAX_LETTERS) -> str:
    """Return a text as a label: one line, cut in the middle if it is long, whose dollar signs start no formula."""
    line = " ".join(text.split())
    end = (most - 1) // 2  # names of one table often differ at their ends
    cut = line if len(line) <= most else f"{line[: most - 1 - end].rstrip()}…{line[-end:].lstrip()}"
    return cut.replace("$", r"\$")


def signed(values: Float[ndarray, " values"]) -> list[str]:
    """Return numbers with their signs, all with the decimals that the largest of them needs."""
    largest = float(np.abs(values).max(initial=0.0))
    digits = 2 - math.floor(math.log10(largest)) if largest else 0
    if abs(digits) > MAX_DIGITS:
        return [f"{value:+.2e}" for value in values.tolist()]
    return [f"{value:+,.{max(digits, 0)}f}" for value in values.tolist()]


def short_number(number: float) -> str:
    """Return a number in few letters: with four significant digits, and without an exponent below a million."""
    is_plain = LEAST_WHOLE <= abs(number) < MAX_WHOLE or number.is_integer()
    return f"{number:.0f}" if is_plain and abs(number) < MAX_WHOLE else f"{number:.4g}"


def percent(share: float) -> str:
    """Return a share in percent: with two digits, and three close to 100 %."""
    return f"{float(f'{100 * share:.{3 if share > ALMOST_ALL else 2}g}'):.10g} %"


def strip_frame(axes: Axes) -> None:
    """Leave the left and lower edge of axes, with small labels and few ticks."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize="small")
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=MAX_TICKS + 1)
