from __future__ import annotations

import numpy as np
import pytest

from fwshapley.plots import plot_importance

GENERATOR = np.random.default_rng(0)


def widths(values: np.ndarray, n_shown: int) -> tuple[list[str], list[np.ndarray]]:
    """Labels of the lines, and the widths of each weighting's bars."""
    names = [f"column {number}" for number in range(values.shape[2])]
    titles = [f"weighting {number}" for number in range(len(values))]
    axes = plot_importance(values, names, titles, kind="columns", n_shown=n_shown).axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    return labels, [np.array([bar.get_width() for bar in bars]) for bars in axes.containers]


def test_bars_are_means_of_sizes_in_the_order_of_the_first_weighting() -> None:
    values = GENERATOR.normal(size=(2, 30, 5)) * [1, 5, 2, 4, 3]
    labels, bars = widths(values, n_shown=12)
    means = np.abs(values).mean(1)
    order = np.argsort(-means[0])
    assert labels == [f"column {number}" for number in order]
    for number in range(2):
        np.testing.assert_allclose(bars[number], means[number, order])


def test_others_are_summed_but_never_only_one() -> None:
    values = np.arange(1.0, 7.0)[None, None] * [[[1.0], [-1.0]]]  # means are 1 to 6
    labels, (bars,) = widths(values, n_shown=3)
    assert labels == ["column 5", "column 4", "column 3", "sum of 3 other columns"]
    assert bars.tolist() == [6, 5, 4, 1 + 2 + 3]
    labels, (bars,) = widths(values, n_shown=5)
    assert labels[-1] == "column 0"
    assert len(bars) == 6


def test_the_sum_of_the_others_is_pale_and_the_legend_covers_no_bar() -> None:
    figure = plot_importance(np.ones((2, 3, 30)), list(map(str, range(30))), ["a", "b"])
    assert [[bar.get_alpha() for bar in bars][-2:] for bars in figure.axes[0].containers] == [[None, 0.45]] * 2
    assert figure.axes[0].get_legend() is None
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]


@pytest.mark.parametrize("value", [0.0, 1e-12, 3e9])
def test_one_player_of_one_row_has_one_bar(value: float) -> None:
    labels, (bars,) = widths(np.full((1, 1, 1), value), n_shown=12)
    assert (labels, bars.tolist()) == (["column 0"], [value])
