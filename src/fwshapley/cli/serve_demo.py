"""Two small explainers of data that comes with scikit-learn: digits, and wines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fwshapley as fw
from fwshapley.serving.model_folder import SAMPLES

SECONDS = 7.0
"""Time for each explainer."""

N_SAMPLES = 12
SIDE = 8
BRIGHTEST = 16


def make_demo(folder: Path, budget: fw.Budget = fw.Budget(seconds=SECONDS)) -> list[Path]:  # noqa: B008 - immutable
    """Train the explainers, and return their folders.

    Args:
        folder: that they are written to.
        budget: of each training.
    """
    return [_make_digits(folder / "digits", budget), _make_wines(folder / "wines", budget)]


def _make_digits(folder: Path, budget: fw.Budget) -> Path:
    """Explain a logistic regression of handwritten digits, whose players are pixels."""
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / BRIGHTEST).reshape(-1, 1, SIDE, SIDE).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[N_SAMPLES * 5 :], order[: N_SAMPLES * 5]
    model = LogisticRegression(max_iter=500, C=0.5).fit(pixels[train] / BRIGHTEST, labels[train])

    def predict(batch: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        probabilities: np.ndarray[Any, Any] = model.predict_proba(batch.reshape(len(batch), -1))
        return probabilities

    names = [str(digit) for digit in range(10)]
    players = fw.grid(SIDE, SIDE, patch=1)
    explainer = fw.FeatureExplainer(predict, players, output_names=names, network="slim", device="cpu")
    explainer.fit(images[train], images[test], budget=budget, progress=False)
    explainer.save(folder)
    _write_samples(folder, images[test[:N_SAMPLES]].round(4).tolist())
    return folder


def _make_wines(folder: Path, budget: fw.Budget) -> Path:
    """Explain a forest of chemical measurements of wines, with expected errors."""
    table, labels = load_wine(return_X_y=True, as_frame=True)
    order = np.random.default_rng(0).permutation(len(table))
    train, test = order[40:], order[:40]
    forest = RandomForestClassifier(100, random_state=0)
    model = make_pipeline(StandardScaler(), forest).fit(table.iloc[train], labels.iloc[train])
    names = ["barolo", "grignolino", "barbera"]
    explainer = fw.FeatureExplainer(model, output_names=names, device="cpu")
    explainer.fit(table.iloc[train], table.iloc[test], budget=budget, progress=False)
    explainer.calibrate(table.iloc[test], weights=[fw.Shapley(), fw.Beta(4, 1), fw.Beta(16, 1)], progress=False)
    explainer.save(folder)
    _write_samples(folder, _records(table.iloc[test[:N_SAMPLES]]))
    return folder


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def _write_samples(folder: Path, instances: list[Any]) -> None:
    (folder / SAMPLES).write_text(json.dumps({"instances": instances}), encoding="utf-8")
