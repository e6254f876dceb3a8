"""Distillation: train a smaller explaining network to reproduce the outputs of another one."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from fwshapley._internal.checks import Array, check_callable, check_choice
from fwshapley.explanation.inputs.input_checks import MAX_VALIDATION_ROWS, Augment, hold_out
from fwshapley.explanation.learned.fitted import Fitted
from fwshapley.explanation.learned.fitting import MakeNetwork, NetworkName, make_network
from fwshapley.explanation.learned.quality_measurement import Allowance, with_quality
from fwshapley.explanation.learned.surrogate import take_batch
from fwshapley.training.batches import Batch
from fwshapley.training.budget import TrainingOptions
from fwshapley.training.loop import train


def distill(
    fitted: Fitted,
    x_train: Array,
    x_valid: Array | None,
    network: MakeNetwork | NetworkName,
    *,
    options: TrainingOptions,
    augment: Augment | None,
    measuring: Allowance,
) -> Fitted:
    """Return the same fit with another network, trained to reproduce the outputs of the present one."""
    if augment is not None:
        check_callable("augment", augment)
    if not callable(network):
        check_choice("network", network, get_args(NetworkName))
    device, teacher = fitted.device, fitted.network
    x = fitted.check_inputs(x_train, "x_train")
    x, valid = hold_out(x, options.seed) if x_valid is None else (x, fitted.check_inputs(x_valid, "x_valid"))
    example, valid_inputs = x[:MAX_VALIDATION_ROWS].to(device), valid[:MAX_VALIDATION_ROWS].to(device)
    channels = fitted.objective.maps * len(fitted.output_names)
    surrogate = fitted.masked_model.surrogate
    student = make_network(
        network, surrogate, fitted.players, example, channels, seed=options.seed, schema=fitted.schema
    )
    compiled_teacher = torch.compile(teacher) if options.compiled else teacher
    with torch.no_grad():
        valid_targets = teacher(valid_inputs).float()

    def loss(module: nn.Module, batch: Batch) -> Tensor:
        inputs = batch.shard.of(take_batch(x, batch, augment))
        with torch.no_grad():
            target = compiled_teacher(inputs).float()
        return functional.mse_loss(module(inputs).float(), target)

    def validate(module: nn.Module) -> float:
        return float(functional.mse_loss(module(valid_inputs).float(), valid_targets))

    description = "distilling the explainer"
    history = train(student, loss, options, n_rows=len(x), device=device, validate=validate, description=description)
    student.requires_grad_(requires_grad=False)
    histories = {**fitted.histories, "student": history}
    distilled = replace(fitted, network=student, histories=histories, compiled_values=None)
    return with_quality(distilled, valid, measuring, progress=options.progress)
