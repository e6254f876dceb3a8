from __future__ import annotations

import doctest
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.axes import Axes
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

import fwshapley as fw
from fwshapley.explanation.pictures import attribution_plots
from models import images

BOTH: list[fw.Semivalue] = [fw.Shapley(), fw.Beta(16, 1)]
TOWNS = ["Oslo", "Rome", None, "Rome", "Bonn", "Oslo"]


def attribution(weights: fw.Semivalue | list[fw.Semivalue], *, n_outputs: int = 3) -> fw.Attribution:
    """Values of six rows in numpy; the last output has the largest predictions, but in row 0."""
    generator = np.random.default_rng(0)
    front = (len(weights),) if isinstance(weights, list) else ()
    base = np.tile(np.arange(n_outputs) * 100.0, (6, 1))
    base[0, 0] = 1000
    arrays: dict[str, Any] = {
        "values": generator.normal(size=(*front, 6, 3, n_outputs)),
        "base_values": base,
        "outputs": np.tile(np.arange(n_outputs), (6, 1)),
        "inputs": np.stack([np.arange(6.0), [0, 1, 3, 1, 2, 0], [0, 1, np.nan, 3, 4, 5]], 1),
    }
    return fw.Attribution(
        **arrays,
        weights=weights,
        total="raw",
        players=fw.columns(3, ["age", "town", "income"]),
        output_names=("cat", "dog", "cow")[:n_outputs],
        provenance={},
        encodings={"1": ["Oslo", "Rome", "Bonn"]},
    )


TABLE = attribution(BOTH)
IMAGES = fw.Attribution(
    values=torch.randn(2, 4, 1),
    base_values=torch.zeros(2, 1),
    outputs=torch.zeros(2, 1, dtype=torch.long),
    inputs=images(2),
    weights=fw.Shapley(),
    total="raw",
    players=fw.grid(8, 8, patch=4),
    output_names=("cat",),
    provenance={},
)


def changed(found: fw.Attribution, **changes: Any) -> fw.Attribution:  # noqa: ANN401 - arrays of numpy and torch
    """Return an attribution with other fields."""
    return replace(found, **changes)


def values_of(found: fw.Attribution) -> np.ndarray:
    return np.asarray(found.values)


def widths(axes: Axes, number: int = 0) -> np.ndarray:
    return np.sort([bar.get_width() for bar in axes.containers[number]])


