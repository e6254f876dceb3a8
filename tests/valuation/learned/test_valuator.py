"""Predicted values: agreement with exact ones, losses, files, resumption and errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.testing import assert_close

import fwshapley as fw
from fwshapley.games import NeighborGame
from fwshapley.games.knn import Utility
from fwshapley.training.batches import Batch, Loss, Shard
from fwshapley.training.loop import schedule
from fwshapley.valuation import ValuationFidelity
from fwshapley.valuation.knn.engine import value_every_label
from fwshapley.valuation.knn.problem import check_problem
from fwshapley.valuation.learned import quadrature
from fwshapley.valuation.learned.losses import BatchLoss, MultilinearLoss, NeighborGames
from fwshapley.valuation.learned.paper_network import batch_law

Method = Literal["regression", "multilinear", "published"]
METHODS: tuple[Method, ...] = ("regression", "multilinear", "published")
FEW = fw.Budget(steps=3)


def blobs(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Three clouds in the plane."""
    rng = np.random.default_rng(seed)
    y = np.arange(count) % 3
    centers = np.array([[0, 0], [2, 0], [0, 2]])
    return centers[y] + 0.7 * rng.normal(size=(count, 2)), y


X, Y = blobs(150, 0)
REFERENCE = blobs(90, 1)


@cache
def fitted(method: Method = "regression", steps: int = 300) -> fw.AmortizedValuator:
    budget = fw.Budget(steps=steps)
    valuator = fw.AmortizedValuator(method=method, budget=budget, batch_size=50, device="cpu", progress=False)
    return valuator.fit(X, Y, reference=REFERENCE)


def test_predicted_values_rank_points_as_exact_ones_do() -> None:
    valuator, (new, labels) = fitted(), blobs(60, 2)
    exact = fw.KNNValuator(progress=False).fit(X, Y, reference=REFERENCE)
    wrong = (labels + 1) % 3
    assert ValuationFidelity.between(valuator.values_, exact.values_).spearman > 0.95
    assert valuator.fidelity_ is not None
    assert valuator.fidelity_.n_points == 15
    for given in (labels, wrong):
        found = ValuationFidelity.between(valuator.value(new, given).values, exact.value(new, given).values)
        assert found.spearman > 0.85
    assert valuator.value(new, wrong).values.mean() < 0 < valuator.value(new, labels).values.mean()


@pytest.mark.parametrize("weights", [fw.Beta(16, 1), fw.Banzhaf(), fw.LeaveOneOut()], ids=str)
def test_one_network_predicts_other_weightings(weights: fw.Semivalue) -> None:
    exact = fw.value_neighbors(X, Y, REFERENCE, weights=weights, progress=False).values
    assert ValuationFidelity.between(fitted().value(X, Y, weights).values, exact).pearson > 0.9


WIDE = [fw.Shapley(), *fw.semivalues.FEASIBLE_SET[::3]]
NARROW = [fw.Beta(60, 40), fw.Banzhaf(0.3), fw.LeaveOneOut()]


@pytest.mark.parametrize("n", [3, 40, 3000])
@pytest.mark.parametrize(
    "weights",
    [fw.Shapley(), *fw.semivalues.FEASIBLE_SET[::3], fw.Beta(60, 40), fw.Banzhaf(0.3), fw.LeaveOneOut()],
    ids=str,
)
def test_values_at_the_nodes_combine_to_every_weighting(weights: fw.Semivalue, n: int) -> None:
    x, y = blobs(n, 0)
    several = [weights, *quadrature.banzhaf_values(quadrature.nodes(n))]
    exact, *at_nodes = fw.value_neighbors(x, y, blobs(10, 1), k=3, weights=several, progress=False).values
    mixed = (quadrature.mixtures([weights], n)[0][:, None] * torch.stack(at_nodes)).sum(0)
    tolerance = 0.01 if weights in WIDE else 0.07
    assert float((mixed - exact).abs().max()) < 1e-5 + tolerance * float(exact.abs().max())


