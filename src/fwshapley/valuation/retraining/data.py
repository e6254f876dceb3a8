"""Points and labels that a model is retrained on and scored on: checked once, and known by a fingerprint."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.bundle import digest
from fwshapley._internal.checks import Array
from fwshapley._internal.tensors import as_tensor
from fwshapley.games.retraining import Features, is_regressor
from fwshapley.valuation.validation import check_labels, check_points, check_real_numbers


class Points(NamedTuple):
    """Training points and reference points.

    Attributes:
        x: features of the training points, as the model takes them.
        y: their labels or targets.
        x_reference: features of the reference points.
        y_reference: their labels or targets.
        labels: class number of each training point; different targets are different classes.
        other_labels: of each reference point; 0 where there are targets.
        classes: their names.
    """

    x: Features
    y: NDArray[Any]
    x_reference: Features
    y_reference: NDArray[Any]
    labels: Int64[Tensor, " n"]
    other_labels: Int64[Tensor, " references"]
    classes: tuple[str, ...]

    @property
    def n(self) -> int:
        """Number of training points."""
        return len(self.y)

    def fingerprints(self) -> dict[str, str]:
        """Return a digest of each part, by name."""
        parts = {"x": self.x, "y": self.y, "x_reference": self.x_reference, "y_reference": self.y_reference}
        return {name: _fingerprint(part) for name, part in parts.items()}


def check_data(model: object, x: Array, y: Array, reference: object) -> Points:
    """Return points and labels for a model, or raise an error that says what is wrong with them."""
    if not isinstance(reference, (tuple, list)) or len(reference) != 2:  # noqa: PLR2004 - a pair
        raise ValueError("reference must be a pair, (points, labels), for models to be scored on")
    rows = _check_features("x", x)
    if len(rows) < 2:  # noqa: PLR2004 - the fewest that can be told apart
        raise ValueError("x has one point alone: there is nothing to tell it apart from")
    columns = None if isinstance(rows, pd.DataFrame) else int(np.prod(rows.shape[1:]))
    others = _check_features("x_reference", reference[0], columns)
    if is_regressor(model):
        targets = _check_targets("y", y, len(rows))
        other_targets = _check_targets("y_reference", reference[1], len(others))
        classes, codes = np.unique(targets, return_inverse=True)
        none = torch.zeros(len(others), dtype=torch.int64)
        return Points(rows, targets, others, other_targets, torch.from_numpy(codes), none, tuple(map(str, classes)))
    labels, classes = check_labels("y", y, len(rows))
    other_labels, _ = check_labels("y_reference", reference[1], len(others), classes=classes)
    return Points(
        rows,
        classes[labels],
        others,
        classes[other_labels],
        torch.from_numpy(labels),
        torch.from_numpy(other_labels),
        tuple(map(str, classes.tolist())),
    )


def _check_features(name: str, x: Array, columns: int | None = None) -> Features:
    """Return features as they are, once seen to be finite numbers; what is in a DataFrame is up to the model."""
    if isinstance(x, pd.DataFrame):
        if not len(x):
            raise ValueError(f"{name} must have a row per point and at least one column, got shape {x.shape}")
        return x
    check_points(name, x, columns)
    return x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)


def _check_targets(name: str, y: Array, rows: int) -> NDArray[np.float64]:
    try:
        given = as_tensor(y)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must be numbers, one target per point: {error}") from error
    check_real_numbers(name, given)
    targets = given.detach().cpu().double().numpy()
    if targets.shape != (rows,):
        raise ValueError(f"{name} must be one target per point, {rows} of them, got shape {targets.shape}")
    if not np.isfinite(targets).all():
        raise ValueError(f"{name} has missing or infinite targets, the first in row {np.isfinite(targets).argmin()}")
    return targets


def _fingerprint(array: Features) -> str:
    """Digest of numbers as they are stored, or of text and mixed tables by rows."""
    if isinstance(array, pd.DataFrame) or array.dtype.kind not in "biuf":
        rows = pd.util.hash_pandas_object(pd.DataFrame(array), index=False)
        return digest({"rows": as_tensor(rows.to_numpy().view(np.int64))})
    return digest({"numbers": as_tensor(np.ascontiguousarray(array))})
