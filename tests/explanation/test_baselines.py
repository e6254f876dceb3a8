from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn
from torch.testing import assert_close

import fwshapley as fw
from fwshapley.explanation.attribution import Unweighted
from fwshapley.explanation.baselines import BASELINES, Baseline, baseline
from fwshapley.explanation.inputs.predictions import predict
from fwshapley.games.masked_model import PredictionGame
from fwshapley.networks.mlp import ColumnKinds
from models import ImageModel, TableModel, images, rows, seeded

BETA = fw.Beta(4, 1)
X_TABLE, X_IMAGES = rows(5, 4, seed=1), images(5, channels=2, seed=1)
EXAMPLES = {"table": rows(60, 4, seed=2), "image": images(60, channels=2, seed=2)}
CASES = [
    pytest.param(name, kind, id=f"{name}-{kind}")
    for name, row in BASELINES.items()
    for kind in ("table", "image")
    if kind == "image" or "images" not in row.needs
]
SAMPLERS = [name for name, row in BASELINES.items() if "n_calls" in row.options]


class Linear(nn.Module):
    """Two outputs; hidden as h, its game is additive with values w_i * (x_i - h)."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0, -2.0, 0.5, 0.0], [0.3, 1.0, 1.0, -1.0]]))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T + 3


class Opaque(nn.Module):
    """Cannot be differentiated, as a function behind a wrapper."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x.detach().sum(1), -x.detach().sum(1)], 1)


def fit(explainer: fw.FeatureExplainer, x: Tensor) -> fw.FeatureExplainer:
    return explainer.fit(x, budget=fw.Budget(steps=4), batch_size=16, n_coalitions=4, progress=False)


@pytest.fixture(scope="module")
def explainers() -> dict[str, fw.FeatureExplainer]:
    return {
        "table": fit(fw.FeatureExplainer(seeded(TableModel)), rows(100, 4)),
        "image": fit(fw.FeatureExplainer(seeded(ImageModel, 3, 2), fw.grid(8, 8, patch=4)), images(100, channels=2)),
    }


@pytest.fixture(scope="module")
def linear() -> fw.FeatureExplainer:
    return fit(fw.FeatureExplainer(Linear(), surrogate=None, removal=torch.full((4,), 0.5), output="raw"), rows(50, 4))


def make(
    name: str,
    kind: str,
    explainers: dict[str, fw.FeatureExplainer],
    **options: Any,  # noqa: ANN401 - a row's own
) -> Baseline:
    """Return a baseline with what it needs, and few calls, since captum is slow."""
    given = {"examples": EXAMPLES[kind], "n_calls": 40} | options
    return baseline(name, explainers[kind], **{key: given[key] for key in given if key in BASELINES[name].options})


