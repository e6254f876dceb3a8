from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import fwshapley as fw
from brute_force import all_coalitions
from fwshapley.explanation.learned.refinement import correction, refine
from fwshapley.explanation.learned.refinement.control_variate import FirstOrderGame, Slopes, network_slopes
from fwshapley.explanation.learned.refinement.correction import (
    ENUMERATION_GAIN,
    FOLDS,
    MIN_CALLS,
    InputGame,
    WeightedCoalitions,
    best_sizes,
    choose_sizes,
    predict_game,
    refine_game,
)
from fwshapley.explanation.learned.refinement.regression import NUGGET, Regression, _interpolate, _invert, similarity
from fwshapley.games.game import AnyGame
from fwshapley.games.masked_model import LINKS, MaskedModel
from fwshapley.games.scales import Output
from fwshapley.semivalues import join_laws, log_binomials
from models import TableModel, rows, seeded

WEIGHTS = [fw.Shapley(), fw.Beta(4, 1), fw.Beta(1, 4)]
PLAYERS, OUTPUTS = 8, 3


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def exact(worth: AnyGame, weights: Sequence[fw.Semivalue], n: int = PLAYERS) -> Tensor:
    return fw.exact_values(worth, weights, n_players=n, progress=False)


def raw_outputs(coalitions: Tensor) -> Tensor:
    """A small network on masks: near additive, as logits are."""
    hidden = torch.tanh(coalitions.double() @ random(PLAYERS, 12) - 0.3)
    return hidden @ random(12, OUTPUTS, seed=1) + coalitions.double() @ random(PLAYERS, OUTPUTS, seed=2)


def game_with(
    slopes: Slopes, output: Output = "probability", raw: Callable[[Tensor], Tensor] = raw_outputs
) -> InputGame:
    ends = raw(torch.tensor([[False] * PLAYERS, [True] * PLAYERS]))
    empty, full = LINKS[output](ends)
    return InputGame(
        raw,
        LINKS[output],
        ends,
        control=slopes.first_order(empty, full),
        slope=slopes.raw_slopes(empty, full, output),
        relevance=slopes.relevance(),
    )


def check_agreement(found: fw.Attribution, truth: Tensor) -> None:
    """Two standard errors cover most values, which are not independent, and squared errors are not far off."""
    assert found.stderr is not None
    squared = ((found.values - truth) / found.stderr).square()
    assert float((squared < 4).double().mean()) > 0.85
    assert float(squared.mean()) < 4


WRONG = Slopes(random(8 * PLAYERS + 1, PLAYERS, OUTPUTS, seed=3), 8)


def test_the_semivalues_of_a_first_order_game_are_closed(semivalue_for: Callable[[int], fw.Semivalue]) -> None:
    game, weights = FirstOrderGame(random(7, 2), random(7, 6, 2, seed=1)), semivalue_for(6)
    assert torch.allclose(
        game.values(torch.from_numpy(join_laws([weights], 6))), exact(game.__call__, [weights], 6), atol=1e-10
    )


def test_the_first_order_of_an_additive_game_is_the_game() -> None:
    each = random(PLAYERS, OUTPUTS)
    control = Slopes(each.expand(65, -1, -1), 8).first_order(torch.ones(OUTPUTS).double(), 1 + each.sum(0))
    masks = all_coalitions(PLAYERS)
    assert torch.allclose(control(masks), 1 + masks.double() @ each, atol=1e-12)


def test_a_control_agrees_with_the_game_for_nobody_and_everyone() -> None:
    nobody, everyone = random(OUTPUTS), random(OUTPUTS, seed=1)
    ends = WRONG.first_order(nobody, everyone)(all_coalitions(PLAYERS)[[0, -1]])
    assert torch.allclose(ends, torch.stack([nobody, everyone]), atol=1e-12)


def test_slopes_of_raw_outputs_are_those_that_explain_the_slopes_of_worths() -> None:
    each = random(PLAYERS, OUTPUTS)
    slopes = Slopes(each.expand(65, -1, -1), 8)
    assert torch.allclose(slopes.raw_slopes(each[0], each[1], "raw"), each, rtol=2e-3)
    # At one place, a probability of 1/2 of two classes: raw outputs 0 and 0, derivative +-1/4.
    flat = Slopes(torch.tensor([[[0.1, -0.1]] * 4] * 65, dtype=torch.float64) / 4, 16)
    half = torch.full((2,), 0.5, dtype=torch.float64)
    found = flat.raw_slopes(half, half + flat.psi[0].sum(0), "probability")
    assert torch.allclose(found[:, 0] - found[:, 1], torch.full((4,), 0.1, dtype=torch.float64), rtol=0.02)


