"""How good attributions are: inclusion and exclusion curves, and agreement with reference values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from fwshapley._internal.checks import check_callable, check_choice, check_kind, check_real, check_whole
from fwshapley._internal.tensors import check_classes, check_finite

INPUTS_AT_ONCE = 1024

Evaluator = Callable[[Float[Tensor, "batch ..."], Bool[Tensor, "batch players"]], Float[Tensor, "batch classes"]]
"""Scores of the classes when only a coalition of each input is shown."""

Score = Literal["kept", "probability"]
"""What a curve is of: whether the label has the highest score, or that score itself, where it is a probability."""


def inclusion_curve(
    evaluator: Evaluator,
    x: Float[Tensor, "batch ..."],
    values: Float[Tensor, "batch players"],
    labels: Int[Tensor, " batch"],
    *,
    steps: int = 32,
) -> Float[Tensor, " {steps}+1"]:
    """Share of inputs that keep their label as the most important players are shown, from none to all."""
    return inclusion_curves(evaluator, x, values, labels, steps=steps).mean(0)


def inclusion_curves(
    evaluator: Evaluator,
    x: Float[Tensor, "batch ..."],
    values: Float[Tensor, "batch players"],
    labels: Int[Tensor, " batch"],
    *,
    steps: int = 32,
    score: Score = "kept",
) -> Float[Tensor, "batch {steps}+1"]:
    """Curve of each input as its most important players are shown, from none to all.

    score="kept" is 1 where the input keeps its label and 0 elsewhere, so that curves of one input tie often;
    "probability" is the evaluator's score of the label.
    """
    return _curves(evaluator, x, values, labels, steps, hide=False, score=score)


def exclusion_curve(
    evaluator: Evaluator,
    x: Float[Tensor, "batch ..."],
    values: Float[Tensor, "batch players"],
    labels: Int[Tensor, " batch"],
    *,
    steps: int = 32,
) -> Float[Tensor, " {steps}+1"]:
    """Share of inputs that keep their label as the most important players are hidden, from none to all."""
    return exclusion_curves(evaluator, x, values, labels, steps=steps).mean(0)


def exclusion_curves(
    evaluator: Evaluator,
    x: Float[Tensor, "batch ..."],
    values: Float[Tensor, "batch players"],
    labels: Int[Tensor, " batch"],
    *,
    steps: int = 32,
    score: Score = "kept",
) -> Float[Tensor, "batch {steps}+1"]:
    """Curve of each input as its most important players are hidden, from none to all; scores as in inclusion_curves."""
    return _curves(evaluator, x, values, labels, steps, hide=True, score=score)


def area(curve: Float[Tensor, " points"], share: float = 1.0) -> float:
    """Mean height of the first share of a curve, by the trapezoid rule: its area, where the whole is as wide as 1."""
    curve, share = check_finite("curve", curve, axes=1), check_real("share", share)
    if not 0 < share <= 1:
        raise ValueError(f"share must be above 0 and at most 1, got {share:g}")
    points = round((len(curve) - 1) * share) + 1
    if points < 2:  # noqa: PLR2004 - the ends of one trapezoid
        raise ValueError(f"the first {share:g} of a curve of {len(curve)} points has no area; use more steps")
    return float(torch.trapezoid(curve[:points], dx=1 / (points - 1)))


def areas(curves: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
    """Mean height of each curve, by the trapezoid rule."""
    curves = check_finite("curves", curves, axes=2)
    if curves.shape[1] < 2:  # noqa: PLR2004 - the ends of one trapezoid
        raise ValueError("curves must be of two points or more, got one")
    return torch.trapezoid(curves, dx=1 / (curves.shape[1] - 1), dim=1)


def skill(area_of_interest: float, *, random: float, best: float) -> float:
    """Where an area lies between that of random orders (0) and that of the best known ones (1)."""
    low, high = check_real("random", random), check_real("best", best)
    if low == high:
        raise ValueError(f"random and best areas are both {best:g}: there is nothing to tell skill by")
    return (check_real("area_of_interest", area_of_interest) - low) / (high - low)


@dataclass(frozen=True)
class Agreement:
    """Agreement of estimates with reference values, both centered over players.

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
    estimate, reference = check_finite("estimate", estimate, axes=2), check_finite("reference", reference, axes=2)
    if estimate.shape != reference.shape:
        shapes = f"{tuple(estimate.shape)} and {tuple(reference.shape)}"
        raise ValueError(f"estimate and reference must be of the same shape, got {shapes}")
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


def _curves(
    evaluator: Evaluator,
    x: Tensor,
    values: Float[Tensor, "batch players"],
    labels: Int[Tensor, " batch"],
    steps: int,
    *,
    hide: bool,
    score: Score,
) -> Float[Tensor, "batch {steps}+1"]:
    check_choice("score", score, get_args(Score))
    check_callable("evaluator", evaluator)
    check_kind("x", x, Tensor)
    rank, labels = _rank(check_finite("values", values, axes=2)), check_classes("labels", labels)
    if not len(x) == len(rank) == len(labels):
        raise ValueError(
            f"x, values and labels must be of as many inputs, got {len(x)}, {len(rank)} and {len(labels)} of them"
        )
    points = []
    for step in range(check_whole("steps", steps) + 1):
        first = rank < round(rank.shape[1] * step / steps)
        shown = ~first if hide else first
        parts = zip(x.split(INPUTS_AT_ONCE), shown.split(INPUTS_AT_ONCE), labels.split(INPUTS_AT_ONCE), strict=True)
        with torch.no_grad():
            points.append(torch.cat([_score(evaluator(some, seen), own, score) for some, seen, own in parts]))
    return torch.stack(points, 1)


def _score(
    scores: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"], score: Score
) -> Float64[Tensor, " batch"]:
    _check_scores(scores, labels)
    if score == "kept":
        return (scores.argmax(1) == labels).double()
    return scores.gather(1, labels[:, None])[:, 0].double()


def _check_scores(scores: object, labels: Int[Tensor, " batch"]) -> None:
    """Raise an error unless an evaluator gave every input a score of every class."""
    if not isinstance(scores, Tensor) or scores.ndim != 2 or len(scores) != len(labels):  # noqa: PLR2004 - inputs, classes
        shape = f"shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else type(scores).__name__
        raise TypeError(f"the evaluator must return a tensor ({len(labels)} inputs, classes), got {shape}")
    if int(labels.max()) >= scores.shape[1]:
        raise ValueError(
            f"labels must be among the {scores.shape[1]} classes that the evaluator gives scores of, got "
            f"{int(labels.max())}"
        )
    if bool(scores.isnan().any()):
        raise ValueError("the evaluator gave scores that are not numbers (NaN)")
