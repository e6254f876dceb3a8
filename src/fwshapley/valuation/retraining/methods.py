"""The methods of retraining by name: which semivalue each stands for, and what it draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import nn

from fwshapley._internal.tensors import as_tensor
from fwshapley.games.retraining import RetrainingGame
from fwshapley.semivalues import Banzhaf, Beta, LeaveOneOut, Semivalue, Shapley, check_semivalue
from fwshapley.valuation.retraining.data import Points
from fwshapley.valuation.retraining.estimator import Estimator, LeftOut, Reuse, worth_of
from fwshapley.valuation.retraining.g_shapley import LinearSoftmax, Passes, TorchScore, find_torch_score
from fwshapley.valuation.retraining.tmc import Rounds
from fwshapley.valuation.validation import check_points

Method = Literal["tmc", "beta", "least squares", "banzhaf", "loo", "gradient"]
"""Rounds of truncated walks, rounds without truncation, regression on coalitions, maximum sample reuse, leave-one-out,
steps of descent."""

USUAL_WEIGHTS: Mapping[Method, Semivalue] = {
    "tmc": Shapley(),
    "beta": Beta(16, 1),
    "least squares": Shapley(),
    "banzhaf": Banzhaf(),
    "loo": LeaveOneOut(),
    "gradient": Shapley(),
}
USUAL_TRUNCATION = 0.01
"""Tolerance of "tmc", as a share of what everyone gains over nobody."""


def check_weights(method: Method, weights: object) -> Semivalue:
    """Return the semivalue that is meant, if the method can estimate it."""
    usual = USUAL_WEIGHTS[method]
    chosen = usual if weights is None else check_semivalue(weights)
    able = {"banzhaf": isinstance(chosen, Banzhaf), "loo": chosen == usual, "gradient": chosen == usual}
    if not able.get(method, True):
        raise ValueError(
            f"method={method!r} does not estimate {chosen}; 'least squares' and 'beta' estimate any semivalue"
        )
    return chosen


def make_estimator(
    game: RetrainingGame, method: Method, weights: Semivalue, *, tolerance: float | None, seed: int
) -> Estimator:
    """Return what is to be drawn; it takes one fit to know what everyone is worth."""
    everyone = worth_of(game, torch.ones(game.n_players, dtype=torch.bool))
    if method == "loo":
        return LeftOut(game, everyone)
    if method == "banzhaf" and isinstance(weights, Banzhaf):
        return Reuse(game, weights.t, everyone, seed)
    if tolerance is None:
        tolerance = USUAL_TRUNCATION * abs(everyone - game.nobody) if method == "tmc" else 0.0
    return Rounds(game, weights, game.nobody, everyone, tolerance, seed)


def make_passes(
    model: Any,  # noqa: ANN401 - whatever was given
    points: Points,
    *,
    scoring: str | TorchScore | None,
    learning_rate: float,
    seed: int,
) -> Passes:
    """Return the passes of a module, or of logistic regression if there is none."""
    for name, rows in (("x", points.x), ("x_reference", points.x_reference)):
        check_points(name, rows)
    x, x_reference = as_tensor(points.x).double(), as_tensor(points.x_reference).double()
    module = LinearSoftmax(x, len(points.classes)) if model is None else model
    if not isinstance(module, nn.Module):
        raise TypeError(f"method='gradient' needs a torch module, or model=None for logistic regression; got {model!r}")
    kind = next((parameter.dtype for parameter in module.parameters()), torch.float32)
    return Passes(
        module=module,
        score=find_torch_score(scoring),
        x=x.to(kind),
        y=points.labels,
        x_reference=x_reference.to(kind),
        y_reference=points.other_labels,
        learning_rate=learning_rate,
        seed=seed,
    )
