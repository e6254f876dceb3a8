"""Players of a feature-attribution game: which part of an input belongs to whom.

Columns of a table, groups of columns, patches of an image, or any map of segments: each is an assignment of the
positions of an input to players 0..n-1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from fwshapley.checks import check_whole

IMAGE_DIMENSIONS = 2
MOST_MEMBERSHIPS = 2**22
"""Pairs of a position and a player that are looked at at once."""


@dataclass(frozen=True, eq=False)
class Players:
    """An assignment of positions to players.

    Attributes:
        assignment: player of each position: (columns,) for a table, (height, width) for images.
        names: one per player.
        grid: (rows, columns) if the players are the cells of a regular grid, in reading order.
    """

    assignment: Int[Tensor, "*positions"]
    names: tuple[str, ...]
    grid: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.assignment.is_meta:  # which has a shape, but no numbers
            return
        present = self.assignment.unique().tolist()
        if present != list(range(len(self.names))):
            raise ValueError(f"players must be numbered 0..{len(self.names) - 1} with none left out, got {present}")

    @property
    def n_players(self) -> int:
        """Number of players."""
        return len(self.names)

    @property
    def is_image(self) -> bool:
        """Whether positions are pixels (and inputs have channels) rather than columns."""
        return self.assignment.ndim == IMAGE_DIMENSIONS

    def check(self, x: Tensor) -> None:
        """Raise unless x is a batch of inputs that these players divide."""
        shape, wanted = tuple(x.shape), tuple(self.assignment.shape)
        if self.is_image and (x.ndim != IMAGE_DIMENSIONS + 2 or shape[-2:] != wanted):
            raise ValueError(
                f"these players divide images: expected (batch, channels, {wanted[0]}, {wanted[1]}), got {shape}"
            )
        if not self.is_image and shape[1:] != wanted:
            raise ValueError(
                f"these players divide rows of {wanted[0]} columns: expected (batch, {wanted[0]}), got {shape}"
            )

    def spread(self, coalitions: Bool[Tensor, "batch players"]) -> Bool[Tensor, "batch ..."]:
        """Mask of the positions that belong to each coalition, with an axis for the channels of an image."""
        if self.grid is not None:  # without looking up an index for every pixel
            (rows, cells), height = self.grid, self.assignment.shape[0] // self.grid[0]
            width = self.assignment.shape[1] // cells
            blocks = coalitions.reshape(-1, 1, rows, 1, cells, 1).expand(-1, 1, rows, height, cells, width)
            return blocks.reshape(-1, 1, *self.assignment.shape)
        mask = coalitions[:, self.assignment.to(coalitions.device).flatten()]
        return mask.unflatten(1, (1, *self.assignment.shape)) if self.is_image else mask

    def to(self, device: torch.device | str) -> Players:
        """Return the same players with their map on a device."""
        return replace(self, assignment=self.assignment.to(device))

    def facts(self) -> dict[str, Any]:
        """Everything but the map, as JSON holds it."""
        return {"names": self.names, "grid": self.grid}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any], assignment: Int[Tensor, "*positions"]) -> Players:
        """Return the players whose `facts` and map were saved."""
        rows_and_cells = facts["grid"]
        return cls(assignment, tuple(facts["names"]), grid=None if rows_and_cells is None else tuple(rows_and_cells))

    def pool(self, maps: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch channels players"]:
        """Mean of a map over the pixels of each player; a grid of the map's own size is read off."""
        if self.grid == tuple(maps.shape[-2:]):
            return maps.flatten(2)
        sized = torch.nn.functional.interpolate(
            maps, tuple(self.assignment.shape), mode="bilinear", align_corners=False
        )
        return self.sum(sized) / self.sum(torch.ones_like(sized[:1, :1]))

    def sum(self, maps: Float[Tensor, "*axes"]) -> Float[Tensor, "*front players"]:
        """Sum over the positions of each player, which are the last axes of a map.

        Products with who owns what, some players at a time, rather than `index_add`, whose order differs from run to
        run on a GPU.
        """
        if self.grid is not None:
            rows, cells = self.grid
            return maps.unflatten(-1, (cells, -1)).unflatten(-3, (rows, -1)).sum((-3, -1)).flatten(-2)
        positions = maps.flatten(-self.assignment.ndim)
        owners = self.assignment.to(maps.device).flatten()[:, None]
        everyone = torch.arange(self.n_players, device=maps.device)
        some = max(1, MOST_MEMBERSHIPS // len(owners))
        return torch.cat([positions @ (owners == each).to(maps.dtype) for each in everyone.split(some)], -1)


def columns(count: int, names: Sequence[str] | None = None) -> Players:
    """One player per column of a table."""
    count = check_whole("count", count)
    return Players(torch.arange(count), _names(names, count, "column"))


def groups(
    members: Mapping[str, Sequence[int] | Sequence[str]],
    count: int | None = None,
    *,
    names: Iterable[str] | None = None,
) -> Players:
    """Groups of columns as players, e.g. a one-hot group; columns not named are players of their own.

    Args:
        members: columns by name of the group: their numbers, or names if `names` are given.
        count: number of columns of the table; by default the largest column named, plus one.
        names: of all columns of the table, e.g. those of a DataFrame; they also name the columns in no group.

    Example:
        >>> groups({"colour": [0, 1, 2], "price": [3]}).n_players
        2
        >>> groups({"place": ["city", "street"]}, names=["city", "street", "price"]).names
        ('place', 'price')
    """
    every = None if names is None else list(map(str, names))
    if every is not None and len(set(every)) < len(every):
        raise ValueError(f"several columns have the same name: {', '.join(every)}")
    numbers = {name: [_number(column, every) for column in group] for name, group in members.items()}
    named = [column for group in numbers.values() for column in group]
    if count is None:
        count = max(named, default=-1) + 1 if every is None else len(every)
    count = check_whole("count", count)
    repeated = {column for column in named if named.count(column) > 1}
    if repeated or any(not 0 <= column < count for column in named):
        raise ValueError(f"each of the columns 0..{count - 1} may be in one group only; got {dict(members)}")
    empty = [name for name, group in members.items() if not len(group)]
    if empty:
        raise ValueError(f"the group {empty[0]!r} has no columns")
    owners = {column: name for name, group in numbers.items() for column in group}
    single = _names(every, count, "column")
    labels = [owners.get(column, single[column]) for column in range(count)]
    taken = [label for column, label in enumerate(labels) if column not in owners and label in members]
    if taken:
        raise ValueError(f"{taken[0]!r} is the name of a column that is in no group; call the group otherwise")
    order = list(dict.fromkeys(labels))
    return Players(torch.tensor([order.index(label) for label in labels]), tuple(order))


def _number(column: int | str, names: Sequence[str] | None) -> int:
    if not isinstance(column, str):
        return column
    if names is None or column not in names:
        known = "pass names=..., e.g. those of the DataFrame" if names is None else f"there are {', '.join(names)}"
        raise ValueError(f"there is no column {column!r} to group: {known}")
    return names.index(column)


def grid(height: int, width: int, *, patch: int) -> Players:
    """Square patches of an image as players, in reading order.

    Example:
        >>> grid(32, 32, patch=2).n_players
        256
    """
    if check_whole("height", height) % check_whole("patch", patch) or check_whole("width", width) % patch:
        raise ValueError(f"patches of {patch} do not tile an image of {height} x {width}")
    rows, cells = height // patch, width // patch
    row, cell = torch.arange(height) // patch, torch.arange(width) // patch
    names = tuple(f"({r}, {c})" for r in range(rows) for c in range(cells))
    return Players(row[:, None] * cells + cell, names, grid=(rows, cells))


def segments(
    assignment: Tensor | NDArray[Any] | Sequence[Sequence[int]], names: Sequence[str] | None = None
) -> Players:
    """Any division of an image: (height, width) player numbers 0..n-1."""
    numbers = torch.as_tensor(assignment).long()
    if numbers.ndim != IMAGE_DIMENSIONS or not numbers.numel():
        raise ValueError(f"a map of segments is (height, width) player numbers, got shape {tuple(numbers.shape)}")
    return Players(numbers, _names(names, int(numbers.max()) + 1, "segment"))


def _names(names: Sequence[str] | None, count: int, kind: str) -> tuple[str, ...]:
    if names is None:
        return tuple(f"{kind} {number}" for number in range(count))
    if len(names) != count:
        raise ValueError(f"{len(names)} names for {count} {kind}s")
    return tuple(names)
