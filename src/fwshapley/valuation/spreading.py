"""Work spread over cores, processes or machines: results come in order, the same bits wherever they were worked out."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import joblib
import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def spread(
    function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None
) -> Generator[Result, None, None]:
    """Yield function(item) of each item, in order, worked out wherever the active `joblib.parallel_config` says."""
    with _one_thread():
        home = os.getpid()
        calls = (joblib.delayed(_work_out)(function, item, home) for item in items)
        yield from joblib.Parallel(n_jobs, return_as="generator")(calls)


def _work_out(function: Callable[[Item], Result], item: Item, home: int) -> Result:
    if os.getpid() != home:
        _stay_on_one_thread()
    return function(item)


@contextmanager
def _one_thread() -> Iterator[None]:
    """An item is the work of one core: several threads would add numbers up in an order of their own."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        limits = _limit_libraries()
        try:
            yield
        finally:
            if limits is not None:
                limits.restore_original_limits()
    finally:
        torch.set_num_threads(threads)


@lru_cache(maxsize=1)
def _stay_on_one_thread() -> None:
    """As above, in a process that does nothing else."""
    torch.set_num_threads(1)
    _limit_libraries()


def _limit_libraries() -> Any:  # noqa: ANN401 - threadpoolctl's, or None
    """Limit the threads of numerical libraries, if scikit-learn is there, which uses them and brings threadpoolctl."""
    try:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # noqa: PLC0415 - optional
    except ModuleNotFoundError:
        return None
    return threadpool_limits(1)
