"""How a network learns values: by regression on exact ones, or by least squares on coalitions, without any."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from fwshapley.coalitions import draw_permutations, draw_trusted_bernoulli, draw_trusted_sizes
from fwshapley.games.knn import Ties, Utility
from fwshapley.semivalues import Semivalue
from fwshapley.training.budget import Batch, Loss
from fwshapley.valuation.learned.games import NeighborGames

LEVEL_GAMES = 64
OWN_SHARE = 0.5
"""Of the loss, that goes to the label a point has; the rest is shared by the labels it might have."""


@dataclass(frozen=True, eq=False)
class Lesson:
    """Points with labels, reference points with labels, and what coalitions are worth.

    Attributes:
        x: points that are learned from.
        labels: their class numbers.
        references: reference points.
        other_labels: their class numbers.
        classes: number of labels.
    """

    x: Float[Tensor, "n columns"]
    labels: Int[Tensor, " n"]
    references: Float[Tensor, "references columns"]
    other_labels: Int[Tensor, " references"]
    classes: int
    k: int
    utility: Utility
    ties: Ties = "lowest"

    def games(self, players: Int[Tensor, " players"] | slice, references: Int[Tensor, " some"]) -> NeighborGames:
        """Return the games that some or all points play for some reference points."""
        order = torch.cdist(self.references[references], self.x[players]).argsort(1)
        return NeighborGames(
            order, self.labels[players], self.other_labels[references], self.classes, self.k, self.utility, self.ties
        )

    def some_references(self, count: int, generator: torch.Generator) -> Int[Tensor, " some"]:
        """Return some reference points, drawn at random."""
        return torch.randint(len(self.references), (count,), generator=generator, device=self.x.device)


def regression(
    x: Float[Tensor, "n columns"], labels: Int[Tensor, " n"], targets: Float[Tensor, "n classes nodes"]
) -> Loss:
    """Squared error under every label and at every node, in units of the network; a point's own label counts most."""

    def loss(network: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        rows = batch.shard.of(batch.rows).to(x.device)
        error = (network(x[rows]) - targets[rows]).float().square().mean(2)
        own = error.gather(1, labels[rows][:, None]).mean()
        return OWN_SHARE * own + (1 - OWN_SHARE) * error.mean()

    return loss


@dataclass(frozen=True, eq=False)
class Multilinear:
    """Least squares on coalitions of all points, each in with probability t: its minimizer are the values at every t.

    A step looks at one node t. The batch's values are the network's, all others those it said last, which it keeps in
    its buffer `said`, (n, nodes), for checkpoints to hold them. Several processes share the reference points of a step.

    Attributes:
        lesson: what is learned from.
        grid: logit t of the nodes.
        unit: of the network at each node.
        coalitions: drawn in a step.
        references: whose games are played in a step.
    """

    lesson: Lesson
    grid: Float[Tensor, " nodes"]
    unit: Float[Tensor, " nodes"]
    coalitions: int = 64
    references: int = 32

    def __call__(self, network: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        """Loss at one node, in units of that node."""
        lesson, device = self.lesson, self.lesson.x.device
        rows = batch.rows.to(device)
        said = network(lesson.x[rows]).float()
        own = said.gather(1, lesson.labels[rows][:, None, None].expand(-1, 1, said.shape[2]))[:, 0]
        node = int(torch.randint(len(self.grid), (1,), generator=batch.generator, device=device))
        t = self.grid[node].sigmoid().float()
        members = draw_trusted_bernoulli(t.expand(self.coalitions), len(lesson.x), batch.generator)
        some = batch.shard.of(lesson.some_references(self.references, batch.generator))
        games = lesson.games(slice(None), some)
        inside = network.module if isinstance(network, DistributedDataParallel) else network
        last = inside.get_buffer("said")
        values = last[:, node].index_put((rows,), own[:, node])
        last[rows] = own.detach()
        with torch.autocast(device.type, enabled=False):
            residual = games(members) / self.unit[node] - members.float() @ values
            return (residual - residual.mean()).square().sum() / ((self.coalitions - 1) * t * (1 - t)) / len(lesson.x)


@dataclass(frozen=True, eq=False)
class BatchKernel:
    """Least squares on coalitions of a batch that plays alone, as the paper has it.

    With values shifted to add up to the worth of all, the mean error over coalitions of a size does not depend on who
    has which value, but its share of the squared error is by far the largest. So coalitions come several of a size, and
    only what they differ by is looked at: the same minimizer, and little of the noise. Several processes share the
    reference points of a step.

    Attributes:
        lesson: what is learned from.
        law: of the sizes of coalitions, for as many players as a batch has.
        sizes: of coalitions, drawn in a step.
        of_a_size: coalitions of each.
        references: whose games are played in a step.
        unit: of the loss; the same in every step, or steps whose coalitions are worth much would count for less.
    """

    lesson: Lesson
    law: Float[Tensor, " sizes"]
    sizes: int = 8
    of_a_size: int = 8
    references: int = 64
    unit: float = 1.0

    def __call__(self, network: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        """Variance of the error over coalitions of a size."""
        lesson, device = self.lesson, self.lesson.x.device
        rows, generator = batch.rows.to(device), batch.generator
        some = batch.shard.of(lesson.some_references(self.references, generator))
        games = lesson.games(rows, some)
        said = network(lesson.x[rows], lesson.references[some], lesson.other_labels[some])
        values = said.gather(1, lesson.labels[rows][:, None])[:, 0].float()
        sizes = 1 + torch.multinomial(self.law.float(), self.sizes, replacement=True, generator=generator)
        members = draw_trusted_sizes(sizes.repeat_interleave(self.of_a_size), len(rows), generator)
        worth = games(members)
        with torch.autocast(device.type, enabled=False):
            error = (worth - members.float() @ values).view(-1, self.of_a_size)
            return error.var(1).mean() / self.unit

    def measured(self, batch: int, generator: torch.Generator) -> BatchKernel:
        """Return it with the mean squared worth of everyone as its unit, so that losses of all games are alike."""
        device, worth = self.lesson.x.device, []
        for _ in range(LEVEL_GAMES):
            rows = torch.randperm(len(self.lesson.x), generator=generator, device=device)[:batch]
            games = self.lesson.games(rows, self.lesson.some_references(self.references, generator))
            worth.append(games(torch.ones(1, len(rows), dtype=torch.bool, device=device)))
        return replace(self, unit=float(torch.cat(worth).square().mean()) or 1.0)

    def level(self, weights: Semivalue, batch: int, generator: torch.Generator) -> float:
        """Mean value of a point of a batch, sum_s w(s) E[v(s + 1) - v(s)], from sampled coalitions."""
        device, gained = self.lesson.x.device, []
        law = torch.from_numpy(weights.join_law(batch)).float().to(device)
        for _ in range(LEVEL_GAMES):
            rows = torch.randperm(len(self.lesson.x), generator=generator, device=device)[:batch]
            games = self.lesson.games(rows, self.lesson.some_references(self.references, generator))
            count = self.sizes * self.of_a_size
            sizes = torch.multinomial(law, count, replacement=True, generator=generator)
            order = draw_permutations(count, batch, generator)
            place = torch.empty_like(order).scatter_(1, order, torch.arange(batch, device=device).expand_as(order))
            gained.append(games(place <= sizes[:, None]) - games(place < sizes[:, None]))
        return float(torch.cat(gained).double().mean())
