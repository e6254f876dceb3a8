"""Values from few fits: scores resemble those of simpler models, and alike points have alike values.

    v(S) = f(|S|) + sum_q c_q u_q(S) + sum_i (1[i in S] - |S|/n) psi_i + noise

The u_q are games of nearest neighbours, whose worth costs nothing and whose semivalues are known exactly: a point's
value is sum_q c_q phi_i(u_q) + psi_i + level. What they leave is learnt by least squares on coalitions drawn by the size
law, which has the semivalue as its minimiser (docs/math.md, section 2), with a Gaussian process over points as its prior:
one value per label, nearby points of a label are alike at two ranges, and each has its own. f, what coalitions of a size
score on average, is smooth in logit (|S|/n); its semivalue is one number, the level. All variances are those under which
the scores are most likely.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from scipy.optimize import minimize
from torch import Tensor

from fwshapley.weights import Semivalue

RANGES = (0.5, 1.0)
"""Of likeness, in units of the median distance between points."""

MOST_FOR_VARIANCES = 1000
"""Scores that variances are chosen by; all are used once they are known."""

STEPS = 60
LOG_LIMIT = 12.0
EDGE = 0.5
JITTER = 1e-8


class Labelled(NamedTuple):
    """Points as the process knows them: features, label, and values in the simpler games."""

    x: Float64[Tensor, "n columns"]
    labels: Int64[Tensor, " n"]
    simple: Float64[Tensor, "n games"]


class Scores(NamedTuple):
    """Coalitions, among them nobody and everyone; what they score, and what they are worth in the simpler games."""

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
        variances: of each part of the prior, in units of the scores' variance.
    """

    def __init__(self, points: Labelled, scores: Scores, *, seed: int = 0) -> None:
        self.points, self.n = points, len(points.labels)
        self.unit = float(scores.worth.std()) or 1.0
        self.mean = float(scores.worth.mean())
        self.scale, self._games = scores.simple.std(0).clamp(min=JITTER), scores.simple.shape[1]
        # Differences of values decide scores, but only some distances: those between points that are not the same.
        apart = torch.cdist(points.x[: MOST_FOR_VARIANCES], points.x[: MOST_FOR_VARIANCES])
        self.range = float(apart[apart > 0].median()) if bool((apart > 0).any()) else 1.0
        generator = torch.Generator().manual_seed(seed)
        few = torch.randperm(len(scores.worth), generator=generator)[:MOST_FOR_VARIANCES]
        self.variances = _likeliest(*self._observed(scores.some(few)))
        pieces, target = self._observed(scores)
        covariance = torch.einsum("p,pij->ij", self.variances, pieces)
        self._scores = scores
        self._cholesky = torch.linalg.cholesky(covariance + JITTER * torch.eye(len(target), dtype=torch.float64))
        self._dual = torch.cholesky_solve(target[:, None], self._cholesky)[:, 0]

    def _observed(self, scores: Scores) -> tuple[Float64[Tensor, "parts scores scores"], Float64[Tensor, " scores"]]:
        """Return the covariance of scores that each part brings about, and the scores in their unit."""
        design, sizes = _centred(scores.coalitions), scores.coalitions.sum(1)
        pieces = [
            *(torch.outer(each, each) for each in (scores.simple / self.scale).T),
            *(design @ each @ design.T for each in self._likeness(self.points)),
            *_trend(sizes, sizes, self.n),
            torch.eye(len(sizes), dtype=torch.float64),
            torch.diag(1 / (sizes + 1).double()),
        ]
        return torch.stack(pieces), (scores.worth - self.mean) / self.unit

    def _likeness(self, others: Labelled) -> list[Float64[Tensor, "others n"]]:
        """Covariance of the own values psi of other points with those of the players, by part."""
        same = (others.labels[:, None] == self.points.labels).double()
        squares = torch.cdist(others.x, self.points.x).square()
        near = [torch.exp(-squares / (2 * (each * self.range) ** 2)) for each in RANGES]
        own = torch.eye(self.n, dtype=torch.float64) if others is self.points else torch.zeros_like(same)
        return [each / self.n for each in (same, *(same * each for each in near), own)]

    def _covariance(self, others: Labelled) -> Float64[Tensor, "others scores"]:
        """Covariance of the values of points with the scores, in units of these; psi around the players' mean."""
        games, parts = self.variances[: self._games], self.variances[self._games :]
        simple = (games / self.scale.square() * others.simple) @ self._scores.simple.T
        players = sum((share * each for share, each in zip(parts, self._likeness(self.points), strict=False)), zero := torch.zeros(()))
        likeness = players
        if others is not self.points:
            likeness = sum((share * each for share, each in zip(parts, self._likeness(others), strict=False)), zero)
        return simple + (likeness - players.mean(0)) @ _centred(self._scores.coalitions).T

    def values(self, weights: Semivalue, others: Labelled | None = None) -> Float64[Tensor, " others"]:
        """Values of the players, or of other points beside them."""
        found = self._covariance(self.points if others is None else others) @ self._dual
        return self.unit * found + self._level(weights)

    def stderr(self) -> Float64[Tensor, " n"]:
        """Posterior standard deviation of the players' values around their level."""
        games, parts = self.variances[: self._games], self.variances[self._games :]
        prior = (games * (self.points.simple / self.scale).square()).sum(1)
        for share, each in zip(parts, self._likeness(self.points), strict=False):
            prior = prior + share * each.diagonal()
        seen = torch.linalg.solve_triangular(self._cholesky, self._covariance(self.points).T, upper=False)
        return self.unit * (prior - seen.square().sum(0)).clamp(min=0).sqrt()

    def _level(self, weights: Semivalue) -> float:
        """Semivalue of f, in which all players are alike."""
        sizes = self._scores.coalitions.sum(1)
        trend = torch.stack(_trend(torch.arange(self.n + 1), sizes, self.n))
        shares = self.variances[-2 - len(trend) : -2]
        f = self.unit * (torch.einsum("p,pij->ij", shares, trend) @ self._dual)
        return float((weights.join_law(self.n) * f.diff()).sum())


