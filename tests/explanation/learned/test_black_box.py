from __future__ import annotations

import itertools
import operator
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from pandas.testing import assert_frame_equal
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC
from torch import Tensor, nn
from torch.testing import assert_close

import fwshapley as fw
from fwshapley.explanation.inputs.input_checks import check_model
from fwshapley.explanation.inputs.model_functions import call_function, find_function, find_output, sum_to_one
from fwshapley.explanation.inputs.predictions import predict
from fwshapley.explanation.learned.black_box import BlackBox
from fwshapley.games.scales import KINDS, Output
from fwshapley.networks.cnn import SmallCNN
from fwshapley.tables.network_encoding import describe_table
from models import TableModel, images, rows, seeded

N = 4
X = rows(120, N).double().numpy()
WEIGHTS = np.array([[1.0, 0.3], [-2.0, 1.0], [0.5, 1.0], [0.0, -1.0]])
GRID = fw.grid(8, 8, patch=4)
Function = Callable[[Any], Any]


def linear(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return x @ WEIGHTS + 3


def softmax(x: NDArray[np.float64]) -> NDArray[np.float64]:
    odds = np.exp(x @ np.concatenate([WEIGHTS, -WEIGHTS[:, :1]], 1))
    return odds / odds.sum(1, keepdims=True)


def chance(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-x @ WEIGHTS[:, 0]))


def fit(explainer: fw.FeatureExplainer, x: Any = X, *, steps: int = 4, **options: Any) -> fw.FeatureExplainer:  # noqa: ANN401 - of fit
    options = {"batch_size": 32, "n_coalitions": 8, "progress": False} | options
    return explainer.fit(x, budget=fw.Budget(steps=steps), **options)


def people(count: int = 120, seed: int = 0) -> pd.DataFrame:
    """Rows of every kind of column."""
    rng = np.random.default_rng(seed)
    income = rng.normal(1e4, 3e3, count)
    income[::7] = np.nan
    city = rng.choice(["Rome", "Bonn", "Oslo"], count).astype(object)
    city[::11] = None
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, count),
            "city": city,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, count), unit="D"),
            "income": income,
            "member": rng.random(count) < 0.5,
            "grade": pd.Categorical(rng.choice(list("abc"), count), list("abcd"), ordered=True),
            "stamp": 1_700_000_000 + rng.integers(0, 10_000, count),
        }
    )


def approve(table: pd.DataFrame) -> NDArray[np.float64]:
    score = (table["age"] - 50) / 10 + 2 * (table["city"] == "Rome") + table["income"].fillna(0) / 1e4
    score = score + (table["grade"] > "a") + (table["stamp"] - 1_700_000_000) / 5000 + table["member"]
    yes = 1 / (1 + np.exp(-score.to_numpy(np.float64)))
    return np.stack([1 - yes, yes], 1)


LABELS = np.stack([X[:, 0] > 0, X[:, 1] + X[:, 2] > 0, X[:, 3] > 1], 1).astype(int)
THREE = X[:, :2].argmax(1) + (X[:, 2] > 1)
DETECTED: dict[str, tuple[Any, Output]] = {
    "binary": (LogisticRegression().fit(X, LABELS[:, 0]), "probability"),
    "three classes": (RandomForestClassifier(5, random_state=0).fit(X, THREE), "probability"),
    "labels of a forest": (RandomForestClassifier(5, random_state=0).fit(X, LABELS), "label_probability"),
    "labels of a perceptron": (
        MLPClassifier((4,), solver="lbfgs", max_iter=10_000, random_state=0).fit(X, LABELS),
        "label_probability",
    ),
    "labels one by one": (OneVsRestClassifier(LogisticRegression()).fit(X, LABELS), "label_probability"),
    "calibrated": (CalibratedClassifierCV(LinearSVC(), cv=2).fit(X, THREE), "probability"),
    "pipeline": (make_pipeline(LogisticRegression()).fit(X, THREE), "probability"),
    "regressor": (LinearRegression().fit(X, linear(X)[:, 0]), "raw"),
    "regressor of two": (LinearRegression().fit(X, linear(X)), "raw"),
    "values": (linear, "raw"),
    "one value": (lambda x: linear(x)[:, 0], "raw"),
    "one column of values": (lambda x: linear(x)[:, :1], "raw"),
    "classes": (softmax, "probability"),
    "a lonely probability": (chance, "raw"),
    "list": (lambda x: softmax(x).tolist(), "probability"),
    "tensor": (lambda x: torch.from_numpy(softmax(x)).float().requires_grad_(), "probability"),
    "frame": (lambda x: pd.DataFrame(softmax(x)), "probability"),
    "series": (lambda x: pd.Series(chance(x)), "raw"),
    "certain": (lambda x: np.eye(3)[softmax(x).argmax(1)], "probability"),
}
every_model = pytest.mark.parametrize(("model", "output"), DETECTED.values(), ids=DETECTED)


