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
    """Score a model again and again as more points are removed, from none on.

    Where labels are noisy and values good, the score rises as the lowest go, and falls fast as the highest go. Compare
    with order="random", which shows what fewer points alone do.

    Args:
        values: of the training points, (n,).
        fit_and_score: trains a model on the rows it is given, indices in ascending order, and returns its score; it is
            called once per step.
        steps: from none to most; fewer where there are fewer points than that.
        most: share of the points that are removed in the end.
        order: which points go first: the "lowest" values, the "highest", or "random" ones. Equals go in the order they
            come in.
        seed: of the random order: whole number, or a generator.
        progress: show progress when it takes long: a bar on a terminal, lines elsewhere.

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
    """Score a model again and again as more points are added, from the first few on.

    Shows how few points of high value do as well as all of them. Arguments are those of `removal_curve`, but the
    highest come first and the curve ends with all points. A model needs points: if it fails on the first few, because
    they are all of one class, take fewer steps.

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
