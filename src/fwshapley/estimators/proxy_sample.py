"""The coalitions that a proxy is fitted to and corrected with: stratified by size, and dealt into folds.

A unit is a coalition S or, if paired, S and its complement. Sizes whose share of the calls exceeds the number of their
coalitions are enumerated. Each other size that expects enough units is a stratum, drawn without replacement; sizes
that expect fewer share one, drawn with replacement. So every stratum has units in every fold, and a known number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from fwshapley.coalitions import draw_distinct, draw_of_sizes
from fwshapley.semivalues import Semivalue, proper_sizes

FOLDS = 5
MIN_UNITS = 2 * FOLDS
"""Fewest units of a stratum that is not exhausted."""

ENUMERATED = -1
"""Fold of the units of exhausted strata: every proxy is fitted to them."""


class Sample(NamedTuple):
    """Units in order of stratum."""

    heads: Bool[Tensor, "units n"]
    """S of each unit."""
    paired: bool
    stratum: Int[Tensor, " units"]
    fold: Int[Tensor, " units"]
    share: Float64[Tensor, " strata"]
    """Share of the stratum that has been drawn: 1 where all of it has, 0 if drawn with replacement."""
    size_share: Float64[Tensor, " units"]
    """Weight with which a coalition counts in the mean of its size: with these, means over sizes are unbiased."""

    @property
    def coalitions(self) -> Bool[Tensor, "rows n"]:
        """The coalitions of all units; a head is followed by its complement."""
        return torch.stack([self.heads, ~self.heads], 1).flatten(0, 1) if self.paired else self.heads

    def units_by_stratum(self) -> Int[Tensor, " strata"]:
        """Number of units of each stratum."""
        return self.stratum.bincount(minlength=len(self.share))


def proxy_size_law(weights: Sequence[Semivalue], n: int) -> Float64[Tensor, " {n}-1"]:
    """Law of the sizes 1..n-1 of the coalitions drawn: a mean over the weightings.

    For each it is half its least-squares law, and half the law under which all coalitions have the same influence on
    the correction, in mean square over players: proportional to sqrt(w(s-1)**2 / s + w(s)**2 / (n-s)).
    """
    sizes = torch.from_numpy(proper_sizes(n))
    law = torch.zeros_like(sizes)
    for semivalue in weights:
        joins = torch.from_numpy(semivalue.join_law(n))
        influence = (joins[:-1] ** 2 / sizes + joins[1:] ** 2 / (n - sizes)).sqrt()
        law += torch.from_numpy(semivalue.size_law(n)) + influence / influence.sum()
    return law / law.sum()


def draw_sample(law: Float64[Tensor, " sizes"], calls: int, *, paired: bool, generator: torch.Generator) -> Sample:
    """Draw as many units of the law as the calls allow, at least `MIN_UNITS` unless they are all there are."""
    n = len(law) + 1
    strata = _plan(law, calls // (2 if paired else 1), paired=paired)
    drawn = [_draw(stratum, n, paired=paired, generator=generator) for stratum in strata]
    device = generator.device
    counts = torch.tensor([stratum.units for stratum in strata], device=device)
    share = torch.tensor([stratum.share for stratum in strata], dtype=torch.float64, device=device)
    stratum = torch.arange(len(strata), device=device).repeat_interleave(counts)
    sampled = (share < 1)[stratum]
    start = torch.randint(FOLDS, (1,), generator=generator, device=device)
    fold = torch.where(sampled, (sampled.cumsum(0) + start) % FOLDS, ENUMERATED)
    heads, size_share = (torch.cat(parts) for parts in zip(*drawn, strict=True))
    return Sample(heads, paired, stratum, fold, share, size_share)


class _Stratum(NamedTuple):
    """Sizes of S, their shares of the units, and how many units to draw."""

    sizes: list[int]
    mass: Float64[Tensor, " sizes"]
    units: int
    share: float


def _plan(law: Float64[Tensor, " sizes"], units: int, *, paired: bool) -> list[_Stratum]:
    """Strata and their numbers of units."""
    n = len(law) + 1
    mass = (law + law.flip(0))[: n // 2] if paired else law
    capacity = [math.comb(n, size) for size in range(1, len(mass) + 1)]
    if paired and n % 2 == 0:  # otherwise each pair of halves would be counted twice
        mass = torch.cat([mass[:-1], mass[-1:] / 2])
        capacity[-1] //= 2
    sizes = [size for size in range(1, len(mass) + 1) if float(mass[size - 1]) > 0]
    units = min(units, sum(capacity[size - 1] for size in sizes))
    enumerated = _sizes_to_enumerate(sizes, mass, capacity, units)
    left = units - sum(capacity[size - 1] for size in enumerated)
    strata = [_Stratum([size], mass.new_ones(1), capacity[size - 1], 1.0) for size in enumerated]
    groups = _group([size for size in sizes if size not in enumerated], mass, left)
    of_group = torch.stack([mass[torch.tensor(group) - 1].sum() for group in groups]) if groups else mass[:0]
    ends = (of_group.cumsum(0) / of_group.sum() * left).round().diff(prepend=of_group.new_zeros(1))
    for group, count in zip(groups, ends.long().tolist(), strict=True):
        if len(group) == 1:
            available = capacity[group[0] - 1]
            strata.append(_Stratum(group, mass.new_ones(1), min(count, available), min(count / available, 1.0)))
        else:
            part = mass[torch.tensor(group) - 1]
            strata.append(_Stratum(group, part / part.sum(), count, 0.0))
    return strata


def _sizes_to_enumerate(
    sizes: list[int], mass: Float64[Tensor, " sizes"], capacity: list[int], units: int
) -> list[int]:
    """Sizes whose share of the units is all that they have; the others keep `MIN_UNITS` or nothing."""
    enumerated: list[int] = []
    left = units
    by_need = sorted(sizes, key=lambda size: capacity[size - 1] / float(mass[size - 1]))
    open_mass = math.fsum(float(mass[size - 1]) for size in sizes)
    for size in by_need:
        is_exhausted = left * float(mass[size - 1]) >= open_mass * capacity[size - 1] * (1 - 1e-9)
        rest = left - capacity[size - 1]
        if not (is_exhausted and rest >= 0) and len(enumerated) + 1 < len(sizes):
            break
        if rest < 0:
            break
        enumerated.append(size)
        left = rest
        open_mass -= float(mass[size - 1])
    while len(enumerated) < len(sizes) and left < MIN_UNITS and enumerated:
        left += capacity[enumerated.pop() - 1]
    return sorted(enumerated)


def _group(sizes: list[int], mass: Float64[Tensor, " sizes"], units: int) -> list[list[int]]:
    """Join sizes, in order, until each group expects `MIN_UNITS` and half a unit more, as numbers are rounded."""
    total = math.fsum(float(mass[size - 1]) for size in sizes)
    groups: list[list[int]] = []
    group: list[int] = []
    expected = 0.0
    for size in sizes:
        group.append(size)
        expected += units * float(mass[size - 1]) / total
        if expected >= MIN_UNITS + 1:
            groups.append(group)
            group, expected = [], 0.0
    if group and groups:
        groups[-1].extend(group)
    elif group:
        groups.append(group)
    return groups


def _draw(
    stratum: _Stratum, n: int, *, paired: bool, generator: torch.Generator
) -> tuple[Bool[Tensor, "units {n}"], Float64[Tensor, " units"]]:
    """Heads of a stratum, and the weights with which their coalitions count in the means of their sizes."""
    count = stratum.units
    if len(stratum.sizes) == 1:
        size = stratum.sizes[0]
        halves = paired and 2 * size == n  # the half with player 0 stands for both
        heads = draw_distinct(size - halves, count, n - halves, generator)
        if halves:
            heads = torch.cat([heads.new_ones(count, 1), heads], 1)
        return heads, torch.full((count,), 1 / (count * (1 + halves)), dtype=torch.float64, device=heads.device)
    mass = stratum.mass.to(generator.device)
    pick = torch.multinomial(mass, count, replacement=True, generator=generator)
    sizes = torch.tensor(stratum.sizes, device=generator.device)[pick]
    size_share = 1 / (mass[pick] * count)
    if paired:
        size_share = torch.where(2 * sizes == n, size_share / 2, size_share)
    return draw_of_sizes(sizes, n, generator), size_share
