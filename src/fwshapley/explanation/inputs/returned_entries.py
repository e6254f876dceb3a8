"""Which of several things that a model returns are its outputs. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fwshapley._internal.arrays import is_tensor
from fwshapley._internal.wording import listed_whole

Entry = str | int
"""A key of a dict, a position in a tuple, or the name of an attribute."""

LOGITS = "logits"
OUTPUT_AXES = (1, 2)
"""Axes of outputs: one number per row, or several."""


def list_entries(returned: Any) -> dict[Entry, Any] | None:  # noqa: ANN401 - whatever a model returned
    """Return what a dict, a tuple or an object with attributes contains; None for an array, a tensor or a number."""
    if is_tensor(returned) or hasattr(returned, "dtype") or hasattr(returned, "to_numpy"):
        return None
    if isinstance(returned, Mapping):
        return dict(returned)
    if hasattr(returned, LOGITS):
        return {LOGITS: getattr(returned, LOGITS)}
    if isinstance(returned, tuple) or (isinstance(returned, list) and any(map(is_tensor, returned))):
        return dict(enumerate(returned)) if any(np.ndim(entry) for entry in returned if _is_array(entry)) else None
    return None


def find_entry(returned: Any, rows: int) -> Entry | None:  # noqa: ANN401 - whatever a model returned
    """Return which entry of what a model returned are its outputs; None if it returned nothing else.

    That is "logits" if there is such an entry, else the only one of shape (rows,) or (rows, outputs).

    Args:
        returned: by the model.
        rows: inputs that it got.
    """
    entries = list_entries(returned)
    if entries is None:
        return None
    if entries.get(LOGITS) is not None:
        return LOGITS
    fitting = [name for name, entry in entries.items() if _is_output(entry, rows)]
    if len(fitting) == 1:
        return fitting[0]
    found = listed_whole(f"{name!r} {_describe(entry)}" for name, entry in entries.items())
    kind = type(returned).__name__
    raise ValueError(
        f"the model returned a {kind} with {found or 'no entries'}, and {'several' if fitting else 'none'} of them can "
        f"be its outputs, (batch,) or (batch, outputs); pass {_advice(fitting or list(entries))}"
    )


def take_entry(returned: Any, entry: Entry | None) -> Any:  # noqa: ANN401 - whatever a model returned
    """Return one entry of what a model returned, or all of it if there is no entry to take."""
    if entry is None:
        return returned
    try:
        if isinstance(returned, Mapping) or not isinstance(entry, str):
            return returned[entry]
        return getattr(returned, entry)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        names = listed_whole(map(repr, list_entries(returned) or {})) or "none"
        raise ValueError(f"the model returned a {type(returned).__name__} without {entry!r}; it has {names}") from error


def _is_array(entry: Any) -> bool:  # noqa: ANN401 - anything
    return is_tensor(entry) or hasattr(entry, "dtype")


def _is_output(entry: Any, rows: int) -> bool:  # noqa: ANN401 - anything
    return _is_array(entry) and len(entry.shape) in OUTPUT_AXES and entry.shape[0] == rows


def _describe(entry: Any) -> str:  # noqa: ANN401 - anything
    return str(tuple(entry.shape)) if _is_array(entry) else type(entry).__name__


def _advice(entries: list[Entry]) -> str:
    """Return how to say which entry is meant."""
    entry = entries[0] if entries else LOGITS
    return f"fw.explanation.SelectOutput(model, {entry!r}) for a torch module, or a function that returns one of them"
