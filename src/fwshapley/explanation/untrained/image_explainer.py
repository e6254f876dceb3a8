"""Semivalues of a vision model without training, image by image, so that each image may have players of its own.

The value of a coalition is the model's prediction from the image with all other pixels replaced. A surrogate is not
trained, so predictions are from images that the model may never have seen the like of: see docs/guide/images.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fwshapley._internal.checks import (
    Array,
    check_callable,
    check_choice,
    check_names,
    check_seed,
    check_whole,
)
from fwshapley._internal.progress import ProgressBar
from fwshapley._internal.tensor_checks import choose_device
from fwshapley._internal.version import __version__
from fwshapley.estimators import least_squares_values
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.default_outputs import default_outputs
from fwshapley.explanation.inputs.image_layout import WITH_CHANNELS
from fwshapley.explanation.inputs.input_checks import Outputs, check_inputs, choose_outputs, freeze_model
from fwshapley.explanation.inputs.input_reading import Transform, read_inputs
from fwshapley.explanation.inputs.predictions import raw_outputs
from fwshapley.explanation.learned.removal import RemovalName, check_removal, encode_removal, make_fill
from fwshapley.explanation.learned.sampled_values import default_calls, fewest_calls
from fwshapley.explanation.learned.surrogate import Surrogate
from fwshapley.games.masked_model import ManyPredictionsGame, MaskedModel
from fwshapley.games.scales import KINDS, Output
from fwshapley.players import Players
from fwshapley.semivalues import Semivalue, Total, check_weights, join_laws
from fwshapley.superpixels import FindPlayers, check_image_players, find_players
from fwshapley.training.batches import derive_seed

CHECKED_IMAGES = 8
"""Images that the model's outputs are checked on."""


