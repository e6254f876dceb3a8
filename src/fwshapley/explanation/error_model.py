"""How far a network's values may be off, input by input: an error model, calibrated on inputs held out.

`refine` gives unbiased values. Of two independent estimates a and b of the same values, the mean over players of
(network - a) (network - b) is unbiased for the network's mean squared error, so no truth is needed (docs/math.md,
eq. 16). It is predicted as a sum of numbers that one call more makes known, with coefficients that are not negative:

    a constant, squared gap of the Shapley values' sum, doubt, mean square of Shapley values, mean square of values

fitted on half of the inputs and judged on the other half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Float64
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.stats import rankdata
from torch import Tensor

from fwshapley._internal.checks import Array, check_whole
from fwshapley._internal.tensors import as_tensor
from fwshapley.coalitions import make_generator
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.fitting import EXPLAINED_AT_ONCE, Fitted, FittedExplainer
from fwshapley.explanation.inputs import check_inputs
from fwshapley.explanation.refinement import refine
from fwshapley.objectives import Kernel, shift_to_total
from fwshapley.semivalues import Semivalue, Shapley, Total

FEWEST_INPUTS = 8
CALIBRATION_INPUTS, CALIBRATION_CALLS = 48, 128
"""Unless told otherwise."""
REWEIGHTINGS = 10
LEAST_SHARE = 1e-3
"""Of the mean squared error: no less is expected while coefficients are fitted."""


@dataclass(frozen=True)
class Judgment:
    """How well expected errors agree with measured ones, on inputs that they were not fitted on.

    Attributes:
        spearman: rank correlation over inputs and outputs.
        spearman_top: the same over inputs, of the output alone that each input has most of.
        pearson: correlation of the root mean square errors.
        ratio: mean expected over mean measured squared error.
    """

    spearman: float
    spearman_top: float
    pearson: float
    ratio: float


@dataclass(frozen=True)
class ErrorModel:
    """Predicts the root mean square error of an explainer's values.

    Attributes:
        weights: the semivalues it was calibrated for.
        coefficients: of the features, for each of them.
        judged: how good it is, for each of them.
        total: of the values.
        inputs: how many were held out, half of them to judge by.
        calls: of the surrogate, for each of the two estimates per input.
    """

    weights: tuple[Semivalue, ...]
    coefficients: tuple[tuple[float, ...], ...]
    judged: tuple[Judgment, ...]
    total: Total
    inputs: int
    calls: int

    def __str__(self) -> str:
        each = (
            f"{weights}: rank correlation {found.spearman:.2f}, "
            f"mean square expected over mean square measured {found.ratio:.2f}"
            for weights, found in zip(self.weights, self.judged, strict=True)
        )
        return f"errors calibrated on {self.inputs} inputs; on half of them {'; '.join(each)}"

    def expect(self, explainer: FittedExplainer, shown: Attribution) -> Attribution:
        """Return what the explainer explained with its expected errors, for one call of the surrogate per input."""
        several = shown.weights if isinstance(shown.weights, list) else [shown.weights]
        missing = [each for each in several if each not in self.weights]
        if missing:
            known = ", ".join(map(str, self.weights))
            raise ValueError(
                f"errors were calibrated for {known}, not for {missing[0]}; calibrate with its weights too"
            )
        if shown.total != self.total:
            raise ValueError(
                f"errors were calibrated for {self.total} values, these are {shown.total}: ask for total={self.total!r}"
            )
        fitted = explainer.fitted_
        rows = [self.coefficients[self.weights.index(each)] for each in several]
        coefficients = torch.tensor(rows, dtype=torch.float64, device=shown.values.device)
        expected = torch.einsum("wbof,wf->wbo", _features(fitted, shown), coefficients).sqrt().float()
        return replace(shown, expected_error=expected if isinstance(shown.weights, list) else expected[0])

    def facts(self) -> dict[str, Any]:
        """Return everything about it, as JSON holds it."""
        return asdict(self) | {"weights": [each.to_json() for each in self.weights]}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        """Return the model whose `facts` were saved."""
        lists = {
            "weights": tuple(map(Semivalue.from_json, facts["weights"])),
            "coefficients": tuple(map(tuple, facts["coefficients"])),
            "judged": tuple(Judgment(**each) for each in facts["judged"]),
        }
        return cls(**dict(facts) | lists)


def calibrate(
    explainer: FittedExplainer,
    x: Array,
    *,
    n_inputs: int | None = CALIBRATION_INPUTS,
    n_calls: int = CALIBRATION_CALLS,
    weights: Semivalue | Sequence[Semivalue] | None = None,
    seed: int | torch.Generator = 0,
    progress: bool = True,
) -> ErrorModel:
    """Learn how far the explainer's values are off, from inputs that it was not trained on.

    Args:
        explainer: one that is fitted.
        x: inputs held out, at least 8; half of them judge.
        n_inputs: most of them to use, chosen by the seed; None is all.
        n_calls: evaluations of the surrogate for each of two unbiased estimates per input.
        weights: a semivalue or a list of them; by default Shapley, or the one that was learned.
        seed: whole number, or a generator on the explainer's device.
        progress: show progress when it takes long: a bar on a terminal, lines elsewhere.
    """
    fitted = explainer.fitted_
    generator = make_generator(seed, fitted.masked_model.device)
    x = _sample(x, len(check_inputs(x, form=fitted.encoding)), n_inputs, generator)
    shown = explainer.explain(x, weights=weights)
    several = shown.weights if isinstance(shown.weights, list) else [shown.weights]
    shown = replace(shown, values=shown.values.reshape(len(several), *shown.values.shape[-3:]), weights=several)
    measured = _measure(explainer, x, shown, n_calls, generator, progress=progress)
    features = _features(fitted, shown)
    order = torch.randperm(len(shown), generator=generator, device=generator.device)
    fit, judge = order[: len(order) // 2], order[len(order) // 2 :]
    coefficients, judged = [], []
    top = (shown.base_values + shown.values[0].sum(1))[judge].argmax(1)
    for row, squared in zip(features, measured, strict=True):
        coefficients.append(_fit(row[fit].flatten(0, 1).cpu().numpy(), squared[fit].flatten().cpu().numpy()))
        expected = row[judge].cpu() @ torch.tensor(coefficients[-1], dtype=torch.float64)
        judged.append(_judge(expected, squared[judge].cpu(), top.cpu()))
    return ErrorModel(tuple(several), tuple(coefficients), tuple(judged), shown.total, len(shown), n_calls)


def _sample(x: Array, count: int, most: int | None, generator: torch.Generator) -> Array:
    """Return inputs, at most some of them, chosen at random."""
    if count < FEWEST_INPUTS:
        raise ValueError(f"calibrate needs at least {FEWEST_INPUTS} inputs, got {count}")
    if most is None or count <= check_whole("n_inputs", most, minimum=FEWEST_INPUTS):
        return x
    rows = torch.randperm(count, generator=generator, device=generator.device)[:most].sort().values.cpu()
    return x.iloc[rows.numpy()] if isinstance(x, pd.DataFrame) else as_tensor(x)[rows]


def _measure(
    explainer: FittedExplainer, x: Array, shown: Attribution, calls: int, generator: torch.Generator, *, progress: bool
) -> Float64[Tensor, "weights batch outputs"]:
    """Unbiased estimates of the mean squared error of values over players."""
    errors = []
    for _ in range(2):
        values = refine(
            explainer, x, n_calls=calls, weights=shown.weights, seed=generator, progress=progress
        ).values.double()
        if shown.total == "efficient":
            values = shift_to_total(values, shown.values.double().sum(-2))
        errors.append(shown.values.double() - values)
    return (errors[0] * errors[1]).mean(-2)


def _features(fitted: Fitted, shown: Attribution) -> Float64[Tensor, "weights batch outputs features"]:
    """What is known about each input's errors, in units of squared values."""
    values = shown.values if isinstance(shown.weights, list) else shown.values[None]
    n, numbers, found = values.shape[2], shown.outputs, []
    for x, some, now, base in zip(
        shown.inputs.split(EXPLAINED_AT_ONCE),
        numbers.split(EXPLAINED_AT_ONCE),
        values.double().split(EXPLAINED_AT_ONCE, 1),
        shown.base_values.double().split(EXPLAINED_AT_ONCE),
        strict=True,
    ):
        everyone = fitted.masked_model.full_values(x.to(now.device)).gather(1, some).double()
        shapley = now[0] if isinstance(fitted.objective, Kernel) else _shapley(fitted, x.to(now.device), some)
        gap = ((shapley.sum(1) - (everyone - base)) / n).square()
        probable = fitted.masked_model.output.endswith("probability")
        doubt = (everyone * (1 - everyone)).clamp(min=0) if probable else (everyone - base).square()
        shared = torch.stack([torch.ones_like(gap), gap, doubt / n**2, shapley.square().mean(1)], -1)
        found.append(torch.cat([shared.expand(len(now), -1, -1, -1), now.square().mean(2)[..., None]], -1))
    return torch.cat(found, 1)


