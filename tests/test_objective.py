"""The losses are right if their excess over that of the semivalue is squared error: Prop. 2.2 as an identity."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import fwshapley as fw
from brute_force import all_coalitions
from fwshapley.games import Random
from fwshapley.objective import kernel_loss, multilinear_loss, shift_to_total
from fwshapley.sampling import draw_bernoulli, draw_by_law, make_generator

N, OUTPUTS = 6, 2
GAME = Random(N, OUTPUTS)


def perturbed(values: Tensor, *, keep_sum: bool) -> Tensor:
    change = torch.randn(values.shape, dtype=torch.float64, generator=make_generator(5))
    return values + (change - change.mean(0) if keep_sum else change)


@pytest.mark.parametrize("weights", [*fw.FEASIBLE_SET, fw.Shapley(), fw.Banzhaf(0.3)], ids=str)
def test_excess_of_the_kernel_loss_is_squared_error(weights: fw.Semivalue) -> None:
    coalitions = all_coalitions(N)[1:-1]
    size = coalitions.sum(1)
    law = weights.size_law(N)[size - 1]
    importance = law / size.bincount()[size] * len(coalitions)  # so that a plain mean is one under the law
    gain = GAME(coalitions) - GAME(torch.zeros(1, N, dtype=torch.bool))
    values = fw.exact_values(GAME, weights)
    guess = perturbed(values, keep_sum=True)
    losses = [kernel_loss(psi[None], gain[None], coalitions[None], importance[None]) for psi in (guess, values)]
    assert_close(float(losses[0] - losses[1]) * weights.error_per_loss(N), float((guess - values).square().sum()))


@pytest.mark.parametrize("t", [0.1, 0.5, 0.9])
def test_excess_of_the_multilinear_loss_is_squared_error_on_average(t: float) -> None:
    generator, inputs, masks = make_generator(1), 4000, 8
    coalitions = draw_bernoulli([t] * inputs * masks, N, generator).unflatten(0, (inputs, masks))
    worth = GAME(coalitions.flatten(0, 1)).unflatten(0, (inputs, masks))
    values = fw.exact_values(GAME, fw.Banzhaf(t))
    guess = perturbed(values, keep_sum=False)
    each = torch.full((inputs,), t, dtype=torch.float64)
    losses = [multilinear_loss(psi.expand(inputs, -1, -1), worth, coalitions, each) for psi in (guess, values)]
    excess = losses[0] - losses[1]
    standard_error = float(excess.std()) / inputs**0.5
    assert abs(float(excess.mean()) - float((guess - values).square().sum())) < 4 * standard_error


def test_the_kernel_loss_of_drawn_coalitions_is_least_at_the_values() -> None:
    weights = fw.Beta(alpha=4, beta=1)
    coalitions = draw_by_law(weights.size_law(N), 20_000, make_generator(2))[None]
    gain = GAME(coalitions[0])[None] - GAME(torch.zeros(1, N, dtype=torch.bool))
    psi = fw.exact_values(GAME, weights)[None].clone().requires_grad_()
    kernel_loss(psi, gain, coalitions, torch.ones(1, 20_000, dtype=torch.float64)).sum().backward()
    assert psi.grad is not None
    uncentred = psi.grad[0] - psi.grad[0].mean(0)  # along the constraint
    assert float(uncentred.abs().max()) < 0.1


def test_values_are_shifted_to_their_total_by_one_constant() -> None:
    psi, total = torch.rand(3, N, OUTPUTS), torch.rand(3, OUTPUTS)
    shifted = shift_to_total(psi, total)
    assert_close(shifted.sum(1), total)
    assert_close((shifted - psi).std(1), torch.zeros(3, OUTPUTS), rtol=0, atol=1e-6)
