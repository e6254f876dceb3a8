"""The game of a prediction: the value of a coalition is what a surrogate predicts from these features alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from fwshapley.games.game import Coalitions
from fwshapley.games.scales import Output

MAX_ELEMENTS = 2**23
"""Most numbers in the masked inputs of one surrogate call; its activations take many times as much memory."""

MAX_CPU_ELEMENTS = 2**17
"""The same on a CPU, where convolutions are two to four times as fast while activations fit into its caches."""


CountPlayers = Callable[[Tensor], Tensor]
"""Returns the number of players of each input of a batch."""


@dataclass(frozen=True, eq=False)
class MaskedModel:
    """Value of coalitions of many inputs.

    Attributes:
        surrogate: a module that predicts from (inputs, coalitions).
        output: scale of the values.
        n_players: number of players; the largest if inputs differ in it. Those beyond an input's own do not matter.
        device: device of the surrogate.
        mixed_precision: compute in bf16. That is accurate enough for training only: its rounding error is as large as
            the contribution of one player to a large coalition.
        count: number of players of each input; None if all have `n_players`.

    Example:
        >>> explainer = fw.FeatureExplainer(torch.nn.Linear(4, 2))
        >>> explainer = explainer.fit(torch.randn(64, 4), budget=fw.Budget(steps=5), progress=False)
        >>> explainer.masked_model_.full_values(torch.randn(3, 4)).shape
        torch.Size([3, 2])
    """

    surrogate: nn.Module
    output: Output
    n_players: int
    device: torch.device
    mixed_precision: bool = False
    count: CountPlayers | None = None

    def __call__(
        self, x: Float[Tensor, "batch ..."], coalitions: Bool[Tensor, "batch coalitions players"]
    ) -> Float[Tensor, "batch coalitions outputs"]:
        """Values of several coalitions of each input, without gradients."""
        batch, n_coalitions = coalitions.shape[:2]
        at_once = max(1, most_elements(self.surrogate) // x[0].numel())
        predict = getattr(self.surrogate, "predict_coalitions", None)
        if callable(predict) and self.device.type == "cpu":  # a GPU is faster with few large products
            return self._predict_coalitions(predict, x, coalitions, at_once)
        rows = torch.arange(batch, device=x.device).repeat_interleave(n_coalitions)
        parts = zip(rows.split(at_once), coalitions.flatten(0, 1).split(at_once), strict=True)
        with torch.no_grad():
            values = torch.cat([self._values(x[row], coalition) for row, coalition in parts])
        return values.unflatten(0, (batch, n_coalitions))

    def empty_values(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch outputs"]:
        """Value of the empty coalition, for each input."""
        return self(x, torch.zeros(len(x), 1, self.n_players, dtype=torch.bool, device=x.device))[:, 0]

    def full_values(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch outputs"]:
        """Value of all players together, for each input."""
        return self(x, torch.ones(len(x), 1, self.n_players, dtype=torch.bool, device=x.device))[:, 0]

    def counts(self, x: Float[Tensor, "batch ..."]) -> Int[Tensor, " batch"]:
        """Number of players of each input."""
        return torch.full((len(x),), self.n_players, device=x.device) if self.count is None else self.count(x)

    def members(self, x: Float[Tensor, "batch ..."]) -> Bool[Tensor, "batch players"]:
        """Which of `n_players` each input has."""
        return torch.arange(self.n_players, device=x.device) < self.counts(x)[:, None]

    def by_count(self, x: Float[Tensor, "batch ..."]) -> Iterator[tuple[Int[Tensor, " rows"] | slice, MaskedModel]]:
        """Yield the rows of inputs with the same number of players, and their game."""
        if self.count is None:
            yield slice(None), self
            return
        counts = self.count(x)
        for n in counts.unique().tolist():
            yield (counts == n).nonzero()[:, 0], replace(self, n_players=n, count=None)

    def _predict_coalitions(
        self, predict: Callable[[Tensor, Tensor], Tensor], x: Tensor, coalitions: Tensor, at_once: int
    ) -> Tensor:
        """Values by a surrogate that computes once what the coalitions of an input have in common."""
        n_inputs = max(1, at_once // max(coalitions.shape[1], 1))
        values = []
        with torch.no_grad():
            for inputs, some in zip(x.split(n_inputs), coalitions.split(n_inputs), strict=True):
                parts = [predict(inputs, part) for part in some.split(at_once, 1)]
                outputs = torch.cat(parts, 1)
                values.append(LINKS[self.output](outputs.flatten(0, 1)).unflatten(0, outputs.shape[:2]))
        return torch.cat(values)

    def _values(self, x: Tensor, coalitions: Tensor) -> Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.mixed_precision):
            out = self.surrogate(x, coalitions)
        return LINKS[self.output](out.float())


@dataclass(frozen=True, eq=False)
class PredictionGame:
    """The game of one input, for `exact_values` and the Monte Carlo estimators.

    Attributes:
        masked: values of coalitions of any input.
        x: the input, as a batch of one.
    """

    masked: MaskedModel
    x: Float[Tensor, "inputs ..."]

    @property
    def n_players(self) -> int:
        """Number of players."""
        return self.masked.n_players

    @property
    def device(self) -> torch.device:
        """Device of the surrogate, on which coalitions are made."""
        return self.masked.device

    def __call__(self, coalitions: Coalitions, /) -> Float[Tensor, "coalitions outputs"]:
        """Value of each coalition."""
        return self.masked(self.x, coalitions[None])[0]


@dataclass(frozen=True, eq=False)
class ManyPredictionsGame(PredictionGame):
    """The games of several inputs as one game with an output for each: all inputs share the sampled coalitions.

    Attributes:
        masked: values of coalitions of any input.
        x: the inputs.
        outputs: which outputs of each input to include.
    """

    outputs: Int[Tensor, "inputs outputs"]

    def __call__(self, coalitions: Coalitions, /) -> Float[Tensor, "coalitions values"]:
        """Value of each coalition, for the outputs of the first input, then for those of the second, and so on."""
        values = self.masked(self.x, coalitions.expand(len(self.x), -1, -1))
        chosen = values.gather(2, self.outputs[:, None].expand(-1, len(coalitions), -1))
        return chosen.transpose(0, 1).flatten(1)


def most_elements(module: nn.Module) -> int:
    """Return how many numbers a module gets at once: few for a network on a CPU, many on a GPU or for a function."""
    parameter = next(module.parameters(), None)
    return MAX_CPU_ELEMENTS if parameter is not None and parameter.device.type == "cpu" else MAX_ELEMENTS


def has_fast_bf16(device: torch.device) -> bool:
    """Whether a device has instructions for bf16: GPUs, and CPUs with AVX-512 BF16 or AMX."""
    if device.type != "cpu":
        return device.type == "cuda"
    capabilities: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # torch 2.13 or later
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def class_log_odds(logits: Float[Tensor, "rows classes"]) -> Float[Tensor, "rows classes"]:
    """Log of p / (1 - p) for every class, accurate even if the most likely class is almost certain."""
    log_p = logits.log_softmax(1)
    top = logits.argmax(1, keepdim=True)
    log_others = logits.scatter(1, top, -math.inf).logsumexp(1, keepdim=True)  # 1 - p of the top class cancels
    odds = log_p - torch.log1p(-log_p.exp().clamp(max=1 / 2))  # the other classes have at most 1/2
    return odds.scatter(1, top, logits.gather(1, top) - log_others)


LINKS: Mapping[Output, Callable[[Tensor], Tensor]] = {
    "probability": lambda logits: logits.softmax(1),
    "logit": class_log_odds,
    "label_probability": torch.sigmoid,
    "label_logit": lambda logits: logits,
    "raw": lambda outputs: outputs,
}
"""From the surrogate's raw outputs to the value of a coalition."""
