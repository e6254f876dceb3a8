"""What all valuators have in common: one weighting or a list, a fit that is all or nothing, and errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression

import fwshapley as fw
from fwshapley.games import RetrainingGame
from fwshapley.valuation import measure_detection

SHAPLEY, BETA = fw.Shapley(), fw.Beta(4, 1)
X = np.random.default_rng(0).normal(size=(12, 2))
Y = np.arange(12) % 2
REFERENCE = X[:6] + 0.1, Y[:6]
MODEL = LogisticRegression()


def by_fits(weights: Any, method: Any) -> Any:  # noqa: ANN401 - of any kind
    return fw.RetrainingValuator(MODEL, method=method, weights=weights, n_fits=120, progress=False)


def by_network(weights: Any, **options: Any) -> Any:  # noqa: ANN401 - of any kind
    budget = fw.Budget(steps=2)
    return fw.AmortizedValuator(weights, budget=budget, batch_size=6, device="cpu", progress=False, **options)


MAKERS: dict[str, Callable[[Any], Any]] = {
    "nearest neighbors": lambda weights: fw.KNNValuator(3, weights=weights, progress=False),
    "vote": lambda weights: fw.KNNValuator(3, weights=weights, utility="vote", progress=False),
    "tmc": partial(by_fits, method="tmc"),
    "beta": partial(by_fits, method="beta"),
    "least_squares": partial(by_fits, method="least_squares"),
    "regression": by_network,
    "multilinear": partial(by_network, method="multilinear"),
    "published": partial(by_network, method="published"),
}
ONE_AT_A_TIME = {"tmc", "beta", "least_squares", "published"}
GIVEN: dict[str, Any] = {"one": SHAPLEY, "a list of one": [SHAPLEY], "a list of two": [SHAPLEY, BETA]}


@cache
def fitted(name: str, given: str) -> Any:  # noqa: ANN401 - of any kind
    """A valuator that was fitted once for all tests."""
    return MAKERS[name](GIVEN[given]).fit(X, Y, REFERENCE)


def possible() -> list[tuple[str, str]]:
    return [
        (name, given) for name in MAKERS for given in GIVEN if given != "a list of two" or name not in ONE_AT_A_TIME
    ]


@pytest.mark.parametrize(("name", "given"), possible())
def test_a_list_of_weightings_is_a_list(name: str, given: str, tmp_path: Path) -> None:
    valuator = fitted(name, given)
    results = [valuator.result_] + ([valuator.value(X[:4], Y[:4])] if hasattr(valuator, "value") else [])
    valuator.result_.save(tmp_path / "values.safetensors")
    for result in [*results, fw.Valuation.load(tmp_path / "values.safetensors")]:
        weights, n = GIVEN[given], len(result)
        shape = (len(weights), n) if isinstance(weights, list) else (n,)
        assert result.values.shape == result.stderr.shape == shape
        assert result.weights == weights
        assert result.of(SHAPLEY).values.shape == (n,)
        assert len(result.to_dataframe()) == n
        if given == "a list of two":
            with pytest.raises(ValueError, match="2 weightings"):
                result.suspects(3)
        else:
            assert result.suspects(3).tolist() == result.of(SHAPLEY).suspects(3).tolist()
    assert torch.equal(valuator.values_, valuator.result_.values)
    if given == "a list of one":
        assert torch.equal(valuator.values_[0], fitted(name, "one").values_)


@pytest.mark.parametrize("name", sorted(ONE_AT_A_TIME))
def test_a_list_of_two_is_refused_where_one_is_estimated_at_a_time(name: str) -> None:
    with pytest.raises(ValueError, match=r"^weights .* fit one valuator for each"):
        MAKERS[name](GIVEN["a list of two"]).fit(X, Y, REFERENCE)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.usefixtures("unchecked")
def test_no_weighting_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="weights is a"):
        MAKERS[name]([]).fit(X, Y, REFERENCE)


def test_values_in_one_call_have_the_shape_of_their_weightings() -> None:
    for given, shape in (("one", (12,)), ("a list of one", (1, 12)), ("a list of two", (2, 12))):
        found = fw.value_neighbors(X, Y, REFERENCE, k=3, weights=GIVEN[given], progress=False)
        assert found.values.shape == found.stderr.shape == shape
    new = fitted("regression", "one").value(X[:4], Y[:4], weights=[BETA])
    assert new.values.shape == new.stderr.shape == (1, 4)


# A fit that fails


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("late", [False, True], ids=["at once", "in the end"])
def test_a_fit_that_fails_leaves_what_was_found_before(
    name: str, late: bool, monkeypatch: pytest.MonkeyPatch  # noqa: FBT001 - a parameter of the test
) -> None:  # fmt: skip
    valuator = MAKERS[name](SHAPLEY).fit(X, Y, REFERENCE)
    before = dict(vars(valuator))
    other = X[:, ::-1] + 1
    if late:
        break_the_end(monkeypatch)
    with pytest.raises((ValueError, RuntimeError)):
        valuator.fit(other, Y if late else Y[:3], REFERENCE)
    monkeypatch.undo()
    assert vars(valuator).keys() == before.keys()
    assert all(vars(valuator)[each] is before[each] for each in before)
    if hasattr(valuator, "value"):
        assert torch.equal(valuator.value(X, Y).values, MAKERS[name](SHAPLEY).fit(X, Y, REFERENCE).value(X, Y).values)


def break_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have valuations fail when all work is done."""

    def fail(*_: Any, **__: Any) -> None:  # noqa: ANN401 - of any kind
        raise RuntimeError("no memory left")

    monkeypatch.setattr("fwshapley.valuation.knn.valuator.make_valuation", fail)
    monkeypatch.setattr("fwshapley.valuation.retraining.valuator._make_valuation", fail)
    monkeypatch.setattr("fwshapley.valuation.learned.valuator.Valuation", fail)


