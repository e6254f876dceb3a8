"""Games whose values are known: of formulas, and of models that explain rows of tables."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

import fwshapley as fw

BACKGROUND = 20
"""Rows whose values stand in for absent features."""

CHUNK = 2**13
"""Coalitions that a model is asked for at a time."""

Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """A game as the table of its 2**n values, so that a call takes equally long for every game."""

    n_players: int
    worth: Tensor

    def __call__(self, coalitions: Tensor, /) -> Tensor:
        """Look up the coalitions."""
        return self.worth[(coalitions * 2 ** torch.arange(self.n_players)).sum(1)]

    def values(self, weightings: list[fw.Semivalue]) -> Tensor:
        """Exact values by weighting and player."""
        return fw.exact_values(self, weightings, progress=False)

    def arrays(self) -> dict[str, Any]:
        """What `shapiq_estimates.py` needs."""
        return {"table": self.worth.numpy()}


@dataclass(frozen=True)
class BoostingGame:
    """What LightGBM's trees predict, before any link, if absent features have the values of a background."""

    model: Any
    row: Rows
    background: Rows

    @property
    def n_players(self) -> int:
        """One player per feature."""
        return len(self.row)

    def __call__(self, coalitions: Tensor, /) -> Tensor:
        """Return the mean over the background."""
        return mean_prediction(partial(self.model.predict, raw_score=True), self.row, self.background, coalitions)

    def values(self, weightings: list[fw.Semivalue]) -> Tensor:
        """Exact values by weighting and player, from the trees."""
        found = fw.TreeExplainer(self.model, self.background).explain(self.row[None], weights=weightings).values
        return torch.as_tensor(found)[:, 0, :, 0]

    def arrays(self) -> dict[str, Any]:
        """What `shapiq_estimates.py` needs."""
        text = self.model.booster_.model_to_string()
        return {"model": np.array(text), "row": self.row, "background": self.background}


KnownGame = Table | BoostingGame


def tabulate(function: Callable[[Tensor], Tensor], n: int) -> Table:
    """Evaluate a function of coalitions once for all coalitions."""
    masks = (torch.arange(2**n)[:, None] >> torch.arange(n)) & 1 == 1
    return Table(n, torch.as_tensor(function(masks), dtype=torch.float64))


def make_games(n: int, seed: int) -> dict[str, Table]:
    """Six games, from that of a real model to pure noise."""
    generator = torch.Generator().manual_seed(seed)
    normal = partial(torch.randn, generator=generator, dtype=torch.float64)
    first, bias, second = normal(n, 24), normal(24), normal(24)
    carriers, dividends = torch.rand(40, n, generator=generator) < 0.35, normal(40)
    return {
        "forest": tabulate(forest_game(n, seed), n),
        "network": tabulate(lambda s: torch.tanh(0.7 * s.double() @ first + bias) @ second, n),
        "dividends": tabulate(lambda s: (s[:, None] >= carriers).all(2).double() @ dividends, n),
        "airport": tabulate(fw.games.Airport(10 * torch.rand(n, generator=generator)), n),
        "voting": tabulate(fw.games.Voting(tuple(range(1 + seed, n + 1 + seed)), n * (n + 1 + 2 * seed) // 4), n),
        "random": tabulate(fw.games.Random(n, seed=seed), n),
    }


def forest_game(n: int, seed: int) -> Callable[[Tensor], Tensor]:
    """A random forest's probability of one class for one input, absent features at their mean."""
    x, y = make_classification(1000, n, n_informative=n // 2, n_redundant=n // 4, random_state=seed)
    model = RandomForestClassifier(50, max_depth=8, random_state=seed).fit(x, y)
    return lambda s: torch.from_numpy(model.predict_proba(np.where(s.numpy(), x[0], x.mean(0)))[:, y[0]])


def make_model_games(seed: int) -> dict[str, KnownGame]:
    """Predictions of boosted trees and of a network for one row of three tables: 13, 16 and 64 columns."""
    games: dict[str, KnownGame] = {}
    for table, (x, y) in {"wine": read_wine(), "tumors": read_tumors()}.items():
        for kind, make in {"boosting": make_boosting, "network": make_network}.items():
            model, row, background = fit_model(make(seed), x, y, seed)
            predict = partial(probability, model)
            games[f"{kind}, {table}"] = tabulate(partial(mean_prediction, predict, row, background), x.shape[1])
    games["boosting, digits"] = BoostingGame(*fit_model(make_boosting(seed), *read_digits(), seed))
    return games


def read_wine() -> tuple[Rows, Rows]:
    """13 columns; whether a wine is of the second kind."""
    x, kind = load_wine(return_X_y=True)
    return x, kind == 1


def read_tumors() -> tuple[Rows, Rows]:
    """First 16 columns of the breast cancer table; whether a tumor is benign."""
    x, benign = load_breast_cancer(return_X_y=True)
    return x[:, :16], benign


def read_digits() -> tuple[Rows, Rows]:
    """64 pixels; whether a digit is odd."""
    x, digit = load_digits(return_X_y=True)
    return x, digit % 2


def make_boosting(seed: int) -> Any:  # noqa: ANN401 - LightGBM's
    """LightGBM with its defaults."""
    from lightgbm import LGBMClassifier  # noqa: PLC0415 - `--help` does without

    return LGBMClassifier(verbose=-1, random_state=seed, n_jobs=1)


def make_network(seed: int) -> Any:  # noqa: ANN401 - scikit-learn's
    """A perceptron with two hidden layers."""
    return make_pipeline(StandardScaler(), MLPClassifier((64, 64), random_state=seed))


def fit_model(model: Any, x: Rows, y: Rows, seed: int) -> tuple[Any, Rows, Rows]:  # noqa: ANN401 - of either library
    """Return the model, fitted to all rows but one; that row; and background rows."""
    order = np.random.default_rng(seed).permutation(len(x))
    row, *others = order
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x[others], y[others])
    return model, x[row], x[others[:BACKGROUND]]


def probability(model: Any, x: Rows) -> Rows:  # noqa: ANN401 - of either library
    """Return the probability of the second class."""
    return np.asarray(model.predict_proba(x)[:, 1], dtype=np.float64)


def mean_prediction(predict: Callable[[Rows], Rows], row: Rows, background: Rows, coalitions: Tensor) -> Tensor:
    """Return the mean over the background of the predictions, if members have the row's values."""
    parts = [
        np.mean([predict(np.where(part.numpy(), row, absent)) for absent in background], axis=0)
        for part in coalitions.split(CHUNK)
    ]
    return torch.from_numpy(np.concatenate(parts))
