"""Orders of the axes of images: channels first as in PyTorch, channels last, or none. Nothing here imports torch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Literal

from fwshapley._internal.checks import Array

Layout = Literal["NCHW", "NHWC", "NHW"]
"""Order of the axes of a batch of images."""

AXES: Mapping[Layout, str] = {
    "NCHW": "(images, channels, height, width)",
    "NHWC": "(images, height, width, channels)",
    "NHW": "(images, height, width)",
}


def channels_first(x: Array, layout: Layout) -> Array:
    """Return images of a layout as (images, channels, height, width), without a copy.

    Args:
        x: an array or a tensor.
        layout: of x.
    """
    if layout == "NHW":
        return x[:, None]
    return x.swapaxes(1, 3).swapaxes(2, 3) if layout == "NHWC" else x


def from_channels_first(x: Array, layout: Layout) -> Array:
    """Return images, (images, channels, height, width), in a layout, without a copy.

    Args:
        x: an array or a tensor.
        layout: to return.
    """
    if layout == "NHW":
        return x[:, 0]
    return x.swapaxes(2, 3).swapaxes(1, 3) if layout == "NHWC" else x


def recognize_layout(
    name: str, shape: tuple[int, ...], sides: tuple[int, int], channels: int | None
) -> tuple[Layout, bool] | None:
    """Return the layout of images by their height and width, and whether they are one image without an axis for images.

    If channels may be first or last, as those of 3 x 3 pixels and 3 channels, they are first, and a warning says so.

    Args:
        name: of the argument, for the warning.
        shape: of the images.
        sides: height and width of an image.
        channels: number of channels; None if it is not known yet, so that one image is taken for gray ones.

    Returns:
        None if no layout fits.
    """
    fitting = [
        (layout, is_single)
        for layout in AXES
        for is_single in (True, False)
        if _fits(layout[is_single:], shape, sides, channels) and not (is_single and channels is None)
    ]
    layouts = [layout for layout, _ in fitting]
    if "NCHW" in layouts and "NHWC" in layouts:
        warnings.warn(
            f"{name} of shape {shape} may have channels first or last; they are taken to be first, as in PyTorch",
            stacklevel=2,
        )
    return fitting[0] if fitting else None


def _fits(axes: str, shape: tuple[int, ...], sides: tuple[int, int], channels: int | None) -> bool:
    """Whether images of a shape may have these axes."""
    if len(axes) != len(shape):
        return False
    counts = dict(zip(axes, shape, strict=True))
    return (counts["H"], counts["W"]) == sides and channels in (None, counts.get("C", 1))
