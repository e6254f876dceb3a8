from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes

from fwshapley.plots import Feature, plot_beeswarm
from fwshapley.plots.beeswarm import ROOM
from fwshapley.plots.features import spread_out

GENERATOR = np.random.default_rng(0)


def points_of(axes: Axes, line: int) -> np.ndarray:
    """Values of the points that belong to a line, colored or gray, sorted."""
    places = np.concatenate([np.asarray(points.get_offsets()) for points in axes.collections])
    return np.sort(places[np.abs(places[:, 1] - line) <= ROOM + 1e-9, 0])


def labels_of(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def features(count: int, rows: int) -> list[Feature]:
    return [Feature(f"column {number}", GENERATOR.normal(size=rows)) for number in range(count)]


@pytest.mark.parametrize("rows", [1, 50, 3000])
def test_points_are_the_values_with_a_panel_per_weighting(rows: int) -> None:
    values = GENERATOR.normal(size=(2, rows, 4)) * [1, 8, 4, 2]
    figure = plot_beeswarm(values, features(4, rows), ["a", "b"], heading="output cat")
    order = np.argsort(-np.abs(values[0]).mean(0), kind="stable")
    panels = figure.axes[:2]
    assert labels_of(panels[0]) == [f"column {number}" for number in order]
    assert [panel.get_title() for panel in panels] == ["a", "b"]
    for number, panel in enumerate(panels):
        for line, player in enumerate(order):
            np.testing.assert_allclose(points_of(panel, line), np.sort(values[number, :, player]))


def test_the_other_players_are_one_gray_line_of_sums() -> None:
    values = GENERATOR.normal(size=(1, 20, 5)) * [5, 4, 0.3, 0.2, 0.1]
    axes = plot_beeswarm(values, features(5, 20), ["a"], kind="columns", n_shown=2).axes[0]
    assert labels_of(axes)[2] == "sum of 3 other columns"
    np.testing.assert_allclose(points_of(axes, 2), np.sort(values[0, :, 2:].sum(1)))


def test_colors_are_the_values_of_columns_and_gray_where_there_are_none() -> None:
    numbers = np.array([1.0, 2.0, np.nan, 4.0])
    shades = Feature("a", numbers).shades()
    assert shades is not None
    assert shades[0] == 0
    assert shades[3] == 1
    assert 0 < shades[1] < shades[3]
    assert np.isnan(shades[2])
    axes = plot_beeswarm(np.ones((1, 4, 1)), [Feature("a", numbers)], ["a"]).axes[0]
    gray, colored = axes.collections
    assert gray.get_label() == "gray"
    assert len(np.asarray(gray.get_offsets())) == 1
    np.testing.assert_allclose(np.asarray(colored.get_array()), shades[[0, 1, 3]])


def test_only_two_categories_have_an_order() -> None:
    codes = np.array([0.0, 1.0, 2.0])
    two = Feature("sex", codes, ("female", "male"))
    assert two.label == "sex (high: male)"
    np.testing.assert_array_equal(np.asarray(two.shades()), [0, 1, np.nan])  # code 2 is a missing entry
    assert Feature("town", codes, ("Bonn", "Oslo", "Rome")).shades() is None
    assert Feature("group").shades() is None
    without = plot_beeswarm(np.ones((1, 3, 1)), [Feature("group")], ["a"])
    assert len(without.axes) == 1  # no scale of colors


def test_constant_columns_and_values_are_drawn() -> None:
    feature = Feature("a", np.full(5, 3.0))
    assert np.asarray(feature.shades()).tolist() == [0.5] * 5
    assert np.isnan(np.asarray(Feature("a", np.full(5, np.nan)).shades())).all()
    axes = plot_beeswarm(np.zeros((1, 5, 1)), [feature], ["a"]).axes[0]
    np.testing.assert_array_equal(points_of(axes, 0), np.zeros(5))


def test_points_of_one_value_lie_side_by_side_and_those_apart_on_the_line() -> None:
    values = np.array([0.0, 5.0, 0.0, 0.0, 10.0])
    offsets = spread_out(values, (0.0, 10.0), step=0.1, room=1.0, n_bins=10)
    np.testing.assert_allclose(offsets, [0, 0, 0.1, -0.1, 0])
    crowded = spread_out(np.zeros(1001), (0.0, 0.0), step=0.1, room=0.4, n_bins=10)
    assert np.abs(crowded).max() == pytest.approx(0.4)
    assert len(np.unique(crowded)) == 1001