def settings_of(model: nn.Module) -> list[object]:
    """Modes, hooks and gradients, which a method might leave changed in a model."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    modules = [(each.training, *(len(getattr(each, kind)) for kind in hooks)) for each in model.modules()]
    return [modules, [(each.requires_grad, each.grad is None) for each in model.parameters()]]


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """Copies of parameters and buffers."""
    return {name: each.clone() for name, each in model.state_dict().items()}


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_every_baseline_keeps_the_contract(
    name: str, kind: str, explainers: dict[str, fw.FeatureExplainer], tmp_path: Path
) -> None:
    explainer, x = explainers[kind], X_TABLE if kind == "table" else X_IMAGES
    method = make(name, kind, explainers)
    model = explainer.fitted_.model
    assert model is not None
    settings, tensors, randomness, x_before = settings_of(model), tensors_of(model), torch.get_rng_state(), x.clone()

    every = method.explain(x)
    assert every.values.shape == (5, 4, 3)
    assert every.values.dtype == torch.float32
    assert not every.values.requires_grad
    assert bool(every.values.isfinite().all())
    assert every.total == "raw"
    assert every.provenance["baseline"]["name"] == name
    assert_close(every.base_values, explainer.explain(x).base_values)

    assert_close(method.explain(x).values, every.values, rtol=0, atol=0)  # deterministic
    assert_close(method.explain(x, batch_size=2).values, every.values)
    if "seed" not in BASELINES[name].options:
        assert_close(method.explain(x[3:4]).values, every.values[3:4])
    some = method.explain(x, outputs=[2, 0])
    assert_close(some.values, every.values[..., [2, 0]])
    predicted = method.explain(x, outputs="predicted")
    numbers = explainer.explain(x, outputs="predicted").outputs
    assert torch.equal(predicted.outputs, numbers)
    assert_close(predicted.values, every.values.gather(-1, numbers[:, None].expand(-1, 4, -1)))

    assert torch.equal(torch.get_rng_state(), randomness)
    assert torch.equal(x, x_before)
    assert not x.requires_grad
    assert settings_of(model) == settings
    assert {name for name, each in tensors_of(model).items() if not torch.equal(each, tensors[name])} == set()

    every.save(tmp_path / "attribution.safetensors")
    again = fw.Attribution.load(tmp_path / "attribution.safetensors")
    assert again.weights == every.weights
    assert_close(again.values, every.values)
    every.plot(2)


@pytest.mark.parametrize("name", ["permutation", "least_squares", "multilinear", "class_mean"])
def test_several_weightings_are_stacked(name: str, explainers: dict[str, fw.FeatureExplainer]) -> None:
    method = make(name, "table", explainers)
    both = method.explain(X_TABLE, weights=[fw.Shapley(), BETA])
    assert both.values.shape == (2, 5, 4, 3)
    assert both.weights == [fw.Shapley(), BETA]
    assert_close(both.values[1], method.explain(X_TABLE, weights=BETA).values)
    assert_close(both.values[0], method.explain(X_TABLE).values)


@pytest.mark.parametrize("name", [*SAMPLERS, "integrated_gradients"])
def test_the_values_of_a_linear_model_are_known(name: str, linear: fw.FeatureExplainer) -> None:
    expected = (X_TABLE[:, :, None] - 0.5) * Linear().weight.T.detach()
    # captum's KernelShap weighs its ends a million times as much, in single precision
    tolerance = 1e-3 if name == "kernel_shap" else 1e-4
    options = {} if name == "integrated_gradients" else {"n_calls": 200}
    assert_close(baseline(name, linear, **options).explain(X_TABLE).values, expected, rtol=tolerance, atol=tolerance)


def test_saliency_of_a_linear_model_is_the_size_of_its_weights(linear: fw.FeatureExplainer) -> None:
    expected = Linear().weight.T.detach().abs().expand(5, -1, -1)
    assert_close(baseline("saliency", linear).explain(X_TABLE).values, expected)


@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_agree_with_enumeration(name: str, explainers: dict[str, fw.FeatureExplainer]) -> None:
    explainer = explainers["table"]
    x = X_TABLE[:3]  # captum is slow
    exact = torch.stack([fw.exact_values(explainer.game(row), fw.Shapley()) for row in x]).float()[..., :1]
    found = baseline(name, explainer, n_calls=4000).explain(x, outputs=[0]).values
    assert float((found - exact).abs().max() / exact.abs().max()) < 0.03
    if name != "multilinear":  # the others are efficient, captum's KernelShap up to the weight it gives the ends
        tolerance = 1e-3 if name == "kernel_shap" else 1e-5
        assert_close(found.sum(1), exact.sum(1), rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_seed_and_a_number_of_calls_matter(name: str, explainers: dict[str, fw.FeatureExplainer]) -> None:
    pixels = fw.grid(8, 8, patch=1)  # too many coalitions to enumerate
    many = fit(fw.FeatureExplainer(seeded(ImageModel, 3, 2), pixels, surrogate=None), images(40, channels=2))
    x = X_IMAGES[:1].expand(2, -1, -1, -1)
    found = baseline(name, many, n_calls=400, seed=1).explain(x, outputs=[0]).values
    other = baseline(name, many, n_calls=400, seed=2).explain(x, outputs=[0]).values
    assert not torch.allclose(found, other)
    assert not torch.allclose(found[0], found[1])  # inputs have draws of their own
    with pytest.raises(ValueError, match="too small"):
        baseline(name, explainers["table"], n_calls=2).explain(X_TABLE)


@pytest.mark.parametrize("name", ["kernel_shap", "shapley_sampling"])
def test_captum_asks_no_more_than_the_calls(
    name: str, explainers: dict[str, fw.FeatureExplainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    play = PredictionGame.__call__

    def count(game: PredictionGame, coalitions: Tensor) -> Tensor:
        asked.append(len(coalitions))
        return play(game, coalitions)

    monkeypatch.setattr(PredictionGame, "__call__", count)
    baseline(name, explainers["table"], n_calls=101).explain(X_TABLE[:1])  # for all of three outputs
    assert sum(asked) == 101


def test_random_values_come_from_their_seed(explainers: dict[str, fw.FeatureExplainer]) -> None:
    found = baseline("random", explainers["table"], seed=3).explain(X_TABLE).values
    assert_close(baseline("random", explainers["table"], seed=3).explain(X_TABLE).values, found)
    other = baseline("random", explainers["table"], seed=4).explain(X_TABLE).values
    assert float((found - other).abs().min()) > 0
    assert len(found.unique()) == found.numel()


def test_class_mean_is_the_mean_explanation_of_the_class(
    explainers: dict[str, fw.FeatureExplainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    explainer, examples = explainers["table"], EXAMPLES["table"]
    model = explainer.fitted_.model
    assert model is not None
    values = explainer.explain(examples, weights=BETA).values
    theirs, own = (predict(model, x, "probability").argmax(1) for x in (examples, X_TABLE))
    expected = torch.stack([values[theirs == each].mean(0) for each in own.tolist()])
    monkeypatch.setattr("fwshapley.explanation.baselines.simple.EXAMPLES_AT_ONCE", 7)
    found = baseline("class_mean", explainer, examples=examples).explain(X_TABLE, weights=BETA)
    assert_close(found.values, expected)
    assert found.weights == BETA
    assert found.provenance["baseline"]["options"] == {"examples": "array (60, 4)"}


def test_class_mean_of_an_explainer_of_one_weighting() -> None:
    explainer = fit(
        fw.FeatureExplainer(seeded(TableModel), surrogate=None, objective="kernel", weights=BETA), rows(50, 4)
    )
    found = baseline("class_mean", explainer, examples=EXAMPLES["table"]).explain(X_TABLE)
    assert (found.weights, found.total) == (BETA, "efficient")


@pytest.mark.parametrize("name", SAMPLERS)
def test_by_default_the_weighting_is_the_one_learned_or_shapley(name: str) -> None:
    explainer = fit(
        fw.FeatureExplainer(seeded(TableModel), surrogate=None, objective="kernel", weights=BETA), rows(50, 4)
    )
    method = baseline(name, explainer, n_calls=40)
    own = BETA if BASELINES[name].weightings == "any" else fw.Shapley()
    found = method.explain(X_TABLE)
    assert (found.weights, found.total) == (own, "raw")
    assert_close(found.values, method.explain(X_TABLE, weights=own).values)
    assert method.explain(X_TABLE, weights=fw.Shapley()).weights == fw.Shapley()


@pytest.mark.parametrize("name", ["saliency", "least_squares"])
def test_errors_of_the_explainer_are_not_taken_for_those_of_a_baseline(
    name: str, explainers: dict[str, fw.FeatureExplainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    explain = fw.FeatureExplainer.explain

    def with_errors(*arguments: Any, **options: Any) -> fw.Attribution:  # noqa: ANN401 - as explain takes them
        found = explain(*arguments, **options)
        return replace(found, stderr=torch.ones_like(found.values), expected_error=torch.ones(5, 3))

    monkeypatch.setattr(fw.FeatureExplainer, "explain", with_errors)
    found = make(name, "table", explainers).explain(X_TABLE)
    assert (found.stderr, found.expected_error) == (None, None)


def test_class_mean_says_which_class_it_has_no_examples_of(explainers: dict[str, fw.FeatureExplainer]) -> None:
    explainer, examples = explainers["table"], EXAMPLES["table"]
    numbers = explainer.explain(examples, outputs="predicted").outputs[:, 0]
    first, others = int(numbers[0]), examples[numbers != numbers[0]]
    with pytest.raises(ValueError, match=f"examples must contain inputs of class {first}"):
        baseline("class_mean", explainer, examples=others).explain(examples[:1])


@pytest.mark.parametrize("output", ["probability", "logit"])
def test_integrated_gradients_sum_to_what_the_path_gains(output: Any) -> None:  # noqa: ANN401 - a literal
    model = seeded(ImageModel, 3, 2)
    fills = images(3, channels=2, seed=5)
    explainer = fit(
        fw.FeatureExplainer(model, fw.grid(8, 8, patch=2), surrogate=None, removal=fills, output=output),
        images(40, channels=2),
    )
    everyone = torch.ones(1, 16, dtype=torch.bool)
    whole = torch.cat([explainer.game(x)(everyone) for x in X_IMAGES])
    starts = torch.cat([explainer.game(x)(everyone) for x in fills]).mean(0)
    found = baseline("integrated_gradients", explainer, steps=200).explain(X_IMAGES).values
    assert_close(found.sum(1), whole - starts, rtol=0, atol=5e-3)
    from_zero = baseline("integrated_gradients", explainer, start=0, steps=200).explain(X_IMAGES).values
    zero = explainer.game(torch.zeros(2, 8, 8))(everyone)
    assert_close(from_zero.sum(1), whole - zero, rtol=0, atol=5e-3)


def test_integrated_gradients_of_a_table_start_from_the_mean(explainers: dict[str, fw.FeatureExplainer]) -> None:
    model = explainers["table"].fitted_.model
    assert model is not None
    found = baseline("integrated_gradients", explainers["table"]).explain(X_TABLE).values.sum(1)
    surrogate: Any = explainers["table"].surrogate_
    ends = [predict(model, x, "probability") for x in (X_TABLE, surrogate.coordinates.mean[None])]
    assert_close(found, ends[0] - ends[1], rtol=0, atol=1e-4)
    coded = fw.explanation.TableSurrogate(X_TABLE, fw.columns(4), 3, column_kinds=ColumnKinds((0, 0, 0, 3)))
    codes = torch.cat([rows(50, 3), torch.arange(50)[:, None] % 3], 1)
    categories = fit(fw.FeatureExplainer(seeded(TableModel), surrogate=coded), codes)
    with pytest.raises(ValueError, match="start must be given for tables with categories"):
        baseline("integrated_gradients", categories).explain(codes)
    with pytest.raises(ValueError, match=r"start must be a number or an input of shape \(4,\)"):
        baseline("integrated_gradients", explainers["table"], start=[1.0, 2.0]).explain(X_TABLE)


class InPlace(nn.Module):
    """Calls one ReLU twice, in place: what hooks find hard."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 3, padding=1, stride=2), nn.Conv2d(4, 4, 3, padding=1)
        self.relu, self.head = nn.ReLU(inplace=True), nn.Linear(4, 3)

    def maps(self, x: Tensor) -> Tensor:
        found: Tensor = self.relu(self.second(self.relu(self.first(x))))
        return found

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.maps(x).mean((2, 3)))
        return out


