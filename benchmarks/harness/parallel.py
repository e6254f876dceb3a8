"""Run a function in several processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def map_parallel(function: Callable[[Job], Result], jobs: Sequence[Job], workers: int) -> list[Result]:
    """Return function(job) for all jobs, each in a process of its own unless there is one worker only."""
    if workers == 1:  # a new process would import everything again
        return list(map(function, jobs))
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        return list(pool.map(function, jobs))