@pytest.mark.parametrize("utility", ["soft", "vote"])
def test_exact_values_under_other_labels_are_those_of_relabeled_points(utility: Utility) -> None:
    weights = (fw.Shapley(), fw.Banzhaf(0.1))
    problem = check_problem(X[:20], Y[:20], REFERENCE, weights=weights, k=3, utility=utility)
    targets = value_every_label(problem, device="cpu", n_jobs=1, progress=False)
    for point, label in ((0, 0), (0, 2), (4, 0), (19, 1), (19, 2)):
        labels = Y[:20].copy()
        labels[point] = label
        value = partial(fw.value_neighbors, k=3, utility=utility, weights=list(weights), progress=False)
        exact = value(X[:20], labels, REFERENCE).values[:, point]
        if utility == "soft" or label == Y[point]:
            assert_close(targets[point, label], exact, rtol=0, atol=1e-12)
        else:  # another label is learned beside the point, not in its stead: nearer than the label it has
            off = (targets[point, label] - exact).abs()
            assert bool((off < (targets[point, Y[point]] - exact).abs() / 2).all())


@pytest.mark.parametrize("utility", ["soft", "vote"])
def test_games_of_many_references_are_the_mean_of_their_games(utility: Utility) -> None:
    x, reference = X[:8], (REFERENCE[0][:5], REFERENCE[1][:5])
    problem = check_problem(x, Y[:8], reference, weights=None, k=2, utility=utility)
    games = NeighborGames(problem, torch.device("cpu"))
    coalitions = torch.rand(20, 8, generator=torch.Generator().manual_seed(0)) < 0.5
    values = []
    for point, label in zip(*reference, strict=True):
        order = torch.from_numpy(((x - point) ** 2).sum(1).argsort())
        values.append(NeighborGame(games.labels[order], int(label), 3, 2, utility)(coalitions[:, order]))
    assert_close(games(coalitions, torch.arange(5)).double(), torch.stack(values).mean(0))
    players = torch.tensor([1, 2, 5])
    members = torch.zeros(20, 8, dtype=torch.bool)
    members[:, players] = coalitions[:, :3]
    assert_close(games(coalitions[:, :3], torch.arange(5), players), games(members, torch.arange(5)))


def test_values_in_batches_are_a_semivalue_of_all_players() -> None:
    """Averaged over all batches of b, the b-player value is the n-player semivalue of `batch_law`."""
    n, b = 6, 4
    labels = torch.tensor([0, 1, 1, 0, 2, 0])
    exact = fw.exact_values(NeighborGame(labels, 0, 3, 2, "vote"), batch_law(fw.Shapley(), b, n), progress=False)
    found, met = torch.zeros(n, dtype=torch.float64), torch.zeros(n)
    for rows in torch.combinations(torch.arange(n), b):
        game = NeighborGame(labels[rows], 0, 3, 2, "vote")
        found[rows] += fw.exact_values(game, fw.Shapley(), progress=False).flatten()
        met[rows] += 1
    assert_close(found / met, exact.flatten())


class Table(torch.nn.Module):
    """A free value for each point and label."""

    def __init__(self, games: NeighborGames, *nodes: int) -> None:
        super().__init__()
        self.x = games.x
        self.values = torch.nn.Parameter(torch.zeros(len(games.x), games.n_classes, *nodes))
        self.register_buffer("last_values", torch.zeros(len(games.x), 1))

    def forward(self, x: Tensor, *reference: Tensor) -> Tensor:
        del reference
        return self.values[(x[:, None] == self.x).all(2).int().argmax(1)]


SMALL = (
    np.c_[np.arange(12), np.random.default_rng(0).normal(size=12)],
    np.arange(12) % 3,
    (np.c_[np.arange(0, 12, 2), np.zeros(6)], np.arange(6) % 3),
)


def small_games(utility: Utility) -> NeighborGames:
    return NeighborGames(check_problem(*SMALL, weights=None, k=2, utility=utility), torch.device("cpu"))


def descend(loss: Loss, table: Table, steps: int) -> Tensor:
    """Return the values of the points under their labels that minimize a loss."""
    optimizer = torch.optim.SGD(table.parameters(), 0.02)
    generator = torch.Generator().manual_seed(0)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 0.02 * (1 - step / steps)
        optimizer.zero_grad()
        loss(table, Batch(torch.arange(12), Shard(), generator, 0.0)).backward()
        optimizer.step()
    return table.values.detach().flatten(1)[torch.arange(12), torch.arange(12) % 3].double()


