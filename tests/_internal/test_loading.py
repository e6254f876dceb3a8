from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import fwshapley as fw
from fwshapley._internal.safetensors_file import save_bundle
from models import rows

pytestmark = pytest.mark.filterwarnings("ignore::fwshapley.explanation.learned.fidelity.FidelityWarning")

LABELS = torch.arange(12) % 2


def explainer() -> fw.FeatureExplainer:
    made = fw.FeatureExplainer(nn.Linear(4, 2), device="cpu")
    return made.fit(rows(40, 4), budget=fw.Budget(steps=2), progress=False)


def valuator() -> fw.AmortizedValuator:
    made = fw.AmortizedValuator(budget=fw.Budget(steps=2), device="cpu", progress=False)
    return made.fit(rows(12, 2), LABELS)


SAVED: dict[str, Callable[[], object]] = {
    "Attribution": lambda: explainer().explain(rows(3, 4)),
    "Valuation": lambda: fw.value_neighbors(rows(12, 2), LABELS, progress=False),
    "Estimate": lambda: fw.permutation_values(
        fw.games.Glove(left=1, right=2), fw.Shapley(), n_calls=40, progress=False
    ),
    "AmortizedValuator": valuator,
}


@pytest.mark.parametrize("name", SAVED)
def test_everything_that_is_saved_can_be_loaded_by_one_function(name: str, tmp_path: Path) -> None:
    made = SAVED[name]()
    made.save(tmp_path / "file.safetensors")  # type: ignore[attr-defined]  # all have it
    loaded = fw.load(tmp_path / "file.safetensors")
    assert type(loaded).__name__ == name
    found, expected = (getattr(result, "values", getattr(result, "values_", None)) for result in (loaded, made))
    assert np.array_equal(np.asarray(found), np.asarray(expected))


def test_an_explainer_is_loaded_from_its_folder_or_its_file(tmp_path: Path) -> None:
    made = explainer()
    made.save(tmp_path)
    for path in (tmp_path, tmp_path / "explainer.safetensors"):
        loaded = fw.load(path, device="cpu")
        assert isinstance(loaded, fw.FeatureExplainer)
        assert torch.equal(loaded.explain(rows(3, 4)).values, made.explain(rows(3, 4)).values)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    save_bundle(tmp_path / "run", "checkpoint", {}, {"x": np.zeros(2)})
    with pytest.raises(ValueError, match="run contains a checkpoint"):
        fw.load(tmp_path / "run")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        fw.load(tmp_path / "nowhere")
