"""Explanations of a table in the conditional game: a trained explainer, its surrogate, and shap's samplers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

import fwshapley as fw
from benchmarks.harness.measuring import timed
from benchmarks.harness.shap_samplers import make_kernel, make_permutation
from benchmarks.harness.table_case import Case, Timed, Values, judge, positive, solve, time_rows

Call = Callable[[Values], Values]
Make = Callable[[Call, Values], Call]
"""From a function of masks and a background of zeros to an explainer of masks."""


def measure_conditional(case: Case) -> dict[str, Any]:
    """Return numbers of an explainer, of its surrogate and of shap's samplers, and values of some rows to keep."""
    explainer, first = timed(lambda: fit(case))
    found = time_rows(partial(explain, explainer), case.first("explained"))
    held_out = case.test[case.rows["explained"] :]
    _, calibration = timed(lambda: explainer.calibrate(held_out, seed=case.seed, progress=False))
    rows = case.first("referenced")
    games = [explainer.game(rows[place : place + 1]) for place in range(len(rows))]
    truth, noise = solve(games, case)
    attribution = explainer.explain(rows, errors=True)
    values, errors = positive(attribution), np.asarray(attribution.expected_error, np.float64)[:, -1]
    numbers = measure_surrogate(explainer, case.test) | {
        "first": first,
        "calibration": calibration,
        "learned": judge(Timed(values, found.seconds), truth, noise),
        "noise of the reference": noise,
        "coverage": cover(values, truth, errors),
    }
    makes: dict[str, Make] = {
        "KernelExplainer": make_kernel,
        "PermutationExplainer": partial(make_permutation, seed=case.seed),
    }
    for name, make in makes.items():
        numbers[name] = judge(time_rows(partial(explain_games, games, make), case.first("sampled")), truth, noise)
    kept = {"values": values.tolist(), "exact": truth.tolist(), "errors": errors.tolist()}
    return {"numbers": numbers, "kept": kept}


def fit(case: Case) -> fw.FeatureExplainer:
    """Train an explainer, and explain a row."""
    explainer = fw.FeatureExplainer(case.model.estimator, seed=case.seed, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fw.explanation.FidelityWarning)  # R2 is recorded
        explainer.fit(case.train, budget=case.budget, progress=False)
    explain(explainer, case.test[:1])
    return explainer


def explain(explainer: fw.FeatureExplainer, rows: pd.DataFrame) -> Values:
    """Return the values that an explainer has learned."""
    return positive(explainer.explain(rows))


def measure_surrogate(explainer: fw.FeatureExplainer, rows: pd.DataFrame) -> dict[str, Any]:
    """Return R2 and the mean absolute error of a surrogate's predictions from complete rows, in the model's units."""
    predictions = explainer.predictions(rows)
    model, surrogate = (np.asarray(some, np.float64)[:, -1] for some in (predictions.model, predictions.surrogate))
    share = 1 - np.square(surrogate - model).mean() / max(model.var(), np.finfo(float).tiny)
    return {"R2": float(share), "mean absolute error": float(np.abs(surrogate - model).mean())}


def explain_games(games: Sequence[Any], make: Make, rows: pd.DataFrame) -> Values:
    """Explain the games of some of the first rows by a method of shap, to which a coalition is a row of 0 and 1."""
    n = rows.shape[1]

    def ask(game: Any, masks: Values) -> Values:  # noqa: ANN401 - a game
        return np.asarray(game(torch.as_tensor(masks > 0)), np.float64)[:, -1]

    explained = [make(partial(ask, games[row]), np.zeros((1, n)))(np.ones((1, n))) for row in rows.index]
    return np.concatenate(explained)


def cover(values: Values, truth: Values, errors: Values) -> float:
    """Share of values that are within two expected errors of the truth."""
    return float((np.abs(values - truth) <= 2 * errors[:, None]).mean())


def cover_others(kept: Sequence[Mapping[str, Any]]) -> list[float] | None:
    """Between which shares of the model's values are within two expected errors; None if there is only one seed.

    A value errs by what its network and its surrogate miss. The mean of the exact values of other surrogates of the
    same model stands for the model's value. It errs, too: the first share takes it as it is. In the second, errors are
    as large as if all of a value's error were its surrogate's, and the mean added its own part of it.
    """
    if len(kept) == 1:
        return None
    both = []
    for factor in (1, math.sqrt(1 + 1 / (len(kept) - 1))):
        shares = []
        for place, piece in enumerate(kept):
            others = np.mean([other["exact"] for number, other in enumerate(kept) if number != place], 0)
            shares.append(cover(np.array(piece["values"]), others, factor * np.array(piece["errors"])))
        both.append(float(np.mean(shares)))
    return both
