"""Run compiled loops over trees on all cores.

Loops run on Python's threads, which compiled code does not hold up: numba's own would change how many threads torch
uses, and with it how torch rounds its sums.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import joblib
import numba
from llvmlite import ir
from numba.extending import intrinsic

VECTOR_LENGTH = 8
"""Numbers of a vector: a cache line."""

TASKS_PER_CORE = 4
"""Ranges that a core gets on average, so that none waits long for the last one."""


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
        for done in [pool.submit(kernel, begin, end, *args) for begin, end in itertools.pairwise(bounds)]:
            done.result()


def _add_vectors(_: Any, target: Any, at: Any, source: Any, starts: Any) -> Any:  # noqa: ANN401 - numba's types
    """Add vectors of a source to one of a target: target[at : at + 8] += source[start : start + 8] for all starts.

    LLVM would vectorize such a loop over 8 numbers only after it has unrolled it, which is too late.
    """
    signature = numba.void(target, at, source, starts)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401 - LLVM's types
        vector = ir.VectorType(ir.DoubleType(), VECTOR_LENGTH)

        def find(array: int, index: Any) -> Any:  # noqa: ANN401 - as above
            data = context.make_array(signature.args[array])(context, builder, args[array]).data
            return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())

        total, *others = (
            builder.load(find(2, builder.extract_value(args[3], number)), align=8)
            for number in range(len(signature.args[3]))
        )
        for other in others:
            total = builder.fadd(total, other)
        place = find(0, args[1])
        builder.store(builder.fadd(builder.load(place, align=8), total), place, align=8)
        return context.get_dummy_value()

    return signature, generate


add_vectors: Any = intrinsic(_add_vectors)  # not a decorator: type checkers would see its first argument, numba's own


@lru_cache
def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return int(joblib.cpu_count())
