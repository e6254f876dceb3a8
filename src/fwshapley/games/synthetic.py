"""Games whose semivalues are known in closed form, for tests, docs and benchmarks.

All but `Random` have `values(weights)`, exact values for every semivalue. They follow from one fact: given its size s,
the coalition that a player joins is a uniformly random s-subset of the other n-1 players, so its number of members from
a group is hypergeometric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float64
from torch import Tensor

from fwshapley._internal.checks import Array, check_list, check_seed, check_whole
from fwshapley._internal.tensor_checks import check_finite, check_tensor
from fwshapley.games.game import Coalitions, Game
from fwshapley.semivalues import Semivalue, check_semivalue, log_binomials

MAX_TABLE_PLAYERS = 24


class KnownGame(Game, Protocol):
    """A game with a closed form of its semivalues.

    Example:
        >>> isinstance(fw.games.Glove(2, 3), fw.games.Game)
        True
    """

    def values(self, weights: Semivalue) -> Float64[Tensor, " players"]:
        """Exact values of the players."""
        ...


@dataclass(frozen=True, eq=False)
class Additive:
    """v(S) = sum of its members' contributions. Every semivalue of a player is its contribution.

    Example:
        >>> fw.games.Additive([1.0, 2.0]).values(fw.Shapley()).tolist()
        [1.0, 2.0]
    """

    contributions: Array

    def __post_init__(self) -> None:
        check_finite("contributions", self.contributions, axes=1)

    @property
    def n_players(self) -> int:
        """One player per contribution."""
        return len(self.contributions)

    def __call__(self, coalitions: Coalitions, /) -> Float64[Tensor, " coalitions"]:
        """Sum of the members' contributions."""
        return coalitions.double() @ check_tensor("contributions", self.contributions).to(coalitions.device)

    def values(self, weights: Semivalue) -> Float64[Tensor, " players"]:
        """The contributions, whatever the weights."""
        check_semivalue(weights).join_law(self.n_players)  # raises an error if they are for another number of players
        return check_tensor("contributions", self.contributions)


@dataclass(frozen=True)
class Unanimity:
    """v(S) = 1 if S contains the whole carrier, else 0.

    The value of a member of the carrier is the probability that the coalition it joins contains all other members.

    Example:
        >>> fw.games.Unanimity(3, carrier=(0, 1)).values(fw.Shapley()).tolist()
        [0.5, 0.5, 0.0]
    """

    n_players: int
    carrier: tuple[int, ...]

    def __post_init__(self) -> None:
        check_whole("n_players", self.n_players)
        carrier = tuple(check_whole("carrier", player, minimum=0) for player in check_list("carrier", self.carrier))
        object.__setattr__(self, "carrier", carrier)
        if not self.carrier or len(set(self.carrier)) < len(self.carrier):
            raise ValueError(f"carrier must contain at least one player, each once; got {self.carrier}")
        if not set(self.carrier) <= set(range(self.n_players)):
            raise ValueError(f"carrier must be players 0..{self.n_players - 1}, got {self.carrier}")

    def __call__(self, coalitions: Coalitions, /) -> Float64[Tensor, " coalitions"]:
        """1 if the coalition contains the carrier."""
        return coalitions[:, list(self.carrier)].all(1).double()

    def values(self, weights: Semivalue) -> Float64[Tensor, " players"]:
        """Members share equally; the others are null players."""
        others = len(self.carrier) - 1
        values = torch.zeros(self.n_players, dtype=torch.float64)
        values[list(self.carrier)] = torch.from_numpy(check_semivalue(weights).join_law(self.n_players)) @ _all_in(
            self.n_players - 1, others
        )
        return values


