"""Baselines that use little or nothing of an input; any explanation should be better."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from fwshapley._internal.checks import Array
from fwshapley.explanation.baselines.task import BaselineTask
from fwshapley.explanation.inputs.predictions import predict

EXAMPLES_AT_ONCE = 1024


def class_mean(task: BaselineTask, *, examples: Array) -> Float[Tensor, "weights batch players outputs"]:
    """Mean learned explanation of the examples with the same predicted class as the input.

    Args:
        task: what to explain.
        examples: inputs to average over, preferably not those of the training; they are explained in every call.
    """
    sums, counts = _sum_by_class(task, examples)
    classes = _predicted_classes(task, task.x)
    missing = sorted(set(classes[counts[classes] == 0].tolist()))
    if missing:
        raise ValueError(f"examples must contain inputs of class {missing[0]}, which the model predicts; add some")
    means = sums / counts.clamp(min=1)[:, None, None]
    outputs = task.outputs.to(means.device)[None, :, None].expand(len(sums), -1, task.players.n_players, -1)
    task.bar.advance(len(task.x))
    return means[:, classes].gather(-1, outputs)


def random(task: BaselineTask, *, seed: int = 0) -> Float[Tensor, "1 batch players outputs"]:
    """Independent normal numbers."""
    shape = (task.players.n_players, len(task.fitted.base_values))
    drawn = [torch.randn(shape, generator=torch.Generator().manual_seed(row_seed)) for row_seed in task.seeds(seed)]
    chosen = [row[:, outputs.cpu()] for row, outputs in zip(drawn, task.outputs, strict=True)]
    task.bar.advance(len(task.x))
    return torch.stack(chosen)[None].to(task.device)


def _sum_by_class(
    task: BaselineTask, examples: Array
) -> tuple[Float[Tensor, "weights classes players outputs"], Int[Tensor, " classes"]]:
    """Sum of the learned explanations of the examples of each class, and their number, a chunk at a time."""
    n_outputs = len(task.fitted.base_values)
    shape = (len(task.weights), n_outputs, task.players.n_players, n_outputs)
    sums = torch.zeros(shape, device=task.device)
    counts = torch.zeros(n_outputs, dtype=torch.int64, device=task.device)
    for first in range(0, len(examples), EXAMPLES_AT_ONCE):
        chunk = examples[first : first + EXAMPLES_AT_ONCE]
        explained = task.explainer.explain(chunk, weights=task.weights, batch_size=task.batch_size)
        membership = one_hot(_predicted_classes(task, explained.inputs), n_outputs)
        sums += torch.einsum("bc,wbpo->wcpo", membership.to(sums.dtype), explained.values)
        counts += membership.sum(0)
    return sums, counts


def _predicted_classes(task: BaselineTask, x: Float[Tensor, "batch ..."]) -> Int[Tensor, " batch"]:
    return predict(task.model, x, task.fitted.masked_model.output).argmax(1).to(task.device)
