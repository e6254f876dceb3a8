"""Batches of training: which rows a step gets, which share of them a process computes, and a step's randomness.

Everything random in a step follows from (seed, step), so a run that was stopped continues from its last checkpoint
exactly as if it had not been stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


@dataclass(frozen=True)
class Shard:
    """The share of a batch that one process computes: every `count`-th row, from row `index`.

    Example:
        >>> Shard(index=1, count=2).of(torch.arange(5)).tolist()
        [1, 3]
    """

    index: int = 0
    count: int = 1

    def of(self, rows: Tensor) -> Tensor:
        """Return the rows of this share."""
        return rows[self.index :: self.count]


@dataclass(frozen=True)
class Batch:
    """What a loss is computed on.

    Attributes:
        rows: row numbers of the whole batch, on the CPU; every process has the same.
        shard: the share of them that this process computes.
        generator: randomness of this step, the same in every process.
        spent: fraction of the budget that is used up.
    """

    rows: Int[Tensor, " rows"]
    shard: Shard
    generator: torch.Generator
    spent: float


Loss = Callable[[nn.Module, Batch], Float[Tensor, ""]]
"""Mean loss of a module on this process's share of a batch."""


def draw_rows(n_rows: int, batch_size: int, step: int, seed: int) -> Int[Tensor, " batch"]:
    """Return the rows of a step's batch; each epoch is a new permutation."""
    epoch, position = divmod(step, max(n_rows // batch_size, 1))
    return _order_of_epoch(n_rows, epoch, seed)[position * batch_size : (position + 1) * batch_size]


def derive_seed(seed: int, purpose: str, number: int) -> int:
    """Return a seed that differs for every seed, purpose and number."""
    digest = hashlib.blake2b(f"{seed}, {purpose}, {number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


@lru_cache(maxsize=2)
def _order_of_epoch(n_rows: int, epoch: int, seed: int) -> Int[Tensor, " rows"]:
    return torch.randperm(n_rows, generator=torch.Generator().manual_seed(derive_seed(seed, "epoch", epoch)))
