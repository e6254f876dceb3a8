from __future__ import annotations

import numpy as np
import torch

import fwshapley as fw
from fwshapley.audit.fold_networks import NetworkTraining, cross_fit_networks
from fwshapley.valuation.folds import draw_folds
from fwshapley.valuation.training_margins import margins_of

TRAINING = NetworkTraining(
    fw.Budget(steps=40), 0, torch.device("cpu"), None, resume=False, progress=False, description="x"
)


def test_what_held_out_networks_say_of_a_point_does_not_depend_on_its_label() -> None:
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 20)
    x = (generator.normal(size=(60, 4)) + labels[:, None]).astype(np.float32)
    folds = draw_folds(labels, 3, seed=0)
    other = labels.copy()
    rows = np.flatnonzero(folds.numpy() == 1)
    other[rows] = (labels[rows] + 1) % 3
    first, second = (cross_fit_networks(x, some, 3, folds, TRAINING) for some in (labels, other))
    for one, two in zip(first, second, strict=True):
        assert np.allclose(one.held_out[rows], two.held_out[rows], atol=1e-6)
        assert not np.allclose(one.trained[rows], two.trained[rows], atol=1e-3)


def test_margins_while_training_are_lower_for_wrong_labels() -> None:
    generator = np.random.default_rng(0)
    true = np.repeat([0, 1], 100)
    x = (generator.normal(size=(200, 4)) + 3 * true[:, None]).astype(np.float32)
    given = true.copy()
    given[:10] = 1
    perceptron, linear = cross_fit_networks(x, given, 2, draw_folds(given, 4, seed=0), TRAINING)
    assert perceptron.margins is not None
    assert linear.margins is None
    assert np.median(perceptron.margins[:10]) < np.quantile(perceptron.margins[10:], 0.1)


def test_a_margin_is_the_logit_of_the_label_minus_the_largest_other() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0], [5.0, 0.0, 1.0]])
    assert margins_of(logits, torch.tensor([1, 2])).tolist() == [1.0, -4.0]
