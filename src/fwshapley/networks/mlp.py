"""Multilayer perceptrons for tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

MIN_DEVIATION = 1e-6
MAX_BINS = 64
MIN_BINS = 4
BINNED_COORDINATES = 1024
"""Coordinates by bins of a table with 16 to 256 columns of numbers; each column has at most 64 bins, and at least 4."""

MAX_BINNED_ROWS = 2**16
"""Rows that the bins of a column are measured on."""


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
        return self.finish(self.first(x))

    def finish(self, hidden: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch outputs"]:
        """Values of the outputs, from what the first layer returns."""
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


class BinnedCoordinates(Coordinates):
    """Columns of a table as numbers from which a network easily learns steps, such as those of trees.

    To the coordinates of `Coordinates`, each column of numbers adds one for each of its bins, between neighboring
    quantiles: 0 below the bin, 1 above it, and linear within it (piecewise linear encoding, Gorishniy et al. 2022).
    So every function of one column that is linear within the bins is a weighted sum of its coordinates. A column with
    few different values has a bin between each and the next.

    Args:
        x: rows, as `Coordinates` takes them.
        kinds: what the columns contain.

    Attributes:
        count: number of coordinates.
        owner: the column of each coordinate.
    """

    low: Tensor
    width: Tensor

    def __init__(self, x: Float[Tensor, "rows columns"], kinds: ColumnKinds = ColumnKinds()) -> None:  # noqa: B008 - immutable
        super().__init__(x, kinds)
        bins = min(max(BINNED_COORDINATES // max(len(self.numbers), 1), MIN_BINS), MAX_BINS)
        low = x.new_zeros(len(self.numbers), bins)
        width = torch.full_like(low, torch.inf)  # of bins that a column does not need: always 0
        for place, column in enumerate(self.numbers):
            edges = _bin_edges(x[:, column], bins)
            edges = (edges - self.mean[place]) / self.scale[place]
            low[place, : len(edges) - 1], width[place, : len(edges) - 1] = edges[:-1], edges.diff()
        self.register_buffer("low", low.float())
        self.register_buffer("width", width.float())
        owners = torch.tensor(self.numbers, dtype=torch.long).repeat_interleave(bins)
        self.register_buffer("owner", torch.cat([self.owner, owners]), persistent=False)
        self.count = len(self.owner)

    def forward(self, x: Float[Tensor, "batch columns"]) -> Float[Tensor, "batch coordinates"]:
        """Coordinates of rows; those of a missing value are 0, except its indicator."""
        coordinates = super().forward(x)
        numbers = coordinates[:, : len(self.numbers), None]
        positions = ((numbers - self.low) / self.width).clamp(0, 1)
        if self.gappy:
            positions = positions.masked_fill(x[:, self.numbers, None].isnan(), 0)
        return torch.cat([coordinates, positions.flatten(1)], 1)


def _bin_edges(column: Float[Tensor, " rows"], bins: int) -> Float[Tensor, " edges"]:
    """Different values of a column, or its quantiles if there are more than bins: in order, none twice."""
    step = -(-len(column) // MAX_BINNED_ROWS)
    values = column[::step]
    values = values[values.isfinite()]
    different = values.unique()
    if len(different) <= bins + 1:
        return different if len(different) else values.new_zeros(1)
    return values.quantile(torch.linspace(0, 1, bins + 1, dtype=values.dtype, device=values.device)).unique()


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

    def forward(self, out: Float[Tensor, "*batch outputs"]) -> Float[Tensor, "*batch outputs"]:
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
        width: int = 128,
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
