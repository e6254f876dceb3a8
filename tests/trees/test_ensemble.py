import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier

from fwshapley.trees.ensemble import TreeEnsemble
from fwshapley.trees.model_reader import read_model
from fwshapley.trees.tree import Tree, drop_unreached, join_trees
from trees.rows import make_table

STUMP: dict[str, Any] = {
    "feature": np.array([0, -1, -1]),
    "threshold": np.array([0.5, 0, 0]),
    "left": np.array([1, -1, -1]),
    "right": np.array([2, -1, -1]),
    "value": np.array([[0.0], [1.0], [3.0]]),
    "cover": np.array([4.0, 3.0, 1.0]),
    "roots": np.array([0]),
    "base": np.array([10.0]),
    "feature_names": ("height",),
    "output_names": ("price",),
    "output": "value",
    "input_dtype": "float64",
}


def make_stump(**changes: Any) -> TreeEnsemble:  # noqa: ANN401 - any field
    return TreeEnsemble(**STUMP | changes)


def test_a_value_at_the_threshold_goes_left_and_a_missing_one_where_the_node_says() -> None:
    x = np.array([[0.5], [np.nextafter(0.5, 1)], [np.nan]])
    assert make_stump().predict(x).ravel().tolist() == [11, 13, 13]
    assert make_stump(missing_left=np.array([True, False, False])).predict(x).ravel().tolist() == [11, 13, 11]
    assert make_stump().apply(x).ravel().tolist() == [1, 2, 2]


def test_inputs_are_rounded_to_float32_where_the_library_does() -> None:
    x = np.array([[0.5 + 1e-9]])
    assert make_stump().predict(x).item() == 13
    assert make_stump(input_dtype="float32").predict(x).item() == 11
    assert make_stump(input_dtype="float32").predict([[1e300]]).item() == 13


def test_categories_go_left_if_they_are_in_the_set_and_others_where_the_node_says() -> None:
    categories = {
        "categories": np.array([0, -1, -1]),
        "category_sets": np.array([[False, True, False]]),
        "unseen_left": np.array([True, False, False]),
    }
    x = np.array([[0], [1], [2], [3], [-1], [1e12]])
    assert make_stump(**categories).predict(x).ravel().tolist() == [13, 11, 13, 11, 11, 11]
    assert make_stump(**categories, levels={0: ("a", "b", "c")}).predict([["b"], ["c"]]).ravel().tolist() == [11, 13]
    with pytest.raises(ValueError, match=r"1\.5 in column 'height', row 0, must be a whole category code"):
        make_stump(**categories).predict([[1.5]])


def test_flags_and_objects_are_numbers() -> None:
    assert make_stump().predict(np.array([[True], [False]])).ravel().tolist() == [13, 11]
    assert make_stump().predict(np.array([[0.2], [None], [7]], dtype=object)).ravel().tolist() == [11, 13, 13]
    with pytest.raises(TypeError, match="x must contain numbers"):
        make_stump().predict(np.array([["tall"]], dtype=object))


def test_a_number_may_count_as_missing() -> None:
    stump = make_stump(missing_number=np.array([-1.0]))
    assert stump.predict([[-1.0], [-2.0]]).ravel().tolist() == [13, 11]
    with pytest.raises(ValueError, match="nan in column 'height', row 1, is missing"):
        make_stump(accepts_missing=np.array([False])).predict([[0.0], [np.nan]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"left": np.array([0, -1, -1])}, "one parent"),
        ({"left": np.array([2, -1, -1])}, "one parent"),
        ({"left": np.array([7, -1, -1])}, r"nodes 0\.\.2"),
        ({"left": np.array([-1, -1, -1])}, r"nodes 0\.\.2"),
        ({"roots": np.array([1])}, "no root"),
        ({"feature": np.array([1, -1, -1])}, "feature must be below 1"),
        ({"threshold": np.array([np.nan, 0, 0])}, "threshold"),
        ({"value": np.array([[0.0], [np.inf], [3.0]])}, "value must be finite"),
        ({"cover": np.array([-1.0, 3.0, 1.0])}, "cover"),
        ({"output_names": ("price", "tax")}, "value must have shape"),
        ({"categories": np.array([4, -1, -1])}, "category_sets"),
        ({"output": "score"}, "output"),
        ({"input_dtype": "float16"}, "input_dtype"),
        ({"unseen": "ignored"}, "unseen"),
        ({"zero_threshold": -1.0}, "zero_threshold"),
    ],
    ids=str,
)
def test_arrays_that_are_no_trees_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make_stump(**changes)


