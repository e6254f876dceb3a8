import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from brute_force import all_coalitions
from fwshapley.coalitions import (
    draw_bernoulli,
    draw_distinct,
    draw_of_sizes,
    draw_permutations,
    draw_trusted_bernoulli,
    make_generator,
)

DRAWS = 20_000


def assert_frequencies(counts: Tensor, chances: Tensor) -> None:
    """Counts lie within four standard errors of what the chances, which are those of all outcomes, promise."""
    total = int(counts.sum())
    assert bool(((counts - total * chances).abs() <= 4 * (total * chances * (1 - chances)).sqrt()).all())


def codes(coalitions: Tensor) -> Tensor:
    """A number for each coalition."""
    return (coalitions * 2 ** torch.arange(coalitions.shape[1])).sum(1)


def counts_of(outcomes: Tensor, expected: int) -> Tensor:
    """How often each of the expected number of different rows or numbers occurs."""
    counts = outcomes.unique(dim=0, return_counts=True)[1]
    assert len(counts) == expected
    return counts


def uniform(outcomes: int) -> Tensor:
    return torch.full((outcomes,), 1 / outcomes)


# Permutations and coalitions


def test_permutations_are_uniform(generator: torch.Generator) -> None:
    assert_frequencies(counts_of(draw_permutations(DRAWS, 4, generator), 24), uniform(24))


def test_bernoulli_players_join_independently_with_probability_t(generator: torch.Generator) -> None:
    t = torch.tensor([0.1, 0.5, 0.8], dtype=torch.float64)
    coalitions = draw_bernoulli(t.repeat(DRAWS), 3, generator).unflatten(0, (DRAWS, 3))
    for which, chance in enumerate(t):
        masks = all_coalitions(3)
        chances = torch.where(masks, chance, 1 - chance).prod(1)
        counts = codes(coalitions[:, which]).bincount(minlength=8)
        assert_frequencies(counts[codes(masks)], chances)


def test_trusted_bernoulli_players_join_independently_with_probability_t(generator: torch.Generator) -> None:
    t = torch.tensor([[0.1, 0.5], [0.9, 0.3]])
    drawn = draw_trusted_bernoulli(t.expand(20_000, 2, 2), 4, generator).double()
    joined = drawn.mean(0)
    assert bool(((joined - t[..., None]).abs() < 4 * (t * (1 - t) / 20_000).sqrt()[..., None]).all())
    together = (drawn[..., 0] * drawn[..., 1]).mean(0)
    assert bool(((together - t**2).abs() < 4 * (t**2 * (1 - t**2) / 20_000).sqrt()).all())


def test_bernoulli_ends_are_nobody_and_everyone(generator: torch.Generator) -> None:
    nobody, everyone = draw_bernoulli(torch.tensor([0.0, 1.0]), 50, generator)
    assert not nobody.any()
    assert everyone.all()


def test_coalitions_have_the_sizes_asked_for(generator: torch.Generator) -> None:
    sizes = torch.arange(8).repeat(5)
    assert draw_of_sizes(sizes, 7, generator).sum(1).tolist() == sizes.tolist()


@pytest.mark.parametrize("size", [1, 2, 4])
def test_coalitions_of_one_size_are_uniform(size: int, generator: torch.Generator) -> None:
    coalitions = draw_of_sizes(torch.full((DRAWS,), size), 5, generator)
    available = math.comb(5, size)
    assert_frequencies(counts_of(codes(coalitions), available), uniform(available))


# Without replacement


@pytest.mark.parametrize(
    ("size", "count", "n"), [(3, 10, 8), (2, 28, 8), (3, 50, 40), (0, 1, 4), (4, 1, 4), (20, 300, 40)]
)
def test_distinct_coalitions_are_distinct_and_of_the_right_size(
    size: int, count: int, n: int, generator: torch.Generator
) -> None:
    coalitions = draw_distinct(size, count, n, generator)
    assert coalitions.sum(1).tolist() == [size] * count
    counts_of(coalitions, count)


