"""Values from few fits: scores resemble those of simpler models, and alike points have alike values.

    v(S) = f(|S|) + sum_k c_k u_k(S) + sum_i (1[i in S] - |S|/n) psi_i + noise

The u are games of simpler models, whose worth costs next to nothing and whose semivalues are known, so that a point's
value is sum_k c_k phi_i(u_k) + psi_i + level. What they leave is learned by least squares on coalitions drawn by the
size law, which has the semivalue as its minimizer (docs/math.md, section 2), with a Gaussian process over points as its
prior: one value per label, nearby points of a label are alike, at two ranges, and each point has its own. f, what
coalitions of a size score on average, is smooth in logit (|S|/n); its semivalue is one number, the level. Each c is
expected to be such that all games together gain what everyone gains in v, each in proportion to what it gains, give or
take 30 % of the largest: which game explains scores best need not be the one that ranks points best. All other
variances are those that the scores make most likely, if psi is not expected to be large.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from scipy.optimize import minimize
from torch import Tensor

from fwshapley.semivalues import Semivalue

RANGES = (0.5, 1.0)
"""Of likeness, in units of the median distance between points."""

MOST_FOR_VARIANCES = 1000
"""Scores that variances are chosen by; all are used once they are known."""

OWN_PARTS = slice(0, 2 + len(RANGES))
TREND_PARTS = slice(OWN_PARTS.stop, OWN_PARTS.stop + 3)
GAME_PARTS = slice(TREND_PARTS.stop + 1, None)
"""Which of the variances are those of psi, of f and, after that of the noise, of each c."""

EXPECTED = 0.1
"""Standard deviation of each part of psi, times the root of n, in units of the scores': the prior is exponential."""

UNSURE = 0.35
"""Least standard deviation of what a point has of its own, over that of its values in the simpler games: few fits do
not make these certain."""

SWAY = 0.3
"""Standard deviation of each c, over the largest that is expected."""

CURVE = 3
"""Degree of the curve over sizes that resemblance leaves out."""

STEPS = 60
LOG_LIMIT = 12.0
EDGE = 0.5
JITTER = 1e-8


class Labeled(NamedTuple):
    """Points as the process knows them: features, label, and values in the simpler games."""

    x: Float64[Tensor, "n columns"]
    labels: Int64[Tensor, " n"]
    simple: Float64[Tensor, "n games"]


class Scores(NamedTuple):
    """Coalitions, nobody and everyone the first two; what they score, and what they are worth in the simpler games."""

    coalitions: Bool[Tensor, "scores n"]
    worth: Float64[Tensor, " scores"]
    simple: Float64[Tensor, "scores games"]

    def some(self, rows: Int64[Tensor, " rows"]) -> Scores:
        """Return some of them."""
        return Scores(self.coalitions[rows], self.worth[rows], self.simple[rows])


