"""Closed forms of squared errors, kernels and radii against enumeration, and at sizes out of its reach."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor
from torch.testing import assert_close

import fwshapley as fw
from conftest import SEMIVALUES
from fwshapley.games import NeighborGame, NeighborRegressionGame
from fwshapley.valuation.knn import problem
from fwshapley.valuation.knn.closed_forms import make_form, make_regression_form

DEFAULT = 0.3
RANKED = ["squared_error", "normalized_error", "kernel_error", "brier", "kernel"]
ALL = [*RANKED, "radius", "radius_error"]
assert_exact = partial(assert_close, rtol=0, atol=1e-11)


def draw(n: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Targets, labels of three classes, and closeness."""
    generator = torch.Generator().manual_seed(seed)
    targets = 3 * torch.randn(n, generator=generator, dtype=torch.float64) + 1
    labels = torch.randint(0, 3, (n,), generator=generator)
    return targets, labels, torch.rand(n, generator=generator, dtype=torch.float64)


def ranked_values(utility: Any, y: Tensor, label: Any, k: int, *, weights: list[fw.Semivalue], near: Tensor) -> Tensor:  # noqa: ANN401 - any utility
    """Values from the closed form, by (weighting, rank)."""
    closeness = near[None] if utility.startswith("kernel") else None
    if utility.endswith("error"):
        form = make_regression_form(utility, weights, len(y), k, default=DEFAULT)
    else:
        form = make_form(utility, weights, torch.bincount(y, minlength=3), k)
    return form.by_rank(y[None], torch.tensor([label], dtype=y.dtype), closeness)[:, 0]


def game_of(utility: Any, y: Tensor, label: Any, k: int, *, near: Tensor, default: float = DEFAULT) -> Any:  # noqa: ANN401 - any utility
    """The game of one reference point."""
    closeness = near if utility.startswith(("kernel", "radius")) else None
    if utility.endswith("error"):
        return NeighborRegressionGame(y, float(label), k, utility, default, closeness)
    return NeighborGame(y, int(label), 3, k, utility, closeness=closeness)


# One reference point


@pytest.mark.parametrize("utility", RANKED)
@pytest.mark.parametrize("k", [1, 2, 3, 5, 9])
def test_values_are_those_of_enumeration(utility: str, k: int) -> None:
    for n in range(1, 9):
        targets, labels, near = draw(n, seed=n)
        weights = [make(n) for make in SEMIVALUES.values()] + [fw.Beta(4, 1), fw.Banzhaf(0.3)]
        y, label = (targets, 0.7) if utility.endswith("error") else (labels, 1)
        found = ranked_values(utility, y, label, k, weights=weights, near=near)
        expected = fw.exact_values(game_of(utility, y, label, k, near=near), weights, progress=False)
        assert_exact(found, expected)


@given(
    st.lists(st.integers(-5, 5), min_size=1, max_size=6),
    st.integers(-5, 5),
    st.integers(1, 7),
    st.floats(-3, 3),
)
def test_a_constant_moves_targets_default_and_reference_alike(y: list[int], aim: int, k: int, by: float) -> None:
    targets = torch.tensor(y, dtype=torch.float64)
    for utility in ("squared_error", "normalized_error"):
        plain, moved = (
            make_regression_form(utility, [fw.Beta(4, 1)], len(y), k, default=1 + shift).by_rank(
                targets[None] + shift, torch.tensor([aim + shift], dtype=torch.float64)
            )
            for shift in (0.0, by)
        )
        assert_close(plain, moved, rtol=0, atol=1e-11)


def test_the_error_of_indicators_is_the_brier_score() -> None:
    _, labels, _ = draw(300)
    weights = [fw.Shapley(), fw.Beta(16, 1), fw.Banzhaf(0.02)]
    brier = make_form("brier", weights, torch.bincount(labels), 5).by_rank(labels[None], torch.tensor([1]))
    form = make_regression_form("squared_error", weights, 300, 5, default=0.0)
    errors = [
        form.by_rank((labels == c).double()[None], torch.tensor([float(c == 1)], dtype=torch.float64)) for c in range(3)
    ]
    assert_close(brier, sum(errors), rtol=0, atol=1e-13)


@pytest.mark.parametrize("utility", RANKED)
def test_shapley_values_sum_to_what_everyone_adds(utility: str) -> None:
    n = 20_000
    targets, labels, near = draw(n)
    y, label = (targets, 0.7) if utility.endswith("error") else (labels, 1)
    nobody, everyone = game_of(utility, y, label, 5, near=near)(torch.tensor([[False], [True]]).expand(2, n))
    found = ranked_values(utility, y, label, 5, weights=[fw.Shapley()], near=near)
    assert float(found.sum()) == pytest.approx(float(everyone - nobody), abs=1e-9)


