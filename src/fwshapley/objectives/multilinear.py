"""The objective for every weighting at once, and the basis in which an explainer expands its values.

psi(x, t) = sum_j c_j(x) b_j(t): a network computes the coefficients c once. A weighting is then a dot product with its
moments E[b_j(t)] (docs/math.md, eq. 9), so any number of weightings costs one pass.
"""

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
from fwshapley.objectives.losses import MIN_LEVEL, PILOT_COALITIONS, PILOT_INPUTS, Sample, centered_loss
from fwshapley.semivalues import Semivalue
from fwshapley.training.batches import Shard

MOMENT_NODES = 256
MIN_T = 1e-4
MIN_RELATIVE_LEVEL = 1e-6
"""Smallest level of a knot, relative to the largest one."""


@dataclass(frozen=True)
class HatBasis:
    """Piecewise linear functions of logit t with `size` knots evenly spaced on [-edge, edge], constant beyond."""

    size: int = 12
    edge: float = 5.5

    def knots(self, like: Tensor) -> Float[Tensor, " {self.size}"]:
        """Logit t at which each function peaks, with the dtype and device of another tensor."""
        return torch.linspace(-self.edge, self.edge, self.size, device=like.device, dtype=like.dtype)

    def __call__(self, t: Float[Tensor, " *shape"]) -> Float[Tensor, "*shape {self.size}"]:
        """Value of every function at every t."""
        knots = self.knots(t)
        spacing = 2 * self.edge / (self.size - 1)
        position = torch.logit(t).clamp(-self.edge, self.edge)
        return (1 - (position[..., None] - knots).abs() / spacing).clamp(min=0)

    def moments(self, weights: Semivalue) -> Float[Tensor, " {self.size}"]:
        """Mean of every function under the semivalue's mixture over t."""
        return _moments(self, weights).clone()


BASIS = HatBasis()


@dataclass(frozen=True)
class Multilinear:
    """Every weighting at once: psi(t) for t in (0, 1), since a weighting is a mixture over t.

    The variance of a game, and with it the loss, differs by orders of magnitude between small and large t. The loss is
    therefore divided by a power of its `level` at this t, the loss of the empty explanation. Units of the network's
    coefficients follow from the level, so that coefficients are of order 1 for every t and every game.

    Attributes:
        basis: functions of t.
        evenness: that power. With 0, small t make up nearly all of the loss; with 1, every t counts the same.
        level: loss of the empty explanation at the knots of the basis, summed over outputs; set by `calibrate`.
        unit: unit of the coefficients at the knots; set by `calibrate`.
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
        """Return the objective with level and units measured on a few inputs."""
        few = x[:PILOT_INPUTS]
        levels = []
        for knot in self.basis.knots(x).sigmoid().tolist():
            t = few.new_full((len(few),), knot)
            sample = _sample_at(masked, few, t, PILOT_COALITIONS, generator=generator, shard=Shard())
            psi = torch.zeros(len(few), masked.n_players, sample.values.shape[-1], device=x.device)
            levels.append(float(multilinear_loss(psi, sample.values, sample.coalitions, t).mean()))
        floor = max(MIN_LEVEL, MIN_RELATIVE_LEVEL * max(levels))  # where the game does not vary, there is no signal
        levels = [max(level, floor) for level in levels]
        players = float(masked.counts(few).double().mean())
        unit = [math.sqrt(level / players / sample.values.shape[-1]) for level in levels]
        return replace(self, level=tuple(levels), unit=tuple(unit))

    def sample(
        self,
        masked: MaskedModel,
        x: Float[Tensor, "rows ..."],
        n_coalitions: int,
        generator: torch.Generator,
        shard: Shard,
    ) -> Sample:
        """Draw a t for every input, and Bernoulli(t) coalitions; evaluate those in this process's shard."""
        return _sample_at(masked, x, draw_t(len(x), generator), n_coalitions, generator=generator, shard=shard)

    def loss(self, out: Float[Tensor, "batch players channels"], sample: Sample) -> Float[Tensor, " batch"]:
        """Squared error at each input's t, up to a constant, in units that follow from the level there."""
        assert sample.t is not None  # noqa: S101 - `sample` sets it
        basis = self.basis(sample.t).to(out.dtype)
        psi = torch.einsum("bnjo,bj->bno", self._coefficients(out), basis * self._units(out))
        log_level = _constant(self.level or (1.0,) * self.maps, out.device, out.dtype).log()
        log_scale = self.evenness * (basis @ log_level) + (1 - self.evenness) * log_level.mean()
        return multilinear_loss(psi, sample.values, sample.coalitions, sample.t) / log_scale.exp()

    def mixtures(self, weights: Sequence[Semivalue], device: torch.device) -> Float[Tensor, "weights maps"]:
        """Moments of the basis under each weighting, in the units of the maps."""
        return _basis_mixtures(self, tuple(weights), device)

    def contract(
        self, out: Float[Tensor, "batch players channels"], mixtures: Float[Tensor, "weights maps"]
    ) -> Float[Tensor, "weights batch players outputs"]:
        """Raw values under the weightings of the mixtures: a dot product for each."""
        return torch.einsum("wj,bnjo->wbno", mixtures, self._coefficients(out))

    def facts(self) -> dict[str, Any]:
        """Return all fields, for JSON; `objective_from_facts` reads them."""
        return {"name": "multilinear", **asdict(self)}

    def _coefficients(self, out: Tensor) -> Float[Tensor, "batch players maps outputs"]:
        return out.unflatten(2, (self.maps, -1))

    def _units(self, out: Tensor) -> Float[Tensor, " maps"]:
        return _constant(self.unit or (1.0,) * self.maps, out.device, out.dtype)