class Process:
    """Values of points as the scores of coalitions of them suggest.

    Args:
        points: the players.
        scores: of coalitions drawn by the size law of the weighting.
        seed: of the choice of the scores that variances are found by.

    Attributes:
        factor: what each c is expected to be.
        variances: of each part of the prior: of psi, of f, of the noise and of each c, in units of the variance that is
            left once the simpler games are taken away.
    """

    def __init__(self, points: Labeled, scores: Scores, *, seed: int = 0) -> None:
        self.points, self.scores, self.n = points, scores, len(points.labels)
        gained, gained_simply = (each[1] - each[0] for each in (scores.worth, scores.simple))
        useful = gained_simply.clamp(min=0)  # a game that hardly gains says little, and must not be blown up
        square = float(useful.square().sum()) or 1.0
        self.factor: Float64[Tensor, " games"] = float(gained.clamp(min=0)) * useful / square
        left = scores.worth - scores.simple @ self.factor
        self.unit, self.mean = _spread(left), float(left.mean())
        self.scale = torch.tensor([_spread(each) for each in scores.simple.T], dtype=torch.float64)
        apart = torch.pdist(points.x[:MOST_FOR_VARIANCES])
        apart = apart[apart > 0]
        self.range = float(apart.median()) if len(apart) else 1.0
        generator = torch.Generator().manual_seed(seed)
        few = torch.randperm(len(scores.worth), generator=generator)[:MOST_FOR_VARIANCES]
        unsure = UNSURE * float((points.simple @ self.factor).std()) / self.unit
        pieces = torch.stack(list(self._pieces(scores.some(few))))
        sway = (SWAY * self.factor.max() * self.scale / self.unit).square()
        self.variances = _likeliest(pieces, self._left(scores.some(few)), least_own=self.n * unsure**2, sway=sway)
        self._players = self._likeness(points)
        covariance = JITTER * torch.eye(len(scores.worth), dtype=torch.float64)
        for variance, piece in zip(self.variances, self._pieces(scores), strict=True):
            covariance += variance * piece
        self._cholesky = torch.linalg.cholesky(covariance)
        self._dual = torch.cholesky_solve(self._left(scores)[:, None], self._cholesky)[:, 0]

    def values(self, weights: Semivalue, others: Labeled | None = None) -> Float64[Tensor, " others"]:
        """Values of the players, or of other points beside them."""
        points = self.points if others is None else others
        found = self.unit * (self._covariance(points) @ self._dual)
        return points.simple @ self.factor + found + self._level(weights)

    def stderr(self, of_simple: Float64[Tensor, "n games"] | None = None) -> Float64[Tensor, " n"]:
        """Posterior standard deviation of the players' values around their level, which is taken as known.

        Args:
            of_simple: standard errors of the players' values in the simpler games, where these were sampled.
        """
        own = self._players.diagonal() - 2 * self._players.mean(0) + self._players.mean()  # psi around its mean
        prior = (self.points.simple / self.scale).square() @ self.variances[GAME_PARTS] + own
        seen = torch.linalg.solve_triangular(self._cholesky, self._covariance(self.points).T, upper=False)
        found = self.unit**2 * (prior - seen.square().sum(0)).clamp(min=0)
        if of_simple is not None:
            found += of_simple.square() @ self._coefficients.square()
        return found.sqrt()

    @property
    def resemblance(self) -> float | None:
        """Correlation of scores with what the simpler games expect, once the curve over sizes is taken from both.

        None where one of them does not vary.
        """
        size = torch.logit((self.scores.coalitions.sum(1) + EDGE) / (self.n + 2 * EDGE)).double()
        known = torch.stack([size**power for power in range(CURVE + 1)], 1)
        both = torch.stack([self.scores.worth, self.scores.simple @ self.factor], 1)[2:]  # neither nobody nor everyone
        left = both - known[2:] @ torch.linalg.lstsq(known[2:], both).solution
        lengths = left.norm(dim=0).prod()
        return float(left.prod(1).sum() / lengths) if lengths > 0 else None

    @property
    def _coefficients(self) -> Float64[Tensor, " games"]:
        """Each c, as the scores suggest."""
        swayed = self.variances[GAME_PARTS] / self.scale**2 * (self.scores.simple.T @ self._dual)
        return self.factor + self.unit * swayed

    def _left(self, scores: Scores) -> Float64[Tensor, " scores"]:
        """Scores less what the simpler games were expected to give, in their unit."""
        return (scores.worth - scores.simple @ self.factor - self.mean) / self.unit

    def _pieces(self, scores: Scores) -> Iterator[Float64[Tensor, "scores scores"]]:
        """Yield the covariance of scores that each part brings about.

        Noise is alike for all sizes: were it not, least squares would weigh sizes by another law than that they were
        drawn by, and find another semivalue.
        """
        design, sizes, simple = _centered(scores.coalitions), scores.coalitions.sum(1), scores.simple / self.scale
        for each in self._parts(self.points):
            yield design @ each @ design.T
        yield from _trend(sizes, sizes, self.n)
        yield torch.eye(len(sizes), dtype=torch.float64)
        for game in simple.T:
            yield torch.outer(game, game)

    def _parts(self, others: Labeled) -> list[Float64[Tensor, "others n"]]:
        """Covariance of psi of other points with psi of the players, by part."""
        same = (others.labels[:, None] == self.points.labels).double()
        squares = torch.cdist(others.x, self.points.x).square()
        near = [torch.exp(-squares / (2 * (each * self.range) ** 2)) for each in RANGES]
        own = torch.eye(self.n, dtype=torch.float64) if others is self.points else torch.zeros_like(same)
        return [each / self.n for each in (same, *(same * each for each in near), own)]

    def _likeness(self, others: Labeled) -> Float64[Tensor, "others n"]:
        """Covariance of psi of other points with psi of the players."""
        return torch.einsum("p,pij->ij", self.variances[OWN_PARTS], torch.stack(self._parts(others)))

    def _covariance(self, others: Labeled) -> Float64[Tensor, "others scores"]:
        """Covariance of the values of points with the scores, in units of these; psi is around the players' mean."""
        likeness = self._players if others is self.points else self._likeness(others)
        simple = (others.simple * (self.variances[GAME_PARTS] / self.scale**2)) @ self.scores.simple.T
        return simple + (likeness - self._players.mean(0)) @ _centered(self.scores.coalitions).T

    def _level(self, weights: Semivalue) -> float:
        """Semivalue of f, in which all players are alike."""
        sizes = self.scores.coalitions.sum(1)
        trend = torch.stack(_trend(torch.arange(self.n + 1), sizes, self.n))
        f = self.unit * (torch.einsum("p,pij->ij", self.variances[TREND_PARTS], trend) @ self._dual)
        return float((torch.from_numpy(weights.join_law(self.n)) * f.diff()).sum())


