"""Codes, counts of the background, and sums of table entries on a GPU, by Triton kernels that torch brings along.

Tables are computed on the CPU (`code_tables`), which takes a small part of the time, and copied. Every sum has one
order, so that the same rows give the same values, to the last bit.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
# Triton compiles its kernels from untyped arguments.

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, Int16, Int64
from numpy import ndarray
from torch import Tensor

from fwshapley._internal.tensor_checks import choose_device
from fwshapley.trees.decisions import Splits
from fwshapley.trees.lookup import Schedule
from fwshapley.trees.paths import Branches

try:
    import triton
    import triton.language as tl
except ImportError as error:  # pragma: no cover - depends on the build of torch
    raise ImportError(
        "trees on a GPU need Triton, which torch's builds for CUDA bring along; use device='cpu'"
    ) from error

BLOCK = 256
"""Rows of a block of the encoding kernel."""

NUMBERS_PER_BLOCK = 2048
"""Sums of a block of the look-up kernel, rows times numbers per target."""

CODES_AT_ONCE = 2**29
"""Codes that are in memory at once: 1 GB."""


COPIED_AT_ONCE = 2**23
"""Numbers that are copied from the GPU at once, through memory that it can reach: 64 MB."""


class Conditions(NamedTuple):
    """The splits that make up the codes of branches, on a GPU; `Branches` and `Splits` document them."""

    starts: Int64[Tensor, " branch_starts"]
    feature: Tensor
    threshold: Tensor
    missing_left: Tensor
    categories: Tensor
    unseen_left: Tensor
    wanted_left: Tensor
    bit: Tensor
    category_sets: Tensor

    @classmethod
    def of(cls, splits: Splits, branches: Branches, device: torch.device) -> Conditions:
        """Return the conditions of all branches."""
        node = branches.condition_node
        arrays = (
            branches.conditions,
            splits.feature[node],
            splits.threshold[node],
            splits.missing_left[node].astype(np.int32),
            splits.categories[node],
            splits.unseen_left[node].astype(np.int32),
            branches.condition_left.astype(np.int32),
            branches.condition_bit.astype(np.int32),
            splits.category_sets.astype(np.int8),
        )
        return cls(*(torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in arrays))


class DeviceSchedule(NamedTuple):
    """A `Schedule` of one batch, on a GPU."""

    runs: Int64[Tensor, " starts"]
    target: Int64[Tensor, " runs"]
    branch: Int64[Tensor, " tables"]
    start: Int64[Tensor, " tables"]

    @classmethod
    def of(cls, plan: Schedule, device: torch.device) -> DeviceSchedule:
        """Return the order_tables on a device."""
        return cls(*(torch.from_numpy(array).to(device) for array in (plan.runs, plan.target, plan.branch, plan.start)))


@triton.jit
def _encode(
    columns,
    n_rows,
    first,
    starts,
    feature,
    threshold,
    missing_left,
    categories,
    unseen_left,
    wanted_left,
    bit,
    category_sets,
    n_categories,
    codes,
    has_categories: tl.constexpr,
    block: tl.constexpr,
):
    """Write the codes of a block of rows for one branch; the rule is that of `decisions.goes_left`."""
    branch = tl.program_id(1)
    rows = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = rows < n_rows
    code = tl.zeros((block,), tl.int32)
    for condition in range(tl.load(starts + first + branch), tl.load(starts + first + branch + 1)):
        value = tl.load(columns + tl.load(feature + condition).to(tl.int64) * n_rows + rows, mask=inside, other=0.0)
        left = (value <= tl.load(threshold + condition)).to(tl.int32)
        if has_categories:
            category = tl.load(categories + condition)
            known = (value >= 0) & (value < n_categories)
            entry = category.to(tl.int64) * n_categories + tl.where(known, value, 0.0).to(tl.int64)
            in_set = tl.load(category_sets + entry, mask=known & (category >= 0), other=0).to(tl.int32)
            left = tl.where(category >= 0, tl.where(known, in_set, tl.load(unseen_left + condition)), left)
        left = tl.where(value != value, tl.load(missing_left + condition), left)  # noqa: PLR0124 - NaN
        code |= (left != tl.load(wanted_left + condition)).to(tl.int32) << tl.load(bit + condition)
    tl.store(codes + branch.to(tl.int64) * n_rows + rows, code.to(tl.int16), mask=inside)


@triton.jit
def _add_entries(
    codes,
    n_rows,
    runs,
    target_of,
    branch_of,
    start_of,
    tables,
    sums,
    n_targets,
    width,
    padded: tl.constexpr,
    block: tl.constexpr,
):
    """Add the entries of all tables of one target to the sums of a block of rows."""
    run = tl.program_id(1)
    rows = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    numbers = tl.arange(0, padded)
    inside = rows < n_rows
    both = inside[:, None] & (numbers < width)[None, :]
    total = tl.zeros((block, padded), tl.float64)
    for table in range(tl.load(runs + run), tl.load(runs + run + 1)):
        code = tl.load(codes + tl.load(branch_of + table) * n_rows + rows, mask=inside, other=0).to(tl.int64)
        entry = tl.load(start_of + table) + code * width
        total += tl.load(tables + entry[:, None] + numbers[None, :], mask=both, other=0.0)
    place = sums + (rows * n_targets + tl.load(target_of + run))[:, None] * width + numbers[None, :]
    tl.store(place, tl.load(place, mask=both, other=0.0) + total, mask=both)


def encode(
    conditions: Conditions, first: int, count: int, columns: Float64[Tensor, "features rows"]
) -> Int16[Tensor, "branches rows"]:
    """Return the codes of rows for some branches, from the first one on."""
    rows = columns.shape[1]
    codes = torch.empty(count, rows, dtype=torch.int16, device=columns.device)
    starts, *per_condition, category_sets = conditions
    has_categories = bool(category_sets.numel())
    _encode[triton.cdiv(rows, BLOCK), count](
        columns, rows, first, starts, *per_condition, category_sets, category_sets.shape[1], codes, has_categories,
        BLOCK,
    )  # fmt: skip
    return codes


class Gpu:
    """Does on a GPU what `lookup` and `interventional` do on the CPU, with the same arguments and results.

    Args:
        device: such as "cuda".
    """

    def __init__(self, device: str) -> None:
        self.device = choose_device(device)

    def conditions(self, splits: Splits, branches: Branches) -> Conditions:
        """Return the conditions of branches on the GPU."""
        return Conditions.of(splits, branches, self.device)

    def upload(
        self, plan: Schedule, tables: Float64[ndarray, " numbers"]
    ) -> tuple[DeviceSchedule, Float64[Tensor, " numbers"]]:
        """Return a order_tables of a single batch, and its tables, on the GPU."""
        return DeviceSchedule.of(plan, self.device), torch.from_numpy(tables).to(self.device)

    def count_codes(
        self,
        conditions: Conditions,
        first: int,
        offsets: Int64[ndarray, " starts"],
        columns: Float64[ndarray, "features rows"],
    ) -> Float64[ndarray, " codes"]:
        """Return the share of the background rows with each code of some branches."""
        n_branches, rows = len(offsets) - 1, columns.shape[1]
        background = torch.from_numpy(columns).to(self.device)
        counts = torch.zeros(int(offsets[-1]), dtype=torch.int64, device=self.device)
        at_once = max(1, CODES_AT_ONCE // (8 * rows))
        for begin in range(0, n_branches, at_once):
            end = min(n_branches, begin + at_once)
            codes = encode(conditions, first + begin, end - begin, background).long()
            codes += torch.from_numpy(offsets[begin:end]).to(self.device)[:, None]
            counts += torch.bincount(codes.flatten(), minlength=len(counts))
        return (counts.double() / rows).cpu().numpy()

    def look_up(
        self,
        conditions: Conditions,
        made: Iterable[tuple[int, Int64[ndarray, " starts"], DeviceSchedule, Float64[Tensor, " numbers"]]],
        x: Float64[ndarray, "rows features"],
        n_targets: int,
        width: int,
    ) -> Float64[Tensor, "rows targets width"]:
        """Return the sums of the table entries of each row's codes, on the GPU.

        Args:
            conditions: of all branches.
            made: the first branch of each chunk, where tables begin, their order and they, from `upload`.
            x: the rows.
            n_targets: number of targets.
            width: numbers per target.
        """
        columns = torch.from_numpy(x).to(self.device).T.contiguous()
        sums = torch.zeros(len(x), n_targets, width, dtype=torch.float64, device=self.device)
        padded = triton.next_power_of_2(width)
        block = max(16, NUMBERS_PER_BLOCK // padded)
        for first, offsets, plan, tables in made:
            count = len(offsets) - 1
            at_once = max(block, CODES_AT_ONCE // count)
            for begin in range(0, len(x), at_once):
                some = columns[:, begin : begin + at_once].contiguous()
                codes = encode(conditions, first, count, some)
                _add_entries[triton.cdiv(some.shape[1], block), len(plan.target)](
                    codes, some.shape[1], plan.runs, plan.target, plan.branch, plan.start, tables, sums[begin:],
                    n_targets, width, padded, block,
                )  # fmt: skip
        return sums

    def add_mixed(
        self,
        sums: Float64[Tensor, "rows targets width"],
        mixing: Float64[ndarray, "channels weightings"],
        values: Float64[ndarray, "weightings rows targets outputs"],
    ) -> None:
        """Add the weightings, which are combinations of channels, to values on the CPU, as `lookup.add_mixed` does."""
        of_channels = torch.from_numpy(mixing).to(self.device)
        at_once = max(1, COPIED_AT_ONCE // values[0, 0].size)
        staging = torch.empty(min(at_once, len(sums)), *values.shape[2:], dtype=torch.float64, pin_memory=True)
        by_channel = sums.reshape(len(sums), *values.shape[2:], len(mixing))
        for weighting, target in enumerate(torch.from_numpy(values)):
            for begin in range(0, len(sums), at_once):
                mixed = by_channel[begin : begin + at_once] @ of_channels[:, weighting]
                target[begin : begin + at_once] += staging[: len(mixed)].copy_(mixed)
