"""What an objective does, and the coalitions that it draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fwshapley.games.masked_model import MaskedModel
from fwshapley.semivalues import Semivalue
from fwshapley.training.budget import Shard

PILOT_INPUTS, PILOT_MASKS = 128, 16
"""Inputs, and coalitions of each, that an objective is calibrated on."""

SMALLEST_LEVEL = 1e-12


class Sample(NamedTuple):
    """Coalitions of some inputs, and what they are worth."""

    x: Float[Tensor, "batch ..."]
    coalitions: Bool[Tensor, "batch masks players"]
    worth: Float[Tensor, "batch masks outputs"]
    t: Float[Tensor, " batch"] | None = None
    """Probability of each player, for the multilinear objective."""
    ends: Float[Tensor, "batch 2 outputs"] | None = None
    """Worth of nobody and everyone, for a kernel objective that is not centered."""
    importance: Float[Tensor, " batch"] | None = None
    """What each input counts for, as its coalitions' size is drawn more or less often than by the law."""


@runtime_checkable
class Objective(Protocol):
    """What a network learns, and how its output is read."""

    @property
    def maps(self) -> int:
        """Channels of the network per output of the model."""
        ...

    def calibrate(self, masked: MaskedModel, x: Float[Tensor, "rows ..."], generator: torch.Generator) -> Self:
        """Return the objective in units of these inputs' games, so that the empty explanation has a loss of about 1."""
        ...

    def sample(
        self, masked: MaskedModel, x: Float[Tensor, "rows ..."], masks: int, generator: torch.Generator, shard: Shard
    ) -> Sample:
        """Draw coalitions of every input; ask what those of this process's share are worth."""
        ...

    def loss(self, out: Float[Tensor, "batch players channels"], sample: Sample) -> Float[Tensor, " batch"]:
        """Loss of a network's output on each input."""
        ...

    def mixtures(self, weights: Sequence[Semivalue], device: torch.device) -> Float[Tensor, "weights maps"]:
        """How much of every map goes into each weighting."""
        ...

    def contract(
        self, out: Float[Tensor, "batch players channels"], mixtures: Float[Tensor, "weights maps"]
    ) -> Float[Tensor, "weights batch players outputs"]:
        """Values that a network's output stands for, under the weightings that the mixtures are of."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return everything about it, as JSON holds it; `objective_from_facts` reads it."""
        ...
