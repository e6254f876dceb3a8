"""What was found about labeled points: their values, the suspects among them, and better labels for those."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from fwshapley._internal.wording import counted, listed
from fwshapley.cli.images import Pictures
from fwshapley.cli.labeled_table import Table
from fwshapley.games.knn import Utility
from fwshapley.semivalues import Semivalue
from fwshapley.valuation import Valuation, value_neighbors
from fwshapley.valuation.knn.distances import Metric
from fwshapley.valuation.knn.suggestions import Suggestions, suggest_labels

Labeled = Table | Pictures
"""What may be valued: each has features x, labels y, classes, and says what its points are called."""

MOST_ASKED = 1000
"""Points of negative value whose neighbors are asked, each at the cost of a look at all of them."""


@dataclass(frozen=True, eq=False)
class Findings:
    """Labeled points with what they are worth.

    Attributes:
        points: what was valued.
        reference: what they were valued by; None if by each other.
        valuation: of the points.
        suspects: indices of the points of lowest value, from the lowest on.
        suggestions: labels that their neighbors suggest.
        top: how many of them to show.
    """

    points: Labeled
    reference: Labeled | None
    valuation: Valuation
    suspects: Int64[Tensor, " suspects"]
    suggestions: Suggestions
    top: int

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the points."""
        return self.points.notes + (() if self.reference is None else self.reference.notes)

    @property
    def summary(self) -> list[str]:
        """What was found, in two sentences."""
        points, how, noun = self.points, self.valuation.provenance, self.points.noun
        sizes = np.bincount(points.y).tolist()
        classes = listed(f"{name} {size:,}" for name, size in zip(points.classes.names, sizes, strict=True))
        by = "each other" if self.reference is None else f"the {len(self.reference):,} of {self.reference.path.name}"
        negative = int((self.valuation.values < 0).sum())
        what = (
            f"{counted(len(points), noun)} of {len(sizes)} classes ({classes}), valued by {by}: "
            f"{self.valuation.weights} for {how['k']} nearest neighbors, utility {how['utility']}, "
            f"{how['metric']} distance."
        )
        if not negative:
            return [what, f"No {noun} is of negative value: under this weighting the order tells, not the sign."]
        harmful = f"{counted(negative, noun)} ({negative / len(points):.0%})"
        return [what, f"Of negative value, so harmful to the prediction of others: {harmful}."]

    @property
    def asked(self) -> int:
        """How many neighbors were asked for a label."""
        return min(int(self.valuation.provenance["k"]), len(self.points) - 1)

    @property
    def suggested(self) -> list[str | None]:
        """Another label for each suspect, or None where most of its neighbors have the label that it has."""
        names = self.class_names(self.suggestions.labels)
        kept = self.suggestions.labels == self.valuation.labels[self.suspects]
        return [None if same else name for same, name in zip(kept.tolist(), names, strict=True)]

    def class_names(self, labels: Int64[Tensor, " labels"]) -> list[str]:
        """Names of classes by their numbers."""
        return [self.points.classes.names[label] for label in labels.tolist()]


def value_points(
    points: Labeled,
    reference: Labeled | None,
    *,
    weights: Semivalue,
    k: int,
    utility: Utility,
    metric: Metric,
    top: int,
    jobs: int | None,
    device: str | torch.device = "auto",
) -> Findings:
    """Value labeled points, and ask the neighbors of the most suspicious ones for a better label.

    These are the `top` points of lowest value that are shown, and all others of negative value, up to some number.
    Arguments are those of `value_neighbors`.
    """
    for each in (points, reference):
        if metric == "cosine" and each is not None:
            _check_directions(each)
    x_reference, y_reference = (None, None) if reference is None else (reference.x, reference.y)
    valuation = value_neighbors(
        points.x,
        points.y,
        x_reference,
        y_reference,
        k=k,
        weights=weights,
        utility=utility,
        metric=metric,
        device=device,
        n_jobs=jobs,
    )
    provenance = {**valuation.provenance, **points.origin}
    valuation = replace(valuation, classes=points.classes.names, provenance=provenance)
    negative = int((valuation.values < 0).sum())
    suspects, others = valuation.suspects(max(top, min(negative, MOST_ASKED))), min(k, len(points) - 1)
    suggestions = suggest_labels(points.x, points.y, suspects, k=others, metric=metric)
    return Findings(points, reference, valuation, suspects, suggestions, top)


def _check_directions(points: Labeled) -> None:
    nowhere = ~points.x.any(axis=1)
    if nowhere.any():
        raise ValueError(
            f"{points.noun} {points.keys[int(nowhere.argmax())]} of {points.path} has no direction, since all its "
            "numbers are 0: use --metric euclidean"
        )
