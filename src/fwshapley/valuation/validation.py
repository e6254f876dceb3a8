"""Checks of points and labels: done once for all valuators, with errors that name the argument and the row."""

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

from fwshapley._internal.checks import Array, check_flag, shorten
from fwshapley._internal.tensor_checks import choose_device
from fwshapley._internal.wording import listed
from fwshapley.tables.columns import infer_dtype
from fwshapley.tables.distance_scaling import TableScaling, scale_table
from fwshapley.tables.targets import Task, infer_task

DEVICES = ("cpu", "cuda")
"""Kinds of device that have double precision."""

FILL_ADVICE = "replace them, or drop the rows"
REFERENCE_ADVICE = "no point of y can help to predict these; drop these reference points, or correct their labels"
UNSEEN_ADVICE = "only labels seen in fit can be valued; fit with points of these classes, or correct the labels"
MAX_TARGET = 1e150
"""Largest target whose squares can be added up."""

FRACTIONS_ADVICE = "divide real targets into classes first"


def check_device(device: str | torch.device) -> str:
    """Return the name of a device that values can be computed on; "auto" is a GPU if there is one."""
    chosen = choose_device(device)
    if chosen.type not in DEVICES:
        raise ValueError(f"device must be 'auto', 'cpu' or 'cuda', got {str(device)!r}, which has no double precision")
    return str(chosen)


def column_names(x: Array) -> tuple[Any, ...] | None:
    """Return the names of the columns of a DataFrame, or None."""
    return tuple(x.columns) if isinstance(x, pd.DataFrame) else None


def reorder_columns(name: str, x: Array, columns: tuple[Any, ...] | None) -> Array:
    """Return a DataFrame with its columns in the order of the training points' columns."""
    if columns is None or not isinstance(x, pd.DataFrame) or tuple(x.columns) == columns:
        return x
    missing = [column for column in columns if column not in x.columns]
    if missing:
        raise ValueError(f"{name} must have the columns of the training points, but lacks {listed(missing)}")
    return x[list(columns)]


def scale_points(
    name: str,
    x: Array,
    scale: bool | None,  # noqa: FBT001 - an option with three values
) -> tuple[NDArray[np.floating[Any]], TableScaling | None, list[str]]:
    """Return features as a table of finite numbers, how a DataFrame was scaled to it, and notes on that.

    Args:
        name: name of the argument.
        x: features, (n, ...).
        scale: prepare a DataFrame as `fwshapley value` prepares a file; None does so if it does not contain numbers
            alone.
    """
    if scale is not None:
        check_flag("scale", scale)
    is_frame = isinstance(x, pd.DataFrame)
    if scale and not is_frame:
        raise TypeError(f"scale=True prepares the columns of a DataFrame, and {name} is a {type(x).__name__}: pass one")
    if not is_frame or scale is False or (scale is None and all(_is_numeric(x.iloc[:, n]) for n in range(x.shape[1]))):
        advice = "replace them, drop the rows, or pass scale=True, which fills in medians" if is_frame else FILL_ADVICE
        if (
            is_frame
            and scale is None
            and not all(isinstance(dtype, np.dtype) and dtype.kind != "O" for dtype in x.dtypes)
        ):
            x = x.to_numpy(np.float64, na_value=np.nan)
        return check_points(name, x, advice=advice), None, []
    if not x.size:
        raise ValueError(f"{name} must have rows and columns, got shape {x.shape}")
    scaling = scale_table(x, name)
    points, notes = scaling.coordinates(x, name)
    return points, scaling, [*scaling.notes, *notes]


def scale_as(name: str, x: Array, scaling: TableScaling) -> NDArray[np.floating[Any]]:
    """Return other points on the scale of the training points.

    Args:
        name: name of the argument.
        x: a DataFrame with the columns of the training points.
        scaling: of the training points.
    """
    if not isinstance(x, pd.DataFrame):
        raise TypeError(f"{name} must be a DataFrame, as the training points are, got {type(x).__name__}")
    if not len(x):
        raise ValueError(f"{name} must have at least one row, got none")
    return scaling.coordinates(x, name, scaled_by="the training points")[0]


