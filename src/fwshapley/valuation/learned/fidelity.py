"""Agreement of predicted values with exact ones."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from scipy.stats import rankdata
from torch import Tensor


@dataclass(frozen=True)
class ValuationFidelity:
    """Agreement of predicted values with exact ones.

    Attributes:
        n_points: number of points compared.
        pearson: correlation.
        spearman: rank correlation.
        rmse: root mean squared error, in units of the values.

    Example:
        >>> import torch
        >>> predicted, exact = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 2.0, 6.0])
        >>> round(ValuationFidelity.between(predicted, exact).spearman, 6)
        1.0
    """

    n_points: int
    pearson: float
    spearman: float
    rmse: float

    @classmethod
    def between(cls, predicted: Float[Tensor, " points"], exact: Float[Tensor, " points"]) -> ValuationFidelity:
        """Compare two lists of values."""
        predicted, exact = predicted.double(), exact.double()
        ranks = [torch.from_numpy(rankdata(values.numpy())) for values in (predicted, exact)]  # ties share a rank
        rmse = float((predicted - exact).square().mean().sqrt())
        return cls(len(predicted), _pearson(predicted, exact), _pearson(*ranks), rmse)


def _pearson(one: Float[Tensor, " points"], other: Float[Tensor, " points"]) -> float:
    """Return the correlation, or 0 if one of the lists is constant."""
    one, other = one - one.mean(), other - other.mean()
    return float((one * other).sum() / (one.norm() * other.norm()).clamp(min=torch.finfo(torch.float64).tiny))