def y_labels(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def test_importance_is_of_the_largest_output_of_each_row_unless_one_is_named() -> None:
    values = values_of(TABLE)
    largest = np.concatenate([values[:, :1, :, 0], values[:, 1:, :, 2]], 1)
    axes = TABLE.plot_importance().axes[0]
    assert axes.get_title() == "largest output of each input (6 inputs)"
    for number in range(2):
        np.testing.assert_allclose(widths(axes, number), np.sort(np.abs(largest[number]).mean(0)))
    for output in ("dog", 1):
        axes = TABLE.plot_importance(output=output).axes[0]
        assert axes.get_title() == "output dog (6 inputs)"
        np.testing.assert_allclose(widths(axes), np.sort(np.abs(values[0, :, :, 1]).mean(0)))


@pytest.mark.parametrize("tensors", [False, True])
def test_beeswarm_is_of_the_output_that_is_mostly_the_largest(tensors: bool) -> None:  # noqa: FBT001 - parametrized
    found = TABLE
    if tensors:
        names = ("values", "base_values", "outputs", "inputs")
        found = changed(TABLE, **{name: torch.as_tensor(getattr(TABLE, name)) for name in names})
    figure = found.plot_beeswarm()
    assert figure.get_suptitle() == "output cow (6 inputs)"
    for number in range(2):
        drawn = np.concatenate([np.asarray(points.get_offsets()) for points in figure.axes[number].collections])
        np.testing.assert_allclose(np.sort(drawn[:, 0]), np.sort(values_of(TABLE)[number, :, :, 2].ravel()))


def test_rows_for_which_an_output_was_not_explained_are_left_out_and_counted() -> None:
    outputs = np.array([[0], [2], [2], [2], [0], [2]])
    predicted = changed(
        attribution(fw.Shapley(), n_outputs=3),
        values=values_of(TABLE)[0, :, :, :1],
        base_values=np.zeros((6, 1)),
        outputs=outputs,
    )
    (axes, _) = predicted.plot_beeswarm().axes
    assert axes.get_title() == "output cow, explained for 4 of 6 inputs, Shapley"
    drawn = np.concatenate([np.asarray(points.get_offsets()) for points in axes.collections])
    np.testing.assert_allclose(np.sort(drawn[:, 0]), np.sort(values_of(TABLE)[0, outputs[:, 0] == 2, :, 0].ravel()))
    assert predicted.plot_importance().axes[0].get_title() == "largest output of each input (6 inputs)"
    with pytest.raises(ValueError, match="output 'cat' was not explained for input 1"):
        predicted.plot_waterfall(1, output="cat")
    with pytest.raises(ValueError, match="output must be one of 'cat', 'cow'; got 'dog'"):
        predicted.plot_beeswarm(output="dog")


def test_bars_of_a_row_name_its_entries() -> None:
    first, second = TABLE.plot([2, 4], output="dog").axes[::2]
    assert set(y_labels(first)) == {"age = 2", "town = missing", "income = missing"}
    assert set(y_labels(second)) == {"age = 4", "town = Bonn", "income = 4"}


def test_a_single_output_without_a_name_is_in_no_title() -> None:
    found = changed(attribution(fw.Shapley(), n_outputs=1), output_names=("output 0",))
    figures = (found.plot_beeswarm(), found.plot_importance(), found.plot_waterfall(3), found.plot([3]))
    assert [figure.axes[0].get_title() for figure in figures] == [
        "6 inputs, Shapley",
        "6 inputs",
        "input 3, Shapley",
        "input 3\nShapley",
    ]
    named = changed(found, output_names=("price",)).plot_waterfall(3)
    assert named.axes[0].get_title() == "input 3, output price, Shapley"


def test_a_waterfall_names_values_and_leads_to_the_sum() -> None:
    first, second = TABLE.plot_waterfall(4, output="dog", name="row 7").axes
    assert set(y_labels(first)) == {"base value", "age = 4", "town = Bonn", "income = 4", "base value + values"}
    for number, axes in enumerate((first, second)):
        ends = np.asarray(axes.lines[-1].get_xdata())
        np.testing.assert_allclose(ends, [100, 100 + values_of(TABLE)[number, 4, :, 1].sum()])
    assert first.texts[-1].get_text().endswith("= prediction")
    assert not second.texts[-1].get_text().endswith("= prediction")
    assert {"town = missing", "income = missing"} <= set(y_labels(TABLE.plot_waterfall(2).axes[0]))


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({}, ""),
        ({"total": "efficient", "weights": fw.Beta(4, 1), "provenance": {"fidelity": None}}, ""),
        ({"provenance": {"fidelity": None}}, "Shapley: base value + values is about the prediction"),
        ({"weights": fw.Banzhaf(0.5)}, "Banzhaf(0.5): base value + values is not the prediction"),
    ],
)
def test_only_what_adds_up_is_called_the_prediction(changes: dict[str, object], note: str) -> None:
    figure = changed(attribution(fw.Shapley()), **changes).plot_waterfall()
    assert figure.get_supxlabel() == note
    assert y_labels(figure.axes[0])[-1] == ("base value + values" if note else "prediction")


def test_errors_are_whiskers_of_a_waterfall() -> None:
    known = changed(
        attribution(fw.Shapley()),
        stderr=np.full((6, 3, 3), 0.1),
        provenance={"method": "refinement", "calls_per_input": 8},
    )
    note = known.plot_waterfall().get_supxlabel()
    assert "refinement, 8 calls; whiskers: two standard errors to either side" in note


def test_dependence_is_of_a_player_by_name_or_number() -> None:
    for player in ("town", 1):
        first, second = TABLE.plot_dependence(player, output="cat").axes
        assert [label.get_text() for label in first.get_xticklabels()] == ["Oslo", "Rome", "Bonn", "missing"]
        drawn = np.concatenate([np.asarray(points.get_offsets()) for points in second.collections])
        np.testing.assert_allclose(np.sort(drawn[:, 1]), np.sort(values_of(TABLE)[1, :, 1, 0]))
    assert TABLE.plot_dependence("age", color="income").axes[2].get_ylabel() == "income"


