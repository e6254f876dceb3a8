"""A game that costs next to nothing: a coalition is worth the accuracy of a ridge regression fitted to it alone.

    W(S) = (sum over S of a a' + lambda)^-1 sum over S of a (e_y - 1/C)',    a = (x, 1)

A reference point counts where its label has the largest entry of a' W(S), alone. What any point, under any label, would
add to S follows from W(S) by an update of rank one, so that one solution gives n C marginal contributions; their means,
over coalitions of which the sizes follow the law of who is joined, are the semivalues of this game.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor
from torch.nn import functional

from fwshapley.coalitions import draw_trusted_sizes
from fwshapley.semivalues import Semivalue

MOST_COLUMNS = 64
"""Beyond, the leading principal components stand for the features."""

SOLVED_AT_ONCE = 256
CLEAR = 1e-9
"""A label must win by this much: labels that a coalition lacks tie, but for rounding."""

LOOKED_AT_ONCE, LOOKED_AT_ONCE_ON_GPU = 2**18, 2**24
"""Players times reference points: few enough for a processor's cache."""


def ridge_rows(
    x: Float64[Tensor, "players columns"], references: Float64[Tensor, "references columns"]
) -> tuple[Float64[Tensor, "players entries"], Float64[Tensor, "references entries"]]:
    """Rows (x, 1) of players and reference points, around the players' mean and in few columns."""
    mean = x.mean(0)
    both = [x - mean, references - mean]
    if x.shape[1] > MOST_COLUMNS:
        directions = torch.linalg.svd(both[0], full_matrices=False)[2][:MOST_COLUMNS]
        both = [each @ directions.T for each in both]
    length = both[0].square().sum(1).mean().sqrt().clamp(min=torch.finfo(torch.float64).tiny)
    both = [functional.pad(each / length, (0, 1), value=1.0) for each in both]
    return both[0], both[1]


