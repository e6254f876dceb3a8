"""Explanations in the forms of other libraries: shap's Explanation, captum's tensors of the inputs' shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.checks import Array
from fwshapley.explanation.attribution import Attribution

if TYPE_CHECKING:
    from shap import Explanation


def to_shap(attribution: Attribution, data: Array | None = None) -> Explanation:
    """Return an attribution as shap's plots take it; values and base value add up to what was predicted.

    Args:
        attribution: of one weighting, with total="efficient".
        data: inputs to show beside the values; by default those that were explained.
    """
    try:
        from shap import Explanation  # noqa: PLC0415 - optional, so imported where it is needed
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("an Explanation needs shap: pip install shap") from error
    if attribution.total != "efficient":
        raise ValueError(
            "shap's plots add values up to the prediction, which raw values do not: explain with total='efficient'"
        )
    if isinstance(attribution.weights, list):
        raise ValueError(  # noqa: TRY004 - a list of the right type, but too long
            "an Explanation is of one weighting: explain with weights=..., not a list of them"
        )
    values = attribution.values.detach().float().cpu().numpy()
    base = attribution.base_values.detach().float().cpu().numpy()
    shown = attribution.inputs if data is None else data
    shown = shown.detach().cpu().numpy() if isinstance(shown, Tensor) else np.asarray(shown)
    names: list[str] | str | None = _names_of_outputs(attribution)
    if values.shape[2] == 1:  # as shap has it for models of one output: a list of names would be an axis to it
        values, base, names = values[..., 0], base[:, 0], names and names[0]
    return Explanation(
        values=values,
        base_values=base,
        data=shown if shown.shape == values.shape[:2] else None,
        feature_names=list(attribution.players.names),
        output_names=names,
    )


def spread_over_inputs(attribution: Attribution) -> Float[Tensor, "batch ..."]:
    """Return the values of one output at every position of the inputs: each has that of its player, as captum does."""
    if isinstance(attribution.weights, list):
        raise ValueError("attribute gives one weighting: pass a semivalue, not a list of them")  # noqa: TRY004 - too many
    values = attribution.values[..., 0][:, attribution.players.assignment_on(attribution.values.device)]
    return values[:, None].expand_as(attribution.inputs).contiguous() if attribution.players.is_image else values


def choose_targets(target: int | Tensor | NDArray[Any] | None, batch: int, outputs: int) -> Tensor:
    """Return the output to attribute for each input, (batch, 1), from captum's `target`."""
    if target is None:
        if outputs > 1:
            raise ValueError(f"the model has {outputs} outputs: say which by target=..., a number or one per input")
        target = 0
    try:
        numbers = torch.as_tensor(target)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TypeError(f"target must be the number of an output, or one per input, got {target!r}") from error
    if numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool:
        raise TypeError(f"target must be whole numbers, got {str(numbers.dtype).removeprefix('torch.')}")
    if numbers.numel() not in (1, batch) or numbers.squeeze().ndim > 1:
        shape = tuple(numbers.shape)
        raise ValueError(f"target must be one number, or one per input ({batch}), got numbers of shape {shape}")
    beyond = (numbers < 0) | (numbers >= outputs)
    if bool(beyond.any()):
        raise ValueError(f"target must be between 0 and {outputs - 1}, got {int(numbers[beyond][0])}")
    return numbers.reshape(-1, 1).expand(batch, 1).long()


def _names_of_outputs(attribution: Attribution) -> list[str] | None:
    """Names of the outputs explained, where they are the same for every input."""
    same = bool((attribution.outputs == attribution.outputs[:1]).all())
    return [attribution.output_names[int(number)] for number in attribution.outputs[0]] if same else None
