from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes

from fwshapley.plots import Feature, find_partner, plot_dependence

GENERATOR = np.random.default_rng(0)


def points_of(axes: Axes) -> np.ndarray:
    return np.concatenate([np.asarray(points.get_offsets()) for points in axes.collections])


def ticks_of(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_xticklabels()]


def test_points_are_the_values_over_the_column() -> None:
    numbers, values = GENERATOR.normal(size=40), GENERATOR.normal(size=(2, 40))
    figure = plot_dependence(values, Feature("age", numbers), ["a", "b"])
    for axes, drawn in zip(figure.axes, values, strict=True):
        np.testing.assert_allclose(points_of(axes), np.stack([numbers, drawn], 1))
        assert axes.get_xlabel() == "age"


def test_missing_values_have_a_place_at_the_right_end() -> None:
    numbers = np.array([0.0, 10.0, np.nan, np.inf])
    (axes,) = plot_dependence(np.ones((1, 4)), Feature("age", numbers), ["a"]).axes
    places = points_of(axes)[:, 0]
    assert places[:2].tolist() == [0, 10]
    assert 10 < places[3] < places[2]
    assert ticks_of(axes)[-1] == "missing"
    assert np.asarray(axes.get_xticks())[-1] == places[2]


def test_categories_are_on_the_axis_by_name() -> None:
    towns = Feature("town", np.array([2.0, 0.0, 2.0, 3.0]), ("Bonn", "Oslo", "Rome"))
    (axes,) = plot_dependence(np.arange(4.0)[None], towns, ["a"]).axes
    assert ticks_of(axes) == ["Bonn", "Rome", "missing"]  # Oslo does not occur
    np.testing.assert_allclose(points_of(axes), [[1, 0], [0, 1], [1, 2], [2, 3]])


def test_dates_are_written_as_dates() -> None:
    days = Feature("joined", np.array([19_723.0]), is_date=True)
    assert days.text(0) == "joined = 2024-01-01"
    assert ticks_of(plot_dependence(np.zeros((1, 1)), days, ["a"]).axes[0]) == ["2024-01-01"]


def test_another_column_colors_the_points() -> None:
    age, values = Feature("age", np.arange(4.0)), np.zeros((1, 4))
    numbers = np.array([5.0, np.nan, 7.0, 9.0])
    figure = plot_dependence(values, age, ["a"], color=Feature("bmi", numbers))
    assert figure.axes[1].get_ylabel() == "bmi"
    gray, colored = figure.axes[0].collections
    assert np.asarray(gray.get_offsets()).tolist() == [[1, 0]]
    assert np.asarray(colored.get_array()).tolist() == [5, 7, 9]


def test_categories_color_the_points_with_a_legend() -> None:
    sex = Feature("sex", np.array([0.0, 1.0, 2.0]), ("female", "male"))
    (axes,) = plot_dependence(np.zeros((1, 3)), Feature("age", np.arange(3.0)), ["a"], color=sex).axes
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["female", "male", "missing"]
    assert len(axes.collections) == 3


@pytest.mark.parametrize("color", [Feature("flat", np.ones(3)), Feature("none", np.full(3, np.nan)), None])
def test_constant_columns_are_drawn(color: Feature | None) -> None:
    for numbers in (np.ones(3), np.full(3, np.nan)):
        figure = plot_dependence(np.zeros((1, 3)), Feature("age", numbers), ["a"], color=color)
        assert len(points_of(figure.axes[0])) == 3


def test_the_partner_is_the_column_that_interacts() -> None:
    x = GENERATOR.normal(size=(300, 4))
    columns = [Feature(str(number), x[:, number]) for number in range(4)]
    assert find_partner(x[:, 0] * x[:, 2], 0, columns) == 2
    assert find_partner(np.sin(3 * x[:, 0]) * x[:, 3] + 2 * x[:, 0], 0, columns) == 3


def test_without_interaction_or_rows_there_is_no_partner() -> None:
    x = GENERATOR.normal(size=(300, 8))
    columns = [Feature(str(number), x[:, number]) for number in range(8)]
    noise = GENERATOR.normal(size=300)
    assert find_partner(noise, 0, columns) is None
    assert find_partner(np.zeros(300), 0, columns) is None
    few = [Feature(str(number), x[:10, number]) for number in range(8)]
    assert find_partner(x[:10, 0] * x[:10, 1], 0, few) is None
    assert find_partner(noise, 0, [Feature("group"), *columns[1:]]) is None
