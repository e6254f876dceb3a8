from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import fwshapley as fw
from fwshapley.networks import HatBasis


def test_hats_sum_to_one_and_are_one_at_their_knots() -> None:
    basis = HatBasis(size=5, edge=2.0)
    t = torch.linspace(0, 1, 101, dtype=torch.float64)
    assert_close(basis(t).sum(1), torch.ones(101, dtype=torch.float64))
    knots = torch.linspace(-2, 2, 5, dtype=torch.float64).sigmoid()
    assert_close(basis(knots), torch.eye(5, dtype=torch.float64))


def test_a_function_linear_in_logit_t_is_represented_exactly() -> None:
    basis = HatBasis()
    logit = torch.linspace(-5.4, 5.4, 50, dtype=torch.float64)
    knots = torch.linspace(-basis.edge, basis.edge, basis.size, dtype=torch.float64)
    assert_close(basis(logit.sigmoid()) @ knots, logit)


@pytest.mark.parametrize("weights", [*fw.FEASIBLE_SET, fw.Shapley(), fw.Banzhaf(0.2), fw.LeaveOneOut()], ids=str)
def test_moments_are_means_over_the_mixture(weights: fw.Semivalue) -> None:
    basis = HatBasis()
    assert float(basis.moments(weights).sum()) == pytest.approx(1)
    if isinstance(weights, fw.Beta):
        torch.manual_seed(0)  # which torch.distributions draws from
        t = torch.distributions.Beta(weights.beta, weights.alpha).sample((200_000,)).double()
        drawn = basis(t)
        standard_error = drawn.std(0) / len(t) ** 0.5
        assert bool(((drawn.mean(0) - basis.moments(weights)).abs() <= 4.5 * standard_error + 1e-4).all())


def test_leave_one_out_is_the_last_hat() -> None:
    assert HatBasis().moments(fw.LeaveOneOut()).tolist() == [0] * 11 + [1]


def test_a_law_that_is_no_mixture_has_no_moments() -> None:
    with pytest.raises(TypeError, match="no quadrature"):
        HatBasis().moments(fw.Cardinality([1, 2, 3]))
