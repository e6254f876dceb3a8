"""Who is near whom: distances in double precision, as whole numbers, and orders in which ties go to the lower index."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy.typing import NDArray
from torch import Tensor

Metric = Literal["euclidean", "cosine"]
Features = NDArray[np.floating[Any]]

MOST_DIRECT = 2**28
"""Coordinates up to which differences are squared one by one, which is exact where points coincide."""

RESOLUTION = 2.0**-45
"""What products leave: squared distances are compared to this share of the squared norms of reference and points."""

NEVER = 0x7FF0000000000000
"""Key of a point that is out of the question: the bits of infinity, which a float can hold, as padding asks for."""

CLOSE = 2.0**20
"""Units up to which the nearest points are too close to tell apart by products."""

NEAREST = 32
"""Points of which that is asked."""

RADIX = 2**15
"""Numbers from which on torch sorts a row by radix."""

ROUNDING = 1e-12
"""Range of a column that is constant, as a share of its numbers."""

SAMPLE = 1024
MARGIN = 1.5


class Places(NamedTuple):
    """Points and references where distances between them keep their digits: around the middle of the points.

    Attributes:
        factor: (x, |x|**2, 1) for each point, which distances are products with.
        references: around the same middle.
        scale: median of |x|**2.
        center: that middle.
    """

    factor: NDArray[np.float64]
    references: NDArray[np.float64]
    scale: float
    center: NDArray[np.float64]


class Workspace(NamedTuple):
    """Memory used again and again, for fresh memory costs almost as much as the work on it: distances, and a row."""

    distances: Float64[Tensor, "references n"]
    keys: Int64[Tensor, " sorted"]
    order: Int64[Tensor, " sorted"]
    labels: Int64[Tensor, " n"]

    @classmethod
    def of(cls, n: int, references: int) -> Workspace:
        """Reserve it."""
        rows = (torch.empty(size, dtype=torch.int64) for size in (_sorted_size(n), _sorted_size(n), n))
        return cls(torch.empty(references, n, dtype=torch.float64), *rows)


def place(x: Features, references: Features | None, metric: Metric) -> Places:
    """Place points and references; without references, the points are their own.

    For the cosine they are brought to length 1 first: the squared distance is then 2 - 2 cos.
    """
    if metric == "cosine":
        x = _unit_length("x", x)
        references = None if references is None else _unit_length("the reference", references)
    center = _middle(x)
    factor = _factor(x, center)
    points = factor[:, :-2]
    if not factor[:, -2].any() and points.any():
        raise ValueError("squared distances underflow: scale the columns first")
    around = points if references is None else references - center
    if not np.isfinite(np.einsum("ij,ij->i", around, around)).all():
        raise ValueError("squared distances overflow: scale the columns first")
    return Places(factor, around, _scale(factor), center)


def column_ranges(places: Places) -> NDArray[np.float64]:
    """Range of each column over the points; infinite where it is constant but for rounding, as it tells none apart."""
    points = places.factor[:, :-2]
    ranges = np.ptp(points, axis=0)
    return np.where(ranges > ROUNDING * np.abs(places.center), ranges, np.inf)


def in_units(places: Places, units: NDArray[np.float64]) -> Places:
    """Return the same places, their columns in other units; the center stays as it was."""
    factor = _factor(places.factor[:, :-2] / units, np.zeros_like(units))
    return Places(factor, places.references / units, _scale(factor), places.center)


def place_more(x: Features, center: NDArray[np.float64], metric: Metric) -> NDArray[np.float64]:
    """Place other points around the same middle: their factor."""
    return _factor(_unit_length("x", x) if metric == "cosine" else x, center)


def _scale(factor: NDArray[np.float64]) -> float:
    return float(np.median(factor[:, -2])) or float(factor[:, -2].max()) or 1.0


def _factor(x: Features, center: NDArray[np.float64]) -> NDArray[np.float64]:
    factor = np.empty((len(x), x.shape[1] + 2))
    points = np.subtract(x, center, out=factor[:, :-2])
    with np.errstate(over="ignore", under="ignore"):
        factor[:, -2] = np.einsum("ij,ij->i", points, points)
    factor[:, -1] = 1
    if not np.isfinite(factor[:, -2]).all():
        raise ValueError("squared distances overflow: scale the columns first")
    return factor


def _middle(x: Features) -> NDArray[np.float64]:
    """Return the median of some points, which no outlier moves.

    It is rounded to the spread, so that whole numbers stay on a grid: products are exact there, and so are ties.
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
        raise ValueError(f"row {row} of {name} is zero, so it has no direction: use metric='euclidean', or drop it")
    scaled = x / largest  # so that no square over- or underflows
    return scaled / np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]


