"""Checks of arguments, each with an error that says what was wrong and what is expected."""

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
import pandas as pd
import torch
from jaxtyping import Float64, Int64
from numpy.typing import NDArray
from torch import Tensor

Array = Tensor | NDArray[Any] | Sequence[Any] | pd.DataFrame
"""What is accepted where an array is: torch, numpy, lists or a DataFrame."""

T = TypeVar("T")

LARGEST_SEED = 2**63 - 1
"""Largest seed of a torch generator."""


def as_tensor(x: Array) -> Tensor:
    """Return an array of real numbers as a tensor, without a copy where it can be."""
    if not isinstance(x, Tensor) and hasattr(x, "to_numpy"):
        x = x.to_numpy()
    # Pandas hands out arrays that are read-only, of which torch warns; it takes none that is reversed, as in x[::-1].
    if isinstance(x, np.ndarray) and (not x.flags.writeable or any(stride < 0 for stride in x.strides)):
        x = x.copy()
    tensor = torch.as_tensor(x)
    if tensor.is_complex():
        raise TypeError("complex numbers are not supported; give their real and imaginary parts as separate numbers")
    return tensor


def check_names(name: str, values: Iterable[object]) -> tuple[str, ...]:
    """Return names as text, or raise an error that names the argument if they are one text or two are equal."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a list of names, got {values!r}")
    names = tuple(map(str, values))
    if len(set(names)) < len(names):
        repeated = Counter(names).most_common(1)[0][0]
        raise ValueError(f"{name} must differ from each other, and {repeated!r} is there more than once")
    return names


def to_precision(numbers: Tensor, dtype: torch.dtype, name: str = "input") -> Tensor:
    """Return numbers in a precision, or raise an error that names the first row with one that is too large for it.

    Numbers on a GPU are not looked at, which would wait for it.
    """
    rounded = numbers.to(dtype)
    if numbers.dtype == torch.float64 and dtype == torch.float32 and numbers.device.type == "cpu":
        beyond = rounded.isinf() & numbers.isfinite()
        if bool(beyond.any()):
            row = int(beyond.nonzero()[0][0]) if beyond.ndim else 0
            largest = torch.finfo(dtype).max
            raise ValueError(
                f"{name} {row} holds {float(numbers[beyond][0]):.3g}, which overflows float32 (its largest number is "
                f"{largest:.3g}; {int(beyond.sum())} in all); rescale such numbers"
            )
    return rounded


def check_whole(name: str, value: SupportsIndex, minimum: int = 1) -> int:
    """Return value as an int of at least minimum, or raise an error that names it. True and False are refused."""
    try:
        whole = operator.index(value)
    except TypeError as error:
        raise TypeError(f"{name} must be a whole number, got {_shortened(value)}") from error
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if whole < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {whole}")
    return whole


def check_path(name: str, value: str | os.PathLike[str]) -> Path:
    """Return a path, or raise an error that names it unless it is one."""
    try:
        text = os.fspath(value)
    except TypeError as error:
        raise TypeError(f"{name} must be a path, got {_shortened(value)}") from error
    if not text:
        raise ValueError(f"{name} must be a path, got an empty text")
    return Path(value)


def check_seed(value: SupportsIndex) -> int:
    """Return a seed as an int that every generator takes, or raise an error."""
    seed = check_whole("seed", value, minimum=0)
    if seed > LARGEST_SEED:
        raise ValueError(f"seed must be at most {LARGEST_SEED}, got {seed}")
    return seed


def check_real(name: str, value: SupportsFloat) -> float:
    """Return value as a finite float, or raise an error that names it. Text, flags and complex numbers are refused."""
    if isinstance(value, str | bytes | bool | np.bool_ | complex | np.complexfloating):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        real = float(value)
    except OverflowError as error:
        raise ValueError(f"{name} must be finite, got a whole number too large for a float") from error
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} must be a number, got {value!r}") from error
    if not math.isfinite(real):
        raise ValueError(f"{name} must be finite, got {real}")
    return real


def check_numbers(name: str, values: Array | float, *, flags: bool = False) -> Float64[Tensor, "*shape"]:
    """Return values as a tensor of floats, or raise an error that names them, also where they are complex.

    Args:
        name: of the argument.
        values: numbers.
        flags: whether True and False are accepted, as 1 and 0.
    """
    try:
        numbers = as_tensor(
            values if isinstance(values, Tensor) else np.asarray(values)
        )  # torch would round to float32
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TypeError(f"{name} must be an array of real numbers, got {_shortened(values)}") from error
    if numbers.dtype is torch.bool and not flags:
        raise TypeError(f"{name} must be an array of real numbers, got {numbers.dtype}")
    return numbers.double()


def check_finite(name: str, values: Array, axes: int) -> Float64[Tensor, "*shape"]:
    """Return values as a tensor of finite floats with so many axes that is not empty, or raise an error."""
    numbers = check_numbers(name, values)
    if numbers.ndim != axes or not numbers.numel():
        kind = "list of numbers" if axes == 1 else "table of numbers"
        raise ValueError(f"{name} must be a {kind} that is not empty, got shape {tuple(numbers.shape)}")
    finite = numbers.isfinite()
    if not bool(finite.all()):
        raise ValueError(f"{name} has {int((~finite).sum())} missing or infinite numbers")
    return numbers


def check_classes(name: str, labels: Array, classes: int | None = None) -> Int64[Tensor, " labels"]:
    """Return numbers of classes, 0..classes-1, as a tensor that is not empty, or raise an error that names them."""
    numbers = check_finite(name, labels, axes=1)
    whole = numbers.long()
    if bool((whole != numbers).any()):
        raise ValueError(f"{name} must be numbers of classes, got {float(numbers[whole != numbers][0]):g}")
    low, high = int(whole.min()), int(whole.max())
    if low < 0 or (classes is not None and high >= classes):
        most = "" if classes is None else f" and {classes - 1}"
        raise ValueError(
            f"{name} must be {'between 0' if most else 'at least 0'}{most}, got {low if low < 0 else high}"
        )
    return whole


def check_kind(name: str, value: object, kind: type) -> None:
    """Raise an error that names it unless value is of a kind."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, got {_shortened(value)}")


def check_callable(name: str, value: object) -> None:
    """Raise an error that names it unless value is a function, or can be called as one."""
    if not callable(value):
        raise TypeError(f"{name} must be a function, got {_shortened(value)}")


def check_list(name: str, values: Iterable[T]) -> list[T]:
    """Return values as a list, or raise an error that names them, also where they are a text."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a list, got {_shortened(values)}")
    return list(values)


def _shortened(value: object, most: int = 60) -> str:
    """Return what Python shows of a value, cut where it is long."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."


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
