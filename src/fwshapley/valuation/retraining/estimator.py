"""Semivalues of a game whose every call is dear, from draws that can be made anywhere and in any order.

An estimator is a list of draws without end. Draw number k follows from the seed and k alone; it evaluates some
coalitions and leaves numbers that are added up, point by point. So a sum over the first K draws is the same on any
number of cores, and goes on from wherever it was left. Equations: docs/math.md, section 8.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from fwshapley.estimators.estimate import MIN_DRAWS
from fwshapley.games.game import Game


class Draw(NamedTuple):
    """What one draw leaves: numbers to be added up, and the number of fits that it took."""

    sums: Float64[Tensor, "rows n"]
    fits: int


class Estimated(NamedTuple):
    """Values and their standard errors."""

    values: Float64[Tensor, " n"]
    stderr: Float64[Tensor, " n"]


class Estimator(ABC):
    """A way to estimate values from sums over draws.

    Attributes:
        rows: numbers per point that are added up.
        fewest: draws that an estimate needs.
        most: draws after which there are no more.
    """

    rows: ClassVar[int] = 2

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of points."""

    @property
    def fewest(self) -> int:
        """Draws that an estimate needs."""
        return MIN_DRAWS

    @property
    def most(self) -> int | None:
        """Draws after which there are no more."""
        return None

    def cost(self, number: int) -> int:
        """Most fits that a draw may take."""
        del number
        return 1

    @abstractmethod
    def draw(self, number: int) -> Draw:
        """Make a draw."""

    def estimate(self, sums: Float64[Tensor, "rows n"], draws: int) -> Estimated:
        """Mean over draws and its standard error, from the sums of numbers and of their squares."""
        mean, square = sums / draws
        return Estimated(mean, ((square - mean.square()).clamp(min=0) / (draws - 1)).sqrt())


@dataclass(frozen=True, eq=False)
class Reuse(Estimator):
    """Maximum sample reuse: each coalition counts for all points, as one with it or as one without it.

    Points join with probability t, independently, and phi_i = E[v | i in S] - E[v | i not in S] is the weighted Banzhaf
    value. The mean of v is taken away first, which leaves the estimate as it is and keeps the digits of its error.

    Attributes:
        game: worth of coalitions.
        t: probability to join.
        center: a number near the worths.
        seed: of the draws.
    """

    game: Game
    t: float
    center: float
    seed: int

    rows: ClassVar[int] = 6

    @property
    def n(self) -> int:
        """Number of points."""
        return self.game.n_players

    @property
    def fewest(self) -> int:
        """As many with a point as without it, on average."""
        return 2 * MIN_DRAWS

    def draw(self, number: int) -> Draw:
        """Evaluate a coalition."""
        generator = np.random.default_rng((self.seed, number))
        coalition = torch.from_numpy(generator.random(self.n) < self.t)
        worth = worth_of(self.game, coalition) - self.center
        powers = torch.tensor([1.0, worth, worth**2], dtype=torch.float64)
        joined = coalition.double() * powers[:, None]
        return Draw(torch.cat([joined, powers[:, None] - joined]), 1)

    def estimate(self, sums: Float64[Tensor, "rows n"], draws: int) -> Estimated:
        """Difference of two means, and its standard error; not a number for a point that has not been in and out."""
        del draws
        count, first, second = sums.reshape(2, 3, -1).unbind(1)
        mean = first / count
        variance = (second - first * mean).clamp(min=0) / (count - 1)
        short = (count < 2).any(0)  # noqa: PLR2004 - two make a variance
        stderr = (variance / count).sum(0).sqrt().masked_fill(short, torch.nan)
        return Estimated((mean[0] - mean[1]).masked_fill(short, torch.nan), stderr)


@dataclass(frozen=True, eq=False)
class LeftOut(Estimator):
    """Leave-one-out: what everyone together loses without one point, for each of them once. There is no error.

    Attributes:
        game: worth of coalitions.
        everyone: worth of all points together.
    """

    game: Game
    everyone: float

    rows: ClassVar[int] = 1

    @property
    def n(self) -> int:
        """Number of points."""
        return self.game.n_players

    @property
    def fewest(self) -> int:
        """All of them."""
        return self.n

    @property
    def most(self) -> int:
        """All of them."""
        return self.n

    def draw(self, number: int) -> Draw:
        """Leave out a point."""
        coalition = torch.ones(self.n, dtype=torch.bool)
        coalition[number] = False
        sums = torch.zeros(1, self.n, dtype=torch.float64)
        sums[0, number] = self.everyone - worth_of(self.game, coalition)
        return Draw(sums, 1)

    def estimate(self, sums: Float64[Tensor, "rows n"], draws: int) -> Estimated:
        """Return the sums, which are exact."""
        del draws
        return Estimated(sums[0], torch.zeros_like(sums[0]))


def worth_of(game: Game, coalition: Bool[Tensor, " n"]) -> float:
    """Worth of one coalition."""
    return float(torch.as_tensor(game(coalition[None].clone()))[0])
