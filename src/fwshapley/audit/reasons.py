"""Why a label is suspicious or not, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from fwshapley._internal.wording import shortened
from fwshapley.audit.evidence import Judgement

LOW_VALUE_SHARE = 0.1
"""Values below this quantile are worth a reason."""


def explain_point(
    point: int,
    judgement: Judgement,
    classes: Sequence[str],
    neighbors: Int64[ndarray, " k"],
    twins: Sequence[int] = (),
) -> tuple[str, ...]:
    """Return what models, neighbors and values say of the label of a point, in short sentences.

    Args:
        point: which.
        judgement: of all points.
        classes: names of the classes.
        neighbors: the nearest neighbors of the point.
        twins: its near duplicates.
    """
    labels = judgement.labels
    label = int(labels[point])
    reasons = []
    if int((labels == label).sum()) == 1:
        reasons.append(f"no other point has the label {shortened(classes[label])}")
    votes = judgement.votes[point]
    winner, total = int(votes.argmax()), int(votes.sum())
    reasons.append(f"{votes[winner]} of {total} models say {shortened(classes[winner])}")
    reasons.append(_about_probabilities(judgement, point, winner, classes))
    names = [classes[int(other)] for other in labels[neighbors]]
    reasons.append(_about_neighbors(names))
    if (judgement.values < judgement.values[point]).mean() < LOW_VALUE_SHARE and judgement.values[point] < 0:
        reasons.append("its data value is negative: with this label it misleads predictions of its neighbors")
    differing = [other for other in twins if labels[other] != label]
    if differing:
        names = sorted({shortened(classes[int(labels[other])]) for other in differing})
        reasons.append(f"a near duplicate is labeled {' or '.join(names)}")
    return tuple(reasons)


def _about_probabilities(judgement: Judgement, point: int, winner: int, classes: Sequence[str]) -> str:
    label = int(judgement.labels[point])
    held_out, trained = (probabilities[point, label] for probabilities in (judgement.held_out, judgement.trained))
    text = f"models that were not trained on it give {shortened(classes[label])} {_percent(held_out)}"
    if winner != label:
        text += f" and {shortened(classes[winner])} {_percent(judgement.held_out[point, winner])}"
    return f"{text}; those that were, {_percent(trained)}"


def _about_neighbors(names: Sequence[str]) -> str:
    counts = Counter(names).most_common(2)
    first, count = counts[0]
    if count == len(names):
        return f"all {len(names)} nearest neighbors are labeled {shortened(first)}"
    text = f"{count} of the {len(names)} nearest neighbors are labeled {shortened(first)}"
    second, rest = counts[1]
    return f"{text}, {rest} {shortened(second)}"


def _percent(share: float | np.floating) -> str:
    return "under 1 %" if share < 0.01 else f"{share:.0%}".replace("%", " %")  # noqa: PLR2004 - one percent
