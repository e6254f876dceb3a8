from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection
from torch import Tensor

import fwshapley as fw
from fwshapley.players import columns
from models import images, rows

SEVERAL = [fw.Shapley(), fw.Beta(4, 1), fw.Banzhaf(0.2)]
TENSORS = ("values", "base_values", "outputs", "inputs")


def attribution(
    players: fw.players.Players, inputs: Tensor, weights: fw.Semivalue | list[fw.Semivalue], outputs: int = 2
) -> fw.Attribution:
    generator = torch.Generator().manual_seed(0)
    front = (len(weights),) if isinstance(weights, list) else ()
    return fw.Attribution(
        values=torch.randn(*front, len(inputs), players.n_players, outputs, generator=generator),
        base_values=torch.randn(len(inputs), outputs, generator=generator),
        outputs=torch.tensor([[number % 3, 2] for number in range(len(inputs))]),
        inputs=inputs,
        weights=weights,
        total="raw",
        players=players,
        output_names=("cat", "dog", "cow"),
        provenance={"seed": 3, "training": {"explainer": {"steps": 5}}},
    )


TABLE = attribution(columns(4, ["age", "income", "debt", "town"]), rows(6, 4), list(SEVERAL))
IMAGES = attribution(fw.grid(8, 8, patch=4), images(6), fw.Beta(4, 1))


@pytest.mark.parametrize("original", [TABLE, IMAGES, attribution(columns(4), rows(6, 4), [fw.LeaveOneOut()])])
def test_an_attribution_comes_back_from_its_file_as_it_was(tmp_path: Path, original: fw.Attribution) -> None:
    original.save(tmp_path / "values.safetensors")
    again = fw.Attribution.load(tmp_path / "values.safetensors")
    assert all(torch.equal(getattr(again, name), getattr(original, name)) for name in TENSORS)
    assert again.weights == original.weights
    assert np.array_equal(again.players.assignment, original.players.assignment)
    assert (again.players.names, again.players.grid) == (original.players.names, original.players.grid)
    assert (again.total, again.output_names) == (original.total, original.output_names)
    assert again.provenance == original.provenance


def test_errors_are_saved_and_moved_where_there_are_any(tmp_path: Path) -> None:
    errors = {"stderr": torch.rand(3, 6, 4, 2), "expected_error": torch.rand(3, 6, 2)}
    original = replace(TABLE, **errors)  # type: ignore[arg-type] # mypy looks for every field
    original.save(tmp_path / "values.safetensors")
    again = fw.Attribution.load(tmp_path / "values.safetensors")
    assert all(torch.equal(getattr(again, name), tensor) for name, tensor in errors.items())
    assert {getattr(original.to("meta"), name).device.type for name in errors} == {"meta"}
    TABLE.save(tmp_path / "without.safetensors")
    without = fw.Attribution.load(tmp_path / "without.safetensors")
    assert (without.stderr, without.expected_error) == (None, None)


def test_an_attribution_says_in_one_line_what_it_is() -> None:
    assert str(TABLE) == "raw Shapley, Beta(4, 1), Banzhaf(0.2) values of 4 players for 6 inputs"
    assert str(replace(IMAGES, total="efficient")) == "efficient Beta(4, 1) values of 4 players for 6 inputs"
    assert len(TABLE) == 6


def test_an_attribution_can_be_moved() -> None:
    moved = TABLE.to("meta")
    assert {getattr(moved, name).device.type for name in TENSORS} == {"meta"}
    assert TABLE.values.device.type == "cpu"


def test_rows_of_a_table_are_drawn_as_bars_one_row_an_input_one_column_a_weighting() -> None:
    figure = TABLE.plot(rows=[5, 0], output=0)
    assert [axes.get_title() for axes in figure.axes] == [
        *(f"input 5, output cow\n{weights}" for weights in SEVERAL),  # output 5 % 3 of input 5
        *(f"input 0, output cat\n{weights}" for weights in SEVERAL),
    ]
    named = replace(TABLE, output_names=("output 0", "output 1", "output 2")).plot([1], output=0, names=["row 7"])
    assert named.axes[0].get_title() == f"row 7, output 1\n{SEVERAL[0]}"
    largest = max(abs(bar.get_extents().width) for bar in figure.axes[1].patches)  # under the second weighting
    scale = abs(figure.axes[1].transData.transform((1, 0)) - figure.axes[1].transData.transform((0, 0)))[0]
    assert largest / scale == pytest.approx(float(TABLE.values[1, 5, :, 0].abs().max()))


def test_more_rows_than_there_are_is_all_of_them() -> None:
    assert len(TABLE.plot(rows=100).axes) == 6 * 3


ERRORS = {"stderr": torch.rand(3, 6, 4, 2), "expected_error": torch.rand(3, 6, 2)}
KNOWN: fw.Attribution = replace(TABLE, provenance={"method": "refinement", "calls_per_input": 128}, **ERRORS)  # type: ignore[arg-type]


def test_calls_and_errors_are_printed() -> None:
    small = replace(TABLE, expected_error=torch.full((3, 6, 2), 0.03))
    assert str(small) == f"{TABLE}: expected error 0.03 (root mean square)"
    refined = replace(KNOWN, stderr=torch.full((3, 6, 4, 2), 0.0125), expected_error=None)
    assert str(refined) == f"{TABLE}, refined with 128 calls per input: standard error 0.013 (root mean square)"


def test_one_of_several_weightings() -> None:
    one = KNOWN.of(SEVERAL[1])
    assert one.weights == SEVERAL[1]
    for name in ("values", *ERRORS):
        assert torch.equal(getattr(one, name), getattr(KNOWN, name)[1])
    assert one.of(SEVERAL[1]) is one
    assert TABLE.of(SEVERAL[0]).stderr is None
    with pytest.raises(ValueError, match=r"weights must be one of Shapley, Beta\(4, 1\).*got Banzhaf\(0.5\)"):
        KNOWN.of(fw.Banzhaf())


def test_a_data_frame_has_a_row_for_each_value() -> None:
    frame = KNOWN.to_dataframe()
    assert frame.columns.tolist() == ["input", "weights", "output", "player", "value", "stderr", "expected_error"]
    assert len(frame) == 3 * 6 * 4 * 2
    row = frame[(frame.input == 4) & (frame.weights == "Beta(4, 1)") & (frame.player == "debt")]
    assert row.output.tolist() == ["dog", "cow"]  # 4 % 3, and 2
    for name, expected in (("value", KNOWN.values[1, 4, 2]), ("stderr", ERRORS["stderr"][1, 4, 2])):
        assert row[name].tolist() == pytest.approx(expected.tolist())
    assert row.expected_error.tolist() == pytest.approx(ERRORS["expected_error"][1, 4].tolist())
    assert IMAGES.to_dataframe().columns.tolist() == ["input", "output", "player", "value"]


def test_errors_are_drawn_as_whiskers_of_bars() -> None:
    figure = KNOWN.plot([2], output=1)
    assert figure.get_supxlabel() == "refinement, 128 calls; whiskers: two standard errors to either side"
    (whiskers,) = [each for each in figure.axes[1].collections if isinstance(each, LineCollection)]
    half = [abs(segment[1][0] - segment[0][0]) / 2 for segment in whiskers.get_segments()]
    assert sorted(half) == pytest.approx(sorted((2 * ERRORS["stderr"][1, 2, :, 1]).tolist()), rel=1e-5)
    expected = replace(TABLE, expected_error=ERRORS["expected_error"]).plot([2])
    assert expected.get_supxlabel() == "whiskers: two expected errors to either side"
    assert not TABLE.plot([2]).get_supxlabel()
