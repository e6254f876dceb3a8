"""Valuation by nearest neighbors from end to end: against enumeration, on any backend, from any kind of input."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import distributed
import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch import Tensor
from torch.testing import assert_close

import fwshapley as fw
from conftest import SEMIVALUES, every_utility
from fwshapley.games import NeighborGame
from fwshapley.games.knn import Ties, Utility
from fwshapley.valuation.knn import distances, engine, problem


def value(x: Any, y: Any, *reference: Any, n_jobs: int | None = 1, **options: Any) -> fw.Valuation:  # noqa: ANN401 - as the function has them
    """Value points by reference points and their labels, or by each other."""
    return fw.value_neighbors(x, y, reference or None, n_jobs=n_jobs, progress=False, **options)


SEVERAL = [fw.Shapley(), fw.Beta(4, 1), fw.Banzhaf(0.2), fw.LeaveOneOut()]


class Points:
    """Points of noise, with labels in three classes."""

    def __init__(self, n: int, references: int, seed: int = 0, columns: int = 3) -> None:
        generator = np.random.default_rng(seed)
        self.x = generator.normal(size=(n, columns))
        self.y = np.concatenate([[0, 1, 2], generator.integers(0, 3, n - 3)])
        self.x_reference = generator.normal(size=(references, columns))
        self.y_reference = generator.integers(0, 3, references)

    @property
    def all(self) -> tuple[NDArray[Any], ...]:
        return self.x, self.y, self.x_reference, self.y_reference


SMALL, MEDIUM, LARGE = Points(9, 6), Points(30, 12), Points(60, 200)  # the last has several parts


def by_enumeration(points: Points, weights: list[fw.Semivalue], *, held_out: bool, **options: Any) -> Tensor:  # noqa: ANN401 - those of the game
    """Values of all points in the game of each reference, by (reference, weighting, point)."""
    x, y = points.x, points.y
    references = (x, y) if held_out else (points.x_reference, points.y_reference)
    found = torch.zeros(len(references[0]), len(weights), len(x), dtype=torch.float64)
    for row, (point, label) in enumerate(zip(*references, strict=True)):
        order = ((x - point) ** 2).sum(1).argsort(kind="stable")
        order = order[order != row] if held_out else order
        game = NeighborGame(torch.from_numpy(y[order]), int(label), 3, **options)
        found[row][:, order] = fw.exact_values(game, weights)
    return found


# Against enumeration


@every_utility
@pytest.mark.parametrize("k", [1, 4, 9])
def test_values_are_means_of_enumerated_games(utility: Utility, ties: Ties, k: int) -> None:
    weights = [make(9) for make in SEMIVALUES.values()]
    games = by_enumeration(SMALL, weights, held_out=False, k=k, utility=utility, ties=ties)
    found = value(*SMALL.all, k=k, weights=weights, utility=utility, ties=ties)
    assert_close(found.values, games.mean(0), rtol=0, atol=1e-12)
    assert_close(found.stderr, games.std(0) / 6**0.5, rtol=0, atol=1e-8)
    assert (found.references, found.error_bound, len(found)) == (6, 0, 9)


@every_utility
@pytest.mark.parametrize("k", [1, 4, 8])
def test_without_references_a_point_is_valued_by_the_others(utility: Utility, ties: Ties, k: int) -> None:
    weights = [make(8) for make in SEMIVALUES.values()]
    games = by_enumeration(SMALL, weights, held_out=True, k=k, utility=utility, ties=ties)
    found = value(SMALL.x, SMALL.y, k=k, weights=weights, utility=utility, ties=ties)
    assert_close(found.values, games.sum(0) / 8, rtol=0, atol=1e-12)  # a point has no part in its own game
    others = torch.stack([torch.cat([games[:own, :, own], games[own + 1 :, :, own]]) for own in range(9)], 2)
    assert_close(found.stderr, others.std(0) / 8**0.5, rtol=0, atol=1e-8)
    assert found.references == 8


@every_utility
def test_distances_by_products_give_the_same_values(
    utility: Utility, ties: Ties, monkeypatch: pytest.MonkeyPatch
) -> None:
    for given in (MEDIUM.all, MEDIUM.all[:2]):
        directly = value(*given, weights=SEVERAL, k=3, utility=utility, ties=ties)
        with monkeypatch.context() as context:
            context.setattr(problem, "MAX_DIRECT", 0)
            context.setattr(engine, "distances_directly", None)
            by_products = value(*given, weights=SEVERAL, k=3, utility=utility, ties=ties)
        assert_close(by_products.values, directly.values, rtol=0, atol=1e-14)


def test_blocks_of_any_size_give_the_same_values(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [value(*given, weights=SEVERAL, k=3, utility="vote") for given in (MEDIUM.all, MEDIUM.all[:2])]
    monkeypatch.setitem(engine.BLOCK_BYTES, "cpu", 5 * 8 * 30)
    monkeypatch.setattr(engine, "MIN_PART", 7)
    blocks = [value(*given, weights=SEVERAL, k=3, utility="vote") for given in (MEDIUM.all, MEDIUM.all[:2])]
    for one, other in zip(whole, blocks, strict=True):
        assert_close(one.values, other.values, rtol=0, atol=1e-14)


@every_utility
def test_several_weightings_are_each_on_its_own(utility: Utility, ties: Ties) -> None:
    together = value(*MEDIUM.all, weights=SEVERAL, k=3, utility=utility, ties=ties)
    assert together.values.shape == (4, 30)
    for row, weights in enumerate(SEVERAL):
        alone = value(*MEDIUM.all, weights=weights, k=3, utility=utility, ties=ties)
        assert torch.equal(alone.values, together.values[row])
        assert torch.equal(alone.stderr, together.stderr[row])
        assert torch.equal(together.of(weights).values, alone.values)


def test_a_list_of_one_keeps_its_axis_and_no_weights_is_shapley() -> None:
    assert value(*SMALL.all, weights=[fw.Shapley()]).values.shape == (1, 9)
    assert torch.equal(value(*SMALL.all).values, value(*SMALL.all, weights=(fw.Shapley(),)).values[0])


# Parts and wholes


def test_parts_of_the_reference_merge_into_one_run() -> None:
    x, y, x_reference, y_reference = LARGE.all
    whole = value(*LARGE.all, weights=SEVERAL, utility="normalized")
    ends = [0, 1, 30, 200]  # the first of one reference, which has no standard error
    parts = [
        value(x, y, x_reference[start:end], y_reference[start:end], weights=SEVERAL, utility="normalized")
        for start, end in pairwise(ends)
    ]
    merged = fw.Valuation.merge(parts)
    assert_close(merged.values, whole.values, rtol=0, atol=1e-15)
    assert_close(merged.stderr, whole.stderr, rtol=1e-9, atol=1e-15)
    assert merged.references == whole.references == 200


def test_standard_errors_are_those_of_references_one_by_one() -> None:
    x, y, x_reference, y_reference = LARGE.all
    singles = torch.stack(
        [value(x, y, x_reference[row : row + 1], y_reference[row : row + 1]).values for row in range(200)]
    )
    found = value(*LARGE.all)
    assert_close(found.values, singles.mean(0), rtol=0, atol=1e-15)
    assert_close(found.stderr, singles.std(0) / 200**0.5, rtol=1e-10, atol=1e-15)


@every_utility
@pytest.mark.parametrize("held_out", [False, True])
def test_a_tolerance_is_kept(utility: Utility, ties: Ties, *, held_out: bool) -> None:
    points = Points(40, 12)
    given = points.all[:2] if held_out else points.all
    find = partial(value, *given, weights=[fw.Banzhaf(0.2), fw.LeaveOneOut(), fw.Beta(1, 4)], k=2)
    exact = find(utility=utility, ties=ties)
    assert exact.error_bound == 0
    for tolerance in (0.003, 0.03, 0.2):
        cut = find(utility=utility, ties=ties, tolerance=tolerance)
        assert 0 < cut.error_bound <= tolerance
        assert 0 < float((cut.values - exact.values).abs().max()) <= cut.error_bound + 1e-14


def test_the_order_of_references_does_not_matter() -> None:
    x, y, x_reference, y_reference = LARGE.all
    shuffled = np.random.default_rng(1).permutation(200)
    found = value(x, y, x_reference[shuffled], y_reference[shuffled], weights=SEVERAL)
    assert_close(found.values, value(*LARGE.all, weights=SEVERAL).values, rtol=0, atol=1e-12)


@pytest.mark.parametrize("references", [0, 2])
@every_utility
def test_values_follow_their_points(utility: Utility, ties: Ties, references: int) -> None:
    x, y, *reference = MEDIUM.all[: 2 + references]
    shuffled = np.random.default_rng(1).permutation(30)
    found = value(x[shuffled], y[shuffled], *reference, weights=SEVERAL, k=3, utility=utility, ties=ties)
    plain = value(x, y, *reference, weights=SEVERAL, k=3, utility=utility, ties=ties)
    assert_close(found.values, plain.values[:, torch.from_numpy(shuffled)], rtol=0, atol=1e-12)


def test_shapley_values_sum_to_the_share_of_matching_neighbors() -> None:
    x, y, x_reference, y_reference = LARGE.all
    nearest = ((x_reference[:, None] - x) ** 2).sum(2).argsort(1)[:, :5]
    assert float(value(*LARGE.all).values.sum()) == pytest.approx((y[nearest] == y_reference[:, None]).mean())


@pytest.mark.parametrize("references", [True, False])
@every_utility
def test_wrong_labels_of_two_clusters_have_the_lowest_values(utility: Utility, ties: Ties, *, references: bool) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(60, 2)) + np.repeat([[-4], [4]], 30, 0)
    y = np.repeat(["left", "right"], 30)
    wrong = generator.choice(60, 6, replace=False)
    mislabeled = y.copy()
    mislabeled[wrong] = np.where(y[wrong] == "left", "right", "left")
    given = (x, y) if references else ()
    found = value(x, mislabeled, *given, utility=utility, ties=ties, k=3, weights=fw.Beta(4, 1))
    assert set(found.suspects(6).tolist()) == set(wrong.tolist())


# Wherever the work is done


@pytest.fixture(scope="module")
def on_one_core() -> list[fw.Valuation]:
    return in_every_way(n_jobs=1)


def in_every_way(n_jobs: int | None = None) -> list[fw.Valuation]:
    """Several parts, with references and without, with every utility."""
    long = Points(70, 130)
    calls: list[tuple[tuple[NDArray[Any], ...], Utility]] = [
        (long.all, "soft"),
        (long.all, "vote"),
        (long.all[:2], "normalized"),
    ]
    return [value(*given, k=2, weights=SEVERAL, utility=utility, n_jobs=n_jobs) for given, utility in calls]


def assert_identical(found: list[fw.Valuation], expected: list[fw.Valuation]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one.values, other.values)
        assert torch.equal(one.stderr, other.stderr)


@pytest.mark.parametrize("n_jobs", [2, None])
def test_any_number_of_cores_gives_the_same_bits(n_jobs: int | None, on_one_core: list[fw.Valuation]) -> None:
    assert_identical(in_every_way(n_jobs), on_one_core)


@pytest.mark.parametrize("backend", ["threading", "loky", "sequential"])
def test_any_backend_of_joblib_gives_the_same_bits(backend: str, on_one_core: list[fw.Valuation]) -> None:
    with joblib.parallel_config(backend, n_jobs=2):
        assert_identical(in_every_way(), on_one_core)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.filterwarnings("ignore::Warning:distributed", "ignore::Warning:dask")
def test_workers_of_a_dask_cluster_share_the_work_and_give_the_same_bits(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MIN_PART", 8)
    expected = in_every_way(n_jobs=1)
    where: Any = distributed  # which is typed in part
    with (
        where.LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        where.Client(cluster) as client,
        joblib.parallel_config("dask"),
    ):
        assert_identical(in_every_way(), expected)
        tasks = client.run(lambda dask_worker: dask_worker.state.executed_count)
    busy = sum(count > 0 for count in tasks.values())
    assert busy >= {1: 0, 2: 2, 4: 2}[workers]  # joblib does the work of a single worker itself


PEAK = """
import resource
import numpy as np
import fwshapley as fw

