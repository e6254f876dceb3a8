"""A nearest-neighbor problem: points, reference points and the game that they define, checked once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy import ndarray
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.checks import Array, check_choice, check_whole
from fwshapley.games.knn import Ties, Utility
from fwshapley.semivalues import Semivalue, check_weights
from fwshapley.tables.distance_scaling import TableScaling
from fwshapley.valuation.knn.closed_forms import ClosedForm, make_form
from fwshapley.valuation.knn.distances import Metric, Places, place
from fwshapley.valuation.validation import (
    check_labels,
    check_points,
    column_names,
    reorder_columns,
    scale_as,
    scale_points,
)

MAX_DIRECT = 2**28
"""Coordinates up to which distances come from squared differences, which is exact where points coincide."""

DIGEST_ROWS = 1024


@dataclass(frozen=True, eq=False)
class NeighborProblem:
    """Points that are valued by how well the k nearest of them predict the labels of reference points.

    Attributes:
        places: coordinates of points and reference points, as distances are computed from them.
        labels: class number of each point.
        reference_labels: class number of each reference point.
        classes: the labels that class numbers stand for, in order.
        weights: semivalues.
        k: number of nearest neighbors.
        utility: how their prediction is scored.
        ties: which class wins a tied vote.
        metric: how distances are measured.
        held_out: whether the reference points are the points themselves; each is then left out of its own game.
        column_names: names of the features, or None.
        scaling: how columns of a DataFrame became features, if they were not used as they are.
        notes: on that, in short sentences.
        digest: hash of points and labels.
        reference_keys: hash of each reference point and its label; None if `held_out`.
        drawn: indices of the points that are the reference, if `held_out` and they are a sample; else None.
    """

    places: Places
    labels: NDArray[np.int64]
    reference_labels: NDArray[np.int64]
    classes: NDArray[Any]
    weights: tuple[Semivalue, ...]
    k: int
    utility: Utility
    ties: Ties
    metric: Metric
    held_out: bool
    column_names: tuple[Any, ...] | None
    scaling: TableScaling | None
    notes: tuple[str, ...]
    digest: str
    reference_keys: Int64[Tensor, " references"] | None
    drawn: NDArray[np.int64] | None = None

    @property
    def points(self) -> Float64[ndarray, "n columns"]:
        """Features of the points, around `places.center`."""
        return self.places.factor[:, :-2]

    @property
    def reference(self) -> Float64[ndarray, "references columns"]:
        """Features of the reference points, around the same center."""
        return self.places.reference

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self.labels)

    @property
    def n_columns(self) -> int:
        """Number of features."""
        return len(self.places.center)

    @property
    def n_references(self) -> int:
        """Number of reference points that the value of a point is a mean over.

        Sums over a sample of the points count for as many: `engine.sum_values` scales those of the sample itself.
        """
        return len(self.reference_labels) - (self.held_out and self.drawn is None)

    @property
    def own(self) -> NDArray[np.int64]:
        """Index of the point that each reference point is, or -1."""
        if self.drawn is not None:
            return self.drawn
        count = len(self.reference_labels)
        return np.arange(count) if self.held_out else np.full(count, -1)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Classes as text."""
        return name_classes(self.classes)

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of points of each class."""
        return tuple(np.bincount(self.labels, minlength=len(self.classes)).tolist())

    @property
    def is_direct(self) -> bool:
        """Whether distances come from differences; in larger problems they come from matrix products."""
        return self.n * self.n_columns * len(self.reference_labels) <= MAX_DIRECT

    def form(self, device: str) -> ClosedForm:
        """Return the closed form of the values of one reference point."""
        return _make_form_once(
            self.utility, self.weights, self.counts, self.k, held_out=self.held_out, ties=self.ties, device=device
        )

    def __sizeof__(self) -> int:
        """Bytes of all arrays, by which backends of joblib decide whether to share the problem between tasks."""
        arrays = (self.places.factor, self.places.reference, self.labels, self.reference_labels)
        return sum(array.nbytes for array in arrays)


@lru_cache(maxsize=4)
def _make_form_once(
    utility: Utility,
    weights: tuple[Semivalue, ...],
    counts: tuple[int, ...],
    k: int,
    *,
    held_out: bool,
    ties: Ties,
    device: str,
) -> ClosedForm:
    """Make a closed form once per process, however many tasks need it."""
    return make_form(utility, weights, torch.tensor(counts, device=device), k, held_out=held_out, ties=ties)


def check_problem(
    x: Array,
    y: Array,
    reference: tuple[Array, Array] | None = None,
    *,
    weights: Semivalue | Sequence[Semivalue] | None,
    k: int,
    utility: Utility = "soft",
    ties: Ties = "lowest",
    metric: Metric = "euclidean",
    scale: bool | None = None,
) -> NeighborProblem:
    """Return the problem that arguments of `value_neighbors` describe, or raise an error that names the argument."""
    semivalues = tuple(check_weights(weights))
    for name, value, choices in (("utility", utility, Utility), ("ties", ties, Ties), ("metric", metric, Metric)):
        check_choice(name, value, get_args(choices))
    k = check_whole("k", k)
    names = column_names(x)
    points, scaling, notes = scale_points("x", x, scale)
    labels, classes = check_labels("y", y, len(points))
    others, reference_labels = None, labels
    if reference is not None:
        x_reference, y_reference = check_reference(reference)
        others = place_points("reference[0]", x_reference, names, scaling, points.shape[1])
        reference_labels, _ = check_labels("reference[1]", y_reference, len(others), classes=classes)
    neighbors = len(points) - (reference is None)
    if k > neighbors:
        raise ValueError(f"k must be at most {neighbors}, the number of points to choose neighbors from, got {k}")
    return NeighborProblem(
        places=place(points, others, metric),
        labels=labels,
        reference_labels=reference_labels,
        classes=classes,
        weights=semivalues,
        k=k,
        utility=utility,
        ties=ties,
        metric=metric,
        held_out=others is None,
        column_names=names,
        scaling=scaling,
        notes=tuple(notes),
        digest=digest_points(points, labels, name_classes(classes)),
        reference_keys=None if others is None else _digest_rows(others, reference_labels),
    )


def place_points(
    name: str, x: Array, names: tuple[Any, ...] | None, scaling: TableScaling | None, columns: int
) -> NDArray[np.floating[Any]]:
    """Return the features of other points in the form of the training points' features.

    Args:
        name: name of the argument.
        x: the other points.
        names: of the training points' columns.
        scaling: of the training points.
        columns: number of features.
    """
    if scaling is not None:
        return scale_as(name, x, scaling)
    return check_points(name, reorder_columns(name, x, names), columns=columns)


def check_reference(reference: object) -> tuple[Array, Array]:
    """Return reference points and their labels, or raise an error."""
    if not isinstance(reference, (tuple, list)) or len(reference) != 2:  # noqa: PLR2004 - points and labels
        raise ValueError(
            "reference must be a pair (x, y) of points and labels, or None to value the points by each other; got "
            f"{type(reference).__name__}"
        )
    return reference[0], reference[1]


def name_classes(classes: NDArray[Any]) -> tuple[str, ...]:
    """Return classes as text."""
    return tuple(map(str, classes.tolist()))


def digest_points(x: NDArray[np.floating[Any]], labels: NDArray[np.int64], classes: Sequence[str]) -> str:
    """Return a hash of points, class numbers and class names; it does not depend on the kind of array or machine."""
    state = hashlib.blake2b(repr((x.shape, tuple(classes))).encode(), digest_size=16)
    state.update(labels.astype("<i8").tobytes())
    for start in range(0, len(x), DIGEST_ROWS):
        state.update(x[start : start + DIGEST_ROWS].astype("<f8").tobytes())
    return state.hexdigest()


def _digest_rows(x: NDArray[np.floating[Any]], labels: NDArray[np.int64]) -> Int64[Tensor, " points"]:
    """Return a hash of every point with its class number."""
    keys = b"".join(
        hashlib.blake2b(row.astype("<f8").tobytes(), digest_size=8, salt=label.to_bytes(8, "little")).digest()
        for row, label in zip(x, labels.tolist(), strict=True)
    )
    return torch.from_numpy(np.frombuffer(keys, dtype="<i8").astype(np.int64))
