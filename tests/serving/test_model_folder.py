"""Folders and files as models of a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import fwshapley as fw
from fwshapley.cli.serve_demo import make_demo
from fwshapley.serving.model_folder import load_model, load_models
from fwshapley.serving.page import write_page
from fwshapley.serving.query import Query
from models import rows
from serving_parts import Explained


def answer_of(model: Any, instances: list[Any], query: Query) -> Any:  # noqa: ANN401 - of any model
    (answer,) = model.answer([(model.read(instances, query, 10), query)])
    return answer


@pytest.mark.slow
def test_trees_are_served_with_coefficients_of_every_weighting(tmp_path: Path) -> None:
    x = rows(80, 5).numpy()
    forest = RandomForestClassifier(4, max_depth=4, random_state=0).fit(x, x[:, 0] * x[:, 1] > 0)
    explainer = fw.TreeExplainer(forest, x)
    (tmp_path / "forest").mkdir()
    explainer.save(tmp_path / "forest" / "explainer.safetensors")
    model = load_model(tmp_path / "forest")
    query = Query(weights=(fw.Shapley(),), coefficients=True, outputs="all")
    answer = answer_of(model, x[:3].tolist(), query)
    np.testing.assert_allclose(answer.values[0], explainer.explain(x[:3], outputs="all").values, atol=1e-12)
    for weights in (fw.Beta(16, 1), fw.Beta(0.5, 3)):
        expected = explainer.explain(x[:3], weights=weights, outputs="all").values
        ours = np.einsum("j,bnjo->bno", model.basis.mixture(weights), answer.coefficients)
        np.testing.assert_allclose(ours, expected, atol=1e-10)


def test_learned_explainers_are_served_from_their_folder_if_it_has_all_of_them(
    tmp_path: Path, explained: dict[str, Explained]
) -> None:
    of_table, of_images = (explained[name].explainer for name in ("wines", "shapes"))
    of_table.save(tmp_path / "wines")
    models = load_models([tmp_path / "wines"])
    instance = explained["wines"].model.samples[0]
    ours, theirs = (
        answer_of(model, [instance], Query()).values for model in (models["wines"], explained["wines"].model)
    )
    np.testing.assert_array_equal(ours, theirs)
    of_images.save(tmp_path / "shapes")
    with pytest.raises(ValueError, match=r"run fwshapley export .*explainer\.onnx --model"):
        load_model(tmp_path / "shapes")


def test_explainers_that_need_their_model_are_refused(tmp_path: Path) -> None:
    x = rows(20, 3).numpy()
    explainer = fw.InterventionalExplainer(lambda some: some[:, 0] * some[:, 1], x)
    explainer.save(tmp_path / "product.safetensors")
    with pytest.raises(ValueError, match="is of the kind 'interventional explainer'; a server takes"):
        load_model(tmp_path / "product.safetensors")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # a few steps teach nothing
def test_the_demo_has_two_models_with_samples(tmp_path: Path) -> None:
    for name, model in make_demo(fw.Budget(steps=4)).items():
        assert len(model.samples) == 12
        answer = answer_of(model, list(model.samples[:2]), Query(coefficients=True))
        assert np.isfinite(answer.values).all()
        write_page(tmp_path / f"{name}.html", model)
        assert 'src="' not in (tmp_path / f"{name}.html").read_text(encoding="utf-8").partition("<body>")[0]
