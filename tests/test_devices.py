"""Everything in the core runs where the game lives. On a machine without CUDA only the CPU is checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import fwshapley as fw
from fwshapley.games import Pairwise
from fwshapley.games.neighbours import Ties, Utility
from fwshapley.sampling import (
    draw_bernoulli,
    draw_by_law,
    draw_distinct,
    draw_of_sizes,
    draw_pairs,
    draw_permutations,
    make_generator,
)
from models import ImageModel, TableModel, images, rows, seeded

WEIGHTS = fw.Beta(alpha=4, beta=1)
GAME = Pairwise(torch.linspace(-1, 1, 9), torch.ones(9, 9))
LAW = WEIGHTS.size_law(9)

DRAWS: dict[str, Callable[[torch.Generator], Tensor]] = {
    "permutations": lambda generator: draw_permutations(4, 9, generator),
    "bernoulli": lambda generator: draw_bernoulli([0.5], 9, generator),
    "of sizes": lambda generator: draw_of_sizes([3], 9, generator),
    "by law": lambda generator: draw_by_law(LAW, 4, generator),
    "pairs": lambda generator: draw_pairs(LAW, 4, generator).coalitions,
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
    values, wls = fw.exact_values(GameOn(device), WEIGHTS), fw.exact_wls_values(GameOn(device), WEIGHTS)
    for found in (values, wls):
        assert found.device.type == device
        assert_close(found.cpu(), GAME.values(WEIGHTS))


@pytest.mark.parametrize("estimator", [fw.least_squares_values, fw.permutation_values, fw.multilinear_values])
def test_estimates_stay_on_the_games_device(estimator: Callable[..., fw.Estimate], device: str) -> None:
    estimate = estimator(GameOn(device), WEIGHTS, budget=2000, target_stderr=0.05)
    assert estimate.values.device.type == estimate.stderr.device.type == device
    assert bool(((estimate.values.cpu() - GAME.values(WEIGHTS)).abs() <= 5 * estimate.stderr.cpu() + 1e-10).all())


def test_a_table_is_explained_on_the_explainers_device(device: str, tmp_path: Path) -> None:
    model = seeded(TableModel)  # which stays where it is
    explainer = fw.FeatureExplainer(model, device=device)
    explainer.fit(rows(64, 4), budget=fw.Budget(steps=5), batch_size=16, masks=4, progress=False)
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
    explainer.fit(images(40), budget=fw.Budget(steps=5), batch_size=16, masks=4, progress=False)
    found = explainer.explain(images(3), outputs="predicted")
    assert found.values.device.type == device
    assert bool(found.values.isfinite().all())
    assert len(found.plot().axes) == 6


@pytest.mark.parametrize("by_products", [False, True])
@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize(
    ("utility", "ties"), [("soft", "lowest"), ("normalised", "lowest"), ("vote", "lowest"), ("vote", "shared")]
)
def test_points_are_valued_alike_on_any_device(
    utility: Utility, ties: Ties, device: str, monkeypatch: pytest.MonkeyPatch, *, held_out: bool, by_products: bool
) -> None:
    if by_products:
        monkeypatch.setattr("fwshapley.valuation.neighbours.MOST_DIRECT", 0)
    x, y = rows(120, 4), torch.arange(120) % 3
    given = (x, y) if held_out else (x, y, rows(70, 4, seed=1), torch.arange(70) % 3)
    several = [fw.Shapley(), WEIGHTS, fw.Banzhaf(0.2), fw.LeaveOneOut()]
    here = fw.value_neighbours(*given, k=4, weights=several, utility=utility, ties=ties, device="cpu", progress=False)
    there = fw.value_neighbours(*given, k=4, weights=several, utility=utility, ties=ties, device=device, progress=False)
    assert there.values.device.type == there.stderr.device.type == "cpu"
    assert_close(there.values, here.values, rtol=0, atol=1e-12)
    assert_close(there.stderr, here.stderr, rtol=1e-6, atol=1e-9)


def test_points_may_live_on_the_device(device: str) -> None:
    x, y = rows(60, 4), torch.arange(60) % 3
    there = fw.value_neighbours(x.to(device), y.to(device), k=4, device=device, tolerance=0.01, progress=False)
    here = fw.value_neighbours(x, y, k=4, device="cpu", tolerance=0.01, progress=False)
    assert_close(there.values, here.values, rtol=0, atol=1e-12)