@pytest.mark.parametrize("utility", ["soft", "vote"])
@pytest.mark.parametrize("weights", [fw.Shapley(), fw.Beta(1, 4), fw.Beta(4, 1)], ids=str)
def test_coalitions_of_a_batch_determine_its_values_up_to_their_level(weights: fw.Semivalue, utility: Utility) -> None:
    games = small_games(utility)
    law = torch.from_numpy(weights.size_law(12))
    loss = BatchLoss(games, law, n_sizes=8, n_per_size=8, n_references=32)
    values = descend(loss, Table(games), 600)
    exact = fw.value_neighbors(*SMALL, k=2, weights=weights, utility=utility, progress=False).values
    level = loss.mean_value(weights, 12, torch.Generator().manual_seed(0))
    assert abs(level - float(exact.mean())) < 0.01
    assert ValuationFidelity.between(values, exact).pearson > 0.97


def test_coalitions_of_all_points_determine_the_values_at_a_node() -> None:
    games = small_games("soft")
    loss = MultilinearLoss(games, torch.tensor([0.0]), torch.ones(1), n_coalitions=64, n_references=32)
    values = descend(loss, Table(games, 1), 600)
    exact = fw.value_neighbors(*SMALL, k=2, weights=fw.Banzhaf(), progress=False).values
    assert float((values - exact).square().mean().sqrt()) < 0.5 * float(exact.std())


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_bits_and_files_keep_them(method: Method, tmp_path: Path) -> None:
    first = fitted(method, 3)
    again = fw.AmortizedValuator(method=method, budget=FEW, batch_size=50, device="cpu", progress=False)
    again.fit(X, Y, reference=REFERENCE)
    assert torch.equal(first.values_, again.values_)
    first.save(tmp_path / "valuator.safetensors")
    loaded = fw.AmortizedValuator.load(tmp_path / "valuator.safetensors", device="cpu")
    assert torch.equal(loaded.values_, first.values_)
    assert torch.equal(loaded.value(X, Y).values, first.value(X, Y).values)
    assert loaded.fidelity_ == first.fidelity_
    assert loaded.get_params() == first.get_params() | {"weights": fw.Shapley(), "progress": True}
    assert len(first.result_.suspects(5)) == 5
    assert first.result_.to_dataframe().shape == (150, 4)


def test_text_labels_and_lists_of_weightings_are_kept(tmp_path: Path) -> None:
    names = np.array(["ant", "bee", "cat"])
    weights = [fw.Shapley(), fw.Beta(1, 4)]
    valuator = fw.AmortizedValuator(weights, budget=FEW, device="cpu", progress=False).fit(X, names[Y])
    assert valuator.values_.shape == (2, 150)
    valuator.save(tmp_path / "v.safetensors")
    loaded = fw.AmortizedValuator.load(tmp_path / "v.safetensors", device="cpu")
    assert torch.equal(loaded.value(X[:4], names[Y[:4]]).values, valuator.value(X[:4], names[Y[:4]]).values)
    assert loaded.result_.classes == ("ant", "bee", "cat")
    assert loaded.value(X[:4], names[Y[:4]], fw.Banzhaf()).values.shape == (4,)


def stopping(function: Callable[[float], float], after: int) -> Callable[[float], float]:
    """Return a function that is interrupted when it is asked once too often."""
    asked = itertools.count()

    def ask(spent: float) -> float:
        if next(asked) == after:
            raise KeyboardInterrupt
        return function(spent)

    return ask


