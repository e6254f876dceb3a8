"""Explanations in the forms of other libraries: shap's Explanation, captum's tensors of the inputs' shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.checks import Array
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.inputs.input_checks import Outputs
from fwshapley.explanation.learned.fitted import Fitted
from fwshapley.explanation.shap_explanation import to_shap
from fwshapley.semivalues import Semivalue, Total

if TYPE_CHECKING:
    from shap import Explanation


class OtherInterfaces(ABC):
    """The interfaces of shap's explainers and of captum's methods, for `FeatureExplainer`."""

    explain: Callable[..., Attribution]

    @property
    @abstractmethod
    def fitted_(self) -> Fitted:
        """The result of the last fit."""

    def __call__(
        self,
        x: Array,
        *,
        weights: Semivalue | None = None,
        outputs: Outputs = "auto",
        total: Total = "efficient",
        method: Literal["network", "auto"] = "network",
    ) -> Explanation:
        """Explain inputs as shap's explainers do; values are shifted to add up to the surrogate's prediction."""
        schema = self.fitted_.schema
        data = None if self.fitted_.players.is_image else x
        if schema is not None and schema.is_frame and isinstance(x, pd.DataFrame):
            data = schema.select_columns(x)
        return to_shap(self.explain(x, weights=weights, outputs=outputs, total=total, method=method), data=data)

    def attribute(
        self,
        inputs: Array,
        target: int | Int[Tensor, " batch"] | None = None,
        *,
        weights: Semivalue | None = None,
        total: Total | Literal["auto"] = "auto",
    ) -> Float[Tensor, "batch ..."]:
        """Explain inputs as captum's methods do: a tensor of their shape, with the player's value at each position.

        Images get an axis for the batch and channels first, if they are passed in another form.

        Args:
            inputs: a batch.
            target: number of the output to explain, or one per input; None if there is only one.
            weights: as in `explain`.
            total: as in `explain`.
        """
        fitted = self.fitted_
        fitted.check_same_players("attribute")
        targets = choose_targets(target, len(fitted.check_inputs(inputs)), len(fitted.output_names))
        return spread_over_inputs(self.explain(inputs, weights=weights, outputs=targets, total=total))


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
