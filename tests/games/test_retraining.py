"""The game of retraining a model: what coalitions are worth, which models and scores will do, and what goes wrong."""

from __future__ import annotations

import re
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
from fwshapley.games import Game, RetrainingGame, RetrainingUtility

N = 7
EVERYONE, NOBODY = torch.ones(1, N, dtype=torch.bool), torch.zeros(1, N, dtype=torch.bool)


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
    mask = NOBODY.clone()
    mask[0, list(members)] = True
    return mask


def play(model: Any, **options: Any) -> RetrainingGame:  # noqa: ANN401 - any model and its options
    return RetrainingUtility(model, **options).on(*DATA.all)


# Against closed forms


def test_nearest_neighbors_retrained_are_nearest_neighbors_in_closed_form() -> None:
    weights = [make(N) for make in SEMIVALUES.values()]
    found = fw.exact_values(play(KNeighborsClassifier(1)), weights, progress=False)
    assert_close(found, fw.value_neighbors(*DATA.all[:2], DATA.all[2:], k=1, weights=weights, utility="vote").values)


def share_of_neighbors(model: Any, x: NDArray[Any], y: NDArray[Any]) -> float:  # noqa: ANN401 - a fitted model
    known = model.predict_proba(x) * (model.classes_ == y[:, None])
    return float(known.sum(1).mean())


def test_a_function_of_probabilities_scores_too() -> None:
    weights = [fw.Shapley(), fw.Banzhaf(0.2)]
    game = play(KNeighborsClassifier(1), scoring=share_of_neighbors)
    expected = fw.value_neighbors(*DATA.all[:2], DATA.all[2:], k=1, weights=weights, utility="normalized").values
    assert_close(fw.exact_values(game, weights, progress=False), expected)


# What a coalition is worth


def test_it_is_a_game() -> None:
    game = play(LogisticRegression())
    assert isinstance(game, Game)
    assert game.n_players == N
    x, y, x_reference, y_reference = DATA.all
    members = [0, 1, 4]
    by_hand = LogisticRegression().fit(x[members], y[members]).score(x_reference, y_reference)
    assert game(torch.cat([coalition(*members), NOBODY])).tolist() == [by_hand, 0.5]


def test_names_of_scores_are_scikit_learns() -> None:
    x, y, x_reference, y_reference = DATA.all
    fitted = LogisticRegression().fit(x, y)
    by_hand = -log_loss(y_reference, fitted.predict_proba(x_reference))
    assert float(play(LogisticRegression(), scoring="neg_log_loss")(EVERYONE)[0]) == pytest.approx(by_hand)


def test_nobody_knows_labels_but_no_features() -> None:
    prior = np.bincount(DATA.y) / N
    expected = float(np.log(prior)[DATA.y_reference].mean())
    assert play(LogisticRegression(), scoring="neg_log_loss").nobody == pytest.approx(expected)
    assert play(LogisticRegression(), scoring="roc_auc").nobody == 0.5
    assert play(LogisticRegression(), nobody=0.25)(NOBODY).tolist() == [0.25]


def test_a_regressor_is_scored_by_r2() -> None:
    x, _, x_reference, _ = DATA.all
    targets, other_targets = x @ [1.0, 2.0] + 0.1 * x[:, 0] ** 2, x_reference @ [1.0, 2.0]
    game = RetrainingUtility(LinearRegression()).on(x, targets, x_reference, other_targets)
    by_hand = r2_score(other_targets, LinearRegression().fit(x[:4], targets[:4]).predict(x_reference))
    assert float(game(coalition(0, 1, 2, 3))[0]) == pytest.approx(by_hand)
    assert game.nobody == pytest.approx(r2_score(other_targets, np.full(20, targets.mean())))


def test_one_class_is_worth_what_nobody_is_if_the_model_cannot_learn_from_it() -> None:
    alike = coalition(0, 2, 4)
    assert play(LogisticRegression(), nobody=0.3)(alike).tolist() == [0.3]
    assert play(KNeighborsClassifier(1), nobody=0.3)(alike).tolist() == [0.5]  # always says 0, as it should


def test_too_few_points_are_worth_what_nobody_is() -> None:
    game = play(KNeighborsClassifier(5), nobody=0.3)
    assert game(coalition(0, 1, 2)).tolist() == [0.3]
    assert game(EVERYONE).tolist() != [0.3]


