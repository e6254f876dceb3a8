from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from PIL import Image
from torch import Tensor

import fwshapley as fw
from fwshapley.explanation.attribution import Unweighted
from fwshapley.explanation.pictures import image_plots
from fwshapley.plots.overlays import LUMA, heat_of
from models import images

BOTH: list[fw.Semivalue] = [fw.Shapley(), fw.Beta(16, 1)]
GRID = fw.grid(8, 8, patch=4)
X = images(3, channels=3)


def attribution(players: fw.players.Players = GRID, **changes: Any) -> fw.Attribution:  # noqa: ANN401 - of any field
    """Values of three images under two weightings; the last output has the largest predictions, but for image 0."""
    generator = torch.Generator().manual_seed(0)
    base = torch.tensor([[9.0, 0.0], [0.0, 9.0], [0.0, 9.0]])
    fields: dict[str, Any] = {
        "values": torch.randn(2, 3, players.n_players, 2, generator=generator),
        "base_values": base,
        "outputs": torch.tensor([[0, 2], [1, 2], [0, 2]]),
        "inputs": X,
        "weights": BOTH,
        "total": "raw",
        "players": players,
        "output_names": ("cat", "dog", "cow"),
        "provenance": {"output": "probability"},
    }
    return fw.Attribution(**fields | changes)


IMAGES = attribution()


def bar_below(panel: Axes) -> Axes:
    (bar,) = panel.child_axes
    assert isinstance(bar, Axes)
    return bar


def drawn(axes: Axes) -> np.ndarray:
    return np.asarray(axes.images[0].get_array())


def test_images_are_drawn_with_a_panel_for_each_weighting_on_a_scale_of_its_own() -> None:
    figure = IMAGES.plot([2, 0], output=1)
    panels = np.array(figure.axes).reshape(2, 3)
    assert [cell.get_title() for cell in panels[0]] == ["cow", "Shapley", "Beta(16, 1)"]
    assert [cell.get_title() for cell in panels[1]] == ["cow", "", ""]
    assert figure.get_supxlabel() == "colors: change in probability"
    for weighting in range(2):
        for row, number in enumerate([2, 0]):
            limit = float(IMAGES.values[weighting, number, :, 1].abs().max())
            low, high = bar_below(panels[row, 1 + weighting]).get_xlim()
            assert -low == high == pytest.approx(limit, rel=0.02)  # no pixel lies at the very center of a patch


def test_the_output_with_the_largest_prediction_is_drawn_unless_one_is_named() -> None:
    assert [cell.get_title() for cell in IMAGES.plot().axes[::3]] == ["cat", "cow", "cow"]
    with pytest.raises(ValueError, match="output 'dog' was not explained for input 0"):
        IMAGES.plot(output="dog")


def test_outputs_are_side_by_side_on_one_scale() -> None:
    panels = np.array(IMAGES.plot(output=[0, "cow"]).axes).reshape(3, 5)
    assert [cell.get_title() for cell in panels[0]] == ["", *(f"{w}\n{name}" for w in BOTH for name in ("cat", "cow"))]
    assert [cell.get_title() for cell in panels[1]] == ["", "dog", "cow", "dog", "cow"]
    for row in panels:
        ends = [bar_below(cell).get_xlim() for cell in row[1:]]
        assert ends[0] == ends[1]
        assert ends[2] == ends[3]


@pytest.mark.parametrize(
    ("scale", "predictions", "titles"),
    [
        ("probability", [0.25, 0.999], ["cat\nmodel: 25 %", "cow\nmodel: 99.9 %"]),
        ("logit", [0.0, 2.0], ["cat\nmodel: 50 %", "cow\nmodel: 88 %"]),
        ("raw", [-3.5, 12.25], ["cat\nmodel: -3.5", "cow\nmodel: 12.25"]),
    ],
)
def test_what_the_model_predicts_is_above_the_image(scale: str, predictions: list[float], titles: list[str]) -> None:
    known = attribution(predictions=torch.tensor([predictions] * 3), provenance={"output": scale})
    assert [known.plot([0], output=number).axes[0].get_title() for number in range(2)] == titles


