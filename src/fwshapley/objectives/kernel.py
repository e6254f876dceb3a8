"""The objective for one weighting: the paper's weighted least squares, and the same with less noise."""

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
from fwshapley.objectives.losses import centered_loss, kernel_loss, shift_to_total
from fwshapley.objectives.objective import PILOT_INPUTS, PILOT_MASKS, SMALLEST_LEVEL, Sample
from fwshapley.semivalues import Kernel as KernelKind
from fwshapley.semivalues import Semivalue
from fwshapley.training.budget import Shard

SumConstraint = Literal["center", "normalize", "penalty", "none"]
"""How a network learns that its values sum to v(everyone) - v(nobody): it need not, since a loss centered by size does
not see a common shift; by such a shift, as FastSHAP; by a penalty in the loss; or not at all."""

KNOTS, SPREAD_INPUTS, SPREAD_MASKS = 11, 64, 8


@dataclass(frozen=True)
class Kernel:
    """One weighting: the paper's weighted least squares under its size law, with an exact kernel.

    It determines values up to a common shift, which the sum v(everyone) - v(nobody) fixes. With "normalize" it is
    FastSHAP's, of any weighting. By default the coalitions of an input have one size (where the law is symmetric, they
    or their complements), and residuals are taken about their mean. The minimizer stays, as coalitions of a size differ
    in nothing but the players (docs/math.md, eq. 8a); but what makes the plain loss noisy, how a game grows with size,
    is gone. Sizes are drawn the more often the further their residuals spread, and count for less.

    Attributes:
        weights: the semivalue to learn.
        kernel: "exact", or "paper" for comparison.
        constraint: how the sum enters.
        unit: of the network's outputs.
        level: loss of the empty explanation, summed over outputs.
        spread: deviation of the empty explanation's residuals at some sizes, from the smallest on.
    """

    weights: Semivalue
    kernel: KernelKind = "exact"
    constraint: SumConstraint = "center"
    unit: float = 1.0
    level: float = 1.0
    spread: tuple[float, ...] | None = None

    maps = 1

    def calibrate(self, masked: MaskedModel, x: Float[Tensor, "rows ..."], generator: torch.Generator) -> Kernel:
        """Measure the loss of the empty explanation on a few inputs, and how it varies with size."""
        _law(self, masked.n_players, x.device)  # or say that there is none
        few = x[:PILOT_INPUTS]
        spread = self._measure_spread(masked, few[:SPREAD_INPUTS], generator) if self.constraint == "center" else None
        plain = replace(self, level=1.0, unit=1.0, spread=spread)
        sample = plain.sample(masked, few, PILOT_MASKS, generator, Shard())
        psi = torch.zeros(len(few), masked.n_players, sample.worth.shape[-1], device=x.device)
        level = max(float(plain.loss(psi, sample).mean()), SMALLEST_LEVEL)
        return replace(plain, level=level, unit=math.sqrt(level / masked.n_players / sample.worth.shape[-1]))

    def sample(
        self, masked: MaskedModel, x: Float[Tensor, "rows ..."], masks: int, generator: torch.Generator, shard: Shard
    ) -> Sample:
        """Draw coalitions by the size law, or so that its means are kept; in complementary pairs if it is symmetric."""
        n = masked.n_players
        if self.constraint == "center":
            cumulated, importance = _proposal(self, n, generator.device)
            places = draw_strata(len(x), generator, torch.float64)
            steps = torch.searchsorted(cumulated, places, right=True).clamp(max=n - 2)
            coalitions = self._draw(1 + steps.repeat_interleave(masks), n, masks, generator)
            x, coalitions, counts = (shard.of(each) for each in (x, coalitions, importance[steps]))
            return Sample(x, coalitions, masked(x, coalitions), importance=counts)
        law = _law(self, n, generator.device)
        sizes = 1 + torch.multinomial(law, len(x) * masks, replacement=True, generator=generator)
        coalitions = self._draw(sizes, n, masks, generator)
        x, coalitions = shard.of(x), shard.of(coalitions)
        ends = _ends(n, x.device).expand(len(x), -1, -1)
        worth = masked(x, torch.cat([coalitions, ends], 1))
        return Sample(x, coalitions, worth[:, :-2], ends=worth[:, -2:])

    def loss(self, out: Float[Tensor, "batch players channels"], sample: Sample) -> Float[Tensor, " batch"]:
        """Mean squared residual under the size law, in units of the level."""
        return self._residual(self.unit * out, sample) / self.level

    def mixtures(self, weights: Sequence[Semivalue], device: torch.device) -> Float[Tensor, "weights 1"]:
        """All of the one map, for the one weighting."""
        other = [each for each in weights if each != self.weights]
        if other:
            raise ValueError(
                f"this explainer was trained for {self.weights} alone, not for {other[0]}; train one with "
                "objective='multilinear' for every weighting"
            )
        return torch.full((len(weights), 1), self.unit, device=device)

    def contract(
        self, out: Float[Tensor, "batch players outputs"], mixtures: Float[Tensor, "weights 1"]
    ) -> Float[Tensor, "weights batch players outputs"]:
        """Values of the one weighting, up to a shift."""
        return mixtures[..., None, None] * out

    def facts(self) -> dict[str, Any]:
        """Return everything about it, as JSON holds it."""
        options = {name: getattr(self, name) for name in ("kernel", "constraint", "unit", "level", "spread")}
        return {"name": "kernel", "weights": self.weights.to_json(), **options}

    def _measure_spread(self, masked: MaskedModel, x: Tensor, generator: torch.Generator) -> tuple[float, ...]:
        """Deviation of the residuals of the empty explanation at the knots."""
        n, paired = masked.n_players, self._is_paired(masked.n_players, SPREAD_MASKS)
        found: dict[int, float] = {}
        for size in _knots(n):
            mirrored = n - size if paired else size  # pairs of one size are those of the other
            if mirrored not in found:
                sizes = torch.full((len(x) * SPREAD_MASKS,), size, device=generator.device)
                coalitions = self._draw(sizes, n, SPREAD_MASKS, generator)
                worth = masked(x, coalitions)
                psi = torch.zeros(len(x), n, worth.shape[-1], device=x.device)
                found[size] = math.sqrt(float(centered_loss(psi, worth, coalitions, paired=paired).mean()))
            else:
                found[size] = found[mirrored]
        return tuple(found.values())

    def _draw(
        self, sizes: Int[Tensor, " drawn"], n: int, masks: int, generator: torch.Generator
    ) -> Bool[Tensor, "batch {masks} {n}"]:
        """Coalitions of these sizes; in pairs, every second is the complement of the one before, whatever its size."""
        if not self._is_paired(n, masks):
            return draw_trusted_sizes(sizes, n, generator).unflatten(0, (-1, masks))
        coalitions = draw_trusted_sizes(sizes[::2], n, generator)
        return torch.stack([coalitions, ~coalitions], 1).flatten(0, 1).unflatten(0, (-1, masks))

    def _is_paired(self, n: int, masks: int) -> bool:
        """Whether coalitions come with their complements; two pairs are needed to tell them from their mean."""
        return _is_symmetric(self, n) and masks % 2 == 0 and (masks > 2 or self.constraint != "center")  # noqa: PLR2004 - a pair

    def _residual(self, psi: Float[Tensor, "batch players outputs"], sample: Sample) -> Float[Tensor, " batch"]:
        if self.constraint == "center":
            assert sample.importance is not None  # noqa: S101 - of this objective's own making
            masks, n = sample.coalitions.shape[1:]
            loss = centered_loss(psi, sample.worth, sample.coalitions, paired=self._is_paired(n, masks))
            return sample.importance.to(loss.dtype) * loss
        assert sample.ends is not None  # noqa: S101 - of this objective's own making
        nobody, everyone = sample.ends.unbind(1)
        total = everyone - nobody
        if self.constraint == "normalize":
            psi = shift_to_total(psi, total)
        importance = torch.ones(sample.coalitions.shape[:2], device=psi.device, dtype=psi.dtype)
        residual = kernel_loss(psi, sample.worth - nobody[:, None], sample.coalitions, importance)
        if self.constraint == "penalty":
            residual = residual + (psi.sum(1) - total).square().sum(-1)
        return residual


