"""Gradient boosting that is cross-fitted on a table: usually the best model of tables of numbers and categories."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from fwshapley._internal.progress import ProgressBar
from fwshapley.audit.cross_fitted import CrossFitted
from fwshapley.training.budget import Budget

ITERATIONS = 100
STEP = 5
"""Iterations between two looks at the clock, if the budget is in seconds."""

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


def cross_fit_boosting(task: BoostingTask, *, progress: bool) -> CrossFitted:
    """Train gradient boosting without each of the folds, and return what the models say of all points.

    The folds are trained one after the other, each on all cores: scikit-learn changes settings of the whole process.

    Args:
        task: what it is trained on.
        progress: whether to show progress.
    """
    count = int(task.folds.max()) + 1
    probabilities = np.zeros((count, len(task.x), task.classes), dtype=np.float32)
    share = None if task.budget is None else task.budget.part(1 / count)
    with ProgressBar("boosting", count, enabled=progress) as bar:
        for fold in range(count):
            model = _fit(task, task.folds != fold, share)
            probabilities[fold][:, model.classes_] = model.predict_proba(task.x)
            bar.advance(1)
    return CrossFitted.of("gradient boosting", probabilities, task.folds)


def _fit(task: BoostingTask, rows: NDArray[np.bool_], budget: Budget | None) -> HistGradientBoostingClassifier:
    """Train a model on some points, by default for some iterations, else until the budget is spent."""
    began = time.monotonic()
    most = ITERATIONS if budget is None or budget.steps is None else min(budget.steps, ITERATIONS)
    model = HistGradientBoostingClassifier(
        learning_rate=LEARNING_RATE, early_stopping=False, warm_start=True, random_state=task.seed % 2**32,
        categorical_features=task.is_category if task.is_category.any() else None,
    )  # fmt: skip
    step = STEP if budget is not None and budget.seconds is not None else most
    for iterations in range(step, most + step, step):
        model.set_params(max_iter=min(iterations, most)).fit(task.x[rows], task.labels[rows])
        if budget is not None and budget.spent(0, time.monotonic() - began) >= 1:
            break
    return model
