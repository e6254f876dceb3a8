from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fwshapley.plots import COLORS, Captions, ImageStyle, plot_gallery, plot_heat_maps
from fwshapley.plots.overlays import Sign, Style, colors_of, gray_of

MAPS = np.random.default_rng(0).standard_normal((2, 3, 2, 4, 6))  # weightings, outputs, rows, height, width
IMAGES = np.random.default_rng(1).random((2, 3, 4, 6))
CAPTIONS = Captions(
    ["a.png", "b.png"],
    ["", ""],
    [["cat", "dog", "cow"], ["ox", "elk", "ape"]],
    ["Shapley", "Beta(4, 1)"],
    "colors: change in probability",
)


def drawn(axes: Axes) -> np.ndarray:
    return np.asarray(axes.images[0].get_array())


def bar_below(panel: Axes) -> Axes:
    (bar,) = panel.child_axes
    assert isinstance(bar, Axes)
    return bar


def panels_of(figure: Figure) -> np.ndarray:
    """Return panels by row, weighting and output."""
    return np.array(figure.axes).reshape(2, 7)[:, 1:].reshape(2, 2, 3)


def test_values_are_drawn_over_images_on_one_scale_for_all_outputs_of_a_row_and_weighting() -> None:
    figure = plot_heat_maps(IMAGES, MAPS, CAPTIONS)
    panels = panels_of(figure)
    for (row, weighting, output), panel in np.ndenumerate(panels):
        limit = np.abs(MAPS[weighting, :, row]).max()
        expected = colors_of(MAPS[weighting, output, row] / limit, gray_of(IMAGES[row]), "all")
        np.testing.assert_allclose(drawn(panel), expected)
        assert bar_below(panel).get_xlim() == pytest.approx((-limit, limit))
        labels = [label.get_text() for label in bar_below(panel).get_xticklabels()]
        assert labels == [f"-{limit:.2g}", "0", f"+{limit:.2g}"]


def test_captions_are_around_images() -> None:
    figure = plot_heat_maps(IMAGES, MAPS, CAPTIONS)
    assert [cell.get_ylabel() for cell in figure.axes[::7]] == ["a.png", "b.png"]
    titles = [[panel.get_title() for panel in row] for row in panels_of(figure).reshape(2, 6)]
    assert titles[0] == [f"{weights}\n{name}" for weights in CAPTIONS.weights for name in ("cat", "dog", "cow")]
    assert titles[1] == ["ox", "elk", "ape"] * 2
    assert figure.get_supxlabel() == CAPTIONS.note


def test_long_names_of_images_are_cut_to_the_height_of_a_panel() -> None:
    long = CAPTIONS._replace(rows=["some/folder/" * 9 + "one.png"] * 2)
    figure = plot_heat_maps(IMAGES, MAPS, long)
    figure.draw_without_rendering()
    for cell in figure.axes[::7]:
        assert cell.yaxis.label.get_window_extent().height <= 1.05 * cell.get_window_extent().height


@pytest.mark.parametrize(
    ("sign", "ends"), [("all", (-2, 2)), ("positive", (0, 2)), ("negative", (-2, 0)), ("absolute", (0, 2))]
)
@pytest.mark.parametrize("style", ["blended", "heat_map"])
def test_a_limit_is_the_end_of_every_color_bar(style: Style, sign: Sign, ends: tuple[float, float]) -> None:
    figure = plot_heat_maps(IMAGES, MAPS, CAPTIONS, ImageStyle(style, sign, limit=2.0))
    assert {bar_below(panel).get_xlim() for panel in panels_of(figure).flat} == {ends}
    without = plot_heat_maps(IMAGES, np.where(MAPS < 0, 0, MAPS), CAPTIONS, ImageStyle(style, limit=2.0))
    if sign == "positive":
        for one, other in zip(panels_of(figure).flat, panels_of(without).flat, strict=True):
            np.testing.assert_allclose(drawn(one), drawn(other))


def test_lines_of_a_color_bar_are_two_errors_from_zero() -> None:
    errors = np.full((2, 3, 2), 0.1)
    errors[1, 0, 1] = np.inf
    panels = panels_of(plot_heat_maps(IMAGES, MAPS, CAPTIONS, errors=errors))
    for (row, weighting, output), panel in np.ndenumerate(panels):
        lines = bar_below(panel).collections[-1].get_paths()
        places = [np.asarray(path.vertices)[0, 0] for path in lines if len(np.asarray(path.vertices)) == 2]
        finite = np.isfinite(errors[weighting, output, row])
        assert places == (pytest.approx([-0.2, 0.2]) if finite else [])


def test_maps_of_zeros_have_a_scale() -> None:
    figure = plot_heat_maps(IMAGES, 0 * MAPS, CAPTIONS)
    assert {bar_below(panel).get_xlim() for panel in panels_of(figure).flat} == {(-1, 1)}
    figure.draw_without_rendering()


def test_a_gallery_marks_some_images() -> None:
    figure = plot_gallery(np.zeros((3, 1, 4, 4)), ["a", "b", "c"], [True, False, True], columns=2)
    assert [cell.get_title() for cell in figure.axes] == ["a", "b", "c", ""]
    assert [cell.title.get_color() for cell in figure.axes[:3]] == [COLORS[1], "black", COLORS[1]]
    assert all(spine.get_visible() for cell in figure.axes[:3] for spine in cell.spines.values())
