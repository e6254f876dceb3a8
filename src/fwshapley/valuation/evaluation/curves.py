"""Scores of a model that is retrained without the points of lowest value, or on those of highest value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, SupportsFloat, get_args

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.checks import Array, check_callable, check_choice, check_real, check_seed, check_whole
from fwshapley._internal.progress import ProgressBar
from fwshapley.valuation.evaluation.detection import check_values

Order = Literal["lowest", "highest", "random"]
"""Which points come first."""

FitAndScore = Callable[[NDArray[np.int64]], SupportsFloat]
"""Trains a new model on some of the training points, given their indices, and returns its score on other points."""


@dataclass(frozen=True, eq=False)
class Curve:
    """Scores of a model as points are removed or added.

    Attributes:
        share: share of the points that are removed, or added.
        score: score of the model trained on the other points, or on the added ones.
    """

    share: Float64[Tensor, " points"]
    score: Float64[Tensor, " points"]


def removal_curve(
    values: Array,
    fit_and_score: FitAndScore,
    *,
    steps: int = 20,
    most: float = 0.5,
    order: Order = "lowest",
    seed: int | np.random.Generator = 0,
    progress: bool = True,
) -> Curve:
    """Retrain and score a model as more and more points are removed.

    If labels are noisy and values are good, the score rises as the lowest values are removed, and falls fast as the
    highest are. Compare with order="random", which shows the effect of fewer points.

    Args:
        values: values of the training points, (n,).
        fit_and_score: trains a model on the points with the given indices, in increasing order, and returns its score;
            called once per step.
        steps: number of steps from no points removed to the most; fewer if there are fewer points.
        most: share of the points that are removed in the last step.
        order: which points are removed first: the "lowest" values, the "highest", or "random" ones. Equal values are
            removed in the order of the points.
        seed: of the random order: a whole number, or a generator.
        progress: show progress: a bar on a terminal, lines elsewhere.

    Example:
        >>> def fit_and_score(rows):  # a model that is better without point 3
        ...     return 1 - 0.5 * (3 in rows)
        >>> removal_curve([0.2, 0.1, 0.3, -0.4], fit_and_score, steps=2, most=0.5, progress=False).score.tolist()
        [0.5, 1.0, 1.0]
    """
    ranking = _rank(values, order, seed)
    counts = _counts(len(ranking), steps, most)
    if counts[-1] == len(ranking):
        raise ValueError(
            f"most must leave points to train on, but {most:g} removes all {len(ranking)}; use a smaller share"
        )
    remaining = [ranking[count:] for count in counts]
    return _score_subsets(fit_and_score, counts / len(ranking), remaining, "removing", progress=progress)


def addition_curve(
    values: Array,
    fit_and_score: FitAndScore,
    *,
    steps: int = 20,
    most: float = 1.0,
    order: Order = "highest",
    seed: int | np.random.Generator = 0,
    progress: bool = True,
) -> Curve:
    """Retrain and score a model as more and more points are added, the highest values first.

    It shows how few points of high value are as good as all of them. If the model cannot be fitted to the first few
    points, because they are all of one class, use fewer steps.

    Args:
        values: values of the training points, (n,).
        fit_and_score: as in `removal_curve`.
        steps: number of steps to the most points.
        most: share of the points in the last step.
        order: which points are added first.
        seed: of the random order.
        progress: show progress.

    Example:
        >>> curve = addition_curve([0.2, 0.1, 0.3, -0.4], lambda rows: len(rows) / 4, steps=2, progress=False)
        >>> curve.score.tolist()
        [0.5, 1.0]
    """
    ranking = _rank(values, order, seed)
    counts = _counts(len(ranking), steps, most)[1:]
    added = [ranking[:count] for count in counts]
    return _score_subsets(fit_and_score, counts / len(ranking), added, "adding", progress=progress)


def _rank(values: Array, order: Order, seed: int | np.random.Generator) -> Int64[np.ndarray, " n"]:
    """Return the indices of the points in the order in which they are removed or added."""
    numbers = check_values(values)
    check_choice("order", order, get_args(Order))
    if order == "random":
        seed = seed if isinstance(seed, np.random.Generator) else check_seed(seed)
        return np.random.default_rng(seed).permutation(len(numbers))
    return numbers.argsort(stable=True, descending=order == "highest").numpy()


def _counts(n: int, steps: int, most: float) -> Int64[np.ndarray, " points"]:
    """Return the number of points at each step, from 0 on, without repetition, since retraining takes long."""
    most = check_real("most", most)
    if not 0 < most <= 1:
        raise ValueError(f"most must be above 0 and at most 1, got {most:g}")
    counts = np.unique(np.linspace(0, most * n, check_whole("steps", steps) + 1).round().astype(np.int64))
    if len(counts) == 1:
        raise ValueError(f"most must be at least one point, but {most:g} of {n} points is less; use a larger share")
    return counts


def _score_subsets(
    fit_and_score: FitAndScore,
    share: Float64[np.ndarray, " points"],
    subsets: Sequence[NDArray[np.int64]],
    doing: Literal["removing", "adding"],
    *,
    progress: bool,
) -> Curve:
    """Return the scores of models trained on subsets of the points."""
    check_callable("fit_and_score", fit_and_score)
    scores = []
    with ProgressBar("retraining", len(subsets), enabled=progress) as bar:
        for part, rows in zip(share.tolist(), subsets, strict=True):
            where = f"after {doing} {part:.1%} of the points, with {len(rows)} points to train on"
            try:
                # The model sees points in their original order, whatever the order of their values.
                score = fit_and_score(np.sort(rows))
            except Exception as error:
                raise RuntimeError(
                    f"fit_and_score failed {where}: {error} (if these are too few or of one class, "
                    f"{'use a smaller most' if doing == 'removing' else 'use fewer steps'})"
                ) from error
            scores.append(check_real(f"the score of fit_and_score {where}", score))
            bar.advance(1)
    return Curve(torch.from_numpy(share), torch.tensor(scores, dtype=torch.float64))
