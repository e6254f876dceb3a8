"""What is reviewed: suspicious points, each beside its nearest neighbors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fwshapley._internal.html import Picture


@dataclass(frozen=True)
class ReviewNeighbor:
    """A neighbor of a suspicious point.

    Attributes:
        name: what the data set calls it, such as the path of a picture or the number of a row.
        label: that it has.
        picture: of it, if there is one.
        row: its cells by column, if it is a row of a table.
    """

    name: str
    label: str
    picture: Picture | None = None
    row: Mapping[str, str] | None = None


@dataclass(frozen=True)
class ReviewPoint:
    """A point whose label may be wrong.

    Attributes:
        index: its position among the points of the audit, from 0.
        name: what the data set calls it; decisions are applied to the data by this name.
        label: that it has.
        suggested: the label that it should have instead; the same label if no other one is more likely.
        suggested_probability: that the suggested label is correct.
        wrong_probability: that the label is wrong.
        reasons: why, in sentences.
        picture: of it, if there is one.
        row: its cells by column, if it is a row of a table.
        neighbors: its nearest neighbors, the nearest first.
    """

    index: int
    name: str
    label: str
    suggested: str
    suggested_probability: float
    wrong_probability: float
    reasons: tuple[str, ...] = ()
    picture: Picture | None = None
    row: Mapping[str, str] | None = None
    neighbors: tuple[ReviewNeighbor, ...] = ()