def _spread(numbers: Float64[Tensor, " numbers"]) -> float:
    return float(numbers.std()) or 1.0


def _centered(coalitions: Bool[Tensor, "scores n"]) -> Float64[Tensor, "scores n"]:
    members = coalitions.double()
    return members - members.mean(1, keepdim=True)


def _trend(one: Int64[Tensor, " one"], other: Int64[Tensor, " other"], n: int) -> list[Float64[Tensor, "one other"]]:
    """Covariances of what coalitions of two sizes score on average: a constant, a line and a smooth curve."""
    u, v = (torch.logit((sizes + EDGE) / (n + 2 * EDGE)).double() for sizes in (one, other))
    smooth = torch.exp(-(u[:, None] - v).square() / 2)
    return [torch.ones_like(smooth), u[:, None] * v / math.log(n + 2), smooth]


def _likeliest(
    pieces: Float64[Tensor, "parts scores scores"],
    target: Float64[Tensor, " scores"],
    *,
    least_own: float,
    sway: Float64[Tensor, " games"],
) -> Float64[Tensor, " parts"]:
    """Variances that the scores make most likely, beside those of games, which are given.

    That of what points have of their own is at least so much.
    """
    known = torch.einsum("p,pij->ij", sway, pieces[GAME_PARTS]) + JITTER * torch.eye(len(target), dtype=torch.float64)
    sought = pieces[: GAME_PARTS.start]

    def surprise(logs: np.ndarray) -> tuple[float, np.ndarray]:
        theta = torch.tensor(logs, dtype=torch.float64, requires_grad=True)
        factor, failed = torch.linalg.cholesky_ex(torch.einsum("p,pij->ij", theta.exp(), sought) + known)
        if bool(failed):
            return math.inf, np.zeros_like(logs)
        white = torch.linalg.solve_triangular(factor, target[:, None], upper=False)
        expected = (theta[OWN_PARTS] / 2).exp().sum() / EXPECTED
        loss = factor.diagonal().log().sum() + white.square().sum() / 2 + expected
        loss.backward()
        assert theta.grad is not None  # noqa: S101 - just worked out
        return float(loss.detach()), theta.grad.numpy()

    bounds = np.tile([-LOG_LIMIT, LOG_LIMIT], (len(sought), 1))
    bounds[OWN_PARTS.stop - 1, 0] = np.clip(math.log(max(least_own, math.exp(-LOG_LIMIT))), -LOG_LIMIT, LOG_LIMIT)
    start = np.clip(0, bounds[:, 0], bounds[:, 1])
    found = minimize(surprise, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS})
    return torch.cat([torch.tensor(found.x, dtype=torch.float64).exp(), sway])
