"""How well a surrogate reproduces its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from fwshapley._internal.checks import check_kind, check_seed
from fwshapley.coalitions import draw_bernoulli
from fwshapley.explanation.inputs.input_checks import check_examples, run_model
from fwshapley.explanation.inputs.predictions import PREDICTIONS, predict, same_decisions, surrogate_outputs
from fwshapley.explanation.learned.black_box import BlackBox
from fwshapley.games.masked_model import MaskedModel
from fwshapley.games.scales import KINDS, Output

DECILES = 10

MIN_AGREEMENT = 0.9
"""Share of the model's predictions, and of their variance, that a surrogate should reproduce."""


class FidelityWarning(UserWarning):
    """The surrogate predicts differently from the model, so explanations are not of the model.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("error", fw.explanation.FidelityWarning)  # `fit` raises it
        >>> warnings.simplefilter("default", fw.explanation.FidelityWarning)
    """


@dataclass(frozen=True)
class Fidelity:
    """How well a surrogate reproduces its model, on inputs that neither was trained on.

    Attributes:
        divergence: KL divergence from the model's predictions (squared error for values), by decile of the share of
            features that are visible.
        agreement: share of complete inputs, or of their labels, for which both predict the same class; None for values.
        prior_distance: largest difference between the prediction from no features and the model's mean prediction.
        explained: share of the variance of the model's predictions that the surrogate explains for complete inputs: of
            all probabilities together, or of the worst of several values. The predictions are probabilities or values.
        error: mean absolute difference of both predictions for complete inputs, over inputs and outputs.

    Example:
        >>> fidelity = fw.explanation.Fidelity((0.3, 0.2), agreement=0.75, prior_distance=0.1, explained=0.6, error=0.2)
        >>> fidelity.is_poor
        True
    """

    divergence: tuple[float, ...]
    agreement: float | None
    prior_distance: float
    explained: float
    error: float

    @property
    def is_poor(self) -> bool:
        """Whether the surrogate predicts differently from the model even for complete inputs."""
        return any(share is not None and share < MIN_AGREEMENT for share in (self.agreement, self.explained))

    def __str__(self) -> str:
        return (
            f"the surrogate {self.summary}; its divergence from the model is {self.divergence[0]:.2g} with less than a "
            f"tenth of the features and {self.divergence[-1]:.2g} with nearly all of them"
        )

    @property
    def summary(self) -> str:
        """How well it predicts complete inputs, in the model's units, such as 'explains 98.6% of the variance ...'."""
        share = f"explains {max(self.explained, 0):.1%} of the variance of the model's"
        if self.agreement is None:
            return f"{share} outputs and is off by {self.error:.2g} on average for complete inputs"
        return (
            f"{share} probabilities, is off by {self.error:.2g} on average, and predicts the model's class for "
            f"{self.agreement:.1%} of complete inputs"
        )

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Fidelity:
        """Return the fidelity that was saved as JSON."""
        return cls(**{**facts, "divergence": tuple(facts["divergence"])})


def measure_fidelity(
    masked_model: MaskedModel, model: nn.Module, x: Float[Tensor, "rows ..."], *, seed: int = 0
) -> Fidelity:
    """Measure the fidelity of a surrogate on held-out inputs, with one coalition per input and decile.

    Args:
        masked_model: the surrogate and what its outputs mean.
        model: the model that the surrogate should reproduce, a torch module.
        x: inputs that the surrogate was not trained on.
        seed: of the coalitions.

    Example:
        >>> x, model = torch.randn(50, 3), torch.nn.Linear(3, 2)
        >>> surrogate = fw.explanation.Surrogate(model, fw.columns(3), torch.zeros(1, 3))
        >>> masked_model = fw.games.MaskedModel(surrogate, "probability", 3, torch.device("cpu"))
        >>> fw.explanation.measure_fidelity(masked_model, model, x).agreement  # of the model with itself
        1.0
    """
    check_kind("masked_model", masked_model, MaskedModel)
    check_kind("model", model, nn.Module)
    x = check_examples("x", x, missing=isinstance(model, BlackBox)).to(masked_model.device)
    output, kind, n = masked_model.output, KINDS[masked_model.output], masked_model.n_players
    run_model(model, x[:1])
    generator = torch.Generator(x.device).manual_seed(check_seed(seed))
    target = predict(model, x, output).to(x.device)
    deciles = []
    for decile in range(DECILES):
        share = (decile + torch.rand(len(x), generator=generator, device=x.device)) / DECILES
        outputs = surrogate_outputs(masked_model.surrogate, x, draw_bernoulli(share, n, generator))
        deciles.append(float(divergence(outputs, target, output).mean()))
    full = torch.ones(len(x), n, dtype=torch.bool, device=x.device)
    complete = PREDICTIONS[kind](surrogate_outputs(masked_model.surrogate, x, full))
    prior = PREDICTIONS[kind](surrogate_outputs(masked_model.surrogate, x[:1], ~full[:1]))[0]
    return Fidelity(
        divergence=tuple(deciles),
        agreement=None if kind == "values" else float(same_decisions(complete, target, kind).double().mean()),
        prior_distance=float((prior - target.mean(0)).abs().max()),
        explained=_explained_variance(complete, target, pooled=kind != "values"),
        error=float((complete - target).abs().mean()),
    )


def divergence(
    outputs: Float[Tensor, "rows outputs"], target: Float[Tensor, "rows outputs"], output: Output
) -> Float[Tensor, " rows"]:
    """KL divergence of the target probabilities from logits, or squared error of values, for each row."""
    outputs, kind = outputs.float(), KINDS[output]
    if kind == "values":
        return (outputs - target).square().sum(1)
    if kind == "classes":
        return functional.kl_div(outputs.log_softmax(1), target, reduction="none").sum(1)
    of_yes = functional.kl_div(functional.logsigmoid(outputs), target, reduction="none")
    of_no = functional.kl_div(functional.logsigmoid(-outputs), 1 - target, reduction="none")
    return (of_yes + of_no).sum(1)


def _explained_variance(
    predicted: Float[Tensor, "rows outputs"], target: Float[Tensor, "rows outputs"], *, pooled: bool
) -> float:
    """Share of explained variance over all outputs, or the smallest one over the outputs that vary; 1 if none does."""
    variance = (target - target.mean(0)).square().mean(0)
    error = (predicted - target).square().mean(0)
    if pooled:
        variance, error = variance.sum(0, keepdim=True), error.sum(0, keepdim=True)
    varies = variance > 0
    return float((1 - error / variance)[varies].min()) if bool(varies.any()) else 1.0
