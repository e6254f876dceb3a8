from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import fwshapley as fw
from fwshapley.explanation.learned.error_model import ErrorModel, _fit_coefficients, calibrate
from models import TableModel, rows, seeded

WEIGHTS = [fw.Shapley(), fw.Beta(4, 1)]
ALL_CALLS = 2**6


@pytest.fixture(scope="module")
def explainer() -> fw.FeatureExplainer:
    return fw.FeatureExplainer(seeded(TableModel, 6, 3)).fit(rows(256, 6), budget=fw.Budget(steps=60), progress=False)


@pytest.fixture(scope="module")
def model(explainer: fw.FeatureExplainer) -> ErrorModel:
    return calibrate(
        explainer, 2 * rows(60, 6, seed=1), n_inputs=None, n_calls=ALL_CALLS, weights=WEIGHTS, progress=False
    )


def true_errors(explainer: fw.FeatureExplainer, x: torch.Tensor) -> torch.Tensor:
    truth = torch.stack([fw.exact_values(explainer.game(each), WEIGHTS, progress=False) for each in x], 1)
    return (explainer.explain(x, weights=WEIGHTS).values - truth).square().mean(2).sqrt()


def test_expected_errors_are_those_of_new_inputs(explainer: fw.FeatureExplainer, model: ErrorModel) -> None:
    x = 2 * rows(40, 6, seed=2)
    expected = model.expect(explainer, explainer.explain(x, weights=WEIGHTS)).expected_error
    errors = true_errors(explainer, x)
    assert expected is not None
    assert expected.shape == errors.shape == (2, 40, 3)
    of_network = 1 - torch.tensor(model.surrogate_shares)
    ratio = of_network * expected.square().mean((1, 2)) / errors.square().mean((1, 2))
    assert bool(((ratio > 0.6) & (ratio < 1.7)).all())
    ranks = [each.flatten().argsort().argsort().double() for each in (expected[0], errors[0])]
    assert float(torch.corrcoef(torch.stack(ranks))[0, 1]) > 0.3


def test_its_scores_are_of_inputs_that_it_was_not_fitted_on(model: ErrorModel) -> None:
    assert (model.n_inputs, model.n_calls, model.total) == (60, ALL_CALLS, "raw")
    assert all(score.spearman > 0 and 0.5 < score.ratio < 2 for score in model.scores)
    assert all(min(each) >= 0 for each in model.coefficients)
    assert str(model).startswith("error model of 60 inputs, tested on half of them: Shapley: rank correlation 0.")


def test_errors_measured_by_sampling_are_those_measured_exactly(explainer: fw.FeatureExplainer) -> None:
    x = 2 * rows(32, 6, seed=1)
    exact = calibrate(explainer, x, n_calls=ALL_CALLS, progress=False)
    sampled = calibrate(explainer, x, n_calls=ALL_CALLS - 1, progress=False)
    shown = explainer.explain(x)
    means = [each.expect(explainer, shown).expected_error for each in (exact, sampled)]
    assert means[0] is not None
    assert means[1] is not None
    assert float(means[1].square().mean()) == pytest.approx(float(means[0].square().mean()), rel=0.3)


def test_one_weighting_and_chosen_outputs(explainer: fw.FeatureExplainer, model: ErrorModel) -> None:
    x = rows(5, 6)
    every = model.expect(explainer, explainer.explain(x, weights=WEIGHTS)).expected_error
    one = model.expect(explainer, explainer.explain(x, weights=WEIGHTS[1], outputs=[2]))
    assert every is not None
    assert one.expected_error is not None
    assert torch.allclose(one.expected_error, every[1, :, 2:], atol=1e-7)


def test_an_explainer_of_one_weighting_has_errors_too() -> None:
    made = fw.FeatureExplainer(seeded(TableModel, 6, 3), objective="kernel", weights=WEIGHTS[1])
    made.fit(rows(128, 6), budget=fw.Budget(steps=10), progress=False)
    found = calibrate(made, rows(16, 6, seed=1), n_calls=ALL_CALLS, progress=False)
    assert (found.weights, found.total) == ((WEIGHTS[1],), "efficient")
    expected = found.expect(made, made.explain(rows(3, 6))).expected_error
    assert expected is not None
    assert expected.shape == (3, 3)


def test_a_model_comes_back_from_json_as_it_was(model: ErrorModel) -> None:
    assert ErrorModel.from_facts(json.loads(json.dumps(model.facts()))) == model


