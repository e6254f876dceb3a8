"""Peers that compute the same thing."""

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
import shap
import shapiq
import torch
from numpy.typing import NDArray
from sklearn.ensemble import GradientBoostingRegressor
from torch import Tensor
from torch.testing import assert_close

from fwshapley import Banzhaf, Semivalue, Shapley, exact_values
from fwshapley.games import Random

Floats = NDArray[np.float64]


@pytest.mark.parametrize(("index", "weights"), [("SV", Shapley()), ("BV", Banzhaf())])
def test_shapiq_agrees_on_a_random_game(index: Literal["SV", "BV"], weights: Semivalue) -> None:
    game = Random(7, seed=9)
    computer = shapiq.ExactComputer(lambda masks: game(torch.from_numpy(masks)).numpy(), n_players=7)
    theirs = computer(index, order=1).get_n_order_values(1)
    assert_close(exact_values(game, weights), torch.from_numpy(theirs), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_shap_agrees_on_a_masked_model() -> None:
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(80, 6))
    targets = inputs[:, 0] * inputs[:, 1] + np.sin(inputs[:, 2]) + (inputs[:, 3] > 0)
    model = GradientBoostingRegressor(n_estimators=15, random_state=0).fit(inputs, targets)
    background, explained = inputs[:12], inputs[40:43]

    def masked_game(x: Floats) -> Callable[[Tensor], Floats]:
        def worth(coalitions: Tensor) -> Floats:
            mixed: Floats = np.where(coalitions.numpy()[:, None], x, background)
            predicted: Floats = model.predict(mixed.reshape(-1, 6)).reshape(len(coalitions), -1)
            return predicted.mean(1)

        return worth

    theirs = shap.explainers.Exact(model.predict, shap.maskers.Independent(background))(explained).values
    ours = torch.stack([exact_values(masked_game(x), Shapley(), n_players=6) for x in explained])
    assert_close(ours, torch.from_numpy(theirs), rtol=0, atol=1e-9)
