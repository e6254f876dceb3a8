"""Can the explanations be relied on? Skill of the order of players, error of the values, and fidelity of the surrogate.

Skill compares orders of the players by the area under inclusion or exclusion curves: 0 for random orders, 1 for those
of long sampling. It is defined only if long sampling is clearly better than random orders.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from fwshapley._internal.checks import Array
from fwshapley.estimators.estimate import quantile
from fwshapley.explanation.learned.fidelity import MIN_AGREEMENT
from fwshapley.explanation.learned.quality import GOOD_ERROR, Score
from fwshapley.explanation.metrics import Evaluator, areas, exclusion_curves, inclusion_curves

if TYPE_CHECKING:
    from fwshapley.explanation.learned.feature_explainer import FeatureExplainer

STEPS = 16
"""Points of a curve after the first."""

Way = Literal["included", "excluded"]
"""Whether the most important players are shown first, or hidden first."""

NO_SKILL = 0.1
ENOUGH_SKILL = 0.5
"""Skill up to which an order may be random, and from which it has most of the gain of long sampling."""

ENOUGH_CORRELATION = 0.7
"""Correlation with the values of the game from which on the order of the players is to rely on."""

NO_VALUE = 0.95
"""Relative error from which on values are hardly better than zeros."""

SKILL_MEANING = (
    "Skill: how much of the gain of long sampling over random orders this explainer reaches (0: a random order, 1: "
    "long sampling)."
)
ERROR_MEANING = (
    "Relative error: root mean square error of the values, divided by their size (0: exact values, 1: as far off as "
    "zeros). Correlation: of the values with those of the surrogate's game, over players. Neither includes the noise "
    "of sampling."
)
AGREEMENT_MEANING = (
    "Agreement: share of the model's predictions (of their variance, for numbers) that the surrogate reproduces, on "
    "held-out inputs of the training or on these inputs, whichever is lower. The surrogate is a network that predicts "
    "from partial inputs in place of the model. The explanations are computed for it."
)

BETTER_VALUES = "Train longer, or correct them by sampled coalitions: explainer.refine or explainer.sample."

SMALL_GAP = 0.05
ENOUGH_INPUTS = 32
"""Gap in area below which orders count as equal, if it is measured on enough inputs."""

CLEAR_LEVEL = 0.995
"""Level of the interval that must lie above 0 for long sampling to be better than random orders. Orders that are equal
pass this with a probability of 0.25 %."""

MIN_DIFFERENT = 9
"""Fewest inputs whose areas must differ: fewer differences have the same sign by chance more often than that."""

_TINY = torch.finfo(torch.float64).tiny


@dataclass(frozen=True)
class OrderCurves:
    """Curves of each input for one order of its players.

    Attributes:
        included: whether the input keeps its class as players are shown.
        excluded: whether the input keeps its class as players are hidden.
    """

    included: Float64[Tensor, "inputs points"]
    excluded: Float64[Tensor, "inputs points"]

    def areas(self, way: Way) -> Float64[Tensor, " inputs"]:
        """Area of each input; the larger the better, also if players are hidden."""
        return areas(self.included) if way == "included" else 1 - areas(self.excluded)


@dataclass(frozen=True)
class Gap:
    """Gain in area of long sampling over random orders, mean over inputs.

    Attributes:
        value: the gain.
        stderr: its standard error over inputs; infinite for one input.
        inputs: number of inputs.
        different: number of inputs whose areas differ.
    """

    value: float
    stderr: float
    inputs: int
    different: int

    @property
    def is_clear(self) -> bool:
        """Whether long sampling is better beyond doubt, by Student's t."""
        if self.different < MIN_DIFFERENT:
            return False
        freedom = torch.tensor(self.inputs - 1, dtype=torch.float64)
        return self.value > float(quantile(CLEAR_LEVEL, freedom)) * self.stderr

    @property
    def is_small(self) -> bool:
        """Whether enough inputs show that long sampling is hardly better."""
        return self.inputs >= ENOUGH_INPUTS and self.value + 2 * self.stderr < SMALL_GAP

    def __str__(self) -> str:
        return f"{self.value:+.3f} ± {self.stderr:.3f}"