@dataclass(frozen=True, eq=False)
class Airport:
    """v(S) = cost of the longest runway that a member of S needs.

    A stretch of runway adds its cost to a coalition in which no member needed it before.

    Example:
        >>> fw.games.Airport([1.0, 3.0]).values(fw.Shapley()).tolist()
        [0.5, 2.5]
    """

    costs: Array

    def __post_init__(self) -> None:
        costs = check_finite("costs", self.costs, axes=1)
        if bool((costs < 0).any()):
            raise ValueError(f"costs must not be negative, got {float(costs.min()):g}")

    @property
    def n_players(self) -> int:
        """One player per cost."""
        return len(self.costs)

    def __call__(self, coalitions: Coalitions, /) -> Float64[Tensor, " coalitions"]:
        """Largest cost among the members, 0 for the empty coalition."""
        return (coalitions * check_tensor("costs", self.costs).to(coalitions.device)).amax(1)

    def values(self, weights: Semivalue) -> Float64[Tensor, " players"]:
        """Sum over the stretches that a player needs of P(the coalition it joins needs none of them)."""
        n, costs = self.n_players, check_tensor("costs", self.costs)
        join_law = torch.from_numpy(check_semivalue(weights).join_law(n))
        values = torch.zeros(n, dtype=torch.float64)
        paid = 0.0
        for cost in costs.unique():  # ascending
            needing = costs >= cost
            # no other player that needs it is in the coalition: all members are among the rest
            none_in = join_law @ _all_in(n - 1, int(needing.sum()) - 1).flip(0)
            values += needing * (cost - paid) * none_in
            paid = float(cost)
        return values


@dataclass(frozen=True)
class Voting:
    """v(S) = 1 if the members' votes reach the quota, else 0.

    Example:
        >>> fw.games.Voting((2, 1, 1), quota=3).values(fw.Banzhaf()).tolist()
        [0.75, 0.25, 0.25]
    """

    votes: tuple[int, ...]
    quota: int

    def __post_init__(self) -> None:
        votes = tuple(check_whole("votes", vote, minimum=0) for vote in check_list("votes", self.votes))
        if not votes:
            raise ValueError("votes must have at least one entry, got none")
        object.__setattr__(self, "votes", votes)
        check_whole("quota", self.quota)

    @property
    def n_players(self) -> int:
        """One player per entry of votes."""
        return len(self.votes)

    def __call__(self, coalitions: Coalitions, /) -> Float64[Tensor, " coalitions"]:
        """1 if the quota is reached."""
        votes = torch.tensor(self.votes, dtype=torch.float64, device=coalitions.device)
        return (coalitions.double() @ votes >= self.quota).double()

    def values(self, weights: Semivalue) -> Float64[Tensor, " players"]:
        """Probability of being pivotal: coalitions counted by size and votes, one player at a time."""
        n = self.n_players
        p = torch.from_numpy(check_semivalue(weights).log_weights(n)).exp()
        values = torch.zeros(n, dtype=torch.float64)
        for player, player_votes in enumerate(self.votes):
            # count[s, q]: coalitions of s others with q votes; more votes than the quota need no count
            count = torch.zeros(n, self.quota, dtype=torch.float64)
            count[0, 0] = 1
            for votes in self.votes[:player] + self.votes[player + 1 :]:
                if votes < self.quota:
                    count[1:, votes:] += count[:-1, : self.quota - votes].clone()
            values[player] = p @ count[:, max(self.quota - player_votes, 0) :].sum(1)
        return values


@dataclass(frozen=True)
class Glove:
    """v(S) = number of pairs among its left and right gloves; players 0..left-1 have a left one each.

    Example:
        >>> fw.games.Glove(left=1, right=1).values(fw.Shapley()).tolist()
        [0.5, 0.5]
    """

    left: int
    right: int

    def __post_init__(self) -> None:
        if check_whole("left", self.left, minimum=0) + check_whole("right", self.right, minimum=0) == 0:
            raise ValueError("left and right must not both be 0: the game needs at least one glove")

    @property
    def n_players(self) -> int:
        """One player per glove."""
        return self.left + self.right

    def __call__(self, coalitions: Coalitions, /) -> Float64[Tensor, " coalitions"]:
        """Pairs that can be made."""
        lefts = coalitions[:, : self.left].sum(1)
        rights = coalitions[:, self.left :].sum(1)
        return torch.minimum(lefts, rights).double()

    def values(self, weights: Semivalue) -> Float64[Tensor, " players"]:
        """Probability that the coalition that is joined has fewer gloves of the player's side than of the other."""
        log_weights = torch.from_numpy(check_semivalue(weights).log_weights(self.n_players))
        left = self._scarce(self.left, self.right, log_weights) if self.left else 0.0
        right = self._scarce(self.right, self.left, log_weights) if self.right else 0.0
        return torch.tensor([left] * self.left + [right] * self.right, dtype=torch.float64)

    @staticmethod
    def _scarce(same_side: int, other_side: int, log_weights: Float64[Tensor, " n"]) -> float:
        log_same = torch.from_numpy(log_binomials(same_side - 1))
        log_other = torch.from_numpy(log_binomials(other_side))
        same, other = torch.meshgrid(torch.arange(same_side), torch.arange(other_side + 1), indexing="ij")
        log_mass = log_same[same] + log_other[other] + log_weights[same + other]
        return float(log_mass.exp()[same < other].sum())


