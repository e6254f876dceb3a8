"""Labels that are changed on purpose, to test whether values detect them."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float64
from numpy.typing import NDArray
from torch import Tensor, from_numpy

from fwshapley._internal.checks import Array, check_choice, check_real, check_seed
from fwshapley.valuation.validation import check_labels

ROUNDING = 1e-6
"""Largest deviation from 1 of the sum of the probabilities of a class."""


class Flipped(NamedTuple):
    """Labels of which some are wrong: tensors if the original labels are a tensor, else numpy arrays.

    Attributes:
        labels: the new labels, of the same type as the original ones.
        flipped: True where a label was changed.
    """

    labels: Any  # a union would force callers to distinguish its cases
    flipped: Any


def flip_labels(
    y: Array,
    *,
    share: float = 0.1,
    how: Literal["uniform", "next"] | Array = "uniform",
    seed: int | np.random.Generator = 0,
) -> Flipped:
    """Give a share of the points the label of another class.

    Exactly round(share * n) labels are changed, each point with the same probability. To flip labels of reference
    points too, as if they came from the same source, call it again with another seed.

    Args:
        y: labels, numbers or text; they are not changed in place.
        share: share of the labels to flip, 0 to 1.
        how: the class that a flipped label becomes: "uniform", any other with equal probability; "next", the one after
            it in sorted order, and the first after the last; or a table (classes, classes) in sorted order, whose rows
            contain the probabilities of the wrong classes for a true class, *given that a label is flipped*: 0 on the
            diagonal, and rows that sum to 1.
        seed: a whole number, or a generator.

    Returns:
        The labels, and which of them are wrong.

    Example:
        >>> noisy, wrong = flip_labels([0, 1, 2, 0, 1, 2, 0, 1, 2, 0], share=0.2, seed=1)
        >>> int(wrong.sum())
        2
    """
    share = check_real("share", share)
    if not 0 <= share <= 1:
        raise ValueError(f"share must be between 0 and 1, got {share:g}")
    if not hasattr(y, "__len__") or not getattr(y, "ndim", 1) or not len(y):
        raise ValueError("y must be a list or an array with at least one label")
    codes, classes = check_labels("y", y, len(y))
    confusion = _confusion(how, classes)
    # numpy would accept None as a seed, and draw a different one in every run.
    generator = np.random.default_rng(seed if isinstance(seed, np.random.Generator) else check_seed(seed))
    chosen = generator.choice(len(codes), size=round(share * len(codes)), replace=False)
    noisy = codes.copy()
    for true in np.unique(codes[chosen]):
        points = chosen[codes[chosen] == true]
        noisy[points] = generator.choice(len(classes), size=len(points), p=confusion[true])
    # Each new label is copied from a point that has it, which keeps the type of the labels.
    source = np.unique(codes, return_index=True)[1][noisy]
    if isinstance(y, Tensor):
        return Flipped(y[from_numpy(source).to(y.device)], from_numpy(noisy != codes).to(y.device))
    return Flipped(np.asarray(y)[source], noisy != codes)


def _confusion(how: str | Array, classes: NDArray[Any]) -> Float64[np.ndarray, "classes classes"]:
    """Return the probability of each wrong class (columns) for each true class (rows)."""
    if not isinstance(how, str):
        return _check_table(how, classes)
    check_choice("how", how, ("uniform", "next"))
    same = np.eye(len(classes))
    return (1 - same) / (len(classes) - 1) if how == "uniform" else np.roll(same, 1, axis=1)


def _check_table(how: Array, classes: NDArray[Any]) -> Float64[np.ndarray, "classes classes"]:
    try:
        table = np.array(how.tolist() if isinstance(how, Tensor) else how, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"how must be 'uniform', 'next' or a table of probabilities: {error}") from error
    if table.shape != (len(classes), len(classes)):
        raise ValueError(
            f"how must have a row and a column for each of the {len(classes)} classes of y, got shape {table.shape}"
        )
    if not np.isfinite(table).all() or (table < 0).any():
        raise ValueError("how must contain probabilities, got negative, NaN or infinite numbers")
    if table.diagonal().any():
        name = classes[int(table.diagonal().argmax())]
        raise ValueError(
            f"how must be 0 on the diagonal, but a flipped label of class {name} could stay the same; set the diagonal "
            "to 0 and divide each row by its sum"
        )
    sums = table.sum(1, keepdims=True)
    if not sums.all():
        raise ValueError(
            f"how must have a wrong class for every class, but the row of class {classes[int(sums.argmin())]} is all 0"
        )
    odd = np.abs(sums[:, 0] - 1) > ROUNDING
    if odd.any():
        first = int(odd.argmax())
        raise ValueError(
            f"how must have rows that sum to 1, but that of class {classes[first]} sums to {sums[first, 0]:g}"
        )
    return table / sums
