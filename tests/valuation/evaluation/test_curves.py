from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from fwshapley import Shapley
from fwshapley.valuation import value_neighbors
from fwshapley.valuation.evaluation.curves import Curve, Order, addition_curve, removal_curve
from fwshapley.valuation.evaluation.label_noise import flip_labels

VALUES = [0.3, -0.2, 0.1, -0.5]
QUIET: dict[str, Any] = {"progress": False}


class Watched:
    """Scores rows by their number, and remembers them."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    def __call__(self, rows: NDArray[np.int64]) -> float:
        self.seen.append(rows.tolist())
        return len(rows) / 10


@pytest.mark.parametrize(
    ("order", "kept"),
    [
        ("lowest", [[0, 1, 2, 3], [0, 1, 2], [0, 2], [0]]),
        ("highest", [[0, 1, 2, 3], [1, 2, 3], [1, 3], [3]]),
    ],
)
def test_removal_goes_by_value(order: Order, kept: list[list[int]]) -> None:
    watched = Watched()
    curve = removal_curve(VALUES, watched, steps=3, most=0.75, order=order)
    assert watched.seen == kept
    assert curve.share.tolist() == [0, 0.25, 0.5, 0.75]
    assert curve.score.tolist() == [0.4, 0.3, 0.2, 0.1]


@pytest.mark.parametrize(
    ("order", "added"),
    [
        ("highest", [[0], [0, 2], [0, 1, 2], [0, 1, 2, 3]]),
        ("lowest", [[3], [1, 3], [1, 2, 3], [0, 1, 2, 3]]),
    ],
)
def test_addition_goes_by_value(order: Order, added: list[list[int]]) -> None:
    watched = Watched()
    curve = addition_curve(VALUES, watched, steps=4, order=order)
    assert watched.seen == added
    assert curve.share.tolist() == [0.25, 0.5, 0.75, 1]
    assert curve.score.tolist() == [0.1, 0.2, 0.3, 0.4]


def test_the_usual_ends_are_half_removed_and_all_added() -> None:
    assert removal_curve(torch.arange(200.0), Watched()).share.tolist() == pytest.approx(np.linspace(0, 0.5, 21))
    assert addition_curve(torch.arange(200.0), Watched()).share.tolist() == pytest.approx(np.linspace(0.05, 1, 20))


def test_no_model_is_trained_twice_on_the_same_points() -> None:
    watched = Watched()
    curve = removal_curve(VALUES, watched, steps=20, most=0.5)
    assert curve.share.tolist() == [0, 0.25, 0.5]
    assert len(watched.seen) == 3


@pytest.mark.parametrize("order", ["lowest", "highest"])
def test_equals_go_in_the_order_they_come_in(order: Order) -> None:
    watched = Watched()
    removal_curve([0.0] * 4, watched, steps=2, order=order)
    assert watched.seen == [[0, 1, 2, 3], [1, 2, 3], [2, 3]]


def test_a_random_order_is_one_of_the_seed_alone() -> None:
    def rows_seen(values: list[int], seed: int | np.random.Generator) -> list[list[int]]:
        watched = Watched()
        removal_curve(values, watched, order="random", seed=seed)
        return watched.seen

    up, down = list(range(30)), list(range(30, 0, -1))
    assert rows_seen(up, 0) == rows_seen(down, 0) == rows_seen(up, np.random.default_rng(0))
    assert rows_seen(up, 0) != rows_seen(up, 1)


def test_without_points_of_low_value_a_model_learns_better_from_noisy_labels() -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(400, 5))
    y = (x[:, 0] + x[:, 1] > 0).astype(int)
    noisy, _ = flip_labels(y[:200], share=0.3, how="next")
    values = value_neighbors(x[:200], noisy, (x[200:300], y[200:300]), weights=Shapley(), n_jobs=1, **QUIET).values

    def fit_and_score(rows: NDArray[np.int64]) -> float:
        return float(LogisticRegression().fit(x[rows], noisy[rows]).score(x[300:], y[300:]))

    def removing(order: Order) -> Curve:
        return removal_curve(values, fit_and_score, steps=4, most=0.4, order=order, **QUIET)

    lowest, highest, random = (removing(order) for order in ("lowest", "highest", "random"))
    assert lowest.score[0] == highest.score[0] == random.score[0]
    assert lowest.score[-1] > lowest.score[0]
    assert lowest.score[-1] > random.score[-1] > highest.score[-1]


def test_a_model_that_fails_says_where() -> None:
    x, y = np.arange(4.0)[:, None], np.array([0, 1, 0, 1])

    def fit_and_score(rows: NDArray[np.int64]) -> float:
        return float(LogisticRegression().fit(x[rows], y[rows]).score(x, y))

    message = r"failed after removing 50\.0% of the points, with 2 points .*.*one class.*smaller most"
    with pytest.raises(RuntimeError, match=message) as removal:
        removal_curve(VALUES, fit_and_score, steps=2)
    assert isinstance(removal.value.__cause__, ValueError)
    message = r"failed after adding 50\.0% of the points, with 2 points .*.*one class.*use fewer steps"
    with pytest.raises(RuntimeError, match=message):
        addition_curve(VALUES, fit_and_score, steps=2)


def test_a_score_that_is_none_says_where() -> None:
    with pytest.raises(ValueError, match=r"score of fit_and_score after removing 0\.0% .* must be finite, got nan"):
        removal_curve(VALUES, lambda _: float("nan"))


@pytest.mark.usefixtures("unchecked")
def test_errors_about_kinds() -> None:
    with pytest.raises(TypeError, match=r"score of fit_and_score after adding 25\.0% .* must be a number, got 'good'"):
        addition_curve(VALUES, lambda _: "good")  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match="order must be one of 'lowest', 'highest', 'random'; got 'best'"):
        removal_curve(VALUES, Watched(), order="best")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="seed must be a whole number, got None"):
        removal_curve(VALUES, Watched(), order="random", seed=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"most": 0}, "most must be above 0 and at most 1, got 0"),
        ({"most": 1.5}, r"most must be above 0 and at most 1, got 1\.5"),
        ({"most": 0.1}, r"most .*0\.1 of 4"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"order": "random", "seed": -1}, "seed must be at least 0, got -1"),
    ],
)
def test_errors_say_what_is_wrong(options: dict[str, Any], message: str) -> None:
    for curve in (removal_curve, addition_curve):
        with pytest.raises(ValueError, match=message):
            curve(VALUES, Watched(), **options)


def test_some_points_must_be_left() -> None:
    with pytest.raises(ValueError, match=r"most .*1 .*all 4"):
        removal_curve(VALUES, Watched(), most=1)
    with pytest.raises(ValueError, match=r"^values must be finite.*1 "):
        removal_curve([0.0, float("nan")], Watched())


def test_progress_counts_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    bars = []

    class Bar:
        def __init__(self, description: str, total: int, *, enabled: bool) -> None:
            self.facts, self.done = (description, total, enabled), 0
            bars.append(self)

        def __enter__(self) -> Bar:  # noqa: PYI034 - a stand-in
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def advance(self, steps: int) -> None:
            self.done += steps

    monkeypatch.setattr("fwshapley.valuation.evaluation.curves.ProgressBar", Bar)
    removal_curve(VALUES, Watched(), steps=2, progress=False)
    addition_curve(VALUES, Watched(), steps=2)
    assert [(bar.facts, bar.done) for bar in bars] == [(("retraining", 3, False), 3), (("retraining", 2, True), 2)]