# Wrong arguments

NO_LABELS: dict[str, Any] = {
    "dicts": [{}, {"a": 1}] * 6,
    "sets": [{1}, {2}] * 6,
    "lists": [[1], [2, 3]] * 6,
    "tuples": [(1,), (2, 3)] * 6,
    "complex": [1j, 2] * 6,
    "complex array": np.arange(12) * 1j,
    "complex tensor": torch.arange(12) * 1j,
    "None": [None, 1] * 6,
    "objects": [object(), object()] * 6,
    "dates": np.arange(12).astype("M8[D]"),
    "infinite": [np.inf, 1.0] * 6,
    "a dict": dict.fromkeys(range(12)),
    "a set": set(range(12)),
    "a text": "ab" * 6,
    "no data": torch.zeros(12, device="meta"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("kind", NO_LABELS)
@pytest.mark.parametrize("name", ["nearest neighbors", "tmc", "regression"])
def test_labels_are_numbers_or_text(name: str, kind: str) -> None:
    with pytest.raises(ValueError, match=r"^y (must be|has|is)"):
        MAKERS[name](SHAPLEY).fit(X, NO_LABELS[kind], REFERENCE)
    with pytest.raises(ValueError, match=r"^reference\[1\] (must be|has|is)"):
        MAKERS[name](SHAPLEY).fit(X, Y, (X, NO_LABELS[kind]))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("kind", ["dicts", "sets", "complex", "None", "objects", "dates"])
def test_labels_of_a_game_are_numbers_or_text(kind: str) -> None:
    with pytest.raises(ValueError, match=r"^y must be numbers or text, .* row 0"):
        RetrainingGame(MODEL, X, NO_LABELS[kind], REFERENCE)
    with pytest.raises(ValueError, match=r"^reference\[1\] must be numbers or text"):
        RetrainingGame(MODEL, X, Y, (X, NO_LABELS[kind]))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("kind", ["dicts", "complex", "complex tensor", "None"])
def test_targets_are_real_numbers(kind: str) -> None:
    valuator = fw.RetrainingValuator(LinearRegression(), method="leave_one_out", progress=False)
    with pytest.raises(TypeError, match=r"^y must be an array of real numbers"):
        valuator.fit(X, NO_LABELS[kind], REFERENCE)


@pytest.mark.usefixtures("unchecked")
def test_text_and_bytes_are_not_taken_for_each_other() -> None:
    text, coded = np.array(["a", "b"] * 6), np.array([b"a", b"b"] * 6)
    with pytest.raises(ValueError, match=r"^reference\[1\] .* str.* bytes"):
        fw.value_neighbors(X, text, (X, coded))
    with pytest.raises(ValueError, match=r"^y .* text and bytes"):
        fw.value_neighbors(X, ["a", b"b"] * 6)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("x", [X + 1j, torch.tensor(X + 1j), (X + 1j).tolist(), X.astype("M8[D]")], ids=type)
@pytest.mark.parametrize("name", ["nearest neighbors", "tmc", "regression"])
def test_features_are_real_numbers(name: str, x: Any) -> None:  # noqa: ANN401 - of any kind
    with pytest.raises(ValueError, match=r"^x must be (real )?numbers, got"):
        MAKERS[name](SHAPLEY).fit(x, Y, REFERENCE)
    with pytest.raises(ValueError, match=r"^reference\[0\] must be (real )?numbers, got"):
        MAKERS[name](SHAPLEY).fit(X, Y, (x, Y))


@pytest.mark.parametrize("values", [X[:, 0] + 1j, torch.tensor(X[:, 0] + 1j)], ids=type)
def test_values_to_be_measured_are_real_numbers(values: Any) -> None:  # noqa: ANN401 - of any kind
    with pytest.raises(TypeError, match=r"^values must be"):
        measure_detection(values, Y)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("device", ["meta", torch.device("meta"), "mps", "banana", None, ["cpu"]], ids=str)
def test_values_are_computed_on_a_cpu_or_a_gpu(device: Any) -> None:  # noqa: ANN401 - of any kind
    with pytest.raises(ValueError, match="device"):
        fw.value_neighbors(X, Y, device=device)
    with pytest.raises(ValueError, match="device"):
        fw.KNNValuator(3, device=device).fit(X, Y)
    with pytest.raises(ValueError, match="device"):
        fw.AmortizedValuator(device=device).fit(X, Y)
