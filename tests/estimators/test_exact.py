import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from brute_force import least_squares_by_rows, semivalue_by_definition
from fwshapley import (
    Banzhaf,
    Beta,
    Cardinality,
    LeaveOneOut,
    Semivalue,
    Shapley,
    exact_values,
)
from fwshapley._internal.checks import Array
from fwshapley.estimators import exact_wls_values
from fwshapley.estimators.exact import MAX_EXACT_PLAYERS
from fwshapley.games import Additive, FunctionGame, Pairwise, Random
from fwshapley.semivalues import FEASIBLE_SET

SemivalueFor = Callable[[int], Semivalue]

WLS_WEIGHTS = [
    *FEASIBLE_SET,
    Shapley(),
    Beta(0.3, 2.7),
    Beta(2.5, 3.5),
    Banzhaf(),
    Banzhaf(0.2),
    LeaveOneOut(),
    *(Cardinality(torch.rand(7, generator=torch.Generator().manual_seed(seed))) for seed in range(3)),
    Cardinality([0, 0, 1, 0, 0, 0, 0]),
]


def beta_weights_by_factorials(n: int, alpha: int, beta: int) -> list[float]:
    def beta_function(a: int, b: int) -> float:
        return math.factorial(a - 1) * math.factorial(b - 1) / math.factorial(a + b - 1)

    return [beta_function(s + beta, n - 1 - s + alpha) / beta_function(alpha, beta) for s in range(n)]


# Against the definition


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_values_are_those_of_the_definition(semivalue_for: SemivalueFor, n: int) -> None:
    game, weights = Random(n, seed=5), semivalue_for(n)
    truth = semivalue_by_definition(game, n, torch.from_numpy(weights.log_weights(n)).exp().tolist())
    assert_close(exact_values(game, weights), truth, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (16, 1), (1, 4), (3, 2)])
def test_beta_values_are_those_of_weights_by_factorials(alpha: int, beta: int) -> None:
    game = Random(6, seed=5)
    truth = semivalue_by_definition(game, 6, beta_weights_by_factorials(6, alpha, beta))
    assert_close(exact_values(game, Beta(alpha, beta)), truth, rtol=0, atol=1e-13)


def test_one_player_gets_everything(semivalue_for: SemivalueFor) -> None:
    def game(coalitions: Tensor) -> Tensor:
        return 2.0 + 5 * coalitions[:, 0]

    for solve in (exact_values, exact_wls_values):
        assert solve(game, semivalue_for(1), n_players=1).tolist() == [5]


def test_two_players_by_hand() -> None:
    game = FunctionGame(lambda s: 1.0 * s[:, 0] + 10 * s[:, 1] + 100 * (s[:, 0] & s[:, 1]), n_players=2)
    for weights, share in ((Shapley(), 1 / 2), (Banzhaf(0.2), 0.2), (LeaveOneOut(), 1), (Beta(3, 1), 1 / 4)):
        truth = torch.tensor([1, 10], dtype=torch.float64) + 100 * share
        assert_close(exact_values(game, weights), truth)
        assert_close(exact_wls_values(game, weights), truth)


# Axioms


def test_null_player_gets_nothing(semivalue_for: SemivalueFor) -> None:
    table = Random(4, seed=1)
    values = exact_values(lambda s: table(s[:, [0, 1, 3, 4]]), semivalue_for(5), n_players=5)
    assert float(values[2]) == pytest.approx(0, abs=1e-14)


def test_symmetric_players_get_the_same(semivalue_for: SemivalueFor) -> None:
    table = Random(5, seed=1)

    def symmetric_in_0_and_3(s: Tensor) -> Tensor:
        return table(s) + table(s[:, [3, 1, 2, 0, 4]])

    values = exact_values(symmetric_in_0_and_3, semivalue_for(5), n_players=5)
    assert float(values[0]) == pytest.approx(float(values[3]), abs=1e-14)


def test_values_are_linear_in_the_game(semivalue_for: SemivalueFor) -> None:
    one, other, weights = Random(5, seed=1), Random(5, seed=2), semivalue_for(5)
    mixed = exact_values(lambda s: 3 * one(s) - 0.5 * other(s), weights, n_players=5)
    assert_close(mixed, 3 * exact_values(one, weights) - 0.5 * exact_values(other, weights), rtol=0, atol=1e-13)


