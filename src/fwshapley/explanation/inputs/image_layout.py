"""Orders of the axes of images: channels first as in PyTorch, channels last, or none. Nothing here imports torch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Literal

from fwshapley._internal.checks import Array

Layout = Literal["NCHW", "NHWC", "NHW"]
"""Order of the axes of a batch of images."""

AXES: Mapping[Layout, str] = {
    "NCHW": "(images, channels, height, width)",
    "NHWC": "(images, height, width, channels)",
    "NHW": "(images, height, width)",
}


LAYOUTS: Mapping[str, Layout] = {layout: layout for layout in AXES}

BATCHES = ("NCHW", "NHWC", "NHW")
"""Axes that images to train on may have."""

BATCHES_OR_ONE = ("CHW", "HWC", "NCHW", "NHWC", "HW", "NHW")
"""Axes that images to explain may have, once the number of channels is known."""

WITH_CHANNELS = ("NCHW", "NHWC", "CHW", "HWC", "HW")
"""Axes that images to explain may have if the number of channels is not known: several have an axis for them."""

CHANNEL_COUNTS = (1, 3, 4)


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
    name: str,
    shape: tuple[int, ...],
    sides: tuple[int, int] | None,
    channels: int | None,
    forms: Sequence[str] = BATCHES,
) -> tuple[Layout, bool] | None:
    """Return the layout of images, and whether they are one image without an axis for images; None if nothing fits.

    If channels may be first or last, as those of 3 x 3 pixels and 3 channels, they are first, and a warning says so.

    Args:
        name: of the argument, for the warning.
        shape: of the images.
        sides: height and width of an image; None if they are not known. Channels are then one, three or four.
        channels: number of channels; None if it is not known.
        forms: what the axes may be; the first that fits is returned.
    """
    fitting = [form for form in forms if _fits(form, shape, sides, channels)]
    if any(form.endswith("CHW") for form in fitting) and any(form.endswith("HWC") for form in fitting):
        warnings.warn(
            f"{name} of shape {shape} may have channels first or last; they are taken to be first, as in PyTorch",
            stacklevel=2,
        )
    if not fitting:
        return None
    is_single = "N" not in fitting[0]
    layout: Layout = LAYOUTS["N" * is_single + fitting[0]]
    return layout, is_single


def _fits(form: str, shape: tuple[int, ...], sides: tuple[int, int] | None, channels: int | None) -> bool:
    """Whether images of a shape may have these axes."""
    if len(form) != len(shape):
        return False
    counts = dict(zip(form, shape, strict=True))
    found = counts.get("C", 1)
    if sides is None:
        return found in CHANNEL_COUNTS
    return (counts["H"], counts["W"]) == sides and channels in (None, found)