@pytest.mark.parametrize("utility", RANKED)
def test_leave_one_out_is_what_leaving_one_out_does(utility: str) -> None:
    n = 200
    targets, labels, near = draw(n)
    y, label = (targets, 0.7) if utility.endswith("error") else (labels, 1)
    game = game_of(utility, y, label, 4, near=near)
    left = game(torch.ones(1, n, dtype=torch.bool)) - game(~torch.eye(n, dtype=torch.bool))
    assert_exact(ranked_values(utility, y, label, 4, weights=[fw.LeaveOneOut()], near=near)[0], left)


# Very many points


def long_recursion(targets: Tensor, aim: float, k: int, weights: fw.Beta) -> NDArray[np.longdouble]:
    """Values under "squared_error" from one rank to the next, in extended precision and by other expectations.

    phi_i - phi_{i+1} = -((y_i - y_{i+1}) / K**2) [2 (A_i sum_{j<i} y_j + sum_{j>i+1} A_{j-1} y_j)
                                                  + c_i (y_i + y_{i+1} - 2 K y*)],    A_i = E[t P(Bin(i-2, t) <= K-2)].
    """
    n, y = len(targets), targets.numpy().astype(np.longdouble)
    a, b = weights.beta, weights.alpha  # t ~ Beta(beta, alpha)
    reach = beta_binomial(n, k - 1, a, b)
    pairs = np.concatenate([[0], a / (a + b) * beta_binomial(n, k - 2, a + 1, b)[:-1]])
    closer = np.concatenate([[0], y.cumsum()[:-1]])
    last = -y[-1] / k**2 * (reach[-1] * (y[-1] - 2 * k * aim) + 2 * pairs[-1] * closer[-1])
    farther = (pairs[:-1] * y[1:])[::-1].cumsum()[::-1]  # sum_{j>i} A_{j-1} y_j
    farther = np.concatenate([farther[1:], [0]])
    both = 2 * (pairs[:-1] * closer[:-1] + farther) + reach[:-1] * (y[:-1] + y[1:] - 2 * k * aim)
    steps = -(y[:-1] - y[1:]) / k**2 * both
    return last + np.concatenate([steps[::-1].cumsum()[::-1], [0]])


def beta_binomial(n: int, most: int, a: float, b: float) -> NDArray[np.longdouble]:
    """P(Bin(m, t) <= most) for m = 0..n-1 and t ~ Beta(a, b), from ratios of neighbors in extended precision."""
    m = np.arange(n, dtype=np.longdouble)
    chance = np.concatenate([[1], ((b + m) / (a + b + m))[:-1].cumprod()])
    total = chance.copy()
    for size in range(most):
        chance = chance * np.maximum(m - size, 0) * (a + size) / ((size + 1) * (np.maximum(m - size - 1, 0) + b))
        total += chance
    return total


@pytest.mark.parametrize("weights", [fw.Shapley(), fw.Beta(4, 1), fw.Beta(1, 4)], ids=str)
def test_no_digits_are_lost_among_very_many_points(weights: fw.Beta) -> None:
    n, k = 100_000, 5
    targets, _, near = draw(n)
    found = ranked_values("squared_error", targets, 0.7, k, weights=[weights], near=near)[0].numpy()
    expected = long_recursion(targets - DEFAULT, 0.7 - DEFAULT, k, weights)
    assert np.abs(found - expected).max() < 1e-12 * np.abs(expected).max()


@pytest.mark.parametrize("utility", RANKED)
def test_extreme_weightings_of_a_million_points_are_finite(utility: str) -> None:
    targets, labels, near = draw(1_000_000)
    y, label = (targets, 0.7) if utility.endswith("error") else (labels, 1)
    found = ranked_values(utility, y, label, 5, weights=[fw.Beta(16, 1), fw.Beta(1, 16)], near=near)
    assert bool(found.isfinite().all())
    assert float(found.abs().max()) < 1000  # of the order of squared targets


# All points


