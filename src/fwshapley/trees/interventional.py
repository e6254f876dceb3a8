"""Interventional game: hidden features take the values of a background row, v(S) = mean of f(x_S, z_not-S) over z."""

from __future__ import annotations

import numba
import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from fwshapley.trees.compiled import compiled
from fwshapley.trees.decisions import Splits
from fwshapley.trees.paths import Branches, encode_block

COUNTED_AT_ONCE = 4096


def code_offsets(branches: Branches) -> Int64[ndarray, " branches+1"]:
    """Return where the codes of each branch begin in one array for all codes."""
    return np.concatenate([[0], np.cumsum(1 << branches.bits.astype(np.int64))])


@compiled(parallel=True)
def count_codes(
    splits: Splits,
    branches: Branches,
    offsets: Int64[ndarray, " branches+1"],
    columns: Float64[ndarray, "features rows"],
    weight: Float64[ndarray, " rows"],
) -> Float64[ndarray, " codes"]:
    """Return the weight of the background rows with each code of each branch.

    Args:
        splits: of the ensemble.
        branches: of the ensemble.
        offsets: `code_offsets`.
        columns: the background, a row per feature.
        weight: one per background row.
    """
    counts = np.zeros(offsets[-1])
    rows = columns.shape[1]
    for branch in numba.prange(len(offsets) - 1):
        codes = np.empty(COUNTED_AT_ONCE, np.uint32)
        for begin in range(0, rows, COUNTED_AT_ONCE):
            end = min(rows, begin + COUNTED_AT_ONCE)
            encode_block(splits, branches, branch, columns[:, begin:end], codes[: end - begin])
            for row in range(end - begin):
                counts[offsets[branch] + codes[row]] += weight[begin + row]
    return counts
