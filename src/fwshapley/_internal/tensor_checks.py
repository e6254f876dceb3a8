"""Checks of arguments that become torch tensors or devices, each with an error that names the argument."""

from __future__ import annotations

import os
import textwrap

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from fwshapley._internal.checks import Array, shorten

MAX_MESSAGE = 100
"""Longest part of another library's message in ours."""


def as_tensor(x: Array) -> Tensor:
    """Return an array of real numbers as a tensor, without a copy where possible."""
    if not isinstance(x, Tensor) and hasattr(x, "to_numpy"):
        x = x.to_numpy()
    # pandas returns read-only arrays, about which torch warns; torch does not accept reversed ones such as x[::-1].
    if isinstance(x, np.ndarray) and (not x.flags.writeable or any(stride < 0 for stride in x.strides)):
        x = x.copy()
    tensor = torch.as_tensor(x)
    if tensor.is_complex():
        raise TypeError("complex numbers are not supported; pass their real and imaginary parts as separate numbers")
    return tensor


def to_precision(numbers: Tensor, dtype: torch.dtype, name: str = "input") -> Tensor:
    """Return numbers in a precision, or raise an error that names the first row with a number that overflows.

    Numbers on a GPU are not checked, because that would synchronize with it.
    """
    rounded = numbers.to(dtype)
    if numbers.dtype == torch.float64 and dtype == torch.float32 and numbers.device.type == "cpu":
        overflows = rounded.isinf() & numbers.isfinite()
        if bool(overflows.any()):
            row = int(overflows.nonzero()[0][0]) if overflows.ndim else 0
            largest = torch.finfo(dtype).max
            raise ValueError(
                f"{name} {row} contains {float(numbers[overflows][0]):.3g}, which overflows float32 (its largest "
                f"number is {largest:.3g}; {int(overflows.sum())} numbers overflow); rescale them"
            )
    return rounded


def check_tensor(name: str, values: Array | float, *, flags: bool = False) -> Float64[Tensor, "*shape"]:
    """Return values as a float64 tensor, or raise an error that names them.

    Args:
        name: of the argument.
        values: real numbers.
        flags: accept True and False, as 1 and 0.
    """
    try:
        numbers = as_tensor(values if isinstance(values, Tensor) else np.asarray(values))  # torch rounds lists
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TypeError(f"{name} must be an array of real numbers, got {shorten(values)}") from error
    if numbers.dtype is torch.bool and not flags:
        raise TypeError(f"{name} must be an array of real numbers, got {numbers.dtype}")
    return numbers.double()


def check_finite(name: str, values: Array, axes: int) -> Float64[Tensor, "*shape"]:
    """Return values as a non-empty tensor of finite float64 numbers with a number of axes, or raise an error."""
    numbers = check_tensor(name, values)
    if numbers.ndim != axes or not numbers.numel():
        kind = "list of numbers" if axes == 1 else "table of numbers"
        raise ValueError(f"{name} must be a non-empty {kind}, got shape {tuple(numbers.shape)}")
    finite = numbers.isfinite()
    if not bool(finite.all()):
        raise ValueError(f"{name} has {int((~finite).sum())} missing or infinite numbers")
    return numbers


def check_classes(name: str, labels: Array, classes: int | None = None) -> Int64[Tensor, " labels"]:
    """Return class numbers, 0..classes-1, as a non-empty tensor, or raise an error that names them."""
    numbers = check_finite(name, labels, axes=1)
    whole = numbers.long()
    if bool((whole != numbers).any()):
        raise ValueError(f"{name} must be class numbers, got {float(numbers[whole != numbers][0]):g}")
    low, high = int(whole.min()), int(whole.max())
    if low < 0 or (classes is not None and high >= classes):
        most = "" if classes is None else f" and {classes - 1}"
        raise ValueError(
            f"{name} must be {'between 0' if most else 'at least 0'}{most}, got {low if low < 0 else high}"
        )
    return whole


def choose_device(device: str | torch.device) -> torch.device:
    """Return a device that can compute, or raise an error that names it; "auto" is a GPU if there is one."""
    if isinstance(device, str) and device == "auto":
        local_rank = int(os.environ.get("LOCAL_RANK", "0"))  # each of several processes has its own GPU
        return torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    try:
        chosen = torch.device(device)
        torch.ones(1, device=chosen).sum().item()
    except (RuntimeError, AssertionError, TypeError) as error:  # unknown, unavailable, or without numbers (meta)
        first_line = str(error).splitlines()[0].partition(". ")[0]
        reason = textwrap.shorten(first_line, MAX_MESSAGE, placeholder=" ...")
        raise ValueError(f"device={str(device)!r} cannot be used ({reason}); pass 'auto', 'cpu' or 'cuda'") from error
    return chosen