def test_only_shapley_values_sum_to_the_gain(semivalue_for: SemivalueFor) -> None:
    game, weights = Random(5, seed=1), semivalue_for(5)
    nobody, everyone = game(torch.tensor([[False] * 5, [True] * 5]))
    total = float(exact_values(game, weights).sum())
    assert (total == pytest.approx(float(everyone - nobody))) == (weights == Shapley())


def test_permuting_players_permutes_values(semivalue_for: SemivalueFor) -> None:
    game, weights, order = Random(5, seed=1), semivalue_for(5), torch.tensor([2, 0, 4, 3, 1])
    permuted = exact_values(lambda s: game(s[:, order.argsort()]), weights, n_players=5)
    assert_close(permuted, exact_values(game, weights)[order.argsort().argsort()], rtol=0, atol=1e-14)


# Mixtures


@pytest.mark.parametrize("weights", [*FEASIBLE_SET, Shapley(), Beta(0.3, 2.7), LeaveOneOut()], ids=str)
@pytest.mark.parametrize("n", [5, 6])
def test_quadrature_over_banzhaf_values_equals_enumeration(weights: Semivalue, n: int) -> None:
    game = Random(n, seed=2)
    t, weight = map(torch.from_numpy, weights.quadrature(math.ceil(n / 2)))
    at_node = [LeaveOneOut() if node == 1 else Banzhaf(node) for node in t.tolist()]
    assert_close(weight @ exact_values(game, at_node), exact_values(game, weights), rtol=0, atol=1e-13)


# Least squares


