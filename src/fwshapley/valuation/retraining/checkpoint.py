"""Draws of an estimator within a budget of fits: on many cores, to be interrupted and resumed, always the same sums.

Draws are added up in their order, whoever made them first. A draw is begun only if the budget would bear its dearest
outcome, so that no more fits are made than were allowed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

import torch
from jaxtyping import Float64
from torch import Tensor

from fwshapley._internal.bundle import load_bundle, save_bundle
from fwshapley._internal.parallel import spread
from fwshapley._internal.progress import ProgressBar
from fwshapley.estimators.estimate import FIRST_ROUND
from fwshapley.valuation.retraining.estimator import Draw, Estimated, Estimator

CHECKPOINT_SECONDS = 20.0
KIND = "checkpoint of a valuation"
AT_ONCE = 1024
"""Draws that are handed out together, at most."""

Stop = Literal["budget", "precise", "complete"]
"""Why a run ended: its budget was spent, its target was reached, or there was nothing left to draw."""


class Outcome(NamedTuple):
    """What a run came to."""

    estimated: Estimated
    fits: int
    draws: int
    stopped: Stop


class State(NamedTuple):
    """How far a run has come.

    Attributes:
        sums: over the draws made.
        draws: their number.
        fits: that they took, and those before the first of them.
    """

    sums: Float64[Tensor, "rows n"]
    draws: int
    fits: int

    def plus(self, draw: Draw) -> State:
        """Return the state after the next draw."""
        return State(self.sums + draw.sums, self.draws + 1, self.fits + draw.fits)

    def save(self, path: Path, identity: Mapping[str, Any]) -> None:
        """Write to a file."""
        facts = {"identity": dict(identity), "draws": self.draws, "fits": self.fits}
        save_bundle(path, KIND, facts, {"sums": self.sums})

    @staticmethod
    def load(path: Path, identity: Mapping[str, Any]) -> State:
        """Read what `save` wrote, if it is of the same run."""
        facts, tensors = load_bundle(path, KIND)
        changed = [name for name, value in identity.items() if facts["identity"].get(name) != value]
        if changed:
            differs = "differs" if len(changed) == 1 else "differ"
            raise ValueError(
                f"{path} is the checkpoint of another run: {', '.join(changed)} {differs}; resume with the same data "
                "and arguments, or start anew with resume=False"
            )
        return State(tensors["sums"], facts["draws"], facts["fits"])


def work(
    estimator: Estimator,
    *,
    budget: int,
    spent: int,
    identity: Mapping[str, Any],
    target_error: float | None = None,
    n_jobs: int | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    progress: bool = True,
) -> Outcome:
    """Make draws until the budget is spent or the values are precise.

    Args:
        estimator: what is drawn.
        budget: most fits.
        spent: those made already, before the first draw.
        identity: what makes it the same run, as JSON holds it; budget and target may change between sittings.
        target_error: see `is_precise`.
        n_jobs: processes to draw in, as joblib has it.
        checkpoint: file to save to every 20 seconds, at the end, and when interrupted.
        resume: go on from the checkpoint, if there is one.
        progress: whether to show a bar, in fits.
    """
    least = spent + sum(map(estimator.cost, range(estimator.fewest)))
    if budget < least:
        raise ValueError(
            f"budget={budget} is too small: {estimator.n} points need {least} fits for {estimator.fewest} draws"
        )
    bar = ProgressBar("fitting models", budget, enabled=progress)
    start = State(torch.zeros(estimator.rows, estimator.n, dtype=torch.float64), 0, spent)
    with bar, Sitting(start, checkpoint, identity, resume=resume) as sitting:
        bar.advance(sitting.state.fits)
        while not (stopped := _stopped(estimator, sitting.state, budget, target_error)):
            numbers = _next_draws(estimator, sitting.state, budget, look=target_error is not None)
            with closing(spread(estimator.draw, numbers, n_jobs)) as draws:
                for draw in draws:
                    sitting.move(sitting.state.plus(draw))
                    bar.advance(draw.fits)
        state = sitting.state
    return Outcome(estimator.estimate(state.sums, state.draws), state.fits, state.draws, stopped)


def is_precise(estimated: Estimated, target_error: float) -> bool:
    """Whether the root mean square of the standard errors is at most target_error of the values' standard deviation."""
    spread = float(estimated.values.std(correction=0))
    return float(estimated.stderr.square().mean().sqrt()) <= target_error * spread


def _stopped(estimator: Estimator, state: State, budget: int, target_error: float | None) -> Stop | None:
    """Why the run is at its end, if it is. Values are looked at after 32 draws, then after half as many again."""
    if state.draws == estimator.most:
        return "complete"
    if target_error is not None and state.draws == _look_after(state.draws - 1):
        estimated = estimator.estimate(state.sums, state.draws)
        if is_precise(estimated, target_error):  # False where a value is not a number yet
            return "precise"
    return "budget" if state.fits + estimator.cost(state.draws) > budget else None


def _look_after(draws: int) -> int:
    """Number of draws at which values are looked at next."""
    look = FIRST_ROUND
    while look <= draws:
        look += look // 2
    return look


def _next_draws(estimator: Estimator, state: State, budget: int, *, look: bool) -> list[int]:
    """Numbers of the draws up to the next look, as many as the budget bears for certain."""
    ends = [state.draws + AT_ONCE, estimator.most, _look_after(state.draws) if look else None]
    numbers, left = [], budget - state.fits
    for number in range(state.draws, min(end for end in ends if end is not None)):
        left -= estimator.cost(number)
        if left < 0:
            break
        numbers.append(number)
    return numbers


class Sitting:
    """A state that is saved from time to time, and in the end, whatever ends it.

    It is saved at the very start too, to learn at once whether it can be.

    Args:
        start: where a new run begins.
        path: file to save to, if any.
        identity: what makes it the same run.
        resume: begin with what the file holds, if it is there.
    """

    def __init__(self, start: State, path: Path | None, identity: Mapping[str, Any], *, resume: bool) -> None:
        self.state, self.path, self.identity = start, path, identity
        if resume and path is not None and path.exists():
            self.state = State.load(path, identity)
        self._saved = -math.inf

    def __enter__(self) -> Self:
        self.save()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.save()

    def move(self, state: State) -> None:
        """Go on to the next state: in one assignment, so that an interrupt finds the one or the other."""
        self.state = state
        if time.monotonic() - self._saved > CHECKPOINT_SECONDS:
            self.save()

    def save(self) -> None:
        """Write the state, if there is a file for it."""
        if self.path is not None:
            self.state.save(self.path, self.identity)
        self._saved = time.monotonic()