def test_a_missing_class_may_be_more_than_a_score_bears() -> None:
    y, y_reference = np.array([0, 0, 1, 1, 2, 2, 2]), np.arange(20) % 3
    utility = RetrainingUtility(DecisionTreeClassifier(), scoring="neg_log_loss", nobody=-1.5)
    assert utility.on(DATA.x, y, DATA.x_reference, y_reference)(coalition(0, 1, 2)).tolist() == [-1.5]


# Any model, always alike


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(3),
        make_pipeline(StandardScaler(), DecisionTreeClassifier(max_features=1)),
        DecisionTreeClassifier(max_features=1, random_state=np.random.RandomState(3)),
    ],
    ids=["forest", "pipeline", "generator"],
)
def test_a_coalition_is_always_worth_the_same(model: Any) -> None:  # noqa: ANN401 - any model
    before = repr(model)
    game, some = play(model), coalition(0, 1, 2, 5, 6)
    once = game(torch.cat([some, EVERYONE, some]))
    np.random.seed(1)  # noqa: NPY002 - which a model without a seed would use
    assert once.tolist() == play(model)(torch.cat([some, EVERYONE, some])).tolist()
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
    game = RetrainingUtility(model).on(table, labels, others, ["no", "yes", "yes"])
    assert bool(game(torch.cat([EVERYONE, coalition(0, 1, 3), NOBODY])).isfinite().all())


def test_tensors_will_do() -> None:
    x, y, x_reference, y_reference = map(torch.from_numpy, DATA.all)
    game = RetrainingUtility(LogisticRegression()).on(x.requires_grad_(), y, x_reference, y_reference)
    assert game(EVERYONE).tolist() == play(LogisticRegression())(EVERYONE).tolist()


# What goes wrong


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
        play(Failing())(EVERYONE)
    with pytest.raises(RuntimeError, match="to a coalition of 6 points and scored: ValueError: out of order"):
        play(Failing())(coalition(0, 1, 2, 3, 4, 5))
    with pytest.raises(RuntimeError, match="to a coalition of 2 points and scored: ZeroDivisionError: out of order"):
        play(Failing(ZeroDivisionError, most=1))(coalition(0, 1))
    assert play(Failing(), nobody=0.3)(coalition(0, 1, 2)).tolist() == [0.3]  # half of a class is missing


def nothing_known(model: Any, x: NDArray[Any], y: NDArray[Any]) -> float:  # noqa: ANN401 - a fitted model
    del x, y
    return float(model.coef_.mean() * np.nan)


WRONG: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "unknown scoring": (
        lambda: play(LogisticRegression(), scoring="acuracy"),
        ValueError,
        "name of one of scikit-learn's scorers, such as 'accuracy'",
    ),
    "scoring that is no name": (lambda: play(LogisticRegression(), scoring=3), ValueError, "got 3"),
    "no model": (lambda: play(None), TypeError, "model must have fit and predict"),
    "a class": (lambda: play(LogisticRegression), TypeError, "not a class of models: write LogisticRegression()"),
    "nobody unknown": (
        lambda: play(LogisticRegression(), scoring=nothing_known),
        ValueError,
        "cannot tell what nobody is worth ('DummyClassifier' object has no attribute 'coef_'",
    ),
    "nobody not a number": (
        lambda: play(LogisticRegression(), scoring=lambda *_: np.nan),
        ValueError,
        "is nan where nothing is known: say nobody=... instead",
    ),
    "score not a number": (
        lambda: play(LogisticRegression(), scoring=nothing_known, nobody=0.0)(EVERYONE),
        ValueError,
        "the score of a model fitted to a coalition of 7 points is nan",
    ),
    "fewer labels": (
        lambda: RetrainingUtility(LogisticRegression()).on(DATA.x, [0, 1], DATA.x_reference, DATA.y_reference),
        ValueError,
        "y must be one label or target per point, 7 of them, got 2",
    ),
    "a table of labels": (
        lambda: RetrainingUtility(LogisticRegression()).on(DATA.x, DATA.x, DATA.x_reference, DATA.y_reference),
        ValueError,
        "y must be one label or target per point, got shape (7, 2)",
    ),
    "no reference": (
        lambda: RetrainingUtility(LogisticRegression()).on(DATA.x, DATA.y, DATA.x[:0], DATA.y[:0]),
        ValueError,
        "x_reference must have a row per point, got shape (0, 2)",
    ),
    "negative seed": (lambda: play(LogisticRegression(), seed=-1), ValueError, "seed must be at least 0"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str) -> None:
    act, error, message = WRONG[name]
    with pytest.raises(error, match=re.escape(message)):
        act()


def test_without_scikit_learn_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ModuleNotFoundError, match="retraining a model needs scikit-learn: pip install scikit-learn"):
        play(Majority())
