"""Exact data values of prediction by nearest neighbors, for every weighting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
import torch

from fwshapley._internal.checks import Array, check_jobs, check_real
from fwshapley._internal.version import __version__
from fwshapley.games.knn import AnyUtility, Ties
from fwshapley.semivalues import Semivalue
from fwshapley.tables.targets import TaskChoice
from fwshapley.valuation.base import Valuator
from fwshapley.valuation.knn.distances import Metric
from fwshapley.valuation.knn.engine import sum_values
from fwshapley.valuation.knn.index import NeighborIndex
from fwshapley.valuation.knn.problem import NeighborProblem, check_problem, digest_points, place_points
from fwshapley.valuation.knn.radius import RadiusIndex
from fwshapley.valuation.knn.reference_sample import sample_reference
from fwshapley.valuation.result import OTHER_POINTS, Valuation, make_valuation
from fwshapley.valuation.validation import UNSEEN_ADVICE, check_device


def value_neighbors(
    x: Array,
    y: Array,
    reference: tuple[Array, Array] | None = None,
    *,
    k: int = 5,
    weights: Semivalue | Sequence[Semivalue] | None = None,
    task: TaskChoice = "auto",
    utility: AnyUtility | None = None,
    ties: Ties = "lowest",
    radius: float | None = None,
    metric: Metric = "euclidean",
    scale: bool | None = None,
    tolerance: float = 0.0,
    n_references: int | Literal["all"] | None = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    n_jobs: int | None = None,
    progress: bool = True,
) -> Valuation:
    """Value training points by how much they help nearest neighbors to predict reference points, exactly.

    Each reference point is a game of the training points: the value of a coalition is how well the k nearest of its
    members predict the label, or the target, of the reference point. A value is the mean of a point's semivalues over
    these games, in closed form (docs/math.md, section 6).

    Args:
        x: features of the training points, (n, ...): numbers, or a DataFrame also of texts, dates and flags.
        y: their labels, numbers or text, or their targets, numbers.
        reference: points to predict and their labels or targets, a pair (x, y). Labels should contain every
            class: a point whose class is missing can only do harm. None values each training point by how it helps to
            predict the others.
        k: number of nearest neighbors.
        weights: a semivalue, or a list of them, which share all distances and sorts; None is Shapley.
        task: "classification", "regression", or "auto": text, flags and at most 20 different whole numbers are classes,
            more different numbers a target; where numbers may be either, an error asks for the task.
        utility: what a coalition is worth. For classes: "soft" (default), the number of its k nearest members that have
            the correct label, divided by k; "normalized", the same divided by the number of members if there are fewer
            than k; "vote", whether the correct label wins the vote among them; "brier", minus the squared error of the
            shares of all classes among them; "kernel", as "soft" with weights exp(-distance**2 / (2 radius**2));
            "radius", the share of the correct label among all members within the radius. For a target: minus the
            squared error of a prediction, which is, for "squared_error" (default), the mean of the k nearest, where the
            mean of y takes the place of missing members; "normalized_error", the mean of the min(k, members) nearest;
            "kernel_error", as "squared_error" with the weights of "kernel" for differences from the mean of y;
            "radius_error", the mean of all members within the radius.
        ties: of a vote go to the "lowest" class, or are "shared".
        radius: the distance that "radius", "radius_error", "kernel" and "kernel_error" need; with metric="cosine", the
            distance between unit vectors.
        metric: "euclidean" or "cosine".
        scale: prepare the columns of a DataFrame as `fwshapley value` prepares those of a file: numbers are
            standardized, dates become days, categories one coordinate each, missing numbers the median; constant
            columns, row numbers and free text are left out. None does so if the DataFrame contains anything but
            numbers and flags. Otherwise features are used as they are: columns of large numbers count most.
        tolerance: largest error of a value; larger is faster, since weightings that favor large coalitions depend on
            few neighbors. Brier scores, squared errors and radii are always exact.
        n_references: without a reference, the number of points that the points are valued by: a sample in which each
            label and region has its share; or "all". None takes all of up to 100,000 points, and of many more as many
            as some two minutes on 2 cores allow: 20 billion pairs / (1 + columns / 512), such as 17,777 of a million
            points with 64 columns. A smaller sample is faster, and finds fewer of the wrong labels.
        seed: of that sample.
        device: "cpu", "cuda", or "auto" for a GPU if there is one.
        n_jobs: number of CPU cores; None uses the number of an active `joblib.parallel_config` if it is more than one,
            else all. The backend of `joblib.parallel_config` may distribute the work over processes or machines.
        progress: announce long work, and show progress: a bar on a terminal, lines elsewhere.

    Returns:
        Values with standard errors over the reference points, (n,), or (weights, n) for a list of weightings.

    Example:
        >>> import fwshapley as fw
        >>> x = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0], [4]], 30, axis=0)
        >>> y = np.repeat([0, 1], 30)
        >>> y[7] = 1  # a wrong label
        >>> fw.value_neighbors(x, y, weights=fw.Beta(4, 1)).suspects(1)
        tensor([7])

        A target:

        >>> target = x.sum(axis=1)
        >>> target[20] = 30  # a wrong number
        >>> fw.value_neighbors(x, target, utility="normalized_error").suspects(1)
        tensor([20])
    """
    valuator = KNNValuator(
        k, weights=weights, task=task, utility=utility, ties=ties, radius=radius, metric=metric, scale=scale,
        tolerance=tolerance, n_references=n_references, seed=seed, device=device, n_jobs=n_jobs, progress=progress,
    )  # fmt: skip
    return valuator.fit(x, y, reference).result_


class KNNValuator(Valuator):
    """Values of training points for prediction by nearest neighbors, with the interface of scikit-learn.

    The arguments are those of `value_neighbors`.

    Attributes:
        result_: the Valuation, after `fit`.
        values_: its values.
        n_features_in_: number of features of a point.
        problem_: the points in the form that `value` needs.

    Example:
        >>> import fwshapley as fw
        >>> x = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0], [4]], 30, axis=0)
        >>> y = np.repeat([0, 1], 30)
        >>> valuator = fw.KNNValuator(k=5, weights=fw.Beta(4, 1)).fit(x, y)
        >>> valuator.value([[4.0, 4.0], [4.0, 4.0]], [0, 1]).values > 0  # the first has a wrong label
        tensor([False,  True])
    """

    problem_: NeighborProblem
    index_: NeighborIndex | RadiusIndex | None

    def __init__(
        self,
        k: int = 5,
        *,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        task: TaskChoice = "auto",
        utility: AnyUtility | None = None,
        ties: Ties = "lowest",
        radius: float | None = None,
        metric: Metric = "euclidean",
        scale: bool | None = None,
        tolerance: float = 0.0,
        n_references: int | Literal["all"] | None = None,
        seed: int = 0,
        device: str | torch.device = "auto",
        n_jobs: int | None = None,
        progress: bool = True,
    ) -> None:
        self.k = k
        self.weights = weights
        self.task: TaskChoice = task
        self.utility: AnyUtility | None = utility
        self.ties: Ties = ties
        self.radius = radius
        self.metric: Metric = metric
        self.scale = scale
        self.tolerance = tolerance
        self.n_references = n_references
        self.seed = seed
        self.device = device
        self.n_jobs = n_jobs
        self.progress = progress

    def fit(self, x: Array, y: Array, reference: tuple[Array, Array] | None = None) -> Self:
        """Value the points of x by how they help to predict reference points, or each other.

        Args:
            x: features of the training points.
            y: their labels or targets.
            reference: reference points and their labels or targets, or None.
        """
        tolerance = check_real("tolerance", self.tolerance)
        if tolerance < 0:
            raise ValueError(f"tolerance must be at least 0, got {tolerance:g}")
        n_jobs = check_jobs(self.n_jobs)
        device = check_device(self.device)
        problem = check_problem(
            x, y, reference, weights=self.weights, k=self.k, task=self.task, utility=self.utility, ties=self.ties,
            radius=self.radius, metric=self.metric, scale=self.scale,
        )  # fmt: skip
        problem = sample_reference(problem, self.n_references, self.seed, progress=self.progress)
        sums = sum_values(problem, tolerance=tolerance, device=device, n_jobs=n_jobs, progress=self.progress)
        result = make_valuation(
            sums,
            references=problem.n_references,
            weights=list(problem.weights) if isinstance(self.weights, (list, tuple)) else problem.weights[0],
            labels=torch.from_numpy(problem.labels),
            classes=problem.class_names,
            error_bound=problem.error_bound(tolerance, device),
            provenance=_provenance(problem, tolerance=tolerance, seed=self.seed),
            reference_keys=problem.reference_keys,
        )
        self.problem_ = problem
        self.result_ = result
        self.index_ = None
        self.n_features_in_ = problem.n_columns if problem.scaling is None else x.shape[1]
        return self

    def value(self, x: Array, y: Array) -> Valuation:
        """Return the exact values of new points, each as if it alone had joined the training points.

        The first call makes an index, which takes as long as `fit` and 8 bytes for each pair of a training point and a
        reference point, and as many again for each weighting and relevant label; for a radius, almost nothing.

        Args:
            x: features of the new points.
            y: their labels, which must be among the classes of `fit`, or their targets.
        """
        self._check_fitted()
        problem, result, index = self.problem_, self.result_, self.index_
        points = place_points("x", x, problem.column_names, problem.scaling, problem.n_columns)
        labels = problem.check_more_labels("y", y, len(points), advice=UNSEEN_ADVICE)
        if index is None or index.problem is not problem:
            device = check_device(self.device)
            index = (
                RadiusIndex(problem, device=device)
                if problem.is_by_radius
                else NeighborIndex(problem, device=device, progress=self.progress)
            )
            self.index_ = index
        codes = torch.from_numpy(labels)
        changed = {"points": digest_points(points, labels, problem.class_names), "training_points": problem.digest}
        return make_valuation(
            index.sum_values(points.astype(np.float64), codes),
            references=len(problem.reference_labels),
            weights=result.weights,
            labels=codes,
            classes=problem.class_names,
            error_bound=0.0,
            provenance=_provenance(problem, tolerance=0.0, seed=self.seed) | changed,
            reference_keys=problem.reference_keys,
        )


def _provenance(problem: NeighborProblem, *, tolerance: float, seed: int) -> dict[str, Any]:
    """Return what a valuation records about its problem, JSON-compatible."""
    neighbors = f"neighbors within {problem.radius:g}" if problem.is_by_radius else f"{problem.k} nearest neighbors"
    facts: dict[str, Any] = {} if problem.radius is None else {"radius": problem.radius}
    if problem.task == "regression":
        facts["default"] = problem.default
    if problem.notes:
        facts["columns"] = list(problem.notes)
    return {
        "method": f"{neighbors}, {problem.utility}",
        "task": problem.task,
        "k": problem.k,
        "utility": problem.utility,
        "ties": problem.ties,
        "metric": problem.metric,
        "tolerance": tolerance,
        **({} if problem.drawn is None else {"n_references": len(problem.drawn), "seed": seed}),
        "reference": OTHER_POINTS if problem.held_out else "given",
        "points": problem.digest,
        "fwshapley": __version__,
        **facts,
    }
