"""Values of games by shapiq's newest estimators, in an environment of their own.

    PYTHON benchmarks/harness/shapiq_estimates.py TASK.npz RESULT.npz

`proxy_accuracy --shapiq-python PYTHON` runs this file by a Python that has a newer shapiq than this project.
That needs: pip install "shapiq>=1.8" xgboost-cpu lightgbm

TASK: seeds; for each game, under "NAME/...": budgets, the weightings that are wanted, and the game itself, as a table
of the values of its coalitions (player 0 is the lowest bit) or as a LightGBM model with a row and a background.
RESULT: under "NAME/WEIGHTING/METHOD", the values by budget, seed and player; and the version of shapiq.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Game = Callable[[Array], Array]


def main(task_path: str, result_path: str) -> None:
    """Estimate the values of every game, by every method that estimates them."""
    task = np.load(task_path)
    seeds = task["seeds"].tolist()
    results: dict[str, Any] = {"version": np.array(import_module("shapiq").__version__)}
    for name in dict.fromkeys(key.partition("/")[0] for key in task if "/" in key):
        parts = {key.partition("/")[2]: task[key] for key in task if key.startswith(f"{name}/")}
        n, game = read_game(parts)
        for weighting in parts["weightings"].tolist():
            for label, method in methods(weighting).items():
                results[f"{name}/{weighting}/{label}"] = np.array(
                    [
                        [estimate(method(n=n, random_state=seed), game, n, budget) for seed in seeds]
                        for budget in parts["budgets"].tolist()
                    ]
                )
    np.savez(result_path, **results)


def methods(weighting: str) -> dict[str, Callable[..., Any]]:
    """Constructors of the estimators of a weighting."""
    estimators: Any = import_module("shapiq.approximator")
    if weighting == "Shapley":
        return {
            "shapiq RegressionMSR": partial(estimators.RegressionMSR, index="SV"),
            "shapiq OddSHAP": estimators.OddSHAP,
            "shapiq LeverageSHAP": estimators.LeverageSHAP,
        }
    return (
        {"shapiq RegressionMSR": partial(estimators.RegressionMSR, index="BV")} if weighting == "Banzhaf(0.5)" else {}
    )


def read_game(parts: dict[str, Array]) -> tuple[int, Game]:
    """Return the number of players and the game."""
    if "table" in parts:
        table = parts["table"]
        n = len(table).bit_length() - 1
        place = 2 ** np.arange(n)
        return n, lambda coalitions: table[np.atleast_2d(coalitions).astype(np.int64) @ place]
    model = import_module("lightgbm").Booster(model_str=str(parts["model"]))
    row, background = parts["row"], parts["background"]

    def predict(coalitions: Array) -> Array:
        members = np.atleast_2d(coalitions).astype(bool)
        return np.mean([model.predict(np.where(members, row, absent), raw_score=True) for absent in background], axis=0)

    return len(row), predict


def estimate(approximator: Any, game: Game, n: int, budget: int) -> Array:  # noqa: ANN401 - of shapiq
    """Return the values of the players."""
    found = approximator.approximate(budget=budget, game=game)
    return np.array([found[(player,)] for player in range(n)], dtype=np.float64)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # that budget is left over
    main(*sys.argv[1:])
