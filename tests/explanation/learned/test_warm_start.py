from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fwshapley as fw
from models import ImageModel, TableModel, images, rows, seeded

X, TEST = rows(120, 4), rows(20, 4, seed=1)
STEPS = fw.Budget(steps=10)


def fit(explainer: fw.FeatureExplainer, **options: Any) -> fw.FeatureExplainer:  # noqa: ANN401 - of `fit`
    return explainer.fit(X, **{"budget": STEPS, "batch_size": 16, "n_coalitions": 4, "progress": False, **options})


def make() -> fw.FeatureExplainer:
    return fw.FeatureExplainer(seeded(TableModel), device="cpu")


def states(explainer: fw.FeatureExplainer) -> list[dict[str, torch.Tensor]]:
    return [
        {name: tensor.clone() for name, tensor in module.state_dict().items()}
        for module in (explainer.surrogate_, explainer.network_)
    ]


def are_same(one: list[dict[str, torch.Tensor]], other: list[dict[str, torch.Tensor]]) -> bool:
    return all(torch.equal(left[name], right[name]) for left, right in zip(one, other, strict=True) for name in left)


def test_a_finished_fit_goes_on() -> None:
    explainer = fit(make())
    first, before = explainer.fitted_, states(explainer)
    fit(explainer, warm_start=True, budget=fw.Budget(steps=40))
    for name, share in (("surrogate", 0.3), ("explainer", 0.4)):
        earlier, history = first.histories[name], explainer.histories_[name]
        assert history.steps >= earlier.steps + share * 40
        start = next(
            loss for step, loss in history.validation if step == earlier.steps and loss != earlier.validation[-1][1]
        )
        assert min(loss for _, loss in history.validation) < start
    assert are_same([module.state_dict() for module in (first.masked_model.surrogate, first.network)], before)


def test_networks_that_get_no_better_are_left_as_they_are() -> None:
    explainer = fit(fw.FeatureExplainer(seeded(TableModel), surrogate=None, device="cpu"), budget=fw.Budget(steps=60))
    before = states(explainer)
    fit(explainer, warm_start=True, budget=fw.Budget(steps=2), learning_rate=30.0)
    assert are_same(states(explainer), before)


def test_an_explainer_that_was_loaded_goes_on_as_the_one_that_was_saved(tmp_path: Path) -> None:
    explainer = fit(make())
    explainer.save(tmp_path / "explainer")
    loaded = fw.load(tmp_path / "explainer", model=seeded(TableModel))
    assert isinstance(loaded, fw.FeatureExplainer)
    assert are_same(states(fit(loaded, warm_start=True)), states(fit(explainer, warm_start=True)))


def test_the_encoder_of_an_image_network_keeps_its_frozen_layers() -> None:
    explainer = fw.FeatureExplainer(seeded(ImageModel), fw.grid(8, 8, patch=4), device="cpu")
    options: dict[str, Any] = {"budget": fw.Budget(steps=4), "progress": False}
    explainer.fit(images(40), **options)
    norms = [layer for layer in explainer.network_.modules() if isinstance(layer, nn.BatchNorm2d)]
    frozen = [layer.weight.clone() for layer in norms]
    explainer.fit(images(40), warm_start=True, **options)
    after = [layer.weight for layer in explainer.network_.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert frozen
    assert all(torch.equal(*pair) for pair in zip(frozen, after, strict=True))


def test_without_an_earlier_fit_it_is_a_first_one() -> None:
    assert are_same(states(fit(make(), warm_start=True)), states(fit(make())))


def test_inputs_must_be_those_of_the_earlier_fit() -> None:
    explainer = fit(make())
    with pytest.raises(ValueError, match=r"must have shape \(batch, 4\)"):
        explainer.fit(rows(40, 3), warm_start=True, budget=STEPS, progress=False)