def own_words(model: Any) -> NDArray[np.float64]:  # noqa: ANN401 - a function or an estimator
    """What a model says of X, as (rows, outputs)."""
    asked = getattr(model, "predict_proba", getattr(model, "predict", model))
    answer = asked(X)
    if isinstance(answer, list) and np.ndim(answer[0]) == 2:
        answer = np.stack([each[:, 1] for each in answer], 1)
    answer = np.asarray(answer.detach() if isinstance(answer, Tensor) else answer, dtype=np.float64)
    return answer.reshape(len(X), -1)


@every_model
def test_what_a_model_returns_is_detected_and_comes_out_again(
    model: Any,  # noqa: ANN401 - a function or an estimator
    output: Output,
) -> None:
    asked, form = find_function(model), describe_table(X, any_model=True)
    found = call_function(asked.call, X, len(X))
    expected = own_words(model)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert find_output(found, "auto", probabilities=asked.probabilities) == output
    box = BlackBox(asked.call, KINDS[output], form)
    said = predict(box, form.encode(X), output)
    assert said.dtype == torch.float32
    np.testing.assert_allclose(said.numpy(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("found", "are"),
    [
        ([[0.5, 0.5], [1.0, 0.0]], True),
        ([[0.5, 0.5004], [1.0004, 0.0]], True),  # rounded, as half precision does
        ([[0.5, 0.5], [0.5, 0.6]], False),
        ([[0.5, 0.5], [1.1, -0.1]], False),
        ([[1.0], [1.0]], False),  # one output is no choice between classes
    ],
)
def test_one_rule_says_what_probabilities_of_classes_are(found: list[list[float]], *, are: bool) -> None:
    outputs = torch.tensor(found)
    assert sum_to_one(outputs) == are
    assert (find_output(outputs, "auto", probabilities=False) == "probability") == are
    model = nn.Sequential(nn.Linear(2, len(found[0])))
    model.forward = lambda _: outputs  # type: ignore[method-assign] # answers with what is given
    if are:
        with pytest.raises(ValueError, match="seems to return probabilities"):
            check_model(model, torch.zeros(2, 2), "probability", None)
    elif len(found[0]) > 1:
        assert check_model(model, torch.zeros(2, 2), "probability", None) == len(found[0])


@pytest.mark.parametrize(
    "name", ["binary", "labels of a forest", "labels one by one", "regressor of two", "one value", "tensor", "certain"]
)
def test_models_of_every_kind_can_be_explained(name: str) -> None:
    model, output = DETECTED[name]
    explainer = fit(fw.FeatureExplainer(model), steps=2)
    found = explainer.explain(X[:5], outputs="all", total="efficient")
    outputs = own_words(model).shape[1]
    assert found.values.shape == (5, N, outputs)
    assert found.provenance["output"] == output
    ends = torch.tensor([[False] * N, [True] * N])
    for number in range(5):
        nobody, everyone = explainer.game(X[number])(ends)
        assert_close(found.values[number].sum(0), everyone - nobody, rtol=1e-4, atol=1e-5)
        if output != "raw":
            assert bool(((everyone >= 0) & (everyone <= 1)).all())


@pytest.mark.parametrize(
    ("output", "function"),
    [
        ("probability", softmax),
        ("logit", softmax),
        ("label_probability", softmax),
        ("label_logit", chance),
        ("raw", softmax),
        ("raw", chance),
    ],
)
def test_what_is_asked_for_is_taken_if_the_outputs_allow_it(output: Output, function: Function) -> None:
    assert find_output(call_function(function, X, len(X)), output, probabilities=False) == output


@pytest.mark.parametrize(
    ("output", "function", "message"),
    [
        ("probability", linear, "needs class probabilities that sum to 1"),
        ("logit", chance, "or 'label_probability' if each output"),
        (
            "label_probability",
            linear,
            "needs probabilities, and some outputs of the model are not between 0 and 1; pass output='raw'",
        ),
    ],
)
def test_outputs_that_are_no_probabilities_are_not_taken_for_such(
    output: Output, function: Function, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        fit(fw.FeatureExplainer(function, output=output))


def test_certainty_is_kept_up_to_the_smallest_probability() -> None:
    sure = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    for output in ("probability", "label_probability"):
        box = BlackBox(lambda _: sure, KINDS[output], None)
        logits = box(torch.zeros(2, 1))
        assert bool(logits.isfinite().all())
        assert_close(predict(box, torch.zeros(2, 1), output), sure.float(), rtol=0, atol=2e-7)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda x: np.full(len(x), np.nan), "the model's outputs are not finite"),
        (lambda x: np.ones((len(x), 2)) * np.inf, "the model's outputs are not finite"),
        (lambda x: linear(x)[1:], r"it returned \(63, 2\) for 64 inputs"),
        (lambda _: 3.0, r"it returned \(\) for 64 inputs"),
        (lambda x: np.zeros((len(x), 0)), r"it returned \(64, 0\) for 64 inputs"),
        (lambda x: np.zeros((len(x), 2, 2)), r"it returned \(64, 2, 2\) for 64 inputs"),
        (lambda x: ["cat"] * len(x), "the model must return numbers.* got list"),
        (lambda x: np.array(["1"] * len(x)), "the model must return numbers.* got ndarray"),
        (lambda x: np.array(["cat"] * len(x), dtype=object), "the model must return numbers"),
        (lambda _: {"yes": 1}, "the model returned a dict with 'yes' int, and none"),
        (lambda x: [softmax(x), softmax(x)], "3, 3 class probabilities for 2 targets"),
        (lambda x: x.shape.missing, r"failed on a ndarray of shape \(64, 4\): AttributeError"),
    ],
)
def test_what_a_function_must_not_do(answer: Function, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(fw.FeatureExplainer(answer))


def test_the_error_of_a_function_is_kept() -> None:
    def fail(_: Any) -> None:  # noqa: ANN401 - anything
        raise KeyError("age")

    with pytest.raises(ValueError, match=r"the model failed on a DataFrame of shape .*KeyError: 'age'") as caught:
        fit(fw.FeatureExplainer(fail), pd.DataFrame(X, columns=list("abcd")))
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("estimator", [LinearSVC(), RidgeClassifier()], ids=["LinearSVC", "RidgeClassifier"])
def test_a_classifier_without_probabilities_is_refused(estimator: BaseEstimator) -> None:
    estimator.fit(X, THREE)
    with pytest.raises(TypeError, match=r"has no predict_proba; wrap it.*or pass a function of its scores"):
        fit(fw.FeatureExplainer(estimator))
    explainer = fit(fw.FeatureExplainer(estimator.decision_function, output="raw"), steps=2)
    assert explainer.explain(X[:2]).values.shape == (2, N, 3)


def test_an_estimator_that_is_not_fitted_says_so() -> None:
    with pytest.raises(ValueError, match="NotFittedError"):
        fit(fw.FeatureExplainer(LogisticRegression()))


@pytest.mark.parametrize(
    ("classes", "names"),
    [(np.array(["cat", "cow", "dog"]), ("cat", "cow", "dog")), (np.array([7, 8, 9]), ("7", "8", "9"))],
)
def test_outputs_are_named_by_the_classes(classes: NDArray[Any], names: tuple[str, ...]) -> None:
    model = LogisticRegression().fit(X, classes[THREE])
    assert fit(fw.FeatureExplainer(model), steps=1).explain(X[:2]).output_names == names
    own = fit(fw.FeatureExplainer(model, output_names=["x", "y", "z"]), steps=1)
    assert own.explain(X[:2]).output_names == ("x", "y", "z")


def test_labels_are_numbered() -> None:
    model = RandomForestClassifier(5, random_state=0).fit(X, LABELS)
    assert find_function(model).names is None
    assert fit(fw.FeatureExplainer(model), steps=1).explain(X[:2]).output_names == ("output 0", "output 1", "output 2")


class Recorder:
    """A function that remembers what it was asked about, cannot be copied, and writes on what it gets."""

    def __init__(self, function: Function) -> None:
        self.function, self.seen, self.lock = function, list[Any](), threading.Lock()

    def __call__(self, x: Any) -> Any:  # noqa: ANN401 - inputs and outputs
        self.seen.append(x.copy())
        answer = self.function(x)
        if isinstance(x, np.ndarray):
            x[:] = 0
        else:
            for name in list(x.columns):
                del x[name]
        return answer


def is_mixed(row: Sequence[object], rows: Sequence[Sequence[object]]) -> bool:
    """Whether each entry of a row is that of one or the other of two rows."""
    same = [[mine == theirs for mine, theirs in zip(row, other, strict=True)] for other in rows]
    return any(all(map(operator.or_, one, other)) for one, other in itertools.combinations_with_replacement(same, 2))


def test_a_function_is_asked_about_rows_of_the_data_and_mixtures_of_two() -> None:
    model = Recorder(softmax)
    x, x_valid, x_test = X[:80], X[80:100], X[100:]
    explainer = fit(fw.FeatureExplainer(model), x, x_valid=x_valid)
    known = {tuple(row) for row in np.concatenate([x, x_valid]).tolist()}
    assert all(asked.dtype == np.float64 and asked.shape[1] == N for asked in model.seen)
    seen = {tuple(row) for asked in model.seen for row in asked.tolist()}
    assert known < seen
    assert all(is_mixed(row, x.tolist()) for row in list(seen - known)[:100])
    before = len(model.seen)
    found = explainer.explain(x_test, outputs="predicted")
    assert [len(asked) for asked in model.seen[before:]] == [20]  # once, for the model's own predictions
    np.testing.assert_array_equal(model.seen[-1], x_test)
    assert found.outputs[:, 0].tolist() == softmax(x_test).argmax(1).tolist()
    assert_close(found.inputs.double().numpy(), x_test, rtol=1e-6, atol=1e-6)  # whatever the function wrote


def test_a_function_of_images_is_asked_about_whole_images_alone() -> None:
    x = images(40)
    model = Recorder(lambda image: softmax(image.reshape(len(image), -1)[:, :N]))
    explainer = fit(fw.FeatureExplainer(model, GRID), x)
    known = {tuple(image) for image in x.flatten(1).tolist()}
    for asked in model.seen:
        assert isinstance(asked, np.ndarray)
        assert asked.shape[1:] == (1, 8, 8)
        assert {tuple(image.ravel().tolist()) for image in asked} <= known
    assert torch.equal(x, images(40))  # nothing of the user's is written on
    surrogate = explainer.surrogate_
    assert isinstance(surrogate, fw.explanation.Surrogate)
    assert isinstance(surrogate.network, SmallCNN)
    assert surrogate.tell_mask
    found = explainer.explain(images(3, seed=1), total="efficient")
    assert found.values.shape == (3, 4, 3)


def test_a_function_of_a_table_gets_the_table() -> None:
    table = people()
    model = Recorder(approve)
    explainer = fit(fw.FeatureExplainer(model), table)
    explainer.explain(table[:3], outputs="predicted")
    known = table.astype(str).fillna("missing").to_numpy().tolist()
    for asked in model.seen:
        assert_frame_equal(asked[:0], table[:0].reset_index(drop=True), check_index_type=False)
        assert all(is_mixed(row, known) for row in asked[:3].astype(str).fillna("missing").to_numpy().tolist())
    assert explainer.players is None  # as it was given
    assert explainer.players_.names == tuple(table.columns)


@pytest.mark.parametrize("labels", [range(N), list("abcd")], ids=["numbers", "text"])
def test_an_estimator_gets_the_columns_that_it_was_fitted_with(labels: Any) -> None:  # noqa: ANN401 - names
    table = pd.DataFrame(X, columns=labels)
    model = LogisticRegression().fit(table, THREE)
    explainer = fit(fw.FeatureExplainer(model), table, steps=1)  # where scikit-learn would warn
    assert explainer.explain(table[:2], outputs="predicted").players.names == tuple(map(str, labels))


def test_a_missing_category_is_the_one_that_an_encoder_knows() -> None:
    table = people()[["city", "age"]]
    for blank in (None, np.nan):
        given = table.assign(city=table["city"].where(table["city"].notna(), blank).astype(object))
        columns = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
        model = make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(given, given["age"] > 50)
        explainer = fit(fw.FeatureExplainer(model), given, steps=1)
        assert explainer.explain(given[:3], outputs="predicted").outputs.shape == (3, 1)


def test_a_boosted_model_takes_categories_and_gaps() -> None:
    table = people().drop(columns=["since", "city"])
    model = HistGradientBoostingClassifier(max_iter=3).fit(table, approve(people())[:, 1] > 0.5)
    explainer = fit(fw.FeatureExplainer(model), table, steps=2)
    found = explainer.explain(table[:4], outputs="predicted")
    assert found.outputs[:, 0].tolist() == model.predict_proba(table[:4]).argmax(1).tolist()


@pytest.mark.parametrize("frame", [False, True], ids=["array", "frame"])
@pytest.mark.parametrize("far", [0.0, 1.7e9])
@pytest.mark.parametrize("removal", ["mean", "zero", "baseline", "background"])
def test_the_game_of_a_linear_function_has_known_values(removal: str, far: float, *, frame: bool) -> None:
    x = X + np.array([0, 0, far, 0])
    names = list("abcd")
    hidden = {"mean": x[:80].mean(0), "zero": np.zeros(N), "baseline": x[7], "background": x[:5].mean(0)}[removal]
    rule: Any = {"baseline": x[7], "background": x[:5]}.get(removal, removal)
    if frame and removal == "background":
        rule = pd.DataFrame(x[:5], columns=names)[names[::-1]]
    table: Any = pd.DataFrame(x, columns=names) if frame else x

    def centered(given: Any) -> NDArray[np.float64]:  # noqa: ANN401 - a table
        near = np.asarray(given) - np.array([0, 0, far, 0])
        return np.where(near < -far / 2, 7.0, near) if far else near

    explainer = fw.FeatureExplainer(lambda given: linear(centered(given)), surrogate=None, removal=rule)
    game = fit(explainer, table[:80], x_valid=table[80:], steps=1).game(table[3:4])
    expected = (centered(x[3]) - centered(hidden))[:, None] * WEIGHTS
    found = fw.exact_values(game, fw.Beta(4, 1)).double().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-3, rtol=1e-5)


