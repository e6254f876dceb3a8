import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from fwshapley import (
    Banzhaf,
    Beta,
    Cardinality,
    Estimate,
    LeaveOneOut,
    Semivalue,
    Shapley,
    exact_values,
    least_squares_values,
    multilinear_values,
    permutation_values,
)
from fwshapley.games import Additive, FunctionGame, Game, Glove, Pairwise, Random, Unanimity, Voting

SemivalueFor = Callable[[int], Semivalue]
Total = Literal["raw", "efficient"]


class Estimator(NamedTuple):
    estimate: Callable[..., Estimate]
    n_calls: int
    """Enough for standard errors to be trusted, and too little for least squares to enumerate 9 players."""


ESTIMATORS = {
    "least_squares": Estimator(least_squares_values, 200),
    "permutation": Estimator(permutation_values, 1500),
    "one-way permutation": Estimator(partial(permutation_values, antithetic=False), 1500),
    "multilinear": Estimator(multilinear_values, 1500),
}


@pytest.fixture(params=ESTIMATORS.values(), ids=list(ESTIMATORS))
def estimator(request: pytest.FixtureRequest) -> Estimator:
    chosen: Estimator = request.param
    return chosen


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(11))


def gain_of(game: Game) -> Tensor:
    nobody, everyone = torch.as_tensor(game(torch.tensor([[False], [True]]).expand(2, game.n_players)))
    return everyone - nobody


def truth_of(game: Game, weights: Semivalue, total: Total) -> Tensor:
    values = exact_values(game, weights)
    return values if total == "raw" else values + (gain_of(game) - values.sum(0)) / game.n_players


def skip_unless_mixture(estimator: Estimator, weights: Semivalue) -> None:
    if estimator.estimate is multilinear_values and isinstance(weights, Cardinality):
        pytest.skip("multilinear_values needs a mixture over t")


def run_with_smallest_number_of_calls(estimator: Estimator, game: Game, weights: Semivalue, seed: int) -> Estimate:
    for n_calls in itertools.count(2, step=2):
        try:
            return estimator.estimate(game, weights, n_calls=n_calls, seed=seed)
        except ValueError:
            continue
    raise AssertionError


# The right answer, and how sure of it


@pytest.mark.parametrize("total", ["raw", "efficient"])
@pytest.mark.parametrize("name", ["smooth", "random", "glove", "pairwise"])
@pytest.mark.usefixtures("unchecked")  # for speed
def test_values_are_within_four_standard_errors(
    estimator: Estimator, semivalue_for: SemivalueFor, smooth_game: Callable[..., Game], name: str, total: Total
) -> None:
    games = {
        "smooth": smooth_game(9, 2),
        "random": Random(9, 2),
        "glove": Glove(4, 5),
        "pairwise": Pairwise(normal(9), normal(9, 9)),
    }
    game, weights = games[name], semivalue_for(9)
    skip_unless_mixture(estimator, weights)
    # These are thousands of comparisons: the mean of a few runs has no tails heavy enough to fail by chance.
    runs = [estimator.estimate(game, weights, n_calls=estimator.n_calls, total=total, seed=seed) for seed in range(8)]
    mean = torch.stack([run.values for run in runs]).mean(0)
    standard_error = torch.stack([run.stderr for run in runs]).square().sum(0).sqrt() / len(runs)
    assert bool(standard_error.isfinite().all())
    assert bool(((mean - truth_of(game, weights, total)).abs() <= 4 * standard_error + 1e-10).all())


@pytest.mark.parametrize("weights", [Shapley(), Beta(4, 1), Beta(1, 4)], ids=str)
@pytest.mark.parametrize("n", [30, 120])
def test_many_players_are_within_four_standard_errors(estimator: Estimator, weights: Semivalue, n: int) -> None:
    game = Pairwise(normal(n), normal(n, n) / n)
    estimate = estimator.estimate(game, weights, n_calls=250 * n)
    assert bool(((estimate.values - game.values(weights)).abs() <= 4 * estimate.stderr + 1e-10).all())
    assert float(estimate.stderr.max()) < 0.05


