"""Parallel work on threads, processes or machines: results come in order and are identical wherever computed.

Each task runs on one core: with several threads, sums would depend on their number. The limit applies only to the
thread that runs the task, and only while it runs. `torch.set_num_threads` is not enough, because it also changes what
other threads get when they first use torch.
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
from joblib.parallel import ThreadingBackend, get_active_backend

Item = TypeVar("Item")
Returned = TypeVar("Returned")


def spread(
    function: Callable[..., Returned],
    items: Iterable[Item],
    n_jobs: int | None,
    *,
    shared: tuple[Any, ...] = (),
    threads: bool = False,
) -> Generator[Returned, None, None]:
    """Yield function(*shared, item) of each item, in order, by the workers of the active `joblib.parallel_config`.

    Args:
        function: runs on one core.
        items: what differs between the tasks.
        n_jobs: number of workers, as joblib takes it.
        shared: large arguments of all tasks, which processes receive once if the backend can do that.
        threads: whether threads are the default, and all cores; for functions that release Python's lock, as torch's
            do. Otherwise the default is joblib's: processes, and one core.
    """
    if threads and isinstance(get_active_backend(prefer="threads")[0], ThreadingBackend):
        # Unlike joblib's threads, those of a pool are waited for when the work is interrupted.
        pool = ThreadPoolExecutor(count_threads(n_jobs))
        try:
            yield from pool.map(partial(_run_on_one_core, function, *shared), items)
        finally:
            pool.shutdown(cancel_futures=True)
        return
    with BLAS.on_one_thread():
        calls = (joblib.delayed(_run_in_worker)(function, *shared, item) for item in items)
        yield from joblib.Parallel(n_jobs, return_as="generator")(calls)


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads that `spread(..., threads=True)` uses."""
    workers = joblib.effective_n_jobs(n_jobs)
    return int(joblib.cpu_count() if n_jobs is None and workers == 1 else workers)


def _run_on_one_core(function: Callable[..., Returned], *args: Any) -> Returned:  # noqa: ANN401 - passed on as they are
    with one_core():
        return function(*args)


def _run_in_worker(function: Callable[..., Returned], *args: Any) -> Returned:  # noqa: ANN401 - passed on as they are
    with one_core(), _openmp_on_one_thread(), BLAS.on_one_thread():
        return function(*args)


@contextmanager
def one_core() -> Iterator[None]:
    """Limit torch to one core in the calling thread; other threads are not affected."""
    before = torch.get_num_threads()  # this call also initializes torch in a thread that has not used it yet
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
    """Return a function of the libraries that torch has loaded, or None if it cannot be reached, as on Windows."""
    return getattr(ctypes.CDLL(torch._C.__file__), name, None)  # noqa: SLF001 - the library that links to all others


_SETTING = Lock()


def _set_threads_here(number: int) -> None:
    """Set the number of threads in the calling thread by torch's own function, then restore it for new threads."""
    with _SETTING:
        usual = _in_new_thread(torch.get_num_threads)
        torch.set_num_threads(number)
        _in_new_thread(partial(torch.set_num_threads, usual))


def _in_new_thread(function: Callable[[], Returned]) -> Returned:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


@contextmanager
def _openmp_on_one_thread() -> Iterator[None]:
    """Limit OpenMP in libraries other than torch, which like torch's counts threads for each thread separately."""
    with _load_libraries(len(sys.modules)).select(user_api="openmp").limit(limits=1):
        yield


class _Blas:
    """The BLAS libraries of this process: limited to one thread while any user needs it, since the limit is global."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._limits: Any = None  # of threadpoolctl, which has no types

    @contextmanager
    def on_one_thread(self) -> Iterator[None]:
        """Limit the libraries; the first user sets the limit, the last one removes it."""
        with self._lock:
            if not self._users:
                self._limits = _load_libraries(len(sys.modules)).select(user_api="blas").limit(limits=1)
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._limits.restore_original_limits()


BLAS = _Blas()


@lru_cache(maxsize=1)
def _load_libraries(modules: int) -> Any:  # noqa: ANN401 - threadpoolctl has no types
    """Return a controller of the numerical libraries that are loaded.

    Args:
        modules: number of modules imported so far; if it has changed, another library may have been loaded.
    """
    del modules
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # noqa: PLC0415 - rarely needed

    return ThreadpoolController()