def test_a_linear_function_is_explained_without_a_surrogate() -> None:
    x = rows(2000, N).double().numpy()
    explainer = fw.FeatureExplainer(linear, surrogate=None)
    fit(explainer, x, x_valid=X, steps=400, batch_size=64, n_coalitions=32, learning_rate=3e-3)
    expected = (X[:20, :, None] - x.mean(0)[:, None]) * WEIGHTS
    for weights in (fw.Shapley(), fw.Beta(4, 1), fw.Banzhaf()):
        found = explainer.explain(X[:20], weights=weights).values.double().numpy()
        assert np.linalg.norm(found - expected) < 0.05 * np.linalg.norm(expected)


def test_the_units_of_a_regression_do_not_matter() -> None:
    found = []
    for unit in (1.0, 2.0**20):  # a power of two, which rounds nothing
        explainer = fit(fw.FeatureExplainer(lambda x, unit=unit: unit * linear(x)), steps=40)
        everyone = np.stack([explainer.game(row)(torch.ones(1, N, dtype=torch.bool))[0].numpy() for row in X[:30]])
        values = explainer.explain(X[:30]).values.numpy()
        found.append((everyone / unit, values / unit))
    (surrogate, values), (surrogate_of_large, values_of_large) = found
    np.testing.assert_allclose(surrogate_of_large, surrogate, rtol=1e-4, atol=1e-4)
    error = np.sqrt(((surrogate - linear(X[:30])) ** 2).mean(0)) / linear(X).std(0)
    assert error.max() < 1  # it has begun to learn
    assert np.linalg.norm(values_of_large - values) < 0.01 * np.linalg.norm(values)  # rounding, after many steps


