from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy import ndarray
from scipy.optimize import OptimizeResult

from fwshapley import Banzhaf, Beta, Cardinality, Semivalue, Shapley, exact_values
from fwshapley.estimators import gaussian_process
from fwshapley.estimators.gaussian_process import GaussianProcess, fit_process
from fwshapley.games import FunctionGame

SemivalueFor = Callable[[int], Semivalue]


def draw_masks(count: int, n: int, seed: int = 0) -> ndarray:
    return np.random.default_rng(seed).random((count, n)) < 1 / 2


def draw_process(n: int, *, odd: bool) -> GaussianProcess:
    random = np.random.default_rng(3)
    return GaussianProcess(np.zeros(1), draw_masks(5, n), random.normal(size=5), random.random(n) * 2, odd)


def as_game(process: GaussianProcess, n: int) -> FunctionGame:
    return FunctionGame(lambda s: torch.from_numpy(process.predict(s.numpy(), np.zeros((len(s), 1)))), n)


def terms_of(masks: ndarray) -> ndarray:
    return np.hstack([masks, np.ones((len(masks), 1))])


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_values_are_those_of_the_predictions(semivalue_for: SemivalueFor, n: int) -> None:
    process, weights = draw_process(n, odd=False), semivalue_for(n)
    values = process.kernel_values(weights.join_law(n))
    np.testing.assert_allclose(values, exact_values(as_game(process, n), weights), rtol=0, atol=1e-12)


@pytest.mark.parametrize("weights", [Shapley(), Banzhaf(), Beta(3, 3), Cardinality([1, 0, 5, 5, 0, 1])], ids=str)
def test_odd_processes_have_the_values_of_their_predictions_under_symmetric_laws(weights: Semivalue) -> None:
    process = draw_process(6, odd=True)
    masks = draw_masks(9, 6, seed=1)
    nothing = np.zeros((9, 1))
    np.testing.assert_allclose(process.predict(masks, nothing), -process.predict(~masks, nothing))
    values = process.kernel_values(weights.join_law(6))
    np.testing.assert_allclose(values, exact_values(as_game(process, 6), weights), rtol=0, atol=1e-12)


@pytest.mark.parametrize("parity", ["any", "odd"])
def test_the_gradient_of_the_likelihood_is_its_derivative(parity: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n, masks, odd = 6, draw_masks(30, 6), parity == "odd"
    targets = np.random.default_rng(1).normal(size=30)
    asked: dict[str, Any] = {}

    def keep(loss: Callable[[ndarray], tuple[float, ndarray]], guess: ndarray, **_: object) -> OptimizeResult:
        asked["loss"], asked["guess"] = loss, guess
        return OptimizeResult(x=guess)

    monkeypatch.setattr(gaussian_process, "minimize", keep)
    terms = masks - 1 / 2 if odd else terms_of(masks)
    fit_process(masks, terms, targets, odd=odd)
    loss, at = asked["loss"], asked["guess"] + np.random.default_rng(2).normal(size=n + 1) / 3
    steps = 1e-5 * np.eye(n + 1)
    differences = [(loss(at + step)[0] - loss(at - step)[0]) / 2e-5 for step in steps]
    np.testing.assert_allclose(loss(at)[1], differences, rtol=1e-5, atol=1e-6)


def test_smooth_games_are_predicted_far_better_than_by_a_linear_fit() -> None:
    masks = draw_masks(400, 10)
    targets = np.tanh(masks @ np.linspace(-1, 1, 10)) + masks[:, 0] * masks[:, 3]
    terms = terms_of(masks)
    process = fit_process(masks[:300], terms[:300], targets[:300], odd=False)
    linear = np.linalg.lstsq(terms[:300], targets[:300])[0]
    error = process.predict(masks[300:], terms[300:]) - targets[300:]
    assert error.std() < 0.2 * (terms[300:] @ linear - targets[300:]).std()


def test_noise_is_left_to_the_linear_fit() -> None:
    masks = draw_masks(300, 10)
    targets = masks[:, 0] + np.random.default_rng(1).normal(size=300)
    process = fit_process(masks, terms_of(masks), targets, odd=False)
    new = draw_masks(1000, 10, seed=5)
    predicted = process.predict(new, terms_of(new))
    assert float((predicted - new[:, 0]).std()) < 0.4


def test_additive_games_need_no_process() -> None:
    masks = draw_masks(50, 6)
    process = fit_process(masks, terms_of(masks), masks @ np.arange(6.0), odd=False)
    np.testing.assert_allclose(process.linear, [0, 1, 2, 3, 4, 5, 0], atol=1e-9)
    assert not process.kernel_values(Shapley().join_law(6)).any()


def test_games_of_many_coalitions_are_fitted_to_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaussian_process, "MOST_CENTERS", 100)
    monkeypatch.setattr(gaussian_process, "MOST_TUNED", 50)
    masks = draw_masks(300, 8)
    process = fit_process(masks, terms_of(masks), np.sin(masks @ np.arange(8.0)), odd=False)
    assert process.centers.shape == (100, 8)


def test_players_may_outnumber_the_coalitions_that_rates_are_tuned_to() -> None:
    masks = draw_masks(500, 170)
    targets = masks @ np.linspace(0, 1, 170) + masks[:, 0] * masks[:, 1]
    process = fit_process(masks, terms_of(masks), targets, odd=False)
    assert np.isfinite(process.predict(masks, terms_of(masks))).all()


def test_more_linear_terms_than_coalitions_give_a_linear_fit() -> None:
    masks = draw_masks(60, 70)
    process = fit_process(masks, terms_of(masks), np.sin(masks @ np.arange(70.0)), odd=False)
    assert not process.coefficients.any()


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_values_may_all_be_the_same_where_rates_are_tuned(offset: float) -> None:
    masks = draw_masks(700, 8)
    targets = np.full(700, offset)
    targets[1] += 5  # not among the evenly chosen rows
    process = fit_process(masks, terms_of(masks), targets, odd=False)
    predicted = process.predict(masks, terms_of(masks))
    assert np.abs(predicted - targets)[2:].mean() < 0.2
