"""The nearest neighbors of all points among the others, or of some points among them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from fwshapley._internal.parallel import spread
from fwshapley._internal.progress import ProgressBar
from fwshapley.valuation.knn.distances import NEVER, Features, Places, distances_by_product, nearest, place, whole_keys

BLOCK = 64
"""Points whose distances to all others are computed at once."""

DOUBLED = 2
"""Candidates by rounded distances, for each neighbor that is wanted: their order is then found by exact distances."""


class Neighbors(NamedTuple):
    """Nearest neighbors, the nearest first.

    Attributes:
        indices: of the neighbors of each point.
        distances: of these to the point.
    """

    indices: Int64[Tensor, "points k"]
    distances: Float64[Tensor, "points k"]


def find_neighbors(
    x: Features, k: int, queries: Features | None = None, *, n_jobs: int | None = None, progress: bool = True
) -> Neighbors:
    """Return the k nearest points by Euclidean distance; of ties, the lower index comes first.

    Args:
        x: the points.
        k: number of neighbors; fewer if there are not as many points.
        queries: points to find the neighbors of; None finds those of each point of x among the others.
        n_jobs: number of CPU cores; None is all.
        progress: whether to show progress.
    """
    places = place(x, queries, "euclidean")
    count = len(places.reference)
    k = min(k, len(x) - (queries is None))
    parts = [slice(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK)]
    found = []
    with ProgressBar("finding neighbors", count, enabled=progress) as bar:
        for part, neighbors in zip(
            parts, spread(_search, parts, n_jobs, shared=(places, k, queries is None), threads=True), strict=True
        ):
            found.append(neighbors)
            bar.advance(part.stop - part.start)
    return Neighbors(*map(torch.cat, zip(*found, strict=True)))


def _search(places: Places, k: int, are_points: bool, part: slice) -> Neighbors:  # noqa: FBT001 - `spread` passes positional arguments
    """Return the neighbors of a part of the queries: candidates by products, then their exact distances."""
    factor, queries = torch.from_numpy(places.factor), torch.from_numpy(places.reference[part])
    keys = whole_keys(distances_by_product(queries, factor, places.scale))
    wanted = min(max(DOUBLED * k, k + BLOCK // 2), len(factor) - are_points)
    indices = torch.empty(len(keys), wanted, dtype=torch.int64)
    for row, one in enumerate(keys):
        if are_points:
            one[part.start + row] = NEVER
        indices[row] = nearest(one, wanted)
    indices = indices.sort(1).values
    distances = (factor[indices, :-2] - queries[:, None]).norm(dim=2)
    order = distances.sort(dim=1, stable=True).indices[:, :k]
    return Neighbors(indices.gather(1, order), distances.gather(1, order))
