"""Which players a picture shows, and what it calls the others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

MAX_PLAYERS = 12
"""Players that a picture shows by default, besides the sum of the others."""


class Ranking(NamedTuple):
    """Players by size.

    Attributes:
        shown: numbers of the players that are shown, the largest first.
        rest: numbers of the others; never only one, which is shown instead.
    """

    shown: Int[ndarray, " shown"]
    rest: Int[ndarray, " rest"]

    @property
    def n_lines(self) -> int:
        """Number of lines of a picture: one for each player, and one for the others together."""
        return len(self.shown) + bool(len(self.rest))

    def split(self, values: Float[ndarray, "*axes players"]) -> Float[ndarray, "*axes lines"]:
        """Return values of the shown players, and the sum of the others."""
        shown = values[..., self.shown]
        return np.concatenate([shown, values[..., self.rest].sum(-1, keepdims=True)], -1) if len(self.rest) else shown

    def label_rest(self, kind: str) -> list[str]:
        """Return the label of the line of the others, if there is one."""
        return [f"sum of {len(self.rest)} other {kind}"] if len(self.rest) else []


def rank(sizes: Float[ndarray, " players"], n_shown: int) -> Ranking:
    """Rank players by size; ties are in the order of the players.

    Args:
        sizes: one per player.
        n_shown: players to show.
    """
    order = (-sizes).argsort(kind="stable")
    count = len(order) if len(order) <= n_shown + 1 else n_shown
    return Ranking(order[:count], order[count:])
