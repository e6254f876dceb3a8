"""Leave-one-out values: what the score of all points together loses without one of them."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float64
from torch import Tensor

from fwshapley.games.game import Game
from fwshapley.valuation.retraining.sampling import Draw, Sampler, value_of


class LeaveOneOutSampler(Sampler):
    """Leaves out every point once, phi_i = v(N) - v(N without i); values are exact.

    Args:
        game: the game.
        full_value: value of all points together.
    """

    n_rows: ClassVar[int] = 1

    def __init__(self, game: Game, full_value: float) -> None:
        self.game = game
        self.n = self.min_draws = self.max_draws = game.n_players
        self.full_value = full_value

    def draw(self, number: int) -> Draw:
        """Leave out a point."""
        coalition = torch.ones(self.n, dtype=torch.bool)
        coalition[number] = False
        sums = torch.zeros(1, self.n, dtype=torch.float64)
        sums[0, number] = self.full_value - value_of(self.game, coalition)
        return Draw(sums, 1)

    def estimate(
        self, sums: Float64[Tensor, "rows n"], n_draws: int
    ) -> tuple[Float64[Tensor, " n"], Float64[Tensor, " n"]]:
        """Return the sums, which are exact."""
        del n_draws
        return sums[0], torch.zeros_like(sums[0])
