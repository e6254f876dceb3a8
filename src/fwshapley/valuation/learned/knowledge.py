"""What is known of a network that values points: what it was taught, and how well it learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor

from fwshapley.semivalues import Semivalue
from fwshapley.valuation.knn.distances import Metric
from fwshapley.valuation.learned.quadrature import mixtures
from fwshapley.valuation.result import Valuation


@dataclass(frozen=True)
class Likeness:
    """How well a network's values agree with its teacher's, on points that it was not taught.

    Attributes:
        points: how many they are.
        pearson: correlation.
        spearman: correlation of ranks.
        rmse: root of the mean squared error, in units of the values.
    """

    points: int
    pearson: float
    spearman: float
    rmse: float

    @classmethod
    def between(cls, learned: Float64[Tensor, " points"], exact: Float64[Tensor, " points"]) -> Likeness:
        """Compare two lists of values."""
        ranks = [torch.from_numpy(rankdata(each.numpy())) for each in (learned, exact)]  # ties share a rank
        return cls(
            len(learned),
            pearson=_correlation(learned, exact),
            spearman=_correlation(*ranks),
            rmse=float((learned - exact).square().mean().sqrt()),
        )


def _correlation(one: Float64[Tensor, " points"], other: Float64[Tensor, " points"]) -> float:
    """Correlation, or 0 where one of them does not vary."""
    one, other = one - one.mean(), other - other.mean()
    return float((one * other).sum() / (one.norm() * other.norm()).clamp(min=torch.finfo(torch.float64).tiny))


@dataclass(frozen=True, eq=False)
class Known:
    """What a network was taught.

    Attributes:
        weights: weightings asked for.
        stacked: whether they were asked for as a list.
        every: whether it knows the values at every t, hence all mixtures over t.
        metric: of distances between points.
        classes: labels.
        names: of columns, where they have some.
        n: number of training points.
        references: number of reference points.
        provenance: how it came about.
    """

    weights: tuple[Semivalue, ...]
    stacked: bool
    every: bool
    metric: Metric
    classes: NDArray[Any]
    names: tuple[Any, ...] | None
    n: int
    references: int
    provenance: Mapping[str, Any]

    def mixtures(self, weights: list[Semivalue]) -> Float64[Tensor, "weights nodes"]:
        """Return how much of the network's values at each node goes into each weighting."""
        return mixtures(weights, self.n) if self.every else torch.ones(1, 1, dtype=torch.float64)

    def valuation(
        self, values: Float64[Tensor, "*weights n"], stderr: Float64[Tensor, "*weights n"], labels: Int64[Tensor, " n"]
    ) -> Valuation:
        """Return values under these weightings with all that is needed to read them."""
        return Valuation(
            values,
            stderr,
            list(self.weights) if self.stacked else self.weights[0],
            labels=labels,
            classes=tuple(map(str, self.classes.tolist())),
            references=self.references,
            error_bound=0.0,
            provenance=self.provenance,
        )

    def facts(self) -> dict[str, Any]:
        """Return everything about it, as JSON holds it."""
        return {
            **vars(self),
            "weights": [each.to_json() for each in self.weights],
            "classes": self.classes.tolist(),
            "names": None if self.names is None else list(map(str, self.names)),
            "provenance": dict(self.provenance),
        }

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Known:
        """Return what `facts` described."""
        weights = tuple(map(Semivalue.from_json, facts["weights"]))
        names = None if facts["names"] is None else tuple(facts["names"])
        return cls(**{**facts, "weights": weights, "classes": np.array(facts["classes"]), "names": names})
