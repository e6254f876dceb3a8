"""Least squares on a game whose every call is dear: on many cores, to be interrupted and resumed.

`least_squares_values` asks for the same coalitions in the same order whenever it is given the same arguments. So the
answers are kept in that order, and a run that goes on is told again what is known already.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor

from fwshapley._internal.parallel import spread
from fwshapley.estimators import least_squares_values
from fwshapley.estimators.least_squares import TREND_TERMS
from fwshapley.games.game import Coalitions, Game
from fwshapley.semivalues import Semivalue
from fwshapley.valuation.retraining.checkpoint import Outcome, Sitting, State, Stop
from fwshapley.valuation.retraining.estimator import Estimated, worth_of


def regress(
    game: Game,
    weights: Semivalue,
    *,
    budget: int,
    seed: int,
    identity: Mapping[str, Any],
    n_jobs: int | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    progress: bool = True,
) -> Outcome:
    """Estimate values by least squares; arguments are those of `work`, but the budget is part of the identity."""
    n = game.n_players
    least = 1 + min(2 * (n + TREND_TERMS), 2**n - 2)
    if budget < least:
        raise ValueError(f"budget={budget} is too small: least squares needs {least} fits for {n} points")
    nothing = State(torch.zeros(1, 0, dtype=torch.float64), 0, 0)
    with Sitting(nothing, checkpoint, identity, resume=resume) as sitting:
        found = least_squares_values(
            ReplayedGame(game, sitting, n_jobs),
            weights,
            n_calls=budget + 1,  # what nobody is worth takes no fit
            seed=seed,
            progress=progress,
        )
    stopped: Stop = "complete" if found.n_calls == 2**n else "budget"
    return Outcome(Estimated(found.values, found.stderr), found.n_calls - 1, found.n_calls, stopped)


class ReplayedGame:
    """A game that keeps its answers, and gives those it has before it works out more.

    Args:
        game: what is played.
        sitting: holds the worths of the coalitions asked for so far, in their order.
        n_jobs: processes to work them out in.
    """

    def __init__(self, game: Game, sitting: Sitting, n_jobs: int | None) -> None:
        self.game, self.sitting, self.n_jobs = game, sitting, n_jobs
        self._answered = 0

    @property
    def n_players(self) -> int:
        """Number of players."""
        return self.game.n_players

    def __call__(self, coalitions: Coalitions, /) -> Float64[Tensor, " coalitions"]:
        """Worth of each coalition."""
        first, self._answered = self._answered, self._answered + len(coalitions)
        unknown = coalitions[max(self.sitting.state.draws - first, 0) :]
        with closing(spread(partial(worth_of, self.game), unknown, self.n_jobs)) as worths:
            for worth in worths:
                known = self.sitting.state
                sums = torch.cat([known.sums, known.sums.new_tensor([[worth]])], 1)
                self.sitting.move(State(sums, known.draws + 1, known.fits + 1))
        return self.sitting.state.sums[0, first : self._answered]