def distances_by_product(
    references: Float64[Tensor, "references columns"],
    factor: Float64[Tensor, "n columns+2"],
    scale: float,
    space: Workspace | None = None,
) -> Float64[Tensor, "references n"]:
    """Squared distances in units of a resolution, plus a half; `whole_keys` makes keys of them.

    |r - x|**2 / unit + 1/2 = (-2r / unit, 1 / unit, |r|**2 / unit + 1/2) . (x, |x|**2, 1)

    A unit is some twenty times what rounding adds, so that points that coincide have the same key, almost surely.
    """
    norms = references.square().sum(1, keepdim=True)
    unit = RESOLUTION * torch.exp2((scale + norms).log2().ceil())
    out = None if space is None else space.distances[: len(references)]
    return torch.mm(torch.cat([-2 * references / unit, 1 / unit, norms / unit + 0.5], 1), factor.T, out=out)


def whole_keys(distances: Float64[Tensor, "references n"]) -> Int64[Tensor, "references n"]:
    """Keys to sort by, in place: the bits of whole parts, which sort as numbers do that are not negative."""
    return distances.floor_().clamp_(min=0).view(torch.int64)


def distances_directly(
    references: Float64[Tensor, "references columns"], factor: Float64[Tensor, "n columns+2"]
) -> Float64[Tensor, "references n"]:
    """Distances by differences, whose bits are keys as they are."""
    return torch.cdist(references, factor[:, :-2], compute_mode="donot_use_mm_for_euclid_dist")


def nearest(keys: Int64[Tensor, " n"], ranks: int, space: Workspace | None = None) -> Int64[Tensor, " ranks"]:
    """Indices of the points of lowest keys, from the lowest on; of equal ones the lower index comes first.

    Args:
        keys: to sort by.
        ranks: how many are wanted.
        space: where to leave the answer, until the next call.
    """
    candidates = _candidates(keys, ranks)
    if candidates is not None:
        return candidates[torch.sort(keys[candidates], stable=True).indices[:ranks]]
    out = None if space is None else (space.keys, space.order)
    padded = torch.nn.functional.pad(keys, (0, _sorted_size(len(keys)) - len(keys)), value=NEVER)
    return torch.sort(padded, stable=True, out=out).indices[:ranks]


def _sorted_size(n: int) -> int:
    """Numbers to sort for a row: torch sorts one row of many by radix, three times as fast as one of a few less."""
    return RADIX if RADIX / 3 < n < RADIX else n


def _candidates(keys: Int64[Tensor, " n"], ranks: int) -> Int64[Tensor, " candidates"] | None:
    """Some points, by index, that have the nearest among them, after a look at a sample; None if it saves nothing."""
    stride = len(keys) // SAMPLE
    if stride < 2 or ranks * 4 > len(keys):  # noqa: PLR2004 - too few to sample, or most are needed
        return None
    limit = keys[::stride].kthvalue(int(MARGIN * ranks / stride) + 8).values
    found = (keys <= limit).nonzero()[:, 0]
    return found if len(found) >= ranks else None


def orders(
    keys: Int64[Tensor, "references n"], ranks: int, space: Workspace | None = None
) -> Int64[Tensor, "references ranks"]:
    """Indices of the nearest points of several references, or of one with a workspace."""
    if len(keys) == 1:
        return nearest(keys[0], ranks, space)[None]
    if keys.device.type == "cpu":
        return torch.stack([nearest(row, ranks) for row in keys])
    return torch.sort(keys, dim=1, stable=True).indices[:, :ranks]


def too_close(keys: Int64[Tensor, "references n"], order: Int64[Tensor, "references ranks"]) -> Int64[Tensor, " close"]:
    """References whose nearest points are so much closer than points usually are that rounding decides their order."""
    few = min(NEAREST, order.shape[1]) - 1
    largest = keys.gather(1, order[:, few : few + 1])[:, 0]
    return (largest.view(torch.float64) < CLOSE).nonzero()[:, 0]


def farthest(keys: Int64[Tensor, "references n"]) -> Int64[Tensor, " references"]:
    """Index of the farthest point of each reference, of equally far ones the last."""
    possible = keys.masked_fill(keys == NEVER, -1)
    return keys.shape[1] - 1 - possible.flip(1).argmax(1)