def test_one_label_is_the_one_predicted_and_several_are_not() -> None:
    one = fit(fw.FeatureExplainer(chance, output="label_probability"))
    found = one.explain(X[:5], outputs="predicted")
    assert found.outputs.tolist() == [[0]] * 5
    assert torch.equal(found.values, one.explain(X[:5]).values)
    several = fit(fw.FeatureExplainer(RandomForestClassifier(5, random_state=0).fit(X, LABELS)), steps=2)
    with pytest.raises(ValueError, match="outputs='predicted' needs"):
        several.explain(X[:5], outputs="predicted")
    assert several.fidelity_ is not None
    assert several.fidelity_.agreement is not None


def test_a_module_of_one_logit_is_a_label() -> None:
    module = nn.Linear(N, 1)
    explainer = fit(fw.FeatureExplainer(module, surrogate=None, output="label_probability"))
    everyone = explainer.game(X[0])(torch.ones(1, N, dtype=torch.bool))
    assert_close(everyone, module(torch.from_numpy(X[:1]).float()).sigmoid().detach())


SAVED: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "classes": (softmax, X, {}),
    "values": (linear, X, {}),
    "labels": (RandomForestClassifier(5, random_state=0).fit(X, LABELS), X, {}),
    "table": (approve, people(), {}),
    "filled table": (approve, people(), {"surrogate": None, "removal": people(3, seed=1)}),
    "images": (lambda image: softmax(image.reshape(len(image), -1)[:, :N]), images(40), {"players": GRID}),
    "kernel": (linear, X, {"objective": "kernel", "weights": fw.Shapley()}),
}