@pytest.mark.parametrize("size", range(7))
def test_as_many_as_there_are_is_all_of_them(size: int, generator: torch.Generator) -> None:
    masks = all_coalitions(6)
    everything = codes(masks[masks.sum(1) == size])
    drawn = codes(draw_distinct(size, math.comb(6, size), 6, generator))
    assert drawn.sort().values.tolist() == everything.sort().values.tolist()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_distinct_coalitions_are_uniform_and_in_random_order(count: int, generator: torch.Generator) -> None:
    # For count = 1 and 2 numbers are drawn until enough differ, for 5 a permutation is cut.
    draws = torch.stack([codes(draw_distinct(2, count, 5, generator)) for _ in range(2000)])
    for position in range(count):
        assert_frequencies(counts_of(draws[:, position], 10), uniform(10))
    if count == 2:
        assert_frequencies(counts_of(draws, 90), uniform(90))


@pytest.mark.parametrize(("size", "n"), [(50, 100), (32, 65), (3, 1000), (997, 1000), (97, 100), (99, 100)])
def test_distinct_coalitions_of_many_players(size: int, n: int, generator: torch.Generator) -> None:
    coalitions = draw_distinct(size, 60, n, generator)
    assert coalitions.sum(1).tolist() == [size] * 60
    counts_of(coalitions, 60)


def test_more_than_there_are_is_refused(generator: torch.Generator) -> None:
    with pytest.raises(ValueError, match="only 10 coalitions of 2 among 5 players, not 11"):
        draw_distinct(2, 11, 5, generator)


# Generators


@pytest.mark.parametrize(
    "draw",
    [
        lambda g: draw_permutations(20, 6, g),
        lambda g: draw_bernoulli(torch.full((20,), 0.4), 6, g),
        lambda g: draw_distinct(3, 18, 6, g),
        lambda g: draw_distinct(3, 18, 60, g),
    ],
    ids=["permutations", "bernoulli", "distinct of few", "distinct of many"],
)
def test_draws_are_set_by_the_seed(draw: Callable[[torch.Generator], Tensor]) -> None:
    first, again, other = (draw(make_generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_generator_is_used_as_it_is(generator: torch.Generator) -> None:
    assert make_generator(generator) is generator


def test_a_generator_on_another_device_is_rejected(generator: torch.Generator) -> None:
    with pytest.raises(ValueError, match="the generator is on cpu, but coalitions are made on cuda"):
        make_generator(generator, "cuda")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("seed", "error"), [(-1, ValueError), (0.5, TypeError), (None, TypeError)])
def test_a_seed_is_a_whole_number(seed: int, error: type[Exception]) -> None:
    with pytest.raises(error, match="seed must be"):
        make_generator(seed)


@pytest.mark.parametrize("convert", [list, np.array, torch.tensor], ids=["list", "numpy", "torch"])
def test_draws_take_lists_numpy_and_torch(convert: Callable[[list[float]], Any]) -> None:
    def draw(as_given: Callable[[list[float]], Any]) -> list[Tensor]:
        generator = make_generator(3)
        return [
            draw_of_sizes(as_given([1, 2, 3]), 4, generator),
            draw_bernoulli(as_given([0.1, 0.9]), 4, generator),
        ]

    for converted, plain in zip(draw(convert), draw(torch.tensor), strict=True):
        assert torch.equal(converted, plain)


@pytest.mark.parametrize("sizes", [[7], [-1]])
def test_impossible_sizes_are_rejected(sizes: list[int], generator: torch.Generator) -> None:
    with pytest.raises(ValueError, match="sizes must lie between 0 and n=3"):
        draw_of_sizes(sizes, 3, generator)


@pytest.mark.parametrize("t", [1.5, -0.1, float("nan")])
def test_impossible_probabilities_are_rejected(t: float, generator: torch.Generator) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        draw_bernoulli([t], 3, generator)


def test_a_seed_too_large_for_a_generator_is_rejected() -> None:
    with pytest.raises(ValueError, match="seed must be at most"):
        make_generator(2**70)
