import math
from typing import SupportsFloat, SupportsIndex

import numpy as np
import pytest
import torch

from fwshapley.checks import check_choice, check_real, check_whole


@pytest.mark.parametrize("value", [3, np.int64(3), torch.tensor(3)], ids=lambda value: type(value).__name__)
def test_whole_numbers_of_any_library_become_int(value: SupportsIndex) -> None:
    whole = check_whole("players", value)
    assert (whole, type(whole)) == (3, int)


@pytest.mark.parametrize(
    "value", [2, 2.0, np.float32(2), torch.tensor(2.0), "2"], ids=lambda value: type(value).__name__
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


@pytest.mark.parametrize("value", ["many", None, [1.0, 2.0]])
@pytest.mark.usefixtures("unchecked")
def test_what_is_not_a_number_is_named(value: SupportsFloat) -> None:
    with pytest.raises(TypeError, match="alpha must be a number, got"):
        check_real("alpha", value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_named(value: float) -> None:
    with pytest.raises(ValueError, match="alpha must be finite"):
        check_real("alpha", value)


def test_unknown_choices_are_named_with_the_known_ones() -> None:
    check_choice("total", "raw", ("raw", "efficient"))
    with pytest.raises(ValueError, match="total must be one of 'raw', 'efficient'; got 'rwa'"):
        check_choice("total", "rwa", ("raw", "efficient"))
