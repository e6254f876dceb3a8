"""A nearest-neighbor problem: points, reference points and the game that they define, checked once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, get_args

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy import ndarray
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.checks import Array, check_choice, check_real, check_whole
from fwshapley.games.knn import BY_KERNEL, BY_RADIUS, AnyUtility, RegressionUtility, Ties, Utility
from fwshapley.semivalues import Semivalue, check_weights
from fwshapley.tables.distance_scaling import TableScaling
from fwshapley.tables.targets import Task, TaskChoice
from fwshapley.valuation.knn.closed_forms import ClosedForm, make_form, make_regression_form
from fwshapley.valuation.knn.closed_forms.radius import RadiusForm
from fwshapley.valuation.knn.distances import Metric, Places, place
from fwshapley.valuation.validation import (
    check_labels,
    check_points,
    check_targets,
    column_names,
    find_task,
    reorder_columns,
    scale_as,
    scale_points,
)

MAX_DIRECT = 2**28
"""Coordinates up to which distances come from squared differences, which is exact where points coincide."""

DIGEST_ROWS = 1024

DEFAULT_UTILITIES: dict[Task, AnyUtility] = {
    "classification": "soft",
    "regression": "squared_error",
}
FRACTIONS_ADVICE = "use value_neighbors with task='regression' for a numeric target, or divide it into classes"


@dataclass(frozen=True, eq=False)
class NeighborProblem:
    """Points that are valued by how well the nearest of them predict the labels or targets of reference points.

    Attributes:
        places: coordinates of points and reference points, as distances are computed from them.
        labels: class number of each point, or its target.
        reference_labels: class number of each reference point, or its target.
        classes: the labels that class numbers stand for, in order; none for targets.
        default: what an empty coalition predicts: the mean target; 0 for classes.
        weights: semivalues.
        k: number of nearest neighbors.
        utility: how their prediction is scored.
        ties: which class wins a tied vote.
        radius: distance within which all points are neighbors, or at which a kernel has decreased; None without either.
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
    labels: NDArray[np.int64] | NDArray[np.float64]
    reference_labels: NDArray[np.int64] | NDArray[np.float64]
    classes: NDArray[Any]
    default: float
    weights: tuple[Semivalue, ...]
    k: int
    utility: AnyUtility
    ties: Ties
    radius: float | None
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
    def task(self) -> Task:
        """Whether labels or targets are predicted."""
        return task_of(self.utility)

    @property
    def needs_closeness(self) -> bool:
        """Whether points are weighted by their distances."""
        return self.utility in BY_KERNEL

    @property
    def is_by_radius(self) -> bool:
        """Whether all points within a distance are neighbors, so that nothing is sorted."""
        return self.utility in BY_RADIUS

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
        """Return the closed form of the values of one reference point, for a utility that looks at ranks."""
        if self.task == "regression":
            return _make_regression_form_once(
                self.utility, self.weights, self.n - self.held_out, self.k, default=self.default, device=device
            )
        return _make_form_once(
            self.utility, self.weights, self.counts, self.k, held_out=self.held_out, ties=self.ties, device=device
        )

    def radius_form(self) -> RadiusForm:
        """Return the closed form of the values of one reference point, for a utility that looks at a radius."""
        return _make_radius_form_once(self.weights, self.n - self.held_out)

    def error_bound(self, tolerance: float, device: str) -> float:
        """Return the largest error of a value that a tolerance causes."""
        return 0.0 if self.is_by_radius else self.form(device).cut(tolerance)[1]

    def check_more_labels(
        self, name: str, y: Array, rows: int, **advice: str
    ) -> NDArray[np.int64] | NDArray[np.float64]:
        """Return the labels or targets of other points in the form of those of the points."""
        if self.task == "regression":
            return check_targets(name, y, rows)
        return check_labels(name, y, rows, classes=self.classes, **advice)[0]

    def __sizeof__(self) -> int:
        """Bytes of all arrays, by which backends of joblib decide whether to share the problem between tasks."""
        arrays = (self.places.factor, self.places.reference, self.labels, self.reference_labels)
        return sum(array.nbytes for array in arrays)


