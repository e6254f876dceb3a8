"""Sampled values of images with players of their own, compared with enumeration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.testing import assert_close

import fwshapley as fw
from models import ImageModel, images, seeded

X = images(4, channels=3)
MODEL = seeded(ImageModel, 3, 3)
HALVES = fw.segments(np.arange(64).reshape(8, 8) // 32)


def by_brightness(image: Tensor) -> fw.players.Players:
    """Players that differ from image to image, in shape and number."""
    levels = (image.mean(0) * 2).round().long()
    return fw.segments(levels.clamp(-1, 1))


def values_by_definition(image: Tensor, players: fw.players.Players) -> Tensor:
    """Shapley values of the game in which hidden pixels have the mean color of the image."""
    model = seeded(ImageModel, 3, 3).eval()
    color = image.mean((1, 2), keepdim=True)

    def game(coalitions: Tensor) -> Tensor:
        mask = coalitions[:, torch.from_numpy(players.assignment)][:, None]
        with torch.no_grad():
            return model(torch.where(mask, image, color)).softmax(1)

    return fw.exact_values(game, fw.Shapley(), n_players=players.n_players)


def test_players_of_each_image_get_the_values_of_its_own_game() -> None:
    x = torch.cat([X, X[:1] / 20])
    attributions = fw.ImageExplainer(MODEL, by_brightness, device="cpu", progress=False).explain(x)
    counts = {attribution.players.n_players for attribution in attributions}
    assert len(counts) > 1
    for attribution, image in zip(attributions, x, strict=True):
        players = by_brightness(image)
        assert attribution.players.names == players.names
        assert_close(attribution.values[0], values_by_definition(image, players).float(), rtol=1e-4, atol=1e-6)
        assert attribution.stderr is not None
        assert float(attribution.stderr.max()) == 0  # there are few players, so all coalitions are evaluated
        assert torch.equal(attribution.inputs[0], image)
    assert MODEL.training  # it is not touched


def test_sampled_values_are_within_their_errors() -> None:
    players = fw.grid(8, 8, patch=(2, 4))
    explainer = fw.ImageExplainer(MODEL, players, n_calls=100, output="logit", device="cpu", progress=False)
    weights = [fw.Shapley(), fw.Banzhaf()]
    (one,) = explainer.explain(X[0], weights=weights, outputs=[2])
    exact = fw.ImageExplainer(MODEL, players, n_calls=2**8, output="logit", device="cpu", progress=False)
    (truth,) = exact.explain(X[:1], weights=weights, outputs=[2])
    assert one.stderr is not None
    assert one.values.shape == one.stderr.shape == (2, 1, 8, 1)
    assert bool(((one.values - truth.values).abs() <= 4 * one.stderr).all())
    assert float(one.stderr.min()) > 0


def test_efficient_values_add_up_to_the_prediction() -> None:
    explainer = fw.ImageExplainer(MODEL, fw.grid(8, 8, patch=2), device="cpu", progress=False)
    first, second = explainer.explain(X[:2], outputs="predicted", weights=fw.Banzhaf(), total="efficient")
    model = seeded(ImageModel, 3, 3).eval()
    predicted = model(X[:2]).softmax(1).amax(1)
    for attribution, probability in zip((first, second), predicted, strict=True):
        assert_close(attribution.base_values[0, 0] + attribution.values[0].sum(), probability)


def test_hidden_pixels_may_be_background_images() -> None:
    def bright(x: Tensor) -> Tensor:
        return x.mean((1, 2, 3))

    background = images(5, channels=3, seed=1)
    explainer = fw.ImageExplainer(bright, HALVES, removal=background, device="cpu", progress=False)
    values = explainer.explain(X[0])[0].values[0, :, 0]
    expected = [(X[0, :, rows].mean() - background[:, :, rows].mean()) / 2 for rows in (slice(4), slice(4, 8))]
    assert_close(values, torch.stack(expected))


def test_pictures_are_explained_by_their_superpixels() -> None:
    pixels = np.zeros((24, 32, 3), dtype=np.uint8)
    pixels[8:16, 8:24] = 200
    picture = Image.fromarray(pixels)

    def transform(image: Image.Image) -> Tensor:
        return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1) / 255

    explainer = fw.ImageExplainer(MODEL, fw.Superpixels(12), transform=transform, device="cpu", progress=False)
    (attribution,) = explainer.explain(picture)
    assert attribution.players.assignment.shape == (24, 32)
    assert attribution.plot().axes


def test_superpixels_follow_the_edges_of_an_image() -> None:
    image = np.zeros((3, 24, 32))
    image[:, 8:16, 8:24] = 5
    for given in (image, image.transpose(1, 2, 0), torch.from_numpy(image)):
        players = fw.Superpixels(12, compactness=1)(given)
        assert 4 <= players.n_players <= 24
        for player in range(players.n_players):
            assert len(np.unique(image[0][players.assignment == player])) == 1
    assert fw.Superpixels(4)(np.zeros((8, 8))).n_players >= 1


def test_a_surrogate_has_games_of_other_players() -> None:
    grid = fw.grid(8, 8, patch=2)
    explainer = fw.FeatureExplainer(MODEL, grid, removal="zero", device="cpu")
    explainer.fit(X, X, budget=fw.Budget(steps=2), batch_size=4, n_coalitions=2, progress=False)
    game = explainer.game(X[0], by_brightness)
    players = by_brightness(X[0])
    coalitions = torch.rand(5, players.n_players, generator=torch.Generator().manual_seed(0)) < 0.5
    visible = torch.where(coalitions[:, torch.from_numpy(players.assignment)][:, None], X[:1], 0.0)
    surrogate = explainer.surrogate_.get_submodule("network")
    assert_close(game(coalitions), surrogate(visible).softmax(1))
    empty = torch.zeros(1, 16, dtype=torch.bool)
    assert torch.equal(explainer.game(X[0], grid)(empty), explainer.game(X[0])(empty))


@pytest.mark.parametrize("patch", [3, (2, 4), (4, 8)])
def test_patches_of_any_shape_are_learned(patch: int | tuple[int, int]) -> None:
    players = fw.grid(8, 8, patch=patch)
    explainer = fw.FeatureExplainer(MODEL, players, device="cpu")
    explainer.fit(X, X, budget=fw.Budget(steps=3), batch_size=4, n_coalitions=2, progress=False)
    assert explainer.explain(X[0]).values.shape == (1, players.n_players, 3)


@pytest.mark.usefixtures("unchecked")
def test_players_of_each_image_cannot_be_learned() -> None:
    explainer = fw.FeatureExplainer(MODEL, fw.Superpixels(12), device="cpu")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(TypeError, match=r"cannot be learned.*fw\.ImageExplainer\(model, Superpixels"):
        explainer.fit(X, progress=False)


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "players of a table": (lambda: fw.ImageExplainer(MODEL, fw.columns(3)), "players must be those of an image"),
    "too few calls": (
        lambda: fw.ImageExplainer(MODEL, fw.grid(8, 8, patch=2), n_calls=9, progress=False).explain(X),
        "n_calls must be at least 96 for 16 players, got 9",
    ),
    "players of another size": (
        lambda: fw.ImageExplainer(MODEL, lambda _: fw.grid(4, 4, patch=2), progress=False).explain(X),
        r"inputs must have shape \(batch, channels, 4, 4\)",
    ),
    "images of another size": (
        lambda: fw.ImageExplainer(MODEL, HALVES, progress=False).explain(X[..., :5]),
        r"x must have shape \(batch, channels, 8, 8\)",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_sampled_is_refused(name: str) -> None:
    call, message = BAD[name]
    with pytest.raises((TypeError, ValueError), match=message):
        call()