def test_groups_have_values_but_no_single_column() -> None:
    grouped = changed(
        attribution(fw.Shapley()), values=np.ones((6, 2, 3)), players=fw.groups({"who": [0, 1], "money": [2]})
    )
    assert set(y_labels(grouped.plot_waterfall(1).axes[0])) >= {"who", "money = 1"}
    gray = grouped.plot_beeswarm().axes[0].collections[0]
    assert gray.get_label() == "gray"
    assert len(grouped.plot_dependence("money").axes) == 1
    with pytest.raises(ValueError, match="player must be one column, and 'who' is a group"):
        grouped.plot_dependence("who")
    with pytest.raises(ValueError, match="color must be one column, and 'who' is a group"):
        grouped.plot_dependence("money", color="who")


@pytest.mark.parametrize("method", ["plot_importance", "plot_beeswarm", "plot_waterfall"])
def test_images_have_another_picture(method: str) -> None:
    with pytest.raises(ValueError, match=rf"{method} needs players that are columns of a table.*use plot\(\)"):
        getattr(IMAGES, method)()


def test_explainers_say_what_codes_stand_for_and_the_file_keeps_it(tmp_path: Path) -> None:
    table = pd.DataFrame({"town": ["Oslo", "Rome", "Bonn", "Rome"] * 5, "age": np.arange(20)})
    model = make_pipeline(OrdinalEncoder(), LinearRegression()).fit(table, np.arange(20.0))
    found = fw.InterventionalExplainer(model.predict, table).explain(table[["age", "town"]])
    assert found.encodings == {"0": ["Bonn", "Oslo", "Rome"]}
    np.testing.assert_array_equal(np.asarray(found.inputs)[:, 1], np.arange(20))  # in the order of the players
    found.save(tmp_path / "values.safetensors")
    again = fw.Attribution.load(tmp_path / "values.safetensors")
    assert again.encodings == found.encodings
    assert set(y_labels(again.plot_waterfall(2).axes[0])) >= {"town = Bonn", "age = 2"}


def test_missing_and_surprising_entries_of_a_table_are_drawn() -> None:
    table = pd.DataFrame({"town": TOWNS * 4, "age": [1.0, np.nan, 3, 4, 5, 6] * 4, "flag": [True, False] * 12})
    explainer = fw.InterventionalExplainer(lambda some: some["age"].isna() + (some["town"] == "Rome") * 1.0, table)
    found = explainer.explain(table)
    assert found.encodings == {"0": ["Bonn", "Oslo", "Rome"], "2": ["False", "True"]}
    assert set(y_labels(found.plot_waterfall(2).axes[0])) >= {"town = missing", "age = 3", "flag = True"}
    assert "flag (high: True)" in y_labels(found.plot_beeswarm().axes[0])
    for player in found.players.names:
        found.plot_dependence(player, color="town").draw_without_rendering()


def test_names_with_dollars_and_lines_are_drawn_as_they_are() -> None:
    found = changed(TABLE, players=fw.columns(3, ["price in $ per US$", "a\nb", "x" * 200]))
    figure = found.plot_waterfall()
    figure.draw_without_rendering()
    labels = y_labels(figure.axes[0])
    assert all(len(label) < 60 and "\n" not in label for label in labels)
    found.plot_importance().draw_without_rendering()
    found.plot_beeswarm().draw_without_rendering()


def test_pictures_leave_pyplot_as_it_is() -> None:
    before = dict(mpl.rcParams)
    found = attribution(fw.Shapley())
    figures = [found.plot_importance(), found.plot_beeswarm(), found.plot_waterfall(), found.plot_dependence(0)]
    assert all(figure.get_facecolor() == (1, 1, 1, 1) for figure in figures)
    assert dict(mpl.rcParams) == before


@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore")  # an example trains for a few steps
def test_examples_of_the_methods_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.DocTestFinder().find(attribution_plots, globs={"fw": fw, "np": np, "torch": torch})
    tests = [test for test in found if test.examples]
    assert len(tests) == 5
    for test in tests:
        assert not doctest.DocTestRunner().run(test).failed
        written = {"beeswarm.png", "row_4.png", "dependence.png", "cats_and_dogs.png", "masked.png"}
    assert {path.name for path in tmp_path.iterdir()} == written
