from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.testing import assert_close

import fwshapley as fw
from fwshapley._internal.tensor_checks import choose_device
from fwshapley.explanation.learned import fitted as fitted_module
from fwshapley.networks.mlp import TableNetwork
from fwshapley.objectives import Kernel, Multilinear
from fwshapley.players import columns
from models import ImageModel, TableModel, images, rows, seeded

N, CLASSES = 4, 3
X, X_TEST = rows(300, N), rows(20, N, seed=1)
SEVERAL = [*fw.semivalues.FEASIBLE_SET, fw.Shapley(), fw.Banzhaf(), fw.Banzhaf(0.2)]
BETA = fw.Beta(4, 1)
GRID = fw.grid(8, 8, patch=4)


class Additive(nn.Module):
    """A linear model of two outputs; hidden as zero, its game is additive with values w_i * x_i."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0, -2.0, 0.5, 0.0], [0.3, 1.0, 1.0, -1.0]]))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T + 3

    def values(self, x: Tensor) -> Tensor:
        return (x[:, :, None] * self.weight.T).detach()


class Constant(nn.Module):
    """Says the same of everything, and has no parameters."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.tensor([0.5, -1.0, 2.0]).expand(len(x), -1)


def fit(
    explainer: fw.FeatureExplainer,
    x: Tensor | pd.DataFrame = X,
    *,
    steps: int = 4,
    **options: Any,  # noqa: ANN401 - options of fit
) -> fw.FeatureExplainer:
    options = {"batch_size": 32, "n_coalitions": 8, "learning_rate": 3e-3, "progress": False} | options
    return explainer.fit(x, budget=fw.Budget(steps=steps), **options)


def relative_error(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.fixture(scope="module")
def additive() -> fw.FeatureExplainer:
    """Trained well."""
    return fit(
        fw.FeatureExplainer(Additive(), surrogate=None, removal="zero", output="raw"),
        rows(2000, N),
        steps=400,
        batch_size=64,
        n_coalitions=32,
        learning_rate=1e-2,
    )


@pytest.fixture(scope="module")
def classifier() -> fw.FeatureExplainer:
    """Trained a little."""
    return fit(fw.FeatureExplainer(seeded(TableModel), output_names=["cat", "dog", "cow"]), steps=10)


@pytest.fixture(scope="module")
def kernel() -> fw.FeatureExplainer:
    return fit(fw.FeatureExplainer(seeded(TableModel), objective="kernel", weights=BETA, surrogate=None))


@pytest.fixture
def passes(classifier: fw.FeatureExplainer) -> Iterator[list[int]]:
    """Rows of each pass through the classifier's explaining network."""
    seen: list[int] = []
    handle = classifier.network_.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    yield seen
    handle.remove()


def test_an_additive_game_is_recovered_under_every_weighting(additive: fw.FeatureExplainer) -> None:
    values = Additive().values(X_TEST)
    found = additive.explain(X_TEST, weights=SEVERAL)
    for each in found.values:
        assert relative_error(each, values) < 0.05
    last = additive.explain(X_TEST, weights=fw.LeaveOneOut()).values  # the end of the range of t
    assert relative_error(last, values) < 0.2
    assert_close(found.base_values, torch.full((20, 2), 3.0))


def test_the_audit_of_an_additive_game_is_its_closed_form(additive: fw.FeatureExplainer) -> None:
    for weights in (fw.Shapley(), BETA):
        values = fw.exact_values(additive.game(X_TEST[0]), weights).float()
        assert_close(values, Additive().values(X_TEST[:1])[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"objective": "kernel", "weights": BETA}], ids=["multilinear", "kernel"])
@pytest.mark.parametrize("output", ["probability", "raw"])
def test_a_constant_model_has_values_of_zero(options: dict[str, Any], output: Literal["probability", "raw"]) -> None:
    explainer = fit(fw.FeatureExplainer(Constant(), surrogate=None, output=output, **options))
    assert_close(explainer.explain(X_TEST).values, torch.zeros(20, N, CLASSES), rtol=0, atol=1e-6)


def test_a_kernel_recovers_an_additive_game_too() -> None:
    explainer = fw.FeatureExplainer(
        Additive(), objective="kernel", weights=BETA, surrogate=None, removal="zero", output="raw"
    )
    found = fit(explainer, rows(2000, N), steps=200).explain(X_TEST)
    values = Additive().values(X_TEST)
    assert relative_error(found.values, values) < 0.1
    assert_close(found.values.sum(1), values.sum(1), rtol=1e-4, atol=1e-4)


def test_explaining_again_gives_the_same(classifier: fw.FeatureExplainer) -> None:
    first, second = classifier.explain(X_TEST), classifier.explain(X_TEST)
    assert torch.equal(first.values, second.values)
    assert first.values.any()


