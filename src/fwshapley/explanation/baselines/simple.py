"""Baselines that look at little or nothing of an input: what any explanation should beat."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from fwshapley._internal.checks import Array
from fwshapley.explanation.baselines.request import Request
from fwshapley.explanation.surrogate import predict

EXAMPLES_AT_ONCE = 1024


def class_mean(request: Request, *, examples: Array) -> Float[Tensor, "weights batch players outputs"]:
    """Mean learned explanation of the examples that the model gives the input's class.

    Args:
        request: what is asked.
        examples: inputs to average over, best some that the explainer was not trained on; they are explained at each
            call.
    """
    sums, counts = _sum_by_class(request, examples)
    classes = _predict(request, request.x)
    missing = sorted(set(classes[counts[classes] == 0].tolist()))
    if missing:
        raise ValueError(f"no example is predicted as class {missing[0]}, which an input is: give more examples")
    means = sums / counts.clamp(min=1)[:, None, None]
    chosen = request.outputs.to(means.device)[None, :, None].expand(len(sums), -1, request.players.n_players, -1)
    request.bar.advance(len(request.x))
    return means[:, classes].gather(-1, chosen)


def random(request: Request, *, seed: int = 0) -> Float[Tensor, "1 batch players outputs"]:
    """Independent normal numbers."""
    shape = (request.players.n_players, len(request.fitted.base_values))
    drawn = [torch.randn(shape, generator=torch.Generator().manual_seed(own)) for own in request.seeds(seed)]
    chosen = [each[:, numbers.cpu()] for each, numbers in zip(drawn, request.outputs, strict=True)]
    request.bar.advance(len(request.x))
    return torch.stack(chosen)[None].to(request.explainer.device)


def _sum_by_class(
    request: Request, examples: Array
) -> tuple[Float[Tensor, "weights classes players outputs"], Int[Tensor, " classes"]]:
    """Sum of the learned explanations of the examples of each class, and their number, a chunk at a time."""
    outputs = len(request.fitted.base_values)
    shape = (len(request.weights), outputs, request.players.n_players, outputs)
    sums = torch.zeros(shape, device=request.explainer.device)
    counts = torch.zeros(outputs, dtype=torch.int64, device=sums.device)
    for first in range(0, len(examples), EXAMPLES_AT_ONCE):
        some = examples[first : first + EXAMPLES_AT_ONCE]
        explained = request.explainer.explain(some, weights=request.weights, batch_size=request.batch_size)
        classes = _predict(request, explained.inputs)
        belongs = one_hot(classes, outputs)
        sums += torch.einsum("bc,wbpo->wcpo", belongs.to(sums.dtype), explained.values)
        counts += belongs.sum(0)
    return sums, counts


def _predict(request: Request, x: Float[Tensor, "batch ..."]) -> Int[Tensor, " batch"]:
    return predict(request.model, x, request.fitted.masked_model.output).argmax(1).to(request.explainer.device)
