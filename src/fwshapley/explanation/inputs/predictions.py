"""Predictions of models and surrogates, computed in chunks that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from fwshapley.games.masked_model import MAX_ELEMENTS, most_elements
from fwshapley.games.scales import KINDS, Kind, Output

MAX_ROWS = 2048

PREDICTIONS: Mapping[Kind, Callable[[Tensor], Tensor]] = {
    "classes": lambda logits: logits.softmax(1),
    "labels": torch.sigmoid,
    "values": lambda values: values,
}
"""What a network's outputs predict: probabilities of classes or labels, or values."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of a model and of its surrogate from complete inputs: probabilities of classes or labels, or values.

    Attributes:
        model: of the model; None if it is not available.
        surrogate: of the surrogate, which is what gets explained.
        kind: what is predicted.

    Example:
        >>> model, surrogate = torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([[0.7, 0.3], [0.6, 0.4]])
        >>> fw.explanation.Predictions(model, surrogate, "classes").differ.tolist()
        [False, True]
    """

    model: Float[Tensor, "inputs outputs"] | None
    surrogate: Float[Tensor, "inputs outputs"]
    kind: Kind

    @property
    def differ(self) -> Bool[Tensor, " inputs"] | None:
        """Inputs for which the surrogate predicts another class or label than the model; None for values."""
        if self.model is None or self.kind == "values":
            return None
        return ~same_decisions(self.surrogate, self.model, self.kind).all(1)

    def to(self, device: torch.device | str) -> Predictions:
        """Return the predictions on a device."""
        return Predictions(None if self.model is None else self.model.to(device), self.surrogate.to(device), self.kind)

    def __str__(self) -> str:
        count, differ = len(self.surrogate), self.differ
        if differ is None:
            return f"predictions of {count:,} inputs"
        return f"surrogate and model predict different classes for {int(differ.sum()):,} of {count:,} inputs"


def same_decisions(
    one: Float[Tensor, "rows outputs"], other: Float[Tensor, "rows outputs"], kind: Literal["classes", "labels"]
) -> Bool[Tensor, "rows decisions"]:
    """Whether two predictions have the same most likely class, or the same value of each label."""
    if kind == "classes":
        return one.argmax(1, keepdim=True) == other.argmax(1, keepdim=True)
    return (one > 1 / 2) == (other > 1 / 2)


def predict(model: nn.Module, x: Float[Tensor, "rows ..."], output: Output) -> Float[Tensor, "rows outputs"]:
    """Predict from complete inputs: probabilities of classes or labels, or the model's raw outputs."""
    return PREDICTIONS[KINDS[output]](raw_outputs(model, x))


def raw_outputs(model: nn.Module, x: Float[Tensor, "rows ..."]) -> Float[Tensor, "rows outputs"]:
    """Outputs of a model for complete inputs: logits or values."""
    device = device_of(model)
    with evaluation_mode(model), torch.no_grad():
        return torch.cat([as_columns(model(rows.to(device))).float() for rows in split_inputs(x, most_elements(model))])


def surrogate_outputs(
    surrogate: nn.Module, x: Float[Tensor, "rows ..."], coalitions: Bool[Tensor, "rows players"]
) -> Float[Tensor, "rows outputs"]:
    """Outputs of a surrogate, logits or values, for one coalition of each input."""
    with torch.no_grad():
        chunks = split_inputs(x, most_elements(surrogate))
        pairs = zip(chunks, coalitions.split(len(chunks[0])), strict=True)
        return torch.cat([surrogate(rows, members).float() for rows, members in pairs])


def split_inputs(x: Float[Tensor, "rows ..."], most: int = MAX_ELEMENTS) -> tuple[Float[Tensor, "chunk ..."], ...]:
    """Split inputs into chunks of at most some numbers, which a network can process at once."""
    return x.split(max(1, min(MAX_ROWS, most // max(1, x[0].numel()))))


def as_columns(outputs: Tensor) -> Float[Tensor, "rows outputs"]:
    """Return outputs as (rows, outputs), also of a model that returns (rows,)."""
    return outputs[:, None] if outputs.ndim == 1 else outputs


def device_of(module: nn.Module) -> torch.device:
    """Return the device of a module's parameters or buffers; the CPU if it has neither."""
    return next((tensor.device for tensor in chain(module.parameters(), module.buffers())), torch.device("cpu"))


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put a model in evaluation mode for a while; one that is in it already is not touched, so threads can share it."""
    training = [module for module in model.modules() if module.training]
    if training:
        model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
