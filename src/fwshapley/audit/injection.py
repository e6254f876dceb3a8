"""Labels that the audit makes wrong itself, to learn what wrong labels look like in these data.

People confuse what looks alike, and sometimes they slip. So half of the injected errors go to a class in proportion to
its probability for the point, by models that were not trained on the point, and half to any class. Neither goes to the
class that the models predict: if the label is wrong already, that class is probably the true one.
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
PLAUSIBLE = 0.5
"""Share of the injected errors that go to probable classes."""


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
    plausible = _normalized(possible[chosen] * (probabilities[chosen] + np.finfo(np.float32).tiny))
    anything = _normalized(possible[chosen].astype(np.float64))
    chances = np.where((generator.random(count) < PLAUSIBLE)[:, None], plausible, anything)
    drawn = (chances.cumsum(1) > generator.random((count, 1)) * (1 - np.finfo(np.float32).eps)).argmax(1)
    noisy, is_injected = labels.copy(), np.zeros(n, dtype=bool)
    noisy[chosen] = drawn
    is_injected[chosen] = True
    return noisy, is_injected


def _normalized(weights: Float[ndarray, "rows classes"]) -> Float[ndarray, "rows classes"]:
    return weights / weights.sum(axis=1, keepdims=True)