def test_an_input_is_explained_the_same_whatever_is_beside_it(classifier: fw.FeatureExplainer) -> None:
    x = rows(64, N, seed=2)
    together = classifier.explain(x, weights=SEVERAL, total="efficient")
    alone = [classifier.explain(x[number : number + 1], weights=SEVERAL, total="efficient") for number in range(64)]
    assert_close(torch.cat([each.values for each in alone], 1), together.values, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("outputs", ["all", "predicted", [2, 0], torch.arange(20)[:, None] % CLASSES])
def test_a_batch_is_explained_in_chunks(
    classifier: fw.FeatureExplainer, passes: list[int], outputs: Literal["all", "predicted"] | list[int] | Tensor
) -> None:
    whole = classifier.explain(X_TEST, outputs=outputs, total="efficient")
    assert passes == [20]
    chunked = classifier.explain(X_TEST, outputs=outputs, total="efficient", batch_size=3)
    assert passes[1:] == [3] * 6 + [2]
    assert torch.equal(chunked.outputs, whole.outputs)
    assert_close(chunked.values, whole.values, rtol=1e-4, atol=1e-6)
    assert_close(chunked.base_values, whole.base_values)


def test_a_batch_too_large_is_explained_in_chunks_by_itself(
    classifier: fw.FeatureExplainer, passes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitted_module, "MAX_BATCH", 8)
    classifier.explain(X_TEST)
    monkeypatch.setattr(fitted_module, "MAX_ELEMENTS", 5 * N)
    classifier.explain(X_TEST)
    monkeypatch.setattr(fitted_module, "MAX_ELEMENTS", 1)  # less than one input
    classifier.explain(X_TEST[:2])
    assert passes == [8, 8, 4, 5, 5, 5, 5, 1, 1]


def test_many_weightings_cost_one_pass_and_equal_single_calls(
    classifier: fw.FeatureExplainer, passes: list[int]
) -> None:
    stacked = classifier.explain(X_TEST, weights=SEVERAL)
    assert passes == [20]
    assert stacked.values.shape == (len(SEVERAL), 20, N, CLASSES)
    assert stacked.weights == SEVERAL
    for values, weights in zip(stacked.values, SEVERAL, strict=True):
        single = classifier.explain(X_TEST, weights=weights)
        assert single.weights == weights
        assert_close(single.values, values)
    assert classifier.explain(X_TEST, weights=[fw.Shapley()]).values.shape == (1, 20, N, CLASSES)
    assert torch.equal(classifier.explain(X_TEST).values, classifier.explain(X_TEST, weights=fw.Shapley()).values)


def test_outputs_are_chosen_by_number(classifier: fw.FeatureExplainer) -> None:
    every = classifier.explain(X_TEST)
    assert every.outputs.tolist() == [[0, 1, 2]] * 20
    assert torch.equal(classifier.explain(X_TEST, outputs=[2, 0]).values, every.values[..., [2, 0]])
    each = torch.arange(20)[:, None] % CLASSES
    chosen = classifier.explain(X_TEST, outputs=each)
    assert torch.equal(chosen.outputs, each)
    for number in range(20):
        assert torch.equal(chosen.values[number, :, 0], every.values[number, :, number % CLASSES])
        assert torch.equal(chosen.base_values[number, 0], every.base_values[number, number % CLASSES])


@pytest.mark.usefixtures("unchecked")
def test_outputs_may_be_a_numpy_array(classifier: fw.FeatureExplainer) -> None:
    found = classifier.explain(X_TEST, outputs=np.array([2, 0]))  # type: ignore[arg-type]
    assert found.outputs.tolist() == [[2, 0]] * 20


def test_outputs_are_chosen_by_name(classifier: fw.FeatureExplainer) -> None:
    x, names = rows(2, 4), classifier.explain(rows(1, 4)).output_names
    numbered = classifier.explain(x, outputs=[2, 0])
    named = classifier.explain(x, outputs=[names[2], names[0]])
    assert torch.equal(numbered.values, named.values)
    assert torch.equal(classifier.explain(x, outputs=names[1]).values, classifier.explain(x, outputs=[1]).values)
    with pytest.raises(ValueError, match=f"'all', 'predicted', or among '{names[0]}', .*; got 'benign'"):
        classifier.explain(x, outputs=["benign"])


def test_images_of_other_channels_are_refused() -> None:
    explainer = fit(fw.FeatureExplainer(seeded(ImageModel), GRID), images(32), steps=1)
    for ask in (explainer.explain, explainer.refine, explainer.game):
        with pytest.raises(ValueError, match=r"shape \(batch, 1, 8, 8\).*got \(1, 3, 8, 8\)"):
            ask(images(1, channels=3))


@pytest.mark.usefixtures("unchecked")
def test_a_single_row_is_to_be_kept_as_a_table(classifier: fw.FeatureExplainer) -> None:
    row = pd.DataFrame(rows(3, 4).numpy()).iloc[0]
    for ask in (classifier.explain, classifier.refine):
        with pytest.raises(TypeError, match=r"Series.*frame.iloc\[\[0\]\]"):
            ask(row)


def test_the_predicted_output_is_the_one_most_likely_to_the_model(classifier: fw.FeatureExplainer) -> None:
    found = classifier.explain(X_TEST, outputs="predicted")
    predicted = copy.deepcopy(classifier.model).eval()(X_TEST).argmax(1).tolist()
    assert found.outputs[:, 0].tolist() == predicted
    assert len(set(predicted)) > 1
    assert torch.equal(found.values, classifier.explain(X_TEST, outputs=found.outputs).values)


def test_efficient_values_sum_to_what_everyone_is_worth_beyond_nobody(classifier: fw.FeatureExplainer) -> None:
    raw, efficient = (
        classifier.explain(X_TEST, weights=SEVERAL, total="raw"),
        classifier.explain(X_TEST, weights=SEVERAL, total="efficient"),
    )
    ends = torch.tensor([[False] * N, [True] * N])
    for number, x in enumerate(X_TEST):
        nobody, everyone = classifier.game(x)(ends)
        assert_close(efficient.values[:, number].sum(1), (everyone - nobody).expand(len(SEVERAL), -1))
        assert_close(efficient.base_values[number], nobody)
    shift = efficient.values - raw.values
    assert_close(shift, shift.mean(2, keepdim=True).expand_as(shift), rtol=0, atol=1e-6)
    assert (raw.total, efficient.total) == ("raw", "efficient")
    assert classifier.explain(X_TEST).total == "raw"


def test_a_game_is_what_the_surrogate_says(classifier: fw.FeatureExplainer) -> None:
    game = classifier.game(X_TEST[0])
    coalitions = torch.rand(10, N, generator=torch.Generator().manual_seed(0)) < 0.5
    direct = classifier.surrogate_(X_TEST[:1].expand(10, -1), coalitions).softmax(1)
    assert_close(game(coalitions), direct)
    assert torch.equal(game(coalitions), classifier.game(X_TEST[:1])(coalitions))
    assert torch.equal(game(coalitions), classifier.game(X_TEST[0].tolist())(coalitions))
    assert fw.exact_values(game, fw.Shapley()).shape == (N, CLASSES)
    with pytest.raises(ValueError, match="inputs must be one input, got 20"):
        classifier.game(X_TEST)


def test_an_attribution_carries_what_is_needed_to_read_it(classifier: fw.FeatureExplainer) -> None:
    found = classifier.explain(X_TEST)
    assert torch.equal(found.inputs, X_TEST)
    assert found.output_names == ("cat", "dog", "cow")
    assert found.players.names == tuple(f"column {number}" for number in range(N))
    assert found.provenance["objective"] == "multilinear"
    assert found.provenance["training"]["explainer"]["stopped"] == "budget"
    assert found.provenance["fidelity"]["prior_distance"] >= 0
    assert found.provenance["fwshapley"] == fw.__version__


def test_a_kernel_explains_one_weighting_and_its_values_are_efficient(kernel: fw.FeatureExplainer) -> None:
    found = kernel.explain(X_TEST)
    assert found.weights == BETA
    assert found.total == "efficient"
    ends = torch.tensor([[False] * N, [True] * N])
    nobody, everyone = kernel.game(X_TEST[0])(ends)
    assert_close(found.values[0].sum(0), everyone - nobody)
    assert torch.equal(kernel.explain(X_TEST, weights=[BETA]).values[0], found.values)
    with pytest.raises(ValueError, match=r"weights must be Beta\(4, 1\).* got Shapley"):
        kernel.explain(X_TEST, weights=fw.Shapley())
    with pytest.raises(ValueError, match=r"up to a common shift.*total='efficient'"):
        kernel.explain(X_TEST, total="raw")


def test_for_shapley_raw_and_efficient_are_the_same() -> None:
    explainer = fit(fw.FeatureExplainer(seeded(TableModel), objective="kernel", weights=fw.Shapley(), surrogate=None))
    assert torch.equal(explainer.explain(X_TEST, total="raw").values, explainer.explain(X_TEST).values)


@pytest.mark.parametrize("options", [{"kernel": "paper"}, {"constraint": "penalty"}, {"constraint": "none"}])
def test_kernels_of_every_kind_can_be_trained(options: dict[str, Any]) -> None:
    explainer = fw.FeatureExplainer(seeded(TableModel), objective=Kernel(BETA, **options), surrogate=None)
    values = fit(explainer).explain(X_TEST).values
    assert values.shape == (20, N, CLASSES)
    assert bool(values.isfinite().all())


def test_an_objective_can_be_passed_with_its_own_options() -> None:
    model = seeded(TableModel)
    by_name = fit(fw.FeatureExplainer(model, objective="kernel", weights=BETA, surrogate=None))
    passed = fit(fw.FeatureExplainer(model, objective=Kernel(BETA), surrogate=None))
    assert torch.equal(by_name.explain(X_TEST).values, passed.explain(X_TEST).values)
    even = fit(fw.FeatureExplainer(model, objective=Multilinear(evenness=1.0), surrogate=None))
    assert even.explain(X_TEST, weights=SEVERAL).values.shape == (len(SEVERAL), 20, N, CLASSES)


def snapshot(model: nn.Module) -> list[Any]:
    state = [tensor.clone() for tensor in model.state_dict().values()]
    modes = [module.training for module in model.modules()]
    learns = [(parameter.requires_grad, parameter.device, parameter.grad) for parameter in model.parameters()]
    return [*state, modes, learns]


def assert_unchanged(before: list[Any], after: list[Any]) -> None:
    for left, right in zip(before, after, strict=True):
        assert torch.equal(left, right) if isinstance(left, Tensor) else left == right


@pytest.mark.parametrize("given", ["auto", "none", "module"])
@pytest.mark.parametrize("training", [True, False])
def test_the_users_model_and_randomness_are_left_alone(given: str, *, training: bool) -> None:
    model = seeded(TableModel).train(mode=training)
    next(model.parameters()).requires_grad_(False)
    surrogates: dict[str, nn.Module | Literal["auto"] | None] = {"auto": "auto", "none": None, "module": model}
    torch.manual_seed(5)
    before, randomness = snapshot(model), torch.get_rng_state()
    drawn = np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002 - which others use
    fit(fw.FeatureExplainer(model, surrogate=surrogates[given])).explain(X_TEST, outputs="predicted")
    assert_unchanged(before, snapshot(model))
    assert torch.equal(torch.get_rng_state(), randomness)
    assert np.array_equal(np.random.get_state(legacy=False)["state"]["key"], drawn)  # noqa: NPY002


@pytest.mark.parametrize("network", ["auto", "unet"])
def test_the_users_image_model_is_left_alone(network: Literal["auto", "unet"]) -> None:
    model = seeded(ImageModel).train()
    before, randomness = snapshot(model), torch.get_rng_state()
    fit(fw.FeatureExplainer(model, GRID, network=network), images(40)).explain(images(3), outputs="predicted")
    assert_unchanged(before, snapshot(model))
    assert torch.equal(torch.get_rng_state(), randomness)


def test_the_same_seed_gives_the_same_explainer_and_another_seed_another() -> None:
    values = [fit(fw.FeatureExplainer(seeded(TableModel), seed=seed)).explain(X_TEST).values for seed in (0, 0, 1)]
    assert torch.equal(values[0], values[1])
    assert not torch.equal(values[0], values[2])


@pytest.mark.parametrize("network", ["auto", "unet", "slim"])
def test_every_network_passes_the_same_contract(tmp_path: Path, network: Literal["auto", "unet", "slim"]) -> None:
    x = images(40)
    make: Callable[[], fw.FeatureExplainer] = lambda: fit(  # noqa: E731
        fw.FeatureExplainer(seeded(ImageModel), GRID, network=network, surrogate=None), x, steps=3
    )
    explainer = make()
    found = explainer.explain(x[:5], weights=[fw.Shapley(), BETA])
    assert found.values.shape == (2, 5, 4, CLASSES)
    assert found.values.any()
    assert torch.equal(make().explain(x[:5], weights=[fw.Shapley(), BETA]).values, found.values)
    explainer.save(tmp_path)
    loaded = fw.FeatureExplainer.load(tmp_path, model=seeded(ImageModel, seed=1))
    assert torch.equal(loaded.explain(x[:5], weights=[fw.Shapley(), BETA]).values, found.values)


def test_segments_of_an_image_can_be_explained() -> None:
    players = fw.segments([[column // 3 for column in range(8)]] * 8)
    explainer = fit(fw.FeatureExplainer(seeded(ImageModel), players, output="logit"), images(40))
    assert explainer.explain(images(2)).values.shape == (2, 3, CLASSES)
    assert fw.exact_values(explainer.game(images(1)[0]), fw.Shapley()).shape == (3, CLASSES)


def test_groups_of_columns_can_be_explained() -> None:
    players = fw.groups({"pair": [0, 2]}, count=N)
    explainer = fit(fw.FeatureExplainer(Additive(), players, surrogate=None, removal="zero", output="raw"))
    assert explainer.explain(X_TEST).values.shape == (20, 3, 2)
    values = fw.exact_values(explainer.game(X_TEST[0]), BETA).float()
    assert_close(values[0], Additive().values(X_TEST[:1])[0, [0, 2]].sum(0), rtol=1e-4, atol=1e-5)


def test_a_surrogate_that_is_ready_is_used_as_it_is() -> None:
    ready = fw.explanation.Surrogate(seeded(TableModel, seed=3), columns(N), torch.ones(1, N)).eval()
    explainer = fit(fw.FeatureExplainer(seeded(TableModel), surrogate=ready))
    coalitions = torch.tensor([[True, False, True, False]])
    assert_close(explainer.game(X_TEST[0])(coalitions), ready(X_TEST[:1], coalitions).softmax(1).detach())
    assert explainer.fidelity_ is None
    assert set(explainer.histories_) == {"explainer"}


@pytest.mark.parametrize("removal", ["zero", "mean", X[:3], X[0].tolist()], ids=["zero", "mean", "several", "one"])
def test_hidden_features_become_what_was_asked_for(removal: Any) -> None:  # noqa: ANN401 - whatever the explainer takes
    explainer = fit(fw.FeatureExplainer(Additive(), surrogate=None, output="raw", removal=removal), x_valid=X_TEST)
    nobody = explainer.game(X_TEST[0])(torch.zeros(1, N, dtype=torch.bool))[0]
    fills = {"zero": torch.zeros(1, N), "mean": X.mean(0, keepdim=True)}
    fill = fills[removal] if isinstance(removal, str) else torch.as_tensor(removal).reshape(-1, N)
    assert_close(nobody, Additive()(fill).mean(0).detach(), rtol=1e-4, atol=1e-5)


def test_a_student_learns_its_teachers_values(additive: fw.FeatureExplainer) -> None:
    x = rows(500, N)
    student = additive.distill(
        x,
        network=lambda channels: TableNetwork(x, N, channels, width=32, depth=1),
        budget=fw.Budget(steps=150),
        learning_rate=1e-2,
        progress=False,
    )
    taught, values = student.explain(X_TEST, weights=SEVERAL).values, additive.explain(X_TEST, weights=SEVERAL).values
    assert relative_error(taught, values) < 0.2
    assert set(student.histories_) == {"explainer", "student"}
    assert set(additive.histories_) == {"explainer"}
    coalitions = torch.tensor([[True, False, True, False]])
    assert torch.equal(student.game(X_TEST[0])(coalitions), additive.game(X_TEST[0])(coalitions))


def test_an_image_student_is_slim() -> None:
    teacher = fit(fw.FeatureExplainer(seeded(ImageModel), GRID, surrogate=None), images(40))
    student = teacher.distill(images(40), images(8, seed=1), budget=fw.Budget(steps=2), batch_size=16, progress=False)
    assert student.network == "slim"
    assert student.explain(images(2)).values.shape == (2, 4, CLASSES)
    with pytest.raises(ValueError, match=r"x_valid must have shape \(batch, 1, 8, 8\)"):
        teacher.distill(images(40), images(8, 16), budget=fw.Budget(steps=2))


def test_augmentation_and_compilation_reach_training(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    compiled: list[nn.Module] = []

    def augment(x: Tensor, _: torch.Generator) -> Tensor:
        sizes.append(len(x))
        return x

    def compile_(module: nn.Module) -> nn.Module:
        compiled.append(module)
        return module

    monkeypatch.setattr(torch, "compile", compile_)
    fit(fw.FeatureExplainer(seeded(TableModel), surrogate=None), augment=augment, compiled=True)
    assert sizes == [32] * 4
    assert len(compiled) == 2  # the surrogate that is asked, and the network


@pytest.mark.parametrize("options", [{}, {"objective": "kernel", "weights": BETA}], ids=["multilinear", "kernel"])
def test_resuming_a_finished_fit_changes_nothing(tmp_path: Path, options: dict[str, Any]) -> None:
    first = fit(fw.FeatureExplainer(seeded(TableModel), **options), checkpoint=tmp_path)
    again = fit(fw.FeatureExplainer(seeded(TableModel), **options), checkpoint=tmp_path, resume=True)
    assert torch.equal(first.explain(X_TEST).values, again.explain(X_TEST).values)
    assert again.histories_ == first.histories_


def test_a_fit_is_not_resumed_with_other_settings(tmp_path: Path) -> None:
    fit(fw.FeatureExplainer(seeded(TableModel)), checkpoint=tmp_path)
    with pytest.raises(ValueError, match=r"is the checkpoint of another run: seed, .*differ"):
        fit(fw.FeatureExplainer(seeded(TableModel), seed=1), checkpoint=tmp_path, resume=True)
    with pytest.raises(ValueError, match="is the checkpoint of another run: batch_size differ"):
        fit(fw.FeatureExplainer(seeded(TableModel)), checkpoint=tmp_path, resume=True, batch_size=16)


@pytest.mark.parametrize(
    ("explainer", "options", "changed"),
    [
        ({}, {"n_coalitions": 4}, "n_coalitions"),
        ({"output": "logit"}, {}, "output"),
        ({"model": TableModel}, {}, "model"),
        ({"objective": "kernel", "weights": BETA}, {}, "objective"),
        ({"objective": Multilinear(evenness=0.0)}, {}, "objective"),
        ({}, {"x_valid": X_TEST}, "x_valid"),
    ],
    ids=["coalitions", "output", "model", "objective", "evenness", "validation"],
)
def test_a_checkpoint_of_another_fit_is_refused(
    tmp_path: Path, explainer: dict[str, Any], options: dict[str, Any], changed: str
) -> None:
    fit(fw.FeatureExplainer(seeded(TableModel)), checkpoint=tmp_path)
    torch.manual_seed(5)
    model = explainer.pop("model", partial(seeded, TableModel))()
    with pytest.raises(ValueError, match=f"is the checkpoint of another run: .*{changed}"):
        fit(fw.FeatureExplainer(model, **explainer), checkpoint=tmp_path, resume=True, **options)


def test_a_new_fit_does_not_overwrite_the_checkpoints_of_an_old_one(tmp_path: Path) -> None:
    fit(fw.FeatureExplainer(seeded(TableModel)), checkpoint=tmp_path)
    before = (tmp_path / "explainer.safetensors").read_bytes()
    with pytest.raises(ValueError, match="earlier run; continue it with resume=True"):
        fit(fw.FeatureExplainer(seeded(TableModel)), checkpoint=tmp_path)
    assert (tmp_path / "explainer.safetensors").read_bytes() == before


@pytest.mark.usefixtures("unchecked")
def test_wrong_arguments_of_fit_and_explain_are_named(classifier: fw.FeatureExplainer) -> None:
    explainer = fw.FeatureExplainer(seeded(TableModel))
    assert repr(explainer) == "FeatureExplainer(TableModel, output='auto', not fitted)"
    assert repr(classifier).endswith(f"fitted, {N} players)")
    with pytest.raises(TypeError, match=r"budget must be a Budget, e.g. Budget\(seconds=60\), got 60"):
        explainer.fit(X, budget=60)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="x_train must be an array or tensor of numbers, got dict"):
        fit(explainer, {"age": 1})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="x_valid, the second argument of fit, must be inputs like x_train"):
        fit(explainer, x_valid=torch.zeros(len(X)))
    with pytest.raises(TypeError, match=r"players must be made by .* got list"):
        fit(fw.FeatureExplainer(seeded(TableModel), ["age", "town"]))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="got 'shapley'"):
        classifier.explain(X_TEST, weights="shapley")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Shapley is a function"):
        classifier.explain(X_TEST, weights=fw.Shapley)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"outputs must be .*; got 'lion'"):
        classifier.explain(X_TEST, outputs=["lion"])
    with pytest.raises(ValueError, match=r"outputs must be .*, got \[None\]"):
        classifier.explain(X_TEST, outputs=[None])  # type: ignore[arg-type]
    assert classifier.explain(X_TEST, outputs=1).values.shape[-1] == 1  # type: ignore[arg-type]


@pytest.mark.usefixtures("unchecked")
def test_a_data_frame_is_taken_as_an_array(classifier: fw.FeatureExplainer) -> None:
    class Frame:
        """As far as a DataFrame matters here."""

        def to_numpy(self) -> np.ndarray:
            return X_TEST.numpy()

    assert torch.equal(classifier.explain(Frame()).values, classifier.explain(X_TEST).values)


def test_a_checkpoint_of_another_weighting_is_refused(tmp_path: Path) -> None:
    one, other = (
        fw.FeatureExplainer(seeded(TableModel), weights=weights, objective="kernel", surrogate=None)
        for weights in (fw.Shapley(), BETA)
    )
    fit(one, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="is the checkpoint of another run: objective differ"):
        fit(other, checkpoint=tmp_path, resume=True)


def test_the_class_explained_is_the_one_the_model_predicts() -> None:
    model = seeded(TableModel)
    contrary = fw.explanation.Surrogate(Contrary(model), columns(N), torch.zeros(1, N))
    explainer = fit(fw.FeatureExplainer(model, surrogate=contrary))
    predicted = model.eval()(X_TEST).argmax(1, keepdim=True)
    assert torch.equal(explainer.explain(X_TEST, outputs="predicted").outputs, predicted)
    assert not torch.equal(explainer.game(X_TEST[0])(torch.ones(1, N, dtype=torch.bool)).argmax(1), predicted[0])


class Contrary(nn.Module):
    """Says the opposite of a model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = -self.model(x)
        return out


def test_what_cannot_be_explained_is_refused_before_the_surrogate_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(*_arguments: object, **_options: object) -> None:
        pytest.fail("the surrogate was trained")

    monkeypatch.setattr("fwshapley.explanation.learned.fitting.train_surrogate", train)
    explainer = fw.FeatureExplainer(seeded(TableModel), network=lambda channels: nn.Linear(N, channels))
    with pytest.raises(ValueError, match=r"network failed|network must return"):
        fit(explainer)
    with pytest.raises(NotFittedError, match="not fitted"):
        _ = explainer.players_


def test_a_second_fit_credits_the_columns_of_its_own_table() -> None:
    explainer = fw.FeatureExplainer(seeded(TableModel), surrogate=None)
    for names in ("abcd", "efgh"):
        table = pd.DataFrame(X.numpy(), columns=list(names))
        fit(explainer, table)
        assert explainer.explain(table[:2]).players.names == explainer.players_.names == tuple(names)
        assert explainer.players is None
    fit(explainer)
    assert explainer.players_.names == columns(N).names


def test_a_second_fit_may_be_of_a_table_of_another_width() -> None:
    explainer = fw.FeatureExplainer(lambda x: x.sum(1), output="raw", surrogate=None)
    for width in (3, 5):
        fit(explainer, rows(50, width))
        assert explainer.explain(rows(2, width)).values.shape == (2, width, 1)
        with pytest.raises(ValueError, match=rf"\(batch, {width}\).*got \(2, 4\)"):
            explainer.explain(rows(2, 4))


def test_players_that_were_given_stay_whatever_is_fitted() -> None:
    explainer = fw.FeatureExplainer(seeded(TableModel), fw.groups({"pair": [0, 2]}, count=N), surrogate=None)
    for _ in range(2):
        fit(explainer)
        assert explainer.explain(X_TEST).players.names == ("pair", "column 1", "column 3")
    with pytest.raises(ValueError, match=r"\(batch, 4\).*got \(45, 5\)"):
        fit(explainer, rows(50, 5))


def test_no_argument_is_overwritten_by_a_fit() -> None:
    explainer = fw.FeatureExplainer(LogisticRegression().fit(X, (X[:, 0] > 0).int()))
    names = list(explainer.get_params())
    before = {name: getattr(explainer, name) for name in names if hasattr(explainer, name)}
    assert len(before) > 8
    fit(explainer)
    assert all(getattr(explainer, name) is value for name, value in before.items())


@pytest.mark.parametrize(
    ("surrogate", "message"),
    [
        (
            fw.explanation.Surrogate(TableModel(), fw.groups({"pair": [0, 1]}, count=N), torch.zeros(1, N)),
            "made for other players",
        ),
        (
            fw.explanation.Surrogate(nn.Linear(N, 7), columns(N), torch.zeros(1, N)),
            "surrogate has 7 outputs, and the model has 3",
        ),
    ],
    ids=["players", "outputs"],
)
def test_a_surrogate_of_something_else_is_refused(surrogate: fw.explanation.Surrogate, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(fw.FeatureExplainer(seeded(TableModel), surrogate=surrogate))


def test_removal_is_refused_where_nothing_is_filled() -> None:
    with pytest.raises(ValueError, match="removal must be 'auto'"):
        fit(fw.FeatureExplainer(seeded(TableModel), removal="zero"))


def test_one_player_needs_no_kernel() -> None:
    everyone = fw.groups({"all": range(N)})
    with pytest.raises(ValueError, match="players must be at least 2"):
        fit(fw.FeatureExplainer(seeded(TableModel), everyone, objective="kernel", weights=BETA))
    explainer = fit(fw.FeatureExplainer(seeded(TableModel), everyone))
    assert explainer.explain(X_TEST).values.shape[1:] == (1, 3)


def test_a_model_that_wants_other_inputs_is_named() -> None:
    with pytest.raises(ValueError, match="the model failed on float32 inputs"):
        fit(fw.FeatureExplainer(seeded(TableModel, N + 1)))


def test_a_compiled_network_explains(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer = fit(fw.FeatureExplainer(seeded(TableModel), surrogate=None))
    expected = explainer.explain(X_TEST).values

    def compile_eagerly(function: Callable[[Tensor, Tensor], Tensor], mode: str) -> Callable[[Tensor, Tensor], Tensor]:
        memory: list[Tensor] = []

        def run(x: Tensor, mixtures: Tensor) -> Tensor:  # as a CUDA graph, it returns the same memory at every call
            out = function(x, mixtures)
            memory.append(out)
            return memory[0].copy_(out)

        assert mode == "reduce-overhead"
        return run

    monkeypatch.setattr(torch, "compile", compile_eagerly)
    explainer.compile()
    first = explainer.explain(X_TEST).values
    explainer.explain(X_TEST + 1)
    assert torch.equal(first, expected)


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Let threads take turns as often as can be, so that what they share shows."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("hasty_threads")
@pytest.mark.parametrize("model", [ImageModel, TableModel])
def test_threads_that_share_an_explainer_get_what_one_alone_gets(model: type[nn.Module]) -> None:
    image = model is ImageModel
    explainer = fit(fw.FeatureExplainer(seeded(model), GRID if image else None), images(64) if image else X)
    several = [images(2, seed=seed) if image else rows(2, N, seed=seed) for seed in range(4)]

    def ask(x: Tensor) -> list[Tensor]:
        predictions = explainer.predictions(x)
        assert predictions.model is not None
        return [
            explainer.explain(x).values,
            explainer.explain(x, outputs="predicted", total="efficient").values,
            explainer.refine(x, n_calls=16, progress=False).values,
            explainer.attribute(x, 1),
            predictions.model,
            predictions.surrogate,
        ]

    expected = [ask(x) for x in several]
    with ThreadPoolExecutor(len(several)) as pool:
        for _ in range(5):
            for found, wanted in zip(pool.map(ask, several), expected, strict=True):
                assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


def test_hidden_columns_of_a_table_are_its_mean_unless_asked_for_otherwise() -> None:
    explainer = fit(fw.FeatureExplainer(Additive(), surrogate=None, output="raw"), x_valid=X_TEST)
    nobody = explainer.game(X_TEST[0])(torch.zeros(1, N, dtype=torch.bool))
    assert_close(nobody, Additive()(X.mean(0, keepdim=True)).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "regression"}, "objective must be one of 'multilinear', 'kernel'"),
        ({"output": "odds"}, "output must be one of"),
        ({"network": "resnet"}, "network must be one of 'auto', 'unet', 'slim'"),
        ({"surrogate": "same"}, "surrogate must be one of 'auto'"),
        ({"removal": "blur"}, "removal must be one of"),
        ({"objective": "kernel"}, "pass it as weights="),
        ({"weights": fw.Shapley()}, "weights goes with objective='kernel'"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"removal": [float("nan")] * N}, "removal contains NaN"),
        ({"objective": Multilinear(), "weights": fw.Shapley()}, "weights goes with objective='kernel'"),
    ],
)
def test_choices_that_do_not_exist_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(fw.FeatureExplainer(seeded(TableModel), **options))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("options", [{"kernel": "best"}, {"constraint": "hard"}], ids=["kernel", "constraint"])
def test_options_of_a_kernel_that_do_not_exist_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be one of"):
        fit(fw.FeatureExplainer(seeded(TableModel), objective=Kernel(BETA, **options)))


@pytest.mark.usefixtures("unchecked")
def test_models_and_weights_of_the_wrong_type_are_refused() -> None:
    with pytest.raises(TypeError, match=r"model must be a torch module, a function, .* got 'model'"):
        fit(fw.FeatureExplainer("model"))
    with pytest.raises(TypeError, match="weights must be a semivalue"):
        fit(fw.FeatureExplainer(seeded(TableModel), objective="kernel", weights="Shapley"))  # type: ignore[arg-type]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
def test_cuda_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="device='cuda'"):
        fit(fw.FeatureExplainer(seeded(TableModel), device="cuda"))
    assert choose_device("auto") == choose_device(torch.device("cpu")) == torch.device("cpu")


def test_an_explainer_is_not_used_before_it_is_fitted(tmp_path: Path) -> None:
    explainer = fw.FeatureExplainer(seeded(TableModel))
    uses: list[Callable[[], object]] = [
        lambda: explainer.explain(X_TEST),
        lambda: explainer.game(X_TEST[0]),
        lambda: explainer.save(tmp_path),
        lambda: explainer.distill(X),
        lambda: explainer.surrogate_,
        lambda: explainer.network_,
        explainer.compile,
    ]
    for use in uses:
        with pytest.raises(NotFittedError, match="not fitted; call fit"):
            use()
    assert not list(tmp_path.iterdir())


WITH_NAN = X.clone()
WITH_NAN[7, 2] = torch.nan


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (WITH_NAN, r"input 7 contains NaN or infinite values \(1 in all\)"),
        (X[:0], "at least one"),
        (X[0], "at least one input, got shape"),
        (X[:, None], "x_train must be a table, got shape"),
        (X[:1], "too few to hold some out"),
    ],
    ids=["NaN", "empty", "a row", "no table", "one row"],
)
def test_inputs_that_cannot_be_learned_from_are_refused(x: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(fw.FeatureExplainer(seeded(TableModel)), x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_coalitions": 1}, "n_coalitions must be at least 2"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"resume": True}, "pass checkpoint="),
        ({"x_valid": X[:, :3]}, "\\(batch, 4\\)"),
        ({"x_valid": WITH_NAN}, "input 7 contains NaN"),
    ],
)
def test_options_of_a_fit_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(fw.FeatureExplainer(seeded(TableModel)), **options)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (nn.Sequential(seeded(TableModel), nn.Softmax(1)), {}, "seems to return probabilities"),
        (nn.Linear(N, 1), {}, "the model has one output; pass output='label_probability'"),
        (nn.Sequential(nn.Linear(N, 2), nn.Unflatten(1, (1, 2))), {}, r"it returned \(64, 1, 2\) for 64 inputs"),
        (nn.Linear(N, 2), {"output_names": ["one"]}, "output_names has 1 names for a model of 2 outputs"),
        (nn.Linear(N, 2), {"players": columns(3)}, "\\(batch, 3\\)"),
        (nn.Linear(N, 2), {"network": "unet"}, "network='unet' is for images"),
        (nn.Linear(N, 2), {"removal": X[:, :2]}, "removal must be a baseline"),
        (
            nn.Linear(N, 2),
            {"network": lambda channels: TableNetwork(X, N + 1, channels)},
            r"return shape \(1, 4 players, 24 channels\).* returned \(1, 5, 24\)",
        ),
    ],
    ids=["probabilities", "one", "shape", "names", "players", "network", "removal", "own network"],
)
def test_what_does_not_fit_the_model_is_refused(model: nn.Module, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(fw.FeatureExplainer(model, **{"surrogate": None} | options))


def test_a_model_whose_outputs_are_not_finite_is_refused() -> None:
    model = nn.Linear(N, 2)
    nn.init.constant_(model.bias, torch.inf)
    with pytest.raises(ValueError, match="not finite on the first inputs"):
        fit(fw.FeatureExplainer(model))


def test_a_model_without_feature_maps_can_be_explained() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    found = fit(fw.FeatureExplainer(model, GRID), images(40))
    assert found.explain(images(2)).values.shape == (2, 4, 1)  # of the second of two classes


@pytest.mark.parametrize("output", [nn.Linear(N, 1), nn.Sequential(nn.Linear(N, 1), nn.Flatten(0))])
def test_a_model_of_one_output_can_be_explained_raw(output: nn.Module) -> None:
    found = fit(fw.FeatureExplainer(output, output="raw")).explain(X_TEST)
    assert found.values.shape == (20, N, 1)
    assert found.output_names == ("output 0",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"outputs": [3]}, "outputs must be between 0 and 2"),
        ({"outputs": [-1]}, "outputs must be between 0 and 2"),
        ({"outputs": []}, "outputs must be 'all', 'predicted', names"),
        ({"outputs": torch.zeros(3, 1, dtype=torch.int64)}, r"numbers of shape \(20, n\)"),
        ({"outputs": [0.5]}, "outputs must be 'all'"),
        ({"outputs": "best"}, "outputs must be 'all', 'predicted', or among"),
        ({"total": "half"}, "total must be one of 'auto', 'raw', 'efficient'"),
        ({"weights": []}, "weights .* empty list"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"x": X_TEST[:0]}, "at least one"),
        ({"x": X_TEST[:, :3]}, "\\(batch, 4\\)"),
        ({"x": WITH_NAN}, "input 7 contains NaN"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_questions_that_make_no_sense_are_refused(
    classifier: fw.FeatureExplainer, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        classifier.explain(**{"x": X_TEST} | options)


@pytest.mark.usefixtures("unchecked")
def test_weights_that_cannot_be_read_are_refused(classifier: fw.FeatureExplainer) -> None:
    with pytest.raises(TypeError, match="no quadrature"):
        classifier.explain(X_TEST, weights=fw.Cardinality([1] * N))
    with pytest.raises(TypeError, match="weights must be a semivalue"):
        classifier.explain(X_TEST, weights=["Shapley"])  # type: ignore[list-item]


def test_raw_outputs_are_no_classes_to_predict(additive: fw.FeatureExplainer) -> None:
    with pytest.raises(ValueError, match="outputs='predicted' needs"):
        additive.explain(X_TEST, outputs="predicted")


def test_inputs_may_be_lists_or_arrays(classifier: fw.FeatureExplainer) -> None:
    expected = classifier.explain(X_TEST).values
    assert torch.equal(classifier.explain(X_TEST.numpy()).values, expected)
    assert torch.equal(classifier.explain(X_TEST.tolist()).values, expected)


def test_a_compiled_explainer_says_the_same_until_it_is_fitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []

    def compile_(function: Callable[[Tensor, Tensor], Tensor], **_: str) -> Callable[[Tensor, Tensor], Tensor]:
        def quick(x: Tensor, mixtures: Tensor) -> Tensor:
            used.append(len(x))
            return function(x, mixtures)

        return quick

    monkeypatch.setattr(torch, "compile", compile_)
    explainer = fit(fw.FeatureExplainer(seeded(TableModel), surrogate=None))
    expected = explainer.explain(X_TEST).values
    assert torch.equal(explainer.compile().explain(X_TEST).values, expected)
    assert used == [20]
    student = explainer.distill(
        X, network=lambda channels: TableNetwork(X, N, channels), budget=fw.Budget(steps=1), progress=False
    )
    assert not torch.equal(student.explain(X_TEST).values, expected)
    assert not torch.equal(fit(explainer, steps=1).explain(X_TEST).values, expected)
    assert used == [20]


HUGE = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, 1e300, 0.0, 0.0]], dtype=torch.float64)


@pytest.mark.parametrize("kind", ["tensor", "array", "list", "frame"])
def test_inputs_beyond_single_precision_are_said_to_overflow(classifier: fw.FeatureExplainer, kind: str) -> None:
    given: dict[str, Any] = {"tensor": HUGE, "array": HUGE.numpy(), "list": HUGE.tolist()}
    explainer, x = classifier, given.get(kind, pd.DataFrame(HUGE.numpy()))
    if kind == "frame":
        explainer = fit(fw.FeatureExplainer(seeded(TableModel), surrogate=None), pd.DataFrame(X.numpy()))
    where = r"1e\+300 in column '1', row 1," if kind == "frame" else r"input 1 contains 1e\+300, which"
    with pytest.raises(ValueError, match=f"{where} overflows float32"):
        explainer.explain(x)
    with pytest.raises(ValueError, match="input 1 contains infinite values"):
        explainer.explain(HUGE.float())


def test_a_removal_and_outputs_beyond_single_precision_are_said_to_overflow() -> None:
    with pytest.raises(ValueError, match="overflows float32"):
        fit(fw.FeatureExplainer(seeded(TableModel), surrogate=None, removal=HUGE[1]))
    with pytest.raises(ValueError, match=r"the model's output for input 0 .* overflows float32"):
        fit(fw.FeatureExplainer(lambda x: 1e300 + x.sum(1), output="raw", surrogate=None))


def test_an_input_whose_values_are_not_finite_is_named() -> None:
    explainer = fit(fw.FeatureExplainer(lambda x: np.tanh(x).sum(1), output="raw", surrogate=None))
    with pytest.raises(ValueError, match=r"values of input 1 are not finite.* 1e\+300"):
        explainer.explain(HUGE)


def test_complex_numbers_are_refused(classifier: fw.FeatureExplainer) -> None:
    x = torch.complex(X_TEST, X_TEST)
    frame = fit(fw.FeatureExplainer(seeded(TableModel), surrogate=None), pd.DataFrame(X.numpy()))
    questions: list[Callable[[], object]] = [
        lambda: classifier.explain(x),
        lambda: classifier.explain(x.numpy()),
        lambda: frame.explain(pd.DataFrame(x.numpy())),
        lambda: fit(fw.FeatureExplainer(seeded(TableModel)), torch.complex(X, X)),
        lambda: fit(fw.FeatureExplainer(seeded(TableModel), removal=x[0])),
        lambda: fit(fw.FeatureExplainer(lambda rows: rows.sum(1) + 1j, output="raw")),
        lambda: fit(fw.FeatureExplainer(nn.Sequential(Additive(), Imaginary()), output="raw")),
    ]
    for ask in questions:
        with pytest.raises((TypeError, ValueError), match=r"complex|removal"):
            ask()


class Imaginary(nn.Module):
    """Makes outputs complex."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 1j


@pytest.mark.usefixtures("unchecked")
def test_names_of_outputs_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match=r"output_names must be different .*'cat'"):
        fit(fw.FeatureExplainer(seeded(TableModel), output_names=["cat", "dog", "cat"]))
    with pytest.raises(TypeError, match="output_names must be a list of names, got 'cat'"):
        fit(fw.FeatureExplainer(seeded(TableModel), output_names="cat"))
    numbers: Any = np.arange(3)
    assert fit(fw.FeatureExplainer(seeded(TableModel), output_names=numbers)).output_names_ == ("0", "1", "2")