@pytest.mark.parametrize("method", METHODS)
def test_a_run_is_resumed_as_if_nothing_had_happened(
    method: Method, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.safetensors"
    given: dict[str, Any] = {"budget": fw.Budget(steps=6), "batch_size": 50, "device": "cpu", "progress": False}
    given |= {"method": method, "checkpoint": path}
    whole = fw.AmortizedValuator(**given).fit(X, Y, reference=REFERENCE)
    path.unlink()
    monkeypatch.setattr("fwshapley.training.loop.CHECKPOINT_SECONDS", 0)
    monkeypatch.setattr("fwshapley.training.loop.schedule", stopping(schedule, after=4))
    with pytest.raises(KeyboardInterrupt):
        fw.AmortizedValuator(**given).fit(X, Y, reference=REFERENCE)
    monkeypatch.setattr("fwshapley.training.loop.schedule", schedule)
    again = fw.AmortizedValuator(**given, resume=True).fit(X, Y, reference=REFERENCE)
    assert torch.equal(whole.values_, again.values_)
    with pytest.raises(ValueError, match="is the checkpoint of another run: data differ"):
        fw.AmortizedValuator(**given, resume=True).fit(X + 1, Y, reference=REFERENCE)


def test_errors_are_those_of_each_weighting() -> None:
    several = [fw.Shapley(), fw.Beta(16, 1)]
    found = fitted().value(X, Y, several)
    exact = fw.value_neighbors(X, Y, REFERENCE, weights=several, progress=False).values
    off = (found.values - exact).square().mean(1).sqrt()
    assert float(found.stderr[0, 0]) != float(found.stderr[1, 0])
    assert bool((found.stderr[:, 0] < 6 * off).all())
    assert bool((found.stderr[:, 0] > off / 6).all())


def test_valuators_can_be_cloned_and_changed() -> None:
    valuator = fw.AmortizedValuator(fw.Banzhaf(), k=3)
    assert clone(valuator).get_params() == valuator.get_params()
    assert valuator.set_params(k=7).k == 7


WRONG: dict[str, tuple[dict[str, Any], Any, str]] = {
    "unknown method": ({"method": "magic"}, REFERENCE, "^method .*'magic'"),
    "utility without a network": ({"utility": "normalized"}, REFERENCE, "^utility .*'normalized'"),
    "utility is a model": ({"utility": LogisticRegression()}, REFERENCE, "^utility .*LogisticRegression"),
    "several weights": ({"weights": [fw.Shapley(), fw.Banzhaf()], "method": "published"}, REFERENCE, "^weights"),
    "no reference": ({"method": "multilinear"}, None, r"^reference must be a pair .*'multilinear'"),
    "reference is not a pair": ({}, X, "^reference must be a pair"),
    "nothing to resume": ({"resume": True}, REFERENCE, "resume=True .*checkpoint"),
    "checkpoint is a folder": ({"checkpoint": "."}, REFERENCE, "checkpoint="),
    "budget is a number": ({"budget": 30}, REFERENCE, "^budget must be a Budget"),
    "batch_size of 1": ({"batch_size": 1}, REFERENCE, "^batch_size must be at least 2, got 1"),
    "n_jobs is text": ({"n_jobs": "all"}, REFERENCE, "^n_jobs"),
    "no mixture": ({"weights": fw.Cardinality(np.ones(150))}, REFERENCE, "mixture"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("arguments", "reference", "message"), WRONG.values(), ids=WRONG.keys())
def test_wrong_arguments_are_refused(
    arguments: dict[str, Any],
    reference: Any,  # noqa: ANN401 - wrong on purpose
    message: str,
) -> None:
    with pytest.raises((ValueError, TypeError, OSError), match=message):
        fw.AmortizedValuator(**{"budget": FEW, "device": "cpu", "progress": False, **arguments}).fit(X, Y, reference)


@pytest.mark.parametrize(
    ("x", "reference", "message"),
    [
        (X[:30], (REFERENCE[0][REFERENCE[1] < 2], REFERENCE[1][REFERENCE[1] < 2]), "no reference point .* class 2"),
        (np.ones((30, 2)), REFERENCE, "all points of x are equal"),
    ],
    ids=["no such class", "equal points"],
)
def test_data_that_a_network_cannot_learn_from_cause_a_warning(
    x: np.ndarray, reference: tuple[np.ndarray, np.ndarray], message: str
) -> None:
    valuator = fw.AmortizedValuator(budget=FEW, device="cpu", progress=False)
    with pytest.warns(UserWarning, match=message):
        valuator.fit(x, Y[:30], reference=reference)
    assert bool(valuator.values_.isfinite().all())


def test_another_weighting_of_the_published_network_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^weights must be Shapley"):
        fitted("published", 3).value(X, Y, fw.Banzhaf())


def test_points_to_be_valued_are_checked() -> None:
    with pytest.raises(NotFittedError, match="fit"):
        fw.AmortizedValuator().value(X, Y)
    for x, y, message in (
        (X[:, :1], Y, "^x must have 2 columns.* got 1"),
        (X, Y + 3, "^y .* 3, 4, 5; only labels seen in fit"),
        (np.full((2, 2), np.nan), [0, 1], "^x "),
    ):
        with pytest.raises(ValueError, match=message):
            fitted().value(x, y)