def value(references):
    x, labels = generator.random((n, 4)), np.arange(n) % 2
    reference = generator.random((references, 4)), np.arange(references) % 2
    fw.value_neighbors(x, labels, reference, n_jobs=2, progress=False)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

n, generator = 100_000, np.random.default_rng(0)
print(value(300), value(1000))
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_references() -> None:
    command = [sys.executable, "-c", PEAK]
    run = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    few, many = (int(kilobytes) for kilobytes in run.stdout.split())
    distances = 1000 * 100_000 * 8 // 1024
    assert many - few < distances / 20


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize(("backend", "n_jobs"), [("threading", 1), ("threading", 2), ("sequential", 1), ("loky", 1)])
def test_torch_keeps_its_threads(backend: str, n_jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    find = partial(value, *LARGE.all, n_jobs=None)
    with joblib.parallel_config(backend, n_jobs=n_jobs):
        find()
    assert torch.get_num_threads() == 3

    def fail(*_: object) -> Tensor:
        raise RuntimeError("out of order")

    monkeypatch.setattr(engine, "orders", fail)
    with joblib.parallel_config(backend, n_jobs=n_jobs), pytest.raises(RuntimeError, match="out of order"):
        find()
    assert torch.get_num_threads() == 3


# Kinds of input

KINDS: dict[str, Callable[[NDArray[Any]], Any]] = {
    "float64": lambda table: table.astype(np.float64),
    "float32": lambda table: table.astype(np.float32),
    "float16": lambda table: table.astype(np.float16),
    "int64": lambda table: table.astype(np.int64),
    "int8": lambda table: table.astype(np.int8),
    "big-endian": lambda table: table.astype(">f8"),
    "column by column": np.asfortranarray,
    "list": lambda table: table.tolist(),
    "torch": torch.tensor,
    "torch float32": lambda table: torch.tensor(table).float().requires_grad_(),
    "DataFrame": lambda table: pd.DataFrame(table) if table.ndim > 1 else pd.Series(table),
    "nullable": lambda table: (
        pd.DataFrame(table).astype("Int64") if table.ndim > 1 else pd.Series(table, dtype="Int64")
    ),
    "odd index": lambda table: pd.DataFrame(table).iloc[::-1].iloc[::-1] if table.ndim > 1 else pd.Series(table),
}


@pytest.mark.usefixtures("unchecked")  # a DataFrame is no Sequence
@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_of_array_will_do(kind: str) -> None:
    generator = np.random.default_rng(0)
    x, x_reference = generator.integers(-9, 9, (40, 4)), generator.integers(-9, 9, (20, 4))
    y, y_reference = np.arange(40) % 3, np.arange(20) % 3
    make = KINDS[kind]
    labels = make if kind not in ("float16", "torch float32") else np.asarray
    expected = value(x, y, x_reference, y_reference)
    found = value(make(x), labels(y), make(x_reference), labels(y_reference))
    assert torch.equal(found.values, expected.values)
    mixed = value(make(x), y, x_reference, labels(y_reference))
    assert torch.equal(mixed.values, expected.values)


LABELS: dict[str, Callable[[NDArray[np.int64]], Any]] = {
    "text": lambda y: np.array(["cat", "cow", "dog"])[y],
    "list of text": lambda y: [("cat", "cow", "dog")[label] for label in y],
    "objects": lambda y: np.array(["cat", "cow", "dog"], dtype=object)[y],
    "Series": lambda y: pd.Series(["cat", "cow", "dog"])[y],
    "categories": lambda y: pd.Series(["cat", "cow", "dog"])[y].astype("category"),
    "numbers with gaps": lambda y: np.array([-7, 0, 100])[y],
    "floats": lambda y: np.array([-7.0, 0.0, 100.0])[y],
    "bytes": lambda y: np.array([b"cat", b"cow", b"dog"])[y],
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("kind", LABELS)
def test_labels_may_be_anything_in_order(kind: str) -> None:
    x, y, x_reference, y_reference = MEDIUM.all
    make = LABELS[kind]
    found = value(x, make(y), x_reference, make(y_reference), k=2, utility="vote")
    assert torch.equal(found.values, value(*MEDIUM.all, k=2, utility="vote").values)
    assert found.labels.tolist() == y.tolist()
    assert found.classes == tuple(map(str, np.asarray(make(np.arange(3))).tolist()))


def test_two_classes_may_be_true_and_false() -> None:
    x, y, x_reference, y_reference = MEDIUM.all
    found = value(x, y > 0, x_reference, y_reference > 0)
    assert torch.equal(found.values, value(x, y.clip(max=1), x_reference, y_reference.clip(max=1)).values)


def test_reference_points_may_lack_a_class() -> None:
    x, y, x_reference, _ = MEDIUM.all
    found = value(x, y, x_reference, np.full(12, 2), utility="vote")
    assert bool(found.values[y == 2].mean() > found.values[y != 2].mean())


def test_images_are_flattened() -> None:
    points = Points(40, 20, columns=24)
    x, y, x_reference, y_reference = points.all
    found = value(torch.tensor(x).reshape(40, 2, 3, 4), y, x_reference.reshape(20, 24), y_reference)
    assert torch.equal(found.values, value(*points.all).values)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_what_is_given_is_not_changed(metric: distances.Metric) -> None:
    given, copies = MEDIUM.all, [array.copy() for array in MEDIUM.all]
    for array in given:
        array.flags.writeable = False
    try:
        value(*given, metric=metric, utility="vote")
        value(*given[:2], metric=metric)
    finally:
        for array in given:
            array.flags.writeable = True
    assert all(np.array_equal(array, copy) for array, copy in zip(given, copies, strict=True))


def test_cosine_looks_at_directions_alone() -> None:
    x, y, x_reference, y_reference = MEDIUM.all
    lengths = np.exp2(np.random.default_rng(0).integers(-9, 9, (30, 1)))
    found = value(x * lengths, y, x_reference * 64, y_reference, metric="cosine")
    assert torch.equal(found.values, value(*MEDIUM.all, metric="cosine").values)
    assert not torch.equal(found.values, value(*MEDIUM.all).values)


@pytest.mark.usefixtures("unchecked")
def test_k_may_be_any_whole_number(tmp_path: Path) -> None:
    kinds: list[Any] = [np.int64(3), torch.tensor(3)]
    for k in kinds:
        found = value(*SMALL.all, k=k)
        assert torch.equal(found.values, value(*SMALL.all, k=3).values)
        found.save(tmp_path / "values.safetensors")
        assert fw.Valuation.load(tmp_path / "values.safetensors").provenance == found.provenance


def test_how_values_came_about_is_told() -> None:
    found = value(*SMALL.all, k=3, utility="vote", ties="shared", metric="cosine", tolerance=0.01)
    told = {"k": 3, "utility": "vote", "ties": "shared", "metric": "cosine", "tolerance": 0.01, "reference": "given"}
    assert told.items() <= dict(found.provenance).items()
    assert value(SMALL.x, SMALL.y).provenance["reference"] == "the other points"


# Wrong inputs


def spoilt(table: NDArray[Any], row: int, column: int, by: float) -> NDArray[Any]:
    table = table.copy()
    table[row, column] = by
    return table


X, Y, X_REFERENCE, Y_REFERENCE = SMALL.all
WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "NaN": ({"x": spoilt(X, 4, 1, np.nan)}, ValueError, "x .*1 .*row 4, column 1"),
    "infinity": ({"x_reference": spoilt(X_REFERENCE, 2, 0, -np.inf)}, ValueError, r"reference\[0\] .*row 2, column 0"),
    "text": ({"x": [["a", "b", "c"]] * 9}, ValueError, "^x must"),
    "ragged rows": ({"x": [[1, 2, 3], [1, 2]]}, ValueError, "^x must"),
    "one row of x": ({"x": X[0]}, ValueError, r"^x must .*\(3,\)"),
    "no rows": ({"x": X[:0], "y": Y[:0]}, ValueError, r"^x must .*\(0, 3\)"),
    "no columns": ({"x": X[:, :0]}, ValueError, r"^x must .*\(9, 0\)"),
    "no reference": ({"x_reference": X[:0], "y_reference": Y[:0]}, ValueError, r"^reference\[0\] must"),
    "other columns": ({"x_reference": X[:, :2]}, ValueError, r"^reference\[0\] .*3 .*2"),
    "fewer labels": ({"y": Y[:4]}, ValueError, r"^y must .*9 .*\(4,\)"),
    "a table of labels": ({"y": Y[:, None]}, ValueError, r"^y must .*9 .*\(9, 1\)"),
    "fewer reference labels": ({"y_reference": Y[:2]}, ValueError, r"^reference\[1\] must .*6"),
    "one class": ({"y": np.ones(9)}, ValueError, r"^y must .*1\.0"),
    "real labels": ({"y": np.linspace(0, 2, 9), "task": "classification"}, ValueError, "^y must .*0.25.*regression"),
    "labels or targets": ({"y": [0, 0.5, 1] * 3}, ValueError, "^y has 3 .*task='classification' or task="),
    "targets of text": ({"y": list("abcabcabc"), "task": "regression"}, ValueError, "^y must be numbers .*text"),
    "infinite targets": (
        {"y": [np.inf, *range(8)], "utility": "squared_error"},
        ValueError,
        "^y must be finite, got inf in row 0",
    ),
    "one target": ({"y": np.ones(9), "task": "regression"}, ValueError, "^y must contain different targets.* 1$"),
    "infinite reference targets": (
        {"y_reference": [np.inf] * 6, "task": "regression"},
        ValueError,
        r"^reference\[1\] must be finite",
    ),
    "wrong task": ({"task": "ranking"}, ValueError, "^task must be one of 'auto', 'classification', 'regression'"),
    "another task's utility": (
        {"task": "regression", "utility": "vote"},
        ValueError,
        "^utility must be one of 'squared_error', .*task='regression', got 'vote'",
    ),
    "no radius": ({"utility": "radius"}, ValueError, "^radius must be a distance for utility='radius'"),
    "no kernel's radius": ({"utility": "kernel_error"}, ValueError, "^radius must be a distance"),
    "a radius of 0": ({"utility": "kernel", "radius": 0.0}, ValueError, "^radius must be positive, got 0"),
    "a radius in words": ({"utility": "kernel", "radius": "1"}, TypeError, "^radius must"),
    "a radius for ranks": ({"radius": 1.0}, ValueError, "^radius is for the utilities .*utility='soft'"),
    "missing label": ({"y": [0, 1, None, *Y[3:]]}, ValueError, "^y .*1 .*row 2"),
    "NaN label": ({"y": [0.0, np.nan, *Y[2:]]}, ValueError, "^y .*1 .*row 1"),
    "NaN among text": ({"y": [*"abcabcab", np.nan]}, ValueError, "^y .*1 .*row 8"),
    "text and numbers": ({"y": [*"abcabcab", 3]}, ValueError, "^y .*text and numbers"),
    "objects of text and numbers": (
        {"y": np.array([*"abcabcab", 3], dtype=object)},
        ValueError,
        "^y .*text and numbers",
    ),
    "text for numbers": ({"y_reference": list("012012")}, ValueError, r"^reference\[1\] .*int64"),
    "unseen labels": ({"y_reference": [0, 1, 2, 5, 7, 5]}, ValueError, r"^reference\[1\] .*5, 7;"),
    "many unseen labels": ({"y_reference": range(3, 9)}, ValueError, r"^reference\[1\] .*3, 4, 5, 6, 7, 8;"),
    "k too large": ({"k": 10}, ValueError, "^k must be at most 9, .*10"),
    "k too large for the others": ({"k": 9, "x_reference": None}, ValueError, "^k must be at most 8, .*9"),
    "no neighbors": ({"k": 0}, ValueError, "^k must be at least 1, got 0"),
    "half a neighbor": ({"k": 2.5}, TypeError, "^k must be a whole number, got 2.5"),
    "negative tolerance": ({"tolerance": -0.1}, ValueError, "^tolerance must be at least 0, got -0.1"),
    "no tolerance": ({"tolerance": np.nan}, ValueError, "^tolerance must be finite, got nan"),
    "empty weights": ({"weights": []}, ValueError, "^weights is an empty list"),
    "names of weights": ({"weights": "Shapley"}, TypeError, "^weights must be a semivalue"),
    "weights not called": ({"weights": [fw.Shapley]}, TypeError, r"^weights must .*Shapley\(\)"),
    "weights for other sizes": ({"weights": fw.Cardinality([1, 1])}, ValueError, "2 players"),
    "wrong utility": (
        {"utility": "hard"},
        ValueError,
        "^utility must be .*'soft', 'normalized', 'vote', .*'squared_error'.*; got 'hard'",
    ),
    "wrong ties": ({"ties": "highest"}, ValueError, "^ties must be one of 'lowest', 'shared'; got 'highest'"),
    "wrong metric": ({"metric": "manhattan"}, ValueError, "^metric must be one of 'euclidean', 'cosine'; got"),
    "no direction": ({"x": X * [[0]] + 0.0, "metric": "cosine"}, ValueError, "^x must .*row 0"),
    "no number of jobs": ({"n_jobs": 0}, ValueError, "n_jobs"),
    "jobs in words": ({"n_jobs": "2"}, TypeError, "n_jobs"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused(name: str) -> None:
    changed, error, message = WRONG[name]
    given = {"x": X, "y": Y, "x_reference": X_REFERENCE, "y_reference": Y_REFERENCE} | changed
    x_reference, y_reference = given.pop("x_reference"), given.pop("y_reference")
    reference = None if x_reference is None else (x_reference, y_reference)
    with pytest.raises(error, match=message):
        fw.value_neighbors(**given, reference=reference, progress=False)


# The valuator


def test_a_valuator_does_what_the_function_does() -> None:
    options: dict[str, Any] = {"k": 3, "weights": SEVERAL, "utility": "vote", "ties": "shared", "metric": "cosine"}
    valuator = fw.KNNValuator(**options, tolerance=1e-3, device="cpu", n_jobs=1, progress=False)
    x, y, *reference = MEDIUM.all
    fitted = valuator.fit(x, y, reference=(reference[0], reference[1]))
    assert fitted is valuator
    expected = value(*MEDIUM.all, **options, tolerance=1e-3, device="cpu", n_jobs=1)
    assert torch.equal(valuator.values_, expected.values)
    assert valuator.result_.provenance == expected.provenance


def test_a_valuator_may_be_fitted_again() -> None:
    valuator = fw.KNNValuator(k=3, progress=False)
    valuator.fit(MEDIUM.x, MEDIUM.y)
    assert torch.equal(valuator.fit(SMALL.x, SMALL.y).values_, value(SMALL.x, SMALL.y, k=3).values)


def test_a_valuator_has_no_values_before_it_is_fitted() -> None:
    with pytest.raises(NotFittedError, match=r"fit\(x, y\)"):
        _ = fw.KNNValuator().values_


def test_one_reference_has_no_standard_error() -> None:
    found = value(X, Y, X_REFERENCE[:1], Y_REFERENCE[:1])
    assert bool(found.stderr.isnan().all())
    assert bool(found.values.isfinite().all())


@pytest.mark.parametrize("gap", [1e3, 1e6, 1e9])
def test_clusters_may_be_far_apart(gap: float, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(300, 3))
    x[::2, 0] += gap
    y = np.arange(300) % 3
    expected = value(x, y, x[:9] + 0.1, y[:9])
    monkeypatch.setattr(problem, "MAX_DIRECT", 0)
    assert_close(value(x, y, x[:9] + 0.1, y[:9]).values, expected.values, rtol=0, atol=1e-12)


@pytest.mark.parametrize("reference", [(), np.zeros((3, 2)), (1, 2, 3)], ids=["nothing", "points", "three"])
@pytest.mark.usefixtures("unchecked")
def test_a_reference_is_a_pair(reference: Any) -> None:  # noqa: ANN401 - what is wrong
    with pytest.raises(ValueError, match="reference must be a pair"):
        fw.KNNValuator(progress=False).fit(SMALL.x, SMALL.y, reference)


def test_a_valuator_can_be_cloned_and_changed() -> None:
    valuator = fw.KNNValuator(3, weights=SEVERAL, utility="vote", progress=False).fit(SMALL.x, SMALL.y)
    same = clone(valuator)
    assert same.get_params() == valuator.get_params()
    assert not hasattr(same, "result_")
    assert same.set_params(k=2).k == 2
    with pytest.raises(ValueError, match="color"):
        same.set_params(color="red")


def test_long_work_is_announced_with_its_time_and_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fw.value_neighbors(SMALL.x, SMALL.y)
    assert capsys.readouterr().err == ""
    monkeypatch.setitem(engine.PAIR_SECONDS, "cpu", 1.0)
    fw.value_neighbors(SMALL.x, SMALL.y, n_jobs=1)
    line = r"valuing: 9 points by 9 reference points, about 1\.[34] min, about [\d.]+ GB of memory\n"
    assert re.fullmatch(line, capsys.readouterr().err)
    fw.value_neighbors(SMALL.x, SMALL.y, progress=False)
    assert capsys.readouterr().err == ""
