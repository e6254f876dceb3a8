"""Functions and scikit-learn's estimators as models, called with the user's own tables. Nothing here imports torch."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from fwshapley._internal.arrays import to_numpy
from fwshapley._internal.checks import Array, shorten
from fwshapley._internal.wording import listed
from fwshapley.explanation.inputs.returned_entries import find_entry, take_entry
from fwshapley.games.scales import KINDS, Output

Function = Callable[[Any], Any]
"""From inputs in the user's form, an array or a DataFrame, to outputs (rows,) or (rows, outputs)."""

TOLERANCE_OF_SUM = 1e-3
ABOUT_TYPES = ("dtype", "categor", "could not convert", "to float")
"""Words in errors of models that were trained on other types of columns."""

MAX_MESSAGE = 200
"""Longest part of a model's own message in ours."""


def call_function(function: Function, inputs: Any, rows: int) -> Float64[ndarray, "{rows} outputs"]:  # noqa: ANN401 - a user's table
    """Return a function's outputs as (rows, outputs), or raise an error that says what is wrong with them."""
    return read_outputs(ask_function(function, inputs), rows)


def ask_function(function: Function, inputs: Any) -> Any:  # noqa: ANN401 - as users have them
    """Return what a function returns, or raise an error with the shape of its inputs."""
    try:
        return function(inputs)
    except Exception as error:  # whatever a user's code may raise
        raise ValueError(
            f"the model failed on {describe_inputs(inputs)}: {describe_failure(error)}{_about_texts(inputs, error)}"
        ) from error


def describe_inputs(inputs: Any) -> str:  # noqa: ANN401 - as users have them
    """Return the type and shape of inputs in words."""
    return f"a {type(inputs).__name__} of shape {tuple(np.shape(inputs))}"


def describe_failure(error: BaseException, most: int = MAX_MESSAGE) -> str:
    """Return what a user's code raised, its message cut to a length."""
    return f"{type(error).__name__}: {textwrap.shorten(str(error), most, placeholder=' ...').rstrip('.')}"


def read_outputs(returned: Any, rows: int) -> Float64[ndarray, "{rows} outputs"]:  # noqa: ANN401 - whatever a function returned
    """Return outputs as (rows, outputs), or raise an error that says what is wrong with them."""
    returned = take_entry(returned, find_entry(returned, rows))
    if isinstance(returned, list) and returned and all(np.ndim(part) == 2 for part in returned):  # noqa: PLR2004 - rows and classes
        returned = _probabilities_of_labels(returned)
    try:
        outputs = _to_numbers(returned)
    except (TypeError, ValueError) as error:
        kind = type(returned).__name__
        raise ValueError(f"the model must return numbers, (rows,) or (rows, outputs), got {kind} ({error})") from error
    outputs = outputs[:, None] if outputs.ndim == 1 else outputs
    if outputs.ndim != 2 or len(outputs) != rows or not outputs.shape[1]:  # noqa: PLR2004 - rows and outputs
        shape = tuple(outputs.shape)
        raise ValueError(f"the model must return (rows, outputs), it returned {shape} for {rows} inputs")
    if not np.isfinite(outputs).all():
        raise ValueError("the model's outputs are not finite")
    return outputs


def _about_texts(inputs: Any, error: Exception) -> str:  # noqa: ANN401 - a user's table
    """Return advice if a model failed on a DataFrame of texts, and its message is about types; otherwise nothing."""
    if not hasattr(inputs, "dtypes") or not any(word in str(error).lower() for word in ABOUT_TYPES):
        return ""
    texts = [name for name, dtype in inputs.dtypes.items() if dtype.kind == "O" and dtype.name != "category"]
    if not texts:
        return ""
    dtypes = f"{{{texts[0]!r}: train[{texts[0]!r}].dtype}}"
    return (
        f". Columns of text: {listed(texts)}. If the model was trained on another dtype, such as category, pass "
        f"a function that converts them first: lambda x: model.predict(x.astype({dtypes}))"
    )


