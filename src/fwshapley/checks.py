"""Checks of arguments, each with an error that says what was wrong and what is expected."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Sequence
from typing import Any, SupportsFloat, SupportsIndex

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = Tensor | NDArray[Any] | Sequence[Any] | pd.DataFrame
"""What is accepted where an array is: torch, numpy, lists or a DataFrame."""


def as_tensor(x: Array) -> Tensor:
    """Return an array as a tensor, without a copy where it can be."""
    if not isinstance(x, Tensor) and hasattr(x, "to_numpy"):
        x = x.to_numpy()
    if isinstance(x, np.ndarray) and not x.flags.writeable:  # as pandas hands them out; torch would warn
        x = x.copy()
    return torch.as_tensor(x)


def check_whole(name: str, value: SupportsIndex, minimum: int = 1) -> int:
    """Return value as an int of at least minimum, or raise an error that names it."""
    try:
        whole = operator.index(value)
    except TypeError as error:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from error
    if whole < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {whole}")
    return whole


def check_real(name: str, value: SupportsFloat) -> float:
    """Return value as a finite float, or raise an error that names it."""
    try:
        real = float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a number, got {value!r}") from error
    if not math.isfinite(real):
        raise ValueError(f"{name} must be finite, got {real}")
    return real


def closest(wanted: str, names: Sequence[str]) -> str | None:
    """Return the name that was probably meant, whatever its case."""
    lower = {name.lower(): name for name in names}
    found = difflib.get_close_matches(wanted.lower(), lower, n=1)
    return lower[found[0]] if found else None


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Raise an error that lists the choices, and names the likeliest, unless value is one of them."""
    if value not in choices:
        meant = closest(str(value), list(map(str, choices)))
        hint = f" (did you mean {meant!r}?)" if meant else ""
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}{hint}")


def check_flag(name: str, value: object) -> None:
    """Raise an error that names it unless value is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
