"""Agreement of predicted values with exact ones."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from fwshapley._internal.correlation import pearson, spearman


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
        rmse = float((predicted - exact).square().mean().sqrt())
        return cls(len(predicted), float(pearson(predicted, exact)), float(spearman(predicted, exact)), rmse)
