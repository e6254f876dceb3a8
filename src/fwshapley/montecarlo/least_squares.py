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
from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from fwshapley.exact import Total
from fwshapley.games.game import AnyGame
from fwshapley.montecarlo.run import Estimate, Run
from fwshapley.sampling import draw_distinct
from fwshapley.weights import Semivalue

TREND_TERMS = 4
JACKKNIFE_GROUPS = 64
FIRST_ROUND_CALLS = 256
ROUND_GROWTH = 1.5


def least_squares_values(
    game: AnyGame,
    weights: Semivalue,
    *,
    budget: int,
    total: Total = "raw",
    paired: bool | None = None,
    target_stderr: float | None = None,
    seed: int | torch.Generator = 0,
    n_players: int | None = None,
    batch_size: int = 2**14,
    progress: bool = True,
) -> Estimate:
    """Estimate a semivalue by stratified weighted least squares; the best choice for most games.

    Args:
        game: worth of coalitions; a plain function needs `n_players`.
        weights: the semivalue.
        budget: most game calls. All coalitions are evaluated, exactly, if it allows.
        total: "raw" values, or "efficient" ones, shifted to sum to v(everyone) - v(nobody).
        paired: draw complements together; None does so for symmetric laws, where it lowers the error.
        target_stderr: stop early once no standard error exceeds this.
        seed: whole number, or a generator on the game's device.
        n_players: number of players, where the game does not say.
        batch_size: most coalitions handed to the game at once.
        progress: show a progress bar when it takes long on a terminal.

    Returns:
        values, standard errors and calls made; the estimate is consistent, with a bias of order 1/calls.

    Example:
        >>> least_squares_values(Glove(left=3, right=5), Beta(alpha=4, beta=1), budget=200).values
    """
    with Run(
        game,
        weights,
        budget=budget,
        total=total,
        target_stderr=target_stderr,
        seed=seed,
        n_players=n_players,
        batch_size=batch_size,
        progress=progress,
        method="least squares",
    ) as run:
        if run.n == 1:
            return run.estimate(run.gain[None], torch.zeros_like(run.gain[None]))
        run.require(min(2 * run.n, 2**run.n - 2), f"for {run.n} players")
        law = weights.size_law(run.n).to(run.game.device)
        if paired is None:
            paired = torch.allclose(law, law.flip(0), rtol=1e-9, atol=0)
        design = _Design(law, run.calls_left, paired=paired, generator=run.generator)
        worth = run.nobody.new_empty(0, len(run.nobody))
        for units in _rounds(len(design.heads), stop_early=target_stderr is not None):
            fresh = design.coalitions(len(worth) // design.unit_calls, units)
            worth = torch.cat([worth, run.evaluate(fresh)])
            values, stderr = _fit(run, design, units, worth - run.nobody)
            if run.is_precise(stderr):
                break
        return run.estimate(values, stderr)


class _Design:
    """Which coalitions to evaluate, in an order whose every beginning is a smaller design of the same kind.

    A unit is a coalition, or a pair S, complement of S. Units come from strata by the size of S; each stratum
    expects a share of the units in proportion to its mass under the law, but no more than it has.

    Attributes:
        heads: (units, players), S of each unit.
        stratum: (units,), index of its stratum.
        expected: (strata,), expected number of units of each.
        capacity: (strata,), number of different units that there are.
    """

    def __init__(self, law: Float64[Tensor, " n-1"], calls: int, *, paired: bool, generator: torch.Generator) -> None:
        self.law, self.paired = law, paired
        self.n = n = len(law) + 1
        self.unit_calls = 2 if paired else 1
        sizes = range(1, n // 2 + 1 if paired else n)
        mass = (law + law.flip(0) if paired else law)[: len(sizes)].clone()
        counts = [math.comb(n, size) for size in sizes]
        if paired and n % 2 == 0:  # each pair of halves is met from both sides
            mass[-1] /= 2
            counts[-1] //= 2
        self.capacity = torch.tensor([min(float(count), 1e18) for count in counts], dtype=torch.float64)
        self.expected = _allocate(mass.cpu(), self.capacity, calls // self.unit_calls)

        offset = float(torch.rand((), generator=generator, device=generator.device, dtype=torch.float64))
        self.stratum, order = _round_systematically(self.expected, offset)
        heads = [
            self._draw_heads(size, int(count), generator)
            for size, count in zip(sizes, self.stratum.bincount(minlength=len(sizes)), strict=True)
        ]
        self.stratum = self.stratum[order]
        self.heads = torch.cat(heads)[order.to(law.device)]

    def _draw_heads(self, size: int, count: int, generator: torch.Generator) -> Bool[Tensor, "count n"]:
        if self.paired and 2 * size == self.n:  # the half with player 0 stands for both
            others = draw_distinct(size - 1, count, self.n - 1, generator)
            return torch.cat([others.new_ones(count, 1), others], 1)
        return draw_distinct(size, count, self.n, generator)

    def coalitions(self, start: int, stop: int) -> Bool[Tensor, "coalitions n"]:
        """Coalitions of a range of units; the members of a pair follow each other."""
        heads = self.heads[start:stop]
        return torch.stack([heads, ~heads], 1).flatten(0, 1) if self.paired else heads

    def sampled_share(self, units: int) -> Float64[Tensor, " units"]:
        """Share of its stratum that has been drawn, for each of the first units: 1 where all are."""
        drawn = self.expected * (units / len(self.heads))
        return (drawn / self.capacity)[self.stratum[:units]].clamp(max=1).to(self.law.device)

    def row_weights(self, units: int) -> Float64[Tensor, " coalitions"]:
        """What the coalitions of the first units count for: sums estimate means under the law."""
        expected = (self.expected * (units / len(self.heads)))[self.stratum[:units]].to(self.law.device)
        sizes = self.coalitions(0, units).sum(1)
        weights = self.law[sizes - 1] / expected.repeat_interleave(self.unit_calls)
        return torch.where(2 * sizes == self.n, weights / 2, weights) if self.paired else weights


def _allocate(
    mass: Float64[Tensor, " strata"], capacity: Float64[Tensor, " strata"], units: int
) -> Float64[Tensor, " strata"]:
    """Units in proportion to mass, where that exceeds a stratum's capacity all of it and the rest to the others."""
    full = torch.zeros_like(mass, dtype=torch.bool)
    while True:
        left, open_mass = units - capacity[full].sum(), mass[~full].sum()
        share = left / open_mass * mass if open_mass > 0 else torch.zeros_like(mass)
        overflowing = ~full & (share >= capacity)
        if not overflowing.any():
            return torch.where(full, capacity, share)
        full |= overflowing


def _round_systematically(
    expected: Float64[Tensor, " strata"], offset: float
) -> tuple[Int[Tensor, " units"], Int[Tensor, " units"]]:
    """Stratum of each unit, with counts that are the expected ones rounded up or down, and an order of the units.

    The strata are laid end to end and a unit is put down every 1, from a random offset. In the order returned
    a unit comes by how far into its stratum it lies, so that strata fill up evenly.
    """
    ends = expected.cumsum(0)
    points = torch.arange(math.ceil(float(ends[-1]) - 1e-9), dtype=torch.float64) + offset
    points = points[points < ends[-1]]
    stratum = torch.searchsorted(ends, points, right=True).clamp(max=len(expected) - 1)
    depth = (points - (ends - expected)[stratum]) / expected[stratum]
    return stratum, depth.argsort()


def _rounds(units: int, *, stop_early: bool) -> Iterator[int]:
    """Numbers of units after which to look at the estimate: only the last, unless it may stop early."""
    look = FIRST_ROUND_CALLS
    while stop_early and look < units:
        yield look
        look = math.ceil(look * ROUND_GROWTH)
    yield units


def _fit(
    run: Run, design: _Design, units: int, gains: Float64[Tensor, "coalitions outputs"]
) -> tuple[Float64[Tensor, "players outputs"], Float64[Tensor, "players outputs"]]:
    """Values and standard errors from the worth, above that of nobody, of the first units' coalitions."""
    problem = _Problem(run, design.law)
    coalitions = design.coalitions(0, units)
    weights = design.row_weights(units)
    moments = problem.moments(coalitions, gains, weights)
    values = problem.solve(moments[None])[0]

    # Jackknife: leave out one group of units at a time. Strata that are nearly exhausted vary less, by 1 - share.
    damping = (1 - design.sampled_share(units)).sqrt()
    uncertain = damping.nonzero().flatten()
    if not len(uncertain):
        return values, torch.zeros_like(values)
    groups = min(JACKKNIFE_GROUPS, len(uncertain))
    if groups == 1:
        return values, torch.full_like(values, math.inf)
    by_stratum = uncertain[design.stratum[:units].to(uncertain.device)[uncertain].argsort(stable=True)]
    damped = weights * damping.repeat_interleave(design.unit_calls)
    parts = []
    for group in range(groups):
        members = by_stratum[group::groups, None] * design.unit_calls
        rows = (members + torch.arange(design.unit_calls, device=members.device)).flatten()
        parts.append(problem.moments(coalitions[rows], gains[rows], damped[rows]))
    part = torch.stack(parts)
    replicates = problem.solve(moments + (part.sum(0) - groups * part) / (groups - 1))
    spread = (replicates - replicates.mean(0)).square().sum(0)
    return values, ((groups - 1) / groups * spread).sqrt()


class _Problem:
    """The least-squares problem of one run, in terms of weighted moments of its coalitions.

    gain of S  =  sum of psi over S  +  trend(|S|) @ gamma  +  residual,    sum of psi = gain of everyone
    """

    def __init__(self, run: Run, law: Float64[Tensor, " n-1"]) -> None:
        self.n, self.gain, self.raw = run.n, run.gain, run.total == "raw"
        n, join_law = run.n, run.join_law
        sizes = torch.arange(1, n, dtype=torch.float64, device=law.device)
        # The trend vanishes for nobody and everyone, whose worth is known.
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
    ) -> Float64[Tensor, "fit+1 fit+outputs"]:
        """Weighted products of (players, trend, level) with (players, trend, gains)."""
        at = coalitions.sum(1) - 1
        regressors = torch.cat([coalitions.double(), self.trend[at]], 1)
        left = torch.cat([regressors, self.level[at, None]], 1) * weights[:, None]
        return left.T @ torch.cat([regressors, gains], 1)

    def solve(self, moments: Float64[Tensor, "many fit+1 fit+outputs"]) -> Float64[Tensor, "many players outputs"]:
        """Values from moments, for many problems at once."""
        fit = moments.shape[1] - 1
        constraint = torch.zeros(len(moments), fit, 1, dtype=torch.float64, device=moments.device)
        constraint[:, : self.n] = 1
        corner = torch.zeros_like(constraint[:, :1])
        system = torch.cat(
            [
                torch.cat([moments[:, :fit, :fit], constraint], 2),
                torch.cat([constraint.mT, corner], 2),
            ],
            1,
        )
        target = torch.cat([moments[:, :fit, fit:], self.gain.expand(len(moments), 1, -1)], 1)
        solution = (torch.linalg.pinv(system, rtol=1e-12, hermitian=True) @ target)[:, :fit]
        values = solution[:, : self.n]
        if not self.raw:
            return values
        level_of_residual = moments[:, fit:, fit:] - moments[:, fit:, :fit] @ solution
        total = self.level_of_fit @ solution + level_of_residual[:, 0]
        return values + (total - self.gain)[:, None] / self.n
