"""The paper's network for images: a UNet from pixels to a map per output, at the resolution of the players."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from fwshapley.networks.cnn import two_convolutions
from fwshapley.networks.mlp import zero
from fwshapley.players import Players


class UNet(nn.Module):
    """UNet that ends at the resolution of the players: (batch, image channels, h, w) to (batch, players, channels).

    Reference: Jethani et al., "FastSHAP", 2022, which FW-Shapley follows for images: 16 x 16 maps of 32 x 32 images.

    Args:
        image_channels: of the input.
        players: the players.
        channels: per player.
        width: feature maps at full resolution; doubled at each halving.
        depth: number of halvings.
    """

    def __init__(
        self, image_channels: int, players: Players, channels: int, *, width: int = 64, depth: int = 3
    ) -> None:
        super().__init__()
        self.players = players
        height, width_of_image = players.assignment.shape
        goal = players.grid[0] if players.grid else height
        depth = min(depth, min(height, width_of_image).bit_length() - 1)  # 8 rows can be halved three times
        climbs = next((climb for climb in range(depth) if height >> (depth - climb) >= goal), depth)
        widths = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(
            two_convolutions(before, after) for before, after in zip([image_channels, *widths], widths, strict=False)
        )
        self.up = nn.ModuleList(two_convolutions(3 * fine, fine) for fine in widths[-2::-1][:climbs])
        self.head = nn.Conv2d(widths[depth - climbs], channels, 1)
        zero(self.head)

    def forward(self, x: Float[Tensor, "batch image_channels height width"]) -> Float[Tensor, "batch players channels"]:
        """Attribution channels of every player."""
        hidden = x
        skips = []
        for level, block in enumerate(self.down):
            hidden = block(functional.max_pool2d(hidden, 2) if level else hidden)
            skips.append(hidden)
        for block, skip in zip(self.up, skips[-2::-1], strict=False):
            hidden = block(torch.cat([functional.interpolate(hidden, skip.shape[-2:]), skip], 1))
        return self.players.pool(self.head(hidden)).transpose(1, 2)
