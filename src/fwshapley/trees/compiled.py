"""Compile loops over trees with numba: machine code is cached on disk where a folder for it is writable."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

try:
    import numba
except ImportError as error:  # pragma: no cover - numba is a dependency of the tests
    raise ImportError("tree ensembles need numba: pip install 'fwshapley[trees]'") from error

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(*, parallel: bool = False, inline: bool = False) -> Callable[[Function], Function]:
    """Return a decorator that compiles a function when it is first called.

    Args:
        parallel: run its `numba.prange` loops on all cores.
        inline: insert its code into the functions that call it.
    """
    options: dict[str, Any] = {"parallel": parallel, "nogil": True, "error_model": "numpy"}
    if inline:
        options["inline"] = "always"

    def compile_cached(function: Function) -> Function:
        function = inspect.unwrap(function)  # without the type checks of the tests, which cannot be compiled
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:  # neither the package's folder nor the user's cache can be written
            return numba.njit(**options)(function)

    return compile_cached
