"""The default network for images: an encoder that starts from the surrogate, and a light decoder."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from fwshapley.networks.mlp import zero
from fwshapley.players import Players

MAP_DIMENSIONS = 4
MIN_USED_SHARE = 0.05


class FeatureTaps(nn.Module):
    """Feature maps of any convolutional network on whole images: at each resolution, the last one computed.

    They are found by running the network once on an example, and read with forward hooks. Maps exist only during the
    call that computes them, so threads can share the module, and it can be copied and exported. BatchNorm and dropout
    stay in evaluation mode.

    Args:
        surrogate: a module on (images, coalitions); it is copied.
        example: an image.
        players: number of players.
    """

    def __init__(self, surrogate: nn.Module, example: Float[Tensor, "1 channels height width"], players: int) -> None:
        super().__init__()
        self.surrogate = copy.deepcopy(surrogate).eval().requires_grad_(requires_grad=True)
        self.players = players
        self._tap([name for name, _ in self.surrogate.named_modules() if name], example)
        if not self.names:
            raise ValueError(
                f"network='auto' needs feature maps (batch, channels, height, width), and {type(surrogate).__name__} "
                "computes none; pass network='unet' or a network of your own"
            )

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
        if self.names:
            self._freeze_unused(example)

    def _freeze_unused(self, example: Tensor) -> None:
        """Exclude from training BatchNorm and all parameters that no map depends on, such as the last layer."""
        with torch.enable_grad():
            reached = sum(feature_map.float().sum() for feature_map in self(example))
            parameters = list(self.surrogate.parameters())
            gradients: Sequence[Tensor | None] = [None] * len(parameters)
            if isinstance(reached, Tensor) and reached.requires_grad:  # not so for averages of the image
                gradients = torch.autograd.grad(reached, parameters, allow_unused=True)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.requires_grad_(gradient is not None)
        used = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
        if 0 < used < MIN_USED_SHARE * sum(parameter.numel() for parameter in parameters):
            raise ValueError(
                f"network='auto' needs a convolutional surrogate: only {used:,} parameters of this one come before its "
                "feature maps (is it a transformer?); pass network='unet' or a network of your own"
            )
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
        maps = self._run(x)
        return [maps[self.surrogate.get_submodule(name)] for name in self.names]


class ImageNetwork(nn.Module):
    """Encoder and decoder: (batch, image channels, height, width) to (batch, players, channels), zero at the start.

    The decoder goes from the coarsest map to the resolution of the players, with one 3x3 convolution per level and the
    encoder's map of that resolution as input. Of the maps finer than the players, the next one is averaged down.

    Args:
        surrogate: the encoder is a copy of it.
        example: an image.
        players: the players.
        channels: per player.
        width: of the decoder.
    """

    def __init__(
        self,
        surrogate: nn.Module,
        example: Float[Tensor, "1 image_channels height width"],
        players: Players,
        channels: int,
        *,
        width: int = 128,
    ) -> None:
        super().__init__()
        self.players = players
        self.taps = FeatureTaps(surrogate, example, players.n_players)
        resolutions = self.taps.resolutions
        goal = players.grid or resolutions[0]
        coarse = [number for number, size in enumerate(resolutions) if size[0] < goal[0]]
        fine = [number for number in range(len(resolutions)) if number not in coarse]
        at_goal = [number for number in fine if resolutions[number] == goal]
        finer = [number for number in fine if number not in at_goal][-1:]
        self.climb = [(resolutions[number], [number]) for number in reversed(coarse)] + [(goal, at_goal + finer)]
        sides = [sum(self.taps.channels[number] for number in used) for _, used in self.climb]
        self.levels = nn.ModuleList(
            _convolution(below + side, width) for below, side in zip([0, *[width] * len(coarse)], sides, strict=True)
        )
        self.context = nn.Linear(self.taps.channels[-1], width)
        self.refine = _convolution(width, width)
        self.head = nn.Conv2d(width, channels, 1)
        zero(self.head)

    def forward(self, x: Float[Tensor, "batch image_channels height width"]) -> Float[Tensor, "batch players channels"]:
        """Attribution channels of every player."""
        maps = self.taps(x)
        below: list[Tensor] = []
        for level, (size, used) in zip(self.levels, self.climb, strict=True):
            grown = [functional.interpolate(hidden, size) for hidden in below]
            hidden = level(torch.cat([*grown, *(_resize(maps[number], size) for number in used)], 1))
            if not below:
                hidden = hidden + self.context(maps[-1].mean((2, 3)))[..., None, None]
            below = [hidden]
        return self.players.pool(self.head(hidden + self.refine(hidden))).transpose(1, 2)


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


def _resize(feature_map: Tensor, size: tuple[int, int]) -> Tensor:
    return feature_map if _resolution(feature_map) == size else functional.adaptive_avg_pool2d(feature_map, size)


def _convolution(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(8, after), nn.SiLU())
