"""Choose the weighting whose most important players restore the model's prediction soonest.

The paper chooses (alpha, beta) from eight pairs; here the Shapley value is a candidate too, and the first one.
Candidates are compared by the area under the inclusion curve on the surrogate, which costs about 300 evaluations per
input: one for each candidate and each point of its curve.

The area of the chosen weighting is the largest of several and therefore optimistic. Report the area by another
evaluator (`reporter`), or on other inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from fwshapley._internal.checks import Array, check_callable, check_flag, check_kind, check_list, check_whole
from fwshapley._internal.progress import ProgressBar
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.learned.feature_explainer import FeatureExplainer
from fwshapley.explanation.metrics import Evaluator, Score, areas, inclusion_curves
from fwshapley.games.masked_model import MaskedModel
from fwshapley.games.scales import KINDS
from fwshapley.objectives import Kernel
from fwshapley.semivalues import FEASIBLE_SET, Semivalue, Shapley


@dataclass(frozen=True)
class InclusionGain:
    """Inclusion areas of the candidates and of a choice among them, by one evaluator.

    Attributes:
        areas: mean area under the inclusion curves, for each candidate.
        gain: area of the choice minus that of the first candidate, mean over inputs.
        gain_stderr: its standard error, paired over inputs; infinite for one input.
    """

    areas: tuple[float, ...]
    gain: float
    gain_stderr: float


@dataclass(frozen=True)
class ChosenWeights(InclusionGain):
    """A weighting chosen by inclusion curves, for a data set or for each input; made by `choose_weights`.

    Areas, gain and standard error are by the evaluator that chose, so they are optimistic: use `reported`, or measure
    on other inputs.

    Attributes:
        weights: the chosen semivalue, or a list with one for each input.
        numbers: index of each input's weighting among the candidates.
        candidates: the semivalues to choose from; the others are compared with the first.
        reported: gain of the choice by another evaluator, if there is one.
        n_inputs: number of inputs.
        n_calls: evaluations made to choose, n_inputs * candidates * (steps + 1); a reporter takes as many again.
    """

    weights: Semivalue | list[Semivalue]
    numbers: tuple[int, ...]
    candidates: tuple[Semivalue, ...]
    reported: InclusionGain | None
    n_inputs: int
    n_calls: int

    def __str__(self) -> str:
        cost = f"{self.n_inputs} inputs, {self.n_calls:,} evaluations"
        if not any(self.numbers):
            return f"{self.candidates[0]}: no other candidate has a larger inclusion area ({cost})"
        best = self.reported or self
        source = "by another evaluator" if self.reported else "optimistic: by the evaluator that chose"
        chosen = "a weighting for each input" if isinstance(self.weights, list) else str(self.weights)
        gain = f"{best.gain:+.4f} ± {best.gain_stderr:.4f} in inclusion area over {self.candidates[0]}"
        return f"{chosen}: {gain} ({source}; {cost})"


def choose_weights(
    explainer: FeatureExplainer,
    x: Array,
    *,
    candidates: Sequence[Semivalue] = (Shapley(), *FEASIBLE_SET),
    per_input: bool = False,
    steps: int = 32,
    evaluator: Evaluator | None = None,
    reporter: Evaluator | None = None,
    progress: bool = True,
) -> ChosenWeights:
    """Choose a weighting by the area under inclusion curves of the predicted class.

    For a data set, a curve is the share of inputs that keep the class that the model predicts. For single inputs, such
    curves would mostly tie, so the choice is by the mean probability of that class along the curve. Ties go to the
    earlier candidate. Explaining takes one pass of the network for all candidates.

    Args:
        explainer: a fitted explainer with objective="multilinear", for a model of classes.
        x: validation inputs, neither those for training nor those for the final report.
        candidates: semivalues to choose from; gains are over the first.
        per_input: choose for each input rather than for the data set.
        steps: points of a curve after the first one, at which nothing is shown.
        evaluator: scores of the classes given (inputs, coalitions), probabilities if per_input; by default the
            surrogate.
        reporter: another evaluator, e.g. a classifier trained on masked inputs, to report an unbiased gain.
        progress: show progress if it takes long: a bar on a terminal, lines elsewhere.

    Example:
        >>> x = torch.randn(64, 5)
        >>> explainer = fw.FeatureExplainer(torch.nn.Linear(5, 3)).fit(x, budget=fw.Budget(steps=20), progress=False)
        >>> chosen = fw.choose_weights(explainer, x[:20], steps=5, progress=False)
        >>> explainer.explain(x[:3], weights=chosen.weights).values.shape
        torch.Size([3, 5, 3])
    """
    candidates = _check_candidates(explainer, candidates)
    check_flag("per_input", per_input)
    explainer.fitted_.check_same_players("choose_weights")
    evaluators = [surrogate_evaluator(explainer.fitted_.masked_model) if evaluator is None else evaluator]
    evaluators += [] if reporter is None else [reporter]
    for name, function in zip(("evaluator", "reporter"), evaluators, strict=False):
        check_callable(name, function)
    steps = check_whole("steps", steps)
    explained = explainer.explain(x, weights=candidates, outputs="predicted")
    score: Score = "probability" if per_input else "kept"
    with ProgressBar("choosing weights", len(candidates) * len(evaluators), enabled=progress) as bar:
        measured = [_measure_areas(function, explained, steps, score, bar) for function in evaluators]
    best = (measured[0] if per_input else measured[0].mean(1, keepdim=True)).argmax(0)  # the first of equals
    numbers = best.expand(len(explained))
    gains = [_gain(candidate_areas, numbers) for candidate_areas in measured]
    return ChosenWeights(
        gains[0].areas,
        gains[0].gain,
        gains[0].gain_stderr,
        weights=[candidates[number] for number in best.tolist()] if per_input else candidates[int(best)],
        numbers=tuple(numbers.tolist()),
        candidates=tuple(candidates),
        reported=gains[1] if len(gains) > 1 else None,
        n_inputs=len(explained),
        n_calls=len(explained) * len(candidates) * (steps + 1),
    )


def surrogate_evaluator(masked: MaskedModel) -> Evaluator:
    """Return the surrogate as an evaluator: with probabilities, also if the game is in log odds, or with values."""

    def evaluate(x: Float[Tensor, "batch ..."], shown: Bool[Tensor, "batch players"]) -> Float[Tensor, "batch classes"]:
        values = masked(x, shown[:, None])[:, 0]
        return values.sigmoid() if masked.output in ("logit", "label_logit") else values

    return evaluate


def _check_candidates(explainer: FeatureExplainer, candidates: Sequence[Semivalue]) -> list[Semivalue]:
    check_kind("explainer", explainer, FeatureExplainer)
    fitted = explainer.fitted_
    if isinstance(fitted.objective, Kernel):
        raise ValueError(  # noqa: TRY004 - the explainer has the right type
            f"explainer must be trained with objective='multilinear', this one has learned {fitted.objective.weights} "
            "alone"
        )
    if KINDS[fitted.masked_model.output] != "classes":
        raise ValueError(
            f"explainer must be of a model of classes, this one has output={fitted.masked_model.output!r}; compare "
            "weightings by a metric of your own"
        )
    return fitted.check_weights(check_list("candidates", candidates))


def _measure_areas(
    evaluator: Evaluator, explained: Attribution, steps: int, score: Score, bar: ProgressBar
) -> Float64[Tensor, "candidates batch"]:
    """Area under the curve of every input, under every candidate."""
    labels = explained.outputs[:, 0]
    x = explained.inputs.to(labels.device)
    measured = []
    for values in explained.values[..., 0]:
        measured.append(areas(inclusion_curves(evaluator, x, values, labels, steps=steps, score=score)))
        bar.advance(1)
    return torch.stack(measured).cpu()


def _gain(candidate_areas: Float64[Tensor, "candidates batch"], numbers: Int[Tensor, " batch"]) -> InclusionGain:
    gains = candidate_areas.gather(0, numbers[None])[0] - candidate_areas[0]
    stderr = float(gains.std()) / math.sqrt(len(gains)) if len(gains) > 1 else math.inf
    return InclusionGain(tuple(candidate_areas.mean(1).tolist()), float(gains.mean()), stderr)
