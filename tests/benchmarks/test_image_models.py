"""The benchmark of image classifiers: its architectures, and that it goes on where it was interrupted."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from benchmarks.experiments import image_models as script
from benchmarks.models.vision import ARCHITECTURES, enlarge

import fwshapley as fw
from fwshapley.networks.image_network import ImageNetwork
from models import images

NAMES = [name for name, architecture in ARCHITECTURES.items() if architecture.side is None]


def arguments(folder: Path, *options: str) -> argparse.Namespace:
    return script.parse(["--smoke", "--no-figure", "--out", str(folder), "--figures", str(folder), *options])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 32)])
def test_the_default_network_takes_every_architecture(name: str, channels: int, side: int) -> None:
    torch.manual_seed(0)
    model = ARCHITECTURES[name].make(channels, side, 10).eval()
    x = images(2, side, channels)
    assert model(x).shape == (2, 10)
    players = fw.grid(side, side, patch=4)
    surrogate = fw.explanation.Surrogate(model, players, torch.zeros(1, 1, 1, 1)).eval()
    network = ImageNetwork(surrogate, x[:1], players, 4)
    assert network(x).shape == (2, players.n_players, 4)
    takes_maps = name in {"VGG", "pooled CNN", "ResNet-18", "MobileNet", "ConvNeXt"}
    assert (network.taps is not None) == takes_maps


@pytest.mark.skipif(find_spec("efficientnet_lite_pytorch") is None, reason="its weights come in a package")
@pytest.mark.filterwarnings("ignore")  # of that package
@pytest.mark.slow
def test_a_pretrained_network_takes_large_images() -> None:
    model = ARCHITECTURES["EfficientNet-Lite0"].make(1, 224, 10).eval()
    x = enlarge(images(1, 28), 224)
    players = fw.grid(224, 224, patch=32)
    surrogate = fw.explanation.Surrogate(model, players, torch.zeros(1, 1, 1, 1)).eval()
    assert ImageNetwork(surrogate, x, players, 4)(x).shape == (1, 49, 4)


def test_a_part_that_is_kept_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = iter([{"seconds": 1.0}])  # once
    monkeypatch.setattr(script, "measure", lambda *_: next(measured))
    options = arguments(tmp_path)
    x = script.load(options)
    first, again = (script.measure_part("LeNet", 0, x, tmp_path, options) for _ in range(2))
    assert (first["was kept"], again["was kept"]) == (False, True)
    assert first["numbers"] == again["numbers"]
    assert set(first["numbers"]) == {"accuracy", "seconds"}
