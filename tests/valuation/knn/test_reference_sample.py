"""Points valued by a sample of them: each by the other points of the sample."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import fwshapley as fw
from conftest import every_utility
from fwshapley.games.knn import RegressionUtility, Ties, Utility
from fwshapley.valuation.knn import engine, problem, reference_sample
from fwshapley.valuation.knn.reference_sample import draw_evenly
from fwshapley.valuation.report import summarize

X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.concatenate([[0, 1, 2], np.random.default_rng(1).integers(0, 3, 37)])
value = partial(fw.value_neighbors, X, Y, k=3, weights=[fw.Shapley(), fw.Beta(4, 1)], n_jobs=1, progress=False)


@pytest.mark.parametrize("compiled", [True, False])
@every_utility
def test_values_are_means_over_the_other_points_of_the_sample(
    utility: Utility, ties: Ties, monkeypatch: pytest.MonkeyPatch, *, compiled: bool
) -> None:
    monkeypatch.setattr(engine, "COMPILED_PAIRS", 0 if compiled else 2**60)
    drawn = draw_evenly(X, Y, 11, seed=5)
    games = torch.zeros(11, 2, 40, dtype=torch.float64)  # by reference point; a point has no part in its own game
    for number, point in enumerate(drawn.tolist()):
        others = np.delete(np.arange(40), point)
        game = fw.value_neighbors(
            X[others], Y[others], (X[[point]], Y[[point]]), k=3, weights=[fw.Shapley(), fw.Beta(4, 1)],
            utility=utility, ties=ties, progress=False,
        )  # fmt: skip
        games[number][:, others] = game.values
    found = value(n_references=11, seed=5, utility=utility, ties=ties)
    count = torch.full((40,), 11.0, dtype=torch.float64)
    count[drawn] = 10
    assert_close(found.values, games.sum(0) / count, rtol=0, atol=1e-14)
    undrawn = np.setdiff1d(np.arange(40), drawn)
    assert_close(found.stderr[:, undrawn], (games.std(0) / 11**0.5)[:, undrawn], rtol=0, atol=1e-8)
    assert (found.references, found.provenance["n_references"], found.provenance["seed"]) == (11, 11, 5)


@pytest.mark.parametrize("utility", ["kernel", "radius"])
def test_distances_count_in_games_of_a_sample(utility: Utility) -> None:
    drawn = draw_evenly(X, Y, 11, seed=5)
    options: dict[str, Any] = {"utility": utility, "radius": 1.2, "k": 3, "progress": False}
    games = torch.zeros(11, 40, dtype=torch.float64)
    for number, point in enumerate(drawn.tolist()):
        others = np.delete(np.arange(40), point)
        game = fw.value_neighbors(X[others], Y[others], (X[[point]], Y[[point]]), **options)
        games[number][others] = game.values
    count = torch.full((40,), 11.0, dtype=torch.float64)
    count[drawn] = 10
    found = fw.value_neighbors(X, Y, n_references=11, seed=5, **options)
    assert_close(found.values, games.sum(0) / count, rtol=0, atol=1e-14)


@pytest.mark.parametrize("utility", ["squared_error", "radius_error"])
def test_targets_are_valued_by_samples_as_by_all_points_on_average(utility: RegressionUtility) -> None:
    target = X.sum(1)
    radius = 1.2 if utility == "radius_error" else None
    options: dict[str, Any] = {"utility": utility, "radius": radius, "progress": False}
    sampled = [fw.value_neighbors(X, target, n_references=20, seed=seed, **options) for seed in range(60)]
    values = torch.stack([found.values for found in sampled])
    whole = fw.value_neighbors(X, target, **options).values
    assert bool(((values.mean(0) - whole).abs() < 4 * values.std(0) / 60**0.5 + 1e-12).all())
    assert sampled[0].references == 20


def test_a_report_says_that_there_was_a_sample() -> None:
    assert "to predict a sample of 11 of them: " in summarize(value(n_references=11).of(fw.Shapley()), "row")[0]
    assert "to predict the others: " in summarize(value().of(fw.Shapley()), "row")[0]


def test_values_by_samples_are_those_by_all_points_on_average() -> None:
    sampled = torch.stack([value(n_references=20, seed=seed).values for seed in range(200)])
    assert bool(((sampled.mean(0) - value().values).abs() < 4 * sampled.std(0) / 200**0.5 + 1e-12).all())


def test_a_sample_of_all_points_is_all_of_them() -> None:
    for n_references in (40, "all", None):
        found = value(n_references=n_references)
        assert torch.equal(found.values, value().values)
        assert found.references == 39


@pytest.mark.parametrize("count", [2, 7, 39])
def test_each_label_has_its_share_of_a_sample(count: int) -> None:
    drawn = draw_evenly(X, Y, count, seed=0)
    assert len(np.unique(drawn)) == count
    shares = np.bincount(Y[drawn], minlength=3) - np.bincount(Y) * count / 40
    assert np.abs(shares).max() < 1
    assert not np.array_equal(drawn, draw_evenly(X, Y, count, seed=1))


def test_each_region_has_its_share_of_a_sample() -> None:
    x = np.random.default_rng(0).random((1024, 2))
    quarter = 2 * (x[:, 0] > np.median(x[:, 0])) + (x[:, 1] > np.median(x[:, 1]))
    for seed in range(5):
        drawn = draw_evenly(x, np.zeros(1024, dtype=np.int64), 64, seed)
        counts, expected = np.bincount(quarter[drawn]), np.bincount(quarter) / 16
        assert np.abs(counts - expected).max() < 4  # a simple random sample would have a standard deviation of 3.4


def test_a_sample_is_announced_if_it_was_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reference_sample, "MAX_PAIRS", 40 * 20)
    monkeypatch.setattr(reference_sample, "COLUMNS", X.shape[1])  # so many halve the pairs
    assert value(progress=True).references == 10
    assert "valuing: 40 points by a sample of 10 of them; all of them (n_references=40)" in capsys.readouterr().err
    assert value(progress=True, n_references=10).references == 10
    assert value(progress=True, n_references="all").references == 39
    assert capsys.readouterr().err == ""


def test_new_points_are_valued_by_the_sample() -> None:
    valuator = fw.KNNValuator(3, n_references=11, seed=5, progress=False).fit(X, Y)
    found = valuator.value([[0.0, 0.0, 0.0]], [1])
    drawn = draw_evenly(X, Y, 11, seed=5)
    joined, labels = np.concatenate([X, [[0.0, 0.0, 0.0]]]), np.append(Y, 1)
    games = []
    for point in drawn.tolist():
        others = np.delete(np.arange(41), point)
        reference = (X[[point]], Y[[point]])
        games.append(fw.value_neighbors(joined[others], labels[others], reference, k=3, progress=False).values[-1])
    assert_close(found.values[0], torch.stack(games).mean(), rtol=0, atol=1e-14)


def test_a_sample_is_not_for_reference_points() -> None:
    with pytest.raises(ValueError, match="n_references=5 is for points that value each other"):
        fw.value_neighbors(X, Y, (X, Y), n_references=5, progress=False)
    unknown: Any = "most"
    with pytest.raises(ValueError, match="n_references must be a whole number, 'all' or None, got 'most'"):
        reference_sample.sample_reference(
            problem.check_problem(X, Y, weights=None, k=3), unknown, seed=0, progress=False
        )
