"""Numbers of closed forms in the arrays that compiled loops read."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float64, Int64
from numpy import ndarray


class SoftTables(NamedTuple):
    """What compiled loops need of `Soft`: reach and drop by weighting and rank, and the gain of a match."""

    reach: Float64[ndarray, "weights ranks"]
    drop: Float64[ndarray, "weights ranks"]
    gain: float


class VoteTables(NamedTuple):
    """What compiled loops need of `Vote` for at most `MAX_VOTERS` neighbors.

    Attributes:
        k: number of nearest neighbors.
        small: E by weighting, label and class.
        chances: by weighting and rank, the weight of each coalition of K.
        votes: of the label, for each series.
        shares: by which a series counts.
        by_count: lambda and g by term, which is a power of a series: a row of zeros, one for each count of a class
            before the label, and one for each count of a class after it. Counts that follow each other share the cache.
    """

    k: int
    small: Float64[ndarray, "weights classes classes"]
    chances: Float64[ndarray, "weights ranks"]
    votes: Int64[ndarray, " series"]
    shares: Float64[ndarray, " series"]
    by_count: Float64[ndarray, "rows 2 terms"]
