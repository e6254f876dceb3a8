"""How the numbers of a table are arranged in memory, so that they are looked up fast."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float64
from numpy import ndarray

from fwshapley._internal.compilation import compiled
from fwshapley.trees.compiled import VECTOR_LENGTH

FEW_ROWS = 16
"""Rows up to which tables are arranged by code."""


class Layout(NamedTuple):
    """Arrangement of a table, (groups, codes, lanes): the lanes of a code are next to each other.

    Attributes:
        width: numbers per target, its outputs times channels.
        padded: the same with padding, so that each target begins with a new group.
        lanes: 1, where a gather over rows is vectorized; VECTOR_LENGTH, where each row adds a vector; or 0 for all
            numbers of a table, so that a single row finds them in one place.
    """

    width: int
    padded: int
    lanes: int


def choose_layout(rows: int, width: int, *, on_gpu: bool) -> Layout:
    """Return the layout that is looked up fastest.

    Args:
        rows: number of rows of a call.
        width: numbers per target.
        on_gpu: whether tables are looked up on a GPU; a few rows never are.
    """
    if rows <= FEW_ROWS:
        return Layout(width, width, 0)
    if on_gpu:
        return Layout(width, width, width)
    lanes = VECTOR_LENGTH if width > VECTOR_LENGTH // 2 else 1
    return Layout(width, -(-width // lanes) * lanes, lanes)


@compiled
def arrange(
    table: Float64[ndarray, "targets outputs channels codes"], layout: Layout, arranged: Float64[ndarray, " numbers"]
) -> None:
    """Write the numbers of a table; those of the padding are not touched."""
    targets, codes = len(table), table.shape[3]
    numbers = table.reshape((targets, layout.width, codes))
    lanes = layout.lanes or targets * layout.width
    for target in range(targets):
        for number in range(layout.width):
            group, lane = divmod(target * layout.padded + number, lanes)
            start = group * codes * lanes + lane
            for code in range(codes):
                arranged[start + code * lanes] = numbers[target, number, code]
