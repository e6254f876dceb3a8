"""Least squares on the retraining game: on many cores, and resumable.

`least_squares_values` evaluates the same coalitions in the same order whenever its arguments are the same. So a
checkpoint keeps their values in that order, and a resumed run replays them before it fits any model.
"""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial

import torch
from jaxtyping import Float64
from torch import Tensor

from fwshapley._internal.parallel import spread
from fwshapley.estimators import least_squares_values
from fwshapley.estimators.least_squares import TREND_TERMS
from fwshapley.games.game import Coalitions, Game
from fwshapley.semivalues import Semivalue
from fwshapley.valuation.retraining.checkpoint import Checkpoint, State
from fwshapley.valuation.retraining.sampling import Outcome, Stop, announce_fits, value_of


def fit_least_squares(
    game: Game,
    weights: Semivalue,
    checkpoint: Checkpoint,
    *,
    n_fits: int,
    seed: int,
    n_jobs: int | None = None,
    progress: bool = True,
) -> Outcome:
    """Estimate values by least squares on at most `n_fits` coalitions.

    Args:
        game: the game; its empty coalition takes no fit.
        weights: the semivalue.
        checkpoint: keeps the values of coalitions; the coalitions depend on `n_fits`, which is part of its identity.
        n_fits: most fits.
        seed: of the coalitions.
        n_jobs: processes to fit in, as joblib has it.
        progress: show a bar.
    """
    n = game.n_players
    needed = 1 + min(2 * (n + TREND_TERMS), 2**n - 2)
    if n_fits < needed:
        raise ValueError(f"n_fits must be at least {needed} for least squares with {n} points, got {n_fits}")
    with checkpoint.run(State(torch.zeros(1, 0, dtype=torch.float64), 0, 0)):
        replayed = ReplayedGame(game, checkpoint, n_fits=n_fits, n_jobs=n_jobs, progress=progress)
        estimate = least_squares_values(replayed, weights, n_calls=n_fits + 1, seed=seed, progress=progress)
    stopped: Stop = "complete" if estimate.n_calls == 2**n else "budget"
    return Outcome(estimate.values, estimate.stderr, estimate.n_calls - 1, estimate.n_calls, stopped)


class ReplayedGame:
    """A game that returns the values that a checkpoint contains before it computes others.

    Args:
        game: the game.
        checkpoint: values of the coalitions asked for so far, in their order.
        n_fits: most fits, for the announcement of the costs.
        n_jobs: processes to compute values in.
        progress: announce the costs.
    """

    def __init__(self, game: Game, checkpoint: Checkpoint, *, n_fits: int, n_jobs: int | None, progress: bool) -> None:
        self.game = game
        self.checkpoint = checkpoint
        self.n_fits = n_fits
        self.n_jobs = n_jobs
        self.progress = progress
        self._position = 0

    @property
    def n_players(self) -> int:
        """Number of players."""
        return self.game.n_players

    def __call__(self, coalitions: Coalitions, /) -> Float64[Tensor, " coalitions"]:
        """Value of each coalition."""
        first = self._position
        self._position += len(coalitions)
        new = coalitions[max(self.checkpoint.state.n_draws - first, 0) :]
        started = time.perf_counter()
        n_jobs = self.n_jobs if first else 1  # the first call takes one fit, which is timed
        with closing(spread(partial(value_of, self.game), new, n_jobs)) as values:
            for value in values:
                sums, n_draws, n_fits = self.checkpoint.state
                self.checkpoint.update(State(torch.cat([sums, sums.new_tensor([[value]])], 1), n_draws + 1, n_fits + 1))
        if not first:  # the empty coalition, which takes no fit, and all points
            seconds = time.perf_counter() - started
            announce_fits(self.n_fits - 1, seconds, n_jobs=self.n_jobs, progress=self.progress)
        return self.checkpoint.state.sums[0, first : self._position]
