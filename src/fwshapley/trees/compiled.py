"""Compile loops over trees with numba, and run them on all cores.

Machine code is cached on disk where a folder for it is writable. Loops run on Python's threads, which compiled code
does not hold up: numba's own would change how many threads torch uses, and with it how torch rounds its sums.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

import joblib

try:
    import numba
except ImportError as error:  # pragma: no cover - numba is a dependency of the tests
    raise ImportError("tree ensembles need numba: pip install 'fwshapley[trees]'") from error

Function = TypeVar("Function", bound=Callable[..., Any])

TASKS_PER_CORE = 4
"""Ranges that a core gets on average, so that none waits long for the last one."""


def compiled(function: Function) -> Function:
    """Return a function that is compiled when it is first called."""
    function = inspect.unwrap(function)  # without the type checks of the tests, which cannot be compiled
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return numba.njit(**options)(function)


def run_ranges(kernel: Callable[..., None], count: int, *args: Any) -> None:  # noqa: ANN401 - passed on as they are
    """Call kernel(begin, end, *args) for ranges that cover 0 .. count - 1, on all cores.

    Args:
        kernel: a compiled function that writes the results of a range into its arguments.
        count: number of items.
        args: the other arguments.
    """
    tasks = min(count, TASKS_PER_CORE * count_cores())
    if tasks <= 1 or count_cores() == 1:
        kernel(0, count, *args)
        return
    bounds = [count * task // tasks for task in range(tasks + 1)]
    with ThreadPoolExecutor(min(count_cores(), tasks)) as pool:
        for done in [pool.submit(kernel, begin, end, *args) for begin, end in zip(bounds, bounds[1:], strict=False)]:
            done.result()


@lru_cache
def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return int(joblib.cpu_count())
