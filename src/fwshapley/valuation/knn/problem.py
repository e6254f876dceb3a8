"""Points, reference points and what is played among them: checked once, for all that values by nearest neighbors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.checks import Array, check_choice, check_whole
from fwshapley.games.knn import Ties, Utility
from fwshapley.semivalues import Semivalue, Shapley, check_semivalue
from fwshapley.valuation.digests import digest_each, digest_points
from fwshapley.valuation.knn.distances import MOST_DIRECT, Metric, Places, place
from fwshapley.valuation.knn.engine import Game
from fwshapley.valuation.validation import check_labels, check_points, column_names, in_order


class Setting(NamedTuple):
    """What is played, and among whom.

    Attributes:
        places: of points and reference points.
        labels: class numbers of the points.
        other_labels: of the reference points.
        classes: the labels that they stand for.
        names: of the columns, where they have some.
        held_out: each reference point is one of the points, and no player of its own game.
        digest: of points and labels.
        reference_keys: digest of each reference point and its label; None if points are valued by each other.
    """

    places: Places
    labels: NDArray[np.int64]
    other_labels: NDArray[np.int64]
    classes: NDArray[Any]
    names: tuple[Any, ...] | None
    weights: tuple[Semivalue, ...]
    k: int
    utility: Utility
    ties: Ties
    metric: Metric
    held_out: bool
    digest: str
    reference_keys: Int64[Tensor, " references"] | None

    @property
    def columns(self) -> int:
        """Features of a point."""
        return len(self.places.center)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Classes as text."""
        return class_names(self.classes)

    def game(self, *, tolerance: float = 0.0, device: str = "cpu", every_label: bool = False) -> Game:
        """Return all but the points, as shards are told."""
        by_product = len(self.places.factor) * self.columns * len(self.other_labels) > MOST_DIRECT
        return Game(
            weights=self.weights,
            counts=tuple(np.bincount(self.labels, minlength=len(self.classes)).tolist()),
            k=self.k,
            utility=self.utility,
            ties=self.ties,
            held_out=self.held_out,
            tolerance=tolerance,
            scale=self.places.scale if by_product else None,
            device=device,
            every_label=every_label,
        )


def check_setting(
    x: Array,
    y: Array,
    x_reference: Array | None = None,
    y_reference: Array | None = None,
    *,
    weights: Sequence[Semivalue],
    k: int,
    utility: Utility = "soft",
    ties: Ties = "lowest",
    metric: Metric = "euclidean",
) -> Setting:
    """Return the setting that arguments of `value_neighbors` describe, or raise an error that says what is wrong."""
    for name, value, choices in (("utility", utility, Utility), ("ties", ties, Ties), ("metric", metric, Metric)):
        check_choice(name, value, get_args(choices))
    names = column_names(x)
    points = check_points("x", x)
    labels, classes = check_labels("y", y, len(points))
    if (x_reference is None) != (y_reference is None):
        raise ValueError("x_reference and y_reference go together: give both, or neither to value points by each other")
    held_out = x_reference is None
    if x_reference is None or y_reference is None:
        others, other_labels = None, labels
    else:
        others = check_points("x_reference", in_order("x_reference", x_reference, names), columns=points.shape[1])
        other_labels, _ = check_labels("y_reference", y_reference, len(others), classes=classes)
    k = check_whole("k", k)
    if k > len(points) - held_out:
        raise ValueError(
            f"k = {k} neighbors are more than the {len(points) - held_out} points there are to choose from"
        )
    return Setting(
        place(points, others, metric),
        labels,
        other_labels,
        classes,
        names,
        tuple(weights),
        k,
        utility,
        ties,
        metric,
        held_out,
        digest_points(points, labels, class_names(classes)),
        None if others is None else digest_each(others, other_labels),
    )


def class_names(classes: NDArray[Any]) -> tuple[str, ...]:
    """Classes as text."""
    return tuple(map(str, classes.tolist()))


def check_weights(weights: Semivalue | Sequence[Semivalue] | None) -> list[Semivalue]:
    """Return one or several weightings as a list; None is Shapley."""
    if weights is None:
        return [Shapley()]
    several = list(weights) if isinstance(weights, (list, tuple)) else [weights]
    if not several:
        raise ValueError("weights is an empty list; give at least one semivalue")
    return [check_semivalue(each) for each in several]


def check_pair(reference: object) -> tuple[Array, Array]:
    """Return reference points and their labels."""
    if not isinstance(reference, (tuple, list)) or len(reference) != 2:  # noqa: PLR2004 - a pair
        raise ValueError("reference must be a pair, (points, labels), or None to value points by each other")
    return reference[0], reference[1]
