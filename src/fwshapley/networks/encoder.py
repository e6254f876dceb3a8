"""Feature maps of a convolutional network, from which the default network for images starts."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

MAP_DIMENSIONS = 4
MIN_ENCODER_SHARE = 0.05
"""Share of a network's parameters that its maps must depend on to be worth starting from."""


class FeatureTaps(nn.Module):
    """Feature maps of any network on whole images: at each resolution, the last one computed; perhaps there are none.

    They are found by running the network once on an example, and read with forward hooks. Maps exist only during the
    call that computes them, so threads can share the module, and it can be copied and exported. BatchNorm and dropout
    stay in evaluation mode.

    Args:
        surrogate: a module on (images, coalitions); it is copied.
        example: an image.
        players: number of players.

    Attributes:
        names: of the modules that compute the maps, from fine to coarse.
        channels: of each map.
        resolutions: of each map, (height, width).
        share: of the parameters that the maps depend on: near 1 for a convolutional network that averages its last map,
            and small for one that flattens it or for a transformer; 1 without parameters.
    """

    def __init__(self, surrogate: nn.Module, example: Float[Tensor, "1 channels height width"], players: int) -> None:
        super().__init__()
        self.surrogate = copy.deepcopy(surrogate).eval().requires_grad_(requires_grad=True)
        self.players = players
        self._tap([name for name, _ in self.surrogate.named_modules() if name], example)

    def _tap(self, candidates: list[str], example: Tensor) -> None:
        """Find the last map of each resolution, keep hooks on these modules alone, and freeze all later ones."""
        modules = dict(self.surrogate.named_modules())
        handles = [modules[name].register_forward_hook(_keep) for name in candidates]
        with torch.no_grad():
            maps = self._run(example)
        for handle in handles:
            handle.remove()
        image = _resolution(example)
        names = {module: name for name, module in modules.items()}
        last = {
            _resolution(feature_map): names[module]
            for module, feature_map in maps.items()
            if _shrunk(_resolution(feature_map), image)
        }
        self.names = [last[resolution] for resolution in sorted(last, reverse=True)]
        tapped = [modules[name] for name in self.names]
        self.channels = [maps[module].shape[1] for module in tapped]
        self.resolutions = [_resolution(maps[module]) for module in tapped]
        for module in tapped:
            module.register_forward_hook(_keep)
        self._freeze_unused(example)

    def _freeze_unused(self, example: Tensor) -> None:
        """Exclude from training BatchNorm and all parameters that no map depends on, such as the last layer."""
        with torch.enable_grad():
            reached = sum((feature_map.float().sum() for feature_map in self(example)), example.new_zeros(()))
            parameters = list(self.surrogate.parameters())
            gradients: Sequence[Tensor | None] = [None] * len(parameters)
            if reached.requires_grad:  # not so for averages of the image
                gradients = torch.autograd.grad(reached, parameters, allow_unused=True)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.requires_grad_(gradient is not None)
        used = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
        count = sum(parameter.numel() for parameter in parameters)
        self.share = used / count if count else 1.0
        for module in self.surrogate.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):  # noqa: SLF001 - the base of all of them
                module.requires_grad_(requires_grad=False)

    def _run(self, x: Tensor) -> Mapping[nn.Module, Tensor]:
        """Maps of the modules that have hooks, in the order of their last use."""
        maps: dict[nn.Module, Tensor] = {}
        outer, _running.maps = _running.maps, maps  # of a call around this one
        try:
            self.surrogate(x, torch.ones(x.shape[0], self.players, dtype=torch.bool, device=x.device))
        finally:
            _running.maps = outer
        return maps

    def train(self, mode: bool = True) -> Self:  # noqa: FBT001, FBT002, ARG002 - torch's signature
        """Stay in evaluation mode."""
        return super().train(mode=False)

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> list[Tensor]:
        """Feature maps, from fine to coarse."""
        maps = self._run(x) if self.names else {}
        return [maps[self.surrogate.get_submodule(name)] for name in self.names]


class _Running(threading.local):
    """The running call of `FeatureTaps` in each thread.

    Attributes:
        maps: filled by its hooks, a local variable of that call; None outside calls.
    """

    maps: dict[nn.Module, Tensor] | None = None


_running = _Running()


def _keep(module: nn.Module, _inputs: object, out: object) -> None:
    """Forward hook: store a feature map for the call that runs in this thread."""
    maps = _running.maps
    if maps is not None and isinstance(out, Tensor) and out.ndim == MAP_DIMENSIONS:
        maps.pop(module, None)  # if a module is used again, its last use counts
        maps[module] = out


def _shrunk(size: tuple[int, int], image: tuple[int, int]) -> bool:
    """Whether a map can be the image at a lower resolution, rather than an attention matrix or channels last."""
    fits = 1 < size[0] <= image[0] and 1 < size[1] <= image[1]
    return fits and abs(size[0] * image[1] - size[1] * image[0]) <= max(image)


def _resolution(feature_map: Tensor) -> tuple[int, int]:
    return feature_map.shape[-2], feature_map.shape[-1]
