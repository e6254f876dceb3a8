"""The game of retraining a model: values of coalitions, models and scores that it accepts, and errors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss, r2_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from torch.testing import assert_close

import fwshapley as fw
from conftest import SEMIVALUES
from fwshapley.games import Game, RetrainingGame

N = 7
FULL, EMPTY = torch.ones(1, N, dtype=torch.bool), torch.zeros(1, N, dtype=torch.bool)


class Problem:
    """Two clusters, and as many reference points of one as of the other."""

    def __init__(self, n: int = N, references: int = 20, seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        self.y, self.y_reference = np.arange(n) % 2, np.arange(references) % 2
        self.x = generator.normal(size=(n, 2)) + 1.5 * self.y[:, None]
        self.x_reference = generator.normal(size=(references, 2)) + 1.5 * self.y_reference[:, None]

    @property
    def all(self) -> tuple[NDArray[Any], ...]:
        return self.x, self.y, self.x_reference, self.y_reference


DATA = Problem()


def coalition(*members: int) -> torch.Tensor:
    mask = EMPTY.clone()
    mask[0, list(members)] = True
    return mask


def play(model: Any, **options: Any) -> RetrainingGame:  # noqa: ANN401 - any model and its options
    return RetrainingGame(model, DATA.x, DATA.y, (DATA.x_reference, DATA.y_reference), **options)


# Against closed forms


def test_nearest_neighbors_retrained_are_nearest_neighbors_in_closed_form() -> None:
    weights = [make(N) for make in SEMIVALUES.values()]
    found = fw.exact_values(play(KNeighborsClassifier(1)), weights, progress=False)
    assert_close(
        found,
        fw.value_neighbors(
            DATA.x, DATA.y, (DATA.x_reference, DATA.y_reference), k=1, weights=weights, utility="vote"
        ).values,
    )


def share_of_neighbors(model: Any, x: NDArray[Any], y: NDArray[Any]) -> float:  # noqa: ANN401 - a fitted model
    known = model.predict_proba(x) * (model.classes_ == y[:, None])
    return float(known.sum(1).mean())


def test_a_function_of_probabilities_scores_too() -> None:
    weights = [fw.Shapley(), fw.Banzhaf(0.2)]
    game = play(KNeighborsClassifier(1), scoring=share_of_neighbors)
    expected = fw.value_neighbors(
        DATA.x, DATA.y, (DATA.x_reference, DATA.y_reference), k=1, weights=weights, utility="normalized"
    ).values
    assert_close(fw.exact_values(game, weights, progress=False), expected)


# Values of coalitions


def test_it_is_a_game() -> None:
    game = play(LogisticRegression())
    assert isinstance(game, Game)
    assert game.n_players == N
    x, y, x_reference, y_reference = DATA.all
    members = [0, 1, 4]
    by_hand = LogisticRegression().fit(x[members], y[members]).score(x_reference, y_reference)
    assert game(torch.cat([coalition(*members), EMPTY])).tolist() == [by_hand, 0.5]


def test_names_of_scores_are_scikit_learns() -> None:
    x, y, x_reference, y_reference = DATA.all
    fitted = LogisticRegression().fit(x, y)
    by_hand = -log_loss(y_reference, fitted.predict_proba(x_reference))
    assert float(play(LogisticRegression(), scoring="neg_log_loss")(FULL)[0]) == pytest.approx(by_hand)


def test_the_empty_coalition_has_the_score_of_a_model_without_features() -> None:
    prior = np.bincount(DATA.y) / N
    expected = float(np.log(prior)[DATA.y_reference].mean())
    assert play(LogisticRegression(), scoring="neg_log_loss").empty_value == pytest.approx(expected)
    assert play(LogisticRegression(), scoring="roc_auc").empty_value == 0.5
    assert play(LogisticRegression(), empty_value=0.25)(EMPTY).tolist() == [0.25]


def test_a_regressor_is_scored_by_r2() -> None:
    x, _, x_reference, _ = DATA.all
    targets, other_targets = x @ [1.0, 2.0] + 0.1 * x[:, 0] ** 2, x_reference @ [1.0, 2.0]
    game = RetrainingGame(LinearRegression(), x, targets, (x_reference, other_targets))
    by_hand = r2_score(other_targets, LinearRegression().fit(x[:4], targets[:4]).predict(x_reference))
    assert float(game(coalition(0, 1, 2, 3))[0]) == pytest.approx(by_hand)
    assert game.empty_value == pytest.approx(r2_score(other_targets, np.full(20, targets.mean())))


def test_one_class_alone_has_the_empty_value_if_the_model_cannot_be_fitted_to_it() -> None:
    alike = coalition(0, 2, 4)
    assert play(LogisticRegression(), empty_value=0.3)(alike).tolist() == [0.3]
    assert play(KNeighborsClassifier(1), empty_value=0.3)(alike).tolist() == [0.5]  # always predicts 0, as it should


def test_too_few_points_have_the_empty_value() -> None:
    game = play(KNeighborsClassifier(5), empty_value=0.3)
    assert game(coalition(0, 1, 2)).tolist() == [0.3]
    assert game(FULL).tolist() != [0.3]


def test_a_score_may_fail_for_want_of_a_class() -> None:
    y, y_reference = np.array([0, 0, 1, 1, 2, 2, 2]), np.arange(20) % 3
    reference = DATA.x_reference, y_reference
    game = RetrainingGame(DecisionTreeClassifier(), DATA.x, y, reference, scoring="neg_log_loss", empty_value=-1.5)
    assert game(coalition(0, 1, 2)).tolist() == [-1.5]


# Any model, reproducibly


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(3),
        make_pipeline(StandardScaler(), DecisionTreeClassifier(max_features=1)),
        DecisionTreeClassifier(max_features=1, random_state=np.random.RandomState(3)),
    ],
    ids=["forest", "pipeline", "generator"],
)
def test_a_coalition_always_has_the_same_value(model: Any) -> None:  # noqa: ANN401 - any model
    before = repr(model)
    game, some = play(model), coalition(0, 1, 2, 5, 6)
    once = game(torch.cat([some, FULL, some]))
    np.random.seed(1)  # noqa: NPY002 - which a model without a seed would use
    assert once.tolist() == play(model)(torch.cat([some, FULL, some])).tolist()
    assert once[0] == once[2]
    assert repr(model) == before


class Majority:
    """A model of the plainest kind: no parameters, no base class."""

    def fit(self, x: NDArray[Any], y: NDArray[Any]) -> Self:
        assert not hasattr(self, "label"), "fitted twice"
        assert len(x) == len(y)
        self.label = np.bincount(y).argmax()
        return self

    def predict(self, x: NDArray[Any]) -> NDArray[Any]:
        return np.full(len(x), self.label)


def right(model: Any, x: NDArray[Any], y: NDArray[Any]) -> np.float64:  # noqa: ANN401 - a fitted model
    return np.mean(model.predict(x) == y)


def test_fit_and_predict_are_enough() -> None:
    model = Majority()
    assert play(model, scoring=right)(torch.cat([coalition(1), coalition(0, 1, 3)])).tolist() == [0.5, 0.5]
    assert not hasattr(model, "label")


def test_a_data_frame_reaches_the_model_as_one() -> None:
    table = pd.DataFrame({"color": list("rgbrgbr"), "size": range(7)}, index=range(70, 77))
    others = pd.DataFrame({"color": list("bgr"), "size": [2, 1, 0]})
    model = make_pipeline(
        make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["color"]), remainder="passthrough"),
        LogisticRegression(),
    )
    labels = ["no", "yes", "no", "yes", "no", "yes", "yes"]
    game = RetrainingGame(model, table, labels, reference=(others, ["no", "yes", "yes"]))
    assert bool(game(torch.cat([FULL, coalition(0, 1, 3), EMPTY])).isfinite().all())


def test_tensors_will_do() -> None:
    x, y, x_reference, y_reference = map(torch.from_numpy, DATA.all)
    game = RetrainingGame(LogisticRegression(), x.requires_grad_(), y, (x_reference, y_reference))
    assert game(FULL).tolist() == play(LogisticRegression())(FULL).tolist()


# Errors


class Failing(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # which has no types
    """Fails in a way of its own beyond some points."""

    def __init__(self, error: type[Exception] = ValueError, most: int = 0) -> None:
        self.error, self.most = error, most

    def fit(self, x: NDArray[Any], y: NDArray[Any]) -> Self:
        if len(x) > self.most:
            raise self.error("out of order")
        self.classes_ = np.unique(y)
        return self

    def predict(self, x: NDArray[Any]) -> NDArray[Any]:
        return np.zeros(len(x), dtype=np.int64)


def test_a_fit_that_fails_says_where_and_why() -> None:
    with pytest.raises(RuntimeError, match=r"Failing could not be fitted to all 7 points .* ValueError: out of order"):
        play(Failing())(FULL)
    with pytest.raises(RuntimeError, match="to a coalition of 6 points and scored: ValueError: out of order"):
        play(Failing())(coalition(0, 1, 2, 3, 4, 5))
    with pytest.raises(RuntimeError, match="to a coalition of 2 points and scored: ZeroDivisionError: out of order"):
        play(Failing(ZeroDivisionError, most=1))(coalition(0, 1))
    assert play(Failing(), empty_value=0.3)(coalition(0, 1, 2)).tolist() == [0.3]  # half of a class is missing


def not_a_number(model: Any, x: NDArray[Any], y: NDArray[Any]) -> float:  # noqa: ANN401 - a fitted model
    del x, y
    return float(model.coef_.mean() * np.nan)


def play_with(**changed: Any) -> RetrainingGame:  # noqa: ANN401 - any argument
    given: dict[str, Any] = {"x": DATA.x, "y": DATA.y, "reference": (DATA.x_reference, DATA.y_reference)}
    return RetrainingGame(LogisticRegression(), **given | changed)


WRONG: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "unknown scoring": (lambda: play(LogisticRegression(), scoring="acuracy"), ValueError, "^scoring .*'accuracy'"),
    "scoring is a number": (lambda: play(LogisticRegression(), scoring=3), ValueError, "^scoring .*got 3"),
    "no model": (lambda: play(None), TypeError, "^model must have fit and predict"),
    "a class": (lambda: play(LogisticRegression), TypeError, r"^model .* LogisticRegression\(\)"),
    "scoring needs a fitted model": (
        lambda: play(LogisticRegression(), scoring=not_a_number),
        ValueError,
        "'DummyClassifier' object has no attribute 'coef_'.* empty_value=",
    ),
    "scoring returns NaN without features": (
        lambda: play(LogisticRegression(), scoring=lambda *_: np.nan),
        ValueError,
        "^scoring.* nan .* empty_value=",
    ),
    "scoring returns NaN": (
        lambda: play(LogisticRegression(), scoring=not_a_number, empty_value=0.0)(FULL),
        ValueError,
        "^scoring .* nan .* 7 points",
    ),
    "empty_value is text": (lambda: play(LogisticRegression(), empty_value="0"), TypeError, "^empty_value"),
    "fewer labels": (lambda: play_with(y=[0, 1]), ValueError, r"^y .* 7 .*\(2,\)"),
    "a table of labels": (lambda: play_with(y=DATA.x), ValueError, r"^y .*\(7, 2\)"),
    "ragged features": (lambda: play_with(x=[[1.0], [1.0, 2.0]]), ValueError, "^x must be an array"),
    "reference is empty": (
        lambda: play_with(reference=(DATA.x[:0], DATA.y[:0])),
        ValueError,
        r"^reference\[0\] .*\(0, 2\)",
    ),
    "reference is not a pair": (lambda: play_with(reference=DATA.x), ValueError, "^reference must be a pair"),
    "negative seed": (lambda: play(LogisticRegression(), seed=-1), ValueError, "^seed must be at least 0"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused(name: str) -> None:
    act, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        act()


def test_without_scikit_learn_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ModuleNotFoundError, match="retraining a model needs scikit-learn: pip install scikit-learn"):
        play(Majority())
