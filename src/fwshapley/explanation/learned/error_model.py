"""Expected error of a network's values for each input: a model calibrated on held-out inputs.

An error has two parts, whose squares are added. That of the network, as an explanation of the surrogate: `refine` gives
unbiased values; if a and b are two independent estimates of the same values, the mean over players of (network - a)
(network - b) is an unbiased estimate of the network's mean squared error, without ground truth (docs/math.md, eq. 16).

That of the surrogate, as a substitute for the model, has two estimates, whose squares are added too. The two networks
of a `TableSurrogate` were trained on different batches, so half of their difference is about as large as the error of
their mean, for every coalition: it is a game, whose values are about as large as the errors of the surrogate's values.
What both networks miss is known for complete inputs, from the model's predictions: if the errors of players are
independent, their squares add up to the mean square of what is missed. (For a single input, this may be small by
chance.) Other surrogates have this second estimate alone. It is multiplied by 4, because a surrogate misses more where
few columns are hidden than where none is.

The error is predicted as a sum of six features with coefficients that are not negative:

    constant, squared gap of the Shapley values' sum, uncertainty, mean square of Shapley values, mean square of values,
    squared difference of the surrogate's two networks

The features of an input need one more surrogate call. Coefficients are fitted on half of the inputs and tested on the
other half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Float64
from numpy.typing import NDArray
from scipy.optimize import nnls
from torch import Tensor, nn

from fwshapley._internal.checks import Array, check_whole
from fwshapley._internal.correlation import pearson, spearman
from fwshapley._internal.tensor_checks import as_tensor
from fwshapley.coalitions import make_generator
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.inputs.predictions import raw_outputs
from fwshapley.explanation.learned.fitted import MAX_BATCH, Fitted
from fwshapley.explanation.learned.refinement import refine
from fwshapley.explanation.learned.refinement.control_variate import network_values
from fwshapley.explanation.learned.sampled_values import sample_values
from fwshapley.explanation.learned.surrogate import TableSurrogate
from fwshapley.games.masked_model import LINKS, MaskedModel
from fwshapley.games.scales import Output
from fwshapley.objectives import Kernel, shift_to_total
from fwshapley.semivalues import Semivalue, Shapley, Total

if TYPE_CHECKING:
    from fwshapley.explanation.learned.feature_explainer import FeatureExplainer

MIN_INPUTS = 8
CALIBRATION_INPUTS = 48
CALIBRATION_CALLS = 128
"""Defaults of `calibrate`."""

MISSED_FACTOR = 4
"""With it, two errors cover about 93 % of the model's values on games that are known; docs/math.md, section 7."""

REWEIGHTINGS = 10
MIN_SHARE = 1e-3
"""Smallest expected squared error, relative to the mean, by which residuals are divided in the fit."""


@dataclass(frozen=True)
class CalibrationScore:
    """Agreement of expected with measured errors, on inputs that the coefficients were not fitted on.

    Attributes:
        spearman: rank correlation over inputs and outputs.
        spearman_top: rank correlation over inputs, for the output with the largest prediction of each input.
        pearson: correlation of the root mean square errors.
        ratio: mean expected over mean measured squared error.
    """

    spearman: float
    spearman_top: float
    pearson: float
    ratio: float