def test_trees_whose_nodes_are_mixed_are_refused() -> None:
    mixed = {
        "feature": np.array([0, 0, -1, -1, -1, -1]),
        "threshold": np.zeros(6),
        "left": np.array([2, 3, -1, -1, -1, -1]),
        "right": np.array([4, 5, -1, -1, -1, -1]),
        "value": np.zeros((6, 1)),
        "cover": np.ones(6),
        "roots": np.array([0, 1]),
    }
    with pytest.raises(ValueError, match="node 0 must have its children in its own tree"):
        make_stump(**mixed)


def test_nodes_that_pruning_has_cut_off_are_dropped() -> None:
    nodes = 5
    tree = Tree(
        feature=np.array([0, 7, -1, 0, -1]),
        threshold=np.zeros(nodes),
        left=np.array([4, -1, -1, 2, -1]),
        right=np.array([3, -1, -1, 2, -1]),
        missing_left=np.zeros(nodes, dtype=bool),
        value=np.arange(nodes)[:, None] * 1.0,
        cover=np.ones(nodes),
        categories={3: np.array([1])},
    )
    kept = drop_unreached(tree)
    assert kept.value.ravel().tolist() == [0, 2, 3, 4]
    assert kept.left.tolist() == [3, -1, 1, -1]
    assert list(kept.categories) == [2]


def test_a_category_code_that_would_need_too_much_memory_is_refused() -> None:
    leaf = np.array([-1, -1])
    tree = Tree(
        feature=np.append([0], leaf),
        threshold=np.zeros(3),
        left=np.append([1], leaf),
        right=np.append([2], leaf),
        missing_left=np.zeros(3, dtype=bool),
        value=np.zeros((3, 1)),
        cover=np.ones(3),
        categories={0: np.array([2**31])},
    )
    with pytest.raises(ValueError, match="number the categories"):
        join_trees([tree])


def test_save_and_load(tmp_path: Path) -> None:
    x = make_table()
    x[:, 3] = np.round(np.nan_to_num(x[:, 3]))
    model = HistGradientBoostingRegressor(max_iter=5, categorical_features=[3]).fit(x, np.nan_to_num(x[:, 0]) + x[:, 3])
    ensemble = read_model(model)
    ensemble.save(tmp_path / "trees")
    loaded = TreeEnsemble.load(tmp_path / "trees")
    np.testing.assert_array_equal(loaded.predict(x), ensemble.predict(x))
    assert (loaded.levels, loaded.source, loaded.named) == (ensemble.levels, ensemble.source, ensemble.named)
    assert loaded.feature_names == ensemble.feature_names
    assert read_model(loaded) is loaded


def test_predictions_do_not_depend_on_the_number_of_threads() -> None:
    x = np.nan_to_num(make_table(2000))
    ensemble = read_model(RandomForestClassifier(5, random_state=0).fit(x, x[:, 0] > 0))
    whole = ensemble.predict(x)
    np.testing.assert_array_equal(whole, np.concatenate([ensemble.predict(part) for part in np.array_split(x, 7)]))
    assert ensemble.predict(x[:0]).shape == (0, 2)


def test_other_objects_and_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="FeatureExplainer"):
        read_model(lambda x: x)
    for content, message in {"[1, 2]": "JSON with", "{": "neither JSON", json.dumps({"a": 1}): "'a'"}.items():
        (tmp_path / "model.json").write_text(content)
        with pytest.raises(ValueError, match=message):
            read_model(tmp_path / "model.json")


def test_reading_and_predicting_do_not_import_torch() -> None:
    code = (
        "import sys, numpy as np, fwshapley.trees as trees\n"
        "from sklearn.tree import DecisionTreeRegressor\n"
        "x = np.random.default_rng(0).normal(size=(50, 2))\n"
        "trees.read_model(DecisionTreeRegressor().fit(x, x[:, 0])).encode(x)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert done.stdout.strip() == "False"
