"""Digests of points and of reference points: the same on every machine, whatever kind of array they came in."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor

ROWS_AT_ONCE = 1024


def digest_points(x: NDArray[np.floating[Any]], labels: NDArray[np.int64], classes: Sequence[str]) -> str:
    """Digest of features, class numbers and the names of all classes."""
    found = hashlib.blake2b(repr((x.shape, tuple(classes))).encode(), digest_size=16)
    found.update(labels.astype("<i8").tobytes())
    for start in range(0, len(x), ROWS_AT_ONCE):
        found.update(x[start : start + ROWS_AT_ONCE].astype("<f8").tobytes())
    return found.hexdigest()


def digest_each(x: NDArray[np.floating[Any]], labels: NDArray[np.int64]) -> Int64[Tensor, " points"]:
    """Digest of every point with its class number."""
    keys = b"".join(
        hashlib.blake2b(row.astype("<f8").tobytes(), digest_size=8, salt=label.to_bytes(8, "little")).digest()
        for row, label in zip(x, labels.tolist(), strict=True)
    )
    return torch.from_numpy(np.frombuffer(keys, dtype="<i8").astype(np.int64))
