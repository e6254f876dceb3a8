from __future__ import annotations

import doctest
import importlib
import sys

import numpy as np
import pytest

import fwshapley as fw
from fwshapley.plots import plot_bars, plot_weights
from fwshapley.plots.bars import MAX_BARS


def test_weights_plot_draws_what_the_semivalues_say() -> None:
    several = [fw.Beta(4, 1), fw.Shapley()]
    join, kernel, sampled = plot_weights(several, n=9).axes
    for line, semivalue in zip(join.lines, several, strict=True):
        assert line.get_label() == str(semivalue)
        np.testing.assert_array_equal(np.asarray(line.get_ydata()), semivalue.join_law(9))
    assert [len(panel.lines) for panel in (kernel, sampled)] == [2, 2]


def test_a_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'fwshapley\[plots\]'"):
        plot_weights(fw.Shapley(), n=4)


def test_bars_are_the_largest_values_with_the_largest_on_top() -> None:
    count = MAX_BARS + 3
    values = np.broadcast_to(np.linspace(-2, 1, count), (2, 3, count))
    names = [f"player {number}" for number in range(count)]
    figure = plot_bars(values, names, labels=["x", "y", "z"], titles=["a", "b"])
    axes = np.array(figure.axes).reshape(3, 2)
    assert [cell.get_title() for cell in axes[2]] == ["z\na", "z\nb"]
    assert figure.get_supxlabel() == "12 of 15 players shown: the largest values"
    bars = axes[0, 0].patches
    assert len(bars) == MAX_BARS
    lengths = [bar.get_width() for bar in bars]
    assert [abs(length) for length in lengths] == sorted(abs(length) for length in lengths)
    assert lengths[-1] == -2
    assert axes[0, 0].get_yticklabels()[-1].get_text() == "player 0"
    colors = {(bar.get_width() > 0, bar.get_facecolor()) for bar in bars}
    assert len(colors) == 2  # one for, one against


def test_few_players_are_all_shown() -> None:
    figure = plot_bars(np.array([[[1.0, -2.0]]]), ["age", "income"], labels=["x"], titles=["a"])
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["age", "income"]
    assert not figure.get_supxlabel()


@pytest.mark.parametrize("name", ["beeswarm", "curves", "dependence", "images", "importance", "inclusion", "waterfall"])
def test_examples_of_plots_run(name: str) -> None:
    module = importlib.import_module(f"fwshapley.plots.{name}")
    finder = doctest.DocTestFinder()
    tests = [test for test in finder.find(module, globs={"fw": fw, "np": np}) if test.examples]
    assert tests
    for test in tests:
        assert not doctest.DocTestRunner().run(test).failed
