"""Work spread over cores, processes or machines: results come in order, the same bits wherever they were worked out.

An item is the work of one core: several threads would add numbers up in an order of their own. The limit applies to the
thread that works on an item, while it does. `torch.set_num_threads` would not do: it also sets what every thread gets
that uses torch for the first time.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, partial
from threading import Lock
from typing import Any, TypeVar

import joblib
import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def spread(
    function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None
) -> Generator[Result, None, None]:
    """Yield function(item) of each item, in order, worked out wherever the active `joblib.parallel_config` says."""
    with BLAS.on_one_thread():
        calls = (joblib.delayed(_work_out)(function, item) for item in items)
        yield from joblib.Parallel(n_jobs, return_as="generator")(calls)


def _work_out(function: Callable[[Item], Result], item: Item) -> Result:
    with one_core(), _openmp_on_one_thread(), BLAS.on_one_thread():
        return function(item)


@contextmanager
def one_core() -> Iterator[None]:
    """Let torch use one core in the calling thread; other threads keep what they have."""
    before = torch.get_num_threads()  # which also makes torch set up a thread that it has not met
    set_openmp, set_mkl = _find_in_torch("omp_set_num_threads"), _find_in_torch("MKL_Set_Num_Threads_Local")
    if set_openmp is None:
        _set_threads_here(1)
        try:
            yield
        finally:
            _set_threads_here(before)
        return
    set_openmp(1)
    mkl_before = 0 if set_mkl is None else set_mkl(1)
    try:
        yield
    finally:
        set_openmp(before)
        if set_mkl is not None:
            set_mkl(mkl_before)


@lru_cache
def _find_in_torch(name: str) -> Callable[[int], int] | None:
    """Return a function of the libraries that torch runs on, or None if it cannot be reached, as on Windows."""
    return getattr(ctypes.CDLL(torch._C.__file__), name, None)  # noqa: SLF001 - the one library that leads to all others


_SETTING = Lock()


def _set_threads_here(number: int) -> None:
    """Set torch's threads in the calling thread by its own function, then give new threads back what they would get."""
    with _SETTING:
        usual = _in_new_thread(torch.get_num_threads)
        torch.set_num_threads(number)
        _in_new_thread(partial(torch.set_num_threads, usual))


def _in_new_thread(function: Callable[[], Result]) -> Result:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


@contextmanager
def _openmp_on_one_thread() -> Iterator[None]:
    """Limit the OpenMP of models' libraries, which like torch's counts threads for each thread apart."""
    libraries = _libraries(len(sys.modules))
    if libraries is None:
        yield
        return
    with libraries.select(user_api="openmp").limit(limits=1):
        yield


class _Blas:
    """The BLAS libraries of this process: on one thread while anybody needs it. One limit holds for all threads."""

    def __init__(self) -> None:
        self._lock, self._users = Lock(), 0
        self._limits: Any = None  # threadpoolctl's

    @contextmanager
    def on_one_thread(self) -> Iterator[None]:
        """Limit them; who comes first sets the limit, who leaves last lifts it."""
        with self._lock:
            libraries = _libraries(len(sys.modules))
            if not self._users and libraries is not None:
                self._limits = libraries.select(user_api="blas").limit(limits=1)
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users and self._limits is not None:
                    self._limits.restore_original_limits()
                    self._limits = None


BLAS = _Blas()


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:  # noqa: ANN401 - threadpoolctl's, or None
    """Numerical libraries that are loaded, if scikit-learn is there, which uses them and brings threadpoolctl.

    Args:
        modules: number of modules imported, since each of them may load another library.
    """
    del modules
    try:
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # noqa: PLC0415 - optional
    except ModuleNotFoundError:
        return None
    return ThreadpoolController()