@pytest.mark.parametrize("relu", [True, False])
def test_gradcam_is_what_the_paper_says(relu: bool) -> None:  # noqa: FBT001 - a parameter
    x, model = images(4, seed=3), seeded(InPlace).eval()
    explainer = fit(fw.FeatureExplainer(model, fw.grid(8, 8, patch=2), surrogate=None, output="raw"), images(40))
    found = baseline("gradcam", explainer, relu=relu).explain(x).values
    # the head is linear after a mean over 16 pixels, so a channel's mean gradient is its weight / 16
    assert isinstance(model, InPlace)
    maps, head = model.maps(x).detach(), model.head.weight.detach()
    expected = torch.einsum("bchw,oc->bhwo", maps, head / 16).flatten(1, 2)
    assert_close(found, expected.relu() if relu else expected)
    named = baseline("gradcam", explainer, relu=relu, layer="relu").explain(x).values
    assert_close(named, found)


def test_gradcam_hooks_a_model_of_its_own(explainers: dict[str, fw.FeatureExplainer]) -> None:
    expected = make("gradcam", "image", explainers).explain(X_IMAGES).values
    model = explainers["image"].fitted_.model
    assert isinstance(model, ImageModel)
    seen: list[int] = []
    handle = model.coarse.register_forward_hook(lambda *_: seen.append(len(model.coarse._forward_hooks)))  # noqa: SLF001 - torch's
    try:
        found = make("gradcam", "image", explainers).explain(X_IMAGES).values
    finally:
        handle.remove()
    assert torch.equal(found, expected)
    assert set(seen) == {1}  # no hook but this one


