from __future__ import annotations

from typing import Any

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from fwshapley.valuation.evaluation.label_noise import flip_labels

THREE = np.repeat([0, 1, 2], 2000)
CONFUSION = np.array([[0, 0.3, 0.7], [1, 0, 0], [0.5, 0.5, 0]])


@hypothesis.given(
    codes=st.lists(st.integers(0, 4), min_size=2, max_size=40).filter(lambda codes: len(set(codes)) > 1),
    share=st.floats(0, 1),
    how=st.sampled_from(["uniform", "next"]),
    seed=st.integers(0, 99),
)
def test_the_share_asked_for_is_flipped_and_really_differs(codes: list[int], share: float, how: Any, seed: int) -> None:  # noqa: ANN401 - any way
    before = list(codes)
    labels, flipped = flip_labels(codes, share=share, how=how, seed=seed)
    assert codes == before
    assert flipped.sum() == round(share * len(codes))
    assert ((labels != np.array(codes)) == flipped).all()
    assert set(labels) <= set(codes)


def test_uniform_takes_every_other_class_alike() -> None:
    labels = flip_labels(THREE, share=1).labels
    for true in range(3):
        counts = np.bincount(labels[np.equal(THREE, true)], minlength=3)
        assert counts[true] == 0
        assert np.abs(np.delete(counts, true) - 1000).max() < 4 * (2000 / 4) ** 0.5


def test_next_is_the_next_class_in_sorted_order_and_the_first_after_the_last() -> None:
    assert flip_labels(["b", "a", "c", "b"], share=1, how="next").labels.tolist() == ["c", "b", "a", "c"]
    assert flip_labels([7, 30, 100], share=1, how="next").labels.tolist() == [30, 100, 7]


@pytest.mark.parametrize(
    "table", [CONFUSION, CONFUSION.tolist(), torch.tensor(CONFUSION)], ids=["numpy", "list", "torch"]
)
def test_a_table_says_what_a_flipped_label_becomes(table: Any) -> None:  # noqa: ANN401 - any kind
    labels = flip_labels(THREE, share=1, how=table).labels
    for true, chances in enumerate(CONFUSION):
        counts = np.bincount(labels[np.equal(THREE, true)], minlength=3)
        assert (np.abs(counts - 2000 * chances) <= 4 * (2000 * chances * (1 - chances)) ** 0.5).all()


def test_every_point_is_as_likely_to_be_flipped() -> None:
    times = sum(flip_labels([0, 0, 0, 0, 1], share=0.4, seed=seed).flipped.astype(int) for seed in range(1000))
    assert np.abs(times - 400).max() < 4 * (1000 * 0.4 * 0.6) ** 0.5


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        (["cat", "dog", "cat"], np.dtype("<U3")),
        (np.array(["cat", "dog"], dtype=object), np.dtype(object)),
        (np.array([1, 2], dtype=np.uint8), np.dtype(np.uint8)),
        (np.array([1.0, 2.0], dtype=np.float32), np.dtype(np.float32)),
        ([True, False], np.dtype(bool)),
        (torch.tensor([3, 5], dtype=torch.int16), torch.int16),
    ],
    ids=["text", "objects", "bytes", "floats", "booleans", "torch"],
)
def test_labels_keep_their_kind(labels: Any, dtype: object) -> None:  # noqa: ANN401 - any kind
    noisy, flipped = flip_labels(labels, share=1)
    assert noisy.dtype == dtype
    assert bool(flipped.all())
    assert type(flipped) is type(noisy) is (torch.Tensor if isinstance(labels, torch.Tensor) else np.ndarray)
    assert sorted(set(noisy.tolist())) == sorted(set(np.asarray(labels).tolist()))


def test_a_tensor_is_flipped_as_an_array_is() -> None:
    array, tensor = flip_labels(THREE, seed=3), flip_labels(torch.tensor(THREE), seed=3)
    assert array.labels.tolist() == tensor.labels.tolist()
    assert array.flipped.tolist() == tensor.flipped.tolist()


def test_the_seed_decides() -> None:
    first = flip_labels(THREE, seed=1)
    assert (first.labels == flip_labels(THREE, seed=1).labels).all()
    assert (first.flipped != flip_labels(THREE, seed=2).flipped).any()
    generator = np.random.default_rng(1)
    assert (first.labels == flip_labels(THREE, seed=generator).labels).all()
    assert (first.flipped != flip_labels(THREE, seed=generator).flipped).any()  # it has moved on


def test_probabilities_may_be_rounded() -> None:
    third = 0.3333333
    table = [[0, third, third, third], [third, 0, third, third], [third, third, 0, third], [third, third, third, 0]]
    assert flip_labels([0, 1, 2, 3], share=1, how=table).flipped.all()


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([0, 1], {"share": 1.1}, r"share must be between 0 and 1, got 1\.1"),
        ([0, 1], {"share": -0.1}, r"share must be between 0 and 1, got -0\.1"),
        ([0, 1], {"share": float("nan")}, "share must be finite"),
        ([], {}, "y must be a list"),
        ([1, 1], {}, "y must .*1"),
        ([[0, 1], [1, 0]], {}, r"y must be one label per point, 2 of them, got shape \(2, 2\)"),
        (["a", None], {}, "y .*1 missing labels.*row 1"),
        ([0.5, 1], {}, "y must be classes, got the real number 0.5"),
        ([0, 1], {"seed": -1}, "seed must be at least 0, got -1"),
        ([0, 1], {"how": "other"}, "how must be one of 'uniform', 'next'; got 'other'"),
        ([0, 1], {"how": [[0, 1]]}, r"each of the 2 classes of y, got shape \(1, 2\)"),
        ([0, 1], {"how": [["x", 1], [1, 0]]}, "'next' or a table of probabilities: could not convert"),
        ([0, 1], {"how": [[0, -1], [1, 0]]}, "how must .*negative"),
        ([0, 1], {"how": [[0, float("nan")], [1, 0]]}, "how must .*negative"),
        (["a", "b"], {"how": [[0, 1], [0.1, 0.9]]}, "how .*class b.*diagonal to 0"),
        (["a", "b"], {"how": [[0, 1], [0, 0]]}, "how .*class b"),
        (["a", "b"], {"how": [[0, 1], [0.5, 0]]}, "how .*class b sums to 0.5"),
    ],
)
def test_errors_say_what_is_wrong(labels: Any, options: dict[str, Any], message: str) -> None:  # noqa: ANN401 - any
    with pytest.raises(ValueError, match=message):
        flip_labels(labels, **options)


@pytest.mark.usefixtures("unchecked")
def test_errors_about_kinds() -> None:
    with pytest.raises(TypeError, match="seed must be a whole number, got None"):
        flip_labels([0, 1], seed=None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="share must be a number, got 'half'"):
        flip_labels([0, 1], share="half")  # type: ignore[arg-type]
