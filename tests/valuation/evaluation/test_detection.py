from __future__ import annotations

from typing import Any

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.metrics import f1_score, roc_auc_score

from fwshapley.valuation.evaluation.detection import Detection, detection_curve, lower_cluster, measure_detection

VALUES = [0.3, -0.2, 0.1, -0.5, 0.4]
WRONG = [False, True, False, True, True]

few_values = st.lists(st.integers(-4, 4), min_size=2, max_size=12)


def spread(values: np.ndarray, lower: np.ndarray) -> float:
    """Sum of squared distances to the means of two clusters."""
    return sum(float(((part - part.mean()) ** 2).sum()) for part in (values[lower], values[~lower]) if part.size)


def test_the_curve_of_a_case_done_by_hand() -> None:
    # from the lowest: wrong, wrong, right, right, wrong
    assert detection_curve(VALUES, WRONG).tolist() == pytest.approx([0, 1 / 3, 2 / 3, 2 / 3, 2 / 3, 1])


def test_a_measurement_done_by_hand() -> None:
    # Of six pairs, the two lowest are below both right ones and the highest is above: 4 of 6. Of five points, 10 % are
    # none and 20 % are one. The clusters are {-0.5, -0.2} and the rest: both called are wrong, of three.
    found = measure_detection(VALUES, WRONG)
    assert (found.auroc, found.found_at_10, found.found_at_20, found.f1) == pytest.approx((4 / 6, 0, 1 / 3, 4 / 5))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([-1.0] * 2 + [1.0] * 18, Detection(auroc=1, found_at_10=1, found_at_20=1, f1=1)),
        ([1.0] * 2 + [-1.0] * 18, Detection(auroc=0, found_at_10=0, found_at_20=0, f1=0)),
    ],
    ids=["perfect", "upside down"],
)
def test_the_best_and_the_worst_values(values: list[float], expected: Detection) -> None:
    assert measure_detection(values, [True] * 2 + [False] * 18) == expected


def test_values_that_are_all_equal_detect_nothing() -> None:
    found = measure_detection(np.full(20, 0.1), [False] * 18 + [True] * 2)
    assert found == Detection(auroc=0.5, found_at_10=0, found_at_20=0, f1=0)


def test_equal_values_are_inspected_in_the_order_they_come_in() -> None:
    assert detection_curve([0.0] * 4, [False, True, False, True]).tolist() == [0, 0, 0.5, 0.5, 1]


@hypothesis.given(values=few_values, data=st.data())
def test_measures_are_those_of_scikit_learn(values: list[int], data: st.DataObject) -> None:
    n = len(values)
    wrong = data.draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(lambda wrong: 0 < sum(wrong) < n))
    found = measure_detection(values, wrong)
    assert found.auroc == pytest.approx(roc_auc_score(wrong, [-value for value in values]))
    assert found.f1 == pytest.approx(f1_score(wrong, lower_cluster(values).numpy(), zero_division=0))
    curve = detection_curve(values, wrong)
    assert curve[[0, -1]].tolist() == [0, 1]
    assert (curve.diff() >= 0).all()


@hypothesis.given(st.lists(st.integers(-4, 4), min_size=2, max_size=8))
def test_no_split_in_two_beats_the_clusters(values: list[int]) -> None:
    array, n = np.array(values, dtype=float), len(values)
    lower = lower_cluster(values).numpy()
    every_split = ((np.arange(1, 2**n - 1)[:, None] >> np.arange(n)) & 1).astype(bool)
    assert spread(array, lower) == pytest.approx(min(spread(array, split) for split in every_split))
    if np.ptp(array) == 0:
        assert not lower.any()
    else:
        assert array[lower].max() < array[~lower].min()


def test_the_clusters_are_those_of_kmeans() -> None:
    generator = np.random.default_rng(0)
    for _ in range(5):
        values = np.concatenate([generator.normal(-1, 0.6, 30), generator.normal(1, 1.0, 170)])
        means = KMeans(2, n_init=20, random_state=0).fit(values[:, None])
        assert (lower_cluster(values).numpy() == (means.labels_ == means.cluster_centers_.argmin())).all()


@hypothesis.given(few_values, st.sampled_from([1e-300, 1e-6, 1e6, 1e300]))
def test_clusters_do_not_depend_on_the_scale(values: list[int], scale: float) -> None:
    assert torch.equal(lower_cluster(values), lower_cluster(scale * np.array(values)))


def test_clusters_do_not_depend_on_the_level() -> None:
    values = torch.tensor([0.0, 1.0, 2.0, 7.0, 8.0]) / 1024
    assert lower_cluster(values.double() + 1e6).tolist() == [True, True, True, False, False]


def test_of_equally_good_splits_the_smaller_lower_cluster_is_taken() -> None:
    assert lower_cluster([2.0, 1.0, 3.0]).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        (np.array(VALUES)[::-1], np.array(WRONG)[::-1]),
        (torch.tensor(VALUES[::-1], dtype=torch.bfloat16, requires_grad=True), torch.tensor(WRONG[::-1])),
        (VALUES[::-1], [int(wrong) for wrong in WRONG[::-1]]),
    ],
    ids=["numpy", "torch", "list"],
)
def test_arrays_of_every_kind_will_do(values: Any, wrong: Any) -> None:  # noqa: ANN401 - any kind
    assert measure_detection(values, wrong) == measure_detection(VALUES, WRONG)


@pytest.mark.parametrize(
    ("values", "wrong", "message"),
    [
        ([1, float("nan"), float("inf")], [1, 0, 0], "values .*2 .*point 1"),
        ([[1, 2], [3, 4]], [1, 0], r"values .*\(2, 2\).*weightings"),
        ([], [], r"one number per point, got shape \(0,\)"),
        (["low", "high"], [1, 0], r"values must be an array of real numbers, got \['low'"),
        ([1, 2, 3], [1, 0], r"wrong .*3 .*\(2,\)"),
        ([1, 2, 3], [2, 0, 1], r"wrong must .*indices"),
        ([1, 2, 3], ["a", "b", "c"], r"wrong must be an array of real numbers, got \['a'"),
        ([1, 2, 3], [0, 0, 0], "wrong must be True"),
        ([1, 2, 3], [1, 1, 1], "wrong must be False"),
    ],
)
def test_errors_say_what_is_wrong(values: list[Any], wrong: list[Any], message: str) -> None:
    for measure in (measure_detection, detection_curve):
        with pytest.raises((TypeError, ValueError), match=message):
            measure(values, wrong)
