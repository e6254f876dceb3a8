"""Time calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import torch

Result = TypeVar("Result")


def timed(call: Callable[[], Result]) -> tuple[Result, float]:
    """Return a result, and the seconds it took."""
    before = time.perf_counter()
    result = call()
    return result, time.perf_counter() - before


def synchronize(device: torch.device) -> None:
    """Wait for the GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def use_fast_kernels() -> None:
    """Allow TF32 for products in single precision, and let cuDNN choose the fastest kernels."""
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
