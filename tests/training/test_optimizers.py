from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from fwshapley.training.budget import Budget, OptimizerName, TrainingOptions
from fwshapley.training.optimizers import MAX_SIDE, Muon, make_optimizers, orthogonalize

RATE, DECAY = 0.02, 0.1


def draw(*shapes: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def parameters(*shapes: tuple[int, ...]) -> list[nn.Parameter]:
    return [nn.Parameter(tensor) for tensor in draw(*shapes)]


def take_steps(optimizers: Sequence[torch.optim.Optimizer], weights: list[nn.Parameter]) -> list[Tensor]:
    """Return the weights after three steps along the same random gradients."""
    for step in range(3):
        for weight, gradient in zip(
            weights, draw(*(tuple(weight.shape) for weight in weights), seed=step), strict=True
        ):
            weight.grad = gradient
        for optimizer in optimizers:
            optimizer.step()
    return [weight.detach() for weight in weights]


@pytest.mark.parametrize("shape", [(8, 8), (6, 40), (40, 6), (1, 5)])
def test_updates_have_the_directions_of_the_svd_and_singular_values_near_1(shape: tuple[int, int]) -> None:
    (matrix,) = draw(shape)
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    found = left.T @ orthogonalize(matrix[None])[0] @ right.T
    sizes = found.diagonal()
    assert 0.6 < float(sizes.min()) <= float(sizes.max()) < 1.3
    assert torch.allclose(found, sizes.diag(), atol=1e-4)


def test_a_gradient_of_zero_has_an_update_of_zero() -> None:
    assert not orthogonalize(torch.zeros(2, 3, 4)).any()


def test_matrices_are_updated_together_as_they_are_one_by_one() -> None:
    shapes = [(4, 6), (6, 4), (4, 6), (3, 2, 3, 3), (4, 6)]
    together, alone = parameters(*shapes), parameters(*shapes)
    found = take_steps([Muon(together, lr=RATE, weight_decay=DECAY)], together)
    expected = take_steps([Muon([weight], lr=RATE, weight_decay=DECAY) for weight in alone], alone)
    assert all(torch.allclose(*pair, rtol=1e-4, atol=1e-6) for pair in zip(found, expected, strict=True))


def test_matrices_are_updated_as_by_torch() -> None:
    ours, theirs = parameters((4, 6), (7, 5)), parameters((4, 6), (7, 5))
    found = take_steps([Muon(ours, lr=RATE, weight_decay=DECAY)], ours)
    peer = torch.optim.Muon(theirs, lr=RATE, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw")
    expected = take_steps([peer], theirs)
    assert all(torch.allclose(*pair, atol=0.05 * RATE) for pair in zip(found, expected, strict=True))  # theirs in bf16


def test_a_kernel_is_a_matrix_with_a_row_for_each_filter() -> None:
    kernel, matrix = parameters((4, 2, 3, 3)), parameters((4, 18))
    for weights in (kernel, matrix):
        optimizer = Muon(weights, lr=RATE, weight_decay=DECAY)
        for step in range(3):
            (gradient,) = draw((4, 18), seed=step)
            weights[0].grad = gradient.view_as(weights[0])
            optimizer.step()
    assert torch.allclose(kernel[0].flatten(1), matrix[0], rtol=1e-4, atol=1e-6)


class Layers(nn.Module):
    """Every kind of parameter; two layers share a weight, and one is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.small = nn.Conv2d(3, 32, 3)
        self.kernel = nn.Conv2d(32, 32, 3)
        self.linear, self.same, self.frozen = (nn.Linear(40, 40) for _ in range(3))
        self.same.weight = self.linear.weight
        self.frozen.requires_grad_(requires_grad=False)
        self.large = nn.Linear(MAX_SIDE + 1, MAX_SIDE + 1, device="meta")
        self.position = nn.Parameter(torch.zeros(40, 40))
        self.last = nn.Linear(40, 40)


@pytest.mark.parametrize(("name", "chosen"), [("muon", ["kernel.weight", "linear.weight"]), ("adamw", [])])
def test_muon_updates_the_weights_of_layers_and_adamw_everything_else(name: OptimizerName, chosen: list[str]) -> None:
    module = Layers()
    names = {parameter: name for name, parameter in module.named_parameters()}
    found = {
        type(optimizer): [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]
        for optimizer in make_optimizers(module, TrainingOptions(Budget(steps=1), 1, optimizer=name))
    }
    assert found.get(Muon, []) == chosen
    trained = {name for parameter, name in names.items() if parameter.requires_grad}
    assert set(found[torch.optim.AdamW]) == trained - set(chosen)