def test_relevance_is_one_on_average_and_never_nothing() -> None:
    only_one = torch.zeros(65, PLAYERS, 1, dtype=torch.float64)
    only_one[:, 2] = 5
    relevance = Slopes(only_one, 8).relevance()
    assert float(relevance.mean()) == pytest.approx(1)
    assert float(relevance.min()) > 0
    assert int(relevance.argmax()) == 2
    assert torch.equal(Slopes(0 * only_one, 8).relevance().unique(), relevance.min()[None])


def test_sums_over_all_coalitions_are_the_semivalues(semivalue_for: Callable[[int], fw.Semivalue]) -> None:
    n, weights = 6, semivalue_for(6)
    masks = all_coalitions(n)[1:-1]
    worth = random(len(masks), 2)
    laws, s = torch.from_numpy(join_laws([weights], n)), masks.sum(1)
    chance = torch.from_numpy(log_binomials(n)).exp()[s]
    sums = WeightedCoalitions(masks, laws[:, s - 1] * n / s / chance, -laws[:, s] * n / (n - s) / chance)
    table = torch.cat([torch.zeros(1, 2).double(), worth, torch.zeros(1, 2).double()])
    bits = 2 ** torch.arange(n - 1, -1, -1)
    expected = exact(lambda some: table[(some * bits).sum(1)], [weights], n)
    assert torch.allclose(sums.values(worth), expected, atol=1e-10)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")  # for speed
def test_sums_are_unbiased_and_know_their_variance() -> None:
    laws = torch.from_numpy(join_laws(WEIGHTS, PLAYERS))
    control = WRONG.first_order(random(OUTPUTS), random(OUTPUTS, seed=1))
    base = torch.linspace(0, 1, PLAYERS + 1).double()[:, None]
    ends = control(all_coalitions(PLAYERS)[[0, -1]])

    def worth(coalitions: Tensor) -> Tensor:
        share = base[coalitions.sum(1)]
        return control(coalitions) - ends[0] - share * (ends[1] - ends[0])

    sizes, generator = best_sizes(laws, torch.ones(PLAYERS - 1).double()), torch.Generator().manual_seed(0)
    draws = [WeightedCoalitions.draw(32, laws, sizes, generator) for _ in range(2000)]
    found = torch.stack([each.values(worth(each.coalitions)) for each in draws])
    variance = torch.stack([each.variance(worth(each.coalitions)) for each in draws]).mean(0)
    error = found.mean(0) - exact(worth, WEIGHTS)
    assert bool((error.abs() < 4 * (found.var(0) / len(draws)).sqrt()).all())
    ratio = variance.sum((1, 2)) / found.var(0).sum((1, 2))
    assert bool(((ratio > 0.9) & (ratio < 1.25)).all())  # neighboring strata differ a little


def test_a_variance_is_the_sum_of_squared_differences_of_pairs() -> None:
    laws = torch.from_numpy(join_laws(WEIGHTS, PLAYERS))
    sums = WeightedCoalitions.draw(10, laws, best_sizes(laws, torch.ones(7).double()), torch.Generator().manual_seed(0))
    worth = random(10, 2)
    each = torch.where(sums.coalitions[None], sums.inside[..., None], sums.outside[..., None])[..., None]
    terms = each * worth[None, :, None]
    assert torch.allclose(sums.values(worth), terms.sum(1))
    assert torch.allclose(sums.variance(worth), (terms[:, 0::2] - terms[:, 1::2]).square().sum(1))


def test_sizes_of_shapley_follow_the_root_of_one_over_s_times_n_minus_s() -> None:
    s = torch.arange(1, 9, dtype=torch.float64)
    law = best_sizes(torch.from_numpy(join_laws([fw.Shapley()], 9)), torch.ones(8).double())
    wanted = (s * (9 - s)).rsqrt()
    assert torch.allclose(law, wanted / wanted.sum())


