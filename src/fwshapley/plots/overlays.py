"""Values over an image: the image gives the luminance of each pixel, the values give its hue.

A color is mixed from a gray and a color of the same luma, so the image stays as visible beneath large values as beneath
small ones, and how colorful a pixel is depends on its value alone. Vermilion raises the output, blue lowers it; people
with any kind of color blindness can tell the two apart.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int, Num
from numpy import ndarray

Style = Literal["blended", "heat_map", "masked_image"]
Sign = Literal["all", "positive", "negative", "absolute"]

RGB = 3
LUMA = np.array([0.2126, 0.7152, 0.0722])
RAISES = np.array([1.0, 0.45, 0.0])
LOWERS = np.array([0.1, 0.55, 1.0])
SIZE = np.array([0.8, 0.4, 0.9])
"""Colors of the largest value that raises the output, that lowers it, and of the largest |value|."""

DARKEST, LIGHTEST = 0.4, 0.82
"""Luma of black and white pixels beneath values: neither of the two has a color of its own luma."""

MIDDLE = 0.5
"""Luma of the gray image beneath the colors of a color bar."""

HIDDEN = np.array([0.84, 0.87, 0.94])
"""Color of hidden pixels, a pale blue."""

MIN_SIDE = 224
"""Pixels of the longer side of a picture, at least, so that values are smooth between the patches of small images."""


def spread_values(
    values: Float[ndarray, "*axes players"],
    assignment: Int[ndarray, "height width"],
    *,
    grid: tuple[int, int] | None = None,
    times: int = 1,
) -> Float[ndarray, "*axes {times}*height {times}*width"]:
    """Return the value at each pixel: that of its player, or interpolated between the centers of patches.

    The interpolation is monotone and goes through the values at the centers, so no pixel has a value that is larger
    than those of the patches around it. Beyond the outer centers it is constant.

    Args:
        values: of the players.
        assignment: number of the player of each pixel.
        grid: rows and columns of patches in reading order, to interpolate between; None keeps the edges of players.
        times: enlarge the image by this factor.

    Example:
        >>> assignment = np.array([[0, 0, 1, 1], [2, 2, 3, 3]])
        >>> fw.plots.overlays.spread_values(np.array([0.0, 2.0, 0.0, 2.0]), assignment, grid=(2, 2))[0].tolist()
        [0.0, 0.5, 1.5, 2.0]
    """
    if grid is None:
        return enlarge(values[..., assignment], times)
    rows, columns = grid
    smooth = values.reshape(*values.shape[:-1], rows, columns)
    smooth = _interpolate(smooth, assignment[:, 0] // columns, times, axis=-2)
    return _interpolate(smooth, assignment[0] % columns, times, axis=-1)


def enlarge(pixels: Num[ndarray, "*axes height width"], times: int) -> Num[ndarray, "*axes tall wide"]:
    """Return an image whose pixels are squares of `times` pixels."""
    return pixels.repeat(times, -2).repeat(times, -1)


def scale_pixels(image: Num[ndarray, "channels height width"]) -> Float[ndarray, "channels height width"]:
    """Return an image from 0 to 1: as it is, or divided by 255, or stretched if it was normalized otherwise."""
    low, high = float(image.min()), float(image.max())
    if low >= 0 and high <= 1:
        return image.astype(np.float64)
    if low >= 0 and 1 < high <= 255:  # noqa: PLR2004 - of pixels in bytes
        return image / 255.0
    return (image - low) / max(high - low, 1e-12)


def as_picture(image: Float[ndarray, "channels height width"]) -> Float[ndarray, "height width *channels"]:
    """Return an image of three channels as colors, any other as the mean of its channels."""
    return image.transpose(1, 2, 0) if len(image) == RGB else image.mean(0)


def gray_of(image: Float[ndarray, "channels height width"]) -> Float[ndarray, "height width"]:
    """Return the luma of an image in colors, or the mean of its channels."""
    return np.tensordot(LUMA, image, 1) if len(image) == RGB else image.mean(0)


def colors_of(
    shares: Float[ndarray, "*pixels"], gray: Float[ndarray, "*pixels"] | float, sign: Sign
) -> Float[ndarray, "*pixels 3"]:
    """Return the colors of values over a gray image: gray where they are 0, of the same luma where they are not.

    Args:
        shares: values relative to the largest that has a color, from -1 to 1.
        gray: from 0 to 1.
        sign: "absolute" has a color of its own.
    """
    luma = DARKEST + (LIGHTEST - DARKEST) * np.broadcast_to(np.asarray(gray, dtype=np.float64), shares.shape)[..., None]
    opacity = np.abs(shares)[..., None]
    return (1 - opacity) * luma + opacity * _with_luma(_hues_of(shares, sign), luma)


def heat_of(shares: Float[ndarray, "*pixels"], sign: Sign) -> Float[ndarray, "*pixels 3"]:
    """Return the colors of values on white."""
    opacity = np.abs(shares)[..., None]
    return 1 - opacity * (1 - _hues_of(shares, sign))


def masked(
    image: Float[ndarray, "channels height width"], shares: Float[ndarray, "height width"]
) -> Float[ndarray, "height width 3"]:
    """Return the image where values are large, and white where they are 0."""
    colors = np.broadcast_to(image if len(image) == RGB else image.mean(0, keepdims=True), (RGB, *shares.shape))
    return 1 - np.abs(shares)[..., None] * (1 - colors.transpose(1, 2, 0))


def hide_pixels(
    image: Float[ndarray, "height width *channels"], is_shown: Bool[ndarray, "height width"]
) -> Float[ndarray, "height width 3"]:
    """Return an image from 0 to 1 with a color where it is hidden that few images have."""
    return np.where(is_shown[..., None], image.reshape(*is_shown.shape, -1), HIDDEN)


def choose_sign(values: Float[ndarray, "*axes"], sign: Sign) -> Float[ndarray, "*axes"]:
    """Return the positive or negative part of values, or their size."""
    if sign == "absolute":
        return np.abs(values)
    low, high = (0 if sign == "positive" else -np.inf), (0 if sign == "negative" else np.inf)
    return np.clip(values, low, high)


def _hues_of(shares: Float[ndarray, "*pixels"], sign: Sign) -> Float[ndarray, "*pixels 3"]:
    raises = SIZE if sign == "absolute" else RAISES
    return np.where((shares < 0)[..., None], LOWERS, raises)


def _with_luma(color: Float[ndarray, "*pixels 3"], luma: Float[ndarray, "*pixels 1"]) -> Float[ndarray, "*pixels 3"]:
    """Return a color mixed with black or white so that it has another luma."""
    own = color @ LUMA[:, None]
    return np.where(luma < own, color * luma / own, 1 - (1 - color) * (1 - luma) / (1 - own))


def _interpolate(
    values: Float[ndarray, ...], places: Int[ndarray, " pixels"], times: int, axis: int
) -> Float[ndarray, ...]:
    """Interpolate along an axis of patches, at the centers of pixels.

    Args:
        values: of the patches.
        places: number of the patch of each pixel.
        times: pixels of the result for each pixel.
        axis: of the patches.
    """
    from scipy.interpolate import PchipInterpolator  # noqa: PLC0415 - takes long to import

    count = places.max() + 1
    pixels = np.arange(len(places) * times) / times + 0.5 / times
    if count == 1:
        return values.repeat(len(pixels), axis)
    middles = np.arange(len(places)) + 0.5
    centers = np.bincount(places, middles) / np.bincount(places)
    with np.errstate(over="ignore", divide="ignore"):  # 1 / slope of nearly equal values, whose inverse is 0 then
        curve = PchipInterpolator(centers, values, axis=axis)
    return curve(np.clip(pixels, centers[0], centers[-1]))
