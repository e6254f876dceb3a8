"""Interventional game: hidden features take the values of a background row, v(S) = mean of f(x_S, z_not-S) over z."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from fwshapley._internal.compilation import compiled
from fwshapley.trees.compiled import run_ranges
from fwshapley.trees.decisions import Splits
from fwshapley.trees.paths import Branches, encode_block

COUNTED_AT_ONCE = 4096

BATCH = 16
"""Branches whose codes are computed before they are counted."""


def count_codes(
    splits: Splits,
    branches: Branches,
    first: int,
    offsets: Int64[ndarray, " starts"],
    columns: Float64[ndarray, "features rows"],
    weight: Float64[ndarray, " rows"],
) -> Float64[ndarray, " codes"]:
    """Return the weight of the background rows with each code of some branches.

    Args:
        splits: of the ensemble.
        branches: of the ensemble.
        first: the first branch; one less than there are offsets are counted.
        offsets: where the codes of each branch begin in the result.
        columns: the background, a row per feature.
        weight: one per background row.
    """
    counts = np.zeros(offsets[-1])
    run_ranges(_count_codes, -(-(len(offsets) - 1) // BATCH), splits, branches, first, offsets, columns, weight, counts)
    return counts


@compiled
def _count_codes(first_batch, last_batch, splits, branches, first, offsets, columns, weight, counts):
    rows = columns.shape[1]
    codes = np.empty((BATCH, COUNTED_AT_ONCE), np.uint32)
    for batch in range(first_batch, last_batch):
        start = batch * BATCH
        count = min(len(offsets) - 1 - start, BATCH)
        for begin in range(0, rows, COUNTED_AT_ONCE):
            end = min(rows, begin + COUNTED_AT_ONCE)
            own_codes = codes[:, : end - begin]
            encode_block(splits, branches, first + start, columns[:, begin:end], own_codes, count)
            for position in range(count):
                offset = offsets[start + position]
                for row in range(end - begin):
                    counts[offset + own_codes[position, row]] += weight[begin + row]
