"""Vision transformers: hidden patches are not attended to, and the explaining network starts from the model."""

from pathlib import Path

import pytest
import torch
from torch import nn

import fwshapley as fw
from fwshapley.estimators import exact_values
from fwshapley.explanation import Surrogate
from fwshapley.explanation.learned.masked_transformer import MaskedTransformer
from fwshapley.networks.transformer import TransformerNetwork
from fwshapley.players import Players
from models import ImageModel, images, seeded
from text_models import make_vision_model

IMAGES = images(24)


def fit(model: nn.Module, players: Players, **options: str) -> fw.FeatureExplainer:
    explainer = fw.FeatureExplainer(model, players, device="cpu", **options)  # type: ignore[arg-type]  # of any argument
    return explainer.fit(IMAGES, budget=fw.Budget(steps=4), batch_size=8, n_coalitions=4, progress=False)


@pytest.fixture(scope="module")
def explainer() -> fw.FeatureExplainer:
    return fit(make_vision_model(), fw.grid(8, 8, patch=4))


def test_players_may_have_several_patches(explainer: fw.FeatureExplainer) -> None:
    assert isinstance(explainer.surrogate_, MaskedTransformer)
    assert isinstance(explainer.network_, TransformerNetwork)
    owners = explainer.surrogate_.inputs.owners(IMAGES[:1])[0]
    assert owners.tolist() == [-1, 0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3]


def test_hidden_patches_are_not_attended_to(explainer: fw.FeatureExplainer) -> None:
    hidden = torch.tensor([[[False, True, False, True]]])
    one, other = IMAGES[:1], IMAGES[:1].clone()
    other[..., :4] = 7.0  # players 0 and 2
    game = explainer.masked_model_
    torch.testing.assert_close(game(one, hidden), game(other, hidden))
    assert not torch.allclose(game.full_values(one), game.full_values(other))


def test_complete_images_are_predicted_as_by_the_model() -> None:
    model = make_vision_model()
    untrained = fw.FeatureExplainer(model, fw.grid(8, 8, patch=2), surrogate=None, device="cpu")
    game = untrained.fit(IMAGES, budget=fw.Budget(steps=1), progress=False).masked_model_
    with torch.no_grad():
        predicted = model.eval()(IMAGES[:4]).logits.softmax(1)
    torch.testing.assert_close(game.full_values(IMAGES[:4]), predicted)


def test_sampled_values_are_those_of_enumeration(explainer: fw.FeatureExplainer) -> None:
    sampled = explainer.sample(IMAGES[:1], outputs="all", progress=False).values[0]
    exact = exact_values(explainer.game(IMAGES[0]), fw.Shapley(), progress=False)
    torch.testing.assert_close(sampled, exact.float(), atol=1e-5, rtol=1e-4)


def test_an_explainer_in_a_file_needs_no_model(explainer: fw.FeatureExplainer, tmp_path: Path) -> None:
    explainer.save(tmp_path)
    loaded = fw.load(tmp_path, device="cpu")
    assert torch.equal(loaded.explain(IMAGES[:2]).values, explainer.explain(IMAGES[:2]).values)


@pytest.mark.parametrize(
    ("model", "players"),
    [(make_vision_model(), fw.grid(8, 8, patch=3)), (seeded(ImageModel), fw.grid(8, 8, patch=4))],
    ids=["players that cut through patches", "a convolutional network"],
)
def test_other_pixels_are_filled(model: nn.Module, players: Players) -> None:
    assert isinstance(fit(model, players, surrogate="auto").surrogate_, Surrogate)
    with pytest.raises(ValueError, match=r"removal='attention'|is for transformers alone"):
        fit(model, players, removal="attention")
