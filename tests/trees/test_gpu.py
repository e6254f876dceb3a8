"""Values on a GPU are those on the CPU; needs a machine with one."""

from typing import Any

import numpy as np
import pytest
import torch

import fwshapley as fw
from trees.brute_trees import random_ensemble, random_rows, weightings

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

TOLERANCE = 1e-12
BACKGROUND = random_rows(1, 50)


@pytest.mark.parametrize("background", [None, BACKGROUND], ids=["path-dependent", "interventional"])
@pytest.mark.parametrize("trees", [{}, {"depth": 9}, {"outputs": 3}, {"outputs": 2, "one_output_each": True}], ids=str)
def test_values_on_a_gpu_are_those_on_the_cpu(background: np.ndarray | None, trees: dict[str, Any]) -> None:
    ensemble, x = random_ensemble(5, **trees), random_rows(3, 400)
    on_cpu = fw.TreeExplainer(ensemble, background)
    on_gpu = fw.TreeExplainer(ensemble, background, device="cuda")
    expected = on_cpu.explain(x, weights=weightings(6)).values
    found = on_gpu.explain(x, weights=weightings(6)).values
    np.testing.assert_allclose(found, expected, atol=TOLERANCE)
    assert np.array_equal(found, on_gpu.explain(x, weights=weightings(6)).values)
    np.testing.assert_allclose(on_gpu.interactions(x), on_cpu.interactions(x), atol=TOLERANCE)