class ImageExplainer:
    """Semivalues of a vision model from sampled coalitions of each image's players, with standard errors; not trained.

    For a few images, or for players that differ from image to image such as superpixels. An image takes `n_calls`
    predictions. `FeatureExplainer` takes one pass of a network instead, once it is trained, and trains a surrogate that
    recognizes hidden pixels; its players are the same for all images.

    Args:
        model: as for `FeatureExplainer`.
        players: of all images, made by `grid` or `segments`; or a function from an image (channels, height, width) to
            its players, such as `Superpixels(50)`.
        removal: what replaces hidden pixels: "mean", the mean color of the image; "zero", a baseline (one image), or
            background data (several images, over which predictions are averaged).
        output: scale of the values, as for `FeatureExplainer`.
        n_calls: coalitions to evaluate for each image; 2**players or more give exact values. "auto" is 8 * players, but
            at least 256.
        output_names: one per output of the model; by default the classes of an estimator.
        transform: of pictures, as for `FeatureExplainer`.
        device: "auto" is a GPU if there is one.
        seed: of the coalitions.
        progress: show progress if it takes long.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 2))
        >>> explainer = fw.ImageExplainer(model, fw.grid(8, 8, patch=2), n_calls=200)
        >>> attributions = explainer.explain(torch.rand(2, 3, 8, 8), weights=[fw.Shapley(), fw.Banzhaf()])
        >>> len(attributions), attributions[0].values.shape  # weightings, image, players, outputs
        (2, torch.Size([2, 1, 16, 1]))
    """

    def __init__(
        self,
        model: nn.Module | Any,  # noqa: ANN401 - a function or an estimator
        players: Players | FindPlayers,
        *,
        removal: RemovalName | Array = "mean",
        output: Output | Literal["auto"] = "auto",
        n_calls: int | Literal["auto"] = "auto",
        output_names: Sequence[str] | None = None,
        transform: Transform | None = None,
        device: str | torch.device = "auto",
        seed: int = 0,
        progress: bool = True,
    ) -> None:
        check_image_players(players)
        check_removal(removal)
        check_choice("output", output, ("auto", *get_args(Output)))
        if transform is not None:
            check_callable("transform", transform)
        self.model = model
        self.players = players
        self.removal = "mean" if isinstance(removal, str) and removal == "auto" else removal
        self.output = output
        self.n_calls = n_calls if n_calls == "auto" else check_whole("n_calls", n_calls)
        self.output_names = None if output_names is None else check_names("output_names", output_names)
        self.transform = transform
        self.device = choose_device(device)
        self.seed = check_seed(seed)
        self.progress = progress

    def __repr__(self) -> str:
        return f"ImageExplainer({type(self.model).__name__}, {self.players!r}, n_calls={self.n_calls!r})"

    def explain(
        self,
        x: Array,
        *,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        outputs: Outputs = "auto",
        total: Total = "raw",
    ) -> list[Attribution]:
        """Return an attribution of each image, with values of its own players and their standard errors.

        Args:
            x: images in any form that `FeatureExplainer.fit` takes, or one image.
            weights: a semivalue or a list of them, which share the coalitions; by default Shapley.
            outputs: as for `FeatureExplainer.explain`.
            total: "raw" for the semivalue itself; "efficient" shifts it to sum to the prediction less the base value.
        """
        check_choice("total", total, get_args(Total))
        weightings = check_weights(weights)
        fixed = self.players if isinstance(self.players, Players) else None
        read = read_inputs(
            x,
            "x",
            players=fixed,
            of_images=True,
            forms=WITH_CHANNELS,
            transform=self.transform,
            progress=self.progress,
        )
        images = check_inputs(read.x, "x")
        some = images[:CHECKED_IMAGES].to(self.device)
        model, output, names = freeze_model(self.model, some, self.output, self.output_names, None, layout=read.layout)
        if isinstance(outputs, str) and outputs == "auto":
            outputs = default_outputs(len(names), are_classes=KINDS[output] == "classes")
        chosen = choose_outputs(outputs, len(images), names, output)
        attributions = []
        with ProgressBar("sampling coalitions of images", len(images), enabled=self.progress) as bar:
            for number, image in enumerate(images.to(self.device).split(1)):
                numbers = raw_outputs(model, image).argmax(1)[None] if chosen is None else chosen[number, None]
                game = self._make_game(image, model, output, numbers.to(self.device))
                seed = derive_seed(self.seed, "image", number)
                attributions.append(self._explain_game(game, weightings, total, names, seed=seed))
                bar.advance(1)
        is_list = isinstance(weights, list | tuple)
        return attributions if is_list else [attribution.unstacked() for attribution in attributions]

    def _make_game(
        self, image: Float[Tensor, "1 channels height width"], model: nn.Module, output: Output, outputs: Tensor
    ) -> ManyPredictionsGame:
        """Return the game of an image, whose surrogate is the model with other pixels filled."""
        players = find_players(self.players, image.cpu())
        removal = encode_removal(self.removal, None, image.dtype)
        is_mean = isinstance(removal, str) and removal == "mean"
        fill = image.mean((2, 3), keepdim=True) if is_mean else make_fill(removal, image)
        surrogate = Surrogate(model, players, fill, kind=KINDS[output]).to(self.device).eval()
        return ManyPredictionsGame(MaskedModel(surrogate, output, players.n_players, self.device), image, outputs)

    def _explain_game(
        self,
        game: ManyPredictionsGame,
        weightings: list[Semivalue],
        total: Total,
        names: tuple[str, ...],
        *,
        seed: int,
    ) -> Attribution:
        """Return an attribution of one image, with an axis for weightings."""
        surrogate, n = game.masked.surrogate, game.n_players
        assert isinstance(surrogate, Surrogate)  # noqa: S101 - made above
        join_laws(weightings, n)  # refuses weights for another number of players
        n_calls = min(default_calls(n) if self.n_calls == "auto" else self.n_calls, 2**n)
        if n_calls < min(fewest_calls(n), 2**n):
            raise ValueError(f"n_calls must be at least {fewest_calls(n)} for {n} players, got {n_calls}")
        estimate = least_squares_values(
            game, weightings, n_calls=n_calls, total=total, shared=True, seed=seed, progress=False
        )
        empty = torch.zeros(1, n, dtype=torch.bool, device=game.device)
        return Attribution(
            values=estimate.values[:, None].float(),
            stderr=estimate.stderr[:, None].float(),
            base_values=game(empty).float(),
            outputs=game.outputs,
            inputs=game.x,
            weights=weightings,
            total=total,
            players=surrogate.players,
            output_names=names,
            provenance={
                "method": "enumeration" if n_calls == 2**n else "sampling",
                "game": "the model with hidden pixels replaced",
                **({} if n_calls == 2**n else {"calls_per_input": estimate.n_calls}),
                "output": game.masked.output,
                "version": __version__,
            },
        )
