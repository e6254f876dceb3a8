"""Exact data values of a nearest-neighbor classifier, for every weighting; and the labels that neighbors suggest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from fwshapley._internal.checks import Array, check_choice, check_jobs, check_real, check_whole
from fwshapley._internal.tensor_checks import check_classes
from fwshapley._internal.version import __version__
from fwshapley.games.knn import Ties, Utility
from fwshapley.semivalues import Semivalue
from fwshapley.valuation.base import Valuator
from fwshapley.valuation.knn.distances import NEVER, Metric, distances_directly, nearest, place
from fwshapley.valuation.knn.engine import sum_values
from fwshapley.valuation.knn.index import NeighborIndex
from fwshapley.valuation.knn.problem import NeighborProblem, check_problem, digest_points, place_points
from fwshapley.valuation.knn.reference_sample import sample_reference
from fwshapley.valuation.result import OTHER_POINTS, Valuation, make_valuation
from fwshapley.valuation.validation import UNSEEN_ADVICE, check_device, check_labels, scale_points


def value_neighbors(
    x: Array,
    y: Array,
    reference: tuple[Array, Array] | None = None,
    *,
    k: int = 5,
    weights: Semivalue | Sequence[Semivalue] | None = None,
    utility: Utility = "soft",
    ties: Ties = "lowest",
    metric: Metric = "euclidean",
    scale: bool | None = None,
    tolerance: float = 0.0,
    n_references: int | Literal["all"] | None = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    n_jobs: int | None = None,
    progress: bool = True,
) -> Valuation:
    """Value training points by how much they help a k-nearest-neighbor classifier to predict reference points.

    Each reference point is a game of the training points: the value of a coalition is how well the k nearest of its
    members predict the label of the reference point. A value is the mean of a point's semivalues over these games, in
    closed form (docs/math.md, section 6).

    Args:
        x: features of the training points, (n, ...): numbers, or a DataFrame also of texts, dates and flags.
        y: their labels: numbers or text.
        reference: points to predict and their labels, a pair (x, y). They should contain every class: a point whose
            class is missing can only do harm. None values each training point by how it helps to predict the others.
        k: number of nearest neighbors.
        weights: a semivalue, or a list of them, which share all distances and sorts; None is Shapley.
        utility: "soft", the number of the k nearest that have the correct label, divided by k; "normalized", the same
            divided by the number of members if there are fewer than k; "vote", whether the correct label wins the vote
            among the k nearest.
        ties: of a vote go to the "lowest" class, or are "shared".
        metric: "euclidean" or "cosine".
        scale: prepare the columns of a DataFrame as `fwshapley value` prepares those of a file: numbers are
            standardized, dates become days, categories one coordinate each, missing numbers the median; constant
            columns, row numbers and free text are left out. None does so if the DataFrame contains anything but
            numbers and flags. Otherwise features are used as they are: columns of large numbers count most.
        tolerance: largest error of a value; larger is faster, since weightings that favor large coalitions depend on
            few neighbors.
        n_references: without a reference, the number of points that the points are valued by: a sample in which each
            label and region has its share; or "all". None takes all of up to 100,000 points, and of more so many that
            there are 10 billion pairs, such as 10,000 of a million. A smaller sample is faster, and finds fewer of the
            wrong labels.
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
    """
    valuator = KNNValuator(
        k, weights=weights, utility=utility, ties=ties, metric=metric, scale=scale, tolerance=tolerance,
        n_references=n_references, seed=seed, device=device, n_jobs=n_jobs, progress=progress,
    )  # fmt: skip
    return valuator.fit(x, y, reference).result_


class KNNValuator(Valuator):
    """Values of training points for a k-nearest-neighbor classifier, with the interface of scikit-learn.

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
    index_: NeighborIndex | None

    def __init__(
        self,
        k: int = 5,
        *,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        utility: Utility = "soft",
        ties: Ties = "lowest",
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
        self.utility: Utility = utility
        self.ties: Ties = ties
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
            y: their labels.
            reference: reference points and their labels, or None.
        """
        tolerance = check_real("tolerance", self.tolerance)
        if tolerance < 0:
            raise ValueError(f"tolerance must be at least 0, got {tolerance:g}")
        n_jobs = check_jobs(self.n_jobs)
        device = check_device(self.device)
        problem = check_problem(
            x, y, reference, weights=self.weights, k=self.k, utility=self.utility, ties=self.ties, metric=self.metric,
            scale=self.scale,
        )  # fmt: skip
        problem = sample_reference(problem, self.n_references, self.seed, progress=self.progress)
        sums = sum_values(problem, tolerance=tolerance, device=device, n_jobs=n_jobs, progress=self.progress)
        result = make_valuation(
            sums,
            references=problem.n_references,
            weights=list(problem.weights) if isinstance(self.weights, (list, tuple)) else problem.weights[0],
            labels=torch.from_numpy(problem.labels),
            classes=problem.class_names,
            error_bound=problem.form(device).cut(tolerance)[1],
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
        reference point, and as many again for each weighting and relevant label.

        Args:
            x: features of the new points.
            y: their labels, which must be among the classes of `fit`.
        """
        self._check_fitted()
        problem, result, index = self.problem_, self.result_, self.index_
        points = place_points("x", x, problem.column_names, problem.scaling, problem.n_columns)
        labels, _ = check_labels("y", y, len(points), classes=problem.classes, advice=UNSEEN_ADVICE)
        if index is None or index.problem is not problem:
            index = NeighborIndex(problem, device=check_device(self.device), progress=self.progress)
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
    return {
        "method": f"{problem.k} nearest neighbors, {problem.utility}",
        "k": problem.k,
        "utility": problem.utility,
        "ties": problem.ties,
        "metric": problem.metric,
        "tolerance": tolerance,
        **({} if problem.drawn is None else {"n_references": len(problem.drawn), "seed": seed}),
        "reference": OTHER_POINTS if problem.held_out else "given",
        "points": problem.digest,
        "fwshapley": __version__,
    } | ({"columns": list(problem.notes)} if problem.notes else {})


class Suggestions(NamedTuple):
    """Labels that nearest neighbors suggest.

    Attributes:
        labels: class number of each suggestion, as in `Valuation.labels`.
        votes: number of the neighbors that have that label.
        neighbors: indices of the neighbors, from the nearest on.
    """

    labels: Int64[Tensor, " points"]
    votes: Int64[Tensor, " points"]
    neighbors: Int64[Tensor, "points k"]


def suggest_labels(
    x: Array,
    y: Array,
    points: Sequence[int] | Int64[Tensor, " points"],
    *,
    k: int = 5,
    metric: Metric = "euclidean",
    scale: bool | None = None,
) -> Suggestions:
    """Return the most frequent label among the k nearest other points; a tie goes to the nearest of the tied labels.

    Args:
        x: features of all points, as `value_neighbors` takes them.
        y: their labels.
        points: indices of the points to suggest a label for.
        k: number of neighbors.
        metric: "euclidean" or "cosine".
        scale: as for `value_neighbors`.

    Example:
        >>> suggest_labels([[0.0], [1.0], [1.1], [1.2]], ["a", "b", "b", "a"], points=[3], k=2).labels
        tensor([1])
    """
    table = scale_points("x", x, scale)[0]
    labels = torch.from_numpy(check_labels("y", y, len(table))[0])
    if check_whole("k", k) >= len(table):
        raise ValueError(f"k must be at most {len(table) - 1}, the number of other points, got {k}")
    check_choice("metric", metric, get_args(Metric))
    factor = torch.from_numpy(place(table, None, metric).factor)
    rows = check_classes("points", points, len(table)) if len(points) else torch.empty(0, dtype=torch.int64)
    neighbors = torch.empty(len(rows), k, dtype=torch.int64)
    suggested, votes = torch.empty_like(rows), torch.empty_like(rows)
    for row, point in enumerate(rows.tolist()):  # one at a time: a row of distances is large
        keys = distances_directly(factor[[point], :-2], factor)[0].view(torch.int64)
        keys[point] = NEVER
        neighbors[row] = nearest(keys, k)
        neighbor_labels = labels[neighbors[row]]
        frequency = torch.bincount(neighbor_labels)[neighbor_labels]
        suggested[row] = neighbor_labels[frequency.argmax()]  # the first of the most frequent, which is the nearest
        votes[row] = frequency.max()
    return Suggestions(suggested, votes, neighbors)
