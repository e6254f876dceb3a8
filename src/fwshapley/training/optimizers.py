"""Optimizers: Muon, whose updates are orthogonal matrices, for the weights of layers, and AdamW for the rest.

    m <- 0.95 m + 0.05 g
    W <- (1 - rate * decay) W - rate * 0.2 sqrt(max(rows, columns)) U V',  where U S V' = 0.05 g + 0.95 m

So every direction of a weight learns at the same speed, not only those in which gradients are large. A few
Newton-Schulz iterations compute U V' closely enough. The factor makes updates as large as those of AdamW, with which
they share a learning rate.

References: Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024; the factor is of Liu et al.,
"Muon is scalable for LLM training", 2025.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fwshapley.training.budget import TrainingOptions

MOMENTUM = 0.95
RATE_FACTOR = 0.2
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of X, X X' X and X X' X X' X, by which Jordan et al. quickly increase small singular values."""

ITERATIONS = 5
TINY = 1e-7
MIN_SIDE, MAX_SIDE = 32, 1024
"""AdamW updates weights whose shorter side is outside: first layers of few channels, which have few directions, and
very large ones, since iterations take time with the square of that side."""

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def make_optimizers(module: nn.Module, options: TrainingOptions) -> list[torch.optim.Optimizer]:
    """Return the optimizers of the parameters that are trained: AdamW, Muon, or both."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    weights = layer_weights(module) if options.optimizer == "muon" else []
    others = [parameter for parameter in parameters if not any(parameter is weight for weight in weights)]
    rate, decay = options.learning_rate, options.weight_decay
    optimizers: list[torch.optim.Optimizer] = []
    if others or not weights:
        is_fused = all(parameter.is_cuda for parameter in others)
        optimizers.append(torch.optim.AdamW(others, rate, weight_decay=decay, fused=is_fused))
    if weights:
        optimizers.append(Muon(weights, lr=rate, weight_decay=decay))
    return optimizers


def layer_weights(module: nn.Module) -> list[nn.Parameter]:
    """Return the weights that Muon updates: of linear layers and convolutions, unless they are small or very large.

    Not of the last layer, whose outputs have meanings of their own: with Muon for it, too, the error of a small
    explainer of four columns was up to three times as large.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, LAYERS)]
    weights = [dict(layer.named_parameters(recurse=False)).get("weight") for layer in layers[:-1]]
    chosen = [
        weight
        for weight in weights
        if weight is not None and weight.requires_grad and MIN_SIDE <= min(len(weight), weight[0].numel()) <= MAX_SIDE
    ]
    return list(dict.fromkeys(chosen))  # layers may share one


class Muon(torch.optim.Optimizer):
    """Gradient descent with momentum along orthogonal matrices.

    Args:
        weights: of two or more axes; all but the first are the columns of a matrix.
        lr: learning rate.
        weight_decay: decoupled from the gradients.
    """

    def __init__(self, weights: Sequence[nn.Parameter], *, lr: float, weight_decay: float) -> None:
        super().__init__(weights, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update the weights that have a gradient, those of the same shape at once."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for weight in group["params"]:
                if weight.grad is not None:
                    by_shape[weight.shape].append(weight)
            for weights in by_shape.values():
                self._update(weights, group["lr"], group["weight_decay"])
        return loss

    def _update(self, weights: list[Tensor], rate: float, decay: float) -> None:
        shape = weights[0].shape
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        momenta = [self._momentum(weight) for weight in weights]
        torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
        ahead = torch._foreach_lerp(gradients, momenta, MOMENTUM)  # noqa: SLF001 - as torch's optimizers do
        updates = orthogonalize(torch.stack(ahead).flatten(2)).unflatten(2, shape[1:])
        factor = RATE_FACTOR * math.sqrt(max(shape[0], shape[1:].numel()))
        torch._foreach_mul_(weights, 1 - rate * decay)
        torch._foreach_add_(weights, updates.unbind(), alpha=-rate * factor)

    def _momentum(self, weight: Tensor) -> Tensor:
        state = self.state[weight]
        if not state:
            state["momentum"] = torch.zeros_like(weight)
        momentum: Tensor = state["momentum"]
        return momentum


def orthogonalize(matrices: Float[Tensor, "batch rows columns"]) -> Float[Tensor, "batch rows columns"]:
    """Return about U V' for every matrix U S V': singular values between 0.7 and 1.2, unless nearly 0 before."""
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    is_tall = x.shape[1] > x.shape[2]
    x = x.mT if is_tall else x
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=TINY)
    a, b, c = NEWTON_SCHULZ
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if is_tall else x).to(matrices.dtype)
