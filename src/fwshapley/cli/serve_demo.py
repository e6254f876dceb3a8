"""Two small explainers of data that comes with scikit-learn, for `fwshapley serve --demo`: digits, and wines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import fwshapley as fw
from fwshapley.networks.mlp import MLP, zero
from fwshapley.serving.exported_explainer import ExportedExplainer
from fwshapley.serving.mixtures import BanzhafNodes
from fwshapley.serving.model_folder import make_learned
from fwshapley.serving.served_model import ExactModel, LearnedModel, ServedModel, fields_of_exact

BUDGET = fw.Budget(seconds=60, steps=300)
"""Of the training."""

CODE = "from fwshapley.cli.serve_demo import make_demo\nexplainer = make_demo()"
"""What the page shows for Python."""

N_SAMPLES = 12
SIDE = 8
BRIGHTEST = 16
N_CLASSES = 10
EPOCHS = 25


def make_demo(budget: fw.Budget = BUDGET) -> dict[str, ServedModel[Any]]:
    """Return the explainers as models of a server.

    Args:
        budget: of the training of the one that is learned.
    """
    return {"digits": _make_digits(budget), "wines": _make_wines()}


def _make_digits(budget: fw.Budget) -> LearnedModel:
    """Explain a perceptron that recognizes handwritten digits; the players are pixels."""
    pixels, labels = load_digits(return_X_y=True)
    rows = (pixels / BRIGHTEST).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(rows))
    train, test = order[200:], order[:200]
    model = _as_module(_fit_perceptron(rows[train], labels[train]))
    images = torch.from_numpy(rows.reshape(-1, 1, SIDE, SIDE))
    names = [str(digit) for digit in range(N_CLASSES)]
    explainer = fw.FeatureExplainer(
        model, fw.grid(SIDE, SIDE, patch=1), network=PixelNetwork, output_names=names, device="cpu"
    )
    explainer.fit(images[train], images[test], budget=budget, progress=False)
    samples = images[test[:N_SAMPLES]].numpy().round(4).tolist()
    served = make_learned("digits", ExportedExplainer.of(explainer), "torch", None)
    return replace(served, samples=tuple(samples), code=f'{CODE}["digits"].explainer.source  # trains it again')


def _fit_perceptron(rows: NDArray[np.float32], labels: NDArray[np.int64]) -> MLPClassifier:
    perceptron = MLPClassifier((64,), alpha=0.1, random_state=0)
    for _ in range(EPOCHS):
        perceptron.partial_fit(rows, labels, classes=range(N_CLASSES))
    return perceptron


def _as_module(perceptron: MLPClassifier) -> nn.Module:
    """Return a perceptron of scikit-learn as a torch module that returns logits."""
    first, last = (nn.Linear(*weights.shape) for weights in perceptron.coefs_)
    for layer, weights, bias in zip((first, last), perceptron.coefs_, perceptron.intercepts_, strict=True):
        layer.weight.data = torch.tensor(weights.T.copy(), dtype=torch.float32)
        layer.bias.data = torch.tensor(bias, dtype=torch.float32)
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), last)


def _make_wines() -> ExactModel:
    """Explain a logistic regression of chemical measurements of wines; its values are exact."""
    table, labels = load_wine(return_X_y=True, as_frame=True)
    order = np.random.default_rng(0).permutation(len(table))
    train, test = order[48:], order[:48]
    names = np.array(["barolo", "grignolino", "barbera"])[labels]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(table.iloc[train], names[train])
    explainer = fw.LinearExplainer(model, table.iloc[train])
    samples = [
        {str(name): value for name, value in row.items()} for row in table.iloc[test[:N_SAMPLES]].to_dict("records")
    ]
    basis = BanzhafNodes.of(explainer.players.n_players)
    fields, code = fields_of_exact(explainer), f'{CODE}["wines"].explainer'
    return ExactModel("wines", fields, basis, tuple(samples), explainer, code=code)


class PixelNetwork(nn.Module):
    """A perceptron from images to (batch, pixels, channels), zero at the start.

    Args:
        channels: for each pixel.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = MLP(SIDE * SIDE, SIDE * SIDE * channels)
        zero(self.body.last)

    def forward(self, x: Tensor) -> Tensor:
        """Channels of every pixel."""
        out: Tensor = self.body(x.flatten(1)).unflatten(1, (SIDE * SIDE, -1))
        return out
