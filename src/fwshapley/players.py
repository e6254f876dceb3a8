"""Players of a feature-attribution game: which part of an input belongs to which player.

Columns of a table, groups of columns, patches of an image, or any segmentation: each is an assignment of the positions
of an input to players 0..n-1. Nothing here imports torch, except methods that are called with tensors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from fwshapley._internal.arrays import Device, Tensor, to_numpy
from fwshapley._internal.checks import Array, check_names, check_whole, shorten
from fwshapley._internal.wording import counted, listed

IMAGE_DIMENSIONS = 2
MAX_MEMBERSHIPS = 2**22
"""Pairs of a position and a player that are summed over at once."""

MAX_POSITIONS = 2**26
"""Columns or pixels of an input."""

MAX_LISTED = 12
"""Numbers of players that an error lists."""

MAX_LISTED_NAMES = 3
"""Names of players that are printed."""


@dataclass(frozen=True, eq=False)
class Players:
    """An assignment of the positions of an input to players, made by `columns`, `groups`, `grid` or `segments`.

    Attributes:
        assignment: number of the player that each position belongs to: (columns,) for a table, (height, width) for
            images.
        names: one per player.
        grid: (rows, columns) if the players are patches of equal size, in reading order.
        columns: names of the table's columns, if they are known; tables are then matched by name.
        patch: (height, width) of a patch in pixels, if the players are patches; those at the lower and right border may
            be smaller.

    Example:
        >>> grid(4, 4, patch=2).assignment.tolist()
        [[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3], [2, 2, 3, 3]]
    """

    varies: ClassVar[bool] = False
    """Whether inputs differ in their number of players, as texts do; `n_players` is then the largest."""

    assignment: Int[ndarray, "*positions"]
    names: tuple[str, ...]
    grid: tuple[int, int] | None = None
    columns: tuple[str, ...] | None = None
    patch: tuple[int, int] | None = None
    _on_device: dict[Device, Tensor] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        assignment = _check_assignment("assignment", self.assignment)
        object.__setattr__(self, "assignment", assignment)
        object.__setattr__(self, "names", check_names("names", self.names))
        present = np.unique(assignment).tolist()
        if present != list(range(len(self.names))):
            numbers = ", ".join(map(str, present[:MAX_LISTED])) + ", ..." * (len(present) > MAX_LISTED)
            raise ValueError(
                f"assignment must number the {len(self.names)} players in names 0..{len(self.names) - 1} without gaps, "
                f"got {numbers}"
            )

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_on_device": {}}  # copies on devices are made again where they are needed

    def __repr__(self) -> str:
        sides = " x ".join(map(str, self.assignment.shape))
        if self.patch is not None:
            rows, cells = self._tiles
            smaller = "" if self.grid else ", smaller at the border"
            kind = f"{' x '.join(map(str, self.patch))} pixels in {rows} rows of {cells}{smaller}"
            count = f"{self.n_players:,} patch{'es' * (self.n_players > 1)}"
            return f"Players({count} of {kind}, of images of {sides})"
        names = listed(map(repr, self.names), MAX_LISTED_NAMES)
        if self.is_image:
            return f"Players({counted(self.n_players, 'segment')} of images of {sides}: {names})"
        grouped = "" if self.n_players == len(self.assignment) else f" of {counted(len(self.assignment), 'column')}"
        return f"Players({counted(self.n_players, 'player' if grouped else 'column')}{grouped}: {names})"

    @property
    def n_players(self) -> int:
        """Number of players."""
        return len(self.names)

    @property
    def is_image(self) -> bool:
        """Whether positions are pixels of images with channels, rather than columns of a table."""
        return self.assignment.ndim == IMAGE_DIMENSIONS

    @property
    def _tiles(self) -> tuple[int, int]:
        """Rows of patches, and patches in a row."""
        assert self.patch is not None  # noqa: S101 - asked for patches alone
        return -(-self.assignment.shape[0] // self.patch[0]), -(-self.assignment.shape[1] // self.patch[1])

    def check(self, x: Array) -> None:
        """Raise a ValueError unless the shape of a batch of inputs fits these players."""
        shape = tuple(np.shape(x))
        expected = self.assignment.shape
        if self.is_image and (len(shape) != IMAGE_DIMENSIONS + 2 or shape[-2:] != expected):
            raise ValueError(
                f"inputs must have shape (batch, channels, {expected[0]}, {expected[1]}) for these players, got {shape}"
            )
        if not self.is_image and shape[1:] != expected:
            raise ValueError(f"inputs must have shape (batch, {expected[0]}) for these players, got {shape}")

    def facts(self) -> dict[str, Any]:
        """Return everything but the assignment, for JSON."""
        return {"names": self.names, "grid": self.grid, "columns": self.columns, "patch": self.patch}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any], assignment: Array) -> Players:
        """Return the players whose `facts` and assignment were saved."""
        optional: dict[str, Any] = {
            name: None if facts[name] is None else tuple(facts[name]) for name in ("grid", "columns", "patch")
        }
        return cls(to_numpy(assignment), tuple(facts["names"]), **optional)

    def for_table(self, names: Sequence[str]) -> Players:
        """Return the players of a table with these columns, matched by name in any order if names are known."""
        if self.columns is None or self.columns == tuple(names):
            return self
        if sorted(self.columns) != sorted(names):
            raise ValueError(
                f"players were made for the columns {', '.join(self.columns)}, but the table has {', '.join(names)}"
            )
        order = [self.columns.index(name) for name in names]
        return replace(self, assignment=self.assignment[order], columns=tuple(names))

    def assignment_on(self, device: Device) -> Int[Tensor, "*positions"]:
        """Return the assignment as a tensor on a device; it is copied there once."""
        import torch  # noqa: PLC0415 - the caller has imported it

        if device not in self._on_device:
            self._on_device[device] = torch.from_numpy(self.assignment).to(device)
        return self._on_device[device]

    def spread(self, coalitions: Bool[Tensor, "batch players"]) -> Bool[Tensor, "batch ..."]:
        """Return the mask of the positions in each coalition, with an axis for the channels of an image.

        Args:
            coalitions: (batch, players), boolean.

        Returns:
            (batch, columns) or (batch, 1, height, width).
        """
        if self.patch is not None:  # faster than an index for every pixel
            (height, width), (rows, cells) = self.patch, self._tiles
            blocks = coalitions.reshape(-1, 1, rows, 1, cells, 1).expand(-1, 1, rows, height, cells, width)
            whole = blocks.reshape(-1, 1, rows * height, cells * width)
            return whole[..., : self.assignment.shape[0], : self.assignment.shape[1]]
        mask = coalitions[:, self.assignment_on(coalitions.device).flatten()]
        return mask.unflatten(1, (1, *self.assignment.shape)) if self.is_image else mask

    def pool(self, maps: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch channels players"]:
        """Return the mean of each map over the pixels of each player.

        Args:
            maps: (batch, channels, height, width), of any resolution.

        Returns:
            (batch, channels, players).
        """
        import torch  # noqa: PLC0415 - the caller has imported it

        if self.grid == tuple(maps.shape[-2:]):
            return maps.flatten(2)
        resized = torch.nn.functional.interpolate(maps, self.assignment.shape, mode="bilinear", align_corners=False)
        return self.sum(resized) / self.sum(torch.ones_like(resized[:1, :1]))

    def sum(self, maps: Float[Tensor, "*axes"]) -> Float[Tensor, "*front players"]:
        """Return sums over the positions of each player, which are the last axes of the maps.

        A matrix product with the memberships of some players at a time; `index_add` is not deterministic on a GPU.
        """
        import torch  # noqa: PLC0415 - the caller has imported it

        if self.patch is not None:
            (height, width), (rows, cells) = self.patch, self._tiles
            missing = (cells * width - maps.shape[-1], rows * height - maps.shape[-2])
            whole = torch.nn.functional.pad(maps, (0, missing[0], 0, missing[1])) if any(missing) else maps
            return whole.unflatten(-1, (cells, -1)).unflatten(-3, (rows, -1)).sum((-3, -1)).flatten(-2)
        positions = maps.flatten(-self.assignment.ndim)
        owners = self.assignment_on(maps.device).flatten()[:, None]
        at_once = max(1, MAX_MEMBERSHIPS // len(owners))
        chunks = torch.arange(self.n_players, device=maps.device).split(at_once)
        return torch.cat([positions @ (owners == players).to(maps.dtype) for players in chunks], -1)


def columns(count: int, names: Sequence[str] | None = None) -> Players:
    """Make one player per column of a table.

    Args:
        count: number of columns.
        names: one per column; by default "column 0" and so on.

    Example:
        >>> columns(3, names=["age", "income", "city"]).n_players
        3
    """
    count = _check_count("count", count)
    return Players(np.arange(count), _names(names, count, "column"))


def groups(
    members: Mapping[str, Iterable[int | str]],
    count: int | None = None,
    *,
    names: Iterable[str] | None = None,
) -> Players:
    """Make groups of columns players, e.g. the columns of a one-hot encoding; other columns are players on their own.

    Args:
        members: columns of each group, by the group's name: numbers, or names if `names` is passed.
        count: number of columns of the table; by default the largest column number in `members` plus one.
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
    column_names = None if names is None else list(check_names("names", names))
    listed = {str(name): _check_group(name, group) for name, group in members.items()}
    numbers = {name: [_column_number(name, column, column_names) for column in group] for name, group in listed.items()}
    grouped = [column for group in numbers.values() for column in group]
    if count is None:
        count = max(grouped, default=-1) + 1 if column_names is None else len(column_names)
    count = _check_count("count", count)
    repeated = {column for column in grouped if grouped.count(column) > 1}
    if repeated or any(not 0 <= column < count for column in grouped):
        raise ValueError(f"members must name each of the columns 0..{count - 1} at most once; got {listed}")
    empty = [name for name, group in listed.items() if not group]
    if empty:
        raise ValueError(f"members has no columns for the group {empty[0]!r}")
    owners = {column: name for name, group in numbers.items() for column in group}
    single = _names(column_names, count, "column")
    labels = [owners.get(column, single[column]) for column in range(count)]
    taken = [label for column, label in enumerate(labels) if column not in owners and label in listed]
    if taken:
        raise ValueError(f"{taken[0]!r} is the name of a group and of a column outside it; rename the group")
    order = list(dict.fromkeys(labels))
    assignment = np.array([order.index(label) for label in labels])
    return Players(assignment, tuple(order), columns=None if column_names is None else tuple(column_names))