def test_similarity_is_a_product_over_players() -> None:
    masks, decay = all_coalitions(5), torch.rand(5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wanted = torch.where(masks[:, None] == masks, 1.0, (-decay).exp()).prod(2)
    assert torch.allclose(similarity(masks, masks, decay), wanted)
    assert float(torch.linalg.eigvalsh(wanted).min()) > 0


FITTED = all_coalitions(PLAYERS)[[0, *range(3, 256, 5)]]  # every player is in some
FOLD_OF = torch.tensor([-1, *(number % FOLDS for number in range(1, len(FITTED)))])


def fit(raw: Tensor, slope: Tensor) -> Regression:
    return Regression.fit(
        FITTED,
        raw,
        [FOLD_OF.ne(fold).nonzero().flatten() for fold in range(FOLDS)],
        slope=slope,
        relevance=torch.ones(PLAYERS).double(),
        link=LINKS["probability"],
        importance=torch.ones(len(FITTED)).double(),
    )


def test_a_fold_never_sees_its_own_coalitions() -> None:
    raw, slope, elsewhere = raw_outputs(FITTED), random(PLAYERS, OUTPUTS), all_coalitions(PLAYERS)[1::4]
    before, after = fit(raw, slope), fit(torch.where(FOLD_OF[:, None] == 3, 100.0, raw), slope)
    for of_folds in ("weights", "slopes", "decays"):
        assert torch.equal(getattr(before, of_folds)[3], getattr(after, of_folds)[3])
    assert not bool(before.weights[3][FOLD_OF == 3].any())
    changed = (before(elsewhere) - after(elsewhere)).abs().amax((1, 2)) > 1e-9
    assert changed.tolist() == [fold != 3 for fold in range(FOLDS)]


def test_a_fold_is_fitted_as_if_it_were_alone() -> None:
    raw, slope = raw_outputs(FITTED), random(PLAYERS, OUTPUTS)
    found = fit(raw, slope)
    for fold in range(FOLDS):
        seen = FOLD_OF.ne(fold)
        decay = found.decays[fold]
        gram = similarity(FITTED[seen], FITTED[seen], decay) + NUGGET * torch.eye(int(seen.sum()))
        left = raw[seen] - raw[0] - FITTED[seen].double() @ found.slopes[fold]
        assert torch.allclose(found.weights[fold][seen], torch.linalg.solve(gram, left), rtol=1e-6, atol=1e-6)


def test_the_error_of_one_left_out_is_that_of_a_fit_without_it() -> None:
    precision, rise, seen = (
        _invert(similarity(FITTED, FITTED, torch.full((PLAYERS,), 0.1).double())),
        FITTED.double(),
        9,
    )
    rest, line = torch.arange(seen), torch.zeros_like(rise)
    (_, _, left_out), *_ = _interpolate(precision, torch.arange(seen + 1), rise, line, [0.0])
    (_, weight, _), *_ = _interpolate(precision, rest, rise, line, [0.0])
    answer = similarity(FITTED[seen][None], FITTED[rest], torch.full((PLAYERS,), 0.1).double()) @ weight
    assert torch.allclose(left_out[seen], rise[seen] - answer[0], atol=1e-6)


def test_a_regression_finds_lines_and_predicts_what_it_has_not_seen() -> None:
    masks, slope = all_coalitions(PLAYERS), random(PLAYERS, OUTPUTS)
    line = fit(2 + 3 * FITTED.double() @ slope, slope)
    assert torch.allclose(line(masks), 2 + 3 * masks.double() @ slope, atol=1e-8)
    missed = fit(raw_outputs(FITTED), slope)(masks) - raw_outputs(masks)
    assert float(missed.square().mean()) < 0.1 * float(raw_outputs(masks).var(0).mean())


@pytest.mark.slow
@pytest.mark.parametrize(("output", "gain"), [("probability", 0), ("probability", ENUMERATION_GAIN), ("raw", 0)])
@pytest.mark.usefixtures("unchecked")  # for speed
def test_values_are_unbiased_and_standard_errors_honest_however_wrong_the_network(
    output: Output, gain: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(correction, "ENUMERATION_GAIN", gain)  # none, so that coalitions are drawn
    laws, game = torch.from_numpy(join_laws(WEIGHTS, PLAYERS)), game_with(WRONG, output)
    truth = exact(lambda some: game.link(game.raw(some)), WEIGHTS)
    sizes, seeds = best_sizes(laws, torch.ones(PLAYERS - 1).double()), 100
    generators = (torch.Generator().manual_seed(seed) for seed in range(seeds))
    found = [refine_game(game, laws, sizes, n_calls=66, generator=each) for each in generators]
    values, stderr = (torch.stack(each) for each in zip(*found, strict=True))
    assert bool(((values.mean(0) - truth).abs() < 4 * values.std(0) / seeds**0.5).all())
    covered = ((values - truth).abs() < 2 * stderr).double().mean()
    assert 0.9 < float(covered) < 0.98
    assert 0.8 < float(stderr.square().mean() / values.var(0).mean()) < 1.4


@pytest.mark.slow
@pytest.mark.parametrize("output", ["probability", "raw"])
@pytest.mark.usefixtures("unchecked")  # for speed
def test_standard_errors_cover_from_the_fewest_calls_on(output: Output) -> None:
    laws, game = torch.from_numpy(join_laws(WEIGHTS, PLAYERS)), game_with(WRONG, output)
    truth = exact(lambda some: game.link(game.raw(some)), WEIGHTS)
    sizes = best_sizes(laws, torch.ones(PLAYERS - 1).double())
    covered = []
    for n_calls, seed in itertools.product((MIN_CALLS, 2 * MIN_CALLS), range(40)):
        generator = torch.Generator().manual_seed(seed)
        values, stderr = refine_game(game, laws, sizes, n_calls=n_calls, generator=generator)
        covered.append((values - truth).abs() < 2 * stderr)
    assert 0.93 <= float(torch.stack(covered).double().mean()) <= 0.97


def test_a_right_network_makes_values_more_precise_than_a_wrong_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correction, "ENUMERATION_GAIN", 0)
    places = torch.linspace(0, 1, 65).clamp(1e-4, 1 - 1e-4).tolist()
    truth = exact(lambda some: raw_outputs(some).softmax(1), [fw.Banzhaf(t) for t in places])
    laws = torch.from_numpy(join_laws([fw.Shapley()], PLAYERS))
    sizes = best_sizes(laws, torch.ones(PLAYERS - 1).double())
    right, wrong = (
        refine_game(game_with(slopes), laws, sizes, n_calls=66, generator=torch.Generator().manual_seed(0))[1].mean()
        for slopes in (Slopes(truth, 8), WRONG)
    )
    assert float(right) < 0.8 * float(wrong)


@pytest.fixture(scope="module")
def explainer() -> fw.FeatureExplainer:
    model = seeded(TableModel, 10, 3)
    return fw.FeatureExplainer(model).fit(rows(256, 10), budget=fw.Budget(steps=40), progress=False)


@pytest.fixture(scope="module")
def of_one_weighting() -> fw.FeatureExplainer:
    made = fw.FeatureExplainer(seeded(TableModel, 7, 2), objective="kernel", weights=WEIGHTS[1])
    return made.fit(rows(128, 7), budget=fw.Budget(steps=10), progress=False)


def test_refined_values_are_as_far_from_the_truth_as_their_standard_errors_say(explainer: fw.FeatureExplainer) -> None:
    x = rows(3, 10, seed=1)
    found = refine(explainer, x, n_calls=128, weights=WEIGHTS, progress=False)
    truth = torch.stack([fw.exact_values(explainer.game(each), WEIGHTS, progress=False) for each in x], 1)
    assert found.values.shape == found.stderr.shape == (3, 3, 10, 3)  # type: ignore[union-attr]
    check_agreement(found, truth)
    assert (found.total, found.weights) == ("raw", WEIGHTS)
    assert torch.equal(found.inputs, x)


def test_with_calls_for_all_coalitions_values_are_exact(of_one_weighting: fw.FeatureExplainer) -> None:
    x = rows(2, 7, seed=1)
    found = refine(of_one_weighting, x, n_calls=128, weights=fw.Shapley(), outputs="all", progress=False)
    truth = torch.stack([fw.exact_values(of_one_weighting.game(each), fw.Shapley(), progress=False) for each in x])
    assert torch.allclose(found.values.double(), truth, atol=1e-6)
    assert found.stderr is not None
    assert not found.stderr.any()


def test_an_explainer_of_one_weighting_refines_any(of_one_weighting: fw.FeatureExplainer) -> None:
    x, never_learned = rows(2, 7, seed=1), fw.Cardinality([1.0, 0, 0, 2, 0, 0, 1])
    both = [WEIGHTS[1], never_learned]
    found = refine(of_one_weighting, x, n_calls=100, weights=both, outputs="all", progress=False)
    truth = torch.stack([fw.exact_values(of_one_weighting.game(each), both, progress=False) for each in x], 1)
    check_agreement(found, truth)
    assert refine(of_one_weighting, x, n_calls=40, progress=False).weights == WEIGHTS[1]


def test_the_surrogate_is_asked_no_more_often_than_allowed(
    explainer: fw.FeatureExplainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    answer = MaskedModel.__call__

    def count(game: MaskedModel, x: Tensor, coalitions: Tensor) -> Tensor:
        asked.append(coalitions.shape[:2].numel())
        return answer(game, x, coalitions)

    monkeypatch.setattr(MaskedModel, "__call__", count)
    refine(explainer, rows(1, 10), n_calls=101, progress=False)
    assert 98 <= sum(asked) <= 101


def test_the_same_seed_gives_the_same_values(explainer: fw.FeatureExplainer) -> None:
    x = rows(2, 10)
    one, same, other = (refine(explainer, x, n_calls=40, seed=seed, progress=False).values for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_outputs_are_chosen_as_explain_chooses_them(explainer: fw.FeatureExplainer) -> None:
    x = rows(4, 10)
    every = refine(explainer, x, n_calls=40, progress=False)
    predicted = refine(explainer, x, n_calls=40, outputs="predicted", progress=False)
    assert torch.equal(predicted.outputs, explainer.explain(x, outputs="predicted").outputs)
    assert torch.equal(predicted.values, every.values.gather(2, predicted.outputs[:, None].expand(-1, 10, -1)))


def test_slopes_are_what_the_network_says_of_banzhaf_values(explainer: fw.FeatureExplainer) -> None:
    x = rows(1, 10)
    slopes = network_slopes(explainer.fitted_, x)
    sizes = slopes.psi[:: slopes.stride]
    assert len(sizes) == 11
    assert torch.allclose(sizes[3].float(), explainer.explain(x, weights=fw.Banzhaf(0.3)).values[0], atol=1e-5)


def test_slopes_of_one_weighting_are_its_values(of_one_weighting: fw.FeatureExplainer) -> None:
    fitted, x = of_one_weighting.fitted_, rows(1, 7)
    slopes = network_slopes(fitted, x)
    centered = slopes.psi - slopes.psi.mean(1, keepdim=True)
    values = of_one_weighting.explain(x, outputs="all").values[0].double()
    assert torch.allclose(centered, (values - values.mean(0)).expand(len(centered), -1, -1), atol=1e-6)
    assert torch.equal(
        choose_sizes(fitted.objective, torch.from_numpy(join_laws(WEIGHTS, 7))),
        best_sizes(torch.from_numpy(join_laws(WEIGHTS, 7)), torch.ones(6).double()),
    )


@pytest.mark.parametrize("output", list(LINKS))
def test_every_kind_of_output_is_refined(explainer: fw.FeatureExplainer, output: Output) -> None:
    fitted = explainer.fitted_
    masked, x = replace(fitted.masked_model, output=output), rows(1, 10)
    game, laws = predict_game(masked, x, network_slopes(fitted, x)), torch.from_numpy(join_laws(WEIGHTS, 10))
    sizes = choose_sizes(fitted.objective, laws)
    values, stderr = refine_game(game, laws, sizes, n_calls=128, generator=torch.Generator().manual_seed(0))
    truth = exact(lambda some: masked(x, some[None])[0], WEIGHTS, 10)
    assert float(((values - truth) / (stderr + 1e-6)).square().mean()) < 4


def test_too_few_calls_are_refused(explainer: fw.FeatureExplainer) -> None:
    with pytest.raises(ValueError, match=f"n_calls must be at least {MIN_CALLS} .*got 10"):
        refine(explainer, rows(1, 10), n_calls=10)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("weights", "complaint"), [(fw.Shapley, r"write Shapley\(\)"), ("shapley", "got 'shapley'"), ([], "empty list")]
)
def test_weights_are_checked_as_explain_checks_them(
    explainer: fw.FeatureExplainer,
    weights: Any,  # noqa: ANN401 - whatever a user may give
    complaint: str,
) -> None:
    for ask in (explainer.explain, explainer.refine, explainer.calibrate):
        with pytest.raises((TypeError, ValueError), match=complaint):
            ask(rows(8, 10), weights=weights)


def test_more_calls_than_a_regression_knows(explainer: fw.FeatureExplainer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correction, "MAX_FITTED", 60)
    x = rows(1, 10, seed=1)
    found = refine(explainer, x, n_calls=400, progress=False)
    check_agreement(found, fw.exact_values(explainer.game(x[0]), fw.Shapley(), progress=False))
    assert str(found).startswith(
        "raw Shapley values of 10 players for 1 input, refined with 400 calls per input: standard error 0.0"
    )
