"""Semivalues by least squares on sampled coalitions: KernelSHAP, for every weighting, with four changes.

1. The kernel is exact, m(s) = p(s-1) + p(s), so the limit is the semivalue and not an approximation of it.
2. Coalitions are stratified by size and drawn without replacement; a size whose share of the budget exceeds
   the number of its coalitions is enumerated. Pairs S, complement of S form joint strata, so pairing is
   unbiased for every law; by default it is used where it helps, for symmetric laws.
3. The fit has a trend in coalition size beside the players. By symmetry the trend is orthogonal to every
   difference between players, so it does not move the limit, but it takes away much of the noise.
4. The level: raw values need sum(phi) = sum over S of (s p(s-1) - (n-s) p(s)) v(S), which is estimated from
   the residuals of the fit, on the same coalitions.

Standard errors are a grouped jackknife with finite-population correction. Equations: docs/math.md, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from fwshapley._internal.checks import check_flag
from fwshapley.coalitions import MAX_RANK, draw_distinct
from fwshapley.estimators.estimate import (
    MIN_FREEDOM,
    Estimate,
    Run,
    StandardErrors,
    estimate_each,
    no_errors,
    pooled_errors,
    stack_estimates,
    unknown_errors,
)
from fwshapley.games.game import AnyGame
from fwshapley.semivalues import Semivalue, Total, check_weights, proper_sizes

METHOD = "least squares"
TREND_TERMS = 4
JACKKNIFE_GROUPS = 64
FIRST_LOOK = 256
LOOK_GROWTH = 1.5
TOLERANCE = 1e-12

Posed = Literal["determined", "values determined", "open"]


def least_squares_values(
    game: AnyGame,
    weights: Semivalue | Sequence[Semivalue],
    *,
    n_calls: int,
    total: Total = "raw",
    paired: bool | None = None,
    target_stderr: float | None = None,
    shared: bool = False,
    seed: int | torch.Generator = 0,
    n_players: int | None = None,
    batch_size: int = 2**14,
    progress: bool = True,
) -> Estimate:
    """Estimate a semivalue by stratified weighted least squares; fast, and accurate for most games.

    Args:
        game: value of coalitions; a plain function needs `n_players`.
        weights: the semivalue, or a list.
        n_calls: most game calls for each semivalue, or in total if they are shared; 2**n are enough for exact values.
        total: "raw" values, or "efficient" ones, shifted to sum to v(all players) - v(no players).
        paired: draw complements together; None does so for symmetric laws, where it lowers the error.
        target_stderr: stop early once no standard error exceeds this.
        shared: draw coalitions once for all semivalues of a list, each size as often as they need it on average.
        seed: an integer, or a generator on the game's device.
        n_players: number of players, if the game does not have it.
        batch_size: most coalitions per call of the game.
        progress: show progress if it takes long: a bar on a terminal, lines elsewhere.

    Returns:
        values, standard errors and the number of calls; the estimate is consistent, with a bias of order 1/n_calls.

    Example:
        >>> import fwshapley as fw
        >>> estimate = fw.least_squares_values(fw.games.Glove(left=3, right=5), fw.Beta(4, 1), n_calls=200)
        >>> print(estimate.method, estimate.values.shape)
        least squares torch.Size([8])
    """
    options: dict[str, Any] = {
        "n_calls": n_calls,
        "total": total,
        "target_stderr": target_stderr,
        "seed": seed,
        "n_players": n_players,
        "batch_size": batch_size,
        "progress": progress,
    }
    weightings = check_weights(weights)
    check_flag("shared", shared)
    if not shared or len(weightings) == 1:

        def estimate(run: Run) -> Estimate:
            return _estimate(run, [run.weights], paired=paired)[0]

        return estimate_each(METHOD, estimate, game, weights, **options)
    with Run(game, weightings[0], method=METHOD, **options) as run:
        return stack_estimates(_estimate(run, weightings, paired=paired), n_calls=run.game.calls)


def _estimate(run: Run, weightings: Sequence[Semivalue], *, paired: bool | None) -> list[Estimate]:
    """Estimate semivalues from one stratified sample of as many coalitions as the calls allow."""
    device = run.game.device
    laws = [torch.from_numpy(semivalue.size_law(run.n)).to(device) for semivalue in weightings]
    join_laws = [torch.from_numpy(semivalue.join_law(run.n)).to(device) for semivalue in weightings]
    run.check_calls(min(2 * (run.n + TREND_TERMS), 2**run.n - 2), f"for {run.n} players")
    run.evaluate_ends()
    if run.n == 1:
        return [replace(run.estimate_of_one_player(), weights=semivalue) for semivalue in weightings]
    law = torch.stack(laws).mean(0)
    if paired is None:
        paired = torch.allclose(law, law.flip(0), rtol=1e-9, atol=0)
    design = _Design(law, run.calls_left, paired=paired, generator=run.generator)
    coalition_values = run.empty.new_empty(0, len(run.empty))
    fits = []
    for calls in _looks(run.calls_left, stop_early=run.target_stderr is not None):
        sample = design.sample(calls)
        new_values = run.evaluate(sample.coalitions[len(coalition_values) :])
        coalition_values = torch.cat([coalition_values, new_values])
        gains = coalition_values - run.empty
        fits = [
            _fit_values(_Problem(run, join_law, size_law), sample.under(size_law), gains)
            for join_law, size_law in zip(join_laws, laws, strict=True)
        ]
        if all(run.is_precise(errors.stderr) for _, errors in fits):
            break
    return [
        replace(run.estimate(values, errors), weights=semivalue)
        for (values, errors), semivalue in zip(fits, weightings, strict=True)
    ]


def _looks(calls: int, *, stop_early: bool) -> Iterator[int]:
    """Numbers of calls after which the estimate is computed: only the last, unless it may stop early."""
    look = FIRST_LOOK
    while stop_early and look < calls:
        yield look
        look = math.ceil(look * LOOK_GROWTH)
    yield calls


class _Sample(NamedTuple):
    """Coalitions in units of one, or of two where each is followed by its complement."""

    coalitions: Bool[Tensor, "coalitions n"]
    weights: Float64[Tensor, " coalitions"]
    """Weighted sums over the coalitions estimate sums over sizes of the mean of each size, or means under a law."""
    stratum: Int[Tensor, " units"]
    share: Float64[Tensor, " units"]
    """Share of its stratum that has been drawn: 1 where all of it has."""

    def under(self, law: Float64[Tensor, " sizes"]) -> _Sample:
        """Return the sample with weights whose sums estimate means under a law."""
        return self._replace(weights=self.weights * law[self.coalitions.sum(1) - 1])


class _Design:
    """Which coalitions to evaluate within a number of calls; a larger number adds to those of a smaller one.

    A unit is a coalition S, or a pair of S and its complement. Strata are the sizes of S. Each expects units in
    proportion to its mass under the law, but no more than it has, and gets that number rounded up or down.
    """

    def __init__(self, law: Float64[Tensor, " sizes"], calls: int, *, paired: bool, generator: torch.Generator) -> None:
        self.law = law
        self.paired = paired
        self.n = n = len(law) + 1
        self.unit_calls = 2 if paired else 1
        self.sizes = range(1, n // 2 + 1 if paired else n)
        self.mass = (law + law.flip(0) if paired else law)[: len(self.sizes)].cpu().clone()
        capacity = [math.comb(n, size) for size in self.sizes]
        if paired and n % 2 == 0:  # otherwise each pair of halves would be counted twice
            self.mass[-1] /= 2
            capacity[-1] //= 2
        self.capacity = torch.tensor([min(count, MAX_RANK) for count in capacity], dtype=torch.float64)
        # A count is its expectation plus an offset in [0, 1), rounded down. Offsets are spread by the golden ratio,
        # so that the sum of the counts stays near the sum of the expectations.
        start = torch.rand((), generator=generator, device=generator.device, dtype=torch.float64).cpu()
        self.offset = (start + torch.arange(len(self.sizes)) * (math.sqrt(5) - 1) / 2) % 1
        _, counts = self._allocate(calls)
        # The head of a unit is its coalition S. All heads that the calls allow wait here, in random order; `sample`
        # moves them to `heads`.
        self.waiting = [
            self._draw_heads(size, int(count), generator) for size, count in zip(self.sizes, counts, strict=True)
        ]
        self.heads = torch.empty(0, n, dtype=torch.bool, device=law.device)
        self.stratum = torch.empty(0, dtype=torch.int64)

    def _draw_heads(self, size: int, count: int, generator: torch.Generator) -> Bool[Tensor, "{count} n"]:
        if self.paired and 2 * size == self.n:  # the half with player 0 stands for both
            others = draw_distinct(size - 1, count, self.n - 1, generator)
            return torch.cat([others.new_ones(count, 1), others], 1)
        return draw_distinct(size, count, self.n, generator)

    def _allocate(self, calls: int) -> tuple[Float64[Tensor, " strata"], Float64[Tensor, " strata"]]:
        """Expected and actual number of units of each stratum, within the calls."""
        units = target = calls // self.unit_calls
        while True:
            expected = _share_out(target, self.mass, self.capacity)
            counts = (expected + self.offset).floor().minimum(self.capacity)
            if counts.sum() <= units:
                return expected, counts
            target -= 1

    def sample(self, calls: int) -> _Sample:
        """Coalitions within the calls; those of earlier, smaller samples come first and in the same order."""
        expected, counts = self._allocate(calls)
        taken = self.stratum.bincount(minlength=len(counts))
        fresh = [int(more) for more in (counts - taken).clamp(min=0)]
        self.heads = torch.cat([self.heads, *(heads[:more] for heads, more in zip(self.waiting, fresh, strict=True))])
        self.waiting = [heads[more:] for heads, more in zip(self.waiting, fresh, strict=True)]
        self.stratum = torch.cat([self.stratum, torch.arange(len(fresh)).repeat_interleave(torch.tensor(fresh))])

        # Where a unit may be missing altogether it stands for its expectation, elsewhere for the actual count.
        counts = self.stratum.bincount(minlength=len(counts))
        divisor = torch.where(expected < 1, expected, counts)[self.stratum].to(self.law.device)
        coalitions = torch.stack([self.heads, ~self.heads], 1).flatten(0, 1) if self.paired else self.heads
        sizes = coalitions.sum(1)
        weights = 1 / divisor.repeat_interleave(self.unit_calls)
        if self.paired:
            weights = torch.where(2 * sizes == self.n, weights / 2, weights)
        share = divisor / self.capacity[self.stratum].to(self.law.device)
        return _Sample(coalitions, weights, self.stratum.to(self.law.device), share)


def _share_out(
    units: int, mass: Float64[Tensor, " strata"], capacity: Float64[Tensor, " strata"]
) -> Float64[Tensor, " strata"]:
    """Units in proportion to mass; a stratum that has fewer gives all, and the others share the rest."""
    full = torch.zeros_like(mass, dtype=torch.bool)
    while True:
        left, open_mass = units - capacity[full].sum(), mass[~full].sum()
        shares = left / open_mass * mass if open_mass > 0 else torch.zeros_like(mass)
        overflowing = ~full & (shares >= capacity * (1 - 1e-9))  # rounding must not leave the last one open
        if not overflowing.any():
            return torch.where(full, capacity, shares)
        full |= overflowing


def _fit_values(
    problem: _Problem, sample: _Sample, gains: Float64[Tensor, "coalitions outputs"]
) -> tuple[Float64[Tensor, "players outputs"], StandardErrors]:
    """Values and standard errors from the gains of the coalitions over the empty one."""
    moments = problem.moments(sample.coalitions, gains, sample.weights)
    posed = problem.pose(moments)
    values = problem.solve(moments, posed)

    # Jackknife: leave out one group of units at a time. A stratum varies less as it is exhausted, by 1 - share.
    damping = (1 - sample.share).sqrt()
    uncertain = damping.nonzero().flatten()
    if not len(uncertain):
        return values, no_errors(values)
    fitted = len(moments) - 2  # players and trend, less the constraint
    if posed == "open" or len(uncertain) - fitted <= MIN_FREEDOM:
        return values, unknown_errors(values)
    groups = min(JACKKNIFE_GROUPS, len(uncertain))
    by_stratum = uncertain[sample.stratum[uncertain].argsort(stable=True)]
    unit_calls = len(sample.coalitions) // len(sample.stratum)
    damped = sample.weights * damping.repeat_interleave(unit_calls)
    all_moments = problem.moments(sample.coalitions, gains, damped)
    replicates = []
    for group in range(groups):
        members = by_stratum[group::groups, None] * unit_calls
        rows = (members + torch.arange(unit_calls, device=members.device)).flatten()
        part = problem.moments(sample.coalitions[rows], gains[rows], damped[rows])
        replicates.append(problem.solve(moments + (all_moments - groups * part) / (groups - 1), posed))
    replicate = torch.stack(replicates)
    variance = (groups - 1) / groups * (replicate - replicate.mean(0)).square().sum(0)
    return values, pooled_errors(variance, torch.full_like(variance, groups - 1))


class _Problem:
    """The least-squares problem of one run, in terms of weighted moments of its coalitions.

    gain of S  =  sum of psi over S  +  trend(|S|) @ gamma  +  residual,    sum of psi = gain of all players
    """

    def __init__(self, run: Run, join_law: Float64[Tensor, " n"], law: Float64[Tensor, " sizes"]) -> None:
        self.n, self.gain, self.raw = run.n, run.gain, run.total == "raw"
        n = run.n
        sizes = torch.from_numpy(proper_sizes(n)).to(law.device)
        # The trend vanishes for the empty coalition and for all players, whose values are known.
        position = 2 * sizes / n - 1
        powers = torch.arange(min(TREND_TERMS, n - 1), device=law.device)
        self.trend = (1 - position**2)[:, None] * position[:, None] ** powers
        # sum(phi) of a game is the mean of level(|S|) * v(S) under the law, plus what the ends add.
        step = n * (join_law[:-1] - join_law[1:])
        self.level = torch.where(law > 0, step / law, 0)
        self.level_of_fit = torch.cat([law.new_ones(n), step @ self.trend])

    def moments(
        self,
        coalitions: Bool[Tensor, "coalitions players"],
        gains: Float64[Tensor, "coalitions outputs"],
        weights: Float64[Tensor, " coalitions"],
    ) -> Float64[Tensor, "left right"]:
        """Weighted products of (players, trend, level) with (players, trend, gains)."""
        at = coalitions.sum(1) - 1
        regressors = torch.cat([coalitions.double(), self.trend[at]], 1)
        left = torch.cat([regressors, self.level[at, None]], 1) * weights[:, None]
        return left.T @ torch.cat([regressors, gains], 1)

    def pose(self, moments: Float64[Tensor, "left right"]) -> Posed:
        """Whether the coalitions determine all of the fit, only the players' values, or not even those."""
        size, vectors = torch.linalg.eigh(self._system(moments))
        null = size.abs() <= TOLERANCE * size.abs().max()
        if not null.any():
            return "determined"
        return "values determined" if float(vectors[: self.n, null].abs().max()) < math.sqrt(TOLERANCE) else "open"

    def solve(self, moments: Float64[Tensor, "left right"], posed: Posed) -> Float64[Tensor, "players outputs"]:
        """Values from moments."""
        fit = len(moments) - 1
        system, target = self._system(moments), torch.cat([moments[:fit, fit:], self.gain[None]])
        solution, singular = torch.linalg.solve_ex(system, target)
        if posed != "determined" or bool(singular):  # leaving out a group may leave something undetermined
            solution = torch.linalg.pinv(system, rtol=TOLERANCE, hermitian=True) @ target
        solution = solution[:fit]
        values = solution[: self.n]
        if not self.raw:
            return values
        level_of_residual = moments[fit, fit:] - moments[fit, :fit] @ solution
        total = self.level_of_fit @ solution + level_of_residual
        return values + (total - self.gain) / self.n

    def _system(self, moments: Float64[Tensor, "left right"]) -> Float64[Tensor, "left left"]:
        """Normal equations, with the constraint on the sum and its multiplier."""
        fit = len(moments) - 1
        system = moments.new_zeros(fit + 1, fit + 1)
        system[:fit, :fit] = moments[:fit, :fit]
        system[fit, : self.n] = system[: self.n, fit] = 1
        return system
