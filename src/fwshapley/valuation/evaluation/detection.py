"""How well values detect wrong labels when points of low value are inspected first."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from fwshapley._internal.checks import Array
from fwshapley._internal.tensor_checks import check_tensor


@dataclass(frozen=True)
class Detection:
    """How well values detect wrong labels.

    Attributes:
        auroc: probability that a wrong label has a lower value than a correct one; equal values count one half. Random
            values have 0.5.
        found_at_10: share of the wrong labels that is among the 10 % of points of lowest value.
        found_at_20: the same for 20 %.
        f1: F1 score of labeling the lower of two clusters of values as wrong, which does not need the number of wrong
            labels; the measure of OpenDataVal.
    """

    auroc: float
    found_at_10: float
    found_at_20: float
    f1: float


def measure_detection(values: Array, wrong: Array) -> Detection:
    """Measure how well low values indicate wrong labels.

    Args:
        values: values of the training points, (n,).
        wrong: True where a label is wrong, (n,); some must be wrong, and some correct.

    Example:
        >>> measure_detection([-0.2, 0.1, 0.3, 0.2], [True, False, False, False]).auroc
        1.0
    """
    numbers = check_values(values)
    mask = _check_wrong(wrong, len(numbers))
    curve = detection_curve(numbers, mask)
    # Rounded as in flip_labels, so that perfect values score 1 for every n.
    at_10, at_20 = (float(curve[round(share * len(numbers))]) for share in (0.1, 0.2))
    return Detection(_auroc(numbers, mask), at_10, at_20, _f1(lower_cluster(numbers), mask))


def detection_curve(values: Array, wrong: Array) -> Float64[Tensor, " points"]:
    """Return the share of the wrong labels among the first 0..n points, in increasing order of value.

    Points of equal value keep their order.

    Example:
        >>> detection_curve([-0.2, 0.1, 0.3, -0.1], [True, False, True, False]).tolist()
        [0.0, 0.5, 0.5, 0.5, 1.0]
    """
    numbers = check_values(values)
    mask = _check_wrong(wrong, len(numbers))
    detected = mask[numbers.argsort(stable=True)].double().cumsum(0)
    return torch.cat([detected.new_zeros(1), detected]) / detected[-1]


def lower_cluster(values: Array) -> Bool[Tensor, " n"]:
    """Return whether each point is in the lower of the two best clusters of values: exact 2-means in one dimension.

    Clusters on a line are intervals, so the best of the n-1 splits of the sorted values is optimal: the one with the
    largest variance between its parts, s (n-s) (mean of the upper - mean of the lower)**2 for s points below. Of
    equally good splits, the one with the smaller lower cluster is taken. If all values are equal, it is empty.
    """
    numbers = check_values(values)
    n = len(numbers)
    ordered, order = numbers.sort(stable=True)
    # Shifted and scaled, so that large values do not cancel and huge ones do not overflow.
    unit = ordered / ordered.abs().amax().clamp(min=torch.finfo(ordered.dtype).tiny)
    sums = (unit - unit.mean()).cumsum(0)
    size = torch.arange(1, n, dtype=torch.float64)
    between = size * (n - size) * (sums[:-1] / size - (sums[-1] - sums[:-1]) / (n - size)).square()
    between[ordered[1:] == ordered[:-1]] = -torch.inf  # equal values stay together
    below = torch.zeros(n, dtype=torch.bool)
    if ordered[0] < ordered[-1]:
        below[order[: int(between.argmax()) + 1]] = True
    return below


def check_values(values: Array) -> Float64[Tensor, " n"]:
    """Return values as a tensor of finite numbers, one per point."""
    numbers = check_tensor("values", values).detach().cpu()
    if numbers.ndim != 1 or not len(numbers):
        raise ValueError(
            f"values must be one number per point, got shape {tuple(numbers.shape)}; of several weightings, choose one "
            "with valuation.of(weights).values"
        )
    finite = numbers.isfinite()
    if not finite.all():
        first = int((~finite).int().argmax())
        raise ValueError(
            f"values must be finite, got {int((~finite).sum())} NaN or infinite numbers, the first for point {first}"
        )
    return numbers


def _check_wrong(wrong: Array, n: int) -> Bool[Tensor, " n"]:
    """Return which labels are wrong as a mask of which some are True, and some False."""
    numbers = check_tensor("wrong", wrong, flags=True).detach().cpu()
    if numbers.shape != (n,):
        raise ValueError(
            f"wrong must be a mask with one entry per point, {n} of them, got shape {tuple(numbers.shape)}; convert "
            "indices to a mask first"
        )
    mask = numbers == 1
    if not (mask | (numbers == 0)).all():
        raise ValueError("wrong must be True or False (1 or 0) for each point; convert indices to a mask first")
    if not mask.any():
        raise ValueError("wrong must be True for some points, got False for all")
    if mask.all():
        raise ValueError("wrong must be False for some points, got True for all")
    return mask


def _auroc(values: Float64[Tensor, " n"], wrong: Bool[Tensor, " n"]) -> float:
    """Return the share of the pairs of a wrong and a correct label in which the wrong one has the lower value."""
    correct = values[~wrong].sort().values
    lower, not_higher = (torch.searchsorted(correct, values[wrong], right=right).double() for right in (False, True))
    return 1 - float((lower + not_higher).mean()) / (2 * len(correct))


def _f1(predicted: Bool[Tensor, " n"], wrong: Bool[Tensor, " n"]) -> float:
    return 2 * int((predicted & wrong).sum()) / int(predicted.sum() + wrong.sum())
