"""The nearest-neighbor game: the value of a coalition of training points is how well its k nearest predict a label.

This is the definition, one coalition at a time; the closed forms in `valuation/knn` are tested against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fwshapley._internal.checks import check_choice, check_whole
from fwshapley._internal.tensor_checks import check_classes
from fwshapley.games.game import Coalitions

Utility = Literal["soft", "normalized", "vote"]
"""Of the k nearest members: matches / k, matches / min(k, members), or whether the label has a plurality."""

Ties = Literal["lowest", "shared"]
"""Who wins a tied vote: the lowest class, as in scikit-learn, or all tied classes in equal shares."""


@dataclass(frozen=True, eq=False)
class NeighborGame:
    """The game of the training points, the players, for one reference point.

    Attributes:
        labels: class numbers 0..C-1 of the training points, from the nearest to the farthest.
        label: class number of the reference point.
        classes: number of classes, C.
        k: number of nearest neighbors.
        utility: how their prediction is scored.
        ties: who wins a tied vote.

    Example:
        >>> game = NeighborGame(torch.tensor([0, 1, 0]), label=0, classes=2, k=2)
        >>> game(torch.tensor([[True, True, False], [True, False, True]])).tolist()  # matches of 2 / 2
        [0.5, 1.0]
    """

    labels: Int[Tensor, " points"]
    label: int
    classes: int
    k: int
    utility: Utility = "soft"
    ties: Ties = "lowest"

    def __post_init__(self) -> None:
        classes = check_whole("classes", self.classes)
        object.__setattr__(self, "labels", check_classes("labels", self.labels, classes))
        if check_whole("label", self.label, minimum=0) >= classes:
            raise ValueError(f"label must be between 0 and {classes - 1}, got {self.label}")
        check_whole("k", self.k)
        check_choice("utility", self.utility, get_args(Utility))
        check_choice("ties", self.ties, get_args(Ties))

    @property
    def n_players(self) -> int:
        """Number of training points."""
        return len(self.labels)

    def __call__(self, coalitions: Coalitions, /) -> Float[Tensor, " coalitions"]:
        """Return the value of each coalition; that of the empty one is 0 for the soft utility, else 1/C."""
        nearest = coalitions & (coalitions.cumsum(1) <= self.k)
        votes = nearest.double() @ torch.nn.functional.one_hot(self.labels, self.classes).double()
        return value_of_votes(votes, torch.tensor(self.label), k=self.k, utility=self.utility, ties=self.ties)


def value_of_votes(
    votes: Float[Tensor, "*games classes"], label: Int[Tensor, "*labels"], *, k: int, utility: Utility, ties: Ties
) -> Float[Tensor, "*games"]:
    """Return the value of coalitions from the votes of their k nearest members.

    Args:
        votes: number of members of each class among the k nearest.
        label: class number of the reference point, broadcast to the shape of the games.
        k: number of nearest neighbors.
        utility: how their prediction is scored.
        ties: who wins a tied vote.
    """
    matches = votes.gather(-1, label.expand(votes.shape[:-1])[..., None])[..., 0]
    if utility == "soft":
        return matches / k
    members = votes.sum(-1)
    if utility == "normalized":
        value = matches / members.clamp(min=1)
    else:
        value = _win(votes == votes.amax(-1, keepdim=True), label.expand(votes.shape[:-1]), ties).to(votes)
    return torch.where(members > 0, value, 1 / votes.shape[-1])


def _win(leading: Bool[Tensor, "*games classes"], label: Int[Tensor, "*games"], ties: Ties) -> Float[Tensor, "*games"]:
    """Return the share of the win that goes to the label."""
    if ties == "lowest":
        return (leading.int().argmax(-1) == label).double()
    return leading.gather(-1, label[..., None])[..., 0].double() / leading.sum(-1)