@pytest.mark.parametrize(
    ("provenance", "weights", "note"),
    [
        ({"output": "label_logit"}, BOTH, "colors: change in log odds"),
        ({"output": "raw"}, BOTH, "colors: change in output"),
        ({}, BOTH, "colors: value"),
        ({"output": "probability"}, [Unweighted("saliency")] * 2, "colors: value"),
    ],
)
def test_the_unit_is_written_below(provenance: dict[str, Any], weights: list[fw.Semivalue], note: str) -> None:
    found = attribution(provenance=provenance, weights=weights)
    assert found.plot([0]).get_supxlabel() == note
    assert found.plot([0], sign="absolute").get_supxlabel() == note.replace("colors: ", "colors: |") + "|"


def test_segments_keep_their_edges_and_patches_do_unless_they_are_smooth() -> None:
    regions = torch.randint(5, (8, 8), generator=torch.Generator().manual_seed(1))
    regions.view(-1)[:5] = torch.arange(5)
    for found in (attribution(fw.segments(regions)), IMAGES):
        values = found.values[0, 1, :, 1].numpy()
        pixels = drawn(found.plot([1], style="heat_map", smooth=False).axes[1])
        expected = heat_of(values / np.abs(values).max(), "all")[found.players.assignment]
        np.testing.assert_allclose(pixels[::28, ::28], expected, atol=1e-6)
        np.testing.assert_allclose(pixels, expected.repeat(28, 0).repeat(28, 1), atol=1e-6)
    assert len(np.unique(drawn(IMAGES.plot([1], style="heat_map").axes[1]).reshape(-1, 3), axis=0)) > 1000


def test_other_pictures_can_be_drawn_in_place_of_the_inputs() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (3, 3, 8, 8), dtype=np.uint8)
    image = drawn(IMAGES.plot([1], images=pictures).axes[0])
    np.testing.assert_allclose(image[::28, ::28].transpose(2, 0, 1), pictures[1] / 255)
    for wrong in (pictures[:2], pictures[..., :4], pictures[0], pictures * np.nan):
        with pytest.raises(ValueError, match=r"images must be finite numbers of shape \(3, channels, 8, 8\)"):
            IMAGES.plot(images=wrong)


def test_masked_images_show_positive_values_unless_told_otherwise() -> None:
    low, high = bar_below(IMAGES.plot([1], style="masked_image").axes[1]).get_xlim()
    assert low == 0 < high
    with pytest.raises(ValueError, match="sign='all' needs colors, which a masked image has none of"):
        IMAGES.plot(style="masked_image", sign="all")


def test_errors_are_lines_of_color_bars_and_told_below() -> None:
    known = attribution(
        stderr=torch.full((2, 3, 4, 2), 0.05), provenance={"method": "refinement", "calls_per_input": 128}
    )
    figure = known.plot([1])
    below = "colors: value; refinement, 128 calls; lines on color bars: two standard errors from 0"
    assert figure.get_supxlabel() == below
    ends = [np.asarray(path.vertices)[0, 0] for path in bar_below(figure.axes[1]).collections[-1].get_paths()]
    assert ends[-2:] == pytest.approx([-0.1, 0.1])


def test_names_are_beside_the_images() -> None:
    figure = IMAGES.plot([0, 2], names=["one.png", "two.png"])
    assert [cell.get_ylabel() for cell in figure.axes[::3]] == ["one.png", "two.png"]


def test_images_have_options_that_tables_do_not_have() -> None:
    table = attribution(fw.columns(4), inputs=torch.randn(3, 4))
    for options in ({"style": "heat_map"}, {"sign": "absolute"}, {"limit": 1.0}, {"smooth": False}, {"images": X}):
        with pytest.raises(ValueError, match="are for images, and these inputs are rows of a table"):
            table.plot(**options)


class Counting:
    """The number of visible pixels that are bright, and of those that are dark, as a game with three outputs."""

    def __init__(self, n_players: int = 4) -> None:
        self.n_players = n_players

    def __call__(self, coalitions: Tensor) -> Tensor:
        sizes = (coalitions * torch.tensor([8.0, 4.0, 2.0, 1.0])[: self.n_players]).sum(1)
        return torch.stack([0 * sizes, -sizes, sizes / 15], 1)


