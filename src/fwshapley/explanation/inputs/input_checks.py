"""Checks of what an explainer gets: inputs, a model, and outputs to explain."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from fwshapley._internal.checks import Array, check_kind, shorten
from fwshapley._internal.tensor_checks import as_tensor, to_precision
from fwshapley._internal.wording import listed
from fwshapley.explanation.inputs.image_layout import AXES, Layout
from fwshapley.explanation.inputs.input_reading import as_array
from fwshapley.explanation.inputs.model_functions import find_function, find_output, sum_to_one
from fwshapley.explanation.inputs.predictions import as_columns, evaluation_mode, split_inputs
from fwshapley.explanation.inputs.returned_entries import find_entry
from fwshapley.explanation.inputs.select_output import copy_in_single, precisions_of, select_output
from fwshapley.explanation.learned.black_box import BlackBox, find_form
from fwshapley.games.scales import KINDS, Output
from fwshapley.tables.network_encoding import TableSchema

VALIDATION_SHARE = 0.1
MAX_VALIDATION_ROWS = 512
LARGE_BYTES = 2**30
"""Size of inputs from which on a second copy is worth avoiding."""

MAX_NAMES = 12
MAX_MESSAGE = 200
"""Longest part of a model's own message in ours."""

TABLE_AXES = 2

Outputs = str | Sequence[int] | Sequence[str] | Int[Tensor, "batch outputs"]
"""Which outputs to explain: "auto", "all", "predicted", names or numbers of some, or numbers for each input."""

Augment = Callable[[Tensor, torch.Generator], Tensor]
"""Changes a batch of inputs at random, e.g. flips images: (inputs, generator) -> inputs of the same shape."""


def is_table(x: Array) -> bool:
    """Whether x has two axes, rows and columns."""
    return len(getattr(x, "shape", ())) == TABLE_AXES


def check_inputs(
    x: Array, name: str = "inputs", schema: TableSchema | None = None, *, finite: bool = True
) -> Float[Tensor, "batch ..."]:
    """Return a batch of inputs as a tensor, or raise an error that names the first input that cannot be used.

    Args:
        x: an array or a DataFrame.
        name: of the argument, for errors.
        schema: of the table; without one, a DataFrame is taken as an array, and tensors are in float32.
        finite: check that numbers are finite, which waits for the inputs' device.
    """
    if isinstance(x, pd.Series):
        raise TypeError(f"{name} must be a batch, got a Series; pass one row as a table, e.g. frame.iloc[[0]]")
    if schema is not None and schema.is_frame:
        inputs = schema.encode(x)
    else:
        try:
            numbers = as_tensor(as_array(x, name)).detach()
        except (TypeError, ValueError, RuntimeError) as error:
            kind = type(x).__name__
            raise TypeError(f"{name} must be an array or tensor of numbers, got {kind} ({error})") from error
        if numbers.is_meta:
            raise ValueError(f"{name} must contain numbers, got a tensor on the meta device, which has none")
        inputs = to_precision(numbers, torch.float32) if schema is None else schema.encode(numbers)
    if inputs.ndim < TABLE_AXES or not len(inputs):
        shape = tuple(inputs.shape)
        raise ValueError(f"{name} must be a batch of at least one input, got shape {shape}; pass inputs without labels")
    if finite:
        check_finite_inputs(inputs, schema)
    return inputs


def check_finite_inputs(inputs: Float[Tensor, "batch ..."], schema: TableSchema | None = None) -> None:
    """Raise an error that names the first input with a number that is not finite; waits for the inputs' device."""

    def mark_usable_numbers(some: Tensor) -> Tensor:
        if schema is None or not any(schema.kinds.gaps):
            return some.isfinite()
        return some.isfinite() | (some.isnan() & torch.tensor(schema.kinds.gaps, device=some.device))

    if not all(bool(mark_usable_numbers(some).all()) for some in split_inputs(inputs)):  # all at once take memory
        usable = mark_usable_numbers(inputs)
        row = int((~usable).flatten(1).any(1).nonzero()[0])
        kind = "NaN or infinite values"
        if not bool(inputs[row].isnan().any()):
            kind = "infinite values, or numbers that overflow float32"
        raise ValueError(f"input {row} contains {kind} ({int((~usable).sum())} in all); replace them first")


def check_finite_values(
    values: Float[Tensor, "weights batch players outputs"], inputs: Float[Tensor, "batch ..."]
) -> None:
    """Raise an error that names the first input whose values are not finite; waits for the values' device."""
    if not bool(values.isfinite().all()):
        row = int((~values.isfinite()).any(-1).any(-1).any(0).nonzero()[0])
        largest = float(inputs[row].abs().nan_to_num().max())
        raise ValueError(
            f"the values of input {row} are not finite: it contains numbers up to {largest:.3g}, too large for "
            "float32 or far outside the range of the training data"
        )


