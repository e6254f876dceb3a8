"""Values of unseen points from a stored index: what recomputation with the point among the others says."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError

import fwshapley as fw
from fwshapley.games.knn import Utility
from fwshapley.valuation.knn import index as index_module
from fwshapley.valuation.knn import problem

WEIGHTS = [fw.Shapley(), fw.Beta(16, 1), fw.Banzhaf(0.3), fw.LeaveOneOut()]


def make_points(count: int, seed: int, *, grid: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 3, (count, 2)).astype(float) if grid else rng.normal(size=(count, 3))
    return x, np.concatenate([[0, 1, 2], rng.integers(0, 3, count - 3)])


@pytest.mark.parametrize("utility", ["soft", "normalized", "vote"])
@pytest.mark.parametrize("reference", ["given", "each other"])
@pytest.mark.parametrize("places", ["apart", "ties"])
def test_unseen_points_are_worth_what_they_are_in_the_company_of_all(
    utility: Utility, reference: str, places: str
) -> None:
    grid = places == "ties"
    x, y = make_points(14, 0, grid=grid)
    x_new, y_new = make_points(6, 1, grid=grid)
    pair = make_points(9, 2, grid=grid) if reference == "given" else None
    valuator = fw.KNNValuator(3, weights=WEIGHTS, utility=utility, progress=False).fit(x, y, reference=pair)
    found = valuator.value(x_new, y_new)
    for i in range(len(x_new)):
        joined = np.vstack([x, x_new[i : i + 1]]), np.append(y, y_new[i])
        exact = fw.KNNValuator(3, weights=WEIGHTS, utility=utility, progress=False).fit(*joined, reference=pair)
        torch.testing.assert_close(found.values[:, i], exact.values_[:, -1], rtol=0, atol=1e-12)
        torch.testing.assert_close(found.stderr[:, i], exact.result_.stderr[:, -1], rtol=0, atol=1e-9)


def test_ties_of_a_vote_may_be_shared() -> None:
    x, y = make_points(12, 0)
    x_new, y_new = make_points(3, 1)
    valuator = fw.KNNValuator(4, utility="vote", ties="shared", progress=False).fit(x, y, reference=make_points(5, 2))
    joined = np.vstack([x, x_new[:1]]), np.append(y, y_new[0])
    exact = fw.KNNValuator(4, utility="vote", ties="shared", progress=False).fit(*joined, reference=make_points(5, 2))
    torch.testing.assert_close(valuator.value(x_new, y_new).values[0], exact.values_[-1])


def test_products_and_differences_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = make_points(200, 0)
    x_new, y_new = make_points(20, 1)
    pair = make_points(30, 2)
    exact = fw.KNNValuator(weights=WEIGHTS, progress=False).fit(x, y, reference=pair).value(x_new, y_new)
    monkeypatch.setattr(problem, "MAX_DIRECT", 0)
    found = fw.KNNValuator(weights=WEIGHTS, progress=False).fit(x, y, reference=pair).value(x_new, y_new)
    torch.testing.assert_close(found.values, exact.values)


def test_the_index_is_made_once_and_again_after_another_fit() -> None:
    x, y = make_points(12, 0)
    valuator = fw.KNNValuator(3, progress=False).fit(x, y)
    first = valuator.value(x, y)
    made = valuator.index_
    valuator.value(x[:2], y[:2])
    assert valuator.index_ is made
    valuator.fit(x[:8], y[:8])
    assert not torch.equal(valuator.value(x, y).values, first.values)


def test_cosine_distances_hold_for_newcomers() -> None:
    x, y = make_points(12, 0)
    valuator = fw.KNNValuator(3, metric="cosine", progress=False).fit(x, y, reference=make_points(5, 2))
    one, other = valuator.value(x[:3] * 7, y[:3]), valuator.value(x[:3], y[:3])
    torch.testing.assert_close(one.values, other.values)


def test_what_is_wrong_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = make_points(12, 0)
    valuator = fw.KNNValuator(3, progress=False)
    with pytest.raises(NotFittedError, match=r"fit\(x, y\)"):
        valuator.value(x, y)
    valuator.fit(x, y)
    with pytest.raises(ValueError, match=r"^x must have 3 columns.*got 2"):
        valuator.value(x[:, :2], y)
    with pytest.raises(ValueError, match=r"^y .*: 9"):
        valuator.value(x[:1], [9])
    monkeypatch.setattr(index_module, "MAX_BYTES", 100)
    with pytest.raises(ValueError, match=r"0 GiB .*AmortizedValuator"):
        valuator.value(x, y)


def test_columns_go_by_their_names() -> None:
    x, y = make_points(12, 0)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    pair = pd.DataFrame(make_points(5, 2)[0], columns=["a", "b", "c"]), make_points(5, 2)[1]
    turned = (pair[0][["c", "a", "b"]], pair[1])
    for kind in (fw.KNNValuator, partial(fw.AmortizedValuator, budget=fw.Budget(steps=2), device="cpu")):
        valuator = kind(k=3, progress=False).fit(frame, y, reference=pair)
        assert torch.equal(kind(k=3, progress=False).fit(frame, y, reference=turned).values_, valuator.values_)
        assert torch.equal(valuator.value(frame[["c", "b", "a"]], y).values, valuator.value(frame, y).values)
        with pytest.raises(ValueError, match=r"^x .* b$"):
            valuator.value(frame[["a", "c"]], y)
