"""How good attributions are: inclusion and exclusion curves, and agreement with reference values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fwshapley.checks import check_whole

INPUTS_AT_ONCE = 1024

Evaluator = Callable[[Float[Tensor, "batch ..."], Bool[Tensor, "batch players"]], Float[Tensor, "batch classes"]]
"""Scores of the classes when only a coalition of each input is shown."""


def inclusion_curve(
    evaluator: Evaluator,
    x: Float[Tensor, "batch ..."],
    values: Float[Tensor, "batch players"],
    labels: Int[Tensor, " batch"],
    *,
    steps: int = 32,
) -> Float[Tensor, " {steps}+1"]:
    """Share of inputs that keep their label as the most important players are shown, from none to all."""
    return _curve(evaluator, x, _rank(values), labels, steps, hide=False)


def exclusion_curve(
    evaluator: Evaluator,
    x: Float[Tensor, "batch ..."],
    values: Float[Tensor, "batch players"],
    labels: Int[Tensor, " batch"],
    *,
    steps: int = 32,
) -> Float[Tensor, " {steps}+1"]:
    """Share of inputs that keep their label as the most important players are hidden, from none to all."""
    return _curve(evaluator, x, _rank(values), labels, steps, hide=True)


def area(curve: Float[Tensor, " points"], share: float = 1.0) -> float:
    """Mean height of the first share of a curve, by the trapezoid rule: its area, where the whole is as wide as 1."""
    points = round((len(curve) - 1) * share) + 1
    if points < 2:  # noqa: PLR2004 - the ends of one trapezoid
        raise ValueError(f"the first {share:g} of a curve of {len(curve)} points has no area; use more steps")
    return float(torch.trapezoid(curve[:points], dx=1 / (points - 1)))


def skill(area_of_interest: float, *, random: float, best: float) -> float:
    """Where an area lies between that of random orders (0) and that of the best known ones (1)."""
    if random == best:
        raise ValueError(f"random and best areas are both {best:g}: there is nothing to tell skill by")
    return (area_of_interest - random) / (best - random)


@dataclass(frozen=True)
class Agreement:
    """Agreement of estimates with reference values, both centred over players.

    Attributes:
        pearson: correlation over players, mean over inputs.
        pearson_10: its tenth percentile over inputs.
        nrmse: root of the summed squared error over the summed square of the references, pooled over inputs.
        level: mean error of the sum over players, relative to the mean size of that sum.
    """

    pearson: float
    pearson_10: float
    nrmse: float
    level: float


def measure_agreement(estimate: Float[Tensor, "batch players"], reference: Float[Tensor, "batch players"]) -> Agreement:
    """Compare the values of one output, input by input."""
    estimate, reference = estimate.double(), reference.double()
    e, r = (values - values.mean(1, keepdim=True) for values in (estimate, reference))
    tiny = torch.finfo(torch.float64).tiny
    correlation = (e * r).sum(1) / (e.norm(dim=1) * r.norm(dim=1)).clamp(min=tiny)
    totals = reference.sum(1)
    return Agreement(
        pearson=float(correlation.mean()),
        pearson_10=float(correlation.quantile(0.1)),
        nrmse=float(((e - r).square().sum() / r.square().sum().clamp(min=tiny)).sqrt()),
        level=float((estimate.sum(1) - totals).abs().mean() / totals.abs().mean().clamp(min=tiny)),
    )


def _rank(values: Float[Tensor, "batch players"]) -> Int[Tensor, "batch players"]:
    """Place of each player, the most important first; equals keep their order."""
    order = values.argsort(dim=1, descending=True, stable=True)
    places = torch.arange(values.shape[1], device=values.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, places)


def _curve(
    evaluator: Evaluator, x: Tensor, rank: Int[Tensor, "batch players"], labels: Tensor, steps: int, *, hide: bool
) -> Float[Tensor, " {steps}+1"]:
    kept = []
    for step in range(check_whole("steps", steps) + 1):
        first = rank < round(rank.shape[1] * step / steps)
        parts = zip(x.split(INPUTS_AT_ONCE), (~first if hide else first).split(INPUTS_AT_ONCE), strict=True)
        with torch.no_grad():
            chosen = torch.cat([evaluator(inputs, shown).argmax(1) for inputs, shown in parts])
        kept.append((chosen == labels).double().mean())
    return torch.stack(kept)
