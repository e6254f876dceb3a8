"""Players that differ from image to image: superpixels, which are connected regions of similar color."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from fwshapley._internal.checks import Array, check_numbers, check_real, check_whole, shorten
from fwshapley.players import Players, segments

COLORS = 3
CHANNEL_COUNTS = (1, 3, 4)
IMAGE_AXES = 3

FindPlayers = Callable[[Any], Players]
"""Makes the players of an image, given as a tensor (channels, height, width)."""


@dataclass(frozen=True)
class Superpixels:
    """Makes the superpixels of an image its players, by SLIC of scikit-image.

    Both shape and number of the players differ from image to image. `ImageExplainer` takes such players.

    Reference: Achanta et al., "SLIC superpixels compared to state-of-the-art superpixel methods", 2012.

    Args:
        n_segments: about how many superpixels an image gets.
        compactness: weight of closeness against color; the larger, the more superpixels are squares.

    Example:
        >>> import numpy as np
        >>> image = np.zeros((3, 32, 32))
        >>> image[:, 8:24, 8:24] = 1
        >>> players = fw.Superpixels(16)(image)
        >>> 8 <= players.n_players <= 32
        True
    """

    n_segments: int = 50
    compactness: float = 10.0

    def __post_init__(self) -> None:
        check_whole("n_segments", self.n_segments)
        if check_real("compactness", self.compactness) <= 0:
            raise ValueError(f"compactness must be positive, got {self.compactness:g}")

    def __call__(self, image: Array) -> Players:
        """Return the players of an image.

        Args:
            image: (channels, height, width), (height, width, channels) or (height, width), on any scale.
        """
        try:
            from skimage.segmentation import slic  # noqa: PLC0415 - optional, and slow to import
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("superpixels need scikit-image: pip install 'fwshapley[superpixels]'") from error
        pixels = _prepare(image)
        labels: Int[ndarray, "height width"] = slic(
            pixels,
            n_segments=self.n_segments,
            compactness=self.compactness,
            start_label=0,
            convert2lab=pixels.shape[-1] == COLORS,
            channel_axis=-1,
        )
        return segments(labels)


def find_players(players: Players | FindPlayers, x: Array) -> Players:
    """Return the players of an image: those that are the same for all, or what a function makes of it.

    Args:
        players: a division of the image, or a function from an image to one.
        x: a batch of one image, (1, channels, height, width).
    """
    check_image_players(players)
    of_image: object = players if isinstance(players, Players) else players(x[0])
    if not isinstance(of_image, Players) or not of_image.is_image:
        raise TypeError(f"players must be those of an image, made by grid or segments; got {shorten(of_image)}")
    of_image.check(x)
    return of_image


def check_image_players(players: object) -> None:
    """Raise a TypeError unless players are those of images, or a function that makes them."""
    if isinstance(players, Players) and not players.is_image:
        raise TypeError("players must be those of an image, made by grid or segments; got columns of a table")
    if not isinstance(players, Players) and (isinstance(players, type) or not callable(players)):
        raise TypeError(
            "players must be made by grid or segments, or be a function that makes them of an image, such as "
            f"fw.Superpixels(50); got {shorten(players)}"
        )


def check_fixed_players(players: object) -> None:
    """Raise a TypeError unless there are no players, or those that are the same for all inputs."""
    if players is None or isinstance(players, Players):
        return
    if callable(players) and not isinstance(players, type):
        raise TypeError(
            "players that differ from image to image cannot be learned, since a network has the same players for all; "
            f"sample them with fw.ImageExplainer(model, {shorten(players)}), or pass fw.grid(...)"
        )
    raise TypeError(
        "players must be made by columns, groups, grid, segments, tokens, words or sentences, got "
        f"{type(players).__name__}"
    )


def _prepare(image: Array) -> Float[ndarray, "height width channels"]:
    """Return an image with channels last, scaled to numbers from 0 to 1, or raise an error."""
    pixels = check_numbers("image", image)
    pixels = pixels[None] if pixels.ndim == IMAGE_AXES - 1 else pixels
    if pixels.ndim != IMAGE_AXES or not pixels.size:
        raise ValueError(f"image must have shape (channels, height, width), got {pixels.shape}")
    if not np.isfinite(pixels).all():
        raise ValueError("image contains NaN or infinite values; replace them first")
    is_last = pixels.shape[2] in CHANNEL_COUNTS and pixels.shape[0] not in CHANNEL_COUNTS
    pixels = pixels if is_last else pixels.transpose(1, 2, 0)
    spread = pixels.max() - pixels.min()
    return (pixels - pixels.min()) / (spread if spread > 0 else 1)
