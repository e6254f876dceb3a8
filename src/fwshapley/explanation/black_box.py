"""A function or an estimator as a torch module, which training and games call."""

from __future__ import annotations

from typing import Any, Self

import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from fwshapley._internal.tensor_checks import to_precision
from fwshapley.explanation.model_functions import Function, call_function
from fwshapley.games.scales import Kind
from fwshapley.tables.network_encoding import TableSchema

MIN_PROBABILITY = 1e-7


class BlackBox(nn.Module):
    """A function as a module on tensors, without gradients. Probabilities are returned as logits.

    Args:
        function: from inputs in the user's form to outputs.
        kind: what it returns: probabilities of "classes" or of "labels", or "values".
        schema: of the table that it accepts; None for images, which it gets as an array.
    """

    def __init__(self, function: Function, kind: Kind, schema: TableSchema | None) -> None:
        super().__init__()
        self.function, self.kind, self.schema = function, kind, schema

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # it never changes, and the function may be large or remote

    def forward(self, x: Float[Tensor, "rows ..."]) -> Float[Tensor, "rows outputs"]:
        """Logits of probabilities, or values."""
        outputs = torch.from_numpy(call_function(self.function, decode_inputs(x, self.schema), len(x)))
        if self.kind == "values":
            return to_precision(outputs, torch.float32, "the model's output for input").to(x.device)
        outputs = outputs.to(x.device)
        if self.kind == "labels":
            return torch.logit(outputs, MIN_PROBABILITY).float()
        return outputs.clamp(MIN_PROBABILITY, 1).log().float()


def decode_inputs(x: Float[Tensor, "rows ..."], schema: TableSchema | None) -> pd.DataFrame | NDArray[Any]:
    """Return a copy of inputs in the user's form, which a function may write to."""
    return x.detach().cpu().numpy().copy() if schema is None else schema.decode(x)
