"""Distances in double precision, rounded to whole numbers, and orders in which ties go to the lower index."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy.typing import NDArray
from torch import Tensor

from fwshapley.valuation.knn.workspace import Workspace

Metric = Literal["euclidean", "cosine"]
Features = NDArray[np.floating[Any]]

RESOLUTION = 2.0**-45
"""Precision of products: squared distances are rounded to this share of the squared norms of reference and points."""

NEVER = 0x7FF0000000000000
"""Key of a point that must not be chosen: the bits of infinity."""

CLOSE = 2.0**20
"""Units up to which rounding may decide the order of the nearest points if distances come from products."""

NEAREST = 32
"""Number of nearest points that `too_close` looks at."""

SAMPLE = 1024
"""Points whose median is the center."""


class Places(NamedTuple):
    """Coordinates of points and reference points around the center of the points, where distances keep their digits.

    Attributes:
        factor: (x, |x|**2, 1) for each point; distances are products with it.
        reference: reference points around the same center.
        scale: median of |x|**2.
        center: median of the points.
    """

    factor: NDArray[np.float64]
    reference: NDArray[np.float64]
    scale: float
    center: NDArray[np.float64]


def place(x: Features, reference: Features | None, metric: Metric) -> Places:
    """Return the coordinates of points and reference points; without reference points, the points take their place.

    For the cosine, points are scaled to length 1 first: the squared distance is then 2 - 2 cos.
    """
    if metric == "cosine":
        x = _unit_length("x", x)
        reference = None if reference is None else _unit_length("reference[0]", reference)
    center = _middle(x)
    factor = _factor(x, center)
    points = factor[:, :-2]
    if not factor[:, -2].any() and points.any():
        raise ValueError("squared distances between the points of x underflow; rescale its columns")
    around = points if reference is None else reference - center
    if not np.isfinite(np.einsum("ij,ij->i", around, around)).all():
        raise ValueError("squared distances between x and reference[0] overflow; rescale the columns")
    return Places(factor, around, _typical_square(factor), center)


def place_more(x: Features, center: NDArray[np.float64], metric: Metric) -> NDArray[np.float64]:
    """Return the factor of other points around the same center."""
    return _factor(_unit_length("x", x) if metric == "cosine" else x, center)


def _typical_square(factor: NDArray[np.float64]) -> float:
    return float(np.median(factor[:, -2])) or float(factor[:, -2].max()) or 1.0


def _factor(x: Features, center: NDArray[np.float64]) -> NDArray[np.float64]:
    factor = np.empty((len(x), x.shape[1] + 2))
    points = np.subtract(x, center, out=factor[:, :-2])
    with np.errstate(over="ignore", under="ignore"):
        factor[:, -2] = np.einsum("ij,ij->i", points, points)
    factor[:, -1] = 1
    if not np.isfinite(factor[:, -2]).all():
        raise ValueError("squared distances between the points of x overflow; rescale its columns")
    return factor


def _middle(x: Features) -> NDArray[np.float64]:
    """Return the median of a sample of points, rounded to their spread.

    Outliers do not move it. Rounding keeps whole numbers on a grid, where products and therefore ties are exact.
    """
    sample = x[:: -(-len(x) // SAMPLE)].astype(np.float64)
    middle = np.median(sample, axis=0)
    apart = np.abs(sample - middle)
    spread = np.where(np.median(apart, axis=0) > 0, np.median(apart, axis=0), apart.mean(0))
    unit = np.exp2(np.floor(np.log2(spread, where=spread > 0, out=np.zeros_like(spread))))
    return np.where(spread > 0, np.round(middle / unit) * unit, middle)


def _unit_length(name: str, x: Features) -> NDArray[np.float64]:
    largest = np.abs(x).max(axis=1, keepdims=True).astype(np.float64)
    if not largest.all():
        row = int((largest[:, 0] == 0).argmax())
        raise ValueError(
            f"{name} must not contain zero vectors with metric='cosine', got one in row {row}; use metric='euclidean', "
            "or drop the row"
        )
    scaled = x / largest  # so that no square overflows or underflows
    return scaled / np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]


def distances_by_product(
    references: Float64[Tensor, "references columns"],
    factor: Float64[Tensor, "n columns+2"],
    scale: float,
    space: Workspace | None = None,
) -> Float64[Tensor, "references n"]:
    """Squared distances in units of the resolution, plus a half; `whole_keys` turns them into keys.

    |r - x|**2 / unit + 1/2 = (-2r / unit, 1 / unit, |r|**2 / unit + 1/2) . (x, |x|**2, 1)

    A unit is about twenty times the rounding error, so points that coincide almost surely have the same key.
    """
    norms = references.square().sum(1, keepdim=True)
    unit = RESOLUTION * torch.exp2((scale + norms).log2().ceil())
    out = None if space is None else space.distances[: len(references)]
    return torch.mm(torch.cat([-2 * references / unit, 1 / unit, norms / unit + 0.5], 1), factor.T, out=out)


def whole_keys(distances: Float64[Tensor, "references n"]) -> Int64[Tensor, "references n"]:
    """Return keys to sort by, in place: the bits of the whole parts, which sort like the numbers since none is < 0."""
    return distances.floor_().clamp_(min=0).view(torch.int64)


def distances_directly(
    references: Float64[Tensor, "references columns"], factor: Float64[Tensor, "n columns+2"]
) -> Float64[Tensor, "references n"]:
    """Distances from differences; their bits are keys."""
    return torch.cdist(references, factor[:, :-2], compute_mode="donot_use_mm_for_euclid_dist")


def nearest(keys: Int64[Tensor, " n"], ranks: int, space: Workspace | None = None) -> Int64[Tensor, " ranks"]:
    """Return the indices of the points of lowest keys, in increasing order; of ties, the lower index comes first.

    Args:
        keys: to sort by.
        ranks: how many are wanted.
        space: memory for the result, which is valid until the next call.
    """
    if space is not None and space.scratch is not None:
        from fwshapley.valuation.knn.loops.radix_sort import order_nearest  # noqa: PLC0415 - it imports numba, and this module

        order = space.order[:ranks]
        order_nearest(keys.view(torch.float64).numpy(), space.scratch, order.numpy())
        return order
    return torch.sort(keys, stable=True).indices[:ranks]


def orders(
    keys: Int64[Tensor, "references n"], ranks: int, space: Workspace | None = None
) -> Int64[Tensor, "references ranks"]:
    """Return the indices of the nearest points of several references, or of one with a workspace."""
    if len(keys) == 1:
        return nearest(keys[0], ranks, space)[None]
    if keys.device.type == "cpu":
        return torch.stack([nearest(row, ranks) for row in keys])
    return torch.sort(keys, dim=1, stable=True).indices[:, :ranks]


def too_close(keys: Int64[Tensor, "references n"], order: Int64[Tensor, "references ranks"]) -> Int64[Tensor, " close"]:
    """Return the references whose nearest points are so close that rounding may decide their order."""
    few = min(NEAREST, order.shape[1]) - 1
    largest = keys.gather(1, order[:, few : few + 1])[:, 0]
    return (largest.view(torch.float64) < CLOSE).nonzero()[:, 0]


def farthest(keys: Int64[Tensor, "references n"]) -> Int64[Tensor, " references"]:
    """Return the index of the farthest point of each reference; of ties, the last."""
    possible = keys.masked_fill(keys == NEVER, -1)
    return keys.shape[1] - 1 - possible.flip(1).argmax(1)
