"""Models as people have them: what they return, in which precision they are, and functions of tensors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import fwshapley as fw
from fwshapley.explanation import SelectOutput
from fwshapley.explanation.inputs.input_checks import freeze_module
from fwshapley.explanation.inputs.model_functions import find_function
from fwshapley.explanation.inputs.returned_entries import find_entry
from fwshapley.explanation.learned.black_box import InputForm, find_form
from models import ImageModel, images, rows, seeded

GRID = fw.grid(8, 8, patch=4)
X = images(24)


class Pair(NamedTuple):
    """What a model with a named tuple returns."""

    features: Tensor
    scores: Tensor


class Returning(nn.Module):
    """An image model that returns its logits among other things."""

    def __init__(self, wrap: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.inner, self.wrap = seeded(ImageModel), wrap

    def forward(self, x: Tensor) -> Any:  # noqa: ANN401 - the point of it
        return self.wrap(self.inner(x), x)


RETURNED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "dict of logits": lambda logits, _: {"loss": None, "logits": logits, "other": logits + 1},
    "only entry that fits": lambda logits, x: {"features": x, "class_scores": logits},
    "tuple": lambda logits, x: (x, logits),
    "list": lambda logits, x: [logits, x],
    "named tuple": lambda logits, x: Pair(x, logits),
    "object": lambda logits, _: SimpleNamespace(logits=logits, hidden=None),
}


def fit(explainer: fw.FeatureExplainer, x: Any = X) -> fw.FeatureExplainer:  # noqa: ANN401 - any inputs
    return explainer.fit(x, budget=fw.Budget(steps=2), batch_size=8, n_coalitions=2, progress=False)


@pytest.fixture(scope="module")
def plain() -> fw.FeatureExplainer:
    return fit(fw.FeatureExplainer(seeded(ImageModel), GRID, device="cpu"))


@pytest.mark.parametrize("name", RETURNED)
def test_logits_are_found_in_what_a_model_returns(name: str) -> None:
    model = Returning(RETURNED[name])
    frozen = freeze_module(model, X[:3])
    assert_close(frozen(X), seeded(ImageModel).eval()(X))
    assert model.training  # it is not touched


@pytest.mark.parametrize("name", ["dict of logits", "object"])
def test_explanations_are_those_of_the_logits(name: str, plain: fw.FeatureExplainer, tmp_path: Path) -> None:
    model = Returning(RETURNED[name])
    explainer = fit(fw.FeatureExplainer(model, GRID, device="cpu"))
    assert_close(explainer.predictions(X).model, plain.predictions(X).model)
    values = explainer.explain(X[:4]).values
    assert_close(values, plain.explain(X[:4]).values)
    explainer.save(tmp_path)
    for again in (Returning(RETURNED[name]), SelectOutput(Returning(RETURNED[name]), "logits")):
        assert_close(fw.load(tmp_path, model=again, device="cpu").explain(X[:4]).values, values, rtol=0, atol=0)


def test_one_of_several_outputs_is_selected() -> None:
    def model(logits: Tensor, _: Tensor) -> dict[str, Tensor]:
        return {"shape": logits, "color": logits[:, :2]}

    with pytest.raises(
        ValueError, match=r"a dict with 'shape' \(3, 3\), 'color' \(3, 2\).*SelectOutput\(model, 'shape'"
    ):
        freeze_module(Returning(model), X[:3])
    assert freeze_module(SelectOutput(Returning(model), "color"), X[:3])(X).shape == (24, 2)
    with pytest.raises(ValueError, match="returned a dict without 'size'; it has 'shape', 'color'"):
        freeze_module(SelectOutput(Returning(model), "size"), X[:3])


def test_a_model_without_outputs_says_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"a tuple with 0 \(3, 1, 8, 8\), 1 \(\), and none of them"):
        find_entry((X[:3], torch.tensor(1.0)), 3)


def test_the_loss_of_a_module_is_not_taken_for_its_outputs() -> None:
    assert find_entry({"loss": torch.tensor(0.3), "scores": torch.zeros(3, 2)}, 3) == "scores"
    assert find_entry(np.zeros((3, 2)), 3) is None
    assert find_entry([[0.1, 0.9], [0.5, 0.5]], 2) is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_models_of_other_precisions_are_explained_in_single_precision(dtype: torch.dtype, tmp_path: Path) -> None:
    model = seeded(ImageModel).to(dtype)
    explainer = fit(fw.FeatureExplainer(model, GRID, device="cpu"))
    attribution = explainer.explain(X[:4].double().numpy(), outputs="predicted")
    assert attribution.values.dtype == torch.float32
    same = seeded(ImageModel).to(dtype).float().eval()
    assert_close(explainer.predictions(X).model, same(X).softmax(1))
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}
    explainer.save(tmp_path)
    loaded = fw.load(tmp_path, model=seeded(ImageModel).to(dtype), device="cpu")
    assert_close(loaded.explain(X[:4]).values, explainer.explain(X[:4]).values, rtol=0, atol=0)


def test_a_surrogate_of_half_precision_and_with_several_outputs_is_trained() -> None:
    surrogate = Returning(RETURNED["tuple"]).half()
    explainer = fit(fw.FeatureExplainer(seeded(ImageModel), GRID, surrogate=surrogate, device="cpu"))
    assert {parameter.dtype for parameter in explainer.surrogate_.parameters()} == {torch.float32}


def test_a_model_that_needs_its_own_precision_says_so() -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3).half()

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.layer(x.half())
            return out

    with pytest.raises(ValueError, match=r"a copy in float32 was called; the model has float16 weights"):
        freeze_module(Half(), rows(3, 4))


def test_a_model_without_values_is_refused() -> None:
    with pytest.raises(ValueError, match="meta device"):
        freeze_module(ImageModel().to("meta"), X[:3])


def test_a_function_of_tensors_is_explained_as_one_of_arrays(tmp_path: Path) -> None:
    model = seeded(ImageModel).eval()

    def by_tensors(x: Tensor) -> dict[str, Tensor]:
        return {"logits": model(x).softmax(1)}

    def by_arrays(x: np.ndarray) -> np.ndarray:
        found: np.ndarray = model(torch.from_numpy(x)).softmax(1).detach().numpy()
        return found

    tensors, arrays = (fit(fw.FeatureExplainer(ask, GRID, device="cpu")) for ask in (by_tensors, by_arrays))
    assert tensors.masked_model_.output == "probability"
    assert_close(tensors.explain(X[:4]).values, arrays.explain(X[:4]).values)
    tensors.save(tmp_path)
    loaded = fw.load(tmp_path, model=by_tensors, device="cpu")
    assert_close(loaded.predictions(X).model, tensors.predictions(X).model)


def test_what_was_tried_is_said() -> None:
    def fails(x: Any) -> Tensor:  # noqa: ANN401 - an array or a tensor
        return torch.cat([x, torch.ones(1)])

    with pytest.raises(
        ValueError, match=r"a ndarray of shape \(3, 4\): TypeError.*; and on a float32 tensor on cpu: Runt"
    ):
        find_form(find_function(fails), rows(3, 4), None)


def test_a_function_may_write_to_its_tensors() -> None:
    def writes(x: Tensor) -> Tensor:
        return x.clamp_(min=0).sum((1, 2, 3))

    x = X[:3].clone()
    form, _ = find_form(find_function(writes), x, None)
    assert form == InputForm(tensors=True)
    assert torch.equal(x, X[:3])


def test_sampling_of_tables_takes_these_models_too() -> None:
    layer = nn.Linear(4, 2).double()
    background = rows(20, 4).numpy()
    explainers = [
        fw.InterventionalExplainer(model, background, output="raw", progress=False, device="cpu")
        for model in (layer, lambda x: {"logits": layer(x.double())}, lambda x: x @ layer.weight.detach().numpy().T)
    ]
    module, tensors, arrays = (explainer.explain(background[:3]).values for explainer in explainers)
    np.testing.assert_allclose(module, arrays, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(tensors, arrays, rtol=1e-4, atol=1e-5)