@pytest.mark.parametrize(("model", "x", "options"), SAVED.values(), ids=SAVED)
def test_an_explainer_of_a_black_box_comes_back(
    model: Any,  # noqa: ANN401 - a function or an estimator
    x: Any,  # noqa: ANN401 - a table or images
    options: dict[str, Any],
    tmp_path: Path,
) -> None:
    explainer = fit(fw.FeatureExplainer(model, **options), x, steps=2)
    explainer.save(tmp_path)
    expected = explainer.explain(x[:5], total="efficient")
    with_model = fw.load(tmp_path, model=model)
    loaded = [with_model]
    if options.get("surrogate", "auto") is None:
        with pytest.raises(ValueError, match=r"explains a function .* as model="):
            fw.load(tmp_path)
    else:
        loaded.append(fw.load(tmp_path))
        with pytest.raises(RuntimeError, match=r"pass model=\.\.\. to load"):
            fit(loaded[1], x)
    for each in loaded:
        found = each.explain(x[:5], total="efficient")
        assert torch.equal(found.values, expected.values)
        assert found.output_names == expected.output_names
        assert found.players.names == expected.players.names
    if expected.provenance["output"] == "probability":
        predicted = with_model.explain(x[:5], outputs="predicted")
        assert torch.equal(predicted.outputs, explainer.explain(x[:5], outputs="predicted").outputs)
    fit(with_model, x, steps=1)


