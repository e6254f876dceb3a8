"""Rows that tell decision rules apart: at thresholds and next to them, missing, with unseen categories."""

from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from fwshapley.trees.ensemble import TreeEnsemble

Model = Any
"""A fitted model of one of the libraries."""


def make_table(
    rows: int = 300, features: int = 5, missing: float = 0.15, seed: int = 0
) -> Float64[ndarray, "rows columns"]:
    """Normal numbers, some of them on a coarse grid, some missing."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, features))
    x[:, 1] = np.round(x[:, 1], 1)
    x[generator.random(x.shape) < missing] = np.nan
    return x


def at_thresholds(
    ensemble: TreeEnsemble, x: Float64[ndarray, "rows columns"], limit: int = 400
) -> Float64[ndarray, "more columns"]:
    """Copies of rows with one value at a threshold, or one unit in the last place of float32 or float64 beside it."""
    generator = np.random.default_rng(1)
    splits = np.flatnonzero(
        (ensemble.feature >= 0) & (ensemble.splits.categories < 0) & (np.abs(ensemble.threshold) < 1e38)
    )
    splits = generator.permutation(splits)[:limit]
    rows = []
    for node in splits:
        threshold = ensemble.threshold[node]
        rounded = np.float32(threshold)
        beside = [np.nextafter(rounded, np.float32(side)) for side in (-np.inf, np.inf)]
        close = [np.nextafter(threshold, side) for side in (-np.inf, np.inf)]
        middle = [(np.float64(rounded) + np.float64(number)) / 2 for number in beside]
        for number in (threshold, rounded, *beside, *close, *middle):
            row = x[generator.integers(len(x))].copy()
            row[ensemble.feature[node]] = number
            rows.append(row)
    return np.array(rows)
