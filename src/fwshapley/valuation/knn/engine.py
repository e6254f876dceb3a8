"""Values summed over reference points, shard by shard: each reference point is a game whose values have a closed form.

Shards have a fixed size and are added up in order, so that results do not depend on the number of cores; they may run
anywhere joblib can reach. Memory grows with the points and the reference points of a block, never with all pairs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import joblib
import numpy as np
import torch
from jaxtyping import Float64, Int64
from joblib.parallel import ThreadingBackend, get_active_backend
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.parallel import one_core
from fwshapley.games.knn import Ties, Utility
from fwshapley.semivalues import Semivalue
from fwshapley.valuation.knn.closed_forms import ClosedForm, make_form
from fwshapley.valuation.knn.distances import (
    NEVER,
    Workspace,
    distances_by_product,
    distances_directly,
    farthest,
    orders,
    too_close,
    whole_keys,
)

SHARDS = 64
SMALLEST_SHARD, LARGEST_SHARD = 128, 512
BLOCK_BYTES, MOST_ROWS = {"cpu": 2**27, "cuda": 2**29}, {"cpu": 128, "cuda": 2**12}
"""Distances held at once, by each core or by the GPU, and reference points that they may belong to."""


@dataclass(frozen=True)
class Game:
    """All that makes the games but the points: hashable, so that each process builds the closed form once.

    Attributes:
        scale: of the points, for distances by products; None for distances by differences.
        device: the device that values are computed on.
        every_label: whether points are also valued as if they had another label: rows are then (weights x classes).
    """

    weights: tuple[Semivalue, ...]
    counts: tuple[int, ...]
    k: int
    utility: Utility
    ties: Ties
    held_out: bool
    tolerance: float
    scale: float | None
    device: str
    every_label: bool = False

    @property
    def rows(self) -> int:
        """Values of a point."""
        return len(self.weights) * (len(self.counts) if self.every_label else 1)


class Shard(NamedTuple):
    """Some reference points: where they are, their labels, and the index of the first."""

    references: NDArray[np.float64]
    labels: NDArray[np.int64]
    first: int


class Sums(NamedTuple):
    """Sums over reference points of values and of their squares."""

    values: Float64[Tensor, "weights n"]
    squares: Float64[Tensor, "weights n"]

    def plus(self, other: Sums) -> Sums:
        """Return sums over the reference points of both."""
        return Sums(self.values + other.values, self.squares + other.squares)

    def add(self, values: Float64[Tensor, "weights references n"]) -> None:
        """Add values of some reference points, in place."""
        if values.shape[1] == 1:
            self.values.add_(values[:, 0])
            self.squares.addcmul_(values[:, 0], values[:, 0])
        else:
            self.values.add_(values.sum(1))
            self.squares.add_(values.square().sum(1))


Task = partial[Sums]
"""A shard's work, waiting for its shard."""


@lru_cache(maxsize=2)
def _form(game: Game) -> ClosedForm:
    counts = torch.tensor(game.counts, device=game.device)
    return make_form(game.utility, game.weights, counts, game.k, held_out=game.held_out, ties=game.ties)


@lru_cache(maxsize=2)
def cut(game: Game) -> tuple[int, float]:
    """Ranks that count, and most that a value may be off for it."""
    return _form(game).cut(game.tolerance)


