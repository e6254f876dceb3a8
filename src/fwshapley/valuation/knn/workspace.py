"""Memory that one core works in: for the distances of a block of reference points, and for one row of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, Int64, UInt32, UInt64
from numpy import ndarray
from torch import Tensor

HIGH_BITS, LOW_BITS = 12, 11
"""Bits of the two digits by which the compiled sort goes."""


class Scratch(NamedTuple):
    """Memory for the compiled sort of one row, in which `radix_sort` leaves the entries of the points in order."""

    words: UInt32[ndarray, " n"]
    entries: UInt64[ndarray, " n"]
    ordered: UInt64[ndarray, " n"]
    low: UInt32[ndarray, " digits"]
    high: UInt32[ndarray, " digits"]

    @classmethod
    def of(cls, n: int) -> Scratch:
        """Allocate memory for n points."""
        entries = np.empty((2, n), dtype=np.uint64)  # in one piece, of which systems make large pages
        low, high = (np.empty(2**bits, dtype=np.uint32) for bits in (LOW_BITS, HIGH_BITS))
        return cls(np.empty(n, dtype=np.uint32), entries[0], entries[1], low, high)


class Workspace(NamedTuple):
    """Memory for the distances of a block and for one row; allocating it anew would cost as much as the work.

    Attributes:
        distances: of a block.
        order: indices of the points of a row in order.
        labels: their labels.
        scratch: memory for the compiled sort, which has the same results as torch's; None to use torch's.
    """

    distances: Float64[Tensor, "references n"]
    order: Int64[Tensor, " n"]
    labels: Int64[Tensor, " n"]
    scratch: Scratch | None

    @classmethod
    def of(cls, n: int, references: int, *, compiled: bool = False) -> Workspace:
        """Allocate memory for n points and a number of references."""
        order, labels = (torch.empty(n, dtype=torch.int64) for _ in range(2))
        distances = torch.from_numpy(np.empty((references, n)))  # numpy asks for large pages
        return cls(distances, order, labels, Scratch.of(n) if compiled else None)