def grid(height: int, width: int, *, patch: int | tuple[int, int]) -> Players:
    """Make patches of an image players, in reading order.

    Patches at the lower and right border are smaller if the sides of the image are no multiples of those of a patch.

    Args:
        height: of the image, in pixels.
        width: of the image, in pixels.
        patch: side of a square patch, or (height, width) of a rectangular one, in pixels.

    Example:
        >>> grid(32, 32, patch=2).n_players
        256
        >>> grid(28, 28, patch=(4, 7))
        Players(28 patches of 4 x 7 pixels in 7 rows of 4, of images of 28 x 28)
        >>> grid(5, 4, patch=2).assignment.tolist()
        [[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3], [2, 2, 3, 3], [4, 4, 5, 5]]
    """
    _check_count("height * width", check_whole("height", height) * check_whole("width", width))
    sides = _check_patch(patch)
    if sides[0] > height or sides[1] > width:
        raise ValueError(f"patch={patch} must not be larger than the image, {height} x {width}")
    row = np.arange(height) // sides[0]
    cell = np.arange(width) // sides[1]
    rows, cells = int(row[-1]) + 1, int(cell[-1]) + 1
    names = tuple(f"({r}, {c})" for r in range(rows) for c in range(cells))
    is_even = height % sides[0] == 0 and width % sides[1] == 0
    return Players(row[:, None] * cells + cell, names, grid=(rows, cells) if is_even else None, patch=sides)


