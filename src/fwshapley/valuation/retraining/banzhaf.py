"""Banzhaf values by maximum sample reuse: every coalition counts for every point (Wang & Jia, 2023)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from fwshapley.estimators.estimate import MIN_DRAWS
from fwshapley.games.game import Game
from fwshapley.valuation.retraining.sampling import Draw, Sampler, value_of


class BanzhafSampler(Sampler):
    """Draws coalitions that each point joins with probability t, independently.

    phi_i = E[v | i in S] - E[v | i not in S] is the Banzhaf(t) value. A number near the values is subtracted first,
    which does not change the estimate and avoids cancellation in its error.

    Args:
        game: the game.
        t: probability that a point joins.
        center: a number near the values of coalitions.
        seed: of the draws.
    """

    n_rows: ClassVar[int] = 6
    min_draws = 2 * MIN_DRAWS  # on average as many with a point as without it

    def __init__(self, game: Game, t: float, center: float, seed: int) -> None:
        self.game = game
        self.n = game.n_players
        self.t = t
        self.center = center
        self.seed = seed

    def draw(self, number: int) -> Draw:
        """Evaluate a coalition."""
        generator = np.random.default_rng((self.seed, number))
        coalition = torch.from_numpy(generator.random(self.n) < self.t)
        value = value_of(self.game, coalition) - self.center
        powers = torch.tensor([1.0, value, value**2], dtype=torch.float64)
        joined = coalition.double() * powers[:, None]
        return Draw(torch.cat([joined, powers[:, None] - joined]), 1)

    def estimate(
        self, sums: Float64[Tensor, "rows n"], n_draws: int
    ) -> tuple[Float64[Tensor, " n"], Float64[Tensor, " n"]]:
        """Return differences of two means and their standard errors; NaN for a point without two draws in and out."""
        del n_draws
        count, first, second = sums.reshape(2, 3, -1).unbind(1)
        mean = first / count
        variance = (second - first * mean).clamp(min=0) / (count - 1)
        too_few = (count < 2).any(0)  # noqa: PLR2004 - a variance needs two
        stderr = (variance / count).sum(0).sqrt().masked_fill(too_few, torch.nan)
        return (mean[0] - mean[1]).masked_fill(too_few, torch.nan), stderr