def test_gradcam_names_the_layers_that_there_are(explainers: dict[str, fw.FeatureExplainer]) -> None:
    with pytest.raises(ValueError, match=r"layer must be one of fine, fine.0.*'last'"):
        make("gradcam", "image", explainers, layer="last").explain(X_IMAGES)
    with pytest.raises(ValueError, match=r"layer must compute a feature map.*'head'"):
        make("gradcam", "image", explainers, layer="head").explain(X_IMAGES)


def test_gradcam_refuses_what_is_no_convolutional_network() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    explainer = fit(fw.FeatureExplainer(model, fw.grid(8, 8, patch=4), surrogate=None, network="slim"), images(40))
    with pytest.raises(ValueError, match="gradcam needs a convolutional network"):
        baseline("gradcam", explainer).explain(images(2))


def test_what_cannot_be_applied_is_an_error(explainers: dict[str, fw.FeatureExplainer]) -> None:
    table = explainers["table"]
    with pytest.raises(ValueError, match="gradcam needs images"):
        baseline("gradcam", table)
    with pytest.raises(ValueError, match="pass examples="):
        baseline("class_mean", table)
    with pytest.raises(ValueError, match="name must be one of 'saliency'"):
        baseline("salience", table)
    with pytest.raises(TypeError, match="options of kernel_shap are n_calls, seed; got 'steps'"):
        baseline("kernel_shap", table, steps=3)
    with pytest.raises(TypeError, match="are none"):
        baseline("saliency", table, seed=3)
    with pytest.raises(NotFittedError, match="not fitted"):
        baseline("random", fw.FeatureExplainer(seeded(TableModel)))
    with pytest.raises(ValueError, match="NaN"):
        baseline("saliency", table).explain(torch.full((2, 4), torch.nan))


