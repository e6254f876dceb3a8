from __future__ import annotations

import numpy as np
import pytest
import torch

from fwshapley.audit.cross_fitted import CrossFitted, mixture_weights
from fwshapley.audit.findings import duplicate_distance, find_confusions, find_duplicates, find_outliers, find_shared
from fwshapley.valuation.knn.neighbor_search import find_neighbors

POINTS = np.random.default_rng(0).normal(size=(300, 3))


@pytest.mark.parametrize("of_others", [False, True])
def test_neighbors_are_those_of_sorted_distances(*, of_others: bool) -> None:
    queries = np.random.default_rng(1).normal(size=(70, 3)) if of_others else None
    neighbors = find_neighbors(POINTS, 5, queries, progress=False)
    distances = np.linalg.norm((POINTS if queries is None else queries)[:, None] - POINTS, axis=2)
    if queries is None:
        np.fill_diagonal(distances, np.inf)
    order = np.argsort(distances, axis=1, kind="stable")[:, :5]
    assert (neighbors.indices.numpy() == order).all()
    assert np.allclose(neighbors.distances, np.take_along_axis(distances, order, axis=1))


def test_there_are_no_more_neighbors_than_points() -> None:
    assert find_neighbors(POINTS[:4], 10, progress=False).indices.shape == (4, 3)


def test_near_duplicates_form_groups_whose_labels_may_differ() -> None:
    x = POINTS.copy()
    x[7], x[8], x[20] = x[3], x[3] + 1e-6, x[19]
    labels = np.full(300, "cat", dtype=object)
    labels[8] = "dog"
    neighbors = find_neighbors(x, 4, progress=False)
    found = find_duplicates(neighbors, labels, duplicate_distance(neighbors))
    groups = found.groupby("group")["point"].apply(list).tolist()
    assert [3, 7, 8] in groups
    assert [19, 20] in groups
    assert found[found["labels_differ"]]["point"].tolist() == [3, 7, 8]
    assert len(found) < 20  # the others are apart


def test_outliers_are_far_from_all_others() -> None:
    x = POINTS.copy()
    x[11] = [9, 0, 0]
    x[12] = [0, 40, 0]
    found = find_outliers(find_neighbors(x, 5, progress=False))
    assert found["point"].tolist()[:2] == [12, 11]
    assert len(found) < 6
    assert found["distance"][0] > 10


def test_equal_points_have_no_outliers_and_are_all_duplicates() -> None:
    neighbors = find_neighbors(np.ones((20, 2)), 3, progress=False)
    assert len(find_outliers(neighbors)) == 0
    assert len(find_duplicates(neighbors, np.zeros(20, dtype=int), duplicate_distance(neighbors))) == 20


def test_shared_points_are_found_by_their_distance() -> None:
    others = np.concatenate([POINTS[[5, 90]], np.full((1, 3), 50.0)])
    shared = find_shared(find_neighbors(POINTS, 1, others, progress=False), 1e-3)
    assert shared[["other", "point"]].to_numpy().tolist() == [[0, 5], [1, 90]]


def test_confusions_count_expected_labels() -> None:
    posterior = np.array([[0.9, 0.1], [0.2, 0.8], [1.0, 0.0]])
    table = find_confusions(posterior, np.array([0, 0, 1]), np.array(["cat", "dog"]))
    assert table.to_numpy().tolist() == [[pytest.approx(1.1), pytest.approx(0.9)], [1, 0]]


def test_models_are_mixed_by_how_likely_they_make_held_out_labels() -> None:
    labels = np.array([0, 1] * 50)
    right = np.stack([0.9 - 0.8 * labels, 0.1 + 0.8 * labels], axis=1).astype(np.float32)
    folds = np.arange(100) % 2
    good, useless = (
        CrossFitted.of(name, np.stack([held_out] * 2), folds)
        for name, held_out in (("good", right), ("useless", np.full((100, 2), 0.5, dtype=np.float32)))
    )
    assert mixture_weights([good, useless], labels)[0] > 0.95


def test_what_models_say_is_divided_by_whether_they_were_trained_on_a_point() -> None:
    folds = np.array([0, 1, 2])
    probabilities = torch.rand(3, 3, 2, generator=torch.Generator().manual_seed(0)).softmax(2).numpy()
    said = CrossFitted.of("models", probabilities, folds)
    assert np.allclose(said.held_out, [probabilities[fold, fold] for fold in range(3)])
    assert np.allclose(said.trained[0], probabilities[1:, 0].mean(0))
    assert said.votes.sum(1).tolist() == [3, 3, 3]
