import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64
from numpy import ndarray
from sklearn.ensemble import RandomForestClassifier

import fwshapley as fw
from fwshapley.players import Players
from fwshapley.trees.ensemble import TreeEnsemble
from fwshapley.trees.explainer import TreeExplainer
from trees.brute_trees import (
    Game,
    interactions_of,
    interventional_game,
    path_game,
    random_ensemble,
    random_rows,
    semivalues_of,
    weightings,
)

TOLERANCE = 1e-12
BACKGROUND = random_rows(1, 9)
WEIGHT = np.random.default_rng(2).random(9)
GROUPED = fw.groups({"a": [0, 3], "b": [2, 5]}, 6)


def make_explainer(game: str, ensemble: TreeEnsemble, players: Players | None = None) -> TreeExplainer:
    if game == "path-dependent":
        return TreeExplainer(ensemble, players=players)
    return TreeExplainer(ensemble, BACKGROUND, background_weights=WEIGHT, players=players)


def game_of(game: str, ensemble: TreeEnsemble, x: Float64[ndarray, " columns"], players: Players | None = None) -> Game:
    player_of = np.arange(6) if players is None else players.assignment
    if game == "path-dependent":
        return path_game(ensemble, x, player_of)
    return interventional_game(ensemble, x, BACKGROUND, WEIGHT / WEIGHT.sum(), player_of)


every_game = pytest.mark.parametrize("game", ["interventional", "path-dependent"])


@every_game
@pytest.mark.parametrize("players", [None, GROUPED], ids=["columns", "groups"])
@pytest.mark.parametrize(
    "trees",
    [{}, {"depth": 9}, {"outputs": 3}, {"outputs": 2, "one_output_each": True}, {"depth": 0}, {"depth": 1, "trees": 1}],
    ids=str,
)
def test_values_are_those_of_enumeration(game: str, players: Players | None, trees: dict[str, Any]) -> None:
    ensemble = random_ensemble(5, **trees)
    x = random_rows(3, 4)
    n = 6 if players is None else players.n_players
    explainer = make_explainer(game, ensemble, players)
    found = explainer.explain(x, weights=weightings(n))
    assert found.values.shape == (14, 4, n, ensemble.n_outputs)
    for row in range(4):
        truth = game_of(game, ensemble, x[row], players)
        np.testing.assert_allclose(found.values[:, row], semivalues_of(truth, n, weightings(n)), atol=TOLERANCE)
        np.testing.assert_allclose(found.base_values[row], truth(frozenset()), atol=TOLERANCE)


@every_game
def test_one_weighting_is_that_of_the_list(game: str) -> None:
    ensemble, x = random_ensemble(6, outputs=2), random_rows(3, 5)
    explainer = make_explainer(game, ensemble)
    together = explainer.explain(x, weights=weightings(6))
    for number, semivalue in enumerate(weightings(6)):
        alone = explainer.explain(x, weights=semivalue)
        assert alone.values.shape == (5, 6, 2)
        np.testing.assert_allclose(alone.values, together.values[number], atol=TOLERANCE)


@every_game
def test_interactions_are_those_of_enumeration(game: str) -> None:
    ensemble, x = random_ensemble(7, outputs=2), random_rows(3, 3)
    explainer = make_explainer(game, ensemble)
    found = explainer.interactions(x, weights=weightings(6))
    values = explainer.explain(x, weights=weightings(6)).values
    np.testing.assert_allclose(found.sum(3), values, atol=TOLERANCE)
    off_diagonal = ~np.eye(6, dtype=bool)
    for row in range(3):
        truth = interactions_of(game_of(game, ensemble, x[row]), 6, weightings(6)) / 2
        np.testing.assert_allclose(found[:, row][:, off_diagonal], truth[:, off_diagonal], atol=TOLERANCE)


@every_game
def test_efficient_values_sum_to_the_gain(game: str) -> None:
    ensemble, x = random_ensemble(8, outputs=2), random_rows(3, 5)
    found = make_explainer(game, ensemble).explain(x, weights=weightings(6), total="efficient")
    gain = ensemble.predict(x) - found.base_values
    np.testing.assert_allclose(found.values.sum(2), np.broadcast_to(gain, (14, 5, 2)), atol=TOLERANCE)
    raw = make_explainer(game, ensemble).explain(x)
    np.testing.assert_allclose(raw.values.sum(1), gain, atol=TOLERANCE)  # Shapley values are efficient


def test_rows_are_explained_independently_and_repeatably() -> None:
    ensemble, x = random_ensemble(9, trees=20), random_rows(3, 700)
    explainer = make_explainer("interventional", ensemble)
    together = explainer.explain(x).values
    assert np.array_equal(together, explainer.explain(x).values)
    np.testing.assert_allclose(explainer.explain(x[5:9]).values, together[5:9], atol=TOLERANCE)


def test_outputs_are_chosen() -> None:
    ensemble, x = random_ensemble(10, outputs=3), random_rows(3, 4)
    explainer = make_explainer("path-dependent", ensemble)
    everything = explainer.explain(x, weights=weightings(6))
    some = explainer.explain(x, weights=weightings(6), outputs=["o2", "o0"])
    assert np.array_equal(some.values, everything.values[..., [2, 0]])
    predicted = explainer.explain(x, outputs="predicted")
    largest = ensemble.predict(x).argmax(1)
    assert np.array_equal(predicted.outputs[:, 0], largest)
    expected = everything.values[0][np.arange(4), :, largest]
    np.testing.assert_allclose(predicted.values[..., 0], expected, atol=TOLERANCE)
    assert np.array_equal(predicted.base_values[:, 0], explainer.base_values[largest])


