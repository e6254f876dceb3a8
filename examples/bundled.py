"""Small data sets and models for the examples, without downloads: digits, a medical table, a generated table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from sklearn.datasets import load_diabetes, load_digits
from torch import Tensor, nn
from torch.nn import functional

import fwshapley as fw

TEST_DIGITS, TEST_ROWS = 400, 100


@dataclass(frozen=True)
class Task:
    """A trained model, and inputs to explain it on.

    Attributes:
        model: the model to explain.
        players: the players.
        x_train: inputs that the model was trained on.
        x_test: other inputs.
        skill: accuracy on x_test, or the share of variance that the model explains there.
        output_names: one for each output.
    """

    model: nn.Module
    players: fw.players.Players
    x_train: Tensor
    x_test: Tensor
    skill: float
    output_names: tuple[str, ...]


def digits(seed: int = 0, epochs: int = 30) -> Task:
    """Return scikit-learn's 8 x 8 digits in 16 players of 2 x 2 pixels, and a small convolutional network."""
    x, y = digit_images()
    torch.manual_seed(seed)
    order = torch.randperm(len(x))
    x, y = x[order], y[order]
    model = digit_network()
    _train(model, x[TEST_DIGITS:], y[TEST_DIGITS:], functional.cross_entropy, epochs)
    right = model(x[:TEST_DIGITS]).argmax(1) == y[:TEST_DIGITS]
    names = tuple(map(str, range(10)))
    return Task(model, fw.grid(8, 8, patch=2), x[TEST_DIGITS:], x[:TEST_DIGITS], float(right.double().mean()), names)


def digit_images() -> tuple[Tensor, Tensor]:
    """Return all of scikit-learn's 8 x 8 digits, and their classes."""
    data = load_digits()
    return torch.tensor(data.images[:, None] / 16, dtype=torch.float32), torch.tensor(data.target)


def digit_network() -> nn.Module:
    """Return a small convolutional network for 8 x 8 images, untrained."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 2, stride=2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(1024, 10),
    )


def diabetes(seed: int = 0) -> Task:
    """Return scikit-learn's diabetes table (442 patients, 10 measurements) and a perceptron that predicts progress."""
    data = load_diabetes(scaled=False)
    x, y = torch.tensor(data.data, dtype=torch.float32), torch.tensor(data.target, dtype=torch.float32)
    torch.manual_seed(seed)
    order = torch.randperm(len(x))
    x, y = x[order], y[order, None]
    mean, deviation = x[TEST_ROWS:].mean(0), x[TEST_ROWS:].std(0)
    model = nn.Sequential(Scale(mean, deviation), nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1), Scale(-3.0, 1 / 50))
    _train(model, x[TEST_ROWS:], y[TEST_ROWS:], functional.mse_loss, epochs=60)
    with torch.no_grad():
        error = functional.mse_loss(model(x[:TEST_ROWS]), y[:TEST_ROWS]) / y[:TEST_ROWS].var()
    players = fw.columns(len(data.feature_names), data.feature_names)
    return Task(model, players, x[TEST_ROWS:], x[:TEST_ROWS], 1 - float(error), ("progress",))


def generated(seed: int = 0, rows: int = 4000) -> Task:
    """Return 12 features (one duplicated, a one-hot group of three columns, an interaction) and a perceptron."""
    torch.manual_seed(seed)
    numbers = torch.randn(rows, 10)
    color = torch.randint(0, 3, (rows,))
    x = torch.cat([numbers, numbers[:, :1], functional.one_hot(color, 3)], 1)
    score = numbers[:, 0] + 2 * numbers[:, 1] * numbers[:, 2] - numbers[:, 3] + (numbers[:, 4] > 0).float()
    logits = torch.stack([score, (color - 1) * numbers[:, 5], -score], 1)
    y = torch.distributions.Categorical(logits=logits).sample()
    model = nn.Sequential(nn.Linear(14, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3))
    test = rows // 8
    _train(model, x[test:], y[test:], functional.cross_entropy, epochs=15)
    right = model(x[:test]).argmax(1) == y[:test]
    names = [*(f"x{number}" for number in range(10)), "x0 again"]
    members = {name: [column] for column, name in enumerate(names)} | {"color": [11, 12, 13]}
    return Task(model, fw.groups(members), x[test:], x[:test], float(right.double().mean()), ("high", "color", "low"))


class Scale(nn.Module):
    """(x - mean) / deviation."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: Tensor | float, deviation: Tensor | float) -> None:
        super().__init__()
        self.register_buffer("mean", torch.as_tensor(mean))
        self.register_buffer("deviation", torch.as_tensor(deviation))

    def forward(self, x: Tensor) -> Tensor:
        """Return x in the new units."""
        return (x - self.mean) / self.deviation


def _train(model: nn.Module, x: Tensor, y: Tensor, loss: Callable[[Tensor, Tensor], Tensor], epochs: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            loss(model(x[rows]), y[rows]).backward()
            optimizer.step()
    model.eval()
