import itertools
import json
import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaln, gammaln
from scipy.stats import binom
from torch.testing import assert_close

from brute_force import all_coalitions
from fwshapley import Banzhaf, Beta, Cardinality, LeaveOneOut, Semivalue, Shapley, exact_values
from fwshapley.games import Random
from fwshapley.semivalues import FEASIBLE_SET, KernelKind, join_laws, log_binomials

SemivalueFor = Callable[[int], Semivalue]

PLAYERS = st.integers(1, 200)
POSITIVE = st.floats(1e-300, 1e4)
EXTREMES = [(1e-300, 1e-300), (1e-300, 1e4), (1e4, 1e-8), (1e4, 1e4), (0.5, 1e-8), (1 / 3, 7.7), (16, 1)]


def log_comb(n: int) -> np.ndarray[Any, Any]:
    k = np.arange(n + 1)
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def log_beta_weights(s: np.ndarray[Any, Any], n: int, alpha: float, beta: float) -> torch.Tensor:
    return torch.from_numpy(betaln(s + beta, n - 1 - s + alpha) - betaln(alpha, beta))


# Weights of coalitions


@pytest.mark.parametrize("n", [1, 2, 3, 10, 57])
def test_coalition_weights_sum_to_one(semivalue_for: SemivalueFor, n: int) -> None:
    weights = torch.from_numpy(semivalue_for(n).log_weights(n)).exp().tolist()
    assert math.fsum(math.comb(n - 1, s) * p for s, p in enumerate(weights)) == pytest.approx(1, abs=1e-12)


@given(n=PLAYERS, alpha=POSITIVE, beta=POSITIVE)
def test_beta_weights_are_ratios_of_beta_functions(n: int, alpha: float, beta: float) -> None:
    log_weights = torch.from_numpy(Beta(alpha, beta).log_weights(n))
    assert_close(log_weights, log_beta_weights(np.arange(n), n, alpha, beta), rtol=1e-10, atol=1e-8)


@given(n=PLAYERS, alpha=POSITIVE, beta=POSITIVE)
def test_beta_join_law_is_a_probability_law(n: int, alpha: float, beta: float) -> None:
    law = torch.from_numpy(Beta(alpha, beta).join_law(n))
    assert bool(law.isfinite().all())
    assert float(law.sum()) == pytest.approx(1, abs=1e-12)


