"""Statistics of results: mean and spread over seeds, and a paired bootstrap of curves over images and seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, Float64
from numpy.typing import NDArray
from torch import Tensor

RESAMPLES = 4000
CONFIDENCE = 0.95
FIRST_QUARTER = 0.25

Kept = list[int]
"""Packed curves of zeros and ones: one integer for each image, whose bit p is the curve at point p."""


def summarize(runs: Sequence[Any]) -> Any:  # noqa: ANN401 - a tree of figures in, a tree of their summaries out
    """Mean and standard deviation over seeds, of every figure in a tree of dictionaries."""
    first = runs[0]
    if isinstance(first, dict):
        return {key: summarize([run[key] for run in runs]) for key in first}
    spread = statistics.stdev(runs) if len(runs) > 1 else 0.0
    return [round(statistics.fmean(runs), 4), round(spread, 4)]


def pack(curves: Float[Tensor, "images points"]) -> Kept:
    """Pack curves into integers."""
    bits = curves.cpu().numpy().astype(np.int64)
    numbers: Kept = (bits << np.arange(bits.shape[1])).sum(1).tolist()
    return numbers


def unpack(kept: Sequence[int], points: int) -> Float64[np.ndarray, "images {points}"]:
    """Return packed curves as arrays."""
    return (np.array(kept, dtype=np.int64)[:, None] >> np.arange(points) & 1).astype(np.float64)


def areas_of(curves: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Mean height of each curve, of the whole curve and of its first quarter."""
    quarter = curves[:, : round((curves.shape[1] - 1) * FIRST_QUARTER) + 1]
    return {"": _mean_height(curves), ", first quarter": _mean_height(quarter)}


@dataclass(frozen=True)
class Row:
    """Curves of one method for the first images of a data set.

    Attributes:
        curves: (images, points) by kind and evaluator, mean over seeds.
        areas: (seeds, images) by kind, evaluator and share of the curve.
    """

    curves: Mapping[str, NDArray[np.float64]]
    areas: Mapping[str, NDArray[np.float64]]

    @property
    def images(self) -> int:
        """How many."""
        return len(next(iter(self.curves.values())))


def read_row(seeds: Sequence[Mapping[str, Kept]], points: int) -> Row:
    """Return what was kept of a method's seeds."""
    curves = [{name: unpack(kept, points) for name, kept in each.items()} for each in seeds]
    areas = [
        {f"{name}{share}": area for name, curve in each.items() for share, area in areas_of(curve).items()}
        for each in curves
    ]
    return Row(
        {name: np.mean([each[name] for each in curves], 0) for name in curves[0]},
        {name: np.stack([each[name] for each in areas]) for name in areas[0]},
    )


class Bootstrap:
    """Paired bootstrap: resamples images, the same for all methods, and seeds, for each method separately."""

    def __init__(self, images: int, seed: int = 0) -> None:
        self.seed = seed
        self.shares = _draw_shares(images, np.random.default_rng(seed))

    def mean(self, areas: Float64[np.ndarray, "seeds images"]) -> list[float]:
        """Mean area, with its interval."""
        return self._with_interval(areas.mean(), self._drawn_means(areas))

    def compare(
        self, ours: Float64[np.ndarray, "seeds images"], other: Float64[np.ndarray, "others images"]
    ) -> dict[str, list[float]]:
        """Difference of mean areas, and that relative to the other's, with intervals."""
        means = (ours.mean(), other.mean())
        drawn = (self._drawn_means(ours), self._drawn_means(other, method=1))
        found = {"difference": self._with_interval(means[0] - means[1], drawn[0] - drawn[1])}
        if drawn[1].min() > 0:
            found["relative"] = self._with_interval(means[0] / means[1] - 1, drawn[0] / drawn[1] - 1)
        return found

    def _drawn_means(self, areas: Float64[np.ndarray, "seeds images"], method: int = 0) -> NDArray[np.float64]:
        seeds = _draw_shares(len(areas), np.random.default_rng((self.seed, 1 + method)))
        means: NDArray[np.float64] = (seeds * (self.shares @ areas.T)).sum(1)
        return means

    def _with_interval(self, value: float, drawn: NDArray[np.float64]) -> list[float]:
        low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        return [round(float(each), 5) for each in (value, low, high)]


def describe(row: Row, *, over: Mapping[str, Row | None], random: Row | None, best: Row | None) -> dict[str, Any]:
    """Areas with intervals, areas by seed, gains over other methods, and skill.

    Args:
        row: curves of the method.
        over: methods to compare with, image by image, by name; None was not measured.
        random: random orders, whose skill is 0.
        best: orders whose skill is 1, perhaps for fewer images.
    """
    bootstrap = _bootstrap(row.images)
    found: dict[str, Any] = {
        "images": row.images,
        "areas": {name: bootstrap.mean(areas) for name, areas in row.areas.items()},
        "by seed": {name: [round(float(each), 5) for each in areas.mean(1)] for name, areas in row.areas.items()},
        "curves": {name: [round(float(each), 4) for each in curve.mean(0)] for name, curve in row.curves.items()},
    }
    for other, against in over.items():
        if against is not None:
            few = min(row.images, against.images)
            found[f"over {other}"] = {
                name: _bootstrap(few).compare(areas[:, :few], against.areas[name][:, :few])
                for name, areas in row.areas.items()
            }
    if random is not None and best is not None:
        few = min(row.images, random.images, best.images)
        found["skill"] = {
            name: _skill(*(each.areas[name][:, :few] for each in (row, random, best))) for name in row.areas
        }
        found["images of skill"] = few
    return found


@lru_cache(maxsize=4)  # drawing takes longer than all that is done with the draws
def _bootstrap(images: int) -> Bootstrap:
    return Bootstrap(images)


def _draw_shares(count: int, generator: np.random.Generator) -> Float64[np.ndarray, "resamples {count}"]:
    """Weights of items when as many are drawn with replacement, for each resample."""
    return generator.multinomial(count, np.full(count, 1 / count), RESAMPLES) / count


def _skill(ours: NDArray[np.float64], random: NDArray[np.float64], best: NDArray[np.float64]) -> float | None:
    """Position between random orders (0) and the best ones (1); None where these are equal."""
    span = best.mean() - random.mean()
    return round(float((ours.mean() - random.mean()) / span), 4) if span else None


def _mean_height(curves: NDArray[np.float64]) -> NDArray[np.float64]:
    """Areas of curves as wide as 1, by the trapezoid rule."""
    heights: NDArray[np.float64] = np.trapezoid(curves, dx=1 / (curves.shape[1] - 1), axis=1)
    return heights