@dataclass(frozen=True, eq=False)
class Pairwise:
    """v(S) = sum of its members' main effects and of the interactions between them.

    The value of a player is its main effect, plus each interaction times the probability that the other joined before.

    Example:
        >>> fw.games.Pairwise([1.0, 2.0], [[0.0, 4.0], [0.0, 0.0]]).values(fw.Shapley()).tolist()
        [3.0, 4.0]
    """

    main: Array
    interactions: Array
    """(players, players), read above the diagonal."""

    def __post_init__(self) -> None:
        n = len(check_finite("main", self.main, axes=1))
        interactions = check_finite("interactions", self.interactions, axes=2)
        if interactions.shape != (n, n):
            raise ValueError(f"interactions must be {n} x {n}, got {tuple(interactions.shape)}")

    @property
    def n_players(self) -> int:
        """One player per main effect."""
        return len(self.main)

    def __call__(self, coalitions: Coalitions, /) -> Float64[Tensor, " coalitions"]:
        """Main effects and interactions within each coalition."""
        s = coalitions.double()
        upper = self._upper().to(s.device)
        return s @ check_tensor("main", self.main).to(s.device) + torch.einsum("ci,ij,cj->c", s, upper, s)

    def values(self, weights: Semivalue) -> Float64[Tensor, " players"]:
        """Main effect plus P(the other joined before) times the sum of the player's interactions."""
        n, upper = self.n_players, self._upper()
        sizes = torch.arange(n, dtype=torch.float64)
        other_in = float(torch.from_numpy(check_semivalue(weights).join_law(n)) @ sizes) / max(n - 1, 1)
        return check_tensor("main", self.main) + other_in * (upper + upper.T).sum(1)

    def _upper(self) -> Float64[Tensor, "players players"]:
        return check_tensor("interactions", self.interactions).triu(diagonal=1)


@dataclass(frozen=True)
class Random:
    """A table of 2**n independent standard normal values: the hardest game to estimate.

    Example:
        >>> fw.exact_values(fw.games.Random(4, outputs=2), fw.Shapley()).shape
        torch.Size([4, 2])
    """

    n_players: int
    outputs: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if check_whole("n_players", self.n_players) > MAX_TABLE_PLAYERS:
            raise ValueError(f"n_players must be at most {MAX_TABLE_PLAYERS}, got {self.n_players}")
        outputs = () if self.outputs is None else (check_whole("outputs", self.outputs),)
        shape = (2**self.n_players, *outputs)
        generator = torch.Generator().manual_seed(check_seed(self.seed))
        object.__setattr__(self, "_table", torch.randn(shape, dtype=torch.float64, generator=generator))

    def __call__(self, coalitions: Coalitions, /) -> Tensor:
        """Entries of the table."""
        bits = 2 ** torch.arange(self.n_players, device=coalitions.device)
        table: Tensor = self.__dict__["_table"].to(coalitions.device)
        return table[(coalitions * bits).sum(1)]


def _all_in(others: int, wanted: int) -> Float64[Tensor, " {others}+1"]:
    """P(a random s-subset of the others contains `wanted` specific players), s = 0..others: C(s, k) / C(others, k)."""
    s = torch.arange(others + 1, dtype=torch.float64)
    probability = torch.ones_like(s)
    for k in range(wanted):
        probability *= (s - k).clamp(min=0) / (others - k)
    return probability
