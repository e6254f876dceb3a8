"""Values by retraining: against enumeration and closed forms, the same on any cores, interrupted, within the budget."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor, nn
from torch.testing import assert_close

import fwshapley as fw
from fwshapley._internal import progress
from fwshapley.games import FunctionGame, Game, Glove, RetrainingGame
from fwshapley.valuation import RetrainingValuator
from fwshapley.valuation.retraining import checkpoint as checkpoints
from fwshapley.valuation.retraining.banzhaf import BanzhafSampler
from fwshapley.valuation.retraining.g_shapley import GradientSampler, LinearSoftmax, accuracy, neg_log_loss
from fwshapley.valuation.retraining.leave_one_out import LeaveOneOutSampler
from fwshapley.valuation.retraining.sampling import Sampler, value_of
from fwshapley.valuation.retraining.tmc import TMCSampler
from fwshapley.valuation.retraining.valuator import Method

Valuator = partial(RetrainingValuator, progress=False)


class Problem:
    """Two clusters, and as many reference points of one as of the other."""

    def __init__(self, n: int, references: int = 20, seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        self.y, self.y_reference = np.arange(n) % 2, np.arange(references) % 2
        self.x = generator.normal(size=(n, 2)) + 1.5 * self.y[:, None]
        self.x_reference = generator.normal(size=(references, 2)) + 1.5 * self.y_reference[:, None]

    @property
    def reference(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.x_reference, self.y_reference


SMALL, MEDIUM = Problem(7), Problem(16)


class Estimated(NamedTuple):
    values: Tensor
    stderr: Tensor


def tmc_sampler(game: Game, weights: fw.Semivalue, *, tolerance: float = 0.0, seed: int = 0) -> TMCSampler:
    empty, full = (value_of(game, torch.full((game.n_players,), is_member)) for is_member in (False, True))
    return TMCSampler(game, weights, empty_value=empty, full_value=full, tolerance=tolerance, seed=seed)


def estimate(sampler: Sampler, n_draws: int) -> Estimated:
    sums = sum((sampler.draw(number).sums for number in range(n_draws)), torch.zeros(()))
    return Estimated(*sampler.estimate(sums, n_draws))


def largest_error(estimated: Estimated, truth: Tensor) -> float:
    """Largest error in standard errors; errors of rounding do not count."""
    error = ((estimated.values - truth).abs() - 1e-12).clamp(min=0)
    return float((error / estimated.stderr.clamp(min=1e-12)).max())


class Counting(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # which has no types
    """Nearest mean, which counts its fits, and may be interrupted."""

    fits: ClassVar[int] = 0
    interrupt_at: ClassVar[int | None] = None

    def fit(self, x: NDArray[Any], y: NDArray[Any]) -> Self:
        type(self).fits += 1
        if self.fits == self.interrupt_at:
            raise KeyboardInterrupt
        self.classes_ = np.unique(y)
        self.means_ = np.stack([x[y == label].mean(0) for label in self.classes_])
        return self

    def predict(self, x: NDArray[Any]) -> NDArray[Any]:
        return self.classes_[((x[:, None] - self.means_) ** 2).sum(2).argmin(1)]


# Estimators, on games that cost nothing


def test_tmc_estimates_every_semivalue(
    semivalue_for: Callable[[int], fw.Semivalue], smooth_game: Callable[..., FunctionGame]
) -> None:
    game, weights = smooth_game(7), semivalue_for(7)
    truth = fw.exact_values(game, weights, progress=False)
    assert largest_error(estimate(tmc_sampler(game, weights), 300), truth) < 4
    errors = [estimate(tmc_sampler(game, weights, seed=seed), 12).values - truth for seed in range(1, 21)]
    several = torch.stack(errors)
    assert largest_error(Estimated(several.mean(0), several.std(0) / 20**0.5), torch.zeros(7)) < 4


@pytest.mark.parametrize("t", [0.5, 0.2])
def test_sample_reuse_estimates_banzhaf_values(t: float, smooth_game: Callable[..., FunctionGame]) -> None:
    game = smooth_game(7)
    truth = fw.exact_values(game, fw.Banzhaf(t), progress=False)
    assert largest_error(estimate(BanzhafSampler(game, t, 0.1, seed=0), 1000), truth) < 4
    far = estimate(BanzhafSampler(game, t, 100.0, seed=0), 1000)
    assert_close(far.values, estimate(BanzhafSampler(game, t, 0.1, seed=0), 1000).values)


@pytest.mark.parametrize("kind", ["Shapley", "Beta", "banzhaf"])
def test_two_standard_errors_cover_the_truth(kind: str, smooth_game: Callable[..., FunctionGame]) -> None:
    game = smooth_game(7)
    weights = {"Shapley": fw.Shapley(), "Beta": fw.Beta(4, 1), "banzhaf": fw.Banzhaf()}[kind]
    truth = fw.exact_values(game, weights, progress=False)
    covered = []
    for seed in range(30):
        estimator = BanzhafSampler(game, 0.5, 0.0, seed) if kind == "banzhaf" else tmc_sampler(game, weights, seed=seed)
        found = estimate(estimator, 128 if kind == "banzhaf" else 32)
        covered.append((found.values - truth).abs() <= 2 * found.stderr)
    assert 0.9 < float(torch.cat(covered).double().mean()) < 0.99


def test_a_round_has_every_point_join_once_at_sizes_of_the_law(smooth_game: Callable[..., FunctionGame]) -> None:
    weights, n = fw.Beta(4, 1), 30
    estimator = tmc_sampler(smooth_game(n), weights)
    count = torch.zeros(n)
    for number in range(100):
        runs = list(estimator._draw_walks(np.random.default_rng((0, number))))  # noqa: SLF001 - what is tested
        positions = np.concatenate([run.positions for run in runs])
        assert sorted(positions.tolist()) == list(range(n))
        for run in runs:
            count[run.size : run.size + len(run.positions)] += 1
    assert_close(
        count.double() / 100, n * torch.from_numpy(weights.join_law(n)), rtol=0, atol=0.2
    )  # each is off by less than 1 a round


def test_a_round_makes_as_many_fits_as_announced(semivalue_for: Callable[[int], fw.Semivalue]) -> None:
    asked = 0

    def worth(coalitions: Tensor) -> Tensor:
        nonlocal asked
        asked += len(coalitions)
        assert bool(coalitions.any()), "the value of the empty coalition is given"
        assert not bool(coalitions.all()), "the value of all points is given"
        return coalitions.double().sum(1)

    estimator = TMCSampler(
        FunctionGame(worth, 9), semivalue_for(9), empty_value=0.0, full_value=9.0, tolerance=0.0, seed=0
    )
    for number in range(10):
        asked = 0
        draw = estimator.draw(number)
        assert asked == draw.n_fits == estimator.max_cost(number)
        assert_close(
            draw.sums[0], torch.ones(9, dtype=torch.float64)
        )  # the contribution of every point to an additive game


def test_a_round_of_shapley_values_is_an_order(smooth_game: Callable[..., FunctionGame]) -> None:
    estimator = tmc_sampler(smooth_game(8), fw.Shapley())
    assert estimator.max_cost(3) == 7
    assert float(estimator.draw(3).sums[0].sum()) == pytest.approx(estimator.full_value - estimator.empty_value)


def saturating(n: int) -> FunctionGame:
    """Worth 1 - 2**-s, and a little more for some."""
    extra = torch.linspace(0, 0.01, n, dtype=torch.float64)
    return FunctionGame(lambda mask: 1 - 0.5 ** mask.sum(1).double() + mask.double() @ extra, n)


@pytest.mark.parametrize("tolerance", [0.06, 0.2])
def test_truncation_saves_fits_and_costs_a_bounded_bias(tolerance: float) -> None:
    game = saturating(16)
    truth = fw.exact_values(game, fw.Shapley(), progress=False)
    estimator = tmc_sampler(game, fw.Shapley(), tolerance=tolerance)
    draws = [estimator.draw(number) for number in range(200)]
    found = Estimated(*estimator.estimate(sum((draw.sums for draw in draws), torch.zeros(())), 200))
    assert sum(draw.n_fits for draw in draws) < 0.95 * 200 * estimator.max_cost(0)
    bias = (found.values - truth).abs() - 4 * found.stderr
    assert float(bias.max()) < 2.5 * tolerance
    assert float(found.values.sum()) == pytest.approx(float(truth.sum()))  # what is left to gain is shared out


def test_without_tolerance_nothing_is_cut() -> None:
    estimator = tmc_sampler(Glove(left=3, right=5), fw.Shapley())
    assert {estimator.draw(number).n_fits for number in range(20)} == {7}


def test_leave_one_out_is_exact(smooth_game: Callable[..., FunctionGame]) -> None:
    game = smooth_game(7)
    found = estimate(LeaveOneOutSampler(game, value_of(game, torch.ones(7, dtype=torch.bool))), 7)
    assert_close(found.values, fw.exact_values(game, fw.LeaveOneOut(), progress=False))
    assert not bool(found.stderr.any())


# Models


@pytest.mark.parametrize("method", ["tmc", "beta", "least_squares", "banzhaf", "leave_one_out"])
def test_values_are_those_of_the_enumerated_game(method: Method) -> None:
    found = Valuator(
        Counting(), method=method, tolerance=0.0, n_fits={"leave_one_out": 8, "least_squares": 60}.get(method, 500)
    )
    result = found.fit(SMALL.x, SMALL.y, SMALL.reference).result_
    game = RetrainingGame(Counting(), SMALL.x, SMALL.y, SMALL.reference)
    assert isinstance(result.weights, fw.Semivalue)
    truth = fw.exact_values(game, result.weights, progress=False)
    assert largest_error(Estimated(result.values, result.stderr), truth) < 4
    assert bool(result.stderr.any()) == (method != "leave_one_out")


@pytest.mark.slow
def test_nearest_neighbors_agree_with_their_closed_form() -> None:
    problem = Problem(9, 40)  # small, so that no point goes without a contribution
    given = (problem.x, problem.y, problem.reference)
    for method, weights in (("tmc", fw.Shapley()), ("beta", fw.Beta(4, 1)), ("banzhaf", fw.Banzhaf())):
        options: dict[str, Any] = {"method": method, "weights": weights, "tolerance": 0.0, "n_fits": 500}
        found = Valuator(KNeighborsClassifier(1), **options).fit(*given).result_
        exact = fw.value_neighbors(*given, k=1, weights=weights, utility="vote", progress=False)
        assert largest_error(Estimated(found.values, found.stderr), exact.values) < 4
    found = Valuator(KNeighborsClassifier(3), method="leave_one_out").fit(*given).result_
    exact = fw.value_neighbors(*given, k=3, weights=fw.LeaveOneOut(), utility="vote", progress=False)
    assert_close(found.values, exact.values)


@pytest.mark.slow
def test_wrong_labels_have_low_values() -> None:
    problem = Problem(30, 60)
    wrong = [4, 17, 23]
    y = problem.y.copy()
    y[wrong] = 1 - y[wrong]
    for options in (
        {"model": LogisticRegression(), "method": "tmc", "tolerance": 0.0, "n_fits": 500},
        {"method": "gradient", "n_fits": 30},
    ):
        values = Valuator(**options, scoring="neg_log_loss").fit(problem.x, y, problem.reference).values_
        assert float(values[wrong].mean()) < float(values.mean()) - float(values.std())


def test_a_regressor_has_values_too() -> None:
    x, x_reference = MEDIUM.x, MEDIUM.x_reference
    y, y_reference = x @ [1.0, 2.0], x_reference @ [1.0, 2.0]
    y[3] += 20
    found = Valuator(LinearRegression(), scoring="neg_mean_squared_error", n_fits=300).fit(
        x, y, (x_reference, y_reference)
    )
    assert found.result_.suspects(1).tolist() == [3]
    assert found.result_.to_dataframe()["label"][3] == str(y[3])
    assert (
        Valuator(LinearRegression(), method="leave_one_out")
        .fit(x, y, (x_reference, y_reference))
        .result_.provenance["scoring"]
        == "r2"
    )


def test_the_result_is_a_valuation(tmp_path: Path) -> None:
    labels, other_labels = np.array(["no", "yes"])[SMALL.y], np.array(["no", "yes"])[SMALL.y_reference]
    found = Valuator(LogisticRegression(), n_fits=100).fit(
        pd.DataFrame(SMALL.x), labels, (SMALL.x_reference, other_labels)
    )
    result = found.result_
    told = {"method": "retraining, tmc", "model": "LogisticRegression()", "scoring": "accuracy", "stopped": "budget"}
    assert told.items() <= dict(result.provenance).items()
    assert result.provenance["tolerance"] == pytest.approx(0.01 * abs(float(result.values.sum())))
    assert result.error_bound == 2.5 * result.provenance["tolerance"]
    assert (result.references, result.classes, len(result)) == (20, ("no", "yes"), 7)
    result.save(tmp_path / "values.safetensors")
    again = fw.Valuation.load(tmp_path / "values.safetensors")
    assert torch.equal(again.values, result.values)
    assert again.provenance == result.provenance
    assert again.to_dataframe().equals(result.to_dataframe())
    assert len(result.plot().axes) == 2
    other = (
        Valuator(LogisticRegression(), n_fits=100)
        .fit(SMALL.x, labels, (SMALL.x_reference[1:], other_labels[1:]))
        .result_
    )
    with pytest.raises(ValueError, match="cannot be merged"):
        fw.Valuation.merge([result, other])


# The gradient


def test_a_pass_takes_the_steps_of_descent() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(2, 4), nn.Dropout(0.5), nn.ReLU(), nn.Linear(4, 2))
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    x, y, x_reference, y_reference = (torch.from_numpy(each) for each in (SMALL.x, SMALL.y, *SMALL.reference))
    passes = GradientSampler(
        module, neg_log_loss, points=(x, y), reference=(x_reference, y_reference), learning_rate=0.1, seed=3
    )
    draw = passes.draw(5)
    order = np.random.default_rng((3, 5)).permutation(7)
    trained = nn.Sequential(nn.Flatten(), nn.Linear(2, 4), nn.Dropout(0.5), nn.ReLU(), nn.Linear(4, 2)).eval()
    trained.load_state_dict(before)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    expected = torch.zeros(7, dtype=torch.float64)
    for point in order.tolist():
        last = neg_log_loss(trained, passes.x_reference, y_reference)
        optimizer.zero_grad()
        nn.functional.cross_entropy(trained(passes.x[[point]]), y[[point]]).backward()
        optimizer.step()
        expected[point] = neg_log_loss(trained, passes.x_reference, y_reference) - last
    assert_close(draw.sums, torch.stack([expected, expected.square()]))
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_passes_estimate_the_mean_over_all_orders() -> None:
    problem = Problem(4)
    x, y, x_reference, y_reference = (torch.from_numpy(each) for each in (problem.x, problem.y, *problem.reference))
    passes = GradientSampler(
        LinearSoftmax(x, 2), accuracy, points=(x, y), reference=(x_reference, y_reference), learning_rate=0.5, seed=0
    )
    found = estimate(passes, 200)

    class Given:
        """Orders one after another."""

        def __init__(self, order: tuple[int, ...]) -> None:
            self.order = order

        def permutation(self, _: int) -> NDArray[np.int64]:
            return np.array(self.order)

    sums = []
    with pytest.MonkeyPatch.context() as patch:
        for order in itertools.permutations(range(4)):
            patch.setattr(np.random, "default_rng", lambda _, order=order: Given(order))
            sums.append(passes.draw(0).sums[0])
    truth = torch.stack(sums).mean(0)
    assert largest_error(found, truth) < 4


@pytest.mark.usefixtures("unchecked")
def test_gradients_of_any_module() -> None:
    images, others = SMALL.x.reshape(7, 1, 1, 2), SMALL.x_reference.reshape(20, 1, 1, 2)
    module = nn.Sequential(nn.Flatten(), nn.Linear(2, 2))
    find = Valuator(module, method="gradient", n_fits=10, learning_rate=0.5)
    result = find.fit(images, SMALL.y, (others, SMALL.y_reference)).result_
    assert (result.provenance["fits"], result.provenance["stopped"]) == (10, "budget")
    assert torch.equal(find.fit(torch.tensor(images), SMALL.y, (others, SMALL.y_reference)).values_, result.values)
    own = Valuator(module, method="gradient", n_fits=10, learning_rate=0.5, scoring=accuracy)
    assert torch.equal(own.fit(images, SMALL.y, (others, SMALL.y_reference)).values_, result.values)
    with pytest.raises(FloatingPointError, match="lower learning_rate, now 1e\\+38"):
        Valuator(module, method="gradient", learning_rate=1e38, n_fits=10).fit(SMALL.x, SMALL.y, SMALL.reference)


# Budget, cores, interruption


@pytest.fixture(autouse=True)
def count_from_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counting, "fits", 0)
    monkeypatch.setattr(Counting, "interrupt_at", None)


WAYS: dict[str, dict[str, Any]] = {
    "tmc": {"method": "tmc", "tolerance": 0.05},
    "beta": {"method": "beta"},
    "Beta(1,4)": {"method": "beta", "weights": fw.Beta(1, 4)},
    "least_squares": {"method": "least_squares", "weights": fw.Beta(4, 1)},
    "banzhaf": {"method": "banzhaf"},
    "leave_one_out": {"method": "leave_one_out"},
}
every_way = pytest.mark.parametrize("way", WAYS)


@every_way
def test_no_more_fits_are_made_than_allowed(way: str) -> None:
    budget = 17 if way == "leave_one_out" else 333
    result = Valuator(Counting(), **WAYS[way], n_fits=budget).fit(MEDIUM.x, MEDIUM.y, MEDIUM.reference).result_
    assert Counting.fits == result.provenance["fits"]
    assert budget - 33 <= Counting.fits <= budget  # the last round would have cost more
    assert result.provenance["stopped"] == ("complete" if way == "leave_one_out" else "budget")
    if way in ("banzhaf", "least_squares"):
        assert budget - 2 <= Counting.fits  # pairs need not come out even


def test_truncation_leaves_fits_for_more_rounds() -> None:
    cut, uncut = (
        Valuator(Counting(), tolerance=tolerance, n_fits=600).fit(MEDIUM.x, MEDIUM.y, MEDIUM.reference).result_
        for tolerance in (0.1, 0.0)
    )
    assert cut.provenance["draws"] > uncut.provenance["draws"] == 599 // 15


def test_the_default_is_fifty_fits_per_point() -> None:
    given = SMALL.x, SMALL.y, SMALL.reference
    assert Valuator(Counting(), tolerance=0.0).fit(*given).result_.provenance["fits"] == 349  # 58 orders and all points
    assert Valuator(Counting(), method="leave_one_out").fit(*given).result_.provenance["fits"] == 8
    assert Valuator(method="gradient").fit(*given).result_.provenance["fits"] == 50


@pytest.mark.parametrize("way", ["tmc", "banzhaf"])
def test_it_stops_once_values_are_precise(way: str) -> None:
    find = partial(Valuator, Counting(), **WAYS[way], n_fits=4000)
    result = find(target_error=0.7).fit(SMALL.x, SMALL.y, SMALL.reference).result_
    assert result.provenance["stopped"] == "precise"
    assert result.provenance["fits"] < 4000
    assert float(result.stderr.square().mean().sqrt()) <= 0.7 * float(result.values.std(correction=0))
    assert result.provenance["draws"] in (32, 48, 72, 108, 162, 243, 364, 546, 819, 1228, 1842, 2763)


@pytest.fixture(scope="module")
def on_one_core() -> dict[str, fw.Valuation]:
    return {way: on_some_cores(way, None) for way in (*WAYS, "gradient")}


def on_some_cores(way: str, n_jobs: int | None) -> fw.Valuation:
    model, options = (
        (None, {"method": "gradient", "n_fits": 12}) if way == "gradient" else (LogisticRegression(), WAYS[way])
    )
    find = Valuator(model, **({"n_fits": 8 if way == "leave_one_out" else 100} | options), n_jobs=n_jobs)
    find.set_params(target_error=None if way == "least_squares" else 0.6)
    return find.fit(SMALL.x, SMALL.y, SMALL.reference).result_


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_any_number_of_cores_gives_the_same_bits(backend: str, on_one_core: dict[str, fw.Valuation]) -> None:
    with joblib.parallel_config(backend):
        for way, expected in on_one_core.items():
            found = on_some_cores(way, 2)
            assert torch.equal(found.values, expected.values)
            assert torch.equal(found.stderr, expected.stderr)
            assert found.provenance == expected.provenance


@every_way
def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = SMALL.x, SMALL.y, SMALL.reference
    options = {**WAYS[way], "n_fits": 8 if way == "leave_one_out" else 150}
    whole = Valuator(Counting(), **options).fit(*given).result_
    find = partial(Valuator, Counting(), **options, checkpoint=tmp_path / "run.safetensors")
    monkeypatch.setattr(Counting, "fits", 0)
    monkeypatch.setattr(Counting, "interrupt_at", 5 if way == "leave_one_out" else 70)
    interrupted = find()
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(*given)
    assert not hasattr(interrupted, "result_")
    monkeypatch.setattr(Counting, "interrupt_at", None)
    before = Counting.fits
    again = find(resume=True).fit(*given).result_
    assert torch.equal(again.values, whole.values)
    assert torch.equal(again.stderr, whole.stderr)
    assert again.provenance == whole.provenance
    assert Counting.fits - before < whole.provenance["fits"]
    before = Counting.fits
    assert torch.equal(find(resume=True).fit(*given).values_, whole.values)
    assert Counting.fits == before + (way != "least_squares")  # the value of all points


def test_a_finished_run_goes_on_with_a_larger_budget(tmp_path: Path) -> None:
    find = partial(Valuator, Counting(), method="beta", checkpoint=tmp_path / "run.safetensors")
    given = SMALL.x, SMALL.y, SMALL.reference
    find(n_fits=100).fit(*given)
    longer = find(n_fits=200, resume=True).fit(*given).result_
    assert torch.equal(longer.values, Valuator(Counting(), method="beta", n_fits=200).fit(*given).values_)


def test_checkpoints_are_written_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, draws = tmp_path / "run.safetensors", []
    monkeypatch.setattr(checkpoints, "CHECKPOINT_SECONDS", 0.0)
    save = checkpoints.Checkpoint.save

    def note(checkpoint: checkpoints.Checkpoint) -> None:
        draws.append(checkpoint.state.n_draws)
        save(checkpoint)

    monkeypatch.setattr(checkpoints.Checkpoint, "save", note)
    Valuator(Counting(), method="leave_one_out", checkpoint=path).fit(SMALL.x, SMALL.y, SMALL.reference)
    assert draws == [*range(8), 7]


CHANGES: dict[str, dict[str, Any]] = {
    "model": {"model": LogisticRegression(C=0.1)},
    "scoring": {"scoring": "neg_log_loss"},
    "method, weights": {"method": "beta"},
    "tolerance": {"tolerance": 0.1},
    "seed": {"seed": 1},
}


def test_more_coalitions_for_least_squares_are_other_ones(tmp_path: Path) -> None:
    find = partial(Valuator, Counting(), method="least_squares", checkpoint=tmp_path / "run.safetensors")
    find(n_fits=60).fit(SMALL.x, SMALL.y, SMALL.reference)
    with pytest.raises(ValueError, match="another run: n_fits differ"):
        find(n_fits=70, resume=True).fit(SMALL.x, SMALL.y, SMALL.reference)


def test_least_squares_is_exact_if_all_coalitions_are_evaluated() -> None:
    weights = fw.Beta(4, 1)
    find = Valuator(Counting(), method="least_squares", weights=weights, n_fits=127)
    result = find.fit(SMALL.x, SMALL.y, SMALL.reference).result_
    assert (result.provenance["fits"], result.provenance["stopped"]) == (127, "complete")
    game = RetrainingGame(Counting(), SMALL.x, SMALL.y, SMALL.reference)
    assert_close(result.values, fw.exact_values(game, weights, progress=False))
    assert not bool(result.stderr.any())


@pytest.mark.parametrize("change", CHANGES)
def test_a_checkpoint_of_another_run_is_refused(change: str, tmp_path: Path) -> None:
    options = {"model": LogisticRegression(), "n_fits": 100, "checkpoint": tmp_path / "run.safetensors"}
    Valuator(**options).fit(SMALL.x, SMALL.y, SMALL.reference)
    with pytest.raises(ValueError, match=f"is the checkpoint of another run: {change} differ"):
        Valuator(**options | CHANGES[change], resume=True).fit(SMALL.x, SMALL.y, SMALL.reference)


def test_a_checkpoint_of_other_data_is_refused(tmp_path: Path) -> None:
    find = Valuator(LogisticRegression(), n_fits=100, checkpoint=tmp_path / "run.safetensors", resume=True)
    find.fit(SMALL.x, SMALL.y, SMALL.reference)
    x, labels = SMALL.x.copy(), np.array(["no", "yes"])
    x[0, 0] += 1e-9
    for given, what in (
        ((x, SMALL.y, SMALL.reference), "x"),
        ((SMALL.x, 1 - SMALL.y, SMALL.reference), "y"),
        ((SMALL.x, SMALL.y, (SMALL.x_reference + 1, SMALL.y_reference)), r"reference\[0\]"),
        ((SMALL.x, labels[SMALL.y], (SMALL.x_reference, labels[SMALL.y_reference])), r"y, reference\[1\]"),
    ):
        with pytest.raises(ValueError, match=f"another run: {what} differ"):
            find.fit(*given)


def test_modules_and_text_are_known_again(tmp_path: Path) -> None:
    find = partial(Valuator, method="gradient", n_fits=8, checkpoint=tmp_path / "run.safetensors", resume=True)
    modules = [nn.Sequential(nn.Flatten(), nn.Linear(2, 2)) for _ in range(2)]
    labels, other_labels = np.array(["no", "yes"])[SMALL.y], np.array(["no", "yes"])[SMALL.y_reference]
    for _ in range(2):
        find(modules[0]).fit(pd.DataFrame(SMALL.x), labels.tolist(), (SMALL.x_reference, other_labels.tolist()))
    with pytest.raises(ValueError, match="another run: model differ"):
        find(modules[1]).fit(pd.DataFrame(SMALL.x), labels.tolist(), (SMALL.x_reference, other_labels.tolist()))


# Wrong arguments

X, Y = SMALL.x, SMALL.y
LEAST_SQUARES: dict[str, Any] = {"method": "least_squares"}
WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "x with NaN": ({"x": np.where(X > 1, np.nan, X)}, ValueError, "^x .* row"),
    "reference of another width": ({"reference": (X[:, :1], Y)}, ValueError, r"^reference\[0\] .* 2 columns.* got 1"),
    "x without rows": ({"x": pd.DataFrame(X[:0])}, ValueError, "^x "),
    "x of one point": ({"x": X[:1], "y": Y[:1]}, ValueError, "^x must .* 2 points, got 1"),
    "y too short": ({"y": Y[:4]}, ValueError, r"^y .* 7 .*\(4,\)"),
    "y of one class": ({"y": np.ones(7)}, ValueError, "y"),
    "unseen labels": ({"reference": (X, Y + 1)}, ValueError, r"^reference\[1\] .* 2"),
    "no reference": ({"reference": None}, ValueError, "^reference must be a pair"),
    "three arrays as reference": ({"reference": (X, Y, Y)}, ValueError, "^reference must be a pair"),
    "targets too short": ({"model": LinearRegression(), "y": [0.5]}, ValueError, r"^y .* 7 .*\(1,\)"),
    "targets with NaN": ({"model": LinearRegression(), "y": [0.5, np.nan, *Y[2:]]}, ValueError, "^y .* row 1"),
    "no model": ({"model": None}, TypeError, "^model must have fit and predict .* None"),
    "a class of models": ({"model": LogisticRegression}, TypeError, r"^model .* LogisticRegression\(\)"),
    "unknown scoring": ({"scoring": "acuracy"}, ValueError, "^scoring .* 'accuracy'.* 'acuracy'"),
    "unknown method": ({"method": "loo"}, ValueError, "^method .*'leave_one_out'.* 'loo'"),
    "weights not called": ({"weights": fw.Shapley}, TypeError, r"^weights .* Shapley\(\)"),
    "weights of banzhaf": ({"method": "banzhaf", "weights": fw.Shapley()}, ValueError, "weights=Shapley"),
    "weights of leave_one_out": ({"method": "leave_one_out", "weights": fw.Shapley()}, ValueError, "weights=Shapley"),
    "weights of gradient": ({"method": "gradient", "weights": fw.Banzhaf()}, ValueError, "weights=Banzhaf"),
    "two weights": ({"weights": [fw.Shapley(), fw.Banzhaf()]}, ValueError, "^weights must be one semivalue, got 2"),
    "no weights": ({"weights": []}, ValueError, "^weights"),
    "weights for 2 players": ({"method": "beta", "weights": fw.Cardinality([1, 1])}, ValueError, "2 players"),
    "too few fits": ({"n_fits": 48}, ValueError, r"^n_fits must be at least 49 for 7 points \(8 draws\), got 48"),
    "too few fits of leave_one_out": ({"method": "leave_one_out", "n_fits": 7}, ValueError, "^n_fits .* 8 .*got 7"),
    "too few fits of least_squares": (LEAST_SQUARES | {"n_fits": 22}, ValueError, "^n_fits .* 23 .*got 22"),
    "hardly enough fits of least_squares": (LEAST_SQUARES | {"n_fits": 23}, ValueError, "^23 fits .*n_fits"),
    "hardly ever a member": (
        {"method": "banzhaf", "weights": fw.Banzhaf(0.01), "n_fits": 40},
        ValueError,
        "^40 fits .* point 0; raise n_fits",
    ),
    "target_error of least_squares": (LEAST_SQUARES | {"target_error": 0.1}, ValueError, "^target_error"),
    "half a fit": ({"n_fits": 60.5}, TypeError, "^n_fits .* 60.5"),
    "negative tolerance": ({"tolerance": -0.1}, ValueError, "^tolerance must be at least 0, got -0.1"),
    "target_error of 0": ({"target_error": 0}, ValueError, "^target_error must be positive, got 0"),
    "learning_rate of 0": ({"learning_rate": 0}, ValueError, "^learning_rate must be positive, got 0"),
    "nothing to resume": ({"resume": True}, ValueError, "resume=True .*checkpoint"),
    "resume is text": ({"resume": "yes"}, TypeError, "^resume"),
    "checkpoint is a folder": ({"checkpoint": "."}, IsADirectoryError, "checkpoint="),
    "checkpoint is a number": ({"checkpoint": 3}, TypeError, "^checkpoint"),
    "negative seed": ({"seed": -1}, ValueError, "^seed must be at least 0, got -1"),
    "no jobs": ({"n_jobs": 0}, ValueError, "^n_jobs"),
    "jobs are text": ({"n_jobs": "all"}, TypeError, "^n_jobs"),
    "gradient of a model": ({"method": "gradient"}, TypeError, r"^model .*'gradient'.*LogisticRegression\(\)"),
    "gradient of a scorer": (
        {"method": "gradient", "model": nn.Linear(2, 2), "scoring": "f1"},
        ValueError,
        "^scoring .*'neg_log_loss'; got 'f1'",
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused(name: str) -> None:
    changed, error, message = WRONG[name]
    given = {"x": X, "y": Y, "reference": SMALL.reference} | changed
    data: dict[str, Any] = {part: given.pop(part) for part in ("x", "y", "reference")}
    with pytest.raises(error, match=message):
        Valuator(**{"model": LogisticRegression(), "n_fits": 100} | given).fit(**data)


# The interface of scikit-learn, and messages


def test_a_valuator_has_no_values_before_it_is_fitted() -> None:
    with pytest.raises(NotFittedError, match=r"fit\(x, y, reference=\.\.\.\)"):
        _ = RetrainingValuator(LogisticRegression()).values_


def test_a_valuator_can_be_cloned_and_changed() -> None:
    valuator = Valuator(LogisticRegression(C=2.0), method="beta", n_fits=100).fit(SMALL.x, SMALL.y, SMALL.reference)
    same = clone(valuator)
    assert same.get_params().keys() == valuator.get_params().keys()
    assert (same.method, same.n_fits, same.model.C) == ("beta", 100, 2.0)
    assert same.model is not valuator.model
    assert not hasattr(same, "result_")
    assert same.set_params(n_fits=200).n_fits == 200
    with pytest.raises(ValueError, match="color"):
        same.set_params(color="red")


@pytest.mark.parametrize("way", ["banzhaf", "least_squares", "gradient"])
def test_a_long_run_is_announced_with_its_fits_and_seconds(
    way: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = None if way == "gradient" else Counting()
    find = RetrainingValuator(model, method=way, n_fits=60)  # type: ignore[arg-type]
    find.fit(SMALL.x, SMALL.y, SMALL.reference)
    assert not capsys.readouterr().err
    monkeypatch.setattr(progress, "LONG_SECONDS", 0.0)
    find.fit(SMALL.x, SMALL.y, SMALL.reference)
    assert re.search(r"at most \d\d fits, about \d", capsys.readouterr().err)
    find.set_params(progress=False).fit(SMALL.x, SMALL.y, SMALL.reference)
    assert not capsys.readouterr().err
