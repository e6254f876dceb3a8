from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fwshapley as fw
from fwshapley.plots import overlays
from fwshapley.plots.overlays import (
    DARKEST,
    LIGHTEST,
    LUMA,
    Sign,
    choose_sign,
    colors_of,
    enlarge,
    gray_of,
    heat_of,
    hide_pixels,
    masked,
    scale_pixels,
    spread_values,
)

SHARES = np.linspace(-1, 1, 21)

DICHROMATS = {
    "protanopia": [[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]],
    "deuteranopia": [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]],
}
"""What people who lack a kind of cone see of linear RGB (Viénot, Brettel and Mollon, 1999)."""


def seen_by(kind: str, colors: np.ndarray) -> np.ndarray:
    """Return colors as dichromats see them."""
    linear = np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.transpose(DICHROMATS[kind]), 0, 1)
    return np.where(seen <= 0.0031308, seen * 12.92, 1.055 * seen ** (1 / 2.4) - 0.055)


@given(arrays(float, (3, 4), elements=st.floats(-5, 5)), st.integers(1, 3))
def test_smooth_values_go_through_the_centers_of_patches_and_never_beyond_their_neighbors(
    values: np.ndarray, times: int
) -> None:
    players = fw.grid(9, 12, patch=3)
    smooth = spread_values(values.ravel(), players.assignment, grid=players.grid, times=2 * times + 1)
    patch = 3 * (2 * times + 1)
    np.testing.assert_allclose(smooth[patch // 2 :: patch, patch // 2 :: patch], values, atol=1e-9)
    assert np.all(smooth[: patch // 2, : patch // 2] == pytest.approx(values[0, 0]))
    for row in range(2):
        for column in range(3):
            around = values[row : row + 2, column : column + 2]
            down, right = (
                slice(patch // 2 + place * patch, patch // 2 + (place + 1) * patch) for place in (row, column)
            )
            assert smooth[down, right].min() >= around.min() - 1e-9
            assert smooth[down, right].max() <= around.max() + 1e-9


def test_values_that_hardly_differ_are_smooth_without_a_warning() -> None:
    tiny = np.array([[0.0, 5e-324, 1e-310], [0.0, 1.0, 1e-300], [1e-308, 0.0, 0.0]])
    players = fw.grid(9, 9, patch=3)
    assert np.isfinite(spread_values(tiny.ravel(), players.assignment, grid=players.grid, times=3)).all()


def test_patches_may_be_of_different_sizes() -> None:
    assignment = np.array([[0, 0, 0, 1, 2, 2, 2]])
    smooth = spread_values(np.array([1.0, 5.0, -1.0]), assignment, grid=(1, 3))
    assert smooth[0, [1, 3, 5]].tolist() == [1, 5, -1]


def test_other_players_keep_their_edges() -> None:
    assignment = np.array([[0, 0, 1], [2, 1, 1]])
    values = np.array([[3.0, -1.0, 2.0]])
    np.testing.assert_array_equal(spread_values(values, assignment), [[[3, 3, -1], [2, -1, -1]]])
    large = spread_values(values, assignment, times=3)
    np.testing.assert_array_equal(large, enlarge(values[:, assignment], 3))
    assert large.shape == (1, 6, 9)


@given(st.floats(-1, 1), st.floats(0, 1), st.sampled_from(["all", "absolute"]))
def test_colors_have_the_luma_of_the_image_whatever_the_value(share: float, gray: float, sign: Sign) -> None:
    color = colors_of(np.array([share]), gray, sign)[0]
    assert color @ LUMA == pytest.approx(DARKEST + (LIGHTEST - DARKEST) * gray)
    assert color.min() >= -1e-12
    assert color.max() <= 1 + 1e-12
    if not share:
        assert color == pytest.approx(color[0])


@pytest.mark.parametrize("kind", DICHROMATS)
@pytest.mark.parametrize("gray", [0.0, 0.5, 1.0])
def test_color_blind_people_can_tell_the_signs_apart(kind: str, gray: float) -> None:
    seen = seen_by(kind, colors_of(SHARES, gray, "all"))
    gray_seen = seen[len(SHARES) // 2]
    from_gray = np.linalg.norm(seen - gray_seen, axis=1)
    assert np.linalg.norm(seen[0] - seen[-1]) > 0.35
    assert np.all(np.diff(from_gray[: len(SHARES) // 2 + 1]) < 0)
    assert np.all(np.diff(from_gray[len(SHARES) // 2 :]) > 0)
    blue = (seen - gray_seen)[:, 2]
    assert np.all(np.sign(blue) == -np.sign(SHARES.round(9)))


def test_a_heat_map_is_white_and_a_masked_image_empty_where_values_are_zero() -> None:
    image = np.random.default_rng(0).random((3, 1, 3))
    np.testing.assert_array_equal(heat_of(np.zeros(3), "all"), np.ones((3, 3)))
    drawn = masked(image, np.array([[0.0, 1.0, 0.5]]))
    np.testing.assert_allclose(drawn[0, 0], 1)
    np.testing.assert_allclose(drawn[0, 1], image[:, 0, 1])
    np.testing.assert_allclose(drawn[0, 2], (1 + image[:, 0, 2]) / 2)
    assert masked(image[:1], np.ones((1, 3))).shape == (1, 3, 3)


@pytest.mark.parametrize(
    ("sign", "expected"),
    [("all", [-2, 0, 3]), ("positive", [0, 0, 3]), ("negative", [-2, 0, 0]), ("absolute", [2, 0, 3])],
)
def test_signs(sign: Sign, expected: list[float]) -> None:
    np.testing.assert_array_equal(choose_sign(np.array([-2.0, 0.0, 3.0]), sign), expected)


def test_images_are_drawn_as_they_are_if_they_are_pixels_and_stretched_if_not() -> None:
    pixels = np.array([[[0.2, 0.6]]])
    np.testing.assert_array_equal(scale_pixels(pixels), pixels)
    np.testing.assert_allclose(scale_pixels(np.array([[[51, 255]]], dtype=np.uint8)), [[[0.2, 1]]])
    np.testing.assert_allclose(scale_pixels(np.array([[[-1.0, 0.0, 3.0]]])), [[[0, 0.25, 1]]])
    np.testing.assert_array_equal(scale_pixels(np.full((1, 2, 2), -7.0)), np.zeros((1, 2, 2)))


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_grays_are_lumas_of_colors_and_means_of_other_channels(channels: int) -> None:
    image = np.random.default_rng(0).random((channels, 2, 2))
    weights = LUMA if channels == 3 else np.full(channels, 1 / channels)
    np.testing.assert_allclose(gray_of(image), np.einsum("c,chw->hw", weights, image))


@pytest.mark.parametrize("shape", [(2, 2), (2, 2, 3)])
def test_hidden_pixels_have_a_color_of_their_own(shape: tuple[int, ...]) -> None:
    image = np.full(shape, 0.25)
    drawn = hide_pixels(image, np.array([[True, False], [False, False]]))
    np.testing.assert_array_equal(drawn[0, 0], 0.25)
    assert len(np.unique(drawn[1])) == 3  # not a gray


def test_examples_of_overlays_run() -> None:
    tests = [test for test in doctest.DocTestFinder().find(overlays, globs={"fw": fw, "np": np}) if test.examples]
    assert len(tests) == 1
    assert not doctest.DocTestRunner().run(tests[0]).failed
