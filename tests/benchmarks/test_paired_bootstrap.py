"""How the inclusion benchmark keeps curves, compares methods and joins pieces."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from benchmarks.harness.inclusion_joining import read_rows
from benchmarks.harness.statistics import Bootstrap, areas_of, describe, pack, read_row, unpack

CURVES = torch.tensor([[0.0, 1, 1, 1, 1], [0, 0, 0, 0, 1], [1, 0, 1, 0, 1]])


def test_curves_are_kept_as_numbers() -> None:
    kept = pack(CURVES)
    assert kept == [0b11110, 0b10000, 0b10101]
    assert (unpack(kept, 5) == CURVES.numpy()).all()


def test_areas_are_mean_heights() -> None:
    found = areas_of(CURVES.numpy())
    assert found[""].tolist() == [0.875, 0.125, 0.5]
    assert found[", first quarter"].tolist() == [0.5, 0, 0.5]


def test_an_interval_is_as_wide_as_theory_says() -> None:
    areas = np.random.default_rng(1).normal(0.5, 0.1, 400)
    mean, low, high = Bootstrap(400).mean(areas[None])
    assert mean == pytest.approx(areas.mean(), abs=1e-5)
    assert high - low == pytest.approx(2 * 1.96 * areas.std() / 20, rel=0.1)


def test_a_paired_difference_does_not_know_what_images_share() -> None:
    areas = np.random.default_rng(1).uniform(0.2, 0.8, 100)
    found = Bootstrap(100).compare(areas[None] + 0.1, areas[None])
    assert found["difference"] == pytest.approx([0.1, 0.1, 0.1])
    assert found["relative"][1] < 0.1 / areas.mean() < found["relative"][2]


def test_an_interval_knows_that_another_training_would_differ() -> None:
    areas = np.random.default_rng(1).uniform(0.2, 0.8, 100)
    seeds = areas + np.array([[-0.1], [0.0], [0.1]])
    _, low, high = Bootstrap(100).compare(seeds, areas[None])["difference"]
    assert low == pytest.approx(-0.1)  # the worst seed, drawn three times
    assert high == pytest.approx(0.1)


def test_skill_is_measured_on_the_images_that_have_a_reference() -> None:
    best, random, ours = (read_row([{"inclusion": kept}], 5) for kept in ([0b11111], [0b10000] * 2, [0b11100, 0]))
    found = describe(ours, over={"base": random, "shorter": None}, random=random, best=best)
    assert found["images of skill"] == 1
    assert found["skill"]["inclusion"] == pytest.approx((0.625 - 0.125) / (1 - 0.125), abs=1e-4)
    assert found["over base"]["inclusion"]["difference"][0] == pytest.approx((0.625 + 0) / 2 - 0.125)


def test_pieces_of_a_long_run_are_joined_until_one_is_missing() -> None:
    pieces = [
        {
            "method": f"KernelSHAP from {first}",
            "seed": 0,
            "points": 5,
            "first": first,
            "kept": {"Shapley": {"a": [7, 7]}},
        }
        for first in (4, 0, 2, 8)
    ]
    assert read_rows(pieces)["KernelSHAP", "Shapley"].images == 6


def test_seeds_are_averaged_image_by_image() -> None:
    pieces = [
        {"method": "FastSHAP", "seed": seed, "points": 5, "kept": {"Shapley": {"a": [numbers]}}}
        for seed, numbers in ((0, 0b11111), (1, 0b10000))
    ]
    row = read_rows(pieces)["FastSHAP", "Shapley"]
    assert row.areas["a"].tolist() == [[1], [0.125]]
    assert row.curves["a"].tolist() == [[0.5, 0.5, 0.5, 0.5, 1]]