@lru_cache(maxsize=4)
def _make_form_once(
    utility: AnyUtility,
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


@lru_cache(maxsize=4)
def _make_regression_form_once(
    utility: AnyUtility,
    weights: tuple[Semivalue, ...],
    n: int,
    k: int,
    *,
    default: float,
    device: str,
) -> ClosedForm:
    return make_regression_form(utility, weights, n, k, default=default, device=device)


@lru_cache(maxsize=4)
def _make_radius_form_once(weights: tuple[Semivalue, ...], n: int) -> RadiusForm:
    return RadiusForm(weights, n)


def check_problem(
    x: Array,
    y: Array,
    reference: tuple[Array, Array] | None = None,
    *,
    weights: Semivalue | Sequence[Semivalue] | None,
    k: int,
    task: TaskChoice = "auto",
    utility: AnyUtility | None = None,
    ties: Ties = "lowest",
    radius: float | None = None,
    metric: Metric = "euclidean",
    scale: bool | None = None,
) -> NeighborProblem:
    """Return the problem that arguments of `value_neighbors` describe, or raise an error that names the argument."""
    semivalues = tuple(check_weights(weights))
    check_choice("ties", ties, get_args(Ties))
    check_choice("metric", metric, get_args(Metric))
    _check_task(task, utility)
    k = check_whole("k", k)
    names = column_names(x)
    points, scaling, notes = scale_points("x", x, scale)
    if task == "auto":
        task = find_task("y", y, len(points)) if utility is None else task_of(utility)
    utility = utility or DEFAULT_UTILITIES[task]
    radius = _check_radius(radius, utility)
    labels, classes, default = _check_points_labels(y, len(points), task)
    others = None
    if reference is not None:
        x_reference, y_reference = check_reference(reference)
        others = place_points("reference[0]", x_reference, names, scaling, points.shape[1])
    neighbors = len(points) - (reference is None)
    if k > neighbors and utility not in BY_RADIUS:
        raise ValueError(f"k must be at most {neighbors}, the number of points to choose neighbors from, got {k}")
    problem = NeighborProblem(
        places=place(points, others, metric),
        labels=labels,
        reference_labels=labels,
        classes=classes,
        default=default,
        weights=semivalues,
        k=k,
        utility=utility,
        ties=ties,
        radius=radius,
        metric=metric,
        held_out=others is None,
        column_names=names,
        scaling=scaling,
        notes=tuple(notes),
        digest=digest_points(points, labels, name_classes(classes)),
        reference_keys=None,
    )
    if others is None:
        return problem
    reference_labels = problem.check_more_labels("reference[1]", y_reference, len(others))
    return replace(problem, reference_labels=reference_labels, reference_keys=_digest_rows(others, reference_labels))


def task_of(utility: AnyUtility) -> Task:
    """Return the task of a utility."""
    return "classification" if utility in get_args(Utility) else "regression"


def _check_task(task: TaskChoice, utility: AnyUtility | None) -> None:
    """Raise an error unless task and utility are known and go together."""
    check_choice("task", task, get_args(TaskChoice))
    if utility is None:
        return
    check_choice("utility", utility, get_args(AnyUtility))
    if task not in ("auto", task_of(utility)):
        choices = get_args(Utility if task == "classification" else RegressionUtility)
        raise ValueError(f"utility must be one of {', '.join(map(repr, choices))} for task={task!r}, got {utility!r}")


def _check_radius(radius: float | None, utility: AnyUtility) -> float | None:
    """Return the radius, or raise an error if the utility needs one or has no use for it."""
    if utility not in BY_RADIUS + BY_KERNEL:
        if radius is not None:
            kinds = ", ".join(map(repr, BY_RADIUS + BY_KERNEL))
            raise ValueError(f"radius is for the utilities {kinds}; omit it for utility={utility!r}")
        return None
    if radius is None:
        raise ValueError(f"radius must be a distance for utility={utility!r}, got None")
    number = check_real("radius", radius)
    if number <= 0:
        raise ValueError(f"radius must be positive, got {number:g}")
    return number


def _check_points_labels(
    y: Array, rows: int, task: Task
) -> tuple[NDArray[np.int64] | NDArray[np.float64], NDArray[Any], float]:
    """Return labels or targets of the points, the classes, and what an empty coalition predicts."""
    if task == "classification":
        labels, classes = check_labels("y", y, rows, fractions_advice=FRACTIONS_ADVICE)
        return labels, classes, 0.0
    targets = check_targets("y", y, rows)
    if targets.min() == targets.max():
        raise ValueError(f"y must contain different targets, but all are {targets[0]:g}")
    return targets, np.empty(0, dtype=str), float(targets.mean())


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


def digest_points(x: NDArray[np.floating[Any]], labels: NDArray[Any], classes: Sequence[str]) -> str:
    """Return a hash of points, labels and class names; it does not depend on the kind of array or machine."""
    state = hashlib.blake2b(repr((x.shape, tuple(classes))).encode(), digest_size=16)
    state.update(_to_bytes(labels))
    for start in range(0, len(x), DIGEST_ROWS):
        state.update(x[start : start + DIGEST_ROWS].astype("<f8").tobytes())
    return state.hexdigest()


def _digest_rows(x: NDArray[np.floating[Any]], labels: NDArray[Any]) -> Int64[Tensor, " points"]:
    """Return a hash of every point with its label."""
    keys = b"".join(
        hashlib.blake2b(row.astype("<f8").tobytes(), digest_size=8, salt=_to_bytes(label)).digest()
        for row, label in zip(x, labels, strict=True)
    )
    return torch.from_numpy(np.frombuffer(keys, dtype="<i8").astype(np.int64))


def _to_bytes(labels: NDArray[Any] | np.generic) -> bytes:
    """Return the bytes of class numbers or targets, 8 for each."""
    return labels.astype("<f8" if labels.dtype.kind == "f" else "<i8").tobytes()
