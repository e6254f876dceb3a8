"""Shapley and Banzhaf values beside woodelf, which computes them with a background."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

import fwshapley as fw

woodelf = pytest.importorskip("woodelf")
GENERATOR = np.random.default_rng(0)
TABLE = pd.DataFrame(GENERATOR.normal(size=(200, 5)).astype(np.float32), columns=list("abcde"))
TARGET = TABLE["a"] * TABLE["b"] + np.sin(2 * TABLE["c"]) + TABLE["d"].abs()


MODELS: dict[str, Any] = {
    "XGBoost": lambda: pytest.importorskip("xgboost").XGBRegressor(n_estimators=8, max_depth=4, n_jobs=1),
    "LightGBM": lambda: pytest.importorskip("lightgbm").LGBMRegressor(n_estimators=8, verbose=-1, n_jobs=1),
    "histograms": lambda: HistGradientBoostingRegressor(max_iter=8, random_state=0),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=list(MODELS))
@pytest.mark.filterwarnings("ignore")
def test_values_are_those_of_woodelf(make: Any) -> None:  # noqa: ANN401 - of a library
    model = make().fit(TABLE, TARGET)
    theirs = woodelf.WoodelfExplainer(model, TABLE[:20])
    found = fw.TreeExplainer(model, TABLE[:20]).explain(TABLE[50:80], weights=[fw.Shapley(), fw.Banzhaf()])
    shapley = theirs.shap_values(TABLE[50:80], verbose=False)
    banzhaf = theirs.banzhaf_values(TABLE[50:80], verbose=False)
    np.testing.assert_allclose(found.values[0, ..., 0], shapley, atol=1e-5)
    np.testing.assert_allclose(found.values[1, ..., 0], banzhaf, atol=1e-5)
