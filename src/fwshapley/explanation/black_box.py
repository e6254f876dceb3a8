"""Models that are no torch modules: functions and scikit-learn's estimators, asked as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from fwshapley._internal.tensors import as_tensor, to_precision
from fwshapley.games.masked_model import KINDS, Kind, Output
from fwshapley.tables.encoding import Form

Ask = Callable[[Any], Any]
"""From inputs as the user holds them, an array or a DataFrame, to outputs (rows,) or (rows, outputs)."""

NEARLY_ONE = 1e-3
SMALLEST_PROBABILITY = 1e-7


class BlackBox(nn.Module):
    """A function as a module on tensors; it has no gradients. Probabilities come out as logits.

    Args:
        ask: the function.
        kind: what it returns: probabilities of "classes" or of "labels", or "values".
        form: of the table that it takes; None for images, which it takes as an array.
    """

    def __init__(self, ask: Ask, kind: Kind, form: Form | None) -> None:
        super().__init__()
        self.ask, self.kind, self.form = ask, kind, form

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # nothing of it is ever changed, and what it asks may be large or far away

    def forward(self, x: Float[Tensor, "rows ..."]) -> Float[Tensor, "rows outputs"]:
        """Logits of probabilities, or values."""
        found = ask_outputs(self.ask, as_held(x, self.form), len(x))
        if self.kind == "values":
            return to_precision(found, torch.float32, "the model's output for input").to(x.device)
        found = found.to(x.device)
        certain = found.clamp(SMALLEST_PROBABILITY, 1)
        logits = certain.log() if self.kind == "classes" else torch.logit(found, SMALLEST_PROBABILITY)
        return logits.float()


def as_held(x: Float[Tensor, "rows ..."], form: Form | None) -> pd.DataFrame | NDArray[Any]:
    """Return inputs as the user holds them: a copy, which a function may write on."""
    return x.detach().cpu().numpy().copy() if form is None else form.decode(x)


def ask_outputs(ask: Ask, inputs: Any, rows: int) -> Float[Tensor, "{rows} outputs"]:  # noqa: ANN401 - a user's data
    """Return a function's outputs as (rows, outputs), or say what is wrong with it."""
    try:
        answer = ask(inputs)
    except Exception as error:  # whatever a stranger's code may raise
        kind, shape = type(inputs).__name__, tuple(np.shape(inputs))
        raise ValueError(f"the model failed on a {kind} of shape {shape}: {type(error).__name__}: {error}") from error
    if isinstance(answer, list) and answer and all(np.ndim(each) == 2 for each in answer):  # noqa: PLR2004 - a table
        answer = _yes_of_labels(answer)
    try:
        found = _as_numbers(answer)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the model must return numbers, (rows,) or (rows, outputs), got {type(answer).__name__} ({error})"
        ) from error
    found = found[:, None] if found.ndim == 1 else found
    if found.ndim != 2 or len(found) != rows or not found.shape[1]:  # noqa: PLR2004 - a table
        raise ValueError(f"the model must return (rows, outputs), it returned {tuple(found.shape)} for {rows} inputs")
    if not bool(found.isfinite().all()):
        raise ValueError("the model's outputs are not finite")
    return found


def _as_numbers(answer: Any) -> Tensor:  # noqa: ANN401 - whatever a function returned
    if isinstance(answer, Tensor):
        return as_tensor(answer).detach().cpu().double()
    plain = np.asarray(answer)
    if plain.dtype.kind == "c":
        raise TypeError("complex numbers, whose imaginary part would be lost")
    if plain.dtype.kind in "US":
        raise TypeError("text, which numpy would read numbers from")
    return torch.as_tensor(plain.astype(np.float64))


def _yes_of_labels(answers: list[Any]) -> NDArray[Any]:
    """Probability of yes for each of several labels, of which scikit-learn's forests list those of no and yes."""
    counts = [np.shape(each)[1] for each in answers]
    if set(counts) != {2}:
        raise ValueError(
            f"the model lists probabilities of {', '.join(map(str, counts))} classes for {len(answers)} targets, and "
            "only those of no and yes are labels: give a function that returns (rows, outputs)"
        )
    return np.stack([np.asarray(each)[:, 1] for each in answers], 1)


class Asked(NamedTuple):
    """What to ask of a model that is no torch module.

    Attributes:
        ask: the function.
        probabilities: whether it is known to return probabilities.
        names: of its classes, where it has some.
    """

    ask: Ask
    probabilities: bool
    names: tuple[str, ...] | None


def find_function(model: Any) -> Asked:  # noqa: ANN401 - anything
    """Return what to ask of an estimator or a function."""
    classes = getattr(model, "classes_", None)
    if hasattr(model, "predict_proba"):
        return Asked(model.predict_proba, probabilities=True, names=_names(classes))
    if hasattr(model, "predict"):
        if classes is not None:
            raise TypeError(
                f"{type(model).__name__} has no predict_proba: wrap it, e.g. in scikit-learn's CalibratedClassifierCV, "
                "or give a function of its scores with output='raw'"
            )
        return Asked(model.predict, probabilities=False, names=None)
    if callable(model):
        return Asked(model, probabilities=False, names=None)
    raise TypeError(
        "model must be a torch module, a function, or an estimator with predict_proba or predict as scikit-learn's; "
        f"got {type(model).__name__}"
    )


def find_output(
    found: Float[Tensor, "rows outputs"], output: Output | Literal["auto"], *, probabilities: bool
) -> Output:
    """Return what a coalition is worth: as asked for, if the outputs allow it.

    Args:
        found: outputs of the model.
        output: what was asked for; "auto" takes probabilities of classes or labels for such, all else for values.
        probabilities: whether outputs are known to be probabilities.
    """
    exclusive = sum_to_one(found)
    probable = exclusive or bool(((found >= 0) & (found <= 1)).all())
    if output == "auto":
        return "probability" if exclusive else "label probability" if probabilities else "raw"
    if KINDS[output] == "classes" and not exclusive:
        raise ValueError(
            f"output={output!r} needs class probabilities, whose sum is 1, and the model returns others: use "
            "output='raw', or 'label probability' where each output is the probability of a label of its own"
        )
    if KINDS[output] == "labels" and not probable:
        raise ValueError(f"output={output!r} needs probabilities, and the model returns others: use output='raw'")
    return output


def sum_to_one(found: Float[Tensor, "rows outputs"]) -> bool:
    """Return whether outputs are probabilities of classes: several, none negative, with a sum of 1 but for rounding."""
    sums = bool(((found.sum(1) - 1).abs() < NEARLY_ONE).all())
    return sums and found.shape[1] > 1 and bool((found >= 0).all())


def _names(classes: Any) -> tuple[str, ...] | None:  # noqa: ANN401 - as scikit-learn has it
    """Names of classes; None for several labels, which scikit-learn lists the classes of one by one."""
    if classes is None or (len(classes) and np.ndim(classes[0]) > 0):
        return None
    return tuple(map(str, classes))
