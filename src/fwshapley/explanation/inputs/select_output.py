"""A torch module that returns one entry of what another one returns."""

from __future__ import annotations

import copy
from itertools import chain

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fwshapley._internal.checks import check_kind
from fwshapley.explanation.inputs.returned_entries import Entry, take_entry


class SelectOutput(nn.Module):
    """A model that returns one entry of the dict, tuple or object that another one returns.

    Explainers find an entry "logits" themselves, or the only one that can be outputs; this is for models with several.

    Args:
        model: a torch module.
        entry: a key, a position, or the name of an attribute.

    Example:
        >>> class TwoHeads(torch.nn.Module):
        ...     def forward(self, x):
        ...         return {"color": x[:, :2], "shape": x[:, 1:]}
        >>> model = fw.explanation.SelectOutput(TwoHeads(), "color")
        >>> explainer = fw.FeatureExplainer(model, surrogate=None)
        >>> explainer = explainer.fit(torch.randn(50, 3), budget=fw.Budget(steps=3), progress=False)
        >>> len(explainer.output_names_)
        2
    """

    def __init__(self, model: nn.Module, entry: Entry) -> None:
        super().__init__()
        check_kind("model", model, nn.Module)
        if type(entry) not in (str, int):  # a flag is an integer
            raise TypeError(f"entry must be a key, a position or the name of an attribute, got {entry!r}")
        self.model, self.entry = model, entry

    def forward(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch outputs"]:
        """The entry of the model's outputs."""
        out: Tensor = take_entry(self.model(x), self.entry)
        return out


def select_output(model: nn.Module, entry: Entry | None) -> nn.Module:
    """Return a model that returns an entry alone; the model itself if there is none to select, or if it selects one."""
    return model if entry is None or isinstance(model, SelectOutput) else SelectOutput(model, entry)


def copy_in_single(model: nn.Module) -> nn.Module:
    """Return a copy of a module in single precision, in evaluation mode and without gradients.

    Weights in half precision are the same numbers in single precision.
    """
    if any(tensor.is_meta for tensor in chain(model.parameters(), model.buffers())):
        raise ValueError(
            f"the model, a {type(model).__name__}, has tensors on the meta device, which have no values; load its "
            "weights first"
        )
    copied = copy.deepcopy(model).float()
    return copied.eval().requires_grad_(requires_grad=False)


def precisions_of(model: nn.Module) -> str:
    """Names of the precisions of a module's weights, unless all are in single precision."""
    tensors = chain(model.parameters(), model.buffers())
    others = {tensor.dtype for tensor in tensors if tensor.is_floating_point()} - {torch.float32}
    return ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in others))
