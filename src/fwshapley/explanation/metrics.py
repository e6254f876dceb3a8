"""How good attributions are: inclusion and exclusion curves, and agreement with reference values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from fwshapley._internal.checks import check_callable, check_choice, check_kind, check_real, check_whole
from fwshapley._internal.correlation import pearson
from fwshapley._internal.tensor_checks import check_classes, check_finite

INPUTS_AT_ONCE = 1024

Evaluator = Callable[[Float[Tensor, "batch ..."], Bool[Tensor, "batch players"]], Float[Tensor, "batch classes"]]
"""Scores of the classes for inputs of which only a coalition is shown."""

Score = Literal["kept", "probability"]
"""Height of a curve: 1 if the label has the highest score, else 0; or the score of the label itself."""

_TINY = torch.finfo(torch.float64).tiny


def inclusion_curve(
    evaluator: Evaluator,
    x: Float[Tensor, "batch ..."],
    values: Float[Tensor, "batch players"],
    labels: Int[Tensor, " batch"],
    *,
    steps: int = 32,
) -> Float[Tensor, " {steps}+1"]:
    """Share of inputs that keep their label as the most important players are shown, from none to all.

    Args:
        evaluator: scores of the classes given (inputs, coalitions).
        x: the inputs.
        values: of the players of each input.
        labels: class of each input.
        steps: number of points after the first.

    Example:
        >>> evaluator = lambda x, shown: torch.stack([shown[:, 0].float(), torch.full((len(x),), 0.5)], 1)
        >>> x, values, labels = torch.zeros(1, 2), torch.tensor([[3.0, 1.0]]), torch.tensor([0])
        >>> fw.explanation.metrics.inclusion_curve(evaluator, x, values, labels, steps=2).tolist()
        [0.0, 1.0, 1.0]
    """
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

    Args:
        evaluator: scores of the classes given (inputs, coalitions).
        x: the inputs.
        values: of the players of each input.
        labels: class of each input.
        steps: number of points after the first.
        score: "kept" is 1 if the input keeps its label, else 0; "probability" is the score of the label, which ties
            less often.
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
    """Share of inputs that keep their label as the most important players are hidden; see `inclusion_curve`."""
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
    """Curve of each input as its most important players are hidden, from none to all; see `inclusion_curves`."""
    return _curves(evaluator, x, values, labels, steps, hide=True, score=score)


def area(curve: Float[Tensor, " points"], share: float = 1.0) -> float:
    """Mean height of the first share of a curve, by the trapezoid rule.

    Example:
        >>> fw.explanation.metrics.area(torch.tensor([0.0, 1.0, 1.0]))
        0.75
    """
    curve, share = check_finite("curve", curve, axes=1), check_real("share", share)
    if not 0 < share <= 1:
        raise ValueError(f"share must be above 0 and at most 1, got {share:g}")
    points = round((len(curve) - 1) * share) + 1
    if points < 2:  # noqa: PLR2004 - the ends of one trapezoid
        raise ValueError(f"share={share:g} of a curve of {len(curve)} points has no area; use more steps")
    return float(torch.trapezoid(curve[:points], dx=1 / (points - 1)))


def areas(curves: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
    """Mean height of each curve, by the trapezoid rule."""
    curves = check_finite("curves", curves, axes=2)
    if curves.shape[1] < 2:  # noqa: PLR2004 - the ends of one trapezoid
        raise ValueError("curves must have at least 2 points, got 1")
    return torch.trapezoid(curves, dx=1 / (curves.shape[1] - 1), dim=1)


def skill(area_of_interest: float, *, random: float, best: float) -> float:
    """Place of an area between that of random orders (0) and that of the best orders (1).

    Example:
        >>> fw.explanation.metrics.skill(0.75, random=0.5, best=1.0)
        0.5
    """
    low, high = check_real("random", random), check_real("best", best)
    if low == high:
        raise ValueError(f"random and best must differ, got {best:g} for both: skill is not defined")
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
    """Compare the values of one output with reference values, input by input.

    Example:
        >>> x = torch.tensor([[1.0, 2.0, 3.0]])
        >>> round(fw.explanation.metrics.measure_agreement(x, 2 * x).pearson, 6)
        1.0
    """
    estimate, reference = check_finite("estimate", estimate, axes=2), check_finite("reference", reference, axes=2)
    if estimate.shape != reference.shape:
        shapes = f"{tuple(estimate.shape)} and {tuple(reference.shape)}"
        raise ValueError(f"estimate and reference must have the same shape, got {shapes}")
    correlation = pearson(estimate, reference)
    e, r = (values - values.mean(1, keepdim=True) for values in (estimate, reference))
    totals = reference.sum(1)
    return Agreement(
        pearson=float(correlation.mean()),
        pearson_10=float(correlation.quantile(0.1)),
        nrmse=float(((e - r).square().sum() / r.square().sum().clamp(min=_TINY)).sqrt()),
        level=float((estimate.sum(1) - totals).abs().mean() / totals.abs().mean().clamp(min=_TINY)),
    )


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
    # Rank of each player, the most important first; equal values keep their order.
    rank = check_finite("values", values, axes=2).argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    labels = check_classes("labels", labels)
    if not len(x) == len(rank) == len(labels):
        raise ValueError(f"x, values and labels must have equal lengths, got {len(x)}, {len(rank)} and {len(labels)}")
    points = []
    for step in range(check_whole("steps", steps) + 1):
        first = rank < round(rank.shape[1] * step / steps)
        shown = ~first if hide else first
        parts = zip(x.split(INPUTS_AT_ONCE), shown.split(INPUTS_AT_ONCE), labels.split(INPUTS_AT_ONCE), strict=True)
        with torch.no_grad():
            points.append(
                torch.cat(
                    [_heights(evaluator(x_part, mask), part_labels, score) for x_part, mask, part_labels in parts]
                )
            )
    return torch.stack(points, 1)


def _heights(scores: object, labels: Int[Tensor, " batch"], score: Score) -> Float64[Tensor, " batch"]:
    if not isinstance(scores, Tensor) or scores.ndim != 2 or len(scores) != len(labels):  # noqa: PLR2004 - inputs, classes
        shape = f"shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else type(scores).__name__
        raise TypeError(f"evaluator must return a tensor ({len(labels)} inputs, classes), got {shape}")
    if int(labels.max()) >= scores.shape[1]:
        raise ValueError(
            f"labels must be below {scores.shape[1]}, the number of classes that evaluator returns scores for, got "
            f"{int(labels.max())}"
        )
    if bool(scores.isnan().any()):
        raise ValueError("evaluator returned scores that are NaN")
    if score == "kept":
        return (scores.argmax(1) == labels).double()
    return scores.gather(1, labels[:, None])[:, 0].double()
