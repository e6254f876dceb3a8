"""Values summed over reference points: each reference point is a game whose values have a closed form.

The reference points are divided into parts of a fixed size whose sums are added in order, so results do not depend on
the number of cores. Parts may run anywhere joblib can reach. Memory grows with the number of points and with the
reference points of a block, never with all pairs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64, Num
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.parallel import count_threads, spread
from fwshapley._internal.progress import ProgressBar, announce
from fwshapley.valuation.knn.closed_forms import ClosedForm
from fwshapley.valuation.knn.closed_forms.vote_series import MAX_VOTERS
from fwshapley.valuation.knn.closeness import weigh_by_kernel
from fwshapley.valuation.knn.distances import (
    NEVER,
    distances_by_product,
    distances_directly,
    farthest,
    orders,
    too_close,
    whole_keys,
)
from fwshapley.valuation.knn.loops.tables import SoftTables, VoteTables
from fwshapley.valuation.knn.problem import NeighborProblem
from fwshapley.valuation.knn.radius import sum_part_inside
from fwshapley.valuation.knn.workspace import Scratch, Workspace

PARTS = 64
MIN_PART, MAX_PART = 128, 512
"""Number of parts of the reference, and reference points of a part at least and at most."""

PART_PAIRS = 2**27
"""Pairs of a part of more than the fewest reference points: a second or two, after which there is progress to see and
an interruption ends the work."""

BLOCK_BYTES = {"cpu": 2**28, "cuda": 2**29}
"""Distances in memory at once, for each core or for the GPU."""

MIN_ROWS = {"cpu": 32, "cuda": 2**12}
MAX_ROWS = {"cpu": 256, "cuda": 2**12}
"""Reference points that they belong to: as many as fit, and twice as many as there are features, within these limits.
On a CPU, fewer stay in the cache; more share the time of reading all points."""

ROWS = 8
"""They are multiples of this number, of which matrix products are fastest."""

PAIR_SECONDS = {"cpu": 8e-9, "cuda": 4e-10}
"""Time to sort one pair of a point and a reference point by distance, on one core or on a GPU."""

COLUMN_SECONDS = {"cpu": 4e-11, "cuda": 1e-12}
VALUE_SECONDS = {"cpu": 2e-8, "cuda": 1e-10}
COMPILED_VALUE_SECONDS = 2e-9
"""Further time for each feature, and for each value of each weighting; less if compiled loops add up the values."""

COMPILED_PAIRS = 2**23
"""Pairs of a point and a reference point from which compiled loops save more time than it takes to load them."""


def sum_values(
    problem: NeighborProblem,
    *,
    tolerance: float = 0.0,
    every_label: bool = False,
    device: str = "cpu",
    n_jobs: int | None = None,
    progress: bool = True,
) -> Float64[Tensor, "2 rows n"]:
    """Return the sums over all reference points of the values of each point, and of the squared values.

    Args:
        problem: what is valued.
        tolerance: largest error of a value.
        every_label: also value each point as if it had another label; rows are then (weights x classes).
        device: "cpu" or a GPU.
        n_jobs: number of cores, as `value_neighbors` takes it.
        progress: whether to announce long work and to show a progress bar.
    """
    rows = len(problem.weights) * (len(problem.classes) if every_label else 1)
    _announce_costs(problem, rows, device=device, n_jobs=n_jobs, enabled=progress)
    parts = divide_references(len(problem.reference_labels), problem.n)
    results: Iterable[Tensor]
    if device == "cpu":
        results = spread(_sum_part_on_cpu, parts, n_jobs, shared=(problem, tolerance, every_label), threads=True)
    else:
        x, y = _to_tensors(device, problem.places.factor, problem.labels)
        options: Any = {"tolerance": tolerance, "every_label": every_label}
        results = (_sum_part(problem, x, y, part, **options).cpu() for part in parts)
    total = torch.zeros(2, rows, problem.n, dtype=torch.float64)
    with ProgressBar("valuing", len(problem.reference_labels), enabled=progress) as bar:
        for part, sums in zip(parts, results, strict=True):
            total += sums
            bar.advance(part.stop - part.start)
    if problem.drawn is not None:  # a point that is drawn plays one game less than the others: none of its own
        total[..., problem.drawn] *= problem.n_references / (problem.n_references - 1)
    return total


def value_every_label(
    problem: NeighborProblem, *, device: str, n_jobs: int | None, progress: bool
) -> Float64[Tensor, "n classes weights"]:
    """Return the exact values of points as if they had each of the labels."""
    sums = sum_values(problem, every_label=True, device=device, n_jobs=n_jobs, progress=progress)
    mean = sums[0] / problem.n_references
    return mean.view(len(problem.weights), len(problem.classes), -1).permute(2, 1, 0).contiguous()


def divide_references(count: int, n: int) -> list[slice]:
    """Return parts of the reference, of a size that depends on the numbers of reference points and points alone."""
    most = max(min(MAX_PART, PART_PAIRS // n // MIN_PART * MIN_PART), MIN_PART)
    size = min(-(-count // (PARTS * MIN_PART)) * MIN_PART, most)
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def divide_evenly(count: int, most: int) -> int:
    """Return the size of blocks of at most so many rows, of which the last is not much smaller than the others."""
    most = most // ROWS * ROWS or most
    blocks = -(-count // most)
    return min(-(-count // (blocks * ROWS)) * ROWS, most)


def _announce_costs(problem: NeighborProblem, rows: int, *, device: str, n_jobs: int | None, enabled: bool) -> None:
    """Announce the expected time and memory of large problems."""
    kind = torch.device(device).type
    references = len(problem.reference_labels)
    pair = PAIR_SECONDS[kind] + COLUMN_SECONDS[kind] * problem.n_columns
    compiled = kind == "cpu" and rows == len(problem.weights)
    values = rows * (COMPILED_VALUE_SECONDS if compiled and problem.utility == "soft" else VALUE_SECONDS[kind])
    if problem.utility == "vote":
        few = 1 / 20 if compiled else 1 / 3
        values *= problem.k**2 * (len(problem.classes) if problem.k > MAX_VOTERS else few)
    workers = min(count_threads(n_jobs), references) if kind == "cpu" else 1
    announce(
        "valuing",
        f"{problem.n:,} points by {references:,} reference points",
        seconds=problem.n * references * (pair + values) / workers,
        memory=problem.__sizeof__() + workers * (BLOCK_BYTES[kind] + 40 * rows * problem.n),
        enabled=enabled,
    )


def _sum_part_on_cpu(problem: NeighborProblem, tolerance: float, every_label: bool, part: slice) -> Tensor:  # noqa: FBT001 - `spread` passes positional arguments
    x, y = _to_tensors("cpu", problem.places.factor, problem.labels)
    return _sum_part(problem, x, y, part, tolerance=tolerance, every_label=every_label)


def _sum_part(
    problem: NeighborProblem,
    x: Float64[Tensor, "n wide"],
    y: Num[Tensor, " n"],
    part: slice,
    *,
    tolerance: float,
    every_label: bool,
) -> Float64[Tensor, "2 rows n"]:
    """Return the sums over one part of the reference."""
    if problem.is_by_radius:
        return sum_part_inside(problem, x, y, part)
    device = str(x.device)
    references, labels, own = _to_tensors(
        device, problem.reference[part], problem.reference_labels[part], problem.own[part]
    )
    form = problem.form(device)
    rows = len(problem.weights) * (len(problem.classes) if every_label else 1)
    kind = x.device.type
    # A core works on one reference point at a time, so the memory for its values is negligible.
    pair_bytes = x.element_size() * len(x) * (rows if every_label and kind != "cpu" else 1)
    fitting = max(BLOCK_BYTES[kind] // pair_bytes, 1)
    most = min(fitting, max(2 * problem.n_columns, MIN_ROWS[kind]), MAX_ROWS[kind])
    size = divide_evenly(len(references), most)
    compiled = kind == "cpu" and problem.n * len(problem.reference_labels) >= COMPILED_PAIRS
    space = Workspace.of(len(x), min(size, len(references)), compiled=compiled) if kind == "cpu" else None
    total = x.new_zeros(2, rows, len(x))
    ranks = form.cut(tolerance)[0]
    tables = form.tables(ranks) if compiled and not every_label else None
    games = _Games(problem, form, x, y, ranks=ranks, every_label=every_label, space=space, tables=tables)
    for start in range(0, len(references), size):
        block = slice(start, start + size)
        games.add_to(total, references[block], labels[block], own[block])
    return total


@dataclass(frozen=True, eq=False)
class _Games:
    """The games of reference points, and what all of them need.

    Attributes:
        problem: what is valued.
        form: the closed form of the values.
        x: the points.
        y: their labels.
        ranks: how many of the nearest points are needed.
        every_label: whether each point is valued under every label.
        space: memory for one block and row, on a CPU.
        tables: what compiled loops need of the form; None if they do not add up its values.
    """

    problem: NeighborProblem
    form: ClosedForm
    x: Float64[Tensor, "n wide"]
    y: Num[Tensor, " n"]
    _: KW_ONLY
    ranks: int
    every_label: bool
    space: Workspace | None
    tables: SoftTables | VoteTables | None

    def add_to(
        self,
        total: Float64[Tensor, "2 rows n"],
        references: Float64[Tensor, "block columns"],
        labels: Num[Tensor, " block"],
        own: Int64[Tensor, " block"],
    ) -> None:
        """Add the values in the games of a block of reference points, and their squares, to a total.

        The distances of a block are computed at once. A core then sorts one row at a time, which stays in its cache.

        Args:
            total: the sums.
            references: the reference points.
            labels: their labels.
            own: index of the point that each reference point is, or -1.
        """
        if self.problem.is_direct:
            distances = distances_directly(references, self.x)
        else:
            distances = distances_by_product(references, self.x, self.problem.places.scale, self.space)
        scratch = None if self.space is None else self.space.scratch
        if scratch is not None and self.tables is not None:
            self._add_compiled(total, distances, references, labels, own, tables=self.tables, scratch=scratch)
            return
        together = len(references) if self.space is None else 1
        for row in range(0, len(references), together):
            rows = slice(row, row + together)
            keys = distances[rows].view(torch.int64) if self.problem.is_direct else whole_keys(distances[rows])
            order = self._order(keys, references[rows], own[rows])
            values = self._value_points(keys, order, references[rows], labels[rows])
            total[0].add_(values[:, 0] if together == 1 else values.sum(1))
            squares = values.square_()
            total[1].add_(squares[:, 0] if together == 1 else squares.sum(1))

    def _add_compiled(
        self,
        total: Float64[Tensor, "2 rows n"],
        distances: Float64[Tensor, "block n"],
        references: Float64[Tensor, "block columns"],
        labels: Num[Tensor, " block"],
        own: Int64[Tensor, " block"],
        *,
        tables: SoftTables | VoteTables,
        scratch: Scratch,
    ) -> None:
        """Sort and add row by row in compiled code, which stops where it needs direct distances."""
        from fwshapley.valuation.knn.loops.soft_values import Block, add_soft_values  # noqa: PLC0415 - numba takes a while
        from fwshapley.valuation.knn.loops.vote_values import add_vote_values  # noqa: PLC0415 - as above

        rounded = not self.problem.is_direct
        block = Block(distances.numpy(), rounded, own.numpy(), self.y.numpy().astype(np.int32), labels.numpy())
        add: Any = add_soft_values if isinstance(tables, SoftTables) else add_vote_values
        row = 0
        while row < len(distances):
            row = add(block, row, len(distances), tables, scratch, total.numpy())
            if row < len(distances):
                distances[row] = distances_directly(references[row : row + 1], self.x)[0]
                row = add(block._replace(rounded=False), row, row + 1, tables, scratch, total.numpy())

    def _order(
        self, keys: Int64[Tensor, "some n"], references: Float64[Tensor, "some columns"], own: Int64[Tensor, " some"]
    ) -> Int64[Tensor, "some ranks"]:
        """Return the order of the nearest points.

        Keys change in place: a point that is its own reference gets the key NEVER, and keys that are too coarse are
        replaced by those of direct distances.
        """
        rows = torch.arange(len(keys), device=keys.device)
        if self.problem.held_out:
            keys[rows, own] = NEVER
        order = orders(keys, self.ranks, self.space)
        again = rows[:0] if self.problem.is_direct else too_close(keys, order)
        if len(again):
            keys[again] = distances_directly(references[again], self.x).view(torch.int64)
            if self.problem.held_out:
                keys[rows, own] = NEVER
            order = orders(keys, self.ranks, self.space)
        return order

    def _value_points(
        self,
        keys: Int64[Tensor, "some n"],
        order: Int64[Tensor, "some ranks"],
        references: Float64[Tensor, "some columns"],
        reference_labels: Num[Tensor, " some"],
    ) -> Float64[Tensor, "rows some n"]:
        """Return the values of all points in the game of each reference point."""
        form, y = self.form, self.y
        out = None if self.space is None else self.space.labels[None, : order.shape[1]].view(y.dtype)
        labels = torch.gather(y.expand(len(order), -1), 1, order, out=out)
        farthest_labels = labels[:, -1] if order.shape[1] == form.n else y[farthest(keys)]
        by_class = form.by_class(reference_labels, farthest_labels)
        level = None
        if self.every_label:
            by_rank = form.under_every_label(labels, reference_labels).flatten(0, 1)
            if by_class is not None:
                level = by_class.mT.flatten(0, 1)[..., None].expand(-1, -1, len(y)).clone()
        else:
            closeness = weigh_by_kernel(self.problem, references, self.x)
            by_rank = form.by_rank(labels, reference_labels, None if closeness is None else closeness.gather(1, order))
            if by_class is not None:
                level = by_class[..., y]
        where = order.expand(len(by_rank), -1, -1)
        if level is None:
            level = by_rank.new_zeros(*by_rank.shape[:2], len(y))
        else:
            level[:, keys == NEVER] = 0
            by_rank += level.gather(2, where)
        return level.scatter_(2, where, by_rank)


def _to_tensors(device: str, *arrays: NDArray[Any]) -> list[Tensor]:
    """Return arrays as tensors. Those that another process shares are read-only; nothing in this module writes."""
    if all(array.flags.writeable for array in arrays):
        return [torch.from_numpy(array).to(device) for array in arrays]
    with warnings.catch_warnings(action="ignore"):
        return [torch.from_numpy(array).to(device) for array in arrays]
