"""The game of nearest neighbours: a coalition of training points is worth how well its K nearest predict a label.

This is the definition, one coalition at a time; the closed forms of `fwshapley.valuation` are tested against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fwshapley.games.game import Coalitions

Utility = Literal["soft", "normalised", "vote"]
"""Of the K nearest members: matches / K, matches / min(K, members), or whether the label has a plurality."""

Ties = Literal["lowest", "shared"]
"""Who wins a tied vote: the lowest class, as in scikit-learn, or all of them an equal share."""


@dataclass(frozen=True, eq=False)
class NeighbourGame:
    """Training points as players, valued by one reference point.

    Attributes:
        labels: classes 0..C-1 of the training points, from the nearest to the farthest.
        label: class of the reference point.
        classes: their number C.
        k: neighbours that decide.
        utility: what they decide.
        ties: of a vote.
    """

    labels: Int[Tensor, " points"]
    label: int
    classes: int
    k: int
    utility: Utility = "soft"
    ties: Ties = "lowest"

    @property
    def n_players(self) -> int:
        """Number of training points."""
        return len(self.labels)

    def __call__(self, coalitions: Coalitions, /) -> Float[Tensor, " coalitions"]:
        """Worth of each coalition; of nobody 0 for the soft utility, else chance, 1/C."""
        nearest = coalitions & (coalitions.cumsum(1) <= self.k)
        votes = nearest.double() @ torch.nn.functional.one_hot(self.labels, self.classes).double()
        if self.utility == "soft":
            return votes[:, self.label] / self.k
        members = votes.sum(1)
        if self.utility == "normalised":
            worth = votes[:, self.label] / members.clamp(min=1)
        else:
            worth = self._win(votes == votes.max(1, keepdim=True).values)
        return torch.where(members > 0, worth, 1 / self.classes)

    def _win(self, leading: Bool[Tensor, "coalitions classes"]) -> Float[Tensor, " coalitions"]:
        """Share of the win that goes to the label."""
        if self.ties == "lowest":
            return (leading.int().argmax(1) == self.label).double()
        return leading[:, self.label].double() / leading.sum(1)
