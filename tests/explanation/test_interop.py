from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from torch import Tensor, nn
from torch.testing import assert_close

import fwshapley as fw
from fwshapley.explanation.interop import choose_targets, spread_over_inputs
from fwshapley.explanation.shap_explanation import to_shap
from fwshapley.networks.mlp import TableNetwork
from models import ImageModel, TableModel, images, rows, seeded

N, CLASSES = 4, 3
X = rows(80, N)
NAMES = list("abcd")
TABLE = pd.DataFrame(X.double().numpy(), columns=NAMES)
LABELS = np.arange(80) % CLASSES
GRID = fw.grid(8, 8, patch=4)


def fit(explainer: fw.FeatureExplainer, x: Any = X, *, steps: int = 3) -> fw.FeatureExplainer:  # noqa: ANN401 - a table or images
    return explainer.fit(x, budget=fw.Budget(steps=steps), batch_size=32, n_coalitions=8, progress=False)


@pytest.fixture(scope="module")
def classifier() -> fw.FeatureExplainer:
    model = LogisticRegression().fit(TABLE, np.array(["cat", "dog", "cow"])[LABELS])
    return fit(fw.FeatureExplainer(model), TABLE)


@pytest.fixture(scope="module")
def regressor() -> fw.FeatureExplainer:
    return fit(fw.FeatureExplainer(LinearRegression().fit(TABLE, LABELS * 1e3)), TABLE)


@pytest.fixture(scope="module")
def image() -> fw.FeatureExplainer:
    return fit(fw.FeatureExplainer(seeded(ImageModel), GRID), images(40))


def everyone(explainer: fw.FeatureExplainer, x: Any) -> NDArray[np.float32]:  # noqa: ANN401 - a table or images
    """What the surrogate says of whole inputs."""
    found = []
    for row in range(len(x)):
        game = explainer.game(x[row : row + 1])
        found.append(game(torch.ones(1, game.n_players, dtype=torch.bool))[0])
    return torch.stack(found).numpy()


def test_an_explanation_adds_up_to_the_prediction(classifier: fw.FeatureExplainer) -> None:
    found = classifier(TABLE[:6])
    assert found.values.shape == (6, N, CLASSES)
    assert found.base_values.shape == (6, CLASSES)
    np.testing.assert_allclose(found.values.sum(1) + found.base_values, everyone(classifier, TABLE[:6]), atol=1e-5)
    assert found.feature_names == NAMES
    assert found.output_names == ["cat", "cow", "dog"]
    assert np.array_equal(found.data, TABLE[:6].to_numpy())
    beta = fw.Beta(4, 1)
    other = classifier(TABLE[:6], weights=beta)
    np.testing.assert_allclose(other.values.sum(1), found.values.sum(1), atol=1e-5)
    expected = classifier.explain(TABLE[:6], weights=beta, total="efficient").values
    assert np.array_equal(other.values, expected.numpy())


def test_an_explanation_of_one_output_has_no_axis_for_it(regressor: fw.FeatureExplainer) -> None:
    found = regressor(TABLE[:6])
    assert found.values.shape == (6, N)
    assert found.base_values.shape == (6,)
    expected = everyone(regressor, TABLE[:6])[:, 0]
    np.testing.assert_allclose(found.values.sum(1) + found.base_values, expected, rtol=1e-5)


def test_an_explanation_of_some_outputs_names_them(classifier: fw.FeatureExplainer) -> None:
    found = classifier(TABLE[:6], outputs=[2, 0])
    assert found.values.shape == (6, N, 2)
    assert found.output_names == ["dog", "cat"]
    assert np.array_equal(found.values, classifier(TABLE[:6]).values[..., [2, 0]])
    one = classifier(TABLE[:6], outputs=[1])
    assert (one.values.shape, one.output_names) == ((6, N), "cow")
    assert one[0].base_values.shape == ()
    mixed = classifier(TABLE[:6], outputs=torch.arange(6)[:, None] % 2)
    assert mixed.values.shape == (6, N)
    assert mixed.output_names is None  # another for each input