def _shapley(
    fitted: Fitted, x: Float[Tensor, "batch ..."], numbers: Tensor
) -> Float64[Tensor, "batch players outputs"]:
    with torch.no_grad():
        values = fitted.values(x, fitted.objective.mixtures([Shapley()], x.device))[0].double()
    return values.gather(2, numbers[:, None].expand(-1, values.shape[1], -1))


def _fit(features: NDArray[np.float64], squared: NDArray[np.float64]) -> tuple[float, ...]:
    """Coefficients, none negative, by least squares of relative errors; they keep the mean."""
    mean = float(squared.mean())
    if mean <= 0:
        raise ValueError("the errors are too small to be measured with these calls: use more of them, or more inputs")
    unit = np.maximum(features.mean(0), np.finfo(float).tiny)
    expected = np.full(len(squared), mean)
    for _ in range(REWEIGHTINGS):
        found, _ = nnls(features / unit / expected[:, None], squared / expected)
        expected = np.maximum(features / unit @ found, LEAST_SHARE * mean)
    return tuple((mean / (features / unit @ found).mean() * found / unit).tolist())


def _judge(expected: Float64[Tensor, "inputs outputs"], measured: Tensor, top: Tensor) -> Judgment:
    """Compare expected and measured squared errors."""
    ranks = [rankdata(each.flatten()) for each in (expected, measured)]
    rows = torch.arange(len(top))
    top_ranks = [rankdata(each[rows, top]) for each in (expected, measured)]
    roots = [each.clamp(min=0).sqrt().flatten().numpy() for each in (expected, measured)]
    ratio = float(expected.mean() / measured.mean())
    return Judgment(_correlation(*ranks), _correlation(*top_ranks), _correlation(*roots), ratio)


def _correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Pearson's; 0 where one of them is constant."""
    one, other = one - one.mean(), other - other.mean()
    return float(one @ other / max(np.linalg.norm(one) * np.linalg.norm(other), np.finfo(float).tiny))