@pytest.mark.usefixtures("unchecked")
def test_outputs_are_no_masks_and_one_that_does_not_exist_is_named_alone(classifier: fw.FeatureExplainer) -> None:
    with pytest.raises(ValueError, match=r"outputs must be between 0 and 2, got 9$"):
        classifier.explain(X_TEST, outputs=torch.full((20, 1), 9))
    with pytest.raises(ValueError, match="names or numbers of outputs"):
        classifier.explain(X_TEST, outputs=torch.tensor([True, False, True]))


def test_fit_explains_that_no_labels_are_needed() -> None:
    explainer = fw.FeatureExplainer(seeded(TableModel))
    for labels in (np.zeros(300), pd.Series([0] * 300), [0] * 300):
        with pytest.raises(
            ValueError, match=r"x_valid, the second argument of fit.*got 300 single entries.*needs none"
        ):
            explainer.fit(X, labels, progress=False)


def test_the_explanation_of_a_table_has_what_the_model_itself_predicts(classifier: fw.FeatureExplainer) -> None:
    expected = seeded(TableModel).eval()(X_TEST).softmax(1).detach()
    found = classifier.explain(X_TEST, outputs=[2, 0])
    assert found.predictions is not None
    assert_close(found.predictions, expected[:, [2, 0]])
    predicted = classifier.explain(X_TEST, outputs="predicted").predictions
    assert predicted is not None
    assert_close(predicted, expected.amax(1, keepdim=True))


def test_a_surrogate_that_misses_nothing_leaves_its_time_to_the_explainer() -> None:
    explainer = fit(fw.FeatureExplainer(Constant(), output="raw"), steps=20)
    steps = {name: history.steps for name, history in explainer.histories_.items()}
    assert steps == {"surrogate": 6, "explainer": 14}  # one round of 30 %
    explainer = fit(fw.FeatureExplainer(seeded(TableModel)), steps=20)
    steps = {name: history.steps for name, history in explainer.histories_.items()}
    assert steps == {"surrogate": 12, "explainer": 8}  # a second one, since much is missed
