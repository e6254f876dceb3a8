"""Values summed over reference points: each reference point is a game whose values have a closed form.

The reference points are divided into parts of a fixed size whose sums are added in order, so results do not depend on
the number of cores. Parts may run anywhere joblib can reach. Memory grows with the number of points and with the
reference points of a block, never with all pairs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

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
    Workspace,
    distances_by_product,
    distances_directly,
    farthest,
    orders,
    too_close,
    whole_keys,
)
from fwshapley.valuation.knn.problem import NeighborProblem
from fwshapley.valuation.knn.radius import sum_part_inside

PARTS = 64
MIN_PART, MAX_PART = 128, 512
"""Number of parts of the reference, and reference points of a part at least and at most."""

BLOCK_BYTES = {"cpu": 2**27, "cuda": 2**29}
MAX_ROWS = {"cpu": 128, "cuda": 2**12}
"""Distances in memory at once, for each core or for the GPU, and the most reference points that they belong to."""

PAIR_SECONDS = {"cpu": 1e-7, "cuda": 4e-10}
"""Time to sort one pair of a point and a reference point by distance, on one core or on a GPU."""

COLUMN_SECONDS = {"cpu": 1e-10, "cuda": 1e-12}
VALUE_SECONDS = {"cpu": 2e-8, "cuda": 1e-10}
"""Further time for each feature, and for each value of each weighting."""


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
    parts = divide_references(len(problem.reference_labels))
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
    return total


def value_every_label(
    problem: NeighborProblem, *, device: str, n_jobs: int | None, progress: bool
) -> Float64[Tensor, "n classes weights"]:
    """Return the exact values of points as if they had each of the labels."""
    sums = sum_values(problem, every_label=True, device=device, n_jobs=n_jobs, progress=progress)
    mean = sums[0] / problem.n_references
    return mean.view(len(problem.weights), len(problem.classes), -1).permute(2, 1, 0).contiguous()


def divide_references(count: int) -> list[slice]:
    """Return parts of the reference, of a size that depends on the number of reference points alone."""
    size = min(max(-(-count // PARTS), MIN_PART), MAX_PART)
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def _announce_costs(problem: NeighborProblem, rows: int, *, device: str, n_jobs: int | None, enabled: bool) -> None:
    """Announce the expected time and memory of large problems."""
    kind = torch.device(device).type
    references = len(problem.reference_labels)
    pair = PAIR_SECONDS[kind] + COLUMN_SECONDS[kind] * problem.n_columns
    values = rows * VALUE_SECONDS[kind]
    if problem.utility == "vote":
        values *= problem.k**2 * (len(problem.classes) if problem.k > MAX_VOTERS else 1 / 3)
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
    references, reference_labels = _to_tensors(device, problem.reference[part], problem.reference_labels[part])
    form = problem.form(device)
    ranks = form.cut(tolerance)[0]
    rows = len(problem.weights) * (len(problem.classes) if every_label else 1)
    kind = x.device.type
    # A core works on one reference point at a time, so the memory for its values is negligible.
    pair_bytes = x.element_size() * len(x) * (rows if every_label and kind != "cpu" else 1)
    fitting = max(BLOCK_BYTES[kind] // pair_bytes, 1)
    size = min(1 << fitting.bit_length() - 1, MAX_ROWS[kind])  # matrix products are fastest for powers of two
    space = Workspace.of(len(x), min(size, len(references))) if kind == "cpu" else None
    total = x.new_zeros(2, rows, len(x))
    for some, keys, order in _sort_blocks(
        problem, references, x, first=part.start, ranks=ranks, size=size, space=space
    ):
        values = _value_points(
            form, keys, order, y, reference_labels[some], closeness=weigh_by_kernel(problem, references[some], x),
            every_label=every_label, space=space,
        )  # fmt: skip
        if values.shape[1] == 1:  # in place, since memory for the sum would cost as much as the sum
            total[0].add_(values[:, 0])
            total[1].addcmul_(values[:, 0], values[:, 0])
        else:
            total[0].add_(values.sum(1))
            total[1].add_(values.square().sum(1))
    return total


def _sort_blocks(
    problem: NeighborProblem,
    references: Float64[Tensor, "part columns"],
    x: Float64[Tensor, "n wide"],
    *,
    first: int,
    ranks: int,
    size: int,
    space: Workspace | None,
) -> Iterator[tuple[slice, Int64[Tensor, "some n"], Int64[Tensor, "some ranks"]]]:
    """Yield some reference points after others, with the keys of all points and the order of the nearest ones.

    The distances of a block are computed at once. A core then sorts one row at a time, which stays in its cache.

    Args:
        problem: what is valued.
        references: the reference points of a part.
        x: the points.
        first: index of the first reference point of the part.
        ranks: how many of the nearest points are needed.
        size: reference points of a block.
        space: memory for one block and row, on a CPU.
    """
    together = size if space is None else 1
    for start in range(0, len(references), size):
        block = references[start : start + size]
        if problem.is_direct:
            distances = distances_directly(block, x)
        else:
            distances = distances_by_product(block, x, problem.places.scale, space)
        for row in range(0, len(block), together):
            some = slice(row, row + together)
            keys = distances[some].view(torch.int64) if problem.is_direct else whole_keys(distances[some])
            indices = torch.arange(len(keys), device=x.device) + (first + start + row)
            order = _order(problem, keys, indices, (block[some], x), ranks=ranks, space=space)
            yield slice(start + row, start + row + len(keys)), keys, order


def _order(
    problem: NeighborProblem,
    keys: Int64[Tensor, "some n"],
    indices: Int64[Tensor, " some"],
    places: tuple[Tensor, Tensor],
    *,
    ranks: int,
    space: Workspace | None,
) -> Int64[Tensor, "some ranks"]:
    """Return the order of the nearest points.

    Keys change in place: a point that is its own reference gets the key NEVER, and keys that are too coarse are
    replaced by those of direct distances.

    Args:
        problem: what is valued.
        keys: to sort by.
        indices: index of each reference point.
        places: coordinates of the reference points, and of all points.
        ranks: how many of the nearest points are needed.
        space: memory for the order of one reference point.
    """
    rows = torch.arange(len(keys), device=keys.device)
    if problem.held_out:
        keys[rows, indices] = NEVER
    order = orders(keys, ranks, space)
    again = rows[:0] if problem.is_direct else too_close(keys, order)
    if len(again):
        references, x = places
        keys[again] = distances_directly(references[again], x).view(torch.int64)
        if problem.held_out:
            keys[rows, indices] = NEVER
        order = orders(keys, ranks, space)
    return order


def _value_points(
    form: ClosedForm,
    keys: Int64[Tensor, "some n"],
    order: Int64[Tensor, "some ranks"],
    y: Num[Tensor, " n"],
    reference_labels: Num[Tensor, " some"],
    *,
    closeness: Float64[Tensor, "some n"] | None,
    every_label: bool,
    space: Workspace | None,
) -> Float64[Tensor, "rows some n"]:
    """Return the values of all points in the game of each reference point."""
    out = None if space is None else space.labels[None, : order.shape[1]].view(y.dtype)
    labels = torch.gather(y.expand(len(order), -1), 1, order, out=out)
    farthest_labels = labels[:, -1] if order.shape[1] == form.n else y[farthest(keys)]
    by_class = form.by_class(reference_labels, farthest_labels)
    level = None
    if every_label:
        by_rank = form.under_every_label(labels, reference_labels).flatten(0, 1)
        if by_class is not None:
            level = by_class.mT.flatten(0, 1)[..., None].expand(-1, -1, len(y)).clone()
    else:
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
