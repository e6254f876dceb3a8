"""Gradient boosting that is cross-fitted on a table: usually the best model of tables of numbers and categories."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from fwshapley._internal.parallel import count_threads, openmp_on_one_thread, spread
from fwshapley._internal.progress import ProgressBar
from fwshapley.audit.cross_fitted import CrossFitted
from fwshapley.training.budget import Budget

ITERATIONS = 100
STEP = 20
"""Iterations between two looks at the clock."""

LEARNING_RATE = 0.1
MAX_TREES_TIMES_COLUMNS = 1000
"""Trees of an iteration (one per class) times columns up to which boosting is worth its time."""


def is_affordable(columns: int, classes: int) -> bool:
    """Whether boosting takes a time comparable to that of the networks."""
    return columns * (classes if classes > 2 else 1) <= MAX_TREES_TIMES_COLUMNS  # noqa: PLR2004 - two classes share trees


@dataclass(frozen=True, eq=False)
class BoostingTask:
    """What gradient boosting is trained on, and how.

    Attributes:
        x: numbers, codes of categories, NaN where missing.
        is_category: which columns contain codes.
        labels: class numbers, of which some may be wrong.
        classes: number of classes.
        folds: fold of each point.
        budget: of all models together; steps are iterations.
        seed: of the models.
    """

    x: Float64[ndarray, "n columns"]
    is_category: NDArray[np.bool_]
    labels: Int64[ndarray, " n"]
    classes: int
    folds: Int64[ndarray, " n"]
    budget: Budget | None
    seed: int


def cross_fit_boosting(task: BoostingTask, *, n_jobs: int | None, progress: bool) -> CrossFitted:
    """Train gradient boosting without each of the folds, and return what the models say of all points.

    Args:
        task: what it is trained on.
        n_jobs: number of CPU cores; None is all.
        progress: whether to show progress.
    """
    count = int(task.folds.max()) + 1
    probabilities = np.zeros((count, len(task.x), task.classes), dtype=np.float32)
    share = None if task.budget is None else task.budget.part(min(count_threads(n_jobs), count) / count)
    with ProgressBar("boosting", count, enabled=progress) as bar:
        shared = (replace(task, budget=share),)
        for fold, (known, predicted) in enumerate(spread(_predict, range(count), n_jobs, shared=shared, threads=True)):
            probabilities[fold][:, known] = predicted
            bar.advance(1)
    return CrossFitted.of("gradient boosting", probabilities, task.folds)


def _predict(task: BoostingTask, fold: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Train a model without a fold, by default for some iterations, else until its share of the budget is spent.

    Returns:
        The classes that it knows, and their probabilities for all points.
    """
    began = time.monotonic()
    budget, rows = task.budget, task.folds != fold
    most = ITERATIONS if budget is None or budget.steps is None else min(budget.steps, ITERATIONS)
    model = HistGradientBoostingClassifier(
        learning_rate=LEARNING_RATE, early_stopping=False, warm_start=True, random_state=task.seed % 2**32,
        categorical_features=task.is_category if task.is_category.any() else None,
    )  # fmt: skip
    with openmp_on_one_thread():  # as `spread` limits torch: the other folds use the other cores
        for iterations in range(min(STEP, most), most + STEP, STEP):
            model.set_params(max_iter=min(iterations, most)).fit(task.x[rows], task.labels[rows])
            if budget is not None and budget.spent(0, time.monotonic() - began) >= 1:
                break
        return model.classes_, model.predict_proba(task.x)