@given(n=PLAYERS, alpha=POSITIVE, beta=POSITIVE)
def test_swapping_alpha_and_beta_mirrors_the_law(n: int, alpha: float, beta: float) -> None:
    law, mirrored = torch.from_numpy(Beta(alpha, beta).join_law(n)), torch.from_numpy(Beta(beta, alpha).join_law(n))
    assert_close(law, mirrored.flip(0), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize(("alpha", "beta"), EXTREMES[:5])
def test_a_million_players_are_fine(alpha: float, beta: float) -> None:
    n = 10**6
    weights = Beta(alpha, beta)
    log_weights = torch.from_numpy(weights.log_weights(n))
    assert bool(log_weights.isfinite().all())
    some = np.array([0, 1, 7, n // 3, n // 2, n - 3, n - 1])
    assert_close(log_weights[some], log_beta_weights(some, n, alpha, beta), rtol=1e-10, atol=1e-6)
    assert float(torch.from_numpy(weights.join_law(n)).sum()) == pytest.approx(1, abs=1e-9)
    assert bool(torch.from_numpy(weights.size_law(n)).isfinite().all())


@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_beta_1_1_is_the_shapley_value(n: int) -> None:
    closed_form = torch.tensor([1 / (n * math.comb(n - 1, s)) for s in range(n)], dtype=torch.float64)
    assert_close(torch.from_numpy(Beta(1, 1).log_weights(n)).exp(), closed_form, rtol=1e-12, atol=0)
    assert_close(torch.from_numpy(Shapley().join_law(n)), torch.full((n,), 1 / n, dtype=torch.float64))


def test_large_alpha_favors_small_coalitions() -> None:
    # p(s) = 16 B(s+1, 18-s): 16/18, 16/(17*18), 32/(16*17*18)
    small_first = torch.tensor([16 / 18, 2 * 16 / (17 * 18), 2 / (17 * 18)], dtype=torch.float64)
    assert_close(torch.from_numpy(Beta(16, 1).join_law(3)), small_first)
    assert_close(torch.from_numpy(Beta(1, 16).join_law(3)), small_first.flip(0))


def test_banzhaf_join_law_is_binomial() -> None:
    assert_close(torch.from_numpy(Banzhaf(0.3).join_law(9)), torch.from_numpy(binom.pmf(np.arange(9), 8, 0.3)))
    assert_close(torch.from_numpy(Banzhaf().log_weights(9)).exp(), torch.full((9,), 2.0**-8, dtype=torch.float64))


def test_leave_one_out_joins_everyone_else() -> None:
    assert torch.from_numpy(LeaveOneOut().join_law(4)).tolist() == [0, 0, 0, 1]


def test_cardinality_law_is_its_weights_normalized() -> None:
    for weights in (
        [1, 2, 5],
        np.array([1.0, 2, 5]),
        torch.tensor([1, 2, 5]),
        [1e-320, 2e-320, 5e-320],
        [2e307, 4e307, 1e308],
    ):
        assert_close(
            torch.from_numpy(Cardinality(weights).join_law(3)), torch.tensor([1, 2, 5]).double() / 8, rtol=1e-3, atol=0
        )


@pytest.mark.parametrize("n", [1, 5, 3000])
def test_log_weights_round_trip_through_cardinality(n: int) -> None:
    weights = Beta(2.5, 0.7)
    assert_close(
        torch.from_numpy(Cardinality.from_log_weights(torch.from_numpy(weights.log_weights(n))).join_law(n)),
        torch.from_numpy(weights.join_law(n)),
    )


def test_log_weights_of_zero_round_trip_through_cardinality() -> None:
    assert_close(
        torch.from_numpy(Cardinality.from_log_weights(torch.from_numpy(LeaveOneOut().log_weights(4))).join_law(4)),
        torch.from_numpy(LeaveOneOut().join_law(4)),
    )


def test_join_laws_of_a_list_are_stacked() -> None:
    laws = torch.from_numpy(join_laws(FEASIBLE_SET, 5))
    assert laws.shape == (8, 5)
    assert_close(laws[3], torch.from_numpy(FEASIBLE_SET[3].join_law(5)), rtol=0, atol=0)


def test_log_binomials_are_those_of_pascal() -> None:
    assert_close(
        torch.from_numpy(log_binomials(20)).exp(),
        torch.tensor([math.comb(20, k) for k in range(21)]).double(),
        rtol=1e-13,
        atol=0,
    )


# Least squares: kernels and size laws


@given(n=st.integers(2, 200), alpha=POSITIVE, beta=POSITIVE)
def test_kernel_is_its_closed_form(n: int, alpha: float, beta: float) -> None:
    s = np.arange(1, n)
    closed_form = torch.from_numpy(betaln((s - 1) + beta, (n - s - 1) + alpha) - betaln(alpha, beta))
    assert_close(torch.from_numpy(Beta(alpha, beta).log_kernel(n)), closed_form, rtol=1e-10, atol=1e-8)


def test_kernel_is_the_sum_of_neighboring_weights(semivalue_for: SemivalueFor) -> None:
    weights = semivalue_for(9)
    p = torch.from_numpy(weights.log_weights(9)).exp()
    assert_close(torch.from_numpy(weights.log_kernel(9)).exp(), p[:-1] + p[1:])


@given(n=st.integers(2, 200), alpha=POSITIVE, beta=POSITIVE)
def test_paper_kernel_is_off_by_the_known_ratio(n: int, alpha: float, beta: float) -> None:
    weights = Beta(alpha, beta)
    s = torch.arange(1, n, dtype=torch.float64)
    ratio = (n - 1) / ((n - 2) + alpha + beta) * ((n - s - 1) + alpha) / (n - s)
    assert_close(
        (torch.from_numpy(weights.log_paper_kernel(n)) - torch.from_numpy(weights.log_kernel(n))).exp(),
        ratio,
        rtol=1e-9,
        atol=0,
    )


@pytest.mark.parametrize("weights", [*FEASIBLE_SET, Shapley(), Beta(1, 0.4), Beta(0.4, 1)], ids=str)
def test_paper_kernel_is_exact_up_to_a_factor_at_alpha_1_only(weights: Beta) -> None:
    exact, paper = torch.from_numpy(weights.size_law(8)), torch.from_numpy(weights.size_law(8, "paper"))
    assert torch.allclose(exact, paper, rtol=1e-12, atol=0) == (weights.alpha == 1)


@pytest.mark.parametrize("kernel", ["exact", "paper"])
def test_size_law_is_the_kernel_times_the_number_of_coalitions(semivalue_for: SemivalueFor, kernel: KernelKind) -> None:
    n, weights = 9, semivalue_for(9)
    if kernel == "paper" and isinstance(weights, LeaveOneOut):
        with pytest.raises(ValueError, match="paper kernel of leave-one-out is zero"):
            torch.from_numpy(weights.size_law(n, kernel))
        return
    log_kernel = (
        torch.from_numpy(weights.log_kernel(n)) if kernel == "exact" else torch.from_numpy(weights.log_paper_kernel(n))
    )
    mass = (log_kernel + torch.from_numpy(log_comb(n)[1:-1])).exp()
    assert_close(torch.from_numpy(weights.size_law(n, kernel)), mass / mass.sum())


def test_shapley_sizes_follow_one_over_s_times_n_minus_s() -> None:
    s = torch.arange(1, 12, dtype=torch.float64)
    mass = 1 / (s * (12 - s))
    assert_close(torch.from_numpy(Shapley().size_law(12)), mass / mass.sum())


@pytest.mark.parametrize("t", [0.1, 0.5, 0.93])
def test_banzhaf_sizes_follow_the_cut_binomial(t: float) -> None:
    mass = torch.from_numpy(binom.pmf(np.arange(1, 12), 12, t))
    assert_close(torch.from_numpy(Banzhaf(t).size_law(12)), mass / mass.sum())


def test_one_player_has_no_proper_coalitions() -> None:
    assert torch.from_numpy(Shapley().size_law(1)).shape == torch.from_numpy(Shapley().log_kernel(1)).shape == (0,)


def test_excess_loss_measures_squared_error_exactly(semivalue_for: SemivalueFor) -> None:
    n, weights, game = 5, semivalue_for(5), Random(5, seed=3)
    masks = all_coalitions(n)[1:-1]
    gains = game(masks) - game(all_coalitions(n)[:1])
    sizes = masks.sum(1)
    chance = torch.from_numpy(weights.size_law(n))[sizes - 1] / torch.tensor([math.comb(n, s) for s in sizes.tolist()])

    def loss(psi: torch.Tensor) -> torch.Tensor:
        return (chance * (gains - masks.double() @ psi).square()).sum()

    phi = exact_values(game, weights)
    for seed in range(3):
        step = torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        psi = phi + step - step.mean()
        excess = loss(psi) - loss(phi)
        assert_close(weights.error_per_loss(n) * excess, (psi - phi).square().sum(), rtol=1e-10, atol=0)


# Mixtures over t


@given(nodes=st.integers(1, 20), alpha=POSITIVE, beta=POSITIVE)
def test_quadrature_has_the_moments_of_the_beta_law(nodes: int, alpha: float, beta: float) -> None:
    t, weight = map(torch.from_numpy, Beta(alpha, beta).quadrature(nodes))
    assert bool(((t >= 0) & (t <= 1) & (weight >= 0)).all())
    moment = 1.0
    for power in range(2 * nodes):
        assert float(weight @ t**power) == pytest.approx(moment, abs=1e-12)
        moment *= (beta + power) / (alpha + beta + power)


@pytest.mark.parametrize("nodes", [1, 2, 5])
def test_quadrature_is_exact_up_to_degree_2_nodes_minus_1_and_no_further(nodes: int) -> None:
    t, weight = map(torch.from_numpy, Shapley().quadrature(nodes))
    errors = [abs(float(weight @ t**power) - 1 / (power + 1)) for power in range(2 * nodes + 1)]
    assert max(errors[:-1]) < 1e-15 * 8
    assert errors[-1] > 1e-7


@pytest.mark.parametrize(("alpha", "beta"), EXTREMES)
def test_quadrature_of_extreme_parameters_has_the_right_mean_and_variance(alpha: float, beta: float) -> None:
    t, weight = map(torch.from_numpy, Beta(alpha, beta).quadrature(12))
    mean, total = beta / (alpha + beta), alpha + beta
    assert float(weight.sum()) == pytest.approx(1, abs=1e-12)
    assert float(weight @ t) == pytest.approx(mean, rel=1e-9, abs=1e-14)
    assert float(weight @ (t - mean) ** 2) == pytest.approx(mean * (alpha / total) / (total + 1), rel=1e-6, abs=1e-14)


def test_point_masses_are_their_own_quadrature() -> None:
    assert [part.tolist() for part in map(torch.from_numpy, Banzhaf(0.3).quadrature(5))] == [[0.3], [1]]
    assert [part.tolist() for part in map(torch.from_numpy, LeaveOneOut().quadrature(5))] == [[1], [1]]


def test_a_law_that_is_no_mixture_has_no_quadrature() -> None:
    with pytest.raises(TypeError, match="no quadrature"):
        map(torch.from_numpy, Cardinality([1, 2]).quadrature(3))
    assert not Cardinality([1, 2, 1]).is_mixture
    assert all(weights.is_mixture for weights in (Shapley(), Banzhaf(), LeaveOneOut()))


@pytest.mark.parametrize("weights", [*FEASIBLE_SET, Shapley(), Beta(0.3, 2.7), Banzhaf(0.2), LeaveOneOut()], ids=str)
@pytest.mark.parametrize("n", [1, 2, 9, 10])
def test_join_law_is_the_mixture_of_binomials(weights: Semivalue, n: int) -> None:
    t, weight = map(torch.from_numpy, weights.quadrature(math.ceil(n / 2)))
    binomials = torch.from_numpy(binom.pmf(np.arange(n), n - 1, t.numpy()[:, None]))
    assert_close(weight @ binomials, torch.from_numpy(weights.join_law(n)), rtol=0, atol=1e-14)


@pytest.mark.parametrize("most", [0, 1, 4, 12])
@pytest.mark.parametrize("n", [2, 3, 9])
def test_members_among_given_players_follow_from_the_join_law(
    semivalue_for: Callable[[int], Semivalue], n: int, most: int
) -> None:
    weights = semivalue_for(n)
    law = torch.from_numpy(weights.membership_law(n, most))
    assert law.shape == (n, most + 1)
    assert_close(law[-1, :n], torch.from_numpy(weights.join_law(n))[: most + 1], rtol=1e-10, atol=1e-14)
    for k in range(n):  # drawn directly: all coalitions of the others, of which the first k are the given ones
        others = all_coalitions(n - 1)
        chance = torch.from_numpy(weights.log_weights(n)).exp()[others.sum(1)]
        counts = others[:, :k].sum(1)
        expected = torch.stack([chance[counts == m].sum() for m in range(most + 1)])
        assert_close(law[k], expected, rtol=1e-9, atol=1e-13)


PARAMETERS = [1e-300, 1e-150, 1e-17, 1e-15, 1e-8, 0.3, 1.0, 16.0, 1e8, 1e17, 1e150, 1e300]


def exact_membership_law(alpha: float, beta: float, k: int, m: int) -> Fraction:
    """Beta-binomial probability in rational numbers, without rounding."""
    a, b = Fraction(alpha), Fraction(beta)

    def rising(x: Fraction, count: int) -> Fraction:
        return math.prod((x + j for j in range(count)), start=Fraction(1))

    return math.comb(k, m) * rising(b, m) * rising(a, k - m) / rising(a + b, k)


@pytest.mark.parametrize(("alpha", "beta"), list(itertools.product(PARAMETERS, repeat=2)))
def test_no_law_of_beta_cancels_however_far_its_parameters_are_apart(alpha: float, beta: float) -> None:
    n, weights = 6, Beta(alpha, beta)
    rows = [[float(exact_membership_law(alpha, beta, k, m)) if m <= k else 0.0 for m in range(n)] for k in range(n)]
    exact = torch.tensor(rows, dtype=torch.float64)
    assert_close(torch.from_numpy(weights.membership_law(n, n - 1)), exact, rtol=1e-12, atol=1e-290)
    assert_close(torch.from_numpy(weights.join_law(n)), exact[-1], rtol=1e-12, atol=1e-290)
    t, weight = map(torch.from_numpy, weights.quadrature(3))
    for power in range(6):
        moment = float(exact_membership_law(alpha, beta, power, power))
        assert float(weight @ t**power) == pytest.approx(moment, abs=1e-14)


def test_an_only_player_joins_nobody(semivalue_for: Callable[[int], Semivalue]) -> None:
    assert torch.from_numpy(semivalue_for(1).membership_law(1, 2)).tolist() == [[1, 0, 0]]


@pytest.mark.parametrize("weights", [*FEASIBLE_SET, Shapley(), Banzhaf(0.01), LeaveOneOut()], ids=str)
def test_members_among_very_many_players(weights: Semivalue) -> None:
    n = 200_000
    law = torch.from_numpy(weights.membership_law(n, 5))
    assert bool(law.isfinite().all())
    assert bool((law >= 0).all())
    assert_close(law[-1], torch.from_numpy(weights.join_law(n))[:6], rtol=1e-8, atol=1e-16)


# Wrong arguments


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (0, ValueError, "must be positive, got 0"),
        (-2.5, ValueError, "must be positive, got -2.5"),
        (math.nan, ValueError, "must be finite"),
        (math.inf, ValueError, "must be finite"),
        ("large", TypeError, "must be a number, got 'large'"),
        (None, TypeError, "must be a number"),
        ("1", TypeError, "must be a number, got '1'"),
        (True, TypeError, "must be a number, got True"),
        (1j, TypeError, "must be a number, got 1j"),
        (1e-310, ValueError, "must be between 1e-300 and 1e\\+300"),
        (1e305, ValueError, "must be between 1e-300 and 1e\\+300"),
        (10**400, ValueError, "must be finite"),
    ],
    ids=lambda value: str(value)[:20],
)
@pytest.mark.usefixtures("unchecked")
def test_beta_rejects(name: str, value: float, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"{name} {message}"):
        Beta(**{"alpha": 1, "beta": 1, name: value})


@pytest.mark.parametrize("t", [0, 1, -0.1, 1.5])
def test_banzhaf_rejects_t_outside_the_open_interval(t: float) -> None:
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        Banzhaf(t)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([], "one number per coalition size"),
        ([[1.0, 2.0]], "one number per coalition size"),
        ([1, -0.5], "not negative, got -0.5 for size 1"),
        ([0, math.nan], "finite and not negative, got nan for size 1"),
        ([math.inf], "finite and not negative, got inf for size 0"),
        ([0, 0.0], "must not all be zero"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_cardinality_rejects(weights: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Cardinality(weights)


@pytest.mark.parametrize("weights", [["1", "2"], "ab", None, [1j, 0], [True, False]], ids=repr)
@pytest.mark.usefixtures("unchecked")
def test_cardinality_takes_numbers_alone(weights: list[float]) -> None:
    with pytest.raises(TypeError, match="weights must be an array"):
        Cardinality(weights)
    with pytest.raises(TypeError, match="log_weights must be an array"):
        Cardinality.from_log_weights(weights)


@pytest.mark.parametrize("quantity", ["join_law", "log_kernel", "size_law"])
def test_laws_that_do_not_fit_in_memory_are_refused(quantity: str) -> None:
    for weights in (Shapley(), Banzhaf(), LeaveOneOut()):
        with pytest.raises(ValueError, match="n must be at most 10,000,000 players, got 100,000,000,000"):
            getattr(weights, quantity)(10**11)
    with pytest.raises(ValueError, match="nodes must be at most 16,384"):
        map(torch.from_numpy, Shapley().quadrature(10**6))


def test_cardinality_is_for_its_own_number_of_players() -> None:
    with pytest.raises(ValueError, match=r"games of 3 players .* not 4"):
        torch.from_numpy(Cardinality([1, 2, 3]).join_law(4))


@pytest.mark.parametrize(
    "quantity", ["join_law", "log_weights", "log_kernel", "log_paper_kernel", "size_law", "error_per_loss"]
)
@pytest.mark.usefixtures("unchecked")
def test_number_of_players_is_checked(semivalue_for: SemivalueFor, quantity: str) -> None:
    measure = getattr(semivalue_for(3), quantity)
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        measure(0)
    for fraction in (2.5, "3"):
        with pytest.raises(TypeError, match="n must be a whole number"):
            measure(fraction)


@pytest.mark.usefixtures("unchecked")
def test_unknown_kernel_is_rejected() -> None:
    kernel: Any = "papr"
    with pytest.raises(ValueError, match="kernel must be one of 'exact', 'paper'; got 'papr'"):
        torch.from_numpy(Shapley().size_law(4, kernel))


@pytest.mark.usefixtures("unchecked")
def test_lists_of_weights_hold_semivalues_only() -> None:
    wrong: Any = [Shapley(), 0.5]
    with pytest.raises(TypeError, match=r"must be a semivalue such as .* got 0.5"):
        torch.from_numpy(join_laws(wrong, 3))
    with pytest.raises(ValueError, match="empty list"):
        torch.from_numpy(join_laws([], 3))
    forgotten_parentheses: Any = Shapley
    with pytest.raises(TypeError, match=r"Shapley\(\)"):
        torch.from_numpy(join_laws(forgotten_parentheses, 3))


@pytest.mark.parametrize("log_weights", [[], [float("nan")], [-float("inf")], [[0.0]]], ids=str)
def test_log_weights_that_are_no_law_are_rejected(log_weights: list[float]) -> None:
    with pytest.raises(ValueError, match="one number per coalition size"):
        Cardinality.from_log_weights(log_weights)


# As objects


def test_feasible_set_is_the_papers() -> None:
    pairs = [(1, 16), (1, 8), (1, 4), (1, 2), (2, 1), (4, 1), (8, 1), (16, 1)]
    assert [(each.alpha, each.beta) for each in FEASIBLE_SET] == pairs


def test_equal_semivalues_are_equal_and_hash_alike() -> None:
    assert Beta(1, 1) == Shapley()
    assert Cardinality([1, 3]) == Cardinality(torch.tensor([2.0, 6.0]))
    assert len({Beta(2, 1), Beta(2.0, 1.0), Banzhaf(), Banzhaf(0.5), LeaveOneOut(), LeaveOneOut()}) == 3
    assert Beta(2, 1) != Beta(1, 2)


def test_semivalues_are_immutable(semivalue_for: SemivalueFor) -> None:
    weights = semivalue_for(3)
    with pytest.raises(FrozenInstanceError):
        weights.alpha = 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("weights", "text", "representation"),
    [
        (Shapley(), "Shapley", "Beta(alpha=1.0, beta=1.0)"),
        (Beta(16, 0.5), "Beta(16, 0.5)", "Beta(alpha=16.0, beta=0.5)"),
        (Banzhaf(0.25), "Banzhaf(0.25)", "Banzhaf(t=0.25)"),
        (LeaveOneOut(), "leave-one-out", "LeaveOneOut()"),
        (Cardinality([1, 3]), "Cardinality(n=2)", "Cardinality(weights=(0.25, 0.75))"),
    ],
    ids=str,
)
def test_semivalues_say_what_they_are(weights: Semivalue, text: str, representation: str) -> None:
    assert (str(weights), repr(weights)) == (text, representation)


@pytest.mark.parametrize("n", [1, 2, 5, 50])
def test_json_round_trip(semivalue_for: SemivalueFor, n: int) -> None:
    weights = semivalue_for(n)
    assert Semivalue.from_json(weights.to_json()) == weights
    assert json.loads(weights.to_json())["semivalue"] == type(weights).__name__


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Shapley", "not a semivalue"),
        ("[1, 2]", "not a semivalue"),
        ("3", "not a semivalue"),
        ("{}", "not a semivalue"),
        ('{"semivalue": "Owen"}', "Owen.*Beta, Banzhaf, LeaveOneOut, Cardinality"),
        ('{"semivalue": "Beta", "alpha": 1}', "beta"),
        ('{"semivalue": "Beta", "alpha": 1, "beta": 1, "gamma": 1}', "gamma"),
        ('{"semivalue": "Beta", "alpha": "x", "beta": 1}', "alpha must be a number"),
        ('{"semivalue": "Beta", "alpha": -1, "beta": 1}', "alpha must be positive"),
        ('{"semivalue": "Banzhaf", "t": NaN}', "t must be finite"),
        ('{"semivalue": "Cardinality", "weights": []}', "one number per coalition size"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_json_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Semivalue.from_json(text)


def test_coalitions_of_at_least_a_size_keep_their_proportions() -> None:
    law = Beta(4, 1).join_law(9)
    kept = Cardinality.at_least(3, 9, Beta(4, 1)).join_law(9)
    assert not kept[:3].any()
    assert np.allclose(kept[3:], law[3:] / law[3:].sum(), rtol=1e-14)
    assert np.array_equal(Cardinality.at_least(8, 9).join_law(9), LeaveOneOut().join_law(9))
    assert np.allclose(Cardinality.at_least(0, 9).join_law(9), Shapley().join_law(9), rtol=1e-14)
