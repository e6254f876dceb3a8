"""Points and labels as they come from users: checked once, at the edge, with errors that say where and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.checks import Array
from fwshapley.explanation.inputs import choose_device

MOST_NAMED = 5
DEVICES = ("cpu", "cuda")
"""Kinds of device that values are computed on: they need double precision."""


def check_device(device: str | torch.device) -> str:
    """Return the name of a device that values can be computed on; "auto" is a GPU if there is one."""
    chosen = choose_device(device)
    if chosen.type not in DEVICES:
        raise ValueError(
            f"device must be 'auto', 'cpu' or 'cuda', got {str(device)!r}: values cannot be computed there"
        )
    return str(chosen)


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
    if hasattr(x, "toarray"):
        raise ValueError(f"{name} is a sparse matrix, which is not supported: pass {name}.toarray()")
    try:
        table = np.ascontiguousarray(_plain(name, x))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers, a row per point: {error}") from error
    check_real_numbers(name, table)
    if table.dtype not in (np.float32, np.float64):
        try:
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


def check_real_numbers(name: str, array: NDArray[Any] | Tensor) -> None:
    """Raise an error for kinds of numbers that would silently become others on the way to real ones."""
    kind = ("c" if array.is_complex() else "f") if isinstance(array, Tensor) else array.dtype.kind
    if kind == "c":
        raise ValueError(f"{name} must be real numbers, got complex ones: take their real and imaginary parts apart")
    if kind in "mM":
        raise ValueError(f"{name} must be numbers, got {array.dtype}: turn dates and times into numbers first")


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
    labels = _plain_labels(name, y, rows)
    found, codes = np.unique(labels, return_inverse=True)
    if classes is None:
        if len(found) == 1:
            raise ValueError(f"all labels in {name} are {found[0]}: with one class there is nothing to tell apart")
        return codes.astype(np.int64), found
    if _family(found) != _family(classes):
        raise ValueError(
            f"{name} holds {found.dtype.name} labels, but the training points' are {classes.dtype.name}: make them "
            "the same kind"
        )
    unknown = np.setdiff1d(found, classes)
    if len(unknown):
        named = ", ".join(map(str, unknown[:MOST_NAMED])) + " ..." * (len(unknown) > MOST_NAMED)
        raise ValueError(f"{name} has labels that no training point has: {named}; {advice}")
    return np.searchsorted(classes, labels).astype(np.int64), classes


def _plain_labels(name: str, y: Array, rows: int) -> NDArray[Any]:
    """Return labels as an array of whole numbers, text or bytes, one per point."""
    if isinstance(y, (str, bytes, Mapping, AbstractSet)):
        raise ValueError(  # noqa: TRY004 - as all that is wrong with labels
            f"{name} must be one label per point, {rows} of them in order, got a {type(y).__name__}"
        )
    try:
        labels = np.asarray(_plain(name, y), dtype=object if isinstance(y, (list, tuple)) else None)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be one label per point, {rows} of them: {error}") from error
    if labels.shape != (rows,):
        raise ValueError(f"{name} must be one label per point, {rows} of them, got shape {labels.shape}")
    missing = np.asarray(pd.isna(labels))
    if missing.any():
        raise ValueError(f"{name} has {int(missing.sum())} missing labels, the first in row {int(missing.argmax())}")
    _check_kind(name, labels)
    if labels.dtype.kind == "O":
        families = {_family(np.asarray(label)) for label in labels}
        if len(families) > 1:
            raise ValueError(f"{name} mixes {' and '.join(sorted(families, reverse=True))}: make all labels text")
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "f":
        _check_whole_numbers(name, labels)
    return labels


def _check_whole_numbers(name: str, labels: NDArray[np.floating[Any]]) -> None:
    infinite = np.isinf(labels)
    if infinite.any():
        raise ValueError(f"{name} has infinite labels, the first in row {int(infinite.argmax())}")
    broken = labels != np.round(labels)
    if broken.any():
        odd = labels[int(broken.argmax())]
        raise ValueError(f"{name} must be classes, got the real number {odd:g}: group it into classes first")


def _check_kind(name: str, labels: NDArray[Any]) -> None:
    """Raise an error unless all labels are numbers or text."""
    if labels.dtype.kind in "biufUTS":
        return
    for row, label in enumerate(labels.tolist()):
        if not isinstance(label, (str, bytes, Integral, float, np.floating, np.bool_)):
            raise ValueError(  # noqa: TRY004 - as all that is wrong with labels
                f"{name} must be numbers or text, but the label in row {row} is of type {type(label).__name__}: "
                f"{label!r:.60}; turn labels into text first"
            )


def _family(labels: NDArray[Any]) -> str:
    return {"U": "text", "T": "text", "S": "bytes"}.get(labels.dtype.kind, "numbers")


def _plain(name: str, array: Array) -> Any:  # noqa: ANN401 - anything that numpy takes
    if not isinstance(array, Tensor):
        return array
    if array.device.type == "meta":
        raise ValueError(f"{name} is a tensor on the device meta, which holds no numbers")
    return array.detach().cpu().resolve_conj().numpy()
