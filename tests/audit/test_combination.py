from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from fwshapley.audit.combination import calibrate, learn_combination
from fwshapley.audit.injection import inject_errors


def test_a_combination_learns_which_evidence_tells_errors_and_how_many_there_are() -> None:
    generator = np.random.default_rng(0)
    n, noise = 6000, 0.1
    was_wrong, is_injected = generator.random(n) < noise, generator.random(n) < 0.08
    wrong = was_wrong | is_injected
    evidence = np.stack([3.0 * wrong, 1.0 * wrong, 0.0 * wrong], axis=1) + generator.normal(size=(n, 3))
    combination = learn_combination(evidence, is_injected)
    strong, weak, useless = combination.weights
    assert strong > 2 * weak > 4 * useless >= 0
    found = expit(combination.log_odds(evidence))
    assert found.mean() == pytest.approx(wrong.mean(), abs=0.03)  # although no error but the injected is known
    assert found[wrong].mean() > 0.7
    assert found[~wrong].mean() < 0.1


def test_where_there_is_nothing_to_learn_evidence_has_equal_weights() -> None:
    generator = np.random.default_rng(0)
    combination = learn_combination(generator.normal(size=(60, 4)), generator.random(60) < 0.2)
    assert np.ptp(combination.weights) < 0.5


def test_calibration_finds_the_share_of_wrong_labels() -> None:
    generator = np.random.default_rng(1)
    n, before, now = 40_000, 0.3, 0.1
    wrong = generator.random(n) < now
    shift = 3.0  # two normal distributions, of which the log likelihood ratio is known
    evidence = generator.normal(size=n) + shift * wrong
    log_odds = shift * evidence - shift**2 / 2 + np.log(before / (1 - before))
    calibrated = expit(calibrate(log_odds, before))
    assert calibrated.mean() == pytest.approx(now, abs=0.01)
    likely = calibrated > 0.8
    assert wrong[likely].mean() == pytest.approx(calibrated[likely].mean(), abs=0.03)


@pytest.mark.parametrize("classes", [2, 5])
def test_injected_errors_are_new_labels_that_models_do_not_predict(classes: int) -> None:
    generator = np.random.default_rng(2)
    labels = generator.integers(0, classes, 400)
    probabilities = generator.dirichlet(np.ones(classes), 400)
    noisy, is_injected = inject_errors(labels, probabilities, generator)
    assert (noisy != labels).sum() == is_injected.sum() == 32
    assert ((noisy != labels) == is_injected).all()
    assert (noisy[is_injected] != probabilities.argmax(1)[is_injected]).all()


def test_injected_errors_go_to_probable_classes() -> None:
    probabilities = np.tile([0.7, 0.25, 0.03, 0.02], (4000, 1))
    noisy, is_injected = inject_errors(np.zeros(4000, dtype=np.int64), probabilities, np.random.default_rng(3))
    counts = np.bincount(noisy[is_injected], minlength=4)
    assert counts[1] / counts.sum() == pytest.approx(0.9 * 0.25 / 0.3 + 0.1 / 3, abs=0.1)
    assert counts[2:].min() > 0
