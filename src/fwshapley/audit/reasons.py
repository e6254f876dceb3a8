"""Why a label is suspicious or not, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from fwshapley._internal.wording import shortened
from fwshapley.audit.evidence import Judgement

LOW_SHARE = 0.1
"""Margins and values below this quantile are worth a reason."""


def explain_point(
    point: int,
    judgement: Judgement,
    classes: Sequence[str],
    twins: Sequence[int] = (),
) -> tuple[str, ...]:
    """Return what models, neighbors and values say of the label of a point, in short sentences.

    Args:
        point: which.
        judgement: of all points.
        classes: names of the classes.
        twins: its near duplicates.
    """
    labels = judgement.labels
    label = int(labels[point])
    reasons = []
    if int((labels == label).sum()) == 1:
        reasons.append(f"no other point has the label {shortened(classes[label])}")
    reasons.append(_about_held_out(judgement, point, classes))
    votes = judgement.votes[point]
    winner = int(votes.argmax())
    if winner != label:
        trained = f"most of them trained with the label {shortened(classes[label])}"
        reasons.append(f"{votes[winner]} of {votes.sum()} models say {shortened(classes[winner])}, {trained}")
    rank = float((judgement.margins < judgement.margins[point]).mean())
    if rank < LOW_SHARE:
        reasons.append(
            f"networks resist learning its label: the margin is among the lowest {_percent(rank, least=0.01)}"
        )
    names = [classes[int(other)] for other in labels[judgement.neighbors[point]]]
    reasons.append(_about_neighbors(names))
    if (judgement.values < judgement.values[point]).mean() < LOW_SHARE and judgement.values[point] < 0:
        reasons.append("its data value is negative: with this label it misleads predictions of its neighbors")
    differing = [other for other in twins if labels[other] != label]
    if differing:
        names = sorted({shortened(classes[int(labels[other])]) for other in differing})
        reasons.append(f"a near duplicate is labeled {' or '.join(names)}")
    return tuple(reasons)


def _about_held_out(judgement: Judgement, point: int, classes: Sequence[str]) -> str:
    label, winner = int(judgement.labels[point]), int(judgement.held_out[point].argmax())
    own, best = (f"{shortened(classes[one])} ({_percent(judgement.held_out[point, one])})" for one in (label, winner))
    if winner == label:
        return f"models that were not trained on it say {own}, too"
    return f"models that were not trained on it say {best}, not {own}"


def _about_neighbors(names: Sequence[str]) -> str:
    counts = Counter(names).most_common(2)
    first, count = counts[0]
    if count == len(names):
        return f"all {len(names)} nearest neighbors are labeled {shortened(first)}"
    text = f"{count} of the {len(names)} nearest neighbors are labeled {shortened(first)}"
    second, rest = counts[1]
    return f"{text}, {rest} {shortened(second)}"


def _percent(share: float | np.floating, least: float = 0.0) -> str:
    """Return a share in percent, at least some."""
    shown = max(float(share), least)
    return "under 1 %" if shown < 0.01 else f"{shown:.0%}".replace("%", " %")  # noqa: PLR2004 - one percent
