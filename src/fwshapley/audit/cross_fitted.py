"""What cross-fitted models say of points: those that were not trained on a point, and those that were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, Int64
from numpy import ndarray
from torch import Tensor

MIXING_STEPS = 100
LEAST_PROBABILITY = 1e-4
"""Models are not judged by how far below this their probability of a label is: some labels are wrong."""


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Predictions of models of one kind, each trained without the points of one fold.

    Attributes:
        kind: of the models.
        held_out: probabilities of the classes by the model that was not trained on the point.
        trained: mean probabilities by the models that were.
        votes: how many of the models predict each class.
        margins: margin of the label during training, averaged over steps and models; None if it was not recorded.
    """

    kind: str
    held_out: Float32[ndarray, "n classes"]
    trained: Float32[ndarray, "n classes"]
    votes: Int64[ndarray, "n classes"]
    margins: Float32[ndarray, " n"] | None

    @classmethod
    def of(
        cls,
        kind: str,
        probabilities: Float32[ndarray, "models n classes"],
        folds: Int64[ndarray, " n"],
        margins: Tensor | None = None,
    ) -> CrossFitted:
        """Return the predictions of models, of which model number f was trained without fold f."""
        count, n, classes = probabilities.shape
        held_out = probabilities[folds, np.arange(n)]
        trained = (probabilities.sum(0) - held_out) / (count - 1)
        votes = (probabilities.argmax(2)[..., None] == np.arange(classes)).sum(0)
        return cls(kind, held_out, trained, votes, None if margins is None else margins.numpy())


def mixture_weights(fitted: Sequence[CrossFitted], labels: Int64[ndarray, " n"]) -> Float64[ndarray, " kinds"]:
    """Return the weights of the mixture of all kinds of models under which the held-out labels are most likely.

    The likelihood is concave in the weights, and expectation maximization increases it in every step.
    """
    likelihoods = np.stack([kind.held_out[np.arange(len(labels)), labels] for kind in fitted], axis=1)
    likelihoods = likelihoods.astype(np.float64).clip(min=LEAST_PROBABILITY)
    weights = np.full(len(fitted), 1 / len(fitted))
    for _ in range(MIXING_STEPS):
        shares = likelihoods * weights
        weights = (shares / shares.sum(axis=1, keepdims=True)).mean(axis=0)
    return weights