@lru_cache(maxsize=64)
def _ends(n: int, device: torch.device) -> Bool[Tensor, "2 {n}"]:
    """Nobody and everyone."""
    return torch.tensor([[False], [True]], device=device).expand(2, n)


@lru_cache(maxsize=64)
def _law(objective: Kernel, n: int, device: torch.device) -> Float[Tensor, " sizes"]:
    """Size law on the device."""
    if n == 1:
        raise ValueError(
            "one player gets all of v(everyone) - v(nobody): there is nothing to learn; take objective='multilinear'"
        )
    return torch.from_numpy(objective.weights.size_law(n, objective.kernel)).to(device)


@lru_cache(maxsize=64)
def _proposal(
    objective: Kernel, n: int, device: torch.device
) -> tuple[Float[Tensor, " sizes"], Float[Tensor, " sizes"]]:
    """How often sizes up to each are drawn, and what each counts for so that the law is kept.

    The gradient of a size is as noisy as its residuals spread, times sqrt(s (n - s)) / n. Drawn in proportion to that
    a size adds the least noise. Half are drawn by the law itself, so that none counts for more than twice as much.
    """
    law = _law(objective, n, torch.device("cpu"))
    sizes = torch.arange(1, n, dtype=torch.float64)
    noise = torch.ones_like(law)
    if objective.spread is not None:
        places = torch.tensor(_knots(n), dtype=torch.float64)
        spread = np.interp(torch.logit(sizes / n), torch.logit(places / n), objective.spread)
        noise = torch.from_numpy(spread) * (sizes * (n - sizes)).sqrt()
    mean = (law * noise).sum()
    share = (1 + noise / mean) / 2 if mean > 0 else torch.ones_like(law)
    cumulated = (law * share).cumsum(0)
    return (cumulated / cumulated[-1]).to(device), (1 / share).to(device)


def _knots(n: int) -> tuple[int, ...]:
    """Sizes at which spread is measured, denser towards both ends."""
    edge = math.log(max(n - 1, 1))
    return tuple((n * torch.linspace(-edge, edge, KNOTS).sigmoid()).round().int().unique().tolist())


@lru_cache(maxsize=64)
def _is_symmetric(objective: Kernel, n: int) -> bool:
    """Whether coalitions may be drawn with their complements."""
    law = torch.from_numpy(objective.weights.size_law(n, objective.kernel))
    return bool(torch.isclose(law, law.flip(0)).all())
