from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes

from fwshapley.plots import Errors, plot_waterfall
from fwshapley.plots.waterfall import Sum

GENERATOR = np.random.default_rng(0)
EXACT: Sum = "the prediction"


def labels_of(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def texts_of(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def draw(values: np.ndarray, base: float, sums: list[Sum], **options: object) -> list[Axes]:
    labels = [f"column {number}" for number in range(values.shape[1])]
    titles = [f"weighting {number}" for number in range(len(values))]
    return plot_waterfall(values, base, labels, titles, sums=sums, **options).axes  # type: ignore[arg-type]


def test_bars_lead_from_the_base_value_to_the_prediction() -> None:
    values = np.array([[1.0, -4.0, 2.0]])
    (axes,) = draw(values, 10.0, [EXACT])
    assert labels_of(axes) == ["base value", "column 0", "column 2", "column 1", "prediction"]
    bars = [(bar.get_x(), bar.get_width()) for bar in axes.patches]  # type: ignore[attr-defined]
    assert bars == [(10, 1), (11, 2), (13, -4)]
    assert texts_of(axes) == ["+1.00", "+2.00", "\N{MINUS SIGN}4.00", "10", "9"]
    low, high = axes.get_xlim()
    assert low < 9
    assert high > 13


def test_the_smallest_values_are_one_bar() -> None:
    values = GENERATOR.normal(size=(2, 30))
    for number, axes in enumerate(draw(values, 0.5, [EXACT, EXACT], n_shown=4, kind="columns")):
        assert number or labels_of(axes)[1] == "sum of 26 other columns"
        shown = np.argsort(-np.abs(values[0]))[:4][::-1]
        expected = [np.delete(values[number], shown).sum(), *values[number, shown]]
        np.testing.assert_allclose([bar.get_width() for bar in axes.patches], expected)  # type: ignore[attr-defined]
        last = axes.patches[-1]
        assert last.get_x() + last.get_width() == pytest.approx(0.5 + values[number].sum())  # type: ignore[attr-defined]


def test_a_sum_that_is_not_the_prediction_is_not_called_so() -> None:
    values = np.array([[1.0, 2.0], [1.0, 1.0]])
    both = draw(values, 0.0, [EXACT, "not the prediction"])
    assert labels_of(both[0])[-1] == "base value + values"
    assert [texts_of(axes)[-1] for axes in both] == ["3 = prediction", "2"]
    assert both[0].figure is not None
    note = both[0].figure.get_supxlabel()
    assert note == "weighting 1: base value + values is not the prediction"
    (axes,) = draw(values[:1], 0.0, ["about the prediction"])
    assert axes.figure.get_supxlabel() == "weighting 0: base value + values is about the prediction"


def test_whiskers_have_two_errors_at_the_ends_of_the_bars() -> None:
    sizes = np.array([[[0.1, 0.2, 0.3, 0.4]]])
    (axes,) = draw(np.array([[4.0, -3.0, 1.0, 0.5]]), 0.0, [EXACT], n_shown=2, errors=Errors(sizes, "standard error"))
    (whiskers,) = axes.containers[1].lines[2]  # type: ignore[attr-defined]
    drawn = [segment[:, 0] for segment in whiskers.get_segments() if len(segment)]  # the sum of the others has none
    np.testing.assert_allclose(drawn, [[-1.9, -1.1], [2.3, 2.7]])  # their bars end at -1.5 and 2.5
    assert axes.figure.get_supxlabel() == "whiskers: two standard errors to either side"


def test_the_models_own_prediction_is_a_mark_beside_that_of_the_surrogate() -> None:
    values = np.array([[1.0, 2.0]])
    (axes,) = draw(values, 0.5, [EXACT], model_prediction=4.25, is_far=True)
    assert labels_of(axes)[-1] == "surrogate's prediction"
    (mark,) = (line for line in axes.lines if line.get_marker() == "D")
    assert np.asarray(mark.get_xdata()).tolist() == [4.25]
    assert axes.get_xlim()[1] > 4.25
    note = axes.figure.get_supxlabel()
    assert note.startswith("◇: the model itself predicts 4.25, which differs by more than expected")
    (axes,) = draw(values, 0.5, [EXACT], model_prediction=3.5)
    assert axes.figure.get_supxlabel() == "◇: the model itself predicts 3.5"


@pytest.mark.parametrize("value", [0.0, -1e-9, 2e8])
def test_one_player_may_have_any_value(value: float) -> None:
    (axes,) = draw(np.array([[value]]), 1.0, [EXACT])
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([value])  # type: ignore[attr-defined]
