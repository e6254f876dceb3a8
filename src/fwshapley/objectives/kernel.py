"""The objective for one weighting: the paper's weighted least squares, and a less noisy form of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fwshapley.coalitions import draw_strata, draw_trusted_sizes
from fwshapley.games.masked_model import MaskedModel
from fwshapley.objectives.losses import (
    MIN_LEVEL,
    PILOT_COALITIONS,
    PILOT_INPUTS,
    Sample,
    centered_loss,
    residuals,
    shift_to_total,
)
from fwshapley.semivalues import KernelKind, Semivalue, proper_sizes
from fwshapley.training.batches import Shard

SumConstraint = Literal["center", "normalize", "penalty", "none"]
"""How the constraint that values sum to v(all players) - v(empty coalition) enters training: "center" needs none, since
a loss that is centered by size ignores a common shift; "normalize" shifts the values, as FastSHAP does; "penalty" adds
a penalty to the loss; "none" ignores it."""

KNOTS = 11
SPREAD_INPUTS = 64
SPREAD_COALITIONS = 8
"""Sizes, inputs and coalitions of each that the spread of residuals is measured with."""


@dataclass(frozen=True)
class Kernel:
    """One weighting: the paper's weighted least squares under its size law, with an exact kernel.

    It determines values up to a common shift, which the sum v(all players) - v(empty coalition) fixes. With
    constraint="normalize" it is FastSHAP's objective, for any weighting. By default ("center"), all coalitions of an
    input have one size (for a symmetric law: that size or its complement), and residuals are centered. The minimizer
    stays the same, since coalitions of one size differ in the players alone (docs/math.md, eq. 8a), while the main
    source of noise disappears: the growth of the game with size. Sizes are drawn more often if their residuals spread
    more, and get a smaller importance in return.

    Attributes:
        weights: the semivalue to learn.
        kernel: "exact", or the "paper"'s for comparison.
        constraint: how the constraint on the sum enters.
        unit: unit of the network's outputs; set by `calibrate`.
        level: loss of the empty explanation, summed over outputs; set by `calibrate`.
        spread: standard deviation of the empty explanation's residuals at some sizes, from the smallest on; set by
            `calibrate`.
    """

    weights: Semivalue
    kernel: KernelKind = "exact"
    constraint: SumConstraint = "center"
    unit: float = 1.0
    level: float = 1.0
    spread: tuple[float, ...] | None = None

    maps = 1

    def calibrate(self, masked: MaskedModel, x: Float[Tensor, "rows ..."], generator: torch.Generator) -> Kernel:
        """Return the objective with level, unit and spread measured on a few inputs."""
        if masked.count is not None:
            raise ValueError(
                "the kernel objective needs the same number of players in every input, and texts differ; pass "
                "objective='multilinear', which learns every weighting"
            )
        _law(self, masked.n_players)  # raises an error if there is no size law
        few = x[:PILOT_INPUTS]
        spread = self._measure_spread(masked, few[:SPREAD_INPUTS], generator) if self.constraint == "center" else None
        plain = replace(self, level=1.0, unit=1.0, spread=spread)
        sample = plain.sample(masked, few, PILOT_COALITIONS, generator, Shard())
        psi = torch.zeros(len(few), masked.n_players, sample.values.shape[-1], device=x.device)
        level = max(float(plain.loss(psi, sample).mean()), MIN_LEVEL)
        return replace(plain, level=level, unit=math.sqrt(level / masked.n_players / sample.values.shape[-1]))

    def sample(
        self,
        masked: MaskedModel,
        x: Float[Tensor, "rows ..."],
        n_coalitions: int,
        generator: torch.Generator,
        shard: Shard,
    ) -> Sample:
        """Draw coalitions by the size law, or with importances that correct for another law; evaluate the shard's.

        Coalitions of a symmetric law come in complementary pairs.
        """
        n = masked.n_players
        if self.constraint == "center":
            cumulative, importance = _proposal(self, n, generator.device)
            uniform = draw_strata(len(x), generator, torch.float64)
            steps = torch.searchsorted(cumulative, uniform, right=True).clamp(max=n - 2)
            coalitions = self._draw(1 + steps.repeat_interleave(n_coalitions), n, n_coalitions, generator)
            x, coalitions = shard.of(x), shard.of(coalitions)
            return Sample(x, coalitions, masked(x, coalitions), importance=shard.of(importance[steps]))
        law = _law(self, n).to(generator.device)
        sizes = 1 + torch.multinomial(law, len(x) * n_coalitions, replacement=True, generator=generator)
        coalitions = self._draw(sizes, n, n_coalitions, generator)
        x, coalitions = shard.of(x), shard.of(coalitions)
        ends = torch.tensor([[False], [True]], device=x.device).expand(len(x), -1, n)
        values = masked(x, torch.cat([coalitions, ends], 1))
        return Sample(x, coalitions, values[:, :-2], ends=values[:, -2:])

    def loss(self, out: Float[Tensor, "batch players channels"], sample: Sample) -> Float[Tensor, " batch"]:
        """Mean squared residual under the size law, in units of the level."""
        return self._residual(self.unit * out, sample) / self.level

    def mixtures(self, weights: Sequence[Semivalue], device: torch.device) -> Float[Tensor, "weights 1"]:
        """The unit, for the one weighting; raise ValueError for any other one."""
        other = [weighting for weighting in weights if weighting != self.weights]
        if other:
            raise ValueError(
                f"weights must be {self.weights}, the only weighting that this explainer was trained for, got "
                f"{other[0]}; train one with objective='multilinear' for every weighting"
            )
        return torch.full((len(weights), 1), self.unit, device=device)

    def contract(
        self, out: Float[Tensor, "batch players outputs"], mixtures: Float[Tensor, "weights 1"]
    ) -> Float[Tensor, "weights batch players outputs"]:
        """Values of the one weighting, up to a shift."""
        return mixtures[..., None, None] * out

    def facts(self) -> dict[str, Any]:
        """Return all fields, for JSON; `objective_from_facts` reads them."""
        return {"name": "kernel", **vars(self), "weights": self.weights.to_json()}

    def _measure_spread(self, masked: MaskedModel, x: Tensor, generator: torch.Generator) -> tuple[float, ...]:
        """Standard deviation of the residuals of the empty explanation at the knots."""
        n = masked.n_players
        paired = self._is_paired(n, SPREAD_COALITIONS)
        spread: dict[int, float] = {}
        for size in _knots(n):
            if paired and n - size in spread:  # the pairs of a size are those of its complement
                spread[size] = spread[n - size]
                continue
            sizes = torch.full((len(x) * SPREAD_COALITIONS,), size, device=generator.device)
            coalitions = self._draw(sizes, n, SPREAD_COALITIONS, generator)
            values = masked(x, coalitions)
            psi = torch.zeros(len(x), n, values.shape[-1], device=x.device)
            spread[size] = math.sqrt(float(centered_loss(psi, values, coalitions, paired=paired).mean()))
        return tuple(spread.values())

    def _draw(
        self, sizes: Int[Tensor, " drawn"], n: int, n_coalitions: int, generator: torch.Generator
    ) -> Bool[Tensor, "batch {n_coalitions} {n}"]:
        """Draw coalitions of these sizes; in pairs, every second one is the complement of the one before."""
        if not self._is_paired(n, n_coalitions):
            return draw_trusted_sizes(sizes, n, generator).unflatten(0, (-1, n_coalitions))
        coalitions = draw_trusted_sizes(sizes[::2], n, generator)
        return torch.stack([coalitions, ~coalitions], 1).flatten(0, 1).unflatten(0, (-1, n_coalitions))

    def _is_paired(self, n: int, n_coalitions: int) -> bool:
        """Whether coalitions come with their complements; a variance needs two pairs."""
        fewest = 4 if self.constraint == "center" else 2
        return n_coalitions % 2 == 0 and n_coalitions >= fewest and _is_symmetric(self, n)

    def _residual(self, psi: Float[Tensor, "batch players outputs"], sample: Sample) -> Float[Tensor, " batch"]:
        if sample.importance is not None:
            n_coalitions, n = sample.coalitions.shape[1:]
            loss = centered_loss(psi, sample.values, sample.coalitions, paired=self._is_paired(n, n_coalitions))
            return sample.importance.to(loss.dtype) * loss
        assert sample.ends is not None  # noqa: S101 - `sample` sets one of the two
        empty, full = sample.ends.unbind(1)
        if self.constraint == "normalize":
            psi = shift_to_total(psi, full - empty)
        residual = kernel_loss(psi, sample.values - empty[:, None], sample.coalitions)
        if self.constraint == "penalty":
            residual = residual + (psi.sum(1) - (full - empty)).square().sum(-1)
        return residual


@lru_cache(maxsize=64)
def kernel_loss(
    psi: Float[Tensor, "batch players outputs"],
    gain: Float[Tensor, "batch coalitions outputs"],
    coalitions: Bool[Tensor, "batch coalitions players"],
    importance: Float[Tensor, "batch coalitions"] | None = None,
) -> Float[Tensor, " batch"]:
    """Mean squared residual of v(S) - v(empty coalition) under a semivalue's size law: Proposition 2.1's objective."""
    residual = residuals(psi, gain, coalitions).square()
    return (residual if importance is None else importance[..., None] * residual).mean(1).sum(-1)


def _law(objective: Kernel, n: int) -> Float[Tensor, " sizes"]:
    """Size law, on the CPU."""
    if n == 1:
        raise ValueError(
            "players must be at least 2 for objective='kernel', got 1, which gets all of v(all players) - v(empty "
            "coalition); use objective='multilinear'"
        )
    return torch.from_numpy(objective.weights.size_law(n, objective.kernel))


@lru_cache(maxsize=64)
def _proposal(
    objective: Kernel, n: int, device: torch.device
) -> tuple[Float[Tensor, " sizes"], Float[Tensor, " sizes"]]:
    """Cumulative law by which sizes are drawn, and the importance of each that corrects for it.

    The gradient's noise at a size is the spread of its residuals times sqrt(s (n - s)) / n. Drawing sizes in proportion
    to that adds the least noise. Half are drawn by the size law itself, so that no importance exceeds 2.
    """
    law = _law(objective, n)
    noise = torch.ones_like(law)
    if objective.spread is not None:
        sizes = proper_sizes(n)
        knots = np.array(_knots(n), dtype=np.float64)
        spread = np.interp(np.log(sizes / (n - sizes)), np.log(knots / (n - knots)), objective.spread)
        noise = torch.from_numpy(spread * np.sqrt(sizes * (n - sizes)))
    mean = (law * noise).sum()
    share = (1 + noise / mean) / 2 if mean > 0 else torch.ones_like(law)
    cumulative = (law * share).cumsum(0)
    return (cumulative / cumulative[-1]).to(device), (1 / share).to(device)


def _knots(n: int) -> tuple[int, ...]:
    """Sizes at which spread is measured, denser towards both ends."""
    edge = math.log(max(n - 1, 1))
    return tuple((n * torch.linspace(-edge, edge, KNOTS).sigmoid()).round().int().unique().tolist())


@lru_cache(maxsize=64)
def _is_symmetric(objective: Kernel, n: int) -> bool:
    """Whether coalitions may be drawn with their complements."""
    law = _law(objective, n)
    return bool(torch.isclose(law, law.flip(0)).all())