def segments(assignment: Array, names: Sequence[str] | None = None) -> Players:
    """Make the segments of an image players, e.g. regions that were drawn by hand.

    Args:
        assignment: (height, width), the number of the segment of each pixel: any whole numbers.
        names: one per segment, in increasing order of the numbers; by default "segment" and the number.

    Example:
        >>> segments([[7, 7, 20], [7, 255, 20]]).names
        ('segment 7', 'segment 20', 'segment 255')
    """
    numbers = _check_assignment("assignment", assignment)
    if numbers.ndim != IMAGE_DIMENSIONS or not numbers.size:
        raise ValueError(f"assignment must have shape (height, width), got shape {numbers.shape}")
    present, players = np.unique(numbers, return_inverse=True)
    labels = [f"segment {number}" for number in present] if names is None else names
    return Players(players.reshape(numbers.shape), _names(labels, len(present), "segment"))


def _check_patch(patch: int | tuple[int, int]) -> tuple[int, int]:
    """Return the height and width of a patch, or raise an error."""
    if not isinstance(patch, tuple | list):
        side = check_whole("patch", patch)
        return side, side
    if len(patch) != IMAGE_DIMENSIONS:
        raise ValueError(f"patch must be a side or (height, width), got {shorten(patch)}")
    return check_whole("patch", patch[0]), check_whole("patch", patch[1])


