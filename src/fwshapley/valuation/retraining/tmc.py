"""TMC-Shapley and Beta-Shapley for every semivalue: in each round every point joins one coalition.

Coalition sizes are drawn from the semivalue's law. Ghorbani & Zou (2019) and Kwon & Zou (2022) weigh the contributions
along random orders instead, which wastes fits on sizes that hardly count; for the Shapley value both are the same.
Equations: docs/math.md, section 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from fwshapley.games.game import Game
from fwshapley.semivalues import Semivalue
from fwshapley.valuation.retraining.sampling import Draw, Sampler, value_of

TRUNCATION_STEPS = 5
"""Steps in a row that must stay within the tolerance before a walk is truncated, as in Ghorbani & Zou's code."""


class Walk(NamedTuple):
    """Positions at consecutive sizes, which players take one after the other.

    Attributes:
        size: size of the coalition that the first of them joins.
        positions: numbers of the positions.
    """

    size: int
    positions: Int[NDArray[np.int64], " positions"]


class TMCSampler(Sampler):
    """Draws rounds, in which every point joins one coalition whose size follows the semivalue's law.

    A round has n positions; about n w(s) of them are at size s, rounded at random so that the expected number is exact.
    Points take the positions in random order. Positions at consecutive sizes form a walk, in which each point joins the
    coalition that the previous one left, so that a contribution takes about one fit instead of two. For the Shapley
    value a round is one random order of all points.

    Args:
        game: the game.
        weights: the semivalue.
        empty_value: value of the empty coalition.
        full_value: value of all points together.
        tolerance: a walk is truncated after five coalitions in a row whose value differs from `full_value` by less than
            this; each remaining point then gets the mean of what is left to gain. 0 never truncates.
        seed: of the draws.
    """

    def __init__(
        self, game: Game, weights: Semivalue, *, empty_value: float, full_value: float, tolerance: float, seed: int
    ) -> None:
        self.game = game
        self.n = game.n_players
        self.empty_value = empty_value
        self.full_value = full_value
        self.tolerance = tolerance
        self.seed = seed
        law = weights.join_law(self.n)
        self._cumulative_law = np.concatenate([[0.0], law.cumsum()[:-1].clip(max=1), [1.0]])  # exact at both ends

    def max_cost(self, number: int) -> int:
        """Return the fits of a round without truncation: one a position, and one for the start of each walk."""
        walks = list(self._draw_walks(np.random.default_rng((self.seed, number))))
        ends = sum((walk.size > 0) - (walk.size + len(walk.positions) == self.n) for walk in walks)
        return self.n + ends

    def draw(self, number: int) -> Draw:
        """Make a round."""
        generator = np.random.default_rng((self.seed, number))
        walks = list(self._draw_walks(generator))
        order = generator.permutation(self.n)
        contributions = torch.zeros(self.n, dtype=torch.float64)
        total_fits = 0
        for walk in walks:
            players = order[walk.positions]
            others = generator.permutation(np.delete(order, walk.positions))
            start = torch.zeros(self.n, dtype=torch.bool)
            start[others[: walk.size]] = True
            gains, n_fits = self._walk(start, players)
            contributions[players] = torch.tensor(gains, dtype=torch.float64)
            total_fits += n_fits
        return Draw(torch.stack([contributions, contributions.square()]), total_fits)

    def _draw_walks(self, generator: np.random.Generator) -> Iterator[Walk]:
        """Yield the walks of a round: first of sizes with one position or more, then of sizes with two or more, ..."""
        ends = np.floor(self._cumulative_law * self.n + generator.random())
        count = np.diff(ends).astype(np.int64)
        first = np.concatenate([[0], count.cumsum()])
        for layer in range(int(count.max())):
            sizes = np.flatnonzero(count > layer)
            for walk in np.split(sizes, np.flatnonzero(np.diff(sizes) > 1) + 1):
                yield Walk(int(walk[0]), first[walk] + layer)

    def _walk(self, coalition: Bool[Tensor, " n"], players: NDArray[np.int64]) -> tuple[list[float], int]:
        """Return what each player adds to the coalition as they join it in turn, and the number of fits."""
        size = int(coalition.sum())
        n_fits = int(size > 0)
        before = value_of(self.game, coalition) if size else self.empty_value
        gains: list[float] = []
        steps_within = 0
        for player in players.tolist():
            steps_within = steps_within + 1 if abs(self.full_value - before) < self.tolerance else 0
            if steps_within == TRUNCATION_STEPS:
                mean_gain = (self.full_value - before) / (self.n - size)
                return gains + [mean_gain] * (len(players) - len(gains)), n_fits
            coalition[player] = True
            size += 1
            after = self.full_value
            if size < self.n:
                after = value_of(self.game, coalition)
                n_fits += 1
            gains.append(after - before)
            before = after
        return gains, n_fits
