from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from sklearn.exceptions import NotFittedError
from torch import Tensor
from torch.testing import assert_close

import fwshapley as fw
from fwshapley.explanation.metrics import area, inclusion_curve
from fwshapley.explanation.semivalue_selection import choose_weights
from models import TableModel, rows, seeded

X = rows(40, 6, seed=1)


def fit(explainer: fw.FeatureExplainer, steps: int = 30) -> fw.FeatureExplainer:
    return explainer.fit(rows(200, 6), budget=fw.Budget(steps=steps), batch_size=32, n_coalitions=8, progress=False)


@pytest.fixture(scope="module")
def explainer() -> fw.FeatureExplainer:
    return fit(fw.FeatureExplainer(seeded(TableModel, 6), surrogate=None))


def surrogate_of(explainer: fw.FeatureExplainer) -> Any:  # noqa: ANN401 - an evaluator
    return lambda x, shown: explainer.surrogate_(x, shown).softmax(1)


def test_the_data_set_gets_the_weighting_of_the_largest_area(explainer: fw.FeatureExplainer) -> None:
    chosen = choose_weights(explainer, X, steps=6)
    expected = []
    for weights in (fw.Shapley(), *fw.semivalues.FEASIBLE_SET):
        found = explainer.explain(X, weights=weights, outputs="predicted")
        curve = inclusion_curve(surrogate_of(explainer), X, found.values[..., 0], found.outputs[:, 0], steps=6)
        expected.append(area(curve))
    assert chosen.areas == pytest.approx(expected)
    assert chosen.weights == chosen.candidates[expected.index(max(expected))]
    assert chosen.gain == pytest.approx(max(expected) - expected[0])
    assert chosen.candidates == (fw.Shapley(), *fw.semivalues.FEASIBLE_SET)
    assert chosen.n_calls == 40 * 9 * 7
    assert chosen.reported is None
    assert choose_weights(explainer, X, steps=6) == chosen  # deterministic


def test_the_cost_is_what_is_stated(explainer: fw.FeatureExplainer) -> None:
    asked = []

    def watched(x: Tensor, shown: Tensor) -> Tensor:
        asked.append(len(x))
        found: Tensor = surrogate_of(explainer)(x, shown)
        return found

    chosen = choose_weights(explainer, X, candidates=[fw.Banzhaf(), fw.Shapley()], steps=4, evaluator=watched)
    assert chosen.n_calls == sum(asked) == 40 * 2 * 5


def test_each_input_gets_its_best_by_mean_probability(explainer: fw.FeatureExplainer) -> None:
    chosen = choose_weights(explainer, X, steps=6, per_input=True)
    alone = [choose_weights(explainer, each[None], steps=6, per_input=True) for each in X[:5]]
    assert isinstance(chosen.weights, list)
    assert chosen.weights[:5] == [each.weights[0] for each in alone if isinstance(each.weights, list)]
    for each in alone:
        assert each.gain == pytest.approx(max(each.areas) - each.areas[0], abs=1e-6)
        assert each.gain_stderr == math.inf
    assert chosen.gain >= max(chosen.areas) - chosen.areas[0]  # at least what one for all would gain


def test_log_odds_are_compared_as_probabilities() -> None:
    """The same model and the same orders give the same areas, whatever the scale of the game."""
    explainer = fit(fw.FeatureExplainer(seeded(TableModel, 6), surrogate=None, output="logit"), steps=4)
    chosen = choose_weights(explainer, X, steps=4, per_input=True)
    own = choose_weights(explainer, X, steps=4, per_input=True, evaluator=surrogate_of(explainer))
    assert_close(torch.tensor(chosen.areas), torch.tensor(own.areas))
    assert all(0 < each < 1 for each in chosen.areas)


