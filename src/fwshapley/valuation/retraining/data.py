"""Training points and reference points of a retrained model, checked once and identified by digests."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.arrays import is_tensor, to_numpy
from fwshapley._internal.checks import Array, check_numbers
from fwshapley._internal.safetensors_file import digest
from fwshapley.games.retraining import Features, check_reference_pair, is_regressor
from fwshapley.valuation.validation import check_labels, check_points


class TrainingData(NamedTuple):
    """Training points and reference points.

    Attributes:
        x: features of the training points, as the model takes them.
        y: their labels or targets.
        x_reference: features of the reference points.
        y_reference: their labels or targets.
        labels: class number of each training point; every distinct target is a class.
        reference_labels: class number of each reference point; 0 for targets.
        classes: names of the classes.
    """

    x: Features
    y: NDArray[Any]
    x_reference: Features
    y_reference: NDArray[Any]
    labels: Int64[Tensor, " n"]
    reference_labels: Int64[Tensor, " references"]
    classes: tuple[str, ...]

    @property
    def n(self) -> int:
        """Number of training points."""
        return len(self.y)

    def digests(self) -> dict[str, str]:
        """Return a digest of each array, by the name of the argument."""
        arrays = {"x": self.x, "y": self.y, "reference[0]": self.x_reference, "reference[1]": self.y_reference}
        return {name: _digest(array) for name, array in arrays.items()}


def check_data(model: object, x: Array, y: Array, reference: object) -> TrainingData:
    """Return points and labels for a model, or raise an error that names the argument."""
    x_reference, y_reference = check_reference_pair(reference)
    points = _check_features("x", x)
    if len(points) < 2:  # noqa: PLR2004 - a value compares a point with others
        raise ValueError("x must have at least 2 points, got 1")
    columns = None if isinstance(points, pd.DataFrame) else int(np.prod(points.shape[1:]))
    references = _check_features("reference[0]", x_reference, columns)
    if is_regressor(model):
        targets = _check_targets("y", y, len(points))
        classes, labels = np.unique(targets, return_inverse=True)
        reference_targets = _check_targets("reference[1]", y_reference, len(references))
        reference_labels = np.zeros(len(references), dtype=np.int64)
    else:
        labels, classes = check_labels("y", y, len(points))
        reference_labels, _ = check_labels("reference[1]", y_reference, len(references), classes=classes)
        targets, reference_targets = classes[labels], classes[reference_labels]
    return TrainingData(
        points,
        targets,
        references,
        reference_targets,
        torch.from_numpy(labels),
        torch.from_numpy(reference_labels),
        tuple(map(str, classes.tolist())),
    )


def _check_features(name: str, x: Array, columns: int | None = None) -> Features:
    """Return features as they are after a check that they are finite numbers; the model checks a DataFrame."""
    if not isinstance(x, pd.DataFrame):
        check_points(name, x, columns)
        return to_numpy(x) if is_tensor(x) else np.asarray(x)
    if not len(x):
        raise ValueError(f"{name} must have a row per point and at least one column, got shape {x.shape}")
    return x


def _check_targets(name: str, y: Array, n: int) -> NDArray[np.float64]:
    targets = check_numbers(name, y)
    if targets.shape != (n,):
        raise ValueError(f"{name} must be one target per point, {n} of them, got shape {targets.shape}")
    if not np.isfinite(targets).all():
        row = int(np.isfinite(targets).argmin())
        raise ValueError(f"{name} has missing or infinite targets, the first in row {row}")
    return targets


def _digest(array: Features) -> str:
    """Return a digest of numbers as they are stored, or of the rows of text and mixed tables."""
    if isinstance(array, pd.DataFrame) or array.dtype.kind not in "biuf":
        rows = pd.util.hash_pandas_object(pd.DataFrame(array), index=False)
        return digest({"rows": rows.to_numpy()})
    return digest({"numbers": np.ascontiguousarray(array)})