def _centred(coalitions: Bool[Tensor, "scores n"]) -> Float64[Tensor, "scores n"]:
    members = coalitions.double()
    return members - members.mean(1, keepdim=True)


def _trend(
    one: Int64[Tensor, " one"], other: Int64[Tensor, " other"], n: int
) -> list[Float64[Tensor, "one other"]]:
    """Covariances of what coalitions of two sizes score on average: a constant, a line and a smooth curve."""
    u, v = (torch.logit((sizes + EDGE) / (n + 2 * EDGE)).double() for sizes in (one, other))
    smooth = torch.exp(-(u[:, None] - v).square() / 2)
    return [torch.ones_like(smooth), u[:, None] * v / math.log(n + 2), smooth]


def _likeliest(
    pieces: Float64[Tensor, "parts scores scores"], target: Float64[Tensor, " scores"]
) -> Float64[Tensor, " parts"]:
    """Variances of the parts under which the scores are most likely."""
    diagonal = JITTER * torch.eye(len(target), dtype=torch.float64)

    def surprise(logs: np.ndarray) -> tuple[float, np.ndarray]:
        theta = torch.tensor(logs, dtype=torch.float64, requires_grad=True)
        factor, failed = torch.linalg.cholesky_ex(torch.einsum("p,pij->ij", theta.exp(), pieces) + diagonal)
        if bool(failed):
            return math.inf, np.zeros_like(logs)
        white = torch.linalg.solve_triangular(factor, target[:, None], upper=False)
        loss = factor.diagonal().log().sum() + white.square().sum() / 2
        loss.backward()  # type: ignore[no-untyped-call]
        assert theta.grad is not None  # noqa: S101 - just worked out
        return float(loss), theta.grad.numpy()

    start = np.zeros(len(pieces))
    found = minimize(
        surprise, start, jac=True, method="L-BFGS-B", bounds=[(-LOG_LIMIT, LOG_LIMIT)] * len(start),
        options={"maxiter": STEPS},
    )  # fmt: skip
    return torch.tensor(found.x, dtype=torch.float64).exp()
