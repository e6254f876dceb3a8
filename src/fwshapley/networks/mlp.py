"""Multilayer perceptrons for tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

MIN_DEVIATION = 1e-6


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
        out: Tensor = self.last(functional.silu(self.norm(hidden)))
        return out


class ColumnKinds(NamedTuple):
    """What the columns of a table contain; if empty, numbers without missing values.

    Attributes:
        categories: number of categories of each column; 0 for numbers.
        gaps: which columns of numbers may have missing values.
    """

    categories: Sequence[int] = ()
    gaps: Sequence[bool] = ()


class Coordinates(nn.Module):
    """Columns of a table as numbers of similar size.

    Numbers are standardized by the rows that are passed (constant columns keep their units). Every category becomes a
    coordinate, and so does the indicator of missing values for columns that may have them.

    Args:
        x: rows, with categories as codes 0, 1, 2, ... and missing numbers as NaN.
        kinds: what the columns contain.

    Attributes:
        count: number of coordinates.
        owner: the column of each coordinate.
    """

    mean: Tensor
    scale: Tensor
    owner: Tensor

    def __init__(self, x: Float[Tensor, "rows columns"], kinds: ColumnKinds = ColumnKinds()) -> None:  # noqa: B008 - immutable
        super().__init__()
        categories = kinds.categories or [0] * x.shape[1]
        self.coded = [(column, count) for column, count in enumerate(categories) if count]
        self.gappy = [column for column, gap in enumerate(kinds.gaps) if gap]
        self.numbers = [column for column, count in enumerate(categories) if not count]
        owner = [*self.numbers, *(column for column, count in self.coded for _ in range(count)), *self.gappy]
        self.count = len(owner)
        self.register_buffer("owner", torch.tensor(owner), persistent=False)
        values = x[:, self.numbers]
        mean = values.nanmean(0).nan_to_num()
        deviation = (values - mean).square().nanmean(0).sqrt()
        varies = (values.nan_to_num(-torch.inf).amax(0) > values.nan_to_num(torch.inf).amin(0)) & (deviation > 0)
        self.register_buffer("mean", mean)
        self.register_buffer("scale", torch.where(varies, deviation, 1.0))

    def forward(self, x: Float[Tensor, "batch columns"]) -> Float[Tensor, "batch coordinates"]:
        """Coordinates of rows; those of a missing value are 0, except its indicator."""
        plain = len(self.numbers) == x.shape[1]
        numbers = (((x if plain else x[:, self.numbers]) - self.mean) / self.scale).float()
        if plain and not self.gappy:
            return numbers
        ones = [functional.one_hot(x[:, column].long(), count).float() for column, count in self.coded]
        return torch.cat([numbers.nan_to_num(), *ones, x[:, self.gappy].isnan().float()], 1)


class Rescale(nn.Module):
    """Outputs of a network in the units of its targets.

    Args:
        outputs: number of outputs.
        targets: give mean and standard deviation; by default 0 and 1.
    """

    center: Tensor
    spread: Tensor

    def __init__(self, outputs: int, targets: Float[Tensor, "rows outputs"] | None = None) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(outputs) if targets is None else targets.mean(0))
        self.register_buffer("spread", torch.ones(outputs) if targets is None else spread_of(targets))

    def forward(self, out: Float[Tensor, "batch outputs"]) -> Float[Tensor, "batch outputs"]:
        """Outputs in the units of the targets."""
        return self.center + self.spread * out


def spread_of(targets: Float[Tensor, "rows outputs"]) -> Float[Tensor, " outputs"]:
    """Standard deviation of every output, or 1 if it is constant."""
    deviation = targets.std(0, correction=0)
    return torch.where(deviation > MIN_DEVIATION * targets.abs().amax(0), deviation, 1.0)


class TableNetwork(nn.Module):
    """Explainer of tables: (batch, columns) to (batch, players, channels), zero at the start."""

    def __init__(
        self,
        x: Float[Tensor, "rows columns"],
        players: int,
        channels: int,
        *,
        kinds: ColumnKinds = ColumnKinds(),  # noqa: B008 - immutable
        width: int = 256,
        depth: int = 3,
    ) -> None:
        super().__init__()
        self.players = players
        self.coordinates = Coordinates(x, kinds)
        self.body = MLP(self.coordinates.count, players * channels, width=width, depth=depth)
        zero(self.body.last)

    def forward(self, x: Float[Tensor, "batch columns"]) -> Float[Tensor, "batch players channels"]:
        """Attribution channels of every player."""
        out: Tensor = self.body(self.coordinates(x)).unflatten(1, (self.players, -1))
        return out


def zero(layer: nn.Linear | nn.Conv2d) -> None:
    """Set the last layer to zero, so that training starts from values of 0."""
    nn.init.zeros_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
