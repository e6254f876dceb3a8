"""Sampling of values for games whose every call is a model fit: reproducible on any number of cores, and resumable.

A sampler is an endless list of draws. Draw number k depends on the seed and k alone; it evaluates some coalitions and
returns numbers per point, which are added up in the order of the draws. So the sums over the first K draws are
identical on any number of cores, and continue from a checkpoint. A draw starts only if its worst-case cost fits the
remaining budget, so that no more fits are made than allowed. Equations: docs/math.md, section 8.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import closing
from typing import ClassVar, Literal, NamedTuple

import joblib
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from fwshapley._internal.parallel import spread
from fwshapley._internal.progress import ProgressBar, announce
from fwshapley.estimators.estimate import FIRST_ROUND, MIN_DRAWS
from fwshapley.games.game import Game
from fwshapley.valuation.retraining.checkpoint import Checkpoint, State

MAX_QUEUED_DRAWS = 1024
"""Draws that are handed to the workers together, at most."""

Stop = Literal["budget", "precise", "complete"]
"""Why a run ended: the budget was spent, the target error was reached, or every draw was made."""


class Draw(NamedTuple):
    """Numbers per point that are added up over draws, and the number of fits that the draw took."""

    sums: Float64[Tensor, "rows n"]
    n_fits: int


class Outcome(NamedTuple):
    """Estimated values with their standard errors, and what they took."""

    values: Float64[Tensor, " n"]
    stderr: Float64[Tensor, " n"]
    n_fits: int
    n_draws: int
    stopped: Stop


class Sampler(ABC):
    """Estimates values from sums over draws; by default from a mean and a mean square per point.

    Attributes:
        n_rows: numbers per point that are added up.
        n_setup_fits: fits that were made before the first draw.
        n: number of points.
        min_draws: draws that an estimate needs.
        max_draws: draws after which values are exact; None if there is no end.
    """

    n_rows: ClassVar[int] = 2
    n_setup_fits: ClassVar[int] = 1
    n: int
    min_draws: int = MIN_DRAWS
    max_draws: int | None = None

    def max_cost(self, number: int) -> int:
        """Return the most fits that a draw may take."""
        del number
        return 1

    @abstractmethod
    def draw(self, number: int) -> Draw:
        """Make a draw."""

    def estimate(
        self, sums: Float64[Tensor, "rows n"], n_draws: int
    ) -> tuple[Float64[Tensor, " n"], Float64[Tensor, " n"]]:
        """Return the means over draws and their standard errors."""
        mean, square = sums / n_draws
        return mean, ((square - mean.square()).clamp(min=0) / (n_draws - 1)).sqrt()


def run_sampler(
    sampler: Sampler,
    checkpoint: Checkpoint,
    *,
    n_fits: int,
    seconds_per_fit: float,
    target_error: float | None = None,
    n_jobs: int | None = None,
    progress: bool = True,
) -> Outcome:
    """Make draws until the budget is spent or the values are precise.

    Args:
        sampler: makes the draws.
        checkpoint: keeps the sums; `n_fits` and `target_error` may change between a run and its resumption.
        n_fits: most fits.
        seconds_per_fit: time of a fit, for the announcement of the costs.
        target_error: see `_is_precise`.
        n_jobs: processes to draw in, as joblib has it.
        progress: show a bar, in fits.
    """
    needed = sampler.n_setup_fits + sum(map(sampler.max_cost, range(sampler.min_draws)))
    if n_fits < needed:
        raise ValueError(
            f"n_fits must be at least {needed} for {sampler.n} points ({sampler.min_draws} draws), got {n_fits}"
        )
    start = State(torch.zeros(sampler.n_rows, sampler.n, dtype=torch.float64), 0, sampler.n_setup_fits)
    with ProgressBar("fitting models", n_fits, enabled=progress) as bar, checkpoint.run(start):
        bar.advance(checkpoint.state.n_fits)
        announce_fits(n_fits - checkpoint.state.n_fits, seconds_per_fit, n_jobs=n_jobs, progress=progress)
        while not (stopped := _reason_to_stop(sampler, checkpoint.state, n_fits, target_error)):
            numbers = _next_draws(sampler, checkpoint.state, n_fits, early_stop=target_error is not None)
            with closing(spread(sampler.draw, numbers, n_jobs)) as draws:
                for draw in draws:
                    sums, n_draws, fits = checkpoint.state
                    checkpoint.update(State(sums + draw.sums, n_draws + 1, fits + draw.n_fits))
                    bar.advance(draw.n_fits)
    state = checkpoint.state
    return Outcome(*sampler.estimate(state.sums, state.n_draws), state.n_fits, state.n_draws, stopped)


def announce_fits(n_fits: int, seconds_per_fit: float, *, n_jobs: int | None, progress: bool) -> None:
    """Announce the number of fits and their expected time, unless it is short."""
    seconds = n_fits * seconds_per_fit / joblib.effective_n_jobs(n_jobs)
    announce("fitting models", f"at most {n_fits:,} fits", seconds=seconds, enabled=progress)


def value_of(game: Game, coalition: Bool[Tensor, " n"]) -> float:
    """Return the value of one coalition."""
    return float(torch.as_tensor(game(coalition[None].clone()))[0])


def _is_precise(values: Float64[Tensor, " n"], stderr: Float64[Tensor, " n"], target_error: float) -> bool:
    """Whether the root mean square of the standard errors is at most target_error of the values' standard deviation."""
    return float(stderr.square().mean().sqrt()) <= target_error * float(values.std(correction=0))


def _reason_to_stop(sampler: Sampler, state: State, n_fits: int, target_error: float | None) -> Stop | None:
    """Return why the run is over, if it is. Precision is checked after 32 draws, then after half as many again."""
    if state.n_draws == sampler.max_draws:
        return "complete"
    if target_error is not None and state.n_draws == _next_check(state.n_draws - 1):
        values, stderr = sampler.estimate(state.sums, state.n_draws)
        if _is_precise(values, stderr, target_error):  # False if a value is not a number yet
            return "precise"
    return "budget" if state.n_fits + sampler.max_cost(state.n_draws) > n_fits else None


def _next_check(n_draws: int) -> int:
    """Return the number of draws at which precision is checked next."""
    check = FIRST_ROUND
    while check <= n_draws:
        check += check // 2
    return check


def _next_draws(sampler: Sampler, state: State, n_fits: int, *, early_stop: bool) -> list[int]:
    """Return the numbers of the draws up to the next check, as many as certainly fit the budget."""
    ends = [state.n_draws + MAX_QUEUED_DRAWS]
    if sampler.max_draws is not None:
        ends.append(sampler.max_draws)
    if early_stop:
        ends.append(_next_check(state.n_draws))
    numbers: list[int] = []
    remaining = n_fits - state.n_fits
    for number in range(state.n_draws, min(ends)):
        remaining -= sampler.max_cost(number)
        if remaining < 0:
            break
        numbers.append(number)
    return numbers
