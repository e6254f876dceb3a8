"""The objective for every weighting at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fwshapley.coalitions import draw_strata, draw_trusted_bernoulli
from fwshapley.games.masked_model import MaskedModel
from fwshapley.objectives.basis import HatBasis
from fwshapley.objectives.losses import multilinear_loss
from fwshapley.objectives.objective import PILOT_INPUTS, PILOT_MASKS, SMALLEST_LEVEL, Sample
from fwshapley.semivalues import Semivalue
from fwshapley.training.budget import Shard

BASIS = HatBasis()
SMALLEST_T = 1e-4


@dataclass(frozen=True)
class Multilinear:
    """Every weighting at once: psi(t) for t in (0, 1), where weightings are mixtures over t.

    The variance of a game differs by orders of magnitude between small and large t, and so would the loss. It is
    divided by a power of the loss that the empty explanation has at this t, the `level`; and the network's
    coefficients are in units that follow from the level, so that they are of one size for every t and every game.

    Attributes:
        basis: functions of t.
        evenness: that power; at 0 small t make up nearly all of the loss, at 1 every t counts the same.
        level: loss of the empty explanation at the knots of the basis, summed over outputs.
        unit: of the coefficients at the knots.
    """

    basis: HatBasis = BASIS
    evenness: float = 0.5
    level: tuple[float, ...] | None = None
    unit: tuple[float, ...] | None = None

    @property
    def maps(self) -> int:
        """Channels of the network per output of the model."""
        return self.basis.size

    def calibrate(self, masked: MaskedModel, x: Float[Tensor, "rows ..."], generator: torch.Generator) -> Multilinear:
        """Measure the loss of the empty explanation at the knots, on a few inputs."""
        few, levels = x[:PILOT_INPUTS], []
        for t in self.basis.knots(x).sigmoid().tolist():
            each = torch.full((len(few),), t, device=x.device)
            sample = _ask(masked, few, _draw_at(each, PILOT_MASKS, masked.n_players, generator), each)
            psi = torch.zeros(len(few), masked.n_players, sample.worth.shape[-1], device=x.device)
            levels.append(float(multilinear_loss(psi, sample.worth, sample.coalitions, each).mean()))
        floor = max(SMALLEST_LEVEL, 1e-6 * max(levels))  # where nothing happens, nothing is to be learned
        levels = [max(level, floor) for level in levels]
        unit = [math.sqrt(level / masked.n_players / sample.worth.shape[-1]) for level in levels]
        return replace(self, level=tuple(levels), unit=tuple(unit))

    def sample(
        self, masked: MaskedModel, x: Float[Tensor, "rows ..."], masks: int, generator: torch.Generator, shard: Shard
    ) -> Sample:
        """Draw a t for every input, and Bernoulli(t) coalitions."""
        t = draw_t(len(x), generator)
        coalitions = _draw_at(t, masks, masked.n_players, generator)
        return _ask(masked, shard.of(x), shard.of(coalitions), shard.of(t))

    def loss(self, out: Float[Tensor, "batch players channels"], sample: Sample) -> Float[Tensor, " batch"]:
        """Squared error at each input's t, up to a constant, in units that follow from the level there."""
        assert sample.t is not None  # noqa: S101 - of this objective's own making
        at = self.basis(sample.t).to(out.dtype)
        psi = torch.einsum("bnjo,bj->bno", self._coefficients(out), at * self._units(out))
        log_level = _constant(self.level or (1.0,) * self.maps, out.device, out.dtype).log()
        log_scale = self.evenness * (at @ log_level) + (1 - self.evenness) * log_level.mean()
        return multilinear_loss(psi, sample.worth, sample.coalitions, sample.t) / log_scale.exp()

    def mixtures(self, weights: Sequence[Semivalue], device: torch.device) -> Float[Tensor, "weights maps"]:
        """Moments of the basis under each weighting, in the units of the maps."""
        return _mixtures(self, tuple(weights), device)

    def contract(
        self, out: Float[Tensor, "batch players channels"], mixtures: Float[Tensor, "weights maps"]
    ) -> Float[Tensor, "weights batch players outputs"]:
        """Raw values: a dot product each."""
        return torch.einsum("wj,bnjo->wbno", mixtures, self._coefficients(out))

    def facts(self) -> dict[str, Any]:
        """Return everything about it, as JSON holds it."""
        return {"name": "multilinear", **asdict(self)}

    def _coefficients(self, out: Tensor) -> Float[Tensor, "batch players maps outputs"]:
        return out.unflatten(2, (self.maps, -1))

    def _units(self, out: Tensor) -> Float[Tensor, " maps"]:
        return _constant(self.unit or (1.0,) * self.maps, out.device, out.dtype)


def draw_t(count: int, generator: torch.Generator) -> Float[Tensor, " {count}"]:
    """Half uniform, half uniform in logit t so that both ends are seen; stratified, in random order."""
    u = draw_strata(count, generator)
    even, near_ends = 2 * u, torch.sigmoid((2 * BASIS.edge) * (2 * u - 1) - BASIS.edge)
    return torch.where(u < 1 / 2, even, near_ends).clamp(SMALLEST_T, 1 - SMALLEST_T)


@lru_cache(maxsize=64)  # copied to the device once: every copy would wait for it
def _constant(numbers: tuple[float, ...], device: torch.device, dtype: torch.dtype) -> Float[Tensor, " numbers"]:
    return torch.tensor(numbers, device=device, dtype=dtype)


@lru_cache(maxsize=64)  # one explanation after the other asks for the same
def _mixtures(
    objective: Multilinear, weights: tuple[Semivalue, ...], device: torch.device
) -> Float[Tensor, "weights maps"]:
    """How much of every map goes into each weighting."""
    moments = torch.stack([objective.basis.moments(each) for each in weights]).to(device, torch.float32)
    return moments * _constant(objective.unit or (1.0,) * objective.maps, device, moments.dtype)


def _draw_at(
    t: Float[Tensor, " batch"], masks: int, n: int, generator: torch.Generator
) -> Bool[Tensor, "batch {masks} {n}"]:
    return draw_trusted_bernoulli(t[:, None].expand(-1, masks), n, generator)


def _ask(masked: MaskedModel, x: Tensor, coalitions: Tensor, t: Tensor) -> Sample:
    return Sample(x, coalitions, masked(x, coalitions), t=t)