@dataclass(frozen=True)
class ErrorModel:
    """Predicts the root mean square error of an explainer's values; made by `FeatureExplainer.calibrate`.

    Attributes:
        weights: the semivalues that it was calibrated for.
        coefficients: of the features, for each semivalue.
        scores: agreement with measured errors, for each semivalue.
        total: "raw" or "efficient", as the values were.
        n_inputs: number of held-out inputs; half of them give the scores.
        n_calls: surrogate calls of each of the two estimates per input.
        surrogate_shares: for each semivalue, which share of the mean squared error is that of the surrogate.

    Example:
        >>> x = torch.randn(96, 5)
        >>> explainer = fw.FeatureExplainer(lambda rows: rows[:, 0] * rows[:, 1])
        >>> explainer = explainer.fit(x[:64], budget=fw.Budget(steps=20), progress=False)
        >>> model = explainer.calibrate(x[64:], n_calls=32, progress=False)
        >>> explainer.explain(x[:3], errors=True).expected_error.shape
        torch.Size([3, 1])
    """

    weights: tuple[Semivalue, ...]
    coefficients: tuple[tuple[float, ...], ...]
    scores: tuple[CalibrationScore, ...]
    total: Total
    n_inputs: int
    n_calls: int
    surrogate_shares: tuple[float, ...]

    def __str__(self) -> str:
        parts = (
            f"{weighting}: rank correlation {score.spearman:.2f}, expected / measured mean square {score.ratio:.2f}, "
            f"{share:.0%} of it by the surrogate"
            for weighting, score, share in zip(self.weights, self.scores, self.surrogate_shares, strict=True)
        )
        return f"error model of {self.n_inputs} inputs, tested on half of them: {'; '.join(parts)}"

    def expect(self, explainer: FeatureExplainer, attribution: Attribution) -> Attribution:
        """Return an attribution of the explainer with its expected errors, for one surrogate call per input.

        Args:
            explainer: the explainer that was calibrated.
            attribution: values by its `explain`, under weightings that it was calibrated for.
        """
        missing = [weighting for weighting in attribution.weightings if weighting not in self.weights]
        if missing:
            raise ValueError(
                f"weights: errors were calibrated for {', '.join(map(str, self.weights))}, not for {missing[0]}; "
                f"call calibrate(..., weights=[...]) with {missing[0]} too"
            )
        if attribution.total != self.total:
            raise ValueError(
                f"total: errors were calibrated for {self.total} values, these are {attribution.total}; pass "
                f"total={self.total!r}"
            )
        stacked = attribution.stacked()
        rows = [self.coefficients[self.weights.index(weighting)] for weighting in attribution.weightings]
        coefficients = torch.tensor(rows, dtype=torch.float64, device=stacked.values.device)
        squared = torch.einsum("wbof,wf->wbo", _error_features(explainer.fitted_, stacked), coefficients)
        expected = replace(stacked, expected_error=squared.sqrt().float())
        return expected if isinstance(attribution.weights, list) else expected.unstacked()

    def facts(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        return asdict(self) | {"weights": [weighting.to_json() for weighting in self.weights]}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        """Return the model whose `facts` were saved."""
        lists = {
            "weights": tuple(map(Semivalue.from_json, facts["weights"])),
            "coefficients": tuple(map(tuple, facts["coefficients"])),
            "scores": tuple(CalibrationScore(**score) for score in facts["scores"]),
            "surrogate_shares": tuple(facts["surrogate_shares"]),
        }
        return cls(**dict(facts) | lists)


def calibrate(
    explainer: FeatureExplainer,
    x: Array,
    *,
    n_inputs: int | None = CALIBRATION_INPUTS,
    n_calls: int = CALIBRATION_CALLS,
    weights: Semivalue | Sequence[Semivalue] | None = None,
    seed: int | torch.Generator = 0,
    progress: bool = True,
) -> ErrorModel:
    """Fit a model of the error of an explainer's values, from inputs that it was not trained on.

    Args:
        explainer: a fitted explainer.
        x: held-out inputs, at least 8.
        n_inputs: most inputs to use, chosen at random; None uses all.
        n_calls: surrogate calls for each of two unbiased estimates per input.
        weights: a semivalue or a list of them; by default Shapley, or the one that was learned.
        seed: an integer, or a generator on the explainer's device.
        progress: show progress if it takes long: a bar on a terminal, lines elsewhere.
    """
    fitted = explainer.fitted_
    fitted.check_same_players("calibrate")
    n_calls = check_whole("n_calls", n_calls)
    generator = make_generator(seed, fitted.masked_model.device)
    checked = fitted.check_inputs(x)
    x = _choose_inputs(checked if fitted.schema is None else x, len(checked), n_inputs, generator)
    explained = explainer.explain(x, weights=weights).stacked()
    of_network = _measure_errors(explainer, x, explained, n_calls, generator, progress=progress)
    of_surrogate = _measure_surrogate(fitted, explained, n_calls, generator, progress=progress)
    measured = of_network + of_surrogate
    features = _error_features(fitted, explained)
    order = torch.randperm(len(explained), generator=generator, device=generator.device)
    fit_rows, test_rows = order[: len(order) // 2], order[len(order) // 2 :]
    top = (explained.base_values + explained.values[0].sum(1))[test_rows].argmax(1)
    coefficients, scores = [], []
    for row, squared in zip(features, measured, strict=True):
        fitted_row = _fit_coefficients(
            row[fit_rows].flatten(0, 1).cpu().numpy(), squared[fit_rows].flatten().cpu().numpy()
        )
        expected = row[test_rows].cpu() @ torch.tensor(fitted_row, dtype=torch.float64)
        coefficients.append(fitted_row)
        scores.append(_score(expected, squared[test_rows].cpu(), top.cpu()))
    shares = of_surrogate.mean((1, 2)) / measured.mean((1, 2))
    return ErrorModel(
        weights=tuple(explained.weightings),
        coefficients=tuple(coefficients),
        scores=tuple(scores),
        total=explained.total,
        n_inputs=len(explained),
        n_calls=n_calls,
        surrogate_shares=tuple(shares.clamp(0, 1).tolist()),
    )


def _choose_inputs(x: Array, count: int, n_inputs: int | None, generator: torch.Generator) -> Array:
    """Return inputs, at most n_inputs of them, chosen at random."""
    if count < MIN_INPUTS:
        raise ValueError(f"x must contain at least {MIN_INPUTS} inputs to calibrate with, got {count}")
    if n_inputs is None or count <= check_whole("n_inputs", n_inputs, minimum=MIN_INPUTS):
        return x
    rows = torch.randperm(count, generator=generator, device=generator.device)[:n_inputs].sort().values.cpu()
    return x.iloc[rows.numpy()] if isinstance(x, pd.DataFrame) else as_tensor(x)[rows]


def _measure_errors(
    explainer: FeatureExplainer,
    x: Array,
    explained: Attribution,
    n_calls: int,
    generator: torch.Generator,
    *,
    progress: bool,
) -> Float64[Tensor, "weights batch outputs"]:
    """Unbiased estimates of the mean squared error of values over players."""
    values = explained.values.double()
    errors = []
    for _ in range(2):
        refined = refine(
            explainer, x, n_calls=n_calls, weights=explained.weightings, seed=generator, progress=progress
        ).values.double()
        if explained.total == "efficient":
            refined = shift_to_total(refined, values.sum(-2))
        errors.append(values - refined)
    return (errors[0] * errors[1]).mean(-2)


class _Disagreement(nn.Module):
    """Half of the difference between what the two networks of a surrogate predict."""

    def __init__(self, surrogate: TableSurrogate, output: Output) -> None:
        super().__init__()
        self.surrogate, self.output = surrogate, output

    def forward(self, x: Tensor, coalitions: Tensor) -> Float[Tensor, "batch outputs"]:
        one, other = (LINKS[self.output](outputs.float()) for outputs in self.surrogate.members(x, coalitions))
        return (one - other) / 2


def _disagreement(masked: MaskedModel) -> MaskedModel | None:
    """Return the game of the surrogate's errors, as its two networks tell them; None if it is another surrogate."""
    surrogate = masked.surrogate
    if not isinstance(surrogate, TableSurrogate):
        return None
    return replace(masked, surrogate=_Disagreement(surrogate, masked.output), output="raw")


def _measure_surrogate(
    fitted: Fitted, explained: Attribution, n_calls: int, generator: torch.Generator, *, progress: bool
) -> Float64[Tensor, "weights batch outputs"]:
    """Estimates of the mean squared error over players of the surrogate's values as values of the model."""
    masked = fitted.masked_model
    x, outputs = explained.inputs.to(masked.device), explained.outputs.to(masked.device)
    of_complete = torch.zeros_like(explained.values[:, :, 0]).double()
    if fitted.model is not None:
        missed = masked.full_values(x) - LINKS[masked.output](raw_outputs(fitted.model, x)).to(masked.device)
        of_complete += MISSED_FACTOR / masked.n_players * missed.gather(1, outputs).double().square().mean(0)
    game = _disagreement(masked)
    if game is None:
        return of_complete
    options: dict[str, Any] = {"n_calls": n_calls, "generator": generator, "progress": progress}
    one, other = (
        torch.cat(
            [sample_values(game, x, outputs, [weighting], **options).values for weighting in explained.weightings]
        )
        for _ in range(2)
    )
    return of_complete + (one * other).mean(2)


def _error_features(fitted: Fitted, explained: Attribution) -> Float64[Tensor, "weights batch outputs features"]:
    """The six features of each input, in units of squared values."""
    masked = fitted.masked_model
    disagreement = _disagreement(masked)
    n = masked.n_players
    features = []
    for inputs, outputs, values, empty in zip(
        explained.inputs.split(MAX_BATCH),
        explained.outputs.split(MAX_BATCH),
        explained.values.double().split(MAX_BATCH, 1),
        explained.base_values.double().split(MAX_BATCH),
        strict=True,
    ):
        x = inputs.to(values.device)
        full = masked.full_values(x).gather(1, outputs).double()
        if isinstance(fitted.objective, Kernel):
            shapley = values[0]
        else:
            shapley = network_values(fitted, x, [Shapley()])[0].gather(2, outputs[:, None].expand(-1, n, -1))
        gap = ((shapley.sum(1) - (full - empty)) / n).square()
        is_probability = masked.output.endswith("probability")
        uncertainty = (full * (1 - full)).clamp(min=0) if is_probability else (full - empty).square()
        differ = torch.zeros_like(full) if disagreement is None else disagreement.full_values(x).gather(1, outputs)
        parts = [torch.ones_like(gap), gap, uncertainty / n**2, shapley.square().mean(1), differ.double().square()]
        shared = torch.stack(parts, -1)
        features.append(torch.cat([shared.expand(len(values), -1, -1, -1), values.square().mean(2)[..., None]], -1))
    return torch.cat(features, 1)


def _fit_coefficients(features: NDArray[np.float64], squared: NDArray[np.float64]) -> tuple[float, ...]:
    """Coefficients that are not negative, by least squares of relative errors, scaled to keep the mean."""
    mean = float(squared.mean())
    if mean <= 0:
        raise ValueError("n_calls is too small to measure errors this small: increase n_calls, or use more inputs")
    unit = np.maximum(features.mean(0), np.finfo(float).tiny)
    expected = np.full(len(squared), mean)
    for _ in range(REWEIGHTINGS):
        solution, _ = nnls(features / unit / expected[:, None], squared / expected)
        expected = np.maximum(features / unit @ solution, MIN_SHARE * mean)
    return tuple((mean / (features / unit @ solution).mean() * solution / unit).tolist())


def _score(
    expected: Float64[Tensor, "inputs outputs"], measured: Float64[Tensor, "inputs outputs"], top: Tensor
) -> CalibrationScore:
    """Compare expected with measured squared errors."""
    rows = torch.arange(len(top))
    return CalibrationScore(
        spearman=float(spearman(expected.flatten(), measured.flatten())),
        spearman_top=float(spearman(expected[rows, top], measured[rows, top])),
        pearson=float(pearson(*(errors.clamp(min=0).sqrt().flatten() for errors in (expected, measured)))),
        ratio=float(expected.mean() / measured.mean()),
    )