def check_examples(name: str, x: Tensor, *, missing: bool = False) -> Float[Tensor, "rows ..."]:
    """Return a tensor of inputs, or raise an error that names the argument.

    Args:
        name: of the argument.
        x: inputs.
        missing: accept NaN.
    """
    check_kind(name, x, Tensor)
    if not x.is_floating_point() or x.ndim < TABLE_AXES or not len(x):
        raise TypeError(f"{name} must be a batch of real numbers, got {x.dtype} of shape {tuple(x.shape)}")
    usable = (some.isfinite() | (some.isnan() & missing) for some in split_inputs(x))
    if not all(bool(some.all()) for some in usable):
        raise ValueError(f"{name} contains NaN or infinite values; replace them first")
    return x


def hold_out(
    x: Float[Tensor, "rows ..."], seed: int, *, owned: bool = False
) -> tuple[Float[Tensor, "train ..."], Float[Tensor, "valid ..."]]:
    """Split inputs at random into training inputs and a tenth, at most 512, for validation.

    Args:
        x: inputs.
        seed: of the split.
        owned: whether nobody else has the inputs. Large ones are then split in their own memory.
    """
    count = min(math.ceil(VALIDATION_SHARE * len(x)), MAX_VALIDATION_ROWS)
    if count == len(x):
        raise ValueError(f"{len(x)} inputs are too few to hold some out for validation; pass x_valid=...")
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    if owned and x.nbytes >= LARGE_BYTES:
        permute_rows(x.numpy(), order.numpy())
        return x[count:], x[:count]
    order = order.to(x.device)
    return x[order[count:]], x[order[:count]]


def permute_rows(x: NDArray[Any], order: NDArray[np.int64]) -> None:
    """Replace an array by x[order] in place, with the memory of one more row.

    Args:
        x: of any shape.
        order: a permutation of its rows.
    """
    done = np.zeros(len(x), bool)
    for start in range(len(x)):
        if done[start]:
            continue
        first = x[start].copy()
        row, source = start, order[start]
        while source != start:  # along a cycle of the permutation
            x[row] = x[source]
            done[row] = True
            row, source = source, order[source]
        x[row] = first
        done[row] = True


def freeze_model(
    model: Any,  # noqa: ANN401 - any model
    x: Float[Tensor, "some ..."],
    output: Output | Literal["auto"],
    names: tuple[str, ...] | None,
    schema: TableSchema | None,
    *,
    layout: Layout = "NCHW",
) -> tuple[nn.Module, Output, tuple[str, ...]]:
    """Return a model as a frozen module, what its outputs mean, and their names.

    Args:
        model: a module, of which a copy is returned, or a function or estimator, which is wrapped.
        x: some inputs, on the device where the model is to run.
        output: scale of the values; "auto" is the probability of a module's classes, and detected otherwise.
        names: of the outputs; None is those of an estimator's classes, or numbers.
        schema: of the table.
        layout: of the images that a function gets.
    """
    if isinstance(model, nn.Module):
        frozen = freeze_module(model, x, layout)
        meaning: Output = "probability" if output == "auto" else output
    else:
        function = find_function(model)
        form, outputs = find_form(function, x, schema, layout)
        meaning = find_output(outputs, output, probabilities=function.probabilities)
        frozen = BlackBox(function.call, KINDS[meaning], schema, form)
        names = function.names if names is None else names
    count = check_model(frozen, x, meaning, names)
    return frozen, meaning, tuple(f"output {number}" for number in range(count)) if names is None else names


def freeze_module(model: nn.Module, x: Float[Tensor, "some ..."], layout: Layout = "NCHW") -> nn.Module:
    """Return a copy of a module in single precision that returns its outputs alone, on the device of some inputs.

    Args:
        model: a module, which is not changed.
        x: some inputs, with channels first.
        layout: in which images were passed, for errors.
    """
    frozen = copy_in_single(model).to(x.device)
    precisions = precisions_of(model)
    note = f" (a copy in float32 was called; the model has {precisions} weights)" if precisions else ""
    if layout != "NCHW":
        note += f" (images were passed as {AXES[layout]}; a torch module gets channels first)"
    return select_output(frozen, find_entry(_call(frozen, x, note), len(x)))


