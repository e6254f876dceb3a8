"""The compiled sort against a stable sort in double precision, and its sums against those of torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

import fwshapley as fw
from fwshapley.games.knn import Utility
from fwshapley.valuation.knn import engine, problem
from fwshapley.valuation.knn.loops import radix_sort, soft_values
from fwshapley.valuation.knn.loops.radix_sort import order_nearest
from fwshapley.valuation.knn.workspace import Scratch

Floats = NDArray[Any]
SEVERAL = [fw.Shapley(), fw.Beta(4, 1), fw.Banzhaf(0.2), fw.LeaveOneOut()]

DISTANCES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "uniform": lambda generator, n: generator.random(n),
    "many ties": lambda generator, n: generator.integers(0, 5, n).astype(np.float64),
    "all equal": lambda _, n: np.ones(n),
    "all zero": lambda _, n: np.zeros(n),
    "all infinite": lambda _, n: np.full(n, np.inf),
    "one infinite": lambda generator, n: np.where(np.arange(n) == n // 2, np.inf, generator.random(n)),
    "every scale": lambda generator, n: 10.0 ** generator.uniform(-300, 300, n),
    "huge": lambda generator, n: 1.7e308 + 1e300 * generator.random(n),
    "denormal": lambda generator, n: 5e-324 * generator.integers(0, 1000, n),
    "one far away": lambda generator, n: np.where(np.arange(n) == 0, 1e300, generator.random(n)),
    "far from the nearest, and close to each other": lambda generator, n: np.where(
        np.arange(n) < 0.01 * n, 0, 1 + 1e-15 * generator.integers(0, 99, n)
    ),
    "decreasing": lambda _, n: np.arange(n, 0, -1).astype(np.float64),
}


def order_of(distances: Floats, ranks: int) -> NDArray[np.int64]:
    order = np.empty(ranks, dtype=np.int64)
    order_nearest(distances, Scratch.of(len(distances)), order)
    return order


@pytest.mark.parametrize("name", DISTANCES)
@pytest.mark.parametrize("n", [1, 2, 2**11 - 1, 2**11, 2**11 + 1, 2**16])
def test_order_is_that_of_a_stable_sort(name: str, n: int) -> None:
    distances = DISTANCES[name](np.random.default_rng(n), n)
    expected = distances.argsort(kind="stable")
    for ranks in {1, min(n, 37), (n + 1) // 2, n}:
        np.testing.assert_array_equal(order_of(distances, ranks), expected[:ranks])


@given(
    arrays(np.float64, st.integers(1, 300), elements=st.floats(min_value=0, width=64).map(abs), fill=st.just(1.0)),
    st.integers(1, 300),
)
@example(np.array([0.0, 5e-324, np.inf, 5e-324, 0.0]), 5)
def test_any_distances_are_sorted(distances: Floats, ranks: int) -> None:
    expected = distances.argsort(kind="stable")[: min(ranks, len(distances))]
    np.testing.assert_array_equal(order_of(distances, len(expected)), expected)


def test_close_distances_are_sorted_by_all_their_bits() -> None:
    generator = np.random.default_rng(0)
    distances = np.where(np.arange(3000) < 30, 0, 1 + 1e-14 * generator.integers(0, 99, 3000))
    scratch = Scratch.of(3000)
    radix_sort._encode(distances, np.zeros(3000, np.int32), 1, scratch.words)  # type: ignore[no-untyped-call]  # noqa: SLF001 - what makes this case a special one
    assert len(np.unique(scratch.words)) <= 3  # an insertion sort would be quadratic
    np.testing.assert_array_equal(order_of(distances, 3000), distances.argsort(kind="stable"))


def points(kind: str, n: int, references: int, columns: int) -> tuple[NDArray[Any], ...]:
    """Points with labels in four classes, and reference points: numbers of any size, or small whole ones."""
    generator = np.random.default_rng(0)
    x = (
        generator.normal(size=(n + references, columns))
        if kind == "noise"
        else generator.integers(0, 3, (n + references, columns))
    )
    y = np.concatenate([np.arange(4), generator.integers(0, 4, n + references - 4)])
    return x[:n], y[:n], x[n:], y[n:]


@pytest.mark.parametrize("utility", ["soft", "normalized", "vote"])
@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("kind", ["noise", "ties"])
@pytest.mark.parametrize("references", [0, 40])
def test_compiled_loops_have_the_sums_of_torch(
    utility: Utility, kind: str, references: int, monkeypatch: pytest.MonkeyPatch, *, direct: bool
) -> None:
    x, y, x_reference, y_reference = points(kind, 70, 40, 4)
    reference = (x_reference, y_reference) if references else None
    monkeypatch.setattr(problem, "MAX_DIRECT", 2**28 if direct else 0)
    same = partial(torch.testing.assert_close, rtol=0, atol=1e-14 if utility == "vote" else 0)  # a vote adds otherwise
    for tolerance in (0.0, 0.01):
        found = []
        for pairs in (0, 2**60):
            monkeypatch.setattr(engine, "COMPILED_PAIRS", pairs)
            options: dict[str, Any] = {"utility": utility, "tolerance": tolerance, "n_jobs": 1, "progress": False}
            found.append(fw.value_neighbors(x, y, reference, weights=SEVERAL, k=3, **options))
        same(found[0].values, found[1].values)
        same(found[0].stderr ** 2, found[1].stderr ** 2)


def test_points_too_close_for_products_have_direct_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(300, 3))
    x[::2, 0] += 1e9  # products of the two clusters leave few digits for distances within one
    y = np.arange(300) % 3
    expected = fw.value_neighbors(x, y, (x[:9] + 0.1, y[:9]), progress=False)
    monkeypatch.setattr(problem, "MAX_DIRECT", 0)
    monkeypatch.setattr(engine, "COMPILED_PAIRS", 0)
    found = fw.value_neighbors(x, y, (x[:9] + 0.1, y[:9]), progress=False)
    torch.testing.assert_close(found.values, expected.values, rtol=0, atol=1e-12)


def test_long_problems_use_compiled_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise RuntimeError("compiled")

    monkeypatch.setattr(soft_values, "add_soft_values", fail)
    x, y, x_reference, y_reference = points("noise", 100, 40, 4)
    fw.value_neighbors(x, y, (x_reference, y_reference), progress=False)
    monkeypatch.setattr(engine, "COMPILED_PAIRS", 100 * 40)
    with pytest.raises(RuntimeError, match="compiled"):
        fw.value_neighbors(x, y, (x_reference, y_reference), progress=False)
