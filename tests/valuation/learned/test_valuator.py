"""Values by networks: what they learn, what they keep, what they say of points that they have not seen."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch.testing import assert_close

import fwshapley as fw
from fwshapley.games import NeighborGame
from fwshapley.games.knn import Utility
from fwshapley.training.budget import Batch, Loss, Shard
from fwshapley.training.loop import schedule
from fwshapley.valuation import Likeness
from fwshapley.valuation.knn.problem import check_setting
from fwshapley.valuation.learned import quadrature as grid
from fwshapley.valuation.learned.cautions import LEAST_RESEMBLANCE
from fwshapley.valuation.learned.games import NeighborGames
from fwshapley.valuation.learned.losses import BatchKernel, Lesson, Multilinear
from fwshapley.valuation.learned.paper_network import batch_law
from fwshapley.valuation.learned.process import Process
from fwshapley.valuation.learned.teachers import teach_neighbors

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
    valuator = fw.AmortizedValuator(method=method, budget=budget, batch=50, device="cpu", progress=False)
    return valuator.fit(X, Y, reference=REFERENCE)


def test_learned_values_rank_points_as_exact_ones_do_seen_or_not() -> None:
    valuator, (new, labels) = fitted(), blobs(60, 2)
    exact = fw.KNNValuator(progress=False).fit(X, Y, reference=REFERENCE)
    wrong = (labels + 1) % 3
    assert Likeness.between(valuator.values_, exact.values_).spearman > 0.95
    assert valuator.likeness_ is not None
    assert valuator.likeness_.points == 15
    for given in (labels, wrong):
        found = Likeness.between(valuator.value(new, given).values, exact.value(new, given).values)
        assert found.spearman > 0.85
    assert valuator.value(new, wrong).values.mean() < 0 < valuator.value(new, labels).values.mean()


@pytest.mark.parametrize("weights", [fw.Beta(16, 1), fw.Banzhaf(), fw.LeaveOneOut()], ids=str)
def test_one_network_knows_other_weightings(weights: fw.Semivalue) -> None:
    exact = fw.value_neighbors(X, Y, *REFERENCE, weights=weights, progress=False).values
    assert Likeness.between(fitted().value(X, Y, weights).values, exact).pearson > 0.9


WIDE = [fw.Shapley(), *fw.FEASIBLE_SET[::3]]
NARROW = [fw.Beta(60, 40), fw.Banzhaf(0.3), fw.LeaveOneOut()]


@pytest.mark.parametrize("n", [3, 40, 3000])
@pytest.mark.parametrize(
    "weights",
    [fw.Shapley(), *fw.FEASIBLE_SET[::3], fw.Beta(60, 40), fw.Banzhaf(0.3), fw.LeaveOneOut()],
    ids=str,
)
def test_values_at_the_nodes_make_up_every_weighting(weights: fw.Semivalue, n: int) -> None:
    x, y = blobs(n, 0)
    several = [weights, *grid.banzhaf_values(grid.nodes(n))]
    exact, *at_nodes = fw.value_neighbors(x, y, *blobs(10, 1), k=3, weights=several, progress=False).values
    mixed = (grid.mixtures([weights], n)[0][:, None] * torch.stack(at_nodes)).sum(0)
    tolerance = 0.01 if weights in WIDE else 0.07
    assert float((mixed - exact).abs().max()) < 1e-5 + tolerance * float(exact.abs().max())


@pytest.mark.parametrize("utility", ["soft", "vote"])
def test_teachers_know_what_a_point_is_worth_with_another_label(utility: Utility) -> None:
    weights = (fw.Shapley(), fw.Banzhaf(0.1))
    setting = check_setting(X[:20], Y[:20], *REFERENCE, weights=weights, k=3, utility=utility)
    targets = teach_neighbors(setting, device="cpu", n_jobs=1, progress=False).targets
    for point, label in ((0, 0), (0, 2), (4, 0), (19, 1), (19, 2)):
        labels = Y[:20].copy()
        labels[point] = label
        value = partial(fw.value_neighbors, k=3, utility=utility, weights=list(weights), progress=False)
        exact = value(X[:20], labels, *REFERENCE).values[:, point]
        if utility == "soft" or label == Y[point]:
            assert_close(targets[point, label], exact, rtol=0, atol=1e-12)
        else:  # another label is learned beside the point, not in its stead: nearer than the label it has
            off = (targets[point, label] - exact).abs()
            assert bool((off < (targets[point, Y[point]] - exact).abs() / 2).all())


def test_games_of_many_references_are_the_mean_of_their_games() -> None:
    generator = torch.Generator().manual_seed(0)
    labels, label = torch.arange(8) % 3, torch.arange(5) % 3
    order = torch.stack([torch.randperm(8, generator=generator) for _ in label])
    coalitions = torch.rand(20, 8, generator=generator) < 0.5
    for utility in ("soft", "normalized", "vote"):
        games = [NeighborGame(labels[o], int(one), 3, 2, utility) for o, one in zip(order, label, strict=True)]
        mean = torch.stack([g(coalitions[:, o]) for g, o in zip(games, order, strict=True)]).mean(0)
        assert_close(NeighborGames(order, labels, label, 3, 2, utility)(coalitions).double(), mean)


def test_batches_that_play_alone_amount_to_a_law_of_all_players() -> None:
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
    """A value for each point and label, found by its first column, which is its number."""

    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.found = torch.nn.Parameter(values)
        self.register_buffer("said", torch.zeros(len(values), 1))

    def forward(self, x: Tensor, *references: Tensor) -> Tensor:
        """Return them."""
        del references
        return self.found[x[:, 0].long()]


def numbered_lesson(utility: Utility) -> Lesson:
    x = torch.stack([torch.arange(12.0), torch.randn(12, generator=torch.Generator().manual_seed(0))], 1)
    references = torch.stack([torch.arange(0, 12, 2.0), torch.zeros(6)], 1)
    return Lesson(x, torch.arange(12) % 3, references, torch.arange(6) % 3, 3, 2, utility)


def descend(loss: Loss, table: Table, steps: int) -> None:
    optimizer = torch.optim.SGD(table.parameters(), 0.02)
    generator = torch.Generator().manual_seed(0)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 0.02 * (1 - step / steps)
        optimizer.zero_grad()
        loss(table, Batch(torch.arange(12), Shard(), generator, 0.0)).backward()
        optimizer.step()


def own_values(lesson: Lesson, weights: fw.Semivalue) -> Tensor:
    given = (lesson.x.numpy(), lesson.labels.numpy(), lesson.references.numpy(), lesson.other_labels.numpy())
    return fw.value_neighbors(*given, k=2, weights=weights, utility=lesson.utility, progress=False).values


@pytest.mark.parametrize("utility", ["soft", "vote"])
@pytest.mark.parametrize("weights", [fw.Shapley(), fw.Beta(1, 4), fw.Beta(4, 1)], ids=str)
def test_coalitions_of_a_batch_teach_the_values_of_the_batch(weights: fw.Semivalue, utility: Utility) -> None:
    lesson = numbered_lesson(utility)
    table = Table(torch.zeros(12, 3))
    kernel = BatchKernel(lesson, torch.from_numpy(weights.size_law(12)), sizes=8, of_a_size=8, references=32)
    descend(kernel, table, 600)
    found = table.found.detach().gather(1, lesson.labels[:, None])[:, 0].double()
    exact = own_values(lesson, weights)
    level = kernel.level(weights, 12, torch.Generator().manual_seed(0))
    assert abs(level - float(exact.mean())) < 0.01
    assert Likeness.between(found, exact).pearson > 0.97


def test_coalitions_of_all_teach_the_values_at_a_node() -> None:
    lesson, t = numbered_lesson("soft"), torch.tensor([0.0])
    table = Table(torch.zeros(12, 3, 1))
    descend(Multilinear(lesson, t, torch.ones(1), coalitions=64, references=32), table, 600)
    found = table.found.detach()[..., 0].gather(1, lesson.labels[:, None])[:, 0].double()
    exact = own_values(lesson, fw.Banzhaf())
    assert float((found - exact).square().mean().sqrt()) < 0.5 * float(exact.std())


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_bits_and_files_keep_them(method: Method, tmp_path: Path) -> None:
    first = fitted(method, 3)
    again = fw.AmortizedValuator(method=method, budget=FEW, batch=50, device="cpu", progress=False)
    again.fit(X, Y, reference=REFERENCE)
    assert torch.equal(first.values_, again.values_)
    first.save(tmp_path / "valuator.safetensors")
    loaded = fw.AmortizedValuator.load(tmp_path / "valuator.safetensors", device="cpu")
    assert torch.equal(loaded.values_, first.values_)
    assert torch.equal(loaded.value(X, Y).values, first.value(X, Y).values)
    assert loaded.likeness_ == first.likeness_
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
    given: dict[str, Any] = {"budget": fw.Budget(steps=6), "batch": 50, "device": "cpu", "progress": False}
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


def test_few_fits_teach_what_a_model_makes_of_points(tmp_path: Path) -> None:
    x, y = blobs(60, 0)
    flipped = y.copy()
    flipped[:6] = (y[:6] + 1) % 3
    utility = fw.RetrainingUtility(LogisticRegression())
    given: dict[str, Any] = {"utility": utility, "fits": 60, "budget": fw.Budget(steps=100), "device": "cpu"}
    checkpoint = tmp_path / "run.safetensors"
    valuator = fw.AmortizedValuator(**given, progress=False, checkpoint=checkpoint)
    valuator.fit(x, flipped, reference=REFERENCE)
    long = fw.RetrainingValuator(LogisticRegression(), method="least squares", budget=1200, progress=False)
    truth = long.fit(x, flipped, reference=REFERENCE).values_
    assert Likeness.between(valuator.values_, truth).spearman > 0.6
    assert len(set(valuator.result_.suspects(8).tolist()) & set(range(6))) >= 5
    new, labels = blobs(30, 3)
    assert valuator.value(new, labels).values.mean() > valuator.value(new, (labels + 1) % 3).values.mean()
    assert bool((valuator.result_.stderr > 0).all())
    assert valuator.resemblance_ is not None
    assert valuator.resemblance_ > LEAST_RESEMBLANCE
    assert (tmp_path / "run-fits.safetensors").exists()
    resumed = fw.AmortizedValuator(**given, progress=False, checkpoint=checkpoint, resume=True)
    again = resumed.fit(x, flipped, reference=REFERENCE).values_
    torch.testing.assert_close(again, valuator.values_, rtol=1e-9, atol=1e-12)  # BLAS rounds by where memory lies
    with pytest.raises(ValueError, match="was taught Shapley alone"):
        valuator.value(new, labels, fw.Banzhaf())


def test_a_model_unlike_the_simpler_ones_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Process, "resemblance", 0.1)
    valuator = fw.AmortizedValuator(utility=UTILITY, fits=30, budget=FEW, device="cpu", progress=False)
    with pytest.warns(UserWarning, match=r"hardly resemble those of the simpler models .*use RetrainingValuator"):
        valuator.fit(*blobs(60, 0), reference=REFERENCE)
    assert valuator.resemblance_ == 0.1
    valuator.save(tmp_path / "valuator.safetensors")
    assert fw.AmortizedValuator.load(tmp_path / "valuator.safetensors").resemblance_ == valuator.resemblance_


def test_few_fits_do_not_depend_on_the_units_of_columns(tmp_path: Path) -> None:
    """A column in millimeters, one in kilometers, and one that is constant, as far as the model is told."""
    utility = fw.RetrainingUtility(make_pipeline(StandardScaler(), LogisticRegression()))
    units, new = np.array([1e-3, 1e6]), blobs(20, 3)
    given: dict[str, Any] = {"utility": utility, "fits": 30, "budget": FEW, "device": "cpu", "progress": False}
    plain = fw.AmortizedValuator(**given).fit(X[:60], Y[:60], reference=REFERENCE)
    other = fw.AmortizedValuator(**given).fit(
        with_constant(X[:60] * units), Y[:60], reference=(with_constant(REFERENCE[0] * units), REFERENCE[1])
    )
    assert_close(other.values_, plain.values_, rtol=0, atol=1e-6)
    other.save(tmp_path / "v.safetensors")
    loaded = fw.AmortizedValuator.load(tmp_path / "v.safetensors", device="cpu")
    found = loaded.value(with_constant(new[0] * units), new[1]).values
    assert bool(found.isfinite().all())
    far = loaded.value(np.c_[new[0] * units, np.full(20, 1e9)], new[1]).values
    assert torch.equal(found, far)


def with_constant(x: np.ndarray) -> np.ndarray:
    return np.c_[x, np.full(len(x), 0.3)]


@pytest.mark.parametrize("weights", [fw.LeaveOneOut(), fw.Banzhaf(0.95), fw.Beta(1, 4)], ids=str)
def test_few_fits_teach_any_weighting(weights: fw.Semivalue) -> None:
    utility = fw.RetrainingUtility(LogisticRegression())
    valuator = fw.AmortizedValuator(weights, utility=utility, fits=30, budget=FEW, device="cpu", progress=False)
    assert bool(valuator.fit(X[:60], Y[:60], reference=REFERENCE).values_.isfinite().all())


def test_files_do_not_hold_a_model_and_say_so(tmp_path: Path) -> None:
    utility = fw.RetrainingUtility(LogisticRegression(), scoring=lambda model, x, y: model.score(x, y))
    valuator = fw.AmortizedValuator(utility=utility, fits=20, budget=FEW, device="cpu", progress=False)
    valuator.fit(X[:30], Y[:30], reference=REFERENCE).save(tmp_path / "v.safetensors")
    loaded = fw.AmortizedValuator.load(tmp_path / "v.safetensors", device="cpu")
    assert torch.equal(loaded.value(X, Y).values, valuator.value(X, Y).values)
    assert " at 0x" not in str(loaded.utility)
    with pytest.raises(ValueError, match="a model is not saved with a valuator"):
        loaded.fit(X, Y, reference=REFERENCE)


def test_errors_are_those_of_each_weighting() -> None:
    several = [fw.Shapley(), fw.Beta(16, 1)]
    found = fitted().value(X, Y, several)
    exact = fw.value_neighbors(X, Y, *REFERENCE, weights=several, progress=False).values
    off = (found.values - exact).square().mean(1).sqrt()
    assert float(found.stderr[0, 0]) != float(found.stderr[1, 0])
    assert bool((found.stderr[:, 0] < 6 * off).all())
    assert bool((found.stderr[:, 0] > off / 6).all())


def test_valuators_have_scikit_learns_manners() -> None:
    valuator = fw.AmortizedValuator(fw.Banzhaf(), k=3)
    assert clone(valuator).get_params() == valuator.get_params()
    assert valuator.set_params(k=7).k == 7


UTILITY = fw.RetrainingUtility(LogisticRegression())
WRONG: dict[str, tuple[dict[str, Any], Any, str]] = {
    "unknown method": ({"method": "magic"}, REFERENCE, "method must be"),
    "unknown utility": ({"utility": "normalized"}, REFERENCE, "utility must be"),
    "bare model": ({"utility": LogisticRegression()}, REFERENCE, r"utility is a LogisticRegression: wrap it"),
    "fits of nothing": ({"fits": 30}, REFERENCE, "nearest neighbors take none"),
    "fits by batches": (
        {"utility": UTILITY, "method": "published"},
        REFERENCE,
        "a RetrainingUtility takes 'regression'",
    ),
    "few fits": ({"utility": UTILITY, "fits": 3}, REFERENCE, "fits must be at least 20, got 3"),
    "several fitted": ({"weights": [fw.Shapley(), fw.Banzhaf()], "utility": UTILITY}, REFERENCE, "one weighting at a"),
    "several": ({"weights": [fw.Shapley(), fw.Banzhaf()], "method": "published"}, REFERENCE, "one weighting at a time"),
    "no reference": ({"method": "multilinear"}, None, r"method='multilinear' needs .* reference=\(x_reference, y_re"),
    "nothing to score": ({"utility": UTILITY}, None, r"utility=RetrainingUtility\(...\) needs points to be predicted"),
    "no pair": ({}, X, "reference must be a pair"),
    "nothing to resume": ({"resume": True}, REFERENCE, "needs the checkpoint to go on from"),
    "a folder": ({"checkpoint": "."}, REFERENCE, "is a folder: choose a file for checkpoint="),
    "no budget": ({"budget": 30}, REFERENCE, "budget must be a Budget"),
    "no mixture": ({"weights": fw.Cardinality(np.ones(150))}, REFERENCE, "not known as a mixture"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("arguments", "reference", "message"), WRONG.values(), ids=WRONG.keys())
def test_wrong_arguments_are_told(
    arguments: dict[str, Any],
    reference: Any,  # noqa: ANN401 - wrong on purpose
    message: str,
) -> None:
    with pytest.raises((ValueError, TypeError, OSError), match=message):
        fw.AmortizedValuator(**{"budget": FEW, "device": "cpu", "progress": False, **arguments}).fit(X, Y, reference)


def test_a_regressor_is_sent_elsewhere() -> None:
    """Whatever its targets: they need not be classes."""
    valuator = fw.AmortizedValuator(utility=fw.RetrainingUtility(LinearRegression()), fits=20, device="cpu")
    with pytest.raises(ValueError, match=r"few fits of a classifier.*: use RetrainingValuator"):
        valuator.fit(X, X[:, 0], reference=(X, X[:, 0]))


@pytest.mark.parametrize(
    ("x", "reference", "message"),
    [
        (
            X[:30],
            (REFERENCE[0][REFERENCE[1] < 2], REFERENCE[1][REFERENCE[1] < 2]),
            "no reference point is of class 2: ",
        ),
        (np.ones((30, 2)), REFERENCE, "all points of x are the same"),
    ],
    ids=["no such class", "one place"],
)
def test_what_cannot_be_learned_is_told(x: np.ndarray, reference: tuple[np.ndarray, np.ndarray], message: str) -> None:
    valuator = fw.AmortizedValuator(utility=UTILITY, fits=20, budget=FEW, device="cpu", progress=False)
    with pytest.warns(UserWarning, match=message):
        valuator.fit(x, Y[:30], reference=reference)
    assert bool(valuator.values_.isfinite().all())


def test_points_to_be_valued_are_checked() -> None:
    with pytest.raises(RuntimeError, match="nothing has been learned yet"):
        fw.AmortizedValuator().value(X, Y)
    for x, y, message in (
        (X[:, :1], Y, "1 columns, but the training points have 2"),
        (X, Y + 3, "labels that no training point has: 3, 4, 5; what those are worth is not known"),
        (np.full((2, 2), np.nan), [0, 1], "missing or infinite"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted().value(x, y)


SCRIPT = """
import sys, torch
sys.path[:0] = [{tests!r}, {tests!r} + "/valuation/learned"]
import fwshapley as fw
from test_valuator import REFERENCE, X, Y
for method in ("regression", "published"):
    valuator = fw.AmortizedValuator(method=method, budget=fw.Budget(steps=3), batch=50, device="cpu", progress=False)
    valuator.fit(X, Y, reference=REFERENCE)
    torch.save(valuator.values_, f"{folder}/{{method}}-{{torch.distributed.get_rank()}}.pt")
"""


def test_two_processes_learn_one_network(tmp_path: Path) -> None:
    script = tmp_path / "learn.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parents[2]), folder=tmp_path))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)  # noqa: S603 - our own script
    for method in ("regression", "published"):
        one, other = (torch.load(tmp_path / f"{method}-{rank}.pt", weights_only=True) for rank in (0, 1))
        assert torch.equal(one, other)
        assert bool(one.isfinite().all())
