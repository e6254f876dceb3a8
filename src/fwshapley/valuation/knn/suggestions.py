"""What the nearest neighbors of a point say of its label or target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, get_args

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from fwshapley._internal.checks import Array, check_choice, check_whole
from fwshapley._internal.tensor_checks import check_classes
from fwshapley.valuation.knn.distances import NEVER, Metric, distances_directly, nearest, place
from fwshapley.valuation.validation import check_labels, check_targets, scale_points

Points = Sequence[int] | Int64[Tensor, " points"]


class Suggestions(NamedTuple):
    """Labels that nearest neighbors suggest.

    Attributes:
        labels: class number of each suggestion, as in `Valuation.labels`.
        votes: number of the neighbors that have that label.
        neighbors: indices of the neighbors, from the nearest on.
    """

    labels: Int64[Tensor, " points"]
    votes: Int64[Tensor, " points"]
    neighbors: Int64[Tensor, "points k"]


class SuggestedTargets(NamedTuple):
    """Targets that nearest neighbors suggest.

    Attributes:
        targets: mean target of the neighbors.
        neighbors: indices of the neighbors, from the nearest on.
    """

    targets: Float64[Tensor, " points"]
    neighbors: Int64[Tensor, "points k"]


def suggest_labels(
    x: Array,
    y: Array,
    points: Points,
    *,
    k: int = 5,
    metric: Metric = "euclidean",
    scale: bool | None = None,
) -> Suggestions:
    """Return the most frequent label among the k nearest other points; a tie goes to the nearest of the tied labels.

    Args:
        x: features of all points, as `value_neighbors` takes them.
        y: their labels.
        points: indices of the points to suggest a label for.
        k: number of neighbors.
        metric: "euclidean" or "cosine".
        scale: as for `value_neighbors`.

    Example:
        >>> suggest_labels([[0.0], [1.0], [1.1], [1.2]], ["a", "b", "b", "a"], points=[3], k=2).labels
        tensor([1])
    """
    neighbors = _nearest_others(x, points, k, metric, scale)
    labels = torch.from_numpy(check_labels("y", y, len(x))[0])
    suggested = torch.empty(len(neighbors), dtype=torch.int64)
    votes = torch.empty_like(suggested)
    for row, neighbor_labels in enumerate(labels[neighbors]):
        frequency = torch.bincount(neighbor_labels)[neighbor_labels]
        suggested[row] = neighbor_labels[frequency.argmax()]  # the first of the most frequent, which is the nearest
        votes[row] = frequency.max()
    return Suggestions(suggested, votes, neighbors)


def suggest_targets(
    x: Array,
    y: Array,
    points: Points,
    *,
    k: int = 5,
    metric: Metric = "euclidean",
    scale: bool | None = None,
) -> SuggestedTargets:
    """Return the mean target of the k nearest other points.

    Args:
        x: features of all points, as `value_neighbors` takes them.
        y: their targets.
        points: indices of the points to suggest a target for.
        k: number of neighbors.
        metric: "euclidean" or "cosine".
        scale: as for `value_neighbors`.

    Example:
        >>> suggest_targets([[0.0], [1.0], [1.1], [1.2]], [9.0, 2.0, 3.0, 70.0], points=[3], k=2).targets
        tensor([2.5000], dtype=torch.float64)
    """
    neighbors = _nearest_others(x, points, k, metric, scale)
    targets = torch.from_numpy(check_targets("y", y, len(x)))
    return SuggestedTargets(targets[neighbors].mean(1), neighbors)


def _nearest_others(
    x: Array,
    points: Points,
    k: int,
    metric: Metric,
    scale: bool | None,  # noqa: FBT001 - an option with three values
) -> Int64[Tensor, "points k"]:
    """Return the indices of the k nearest other points."""
    table = scale_points("x", x, scale)[0]
    if check_whole("k", k) >= len(table):
        raise ValueError(f"k must be at most {len(table) - 1}, the number of other points, got {k}")
    check_choice("metric", metric, get_args(Metric))
    factor = torch.from_numpy(place(table, None, metric).factor)
    rows = check_classes("points", points, len(table)) if len(points) else torch.empty(0, dtype=torch.int64)
    neighbors = torch.empty(len(rows), k, dtype=torch.int64)
    for row, point in enumerate(rows.tolist()):  # one at a time: a row of distances is large
        keys = distances_directly(factor[[point], :-2], factor)[0].view(torch.int64)
        keys[point] = NEVER
        neighbors[row] = nearest(keys, k)
    return neighbors
