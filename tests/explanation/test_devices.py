"""Everything in the core runs where the game lives. On a machine without CUDA only the CPU is checked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import fwshapley as fw
from fwshapley.coalitions import (
    draw_bernoulli,
    draw_distinct,
    draw_of_sizes,
    draw_permutations,
    make_generator,
)
from fwshapley.explanation.baselines import BASELINES
from fwshapley.games import Pairwise
from fwshapley.games.knn import Ties, Utility
from models import ImageModel, TableModel, images, rows, seeded

WEIGHTS = fw.Beta(4, 1)
GAME = Pairwise(torch.linspace(-1, 1, 9), torch.ones(9, 9))

DRAWS: dict[str, Callable[[torch.Generator], Tensor]] = {
    "permutations": lambda generator: draw_permutations(4, 9, generator),
    "bernoulli": lambda generator: draw_bernoulli([0.5], 9, generator),
    "of sizes": lambda generator: draw_of_sizes([3], 9, generator),
    "distinct": lambda generator: draw_distinct(3, 10, 9, generator),
}


@pytest.fixture(
    params=["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here"))]
)
def device(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


class GameOn:
    """A game that insists on its device."""

    n_players = GAME.n_players

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)

    def __call__(self, coalitions: Tensor, /) -> Tensor:
        assert coalitions.device.type == self.device.type
        return GAME(coalitions)


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_made_on_the_generators_device(name: str, device: str) -> None:
    assert DRAWS[name](make_generator(0, device)).device.type == device


def test_exact_values_stay_on_the_games_device(device: str) -> None:
    values, wls = fw.exact_values(GameOn(device), WEIGHTS), fw.estimators.exact_wls_values(GameOn(device), WEIGHTS)
    for found in (values, wls):
        assert found.device.type == device
        assert_close(found.cpu(), GAME.values(WEIGHTS))


@pytest.mark.parametrize("estimator", [fw.least_squares_values, fw.permutation_values, fw.multilinear_values])
def test_estimates_stay_on_the_games_device(estimator: Callable[..., fw.Estimate], device: str) -> None:
    estimate = estimator(GameOn(device), WEIGHTS, n_calls=2000, target_stderr=0.05)
    assert estimate.values.device.type == estimate.stderr.device.type == device
    assert bool(((estimate.values.cpu() - GAME.values(WEIGHTS)).abs() <= 5 * estimate.stderr.cpu() + 1e-10).all())


def test_a_table_is_explained_on_the_explainers_device(device: str, tmp_path: Path) -> None:
    model = seeded(TableModel)  # which stays where it is
    explainer = fw.FeatureExplainer(model, device=device)
    explainer.fit(rows(64, 4), budget=fw.Budget(steps=5), batch_size=16, n_coalitions=4, progress=False)
    found = explainer.explain(rows(5, 4), weights=[fw.Shapley(), WEIGHTS], outputs="predicted", total="efficient")
    assert found.values.device.type == device
    assert fw.exact_values(explainer.game(rows(1, 4)[0]), WEIGHTS).device.type == device
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu"}
    explainer.save(tmp_path)
    loaded = fw.FeatureExplainer.load(tmp_path, device="cpu")
    assert_close(loaded.explain(rows(5, 4)).values, explainer.explain(rows(5, 4)).values.cpu(), rtol=0.05, atol=1e-3)


@pytest.mark.parametrize("network", ["auto", "unet", "slim"])
def test_images_are_explained_on_the_explainers_device(network: Literal["auto", "unet", "slim"], device: str) -> None:
    explainer = fw.FeatureExplainer(seeded(ImageModel), fw.grid(8, 8, patch=4), network=network, device=device)
    explainer.fit(images(40), budget=fw.Budget(steps=5), batch_size=16, n_coalitions=4, progress=False)
    found = explainer.explain(images(3), outputs="predicted")
    assert found.values.device.type == device
    assert bool(found.values.isfinite().all())
    assert len(found.plot().axes) == 6


def test_a_loaded_explainer_is_laid_out_as_it_was_trained(device: str, tmp_path: Path) -> None:
    if device == "cpu":
        pytest.skip("only on a GPU are channels last")
    explainer = image_explainer(device)
    explainer.save(tmp_path / "explainer")
    loaded = fw.FeatureExplainer.load(tmp_path / "explainer", model=seeded(ImageModel), device=device)
    trained, again = ((each.surrogate_, each.network_) for each in (explainer, loaded))
    assert [layouts(each) for each in trained] == [layouts(each) for each in again]


def layouts(module: torch.nn.Module) -> list[bool]:
    """Return which weights of convolutions have channels last in memory."""
    weights = [each for each in module.parameters() if each.ndim == 4]
    return [each.is_contiguous(memory_format=torch.channels_last) for each in weights]


@cache
def image_explainer(device: str) -> fw.FeatureExplainer:
    """Return an explainer of images by patches, which tests share and leave as it is."""
    explainer = fw.FeatureExplainer(seeded(ImageModel), fw.grid(8, 8, patch=4), device=device)
    return explainer.fit(images(40), budget=fw.Budget(steps=5), batch_size=16, n_coalitions=4, progress=False)


def needs(library: str) -> None:
    """Skip a test where a library is missing."""
    pytest.importorskip({"scikit-learn": "sklearn"}.get(library, library))


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_run_on_the_explainers_device(name: str, device: str) -> None:
    row = BASELINES[name]
    for library in {"captum", "scikit-learn"} & set(row.needs):
        needs(library)
    given: dict[str, Any] = {"examples": images(40, seed=2), "n_calls": 40}
    options = {option: value for option, value in given.items() if option in row.options}
    method = fw.baseline(name, image_explainer(device), **options)
    found = method.explain(images(3), outputs=[0, 2], progress=False)
    assert found.values.shape == (3, 4, 2)
    assert found.values.device.type == device
    assert bool(found.values.isfinite().all())
    there = method.explain(images(3).to(device), outputs=[0, 2], progress=False)
    assert there.inputs.device.type == device
    assert_close(there.values, found.values, rtol=1e-3, atol=1e-5)


def test_segments_are_summed_alike_on_any_device(device: str) -> None:
    players = fw.segments(torch.arange(64).reshape(8, 8) % 5)
    maps = images(3).to(device)
    found = players.sum(maps)
    assert found.device.type == device
    assert_close(found.cpu(), players.sum(images(3)))
    assert torch.equal(players.sum(maps), found)


def test_a_black_box_gets_data_frames_whatever_the_device(device: str) -> None:
    def ask(table: pd.DataFrame) -> np.ndarray[Any, Any]:
        first = 1 / (1 + np.exp(-table["size"].to_numpy() - (table["color"] == "red").to_numpy()))
        return np.stack([first, 1 - first], 1)

    table = pd.DataFrame({"size": rows(60, 1)[:, 0].numpy(), "color": ["red", "green", "blue"] * 20})
    explainer = fw.FeatureExplainer(ask, device=device)
    explainer.fit(table, budget=fw.Budget(steps=5), batch_size=16, n_coalitions=4, progress=False)
    found = explainer.explain(table[:5], outputs="predicted")
    assert found.values.device.type == found.outputs.device.type == device
    assert torch.equal(found.outputs[:, 0].cpu(), torch.from_numpy(ask(table[:5]).argmax(1)))
    assert fw.exact_values(explainer.game(table[:1]), WEIGHTS).device.type == device


def test_weights_are_chosen_on_any_device(device: str) -> None:
    chosen = fw.choose_weights(image_explainer(device), images(6), candidates=[fw.Shapley(), WEIGHTS], steps=3)
    assert chosen.candidates == (fw.Shapley(), WEIGHTS)
    assert chosen.weights in chosen.candidates
    several = fw.choose_weights(image_explainer(device), images(6).to(device), per_input=True, steps=3)
    assert isinstance(several.weights, list)
    assert len(several.weights) == 6


def test_a_report_is_written_on_any_device(device: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    fw.write_report(image_explainer(device), images(4), path, baselines=["random"], n_calls=40, progress=False)
    assert "ImageModel" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("there", [False, True])
def test_captums_verb_answers_on_the_explainers_device(device: str, *, there: bool) -> None:
    x = images(3).to(device) if there else images(3)
    found = image_explainer(device).attribute(x, target=torch.tensor([2, 0, 1]))
    assert found.shape == x.shape
    assert found.device.type == device
    assert bool((found[:, 0, :4, :4] == found[:, 0, :1, :1]).all())  # a patch has one value


@pytest.mark.parametrize("there", [False, True])
def test_shaps_explanation_is_in_memory_whatever_the_device(device: str, *, there: bool) -> None:
    needs("shap")
    x = images(3).to(device) if there else images(3)
    found = image_explainer(device)(x)
    assert isinstance(found.values, np.ndarray)
    assert found.values.shape == (3, 4, 3)
    expected = image_explainer(device).explain(x, total="efficient")
    np.testing.assert_allclose(found.values, expected.values.float().cpu().numpy(), rtol=1e-3, atol=1e-5)


def test_an_attribution_moves(device: str) -> None:
    found = image_explainer(device).explain(images(3))
    for where in ("cpu", device):
        moved = found.to(where)
        tensors = (moved.values, moved.base_values, moved.outputs, moved.inputs)
        assert {tensor.device.type for tensor in tensors} == {where}
        assert (moved.players.names, moved.players.grid) == (found.players.names, found.players.grid)
    assert found.to("meta").values.is_meta


@pytest.mark.parametrize("by_products", [False, True])
@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize(
    ("utility", "ties"), [("soft", "lowest"), ("normalized", "lowest"), ("vote", "lowest"), ("vote", "shared")]
)
def test_points_are_valued_alike_on_any_device(
    utility: Utility, ties: Ties, device: str, monkeypatch: pytest.MonkeyPatch, *, held_out: bool, by_products: bool
) -> None:
    if by_products:
        monkeypatch.setattr("fwshapley.valuation.knn.problem.MAX_DIRECT", 0)
    x, y = rows(120, 4), torch.arange(120) % 3
    given = (x, y) if held_out else (x, y, (rows(70, 4, seed=1), torch.arange(70) % 3))
    several = [fw.Shapley(), WEIGHTS, fw.Banzhaf(0.2), fw.LeaveOneOut()]
    here = fw.value_neighbors(*given, k=4, weights=several, utility=utility, ties=ties, device="cpu", progress=False)
    there = fw.value_neighbors(*given, k=4, weights=several, utility=utility, ties=ties, device=device, progress=False)
    assert there.values.device.type == there.stderr.device.type == "cpu"
    assert_close(there.values, here.values, rtol=0, atol=1e-12)
    assert_close(there.stderr, here.stderr, rtol=1e-6, atol=1e-9)


def test_points_may_live_on_the_device(device: str) -> None:
    x, y = rows(60, 4), torch.arange(60) % 3
    there = fw.value_neighbors(x.to(device), y.to(device), k=4, device=device, tolerance=0.01, progress=False)
    here = fw.value_neighbors(x, y, k=4, device="cpu", tolerance=0.01, progress=False)
    assert_close(there.values, here.values, rtol=0, atol=1e-12)


@pytest.mark.parametrize("utility", ["soft", "vote"])
def test_unseen_points_are_valued_alike_on_any_device(utility: Utility, device: str) -> None:
    x, y = rows(60, 4), torch.arange(60) % 3
    new, labels = rows(9, 4, seed=2), torch.arange(9) % 3
    here, there = (
        fw.KNNValuator(4, utility=utility, device=where, progress=False).fit(x, y).value(new, labels)
        for where in ("cpu", device)
    )
    assert_close(there.values, here.values, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", ["regression", "multilinear", "published"])
def test_a_network_learns_values_on_any_device(
    method: Literal["regression", "multilinear", "published"], device: str
) -> None:
    x, y = rows(60, 4), torch.arange(60) % 3
    valuator = fw.AmortizedValuator(
        method=method, budget=fw.Budget(steps=3), batch_size=20, device=device, progress=False
    )
    valuator.fit(x, y, reference=(rows(30, 4, seed=1), torch.arange(30) % 3))
    assert valuator.values_.device.type == "cpu"
    there = valuator.value(x.to(device), y.to(device))
    assert_close(there.values, valuator.values_, rtol=1e-3, atol=1e-6)
