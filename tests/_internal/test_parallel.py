"""Each item has one core, and the rest of the process keeps its threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import joblib
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor

import fwshapley as fw
from fwshapley._internal import parallel as spreading
from fwshapley._internal.parallel import one_core, spread
from fwshapley.valuation.knn import distances, engine

Result = TypeVar("Result")


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    """Threads of torch in this thread, and in those to come."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=["its libraries", "its function"])
def limited_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How torch is limited: where its libraries cannot be reached there is its own function."""
    if request.param == "its function":
        monkeypatch.setattr(spreading, "_find_in_torch", lambda _: None)
    return str(request.param)


def in_new_thread(function: Callable[[], Result]) -> Result:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def threads_inside(_: object = None) -> tuple[int, int, int]:
    """Threads of torch in the thread of an item and in a new one, and the most that any library has in the former."""
    others = [library["num_threads"] for library in threadpool_info()]
    return torch.get_num_threads(), in_new_thread(torch.get_num_threads), max(others)


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.mark.usefixtures("limited_by")
def test_one_core_is_of_the_calling_thread_alone() -> None:
    def look() -> list[int]:
        found = [torch.get_num_threads()]
        with one_core():
            found.append(torch.get_num_threads())
        return [*found, torch.get_num_threads()]

    assert look() == in_new_thread(look) == [3, 1, 3]
    with one_core():
        assert in_new_thread(torch.get_num_threads) == 3
        with one_core():
            pass
        assert torch.get_num_threads() == 1
    with pytest.raises(RuntimeError, match="stop"), one_core():
        raise RuntimeError("stop")
    assert torch.get_num_threads() == in_new_thread(torch.get_num_threads) == 3


def test_mkl_is_limited_too() -> None:
    def threads() -> str:
        lines = torch.__config__.parallel_info().splitlines()
        return next((line.split(":")[1].strip() for line in lines if "mkl_get_max_threads" in line), "none")

    if threads() == "none":
        pytest.skip("torch was built without MKL")
    with one_core():
        assert threads() == "1"
        assert in_new_thread(threads) == "3"
    assert threads() == in_new_thread(threads) == "3"


@pytest.mark.parametrize("backend", ["sequential", "threading"])
def test_an_item_has_one_core_and_the_process_keeps_its_threads(backend: str) -> None:
    with joblib.parallel_config(backend, n_jobs=2):
        assert list(spread(threads_inside, range(3), None)) == [(1, 3, 1)] * 3
    assert torch.get_num_threads() == in_new_thread(torch.get_num_threads) == 3


def test_a_worker_that_serves_others_too_keeps_its_threads() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        found = spreading._run_in_worker(threads_inside, 0)  # noqa: SLF001 - as a process of joblib's calls it
        assert found == (1, 3, 1)
        assert blas_threads() == before
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("limited_by")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_valuation_leaves_the_process_its_threads(n_jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found, orders = [], distances.orders

    def look(*given: Any) -> Tensor:  # noqa: ANN401 - whatever it takes
        found.append((torch.get_num_threads(), in_new_thread(torch.get_num_threads)))
        return orders(*given)

    monkeypatch.setattr(engine, "orders", look)
    x, y = torch.randn(20, 2, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 2
    fw.value_neighbors(x, y, n_jobs=n_jobs)
    assert set(found) == {(1, 3)}
    assert torch.get_num_threads() == in_new_thread(torch.get_num_threads) == 3


def test_who_leaves_last_lifts_the_limit_of_blas() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first, second = (spread(lambda _: blas_threads(), range(3), None) for _ in range(2))
        assert next(first) == next(second) == [1] * len(before)
        first.close()
        assert blas_threads() == next(second) == [1] * len(before)
        second.close()
        assert blas_threads() == before
