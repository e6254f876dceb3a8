"""Base class of all valuators, with the interface of scikit-learn."""

from __future__ import annotations

from typing import ClassVar

from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from torch import Tensor

from fwshapley.valuation.result import Valuation


class Valuator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Stores its arguments under their names; `fit` stores its result in `result_`."""

    result_: Valuation
    how_to_fit: ClassVar[str] = "fit(x, y)"

    @property
    def values_(self) -> Tensor:
        """Values of the points."""
        self._check_fitted()
        return self.result_.values

    def _check_fitted(self) -> None:
        if not hasattr(self, "result_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call {self.how_to_fit} first")
