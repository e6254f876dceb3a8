"""Warnings of learned values that may not say what they are taken for."""

from __future__ import annotations

import math
import warnings

import numpy as np

from fwshapley.valuation.knn.problem import Setting
from fwshapley.valuation.validation import MOST_NAMED

LEAST_RESEMBLANCE = 0.3
"""Correlation of scores below which simpler models are no good first guess."""


def warn_of_what_cannot_be_learned(setting: Setting) -> None:
    """Warn of reference points without a class, and of points that are all alike.

    The exact engine takes both, for values are well defined there, and parts of a reference may be merged. Who has a
    network learn, or a model fitted, wants values that say which labels are wrong.
    """
    lacking = setting.classes[np.bincount(setting.other_labels, minlength=len(setting.classes)) == 0]
    if len(lacking):
        warnings.warn(
            f"no reference point is of class {', '.join(map(str, lacking[:MOST_NAMED]))}"
            f"{' ...' * (len(lacking) > MOST_NAMED)}: points with these labels can do nothing but harm, and look wrong "
            "whether they are or not; add reference points of every class",
            stacklevel=4,
        )
    points = setting.places.factor[:, :-2]
    if (points == points[0]).all():
        warnings.warn("all points of x are the same: nothing but their labels tells them apart", stacklevel=4)


def warn_of_a_poor_guess(resemblance: float, fits: int) -> None:
    """Warn of a model that is unlike the simpler ones, as far as so many fits can tell."""
    if resemblance + 1 / math.sqrt(fits) < LEAST_RESEMBLANCE:
        warnings.warn(
            "scores of fits hardly resemble those of the simpler models that values were first guessed by "
            f"(correlation {resemblance:.2f}, size taken away): values are mostly those of simpler models. They may "
            "well find wrong labels; for what points are worth to this model use RetrainingValuator(model, "
            "method='least squares')",
            stacklevel=6,
        )