@pytest.mark.slow
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
@pytest.mark.usefixtures("unchecked")  # for speed
def test_two_standard_errors_cover_95_percent(
    estimator: Estimator, smooth_game: Callable[..., Game], name: str, weights: Semivalue, total: Total
) -> None:
    game = smooth_game(9, 3) if name == "smooth" else Random(9, 3)
    truth = truth_of(game, weights, total)
    covered = []
    for seed in range(200):
        estimate = estimator.estimate(game, weights, n_calls=estimator.n_calls, total=total, seed=seed)
        covered.append((estimate.values - truth).abs() <= 2 * estimate.stderr)
    assert 0.93 <= float(torch.stack(covered).double().mean()) <= 0.97


SMALLEST = {
    "least_squares": 60,
    "permutation": 2 + 8 * 16,
    "one-way permutation": 2 + 8 * 8,
    "multilinear": 2 + 12 * 20,
}
"""Fewest calls for which the estimators have finite standard errors for nine players under the Shapley value."""


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.usefixtures("unchecked")  # for speed
def test_intervals_cover_from_the_smallest_number_of_calls_on(smooth_game: Callable[..., Game], name: str) -> None:
    """Over smooth games and jumpy ones, of which a few draws may show no spread at all."""
    estimate = ESTIMATORS[name].estimate
    games = [smooth_game(9, 3), Random(9, 3), Glove(4, 5), Voting((5, 4, 3, 3, 2, 2, 1, 1, 1), 12)]
    covered, two_errors, scores = [], [], []
    for game, n_calls in itertools.product(games, [SMALLEST[name], 2 * SMALLEST[name]]):
        truth = exact_values(game, Shapley())
        for seed in range(25):
            found = estimate(game, Shapley(), n_calls=n_calls, seed=seed, progress=False)
            if not bool(found.stderr.isfinite().all()):
                continue
            low, high = found.interval()
            error = (found.values - truth).abs()
            covered.append(((low <= truth) & (truth <= high)).flatten())
            two_errors.append((error <= 2 * found.stderr).flatten())
            scores.append((error / found.stderr).flatten())
    assert len(covered) > 100
    assert 0.93 <= float(torch.cat(covered).double().mean()) <= 0.97
    assert 0.93 <= float(torch.cat(two_errors).double().mean()) <= 0.97
    assert float(torch.cat(scores).max()) < 8


@pytest.mark.parametrize("name", ["permutation", "multilinear"])
@pytest.mark.usefixtures("unchecked")  # for speed
def test_intervals_of_many_players_and_other_weightings_cover(name: str) -> None:
    covered = []
    for n, weights in itertools.product([6, 30], [Beta(4, 1), Beta(1, 4)]):
        game = Pairwise(normal(n), normal(n, n) / n)
        for seed in range(30):
            found = ESTIMATORS[name].estimate(game, weights, n_calls=2 + 12 * 2 * (n + 1), seed=seed, progress=False)
            low, high = found.interval()
            inside = (low <= game.values(weights)) & (game.values(weights) <= high)
            covered.append(inside[found.stderr.isfinite()])
    assert 0.93 <= float(torch.cat(covered).double().mean()) <= 0.97


def test_intervals_widen_with_their_level_and_are_points_where_values_are_exact(
    smooth_game: Callable[..., Game],
) -> None:
    found = permutation_values(smooth_game(9), Shapley(), n_calls=200)
    widths = [high - low for low, high in map(found.interval, (0.5, 0.9, 0.95, 0.99))]
    assert all(bool((narrow < wide).all()) for narrow, wide in itertools.pairwise(widths))
    assert_close(widths[2], 2 * 1.959964 * found.stderr, rtol=1e-6, atol=0)
    exact = least_squares_values(smooth_game(5), Shapley(), n_calls=32)
    assert torch.equal(*exact.interval(0.99))
    for level in (0.0, 1.0, 95.0):
        with pytest.raises(ValueError, match="level must be between 0 and 1"):
            found.interval(level)


