"""Semivalues by a proxy: a model of the game whose values are known exactly, and a correction for what it misses.

    phi(v)  =  phi(g)  +  phi(v - g)

The proxy g is a linear fit with a trend in coalition size, plus a Gaussian process; both have closed forms for every
weighting.
The last term is estimated from the residuals v - g of coalitions that g was not fitted to: with K folds there are K
proxies, each corrected on the fold that it has not seen. Every coalition counts for every player. The same coalitions
and proxies serve all weightings of a list.

This takes the idea of Witter et al., "Regression-adjusted Monte Carlo estimators for Shapley values and probabilistic
values" (2025), where the proxy is boosted trees. Different are: the proxy, strata without replacement, odd proxies for
symmetric laws, and standard errors. Equations: docs/math.md, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64
from numpy import ndarray
from torch import Tensor

from fwshapley.estimators.estimate import MIN_FREEDOM, Estimate, Run, StandardErrors, no_errors, pooled_errors
from fwshapley.estimators.gaussian_process import GaussianProcess, fit_process
from fwshapley.estimators.proxy_sample import ENUMERATED, FOLDS, MIN_UNITS, Sample, draw_sample, proxy_size_law
from fwshapley.games.game import AnyGame
from fwshapley.semivalues import Semivalue, Total, check_weights

TREND_TERMS = 4


def proxy_values(
    game: AnyGame,
    weights: Semivalue | Sequence[Semivalue],
    *,
    n_calls: int,
    total: Total = "raw",
    seed: int | torch.Generator = 0,
    n_players: int | None = None,
    batch_size: int = 2**14,
    progress: bool = True,
) -> Estimate:
    """Estimate semivalues by a model of the game that is fitted to sampled coalitions, and corrected by its residuals.

    The most accurate for games that models play, from about 15 calls per player on. The model is a Gaussian process:
    it gains nothing where the value of a coalition says little about those of similar ones. Fitting takes seconds
    beyond 1,000 calls, so it is for games that are slow to call; `least_squares_values` takes a fraction of that.

    Args:
        game: value of coalitions; a plain function needs `n_players`.
        weights: the semivalue, or a list, for which the same coalitions are used.
        n_calls: most game calls in total, also for a list; 2**n are enough for exact values.
        total: "raw" values, or "efficient" ones, shifted to sum to v(all players) - v(no players).
        seed: an integer, or a generator on the game's device.
        n_players: number of players, if the game does not have it.
        batch_size: most coalitions per call of the game.
        progress: show progress if it takes long: a bar on a terminal, lines elsewhere.

    Returns:
        values, standard errors and the number of calls.

    Example:
        >>> import fwshapley as fw
        >>> game = fw.games.Glove(left=3, right=5)
        >>> estimate = fw.proxy_values(game, [fw.Shapley(), fw.Beta(4, 1)], n_calls=120)
        >>> print(estimate.method, estimate.values.shape)
        proxy torch.Size([2, 8])
    """
    weightings = check_weights(weights)
    with Run(
        game,
        weightings[0],
        n_calls=n_calls,
        total=total,
        target_stderr=None,
        seed=seed,
        n_players=n_players,
        batch_size=batch_size,
        progress=progress,
        method="proxy",
    ) as run:
        results = _estimate_all(run, weightings)
        is_list = isinstance(weights, (list, tuple))

        def stack(parts: list[Tensor]) -> Tensor:
            return run.game.drop_single_output(torch.stack(parts) if is_list else parts[0])

        return Estimate(
            stack([result.values for result in results]),
            stack([result.stderr for result in results]),
            stack([result.freedom for result in results]),
            n_calls=run.game.calls,
            weights=weightings if is_list else weightings[0],
            total=run.total,
            method=run.method,
        )


class _Result(NamedTuple):
    """Values, standard errors and their degrees of freedom for one weighting."""

    values: Float64[Tensor, "n outputs"]
    stderr: Float64[Tensor, "n outputs"]
    freedom: Float64[Tensor, "n outputs"]


def _estimate_all(run: Run, weightings: list[Semivalue]) -> list[_Result]:
    """Estimate every weighting from one sample."""
    n = run.n
    laws = [torch.from_numpy(semivalue.join_law(n)) for semivalue in weightings]
    run.check_calls(min(max(2 * (n + TREND_TERMS), 4 * MIN_UNITS), 2**n - 2), f"for {n} players")
    run.evaluate_ends()
    if n == 1:
        return [_Result(run.gain[None], *no_errors(run.gain[None]))] * len(weightings)
    paired = all(torch.allclose(law, law.flip(0), rtol=1e-9, atol=0) for law in laws)
    sample = draw_sample(proxy_size_law(weightings, n), run.calls_left, paired=paired, generator=run.generator)
    gains = run.evaluate(sample.coalitions) - run.empty
    proxies = _Proxies.fit(run, sample, gains)
    return [
        _correct(run, sample, proxies.values(law.numpy()), proxies.residuals, _influence(law, run.game.device))
        for law in laws
    ]


class _Proxies(NamedTuple):
    """A model of the game for each fold and output."""

    residuals: Float64[Tensor, "folds rows outputs"]
    """Gains less predictions, for no players, all players, and the coalitions of the sample; odd parts if paired."""
    processes: list[list[GaussianProcess]]
    """By fold and output; none where every coalition is known."""

    @classmethod
    def fit(cls, run: Run, sample: Sample, gains: Float64[Tensor, "rows outputs"]) -> _Proxies:
        """Fit the proxies of all folds, to all but the fold's own coalitions."""
        ends = torch.stack([torch.zeros_like(run.gain), run.gain])
        targets = torch.cat([ends, gains])
        if sample.paired:
            targets = _odd_part(targets)
        if bool((sample.fold == ENUMERATED).all()):
            return cls(targets.expand(FOLDS, -1, -1), [])
        masks = torch.cat([sample.heads.new_tensor([[False], [True]]).expand(2, run.n), sample.coalitions])
        terms = _linear_terms(masks)
        fold = torch.cat([sample.fold.new_full((1 if sample.paired else 2,), ENUMERATED), sample.fold])
        if sample.paired:
            masks, terms, targets = masks[::2], _odd_part(terms)[::2], targets[::2]
        coalitions, regressors, wanted, row_fold = (each.cpu().numpy() for each in (masks, terms, targets, fold))
        processes = [
            [fit_process(coalitions[seen], regressors[seen], target[seen], odd=sample.paired) for target in wanted.T]
            for seen in (row_fold != np.arange(FOLDS)[:, None])
        ]
        predicted = [[process.predict(coalitions, regressors) for process in by_output] for by_output in processes]
        residuals = targets - torch.from_numpy(np.array(predicted)).to(targets.device).transpose(1, 2)
        if sample.paired:
            residuals = torch.stack([residuals, -residuals], 2).flatten(1, 2)
        return cls(residuals, processes)

    def values(self, law: Float64[ndarray, " n"]) -> Float64[Tensor, "folds n outputs"]:
        """Exact semivalues of the proxies."""
        n = len(law)
        if not self.processes:
            return self.residuals.new_zeros(FOLDS, n, self.residuals.shape[2])
        step = law @ np.diff(_trend(n).numpy(), axis=0)  # what a player adds to the trend, in the mean
        values = [
            [process.linear[:n] + process.linear[n:-1] @ step + process.kernel_values(law) for process in by_output]
            for by_output in self.processes
        ]
        return torch.from_numpy(np.array(values)).to(self.residuals.device).transpose(1, 2)


