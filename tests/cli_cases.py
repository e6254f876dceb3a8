"""Models and data in files, as the command line takes them: small, and made from a seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch import Tensor, nn
from typer.testing import CliRunner

from fwshapley.cli import app

MODELS = """
import numpy as np
import torch
from torch import nn


def seeded(make):
    torch.manual_seed(0)
    return make()


def image_model():
    return seeded(
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 4, 3),
            nn.Flatten(),
            nn.Linear(16, 3),
        )
    )


images = image_model()
rows = seeded(lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)))


class Net(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)


def last_channels(x):
    assert x.shape[1:] == (8, 8, 3), x.shape
    score = x[:, :4].mean((1, 2, 3)) * 8 - 4
    return np.stack([1 / (1 + np.exp(-score)), 1 / (1 + np.exp(score))], 1)


class Estimator:
    classes_ = np.array(["dark", "bright"])

    def predict(self, x):
        return self.predict_proba(x).argmax(1)

    def predict_proba(self, x):
        return last_channels(x)[:, ::-1]


class Regressor:
    def predict(self, x):
        return last_channels(x)[:, 0]


estimator, regressor = Estimator(), Regressor()
number = 3
"""

PIPELINE = """
from pathlib import Path

import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

table = pd.read_csv(Path(__file__).parent / "drinks.csv")
encode = make_column_transformer((OneHotEncoder(), ["town", "code"]), remainder="passthrough")
model = make_pipeline(encode, LogisticRegression()).fit(table[["a", "town", "code"]], table.kind)
"""


def run(*arguments: object) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error of a command, on one line each."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, " ".join(result.stdout.split()), " ".join(result.stderr.split())


def write_models(folder: Path) -> Path:
    """Write a file of models; return where it is."""
    path = folder / "models.py"
    path.write_text(MODELS)
    return path


def write_table(folder: Path) -> Path:
    """Write a table with text, numbers and texts that look like numbers, and a pipeline that was fitted on it."""
    generator = np.random.default_rng(0)
    a = generator.normal(size=60).round(2)
    town = np.where(generator.random(60) < 0.5, "Rome", "Oslo")
    code = np.array(["1", "2", "x"])[generator.integers(0, 3, 60)]
    kind = np.where((a + (town == "Rome")) > 0.5, "tea", "coffee")
    frame = pd.DataFrame({"id": np.arange(60), "a": a, "town": town, "code": code, "kind": kind})
    frame.to_csv(folder / "drinks.csv", index=False)
    (folder / "pipeline.py").write_text(PIPELINE)
    return folder / "drinks.csv"


def write_rows(folder: Path, count: int = 60) -> Path:
    """Write rows of four numbers."""
    path = folder / "rows.npz"
    np.savez(path, x=np.random.default_rng(0).normal(size=(count, 4)))
    return path


def write_pictures(folder: Path, count: int = 40, size: int = 8, mode: str = "L") -> Path:
    """Write gray or colored pictures of noise into two folders below one."""
    generator = np.random.default_rng(0)
    for number in range(count):
        path = folder / "pictures" / "ab"[number % 2] / f"{number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        shape = (size, size) if mode == "L" else (size, size, 3)
        Image.fromarray(generator.integers(0, 256, shape, dtype=np.uint8)).save(path)
    return folder / "pictures"


class Classifier(nn.Module):
    """A classifier of 8 x 8 images, or with one output."""

    def __init__(self, outputs: int = 3) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.layer = nn.Linear(64, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        out: Tensor = self.layer(x.flatten(1))
        return out


def export(path: Path, model: nn.Module, *, most: int | None = None, fixed: bool = False) -> Path:
    """Write a model as torch.export does."""
    batch = torch.export.Dim("batch", max=most)
    shapes = None if fixed else ({0: batch},)
    torch.export.save(torch.export.export(model.eval(), (torch.rand(2, 1, 8, 8),), dynamic_shapes=shapes), path)
    return path
