"""What the three Monte Carlo estimators share: a budget of game calls, one result type, how a run ends."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Self, get_args

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from fwshapley.checks import check_choice, check_real, check_whole
from fwshapley.exact import Total
from fwshapley.games.game import AnyGame, CheckedGame
from fwshapley.progress import ProgressBar
from fwshapley.sampling import make_generator
from fwshapley.weights import Semivalue, check_semivalue

MIN_DRAWS = 8
"""Independent draws, beyond what is fitted to them, below which the standard error of an estimate is infinite."""

FIRST_ROUND = 32
"""Independent draws after which a run may first stop early."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimated values and how far to trust them.

    Attributes:
        values: (players,) or (players, outputs), torch float64 on the game's device.
        stderr: standard errors, shaped like values. About 95 % of values +- 2 stderr cover the truth, given some dozens
            of independent draws (fewer cover less) and a game whose worth does not hang on coalitions too rare to be
            drawn (docs/math.md, section 5).
        calls: coalitions evaluated.
        weights: the semivalue that was estimated.
        total: "raw", or "efficient" where values were shifted to sum to v(everyone) - v(nobody).
        method: which estimator.
    """

    values: Float64[Tensor, ...]
    stderr: Float64[Tensor, ...]
    calls: int
    weights: Semivalue
    total: Total
    method: str

    def __str__(self) -> str:
        worst = float(self.stderr.max())
        return f"{self.weights} by {self.method}, {self.calls} game calls, largest standard error {worst:.3g}"


class Run:
    """One run: evaluates coalitions within a budget, shows progress, and turns sums into an `Estimate`.

    Args:
        game: worth of coalitions; a plain function needs `n_players`.
        weights: the semivalue.
        budget: most game calls, those for nobody and everyone included.
        total: "raw" or "efficient".
        target_stderr: stop early once no standard error exceeds this.
        seed: whole number, or a generator on the game's device.
        n_players: number of players, where the game does not say.
        batch_size: most coalitions handed to the game at once.
        progress: show a progress bar when it takes long on a terminal.
        method: name for the result.
    """

    def __init__(
        self,
        game: AnyGame,
        weights: Semivalue,
        *,
        budget: int,
        total: Total,
        target_stderr: float | None,
        seed: int | torch.Generator,
        n_players: int | None,
        batch_size: int,
        progress: bool,
        method: str,
    ) -> None:
        self.game = CheckedGame(game, n_players, batch_size=batch_size)
        self.n = self.game.n_players
        self.weights = check_semivalue(weights)
        self.join_law = weights.join_law(self.n).to(self.game.device)
        self.budget = check_whole("budget", budget, minimum=2)
        check_choice("total", total, get_args(Total))
        self.total: Total = total
        self.target_stderr = target_stderr
        if target_stderr is not None and check_real("target_stderr", target_stderr) <= 0:
            raise ValueError(f"target_stderr must be positive, got {target_stderr}; None uses the whole budget")
        self.generator = make_generator(seed, self.game.device)
        self.method = method
        self._bar = ProgressBar(f"sampling {method}", self.budget, enabled=progress)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, trace)

    @property
    def calls_left(self) -> int:
        """Game calls left in the budget."""
        return self.budget - self.game.calls

    def begin(self, calls: int, why: str) -> None:
        """Check that the budget allows that many calls, then evaluate nobody and everyone."""
        if self.budget < 2 + calls:
            raise ValueError(f"budget={self.budget} is too small: {self.method} needs {2 + calls} calls {why}")
        ends = torch.zeros(2, self.n, dtype=torch.bool, device=self.game.device)
        ends[1] = True
        self.nobody, self.everyone = self.evaluate(ends)
        self.gain = self.everyone - self.nobody

    def evaluate(self, coalitions: Bool[Tensor, "coalitions players"]) -> Float64[Tensor, "coalitions outputs"]:
        """Worth of each coalition, a column per output."""
        worth = []
        for batch in coalitions.split(self.game.batch_size):
            worth.append(self.game(batch))
            self._bar.advance(len(batch))
        return torch.cat(worth)

    def next_round(self, done: int, left: int) -> int:
        """Draws before the next look at the estimate: all that are left, unless the run may stop early."""
        return left if self.target_stderr is None else min(left, max(FIRST_ROUND, done // 2))

    def is_precise(self, stderr: Float64[Tensor, "players outputs"]) -> bool:
        """Whether the run may stop early."""
        return self.target_stderr is not None and bool((stderr <= self.target_stderr).all())

    def estimate(
        self, values: Float64[Tensor, "players outputs"], stderr: Float64[Tensor, "players outputs"]
    ) -> Estimate:
        """Values and standard errors as the result."""
        drop = self.game.drop_single_output
        return Estimate(drop(values), drop(stderr), self.game.calls, self.weights, self.total, self.method)

    def estimate_of_one_player(self) -> Estimate:
        """Return what the only player is worth: exactly what it adds to nobody."""
        return self.estimate(self.gain[None], torch.zeros_like(self.gain[None]))
