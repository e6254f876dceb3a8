"""Scores of labels other than data values: Data-OOB and self-confidence. A low score is suspect."""

from __future__ import annotations

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier


def out_of_bag(
    x: NDArray[np.float32], y: NDArray[np.int64], trees: int, seed: int, *, jobs: int = 1
) -> NDArray[np.float64]:
    """Share of the trees not trained on a point that predict its label: Data-OOB (Kwon & Zou, 2023)."""
    generator = np.random.default_rng(seed)
    drawn = [(generator.integers(0, len(y), len(y)), int(generator.integers(2**31))) for _ in range(trees)]
    right, asked = np.zeros(len(y)), np.zeros(len(y))
    for unseen, correct in joblib.Parallel(jobs)(joblib.delayed(_judge)(x, y, *each) for each in drawn):
        right[unseen] += correct
        asked[unseen] += 1
    return right / np.maximum(asked, 1)


def _judge(
    x: NDArray[np.float32], y: NDArray[np.int64], drawn: NDArray[np.int64], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Points that a tree was not trained on, and whether it predicts their labels."""
    unseen = np.setdiff1d(np.arange(len(y)), drawn)
    tree = DecisionTreeClassifier(random_state=seed).fit(x[drawn], y[drawn])
    return unseen, tree.predict(x[unseen]) == y[unseen]


def self_confidence(y: NDArray[np.int64], probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
    """Probability of the given label, by cleanlab; the probabilities should come from models that did not see it."""
    from cleanlab.rank import get_label_quality_scores  # noqa: PLC0415 - a machine with a GPU may lack it

    scores: NDArray[np.float64] = get_label_quality_scores(y, probabilities, method="self_confidence")
    return scores
