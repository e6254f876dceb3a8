"""What several benchmarks do with what they measure: time a call, and sum up over seeds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Result = TypeVar("Result")


def timed(call: Callable[[], Result]) -> tuple[Result, float]:
    """Return a result, and the seconds it took."""
    before = time.perf_counter()
    result = call()
    return result, time.perf_counter() - before


def summarise(runs: Sequence[Any]) -> Any:  # noqa: ANN401 - a tree of figures in, a tree of their summaries out
    """Mean and standard deviation over seeds, of every figure."""
    first = runs[0]
    if isinstance(first, dict):
        return {key: summarise([run[key] for run in runs]) for key in first}
    spread = statistics.stdev(runs) if len(runs) > 1 else 0.0
    return [round(statistics.fmean(runs), 4), round(spread, 4)]
