"""What the Monte Carlo estimators share: the result, its standard errors, and a run within a number of calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float64
from scipy.special import ndtri, stdtrit
from torch import Tensor

from fwshapley import plots
from fwshapley._internal.checks import check_choice, check_real, check_whole
from fwshapley._internal.progress import ProgressBar
from fwshapley._internal.result import Result
from fwshapley.coalitions import make_generator
from fwshapley.games.game import AnyGame, CheckedGame
from fwshapley.semivalues import Semivalue, Total, check_weights

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MIN_DRAWS = 8
"""Independent draws below which the standard error of an estimate is infinite."""

MIN_FREEDOM = MIN_DRAWS - 1
"""Degrees of freedom of a variance that is estimated from `MIN_DRAWS` draws."""

POOLED_FREEDOM = 8
"""Degrees of freedom that the mean variance over all players adds to a player's own."""

NOMINAL_LEVEL = 0.95
"""Level at which 1.96 standard errors are an interval's half width, also from few draws."""

NORMAL_FREEDOM = 1e9
"""Degrees of freedom from which Student's t is the normal law."""

ROUNDING = 1e-9
"""Share of the sums compared that rounding may explain."""

FIRST_ROUND = 32
"""Independent draws after which a run may first stop early."""


@dataclass(frozen=True, eq=False)
class Estimate(Result):
    """Estimated values with their standard errors.

    Attributes:
        values: (players,) or (players, outputs), torch float64 on the game's device; with the weightings in front if
            `weights` is a list.
        stderr: standard errors, shaped like values, such that values +- 2 stderr cover the true values in about 95 % of
            cases. After few draws they are larger, by as much as Student's t is wider than the normal distribution;
            they are infinite if there are too few draws. They cannot account for important coalitions that are too
            rare to be drawn (docs/math.md, section 5). For levels other than 95 %, use `interval`.
        freedom: degrees of freedom of the standard errors, shaped like values; infinite where values are exact.
        n_calls: number of coalitions evaluated.
        weights: the semivalue that was estimated, or the list of semivalues.
        total: "raw", or "efficient" if values were shifted to sum to v(all players) - v(no players).
        method: name of the estimator.

    Example:
        >>> import fwshapley as fw
        >>> estimate = fw.least_squares_values(fw.games.Glove(left=3, right=5), fw.Shapley(), n_calls=200)
        >>> estimate.values.shape, estimate.n_calls
        (torch.Size([8]), 200)
    """

    values: Float64[Tensor, ...]
    stderr: Float64[Tensor, ...]
    freedom: Float64[Tensor, ...]
    n_calls: int
    weights: Semivalue | list[Semivalue]
    total: Total
    method: str
    kind: ClassVar[str] = "estimate"
    per_weighting: ClassVar[tuple[str, ...]] = ("values", "stderr", "freedom")

    def __str__(self) -> str:
        names = ", ".join(map(str, self.weightings))
        worst = float(self.stderr.max())
        return f"{names} by {self.method}, {self.n_calls} game calls, largest standard error {worst:.3g}"

    def to_dataframe(self) -> pd.DataFrame:
        """Return a table with a row per weighting, output and player.

        Columns are weights (for a list of weightings), output (for a game with an axis of outputs), player, value and
        stderr. Players and outputs are numbered from 0.
        """
        import pandas as pd  # noqa: PLC0415 - takes long to import

        values, stderr = (self._by_output(tensor) for tensor in (self.values, self.stderr))
        weightings, outputs, players = values.shape
        columns: dict[str, Any] = {
            "weights": np.repeat([str(weights) for weights in self.weightings], outputs * players),
            "output": np.tile(np.repeat(np.arange(outputs), players), weightings),
            "player": np.tile(np.arange(players), weightings * outputs),
            "value": values.flatten().numpy(),
            "stderr": stderr.flatten().numpy(),
        }
        if not isinstance(self.weights, list):
            del columns["weights"]
        if not self._has_outputs:
            del columns["output"]
        return pd.DataFrame(columns)

    def plot(self) -> Figure:
        """Draw the values of the players as bars with two standard errors: a row per output, a column per weighting."""
        values, stderr = (self._by_output(tensor) for tensor in (self.values, self.stderr))
        return plots.plot_bars(
            values.numpy(),
            [f"player {player}" for player in range(values.shape[-1])],
            [f"output {output}" if self._has_outputs else "" for output in range(values.shape[1])],
            [str(weights) for weights in self.weightings],
            plots.Errors(stderr.where(stderr.isfinite(), 0).numpy(), "standard error"),
        )

    @property
    def _has_outputs(self) -> bool:
        return self.values.ndim - isinstance(self.weights, list) > 1

    def _by_output(self, tensor: Float64[Tensor, ...]) -> Float64[Tensor, "weights outputs players"]:
        """Return values or standard errors on the CPU, with an axis for weightings and one for outputs in any case."""
        stacked = tensor.detach().cpu().reshape(len(self.weightings), -1, *([tensor.shape[-1]] * self._has_outputs))
        return stacked.transpose(1, 2) if self._has_outputs else stacked[:, None]

    def interval(self, level: float = 0.95) -> tuple[Float64[Tensor, ...], Float64[Tensor, ...]]:
        """Lower and upper ends of confidence intervals, one for each value, by Student's t.

        Args:
            level: share of the intervals that should cover the truth, between 0 and 1.

        Example:
            >>> import fwshapley as fw
            >>> estimate = fw.least_squares_values(fw.games.Glove(left=3, right=5), fw.Shapley(), n_calls=200)
            >>> low, high = estimate.interval(0.99)
        """
        if not 0 < check_real("level", level) < 1:
            raise ValueError(f"level must be between 0 and 1, got {level}; 0.95 is 95 %")
        half = self.stderr * quantile(level, self.freedom) / widening(self.freedom)
        return self.values - half, self.values + half