def _linear_terms(masks: Bool[Tensor, "rows n"]) -> Float64[Tensor, "rows terms"]:
    """Players, the trend, and a constant."""
    trend = _trend(masks.shape[1]).to(masks.device)[masks.sum(1)]
    return torch.cat([masks.double(), trend, trend.new_ones(len(masks), 1)], 1)


def _trend(n: int) -> Float64[Tensor, "{n}+1 terms"]:
    """Functions of the size that vanish for no players and for all."""
    position = 2 * torch.arange(n + 1, dtype=torch.float64) / n - 1
    return (1 - position**2)[:, None] * position[:, None] ** torch.arange(min(TREND_TERMS, n - 1))


def _odd_part(rows: Float64[Tensor, "rows columns"]) -> Float64[Tensor, "rows columns"]:
    """Half the difference to the complement, which is the other row of the pair; symmetric laws see nothing else."""
    pairs = rows.unflatten(0, (-1, 2))
    return ((pairs - pairs.flip(1)) / 2).flatten(0, 1)


def _by_row(sample: Sample, units: Tensor) -> Tensor:
    """What holds for units, for each of their coalitions."""
    return units.repeat_interleave(2) if sample.paired else units


class _Influence(NamedTuple):
    """How the mean value of the coalitions of each size 0..n enters a player's value, by whether it is a member."""

    of_members: Float64[Tensor, " sizes"]
    of_others: Float64[Tensor, " sizes"]