@dataclass(frozen=True)
class Skill:
    """Place of a method's area between that of random orders (0) and that of long sampling (1).

    Attributes:
        value: NaN if long sampling is not clearly better than random orders.
        stderr: its standard error over inputs.
    """

    value: float
    stderr: float

    @property
    def is_defined(self) -> bool:
        """Whether there is a clear gap to measure it by."""
        return not math.isnan(self.value)

    def __str__(self) -> str:
        return f"{self.value:.2f} ± {self.stderr:.2f}" if self.is_defined else "not defined"


class Verdict(NamedTuple):
    """Answer to the question whether explanations can be relied on, and the reasons in words."""

    answer: Literal["yes", "in part", "no", "not known"]
    reasons: str

    def __str__(self) -> str:
        return f"{self.answer.capitalize()}. {self.reasons}"


def draw_curves(
    evaluator: Evaluator,
    x: Float[Tensor, "inputs ..."],
    labels: Int[Tensor, " inputs"],
    methods: Mapping[str, Float[Tensor, "inputs players"]],
) -> dict[str, OrderCurves]:
    """Return the curves of each method's values."""
    x = x.to(labels.device)
    return {
        name: OrderCurves(
            inclusion_curves(evaluator, x, values, labels, steps=STEPS).cpu(),
            exclusion_curves(evaluator, x, values, labels, steps=STEPS).cpu(),
        )
        for name, values in methods.items()
    }


def measure_gap(random: OrderCurves, best: OrderCurves, way: Way = "included") -> Gap:
    """Gain of the best orders over random ones, paired over inputs."""
    gap = best.areas(way) - random.areas(way)
    stderr = float(gap.std()) / math.sqrt(len(gap)) if len(gap) > 1 else math.inf
    return Gap(float(gap.mean()), stderr, len(gap), int(gap.count_nonzero()))


def measure_skill(method: OrderCurves, random: OrderCurves, best: OrderCurves, way: Way = "included") -> Skill:
    """Skill of a method, with its standard error over inputs by the delta method."""
    gap = measure_gap(random, best, way)
    if not gap.is_clear:
        return Skill(math.nan, math.nan)
    area, low, high = (curves.areas(way) for curves in (method, random, best))
    value = float((area - low).mean()) / gap.value
    return Skill(value, float((area - low - value * (high - low)).std()) / (math.sqrt(gap.inputs) * gap.value))


def measure_reproduction(explainer: FeatureExplainer, x: Array) -> float | None:
    """Share of the model's predictions (of the variance of its values) that the surrogate reproduces; None if unknown.

    The lower of two measurements counts: on held-out inputs during training, and on x if it has at least 32 inputs. If
    `fit` did not train the surrogate, it is measured on x alone.
    """
    fidelity = explainer.fidelity_
    held_out: float | None = None
    if fidelity is not None:
        held_out = fidelity.explained if fidelity.agreement is None else fidelity.agreement
    predictions = explainer.predictions(x)
    count = len(predictions.surrogate)
    if predictions.model is None or count == 1 or (held_out is not None and count < ENOUGH_INPUTS):
        return held_out
    if predictions.differ is not None:
        on_x = 1 - float(predictions.differ.double().mean())
    else:
        model = predictions.model.double()
        residual = (model - predictions.surrogate).square().mean(0)
        on_x = float((1 - residual / model.var(0, correction=0).clamp(min=_TINY)).min().clamp(min=0))
    return on_x if held_out is None else min(held_out, on_x)


