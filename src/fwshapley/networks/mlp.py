"""Multilayer perceptrons for tables."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

SMALLEST_DEVIATION = 1e-6


class MLP(nn.Module):
    """Residual perceptron: (batch, columns) to (batch, outputs)."""

    def __init__(self, columns: int, outputs: int, *, width: int = 256, depth: int = 3) -> None:
        super().__init__()
        self.first = nn.Linear(columns, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.SiLU(), nn.Linear(width, width)) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, outputs)

    def forward(self, x: Float[Tensor, "batch columns"]) -> Float[Tensor, "batch outputs"]:
        """Values of the outputs."""
        hidden = self.first(x)
        for block in self.blocks:
            hidden = hidden + block(hidden)
        out: Tensor = self.last(nn.functional.silu(self.norm(hidden)))
        return out


class Standardise(nn.Module):
    """Columns of mean 0 and deviation 1 in the rows it was made from; what is constant there keeps its units."""

    mean: Tensor
    scale: Tensor

    def __init__(self, x: Float[Tensor, "rows columns"]) -> None:
        super().__init__()
        self.register_buffer("mean", x.mean(0))
        deviation = x.std(0, correction=0)
        self.register_buffer("scale", torch.where(deviation > SMALLEST_DEVIATION, deviation, 1.0))

    def forward(self, x: Float[Tensor, "batch columns"]) -> Float[Tensor, "batch columns"]:
        """Columns in units of their deviation."""
        return (x - self.mean) / self.scale


class TableNetwork(nn.Module):
    """Explainer of tables: (batch, columns) to (batch, players, channels), zero at the start."""

    def __init__(
        self, x: Float[Tensor, "rows columns"], players: int, channels: int, *, width: int = 256, depth: int = 3
    ) -> None:
        super().__init__()
        self.players = players
        self.standardise = Standardise(x)
        self.body = MLP(x.shape[1], players * channels, width=width, depth=depth)
        zero(self.body.last)

    def forward(self, x: Float[Tensor, "batch columns"]) -> Float[Tensor, "batch players channels"]:
        """Attribution channels of every player."""
        out: Tensor = self.body(self.standardise(x)).unflatten(1, (self.players, -1))
        return out


def zero(layer: nn.Linear | nn.Conv2d) -> None:
    """Start a last layer at zero, so that training starts from the empty explanation."""
    nn.init.zeros_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
