"""What is known of a network that values points: what it was taught, and how well it learnt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from numpy.typing import NDArray
from torch import Tensor

from fwshapley.valuation.distances import Metric
from fwshapley.valuation.learned.grid import mixtures
from fwshapley.weights import Semivalue


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
        ranks = [each.argsort().argsort().double() for each in (learned, exact)]
        return cls(
            len(learned),
            pearson=float(torch.corrcoef(torch.stack([learned, exact]))[0, 1]),
            spearman=float(torch.corrcoef(torch.stack(ranks))[0, 1]),
            rmse=float((learned - exact).square().mean().sqrt()),
        )


@dataclass(frozen=True, eq=False)
class Known:
    """What a network was taught.

    Attributes:
        weights: weightings asked for.
        stacked: whether they were asked for as a list.
        every: whether it knows the values at every t, hence all mixtures over t.
        metric: of distances between points.
        classes: labels.
        n: number of training points.
        references: number of reference points.
        provenance: how it came about.
    """

    weights: tuple[Semivalue, ...]
    stacked: bool
    every: bool
    metric: Metric
    classes: NDArray[Any]
    n: int
    references: int
    provenance: Mapping[str, Any]

    def mixtures(self, weights: list[Semivalue]) -> Float64[Tensor, "weights nodes"]:
        """Return how much of the network's values at each node goes into each weighting."""
        return mixtures(weights, self.n) if self.every else torch.ones(1, 1, dtype=torch.float64)

    def facts(self) -> dict[str, Any]:
        """Return everything about it, as JSON holds it."""
        return {
            **vars(self),
            "weights": [each.to_json() for each in self.weights],
            "classes": self.classes.tolist(),
            "provenance": dict(self.provenance),
        }

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Known:
        """Return what `facts` described."""
        weights = tuple(map(Semivalue.from_json, facts["weights"]))
        return cls(**{**facts, "weights": weights, "classes": np.array(facts["classes"])})
