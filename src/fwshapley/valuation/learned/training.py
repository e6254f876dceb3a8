"""Training of the networks that predict values, one function per method."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from fwshapley.semivalues import Semivalue
from fwshapley.training.budget import History
from fwshapley.training.shared_state import private_randomness
from fwshapley.valuation.learned.losses import BatchLoss, MultilinearLoss, NeighborGames, regression_loss
from fwshapley.valuation.learned.paper_network import PublishedNetwork
from fwshapley.valuation.learned.point_network import N_LANDMARKS, PointNetwork

PREDICTION_BATCH = 2**14
LEARNING_RATE = 2e-3
VALIDATION_SHARE = 0.1
MAX_VALIDATION_POINTS = 512

Trainer = Callable[..., History]
"""`fwshapley.training.loop.train` with everything but the network, the loss and the number of rows."""


class Trained(NamedTuple):
    """A network, the history of its training, and the points that were held out for validation, if any."""

    network: PointNetwork | PublishedNetwork
    history: History
    held_out: Int64[Tensor, " rows"]


def train_by_regression(
    games: NeighborGames, targets: Float64[Tensor, "n classes nodes"], trainer: Trainer, seed: int
) -> Trained:
    """Train on exact values of most points, and keep the state that is best on the others."""
    n_held_out = min(max(round(VALIDATION_SHARE * len(games.x)), 1), MAX_VALIDATION_POINTS)
    order = torch.randperm(len(games.x), generator=torch.Generator().manual_seed(seed))
    held_out, rows = order[:n_held_out], order[n_held_out:]
    center = targets[rows].mean(0)
    spread = (targets[rows] - center).square().mean((0, 1)).sqrt()
    network = _make_point_network(games, center, spread, seed)
    device = games.x.device
    scaled = ((targets - center).to(device) / network.spread).float()
    loss = regression_loss(games.x[rows.to(device)], games.labels[rows.to(device)], scaled[rows.to(device)])
    x, labels, scaled_held_out = (array[held_out.to(device)] for array in (games.x, games.labels, scaled))

    def validate(module: torch.nn.Module) -> float:
        label_index = labels[:, None, None].expand(-1, 1, scaled.shape[2])
        return float((module(x) - scaled_held_out).gather(1, label_index).square().mean())

    return Trained(network, trainer(network, loss, n_rows=len(rows), validate=validate), held_out)


def train_on_coalitions(
    games: NeighborGames, nodes: Float64[Tensor, " nodes"], unit: Float64[Tensor, " nodes"], trainer: Trainer, seed: int
) -> Trained:
    """Train on the values of coalitions of all points."""
    device = games.x.device
    network = _make_point_network(games, torch.zeros(games.n_classes, len(nodes)), unit, seed)
    network.register_buffer("last_values", torch.zeros(len(games.x), len(nodes), device=device))
    history = trainer(network, MultilinearLoss(games, nodes.to(device), unit.to(device)), n_rows=len(games.x))
    del network.last_values
    return Trained(network, history, torch.zeros(0, dtype=torch.int64))


def train_as_published(
    games: NeighborGames, weights: Semivalue, batch_size: int, trainer: Trainer, seed: int
) -> Trained:
    """Train a network of the paper's form on the values of coalitions of batches."""
    device = games.x.device
    batch_size = min(batch_size, len(games.x))
    with private_randomness(device):
        torch.manual_seed(seed)
        network = PublishedNetwork(games.x.cpu(), games.n_classes).to(device)
    generator = torch.Generator(device).manual_seed(seed)
    law = torch.from_numpy(weights.size_law(batch_size)).to(device)
    loss = BatchLoss(games, law).with_unit(batch_size, generator)
    history = trainer(network, loss, n_rows=len(games.x))
    with torch.no_grad():
        network.remember(games.reference, games.reference_labels, PREDICTION_BATCH)
        parts = zip(games.x.split(PREDICTION_BATCH), games.labels.split(PREDICTION_BATCH), strict=True)
        mean = torch.cat([network(x).gather(1, labels[:, None])[:, 0] for x, labels in parts]).mean()
        network.level.copy_(loss.mean_value(weights, batch_size, generator) - mean)
    return Trained(network, history, torch.zeros(0, dtype=torch.int64))


@torch.no_grad()
def predict_at_nodes(
    network: PointNetwork | PublishedNetwork, points: Float[Tensor, "points columns"], labels: Int64[Tensor, " points"]
) -> Float64[Tensor, "points nodes"]:
    """Return the values of points under their labels at every node of the network."""
    device = network.coordinates.mean.device
    parts = []
    for x, label in zip(points.split(PREDICTION_BATCH), labels.split(PREDICTION_BATCH), strict=True):
        values = network.values(x.to(device))
        parts.append(values[torch.arange(len(x), device=device), label.to(device)])
    return torch.cat(parts).double().cpu()


def _make_point_network(games: NeighborGames, center: Tensor, spread: Tensor, seed: int) -> PointNetwork:
    rows = torch.randperm(len(games.reference), generator=torch.Generator().manual_seed(seed))[:N_LANDMARKS]
    landmarks, labels = games.reference.cpu()[rows], games.reference_labels.cpu()[rows]
    with private_randomness(games.x.device):
        torch.manual_seed(seed)
        network = PointNetwork(games.x.cpu(), landmarks, labels, center.cpu(), spread.cpu())
    return network.to(games.x.device)