def make_shards(references: NDArray[np.float64], labels: NDArray[np.int64]) -> Iterator[Shard]:
    """Shards of a size that depends on the number of references alone."""
    size = min(max(-(-len(labels) // SHARDS), SMALLEST_SHARD), LARGEST_SHARD)
    for first in range(0, len(labels), size):
        yield Shard(references[first : first + size], labels[first : first + size], first)


def add_up(
    game: Game, factor: NDArray[np.float64], labels: NDArray[np.int64], shards: Sequence[Shard], n_jobs: int | None
) -> Iterator[Sums]:
    """Sums of one shard after another, computed side by side."""
    if game.device != "cpu":
        once = _tensor(factor, game.device), _tensor(labels, game.device)
        yield from (_sum_shard(game, *once, shard) for shard in shards)
        return
    backend, _ = get_active_backend(prefer="threads")
    spread = _spread_over_threads if isinstance(backend, ThreadingBackend) else _spread_by_joblib
    yield from spread(partial(_sum_shard_on_one_core, game, factor, labels), shards, n_jobs)


def _spread_over_threads(task: Task, shards: Sequence[Shard], n_jobs: int | None) -> Iterator[Sums]:
    """Threads of our own, which unlike joblib's are waited for when the work is interrupted."""
    workers = joblib.effective_n_jobs(n_jobs)
    if n_jobs is None and workers == 1:
        workers = joblib.cpu_count()
    pool = ThreadPoolExecutor(workers)
    try:
        yield from pool.map(task, shards)
    finally:
        pool.shutdown(cancel_futures=True)


def _spread_by_joblib(task: Task, shards: Sequence[Shard], n_jobs: int | None) -> Iterator[Sums]:
    """Processes or machines, as the active `joblib.parallel_config` says."""
    # Arrays are arguments of their own, which joblib shares between tasks rather than sending them with each.
    calls = (joblib.delayed(task.func)(*task.args, shard) for shard in shards)
    yield from joblib.Parallel(n_jobs, return_as="generator")(calls)


def _sum_shard_on_one_core(game: Game, factor: NDArray[np.float64], labels: NDArray[np.int64], shard: Shard) -> Sums:
    """A task is the work of one core, whose cache holds a row."""
    with one_core():
        return _sum_shard(game, factor, labels, shard)


def _sum_shard(
    game: Game, factor: NDArray[np.float64] | Tensor, labels: NDArray[np.int64] | Tensor, shard: Shard
) -> Sums:
    """Values of all points, summed over the reference points of a shard."""
    x, y = _tensor(factor, game.device), _tensor(labels, game.device)
    references, label = _tensor(shard.references, game.device), _tensor(shard.labels, game.device)
    values = game.rows if game.every_label and game.device != "cpu" else 1  # a core works on one reference at a time
    fitting = max(BLOCK_BYTES[x.device.type] // (x.element_size() * len(x) * values), 1)
    rows = min(1 << fitting.bit_length() - 1, MOST_ROWS[x.device.type])  # products like powers of two
    space, together = None, rows
    if game.device == "cpu":
        space, together = Workspace.of(len(x), min(rows, len(label))), 1
    sums = Sums(x.new_zeros(game.rows, len(x)), x.new_zeros(game.rows, len(x)))
    for start in range(0, len(label), rows):
        block = references[start : start + rows]
        if game.scale is None:
            distances = distances_directly(block, x)
        else:
            distances = distances_by_product(block, x, game.scale, space)
        for row in range(0, len(block), together):
            here = slice(row, row + together)
            keys = distances[here].view(torch.int64) if game.scale is None else whole_keys(distances[here])
            own = shard.first + start + torch.arange(len(block), device=x.device)[here]
            order = _order(game, keys, own, (block[here], x), space)
            sums.add(_values(game, keys, order, y, label[start:][here], space=space))
    return sums


def _order(
    game: Game,
    keys: Int64[Tensor, "references n"],
    own: Int64[Tensor, " references"],
    places: tuple[Tensor, Tensor],
    space: Workspace | None,
) -> Int64[Tensor, "references ranks"]:
    """Order of the nearest points.

    Args:
        game: what is played.
        keys: to sort by; changed in place where they prove too coarse, and where a point is its own reference.
        own: index of each reference point.
        places: of reference points and of points.
        space: where to leave the order of one reference point.
    """
    ranks, each = cut(game)[0], torch.arange(len(keys), device=keys.device)
    if game.held_out:
        keys[each, own] = NEVER
    order = orders(keys, ranks, space)
    again = each[:0] if game.scale is None else too_close(keys, order)
    if len(again):
        references, x = places
        keys[again] = distances_directly(references[again], x).view(torch.int64)
        if game.held_out:
            keys[each, own] = NEVER
        order = orders(keys, ranks, space)
    return order


def _values(
    game: Game,
    keys: Int64[Tensor, "references n"],
    order: Int64[Tensor, "references ranks"],
    y: Int64[Tensor, " n"],
    label: Int64[Tensor, " references"],
    *,
    space: Workspace | None,
) -> Float64[Tensor, "rows references n"]:
    """Values of all points, for each reference point."""
    form, ranks = _form(game), order.shape[1]
    found = None if space is None else space.labels[None, :ranks]
    labels = torch.gather(y.expand(len(order), -1), 1, order, out=found)
    far = labels[:, -1] if ranks == form.n else y[farthest(keys)]
    by_class = form.by_class(label, far)
    if game.every_label:
        by_rank = form.under_every_label(labels, label).flatten(0, 1)
        level = None if by_class is None else by_class.mT.flatten(0, 1)[..., None].expand(-1, -1, len(y)).clone()
    else:
        by_rank = form.by_rank(labels, label)
        level = None if by_class is None else by_class[..., y]
    where = order.expand(len(by_rank), -1, -1)
    if level is None:
        level = by_rank.new_zeros(*by_rank.shape[:2], len(y))
    else:
        level[:, keys == NEVER] = 0
        by_rank += level.gather(2, where)
    return level.scatter_(2, where, by_rank)


def _tensor(array: Tensor | NDArray[np.float64] | NDArray[np.int64], device: str) -> Tensor:
    """Tensor of an array; where another process lends it, it is read-only, which torch warns of and we heed."""
    if isinstance(array, Tensor):
        return array
    if array.flags.writeable:
        return torch.from_numpy(array).to(device)
    with warnings.catch_warnings(action="ignore"):
        return torch.from_numpy(array).to(device)
