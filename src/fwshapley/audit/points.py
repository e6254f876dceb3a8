"""The points of an audit in the forms that its models and its neighbor search need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float32, Float64
from numpy import ndarray
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.checks import Array, check_choice
from fwshapley._internal.tensor_checks import check_tensor
from fwshapley.tables.distance_scaling import TableScaling
from fwshapley.valuation.validation import check_points, reorder_columns, scale_as, scale_points

AuditMetric = Literal["auto", "euclidean", "cosine"]

MAX_COLUMNS = 256
"""Arrays of more columns are taken for embeddings: models get so many principal components, neighbors the cosine."""

MAX_FITTED = 4096
"""Points that principal components are computed from."""

MAX_CATEGORIES = 255
"""Most categories of a column that boosting takes; it does without columns of more."""

IMAGE_AXES = 4


@dataclass(frozen=True, eq=False)
class PointForm:
    """How points become what an audit computes with; learned from its points, applied to others.

    Attributes:
        scaling: of the columns of a DataFrame; None for arrays.
        names: of the columns of a DataFrame that is used as it is; None for others.
        columns: number of features.
        metric: how neighbors are found.
        center: subtracted from the features.
        components: the directions that are kept; None keeps the columns.
        scale: divides the result.
    """

    scaling: TableScaling | None
    names: tuple[Any, ...] | None
    columns: int
    metric: Literal["euclidean", "cosine"]
    center: Float64[ndarray, " columns"]
    components: Float64[ndarray, "kept columns"] | None
    scale: Float64[ndarray, ...]

    def place(self, name: str, x: Array) -> Float64[ndarray, "n kept"]:
        """Return coordinates between which distances are measured, of the points or of others."""
        return self.to_neighbors(self.read(name, x))

    def read(self, name: str, x: Array) -> Float64[ndarray, "n columns"]:
        """Return features as a table of numbers; images are flattened."""
        if self.scaling is not None:
            return scale_as(name, x, self.scaling).astype(np.float64)
        return check_points(name, reorder_columns(name, x, self.names), columns=self.columns).astype(np.float64)

    def to_networks(self, features: Float64[ndarray, "n columns"]) -> Float32[ndarray, "n kept"]:
        """Return features of about unit size."""
        centered = features - self.center
        if self.components is not None:
            centered = centered @ self.components.T
        return (centered / self.scale).astype(np.float32)

    def to_neighbors(self, features: Float64[ndarray, "n columns"]) -> Float64[ndarray, "n kept"]:
        """Return coordinates to measure distances between; for the cosine, centered and of length 1."""
        if self.metric == "euclidean":
            return features
        centered = self.to_networks(features).astype(np.float64) * self.scale
        length = np.linalg.norm(centered, axis=1, keepdims=True)
        return centered / np.where(length > 0, length, 1)


@dataclass(frozen=True, eq=False)
class AuditPoints:
    """The points of an audit.

    Attributes:
        form: how they came about.
        features: a table of numbers.
        neighbors: coordinates to measure distances between.
        trees: numbers, codes of categories, NaN where missing.
        is_category: which columns of these contain codes.
        images: (n, channels, height, width), if networks are to be trained on pixels; None for features.
        notes: on how the points were prepared.
    """

    form: PointForm
    features: Float64[ndarray, "n columns"]
    neighbors: Float64[ndarray, "n kept"]
    trees: Float64[ndarray, "n raw"]
    is_category: NDArray[np.bool_]
    images: Tensor | None
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.features)


def read_points(x: Array, metric: AuditMetric) -> AuditPoints:
    """Return the points of an audit, or raise an error that says what is wrong with them.

    Args:
        x: features, a DataFrame, or images (n, channels, height, width).
        metric: "euclidean", "cosine", or "auto".
    """
    check_choice("metric", metric, get_args(AuditMetric))
    images = None
    if not isinstance(x, pd.DataFrame) and getattr(x, "ndim", 0) == IMAGE_AXES:
        images = check_tensor("x", x, flags=True).detach().cpu().float()
    table, scaling, notes = scale_points("x", x, None)
    features = table.astype(np.float64)
    form = _find_form(x, features, scaling, metric)
    trees, is_category = features, np.zeros(features.shape[1], dtype=bool)
    if scaling is not None:
        trees, is_category = _to_codes(x, scaling)
    return AuditPoints(form, features, form.to_neighbors(features), trees, is_category, images, tuple(notes))


def _find_form(
    x: Array, features: Float64[ndarray, "n columns"], scaling: TableScaling | None, metric: AuditMetric
) -> PointForm:
    """Return how features become inputs of networks and coordinates of neighbors."""
    names = tuple(x.columns) if scaling is None and isinstance(x, pd.DataFrame) else None
    center, columns = features.mean(0), features.shape[1]
    is_wide = columns > MAX_COLUMNS and scaling is None
    components = _principal_components(features - center) if is_wide or metric == "cosine" else None
    chosen: Literal["euclidean", "cosine"] = ("cosine" if is_wide else "euclidean") if metric == "auto" else metric
    if components is None:
        deviation = features.std(0)
        scale = np.where(deviation > 0, deviation, 1) if scaling is None else np.ones(columns)
    else:
        scale = np.array(((features[:MAX_FITTED] - center) @ components.T).std() or 1.0)
    return PointForm(scaling, names, columns, chosen, center, components, scale)


def _principal_components(centered: Float64[ndarray, "n columns"]) -> Float64[ndarray, "kept columns"]:
    """Return the directions of largest variance of a sample of the points, spread over all of them."""
    sample = torch.from_numpy(np.ascontiguousarray(centered[:: -(-len(centered) // MAX_FITTED)]))
    components: NDArray[np.float64] = torch.linalg.svd(sample, full_matrices=False).Vh[:MAX_COLUMNS].numpy()
    return components


def _to_codes(x: pd.DataFrame, scaling: TableScaling) -> tuple[Float64[ndarray, "n raw"], NDArray[np.bool_]]:
    """Return the columns of a DataFrame as numbers and codes of categories, NaN where an entry is missing."""
    kept = [column for column in scaling.columns if column.column.n_codes <= MAX_CATEGORIES]
    names = list(map(str, x.columns))
    codes = [column.to_numbers(x.iloc[:, names.index(column.name)]) for column in kept]
    return np.stack(codes, axis=1), np.array([column.kind == "category" for column in kept])