def test_gain_and_its_error_are_paired_over_inputs(explainer: fw.FeatureExplainer) -> None:
    """Player 0 alone decides for all: area is when it is shown."""

    def first_player(_: Tensor, shown: Tensor) -> Tensor:
        labels = explainer.explain(X, outputs="predicted").outputs[:, 0]
        kept = torch.nn.functional.one_hot(labels, 3).float()
        return torch.where(shown[:, :1], kept, 1 - kept)

    candidates = [fw.Shapley(), fw.LeaveOneOut(), fw.Beta(16, 1)]
    chosen = choose_weights(explainer, X, candidates=candidates, steps=6, evaluator=first_player)
    by_input = []
    for weights in (candidates[0], chosen.weights):
        assert isinstance(weights, fw.Semivalue)
        values = explainer.explain(X, weights=weights, outputs="predicted").values[..., 0]
        place = values.argsort(dim=1, descending=True, stable=True).argsort(dim=1)[:, 0]
        by_input.append(1 - (place + 0.5) / 6)
    gains = by_input[1] - by_input[0]
    assert chosen.gain == pytest.approx(float(gains.mean()))
    assert chosen.gain_stderr == pytest.approx(float(gains.std() / math.sqrt(40)))


def test_what_is_reported_is_anothers_verdict_on_the_same_choice(explainer: fw.FeatureExplainer) -> None:
    def contrary(x: Tensor, shown: Tensor) -> Tensor:
        return -surrogate_of(explainer)(x, shown)

    chosen = choose_weights(explainer, X, steps=6, evaluator=surrogate_of(explainer), reporter=contrary, per_input=True)
    assert chosen.reported is not None
    assert chosen.reported.areas == pytest.approx([-each for each in chosen.areas])
    assert chosen.reported.gain == pytest.approx(-chosen.gain)
    assert "by another evaluator; 40 inputs, 2,520 evaluations" in str(chosen)


def test_it_says_itself_in_a_line(explainer: fw.FeatureExplainer) -> None:
    first = choose_weights(explainer, X, candidates=[fw.Banzhaf()], steps=2)
    told = "Banzhaf(0.5): no other candidate has a larger inclusion area (40 inputs, 120 evaluations)"
    assert str(first) == told
    other = replace(first, weights=fw.Shapley(), numbers=(1,) * 40, gain=0.25, gain_stderr=0.5)
    assert str(other) == (
        "Shapley: +0.2500 ± 0.5000 in inclusion area over Banzhaf(0.5) "
        "(optimistic: by the evaluator that chose; 40 inputs, 120 evaluations)"
    )


def test_ties_go_to_the_first(explainer: fw.FeatureExplainer) -> None:
    def same(x: Tensor, _: Tensor) -> Tensor:
        return torch.full((len(x), 3), 1 / 3)

    for per_input in (False, True):
        chosen = choose_weights(explainer, X, steps=2, evaluator=same, per_input=per_input)
        assert chosen.weights == ([fw.Shapley()] * 40 if per_input else fw.Shapley())
        assert chosen.gain == 0


def test_what_cannot_be_chosen_is_an_error(explainer: fw.FeatureExplainer) -> None:
    kernel = fit(fw.FeatureExplainer(seeded(TableModel, 6), surrogate=None, objective="kernel", weights=fw.Shapley()))
    with pytest.raises(ValueError, match=r"objective='multilinear'.*Shapley"):
        choose_weights(kernel, X)
    raw = fit(fw.FeatureExplainer(seeded(TableModel, 6), surrogate=None, output="raw"))
    with pytest.raises(ValueError, match="output='raw'"):
        choose_weights(raw, X)
    with pytest.raises(ValueError, match="empty list"):
        choose_weights(explainer, X, candidates=[])
    with pytest.raises(ValueError, match="steps must be at least 1"):
        choose_weights(explainer, X, steps=0)
    with pytest.raises(NotFittedError, match="not fitted"):
        choose_weights(fw.FeatureExplainer(seeded(TableModel, 6)), X)
