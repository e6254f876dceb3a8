"""Folds of points, drawn such that every class is spread evenly over them."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor


def draw_folds(labels: NDArray[np.int64], folds: int, seed: int) -> Int64[Tensor, " n"]:
    """Return the fold of each point, drawn at random with all classes in equal shares.

    Args:
        labels: class numbers.
        folds: number of folds. A class with fewer points is missing in some of them.
        seed: of the draw.
    """
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]  # so that each class is spread evenly
    drawn = torch.empty(len(labels), dtype=torch.int64)
    drawn[torch.from_numpy(order)] = torch.arange(len(labels)) % folds
    return drawn
