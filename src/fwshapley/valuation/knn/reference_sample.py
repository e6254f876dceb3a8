"""A sample of the points as the reference, where all of them would take hours to value each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray
from numpy.typing import NDArray

from fwshapley._internal.checks import check_seed, check_whole
from fwshapley._internal.progress import announce
from fwshapley.valuation.knn.problem import NeighborProblem

MAX_PAIRS = 2 * 10**10
"""Pairs of points of few columns up to which points that value each other are all reference points."""

COLUMNS = 512
"""Columns whose products take as long as sorting: of so many, there may be half as many pairs."""

CELL_STEPS = 4
"""Points that `draw_evenly` does not divide further, in steps from one that is drawn to the next."""

TENTHS = 10
"""Parts of the range of targets that each have their share of a sample."""

LOOKED_AT = 256
"""Points that tell which column varies most."""


def sample_reference(
    problem: NeighborProblem, n_references: int | str | None, seed: int, *, progress: bool
) -> NeighborProblem:
    """Return the problem with as many of the points as its reference as are asked for.

    Args:
        problem: with all points as the reference, or with reference points of its own, which are all used.
        n_references: how many; "all"; or None for all, or as many as the limit on pairs allows.
        seed: of the sample.
        progress: whether to say so if a sample is taken that was not asked for.
    """
    count = _check_count(problem, n_references)
    seed = check_seed(seed)
    if count == len(problem.reference_labels):
        return problem
    if n_references is None:
        sampled = f"{problem.n:,} points by a sample of {count:,} of them; all of them (n_references={problem.n}) would"
        announce("valuing", f"{sampled} take {problem.n / count:.0f} times as long", enabled=progress)
    drawn = draw_evenly(problem.points, _strata(problem), count, seed)
    return replace(
        problem,
        places=problem.places._replace(reference=problem.reference[drawn]),
        reference_labels=problem.reference_labels[drawn],
        drawn=drawn,
    )


def _strata(problem: NeighborProblem) -> NDArray[Any]:
    """Return the class of each point, or the tenth of the targets that its target is in."""
    if problem.task == "classification":
        return problem.labels
    return np.searchsorted(np.quantile(problem.labels, np.arange(1, TENTHS) / TENTHS), problem.labels)


def _check_count(problem: NeighborProblem, n_references: int | str | None) -> int:
    """Return the number of reference points, or raise an error."""
    possible = len(problem.reference_labels)
    if isinstance(n_references, str):
        if n_references != "all":
            raise ValueError(f"n_references must be a whole number, 'all' or None, got {n_references!r}")
        return possible
    if n_references is None:
        pairs = MAX_PAIRS * COLUMNS // (COLUMNS + problem.n_columns)
        return min(possible, max(pairs // problem.n, 2)) if problem.held_out else possible
    count = check_whole("n_references", n_references, minimum=2)
    if not problem.held_out:
        raise ValueError(
            f"n_references={count} is for points that value each other; with a reference, pass the reference points "
            "that shall count, and leave n_references at None"
        )
    if count > possible:
        raise ValueError(f"n_references must be at most {possible}, the number of points, got {count}")
    return count


def draw_evenly(
    points: Float64[ndarray, "n columns"], labels: NDArray[Any], count: int, seed: int
) -> Int64[ndarray, " count"]:
    """Return indices of a sample, in increasing order, in which each label and region has its share.

    The points are put in order of label, then of place, then at random. Those at equal steps from a random start on
    are drawn, each point thus with the same probability, so that sums over the sample are unbiased.
    """
    generator = np.random.default_rng(seed)
    shuffled = generator.permutation(len(labels))
    step = len(labels) / count
    strata = [shuffled[labels[shuffled] == label] for label in np.unique(labels)]
    in_order = np.concatenate([_put_in_order(points, rows, cell=CELL_STEPS * step) for rows in strata])
    return np.sort(in_order[((np.arange(count) + generator.random()) * step).astype(np.int64)])


def _put_in_order(
    points: Float64[ndarray, "n columns"], rows: Int64[ndarray, " some"], cell: float
) -> NDArray[np.int64]:
    """Return rows in an order in which those of a region are together: halves by the column that varies most."""
    if len(rows) <= cell:
        return rows
    varying = points[rows[:: -(-len(rows) // LOOKED_AT)]].var(axis=0).argmax()
    halves = np.array_split(rows[points[rows, varying].argsort(kind="stable")], 2)
    return np.concatenate([_put_in_order(points, half, cell) for half in halves])