def test_the_data_of_an_explanation_are_in_the_order_of_its_features(classifier: fw.FeatureExplainer) -> None:
    other = TABLE.assign(extra=0.0)[["extra", *NAMES[::-1]]]
    found = classifier(other[:6])
    assert np.array_equal(found.data, TABLE[:6].to_numpy())
    assert np.array_equal(found.values, classifier(TABLE[:6]).values)


@pytest.mark.parametrize("kind", ["tensor", "array", "list"])
def test_the_data_of_an_explanation_may_be_of_any_kind(classifier: fw.FeatureExplainer, kind: str) -> None:
    x: Any = {"tensor": X[:6].clone().requires_grad_(), "array": X[:6].numpy(), "list": X[:6].tolist()}[kind]
    assert np.array_equal(classifier(x).data, X[:6].numpy())


def test_the_data_of_groups_and_images_are_left_out(image: fw.FeatureExplainer) -> None:
    pairs = fw.groups({"ab": ["a", "b"]}, names=NAMES)
    grouped = fit(fw.FeatureExplainer(seeded(TableModel), pairs, surrogate=None))(TABLE[:6])
    assert grouped.values.shape == (6, 3, CLASSES)
    assert grouped.feature_names == ["ab", "c", "d"]
    assert grouped.data is None
    found = image(images(2, seed=1))
    assert found.values.shape == (2, 4, CLASSES)
    assert found.data is None
    np.testing.assert_allclose(found.values.sum(1) + found.base_values, everyone(image, images(2, seed=1)), atol=1e-5)