@pytest.mark.usefixtures("unchecked")
def test_numbers_of_outputs_may_be_an_array() -> None:
    explainer, x = make_explainer("path-dependent", random_ensemble(10, outputs=3)), random_rows(3, 4)
    some = explainer.explain(x, outputs=np.array([2, 0]))  # type: ignore[arg-type]
    assert np.array_equal(some.values, explainer.explain(x).values[..., [2, 0]])


def test_targets_are_not_classes_of_which_one_is_predicted() -> None:
    x = random_rows(3, 60)
    targets = np.stack([x[:, 0] > 0, x[:, 1] > 0], 1).astype(int)
    several = TreeExplainer(RandomForestClassifier(3, random_state=0).fit(x, targets))
    assert several.output_names == ("output 0: 0", "output 0: 1", "output 1: 0", "output 1: 1")
    with pytest.raises(ValueError, match="needs a classifier"):
        several.explain(x, outputs="predicted")
    with pytest.raises(ValueError, match="only 'o0': leave outputs out"):
        TreeExplainer(random_ensemble(10)).explain(x, outputs="predicted")
    one = TreeExplainer(RandomForestClassifier(3, random_state=0).fit(x, targets[:, 0]))
    assert one.explain(x, outputs="predicted").values.shape == (60, 6, 1)


@pytest.mark.parametrize("rows", [1, 40])
def test_one_player_interacts_with_nobody(rows: int) -> None:
    ensemble, x = random_ensemble(5), random_rows(3, rows)
    explainer = TreeExplainer(ensemble, BACKGROUND, players=fw.groups({"all": range(6)}, 6))
    np.testing.assert_allclose(explainer.interactions(x)[:, :, 0], explainer.explain(x).values, atol=TOLERANCE)


def test_the_folder_that_the_command_line_writes_is_loaded(tmp_path: Path) -> None:
    explainer, x = make_explainer("path-dependent", random_ensemble(12)), random_rows(3, 4)
    explainer.save(tmp_path / "explainer.safetensors")
    assert np.array_equal(fw.load(tmp_path).explain(x).values, explainer.explain(x).values)


@every_game
def test_saved_explainer_explains_the_same(game: str, tmp_path: Path) -> None:
    ensemble, x = random_ensemble(11, outputs=2), random_rows(3, 4)
    explainer = make_explainer(game, ensemble, GROUPED)
    explainer.save(tmp_path / "trees.safetensors")
    loaded = TreeExplainer.load(tmp_path / "trees.safetensors")
    assert repr(loaded) == repr(explainer)
    assert np.array_equal(loaded.explain(x).values, explainer.explain(x).values)
    assert loaded.players.names == explainer.players.names


def test_attribution_is_saved_and_tabulated(tmp_path: Path) -> None:
    found = make_explainer("path-dependent", random_ensemble(12)).explain(random_rows(3, 4), weights=[fw.Shapley()])
    found.save(tmp_path / "attribution.safetensors")
    assert np.array_equal(fw.Attribution.load(tmp_path / "attribution.safetensors").values, found.values)
    assert len(found.to_dataframe()) == 4 * 6


@pytest.mark.usefixtures("unchecked")
def test_bad_arguments_are_named() -> None:
    ensemble, x = random_ensemble(13), random_rows(3, 4)
    explainer = TreeExplainer(ensemble)
    with pytest.raises(ValueError, match="background_weights need a background"):
        TreeExplainer(ensemble, background_weights=WEIGHT)
    with pytest.raises(ValueError, match="background must have shape"):
        TreeExplainer(ensemble, x[:, :3])
    with pytest.raises(ValueError, match="no rows"):
        TreeExplainer(ensemble, x[:0])
    with pytest.raises(ValueError, match=r"shape \(4,\)"):
        TreeExplainer(ensemble, x, background_weights=WEIGHT)
    with pytest.raises(ValueError, match="not all zero"):
        TreeExplainer(ensemble, x, background_weights=np.zeros(4))
    with pytest.raises(ValueError, match="6 columns"):
        TreeExplainer(ensemble, players=fw.columns(4))
    with pytest.raises(TypeError, match="players"):
        TreeExplainer(ensemble, players=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="x must have shape"):
        explainer.explain(x[:, :3])
    with pytest.raises(ValueError, match=r"pass one row as a batch, x\[\[0\]\]"):
        explainer.explain(x[0])
    with pytest.raises(ValueError, match=r"output='probability' cannot be explained exactly"):
        TreeExplainer(ensemble, output="probability")
    with pytest.raises(ValueError, match="among 'o0'"):
        explainer.explain(x, outputs=["o7"])
    with pytest.raises(ValueError, match="between 0 and 0"):
        explainer.explain(x, outputs=[2])
    with pytest.raises(ValueError, match="total"):
        explainer.explain(x, total="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="games of 4 players"):
        explainer.explain(x, weights=fw.Cardinality([1, 2, 3, 4]))


def test_torch_is_not_imported() -> None:
    code = """
import sys
import numpy as np
from sklearn.ensemble import RandomForestRegressor
from fwshapley.semivalues import Beta
from fwshapley.trees.ensemble import TreeEnsemble
from fwshapley.trees.explainer import TreeExplainer
x = np.random.default_rng(0).normal(size=(50, 3))
TreeExplainer(RandomForestRegressor(3).fit(x, x[:, 0]), x).explain(x, weights=[Beta(4, 1)])
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - this code
