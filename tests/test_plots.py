from __future__ import annotations

import sys

import numpy as np
import pytest

import fwshapley as fw
from fwshapley.plots import plot_weights


def test_weights_plot_draws_what_the_semivalues_say() -> None:
    several = [fw.Beta(alpha=4, beta=1), fw.Shapley()]
    join, kernel, sampled = plot_weights(several, n=9).axes
    for line, semivalue in zip(join.lines, several, strict=True):
        assert line.get_label() == str(semivalue)
        np.testing.assert_array_equal(np.asarray(line.get_ydata()), semivalue.join_law(9).numpy())
    assert [len(panel.lines) for panel in (kernel, sampled)] == [2, 2]


def test_a_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'fwshapley\[plots\]'"):
        plot_weights(fw.Shapley(), n=4)
