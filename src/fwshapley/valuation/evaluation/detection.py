"""How well values tell wrong labels from right ones: points of low value are inspected first."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from fwshapley._internal.checks import Array
from fwshapley._internal.tensors import check_tensor


@dataclass(frozen=True)
class Detection:
    """How well values find wrong labels.

    Attributes:
        auroc: chance that a wrong label has a lower value than a right one; equal values count a half. 0.5 is chance.
        found_at_10: share of the wrong labels among the 10 % of points of lowest value.
        found_at_20: the same for 20 %.
        f1: of calling wrong the lower of the two clusters that values fall into, for which nobody needs to know how
            many labels are wrong; the measure of OpenDataVal.
    """

    auroc: float
    found_at_10: float
    found_at_20: float
    f1: float


def measure_detection(values: Array, wrong: Array) -> Detection:
    """Measure how well low values point to wrong labels.

    Args:
        values: of the training points, (n,).
        wrong: True where a label is wrong, (n,): some must be, and some not.

    Example:
        >>> measure_detection([-0.2, 0.1, 0.3, 0.2], [True, False, False, False]).auroc
        1.0
    """
    numbers = check_values(values)
    mask = _check_wrong(wrong, len(numbers))
    curve = detection_curve(numbers, mask)
    # As flip_labels rounds its share: whoever finds all of the 10 % that it flipped scores 1, for every n.
    at_10, at_20 = (float(curve[round(share * len(numbers))]) for share in (0.1, 0.2))
    return Detection(_auroc(numbers, mask), at_10, at_20, _f1(lower_cluster(numbers), mask))


def detection_curve(values: Array, wrong: Array) -> Float64[Tensor, " points"]:
    """Share of the wrong labels found after inspecting the first 0..n points, from the lowest value on.

    Points of equal value are inspected in the order they come in.

    Example:
        >>> detection_curve([-0.2, 0.1, 0.3, -0.1], [True, False, True, False]).tolist()
        [0.0, 0.5, 0.5, 0.5, 1.0]
    """
    numbers = check_values(values)
    mask = _check_wrong(wrong, len(numbers))
    found = mask[numbers.argsort(stable=True)].double().cumsum(0)
    return torch.cat([found.new_zeros(1), found]) / found[-1]


def lower_cluster(values: Array) -> Bool[Tensor, " n"]:
    """Whether a point is in the lower of the two clusters that split the values best: exact 2-means in one dimension.

    Clusters on a line are intervals, so that the best of the n-1 splits of the sorted values is the optimum: the one
    with the most variance between its parts, s (n-s) (mean of the upper - mean of the lower)**2 for s points below.
    Of splits equally good, the one with the smaller lower cluster is taken. Values all equal have no lower cluster.
    """
    numbers = check_values(values)
    n = len(numbers)
    ordered, order = numbers.sort(stable=True)
    # Shifted and scaled, or large values would cancel and huge ones overflow.
    unit = ordered / ordered.abs().amax().clamp(min=torch.finfo(ordered.dtype).tiny)
    sums = (unit - unit.mean()).cumsum(0)
    size = torch.arange(1, n, dtype=torch.float64)
    between = size * (n - size) * (sums[:-1] / size - (sums[-1] - sums[:-1]) / (n - size)).square()
    between[ordered[1:] == ordered[:-1]] = -torch.inf  # equal values are never apart
    below = torch.zeros(n, dtype=torch.bool)
    if ordered[0] < ordered[-1]:
        below[order[: int(between.argmax()) + 1]] = True
    return below


def check_values(values: Array) -> Float64[Tensor, " n"]:
    """Return values as a tensor of finite numbers, one per point."""
    numbers = check_tensor("values", values).detach().cpu()
    if numbers.ndim != 1 or not len(numbers):
        raise ValueError(
            f"values must be one number per point, got shape {tuple(numbers.shape)}; of several weightings choose one, "
            "as in valuation.of(weights).values"
        )
    finite = numbers.isfinite()
    if not finite.all():
        first = int((~finite).int().argmax())
        raise ValueError(
            f"values has {int((~finite).sum())} missing or infinite numbers, the first is that of point {first}"
        )
    return numbers


def _check_wrong(wrong: Array, n: int) -> Bool[Tensor, " n"]:
    """Return which labels are wrong as a mask that tells some points from others."""
    numbers = check_tensor("wrong", wrong, flags=True).detach().cpu()
    if numbers.shape != (n,):
        raise ValueError(
            f"wrong must say of each of the {n} points whether its label is wrong, got shape {tuple(numbers.shape)}; "
            "of indices make a mask first"
        )
    mask = numbers == 1
    if not (mask | (numbers == 0)).all():
        raise ValueError("wrong must be True or False (1 or 0) for each point; of indices make a mask first")
    if not mask.any():
        raise ValueError("no label is wrong: there is nothing to find")
    if mask.all():
        raise ValueError("every label is wrong: there are no right ones to tell them from")
    return mask


def _auroc(values: Float64[Tensor, " n"], wrong: Bool[Tensor, " n"]) -> float:
    """Share of the pairs of a wrong and a right label in which the wrong one has the lower value."""
    ours, others = values[wrong], values[~wrong].sort().values
    lower, not_higher = (torch.searchsorted(others, ours, right=right).double() for right in (False, True))
    return 1 - float((lower + not_higher).mean()) / (2 * len(others))


def _f1(called: Bool[Tensor, " n"], wrong: Bool[Tensor, " n"]) -> float:
    return 2 * int((called & wrong).sum()) / int(called.sum() + wrong.sum())
