"""Semivalues by rounds in which every point joins one coalition: TMC-Shapley and Beta-Shapley, for every weighting.

Sizes are drawn from the semivalue's law, rather than contributions along random orders weighed by it, which wastes fits
on sizes that hardly count; for the Shapley value the two are the same. Equations: docs/math.md, section 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int
from numpy.typing import NDArray
from torch import Tensor

from fwshapley.games.game import Game
from fwshapley.semivalues import Semivalue
from fwshapley.valuation.retraining.estimator import Draw, Estimator, worth_of

STEADY = 5
"""Steps in a row that must stay within the tolerance before a walk is cut short, as in the authors' code."""


class Run(NamedTuple):
    """Positions at consecutive sizes, which players take one after the other.

    Attributes:
        size: of the coalition that the first of them joins.
        positions: numbers of the positions.
    """

    size: int
    positions: Int[NDArray[np.int64], " positions"]


@dataclass(frozen=True, eq=False)
class Rounds(Estimator):
    """Every point joins one coalition a round, whose size follows the semivalue's law.

    A round has n positions, as many at each size s as n w(s), rounded at random so that their number is right on
    average. Points take the positions in random order. Positions at consecutive sizes form a walk, in which each point
    joins the coalition that the last one left, so that a contribution takes about one fit and not two. For the Shapley
    value a round is one random order of all points.

    Attributes:
        game: worth of coalitions.
        weights: the semivalue.
        nobody: worth of the empty coalition.
        everyone: worth of all points together.
        tolerance: a walk is cut short once its coalitions have been worth as much as everyone, give or take this, for
            five steps; the points left over each count as the mean of what is left to gain. 0 never does.
        seed: of the draws.
    """

    game: Game
    weights: Semivalue
    nobody: float
    everyone: float
    tolerance: float
    seed: int

    @property
    def n(self) -> int:
        """Number of points."""
        return self.game.n_players

    def cost(self, number: int) -> int:
        """Fits of a round that is not cut short: one a position, and one for the start of each run."""
        runs = list(self._runs(np.random.default_rng((self.seed, number))))
        ends = sum((run.size > 0) - (run.size + len(run.positions) == self.n) for run in runs)
        return self.n + ends

    def draw(self, number: int) -> Draw:
        """Play a round."""
        generator = np.random.default_rng((self.seed, number))
        runs = list(self._runs(generator))
        order = generator.permutation(self.n)
        contributions, fits = torch.zeros(self.n, dtype=torch.float64), 0
        for run in runs:
            players = order[run.positions]
            others = generator.permutation(np.delete(order, run.positions))
            start = torch.zeros(self.n, dtype=torch.bool)
            start[others[: run.size]] = True
            gains, took = self._walk(start, players)
            contributions[players] = torch.tensor(gains, dtype=torch.float64)
            fits += took
        return Draw(torch.stack([contributions, contributions.square()]), fits)

    def _runs(self, generator: np.random.Generator) -> Iterator[Run]:
        """Positions of a round, run by run: the sizes that have a first position, then those that have a second ..."""
        ends = np.floor(self._cumulative_law * self.n + generator.random())
        count = np.diff(ends).astype(np.int64)
        first = np.concatenate([[0], count.cumsum()])
        for layer in range(int(count.max())):
            sizes = np.flatnonzero(count > layer)
            for run in np.split(sizes, np.flatnonzero(np.diff(sizes) > 1) + 1):
                yield Run(int(run[0]), first[run] + layer)

    @cached_property
    def _cumulative_law(self) -> Float64[NDArray[np.float64], " sizes"]:
        """P(size < s), s = 0..n; both ends are exact, so that a round has n positions."""
        law = self.weights.join_law(self.n)
        return np.concatenate([[0.0], law.cumsum()[:-1].clip(max=1), [1.0]])

    def _walk(self, coalition: Bool[Tensor, " n"], players: NDArray[np.int64]) -> tuple[list[float], int]:
        """What each player adds to the coalition as they join it in turn, and the fits that it took."""
        size, fits, steady = int(coalition.sum()), 0, 0
        before = self.nobody
        gains: list[float] = []
        if size:
            before, fits = worth_of(self.game, coalition), 1
        for player in players.tolist():
            steady = steady + 1 if abs(self.everyone - before) < self.tolerance else 0
            if steady == STEADY:
                left = (self.everyone - before) / (self.n - size)
                return gains + [left] * (len(players) - len(gains)), fits
            coalition[player] = True
            size += 1
            after = self.everyone
            if size < self.n:
                after, fits = worth_of(self.game, coalition), fits + 1
            gains.append(after - before)
            before = after
        return gains, fits
