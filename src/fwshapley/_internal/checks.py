"""Checks of arguments, each with an error that says what was wrong and what is expected. Nothing here imports torch."""

from __future__ import annotations

import difflib
import math
import operator
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, SupportsFloat, SupportsIndex, TypeVar

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from fwshapley._internal.arrays import to_numpy

Array = Any
"""Whatever is accepted as an array: a torch tensor, a numpy array, a list, or a DataFrame."""

T = TypeVar("T")

MAX_SEED = 2**63 - 1
"""Largest seed of a torch generator."""


def check_numbers(name: str, values: Array) -> Float64[ndarray, "*shape"]:
    """Return values as a float64 array, or raise a TypeError that names them, also if they are complex or flags."""
    try:
        numbers = to_numpy(values)
        if numbers.dtype.kind not in "iuf":
            raise TypeError(f"got {numbers.dtype}")  # noqa: TRY301 - one error for all that cannot be converted
        return numbers.astype(np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TypeError(f"{name} must be an array of real numbers, got {shorten(values)}") from error


def check_names(name: str, values: Iterable[object]) -> tuple[str, ...]:
    """Return names as strings, or raise an error that names the argument unless they are a list of different names."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a list of names, got {shorten(values)}")
    listed = list(values)
    if any(value is None for value in listed):
        raise TypeError(f"{name} must be a list of names, got None at position {listed.index(None)}")
    names = tuple(map(str, listed))
    if len(set(names)) < len(names):
        repeated = Counter(names).most_common(1)[0][0]
        raise ValueError(f"{name} must be different from each other, but {repeated!r} occurs more than once")
    return names


def check_whole(name: str, value: SupportsIndex, minimum: int = 1) -> int:
    """Return value as an int of at least minimum, or raise an error that names it. True and False are refused."""
    try:
        whole = operator.index(value)
    except TypeError as error:
        raise TypeError(f"{name} must be a whole number, got {shorten(value)}") from error
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if whole < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {whole}")
    return whole


def check_path(name: str, value: str | os.PathLike[str]) -> Path:
    """Return a path, or raise an error that names the argument."""
    try:
        text = os.fspath(value)
    except TypeError as error:
        raise TypeError(f"{name} must be a path, got {shorten(value)}") from error
    if not text:
        raise ValueError(f"{name} must be a path, got an empty string")
    return Path(value)


def check_checkpoint(value: str | os.PathLike[str] | None, *, resume: bool) -> Path | None:
    """Return the path where a run is saved, if any, or raise an error if a run is to be resumed from nowhere."""
    check_flag("resume", resume)
    if value is not None:
        return check_path("checkpoint", value)
    if resume:
        raise ValueError("resume=True needs a checkpoint to continue from; pass checkpoint=...")
    return None


def check_seed(value: SupportsIndex) -> int:
    """Return a seed as an int that every random generator accepts, or raise an error."""
    seed = check_whole("seed", value, minimum=0)
    if seed > MAX_SEED:
        raise ValueError(f"seed must be at most {MAX_SEED}, got {seed}")
    return seed


def check_jobs(value: SupportsIndex | None) -> int | None:
    """Return a number of parallel jobs as joblib takes it (None, positive, or -1 for all cores), or raise an error."""
    if value is None:
        return None
    jobs = check_whole("n_jobs", value, minimum=-(2**31))
    if not jobs:
        raise ValueError("n_jobs must not be 0; use -1 for all cores, or None for the default")
    return jobs


def check_real(name: str, value: SupportsFloat) -> float:
    """Return value as a finite float, or raise an error that names it. Strings and flags are refused."""
    if isinstance(value, str | bytes | bool | np.bool_ | complex | np.complexfloating):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        real = float(value)
    except OverflowError as error:
        raise ValueError(f"{name} must be finite, got a whole number too large for a float") from error
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} must be a number, got {shorten(value)}") from error
    if not math.isfinite(real):
        raise ValueError(f"{name} must be finite, got {real}")
    return real


def check_kind(name: str, value: object, kind: type) -> None:
    """Raise a TypeError that names the argument unless value is an instance of kind."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, got {shorten(value)}")


def check_callable(name: str, value: object) -> None:
    """Raise a TypeError that names the argument unless value is callable."""
    if not callable(value):
        raise TypeError(f"{name} must be a function, got {shorten(value)}")


def check_list(name: str, values: Iterable[T]) -> list[T]:
    """Return values as a list, or raise a TypeError that names them, also if they are a string or a mapping."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a list, got {shorten(values)}")
    return list(values)


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Raise a ValueError that lists the choices, and suggests the most similar one, unless value is among them."""
    if value not in choices:
        similar = find_closest(str(value), list(map(str, choices)))
        hint = f" (did you mean {similar!r}?)" if similar else ""
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {shorten(value)}{hint}")


def check_flag(name: str, value: object) -> None:
    """Raise a TypeError that names the argument unless value is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {shorten(value)}")


def find_closest(name: str, names: Sequence[str]) -> str | None:
    """Return the most similar of some names, ignoring case; None if none is similar."""
    by_lower_case = {candidate.lower(): candidate for candidate in names}
    matches = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
    return by_lower_case[matches[0]] if matches else None


def shorten(value: object, length: int = 60) -> str:
    """Return the representation of a value, cut to a length."""
    text = repr(value)
    return text if len(text) <= length else f"{text[:length]}..."
