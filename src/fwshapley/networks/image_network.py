"""The default network for images: a U-Net on the grid of the players, with the surrogate's feature maps as inputs."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from fwshapley.networks.encoder import MIN_ENCODER_SHARE, FeatureTaps
from fwshapley.networks.mlp import zero
from fwshapley.players import Players

COARSEST = 4
"""The grid is halved until no side is longer; there, a perceptron sees all positions at once."""

CONTEXT_WIDTH = 256
POSITIONS_A_PLAYER = 2
"""Least positions for each player that is no cell of a grid, such as a segment."""

NARROW, WIDE = 64, 128
LARGE_SURROGATE = 2**21
"""Parameters from which on calls of the surrogate take so long that a wide network adds little."""


class ImageNetwork(nn.Module):
    """U-Net on the grid of the players: (batch, image channels, height, width) to (batch, players, channels).

    A linear map embeds the pixels of each player. The grid is then halved until it is small, where a perceptron of all
    positions gives global context, and doubled again. This is far cheaper than a U-Net that starts from pixels. The
    feature maps of a convolutional surrogate, which go on learning, are inputs at the level of their resolution; of
    those finer than the players, the next one is averaged. Maps on which almost no parameter of the surrogate depends,
    as those before Flatten and a large Linear, are left out. The output is zero at initialization.

    Args:
        surrogate: a module on (images, coalitions); its maps come from a copy.
        example: an image.
        players: the players.
        channels: per player.
        width: of the network; by default 64, or 128 for surrogates of at least 2**21 parameters.
    """

    def __init__(
        self,
        surrogate: nn.Module,
        example: Float[Tensor, "1 image_channels height width"],
        players: Players,
        channels: int,
        *,
        width: int | None = None,
    ) -> None:
        super().__init__()
        self.players = players
        taps = FeatureTaps(surrogate, example, players.n_players)
        self.taps = taps if taps.names and taps.share >= MIN_ENCODER_SHARE else None
        if width is None:
            width = WIDE if sum(map(torch.numel, surrogate.parameters())) >= LARGE_SURROGATE else NARROW
        self.sizes = _grids(players)
        rows, columns = self.sizes[0]
        self.patch = (-(-example.shape[-2] // rows), -(-example.shape[-1] // columns))
        self.joining = _levels_of_maps(self.taps.resolutions if self.taps else [], self.sizes)
        sides = [sum(taps.channels[number] for number in numbers) for numbers in self.joining]
        self.embed = nn.Conv2d(example.shape[1], width, self.patch, self.patch)
        self.position = nn.Parameter(torch.zeros(width, *self.sizes[0]))
        self.down = nn.ModuleList(_convolution(width + side, width) for side in sides)
        positions = width * self.sizes[-1][0] * self.sizes[-1][1]
        self.context = nn.Sequential(
            nn.Linear(positions, CONTEXT_WIDTH), nn.SiLU(), nn.Linear(CONTEXT_WIDTH, positions)
        )
        self.up = nn.ModuleList(_convolution(2 * width, width) for _ in self.sizes[1:])
        self.refine = _convolution(width, width)
        self.head = nn.Conv2d(width, channels, 1)
        zero(self.head)

    def forward(self, x: Float[Tensor, "batch image_channels height width"]) -> Float[Tensor, "batch players channels"]:
        """Attribution channels of every player."""
        maps = self.taps(x) if self.taps else []
        whole = (self.sizes[0][0] * self.patch[0], self.sizes[0][1] * self.patch[1])
        hidden = self.embed(x if x.shape[-2:] == whole else functional.interpolate(x, whole)) + self.position
        levels = []
        for block, size, numbers in zip(self.down, self.sizes, self.joining, strict=True):
            hidden = block(torch.cat([_resize(each, size) for each in (hidden, *(maps[n] for n in numbers))], 1))
            levels.append(hidden)
        hidden = hidden + self.context(hidden.flatten(1)).view_as(hidden)
        for block, level in zip(self.up, levels[-2::-1], strict=True):
            hidden = block(torch.cat([functional.interpolate(hidden, level.shape[-2:]), level], 1))
        return self.players.pool(self.head(hidden + self.refine(hidden))).transpose(1, 2)


def _grids(players: Players) -> list[tuple[int, int]]:
    """Return the grid of the players, or one with at least two positions for each, and its halves."""
    height, width = players.grid or players.assignment.shape
    while players.grid is None and height * width >= 4 * POSITIONS_A_PLAYER * players.n_players:
        height, width = -(-height // 2), -(-width // 2)
    grids = [(height, width)]
    while max(grids[-1]) > COARSEST:
        grids.append((-(-grids[-1][0] // 2), -(-grids[-1][1] // 2)))
    return grids


def _levels_of_maps(resolutions: list[tuple[int, int]], sizes: list[tuple[int, int]]) -> list[list[int]]:
    """Return the numbers of the maps that join at each grid.

    Maps at least as fine as the players join at the finest grid: one of its size, and the next finer one. Coarser ones
    join at the finest grid that is no finer than they are.
    """
    goal, last = sizes[0], len(sizes) - 1
    joining: list[list[int]] = [[] for _ in sizes]
    finer = [number for number, (height, _) in enumerate(resolutions) if height > goal[0]]
    for number in finer[-1:] + list(range(len(finer), len(resolutions))):
        level = next((level for level, size in enumerate(sizes) if size[0] <= resolutions[number][0]), last)
        joining[level].append(number)
    return joining


def _resize(feature_map: Tensor, size: tuple[int, int]) -> Tensor:
    return feature_map if feature_map.shape[-2:] == size else functional.adaptive_avg_pool2d(feature_map, size)


def _convolution(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(8, after), nn.SiLU())
