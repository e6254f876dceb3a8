"""The checks of scikit-learn for estimators, on all valuators."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import fwshapley as fw
from fwshapley._internal.checks import Array


class WithReference(fw.RetrainingValuator):
    """A valuator that is fitted with its own points as the reference, since checks pass none."""

    def fit(self, x: Array, y: Array, reference: tuple[Array, Array] | None = None) -> WithReference:
        """Fit with the points as their own reference."""
        return super().fit(x, y, reference or (x, y))


def expected_failures(estimator: object) -> dict[str, str]:
    """Return the checks that fail, by name, with the reason."""
    if isinstance(estimator, fw.KNNValuator):
        return {}
    return {
        "check_fit2d_1sample": 'the error is of points, "x must have at least 2 points, got 1", and not of samples',
    }


VALUATORS = [
    fw.KNNValuator(k=1, progress=False),
    WithReference(LogisticRegression(), method="leave_one_out", progress=False),
]


@pytest.mark.usefixtures("unchecked")  # the constructors accept any argument, and fit validates it
@parametrize_with_checks(VALUATORS, expected_failed_checks=expected_failures)  # type: ignore[untyped-decorator]
def test_scikit_learn_accepts_the_valuators(estimator: object, check: Callable[[object], None]) -> None:
    check(estimator)