def multilinear_loss(
    psi: Float[Tensor, "batch players outputs"],
    values: Float[Tensor, "batch coalitions outputs"],
    coalitions: Bool[Tensor, "batch coalitions players"],
    t: Float[Tensor, " batch"],
) -> Float[Tensor, " batch"]:
    """Squared error of psi as an estimate of psi(t), up to a constant that does not depend on psi.

    The M coalitions of an input are independent Bernoulli(t). Centering their residuals removes the intercept:
    loss = sum over m of (r_m - mean r)**2 / ((M - 1) t (1 - t)), r_m = v(S_m) - sum of psi over S_m.
    """
    return centered_loss(psi, values, coalitions, paired=False) / (t * (1 - t))


def draw_t(count: int, generator: torch.Generator) -> Float[Tensor, " {count}"]:
    """Half uniform, half uniform in logit t so that both ends are covered; stratified, in random order."""
    u = draw_strata(count, generator)
    near_ends = torch.sigmoid((2 * BASIS.edge) * (2 * u - 1) - BASIS.edge)
    return torch.where(u < 1 / 2, 2 * u, near_ends).clamp(MIN_T, 1 - MIN_T)


@lru_cache(maxsize=64)  # copied to the device once: every copy would synchronize with it
def _constant(numbers: tuple[float, ...], device: torch.device, dtype: torch.dtype) -> Float[Tensor, " numbers"]:
    return torch.tensor(numbers, device=device, dtype=dtype)


@lru_cache(maxsize=256)  # explanations mostly repeat the same weightings
def _moments(basis: HatBasis, weights: Semivalue) -> Tensor:
    t, mass = map(torch.from_numpy, weights.quadrature(MOMENT_NODES))
    return mass @ basis(t)


@lru_cache(maxsize=64)  # as above
def _basis_mixtures(
    objective: Multilinear, weights: tuple[Semivalue, ...], device: torch.device
) -> Float[Tensor, "weights maps"]:
    """Share of every map in each weighting."""
    moments = torch.stack([objective.basis.moments(weighting) for weighting in weights]).to(device, torch.float32)
    return moments * _constant(objective.unit or (1.0,) * objective.maps, device, moments.dtype)


def _sample_at(
    masked: MaskedModel, x: Tensor, t: Tensor, n_coalitions: int, *, generator: torch.Generator, shard: Shard
) -> Sample:
    """Draw Bernoulli coalitions of every input at its t, and evaluate those in the shard."""
    coalitions: Bool[Tensor, "batch coalitions players"] = draw_trusted_bernoulli(
        t[:, None].expand(-1, n_coalitions), masked.n_players, generator
    )
    x, t, coalitions = shard.of(x), shard.of(t), shard.of(coalitions)
    return Sample(x, coalitions, masked(x, coalitions), t=t)
