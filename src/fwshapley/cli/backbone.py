"""A network that the user names, whose outputs are features of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fwshapley._internal.progress import ProgressBar
from fwshapley.cli.model_loading import find_model
from fwshapley.explanation.black_box import find_function
from fwshapley.explanation.inputs import choose_device

BATCH = 64


class Backbone:
    """Features of images by a network: a row of finite numbers for each image, however the network shapes them.

    Args:
        name: of the network, as `find_model` takes it.
        device: where a torch module runs.
    """

    def __init__(self, name: str, device: str) -> None:
        self.name = name
        self._ask = _asked(find_model(name, "raw"), choose_device(device))

    def __call__(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """Features of images, (images, channels, height, width)."""
        parts: list[NDArray[np.float32]] = []
        with ProgressBar("asking the backbone", len(images)) as bar:
            for start in range(0, len(images), BATCH):
                batch = images[start : start + BATCH]
                parts.append(self._check(batch, start))
                bar.advance(len(batch))
        if len({part.shape[1] for part in parts}) > 1:
            raise ValueError(f"{self.name} returned another number of features for some images than for others")
        return np.concatenate(parts)

    def _check(self, batch: NDArray[np.float32], start: int) -> NDArray[np.float32]:
        """Features of a batch, or what is wrong with them."""
        try:
            answer = self._ask(batch)
        except Exception as error:  # whatever a stranger's code may raise
            raise ValueError(
                f"{self.name} failed on images of shape {batch.shape[1:]} (channels, height, width): "
                f"{type(error).__name__}: {error}; --size and --rgb or --gray give them another"
            ) from error
        try:
            plain = np.asarray(answer.detach().cpu().float() if isinstance(answer, Tensor) else answer, np.float32)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.name} must return numbers, it returned {type(answer).__name__}") from error
        if not plain.ndim or len(plain) != len(batch) or not plain.size:
            raise ValueError(
                f"{self.name} must return a row of features for each image, it returned shape {plain.shape} for "
                f"{len(batch)} images"
            )
        rows = plain.reshape(len(batch), -1)
        wrong = ~np.isfinite(rows).all(1)
        if wrong.any():
            first = start + int(wrong.argmax())
            raise ValueError(f"{self.name} returned features that are not finite, first for image {first}")
        return rows


def _asked(model: Any, device: torch.device) -> Callable[[NDArray[np.float32]], Any]:  # noqa: ANN401 - any model
    """Return the function to ask: a torch module gets tensors, all else arrays."""
    if not isinstance(model, nn.Module):
        return find_function(model).ask
    module = model.to(device).eval()

    def ask(batch: NDArray[np.float32]) -> Any:  # noqa: ANN401 - whatever it returns
        with torch.no_grad():
            return module(torch.from_numpy(batch).to(device))

    return ask
