"""Explanations of a table in the interventional game: what `fw.Explainer` chooses, sampling, and shap beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

import fwshapley as fw
from benchmarks.harness.measuring import timed
from benchmarks.harness.shap_samplers import make_kernel, make_permutation, make_trees
from benchmarks.harness.table_case import (
    MAX_ENUMERATED,
    Case,
    Method,
    Values,
    compare,
    judge,
    positive,
    time_rows,
)
from benchmarks.models import table_models

SHARES = (0.125, 0.5, 1.0)
"""Coalitions of our sampling, as shares of those of KernelExplainer, but at least the fewest that it accepts."""
LONG = 4
"""The same, of each half of the reference of a perceptron."""
MAX_MESSAGE = 200
ROUNDING = 1e-6
"""Relative errors up to this are those of single precision, in which some models predict."""


def measure_interventional(case: Case) -> dict[str, Any]:
    """Return times and errors of ours and shap's explainers, and why shap's TreeExplainer refused."""
    truth, noise = find_truth(case)
    (method, default), first = timed(lambda: explain_first(case))
    codes = table_models.as_codes(case.background).to_numpy(np.float64)
    call = call_with_codes(case)
    methods: dict[str, Method] = {
        **{name_of_share(share): sample_as_black_box(case, share) for share in SHARES},
        "KernelExplainer": with_codes(make_kernel(call, codes)),
        "PermutationExplainer": with_codes(make_permutation(call, codes, case.seed)),
    }
    numbers: dict[str, Any] = {
        "first": first,
        "noise of the reference": noise,
        "default": judge(time_rows(default, case.first("explained")), truth, noise),
        **{name: judge(time_rows(explain, case.first("sampled")), truth, noise) for name, explain in methods.items()},
    }
    ours = [numbers[name_of_share(share)] for share in SHARES]
    for peer in ("KernelExplainer", "PermutationExplainer"):
        numbers[peer] |= compare_times(ours, numbers[peer])
    refused = {}
    try:
        trees = make_trees(case.model.estimator, case.background)
        numbers["TreeExplainer"] = judge(time_rows(trees, case.first("explained")), truth, noise)
    except Exception as error:  # noqa: BLE001 - whatever shap raises for a model that it does not read
        refused["TreeExplainer"] = f"{type(error).__name__}: {str(error).splitlines()[0][:MAX_MESSAGE]}"
    return {"numbers": numbers, "method": method, "refused": refused}


def name_of_share(share: float) -> str:
    """Name of our sampling with so many coalitions."""
    return f"ours, {share:g} x"


def compare_times(ours: Sequence[Mapping[str, float]], peer: Mapping[str, float]) -> dict[str, float]:
    """Return how long ours takes to the error of another sampler, and how its error in the same time compares.

    Between and beyond what was measured, errors fall with the square root of the time; fewer coalitions than the fewest
    that were measured count as so many.

    Args:
        ours: seconds and errors with more and more coalitions.
        peer: seconds and error of the other.
    """
    error = max(peer["nrmse"], ROUNDING)
    near = next((row for row in ours if row["nrmse"] <= error), ours[-1])
    more = max(near["nrmse"], ROUNDING) / error
    least = max((row["seconds"] for row in ours if row["seconds"] < near["seconds"]), default=near["seconds"])
    seconds = max(near["seconds"] * more**2, least)
    last = max((row for row in ours if row["seconds"] <= peer["seconds"]), key=itemgetter("seconds"), default=ours[0])
    ours_then = max(last["nrmse"], ROUNDING) * math.sqrt(last["seconds"] / peer["seconds"])
    is_exact = last["nrmse"] <= ROUNDING and last["seconds"] <= peer["seconds"]
    return {
        "times as long as ours": peer["seconds"] / seconds,
        "times our error": error / (ROUNDING if is_exact else ours_then),
    }


def explain_first(case: Case) -> tuple[str, Method]:
    """Make the explainer that `fw.Explainer` chooses for the interventional game, and explain a row."""
    explainer = fw.Explainer(
        case.model.estimator, case.background, game="interventional", seed=case.seed, progress=False
    )

    def explain(rows: pd.DataFrame) -> Values:
        return positive(explainer.explain(rows))

    explain(case.test[:1])
    return explainer.method, explain


def sample_as_black_box(case: Case, share: float) -> Method:
    """Return our sampling of the model as a function, with a share of the coalitions of KernelExplainer."""
    explainer = fw.InterventionalExplainer(
        case.model.raw,
        case.background,
        output="raw",
        n_background=len(case.background),
        n_calls=max(round(share * default_of_kernel(case)), 4 * case.n + 32),
        seed=case.seed,
        progress=False,
    )
    return lambda rows: positive(explainer.explain(rows))


def call_with_codes(case: Case) -> Callable[[Values], Values]:
    """Return the model as a function of numbers, as shap's samplers need it."""
    return lambda codes: case.model.raw(table_models.from_codes(codes, case.train))


def with_codes(explain: Callable[[Values], Values]) -> Method:
    """Return a method of rows from one of numbers."""
    return lambda rows: explain(table_models.as_codes(rows).to_numpy(np.float64))


def find_truth(case: Case) -> tuple[Values, float]:
    """Return exact values, and the relative difference of two halves if they come from long sampling.

    Preprocessing treats each column by itself, so that hiding a column hides those that are made of it: a forest behind
    it has closed forms, with groups of prepared columns as players.
    """
    estimator, name = case.model.estimator, case.name
    if name == "perceptron pipeline":
        return sample_perceptron(case)
    rows = case.first("explained")
    if name != "forest pipeline":
        return positive(fw.TreeExplainer(estimator, case.background).explain(rows)), 0.0
    prepare, players = estimator[0].transform, prepared_players(case)
    trees = fw.TreeExplainer(estimator[-1], prepare(case.background), players=players)
    return in_order(positive(trees.explain(prepare(rows))), case, players), 0.0


def prepared_players(case: Case) -> fw.players.Players:
    """Return the columns of a table as players of the columns of the prepared one."""
    owners = table_models.owners_of_prepared(case.model.estimator)
    members = {str(column): [place for place, owner in enumerate(owners) if owner == column] for column in case.train}
    return fw.groups(members, len(owners))


def in_order(values: Values, case: Case, players: fw.players.Players) -> Values:
    """Return values of the players of a prepared table in the order of the table's columns."""
    return values[:, [players.names.index(column) for column in case.train]]


def sample_perceptron(case: Case) -> tuple[Values, float]:
    """Return values of a perceptron, which is called behind its preprocessing, with rows that are prepared once."""
    preparation, network = case.model.estimator[0], case.model.estimator[-1]
    players = prepared_players(case)
    rows = preparation.transform(case.first("sampled"))
    halves = []
    for half in (1, 2):
        explainer = fw.InterventionalExplainer(
            partial(table_models.call_estimator, network),
            preparation.transform(case.background),
            players=players,
            output="raw",
            n_background=len(case.background),
            n_calls=2**case.n if case.n <= MAX_ENUMERATED else LONG * default_of_kernel(case),
            seed=1000 * half + case.seed,
            progress=False,
        )
        halves.append(in_order(positive(explainer.explain(rows)), case, players))
        if case.n <= MAX_ENUMERATED:
            return halves[0], 0.0
    return (halves[0] + halves[1]) / 2, compare(*halves)["nrmse"]


def default_of_kernel(case: Case) -> int:
    """Coalitions that KernelExplainer asks for by default."""
    return 2 * case.n + 2048
