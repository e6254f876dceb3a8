"""Evidence on labels: what models and neighbors say of them, by point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float, Float32, Float64, Int64
from numpy import ndarray
from scipy.special import logit, ndtri

LEAST_CONFIDENCE = 1e-3
"""Confidence below which labels are equally suspicious: models are not that well calibrated."""

COMBINED = ("self_confidence", "trained_confidence", "training_margin", "neighbor_disagreement", "data_value")
"""Evidence that is combined. The normalized margin is not: it says that a label is wrong wherever two classes are
likely, and people are not wrong there as often as that. Nor is the agreement, which the others contain."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """What models and neighbors say of labels.

    Attributes:
        labels: class numbers.
        held_out: probabilities of the classes, by models that were not trained on the point.
        trained: probabilities by models that were trained on it, wrong label or not.
        margins: margin of the label while networks learned it, averaged over steps and networks.
        votes: how many models predict each class, trained on the point or not.
        neighbors: indices of the nearest neighbors.
        values: exact data values for prediction by nearest neighbors.
        model_weights: weight of each kind of model in the probabilities.
    """

    labels: Int64[ndarray, " n"]
    held_out: Float32[ndarray, "n classes"]
    trained: Float32[ndarray, "n classes"]
    margins: Float32[ndarray, " n"]
    votes: Int64[ndarray, "n classes"]
    neighbors: Int64[ndarray, "n k"]
    values: Float64[ndarray, " n"]
    model_weights: Mapping[str, float]

    def table(self) -> pd.DataFrame:
        """Return all evidence; a column for each kind."""
        rows = np.arange(len(self.labels))
        own = self.held_out[rows, self.labels].astype(np.float64)
        others = self.held_out.copy()
        others[rows, self.labels] = -1
        return pd.DataFrame(
            {
                "self_confidence": own,
                "normalized_margin": own - others.max(1),
                "trained_confidence": self.trained[rows, self.labels].astype(np.float64),
                "training_margin": self.margins.astype(np.float64),
                "neighbor_disagreement": (self.labels[self.neighbors] != self.labels[:, None]).mean(1),
                "data_value": self.values,
                "agreement": self.votes[rows, self.labels] / self.votes.sum(1),
            }
        )

    def suspicion(self) -> Float64[ndarray, "n kinds"]:
        """Return the evidence that is combined, on scales on which it adds up: the larger, the more suspicious."""
        table = self.table()
        columns = {
            "self_confidence": -_log_odds(table["self_confidence"].to_numpy()),
            "trained_confidence": -_log_odds(table["trained_confidence"].to_numpy()),
            "training_margin": -table["training_margin"].to_numpy(),
            "neighbor_disagreement": table["neighbor_disagreement"].to_numpy(),
            "data_value": -_normal_scores(table["data_value"].to_numpy()),
        }
        return np.stack([columns[name] for name in COMBINED], axis=1)


def _log_odds(confidence: Float[ndarray, " n"]) -> Float64[ndarray, " n"]:
    return logit(confidence.astype(np.float64).clip(LEAST_CONFIDENCE, 1 - LEAST_CONFIDENCE))


def _normal_scores(values: Float[ndarray, " n"]) -> Float64[ndarray, " n"]:
    """Return quantiles of the normal distribution in the order of the values; equal values share the mean rank."""
    ranks = pd.Series(values).rank().to_numpy()
    return ndtri((ranks - 0.5) / len(values))
