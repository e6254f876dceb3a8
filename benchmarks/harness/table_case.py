"""A model of a table whose explanations are measured, and what its measurements in both games share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

import fwshapley as fw
from benchmarks.harness.measuring import timed
from benchmarks.models.table_models import TableModel
from fwshapley.explanation.metrics import measure_agreement

PATIENCE = 10.0
"""Seconds for the rows that a method explains besides the first; if they take longer, it gets fewer of them."""
MAX_ENUMERATED = 13
FEWEST = 1e-9

Values = NDArray[np.float64]
Method = Callable[[pd.DataFrame], Values]
"""From rows of a table to the values of its columns."""


class Case(NamedTuple):
    """A model of a table, rows, and how much is spent on them.

    Attributes:
        name: of the model.
        model: fitted to the training rows.
        train: rows that explainers learn from.
        test: other rows, of which the first are explained.
        background: some of the training rows, as the seed chooses.
        rows: numbers of rows: "explained", "referenced" with values of long sampling, "sampled" by slow methods.
        seed: of explainers and samples.
        budget: of the training of an explainer.
        long: calls of each half of a long sampling, in multiples of the fewest that least squares accepts.
        skill: R2 of the model on the test rows, or the area under its ROC curve.
    """

    name: str
    model: TableModel
    train: pd.DataFrame
    test: pd.DataFrame
    background: pd.DataFrame
    rows: Mapping[str, int]
    seed: int
    budget: fw.Budget
    long: int
    skill: float

    @property
    def n(self) -> int:
        """Number of columns."""
        return self.train.shape[1]

    def first(self, purpose: str) -> pd.DataFrame:
        """Return the rows that serve a purpose, which are the first of the test rows."""
        return self.test[: self.rows[purpose]]


class Timed(NamedTuple):
    """Values of some rows, and how long they took.

    Attributes:
        values: of the first rows.
        seconds: per row.
    """

    values: Values
    seconds: float


def time_rows(method: Method, rows: pd.DataFrame) -> Timed:
    """Explain a row, which makes what is made once; time it again, and then as many other rows as patience allows."""
    method(rows[:1])
    values, one = timed(lambda: method(rows[:1]))
    count = min(len(rows) - 1, math.floor(PATIENCE / max(one, FEWEST)))
    if count < 1:
        return Timed(values, one)
    others, seconds = timed(lambda: method(rows[1 : count + 1]))
    return Timed(np.concatenate([values, others]), seconds / count)


def judge(found: Timed, truth: Values, noise: float) -> dict[str, float]:
    """Return the agreement of values with exact ones of perhaps fewer rows, and the seconds per row.

    Args:
        found: values and their time.
        truth: exact values, or the mean of two halves of a long sampling.
        noise: relative difference of these halves. Half of it is the error of their mean, which is subtracted.
    """
    count = min(len(found.values), len(truth))
    agreement = compare(found.values[:count], truth[:count])
    squared = agreement["nrmse"] ** 2 - (noise / 2) ** 2
    return agreement | {"nrmse": math.sqrt(max(squared, 0.0)), "seconds": found.seconds}


def compare(values: Values, truth: Values) -> dict[str, float]:
    """Mean correlation over columns, relative error, and the share of rows whose most important column is the same."""
    agreement = measure_agreement(*(torch.as_tensor(np.ascontiguousarray(some)) for some in (values, truth)))
    same = np.abs(values).argmax(1) == np.abs(truth).argmax(1)
    return {"pearson": agreement.pearson, "nrmse": agreement.nrmse, "top": float(same.mean())}


def positive(attribution: fw.Attribution) -> Values:
    """Return the values of a regression, or of the positive class."""
    return np.asarray(attribution.values, dtype=np.float64)[..., -1]


def solve(games: Sequence[Any], case: Case) -> tuple[Values, float]:
    """Return Shapley values by enumeration, or by long sampling with the relative difference of its halves."""
    if case.n <= MAX_ENUMERATED:
        exact = [fw.exact_values(game, fw.Shapley(), progress=False) for game in games]
        return np.stack([values[:, -1].double().numpy() for values in exact]), 0.0
    halves = []
    for half in (1, 2):
        estimates = [
            fw.least_squares_values(
                game,
                fw.Shapley(),
                n_calls=case.long * (2 * case.n + 10),
                seed=1000 * half + case.seed,
                progress=False,
            )
            for game in games
        ]
        halves.append(np.stack([estimate.values[:, -1].double().numpy() for estimate in estimates]))
    return (halves[0] + halves[1]) / 2, compare(*halves)["nrmse"]
