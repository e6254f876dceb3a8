"""Compile loops with numba, whose import takes a moment: only modules that compute with such loops import this one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Return a function that is compiled when it is first called, and that does not hold Python's lock.

    Machine code is cached on disk where a folder for it is writable.
    """
    function = inspect.unwrap(function)  # without the type checks of the tests, which cannot be compiled
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return numba.njit(**options)(function)