@dataclass(frozen=True, eq=False)
class LinearGame:
    """Training points as players; a coalition's worth is a share of the reference points.

    Attributes:
        x: rows of the players, as `ridge_rows` makes them.
        labels: of the players.
        references: rows of the reference points.
        label: of the reference points.
        classes: number of labels.
        strength: lambda, in units of the mean squared length of the features around their mean.
    """

    x: Float64[Tensor, "players entries"]
    labels: Int[Tensor, " players"]
    references: Float64[Tensor, "references entries"]
    label: Int[Tensor, " references"]
    classes: int
    strength: float

    @property
    def n_players(self) -> int:
        """Number of players."""
        return len(self.labels)

    def __call__(self, coalitions: Bool[Tensor, "coalitions players"], /) -> Float64[Tensor, " coalitions"]:
        """Worth of each coalition; of nobody, that of guessing."""
        shares = []
        for some in coalitions.split(SOLVED_AT_ONCE):
            weights = torch.cholesky_solve(self._moments(some), torch.linalg.cholesky(self._gram(some)))
            said = self.references @ weights
            own = said.gather(2, self.label[:, None].expand(len(some), -1, 1))[..., 0]
            rivals = said.masked_fill(self._mine[..., 0].T, -torch.inf).amax(2)
            shares.append(torch.where(some.any(1), (own > rivals + CLEAR).double().mean(1), 1 / self.classes))
        return torch.cat(shares)

    def marginals(
        self, coalitions: Bool[Tensor, "coalitions players"]
    ) -> Float64[Tensor, "coalitions players classes"]:
        """What each player would add under each label, if it joined; of members, what a copy would add."""
        a, r = self.x, self.references
        factor = torch.linalg.cholesky(self._gram(coalitions))
        weights = torch.cholesky_solve(self._moments(coalitions), factor)
        white_a, white_r = (torch.linalg.solve_triangular(factor, each.T, upper=False) for each in (a, r))
        reach = white_r.mT @ white_a / (1 + white_a.square().sum(1, keepdim=True))  # of players, at reference points
        known, held = r @ weights, a @ weights + 1 / self.classes
        steps = max(self._at_once // (len(r) * len(coalitions)), 1)
        parts = zip(reach.split(steps, 2), held.split(steps, 1), strict=True)
        after = torch.cat([self._right_after(known, *part) for part in parts], 1)
        return after - self(coalitions)[:, None, None]

    def values(
        self,
        weights: Semivalue,
        draws: int,
        generator: torch.Generator,
        *,
        told: Callable[[int], None] = lambda _: None,
    ) -> tuple[Float64[Tensor, "players classes"], Float64[Tensor, "players classes"]]:
        """Semivalues of the players under every label, and their standard errors, from some coalitions.

        A coalition tells nothing of its members, so others count for as much more as they are fewer. A player that is
        in all of them has an infinite error. `told` is called with the number of coalitions that are done.
        """
        n = self.n_players
        law = torch.from_numpy(weights.join_law(n)).to(generator.device)
        start = torch.rand(1, generator=generator, device=generator.device, dtype=torch.float64)
        even = (torch.arange(draws, device=generator.device) + start) / draws  # sizes in the law's own proportions
        sizes = torch.searchsorted(law.cumsum(0), even).clamp(max=n - 1)
        total, squares = torch.zeros(2, n, self.classes, dtype=torch.float64, device=self.x.device)
        some = max(self._at_once // (n * len(self.label)), 1)
        drawn = draw_trusted_sizes(sizes, n, generator).to(self.x.device)
        for coalitions in drawn.split(some):
            outside = (~coalitions).double() * (n / (n - coalitions.sum(1, keepdim=True)))
            found = self.marginals(coalitions) * outside[..., None]
            total += found.sum(0)
            squares += found.square().sum(0)
            told(len(coalitions))
        mean = total / draws
        stderr = ((squares / draws - mean.square()).clamp(min=0) / draws).sqrt()
        return mean, stderr.masked_fill(drawn.all(0)[:, None], torch.inf)

    def _right_after(
        self,
        known: Float64[Tensor, "coalitions references classes"],
        reach: Float64[Tensor, "coalitions references some"],
        held: Float64[Tensor, "coalitions some classes"],
    ) -> Float64[Tensor, "coalitions some classes"]:
        """Share of reference points that are right once one of some players has joined, under each label."""
        before = [known[..., each, None] - reach * held[:, None, :, each] for each in range(self.classes)]
        own, best, second = (torch.full_like(reach, -torch.inf) for _ in range(3))
        for mine, said in zip(self._mine, before, strict=True):
            own = torch.where(mine, said, own)
            rival = said.masked_fill(mine, -torch.inf)
            second = torch.maximum(second, torch.minimum(best, rival))
            best = torch.maximum(best, rival)
        right = []
        for mine, said in zip(self._mine, before, strict=True):
            others = torch.where(said >= best, second, best)  # without this label, whose entry moves
            rivals = torch.where(mine, best, torch.maximum(others, said + reach))
            right.append((own + reach * mine > rivals + CLEAR).double().mean(1))
        return torch.stack(right, 2)

    @property
    def _at_once(self) -> int:
        """Players times reference points that are looked at together."""
        return LOOKED_AT_ONCE if self.x.device.type == "cpu" else LOOKED_AT_ONCE_ON_GPU

    @cached_property
    def _mine(self) -> Bool[Tensor, "classes references 1"]:
        """Which reference points have each of the labels."""
        return (self.label == torch.arange(self.classes, device=self.label.device)[:, None])[..., None]

    @cached_property
    def _targets(self) -> Float64[Tensor, "players classes"]:
        return functional.one_hot(self.labels, self.classes).double() - 1 / self.classes

    def _gram(self, coalitions: Bool[Tensor, "coalitions players"]) -> Float64[Tensor, "coalitions entries entries"]:
        a = self.x
        products = (a[:, :, None] * a[:, None, :]).flatten(1)
        gram = (coalitions.double() @ products).unflatten(1, (a.shape[1], -1))
        return gram + self.strength * torch.eye(a.shape[1], dtype=torch.float64, device=a.device)

    def _moments(self, coalitions: Bool[Tensor, "coalitions players"]) -> Float64[Tensor, "coalitions entries classes"]:
        return (coalitions.double()[:, None, :] * self.x.T) @ self._targets
