"""Exact explainers that call the model: saved without it, and loaded with the same model alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import fwshapley as fw
from models import rows

X = rows(40, 3).double().numpy()
PIPELINE = make_pipeline(StandardScaler(), Ridge()).fit(X, X @ [1.0, 2.0, 3.0])
OTHER = make_pipeline(StandardScaler(), Ridge(alpha=50)).fit(X, X @ [1.0, 2.0, 3.0])


def product(x: np.ndarray) -> np.ndarray:
    return np.asarray(x)[:, 0] * np.asarray(x)[:, 1]


@pytest.mark.parametrize("as_frame", [False, True])
def test_enumeration_is_loaded_with_the_model(as_frame: object, tmp_path: Path) -> None:
    table = pd.DataFrame(X, columns=["a", "b", "c"]) if as_frame else X
    made = fw.InterventionalExplainer(product, table, output_names=["area"], n_background=10, progress=False)
    made.metadata = {"by": "a test"}
    made.save(tmp_path / "file.safetensors")
    loaded = fw.load(tmp_path / "file.safetensors", model=product)
    assert isinstance(loaded, fw.InterventionalExplainer)
    assert (loaded.output_names, loaded.metadata, repr(loaded)) == (("area",), {"by": "a test"}, repr(made))
    weights = [fw.Shapley(), fw.Beta(16, 1)]
    expected = made.explain(table[:4], weights=weights)
    assert np.array_equal(loaded.explain(table[:4], weights=weights).values, expected.values)
    with pytest.raises(ValueError, match="pass it as model="):
        fw.load(tmp_path / "file.safetensors")
    with pytest.raises(ValueError, match="model must be the model that"):
        fw.load(tmp_path / "file.safetensors", model=lambda x: 2 * product(x) + 1)
    with pytest.raises(TypeError, match="must be a function or an estimator"):
        fw.load(tmp_path / "file.safetensors", model=nn.Linear(3, 1))


def test_a_linear_pipeline_is_loaded_with_the_model(tmp_path: Path) -> None:
    made = fw.LinearExplainer(PIPELINE, X)
    made.save(tmp_path / "file.safetensors")
    loaded = fw.load(tmp_path / "file.safetensors", model=PIPELINE)
    assert np.array_equal(loaded.explain(X[:4]).values, made.explain(X[:4]).values)
    assert np.allclose(loaded.predict(X)[:, 0], PIPELINE.predict(X))
    with pytest.raises(ValueError, match="pass it as model="):
        fw.load(tmp_path / "file.safetensors")
    with pytest.raises(ValueError, match="model must be the model that"):
        fw.load(tmp_path / "file.safetensors", model=OTHER)


def test_coefficients_need_no_model(tmp_path: Path) -> None:
    model = Ridge().fit(X, X[:, 0])
    made = fw.LinearExplainer(model, X)
    made.save(tmp_path / "file.safetensors")
    for loaded in (fw.load(tmp_path / "file.safetensors"), fw.load(tmp_path / "file.safetensors", model=model)):
        assert np.array_equal(loaded.explain(X[:4]).values, made.explain(X[:4]).values)


def test_the_front_door_names_outputs_and_saves_every_method(tmp_path: Path) -> None:
    explainer = fw.Explainer(product, X, output_names=["area"], progress=False)
    assert explainer.method == "enumeration"
    explainer.save(tmp_path / "file.safetensors")
    assert fw.load(tmp_path / "file.safetensors", model=product).output_names == ("area",)
    with pytest.raises(ValueError, match="output_names has 2 names"):
        fw.Explainer(Ridge().fit(X, X[:, 0]), X, output_names=["a", "b"], progress=False)
