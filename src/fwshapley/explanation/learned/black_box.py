"""A function or an estimator as a torch module, which training and games call."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Float64
from numpy.typing import NDArray
from torch import Tensor, nn

from fwshapley._internal.tensor_checks import to_precision
from fwshapley.explanation.inputs.image_layout import Layout, from_channels_first
from fwshapley.explanation.inputs.model_functions import (
    Function,
    ModelFunction,
    ask_function,
    call_function,
    describe_failure,
    describe_inputs,
    read_outputs,
)
from fwshapley.games.scales import Kind
from fwshapley.tables.network_encoding import TableSchema

MIN_PROBABILITY = 1e-7
MAX_MESSAGE = 120
"""Longest part of each of two messages of a function in ours."""


class InputForm(NamedTuple):
    """In which form a function gets inputs.

    Attributes:
        tensors: as torch tensors in single precision, on the device of the explainer, rather than as arrays.
        layout: of images.
    """

    tensors: bool = False
    layout: Layout = "NCHW"


class BlackBox(nn.Module):
    """A function as a module on tensors, without gradients. Probabilities are returned as logits.

    Args:
        function: from inputs in the user's form to outputs.
        kind: what it returns: probabilities of "classes" or of "labels", or "values".
        schema: of the table that it accepts; None for images, which it gets as an array.
        form: of the inputs that it gets.
    """

    def __init__(
        self,
        function: Function,
        kind: Kind,
        schema: TableSchema | None,
        form: InputForm = InputForm(),  # noqa: B008 - immutable
    ) -> None:
        super().__init__()
        self.function, self.kind, self.schema, self.form = function, kind, schema, form

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # it never changes, and the function may be large or remote

    def forward(self, x: Float[Tensor, "rows ..."]) -> Float[Tensor, "rows outputs"]:
        """Logits of probabilities, or values."""
        with torch.no_grad():
            called = call_function(self.function, decode_inputs(x, self.schema, self.form), len(x))
        outputs = torch.from_numpy(called)
        if self.kind == "values":
            return to_precision(outputs, torch.float32, "the model's output for input").to(x.device)
        outputs = outputs.to(x.device)
        if self.kind == "labels":
            return torch.logit(outputs, MIN_PROBABILITY).float()
        return outputs.clamp(MIN_PROBABILITY, 1).log().float()


def decode_inputs(
    x: Float[Tensor, "rows ..."],
    schema: TableSchema | None,
    form: InputForm = InputForm(),  # noqa: B008 - immutable
) -> pd.DataFrame | NDArray[Any] | Tensor:
    """Return a copy of inputs in the user's form, which a function may write to."""
    if form.tensors:
        tensor: Tensor = from_channels_first(x.detach().float().clone(), form.layout)
        return tensor
    if schema is not None:
        return schema.decode(x)
    return np.array(from_channels_first(x.detach().cpu().numpy(), form.layout))


def find_form(
    function: ModelFunction,
    x: Float[Tensor, "rows ..."],
    schema: TableSchema | None,
    layout: Layout = "NCHW",
) -> tuple[InputForm, Float64[NDArray[Any], "rows outputs"]]:
    """Return in which form a function gets inputs, and its outputs for some of them.

    A function is called with arrays or DataFrames. If it fails, and takes neither texts nor dates, it is called with
    tensors. The error says what was tried.

    Args:
        function: to call.
        x: some inputs, on the device of the explainer.
        schema: of a table.
        layout: of images.
    """
    plain = InputForm(tensors=False, layout=layout)
    decoded = decode_inputs(x, schema, plain)
    if function.is_estimator or (schema is not None and schema.is_frame):
        return plain, call_function(function.call, decoded, len(x))
    try:
        returned = ask_function(function.call, decoded)
    except ValueError as error:
        form = InputForm(tensors=True, layout=layout)
        tensors = decode_inputs(x, schema, form)
        try:
            with torch.no_grad():
                returned = function.call(tensors)
        except Exception as other:  # whatever a user's code may raise
            first = describe_failure(error.__cause__ or error, MAX_MESSAGE)
            second = describe_failure(other, MAX_MESSAGE)
            if first == second:
                raise error from other
            raise ValueError(
                f"the model failed on {describe_inputs(decoded)}: {first}; and on a float32 tensor on {x.device}: "
                f"{second}"
            ) from other
        return form, read_outputs(returned, len(x))
    return plain, read_outputs(returned, len(x))
