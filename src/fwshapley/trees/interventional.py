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


@compiled(parallel=True)
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
    rows = columns.shape[1]
    for position in numba.prange(len(offsets) - 1):
        branch = first + position
        codes = np.empty(COUNTED_AT_ONCE, np.uint32)
        for begin in range(0, rows, COUNTED_AT_ONCE):
            end = min(rows, begin + COUNTED_AT_ONCE)
            encode_block(splits, branches, branch, columns[:, begin:end], codes[: end - begin])
            for row in range(end - begin):
                counts[offsets[position] + codes[row]] += weight[begin + row]
    return counts
