"""Sampled values of many inputs: least squares on coalitions that the inputs share, each with an order of its own.

The game of an input is that of the surrogate. All inputs of a call take part in one run of `least_squares_values`,
which solves its equations once for all of them. The players of each input are in a random order of its own, so that
inputs have different coalitions, and errors that are nearly independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from fwshapley._internal.checks import Array, check_whole
from fwshapley._internal.progress import ProgressBar
from fwshapley.coalitions import make_generator
from fwshapley.estimators import least_squares_values
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.inputs.input_checks import Outputs
from fwshapley.games.game import Coalitions
from fwshapley.games.masked_model import MaskedModel
from fwshapley.semivalues import Semivalue, Total

if TYPE_CHECKING:
    from fwshapley.explanation.learned.feature_explainer import FeatureExplainer

CALLS_PER_PLAYER = 8
MIN_CALLS = 256
"""Coalitions by default. Errors were then about as large as those of 100 background rows instead of all."""

VALUES_AT_ONCE = 2**24
"""Numbers that the estimation holds at once."""

REPLICATES = 64
"""Estimates that standard errors are computed from, each of which has values of all players."""

EVALUATIONS_AT_ONCE = 2**12
"""Coalitions of inputs in a call of the surrogate, which splits them further if inputs are large."""


class SampledValues(NamedTuple):
    """Values with their standard errors."""

    values: Float64[Tensor, "weights inputs players outputs"]
    stderr: Float64[Tensor, "weights inputs players outputs"]


def sample_inputs(
    explainer: FeatureExplainer,
    x: Array,
    *,
    n_calls: int | Literal["auto"] = "auto",
    weights: Semivalue | Sequence[Semivalue] | None = None,
    outputs: Outputs = "auto",
    total: Total = "raw",
    seed: int | torch.Generator = 0,
    progress: bool = True,
) -> Attribution:
    """Estimate values from sampled coalitions alone; arguments as in `FeatureExplainer.sample`."""
    fitted = explainer.fitted_
    masked = fitted.masked_model
    weightings = fitted.check_weights(weights)
    generator = make_generator(seed, masked.device)
    explained = fitted.explain(x, None, outputs, "auto", "auto")
    inputs, numbers = explained.inputs.to(masked.device), explained.outputs.to(masked.device)
    n_calls = check_calls(n_calls, int(masked.counts(inputs).max()))
    values, stderr = sample_values(
        masked, inputs, numbers, weightings, n_calls=n_calls, generator=generator, total=total, progress=progress
    )
    sampled = replace(
        explained,
        values=values[..., : explained.players.n_players, :].float(),
        stderr=stderr[..., : explained.players.n_players, :].float(),
        weights=weightings,
        total=total,
        provenance={
            **explained.provenance,
            "method": "sampling",
            "calls_per_input": n_calls,
            "relative_error": None,
        },
    )
    return sampled if isinstance(weights, list | tuple) else sampled.unstacked()


def sample_values(
    masked: MaskedModel,
    x: Float[Tensor, "inputs ..."],
    outputs: Int[Tensor, "inputs outputs"],
    weightings: Sequence[Semivalue],
    *,
    n_calls: int,
    generator: torch.Generator,
    total: Total = "raw",
    progress: bool = False,
) -> SampledValues:
    """Estimate the values of some outputs of each input, under several weightings from the same coalitions.

    Args:
        masked: the game.
        x: the inputs, on its device.
        outputs: numbers of the outputs, for each input.
        weightings: the semivalues.
        n_calls: coalitions of each input; from 2**players on, values are exact.
        generator: of the coalitions.
        total: "raw" or "efficient".
        progress: show progress if it takes long.
    """
    values = torch.zeros(
        len(weightings), len(x), masked.n_players, outputs.shape[1], dtype=torch.float64, device=x.device
    )
    sampled = SampledValues(values, values.clone())
    with ProgressBar("sampling coalitions", n_calls * len(x), unit="surrogate calls", enabled=progress) as bar:
        for rows, game in masked.by_count(x):  # inputs of the same number of players share coalitions
            own = min(n_calls, 2**game.n_players)
            options: dict[str, Any] = {"n_calls": own, "generator": generator, "total": total, "bar": bar}
            parts = _sample_together(game, x[rows], outputs[rows], weightings, **options)
            for whole, part in zip(sampled, parts, strict=True):
                whole[:, rows, : game.n_players] = part
    return sampled


def _sample_together(
    masked: MaskedModel,
    x: Float[Tensor, "inputs ..."],
    outputs: Int[Tensor, "inputs outputs"],
    weightings: Sequence[Semivalue],
    *,
    n_calls: int,
    generator: torch.Generator,
    total: Total,
    bar: ProgressBar,
) -> SampledValues:
    """Estimate the values of inputs that have the same number of players."""
    per_input = (n_calls + REPLICATES * masked.n_players) * outputs.shape[1]
    at_once = max(1, VALUES_AT_ONCE // per_input)
    parts = []
    for some, numbers in zip(x.split(at_once), outputs.split(at_once), strict=True):
        game = _ShuffledGames.draw(masked, some, numbers, generator)
        estimate = least_squares_values(
            game,
            list(weightings),
            n_calls=n_calls,
            total=total,
            shared=True,
            seed=generator,
            batch_size=max(1, EVALUATIONS_AT_ONCE // len(some)),
            progress=False,
        )
        parts.append([game.by_input(estimate.values), game.by_input(estimate.stderr)])
        bar.advance(n_calls * len(some))
    return SampledValues(*(torch.cat(arrays, 1) for arrays in zip(*parts, strict=True)))


class _ShuffledGames(NamedTuple):
    """The games of several inputs as one game with an output for each, whose players have an order for each input."""

    masked: MaskedModel
    x: Float[Tensor, "inputs ..."]
    outputs: Int[Tensor, "inputs outputs"]
    order: Int[Tensor, "inputs players"]
    """Player i of an input is player order[input, i] of the joint game."""

    @classmethod
    def draw(cls, masked: MaskedModel, x: Tensor, outputs: Tensor, generator: torch.Generator) -> _ShuffledGames:
        """Draw the orders."""
        keys = torch.rand(len(x), masked.n_players, generator=generator, device=generator.device)
        return cls(masked, x, outputs, keys.argsort(1))

    @property
    def n_players(self) -> int:
        """Number of players."""
        return self.masked.n_players

    @property
    def device(self) -> torch.device:
        """Device of the surrogate, on which coalitions are made."""
        return self.masked.device

    def __call__(self, coalitions: Coalitions, /) -> Float[Tensor, "coalitions values"]:
        """Values of the outputs of the first input, then of those of the second, and so on."""
        values = self.masked(self.x, coalitions[:, self.order].transpose(0, 1))
        chosen = values.gather(2, self.outputs[:, None].expand(-1, len(coalitions), -1))
        return chosen.transpose(0, 1).flatten(1)

    def by_input(
        self, array: Float64[Tensor, "weights players values"]
    ) -> Float64[Tensor, "weights inputs players outputs"]:
        """Return what is known of the joint game's players for those of each input."""
        by_input = array.unflatten(2, tuple(self.outputs.shape)).transpose(1, 2)
        return by_input.gather(2, self.order[None, :, :, None].expand_as(by_input))


def check_calls(n_calls: int | Literal["auto"], n_players: int) -> int:
    """Return the number of coalitions to evaluate, at most all, or raise an error if it is too small."""
    if n_calls == "auto":
        return min(default_calls(n_players), 2**n_players)
    fewest = min(fewest_calls(n_players), 2**n_players)
    if check_whole("n_calls", n_calls) < fewest:
        raise ValueError(f"n_calls must be at least {fewest} for {n_players} players, got {n_calls}")
    return min(n_calls, 2**n_players)


def fewest_calls(n_players: int) -> int:
    """Fewest coalitions that give values with standard errors."""
    return 4 * n_players + 32


def default_calls(n_players: int) -> int:
    """Coalitions to sample by default, which may be more than there are."""
    return max(MIN_CALLS, CALLS_PER_PLAYER * n_players)
