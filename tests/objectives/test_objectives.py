"""The losses are right if their excess over that of the semivalue is squared error: Prop. 2.2 as an identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import fwshapley as fw
from brute_force import all_coalitions
from fwshapley.coalitions import draw_bernoulli, draw_of_sizes, make_generator
from fwshapley.games import Random
from fwshapley.games.masked_model import MaskedModel
from fwshapley.objectives import (
    HatBasis,
    Kernel,
    Multilinear,
    Objective,
    SumConstraint,
    draw_t,
    kernel_loss,
    multilinear_loss,
    shift_to_total,
)
from fwshapley.semivalues import KernelKind
from fwshapley.training.batches import Shard

N, OUTPUTS = 6, 2
GAME = Random(N, OUTPUTS)


class GameSurrogate(nn.Module):
    """The same game for every input, times the input: games whose values scale with it."""

    def forward(self, x: Tensor, coalitions: Tensor) -> Tensor:
        return x * GAME(coalitions).to(x.dtype)


MASKED = MaskedModel(GameSurrogate(), "raw", N, torch.device("cpu"))


def read(objective: Objective, out: Tensor, weights: Sequence[fw.Semivalue]) -> Tensor:
    return objective.contract(out, objective.mixtures(weights, out.device))


def constant_worth(amount: float) -> MaskedModel:
    """Every coalition is worth the same."""

    class Constant(nn.Module):
        def forward(self, x: Tensor, _: Tensor) -> Tensor:
            return torch.full((len(x), OUTPUTS), amount)

    return MaskedModel(Constant(), "raw", N, torch.device("cpu"))


def perturbed(values: Tensor, *, keep_sum: bool) -> Tensor:
    change = torch.randn(values.shape, dtype=torch.float64, generator=make_generator(5))
    return values + (change - change.mean(0) if keep_sum else change)


@pytest.mark.parametrize("weights", [*fw.semivalues.FEASIBLE_SET, fw.Shapley(), fw.Banzhaf(0.3)], ids=str)
def test_excess_of_the_kernel_loss_is_squared_error(weights: fw.Semivalue) -> None:
    coalitions = all_coalitions(N)[1:-1]
    size = coalitions.sum(1)
    law = torch.from_numpy(weights.size_law(N))[size - 1]
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
    weights = fw.Beta(4, 1)
    generator = make_generator(2)
    sizes = 1 + torch.from_numpy(weights.size_law(N)).multinomial(20_000, replacement=True, generator=generator)
    coalitions = draw_of_sizes(sizes, N, generator)[None]
    gain = GAME(coalitions[0])[None] - GAME(torch.zeros(1, N, dtype=torch.bool))
    psi = fw.exact_values(GAME, weights)[None].clone().requires_grad_()
    kernel_loss(psi, gain, coalitions, torch.ones(1, 20_000, dtype=torch.float64)).sum().backward()
    assert psi.grad is not None
    uncentered = psi.grad[0] - psi.grad[0].mean(0)  # along the constraint
    assert float(uncentered.abs().max()) < 0.1


def test_values_are_shifted_to_their_total_by_one_constant() -> None:
    psi, total = torch.rand(3, N, OUTPUTS), torch.rand(3, OUTPUTS)
    shifted = shift_to_total(psi, total)
    assert_close(shifted.sum(1), total)
    assert_close((shifted - psi).std(1), torch.zeros(3, OUTPUTS), rtol=0, atol=1e-6)


def test_both_objectives_are_objectives() -> None:
    assert isinstance(Multilinear(), Objective)
    assert isinstance(Kernel(fw.Shapley()), Objective)
    assert Multilinear(HatBasis(size=5)).maps == 5
    assert Kernel(fw.Shapley()).maps == 1


def test_a_multilinear_sample_is_bernoulli_at_each_inputs_t() -> None:
    inputs = 400
    sample = Multilinear().sample(MASKED, torch.ones(inputs, 1), 64, make_generator(0), Shard())
    assert sample.t is not None
    share = sample.coalitions.double().mean((1, 2))
    deviation = (sample.t * (1 - sample.t) / (64 * N)).sqrt()
    assert bool(((share - sample.t).abs() <= 5 * deviation + 1e-6).all())
    assert_close(sample.values, MASKED(sample.x, sample.coalitions))


@pytest.mark.parametrize("evenness", [0.0, 0.5, 1.0])
def test_excess_of_the_multilinear_objective_is_squared_error_in_its_units(evenness: float) -> None:
    inputs = 2000
    x = torch.ones(inputs, 1)
    objective = Multilinear(HatBasis(size=3), evenness=evenness).calibrate(MASKED, x[:128], make_generator(0))
    assert objective.level is not None
    assert objective.unit is not None
    sample = objective.sample(MASKED, x, 8, make_generator(1), Shard())
    assert sample.t is not None
    out = 0.3 * torch.randn(1, N, 3 * OUTPUTS, generator=make_generator(2)).expand(inputs, -1, -1)
    excess = objective.loss(out, sample) - objective.loss(torch.zeros_like(out), sample)
    at, log_level = objective.basis(sample.t), torch.tensor(objective.level).log()
    psi = torch.einsum("nji,bj,j->bni", out[0].unflatten(1, (3, OUTPUTS)), at, torch.tensor(objective.unit))
    values = fw.exact_values(GAME, [fw.Banzhaf(t) for t in sample.t.tolist()])
    scale = (evenness * (at @ log_level) + (1 - evenness) * log_level.mean()).exp()
    expected = ((psi - values).square() - values.square()).sum((1, 2)) / scale
    difference = excess - expected
    assert abs(float(difference.mean())) < 4 * float(difference.std()) / inputs**0.5


def test_coefficients_are_read_by_the_moments_of_the_basis() -> None:
    basis, several = HatBasis(size=4), [fw.Shapley(), fw.Beta(4, 1), fw.LeaveOneOut()]
    unit = (0.5, 1.0, 2.0, 3.0)
    out = torch.randn(2, N, 4 * OUTPUTS, generator=make_generator(0))
    coefficients = out.unflatten(2, (4, OUTPUTS))
    for objective, scale in [(Multilinear(basis, unit=unit), torch.tensor(unit)), (Multilinear(basis), torch.ones(4))]:
        found = read(objective, out, several)
        assert found.shape == (3, 2, N, OUTPUTS)
        for values, weights in zip(found, several, strict=True):
            moments = basis.moments(weights).float() * scale
            assert_close(values, (coefficients * moments[:, None]).sum(2))
    assert_close(found[2], coefficients[:, :, -1])  # leave-one-out is the value at the last knot


def test_coefficients_that_do_not_depend_on_t_are_values_of_every_weighting() -> None:
    values = torch.randn(2, N, OUTPUTS, generator=make_generator(0))
    out = values.repeat(1, 1, Multilinear().maps)
    for found in read(Multilinear(), out, fw.semivalues.FEASIBLE_SET):
        assert_close(found, values)


def test_a_law_that_is_no_mixture_cannot_be_read() -> None:
    with pytest.raises(TypeError, match="no quadrature"):
        read(Multilinear(), torch.zeros(1, N, Multilinear().maps), [fw.Cardinality([1] * N)])


def test_in_calibrated_units_the_empty_explanation_has_a_loss_of_one() -> None:
    x = torch.full((200, 1), 30.0)  # a game of large values
    objectives: list[Objective] = [Multilinear(evenness=1.0), Kernel(fw.Beta(4, 1)), Kernel(fw.Shapley())]
    for raw in objectives:
        objective = raw.calibrate(MASKED, x, make_generator(0))
        sample = objective.sample(MASKED, x, 64, make_generator(1), Shard())
        loss = objective.loss(torch.zeros(200, N, objective.maps * OUTPUTS), sample)
        assert float(loss.mean()) == pytest.approx(1, rel=0.15)
        again = objective.calibrate(MASKED, x, make_generator(0))
        assert again == objective  # it does not build on what it was


def test_a_game_in_which_nothing_happens_has_units_too() -> None:
    x = torch.ones(8, 1)
    objectives: list[Objective] = [Multilinear(), Kernel(fw.Shapley())]
    for raw in objectives:
        objective = raw.calibrate(constant_worth(0.25), x, make_generator(0))
        sample = objective.sample(constant_worth(0.25), x, 8, make_generator(1), Shard())
        out = torch.zeros(8, N, objective.maps * OUTPUTS)
        assert float(objective.loss(out, sample).abs().max()) == 0
        assert_close(read(objective, out, [fw.Shapley()]), torch.zeros(1, 8, N, OUTPUTS))


def test_every_process_draws_the_whole_batch_and_answers_for_its_share() -> None:
    x = torch.arange(1.0, 8.0)[:, None]
    objectives: list[Objective] = [Multilinear(), Kernel(fw.Shapley()), Kernel(fw.Beta(4, 1))]
    for objective in objectives:
        whole = objective.sample(MASKED, x, 4, make_generator(0), Shard())
        for index in range(2):
            share = objective.sample(MASKED, x, 4, make_generator(0), Shard(index, 2))
            for mine, every in zip(share, whole, strict=True):
                assert (mine is None) == (every is None)
                if mine is not None and every is not None:
                    assert_close(mine, every[index::2])


def test_draws_of_t_are_stratified_and_reach_both_ends() -> None:
    t = draw_t(1000, make_generator(0)).sort().values
    assert 1e-4 <= float(t[0]) < 0.01
    assert 0.99 < float(t[-1]) <= 1 - 1e-4
    u = (torch.arange(1001) / 1000).clamp(0, 1)  # the law: half uniform, half uniform in logit t within +-5.5
    edge = HatBasis().edge
    law = (u + ((torch.logit(u) + edge) / (2 * edge)).clamp(0, 1)) / 2
    drawn = torch.searchsorted(t, u, right=True) / 1000
    assert float((drawn - law).abs().max()) <= 3e-3  # to two strata and their borders; independent draws miss by 0.03


def test_draws_of_t_come_in_random_order_and_from_their_seed() -> None:
    t = draw_t(100, make_generator(0))
    assert not torch.equal(t, t.sort().values)
    assert torch.equal(t, draw_t(100, make_generator(0)))
    assert not torch.equal(t, draw_t(100, make_generator(1)))
    assert draw_t(1, make_generator(0)).shape == (1,)


@pytest.mark.parametrize(
    ("weights", "masks", "paired"),
    [
        (fw.Shapley(), 4, True),
        (fw.Beta(3, 3), 4, True),
        (fw.Shapley(), 3, False),
        (fw.Beta(4, 1), 4, False),
    ],
)
def test_coalitions_of_a_symmetric_law_come_with_their_complements(
    weights: fw.Semivalue, masks: int, *, paired: bool
) -> None:
    coalitions = Kernel(weights).sample(MASKED, torch.ones(50, 1), masks, make_generator(0), Shard()).coalitions
    assert coalitions.shape == (50, masks, N)
    complements = coalitions[:, 0 : masks - 1 : 2] == ~coalitions[:, 1:masks:2]
    assert bool(complements.all()) == paired


@pytest.mark.parametrize("kernel", ["exact", "paper"])
@pytest.mark.parametrize("weights", [fw.Shapley(), fw.Beta(4, 1), fw.Banzhaf(0.3)], ids=str)
@pytest.mark.parametrize("constraint", ["center", "normalize"])
def test_sizes_of_sampled_coalitions_follow_the_law(
    weights: fw.Semivalue, kernel: KernelKind, constraint: SumConstraint
) -> None:
    count = 20_000
    objective = Kernel(weights, kernel, constraint)
    sample = objective.sample(MASKED, torch.ones(count // 8, 1), 8, make_generator(0), Shard())
    share = sample.coalitions.sum(2).flatten().bincount(minlength=N + 1)[1:N].double() / count
    law = torch.from_numpy(weights.size_law(N, kernel))
    assert bool(((share - law).abs() <= 4 * (law * (1 - law) / (count / 2)).sqrt()).all())  # pairs are not independent
    if constraint == "normalize":
        assert sample.ends is not None
        assert_close(sample.ends, torch.stack([MASKED.empty_values(sample.x), MASKED.full_values(sample.x)], 1))
    else:
        smaller = torch.minimum(sample.coalitions.sum(2), N - sample.coalitions.sum(2))
        assert bool((smaller == smaller[:, :1]).all())  # one size, or two that complement each other


@pytest.mark.parametrize("calibrated", [False, True])
@pytest.mark.parametrize("masks", [2, 3, 8])
@pytest.mark.parametrize("weights", [fw.Shapley(), fw.Beta(1, 4), fw.Banzhaf(0.3)], ids=str)
def test_excess_of_the_centered_loss_is_squared_error_on_average(
    weights: fw.Semivalue, masks: int, *, calibrated: bool
) -> None:
    x, objective = torch.ones(4000, 1), Kernel(weights)
    if calibrated:
        objective = objective.calibrate(MASKED, x, make_generator(0))
    sample = objective.sample(MASKED, x, masks, make_generator(1), Shard())
    assert sample.importance is not None
    assert bool((sample.importance == 1).all()) != calibrated
    values = fw.exact_values(GAME, weights)
    guess = perturbed(values, keep_sum=False)
    losses = [objective.loss(psi.float().expand(4000, -1, -1) / objective.unit, sample) for psi in (guess, values)]
    excess = (losses[0] - losses[1]) * objective.level * weights.error_per_loss(N)
    change = guess - values
    error = float((change - change.mean(0)).square().sum())  # whatever their sums
    assert abs(float(excess.mean()) - error) < 4 * float(excess.std()) / len(x) ** 0.5


@pytest.mark.parametrize("weights", [fw.LeaveOneOut(), fw.Cardinality([0.0, 1.0, 0.0, 0.0, 0.0, 0.0])], ids=str)
def test_no_size_without_mass_is_drawn(weights: fw.Semivalue) -> None:
    objective = Kernel(weights).calibrate(MASKED, torch.ones(20, 1), make_generator(0))
    sample = objective.sample(MASKED, torch.ones(3000, 1), 4, make_generator(1), Shard())
    possible = torch.from_numpy(weights.size_law(N)).nonzero().flatten() + 1
    assert bool(torch.isin(sample.coalitions.sum(2), possible).all())


def test_a_constant_game_is_sampled_by_the_law() -> None:
    objective = Kernel(fw.Beta(4, 1)).calibrate(constant_worth(2.0), torch.ones(20, 1), make_generator(0))
    sample = objective.sample(constant_worth(2.0), torch.ones(20, 1), 4, make_generator(1), Shard())
    assert sample.importance is not None
    assert bool((sample.importance == 1).all())
    assert bool(objective.loss(torch.zeros(20, N, OUTPUTS), sample).isfinite().all())


def test_the_centered_loss_is_less_noisy_where_worth_grows_with_size() -> None:
    class Growing(nn.Module):
        def forward(self, x: Tensor, coalitions: Tensor) -> Tensor:
            grown = 20 * coalitions.double().mean(1, keepdim=True).sqrt()
            return x * (GAME(coalitions) + grown).to(x.dtype)

    masked, weights = MaskedModel(Growing(), "raw", N, torch.device("cpu")), fw.Beta(4, 1)
    spread = {}
    for constraint in get_args(SumConstraint)[:2]:
        objective = Kernel(weights, constraint=constraint)
        sample = objective.sample(masked, torch.ones(2000, 1), 8, make_generator(0), Shard())
        out = torch.zeros(2000, N, OUTPUTS, requires_grad=True)
        objective.loss(out, sample).sum().backward()
        assert out.grad is not None
        spread[constraint] = float(out.grad.std(0).mean())
    assert spread["center"] < spread["normalize"] / 2


@pytest.mark.parametrize("constraint", get_args(SumConstraint))
def test_the_kernel_objective_is_least_at_the_values_among_those_of_their_sum(constraint: SumConstraint) -> None:
    x = torch.ones(2000, 1)
    objective = Kernel(fw.Shapley(), constraint=constraint).calibrate(MASKED, x, make_generator(0))
    sample = objective.sample(MASKED, x, 8, make_generator(1), Shard())
    values = fw.exact_values(GAME, fw.Shapley()).float().expand(2000, -1, -1) / objective.unit
    best = objective.loss(values, sample).mean()
    for seed in range(5):
        change = 0.5 * torch.randn(N, OUTPUTS, generator=make_generator(seed))
        assert objective.loss(values + change - change.mean(0), sample).mean() > best
    shifted = objective.loss(values + 1, sample).mean()
    assert bool(torch.isclose(shifted, best)) == (constraint in {"center", "normalize"})


def test_the_penalty_is_the_squared_miss_of_the_total() -> None:
    x = torch.ones(4, 1)
    sample = Kernel(fw.Shapley(), constraint="none").sample(MASKED, x, 8, make_generator(0), Shard())
    out = torch.randn(4, N, OUTPUTS, generator=make_generator(1))
    plain, penalized = (Kernel(fw.Shapley(), constraint=each).loss(out, sample) for each in ("none", "penalty"))
    assert sample.ends is not None
    miss = out.sum(1) - (sample.ends[:, 1] - sample.ends[:, 0])
    assert_close(penalized - plain, miss.square().sum(1))


def test_a_kernel_explains_its_own_weighting_alone() -> None:
    objective = Kernel(fw.Beta(4, 1), unit=2.0)
    out = torch.rand(3, N, OUTPUTS)
    assert_close(read(objective, out, [fw.Beta(4, 1)]), 2 * out[None])
    with pytest.raises(ValueError, match=r"weights must be Beta\(4, 1\).*got Shapley"):
        read(objective, out, [fw.Beta(4, 1), fw.Shapley()])
