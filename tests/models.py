"""Small models to be explained, made from a seed."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def seeded(make: type[nn.Module], *arguments: int, seed: int = 0) -> nn.Module:
    """Return a module with the weights that belong to a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make(*arguments)


def rows(count: int, columns: int, seed: int = 0) -> Tensor:
    """Return rows of a table, standard normal."""
    return torch.randn(count, columns, generator=torch.Generator().manual_seed(seed))


def images(count: int, size: int = 8, channels: int = 1, seed: int = 0) -> Tensor:
    """Return images of noise."""
    return torch.randn(count, channels, size, size, generator=torch.Generator().manual_seed(seed))


class TableModel(nn.Module):
    """A classifier of rows, with dropout and a BatchNorm."""

    def __init__(self, columns: int = 4, classes: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(columns, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Dropout(0.3), nn.Linear(16, classes)
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out


class ImageModel(nn.Module):
    """A convolutional classifier whose feature maps have the image's resolution and half of it."""

    def __init__(self, classes: int = 3, channels: int = 1) -> None:
        super().__init__()
        self.fine = nn.Sequential(nn.Conv2d(channels, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.coarse = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        pooled = self.coarse(self.fine(x)).mean((2, 3))
        out: Tensor = self.head(self.dropout(pooled))
        return out
