"""Which label a point would have if its nearest neighbors had their way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

from fwshapley._internal.checks import Array, check_whole
from fwshapley.valuation.knn.distances import NEVER, Metric, distances_directly, nearest, place
from fwshapley.valuation.validation import check_labels, check_points


class Suggestions(NamedTuple):
    """Labels that neighbors suggest.

    Attributes:
        labels: class number of each suggestion, as in `Valuation.labels`.
        votes: how many of the neighbors have that label.
        neighbors: indices of those who were asked, from the nearest on.
    """

    labels: Int64[Tensor, " points"]
    votes: Int64[Tensor, " points"]
    neighbors: Int64[Tensor, "points k"]


def suggest_labels(
    x: Array, y: Array, points: Sequence[int] | Int64[Tensor, " points"], *, k: int = 5, metric: Metric = "euclidean"
) -> Suggestions:
    """Return the label that most of the k nearest others have, for some points; a tie goes to the nearest of them.

    Args:
        x: features of all points, (n, ...).
        y: their labels.
        points: indices of those to suggest a label for.
        k: neighbors to ask.
        metric: "euclidean" or "cosine".

    Example:
        >>> suggest_labels(x, y, valuation.suspects(20)).labels
    """
    table = check_points("x", x)
    labels = torch.from_numpy(check_labels("y", y, len(table))[0])
    if check_whole("k", k) >= len(table):
        raise ValueError(f"k = {k} neighbors are more than the {len(table) - 1} other points")
    places = place(table, None, metric)
    everyone = torch.from_numpy(places.factor)
    asked = torch.as_tensor(points, dtype=torch.int64)
    neighbors = torch.empty(len(asked), k, dtype=torch.int64)
    suggested, votes = torch.empty_like(asked), torch.empty_like(asked)
    for row, point in enumerate(asked.tolist()):  # one at a time: a row of distances is large
        keys = distances_directly(everyone[[point], :-2], everyone)[0].view(torch.int64)
        keys[point] = NEVER
        neighbors[row] = nearest(keys, k)
        theirs = labels[neighbors[row]]
        alike = torch.bincount(theirs)[theirs]
        suggested[row] = theirs[alike.argmax()]  # the first of several, which is the nearest
        votes[row] = alike.max()
    return Suggestions(suggested, votes, neighbors)