def _to_numbers(returned: Any) -> Float64[ndarray, "*shape"]:  # noqa: ANN401 - whatever a function returned
    array = to_numpy(returned)
    if array.dtype.kind == "c":
        raise TypeError("complex numbers, whose imaginary part would be lost")
    if array.dtype.kind in "US":
        raise TypeError("text, which numpy would read numbers from")
    return array.astype(np.float64)


def _probabilities_of_labels(parts: Iterable[Any]) -> ndarray:
    """Return the probability of "yes" of each label, from the list of (no, yes) that scikit-learn's forests return."""
    tables = [np.asarray(part) for part in parts]
    if any(table.shape[1] != 2 for table in tables):  # noqa: PLR2004 - no and yes
        counts = ", ".join(str(table.shape[1]) for table in tables)
        raise ValueError(
            f"the model returns a list of {counts} class probabilities for {len(tables)} targets, and only targets of "
            "two classes can be explained as labels; pass a function that returns (rows, outputs)"
        )
    return np.stack([table[:, 1] for table in tables], 1)


class ModelFunction(NamedTuple):
    """How to call a model that is not a torch module.

    Attributes:
        call: the function.
        probabilities: whether it is known to return probabilities.
        names: of its classes, if it has any.
        is_estimator: whether it is a method of an estimator, which takes arrays or DataFrames.
    """

    call: Function
    probabilities: bool
    names: tuple[str, ...] | None
    is_estimator: bool = True


def find_function(model: Any) -> ModelFunction:  # noqa: ANN401 - anything
    """Return how to call an estimator or a function, or raise a TypeError that says what a model is."""
    expected = "model must be a torch module, a function, or a fitted estimator with predict_proba or predict"
    if isinstance(model, type):
        raise TypeError(f"{expected}, got the class {model.__name__}; pass an instance")
    classes = getattr(model, "classes_", None)
    if hasattr(model, "predict_proba"):
        return ModelFunction(model.predict_proba, probabilities=True, names=_class_names(classes))
    if hasattr(model, "predict"):
        if classes is not None:
            raise TypeError(
                f"{type(model).__name__} has no predict_proba; wrap it, e.g. in scikit-learn's CalibratedClassifierCV, "
                "or pass a function of its scores with output='raw'"
            )
        return ModelFunction(model.predict, probabilities=False, names=None)
    if callable(model):
        return ModelFunction(model, probabilities=False, names=None, is_estimator=False)
    raise TypeError(f"{expected}, got {shorten(model)}")


def find_output(outputs: Array, output: Output | Literal["auto"], *, probabilities: bool) -> Output:
    """Return the scale of the values, or raise a ValueError if a function's outputs do not allow the requested one.

    Args:
        outputs: (rows, outputs), of the function.
        output: requested; "auto" recognizes probabilities of classes or labels; anything else counts as values.
        probabilities: whether the function is known to return probabilities.
    """
    is_distribution = sum_to_one(outputs)
    in_range = is_distribution or bool(((outputs >= 0) & (outputs <= 1)).all())
    if output == "auto":
        return "probability" if is_distribution else "label_probability" if probabilities else "raw"
    if KINDS[output] == "classes" and not is_distribution:
        raise ValueError(
            f"output={output!r} needs class probabilities that sum to 1, and the model's outputs do not; pass "
            "output='raw', or 'label_probability' if each output is the probability of an independent label"
        )
    if KINDS[output] == "labels" and not in_range:
        raise ValueError(
            f"output={output!r} needs probabilities, and some outputs of the model are not between 0 and 1; pass "
            "output='raw'"
        )
    return output


def sum_to_one(outputs: Array) -> bool:
    """Return whether (rows, outputs) are probabilities of several classes: not negative, with a sum of 1."""
    near = bool((abs(outputs.sum(1) - 1) < TOLERANCE_OF_SUM).all())
    return near and outputs.shape[1] > 1 and bool((outputs >= 0).all())


def _class_names(classes: Any) -> tuple[str, ...] | None:  # noqa: ANN401 - as scikit-learn has it
    """Return names of classes; None for several targets, whose classes scikit-learn lists one by one."""
    if classes is None or (len(classes) and np.ndim(classes[0]) > 0):
        return None
    return tuple(map(str, classes))