def check_model(
    model: nn.Module, x: Float[Tensor, "batch ..."], output: Output, output_names: Sequence[str] | None = None
) -> int:
    """Return the number of outputs of a model, or raise an error if its outputs are not what `output` says."""
    outputs = run_model(model, x)
    count = outputs.shape[1]
    if output_names is not None and len(output_names) != count:
        raise ValueError(f"output_names has {len(output_names)} names for a model of {count} outputs")
    if KINDS[output] == "classes" and count == 1:
        raise ValueError(
            f"output={output!r} needs several classes, and the model has one output; pass output='label_probability' "
            "if it is the logit of a yes/no label, or output='raw' if it is a value"
        )
    if KINDS[output] == "classes" and not isinstance(model, BlackBox) and sum_to_one(outputs):
        raise ValueError("the model seems to return probabilities; let it return logits, or pass output='raw'")
    return count


def run_model(model: nn.Module, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch outputs"]:
    """Return a model's outputs, or raise a ValueError that says why they cannot be used."""
    outputs = _call(model, x)
    if not isinstance(outputs, Tensor) or outputs.ndim not in (1, TABLE_AXES) or len(outputs) != len(x):
        result = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ValueError(f"the model must return (batch, outputs), it returned {result} for {len(x)} inputs")
    if outputs.is_complex():
        raise ValueError("the model must return real numbers, it returned complex ones")
    if not bool(outputs.isfinite().all()):
        raise ValueError("the model's outputs are not finite on the first inputs")
    return as_columns(outputs)


def _call(model: nn.Module, x: Float[Tensor, "batch ..."], note: str = "") -> Any:  # noqa: ANN401 - whatever a user's model returns
    """Return what a model returns, or raise an error with the shape of its inputs and a note."""
    try:
        with evaluation_mode(model), torch.no_grad():
            return model(x)
    except Exception as error:  # whatever a user's model may raise
        if isinstance(model, BlackBox):  # its own errors are clear
            raise
        kind = str(x.dtype).removeprefix("torch.")
        reason = textwrap.shorten(str(error), MAX_MESSAGE, placeholder=" ...")
        raise ValueError(
            f"the model failed on {kind} inputs of shape {tuple(x.shape)}: {type(error).__name__}: {reason}{note}"
        ) from error


def choose_outputs(
    outputs: Outputs, batch: int, names: Sequence[str], output: Output
) -> Int[Tensor, "batch outputs"] | None:
    """Return the numbers of the outputs to explain for each input; None for the predicted one.

    Args:
        outputs: as `explain` takes them.
        batch: number of inputs.
        names: of all outputs.
        output: what the outputs mean.
    """
    count = len(names)
    if isinstance(outputs, str) and outputs == "all":
        return torch.arange(count).expand(batch, -1)
    if isinstance(outputs, str) and outputs == "predicted":
        if KINDS[output] != "classes" and count > 1:
            raise ValueError(
                f"outputs='predicted' needs mutually exclusive classes, and output={output!r} has none; pass numbers "
                "or names of outputs, e.g. outputs=[0]"
            )
        return None if count > 1 else torch.zeros(batch, 1, dtype=torch.long)
    accepted = f"'all', 'predicted', names or numbers of outputs, or numbers of shape ({batch}, n)"
    chosen = _numbers_of_names(outputs, names)
    try:
        numbers = torch.atleast_1d(torch.as_tensor(chosen))
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(f"outputs must be {accepted}, got {shorten(outputs)}") from error
    numbers = numbers.expand(batch, -1) if numbers.ndim == 1 else numbers
    is_whole = not (numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool)
    if not is_whole or numbers.ndim != TABLE_AXES or len(numbers) != batch or not numbers.numel():
        raise ValueError(f"outputs must be {accepted}, got {numbers.dtype} of shape {tuple(numbers.shape)}")
    wrong = (numbers < 0) | (numbers >= count)
    if bool(wrong.any()):
        raise ValueError(f"outputs must be between 0 and {count - 1}, got {int(numbers[wrong][0])}")
    return numbers.long()


def _numbers_of_names(outputs: Array, names: Sequence[str]) -> Array:
    """Return outputs with numbers in place of names."""
    chosen = [outputs] if isinstance(outputs, str) else outputs
    if not isinstance(chosen, list | tuple):
        return chosen
    unknown = [name for name in chosen if isinstance(name, str) and name not in names]
    if unknown:
        available = listed(map(repr, names), MAX_NAMES)
        raise ValueError(f"outputs must be 'all', 'predicted', or among {available}; got {unknown[0]!r}")
    return [names.index(name) if isinstance(name, str) else name for name in chosen]
