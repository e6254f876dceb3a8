"""Which outputs of a model are explained, by names or numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int64
from numpy import ndarray

from fwshapley._internal.checks import check_whole, shorten
from fwshapley._internal.wording import listed
from fwshapley.explanation.default_outputs import default_outputs

MAX_NAMED = 12
"""Outputs that an error lists."""


def choose_output_numbers(
    outputs: str | Sequence[int] | Sequence[str],
    names: Sequence[str],
    predictions: Float[ndarray, "batch outputs"],
    *,
    has_classes: bool,
    name: str = "outputs",
) -> Int64[ndarray, "batch some"]:
    """Return the numbers of the outputs to explain for each input.

    Args:
        outputs: as `ExportedExplainer.explain` takes them.
        names: of all outputs.
        predictions: for "predicted".
        has_classes: whether outputs are mutually exclusive classes.
        name: of the argument, for errors.
    """
    if isinstance(outputs, str) and outputs == "auto":
        outputs = default_outputs(len(names), are_classes=has_classes)
    if isinstance(outputs, str) and outputs == "predicted":
        if len(names) > 1 and not has_classes:
            raise ValueError(f"{name}='predicted' needs mutually exclusive classes; pass names or numbers of outputs")
        return predictions.argmax(1)[:, None].astype(np.int64)
    chosen: Any = [outputs] if isinstance(outputs, str) else outputs
    if isinstance(outputs, str) and outputs == "all":
        chosen = range(len(names))
    if not isinstance(chosen, Sequence | ndarray) or len(chosen) == 0:
        raise ValueError(f"{name} must be 'all', 'predicted', or names or numbers of some, got {shorten(outputs)}")
    numbers = [_find_output(output, names, name) for output in chosen]
    return np.broadcast_to(np.array(numbers, dtype=np.int64), (len(predictions), len(numbers)))


def _find_output(output: object, names: Sequence[str], name: str) -> int:
    """Return the number of an output that is given by name or number."""
    if isinstance(output, str):
        if output not in names:
            raise ValueError(
                f"{name} must be 'all', 'predicted', or among {listed(map(repr, names), MAX_NAMED)}; got {output!r}"
            )
        return names.index(output)
    number = check_whole(name, output, minimum=0)  # type: ignore[arg-type]  # or it raises
    if number >= len(names):
        raise ValueError(f"{name} must be between 0 and {len(names) - 1}, got {number}")
    return number
