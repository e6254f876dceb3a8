"""The most suspicious points of an audit, as a review shows them: with neighbors, reasons and suggestions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64
from numpy import ndarray

from fwshapley._internal.html import Picture
from fwshapley.audit.review.points import ReviewNeighbor, ReviewPoint

if TYPE_CHECKING:
    from fwshapley.audit.label_audit import LabelAudit

LIKELY_ENOUGH = 0.1
"""Probability of a wrong label from which a point is reviewed, if no number of points is given."""

MIN_SUSPECTS, MAX_SUSPECTS = 20, 1000
N_NEIGHBORS = 6
"""Neighbors beside a suspicious point."""


@dataclass(frozen=True)
class Looks:
    """What points are called and what they look like.

    Attributes:
        names: of all points.
        picture_of: returns the picture of a point, given its index; None without pictures.
        rows: cells of all points by column, as text; None without a table.
    """

    names: Sequence[str]
    picture_of: Callable[[int], Picture] | None = None
    rows: pd.DataFrame | None = None

    def row_of(self, point: int) -> Mapping[str, str] | None:
        """Return the cells of a point by column."""
        if self.rows is None:
            return None
        return {str(name): str(cell) for name, cell in self.rows.iloc[point].items()}


def choose_suspects(audit: LabelAudit, count: int | None) -> Int64[ndarray, " suspects"]:
    """Return the most suspicious points: as many as are wanted, or all that are suspicious enough."""
    if count is None:
        likely = int((audit.wrong_probability_ >= LIKELY_ENOUGH).sum())
        count = min(max(likely, MIN_SUSPECTS), MAX_SUSPECTS)
    return audit.ranking_[:count]


def describe_suspects(audit: LabelAudit, points: Int64[ndarray, " suspects"], looks: Looks) -> list[ReviewPoint]:
    """Return suspicious points with their most probable other label, the reasons, and their nearest neighbors."""
    classes = [str(name) for name in audit.classes_.tolist()]
    labels = audit.judgement_.labels
    others = audit.label_probabilities_.copy()
    others[np.arange(len(others)), labels] = -1
    best = others.argmax(1)
    described = []
    for point in points.tolist():
        neighbors = tuple(
            ReviewNeighbor(
                looks.names[other],
                classes[labels[other]],
                None if looks.picture_of is None else looks.picture_of(other),
                looks.row_of(other),
            )
            for other in audit.neighbors_[point, :N_NEIGHBORS].tolist()
        )
        described.append(
            ReviewPoint(
                point,
                looks.names[point],
                classes[labels[point]],
                classes[best[point]],
                float(others[point, best[point]]),
                float(audit.wrong_probability_[point]),
                audit.reasons(point),
                None if looks.picture_of is None else looks.picture_of(point),
                looks.row_of(point),
                neighbors,
            )
        )
    return described


def expected_precision(audit: LabelAudit, points: Int64[ndarray, " suspects"]) -> Float64[ndarray, " suspects"]:
    """Return, at each position, the expected share of wrong labels among the suspects up to it."""
    wrong = audit.wrong_probability_[points]
    return wrong.cumsum() / np.arange(1, len(wrong) + 1)


def summarize(audit: LabelAudit, noun: str) -> list[str]:
    """Return sentences on what an audit has found, and by which evidence.

    Args:
        audit: that is fitted.
        noun: what a point is called.
    """
    wrong = audit.wrong_probability_
    likely = int((wrong > 0.5).sum())  # noqa: PLR2004 - more likely than not
    models = ", ".join(f"{name} {share:.0%}" for name, share in audit.model_weights_.items())
    total = sum(audit.evidence_weights_.values()) or 1.0
    evidence = ", ".join(
        f"{name.replace('_', ' ')} {weight / total:.0%}" for name, weight in audit.evidence_weights_.items()
    )
    sentences = [
        (
            f"About {wrong.sum():,.0f} of {len(wrong):,} labels ({audit.noise_:.1%}) are probably wrong; {likely:,} "
            f"{noun}s are more likely to have a wrong label than a right one."
        ),
        f"Evidence by its weight: {evidence}. Models by their weight: {models}.",
    ]
    pairs = audit.confusions_.to_numpy().copy()
    np.fill_diagonal(pairs, 0)
    given, true = np.unravel_index(pairs.argmax(), pairs.shape)
    if pairs[given, true] >= 1:
        names = audit.classes_
        sentences.append(
            f"The most frequent confusion: about {pairs[given, true]:,.0f} {noun}s labeled {names[given]} are "
            f"{names[true]}."
        )
    twins = audit.near_duplicates_
    if len(twins):
        differing = twins.loc[twins["labels_differ"], "group"].nunique()
        sentences.append(
            f"{len(twins):,} {noun}s have near duplicates, in {twins['group'].nunique():,} groups; in {differing:,} of "
            "these the labels differ."
        )
    if len(audit.outliers_):
        sentences.append(f"{len(audit.outliers_):,} {noun}s are far from all others.")
    return sentences