def _influence(law: Float64[Tensor, " n"], device: torch.device) -> _Influence:
    """C(n, s) p(s-1) = n w(s-1) / s for members and -C(n, s) p(s) = -n w(s) / (n-s) for others; eq. 1 by size."""
    n = len(law)
    sizes = torch.arange(n + 1, dtype=torch.float64)
    none = torch.zeros(1, dtype=torch.float64)
    of_members = torch.cat([none, n * law / sizes[1:]])
    of_others = torch.cat([-n * law / (n - sizes[:-1]), none])
    return _Influence(of_members.to(device), of_others.to(device))


def _correct(
    run: Run,
    sample: Sample,
    proxy_values: Float64[Tensor, "folds n outputs"],
    residuals: Float64[Tensor, "folds rows outputs"],
    influence: _Influence,
) -> _Result:
    """Proxies' values plus the estimated values of their residuals, averaged over folds; and standard errors."""
    units = sample.units_by_stratum()
    values = torch.zeros_like(proxy_values[0])
    for fold in range(FOLDS):
        of_ends = influence.of_others[0] * residuals[fold, 0] + influence.of_members[-1] * residuals[fold, 1]
        as_member, as_other = _terms(sample, residuals[fold, 2:], influence)
        # A stratum's mean residual is known where the proxy was fitted, and estimated from the fold for the rest.
        in_fold = sample.fold == fold
        units_in_fold = sample.stratum[in_fold].bincount(minlength=len(units))
        units_seen = units - units_in_fold
        known = torch.where(sample.share < 1, sample.share * units_seen / units, 1.0)
        factor_seen = known * units / units_seen
        factor_in_fold = (1 - known) * units / units_in_fold.clamp(min=1)
        factor = torch.where(in_fold, factor_in_fold[sample.stratum], factor_seen[sample.stratum])[:, None]
        correction = sample.heads.double().T @ (factor * (as_member - as_other)) + (factor * as_other).sum(0)
        values += (proxy_values[fold] + of_ends + correction) / FOLDS
    errors = _standard_errors(run, sample, residuals, influence)
    if run.total == "efficient":
        values = values + (run.gain - values.sum(0)) / run.n
    return _Result(values, *errors)


def _terms(
    sample: Sample, residuals: Float64[Tensor, "rows outputs"], influence: _Influence
) -> tuple[Float64[Tensor, "units outputs"], Float64[Tensor, "units outputs"]]:
    """What a unit adds to the values of the members of its head, and to those of the other players."""
    sizes = sample.heads.sum(1)
    weight = sample.size_share[:, None]
    of_members, of_others = influence.of_members[sizes, None] * weight, influence.of_others[sizes, None] * weight
    if not sample.paired:
        return of_members * residuals, of_others * residuals
    head, complement = residuals.unflatten(0, (-1, 2)).unbind(1)
    opposite = sample.heads.shape[1] - sizes
    return (
        of_members * head + influence.of_others[opposite, None] * weight * complement,
        of_others * head + influence.of_members[opposite, None] * weight * complement,
    )


def _standard_errors(
    run: Run, sample: Sample, residuals: Float64[Tensor, "folds rows outputs"], influence: _Influence
) -> StandardErrors:
    """From the variance of unseen residuals within strata; where a share f has been drawn, it is less by 1 - f."""
    n, outputs = run.n, residuals.shape[2]
    variance = residuals.new_zeros(n, outputs)
    uncertainty = torch.zeros_like(variance)  # sum over strata of variance**2 / degrees of freedom
    if bool((sample.fold == ENUMERATED).all()):
        return no_errors(variance)
    row = torch.arange(residuals.shape[1] - 2, device=residuals.device)
    unseen = residuals[:, 2:][_by_row(sample, sample.fold).clamp(min=0), row]
    as_member, as_other = _terms(sample, unseen, influence)
    all_freedom = 0
    for stratum, units in enumerate(sample.units_by_stratum().tolist()):
        if float(sample.share[stratum]) >= 1:
            continue
        rows = sample.stratum == stratum
        draws = torch.where(sample.heads[rows, :, None], as_member[rows, None], as_other[rows, None])
        if run.total == "efficient":
            draws = draws - draws.mean(1, keepdim=True)
        part = units * draws.var(0) * (1 - sample.share[stratum])
        variance += part
        uncertainty += part**2 / (units - 1)
        all_freedom += units - 1
    freedom = torch.where(uncertainty > 0, variance**2 / uncertainty, float(max(all_freedom, MIN_FREEDOM)))
    return pooled_errors(variance, freedom)
