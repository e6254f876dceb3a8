"""Orders of distances against exact arithmetic, where floats have few digits to spare."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from torch import Tensor

from fwshapley.valuation.knn.distances import (
    NEVER,
    SAMPLE,
    Metric,
    distances_by_product,
    distances_directly,
    farthest,
    nearest,
    orders,
    place,
    whole_keys,
)

Floats = NDArray[np.float64]
Keys = Callable[[Floats, Floats | None, Metric], Tensor]


def direct(x: Floats, references: Floats | None, metric: Metric) -> Tensor:
    places = place(x, references, metric)
    return distances_directly(torch.tensor(places.reference), torch.tensor(places.factor)).view(torch.int64)


def by_product(x: Floats, references: Floats | None, metric: Metric) -> Tensor:
    places = place(x, references, metric)
    return whole_keys(distances_by_product(torch.tensor(places.reference), torch.tensor(places.factor), places.scale))


both_ways = pytest.mark.parametrize("keys_of", [direct, by_product])


def order_of(keys: Tensor) -> Tensor:
    return orders(keys, keys.shape[1])


def exact_order(x: NDArray[Any], references: NDArray[Any]) -> Tensor:
    """By squared distance in rational numbers, then by index."""
    points, to = ([[Fraction(value) for value in row] for row in table.tolist()] for table in (x, references))
    distances = [[sum((a - b) ** 2 for a, b in zip(row, point, strict=True)) for point in points] for row in to]
    return torch.tensor([sorted(range(len(points)), key=row.__getitem__) for row in distances])


def normal(rows: int, columns: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=(rows, columns))


@both_ways
@pytest.mark.parametrize("columns", [1, 2, 7])
@pytest.mark.parametrize("offset", [0, 5, -1000, 10**8])
def test_ties_of_whole_numbers_go_to_the_lower_index(keys_of: Keys, columns: int, offset: int) -> None:
    generator = np.random.default_rng(columns)
    x = generator.integers(0, 4, (300, columns)) + offset  # many points coincide, and more are equally far
    references = generator.integers(0, 4, (20, columns)) + offset
    squares = ((references[:, None] - x) ** 2).sum(2)
    expected = np.stack([np.lexsort((np.arange(300), row)) for row in squares])
    found = order_of(keys_of(x.astype(np.float64), references.astype(np.float64), "euclidean"))
    assert torch.equal(found, torch.from_numpy(expected))


@both_ways
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_points_that_coincide_have_the_same_distance(keys_of: Keys, metric: Metric) -> None:
    once = normal(101, 5)
    x = np.concatenate([once, once[::-1], once])
    keys = keys_of(x, normal(30, 5, seed=1), metric)
    assert torch.equal(keys[:, :101], keys[:, 202:])
    assert torch.equal(keys[:, :101], keys[:, 101:202].flip(1))


@both_ways
def test_a_point_is_nearest_to_itself(keys_of: Keys) -> None:
    x = normal(200, 6)
    assert torch.equal(order_of(keys_of(x, None, "euclidean"))[:, 0], torch.arange(200))
    assert torch.equal(order_of(keys_of(x, x, "euclidean"))[:, 0], torch.arange(200))


TABLES = {
    "plain": normal(150, 3),
    "offset of 1e8": normal(150, 3) + 1e8,
    "columns of 1e6 and of 1": normal(150, 3) * [1e6, 1, 1e-3],
    "offset and scales": normal(150, 3) * [1e6, 1, 1e-3] + [1e12, -1e8, 1e3],
    "all far from 0 on one side": np.exp(normal(150, 3) * 3),
    "an outlier of 1e12": np.concatenate([normal(149, 3), [[1e12, 0, 0]]]),
    "outliers on both sides": np.concatenate([normal(148, 3), [[3e7, 0, 0], [-5e7, 0, 0]]]),
    "tiny": normal(150, 3) * 2.0**-300,
    "large": normal(150, 3) * 2.0**300,
    "single precision": normal(150, 3).astype(np.float32).astype(np.float64) + 100,
}


@both_ways
@pytest.mark.parametrize("name", TABLES)
def test_order_is_that_of_exact_arithmetic(keys_of: Keys, name: str) -> None:
    x = TABLES[name]
    references = x[:10] + normal(10, 3, seed=1) * np.median(np.abs(x - np.median(x, 0)), 0)
    assert torch.equal(order_of(keys_of(x, references, "euclidean")), exact_order(x, references))


@both_ways
def test_outliers_are_in_order_among_themselves(keys_of: Keys) -> None:
    x = np.concatenate([normal(100, 2), [[4e9, 0], [2e9, 0], [0, 1e9], [3e9, 0]]])
    assert order_of(keys_of(x, normal(5, 2, seed=1), "euclidean"))[:, -4:].tolist() == [[102, 101, 103, 100]] * 5


def test_points_on_the_same_step_of_a_large_column_are_told_apart_by_a_small_one() -> None:
    x, near = normal(150, 2), 40
    x[:, 0] = np.arange(150) % 3 * 1e6
    references = x[:10] + normal(10, 2, seed=1) * [0, 1]
    found = order_of(direct(x, references, "euclidean"))
    assert torch.equal(found[:, :near], exact_order(x, references)[:, :near])


@pytest.mark.parametrize("factor", [2.0**600, 2.0**-600])
def test_distances_that_no_float_can_hold_are_an_error(factor: float) -> None:
    x, references = normal(20, 3), normal(5, 3, seed=1)
    with pytest.raises(ValueError, match=r"squared distances .* (over|under)flow"):
        place(x * factor, references * factor, "euclidean")
    assert torch.equal(direct(x * factor, references * factor, "cosine"), direct(x, references, "cosine"))


@both_ways
def test_cosine_is_that_of_scipy(keys_of: Keys) -> None:
    x, references = normal(120, 4) + 1, normal(15, 4, seed=1)
    x *= 10.0 ** np.arange(120)[:, None].clip(max=6)  # lengths do not matter
    expected = cdist(references, x, "cosine").argsort(1, kind="stable")
    assert torch.equal(order_of(keys_of(x, references, "cosine")), torch.from_numpy(expected))


def test_the_zero_vector_has_no_direction() -> None:
    x, zero = normal(4, 2), normal(4, 2)
    zero[2] = 0
    with pytest.raises(ValueError, match=r"^x .* row 2"):
        place(zero, x, "cosine")
    with pytest.raises(ValueError, match=r"^reference\[0\] .* row 2"):
        place(x, zero, "cosine")


def test_all_points_in_one_place_are_in_order_of_index() -> None:
    x = np.full((50, 3), 0.1)
    for keys_of in (direct, by_product):
        assert torch.equal(order_of(keys_of(x, x[:2] + 5, "euclidean")), torch.arange(50).expand(2, -1))


# The nearest few, without sorting all

MANY = 5 * SAMPLE + 17
STRIDE = MANY // SAMPLE


def unsampled_lowest() -> Tensor:
    """Low keys only where the sample does not look."""
    keys = torch.full((MANY,), 10**6)
    keys[1::STRIDE] = torch.arange(len(keys[1::STRIDE])).flip(0)
    return keys


def sampled_lowest() -> Tensor:
    """Low keys only where the sample looks: it takes them for common."""
    keys = torch.arange(MANY) + 10**6
    keys[::STRIDE] = torch.arange(len(keys[::STRIDE])).flip(0)
    return keys


KEYS: dict[str, Callable[[], Tensor]] = {
    "random": lambda: torch.randint(0, 10**9, (MANY,), generator=torch.Generator().manual_seed(0)),
    "ties": lambda: torch.randint(0, 5, (MANY,), generator=torch.Generator().manual_seed(0)),
    "increasing": lambda: torch.arange(MANY),
    "decreasing": lambda: torch.arange(MANY).flip(0),
    "all equal": lambda: torch.zeros(MANY, dtype=torch.int64),
    "one out of the question": lambda: torch.arange(MANY).flip(0).index_fill(0, torch.tensor([MANY - 1]), NEVER),
    "low ones not in the sample": unsampled_lowest,
    "low ones in the sample": sampled_lowest,
    "few": lambda: torch.arange(30).flip(0),
}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("ranks", [1, 2, 6, 29, 300, MANY // 4, MANY // 2, MANY])
def test_the_nearest_few_are_the_first_of_all(name: str, ranks: int) -> None:
    keys = KEYS[name]()
    expected = torch.sort(keys, stable=True).indices[:ranks]
    assert torch.equal(nearest(keys, ranks), expected)
    assert torch.equal(orders(torch.stack([keys, keys.flip(0)]), ranks)[0], expected)


def test_the_farthest_is_the_last_of_all() -> None:
    generator = torch.Generator().manual_seed(0)
    keys = torch.randint(0, 3, (40, 9), generator=generator)  # many are equally far
    assert torch.equal(farthest(keys), orders(keys, 9)[:, -1])
    keys[torch.arange(40), torch.randint(0, 9, (40,), generator=generator)] = NEVER  # comes last, but is no player
    assert torch.equal(farthest(keys), orders(keys, 8)[:, -1])
