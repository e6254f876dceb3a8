"""Labels that the audit makes wrong itself, to learn what wrong labels look like in these data.

People confuse what looks alike, and now and then they slip. So most injected errors are a class drawn in proportion to
its probability for the point, by models that were not trained on it; the others are any class. If all were, they would
be easier to find than errors of people, and the probabilities that are learnt from them too low. No injected error is
the class that the models predict: if the label is wrong already, that class is probably the true one.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int64
from numpy import ndarray
from numpy.typing import NDArray

SHARE = 0.08
"""Share of the labels that are made wrong: enough to learn from, too few to disturb the models much."""

MIN_FLIPS = 30
MAX_SHARE = 0.2
SLIPS = 0.1
"""Share of the injected errors that are any class."""

LEAST = 1e-6
"""Probability that every other class has at least."""


def inject_errors(
    labels: Int64[ndarray, " n"], probabilities: Float[ndarray, "n classes"], generator: np.random.Generator
) -> tuple[Int64[ndarray, " n"], NDArray[np.bool_]]:
    """Return labels of which some more are wrong, and which.

    Args:
        labels: class numbers, of which some may be wrong already.
        probabilities: of the classes, by models that were not trained on the point.
        generator: of the draws.
    """
    n, classes = probabilities.shape
    possible = np.ones((n, classes), dtype=bool)
    possible[np.arange(n), labels] = False
    possible[np.arange(n), probabilities.argmax(1)] = False
    is_candidate = possible.any(1)
    count = min(max(round(SHARE * n), MIN_FLIPS), round(MAX_SHARE * n), int(is_candidate.sum()))
    chosen = generator.choice(np.flatnonzero(is_candidate), size=count, replace=False)
    plausible = possible[chosen] * probabilities[chosen].astype(np.float64).clip(min=LEAST)
    chances = (1 - SLIPS) * _normalized(plausible) + SLIPS * _normalized(possible[chosen].astype(np.float64))
    cumulated = chances.cumsum(axis=1)
    drawn = (cumulated > generator.random((count, 1)) * cumulated[:, -1:]).argmax(axis=1)
    noisy, is_injected = labels.copy(), np.zeros(n, dtype=bool)
    noisy[chosen] = drawn
    is_injected[chosen] = True
    return noisy, is_injected


def _normalized(weights: Float[ndarray, "rows classes"]) -> Float[ndarray, "rows classes"]:
    return weights / weights.sum(axis=1, keepdims=True)
