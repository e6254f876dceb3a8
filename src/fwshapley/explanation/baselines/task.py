"""One call of a baseline: what to explain, and how to evaluate the model or the game of each input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from fwshapley._internal.checks import check_seed
from fwshapley._internal.progress import ProgressBar
from fwshapley.explanation.inputs.predictions import as_columns
from fwshapley.explanation.learned.fitted import Fitted
from fwshapley.games.masked_model import LINKS, PredictionGame
from fwshapley.players import Players
from fwshapley.semivalues import Semivalue

if TYPE_CHECKING:
    from fwshapley.explanation.learned.feature_explainer import FeatureExplainer

Attribute = Callable[[Float[Tensor, "batch ..."], Int[Tensor, " batch"]], Float[Tensor, "batch players"]]
"""Values of the players of a batch of inputs, for one output of each input."""

EstimateOne = Callable[[PredictionGame, Semivalue, Int[Tensor, " outputs"], int], Float[Tensor, "players outputs"]]
"""Values of the players of one game under a weighting, for some outputs, from a seed."""


@dataclass(frozen=True, eq=False)
class BaselineTask:
    """One call of a baseline.

    Attributes:
        explainer: the explainer to compare with.
        fitted: its model, surrogate, players and scale.
        x: the inputs.
        outputs: numbers of the outputs to explain, for each input.
        weights: the weightings; one for a method that has none.
        batch_size: inputs at once.
        bar: counts inputs.
    """

    explainer: FeatureExplainer
    fitted: Fitted
    x: Float[Tensor, "batch ..."]
    outputs: Int[Tensor, "batch outputs"]
    weights: list[Semivalue]
    batch_size: int
    bar: ProgressBar

    @property
    def players(self) -> Players:
        """The players."""
        return self.fitted.players

    @property
    def device(self) -> torch.device:
        """Device of model and surrogate."""
        return self.fitted.device

    @property
    def model(self) -> nn.Module:
        """The explained model."""
        return self.fitted.require_model()

    def predict(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch outputs"]:
        """Model predictions for whole inputs, on the scale of the game; differentiable."""
        return LINKS[self.fitted.masked_model.output](as_columns(self.model(x)).float())

    def by_batch(self, attribute: Attribute) -> Float[Tensor, "1 batch players outputs"]:
        """Apply a method to batches of inputs, for one output of each input at a time."""
        parts = []
        for inputs, outputs in zip(self.x.split(self.batch_size), self.outputs.split(self.batch_size), strict=True):
            x = inputs.to(self.device)
            columns = outputs.to(self.device).unbind(1)
            parts.append(torch.stack([attribute(x, column) for column in columns], -1).detach())
            self.bar.advance(len(x))
        return torch.cat(parts)[None]

    def by_game(self, estimate: EstimateOne, seed: int) -> Float[Tensor, "weights batch players outputs"]:
        """Apply a method to the game of one input after another, each with a seed of its own."""
        rows = []
        for row, row_seed in enumerate(self.seeds(seed)):
            game = PredictionGame(self.fitted.masked_model, self.x[row : row + 1].to(self.device))
            values = [estimate(game, weighting, self.outputs[row], row_seed) for weighting in self.weights]
            rows.append(torch.stack(values).float().to(self.device))  # captum may leave the device
            self.bar.advance(1)
        return torch.stack(rows, 1)

    def seeds(self, seed: int) -> list[int]:
        """Return a seed for each input, so that their errors are independent."""
        generator = torch.Generator().manual_seed(check_seed(seed))
        drawn: list[int] = torch.randint(2**62, (len(self.x),), generator=generator).tolist()
        return drawn
