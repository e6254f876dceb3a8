from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fwshapley.plots import Inclusion, animate_inclusion, plot_inclusion

ASSIGNMENT = np.arange(9).reshape(3, 3)
SHOWN = np.array([0.1, 0.1, 0.2, 0.8, 0.9, 0.9, 0.95, 0.9, 0.85, 0.9])
ONE = Inclusion(np.arange(9)[::-1], np.arange(10), SHOWN, SHOWN[::-1], SHOWN / 2)
OTHER = replace(ONE, order=np.arange(9), shown=np.linspace(0, 1, 10))


def test_enough_is_the_first_size_with_nine_tenths_of_the_gain() -> None:
    assert ONE.enough == 4  # 0.1 + 0.9 * 0.8 = 0.82
    assert replace(ONE, shown=SHOWN[::-1]).enough is None
    assert replace(ONE, shown=np.full(10, 0.5)).enough is None


def test_a_strip_shows_the_first_players_and_curves_the_outputs() -> None:
    image = np.zeros((3, 3))
    figure = plot_inclusion(
        image, ASSIGNMENT, [ONE, OTHER], ["a", "b"], output="probability of cat", heading="cat.png", is_share=True
    )
    frames, (shown, hidden) = figure.axes[:-2], figure.axes[-2:]
    first = [frame for frame in frames[: len(frames) // 2] if frame.images]
    sizes = [int(frame.get_xlabel().split()[0]) for frame in first]
    assert sizes[0] == 0
    assert sizes[-1] == 9
    assert 4 in sizes
    for frame, size in zip(first, sizes, strict=True):
        visible = np.asarray(frame.images[0].get_array()).max(2) == 0
        assert set(ASSIGNMENT[visible]) == set(range(9 - size, 9))
        text = frame.get_xlabel().split("\n")[1]
        assert float(text.removesuffix(" %")) == pytest.approx(100 * SHOWN[size])
    assert [frame.get_xlabel().split()[0] for frame in first if frame.spines["left"].get_visible()] == ["4"]
    assert shown.get_ylabel() == "probability of cat"
    assert figure.get_suptitle() == "cat.png"
    lines = {str(line.get_label()): np.asarray(line.get_ydata()) for line in shown.lines}
    np.testing.assert_array_equal(lines["a"], SHOWN)
    np.testing.assert_array_equal(lines["b"], OTHER.shown)
    np.testing.assert_array_equal(lines["random orders, mean"], SHOWN / 2)
    np.testing.assert_array_equal(lines["90 % of the gain"], [0.9, 1])
    np.testing.assert_array_equal(np.asarray(hidden.lines[0].get_ydata()), SHOWN[::-1])


@pytest.mark.parametrize("count", [2, 3, 8, 30])
def test_so_many_frames_are_in_a_row(count: int) -> None:
    rows = plot_inclusion(np.zeros((3, 3)), ASSIGNMENT, [ONE], ["a"], n_shown=count).axes[:-2]
    assert len(rows) == min(max(count, 3), 10)  # none, the one that is enough, and all are always shown
    assert rows[1].get_xlabel() != "0 of 9\n0.1"


def test_an_animation_has_a_frame_for_each_size_and_waits_at_the_end(tmp_path: Path) -> None:
    path = animate_inclusion(np.zeros((3, 3)), ASSIGNMENT, ONE, tmp_path / "a.gif", is_share=True)
    with Image.open(path) as film:
        durations = []
        for frame in range(film.n_frames):  # type: ignore[attr-defined]  # of animated images
            film.seek(frame)
            durations.append(film.info["duration"])
    assert len(durations) == 10
    assert durations[-1] > 10 * durations[0]