def test_as_many_channels_as_players_are_no_features() -> None:
    bands = fw.segments([[column // 3 for column in range(8)]] * 8)
    explainer = fit(fw.FeatureExplainer(seeded(ImageModel, CLASSES, 3), bands), images(40, channels=3))
    assert explainer(images(2, channels=3)).data is None


def test_text_is_shown_as_it_is() -> None:
    table = pd.DataFrame({"city": ["Rome", "Bonn"] * 30, "age": np.arange(60)})

    def old(given: pd.DataFrame) -> NDArray[np.float64]:
        return ((given["city"] == "Rome") * given["age"]).to_numpy(np.float64)

    found = fit(fw.FeatureExplainer(old), table)(table[:2])
    assert found.data.tolist() == [["Rome", 0], ["Bonn", 1]]


def test_what_does_not_add_up_is_no_explanation(classifier: fw.FeatureExplainer) -> None:
    with pytest.raises(ValueError, match="total must be 'efficient'"):
        classifier(TABLE[:2], total="raw")
    with pytest.raises(ValueError, match="total must be 'efficient'"):
        to_shap(classifier.explain(TABLE[:2]))
    several = classifier.explain(TABLE[:2], weights=[fw.Shapley()], total="efficient")
    with pytest.raises(ValueError, match="weights must be one semivalue for shap"):
        to_shap(several)
    assert np.array_equal(to_shap(classifier.explain(TABLE[:2], total="efficient")).data, X[:2].numpy())


def test_without_shap_it_is_named(classifier: fw.FeatureExplainer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(ModuleNotFoundError, match=r"shap.Explanation needs shap: pip install shap"):
        classifier(TABLE[:2])


def test_shaps_plots_take_an_explanation(classifier: fw.FeatureExplainer, regressor: fw.FeatureExplainer) -> None:
    shap = pytest.importorskip("shap")
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of a backend

    for found in (classifier(TABLE[:20])[..., 1], regressor(TABLE[:20])):
        shap.plots.bar(found, show=False)
        assert {label.get_text() for label in plt.gca().get_yticklabels()} >= set(NAMES)
        plt.close("all")
        shap.plots.beeswarm(found, show=False)
        assert {label.get_text() for label in plt.gca().get_yticklabels()} == set(NAMES)
        plt.close("all")
        shap.plots.waterfall(found[0], show=False)
        plt.close("all")


def test_an_attribution_over_a_table_has_its_shape(classifier: fw.FeatureExplainer) -> None:
    values = classifier.explain(X[:6]).values
    assert torch.equal(classifier.attribute(X[:6], 1), values[..., 1])
    assert torch.equal(classifier.attribute(TABLE[:6], target=2), values[..., 2])
    each = torch.tensor([0, 1, 2, 2, 1, 0])
    assert torch.equal(classifier.attribute(X[:6], each), values[torch.arange(6), :, each])
    efficient = classifier.attribute(X[:6], 1, weights=fw.Banzhaf(), total="efficient")
    expected = classifier.explain(X[:6], weights=fw.Banzhaf(), total="efficient", outputs=[1])
    assert torch.equal(efficient, expected.values[..., 0])


def test_every_column_of_a_group_has_its_value() -> None:
    players = fw.groups({"pair": [0, 2]}, count=N)
    explainer = fit(fw.FeatureExplainer(seeded(TableModel), players, surrogate=None))
    values = explainer.explain(X[:6]).values[..., 0]
    assert torch.equal(explainer.attribute(X[:6], 0), values[:, [0, 1, 0, 2]])


@pytest.mark.parametrize(
    "players", [GRID, fw.segments([[column // 3 for column in range(8)]] * 8)], ids=["grid", "bands"]
)
def test_every_pixel_has_the_value_of_its_player(players: fw.players.Players) -> None:
    explainer = fit(
        fw.FeatureExplainer(seeded(ImageModel, CLASSES, 2), players, surrogate=None), images(30, channels=2)
    )
    x = images(3, channels=2, seed=1)
    found, values = explainer.attribute(x, 1), explainer.explain(x).values[..., 1]
    assert found.shape == x.shape
    for player in range(players.n_players):
        there = found[:, :, players.assignment == player]
        assert torch.equal(there, values[:, None, player, None].expand_as(there))


def test_a_target_is_needed_where_there_are_several_outputs(
    classifier: fw.FeatureExplainer, regressor: fw.FeatureExplainer
) -> None:
    with pytest.raises(ValueError, match="target must be the number of one of 3 outputs"):
        classifier.attribute(X[:2])
    with pytest.raises(ValueError, match="target must be between 0 and 2, got 3"):
        classifier.attribute(X[:2], 3)
    with pytest.raises(ValueError, match=r"one per input \(4\)"):
        classifier.attribute(X[:4], torch.tensor([0, 1]))
    assert torch.equal(regressor.attribute(X[:2]), regressor.explain(X[:2]).values[..., 0])
    assert torch.equal(choose_targets(np.array([1, 0]), 2, 3), torch.tensor([[1], [0]]))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("target", "message"),
    [
        (9, "target must be between 0 and 2, got 9$"),
        (-1, "target must be between 0 and 2, got -1$"),
        (torch.tensor([0, 1, 9]), "target must be between 0 and 2, got 9$"),
        (1.5, "target must be whole numbers, got float32"),
        (True, "target must be whole numbers, got bool"),
        ("cat", "target must be the number of an output, .* got 'cat'"),
        ([0, 1], r"target must be one number, or one per input \(3\), .* shape \(2,\)"),
        ([[0, 1, 2]] * 3, r"target .* shape \(3, 3\)"),
    ],
)
def test_targets_that_make_no_sense_are_named(classifier: fw.FeatureExplainer, target: Any, message: str) -> None:  # noqa: ANN401 - anything
    with pytest.raises((TypeError, ValueError), match=message):
        classifier.attribute(TABLE[:3], target)


def test_the_convention_is_captums() -> None:
    attr = pytest.importorskip("captum.attr")

    class Additive(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([x.sum((1, 2, 3)), -2 * x.sum((1, 2, 3))], 1)

    x = images(2, channels=2, seed=1)
    for players in (GRID, fw.segments([[column // 3 for column in range(8)]] * 8)):
        explainer = fit(
            fw.FeatureExplainer(Additive(), players, surrogate=None, output="raw", network="slim"),
            images(30, channels=2),
            steps=1,
        )
        exact = torch.stack([fw.exact_values(explainer.game(each), fw.Shapley()).float() for each in x])
        spread = spread_over_inputs(explainer.explain(x, outputs=[1]))
        mine = exact[..., 1][:, players.assignment][:, None].expand_as(x)
        torch.manual_seed(0)
        theirs = attr.ShapleyValueSampling(Additive()).attribute(
            x, target=1, n_samples=1, feature_mask=players.assignment_on(torch.device("cpu")).repeat(1, 2, 1, 1)
        )
        assert theirs.shape == explainer.attribute(x, 1).shape == spread.shape
        assert_close(mine, theirs, rtol=1e-3, atol=1e-3)
        same = theirs == theirs.flatten(2).amin(2)[..., None, None]
        assert not bool(same.all())  # players differ, pixels of one do not


def test_a_clone_is_not_fitted_and_asks_the_same_model() -> None:
    model = LogisticRegression().fit(TABLE, LABELS)
    explainer = fit(fw.FeatureExplainer(model, seed=3, output="logit"), TABLE, steps=1)
    twin = clone(explainer)
    assert twin is not explainer
    assert twin.get_params() == explainer.get_params()
    assert twin.model is model
    assert "not fitted" in repr(twin)
    assert twin.players is None
    with pytest.raises(NotFittedError, match="not fitted"):
        twin.explain(TABLE[:2])
    again = fit(twin, TABLE, steps=1).explain(TABLE[:2]).values
    assert torch.equal(again, explainer.explain(TABLE[:2]).values)


def test_parameters_are_set_and_the_fit_forgotten() -> None:
    explainer = fit(fw.FeatureExplainer(seeded(TableModel), surrogate=None), steps=1)
    assert explainer.get_params(deep=False)["seed"] == 0
    assert explainer.set_params(seed=5, output="raw") is explainer
    assert (explainer.seed, explainer.output, explainer.surrogate) == (5, "raw", None)
    assert explainer.get_params()["seed"] == 5
    with pytest.raises(NotFittedError, match="not fitted"):
        explainer.explain(X[:2])
    with pytest.raises(ValueError, match=r"Invalid parameter '(color|size)'.*'model', 'network'"):
        explainer.set_params(size=3, color="red", seed=6)
    with pytest.raises(ValueError, match="seed must be at least 0"):
        fit(explainer.set_params(seed=-1))
    assert fit(explainer.set_params(seed=5), steps=1).explain(X[:2]).values.shape == (2, N, CLASSES)


@pytest.mark.parametrize("given", [True, False], ids=["with its model", "without"])
def test_an_explainer_that_was_loaded_has_its_parameters(
    classifier: fw.FeatureExplainer, tmp_path: Path, *, given: bool
) -> None:
    classifier.save(tmp_path)
    loaded = fw.load(tmp_path, model=classifier.model if given else None)
    found = loaded.get_params()
    assert found.keys() == classifier.get_params().keys()
    plain = ("surrogate", "output", "network", "removal", "output_names", "seed")
    assert {name: found[name] for name in plain} == {name: classifier.get_params()[name] for name in plain}
    assert (loaded.players, loaded.players_.names) == (None, classifier.players_.names)
    assert loaded.objective == classifier.objective
    twin = clone(loaded)
    assert "not fitted" in repr(twin)
    if given:
        assert found["model"] is classifier.model
        assert fit(twin, TABLE, steps=1).explain(TABLE[:2]).output_names == ("cat", "cow", "dog")
    else:
        with pytest.raises(RuntimeError, match="loaded without its model"):
            fit(twin, TABLE, steps=1)


def test_a_student_has_the_parameters_of_its_own_network(classifier: fw.FeatureExplainer) -> None:
    def small(channels: int) -> nn.Module:
        return TableNetwork(X, N, channels, width=8, depth=1)

    student = classifier.distill(TABLE, network=small, budget=fw.Budget(steps=1), progress=False)
    assert student.get_params()["network"] is small
    assert classifier.get_params()["network"] == "auto"