def quantile(level: float, freedom: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """Half width of a central interval of Student's t that has the mass `level`."""
    upper = (1 + level) / 2
    half_width = stdtrit(freedom.clamp(max=NORMAL_FREEDOM).cpu().numpy(), upper)
    return torch.as_tensor(half_width, dtype=freedom.dtype, device=freedom.device)


def widening(freedom: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """Factor by which Student's t is wider than the normal law, at the nominal level."""
    return quantile(NOMINAL_LEVEL, freedom) / float(ndtri((1 + NOMINAL_LEVEL) / 2))


class StandardErrors(NamedTuple):
    """Standard errors and their degrees of freedom."""

    stderr: Float64[Tensor, "players outputs"]
    freedom: Float64[Tensor, "players outputs"]


def pooled_errors(
    variance: Float64[Tensor, "players outputs"],
    freedom: Float64[Tensor, "players outputs"],
    unexplained: Bool[Tensor, " outputs"] | None = None,
) -> StandardErrors:
    """Standard errors from each player's variance, stabilized by the mean variance of all players.

    Few draws estimate the variance of one player badly, and may show none at all if the player seldom matters. So the
    mean over players counts as `POOLED_FREEDOM` further degrees of freedom (the moderated t of Smyth, 2004), and
    Student's t accounts for the remaining uncertainty. Draws that are all equal show no variance for any player.
    That is right for an additive game, whose values sum to the gain of all players. Otherwise errors are infinite.

    Args:
        variance: of the mean, for each player.
        freedom: degrees of freedom of each variance.
        unexplained: outputs whose values, before any shift, do not sum to the gain of all players.
    """
    estimated = variance.where(freedom >= MIN_FREEDOM, torch.nan)
    together = freedom + POOLED_FREEDOM
    pooled = (freedom * variance + POOLED_FREEDOM * estimated.nanmean(0).nan_to_num()) / together
    stderr = pooled.sqrt() * widening(together)
    if unexplained is not None:
        stderr = stderr.masked_fill(unexplained & (variance == 0).all(0), math.inf)
    return StandardErrors(stderr.where(freedom >= MIN_FREEDOM, math.inf), together)


def no_errors(values: Float64[Tensor, "players outputs"]) -> StandardErrors:
    """Errors of values that are exact."""
    return StandardErrors(torch.zeros_like(values), torch.full_like(values, math.inf))


def unknown_errors(values: Float64[Tensor, "players outputs"]) -> StandardErrors:
    """Infinite errors, for values from too few draws."""
    return StandardErrors(torch.full_like(values, math.inf), torch.full_like(values, MIN_FREEDOM))


def estimate_each(
    method: str,
    estimate: Callable[[Run], Estimate],
    game: AnyGame,
    weights: Semivalue | Sequence[Semivalue],
    **options: Any,  # noqa: ANN401 - the other arguments of `Run`
) -> Estimate:
    """Estimate one semivalue, or each of a list in a run of its own, and stack the results.

    Args:
        method: name of the estimator.
        estimate: what to do with a run.
        game: value of coalitions.
        weights: the semivalue or the list of semivalues.
        options: the other arguments of `Run`.
    """
    results = []
    for semivalue in check_weights(weights):
        with Run(game, semivalue, method=method, **options) as run:
            results.append(estimate(run))
    if not isinstance(weights, (list, tuple)):
        return results[0]
    return stack_estimates(results, n_calls=sum(result.n_calls for result in results))


def stack_estimates(results: Sequence[Estimate], *, n_calls: int) -> Estimate:
    """Return the estimates of several semivalues as that of a list.

    Args:
        results: each of one semivalue.
        n_calls: number of coalitions evaluated for all of them.
    """
    return Estimate(
        torch.stack([result.values for result in results]),
        torch.stack([result.stderr for result in results]),
        torch.stack([result.freedom for result in results]),
        n_calls=n_calls,
        weights=[result.weightings[0] for result in results],
        total=results[0].total,
        method=results[0].method,
    )


class Run:
    """One run: evaluates coalitions within a number of calls, shows progress, and turns sums into an `Estimate`.

    Args:
        game: value of coalitions; a plain function needs `n_players`.
        weights: the semivalue.
        n_calls: most game calls, including those for the empty coalition and for all players.
        total: "raw" or "efficient".
        target_stderr: stop early once no standard error exceeds this.
        seed: an integer, or a generator on the game's device.
        n_players: number of players, if the game does not have it.
        batch_size: most coalitions per call of the game.
        progress: show progress if it takes long: a bar on a terminal, lines elsewhere.
        method: name for the result.

    Attributes:
        empty: value of the empty coalition.
        full: value of all players together.
        gain: full - empty.
    """

    def __init__(
        self,
        game: AnyGame,
        weights: Semivalue,
        *,
        n_calls: int,
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
        self.weights = weights
        self.join_law = torch.from_numpy(weights.join_law(self.n)).to(self.game.device)
        self.n_calls = check_whole("n_calls", n_calls, minimum=2)
        check_choice("total", total, get_args(Total))
        self.total: Total = total
        self.target_stderr = target_stderr
        if target_stderr is not None and check_real("target_stderr", target_stderr) <= 0:
            raise ValueError(f"target_stderr must be positive, got {target_stderr}; None uses all n_calls")
        self.generator = make_generator(seed, self.game.device)
        self.method = method
        self._bar = ProgressBar(f"sampling {method}", self.n_calls, unit="game calls", enabled=progress)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, trace)

    @property
    def calls_left(self) -> int:
        """Game calls that are left."""
        return self.n_calls - self.game.calls

    def check_calls(self, calls: int, why: str) -> None:
        """Raise an error unless n_calls allows that many calls beside the empty coalition and all players."""
        if self.n_calls < 2 + calls:
            raise ValueError(f"n_calls={self.n_calls} is too small: {self.method} needs {2 + calls} calls {why}")

    def evaluate_ends(self) -> None:
        """Evaluate the empty coalition and all players."""
        ends = torch.zeros(2, self.n, dtype=torch.bool, device=self.game.device)
        ends[1] = True
        self.empty, self.full = self.evaluate(ends)
        self.gain = self.full - self.empty

    def evaluate(self, coalitions: Bool[Tensor, "coalitions players"]) -> Float64[Tensor, "coalitions outputs"]:
        """Value of each coalition, a column per output."""
        values = []
        for batch in coalitions.split(self.game.batch_size):
            values.append(self.game(batch))
            self._bar.advance(len(batch))
        return torch.cat(values)

    def next_round(self, done: int, left: int) -> int:
        """Draws until the estimate is next computed: all that are left, unless the run may stop early."""
        return left if self.target_stderr is None else min(left, max(FIRST_ROUND, done // 2))

    def is_precise(self, stderr: Float64[Tensor, "players outputs"]) -> bool:
        """Whether the target is reached."""
        return self.target_stderr is not None and bool((stderr <= self.target_stderr).all())

    def unexplained(self, values: Float64[Tensor, "players outputs"]) -> Bool[Tensor, " outputs"]:
        """Outputs whose values do not sum to the gain of all players over the empty coalition.

        None for a semivalue that joins only the empty coalition or all others, such as leave-one-out: its draws are
        all equal.
        """
        scale = values.abs().sum(0) + self.gain.abs()
        drawn = float(self.join_law[[0, -1]].sum()) < 1 - ROUNDING
        return drawn & ((values.sum(0) - self.gain).abs() > ROUNDING * scale)

    def estimate(self, values: Float64[Tensor, "players outputs"], errors: StandardErrors) -> Estimate:
        """Values and standard errors as the result."""
        drop = self.game.drop_single_output
        return Estimate(
            drop(values),
            drop(errors.stderr),
            drop(errors.freedom),
            n_calls=self.game.calls,
            weights=self.weights,
            total=self.total,
            method=self.method,
        )

    def estimate_of_one_player(self) -> Estimate:
        """Return the exact value of the only player: v(all players) - v(no players)."""
        return self.estimate(self.gain[None], no_errors(self.gain[None]))
