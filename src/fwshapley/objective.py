"""Losses that turn the worth of sampled coalitions into attributions, with no ground truth.

Both are least squares whose minimiser over psi is the semivalue. In expectation their differences are differences of
squared error (docs/math.md, eq. 8), so models may be compared by their loss on shared coalitions.

An objective draws coalitions of a batch of inputs, asks what they are worth, and holds a network's output against the
answers. `Multilinear` learns psi(t) for every t, hence every weighting; `Kernel` learns one weighting up to a shift.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fwshapley.games.masking import MaskedModel
from fwshapley.networks.basis import HatBasis
from fwshapley.sampling import draw_trusted_bernoulli, draw_trusted_sizes
from fwshapley.training import Shard
from fwshapley.weights import Kernel as KernelKind
from fwshapley.weights import Semivalue

SumConstraint = Literal["centre", "normalise", "penalty", "none"]
"""How a network learns that its values sum to v(everyone) - v(nobody): it need not, since a loss centred by size does
not see a common shift; by such a shift, as FastSHAP; by a penalty in the loss; or not at all."""

BASIS = HatBasis()
PILOT_INPUTS, PILOT_MASKS = 128, 16
KNOTS, SPREAD_INPUTS, SPREAD_MASKS = 11, 64, 8
SMALLEST_LEVEL = 1e-12
SMALLEST_T = 1e-4


class Sample(NamedTuple):
    """Coalitions of some inputs, and what they are worth."""

    x: Float[Tensor, "batch ..."]
    coalitions: Bool[Tensor, "batch masks players"]
    worth: Float[Tensor, "batch masks outputs"]
    t: Float[Tensor, " batch"] | None = None
    """Probability of each player, for the multilinear objective."""
    ends: Float[Tensor, "batch 2 outputs"] | None = None
    """Worth of nobody and everyone, for a kernel objective that is not centred."""
    importance: Float[Tensor, " batch"] | None = None
    """What each input counts for, as its coalitions' size is drawn more or less often than by the law."""


@runtime_checkable
class Objective(Protocol):
    """What a network learns, and how its output is read."""

    @property
    def maps(self) -> int:
        """Channels of the network per output of the model."""
        ...

    def calibrate(self, masked: MaskedModel, x: Float[Tensor, "rows ..."], generator: torch.Generator) -> Self:
        """Return the objective in units of these inputs' games, so that the empty explanation has a loss of about 1."""
        ...

    def sample(
        self, masked: MaskedModel, x: Float[Tensor, "rows ..."], masks: int, generator: torch.Generator, shard: Shard
    ) -> Sample:
        """Draw coalitions of every input; ask what those of this process's share are worth."""
        ...

    def loss(self, out: Float[Tensor, "batch players channels"], sample: Sample) -> Float[Tensor, " batch"]:
        """Loss of a network's output on each input."""
        ...

    def mixtures(self, weights: Sequence[Semivalue], device: torch.device) -> Float[Tensor, "weights maps"]:
        """How much of every map goes into each weighting."""
        ...

    def contract(
        self, out: Float[Tensor, "batch players channels"], mixtures: Float[Tensor, "weights maps"]
    ) -> Float[Tensor, "weights batch players outputs"]:
        """Values that a network's output stands for, under the weightings that the mixtures are of."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return everything about it, as JSON holds it; `objective_from_facts` reads it."""
        ...


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
        floor = max(SMALLEST_LEVEL, 1e-6 * max(levels))  # where nothing happens, nothing is to be learnt
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