def test_a_function_is_not_taken_for_a_module_nor_the_reverse(tmp_path: Path) -> None:
    fit(fw.FeatureExplainer(softmax), steps=1).save(tmp_path / "function")
    fit(fw.FeatureExplainer(seeded(TableModel)), steps=1).save(tmp_path / "module")
    with pytest.raises(TypeError, match=r"model must be a function.* got a torch module"):
        fw.load(tmp_path / "function", model=seeded(TableModel))
    with pytest.raises(TypeError, match=r"model must be a torch module.* got a function"):
        fw.load(tmp_path / "module", model=softmax)


def test_columns_are_named_in_the_plot() -> None:
    table = people()
    found = fit(fw.FeatureExplainer(approve, output_names=["no", "yes"]), table, steps=2).explain(table[:1])
    figure = found.plot()
    axes = figure.axes[0]
    assert {label.get_text().partition(" = ")[0] for label in axes.get_yticklabels()} == set(table.columns)
    assert axes.get_title() in {f"input 0, output {name}\nShapley" for name in ("no", "yes")}


def test_columns_are_grouped_by_name() -> None:
    table = people()
    players = fw.groups({"who": ["age", "member"], "when": ["since", "stamp"]}, names=list(table.columns))
    explainer = fit(fw.FeatureExplainer(approve, players), table, steps=2)
    assert explainer.explain(table[:2]).players.names == ("who", "city", "when", "income", "grade")


def test_an_array_stands_for_a_frame_of_numbers() -> None:
    table = pd.DataFrame(X, columns=list("abcd"))
    for model in (lambda given: softmax(given.to_numpy()), seeded(TableModel)):
        explainer = fit(fw.FeatureExplainer(model), table, steps=2)
        found = explainer.explain(table[:5])
        assert found.players.names == ("a", "b", "c", "d")
        assert torch.equal(explainer.explain(X[:5]).values, found.values)
        assert torch.equal(explainer.explain(torch.from_numpy(X[:5])).values, found.values)
        assert torch.equal(explainer.explain(table[list("dcba")][:5]).values, found.values)


