"""Errors of estimated values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]


def relative_errors(values: Tensor, truth: Tensor) -> list[list[float]]:
    """Root mean square over players, relative to the spread of the truth: by budget and seed."""
    relative = (values - truth).square().mean(-1).sqrt() / truth.std()
    return [[float(f"{error:.4g}") for error in by_seed] for by_seed in relative.tolist()]


def rms(values: Array, axis: int | tuple[int, ...]) -> Array:
    """Root mean square."""
    return np.asarray(np.sqrt(np.mean(np.square(values), axis)))
