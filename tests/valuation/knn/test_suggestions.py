from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from fwshapley.valuation.knn.distances import Metric
from fwshapley.valuation.knn.suggestions import suggest_labels

LINE = np.array([[0.0], [1.0], [2.1], [3.3], [4.6], [6.0]])
LABELS = ["b", "a", "a", "b", "b", "a"]


@pytest.mark.parametrize(
    ("point", "k", "label", "votes"),
    [
        (0, 1, 0, 1),
        (0, 2, 0, 2),
        (0, 5, 0, 3),
        (3, 2, 0, 1),  # a tie of point 2 (a) and point 4 (b): point 2 is nearer
        (4, 2, 1, 1),  # a tie of point 3 (b) and point 5 (a): point 3 is nearer
        (5, 3, 1, 2),
    ],
)
def test_most_of_the_nearest_others_decide(point: int, k: int, label: int, votes: int) -> None:
    suggestions = suggest_labels(LINE, LABELS, [point], k=k)
    assert suggestions.labels.tolist() == [label]
    assert suggestions.votes.tolist() == [votes]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_neighbors_are_those_of_scikit_learn(metric: Metric) -> None:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(200, 3)), generator.integers(0, 2, 200)
    points = torch.arange(0, 200, 7)
    near = NearestNeighbors(n_neighbors=5, metric=metric).fit(x).kneighbors(return_distance=False)[points]
    expected = (y[near].mean(1) > 0.5).astype(int)
    suggestions = suggest_labels(x, y, points, k=5, metric=metric)
    assert suggestions.neighbors.tolist() == near.tolist()
    assert suggestions.labels.tolist() == expected.tolist()
    assert suggestions.votes.tolist() == (y[near] == expected[:, None]).sum(1).tolist()


def test_a_twin_is_another_point() -> None:
    assert suggest_labels([[0.0], [0.0], [1.0]], [0, 1, 0], [0, 1], k=1).labels.tolist() == [1, 0]


def test_no_points_get_no_suggestions() -> None:
    assert suggest_labels(LINE, LABELS, []).labels.shape == (0,)


def test_neighbors_must_be_there() -> None:
    with pytest.raises(ValueError, match=r"k must be at most 5, .*6"):
        suggest_labels(LINE, LABELS, [0], k=6)
