"""Checks of what an explainer is given: inputs, a model, outputs to explain, a device."""

from __future__ import annotations

import copy
import math
import os
import textwrap
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from fwshapley._internal.checks import Array
from fwshapley._internal.tensors import as_tensor, to_precision
from fwshapley.explanation.black_box import BlackBox, as_held, ask_outputs, find_function, find_output, sum_to_one
from fwshapley.explanation.surrogate import as_columns
from fwshapley.games.masked_model import KINDS, Output
from fwshapley.tables.encoding import Form
from fwshapley.training.budget import Budget

VALIDATION_SHARE, MOST_HELD_OUT = 0.1, 512
MOST_NAMED = 12
MOST_LETTERS = 100
"""Of another library's message, in ours."""

Outputs = str | Sequence[int] | Sequence[str] | Int[Tensor, "batch outputs"]
"""Which outputs to explain: "all", "predicted", names or numbers of some, or numbers for each input."""


def check_budget(budget: object) -> None:
    """Raise an error that shows a budget unless it is one."""
    if not isinstance(budget, Budget):
        raise TypeError(f"budget must be a Budget, e.g. Budget(seconds=60), got {budget!r}")


def check_inputs(x: Array, name: str = "inputs", form: Form | None = None) -> Float[Tensor, "batch ..."]:
    """Return a batch of inputs in float32, or say which of them cannot be used."""
    inputs = as_inputs(x, name, form)
    check_finite(inputs, form)
    return inputs


def as_inputs(x: Array, name: str = "inputs", form: Form | None = None) -> Float[Tensor, "batch ..."]:
    """Return a batch of inputs in float32 whose numbers have not been looked at.

    Args:
        x: an array or a DataFrame.
        name: what to call it in errors.
        form: of the table; without, a DataFrame is taken as an array.
    """
    if isinstance(x, pd.Series):
        raise TypeError(f"{name} must be a batch, and a Series is one row or column: keep a row as frame.iloc[[0]]")
    if form is not None and form.frame:
        inputs = form.encode(x)
    else:
        try:
            plain = np.asarray(x) if isinstance(x, list | tuple) else x  # torch would round lists to single precision
            numbers = as_tensor(plain).detach()
        except (TypeError, ValueError, RuntimeError) as error:
            kind = type(x).__name__
            raise TypeError(f"{name} must be an array or tensor of numbers, got {kind} ({error})") from error
        inputs = to_precision(numbers, torch.float32) if form is None else form.encode(numbers)
    if inputs.ndim < 2 or not len(inputs):  # noqa: PLR2004 - rows and columns
        shape = tuple(inputs.shape)
        raise ValueError(f"{name} must be a batch of at least one input (labels are not needed), got shape {shape}")
    return inputs


def check_finite(inputs: Float[Tensor, "batch ..."], form: Form | None = None) -> None:
    """Raise an error that names the first input with a value that is no number; waits for the inputs' device."""
    finite = inputs.isfinite()
    if form is not None and any(form.kinds.gaps):
        finite |= inputs.isnan() & torch.tensor(form.kinds.gaps, device=inputs.device)
    if not bool(finite.all()):
        row, count = int((~finite).flatten(1).any(1).nonzero()[0]), int((~finite).sum())
        missing = bool(inputs[row].isnan().any())
        kind = "NaN or infinite values" if missing else "infinite values, or numbers that overflow float32"
        raise ValueError(f"input {row} holds {kind} ({count} in all); mend them first")


def check_explained(values: Float[Tensor, "weights batch players outputs"], inputs: Float[Tensor, "batch ..."]) -> None:
    """Raise an error that names the first input whose values are not finite; waits for the values' device."""
    if not bool(values.isfinite().all()):
        row = int((~values.isfinite()).any(-1).any(-1).any(0).nonzero()[0])
        largest = float(inputs[row].abs().nan_to_num().max())
        raise ValueError(
            f"the values of input {row} are not finite: it holds numbers up to {largest:.3g}, too large for float32 or "
            "far beyond those that the explainer was fitted with"
        )


def hold_out(x: Float[Tensor, "rows ..."], seed: int) -> tuple[Float[Tensor, "train ..."], Float[Tensor, "valid ..."]]:
    """Divide inputs at random into those to train on and a tenth, at most 512, to validate on."""
    held_out = min(math.ceil(VALIDATION_SHARE * len(x)), MOST_HELD_OUT)
    if held_out == len(x):
        raise ValueError(f"{len(x)} inputs are too few to hold some out; pass x_valid=...")
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed)).to(x.device)
    return x[order[held_out:]], x[order[:held_out]]


