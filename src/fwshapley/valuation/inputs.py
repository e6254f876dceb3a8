"""Points and labels as they come from users: checked once, at the edge, with errors that say where and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from fwshapley.checks import Array

MOST_NAMED = 5


def column_names(x: Array) -> tuple[Any, ...] | None:
    """Return the names of columns, where they have some."""
    return tuple(x.columns) if isinstance(x, pd.DataFrame) else None


def in_order(name: str, x: Array, columns: tuple[Any, ...] | None) -> Array:
    """Return a table with its columns in the order of the training points', whatever order they come in."""
    if columns is None or not isinstance(x, pd.DataFrame) or tuple(x.columns) == columns:
        return x
    missing = [str(each) for each in columns if each not in x.columns]
    if missing:
        named = ", ".join(missing[:MOST_NAMED]) + " ..." * (len(missing) > MOST_NAMED)
        raise ValueError(f"{name} lacks columns that the training points have: {named}")
    return x[list(columns)]


def check_points(name: str, x: Array, columns: int | None = None) -> NDArray[np.floating[Any]]:
    """Return features as a table of finite numbers, flattened if they are images."""
    try:
        table = np.ascontiguousarray(_plain(x))
        if table.dtype not in (np.float32, np.float64):
            table = table.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers, a row per point: {error}") from error
    if table.ndim < 2 or not table.size:  # noqa: PLR2004 - rows and columns
        raise ValueError(f"{name} must have a row per point and at least one column, got shape {table.shape}")
    table = table.reshape(len(table), -1)
    if columns is not None and table.shape[1] != columns:
        raise ValueError(
            f"{name} has {table.shape[1]} columns, but the training points have {columns}: they must be the same "
            "features"
        )
    finite = np.isfinite(table)
    if not finite.all():
        row, column = np.argwhere(~finite)[0].tolist()
        raise ValueError(
            f"{name} has {int((~finite).sum())} missing or infinite numbers, the first in row {row}, column {column}: "
            "fill them in or drop those rows"
        )
    return table


REFERENCE_ADVICE = "no point of y can be of use for those: drop these reference rows, or mend their labels"
NEWCOMER_ADVICE = "what those are worth is not known: fit with points of these classes, or mend the labels"


def check_labels(
    name: str, y: Array, rows: int, classes: NDArray[Any] | None = None, advice: str = REFERENCE_ADVICE
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return labels as numbers 0..C-1, and the classes that they stand for, in order.

    Args:
        name: of the argument, for errors.
        y: numbers or text.
        rows: points that they belong to.
        classes: those known already; others are an error then.
        advice: what to do about others.
    """
    labels = np.asarray(_plain(y), dtype=object if isinstance(y, (list, tuple)) else None)
    if labels.shape != (rows,):
        raise ValueError(f"{name} must be one label per point, {rows} of them, got shape {labels.shape}")
    missing = np.asarray(pd.isna(labels))
    if missing.any():
        raise ValueError(f"{name} has {int(missing.sum())} missing labels, the first in row {int(missing.argmax())}")
    if labels.dtype.kind == "O":
        if len({isinstance(label, str) for label in labels}) > 1:
            raise ValueError(f"{name} mixes text and numbers: make all labels text")
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "f" and (labels != np.round(labels)).any():
        odd = labels[int((labels != np.round(labels)).argmax())]
        raise ValueError(f"{name} must be classes, got the real number {odd:g}: group it into classes first")
    found, codes = np.unique(labels, return_inverse=True)
    if classes is None:
        if len(found) == 1:
            raise ValueError(f"all labels in {name} are {found[0]}: with one class there is nothing to tell apart")
        return codes.astype(np.int64), found
    if (found.dtype.kind in "US") != (classes.dtype.kind in "US"):
        raise ValueError(
            f"{name} holds {found.dtype.name} labels, but the training points' are {classes.dtype.name}: make them "
            "the same kind"
        )
    unknown = np.setdiff1d(found, classes)
    if len(unknown):
        named = ", ".join(map(str, unknown[:MOST_NAMED])) + " ..." * (len(unknown) > MOST_NAMED)
        raise ValueError(f"{name} has labels that no training point has: {named}; {advice}")
    return np.searchsorted(classes, labels).astype(np.int64), classes


def _plain(array: Array) -> Any:  # noqa: ANN401 - anything that numpy takes
    return array.detach().cpu().numpy() if isinstance(array, Tensor) else array
