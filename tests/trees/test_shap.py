"""Shapley values beside shap's TreeExplainer, which computes them only."""

import numpy as np
import pytest
from jaxtyping import Float64
from numpy import ndarray
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor

from fwshapley.trees.explainer import TreeExplainer
from trees.rows import Model

shap = pytest.importorskip("shap")

Table = tuple[Float64[ndarray, "rows columns"], Float64[ndarray, " rows"]]


@pytest.fixture(params=["forest", "boosting", "classifier"])
def model(request: pytest.FixtureRequest, table: Table) -> Model:
    x, y = table
    if request.param == "forest":
        return RandomForestRegressor(10, max_depth=7, random_state=0).fit(x, y)
    if request.param == "boosting":
        return HistGradientBoostingRegressor(max_iter=10, random_state=0).fit(x, y)
    return RandomForestClassifier(10, max_depth=6, random_state=0).fit(x, y.round().clip(0, 2))


@pytest.fixture
def table() -> Table:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(300, 6)).astype(np.float32).astype(np.float64)
    return x, x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + np.abs(x[:, 3])


def test_values_of_both_games_are_those_of_shap(model: Model, table: Table) -> None:
    x = table[0]
    for background in (x[:20], None):
        perturbation = "tree_path_dependent" if background is None else "interventional"
        theirs = shap.TreeExplainer(model, background, feature_perturbation=perturbation)
        expected = theirs.shap_values(x[:30], check_additivity=False).reshape(30, 6, -1)
        explainer = TreeExplainer(model, background)
        np.testing.assert_allclose(explainer.explain(x[:30]).values, expected, atol=1e-5)
        np.testing.assert_allclose(explainer.base_values, np.ravel(theirs.expected_value), atol=1e-5)


def test_interactions_are_those_of_shap(table: Table) -> None:
    x, y = table
    model = RandomForestRegressor(5, max_depth=6, random_state=0).fit(x, y)
    expected = shap.TreeExplainer(model).shap_interaction_values(x[:10])
    np.testing.assert_allclose(TreeExplainer(model).interactions(x[:10])[..., 0], expected, atol=1e-5)


def test_explanation_has_the_form_of_shap(model: Model, table: Table) -> None:
    x = table[0][:5]
    ours, theirs = TreeExplainer(model)(x), shap.TreeExplainer(model)(x)
    assert ours.values.shape == theirs.values.shape
    assert np.shape(ours.base_values) == np.shape(theirs.base_values)
    total = ours.values.sum(1) + ours.base_values
    np.testing.assert_allclose(total, theirs.values.sum(1) + theirs.base_values, atol=1e-5)


def test_no_rows_have_an_explanation_without_rows(model: Model, table: Table) -> None:
    assert len(TreeExplainer(model)(table[0][:0])) == 0


def test_plots_of_shap_take_explanations(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    x, y = table
    explanation = TreeExplainer(RandomForestRegressor(5, max_depth=4, random_state=0).fit(x, y), x[:20])(x[:30])
    figures = set(pyplot.get_fignums())
    shap.plots.waterfall(explanation[0], show=False)
    pyplot.figure()
    shap.plots.beeswarm(explanation, show=False)
    names = [label.get_text() for axes in pyplot.gcf().axes for label in axes.get_yticklabels()]
    assert {"column 0", "column 1"} <= set(names)
    for number in set(pyplot.get_fignums()) - figures:
        pyplot.close(number)