@dataclass(frozen=True)
class Kernel:
    """One weighting: the paper's weighted least squares under its size law, with an exact kernel.

    It determines values up to a common shift, which the sum v(everyone) - v(nobody) fixes. With "normalise" it is
    FastSHAP's, of any weighting. By default the coalitions of an input have one size (where the law is symmetric, they
    or their complements), and residuals are taken about their mean. The minimiser stays, as coalitions of a size differ
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
    constraint: SumConstraint = "centre"
    unit: float = 1.0
    level: float = 1.0
    spread: tuple[float, ...] | None = None

    maps = 1

    def calibrate(self, masked: MaskedModel, x: Float[Tensor, "rows ..."], generator: torch.Generator) -> Kernel:
        """Measure the loss of the empty explanation on a few inputs, and how it varies with size."""
        _law(self, masked.n_players, x.device)  # or say that there is none
        few = x[:PILOT_INPUTS]
        spread = self._measure_spread(masked, few[:SPREAD_INPUTS], generator) if self.constraint == "centre" else None
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
        if self.constraint == "centre":
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
                found[size] = math.sqrt(float(centred_loss(psi, worth, coalitions, paired=paired).mean()))
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
        return _is_symmetric(self, n) and masks % 2 == 0 and (masks > 2 or self.constraint != "centre")  # noqa: PLR2004 - a pair

    def _residual(self, psi: Float[Tensor, "batch players outputs"], sample: Sample) -> Float[Tensor, " batch"]:
        if self.constraint == "centre":
            assert sample.importance is not None  # noqa: S101 - of this objective's own making
            masks, n = sample.coalitions.shape[1:]
            loss = centred_loss(psi, sample.worth, sample.coalitions, paired=self._is_paired(n, masks))
            return sample.importance.to(loss.dtype) * loss
        assert sample.ends is not None  # noqa: S101 - of this objective's own making
        nobody, everyone = sample.ends.unbind(1)
        total = everyone - nobody
        if self.constraint == "normalise":
            psi = shift_to_total(psi, total)
        importance = torch.ones(sample.coalitions.shape[:2], device=psi.device, dtype=psi.dtype)
        residual = kernel_loss(psi, sample.worth - nobody[:, None], sample.coalitions, importance)
        if self.constraint == "penalty":
            residual = residual + (psi.sum(1) - total).square().sum(-1)
        return residual


def objective_from_facts(facts: Mapping[str, Any]) -> Multilinear | Kernel:
    """Return the objective whose `facts` were saved."""
    options = {name: value for name, value in facts.items() if name != "name"}
    if facts["name"] == "kernel":
        spread = None if facts.get("spread") is None else tuple(facts["spread"])
        return Kernel(**options | {"weights": Semivalue.from_json(facts["weights"]), "spread": spread})
    lists = {name: None if facts[name] is None else tuple(facts[name]) for name in ("level", "unit")}
    return Multilinear(**options | {"basis": HatBasis(**facts["basis"])} | lists)


def draw_strata(
    count: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
) -> Float[Tensor, " {count}"]:
    """Uniform numbers in (0, 1), one in each of `count` equal parts, in random order."""
    strata = torch.randperm(count, generator=generator, device=generator.device)
    return (strata + torch.rand(count, generator=generator, device=generator.device, dtype=dtype)) / count


def draw_t(count: int, generator: torch.Generator) -> Float[Tensor, " {count}"]:
    """Half uniform, half uniform in logit t so that both ends are seen; stratified, in random order."""
    u = draw_strata(count, generator)
    even, near_ends = 2 * u, torch.sigmoid((2 * BASIS.edge) * (2 * u - 1) - BASIS.edge)
    return torch.where(u < 1 / 2, even, near_ends).clamp(SMALLEST_T, 1 - SMALLEST_T)


def multilinear_loss(
    psi: Float[Tensor, "batch players outputs"],
    worth: Float[Tensor, "batch masks outputs"],
    coalitions: Bool[Tensor, "batch masks players"],
    t: Float[Tensor, " batch"],
) -> Float[Tensor, " batch"]:
    """Squared error of psi as an estimate of psi(t), up to a constant that does not depend on it.

    The masks of an input are independent Bernoulli(t). Centring the residuals over them removes the intercept:
    loss = sum over m of (r_m - mean r)**2 / ((M - 1) t (1 - t)), r_m = v(S_m) - sum of psi over S_m.
    """
    residual = worth - torch.einsum("bmn,bno->bmo", coalitions.to(psi.dtype), psi)
    variance = residual.var(dim=1, correction=1).sum(-1)
    return variance / (t * (1 - t))


def kernel_loss(
    psi: Float[Tensor, "batch players outputs"],
    gain: Float[Tensor, "batch masks outputs"],
    coalitions: Bool[Tensor, "batch masks players"],
    importance: Float[Tensor, "batch masks"],
) -> Float[Tensor, " batch"]:
    """Mean squared residual of v(S) - v(nobody) under a semivalue's size law: Proposition 2.1's objective."""
    residual = gain - torch.einsum("bmn,bno->bmo", coalitions.to(psi.dtype), psi)
    return (importance[..., None] * residual.square()).mean(1).sum(-1)


def centred_loss(
    psi: Float[Tensor, "batch players outputs"],
    worth: Float[Tensor, "batch masks outputs"],
    coalitions: Bool[Tensor, "batch masks players"],
    *,
    paired: bool,
) -> Float[Tensor, " batch"]:
    """As `kernel_loss` less what no psi of a given sum can change, if the masks of an input have one size.

    In complementary pairs only the difference of the two residuals depends on psi: half of it is what is centred.
    """
    residual = worth - torch.einsum("bmn,bno->bmo", coalitions.to(psi.dtype), psi)
    if paired:
        residual = (residual[:, ::2] - residual[:, 1::2]) / 2
    return residual.var(dim=1, correction=1).sum(-1)


def shift_to_total(
    psi: Float[Tensor, "*batch players outputs"], total: Float[Tensor, "*batch outputs"]
) -> Float[Tensor, "*batch players outputs"]:
    """Additive normalisation: shift psi by one constant per input and output so that it sums to total."""
    return psi + (total - psi.sum(-2))[..., None, :] / psi.shape[-2]


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


@lru_cache(maxsize=64)
def _ends(n: int, device: torch.device) -> Bool[Tensor, "2 {n}"]:
    """Nobody and everyone."""
    return torch.tensor([[False], [True]], device=device).expand(2, n)


@lru_cache(maxsize=64)
def _law(objective: Kernel, n: int, device: torch.device) -> Float[Tensor, " sizes"]:
    """Size law on the device."""
    if n == 1:
        raise ValueError("one player gets all of v(everyone) - v(nobody): there is nothing to learn by a kernel")
    return objective.weights.size_law(n, objective.kernel).to(device)


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
    law = objective.weights.size_law(n, objective.kernel)
    return bool(torch.isclose(law, law.flip(0)).all())


def _draw_at(
    t: Float[Tensor, " batch"], masks: int, n: int, generator: torch.Generator
) -> Bool[Tensor, "batch {masks} {n}"]:
    return draw_trusted_bernoulli(t[:, None].expand(-1, masks), n, generator)


def _ask(masked: MaskedModel, x: Tensor, coalitions: Tensor, t: Tensor) -> Sample:
    return Sample(x, coalitions, masked(x, coalitions), t=t)
