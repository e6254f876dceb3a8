"""What a neighbor search says beside labels: near duplicates, outliers, and points that two files share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Float64, Int64
from numpy import ndarray
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from fwshapley.valuation.knn.neighbor_search import Neighbors

NEAR = 0.1
"""Points are near duplicates if they are closer than this share of the usual distance to the nearest neighbor."""

FAR = 3.0
"""Outliers are this many interquartile ranges beyond the upper quartile of log distances: Tukey's "far out"."""


def duplicate_distance(neighbors: Neighbors) -> float:
    """Return the distance up to which points are near duplicates: a share of the median nearest distance that is not 0.

    Equal points do not count, so that a table of many of them has a distance, too.
    """
    nearest = neighbors.distances[:, 0].numpy()
    apart = nearest[nearest > 0]
    return NEAR * float(np.median(apart)) if len(apart) else 0.0


def find_duplicates(neighbors: Neighbors, names: NDArray[Any], limit: float) -> pd.DataFrame:
    """Return the points that have near duplicates, with the group of each, and whether the labels of a group differ.

    Args:
        neighbors: of all points.
        names: label of each point.
        limit: distance up to which points are near duplicates.
    """
    indices, distances = neighbors.indices.numpy(), neighbors.distances.numpy()
    points, places = np.nonzero(distances <= limit)
    others = indices[points, places]
    graph = coo_matrix((np.ones(len(points)), (points, others)), shape=(len(indices), len(indices)))
    group_of = connected_components(graph, directed=False)[1]
    members = np.unique(np.concatenate([points, others]))
    frame = pd.DataFrame(
        {"group": pd.factorize(group_of[members])[0], "point": members, "label": names[members]},
    )
    frame["distance"] = np.where(distances[members, 0] <= limit, distances[members, 0], limit)
    frame["labels_differ"] = frame.groupby("group")["label"].transform("nunique").to_numpy() > 1
    return frame.sort_values(["labels_differ", "group", "point"], ascending=[False, True, True], ignore_index=True)


def find_outliers(neighbors: Neighbors) -> pd.DataFrame:
    """Return the points that are far from all others, the farthest first.

    The distance of a point is the mean distance to its nearest neighbors, relative to the median of all points.
    """
    means = neighbors.distances.numpy().mean(1)
    typical = float(np.median(means[means > 0])) if (means > 0).any() else 1.0
    logs = np.log(np.maximum(means / typical, 1e-9))
    lower, upper = np.quantile(logs[means > 0], [0.25, 0.75]) if (means > 0).any() else (0.0, 0.0)
    far = np.flatnonzero(logs > upper + FAR * max(upper - lower, 1e-9))
    far = far[np.argsort(-means[far], kind="stable")]
    return pd.DataFrame({"point": far, "distance": means[far] / typical})


def find_confusions(
    posterior: Float[ndarray, "n classes"], labels: Int64[ndarray, " n"], classes: NDArray[Any]
) -> pd.DataFrame:
    """Return the expected number of points by given label (rows) and true label (columns)."""
    counts: Float64[ndarray, "classes classes"] = np.zeros((len(classes), len(classes)))
    np.add.at(counts, labels, posterior)
    return pd.DataFrame(counts, index=pd.Index(classes, name="given"), columns=pd.Index(classes, name="true"))


def find_shared(neighbors: Neighbors, limit: float) -> pd.DataFrame:
    """Return which of other points are near duplicates of points: the other, the nearest point, and their distance."""
    distances = neighbors.distances[:, 0].numpy()
    shared = np.flatnonzero(distances <= limit)
    return pd.DataFrame(
        {"other": shared, "point": neighbors.indices[:, 0].numpy()[shared], "distance": distances[shared]}
    )
