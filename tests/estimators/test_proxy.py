from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from fwshapley import (
    Banzhaf,
    Beta,
    Cardinality,
    LeaveOneOut,
    Semivalue,
    Shapley,
    exact_values,
    least_squares_values,
    proxy_values,
)
from fwshapley.estimators import gaussian_process
from fwshapley.games import Additive, FunctionGame, Game, Glove, Pairwise, Random, Voting

SemivalueFor = Callable[[int], Semivalue]
Total = Literal["raw", "efficient"]


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(11))


@pytest.fixture
def quick(unchecked: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - a fixture without a value
    """Proxies that are tuned a little, for speed; they need not be good to be right."""
    monkeypatch.setattr(gaussian_process, "MOST_TUNED", 50)
    monkeypatch.setattr(gaussian_process, "TUNING_STEPS", 3)


def truth_of(game: Game, weights: Semivalue, total: Total) -> Tensor:
    values = exact_values(game, weights)
    if total == "raw":
        return values
    nobody, everyone = torch.as_tensor(game(torch.tensor([[False], [True]]).expand(2, game.n_players)))
    return values + (everyone - nobody - values.sum(0)) / game.n_players


# The right answer, and how sure of it


@pytest.mark.parametrize("total", ["raw", "efficient"])
@pytest.mark.parametrize("name", ["smooth", "random", "voting"])
@pytest.mark.usefixtures("quick")
def test_values_are_unbiased_also_where_the_proxy_is_bad(
    semivalue_for: SemivalueFor, smooth_game: Callable[..., Game], name: str, total: Total
) -> None:
    games = {"smooth": smooth_game(9, 2), "random": Random(9, 2), "voting": Voting((5, 4, 3, 3, 2, 2, 1, 1, 1), 12)}
    game, weights = games[name], semivalue_for(9)
    runs = torch.stack([proxy_values(game, weights, n_calls=150, total=total, seed=seed).values for seed in range(20)])
    standard_error = runs.std(0) / len(runs) ** 0.5
    assert bool(((runs.mean(0) - truth_of(game, weights, total)).abs() <= 4 * standard_error + 1e-10).all())


@pytest.mark.parametrize(
    ("name", "weights", "total"),
    [
        ("smooth", Shapley(), "efficient"),
        ("smooth", Beta(1, 4), "raw"),
        ("random", Beta(4, 1), "raw"),
        ("random", Banzhaf(0.2), "efficient"),
    ],
    ids=str,
)
@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_two_standard_errors_cover_95_percent(
    smooth_game: Callable[..., Game], name: str, weights: Semivalue, total: Total
) -> None:
    game = smooth_game(9, 3) if name == "smooth" else Random(9, 3)
    truth = truth_of(game, weights, total)
    covered = []
    for seed in range(40):
        estimate = proxy_values(game, weights, n_calls=200, total=total, seed=seed)
        covered.append((estimate.values - truth).abs() <= 2 * estimate.stderr)
    assert 0.93 <= float(torch.stack(covered).double().mean()) <= 0.98


@pytest.mark.parametrize("weights", [Shapley(), Beta(4, 1), Beta(1, 4)], ids=str)
def test_many_players_are_within_four_standard_errors(weights: Semivalue) -> None:
    game = Pairwise(normal(60), normal(60, 60) / 60)
    estimate = proxy_values(game, weights, n_calls=3000)
    assert bool(((estimate.values - game.values(weights)).abs() <= 4 * estimate.stderr + 1e-10).all())
    assert float(estimate.stderr.max()) < 0.05


@pytest.mark.parametrize("weights", [Shapley(), Beta(4, 1), Beta(1, 4)], ids=str)
def test_games_of_few_interactions_are_far_more_accurate_than_by_least_squares(weights: Semivalue) -> None:
    game = FunctionGame(lambda s: 3.0 * s[:, 1] + 2.0 * (s[:, 0] & s[:, 4] & ~s[:, 2]) - 1.0 * (s[:, 3] & s[:, 5]), 10)
    truth = exact_values(game, weights)
    errors = []
    for seed in range(3):
        ours, theirs = (
            estimator(game, weights, n_calls=400, seed=seed) for estimator in (proxy_values, least_squares_values)
        )
        errors.append([float((estimate.values - truth).norm()) for estimate in (ours, theirs)])
        assert float(ours.stderr.max()) < 0.2 * float(theirs.stderr.max())
    our_error, their_error = torch.tensor(errors).square().mean(0).sqrt().tolist()
    assert our_error < 0.2 * their_error


@pytest.mark.parametrize("total", ["raw", "efficient"])
def test_additive_games_are_recovered_exactly(semivalue_for: SemivalueFor, total: Total) -> None:
    weights = semivalue_for(9)
    game = Additive(normal(9))
    estimate = proxy_values(game, weights, n_calls=120, total=total)
    assert_close(estimate.values, game.values(weights), rtol=0, atol=1e-9)
    assert float(estimate.stderr.max()) < 1e-9


def test_pairwise_games_are_exact_for_symmetric_laws() -> None:
    """Their odd part, the only one that enters, is additive."""
    game = Pairwise(normal(9), normal(9, 9))
    estimate = proxy_values(game, [Shapley(), Banzhaf()], n_calls=120)
    for weights, values in zip([Shapley(), Banzhaf()], estimate.values, strict=True):
        assert_close(values, game.values(weights), rtol=0, atol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_values_are_exact_when_all_coalitions_are_within_n_calls(semivalue_for: SemivalueFor, n: int) -> None:
    game, weights = Random(n, outputs=2, seed=1), semivalue_for(n)
    estimate = proxy_values(game, weights, n_calls=2**n)
    assert estimate.stderr.tolist() == [[0, 0]] * n
    assert bool(estimate.freedom.isinf().all())
    assert_close(estimate.values, exact_values(game, weights), rtol=0, atol=1e-10)


@pytest.mark.parametrize("n", [5, 6, 9, 40])
def test_the_smallest_number_of_calls_gives_no_false_certainty(semivalue_for: SemivalueFor, n: int) -> None:
    game, weights = Pairwise(normal(n), normal(n, n)), semivalue_for(n)
    n_calls = min(2 + max(40, 2 * (n + 4)), 2**n)
    for seed in range(5):
        estimate = proxy_values(game, weights, n_calls=n_calls, seed=seed)
        assert bool(((estimate.values - game.values(weights)).abs() <= 6 * estimate.stderr + 1e-8).all())
    with pytest.raises(ValueError, match=rf"n_calls={n_calls - 1} is too small: proxy needs {n_calls} calls"):
        proxy_values(game, weights, n_calls=n_calls - 1)


# Calls, lists, outputs, seeds


@pytest.mark.parametrize("weights", [Shapley(), Beta(4, 1), [Shapley(), Beta(4, 1), Beta(1, 4)]], ids=str)
@pytest.mark.parametrize("n_calls", [80, 131, 400])
def test_n_calls_is_respected_and_used_also_for_a_list(weights: Any, n_calls: int) -> None:  # noqa: ANN401 - one or many
    batches: list[int] = []
    table = Random(9)

    def counting(coalitions: Tensor) -> Tensor:
        batches.append(len(coalitions))
        return table(coalitions)

    estimate = proxy_values(counting, weights, n_players=9, n_calls=n_calls, batch_size=32)
    assert n_calls - 1 <= estimate.n_calls == sum(batches) <= n_calls
    assert max(batches) <= 32


def test_a_list_is_estimated_from_the_same_calls_and_is_right(smooth_game: Callable[..., Game]) -> None:
    game, weightings = smooth_game(9, 2), [Shapley(), Beta(4, 1), Beta(1, 4)]
    estimate = proxy_values(game, weightings, n_calls=300)
    assert estimate.values.shape == estimate.stderr.shape == estimate.freedom.shape == (3, 9, 2)
    assert (estimate.n_calls, estimate.weights) == (300, weightings)
    error = (estimate.values - exact_values(game, weightings)).abs()
    assert bool((error <= 4 * estimate.stderr).all())
    alone = proxy_values(game, [Beta(4, 1)], n_calls=300)
    assert_close(alone.values[0], proxy_values(game, Beta(4, 1), n_calls=300).values, rtol=0, atol=0)


def test_several_outputs_are_as_one_by_one() -> None:
    game = Random(9, outputs=3)
    together = proxy_values(game, Beta(2, 1), n_calls=200)
    for output in range(3):
        one = FunctionGame(lambda s: game(s)[:, output], 9)  # noqa: B023 - called at once
        alone = proxy_values(one, Beta(2, 1), n_calls=200)
        assert alone.values.shape == (9,)
        assert_close(together.values[:, output], alone.values)
        assert_close(together.stderr[:, output], alone.stderr)


def test_results_are_set_by_the_seed_or_its_generator() -> None:
    game, generator = Random(9), torch.Generator().manual_seed(3)
    by_seed, by_generator, moved_on = (
        proxy_values(game, Beta(4, 1), n_calls=200, seed=seed).values for seed in (3, generator, generator)
    )
    assert torch.equal(by_seed, by_generator)
    assert not torch.equal(by_seed, moved_on)


def test_affine_changes_of_the_game_carry_over(smooth_game: Callable[..., Game]) -> None:
    game = smooth_game(9)
    changed = FunctionGame(lambda s: 1000 * torch.as_tensor(game(s)) + 12345, n_players=9)
    estimate, after = (proxy_values(each, Shapley(), n_calls=200) for each in (game, changed))
    assert_close(after.values, 1000 * estimate.values, rtol=1e-7, atol=1e-7)
    assert_close(after.stderr, 1000 * estimate.stderr, rtol=1e-6, atol=1e-7)


def test_efficient_values_sum_to_the_gain(semivalue_for: SemivalueFor) -> None:
    estimate = proxy_values(Glove(4, 5), semivalue_for(9), n_calls=120, total="efficient")
    assert float(estimate.values.sum()) == pytest.approx(4, abs=1e-10)


def test_only_what_has_weight_is_evaluated() -> None:
    estimate = proxy_values(Random(9), LeaveOneOut(), n_calls=200)
    assert estimate.n_calls == 2 + 9
    assert_close(estimate.values, exact_values(Random(9), LeaveOneOut()))


# Wrong arguments


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"total": "efficent"}, ValueError, "total must be one of 'raw', 'efficient'; got 'efficent'"),
        ({"n_calls": 1}, ValueError, "n_calls must be at least 2"),
        ({"n_calls": 41}, ValueError, "n_calls=41 is too small: proxy needs 42 calls for 9 players"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"weights": []}, ValueError, "weights is an empty list"),
        ({"weights": [Shapley(), Cardinality([1, 1])]}, ValueError, "games of 2 players"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_wrong_options_are_rejected(wrong: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        proxy_values(Random(9), **dict[str, Any](weights=Shapley(), n_calls=200) | wrong)
