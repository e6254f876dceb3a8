"""Expected errors of exported explainers: the error model of `fwshapley.explanation.learned.error_model`, by numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from jaxtyping import Float, Float64
from numpy import ndarray

from fwshapley.semivalues import Semivalue, Total


@dataclass(frozen=True)
class ErrorFeatures:
    """What the error of values is predicted from, besides the values themselves.

    Attributes:
        shapley: Shapley values, or those of the only weighting.
        predictions: of the surrogate from complete inputs.
        base_values: value of the empty coalition.
        disagreement: half of the difference of the surrogate's two networks.
        is_probability: whether values are of probabilities.
    """

    shapley: Float64[ndarray, "batch players outputs"]
    predictions: Float64[ndarray, "batch outputs"]
    base_values: Float64[ndarray, " outputs"]
    disagreement: Float64[ndarray, "batch outputs"]
    is_probability: bool

    def stack(self) -> Float64[ndarray, "batch outputs features"]:
        """Return all features but the last one, the mean square of values."""
        n = self.shapley.shape[1]
        full, empty = self.predictions, self.base_values
        gap = ((self.shapley.sum(1) - (full - empty)) / n) ** 2
        uncertainty = (full * (1 - full)).clip(min=0) if self.is_probability else (full - empty) ** 2
        squares = (self.shapley**2).mean(1)
        return np.stack([np.ones_like(gap), gap, uncertainty / n**2, squares, self.disagreement**2], -1)


@dataclass(frozen=True)
class SavedErrorModel:
    """The error model of an explainer that was calibrated before it was exported.

    Attributes:
        weights: the semivalues that it was calibrated for.
        coefficients: of the features, for each semivalue.
        total: "raw" or "efficient", as the values were.
    """

    weights: tuple[Semivalue, ...]
    coefficients: tuple[tuple[float, ...], ...]
    total: Total

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        """Return the error model whose `facts` were saved."""
        weights = tuple(map(Semivalue.from_json, facts["weights"]))
        return cls(weights, tuple(map(tuple, facts["coefficients"])), facts["total"])

    def check(self, weights: Sequence[Semivalue], total: Total) -> None:
        """Raise a ValueError unless it was calibrated for these weightings and this total."""
        missing = [weighting for weighting in weights if weighting not in self.weights]
        if missing:
            raise ValueError(
                f"weights: errors were calibrated for {', '.join(map(str, self.weights))}, not for {missing[0]}"
            )
        if total != self.total:
            raise ValueError(f"total: errors were calibrated for {self.total} values; pass total={self.total!r}")

    def expect(
        self,
        values: Float[ndarray, "weights batch players outputs"],
        weights: Sequence[Semivalue],
        features: ErrorFeatures,
    ) -> Float64[ndarray, "weights batch outputs"]:
        """Return the expected root mean square error over players.

        Args:
            values: under weightings that it was calibrated for.
            weights: the weightings.
            features: of the inputs.
        """
        rows = np.array([self.coefficients[self.weights.index(weighting)] for weighting in weights])
        squares = (values.astype(np.float64) ** 2).mean(2)
        shared = np.einsum("bof,wf->wbo", features.stack(), rows[:, :-1])
        return np.sqrt(shared + squares * rows[:, -1][:, None, None])