def _is_numeric(entries: pd.Series) -> bool:
    """Whether a column contains numbers or flags alone."""
    is_flag = pd.api.types.infer_dtype(entries, skipna=True) == "boolean"
    return is_flag or pd.api.types.is_numeric_dtype(infer_dtype(entries))


def check_points(
    name: str, x: Array, columns: int | None = None, *, advice: str = FILL_ADVICE
) -> NDArray[np.floating[Any]]:
    """Return features as a table of finite numbers; images are flattened.

    Args:
        name: name of the argument.
        x: features, (n, ...).
        columns: expected number of features, or None for any.
        advice: what to do about missing numbers.
    """
    if hasattr(x, "toarray"):
        raise TypeError(f"{name} must be a dense array, got a sparse matrix; pass {name}.toarray()")
    expected = f"{name} must be numbers, with a row per point"
    try:
        table = np.ascontiguousarray(_to_numpy(name, x))
        if table.dtype.kind not in "cmM" and table.dtype not in (np.float32, np.float64):
            table = table.astype(np.float64)
    except TypeError as error:
        raise TypeError(f"{expected}: {error}") from error
    except ValueError as error:
        raise ValueError(f"{expected}: {error}") from error
    check_real_numbers(name, table)
    if table.ndim > 1 and len(table) and not table.size:
        raise ValueError(f"{expected}, got 0 feature(s) (shape={table.shape}) while a minimum of 1 is required.")
    if table.ndim < 2 or not table.size:  # noqa: PLR2004 - rows and columns
        raise ValueError(f"{expected} and at least one column, got shape {table.shape}")
    table = table.reshape(len(table), -1)
    if columns is not None and table.shape[1] != columns:
        raise ValueError(f"{name} must have {columns} columns, as the training points have, got {table.shape[1]}")
    finite = np.isfinite(table)
    if not finite.all():
        row, column = np.argwhere(~finite)[0].tolist()
        raise ValueError(
            f"{name} must be finite, got {int((~finite).sum())} NaN or infinite numbers, the first in row {row}, "
            f"column {column}; {advice}"
        )
    return table


def check_real_numbers(name: str, array: NDArray[Any] | Tensor) -> None:
    """Raise an error for complex numbers, dates and times."""
    kind = ("c" if array.is_complex() else "f") if isinstance(array, Tensor) else array.dtype.kind
    if kind == "c":
        raise ValueError(
            f"{name} must be real numbers, got complex ones. Complex data not supported; pass real and imaginary parts "
            "as separate columns"
        )
    if kind in "mM":
        raise ValueError(f"{name} must be numbers, got {array.dtype}; convert dates and times to numbers first")


def find_task(name: str, y: Array, rows: int) -> Task:
    """Return whether labels are classes or a numeric target; raise an error if they are neither or may be both."""
    return infer_task(name, _check_label_array(name, y, rows))


def check_targets(name: str, y: Array, rows: int) -> NDArray[np.float64]:
    """Return targets of regression as finite numbers, one per point."""
    targets = _check_label_array(name, y, rows)
    if targets.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must be numbers for regression, got {_family(targets)}; for classes use classification"
        )
    numbers = targets.astype(np.float64)
    infinite = ~np.isfinite(numbers)
    if infinite.any():
        raise ValueError(f"{name} must be finite, got {numbers[infinite][0]} in row {int(infinite.argmax())}")
    largest = float(np.abs(numbers).max(initial=0))
    if largest > MAX_TARGET:
        raise ValueError(
            f"{name} must be at most {MAX_TARGET:g}, so that squares are finite, got {largest:g}; rescale it"
        )
    return numbers


