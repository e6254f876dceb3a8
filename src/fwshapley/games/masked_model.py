"""The game of a prediction: a coalition of features is worth what a surrogate says when only it is shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from fwshapley.games.game import Coalitions

Output = Literal["probability", "logit", "label probability", "label logit", "raw"]
"""What a coalition is worth: probabilities of classes that exclude each other, or of labels that do not; their log
odds; or the model's own outputs."""

Kind = Literal["classes", "labels", "values"]
"""What a network's outputs are: logits of classes, logits of labels, each a yes or no of its own, or values."""

KINDS: Mapping[Output, Kind] = {
    "probability": "classes",
    "logit": "classes",
    "label probability": "labels",
    "label logit": "labels",
    "raw": "values",
}

MOST_ELEMENTS = 2**23
"""Numbers in the masked inputs of one call of a surrogate; its activations are many times as large."""


@dataclass(frozen=True, eq=False)
class MaskedModel:
    """What coalitions of many inputs are worth.

    Attributes:
        surrogate: a module on (inputs, coalitions).
        output: what its outputs are turned into.
        n_players: number of players.
        device: where it runs.
        mixed_precision: whether to compute in bf16 on a GPU: good enough to learn from, but its rounding is as large as
            what a player adds to a large coalition.
    """

    surrogate: nn.Module
    output: Output
    n_players: int
    device: torch.device
    mixed_precision: bool = False

    def __call__(
        self, x: Float[Tensor, "batch ..."], coalitions: Bool[Tensor, "batch masks players"]
    ) -> Float[Tensor, "batch masks outputs"]:
        """Worth of several coalitions of each input; nothing is differentiated or trained."""
        batch, masks = coalitions.shape[:2]
        pieces = max(1, math.ceil(batch * masks * x[0].numel() / MOST_ELEMENTS))
        rows = torch.arange(batch, device=x.device).repeat_interleave(masks)
        shown = zip(rows.tensor_split(pieces), coalitions.flatten(0, 1).tensor_split(pieces), strict=True)
        with torch.no_grad():
            return torch.cat([self._worth(x[row], coalition) for row, coalition in shown]).unflatten(0, (batch, masks))

    def nobody(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch outputs"]:
        """Worth of the empty coalition, for each input."""
        return self(x, torch.zeros(len(x), 1, self.n_players, dtype=torch.bool, device=x.device))[:, 0]

    def everyone(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch outputs"]:
        """Worth of all players together, for each input."""
        return self(x, torch.ones(len(x), 1, self.n_players, dtype=torch.bool, device=x.device))[:, 0]

    def _worth(self, x: Tensor, coalitions: Tensor) -> Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.mixed_precision):
            out = self.surrogate(x, coalitions)
        return WORTH[self.output](out.float())


@dataclass(frozen=True, eq=False)
class _GameOfInputs:
    masked: MaskedModel
    x: Float[Tensor, "inputs ..."]

    @property
    def n_players(self) -> int:
        """Number of players."""
        return self.masked.n_players

    @property
    def device(self) -> torch.device:
        """Where coalitions are to be made."""
        return self.masked.device


@dataclass(frozen=True, eq=False)
class PredictionGame(_GameOfInputs):
    """The game of one input, for `exact_values` and the Monte Carlo estimators."""

    def __call__(self, coalitions: Coalitions, /) -> Float[Tensor, "coalitions outputs"]:
        """Worth of each coalition."""
        return self.masked(self.x, coalitions[None])[0]


@dataclass(frozen=True, eq=False)
class ManyPredictionsGame(_GameOfInputs):
    """The games of several inputs as one with an output for each: their coalitions are the same.

    Attributes:
        masked: what coalitions are worth.
        x: the inputs.
        outputs: numbers of the outputs of each that count.
    """

    outputs: Int[Tensor, "inputs outputs"]

    def __call__(self, coalitions: Coalitions, /) -> Float[Tensor, "coalitions worths"]:
        """Worth of each coalition, of the first input's outputs, then of the second's."""
        worth = self.masked(self.x, coalitions.expand(len(self.x), -1, -1))
        chosen = worth.gather(2, self.outputs[:, None].expand(-1, len(coalitions), -1))
        return chosen.transpose(0, 1).flatten(1)


def class_log_odds(logits: Float[Tensor, "rows classes"]) -> Float[Tensor, "rows classes"]:
    """Log of p / (1 - p) for every class, accurate however certain the most likely one is."""
    log_p = logits.log_softmax(1)
    top = logits.argmax(1, keepdim=True)
    log_others = logits.scatter(1, top, -math.inf).logsumexp(1, keepdim=True)  # 1 - p of the top class cancels
    odds = log_p - torch.log1p(-log_p.exp().clamp(max=1 / 2))  # the others have 1/2 at most
    return odds.scatter(1, top, logits.gather(1, top) - log_others)


WORTH: Mapping[Output, Callable[[Tensor], Tensor]] = {
    "probability": lambda logits: logits.softmax(1),
    "logit": class_log_odds,
    "label probability": torch.sigmoid,
    "label logit": lambda logits: logits,
    "raw": lambda outputs: outputs,
}
