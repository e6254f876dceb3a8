from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import fwshapley as fw
from fwshapley.valuation import cross_fit, flip_labels, measure_detection

BUDGET = fw.Budget(steps=24)


def some_digits(count: int = 120, classes: int = 3) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the first images of the first digits."""
    images, labels = load_digits(return_X_y=True)
    rows = np.flatnonzero(labels < classes)[:count]
    return images[rows].reshape(-1, 8, 8).astype(np.float32), labels[rows].astype(np.int64)


def fit(
    images: NDArray[np.float32],
    labels: NDArray[np.int64],
    *,
    folds: int | NDArray[np.int64] = 3,
    seed: int = 0,
    checkpoint: Path | None = None,
    resume: bool = False,
) -> fw.valuation.CrossFit:
    return cross_fit(
        images, labels, folds=folds, budget=BUDGET, seed=seed, device="cpu", checkpoint=checkpoint, resume=resume
    )


def test_features_are_log_probabilities_of_classes_and_folds_are_even_within_each() -> None:
    images, labels = some_digits()
    fitted = fit(images, labels)
    assert fitted.features.shape == (120, 3)
    assert torch.allclose(fitted.features.exp().sum(1), torch.ones(120), atol=2e-3)
    assert float(fitted.features.min()) >= -7
    sizes = np.array([np.bincount(labels[fitted.folds == fold], minlength=3) for fold in range(3)])
    assert (sizes.max(0) - sizes.min(0)).max() <= 1
    assert len(fitted.networks) == 3
    assert fitted.agreement == pytest.approx(float((fitted.features.argmax(1).numpy() == labels).mean()))


def test_the_same_seed_gives_the_same_bits_and_leaves_the_users_generator_alone() -> None:
    images, labels = some_digits(60)
    state = torch.random.get_rng_state()
    first, again, other = fit(images, labels), fit(images, labels), fit(images, labels, seed=1)
    assert torch.equal(state, torch.random.get_rng_state())
    assert torch.equal(first.features, again.features)
    assert not torch.equal(first.folds, other.folds)


def test_checkpoints_that_cannot_be_written_are_noticed_before_training(tmp_path: Path) -> None:
    images, labels = some_digits(60)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match=r"file is a file.*checkpoint"):
        fit(images, labels, checkpoint=tmp_path / "file")


def test_the_label_of_an_image_has_no_say_in_the_features_of_its_fold() -> None:
    images, labels = some_digits(60)
    folds = np.arange(60) % 2
    changed = labels.copy()
    changed[0] = (labels[0] + 1) % 3
    before, after = (fit(images, each, folds=folds).features for each in (labels, changed))
    assert torch.equal(before[::2], after[::2])
    assert not torch.equal(before[1::2], after[1::2])


def test_units_of_the_images_do_not_matter() -> None:
    images, labels = some_digits(60)
    fitted, scaled = fit(images, labels), fit(images * 16, labels)
    assert torch.allclose(fitted.features, scaled.features, atol=1e-2)


def test_images_that_no_network_has_seen_get_the_mean_of_all() -> None:
    images, labels = some_digits(60)
    fitted = fit(images, labels)
    with torch.no_grad():
        each = [network(torch.from_numpy(images[:5, None])).log_softmax(1) for network in fitted.networks]
    assert torch.allclose(fitted.embed(images[:5]), torch.stack(each).clamp(min=-7).mean(0))


def test_wrong_labels_are_found() -> None:
    images, truth = some_digits(240, classes=4)
    labels, wrong = flip_labels(truth, seed=0)
    fitted = cross_fit(images, labels, folds=2, budget=fw.Budget(steps=100), device="cpu")
    values = fw.value_neighbors(fitted.features, labels).values
    assert measure_detection(values, wrong).auroc > 0.95


def test_training_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    images, labels = some_digits(60)
    whole = fit(images, labels, checkpoint=tmp_path)
    (tmp_path / "fold_3.safetensors").unlink()
    assert torch.equal(fit(images, labels, checkpoint=tmp_path, resume=True).features, whole.features)
    labels[:2] = labels[1::-1]
    with pytest.raises(ValueError, match="checkpoint of another run: points differ"):
        fit(images, labels, checkpoint=tmp_path, resume=True)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"images": np.zeros((6, 4))}, r"images must be \(n, channels, height, width\)"),
        ({"images": np.full((6, 4, 4), np.nan)}, "^images must .*image 0"),
        ({"labels": [0, 0, 0, 0, 0, 0]}, "^labels must .*one class"),
        ({"labels": [0, 1]}, "labels must be one label per point, 6 of them"),
        ({"labels": ["a", "a", "a", "a", "a", "b"]}, "^folds must be at most 1.*class b.*2"),
        ({"folds": 1}, "folds must be at least 2, got 1"),
        ({"folds": [0, 0, 0, 1, 1, 1]}, "^folds must .*class 0"),
        ({"folds": [0, 1]}, "folds must be one label per point"),
        ({"budget": 3}, r"budget must be a Budget"),
    ],
)
def test_what_cannot_be_fitted_is_explained(change: dict[str, object], complaint: str) -> None:
    arguments = {"images": np.random.default_rng(0).random((6, 4, 4)), "labels": [0, 0, 0, 1, 1, 1], "folds": 2}
    with pytest.raises((TypeError, ValueError), match=complaint):
        cross_fit(**{**arguments, **change})  # type: ignore[arg-type] # some are wrong on purpose
