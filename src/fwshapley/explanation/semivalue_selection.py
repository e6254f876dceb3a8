"""Which weighting to use: the one whose most important players bring back a prediction soonest.

The paper picks (alpha, beta) from eight pairs; here the Shapley value is among the candidates, and comes first.
Candidates are compared by the area under the inclusion curve on the surrogate, which costs some 300 evaluations an
input: one for each candidate and point of its curve.

The area by which a weighting was chosen is the largest of several, so it flatters: what is reported should come from
another evaluator (`reporter`), and from other inputs than these.
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
from fwshapley.explanation.explainer import FeatureExplainer
from fwshapley.explanation.metrics import Evaluator, Score, areas, inclusion_curves
from fwshapley.explanation.options import choose_weightings
from fwshapley.games.masked_model import KINDS
from fwshapley.objectives import Kernel
from fwshapley.semivalues import FEASIBLE_SET, Semivalue, Shapley


@dataclass(frozen=True)
class Judgment:
    """What an evaluator says of a choice.

    Attributes:
        areas: mean area under the inclusion curves, of each candidate.
        gain: area of what was chosen less that of the first candidate, mean over inputs.
        gain_stderr: its standard error, paired over inputs; infinite for one input.
    """

    areas: tuple[float, ...]
    gain: float
    gain_stderr: float


@dataclass(frozen=True)
class ChosenWeights(Judgment):
    """A weighting chosen by inclusion curves, for a data set or for each input.

    Areas, gain and standard error are by the evaluator that it was chosen by, so they are optimistic: what to report is
    in `reported`, or better comes from inputs that were not chosen by.

    Attributes:
        weights: what was chosen; a list with one for each input if asked for.
        numbers: place of each input's weighting among the candidates.
        candidates: what it was chosen from; the first is what others are compared with.
        reported: what another evaluator says of the choice; None if none was given.
        inputs: number of inputs.
        calls: evaluations made to choose, inputs * candidates * (steps + 1); the reporter made as many.
    """

    weights: Semivalue | list[Semivalue]
    numbers: tuple[int, ...]
    candidates: tuple[Semivalue, ...]
    reported: Judgment | None
    inputs: int
    calls: int

    def __str__(self) -> str:
        made = f"{self.inputs} inputs, {self.calls:,} evaluations"
        if not any(self.numbers):  # so that a gain of 0 says nothing
            return f"{self.candidates[0]}: no other candidate has a larger inclusion area ({made})"
        told = self.reported or self
        source = "by another evaluator" if self.reported else "optimistic: by the evaluator that chose"
        chosen = "a weighting for each input" if isinstance(self.weights, list) else str(self.weights)
        gain = f"{told.gain:+.4f} ± {told.gain_stderr:.4f} in inclusion area over {self.candidates[0]}"
        return f"{chosen}: {gain} ({source}; {made})"


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

    For the data set, a curve is the share of inputs that keep the class that the model predicts. One input keeps it or
    not, and candidates would tie most of the time, so the choice for each input goes by the mean probability of that
    class along its curve. Ties go to the earlier candidate.

    It costs inputs * candidates * (steps + 1) evaluations of the surrogate; explaining is one pass for all candidates.

    Args:
        explainer: a fitted one that knows every weighting, of a model of classes.
        x: validation inputs: neither those it was trained on nor those to report on.
        candidates: the first is what the gain is over.
        per_input: choose for each input rather than for the data set.
        steps: points of a curve, besides the one at which nothing is shown.
        evaluator: what says the class of inputs of which a coalition is shown; by default the surrogate. It returns
            scores, and probabilities if per_input.
        reporter: another such evaluator, e.g. a classifier trained on masked inputs, whose verdict on the choice is to
            be reported. The area by which a weighting was chosen is optimistic.
        progress: show progress when it takes long: a bar on a terminal, lines elsewhere.

    Example:
        >>> chosen = choose_weights(explainer, x_valid, reporter=other)
        >>> explainer.explain(x_test, weights=chosen.weights)
        >>> own = choose_weights(explainer, x_test, per_input=True)
        >>> every = explainer.explain(x_test, weights=list(own.candidates)).values
        >>> every[list(own.numbers), range(len(x_test))]  # each input under its own weighting
    """
    several = _check(explainer, candidates)
    check_flag("per_input", per_input)
    for name, judge in (("evaluator", evaluator), ("reporter", reporter)):
        if judge is not None:
            check_callable(name, judge)
    explained = explainer.explain(x, weights=several, outputs="predicted")
    score: Score = "probability" if per_input else "kept"
    judges = [evaluator_of(explainer) if evaluator is None else evaluator, *([] if reporter is None else [reporter])]
    with ProgressBar("choosing weights", len(several) * len(judges), enabled=progress) as bar:
        found = [_areas_by(judge, explained, check_whole("steps", steps), score, bar) for judge in judges]
    best = (found[0] if per_input else found[0].mean(1, keepdim=True)).argmax(0)  # the first of equals
    own, *others = [_judge(each, best.expand(len(explained))) for each in found]
    return ChosenWeights(
        own.areas,
        own.gain,
        own.gain_stderr,
        weights=[several[each] for each in best.tolist()] if per_input else several[int(best)],
        numbers=tuple(best.expand(len(explained)).tolist()),
        candidates=tuple(several),
        reported=others[0] if others else None,
        inputs=len(explained),
        calls=len(explained) * len(several) * (steps + 1),
    )


def evaluator_of(explainer: FeatureExplainer) -> Evaluator:
    """Return what the surrogate says of coalitions: probabilities, also where the game is in log odds, or values."""
    masked = explainer.masked_model_

    def evaluate(x: Float[Tensor, "batch ..."], shown: Bool[Tensor, "batch players"]) -> Float[Tensor, "batch classes"]:
        worth = masked(x, shown[:, None])[:, 0]
        return worth.sigmoid() if masked.output in ("logit", "label_logit") else worth

    return evaluate


def _check(explainer: FeatureExplainer, candidates: Sequence[Semivalue]) -> list[Semivalue]:
    check_kind("explainer", explainer, FeatureExplainer)
    several = check_list("candidates", candidates)
    if isinstance(explainer.objective, Kernel):
        only, advice = explainer.objective.weights, "train one with objective='multilinear'"
        raise ValueError(f"this explainer knows {only} alone, so there is no choice: {advice}")  # noqa: TRY004 - no type
    output = explainer.masked_model_.output
    if KINDS[output] != "classes":
        raise ValueError(
            f"weights are chosen by which class an input keeps, and output={output!r} has no classes; "
            "compare weightings by a measure of your own"
        )
    return choose_weightings(explainer.objective, several)


def _areas_by(
    evaluator: Evaluator, explained: Attribution, steps: int, score: Score, bar: ProgressBar
) -> Float64[Tensor, "candidates batch"]:
    """Area under the curve of every input, under every candidate."""
    labels = explained.outputs[:, 0]
    x, found = explained.inputs.to(labels.device), []
    for values in explained.values[..., 0]:
        found.append(areas(inclusion_curves(evaluator, x, values, labels, steps=steps, score=score)))
        bar.advance(1)
    return torch.stack(found).cpu()


def _judge(found: Float64[Tensor, "candidates batch"], picked: Int[Tensor, " batch"]) -> Judgment:
    gains = found.gather(0, picked[None])[0] - found[0]
    stderr = float(gains.std()) / math.sqrt(len(gains)) if len(gains) > 1 else math.inf
    return Judgment(tuple(found.mean(1).tolist()), float(gains.mean()), stderr)
