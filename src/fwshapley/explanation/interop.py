"""Explanations in the forms of other libraries: shap's Explanation, captum's tensors of the inputs' shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.checks import Array
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.fitted import Fitted
from fwshapley.explanation.inputs import Outputs
from fwshapley.semivalues import Semivalue, Total

if TYPE_CHECKING:
    from shap import Explanation


class OtherInterfaces:
    """The interfaces of shap's explainers and of captum's methods, for `FeatureExplainer`."""

    explain: Callable[..., Attribution]

    @property
    def fitted_(self) -> Fitted:
        """The result of the last fit."""
        raise NotImplementedError

    def __call__(
        self,
        x: Array,
        *,
        weights: Semivalue | None = None,
        outputs: Outputs = "all",
        total: Total = "efficient",
    ) -> Explanation:
        """Explain inputs as shap's explainers do; values are shifted to add up to the surrogate's prediction."""
        schema = self.fitted_.schema
        data = x
        if schema is not None and schema.is_frame and isinstance(x, pd.DataFrame):
            data = schema.select_columns(x)
        return to_shap(self.explain(x, weights=weights, outputs=outputs, total=total), data=data)

    def attribute(
        self,
        inputs: Array,
        target: int | Int[Tensor, " batch"] | None = None,
        *,
        weights: Semivalue | None = None,
        total: Total | Literal["auto"] = "auto",
    ) -> Float[Tensor, "batch ..."]:
        """Explain inputs as captum's methods do: a tensor of their shape, with the player's value at each position.

        Args:
            inputs: a batch.
            target: number of the output to explain, or one per input; None if there is only one.
            weights: as in `explain`.
            total: as in `explain`.
        """
        fitted = self.fitted_
        targets = choose_targets(target, len(fitted.check_inputs(inputs)), len(fitted.output_names))
        return spread_over_inputs(self.explain(inputs, weights=weights, outputs=targets, total=total))


def to_shap(attribution: Attribution, data: Array | None = None) -> Explanation:
    """Return an attribution as shap's plots take it; values and base value add up to the prediction.

    Args:
        attribution: of one weighting, with total="efficient".
        data: inputs to show beside the values; by default those that were explained.
    """
    try:
        from shap import Explanation  # noqa: PLC0415 - optional, so imported where it is needed
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("shap.Explanation needs shap: pip install shap") from error
    if attribution.total != "efficient":
        raise ValueError("total must be 'efficient' for shap, whose plots add values up to the prediction; got 'raw'")
    if isinstance(attribution.weights, list):
        raise ValueError("weights must be one semivalue for shap, got a list")  # noqa: TRY004 - other methods accept a list
    values = attribution.values.detach().float().cpu().numpy()
    base = attribution.base_values.detach().float().cpu().numpy()
    shown = attribution.inputs if data is None else data
    shown = shown.detach().cpu().numpy() if isinstance(shown, Tensor) else np.asarray(shown)
    names: list[str] | str | None = _shared_output_names(attribution)
    if values.shape[2] == 1:  # shap has no axis for a single output, and takes a list of names for one
        values = values[..., 0]
        base = base[:, 0]
        names = names and names[0]
    return Explanation(
        values=values,
        base_values=base,
        data=shown if shown.shape == values.shape[:2] else None,
        feature_names=list(attribution.players.names),
        output_names=names,
    )


def spread_over_inputs(attribution: Attribution) -> Float[Tensor, "batch ..."]:
    """Return the values of one output at every position of the inputs, each with the value of its player."""
    if isinstance(attribution.weights, list):
        raise ValueError("weights must be one semivalue for attribute, got a list")  # noqa: TRY004 - other methods accept a list
    values = attribution.values[..., 0][:, attribution.players.assignment_on(attribution.values.device)]
    return values[:, None].expand_as(attribution.inputs).contiguous() if attribution.players.is_image else values


def choose_targets(target: int | Tensor | NDArray[Any] | None, batch: int, n_outputs: int) -> Int[Tensor, "batch 1"]:
    """Return the output to explain for each input, from captum's `target`."""
    if target is None:
        if n_outputs > 1:
            raise ValueError(f"target must be the number of one of {n_outputs} outputs, or one number per input")
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
    wrong = (numbers < 0) | (numbers >= n_outputs)
    if bool(wrong.any()):
        raise ValueError(f"target must be between 0 and {n_outputs - 1}, got {int(numbers[wrong][0])}")
    return numbers.reshape(-1, 1).expand(batch, 1).long()


def _shared_output_names(attribution: Attribution) -> list[str] | None:
    """Return the names of the explained outputs if they are the same for every input."""
    if not bool((attribution.outputs == attribution.outputs[:1]).all()):
        return None
    return [attribution.output_names[int(number)] for number in attribution.outputs[0]]
