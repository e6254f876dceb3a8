"""Shapley values by shapiq's estimators of tables of games, in an environment of their own.

    PYTHON benchmarks/harness/shapiq_estimates.py TASK.npz RESULT.npz

`estimator_accuracy --shapiq-python PYTHON` runs this file by a Python that has a newer shapiq than this project.
That needs: pip install "shapiq>=1.8" xgboost-cpu lightgbm

TASK: budgets, seeds, and for each game, under "game NAME", the values of its coalitions; player 0 is the lowest bit.
RESULT: under "NAME METHOD", the values by budget, seed and player; and the version of shapiq.
"""

from __future__ import annotations

import sys
import warnings
from functools import partial
from typing import Any

import numpy as np


def methods() -> dict[str, Any]:
    """Constructors of the estimators, from the number of players and a random state."""
    from shapiq.approximator import LeverageSHAP, OddSHAP, RegressionMSR  # noqa: PLC0415 - not in our own environment

    return {
        "shapiq RegressionMSR": partial(RegressionMSR, index="SV"),
        "shapiq OddSHAP": OddSHAP,
        "shapiq LeverageSHAP": LeverageSHAP,
    }


def estimate(method: Any, table: np.ndarray, budget: int, seed: int) -> np.ndarray:  # noqa: ANN401 - a class of shapiq
    """Shapley values of the players."""
    n = len(table).bit_length() - 1
    place = 2 ** np.arange(n)

    def game(coalitions: np.ndarray) -> np.ndarray:
        return table[np.atleast_2d(coalitions).astype(np.int64) @ place]

    found = method(n=n, random_state=seed).approximate(budget=budget, game=game)
    return np.array([found[(player,)] for player in range(n)], dtype=np.float64)


def main(task_path: str, result_path: str) -> None:
    """Estimate every game by every method."""
    import shapiq  # noqa: PLC0415 - not in our own environment

    task = np.load(task_path)
    budgets, seeds = task["budgets"].tolist(), task["seeds"].tolist()
    results: dict[str, np.ndarray] = {"version": np.array(shapiq.__version__)}
    for key in task:
        kind, _, name = key.partition(" ")
        if kind == "game":
            for label, method in methods().items():
                results[f"{name} {label}"] = np.array(
                    [[estimate(method, task[key], budget, seed) for seed in seeds] for budget in budgets]
                )
    np.savez(result_path, **results)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # that budget is left over
    main(*sys.argv[1:])
