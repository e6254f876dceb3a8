"""Gradient boosting that is cross-fitted on a table: usually the best model of tables of numbers and categories."""

from __future__ import annotations

import time

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
"""Trees of an iteration (one per class) times columns up to which boosting is worth its time; else networks do alone."""


def is_affordable(columns: int, classes: int) -> bool:
    """Whether boosting takes a time comparable to that of the networks."""
    return columns * (classes if classes > 2 else 1) <= MAX_TREES_TIMES_COLUMNS  # noqa: PLR2004 - two classes share trees


def cross_fit_boosting(
    x: Float64[ndarray, "n columns"],
    is_category: NDArray[np.bool_],
    labels: Int64[ndarray, " n"],
    classes: int,
    folds: Int64[ndarray, " n"],
    *,
    budget: Budget | None,
    seed: int,
    n_jobs: int | None,
    progress: bool,
) -> CrossFitted:
    """Train gradient boosting without each of the folds, and return what the models say of all points.

    Args:
        x: numbers, codes of categories, NaN where missing.
        is_category: which columns contain codes.
        labels: class numbers, of which some may be wrong.
        classes: number of classes.
        folds: fold of each point.
        budget: of all models together; steps are iterations.
        seed: of the models.
        n_jobs: number of CPU cores; None is all.
        progress: whether to show progress.
    """
    count = int(folds.max()) + 1
    probabilities = np.zeros((count, len(x), classes), dtype=np.float32)
    share = None if budget is None else budget.part(min(count_threads(n_jobs), count) / count)
    shared = (x, is_category, labels, folds, share, seed)
    with ProgressBar("boosting", count, enabled=progress) as bar:
        for fold, (known, predicted) in enumerate(spread(_predict, range(count), n_jobs, shared=shared, threads=True)):
            probabilities[fold][:, known] = predicted
            bar.advance(1)
    return CrossFitted.of("gradient boosting", probabilities, folds)


def _predict(
    x: Float64[ndarray, "n columns"],
    is_category: NDArray[np.bool_],
    labels: Int64[ndarray, " n"],
    folds: Int64[ndarray, " n"],
    budget: Budget | None,
    seed: int,
    fold: int,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Train a model without a fold; return the classes that it knows, and their probabilities for all points."""
    with openmp_on_one_thread():  # as `spread` limits torch: the folds use the other cores
        model = _fit(x, is_category, labels, folds != fold, budget, seed)
        return model.classes_, model.predict_proba(x)


def _fit(
    x: Float64[ndarray, "n columns"],
    is_category: NDArray[np.bool_],
    labels: Int64[ndarray, " n"],
    rows: NDArray[np.bool_],
    budget: Budget | None,
    seed: int,
) -> HistGradientBoostingClassifier:
    """Train one model: by default some iterations, else until its share of the budget is spent."""
    began = time.monotonic()
    most = ITERATIONS if budget is None or budget.steps is None else min(budget.steps, ITERATIONS)
    model = HistGradientBoostingClassifier(
        learning_rate=LEARNING_RATE, early_stopping=False, warm_start=True, random_state=seed % 2**32,
        categorical_features=is_category if is_category.any() else None,
    )  # fmt: skip
    for iterations in range(min(STEP, most), most + STEP, STEP):
        model.set_params(max_iter=min(iterations, most)).fit(x[rows], labels[rows])
        if budget is not None and budget.spent(0, time.monotonic() - began) >= 1:
            break
    return model