def test_a_table_with_categories_is_to_be_explained_as_a_frame() -> None:
    table = people()
    explainer = fit(fw.FeatureExplainer(approve), table, steps=1)
    with pytest.raises(TypeError, match="inputs must be a DataFrame, since columns city, member, grade"):
        explainer.explain(np.zeros((2, 7)))
    with pytest.raises(ValueError, match="'Paris' in column 'city', row 1, is an unknown category"):
        explainer.explain(table[:2].assign(city=["Rome", "Paris"]))
    with pytest.raises(ValueError, match="has no column 'age'"):
        explainer.explain(table[:2].drop(columns="age"))
    assert explainer.game(table[:1]).n_players == 7


def test_filled_categories_need_rows_to_fill_in() -> None:
    with pytest.raises(ValueError, match="removal must be one or several rows of the table"):
        fit(fw.FeatureExplainer(approve, surrogate=None), people())
    with pytest.raises(ValueError, match="removal must be 'auto'"):
        fit(fw.FeatureExplainer(approve, removal="mean"), people())


def test_a_function_on_background_rows_is_worth_its_mean() -> None:
    table, background = people(), people(5, seed=3)
    explainer = fit(fw.FeatureExplainer(approve, surrogate=None, removal=background), table, steps=1)
    nobody, some = explainer.game(table[:1])(torch.tensor([[False] * 7, [True, True, *[False] * 5]]))
    np.testing.assert_allclose(nobody, approve(background).mean(0), atol=1e-5)
    mixed = background.assign(age=table["age"].iloc[0], city=table["city"].iloc[0])
    np.testing.assert_allclose(some, approve(mixed).mean(0), atol=1e-5)


def test_a_module_takes_numbers_alone() -> None:
    with pytest.raises(TypeError, match=r"column 'city' has dtype \w+, which a torch module cannot take"):
        fit(fw.FeatureExplainer(seeded(TableModel)), people()[["age", "city", "income", "stamp"]])


def test_gaps_of_an_array_are_asked_about_and_explained() -> None:
    x = X.copy()
    x[::3, 1] = np.nan
    model = Recorder(lambda given: softmax(np.nan_to_num(given, nan=2.0)))
    explainer = fit(fw.FeatureExplainer(model), x)
    assert any(np.isnan(asked).any() for asked in model.seen)
    assert bool(explainer.explain(x[:5]).values.isfinite().all())
    other = X[:5].copy()
    other[0, 0] = np.nan  # where there were none
    with pytest.raises(ValueError, match="input 0 contains NaN"):
        explainer.explain(other)
    with pytest.raises(ValueError, match="contains NaN or infinite values"):
        fit(fw.FeatureExplainer(seeded(TableModel)), x)


@pytest.mark.usefixtures("unchecked")
def test_text_in_an_array_is_refused_in_words() -> None:
    for model in (softmax, seeded(TableModel)):
        with pytest.raises(TypeError, match="must be an array or tensor of numbers, or a DataFrame"):
            fit(fw.FeatureExplainer(model), np.array([["a", "b"], ["c", "d"]]))


@pytest.mark.usefixtures("unchecked")
def test_what_is_no_model_is_refused() -> None:
    for thing in (3, "model", None, object()):
        with pytest.raises(TypeError, match="model must be a torch module, a function, or a fitted estimator"):
            fit(fw.FeatureExplainer(thing))


def test_going_on_with_another_black_box_is_refused(tmp_path: Path) -> None:
    """It has no tensors to know it by; what it says tells it."""
    fit(fw.FeatureExplainer(lambda x: x[:, 0]), X, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="model"):
        fit(fw.FeatureExplainer(lambda x: x[:, 1]), X, checkpoint=tmp_path, resume=True)
    fit(fw.FeatureExplainer(lambda x: x[:, 0]), X, checkpoint=tmp_path, resume=True)


def test_a_network_of_your_own_gets_single_precision() -> None:
    own = fw.FeatureExplainer(
        lambda x: x[:, 0], network=lambda channels: nn.Sequential(nn.Linear(N, N * channels), nn.Unflatten(1, (N, -1)))
    )
    assert fit(own, X).explain(X[:3]).values.shape == (3, N, 1)
