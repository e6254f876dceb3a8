"""shap's explainers as functions from rows to values, with backgrounds that they take as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Call = Callable[[Values], Values]


def make_kernel(call: Call, background: Values) -> Call:
    """Return shap's KernelExplainer, without the regularization by which it leaves ten columns."""
    import shap  # noqa: PLC0415 - optional, and slow to import

    explainer = shap.KernelExplainer(call, background)
    return lambda rows: np.asarray(explainer.shap_values(rows, l1_reg=False, silent=True))


def make_permutation(call: Call, background: Values, seed: int) -> Call:
    """Return shap's PermutationExplainer, with its default number of evaluations."""
    import shap  # noqa: PLC0415 - as above

    masker = shap.maskers.Independent(background, max_samples=len(background))
    explainer = shap.PermutationExplainer(call, masker, seed=seed)
    return lambda rows: np.asarray(explainer(rows, silent=True).values)


def make_trees(model: Any, background: Any) -> Callable[[Any], Values]:  # noqa: ANN401 - models and tables of any library
    """Return shap's TreeExplainer of the interventional game; it raises an error for a model that it does not read."""
    import shap  # noqa: PLC0415 - as above

    masker = shap.maskers.Independent(background, max_samples=len(background))
    explainer = shap.TreeExplainer(model, masker, feature_perturbation="interventional")
    return lambda rows: np.asarray(explainer.shap_values(rows, check_additivity=False))