def judge_order(
    learned: OrderCurves,
    random: OrderCurves,
    best: OrderCurves,
    *,
    labels_given: bool,
    reproduction: float | None,
    score: Score,
) -> Verdict:
    """Judge explanations of classes, by inclusion, or by exclusion if inclusion is not conclusive.

    Hiding players that support the predicted class makes other classes more likely. If one class is frequent, this
    alone changes predictions away from given labels, even if these do not depend on the players. So for given labels,
    exclusion alone proves nothing.

    Args:
        learned: curves of the explainer's order.
        random: curves of random orders.
        best: curves of the orders of long sampling.
        labels_given: whether labels were given, rather than predicted by the model.
        reproduction: share of the model's predictions that the surrogate reproduces; None if unknown.
        score: of the values.
    """
    skill, exclusion_skill = (measure_skill(learned, random, best, way) for way in get_args(Way))
    if skill.is_defined:
        return judge(skill, reproduction=reproduction, score=score)
    shown, hidden = (measure_gap(random, best, way) for way in get_args(Way))
    gaps = f"gain over random orders: {shown} in inclusion area, {hidden} in exclusion area"
    if hidden.is_clear and not labels_given:
        answer, reasons = judge(exclusion_skill, reproduction=reproduction, score=score)
        return Verdict(
            answer,
            f"{reasons} Skill is measured by hiding the most important players first: showing them first does not "
            f"separate long sampling from random orders here ({gaps}).",
        )
    if hidden.is_clear:
        return Verdict(
            "not known",
            f"The result for these {shown.inputs} labels is not conclusive. Long sampling is better than random orders "
            "if players are hidden, which unequal class frequencies alone can cause, but not clearly if they are shown "
            f"({gaps}). "
            "Report on more inputs, and do not rely on the explanations until then.",
        )
    if shown.is_small and hidden.is_small:
        return Verdict(
            "no",
            "No order of the players has skill here: even the order of long sampling is no better than a random one "
            f"({gaps}). The labels do not depend on which players are shown.",
        )
    return Verdict(
        "not known",
        f"{shown.inputs} inputs are too few: long sampling may be better than random orders by chance ({gaps}). Report "
        "on more inputs, and do not rely on the explanations until then. If many inputs do not help, the labels do not "
        "depend on which players are shown.",
    )


def judge(skill: Skill | None, *, reproduction: float | None, score: Score) -> Verdict:
    """Judge explanations by the order of players, by correlation and error of the values, and by the surrogate.

    Args:
        skill: of the order; None for outputs that are not classes, which have no curves.
        reproduction: share of the model's predictions that the surrogate reproduces; None if unknown.
        score: of the values.
    """
    if skill is not None and not skill.value - 2 * skill.stderr > NO_SKILL:
        return Verdict("no", f"The learned order of the players may be no better than a random one: skill {skill}.")
    if reproduction is not None and reproduction < MIN_AGREEMENT:
        return Verdict(
            "no",
            f"The surrogate reproduces only {reproduction:.1%} of the model's predictions, and the explanations are of "
            "the surrogate. Train longer or on more inputs.",
        )
    if not math.isfinite(score.error):
        return Verdict(
            "not known",
            "The values are too small to be told from the noise of long sampling. Report on more inputs, or with more "
            "n_calls.",
        )
    if score.error >= NO_VALUE:
        return Verdict("no", f"The values are hardly better than zeros ({score}). {BETTER_VALUES}")
    has_order = score.correlation >= ENOUGH_CORRELATION and (skill is None or skill.value >= ENOUGH_SKILL)
    doubts = []
    if reproduction is None:
        doubts.append(
            "How well the surrogate reproduces the model is not known: load the explainer with model=... and report "
            "again."
        )
    if not has_order:
        by_skill = "" if skill is None else f"skill {skill}, "
        doubts.append(
            f"The order of the players is better than random, but far from that of long sampling ({by_skill}"
            f"correlation {score.correlation:.2f})."
        )
    if score.error > GOOD_ERROR:
        doubts.append(
            f"Do not rely on the sizes of the values: their error is {score.error:.2f} of their size. {BETTER_VALUES}"
        )
    if doubts:
        confirmed = ["You can rely on the order of the players."] if has_order else []
        return Verdict("in part", " ".join(confirmed + doubts))
    return Verdict("yes", f"You can rely on the order of the players and on the sizes of their values ({score}).")
