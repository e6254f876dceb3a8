"""The game of nearest neighbors: a coalition of training points is worth how well its K nearest predict a label.

This is the definition, one coalition at a time; the closed forms of `fwshapley.valuation` are tested against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fwshapley._internal.checks import check_choice, check_whole
from fwshapley._internal.tensors import check_classes
from fwshapley.games.game import Coalitions

Utility = Literal["soft", "normalized", "vote"]
"""Of the K nearest members: matches / K, matches / min(K, members), or whether the label has a plurality."""

Ties = Literal["lowest", "shared"]
"""Who wins a tied vote: the lowest class, as in scikit-learn, or all of them an equal share."""


@dataclass(frozen=True, eq=False)
class NeighborGame:
    """Training points as players, valued by one reference point.

    Attributes:
        labels: classes 0..C-1 of the training points, from the nearest to the farthest.
        label: class of the reference point.
        classes: their number C.
        k: neighbors that decide.
        utility: what they decide.
        ties: of a vote.
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
        """Worth of each coalition; of nobody 0 for the soft utility, else chance, 1/C."""
        nearest = coalitions & (coalitions.cumsum(1) <= self.k)
        votes = nearest.double() @ torch.nn.functional.one_hot(self.labels, self.classes).double()
        return worth_of_votes(votes, torch.tensor(self.label), k=self.k, utility=self.utility, ties=self.ties)


def worth_of_votes(
    votes: Float[Tensor, "*games classes"], label: Int[Tensor, "*labels"], *, k: int, utility: Utility, ties: Ties
) -> Float[Tensor, "*games"]:
    """Worth of the votes that the k nearest members have cast; of no votes 0 for the soft utility, else chance.

    Args:
        votes: members of each class among the k nearest.
        label: of the reference point; its shape is that of the games, or is spread over them.
        k: neighbors that decide.
        utility: what they decide.
        ties: of a vote.
    """
    ours = votes.gather(-1, label.expand(votes.shape[:-1])[..., None])[..., 0]
    if utility == "soft":
        return ours / k
    members = votes.sum(-1)
    if utility == "normalized":
        worth = ours / members.clamp(min=1)
    else:
        worth = _win(votes == votes.amax(-1, keepdim=True), label.expand(votes.shape[:-1]), ties).to(votes)
    return torch.where(members > 0, worth, 1 / votes.shape[-1])


def _win(leading: Bool[Tensor, "*games classes"], label: Int[Tensor, "*games"], ties: Ties) -> Float[Tensor, "*games"]:
    """Share of the win that goes to the label."""
    if ties == "lowest":
        return (leading.int().argmax(-1) == label).double()
    return leading.gather(-1, label[..., None])[..., 0].double() / leading.sum(-1)
