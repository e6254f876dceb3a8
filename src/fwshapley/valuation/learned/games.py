"""What coalitions are worth on average over some reference points: many coalitions and references at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from fwshapley.games.knn import Ties, Utility, worth_of_votes


@dataclass(frozen=True, eq=False)
class NeighborGames:
    """Games of the same players, one for each reference point; a coalition's worth is the mean over them.

    Attributes:
        order: players from the nearest to the farthest, for each reference point.
        labels: of the players.
        label: of the reference points.
        classes: number of labels.
    """

    order: Int[Tensor, "references players"]
    labels: Int[Tensor, " players"]
    label: Int[Tensor, " references"]
    classes: int
    k: int
    utility: Utility
    ties: Ties = "lowest"

    @property
    def n_players(self) -> int:
        """Number of players."""
        return len(self.labels)

    def __call__(self, coalitions: Bool[Tensor, "coalitions players"], /) -> Float[Tensor, " coalitions"]:
        """Mean worth of each coalition."""
        members = coalitions[:, self.order]
        nearest = members & (members.cumsum(2, dtype=torch.int32) <= self.k)
        cast = functional.one_hot(self.labels[self.order], self.classes).float()
        with torch.autocast(self.labels.device.type, enabled=False):  # bf16 does not tell one point from none
            votes = torch.einsum("srp,rpc->src", nearest.float(), cast)
            return worth_of_votes(votes, self.label, k=self.k, utility=self.utility, ties=self.ties).mean(1)
