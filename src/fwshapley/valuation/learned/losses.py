"""Losses by which a network learns values: regression on exact values, or least squares on coalitions without them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from fwshapley.coalitions import draw_permutations, draw_trusted_bernoulli, draw_trusted_sizes
from fwshapley.games.knn import value_of_votes
from fwshapley.semivalues import Semivalue
from fwshapley.training.batches import Batch, Loss
from fwshapley.valuation.knn.problem import NeighborProblem

CALIBRATION_BATCHES = 64
"""Random batches from which the unit of the loss and the mean value of a point are estimated."""

OWN_LABEL_SHARE = 0.5
"""Share of the regression loss for the label that a point has; the rest is the mean over all labels."""


class NeighborGames:
    """The games of a nearest-neighbor problem on a device, one for each reference point.

    Args:
        problem: points, reference points and the utility.
        device: where the games are evaluated.

    Attributes:
        x: points.
        labels: their class numbers.
        reference: reference points.
        reference_labels: their class numbers.
        n_classes: number of classes.
    """

    def __init__(self, problem: NeighborProblem, device: torch.device) -> None:
        self.x = torch.from_numpy(problem.points).float().to(device)
        self.labels = torch.from_numpy(problem.labels).to(device)
        self.reference = torch.from_numpy(problem.reference).float().to(device)
        self.reference_labels = torch.from_numpy(problem.reference_labels).to(device)
        self.n_classes = len(problem.classes)
        self.k, self.utility, self.ties = problem.k, problem.utility, problem.ties

    def __call__(
        self,
        coalitions: Bool[Tensor, "coalitions players"],
        references: Int[Tensor, " references"],
        players: Int[Tensor, " players"] | None = None,
    ) -> Float[Tensor, " coalitions"]:
        """Return the mean value of each coalition over the games of some reference points.

        Args:
            coalitions: which of the players are members.
            references: indices of the reference points.
            players: indices of the points that play; None is all points.
        """
        x, labels = (self.x, self.labels) if players is None else (self.x[players], self.labels[players])
        order = torch.cdist(self.reference[references], x).argsort(stable=True, dim=1)
        members = coalitions[:, order]
        nearest = members & (members.cumsum(2, dtype=torch.int32) <= self.k)
        one_hot = functional.one_hot(labels[order], self.n_classes).float()
        with torch.autocast(x.device.type, enabled=False):  # bf16 cannot represent the difference that one point makes
            votes = torch.einsum("srp,rpc->src", nearest.float(), one_hot)
            label = self.reference_labels[references]
            return value_of_votes(votes, label, k=self.k, utility=self.utility, ties=self.ties).mean(1)

    def draw_references(self, count: int, generator: torch.Generator) -> Int[Tensor, " {count}"]:
        """Return indices of random reference points."""
        return torch.randint(len(self.reference), (count,), generator=generator, device=self.x.device)


def regression_loss(
    x: Float[Tensor, "n columns"], labels: Int[Tensor, " n"], targets: Float[Tensor, "n classes nodes"]
) -> Loss:
    """Return the squared error under every label and at every node, in units of the network's outputs.

    Half of the loss is that of the label which a point has.
    """

    def loss(network: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        rows = batch.shard.of(batch.rows).to(x.device)
        error = (network(x[rows]) - targets[rows]).float().square().mean(2)
        error_at_label = error.gather(1, labels[rows][:, None]).mean()
        return OWN_LABEL_SHARE * error_at_label + (1 - OWN_LABEL_SHARE) * error.mean()

    return loss


@dataclass(frozen=True, eq=False)
class MultilinearLoss:
    """Least squares on coalitions that each point joins with probability t; the values at every t minimize it.

    A step uses one node t. The values of the batch are the network's; those of all other points are its most recent
    ones, which are kept in its buffer `last_values`, (n, nodes), so that checkpoints contain them. Several processes
    share the reference points of a step.

    Attributes:
        games: of all points.
        grid: logit t of the nodes.
        unit: of the network's outputs at each node.
        n_coalitions: coalitions per step.
        n_references: reference points per step.
    """

    games: NeighborGames
    grid: Float[Tensor, " nodes"]
    unit: Float[Tensor, " nodes"]
    n_coalitions: int = 64
    n_references: int = 32

    def __call__(self, network: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        """Return the loss at one node, in units of that node."""
        games, device = self.games, self.games.x.device
        n = len(games.x)
        rows = batch.rows.to(device)
        outputs = network(games.x[rows]).float()
        batch_values = outputs.gather(1, games.labels[rows][:, None, None].expand(-1, 1, outputs.shape[2]))[:, 0]
        node = int(torch.randint(len(self.grid), (1,), generator=batch.generator, device=device))
        t = self.grid[node].sigmoid().float()
        coalitions = draw_trusted_bernoulli(t.expand(self.n_coalitions), n, batch.generator)
        references = batch.shard.of(games.draw_references(self.n_references, batch.generator))
        module = network.module if isinstance(network, DistributedDataParallel) else network
        last_values = module.get_buffer("last_values")
        values = last_values[:, node].index_put((rows,), batch_values[:, node])
        last_values[rows] = batch_values.detach()
        with torch.autocast(device.type, enabled=False):
            residual = games(coalitions, references) / self.unit[node] - coalitions.float() @ values
            return (residual - residual.mean()).square().sum() / ((self.n_coalitions - 1) * t * (1 - t)) / n


@dataclass(frozen=True, eq=False)
class BatchLoss:
    """Least squares on coalitions of a batch, whose points are the only players, as in the FW-Shapley paper.

    If values are shifted to sum to the value of all players, the mean error over coalitions of one size does not depend
    on how the values are distributed, but it is by far the largest part of the squared error. So several coalitions are
    drawn of each size and only the variance of their errors is used: the minimizer is the same, with far less noise.
    Several processes share the reference points of a step.

    Attributes:
        games: of all points.
        law: of the sizes 1..b-1 of coalitions of b players.
        n_sizes: sizes per step.
        n_per_size: coalitions of each.
        n_references: reference points per step.
        unit: of the loss, the same in all steps, so that steps with small values count as much as they should.
    """

    games: NeighborGames
    law: Float[Tensor, " sizes"]
    n_sizes: int = 8
    n_per_size: int = 8
    n_references: int = 64
    unit: float = 1.0

    def __call__(self, network: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        """Return the variance of the error over coalitions of one size."""
        games, device, generator = self.games, self.games.x.device, batch.generator
        rows = batch.rows.to(device)
        references = batch.shard.of(games.draw_references(self.n_references, generator))
        outputs = network(games.x[rows], games.reference[references], games.reference_labels[references])
        values = outputs.gather(1, games.labels[rows][:, None])[:, 0].float()
        sizes = 1 + torch.multinomial(self.law.float(), self.n_sizes, replacement=True, generator=generator)
        coalitions = draw_trusted_sizes(sizes.repeat_interleave(self.n_per_size), len(rows), generator)
        with torch.autocast(device.type, enabled=False):
            error = (games(coalitions, references, rows) - coalitions.float() @ values).view(-1, self.n_per_size)
            return error.var(1).mean() / self.unit

    def with_unit(self, batch_size: int, generator: torch.Generator) -> BatchLoss:
        """Return the loss in units of the mean squared value of all players of a batch."""
        all_players = torch.ones(1, batch_size, dtype=torch.bool, device=self.games.x.device)
        values = [
            self.games(all_players, self.games.draw_references(self.n_references, generator), rows)
            for rows in self._draw_batches(batch_size, generator)
        ]
        return replace(self, unit=float(torch.cat(values).square().mean()) or 1.0)

    def mean_value(self, weights: Semivalue, batch_size: int, generator: torch.Generator) -> float:
        """Return the mean value of a point of a batch, sum_s w(s) E[v(s + 1) - v(s)], from sampled coalitions."""
        games, device = self.games, self.games.x.device
        gains = []
        law = torch.from_numpy(weights.join_law(batch_size)).float().to(device)
        count = self.n_sizes * self.n_per_size
        for rows in self._draw_batches(batch_size, generator):
            references = games.draw_references(self.n_references, generator)
            sizes = torch.multinomial(law, count, replacement=True, generator=generator)
            order = draw_permutations(count, batch_size, generator)
            rank = torch.empty_like(order).scatter_(1, order, torch.arange(batch_size, device=device).expand_as(order))
            pairs = torch.cat([rank <= sizes[:, None], rank < sizes[:, None]])
            after, before = games(pairs, references, rows).chunk(2)
            gains.append(after - before)
        return float(torch.cat(gains).double().mean())

    def _draw_batches(self, batch_size: int, generator: torch.Generator) -> list[Int[Tensor, " {batch_size}"]]:
        n, device = len(self.games.x), self.games.x.device
        permutations = (torch.randperm(n, generator=generator, device=device) for _ in range(CALIBRATION_BATCHES))
        return [permutation[:batch_size] for permutation in permutations]