class Points:
    """Points with targets and labels, and reference points with others."""

    def __init__(self, n: int, references: int, seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        self.x, self.x_reference = generator.normal(size=(n, 2)), generator.normal(size=(references, 2))
        self.targets, self.aims = generator.normal(size=n) * 3 + 1, generator.normal(size=references)
        self.labels = np.concatenate([[0, 1, 2], generator.integers(0, 3, n - 3)])
        self.reference_labels = generator.integers(0, 3, references)

    def of(self, utility: str) -> tuple[Any, Any, Any, Any]:
        """Return points and reference points with their labels or targets."""
        if utility.endswith("error"):
            return self.x, self.targets, self.x_reference, self.aims
        return self.x, self.labels, self.x_reference, self.reference_labels


RADIUS = 0.8


def radius_of(utility: str) -> float | None:
    return RADIUS if utility.startswith(("kernel", "radius")) else None


def value(points: Points, utility: Any, *, held_out: bool = False, **options: Any) -> fw.Valuation:  # noqa: ANN401 - any utility
    """Value points by the reference points, or by each other."""
    x, y, x_reference, y_reference = points.of(utility)
    reference = None if held_out else (x_reference, y_reference)
    options = {"utility": utility, "radius": radius_of(utility), "n_jobs": 1, "progress": False} | options
    return fw.value_neighbors(x, y, reference, **options)


def by_enumeration(points: Points, utility: str, k: int, weights: Any, *, held_out: bool, new: Any = None) -> Tensor:  # noqa: ANN401 - one or several
    """Values of all points in the game of each reference point, by (reference, weighting, point).

    A new point (x, y) joins all others, which still determine the default.
    """
    x, y, x_reference, y_reference = points.of(utility)
    references, aims = (x, y) if held_out else (x_reference, y_reference)
    default = float(np.mean(y))
    if new is not None:
        x, y = np.vstack([x, new[0]]), np.append(y, new[1])
    found = torch.zeros(len(references), len(weights), len(x), dtype=torch.float64)
    for row, (point, aim) in enumerate(zip(references, aims, strict=True)):
        distances = np.sqrt(((x - point) ** 2).sum(1))
        order = distances.argsort(kind="stable")
        order = order[order != row] if held_out else order
        near = distances[order]
        closeness = np.exp(-(near**2) / (2 * RADIUS**2)) if utility.startswith("kernel") else near <= RADIUS
        game = game_of(
            utility, torch.from_numpy(y[order]), aim, k, near=torch.from_numpy(closeness * 1.0), default=default
        )
        found[row][:, order] = fw.exact_values(game, weights, progress=False)
    return found


@pytest.mark.parametrize("utility", ALL)
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("held_out", [False, True], ids=["references", "each other"])
def test_values_are_means_of_enumerated_games(utility: str, k: int, *, held_out: bool) -> None:
    points, n = Points(7, 5), 7 - held_out
    weights = [make(n) for make in SEMIVALUES.values()]
    games = by_enumeration(points, utility, k, weights, held_out=held_out)
    found = value(points, utility, held_out=held_out, k=k, weights=weights)
    assert_exact(found.values, games.sum(0) / found.references)
    if not held_out:
        assert_close(found.stderr, games.std(0) / len(games) ** 0.5, rtol=0, atol=1e-7)
    assert found.has_targets == utility.endswith("error")


@pytest.mark.parametrize("utility", ALL)
@pytest.mark.parametrize("held_out", [False, True], ids=["references", "each other"])
def test_new_points_are_worth_what_they_are_among_all(utility: Any, *, held_out: bool) -> None:  # noqa: ANN401 - any utility
    points, new = Points(6, 4), Points(3, 1, seed=1)
    x, y, x_reference, y_reference = points.of(utility)
    x_new, y_new, *_ = new.of(utility)
    weights = [fw.Shapley(), fw.Beta(16, 1), fw.Banzhaf(0.3), fw.LeaveOneOut()]
    options: dict[str, Any] = {"utility": utility, "radius": radius_of(utility), "weights": weights, "progress": False}
    fitted = fw.KNNValuator(3, **options).fit(x, y, None if held_out else (x_reference, y_reference))
    found = fitted.value(x_new, y_new)
    for i in range(3):
        games = by_enumeration(points, utility, 3, weights, held_out=held_out, new=(x_new[i], y_new[i]))[..., -1]
        # Valued by each other, a point is the mean over one reference point less than there are.
        assert_exact(found.values[:, i], games.sum(0) / found.references)


@pytest.mark.parametrize("utility", ALL)
@pytest.mark.parametrize("held_out", [False, True], ids=["references", "each other"])
def test_distances_by_products_give_the_same_values(
    utility: str, monkeypatch: pytest.MonkeyPatch, *, held_out: bool
) -> None:
    points = Points(30, 12)
    x, y, *_ = points.of(utility)

    def find() -> tuple[Tensor, Tensor]:
        options: dict[str, Any] = {"utility": utility, "radius": radius_of(utility), "progress": False}
        reference = None if held_out else points.of(utility)[2:]
        fitted = fw.KNNValuator(3, **options).fit(x, y, reference)
        return fitted.values_, fitted.value(x[:4] + 0.01, y[:4]).values

    directly = find()
    monkeypatch.setattr(problem, "MAX_DIRECT", 0)
    for one, other in zip(find(), directly, strict=True):
        assert_close(one, other, rtol=0, atol=1e-13)


@pytest.mark.parametrize("utility", ALL)
def test_parts_of_the_reference_merge_into_one_run(utility: str) -> None:
    points = Points(40, 150)
    x, y, x_reference, y_reference = points.of(utility)
    options: dict[str, Any] = {
        "utility": utility,
        "radius": radius_of(utility),
        "weights": [fw.Shapley(), fw.Beta(4, 1)],
    }
    parts = [
        fw.value_neighbors(x, y, (x_reference[rows], y_reference[rows]), progress=False, **options)
        for rows in (slice(1), slice(1, 60), slice(60, None))
    ]
    merged, whole = fw.Valuation.merge(parts), value(points, utility, weights=options["weights"])
    assert_close(merged.values, whole.values, rtol=1e-12, atol=1e-14)
    assert_close(merged.stderr, whole.stderr, rtol=1e-6, atol=1e-12)
    assert torch.equal(value(points, utility, n_jobs=2, weights=options["weights"]).values, whole.values)


def test_parts_with_other_targets_are_not_merged() -> None:
    points = Points(12, 4)
    moved = points.targets + 1
    parts = [
        fw.value_neighbors(points.x, y, (points.x_reference, points.aims), progress=False)
        for y in (points.targets, moved)
    ]
    with pytest.raises(ValueError, match=r"default, points .*differ|labels"):
        fw.Valuation.merge(parts)


@pytest.mark.parametrize("utility", ["squared_error", "normalized_error", "kernel_error", "radius_error"])
@pytest.mark.parametrize("held_out", [False, True], ids=["references", "each other"])
def test_corrupted_targets_have_the_lowest_values(utility: str, *, held_out: bool) -> None:
    points = Points(80, 60)
    points.targets, points.aims = points.x.sum(1), points.x_reference.sum(1)
    wrong = np.arange(5, 80, 15)
    points.targets[wrong] += 12
    found = value(points, utility, held_out=held_out, k=3)
    assert set(found.suspects(len(wrong)).tolist()) == set(wrong.tolist())


def test_a_distance_of_exactly_the_radius_is_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.array([[3.0, 4.0], [3.0, 4.1], [-5.0, 0.0], [0.0, 7.0]]), ["a", "a", "b", "b"]
    for most in (2**28, 0):
        monkeypatch.setattr(problem, "MAX_DIRECT", most)
        found = fw.value_neighbors(x, y, ([[0.0, 0.0]], ["a"]), utility="radius", radius=5.0, progress=False)
        assert (found.values != 0).tolist() == [True, False, True, False]


@pytest.mark.parametrize("utility", ["squared_error", "radius_error"])
def test_a_valuation_of_targets_is_a_table_and_a_file(utility: str, tmp_path: Path) -> None:
    points = Points(12, 6)
    found = value(points, utility)
    frame = found.to_dataframe()
    assert frame.columns.tolist() == ["target", "value", "stderr", "rank"]
    assert np.array_equal(frame.target, points.targets)
    found.save(tmp_path / "values.safetensors")
    loaded = fw.Valuation.load(tmp_path / "values.safetensors")
    assert torch.equal(loaded.values, found.values)
    assert loaded.has_targets
    assert dict(loaded.provenance) == dict(found.provenance)
    assert found.provenance["task"] == "regression"


@pytest.mark.parametrize("utility", ["soft", "squared_error"])
def test_coalitions_of_at_least_some_points_are_a_weighting(utility: str) -> None:
    points, least = Points(6, 3), 3
    found = value(points, utility, k=2, weights=fw.Cardinality.at_least(least, 6))
    sizes = [fw.Cardinality(1.0 * (np.arange(6) == size)) for size in range(least, 6)]
    each = value(points, utility, k=2, weights=sizes)
    assert_exact(found.values, each.values.mean(0))


# Which task it is


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (np.arange(30) % 3, "classification"),
        (np.arange(30) % 3 * 1.0, "classification"),
        (np.arange(30) % 2 > 0, "classification"),
        (np.arange(30).astype(str), "classification"),
        (np.linspace(0, 1, 30), "regression"),
        (np.arange(30) * 5, "regression"),  # prices
        (np.arange(30), None),  # codes of 30 classes, or a count
        (np.arange(30) + 1, None),
        (np.arange(30) % 5 / 2, None),  # half stars
        (np.repeat(np.arange(21) * 10, 20), None),  # many, but each occurs 20 times
        (np.arange(9) * 10, None),  # few, but none occurs twice
    ],
    ids=str,
)
def test_a_task_is_told_by_the_labels_or_asked_for(y: Any, task: str | None) -> None:  # noqa: ANN401 - any labels
    x = np.random.default_rng(0).normal(size=(len(y), 2))
    if task is None:
        with pytest.raises(ValueError, match=r"^y has .*task='classification' or task='regression'"):
            fw.value_neighbors(x, y, progress=False)
        assert fw.value_neighbors(x, y, task="regression", progress=False).has_targets
    else:
        assert fw.value_neighbors(x, y, progress=False).provenance["task"] == task
