"""How kinds of evidence are combined into the probability that a label is wrong, without knowing any true label.

The audit makes some labels wrong itself, at random points, and computes the evidence e of all points again. Wrong
labels that were there before look like these, but are not known. So which labels were injected is modeled as

    P(injected | e) = c * P(wrong | e),    P(wrong | e) = sigmoid(w e + b),

where c is the share of the injected errors among all errors (Elkan and Noto, *Learning classifiers from only positive
and unlabeled data*, 2008). w >= 0, since more evidence never makes a label look better, and w is pulled towards equal
weights, which are hard to beat where there is little to learn from. c is learnt together with w and b.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit

PULL = 2.0
"""Strength of the pull towards equal weights, in units of the log-likelihood."""

MAX_LOG_ODDS = 6.0
ROUNDS = 200
TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Combination:
    """P(wrong | e) = sigmoid(w (e - center) / scale + b).

    Attributes:
        weights: of the kinds of evidence, at least 0.
        intercept: b, for data in which the audit has made labels wrong.
        center: mean of the evidence there.
        scale: its standard deviation.
        share: c, the share of the injected errors among all errors there.
    """

    weights: Float64[ndarray, " kinds"]
    intercept: float
    center: Float64[ndarray, " kinds"]
    scale: Float64[ndarray, " kinds"]
    share: float

    def log_odds(self, evidence: Float64[ndarray, "n kinds"]) -> Float64[ndarray, " n"]:
        """Return the log odds that a label is wrong, among as many wrong labels as the combination was learnt from."""
        return (evidence - self.center) / self.scale @ self.weights + self.intercept


def learn_combination(evidence: Float64[ndarray, "n kinds"], is_injected: NDArray[np.bool_]) -> Combination:
    """Learn how to combine kinds of evidence from errors that were injected.

    Args:
        evidence: of all points with their labels after the injection, the larger the more suspicious.
        is_injected: whose label was made wrong.
    """
    center, scale = evidence.mean(0), evidence.std(0)
    scale = np.where(scale > 0, scale, 1)
    x = (evidence - center) / scale
    kinds = x.shape[1]

    def loss(parameters: Float64[ndarray, " parameters"]) -> tuple[float, Float64[ndarray, " parameters"]]:
        weights, intercept, share = parameters[:kinds], parameters[kinds], expit(parameters[-1])
        wrong = expit(x @ weights + intercept)
        injected = (share * wrong).clip(1e-9, 1 - 1e-9)
        pulled = weights - weights.mean()
        total = -np.log(np.where(is_injected, injected, 1 - injected)).sum() + PULL * (pulled**2).sum()
        slope = np.where(is_injected, -1 / injected, 1 / (1 - injected))
        by_log_odds = slope * share * wrong * (1 - wrong)
        by_share = (slope * wrong).sum() * share * (1 - share)
        return total, np.array([*(by_log_odds @ x + 2 * PULL * pulled), by_log_odds.sum(), by_share])

    start = np.array([*np.full(kinds, 1 / kinds), logit(is_injected.mean().clip(0.01, 0.5)), 0.0])
    bounds = [(0, None)] * kinds + [(None, None), (-MAX_LOG_ODDS, MAX_LOG_ODDS)]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return Combination(found[:kinds], float(found[kinds]), center, scale, float(expit(found[-1])))


def calibrate(log_odds: Float64[ndarray, " n"], share_before: float) -> Float64[ndarray, " n"]:
    """Return log odds for data with fewer wrong labels than those that they were learnt from.

    The share of wrong labels is the one under which their mean probability equals it: the fixed point of expectation
    maximization (Saerens, Latinne and Decaestecker, *Adjusting the outputs of a classifier to new a priori
    probabilities*, 2002).

    Args:
        log_odds: that labels are wrong, where a share of them was.
        share_before: that share.
    """
    share, shifted = share_before, log_odds
    for _ in range(ROUNDS):
        shifted = log_odds + logit(share) - logit(share_before)
        mean = float(expit(shifted).mean().clip(1e-4, 1 - 1e-4))
        if abs(mean - share) < TOLERANCE:
            break
        share = mean
    return shifted