def test_what_was_not_calibrated_is_refused(explainer: fw.FeatureExplainer, model: ErrorModel) -> None:
    with pytest.raises(ValueError, match=r"weights: .*Shapley, Beta\(4, 1\), not for Banzhaf"):
        model.expect(explainer, explainer.explain(rows(2, 6), weights=fw.Banzhaf()))
    with pytest.raises(ValueError, match=r"total: .*raw values, these are efficient"):
        model.expect(explainer, explainer.explain(rows(2, 6), total="efficient"))
    with pytest.raises(ValueError, match=r"x must contain at least 8 inputs.*got 2"):
        calibrate(explainer, rows(2, 6))


class Products(torch.nn.Module):
    """x0 x1 + |x2| + (x3 > 0): of independent columns, so that its mean given some of them is known."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :1] * x[:, 1:2] + x[:, 2:3].abs() + (x[:, 3:4] > 0).float()


class KnownGame:
    """The model's own game: E[Products | visible columns] for standard normal columns."""

    n_players = 6

    def __init__(self, x: Tensor) -> None:
        self.x = x

    def __call__(self, coalitions: Tensor) -> Tensor:
        shown = coalitions[:, :4].double()
        x = self.x.double()
        size = shown[:, 2] * x[2].abs() + (1 - shown[:, 2]) * math.sqrt(2 / math.pi)
        step = shown[:, 3] * (x[3] > 0) + (1 - shown[:, 3]) / 2
        return (shown[:, 0] * shown[:, 1] * x[0] * x[1] + size + step)[:, None]


def test_two_expected_errors_cover_the_values_of_the_model_rather_than_of_its_surrogate() -> None:
    explainer = fw.FeatureExplainer(Products(), output="raw").fit(
        rows(1000, 6), budget=fw.Budget(steps=150), progress=False
    )
    weights = [fw.Shapley(), fw.Beta(4, 1), fw.Beta(1, 4)]
    model = explainer.calibrate(rows(60, 6, seed=1), n_inputs=None, n_calls=ALL_CALLS, weights=weights, progress=False)
    x = rows(60, 6, seed=2)
    found = explainer.explain(x, weights=weights, errors=True)
    truth = torch.stack([fw.exact_values(KnownGame(row), weights, progress=False) for row in x], 1)
    errors, expected = (found.values - truth).abs(), found.expected_error
    assert expected is not None
    covered = (errors <= 2 * expected[:, :, None]).double().mean((1, 2, 3))
    assert float(covered.min()) > 0.93
    without = expected * (1 - torch.tensor(model.surrogate_shares)).sqrt()[:, None, None]
    assert float((errors <= 2 * without[:, :, None]).double().mean()) < float(covered.mean())


def test_coefficients_are_found_and_keep_the_mean() -> None:
    generator = np.random.default_rng(0)
    features = generator.exponential(size=(4000, 3)) * [1, 1e-3, 1e3]
    squared = features @ [2, 0, 5e-3] * generator.normal(1, 0.5, 4000)  # noisy, some of it negative
    found = np.array(_fit_coefficients(features, squared))
    assert found[[0, 2]] == pytest.approx([2, 5e-3], rel=0.1)
    assert found[1] * 1e-3 < 0.2
    assert (features @ found).mean() == pytest.approx(squared.mean())
    with pytest.raises(ValueError, match="n_calls is too small"):
        _fit_coefficients(features, -squared)


def test_a_sample_of_many_inputs_is_used_and_the_seed_chooses_it(explainer: fw.FeatureExplainer) -> None:
    x = rows(20, 6, seed=1)
    frame = pd.DataFrame(x.numpy(), columns=list("abcdef"))
    one, same, other = (
        calibrate(explainer, each, n_inputs=9, n_calls=ALL_CALLS, seed=seed, progress=False)
        for each, seed in ((x, 0), (frame, 0), (x, 1))
    )
    assert (one.n_inputs, one) == (9, same)
    assert one != other
    with pytest.raises(ValueError, match="n_inputs must be at least 8, got 3"):
        calibrate(explainer, x, n_inputs=3)


@pytest.mark.usefixtures("unchecked")
def test_errors_are_asked_for_by_true_or_false(explainer: fw.FeatureExplainer) -> None:
    with pytest.raises(TypeError, match="errors must be True or False, got 'yes'"):
        explainer.explain(rows(2, 6), errors="yes")  # type: ignore[arg-type]