def find_model(
    model: Any,  # noqa: ANN401 - as `FeatureExplainer` takes it
    x: Float[Tensor, "some ..."],
    output: Output | Literal["auto"],
    names: tuple[str, ...] | None,
    *,
    form: Form | None,
) -> tuple[nn.Module, Output, tuple[str, ...]]:
    """Return what is explained as a frozen module, how its outputs are read, and their names.

    Args:
        model: a module, which is copied, or a function or an estimator, which is asked as it is.
        x: some inputs, where the model is to be.
        output: what was asked for.
        names: of the outputs, if they were given.
        form: of the table.
    """
    if isinstance(model, nn.Module):
        frozen: nn.Module = copy.deepcopy(model).to(x.device).eval().requires_grad_(requires_grad=False)
        found: Output = "probability" if output == "auto" else output
    else:
        asked = find_function(model)
        answers = ask_outputs(asked.ask, as_held(x, form), len(x))
        found = find_output(answers, output, probabilities=asked.probabilities)
        frozen, names = BlackBox(asked.ask, KINDS[found], form), names or asked.names
    count = check_model(frozen, x, found, names)
    return frozen, found, names or tuple(f"output {number}" for number in range(count))


def check_model(
    model: nn.Module, x: Float[Tensor, "batch ..."], output: Output, output_names: Sequence[str] | None
) -> int:
    """Return how many outputs the model has on some inputs, or raise if they are not what `output` says."""
    try:
        with torch.no_grad():
            raw = model(x)
    except (RuntimeError, IndexError) as error:
        shape = tuple(x.shape)
        raise ValueError(f"the model cannot be run on float32 inputs of shape {shape}: {error}") from error
    if not isinstance(raw, Tensor) or raw.ndim not in (1, 2) or len(raw) != len(x):
        found = tuple(raw.shape) if isinstance(raw, Tensor) else type(raw).__name__
        raise ValueError(f"the model must return (batch, outputs), it returned {found} for {len(x)} inputs")
    if raw.is_complex():
        raise ValueError("the model must return real numbers, it returned complex ones")
    if not bool(raw.isfinite().all()):
        raise ValueError("the model's outputs are not finite on the first inputs")
    out = as_columns(raw)
    count = out.shape[1]
    if output_names is not None and len(output_names) != count:
        raise ValueError(f"{len(output_names)} output names for a model of {count} outputs")
    if KINDS[output] == "classes" and count == 1:
        raise ValueError(
            "the model has one output, so there are no classes: use output='label probability' if it is the logit of a "
            "yes or no, output='raw' if it is a value"
        )
    if KINDS[output] == "classes" and not isinstance(model, BlackBox) and sum_to_one(out):
        raise ValueError("the model seems to return probabilities: let it return logits, or use output='raw'")
    return count


def choose_outputs(
    outputs: Outputs, batch: int, names: Sequence[str], output: Output
) -> Int[Tensor, "batch outputs"] | None:
    """Return the numbers of the outputs to explain for each input; None for the one that is predicted.

    Args:
        outputs: as `explain` takes them.
        batch: number of inputs.
        names: of all outputs.
        output: what they are.
    """
    count = len(names)
    if isinstance(outputs, str) and outputs in {"all", "predicted"}:
        if outputs == "all":
            return torch.arange(count).expand(batch, -1)
        if KINDS[output] != "classes" and count > 1:
            raise ValueError("outputs that are no classes are all predicted; name some, e.g. outputs=[0]")
        return None if count > 1 else torch.zeros(batch, 1, dtype=torch.long)
    given = _without_names([outputs] if isinstance(outputs, str) else outputs, names)
    try:
        numbers = torch.atleast_1d(torch.as_tensor(given))
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"outputs must be 'all', 'predicted', names or numbers of outputs, got {outputs!r}") from error
    numbers = numbers.expand(batch, -1) if numbers.ndim == 1 else numbers
    whole = not (numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool)
    if not whole or numbers.ndim != 2 or len(numbers) != batch or not numbers.numel():  # noqa: PLR2004 - a table
        raise ValueError(f"outputs must be 'all', 'predicted', a list of numbers, or ({batch}, ...) numbers")
    beyond = (numbers < 0) | (numbers >= count)
    if bool(beyond.any()):
        raise ValueError(f"outputs must be between 0 and {count - 1}, got {int(numbers[beyond][0])}")
    return numbers.long()


def _without_names(outputs: Array, names: Sequence[str]) -> Array:
    """Return outputs with numbers in place of names."""
    if not isinstance(outputs, (list, tuple)):
        return outputs
    unknown = [each for each in outputs if isinstance(each, str) and each not in names]
    if unknown:
        known = ", ".join(map(repr, names[:MOST_NAMED])) + " ..." * (len(names) > MOST_NAMED)
        raise ValueError(f"outputs must be 'all', 'predicted', or among {known}; got {unknown[0]!r}")
    return [names.index(each) if isinstance(each, str) else each for each in outputs]


def choose_device(device: str | torch.device) -> torch.device:
    """Return the device named; "auto" is CUDA where there is one."""
    if device == "auto":
        own = int(os.environ.get("LOCAL_RANK", "0"))  # of several processes, each has a GPU of its own
        return torch.device("cuda", own) if torch.cuda.is_available() else torch.device("cpu")
    try:
        chosen = torch.device(device)
        torch.ones(1, device=chosen).sum().item()
    except (RuntimeError, AssertionError, TypeError) as error:  # unknown, not there, or without numbers (meta)
        reason = textwrap.shorten(str(error).splitlines()[0].partition(". ")[0], MOST_LETTERS, placeholder=" ...")
        raise ValueError(f"device={str(device)!r} cannot be used ({reason}); pass 'auto', 'cpu' or 'cuda'") from error
    return chosen
