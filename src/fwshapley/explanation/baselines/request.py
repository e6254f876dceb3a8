"""What a baseline is asked, and what it may ask in turn: the model on whole inputs, or the game of each input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int
from numpy import ndarray
from torch import Tensor, nn

from fwshapley._internal.checks import check_seed
from fwshapley._internal.progress import ProgressBar
from fwshapley.explanation.explainer import FeatureExplainer
from fwshapley.explanation.fitting import Fitted
from fwshapley.explanation.surrogate import as_columns
from fwshapley.games.masked_model import LINKS, PredictionGame
from fwshapley.players import Players
from fwshapley.semivalues import SEMIVALUES, Semivalue

Attribute = Callable[[Float[Tensor, "batch ..."], Int[Tensor, " batch"]], Float[Tensor, "batch players"]]
"""Values of the players of a batch of inputs, for one output of each."""

EstimateOne = Callable[[PredictionGame, Semivalue, Int[Tensor, " outputs"], int], Float[Tensor, "players outputs"]]
"""Values of the players of one game under a weighting, for some outputs, from a seed."""


@dataclass(frozen=True)
class Unweighted(Semivalue):
    """Stands for the weighting in an `Attribution` by a method that has none, such as saliency; says its name."""

    method: str

    def __str__(self) -> str:
        return self.method

    def log_join_law(self, n: int) -> Float64[ndarray, " {n}"]:
        """Raise: there is no such law."""
        raise TypeError(f"{self.method} is no semivalue: it weighs no coalitions, of {n} players or any other number")


SEMIVALUES[Unweighted.__name__] = Unweighted  # so that what was saved can be read


@dataclass(frozen=True, eq=False)
class Request:
    """One call of a baseline.

    Attributes:
        explainer: what it is compared with.
        fitted: the model, surrogate and scale that both explain.
        players: who is credited.
        x: inputs.
        outputs: numbers of those to explain, of each input.
        weights: weightings; one for a method that has none.
        batch_size: inputs at once.
        bar: counts inputs.
    """

    explainer: FeatureExplainer
    fitted: Fitted
    players: Players
    x: Float[Tensor, "batch ..."]
    outputs: Int[Tensor, "batch outputs"]
    weights: list[Semivalue]
    batch_size: int
    bar: ProgressBar

    @property
    def model(self) -> nn.Module:
        """What is explained; a baseline that needs it is not made without."""
        assert self.fitted.model is not None  # noqa: S101 - checked when the baseline was made
        return self.fitted.model

    def worth(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch outputs"]:
        """What the model says of whole inputs, on the scale of the game; it can be differentiated."""
        return LINKS[self.fitted.masked_model.output](as_columns(self.model(x)).float())

    def by_batch(self, attribute: Attribute) -> Float[Tensor, "1 batch players outputs"]:
        """Ask a method about batches of inputs, for one output of each at a time."""
        parts = []
        for some, numbers in zip(self.x.split(self.batch_size), self.outputs.split(self.batch_size), strict=True):
            x = some.to(self.explainer.device)
            columns = numbers.to(x.device).unbind(1)
            parts.append(torch.stack([attribute(x, each) for each in columns], -1).detach())
            self.bar.advance(len(x))
        return torch.cat(parts)[None]

    def by_game(self, estimate: EstimateOne, seed: int) -> Float[Tensor, "weights batch players outputs"]:
        """Ask a method about the game of one input after another, each with a seed of its own."""
        rows = []
        for row, own in enumerate(self.seeds(seed)):
            game = PredictionGame(self.fitted.masked_model, self.x[row : row + 1].to(self.explainer.device))
            found = [estimate(game, weights, self.outputs[row], own) for weights in self.weights]
            rows.append(torch.stack(found).float().to(self.explainer.device))  # captum may leave the device
            self.bar.advance(1)
        return torch.stack(rows, 1)

    def seeds(self, seed: int) -> list[int]:
        """Return a seed for each input, so that their errors are independent."""
        generator = torch.Generator().manual_seed(check_seed(seed))
        drawn: list[int] = torch.randint(2**62, (len(self.x),), generator=generator).tolist()
        return drawn
