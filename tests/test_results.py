from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import fwshapley as fw
from fwshapley.players import columns
from models import images, rows

SEVERAL = [fw.Shapley(), fw.Beta(alpha=4, beta=1), fw.Banzhaf(0.2)]
TENSORS = ("values", "base_values", "outputs", "inputs")


def attribution(
    players: fw.Players, inputs: Tensor, weights: fw.Semivalue | list[fw.Semivalue], outputs: int = 2
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
IMAGES = attribution(fw.grid(8, 8, patch=4), images(6), fw.Beta(alpha=4, beta=1))


@pytest.mark.parametrize("original", [TABLE, IMAGES, attribution(columns(4), rows(6, 4), [fw.LeaveOneOut()])])
def test_an_attribution_comes_back_from_its_file_as_it_was(tmp_path: Path, original: fw.Attribution) -> None:
    original.save(tmp_path / "values.safetensors")
    again = fw.Attribution.load(tmp_path / "values.safetensors")
    assert all(torch.equal(getattr(again, name), getattr(original, name)) for name in TENSORS)
    assert again.weights == original.weights
    assert torch.equal(again.players.assignment, original.players.assignment)
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
    assert str(TABLE) == "raw Shapley, Beta(4, 1), Banzhaf(0.2) of 4 players for 6 inputs"
    assert str(replace(IMAGES, total="efficient")) == "efficient Beta(4, 1) of 4 players for 6 inputs"
    assert len(TABLE) == 6


def test_an_attribution_can_be_moved() -> None:
    moved = TABLE.to("meta")
    assert {getattr(moved, name).device.type for name in TENSORS} == {"meta"}
    assert TABLE.values.device.type == "cpu"


def test_rows_of_a_table_are_drawn_as_bars_one_row_an_input_one_column_a_weighting() -> None:
    figure = TABLE.plot(rows=[5, 0], output=0)
    assert [axes.get_title() for axes in figure.axes] == [
        *(f"cow, {weights}" for weights in SEVERAL),  # output 5 % 3 of input 5
        *(f"cat, {weights}" for weights in SEVERAL),
    ]
    largest = max(abs(bar.get_extents().width) for bar in figure.axes[1].patches)  # under the second weighting
    scale = abs(figure.axes[1].transData.transform((1, 0)) - figure.axes[1].transData.transform((0, 0)))[0]
    assert largest / scale == pytest.approx(float(TABLE.values[1, 5, :, 0].abs().max()))


def test_images_are_drawn_with_their_heat_maps() -> None:
    figure = IMAGES.plot(output=1)
    assert len(figure.axes) == 4 * 2  # the first four inputs
    assert figure.axes[0].get_ylabel() == "cow"
    assert figure.axes[1].get_title() == "Beta(4, 1)"
    heat = torch.as_tensor(figure.axes[1].images[1].get_array())
    assert torch.equal(heat, IMAGES.values[0, :, 1][IMAGES.players.assignment])


def test_more_rows_than_there_are_is_all_of_them() -> None:
    assert len(TABLE.plot(rows=100).axes) == 6 * 3
