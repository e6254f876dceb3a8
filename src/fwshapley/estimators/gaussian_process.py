"""A Gaussian process on coalitions with a linear mean, and its exact semivalues.

    g(S)  =  terms of S @ linear  +  sum over centers C of a(C) k(S, C)
    k(S, C)  =  product of exp(-rate of j) over the players j that are in only one of S and C

It is the regression that assumes that coalitions with nearly the same members have nearly the same value. A player's
rate tells how much the value depends on it apart from the linear mean. The rates, and the share of noise, maximize the
restricted likelihood times a prior. The mean of a product over players follows player by player, so the semivalues of g
are exact under every weighting. Equations: docs/math.md, section 5.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

MOST_CENTERS = 2000
"""Most coalitions that a process is fitted to; the time grows with their third power."""

MOST_TUNED = 300
"""Most coalitions that the rates are tuned to, unless there are more than half as many linear terms."""

TUNING_STEPS = 15
NOISE = 1e-3
"""Typical variance of what the process leaves unexplained, relative to its own."""

LEAST_NOISE = 1e-5
RATE_SPREAD = 1.5
"""Standard deviation of the logarithm of a rate around its first guess; that of the noise is twice this."""

LEAST_EFFECT = 0.05
"""Smallest effect of a player, relative to the mean effect, in the first guess of its rate."""

LEAST_FREEDOM = 8
"""Fewest coalitions, beyond the number of linear terms, from which rates are tuned."""

TOLERANCE = 1e-9


class GaussianProcess(NamedTuple):
    """A regression that predicts the values of coalitions; its predictions are odd if `odd`."""

    linear: Float64[ndarray, " terms"]
    centers: Bool[ndarray, "centers n"]
    coefficients: Float64[ndarray, " centers"]
    rates: Float64[ndarray, " n"]
    odd: bool

    def predict(
        self, coalitions: Bool[ndarray, "rows n"], terms: Float64[ndarray, "rows terms"]
    ) -> Float64[ndarray, " rows"]:
        """Values of coalitions, whose terms of the linear mean are given."""
        if not self.coefficients.any():
            return terms @ self.linear
        kernel = _Kernel.of(self.rates, _signs(coalitions), _signs(self.centers), odd=self.odd)
        return terms @ self.linear + kernel.values @ self.coefficients

    def kernel_values(self, law: Float64[ndarray, " n"]) -> Float64[ndarray, " n"]:
        """Exact semivalues of the sum over centers, by the law of the size of the coalition that a player joins.

        A player in C adds (1 - exp(-rate)) E[k of the others], and one outside takes that away.
        """
        if not self.coefficients.any():
            return np.zeros(len(self.rates))
        differs = np.exp(-self.rates)
        expected = _mean_products(np.where(self.centers, differs, 1.0), np.where(self.centers, 1.0, differs), law)
        scale = -2 / math.expm1(-self.rates.sum()) if self.odd else 1.0  # a symmetric law sees near and -far alike
        signs = _signs(self.centers)
        return scale * (1 - differs) * (self.coefficients @ (signs * expected))


def fit_process(
    coalitions: Bool[ndarray, "rows n"],
    terms: Float64[ndarray, "rows terms"],
    targets: Float64[ndarray, " rows"],
    *,
    odd: bool,
) -> GaussianProcess:
    """Fit a process to the values of coalitions.

    Args:
        coalitions: the masks.
        terms: regressors of the linear mean; the first n are the players, or half their signs.
        targets: the values.
        odd: targets are odd, t(complement of S) = -t(S), and so are the predictions; rows have no complements.
    """
    rows = _evenly(len(targets), MOST_CENTERS)
    masks, regressors, wanted = coalitions[rows], terms[rows], targets[rows]
    n = masks.shape[1]
    linear = np.linalg.lstsq(regressors, wanted)[0]
    residual = wanted - regressors @ linear
    rates = np.zeros(n)
    is_linear = np.abs(residual).max() <= TOLERANCE * np.abs(wanted).max()
    n_terms = regressors.shape[1]
    if is_linear or len(rows) - n_terms < LEAST_FREEDOM:
        return GaussianProcess(np.linalg.lstsq(terms, targets)[0], masks, np.zeros(len(rows)), rates, odd)
    tuned = _evenly(len(rows), max(MOST_TUNED, 2 * n_terms))
    rates, noise = _tune(masks[tuned], regressors[tuned], wanted[tuned], np.abs(linear[:n]), odd=odd)
    signs = _signs(masks)
    fit = _Fit.of(_Kernel.of(rates, signs, signs, odd=odd).values, noise, regressors, wanted)
    share = fit.worth_against(regressors, residual)
    blended = share * fit.linear + (1 - share) * linear
    return GaussianProcess(blended, masks, share * fit.coefficients, rates, odd)


class _Kernel(NamedTuple):
    """k(S, C), and the two parts of which it is made if it is odd: (near - far) / (1 - exp(-sum of rates))."""

    values: Float64[ndarray, "rows columns"]
    near: Float64[ndarray, "rows columns"]
    far: Float64[ndarray, "rows columns"] | None

    @classmethod
    def of(
        cls,
        rates: Float64[ndarray, " n"],
        rows: Float64[ndarray, "rows n"],
        columns: Float64[ndarray, "columns n"],
        *,
        odd: bool,
    ) -> _Kernel:
        """Kernel of coalitions, given by signs."""
        distance = (rates.sum() - (rows * rates) @ columns.T) / 2
        near = np.exp(-distance)
        if not odd:
            return cls(near, near, None)
        far = np.exp(distance - rates.sum())
        return cls((near - far) / -math.expm1(-rates.sum()), near, far)

    def gradient(
        self, outer: Float64[ndarray, "rows rows"], signs: Float64[ndarray, "rows n"], rates: Float64[ndarray, " n"]
    ) -> Float64[ndarray, " n"]:
        """Derivatives of sum(outer * values) by the rates."""
        by_near = _sum_where_different(outer * self.near, signs)
        if self.far is None:
            return -by_near
        by_far = outer * self.far
        total = rates.sum()
        same = by_far.sum() - _sum_where_different(by_far, signs)
        return (same - by_near - math.exp(-total) * (outer * self.values).sum()) / -math.expm1(-total)


def _sum_where_different(
    pairs: Float64[ndarray, "rows rows"], signs: Float64[ndarray, "rows n"]
) -> Float64[ndarray, " n"]:
    """Sum over the pairs of coalitions of which only one has the player, for each player."""
    return (pairs.sum() - (signs * (pairs @ signs)).sum(0)) / 2


class _Fit(NamedTuple):
    """Linear mean by generalized least squares, and coefficients of the process from what that leaves."""

    linear: Float64[ndarray, " terms"]
    coefficients: Float64[ndarray, " rows"]
    projected: Float64[ndarray, "rows rows"]
    """Q = A^-1 - A^-1 X (X' A^-1 X)^-1 X' A^-1, with A the kernel plus noise and X the terms; coefficients are Q y."""
    log_determinant: float
    """log det A + log det X' A^-1 X."""
    freedom: int

    @classmethod
    def of(
        cls,
        kernel: Float64[ndarray, "rows rows"],
        noise: float,
        terms: Float64[ndarray, "rows terms"],
        targets: Float64[ndarray, " rows"],
    ) -> _Fit:
        """Fit by a Cholesky factor of the kernel plus noise."""
        rows = len(targets)
        factor = cholesky(kernel + noise * np.eye(rows), lower=True, check_finite=False)
        whitened = solve_triangular(factor, terms, lower=True, check_finite=False)
        left, singular, right = np.linalg.svd(whitened, full_matrices=False)
        rank = int((singular > TOLERANCE * singular[0]).sum())
        left, singular, right = left[:, :rank], singular[:rank], right[:rank]
        lower, _ = dpotri(factor, lower=True)
        inverse = np.tril(lower) + np.tril(lower, -1).T
        sideways = solve_triangular(factor, left, lower=True, trans=1, check_finite=False)
        projected = inverse - sideways @ sideways.T
        white_targets = solve_triangular(factor, targets, lower=True, check_finite=False)
        linear = right.T @ ((left.T @ white_targets) / singular)
        log_determinant = 2 * float(np.log(factor.diagonal()).sum() + np.log(singular).sum())
        return cls(linear, projected @ targets, projected, log_determinant, rows - rank)

    def worth_against(self, terms: Float64[ndarray, "rows terms"], residual: Float64[ndarray, " rows"]) -> float:
        """Share of this fit in its mixture with plain least squares that predicts best: each row from all others."""
        left, singular, _ = np.linalg.svd(terms, full_matrices=False)
        leverage = (left[:, singular > TOLERANCE * singular[0]] ** 2).sum(1)
        diagonal = self.projected.diagonal()
        free = (1 - leverage > TOLERANCE) & (diagonal > TOLERANCE * diagonal.max())
        by_linear = residual[free] / (1 - leverage[free])
        gain = by_linear - self.coefficients[free] / diagonal[free]
        square = float(gain @ gain)
        return float(np.clip(gain @ by_linear / square, 0, 1)) if square > 0 else 0.0


def _tune(
    masks: Bool[ndarray, "rows n"],
    terms: Float64[ndarray, "rows terms"],
    targets: Float64[ndarray, " rows"],
    effects: Float64[ndarray, " n"],
    *,
    odd: bool,
) -> tuple[Float64[ndarray, " n"], float]:
    """Rates and noise that are most likely; before, a rate is about in proportion to the player's effect."""
    signs = _signs(masks)
    n = signs.shape[1]
    relative = effects / effects.mean() if effects.any() else np.ones(n)
    guess = np.log(np.append(np.maximum(relative, LEAST_EFFECT) / n, NOISE))
    spread = np.append(np.full(n, RATE_SPREAD), 2 * RATE_SPREAD)
    squares = float(targets @ targets)  # so that the loss does not depend on the unit of the targets
    if not squares:
        return np.exp(guess[:-1]), NOISE

    def loss(logs: Float64[ndarray, " parameters"]) -> tuple[float, Float64[ndarray, " parameters"]]:
        rates, noise = np.exp(logs[:-1]), math.exp(logs[-1])
        kernel = _Kernel.of(rates, signs, signs, odd=odd)
        fit = _Fit.of(kernel.values, noise, terms, targets)
        misfit = max(float(targets @ fit.coefficients) / squares, TOLERANCE**2)
        outer = fit.projected - fit.freedom / (misfit * squares) * np.outer(fit.coefficients, fit.coefficients)
        by_log = np.append(kernel.gradient(outer, signs, rates) * rates, np.trace(outer) * noise) / 2
        away = (logs - guess) / spread
        return (fit.freedom * math.log(misfit) + fit.log_determinant + away @ away) / 2, by_log + away / spread

    bounds = [(at - 5, at + 5) for at in guess[:-1]] + [(math.log(LEAST_NOISE), math.log(100))]
    best = minimize(loss, guess, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": TUNING_STEPS}).x
    return np.exp(best[:-1]), math.exp(best[-1])


def _mean_products(
    if_absent: Float64[ndarray, "rows n"], if_present: Float64[ndarray, "rows n"], law: Float64[ndarray, " n"]
) -> Float64[ndarray, "rows n"]:
    """E[product over the other players of their factor], for each player, over the coalition that it joins.

    Removing one of r other players from the question replaces the law by law(s) (r-s)/r if_absent + law(s+1) (s+1)/r
    if_present: a player has joined s of r with probability s/r. To remove all but one, for each, halves the players
    again and again.
    """
    rows, n = if_absent.shape
    means = np.empty((rows, n))
    todo = [(0, n, np.broadcast_to(law, (rows, n)))]
    while todo:
        start, end, current = todo.pop()
        if end - start == 1:
            means[:, start] = current[:, 0]
            continue
        middle = (start + end) // 2
        for kept, removed in (((start, middle), (middle, end)), ((middle, end), (start, middle))):
            left = current
            for player in range(*removed):
                others = left.shape[1] - 1
                present = np.arange(1, others + 1) / others
                left = (
                    left[:, :-1] * present[::-1] * if_absent[:, player, None]
                    + left[:, 1:] * present * if_present[:, player, None]
                )
            todo.append((*kept, left))
    return means


def _signs(masks: Bool[ndarray, "rows n"]) -> Float64[ndarray, "rows n"]:
    """1 for members, -1 for others."""
    return np.where(masks, 1.0, -1.0)


def _evenly(count: int, most: int) -> ndarray:
    """Indices of at most so many rows, evenly spread; rows are in order of size."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)
