"""Images: with heat maps beside them, or many of them with titles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from fwshapley.plots.figure import COLORS, NO_ERRORS, Errors, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RGB = 3
PALE = 0.6


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


def _draw_image(axes: Axes, image: Float[ndarray, "channels height width"], label: str, *, palest: float = 0.0) -> None:
    """Draw an image; `palest` is the gray level of its darkest pixel."""
    low, high = image.min(), image.max()
    scaled = palest + (1 - palest) * ((image - low) / max(high - low, 1e-12)).transpose(1, 2, 0)
    axes.imshow(scaled if scaled.shape[2] == RGB else scaled.mean(2), cmap="gray", vmin=0, vmax=1)
    axes.set_ylabel(label, fontsize="small")
    axes.set_xticks([])
    axes.set_yticks([])