def test_a_strip_follows_the_game_in_the_order_of_the_values() -> None:
    values = torch.tensor([[4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0]])
    found = attribution(values=values[:, None, :, None].expand(2, 3, 4, 2))
    figure = found.plot_inclusion(Counting(), 1, output="cow", name="one.png", seed=3)
    shown, hidden = figure.axes[-2:]
    assert figure.get_suptitle() == "one.png, output cow"
    assert shown.get_ylabel() == "probability of cow"
    curves = {str(line.get_label()): np.asarray(line.get_ydata()) * 15 for line in shown.lines}
    assert curves["Shapley"].tolist() == pytest.approx([0, 8, 12, 14, 15])
    assert curves["Beta(16, 1)"].tolist() == pytest.approx([0, 1, 3, 7, 15])
    without = [np.asarray(line.get_ydata()) * 15 for line in hidden.lines]
    assert [list(curve) for curve in without] == [pytest.approx([15, 7, 3, 1, 0]), pytest.approx([15, 14, 12, 8, 0])]
    random = curves["random orders, mean"]
    assert (random[0], random[-1]) == (0, pytest.approx(15))
    assert np.all(np.diff(random) > 0)
    labels = [frame.get_xlabel() for frame in figure.axes[:5]]
    assert labels == ["0 of 4\n0 %", "1 of 4\n53 %", "2 of 4\n80 %", "3 of 4\n93.3 %", "4 of 4\n100 %"]


def test_games_are_those_of_the_row() -> None:
    with pytest.raises(ValueError, match="game must have 4 players, got 3"):
        IMAGES.plot_inclusion(Counting(3))

    class Other(Counting):
        x = X[:1]

    assert len(IMAGES.plot_inclusion(Other(), row=0).axes) > 2
    with pytest.raises(ValueError, match=r"game is that of another input than row=1; pass explainer.game\(x\[1\]\)"):
        IMAGES.plot_inclusion(Other(), row=1)
    with pytest.raises(ValueError, match="game returns 2 outputs, but output number 2 was explained"):
        IMAGES.plot_inclusion(lambda coalitions: torch.ones(len(coalitions), 2), output="cow")
    with pytest.raises(ValueError, match="plot_inclusion needs players that are parts of images"):
        attribution(fw.columns(4), inputs=torch.randn(3, 4)).plot_inclusion(Counting())


def test_an_animation_is_of_one_weighting_and_written_whole(tmp_path: Path) -> None:
    path = IMAGES.of(fw.Shapley()).animate_inclusion(Counting(), tmp_path / "cow.gif", 1)
    with Image.open(path) as film:
        assert film.n_frames == 5  # type: ignore[attr-defined]  # of animated images
    with pytest.raises(ValueError, match="this result has 2 weightings: choose one first"):
        IMAGES.animate_inclusion(Counting(), tmp_path / "several.gif")
    with pytest.raises(ValueError, match=r"path must end in .gif, got 'cow.png'"):
        IMAGES.of(fw.Shapley()).animate_inclusion(Counting(), tmp_path / "cow.png")
    assert [path.name for path in tmp_path.iterdir()] == ["cow.gif"]


def test_hues_are_those_of_the_values_and_lumas_those_of_the_image() -> None:
    image = drawn(IMAGES.plot([1], smooth=False).axes[0])
    panel = drawn(IMAGES.plot([1], smooth=False).axes[1])
    assert np.corrcoef((image @ LUMA).ravel(), (panel @ LUMA).ravel())[0, 1] == pytest.approx(1)
    raises = (IMAGES.values[0, 1, :, 1] > 0).numpy()[GRID.assignment].repeat(28, 0).repeat(28, 1)
    np.testing.assert_array_equal(panel[..., 0] > panel[..., 2], raises)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore")  # the example trains for two steps
def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.DocTestFinder().find(image_plots, globs={"fw": fw, "np": np, "torch": torch})
    (test,) = [test for test in found if test.examples]
    assert not doctest.DocTestRunner().run(test).failed
    assert [path.name for path in tmp_path.iterdir()] == ["inclusion.png"]
