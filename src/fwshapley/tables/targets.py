"""Whether numbers are classes or a target of regression."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fwshapley._internal.wording import listed

Task = Literal["classification", "regression"]

TaskChoice = Literal["auto", "classification", "regression"]
"""A task, or "auto" to tell by the labels or targets."""

MAX_CLASSES = 20
"""Most different numbers that are classes if they are whole, and that may be classes if some are not."""

ROWS_PER_CLASS = 20
"""Rows for each of many different whole numbers from which they may be classes."""


def infer_task(
    name: str, values: NDArray[Any], choose: str = "choose with task='classification' or task='regression'"
) -> Task:
    """Return what is to be predicted, or raise an error that asks for the task if numbers may be either.

    Text and flags are classes. Whole numbers are classes if at most 20 are different, and some occurs twice or they
    count from 0 or 1 without gaps, as codes of classes do. More of them are a target, unless they count in this way, or
    occur 20 times each. Numbers of which some are not whole are a target, unless at most 20 are different and some
    occurs twice, as half stars do.

    Args:
        name: what contains the values, for errors.
        values: labels or targets.
        choose: how to choose the task.
    """
    if values.dtype.kind not in "iuf":
        return "classification"
    rows, unique = len(values), np.unique(values)
    different = len(unique)
    counts_up = unique[0] in (0, 1) and unique[-1] - unique[0] == different - 1
    if not (unique == np.round(unique)).all():
        may_be_classes = different <= MAX_CLASSES and different < rows
    elif different <= MAX_CLASSES:
        if counts_up or different < max(rows, 3):
            return "classification"
        may_be_classes = True
    else:
        may_be_classes = counts_up or rows >= ROWS_PER_CLASS * different
    if not may_be_classes:
        return "regression"
    raise ValueError(
        f"{name} has {different:,} different numbers ({listed(unique.tolist(), most=3)}), which may be classes or a "
        f"target: {choose}"
    )
