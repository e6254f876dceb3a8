"""The points whose labels or targets are most suspicious: those of lowest value, with what their neighbors suggest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Int64
from torch import Tensor

from fwshapley._internal.checks import Array
from fwshapley._internal.wording import decimals_for, printable, shortened
from fwshapley.valuation.knn.suggestions import SuggestedTargets, Suggestions, suggest_labels, suggest_targets
from fwshapley.valuation.result import Valuation

AGREES = "(they agree)"
"""Shown in place of a suggested label if most neighbors have the label of the point."""

SIGNIFICANT = 6
"""Digits of a target."""


@dataclass(frozen=True, eq=False)
class Suspects:
    """The points of lowest value, and the labels or targets that their nearest neighbors suggest.

    Attributes:
        valuation: of all points, under one weighting.
        names: names of all points.
        points: indices of the suspects, in increasing order of value.
        suggestions: the labels or the mean targets of their neighbors; None if features are not known.
    """

    valuation: Valuation
    names: Sequence[str]
    points: Int64[Tensor, " suspects"]
    suggestions: Suggestions | SuggestedTargets | None

    @property
    def n_neighbors(self) -> int:
        """Number of neighbors of a point that are compared with it."""
        return 0 if self.suggestions is None else self.suggestions.neighbors.shape[1]

    @property
    def suggested(self) -> list[str | None]:
        """Another label for each suspect; None if most of its neighbors have the label that it has.

        Of targets, the mean target of the neighbors.
        """
        if self.suggestions is None:
            return [None] * len(self.points)
        if isinstance(self.suggestions, SuggestedTargets):
            return [f"{target:.{SIGNIFICANT}g}" for target in self.suggestions.targets.tolist()]
        labels, classes = self.valuation.labels[self.points], self.valuation.classes
        pairs = zip(self.suggestions.labels.tolist(), labels.tolist(), strict=True)
        return [None if suggestion == label else classes[suggestion] for suggestion, label in pairs]

    @property
    def votes(self) -> list[str]:
        """How many neighbors of each suspect have the suggested label, or its own if they agree with it."""
        votes = self.suggestions.votes.tolist() if isinstance(self.suggestions, Suggestions) else []
        return [f"{count} of {self.n_neighbors}" for count in votes]

    def headings(self, key: str) -> list[str]:
        """Return the headings of the table of suspects; key is the heading of the names."""
        if self.valuation.has_targets:
            ours = ["target"] if self.suggestions is None else ["target", "neighbors' mean"]
        else:
            ours = ["label"] if self.suggestions is None else ["label", "suggested", "votes"]
        return ["rank", key, *ours, "value ± standard error"]

    def describe(self, point: int) -> str:
        """Return the label of a point, shortened, or its target."""
        label = self.valuation.labels[point].item()
        if self.valuation.has_targets:
            return f"{label:.{SIGNIFICANT}g}"
        return shortened(self.valuation.classes[int(label)])

    def cells(self, count: int) -> list[list[str]]:
        """Return the cells of the table of the first suspects, under these headings."""
        points, valuation = self.points[:count], self.valuation
        values, stderr = valuation.values[points].tolist(), valuation.stderr[points].tolist()
        decimals = decimals_for(valuation.values[points])
        columns: list[Sequence[str]] = [
            [str(rank) for rank in range(1, len(points) + 1)],
            [printable(self.names[point]) for point in points.tolist()],
            [self.describe(point) for point in points.tolist()],
        ]
        if isinstance(self.suggestions, SuggestedTargets):
            columns.append([str(target) for target in self.suggested[:count]])
        elif self.suggestions is not None:
            columns.append([AGREES if label is None else shortened(label) for label in self.suggested[:count]])
            columns.append(self.votes[:count])
        columns.append(
            [f"{value:.{decimals}f} ± {error:.{decimals}f}" for value, error in zip(values, stderr, strict=True)]
        )
        return [list(row) for row in zip(*columns, strict=True)]

    def explain_headings(self) -> str:
        """Return an explanation of the headings; empty if there is nothing to explain."""
        if self.suggestions is None:
            return ""
        if self.valuation.has_targets:
            return f"neighbors' mean: mean target of the {self.n_neighbors} nearest neighbors"
        return (
            f"suggested: the label of most of the {self.n_neighbors} nearest neighbors, or {AGREES} if it is the same "
            "label; votes: how many of these neighbors have it"
        )


def find_suspects(
    valuation: Valuation, count: int, *, x: Array | None = None, names: Sequence[str] | None = None
) -> Suspects:
    """Return the points of lowest value, and the labels or targets that their nearest neighbors suggest.

    Args:
        valuation: under one weighting.
        count: how many points.
        x: features of all points; None gives no suggestions.
        names: names of all points; None numbers them from 0.
    """
    points = valuation.suspects(count)
    facts = valuation.provenance
    suggestions: Suggestions | SuggestedTargets | None = None
    if x is not None:
        k = min(facts.get("k", 5), len(valuation) - 1)
        metric, scale = facts.get("metric", "euclidean"), ("columns" in facts and hasattr(x, "columns")) or None
        suggest = suggest_targets if valuation.has_targets else suggest_labels
        suggestions = suggest(x, valuation.labels, points, k=k, metric=metric, scale=scale)
    return Suspects(valuation, names or [str(number) for number in range(len(valuation))], points, suggestions)