@pytest.mark.parametrize("name", ["saliency", "integrated_gradients"])
def test_a_model_without_gradients_is_an_error(name: str) -> None:
    explainer = fit(fw.FeatureExplainer(Opaque(), surrogate=None), rows(50, 4))
    with pytest.raises(ValueError, match=f"{name} needs gradients, and Opaque has none"):
        baseline(name, explainer).explain(X_TABLE)
    assert baseline("least_squares", explainer).explain(X_TABLE).values.shape == (5, 4, 1)  # of the second class


def test_a_black_box_of_data_frames_is_explained_by_what_only_asks_it() -> None:
    def ask(table: pd.DataFrame) -> Any:  # noqa: ANN401 - an array
        first = 1 / (1 + np.exp(-table["size"].to_numpy() - (table["color"] == "red").to_numpy()))
        return np.stack([first, 1 - first], 1)

    colors = ["red", "green", "blue", "red", "green"] * 20
    table = pd.DataFrame({"size": rows(100, 1)[:, 0].numpy(), "color": colors})
    explainer = fw.FeatureExplainer(ask).fit(table, budget=fw.Budget(steps=4), progress=False)
    for name, row in BASELINES.items():
        if "images" in row.needs:
            continue
        method = make(name, "table", {"table": explainer}, examples=table)
        if "gradients" in row.needs:
            with pytest.raises(ValueError, match="needs gradients, and BlackBox has none"):
                method.explain(table[:3])
        else:
            assert method.explain(table[:3], outputs="predicted").values.shape == (3, 2, 1)


def test_labels_that_do_not_exclude_each_other_are_differentiated_on_their_own_scale() -> None:
    model = Linear()
    labels = fit(fw.FeatureExplainer(model, surrogate=None, output="label_probability"), rows(50, 4))
    p = model(X_TABLE).sigmoid().detach()
    expected = (p * (1 - p))[:, None] * model.weight.T.detach().abs()
    assert_close(baseline("saliency", labels).explain(X_TABLE).values, expected)


class Rough(nn.Module):
    """Has no gradient at zero."""

    def forward(self, x: Tensor) -> Tensor:
        return x.abs().sqrt()


def test_values_that_are_not_finite_are_an_error() -> None:
    explainer = fit(fw.FeatureExplainer(Rough(), surrogate=None, output="raw"), rows(50, 4))
    with pytest.raises(ValueError, match="saliency returned values that are not finite"):
        baseline("saliency", explainer).explain(torch.zeros(2, 4))


def test_a_single_player_takes_it_all() -> None:
    explainer = fit(fw.FeatureExplainer(Linear(), fw.groups({"all": range(4)}), surrogate=None, output="raw"), X_TABLE)
    for name in SAMPLERS:
        if name == "kernel_shap":
            with pytest.raises(ValueError, match="at least 2 players"):
                baseline(name, explainer).explain(X_TABLE)
            continue
        game = explainer.game(X_TABLE[0])
        gain = game(torch.tensor([[True]])) - game(torch.tensor([[False]]))
        assert_close(baseline(name, explainer, n_calls=20).explain(X_TABLE).values[0], gain)


