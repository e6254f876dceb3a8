"""Random coalitions and permutations. Each takes a `torch.Generator`, whose device is where they are made.

Keys are float64, so that ties are negligible. A coalition of a fixed size costs one argsort and a scatter; ranking with
a second argsort gives the same and costs more (benchmarks/experiments/estimator_accuracy.py).
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fwshapley._internal.checks import Array, check_seed, check_whole

MAX_RANK = 2**62
"""Above this many subsets, none is drawn twice in practice, and ranks no longer fit in an int64."""


def make_generator(seed: int | torch.Generator, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a generator on the device, seeded; a generator on that device is returned unchanged."""
    device = torch.device(device)
    if isinstance(seed, torch.Generator):
        if seed.device.type != device.type:
            raise ValueError(f"the generator is on {seed.device}, but coalitions are made on {device}")
        return seed
    return torch.Generator(device).manual_seed(check_seed(seed))


def draw_permutations(count: int, n: int, generator: torch.Generator) -> Int[Tensor, "{count} {n}"]:
    """Uniformly random orders of n players."""
    return _keys(count, n, generator).argsort(1)


def draw_bernoulli(t: Array, n: int, generator: torch.Generator) -> Bool[Tensor, "count {n}"]:
    """One coalition per entry of t: each player joins with that probability, independently."""
    probability = torch.as_tensor(t, device=generator.device)
    if not bool(((probability >= 0) & (probability <= 1)).all()):
        raise ValueError("t must be probabilities, between 0 and 1")
    return _keys(len(probability), n, generator) < probability[:, None]


def draw_trusted_bernoulli(
    t: Float[Tensor, " *batch"], n: int, generator: torch.Generator
) -> Bool[Tensor, "*batch {n}"]:
    """As `draw_bernoulli`, for the inner loop of training: unchecked, since a check waits for a GPU, and in float32."""
    return torch.rand(*t.shape, n, generator=generator, device=t.device) < t[..., None]


def draw_strata(
    count: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
) -> Float[Tensor, " {count}"]:
    """Uniform numbers in (0, 1), one in each of `count` equal parts, in random order."""
    strata = torch.randperm(count, generator=generator, device=generator.device)
    return (strata + torch.rand(count, generator=generator, device=generator.device, dtype=dtype)) / count


def draw_of_sizes(sizes: Array, n: int, generator: torch.Generator) -> Bool[Tensor, "count {n}"]:
    """One uniformly random coalition of each given size."""
    sizes = torch.as_tensor(sizes, device=generator.device)
    if not bool(((sizes >= 0) & (sizes <= n)).all()):
        raise ValueError(f"sizes must lie between 0 and n={n}")
    return draw_trusted_sizes(sizes, n, generator)


def draw_trusted_sizes(sizes: Int[Tensor, " count"], n: int, generator: torch.Generator) -> Bool[Tensor, "count {n}"]:
    """As `draw_of_sizes`, unchecked, since a check waits for a GPU."""
    order = draw_permutations(len(sizes), n, generator)
    first = torch.arange(n, device=generator.device) < sizes[:, None]
    return torch.empty_like(first).scatter_(1, order, first)


def draw_distinct(size: int, count: int, n: int, generator: torch.Generator) -> Bool[Tensor, "{count} {n}"]:
    """Different coalitions of one size, drawn without replacement, in random order."""
    available = math.comb(n, size)
    if count > available:
        raise ValueError(f"there are only {available} coalitions of {size} among {n} players, not {count}")
    if available > MAX_RANK:
        return draw_of_sizes(torch.full((count,), size), n, generator)
    if 2 * size > n:  # the few players outside are cheaper to draw, and their ranks are small
        return ~draw_distinct(n - size, count, n, generator)
    return _unrank(_draw_distinct_integers(available, count, generator), size, n)


def _draw_distinct_integers(available: int, count: int, generator: torch.Generator) -> Int[Tensor, " {count}"]:
    device = generator.device
    if available <= 4 * count:  # a permutation is cheaper than repeated draws for the last few
        return torch.randperm(available, generator=generator, device=device)[:count]
    drawn = torch.empty(0, dtype=torch.int64, device=device)
    while len(drawn) < count:  # only what is missing is added, so every set of `count` is equally likely
        more = torch.randint(available, (count - len(drawn),), generator=generator, device=device)
        drawn = torch.cat([drawn, more]).unique()
    return drawn[torch.randperm(count, generator=generator, device=device)]


def _unrank(ranks: Int[Tensor, " count"], size: int, n: int) -> Bool[Tensor, "count {n}"]:
    """Coalition of each rank, in the combinatorial number system: rank = C(c_1, 1) + ... + C(c_size, size)."""
    coalitions = torch.zeros(len(ranks), n, dtype=torch.bool, device=ranks.device)
    rows = torch.arange(len(ranks), device=ranks.device)
    for k in range(size, 0, -1):
        below = torch.tensor([math.comb(player, k) for player in range(n)], device=ranks.device)
        member = torch.searchsorted(below, ranks, right=True) - 1
        coalitions[rows, member] = True
        ranks = ranks - below[member]
    return coalitions


def _keys(count: int, n: int, generator: torch.Generator) -> Float[Tensor, "{count} {n}"]:
    shape = (check_whole("count", count, minimum=0), check_whole("n", n))
    return torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float64)
