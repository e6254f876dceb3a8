"""What each training point is worth to its nearest neighbours' predictions: exact, for every weighting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, get_args

import numpy as np
import torch

from fwshapley.checks import Array, check_choice, check_real, check_whole
from fwshapley.games.neighbours import Ties, Utility
from fwshapley.inputs import choose_device
from fwshapley.progress import ProgressBar
from fwshapley.valuation.distances import MOST_DIRECT, Metric, place
from fwshapley.valuation.inputs import check_labels, check_points
from fwshapley.valuation.manners import Valuator
from fwshapley.valuation.result import OTHER_POINTS, Valuation, from_sums
from fwshapley.valuation.shards import Game, Sums, add_up, cut, make_shards
from fwshapley.version import __version__
from fwshapley.weights import Semivalue, Shapley, check_semivalue


def value_neighbours(
    x: Array,
    y: Array,
    x_reference: Array | None = None,
    y_reference: Array | None = None,
    *,
    k: int = 5,
    weights: Semivalue | Sequence[Semivalue] | None = None,
    utility: Utility = "soft",
    ties: Ties = "lowest",
    metric: Metric = "euclidean",
    tolerance: float = 0.0,
    device: str | torch.device = "auto",
    n_jobs: int | None = None,
    progress: bool = True,
) -> Valuation:
    """Value training points by how much they help a K-nearest-neighbour classifier on reference points.

    Args:
        x: features of the training points, (n, ...).
        y: their labels: numbers or text.
        x_reference: points to be predicted, of every class: those of a class that is missing can only seem to do harm.
            None values each training point by how it serves the others.
        y_reference: their labels.
        k: neighbours that decide.
        weights: a semivalue, or several, which share all distances and sorts; None is Shapley.
        utility: "soft", the share of the K nearest that have the label; "normalised", their share of those there are;
            "vote", whether the label wins the vote among them.
        ties: of a vote, go to the "lowest" class or are "shared".
        metric: "euclidean" or "cosine". Columns are not scaled: a column of large numbers counts most.
        tolerance: most that any value may be off, for speed: weightings of large coalitions depend on few neighbours.
        device: "cpu", "cuda", or "auto" for a GPU if there is one.
        n_jobs: cores to use on a CPU; None is as many as an active `joblib.parallel_config` asks for, if that is more
            than one, else all. Its backend may also spread the work over processes or machines.
        progress: show a progress bar when it takes long on a terminal.

    Returns:
        Values with standard errors over reference points, (n,), or (weights, n) for several weightings.

    Example:
        >>> value_neighbours(x, y, x_valid, y_valid, weights=Beta(alpha=4, beta=1)).suspects(20)
    """
    several = _check_weights(weights)
    for name, value, choices in (("utility", utility, Utility), ("ties", ties, Ties), ("metric", metric, Metric)):
        check_choice(name, value, get_args(choices))
    tolerance = check_real("tolerance", tolerance)
    if tolerance < 0:
        raise ValueError(f"tolerance must not be negative, got {tolerance:g}")
    points = check_points("x", x)
    labels, classes = check_labels("y", y, len(points))
    if (x_reference is None) != (y_reference is None):
        raise ValueError("x_reference and y_reference go together: give both, or neither to value points by each other")
    held_out = x_reference is None
    if x_reference is None or y_reference is None:
        others, other_labels = None, labels
    else:
        others = check_points("x_reference", x_reference, columns=points.shape[1])
        other_labels, _ = check_labels("y_reference", y_reference, len(others), classes=classes)
    k = check_whole("k", k)
    if k > len(points) - held_out:
        raise ValueError(
            f"k = {k} neighbours are more than the {len(points) - held_out} points there are to choose from"
        )
    places = place(points, others, metric)
    game = Game(
        weights=tuple(several),
        counts=tuple(np.bincount(labels, minlength=len(classes)).tolist()),
        k=k,
        utility=utility,
        ties=ties,
        held_out=held_out,
        tolerance=tolerance,
        scale=places.scale if points.size * len(other_labels) > MOST_DIRECT else None,
        device=str(choose_device(device)),
    )
    shards = list(make_shards(places.references, other_labels))
    with ProgressBar("valuing", len(other_labels), enabled=progress) as bar:
        total: Sums | None = None
        for shard, found in zip(shards, add_up(game, places.factor, labels, shards, n_jobs), strict=True):
            total = total.plus(found) if total else found
            bar.advance(len(shard.labels))
    assert total is not None  # noqa: S101 - there is a reference point at least
    return from_sums(
        total.values.cpu(),
        total.squares.cpu(),
        references=len(other_labels) - held_out,
        weights=several if isinstance(weights, (list, tuple)) else several[0],
        labels=torch.from_numpy(labels),
        classes=tuple(map(str, classes.tolist())),
        error_bound=cut(game)[1],
        provenance={
            "method": f"{k} nearest neighbours, {utility}",
            "k": k,
            "utility": utility,
            "ties": ties,
            "metric": metric,
            "tolerance": tolerance,
            "reference": OTHER_POINTS if held_out else "given",
            "fwshapley": __version__,
        },
    )


class KNNValuator(Valuator):
    """Values of training points for a K-nearest-neighbour classifier, in scikit-learn's manners.

    Arguments are those of `value_neighbours`.

    Attributes:
        result_: the Valuation, after `fit`.
        values_: its values.

    Example:
        >>> KNNValuator(k=5, weights=Beta(alpha=4, beta=1)).fit(x, y, reference=(x_valid, y_valid)).result_.suspects(20)
    """

    def __init__(
        self,
        k: int = 5,
        *,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        utility: Utility = "soft",
        ties: Ties = "lowest",
        metric: Metric = "euclidean",
        tolerance: float = 0.0,
        device: str | torch.device = "auto",
        n_jobs: int | None = None,
        progress: bool = True,
    ) -> None:
        self.k, self.weights, self.utility, self.ties, self.metric = k, weights, utility, ties, metric
        self.tolerance, self.device, self.n_jobs, self.progress = tolerance, device, n_jobs, progress

    def fit(self, x: Array, y: Array, reference: tuple[Array, Array] | None = None) -> Self:
        """Value the points of x by their use for reference points, or each by its use for the others."""
        x_reference, y_reference = (None, None) if reference is None else _check_pair(reference)
        self.result_ = value_neighbours(x, y, x_reference, y_reference, **self.get_params())
        return self


def _check_pair(reference: object) -> tuple[Array, Array]:
    if not isinstance(reference, (tuple, list)) or len(reference) != 2:  # noqa: PLR2004 - a pair
        raise ValueError("reference must be a pair, (points, labels), or None to value points by each other")
    return reference[0], reference[1]


def _check_weights(weights: Semivalue | Sequence[Semivalue] | None) -> list[Semivalue]:
    if weights is None:
        return [Shapley()]
    several = list(weights) if isinstance(weights, (list, tuple)) else [weights]
    if not several:
        raise ValueError("weights is an empty list; give at least one semivalue")
    return [check_semivalue(each) for each in several]
