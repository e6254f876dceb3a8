"""pyDVL's KNN-Shapley, stored: it needs another numpy than we do. data/make_pydvl_knn_shapley.py made it."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch.testing import assert_close

from fwshapley import value_neighbors

STORED = Path(__file__).parent / "data" / "pydvl_knn_shapley.json"


def test_pydvl_agrees_on_knn_shapley() -> None:
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    found = value_neighbors(
        stored["x"], stored["y"], (stored["x_reference"], stored["y_reference"]), k=stored["k"], progress=False
    )
    assert_close(found.values, torch.tensor(stored["values"], dtype=torch.float64), rtol=0, atol=1e-12)