def _check_assignment(name: str, values: Array) -> Int[ndarray, "*positions"]:
    """Return player numbers as integers, or raise an error that names the argument."""
    try:
        numbers = to_numpy(values)
        if numbers.dtype.kind not in "iufb":
            raise TypeError(f"got {numbers.dtype}")  # noqa: TRY301 - one error for all that cannot be converted
        with np.errstate(invalid="ignore"):  # NaN is refused below
            whole = numbers.astype(np.int64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} must be an array of player numbers, e.g. from segments (got {error})") from error
    if not np.array_equal(whole, numbers):
        raise ValueError(f"{name} must be whole numbers of players, got {float(numbers[whole != numbers].flat[0]):g}")
    return whole


def _check_group(name: object, group: Iterable[int | str]) -> list[int | str]:
    """Return the columns of a group as a list, or raise an error that names the group."""
    if isinstance(group, str) or not isinstance(group, Iterable):
        raise TypeError(f"the columns of group {name!r} must be a list of numbers or names, got {group!r}")
    return list(group)


def _column_number(group: str, column: int | str, names: Sequence[str] | None) -> int:
    """Return the number of a column that is given by number or name."""
    if not isinstance(column, str):
        if isinstance(column, bool | np.bool_):
            raise TypeError(f"columns of group {group!r} must be numbers or names, got {column}")
        return check_whole(f"columns of group {group!r}", column, minimum=-sys.maxsize)
    if names is None or column not in names:
        hint = "pass names=..., e.g. those of the DataFrame" if names is None else f"the columns are {', '.join(names)}"
        raise ValueError(f"group {group!r} contains the unknown column {column!r}: {hint}")
    return names.index(column)


def _names(names: Sequence[str] | None, count: int, kind: str) -> tuple[str, ...]:
    if names is None:
        return tuple(f"{kind} {number}" for number in range(count))
    checked = check_names("names", names)
    if len(checked) != count:
        raise ValueError(f"names has {len(checked)} entries for {count} {kind}s")
    return checked


def _check_count(name: str, count: int) -> int:
    """Return a number of columns or pixels, or raise an error that names it if it is too large for any input."""
    count = check_whole(name, count)
    if count > MAX_POSITIONS:
        raise ValueError(f"{name} must be at most {MAX_POSITIONS:,}, got {count:,}")
    return count
