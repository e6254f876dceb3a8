"""Semivalues as sums over drawn coalitions, each of which says something about every player."""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from fwshapley.coalitions import draw_trusted_sizes
from fwshapley.semivalues import proper_sizes

Coalitions = Bool[Tensor, "coalitions players"]


class Sums(NamedTuple):
    """Coalitions, and how they count: r(S) by `inside` for the members of S, by `outside` for the others.

    The sums are unbiased for the semivalues of any game r that is zero for nobody and everyone; docs/math.md, eq. 12.
    """

    coalitions: Coalitions
    inside: Float64[Tensor, "weights coalitions"]
    outside: Float64[Tensor, "weights coalitions"]

    @classmethod
    def draw(
        cls,
        count: int,
        laws: Float64[Tensor, "weights players"],
        sizes: Float64[Tensor, " sizes"],
        generator: torch.Generator,
    ) -> Self:
        """Draw an even number of coalitions, sizes 1..n-1 by a law: one from each of as many strata of equal mass."""
        n = laws.shape[1]
        u = torch.rand(count, generator=generator, device=generator.device, dtype=torch.float64)
        u = (torch.arange(count, device=u.device) + u) / count
        mass = sizes.cumsum(0)
        s = 1 + torch.searchsorted(mass / mass[-1], u, right=True)
        drawn = count * sizes[s - 1]
        inside, outside = laws[:, s - 1] * n / s / drawn, -laws[:, s] * n / (n - s) / drawn
        return cls(draw_trusted_sizes(s, n, generator), inside, outside)

    def values(self, worth: Float64[Tensor, "coalitions outputs"]) -> Float64[Tensor, "weights players outputs"]:
        """Estimate the semivalues of a game from the worth of its coalitions."""
        base, step = self._terms(worth)
        return _sum_over_members(self.coalitions, step) + base.sum(1)[:, None]

    def variance(self, worth: Float64[Tensor, "coalitions outputs"]) -> Float64[Tensor, "weights players outputs"]:
        """Variance of the estimate, from the differences of coalitions in neighboring strata.

        A term is b + z a, z = 1 for members. For a pair, ((b1 - b2) + z1 a1 - z2 a2)**2 is summed without being held.
        """
        base, step = self._terms(worth)
        one, other = self.coalitions[0::2], self.coalitions[1::2]
        gap, a1, a2 = base[:, 0::2] - base[:, 1::2], step[:, 0::2], step[:, 1::2]
        alone = _sum_over_members(one, a1 * (a1 + 2 * gap)) + _sum_over_members(other, a2 * (a2 - 2 * gap))
        both = _sum_over_members(one & other, a1 * a2)
        return (alone - 2 * both + gap.square().sum(1)[:, None]).clamp(min=0)  # rounding may leave less than nothing

    def matter(self) -> Float64[Tensor, " coalitions"]:
        """How much variance a unit of squared error at each coalition adds, on average over players and weightings."""
        share = self.coalitions.double().mean(1)
        return (share * self.inside.square() + (1 - share) * self.outside.square()).mean(0)

    def _terms(self, worth: Float64[Tensor, "coalitions outputs"]) -> tuple[Tensor, Tensor]:
        """What a coalition adds for everyone, and what more for its members."""
        outside = self.outside[..., None] * worth
        return outside, self.inside[..., None] * worth - outside


def _sum_over_members(
    coalitions: Coalitions, terms: Float64[Tensor, "weights coalitions outputs"]
) -> Float64[Tensor, "weights players outputs"]:
    return torch.einsum("cn,wco->wno", coalitions.double(), terms)


def best_sizes(
    laws: Float64[Tensor, "weights players"], spread: Float64[Tensor, " sizes"]
) -> Float64[Tensor, " sizes"]:
    """Law of sizes 1..n-1 under which the sums vary least, for games whose worth at a size has a given spread.

    In proportion to the spread times the root of w(s-1)**2 n/s + w(s)**2 n/(n-s); over several weightings, the root of
    the mean of their squared laws.
    """
    n, s = laws.shape[1], torch.from_numpy(proper_sizes(laws.shape[1])).to(laws.device)
    each = spread * (laws[:, :-1].square() * n / s + laws[:, 1:].square() * n / (n - s)).sqrt()
    law = (each / each.sum(1, keepdim=True)).square().mean(0).sqrt()
    return law / law.sum()