def test_raw_outputs_have_no_class_mean(linear: fw.FeatureExplainer) -> None:
    with pytest.raises(ValueError, match="output='raw' has none"):
        baseline("class_mean", linear, examples=X_TABLE)


def test_weightings_that_a_baseline_cannot_give(explainers: dict[str, fw.FeatureExplainer]) -> None:
    able = "permutation, least_squares, multilinear, class_mean"
    for name in ("saliency", "random"):
        with pytest.raises(ValueError, match=f"weights: {name}.*{able}"):
            make(name, "table", explainers).explain(X_TABLE, weights=fw.Shapley())
    sampler = make("kernel_shap", "table", explainers)
    with pytest.raises(ValueError, match=f"weights: kernel_shap computes Shapley values alone; .*{able}"):
        sampler.explain(X_TABLE, weights=[fw.Shapley(), BETA])
    assert sampler.explain(X_TABLE, weights=[fw.Shapley()]).values.shape == (1, 5, 4, 3)
    with pytest.raises(ValueError, match="empty list"):
        sampler.explain(X_TABLE, weights=[])


def test_no_weighting_is_no_semivalue(explainers: dict[str, fw.FeatureExplainer]) -> None:
    found = make("saliency", "table", explainers).explain(X_TABLE)
    assert str(found) == "raw saliency values of 4 players for 5 inputs"
    with pytest.raises(TypeError, match="saliency does not weigh coalitions"):
        fw.exact_values(explainers["table"].game(X_TABLE[0]), Unweighted("saliency"))


def test_a_missing_library_is_named(
    explainers: dict[str, fw.FeatureExplainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fwshapley.explanation.baselines.registry.find_spec", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match=r"saliency needs captum: pip install 'fwshapley\[baselines\]'"):
        baseline("saliency", explainers["table"])
    assert make("random", "table", explainers).explain(X_TABLE).values.shape == (5, 4, 3)


def test_an_explainer_loaded_without_its_model(explainers: dict[str, fw.FeatureExplainer], tmp_path: Path) -> None:
    explainers["table"].save(tmp_path / "explainer")
    loaded = fw.load(tmp_path / "explainer")
    with pytest.raises(RuntimeError, match="saliency needs the model"):
        baseline("saliency", loaded)
    expected = baseline("least_squares", explainers["table"]).explain(X_TABLE).values
    assert_close(baseline("least_squares", loaded).explain(X_TABLE).values, expected)


def test_provenance_and_repr_name_options(explainers: dict[str, fw.FeatureExplainer]) -> None:
    method = baseline("kernel_shap", explainers["table"], n_calls=64)
    assert repr(method) == "baseline('kernel_shap', n_calls=64)"
    facts = method.explain(X_TABLE).provenance["baseline"]
    assert facts["options"] == {"n_calls": 64, "seed": 0}
    assert {"captum", "scikit-learn"} <= facts.keys()


def test_segments_are_credited_with_the_sum_of_their_pixels() -> None:
    halves, pixels = fw.segments(torch.cat([torch.zeros(8, 3), torch.ones(8, 5)], 1).long()), fw.grid(8, 8, patch=1)
    model, x = seeded(ImageModel, 3, 2), images(40, channels=2)
    coarse, fine = (fit(fw.FeatureExplainer(model, players, surrogate=None), x) for players in (halves, pixels))
    found, every = (baseline("saliency", each).explain(X_IMAGES).values for each in (coarse, fine))
    left, right = every.unflatten(1, (8, 8)).split((3, 5), dim=2)
    assert_close(found, torch.stack([left.sum((1, 2)), right.sum((1, 2))], 1))


def test_a_saved_attribution_without_weighting_loads_where_no_baseline_was_imported(
    explainers: dict[str, fw.FeatureExplainer], tmp_path: Path
) -> None:
    path = tmp_path / "saliency.safetensors"
    make("saliency", "table", explainers).explain(X_TABLE).save(path)
    code = f"from fwshapley.explanation.attribution import Attribution; print(Attribution.load({str(path)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our code
    assert done.stdout.startswith("raw saliency values of 4 players for 5 inputs")