def test_a_player_whose_draws_are_all_alike_is_not_called_certain() -> None:
    """One vote of 22 seldom decides: eight orders may show no time that it does."""
    game = Voting((5, 4, 3, 3, 2, 2, 1, 1, 1), 12)
    for seed in range(20):
        assert float(permutation_values(game, Shapley(), n_calls=2 + 8 * 16, seed=seed).stderr.min()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("weights", [Shapley(), Beta(4, 1)], ids=str)
@pytest.mark.usefixtures("unchecked")  # for speed
def test_standard_errors_hold_when_a_run_stops_early(
    estimator: Estimator, smooth_game: Callable[..., Game], weights: Semivalue
) -> None:
    game = smooth_game(11, 3)
    truth = exact_values(game, weights)
    covered = []
    for seed in range(200):
        estimate = estimator.estimate(game, weights, n_calls=1900, target_stderr=0.04, seed=seed)
        assert estimate.n_calls < 1900
        covered.append((estimate.values - truth).abs() <= 2 * estimate.stderr)
    assert 0.93 <= float(torch.stack(covered).double().mean()) <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("weights", [Beta(1, 4), Beta(4, 1)], ids=str)
@pytest.mark.usefixtures("unchecked")  # for speed
def test_pairs_are_unbiased_for_asymmetric_laws(smooth_game: Callable[..., Game], weights: Beta) -> None:
    game = smooth_game(9)
    runs = [least_squares_values(game, weights, n_calls=300, paired=True, seed=seed).values for seed in range(200)]
    values = torch.stack(runs)
    standard_error = values.std(0) / len(values) ** 0.5
    mirrored = Beta(weights.beta, weights.alpha)
    truth, mixed = exact_values(game, weights), exact_values(game, [weights, mirrored]).mean(0)
    assert bool(((values.mean(0) - truth).abs() <= 4 * standard_error).all())
    assert bool(((values.mean(0) - mixed).abs() > 4 * standard_error).any())


@pytest.mark.parametrize("n", [2, 3, 5, 8])
@pytest.mark.parametrize("options", [{}, {"paired": False}, {"paired": True}], ids=str)
def test_least_squares_is_exact_when_all_coalitions_are_within_n_calls(
    semivalue_for: SemivalueFor, n: int, options: dict[str, Any]
) -> None:
    game, weights = Random(n, outputs=2, seed=1), semivalue_for(n)
    estimate = least_squares_values(game, weights, n_calls=2**n, **options)
    assert estimate.stderr.tolist() == [[0, 0]] * n
    assert_close(estimate.values, exact_values(game, weights), rtol=0, atol=1e-10)


@pytest.mark.parametrize("weights", [Beta(a, b) for a, b in itertools.product([0.3, 1, 3.7, 16], repeat=2)], ids=str)
def test_least_squares_knows_when_it_has_seen_everything(weights: Beta) -> None:
    for n in range(2, 9):
        estimate = least_squares_values(Random(n), weights, n_calls=2**n)
        assert estimate.n_calls == 2**n
        assert estimate.stderr.tolist() == [0] * n


@pytest.mark.parametrize("name", ESTIMATORS)
def test_pairwise_games_are_exact_for_the_shapley_value_if_complements_are_drawn_too(name: str) -> None:
    game = Pairwise(normal(9), normal(9, 9))
    estimate = ESTIMATORS[name].estimate(game, Shapley(), n_calls=250)
    if name == "one-way permutation":
        assert float(estimate.stderr.min()) > 1e-3
    else:
        assert_close(estimate.values, game.values(Shapley()), rtol=0, atol=1e-10)
        assert float(estimate.stderr.max()) < 1e-10


@pytest.mark.parametrize("total", ["raw", "efficient"])
def test_additive_games_are_recovered_exactly(estimator: Estimator, semivalue_for: SemivalueFor, total: Total) -> None:
    weights = semivalue_for(9)
    skip_unless_mixture(estimator, weights)
    game = Additive(normal(9))
    estimate = estimator.estimate(game, weights, n_calls=estimator.n_calls, total=total)
    assert_close(estimate.values, game.values(weights), rtol=0, atol=1e-10)
    assert float(estimate.stderr.max()) < 1e-10


@pytest.mark.parametrize("n", [5, 8, 12])
@pytest.mark.usefixtures("unchecked")  # for speed
def test_the_smallest_number_of_calls_gives_no_false_certainty(
    estimator: Estimator, semivalue_for: SemivalueFor, n: int
) -> None:
    weights = semivalue_for(n)
    skip_unless_mixture(estimator, weights)
    game = Pairwise(normal(n), normal(n, n))
    for seed in range(5):  # with so few draws, six standard errors is what a normal law would call four
        estimate = run_with_smallest_number_of_calls(estimator, game, weights, seed)
        assert bool(((estimate.values - game.values(weights)).abs() <= 6 * estimate.stderr + 1e-8).all())


def test_players_hardly_seen_where_the_weight_is_have_no_finite_standard_error() -> None:
    game, weights = Pairwise(normal(100), normal(100, 100) / 10), Beta(16, 1)
    for seed in range(20):
        estimate = permutation_values(game, weights, n_calls=2000, seed=seed)
        assert bool(((estimate.values - game.values(weights)).abs() <= 5 * estimate.stderr).all())


@pytest.mark.usefixtures("unchecked")
def test_a_game_that_scribbles_on_its_masks_is_none_the_worse_for_it(estimator: Estimator) -> None:
    game = Pairwise(normal(9), normal(9, 9))

    def scribble(coalitions: Tensor) -> Tensor:
        worth = game(coalitions)
        coalitions[:, 0] = True
        return worth

    clean, scribbled = (
        estimator.estimate(each, Shapley(), n_calls=estimator.n_calls, n_players=9) for each in (game, scribble)
    )
    assert_close(scribbled.values, clean.values, rtol=0, atol=0)


def test_no_more_than_a_batch_is_handed_to_the_game(estimator: Estimator) -> None:
    batches: list[int] = []

    def worth(coalitions: Tensor) -> Tensor:
        batches.append(len(coalitions))
        return coalitions.double().sum(1)

    estimate = estimator.estimate(worth, Shapley(), n_calls=200, n_players=9, batch_size=16)
    assert max(batches) <= 16
    assert sum(batches) == estimate.n_calls


@pytest.mark.usefixtures("unchecked")
def test_weights_must_be_one_semivalue(estimator: Estimator) -> None:
    for wrong in ("shapley", Shapley, ["shapley"], 3):
        weights: Any = wrong
        with pytest.raises(TypeError, match="weights must be a semivalue"):
            estimator.estimate(Random(5), weights, n_calls=100)


@pytest.mark.parametrize("target", [0.0, -1.0])
def test_a_target_must_be_positive(estimator: Estimator, target: float) -> None:
    with pytest.raises(ValueError, match="target_stderr must be positive"):
        estimator.estimate(Random(5), Shapley(), n_calls=100, target_stderr=target)


def test_the_game_is_not_played_when_n_calls_is_too_small(estimator: Estimator) -> None:
    def worth(_: Tensor) -> Tensor:
        raise AssertionError("played")

    with pytest.raises(ValueError, match="too small"):
        estimator.estimate(worth, Shapley(), n_calls=4, n_players=9)


def test_n_calls_is_checked_before_a_quadrature_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of 32,000 players has 16,000 nodes: many seconds and gigabytes."""

    def quadrature(*_: object) -> tuple[Tensor, Tensor]:
        raise AssertionError("made")

    monkeypatch.setattr(Beta, "quadrature", quadrature)
    with pytest.raises(ValueError, match="n_calls=1000 is too small"):
        multilinear_values(Additive(torch.ones(32_000)), Shapley(), n_calls=1000)


def test_a_single_draw_says_nothing_of_its_spread() -> None:
    # Each size outweighs the next by far, so 46 coalitions of nine players are all of sizes 1 and 2, and one of size 3.
    steep = Cardinality([1e-4**s for s in range(9)])
    assert least_squares_values(Random(9), steep, n_calls=2 + 9 + 36 + 1).stderr.tolist() == [float("inf")] * 9


def test_affine_changes_of_the_game_carry_over(estimator: Estimator, smooth_game: Callable[..., FunctionGame]) -> None:
    game = smooth_game(9)
    changed = FunctionGame(lambda s: 1000 * torch.as_tensor(game(s)) + 12345, n_players=9)
    estimate, after = (estimator.estimate(each, Shapley(), n_calls=estimator.n_calls) for each in (game, changed))
    assert_close(after.values, 1000 * estimate.values, rtol=1e-9, atol=1e-9)
    assert_close(after.stderr, 1000 * estimate.stderr, rtol=1e-6, atol=1e-9)


# Budgets


@pytest.mark.parametrize("n_calls", [80, 131, 400])
@pytest.mark.parametrize("batch_size", [7, 2**14])
def test_n_calls_is_respected_and_used(estimator: Estimator, n_calls: int, batch_size: int) -> None:
    batches: list[int] = []
    table = Random(9)

    def counting(coalitions: Tensor) -> Tensor:
        batches.append(len(coalitions))
        return table(coalitions)

    estimate = estimator.estimate(counting, Shapley(), n_players=9, n_calls=n_calls, batch_size=batch_size)
    assert estimate.n_calls == sum(batches)
    assert n_calls - 4 * (9 + 1) < estimate.n_calls <= n_calls
    assert max(batches) <= batch_size


def test_a_run_stops_early_at_the_target(estimator: Estimator, smooth_game: Callable[..., Game]) -> None:
    game, n_calls = smooth_game(14, 2), 8000
    whole = estimator.estimate(game, Beta(4, 1), n_calls=n_calls)
    target = 2 * float(whole.stderr.max())
    early = estimator.estimate(game, Beta(4, 1), n_calls=n_calls, target_stderr=target)
    assert float(early.stderr.max()) <= target
    assert early.n_calls < 0.8 * whole.n_calls


def test_a_target_out_of_reach_uses_all_n_calls(estimator: Estimator, smooth_game: Callable[..., Game]) -> None:
    estimate = estimator.estimate(smooth_game(14), Shapley(), n_calls=2000, target_stderr=1e-9)
    assert 2000 - 4 * (14 + 1) < estimate.n_calls <= 2000


@pytest.mark.parametrize("total", ["raw", "efficient"])
@pytest.mark.usefixtures("unchecked")  # for speed
def test_shared_calls_of_least_squares_are_within_four_standard_errors(
    total: Total, smooth_game: Callable[..., Game]
) -> None:
    weightings = [Shapley(), Beta(4, 1), Beta(1, 4), Banzhaf(), LeaveOneOut()]
    game = smooth_game(12)
    estimate = least_squares_values(game, weightings, n_calls=400, total=total, shared=True)
    assert 350 < estimate.n_calls <= 400
    assert estimate.weights == weightings
    truth = torch.stack([truth_of(game, weights, total) for weights in weightings])
    assert ((estimate.values - truth).abs() <= 4 * estimate.stderr + 1e-9).all()
    everything = least_squares_values(game, weightings, n_calls=2**12, total=total, shared=True)
    assert_close(everything.values, truth)
    assert (everything.stderr == 0).all()
    one = least_squares_values(game, Beta(4, 1), n_calls=400, total=total, shared=True)
    assert_close(one.values, least_squares_values(game, Beta(4, 1), n_calls=400, total=total).values)


def test_results_do_not_depend_on_the_batch_size_of_least_squares_and_multilinear(
    smooth_game: Callable[..., Game],
) -> None:
    for estimate in (least_squares_values, multilinear_values):
        small, large = (estimate(smooth_game(9), Shapley(), n_calls=300, batch_size=size) for size in (16, 1024))
        assert_close(small.values, large.values)


# Seeds


def test_results_are_set_by_the_seed(estimator: Estimator) -> None:
    game, n_calls = Random(9), estimator.n_calls
    first, again, other = (estimator.estimate(game, Shapley(), n_calls=n_calls, seed=seed).values for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_generator_stands_for_its_seed_and_moves_on(estimator: Estimator) -> None:
    game, generator = Random(9), torch.Generator().manual_seed(3)
    by_seed, by_generator, next_run = (
        estimator.estimate(game, Shapley(), n_calls=estimator.n_calls, seed=seed).values
        for seed in (3, generator, generator)
    )
    assert torch.equal(by_seed, by_generator)
    assert not torch.equal(by_seed, next_run)


# Totals, outputs and small games


def test_efficient_values_sum_to_the_gain(estimator: Estimator, semivalue_for: SemivalueFor) -> None:
    weights, game = semivalue_for(9), Random(9, outputs=2)
    skip_unless_mixture(estimator, weights)
    estimate = estimator.estimate(game, weights, n_calls=estimator.n_calls, total="efficient")
    assert_close(estimate.values.sum(0), gain_of(game), rtol=0, atol=1e-10)


def test_several_outputs_are_as_one_by_one(estimator: Estimator) -> None:
    game = Random(9, outputs=3)
    together = estimator.estimate(game, Beta(2, 1), n_calls=estimator.n_calls)
    assert together.values.shape == together.stderr.shape == (9, 3)
    for output in range(3):
        alone = estimator.estimate(
            lambda s, output=output: game(s)[:, output], Beta(2, 1), n_calls=estimator.n_calls, n_players=9
        )
        assert alone.values.shape == (9,)
        assert_close(together.values[:, output], alone.values)
        assert_close(together.stderr[:, output], alone.stderr)


@pytest.mark.parametrize("total", ["raw", "efficient"])
def test_one_player_gets_everything(estimator: Estimator, semivalue_for: SemivalueFor, total: Total) -> None:
    weights = semivalue_for(1)
    skip_unless_mixture(estimator, weights)
    estimate = estimator.estimate(lambda s: 2.0 + 5 * s[:, 0], weights, n_players=1, n_calls=20, total=total)
    assert estimate.values.tolist() == [5]
    assert estimate.stderr.tolist() == [0]


def test_two_players_are_within_four_standard_errors(estimator: Estimator, semivalue_for: SemivalueFor) -> None:
    weights, game = semivalue_for(2), Random(2, seed=8)
    skip_unless_mixture(estimator, weights)
    estimate = estimator.estimate(game, weights, n_calls=400)
    assert bool(((estimate.values - exact_values(game, weights)).abs() <= 4 * estimate.stderr + 1e-12).all())


def test_an_estimate_says_what_it_is(estimator: Estimator) -> None:
    estimate = estimator.estimate(Random(9), Beta(4, 1), n_calls=200, total="efficient")
    assert (estimate.weights, estimate.total) == (Beta(4, 1), "efficient")
    worst = float(estimate.stderr.max())
    text = f"Beta(4, 1) by {estimate.method}, {estimate.n_calls} game calls, largest standard error {worst:.3g}"
    assert str(estimate) == text


# Wrong arguments


@pytest.mark.parametrize("n_calls", [2, 10])
def test_too_few_calls_are_rejected(estimator: Estimator, n_calls: int) -> None:
    with pytest.raises(ValueError, match=rf"n_calls={n_calls} is too small.* needs \d+ calls"):
        estimator.estimate(Random(9), Shapley(), n_calls=n_calls)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"total": "efficent"}, ValueError, "total must be one of 'raw', 'efficient'; got 'efficent'"),
        ({"n_calls": 1}, ValueError, "n_calls must be at least 2"),
        ({"n_calls": 1e4}, TypeError, "n_calls must be a whole number"),
        ({"target_stderr": "small"}, TypeError, "target_stderr must be a number"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"weights": Cardinality([1, 1])}, ValueError, "games of 2 players"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_wrong_options_are_rejected(
    estimator: Estimator, wrong: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        estimator.estimate(Random(9), **{"weights": Shapley(), "n_calls": 200} | wrong)


def test_multilinear_needs_a_mixture_over_t() -> None:
    with pytest.raises(TypeError, match="no quadrature"):
        multilinear_values(Random(4), Cardinality([1, 2, 3, 4]), n_calls=200)


def test_permutations_that_miss_where_the_weight_is_say_so() -> None:
    with pytest.raises(ValueError, match=r"never showed player \d+ .* leave-one-out .* use least_squares_values"):
        permutation_values(Random(12), LeaveOneOut(), n_calls=100)


def test_least_squares_plays_only_what_has_weight() -> None:
    assert least_squares_values(Random(9), LeaveOneOut(), n_calls=200).n_calls == 2 + 9


@pytest.mark.parametrize("total", ["raw", "efficient"])
def test_draws_that_are_all_alike_and_miss_what_is_gained_are_not_trusted(total: Literal["raw", "efficient"]) -> None:
    """Of 40 players none is worth anything before the last has joined, so that no draw under Banzhaf shows any gain."""
    needs_all = Unanimity(40, tuple(range(40)))
    found = multilinear_values(needs_all, Banzhaf(0.3), n_calls=4000, total=total)
    assert bool(found.stderr.isinf().all())
    additive = multilinear_values(Additive([1.0, 2.0, 3.0]), Banzhaf(0.3), n_calls=400, total=total)
    assert float(additive.stderr.max()) == pytest.approx(0, abs=1e-9)
