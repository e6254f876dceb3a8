import math
from fractions import Fraction
from typing import SupportsFloat, SupportsIndex

import numpy as np
import pandas as pd
import pytest
import torch

from fwshapley._internal.checks import check_choice, check_list, check_real, check_whole
from fwshapley._internal.tensor_checks import check_classes, check_finite, check_tensor


@pytest.mark.parametrize("value", [3, np.int64(3), torch.tensor(3)], ids=lambda value: type(value).__name__)
def test_whole_numbers_of_any_library_become_int(value: SupportsIndex) -> None:
    whole = check_whole("players", value)
    assert (whole, type(whole)) == (3, int)


@pytest.mark.parametrize(
    "value", [2, 2.0, np.float32(2), torch.tensor(2.0), Fraction(2)], ids=lambda value: type(value).__name__
)
@pytest.mark.usefixtures("unchecked")
def test_reals_of_any_library_become_float(value: SupportsFloat) -> None:
    real = check_real("alpha", value)
    assert (real, type(real)) == (2, float)


@pytest.mark.parametrize("value", [3.0, "3", None])
@pytest.mark.usefixtures("unchecked")
def test_what_is_not_whole_is_named(value: SupportsIndex) -> None:
    with pytest.raises(TypeError, match="players must be a whole number, got"):
        check_whole("players", value)


def test_whole_numbers_below_the_minimum_are_named() -> None:
    assert check_whole("players", 2, minimum=2) == 2
    with pytest.raises(ValueError, match="players must be at least 2, got 1"):
        check_whole("players", 1, minimum=2)


@pytest.mark.parametrize(
    "value",
    ["many", "2", b"2", None, [1.0, 2.0], True, np.True_, 1j, np.complex128(2), torch.tensor([1.0, 2.0])],
    ids=repr,
)
@pytest.mark.usefixtures("unchecked")
def test_what_is_not_a_number_is_named(value: SupportsFloat) -> None:
    with pytest.raises(TypeError, match="alpha must be a number, got"):
        check_real("alpha", value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400], ids=["nan", "inf", "-inf", "10**400"])
def test_numbers_that_are_not_finite_are_named(value: float) -> None:
    with pytest.raises(ValueError, match="alpha must be finite"):
        check_real("alpha", value)


@pytest.mark.parametrize("values", [["1", "2"], "12", None, [1, None], [True, False], [1j], [[1], [1, 2]]], ids=repr)
@pytest.mark.usefixtures("unchecked")
def test_what_is_no_array_of_numbers_is_named(values: list[float]) -> None:
    with pytest.raises(TypeError, match=r"weights must be an array of .*numbers, got"):
        check_tensor("weights", values)


def test_arrays_of_numbers_become_floats() -> None:
    for values in (
        [0.1, 2],
        np.array([0.1, 2]),
        np.array([2, 0.1])[::-1],
        pd.DataFrame({"a": [0.1, 2]}),
        torch.tensor([0.1, 2]).double(),
    ):
        assert check_tensor("weights", values).flatten().tolist() == pytest.approx([0.1, 2.0], abs=1e-8)
    assert check_tensor("weights", [0.1]).item() == 0.1  # not rounded to single precision


def test_unknown_choices_are_named_with_the_known_ones() -> None:
    check_choice("total", "raw", ("raw", "efficient"))
    with pytest.raises(ValueError, match="total must be one of 'raw', 'efficient'; got 'rwa'"):
        check_choice("total", "rwa", ("raw", "efficient"))


def test_numbers_of_classes_of_any_kind_become_whole() -> None:
    for labels in ([0, 2, 1], np.array([0.0, 2.0, 1.0]), torch.tensor([0, 2, 1], dtype=torch.int8)):
        assert check_classes("labels", labels, classes=3).tolist() == [0, 2, 1]
    with pytest.raises(ValueError, match="labels must be between 0 and 1, got 2"):
        check_classes("labels", [0, 2, 1], classes=2)
    with pytest.raises(ValueError, match="labels must be at least 0, got -1"):
        check_classes("labels", [0, -1])
    with pytest.raises(ValueError, match=r"labels .*0\.5"):
        check_classes("labels", [0, 0.5])


def test_tables_need_their_axes_and_finite_numbers() -> None:
    assert check_finite("values", [[1, 2]], axes=2).shape == (1, 2)
    with pytest.raises(ValueError, match=r"values .*\(2,\)"):
        check_finite("values", [1, 2], axes=2)
    with pytest.raises(ValueError, match="values has 2 missing or infinite numbers"):
        check_finite("values", [1, math.nan, -math.inf], axes=1)


@pytest.mark.parametrize("values", [None, 3, "ab", {}], ids=repr)
@pytest.mark.usefixtures("unchecked")
def test_what_is_no_list_is_named(values: list[int]) -> None:
    with pytest.raises(TypeError, match="votes must be a list, got"):
        check_list("votes", values)