def check_labels(
    name: str,
    y: Array,
    rows: int,
    classes: NDArray[Any] | None = None,
    advice: str = REFERENCE_ADVICE,
    *,
    fractions_advice: str = FRACTIONS_ADVICE,
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return labels as class numbers 0..C-1, and the classes in order.

    Args:
        name: name of the argument.
        y: numbers or text.
        rows: number of points.
        classes: the classes of the training points; other labels are an error then. None accepts any.
        advice: what to do about other labels.
        fractions_advice: what to do about numbers that are not whole.
    """
    labels = _check_label_array(name, y, rows)
    if labels.dtype.kind == "f":
        fractions = ~np.isfinite(labels) | (labels != np.round(labels))
        if fractions.any():
            row = int(fractions.argmax())
            raise ValueError(
                f"{name} must be classes, got the real number {labels[row]:g} in row {row} (Unknown label type); "
                f"{fractions_advice}"
            )
    unique, codes = np.unique(labels, return_inverse=True)
    if classes is None:
        if len(unique) == 1:
            raise ValueError(f"{name} must contain two classes or more, but all labels are {unique[0]}: one class")
        return codes.astype(np.int64), unique
    if _family(unique) != _family(classes):
        raise ValueError(
            f"{name} must be labels of the same type as those of the training points, {classes.dtype.name}, got "
            f"{unique.dtype.name}"
        )
    unknown = np.setdiff1d(unique, classes)
    if len(unknown):
        raise ValueError(f"{name} has labels that no training point has: {listed(unknown)}; {advice}")
    return np.searchsorted(classes, labels).astype(np.int64), classes


def _check_label_array(name: str, y: Array, rows: int) -> NDArray[Any]:
    """Return labels as an array of whole numbers, text or bytes, one per point."""
    expected = f"{name} must be one label per point, {rows} of them"
    if isinstance(y, (str, bytes, Mapping, AbstractSet)):
        raise ValueError(f"{expected} in order, got a {type(y).__name__}")  # noqa: TRY004 - as for all wrong labels
    try:
        labels = np.asarray(_to_numpy(name, y), dtype=object if isinstance(y, (list, tuple)) else None)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{expected}: {error}") from error
    if labels.shape != (rows,):
        raise ValueError(f"{expected}, got shape {labels.shape}")
    missing = np.asarray(pd.isna(labels))
    if missing.any():
        raise ValueError(
            f"{name} must be without gaps, got {int(missing.sum())} missing labels (NaN or None), the first in row "
            f"{int(missing.argmax())}"
        )
    _check_label_types(name, labels)
    if labels.dtype.kind == "O":
        families = {_family(np.asarray(label)) for label in labels}
        if len(families) > 1:
            mixture = " and ".join(sorted(families, reverse=True))
            raise ValueError(f"{name} must be labels of one type, got {mixture}; convert all labels to text")
        labels = np.array(labels.tolist())
    return labels


def _check_label_types(name: str, labels: NDArray[Any]) -> None:
    """Raise an error unless all labels are numbers or text."""
    if labels.dtype.kind in "biufUTS":
        return
    for row, label in enumerate(labels.tolist()):
        if not isinstance(label, (str, bytes, Integral, float, np.floating, np.bool_)):
            raise ValueError(  # noqa: TRY004 - as for all wrong labels
                f"{name} must be numbers or text, got {shorten(label)} of type {type(label).__name__} in row {row}; "
                "convert labels to text first"
            )


def _family(labels: NDArray[Any]) -> str:
    return {"U": "text", "T": "text", "S": "bytes"}.get(labels.dtype.kind, "numbers")


def _to_numpy(name: str, array: Array) -> Any:  # noqa: ANN401 - anything that numpy takes
    if not isinstance(array, Tensor):
        return array
    if array.device.type == "meta":
        raise ValueError(f"{name} is a tensor on the device meta, which contains no numbers")
    return array.detach().cpu().resolve_conj().numpy()
