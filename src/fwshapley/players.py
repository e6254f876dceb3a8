"""Players of a feature-attribution game: which part of an input belongs to whom.

Columns of a table, groups of columns, patches of an image, or any map of segments: each is an assignment of the
positions of an input to players 0..n-1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.checks import as_tensor, check_names, check_whole

IMAGE_DIMENSIONS = 2
MOST_MEMBERSHIPS = 2**22
"""Pairs of a position and a player that are looked at at once."""
MOST_POSITIONS = 2**26
"""Columns or pixels of an input."""
MOST_LISTED = 12
"""Numbers of players in an error."""


@dataclass(frozen=True, eq=False)
class Players:
    """An assignment of positions to players.

    Attributes:
        assignment: player of each position: (columns,) for a table, (height, width) for images.
        names: one per player.
        grid: (rows, columns) if the players are the cells of a regular grid, in reading order.
        columns: names of the columns of the table, where they are known; tables are then matched by name.
    """

    assignment: Int[Tensor, "*positions"]
    names: tuple[str, ...]
    grid: tuple[int, int] | None = None
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.assignment.is_meta:  # which has a shape, but no numbers
            return
        present = self.assignment.unique().tolist()
        if present != list(range(len(self.names))):
            first = ", ".join(map(str, present[:MOST_LISTED])) + ", ..." * (len(present) > MOST_LISTED)
            raise ValueError(f"players must be numbered 0..{len(self.names) - 1} with none left out, got {first}")

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
        return {"names": self.names, "grid": self.grid, "columns": self.columns}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any], assignment: Int[Tensor, "*positions"]) -> Players:
        """Return the players whose `facts` and map were saved."""
        grid, columns = (None if facts[name] is None else tuple(facts[name]) for name in ("grid", "columns"))
        return cls(assignment, tuple(facts["names"]), grid=grid, columns=columns)

    def for_table(self, names: Sequence[str]) -> Players:
        """Return the players of a table with these columns: found by name, whatever their order, if names are known."""
        if self.columns is None or self.columns == tuple(names):
            return self
        if sorted(self.columns) != sorted(names):
            raise ValueError(
                f"players were made for the columns {', '.join(self.columns)}, and the table has {', '.join(names)}"
            )
        order = [self.columns.index(name) for name in names]
        return replace(self, assignment=self.assignment[order], columns=tuple(names))

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
    count = _check_count("count", count)
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
        >>> groups({"color": [0, 1, 2], "price": [3]}).n_players
        2
        >>> groups({"place": ["city", "street"]}, names=["city", "street", "price"]).names
        ('place', 'price')
    """
    if not isinstance(members, Mapping):
        raise TypeError(
            "members must map the name of each group to its columns, e.g. groups({'color': [0, 1], 'price': [2]}); "
            f"got {type(members).__name__}"
        )
    every = None if names is None else list(check_names("names", names))
    listed = {str(name): _check_group(name, group) for name, group in members.items()}
    numbers = {name: [_number(name, column, every) for column in group] for name, group in listed.items()}
    named = [column for group in numbers.values() for column in group]
    if count is None:
        count = max(named, default=-1) + 1 if every is None else len(every)
    count = _check_count("count", count)
    repeated = {column for column in named if named.count(column) > 1}
    if repeated or any(not 0 <= column < count for column in named):
        raise ValueError(f"each of the columns 0..{count - 1} may be in one group only; got {listed}")
    empty = [name for name, group in listed.items() if not group]
    if empty:
        raise ValueError(f"the group {empty[0]!r} has no columns")
    owners = {column: name for name, group in numbers.items() for column in group}
    single = _names(every, count, "column")
    labels = [owners.get(column, single[column]) for column in range(count)]
    taken = [label for column, label in enumerate(labels) if column not in owners and label in listed]
    if taken:
        raise ValueError(f"{taken[0]!r} is the name of a column that is in no group; call the group otherwise")
    order = list(dict.fromkeys(labels))
    assignment = torch.tensor([order.index(label) for label in labels])
    return Players(assignment, tuple(order), columns=None if every is None else tuple(every))


def _check_group(name: object, group: Iterable[int | str]) -> list[int | str]:
    """Return the columns of a group as a list, or raise an error that names it."""
    if isinstance(group, str) or not isinstance(group, Iterable):
        raise TypeError(f"the columns of group {name!r} must be a list of numbers or names, got {group!r}")
    return list(group)


def _number(group: str, column: int | str, names: Sequence[str] | None) -> int:
    """Return the number of a column that is given by its number or name."""
    if not isinstance(column, str):
        if isinstance(column, bool | np.bool_):
            raise TypeError(f"columns of group {group!r} must be numbers or names, got {column}")
        return check_whole(f"columns of group {group!r}", column, minimum=-sys.maxsize)
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
    _check_count("height * width", check_whole("height", height) * check_whole("width", width))
    if height % check_whole("patch", patch) or width % patch:
        raise ValueError(f"patches of {patch} do not tile an image of {height} x {width}")
    rows, cells = height // patch, width // patch
    row, cell = torch.arange(height) // patch, torch.arange(width) // patch
    names = tuple(f"({r}, {c})" for r in range(rows) for c in range(cells))
    return Players(row[:, None] * cells + cell, names, grid=(rows, cells))


def segments(
    assignment: Tensor | NDArray[Any] | Sequence[Sequence[int]], names: Sequence[str] | None = None
) -> Players:
    """Any division of an image: (height, width) player numbers 0..n-1."""
    try:
        given = as_tensor(assignment)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"a map of segments is (height, width) player numbers, got other entries ({error})") from error
    numbers = given.long()
    if not bool((numbers == given).all()):
        wrong = given[numbers != given][0]
        raise ValueError(f"segments must be whole numbers, got {float(wrong):g}")
    if numbers.ndim != IMAGE_DIMENSIONS or not numbers.numel():
        raise ValueError(f"a map of segments is (height, width) player numbers, got shape {tuple(numbers.shape)}")
    return Players(numbers, _names(names, len(numbers.unique()), "segment"))


def _names(names: Sequence[str] | None, count: int, kind: str) -> tuple[str, ...]:
    if names is None:
        return tuple(f"{kind} {number}" for number in range(count))
    checked = check_names("names", names)
    if len(checked) != count:
        raise ValueError(f"{len(checked)} names for {count} {kind}s")
    return checked


def _check_count(name: str, count: int) -> int:
    """Return a number of columns or pixels, or raise an error that names it if no input has so many."""
    count = check_whole(name, count)
    if count > MOST_POSITIONS:
        raise ValueError(f"{name} must be at most {MOST_POSITIONS:,}, got {count:,}")
    return count