@pytest.mark.parametrize("total", ["raw", "efficient", -2.5])
@pytest.mark.parametrize("weights", WLS_WEIGHTS, ids=str)
def test_least_squares_gives_the_semivalue_shifted(
    weights: Semivalue, total: Literal["raw", "efficient"] | float
) -> None:
    game = Random(7, outputs=2, seed=4)
    phi = exact_values(game, weights)
    nobody, everyone = game(torch.tensor([[False] * 7, [True] * 7]))
    sums = {"raw": phi.sum(0), "efficient": everyone - nobody}
    target = sums[total] if isinstance(total, str) else torch.full((2,), total).double()
    shifted = phi + (target - phi.sum(0)) / 7
    assert_close(exact_wls_values(game, weights, total=total), shifted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("weights", [Shapley(), Beta(4, 1), Beta(0.5, 2), Banzhaf()], ids=str)
@pytest.mark.parametrize("kernel", ["exact", "paper"])
def test_normal_equations_solve_the_problem_row_by_row(weights: Semivalue, kernel: Literal["exact", "paper"]) -> None:
    game = Random(6, seed=4)
    log_kernel = (
        torch.from_numpy(weights.log_kernel(6)) if kernel == "exact" else torch.from_numpy(weights.log_paper_kernel(6))
    )
    by_rows = least_squares_by_rows(game, 6, log_kernel.exp().tolist(), total=1.5)
    assert_close(exact_wls_values(game, weights, kernel=kernel, total=1.5), by_rows, rtol=0, atol=1e-12)
    if kernel == "exact":
        phi = exact_values(game, weights)
        assert_close(by_rows, phi + (1.5 - phi.sum()) / 6, rtol=0, atol=1e-12)


@pytest.mark.parametrize("weights", [*FEASIBLE_SET, Shapley(), Beta(1, 0.3), Beta(2, 3)], ids=str)
def test_paper_kernel_is_exact_at_alpha_1_only(weights: Beta) -> None:
    game = Random(7, seed=4)
    error = float((exact_wls_values(game, weights, kernel="paper") - exact_values(game, weights)).abs().max())
    assert error < 1e-12 if weights.alpha == 1 else error > 1e-3


# Shapes and games


def test_a_list_of_weights_equals_one_by_one() -> None:
    game = Random(5, outputs=3)
    weights = [*FEASIBLE_SET, Banzhaf(), LeaveOneOut(), Cardinality([1, 0, 2, 0, 0])]
    values = exact_values(game, weights)
    assert values.shape == (11, 5, 3)
    for each, value in zip(weights, values, strict=True):
        assert_close(value, exact_values(game, each), rtol=0, atol=1e-14)


def test_a_list_of_weights_shares_one_enumeration() -> None:
    calls = 0
    table = Random(6)

    def counting(coalitions: Tensor) -> Tensor:
        nonlocal calls
        calls += len(coalitions)
        return table(coalitions)

    exact_values(counting, [Shapley(), *FEASIBLE_SET], n_players=6)
    assert calls <= 2**6 + 1  # that of nobody is asked for first


@pytest.mark.parametrize(("outputs", "shape"), [(None, (4,)), (1, (4, 1)), (3, (4, 3))])
def test_values_have_the_outputs_of_the_game(outputs: int | None, shape: tuple[int, ...]) -> None:
    game = Random(4, outputs=outputs)
    assert exact_values(game, Shapley()).shape == exact_wls_values(game, Shapley()).shape == shape
    assert exact_values(game, [Shapley(), Banzhaf()]).shape == (2, *shape)


@pytest.mark.parametrize("batch_size", [1, 2, 7, 64, 10**6])
def test_values_do_not_depend_on_the_batch_size(batch_size: int) -> None:
    game, weights = Random(6, outputs=2), Beta(4, 1)
    for solve in (exact_values, exact_wls_values):
        assert_close(solve(game, weights, batch_size=batch_size), solve(game, weights), rtol=0, atol=1e-13)


@pytest.mark.parametrize("convert", [Tensor.numpy, Tensor.tolist, Tensor.float], ids=["numpy", "list", "float32"])
def test_games_may_return_arrays_and_lists(convert: Callable[[Tensor], Array]) -> None:
    game = Pairwise(np.arange(4.0), np.ones((4, 4)))
    values = exact_values(lambda s: convert(game(s)), Shapley(), n_players=4)
    assert_close(values, game.values(Shapley()))


def test_a_large_constant_costs_no_precision(semivalue_for: SemivalueFor) -> None:
    # Worths are multiples of 2**-20, so that adding 2**30 is exact: what is lost would be lost by the sums.
    table, weights = Random(10, seed=1), semivalue_for(10)

    def rounded(s: Tensor) -> Tensor:
        return (table(s) * 2**20).round() / 2**20

    offset = exact_values(lambda s: rounded(s) + 2**30, weights, n_players=10)
    assert_close(offset, exact_values(rounded, weights, n_players=10), rtol=0, atol=0)


def test_more_players_than_can_be_enumerated_are_refused_with_an_alternative() -> None:
    n = MAX_EXACT_PLAYERS + 1
    for solve in (exact_values, exact_wls_values):
        with pytest.raises(ValueError, match=rf"2\*\*{n} game calls .* use fwshapley.least_squares_values"):
            solve(Additive(torch.ones(n)), Shapley())


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_total_is_rejected() -> None:
    wrong: Any = "efficent"
    with pytest.raises(ValueError, match="total must be one of 'raw', 'efficient'"):
        exact_wls_values(Random(3), Shapley(), total=wrong)
    with pytest.raises(ValueError, match="total must be finite"):
        exact_wls_values(Random(3), Shapley(), total=math.nan)


def test_weights_are_checked_before_the_enumeration() -> None:
    def unplayable(coalitions: Tensor) -> Tensor:
        raise AssertionError(f"{len(coalitions)} coalitions were played")

    with pytest.raises(ValueError, match="games of 3 players"):
        exact_values(unplayable, Cardinality([1, 1, 1]), n_players=20)


TWENTY_PLAYERS = """
from pathlib import Path
from fwshapley import exact_values, Shapley
from fwshapley.games import Unanimity

def peak_kilobytes():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])

exact_values(Unanimity(2, carrier=(0, 1)), Shapley())
before = peak_kilobytes()
values = exact_values(Unanimity(20, carrier=(0, 19)), Shapley())
assert abs(values[19] - 0.5) < 1e-12
print(peak_kilobytes() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_memory_does_not_grow_with_the_number_of_coalitions() -> None:
    run = subprocess.run([sys.executable, "-c", TWENTY_PLAYERS], capture_output=True, text=True, check=True)  # noqa: S603
    assert int(run.stdout) < 64 * 2**10  # kilobytes; the masks alone of all coalitions would take 160 MB as float64
