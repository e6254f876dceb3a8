"""Values found in many threads at once are those found one after the other, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

import fwshapley as fw
from fwshapley.valuation.knn.suggestions import suggest_labels

THREADS = 4
WEIGHTS = [fw.Shapley(), fw.Beta(4, 1)]


def blobs(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of three classes; other ones for each seed."""
    rng = np.random.default_rng(seed)
    y = np.arange(count) % 3
    return np.array([[0, 0], [2, 0], [0, 2]])[y] + rng.normal(size=(count, 2)), y


REFERENCE = blobs(140, 100)


@cache
def by_neighbors(utility: Any) -> fw.KNNValuator:  # noqa: ANN401 - of any kind
    return fw.KNNValuator(3, weights=WEIGHTS, utility=utility, progress=False).fit(*blobs(60, 0), REFERENCE)


@cache
def by_network() -> fw.AmortizedValuator:
    budget = fw.Budget(steps=5)
    return fw.AmortizedValuator(WEIGHTS, budget=budget, device="cpu", progress=False).fit(*blobs(60, 0), REFERENCE)


def value(seed: int, **options: Any) -> fw.Valuation:  # noqa: ANN401 - of any kind
    return fw.value_neighbors(*blobs(30, seed), REFERENCE, k=3, weights=WEIGHTS, progress=False, **options)


def retrain(seed: int, **options: Any) -> fw.Valuation:  # noqa: ANN401 - of any kind
    x, y = blobs(6, seed)
    valuator = fw.RetrainingValuator(KNeighborsClassifier(1), n_fits=70, progress=False, **options)
    return valuator.fit(x, y, blobs(12, 101)).result_


def value_unseen_anew(seed: int) -> fw.Valuation:
    """New points by an index that is made while others make theirs."""
    valuator = fw.KNNValuator(3, progress=False).fit(*blobs(30, seed), blobs(40, 102))
    return valuator.value(*blobs(10, 50))


def descend(seed: int) -> fw.Valuation:
    valuator = fw.RetrainingValuator(method="gradient", n_fits=8, progress=False)
    return valuator.fit(*blobs(6, seed), blobs(12, 101)).result_


CALLS: dict[str, Callable[[int], fw.Valuation]] = {
    "soft": value,
    "vote": lambda seed: value(seed, utility="vote"),
    "normalized": lambda seed: value(seed, utility="normalized", tolerance=1e-3),
    "by each other": lambda seed: fw.value_neighbors(*blobs(150, seed), n_jobs=2, progress=False),
    "KNNValuator.fit": lambda seed: fw.KNNValuator(3, progress=False).fit(*blobs(60, seed), REFERENCE).result_,
    "KNNValuator.value": lambda seed: by_neighbors("soft").value(*blobs(20, seed)),
    "KNNValuator.value of a vote": lambda seed: by_neighbors("vote").value(*blobs(20, seed)),
    "KNNValuator.value, an index each": value_unseen_anew,
    "AmortizedValuator.value": lambda seed: by_network().value(*blobs(20, seed)),
    "AmortizedValuator.value of another weighting": lambda seed: by_network().value(*blobs(20, seed), fw.Banzhaf()),
    "tmc": retrain,
    "beta": lambda seed: retrain(seed, method="beta"),
    "banzhaf": lambda seed: retrain(seed, method="banzhaf"),
    "leave_one_out": lambda seed: retrain(seed, method="leave_one_out"),
    "least_squares": lambda seed: retrain(seed, method="least_squares"),
    "gradient": descend,
}


def all_at_once(call: Callable[[int], Any]) -> list[Any]:
    """Results of a call for each seed, in threads that start together."""
    start = Barrier(THREADS)

    def work(seed: int) -> Any:  # noqa: ANN401 - of any kind
        start.wait()
        return call(seed)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, range(THREADS)))


@pytest.mark.parametrize("name", CALLS)
def test_threads_find_the_bits_of_one_call_after_another(name: str) -> None:
    call = CALLS[name]
    by_neighbors.cache_clear()  # so that threads meet a valuator without an index
    by_neighbors("vote" if "vote" in name else "soft")
    by_network()
    found = all_at_once(call)
    for seed, result in enumerate(found):
        expected = call(seed)
        assert torch.equal(result.values, expected.values)
        assert torch.equal(result.stderr, expected.stderr)
        assert result.provenance == expected.provenance


def test_threads_suggest_the_labels_of_one_call_after_another() -> None:
    def call(seed: int) -> Any:  # noqa: ANN401 - of any kind
        return suggest_labels(*blobs(60, seed), range(20))

    for seed, result in enumerate(all_at_once(call)):
        assert all(torch.equal(*pair) for pair in zip(result, call(seed), strict=True))


def test_valuations_of_different_kinds_may_run_at_once() -> None:
    calls = [CALLS[name] for name in ("soft", "vote", "least_squares", "AmortizedValuator.value")]
    expected = [call(0) for call in calls]
    before = torch.get_num_threads()
    found = all_at_once(lambda seed: calls[seed](0))
    assert torch.get_num_threads() == before
    assert all(torch.equal(*(each.values for each in pair)) for pair in zip(found, expected, strict=True))
