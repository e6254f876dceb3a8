"""What an explainer is worth, and what it says, as one self-contained page: to be read before it is trusted."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from fwshapley import plots
from fwshapley._internal.checks import (
    Array,
    check_callable,
    check_choice,
    check_kind,
    check_list,
    check_seed,
    check_whole,
)
from fwshapley._internal.files import check_writable
from fwshapley._internal.html import Report
from fwshapley._internal.tensors import check_classes
from fwshapley.estimators import least_squares_values
from fwshapley.estimators.estimate import quantile
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.baselines import BASELINES, Baseline, baseline
from fwshapley.explanation.explainer import FeatureExplainer
from fwshapley.explanation.metrics import Evaluator, areas, exclusion_curves, inclusion_curves, measure_agreement
from fwshapley.explanation.options import choose_weightings
from fwshapley.explanation.semivalue_selection import evaluator_of
from fwshapley.games.masked_model import KINDS, ManyPredictionsGame
from fwshapley.objectives import Kernel
from fwshapley.semivalues import Beta, Semivalue, Shapley

WEIGHTS = (Beta(16, 1), Beta(4, 1), Shapley(), Beta(1, 4))
STEPS = 16
BATCH = 64
LEAST_CALLS, MOST_CALLS, CALLS_PER_PLAYER = 512, 4096, 16

_TINY = torch.finfo(torch.float64).tiny

Way = Literal["included", "excluded"]
"""Whether the players that come first are shown, or hidden."""

SAMPLED, RANDOM = "long sampling", "random order"
NO_SKILL, ENOUGH_SKILL = 0.1, 0.5
"""Skill below which an order is called no better than chance, and from which it has most of what sampling gains."""

ENOUGH_AGREEMENT = 0.9
"""Share of the model's predictions that its surrogate must reproduce: else one explanation in ten is of another."""

LARGE_ERROR = 0.5
"""Error of values relative to their own size above which they are not to be relied on: a quarter of their variance."""

SMALL_GAP, ENOUGH_INPUTS = 0.05, 32
"""Area below which orders are called alike, if that is known from enough inputs."""

CLEAR_LEVEL = 0.995
"""Of the interval that must lie above 0 for sampling to be called better than chance, which chance does 0.25 % of the
time."""

FEWEST_DIFFERENT = 9
"""Inputs that must differ for orders to be called apart: of fewer, chance makes all agree more often than that."""


@dataclass(frozen=True)
class Judged:
    """How inputs keep their labels as the players that a method ranks first are shown, or hidden.

    Attributes:
        included: curve of each input as players are shown.
        excluded: curve of each input as players are hidden.
    """

    included: Float64[Tensor, "inputs points"]
    excluded: Float64[Tensor, "inputs points"]

    def areas(self, way: Way) -> Float64[Tensor, " inputs"]:
        """Area of each input by which an order is judged: the larger the better, also of what is hidden."""
        return areas(self.included) if way == "included" else 1 - areas(self.excluded)


@dataclass(frozen=True)
class Gap:
    """How much more area the order of long sampling has than a random one, mean over inputs.

    Attributes:
        value: itself.
        stderr: its standard error over inputs; infinite for one.
        inputs: their number.
        different: of how many of them the areas differ.
    """

    value: float
    stderr: float
    inputs: int
    different: int

    @property
    def is_clear(self) -> bool:
        """Whether long sampling is better beyond doubt, by Student's t."""
        if self.different < FEWEST_DIFFERENT:
            return False
        freedom = torch.tensor(self.inputs - 1, dtype=torch.float64)
        return self.value > float(quantile(CLEAR_LEVEL, freedom)) * self.stderr

    @property
    def is_small(self) -> bool:
        """Whether it is known that long sampling is hardly better, rather than not known that it is."""
        return self.inputs >= ENOUGH_INPUTS and self.value + 2 * self.stderr < SMALL_GAP

    def __str__(self) -> str:
        return f"{self.value:+.3f} ± {self.stderr:.3f}"


@dataclass(frozen=True)
class Skill:
    """Where the area of a method lies between random orders (0) and long sampling (1).

    Attributes:
        value: nan where long sampling is not clearly better than random.
        stderr: its standard error over inputs.
    """

    value: float
    stderr: float

    @property
    def is_known(self) -> bool:
        """Whether there is a gap to tell it by."""
        return not math.isnan(self.value)

    def __str__(self) -> str:
        return f"{self.value:.2f} ± {self.stderr:.2f}" if self.is_known else "not defined"


def write_report(
    explainer: FeatureExplainer,
    x: Array,
    path: str | Path,
    *,
    labels: Int[Tensor, " inputs"] | Sequence[int] | None = None,
    weights: Sequence[Semivalue] | None = None,
    judge: Evaluator | None = None,
    against: Sequence[str] = (),
    examples: Array | None = None,
    calls: int | None = None,
    shown: int = 6,
    seed: int = 0,
    progress: bool = True,
) -> Path:
    """Write a page on an explainer: how good its explanations are, some of them, its surrogate and its training.

    It is measured against long sampling, which costs 2 * calls evaluations of the surrogate for each input and
    weighting.

    Args:
        explainer: a fitted one.
        x: inputs that it was not trained on; some dozens do.
        path: of the .html file.
        labels: classes to be kept as players are shown; by default those that the model predicts.
        weights: weightings to show; by default four, or the one that it knows.
        judge: what says the class of inputs of which a coalition is shown; by default the surrogate, which the
            explainer was trained by. A second surrogate that it has never seen is fairer.
        against: other methods of `baselines.BASELINES` to compare with.
        examples: other inputs, which "class mean" averages over.
        calls: of each of two runs of sampling; by default 16 a player, from 512 to 4096.
        shown: number of inputs in the gallery.
        seed: of everything random.
        progress: show progress bars.
    """
    check_kind("explainer", explainer, FeatureExplainer)
    if judge is not None:
        check_callable("judge", judge)
    calls, seed = None if calls is None else check_whole("calls", calls), check_seed(seed)
    wanted_weights = WEIGHTS if weights is None and not isinstance(explainer.objective, Kernel) else weights
    several = choose_weightings(explainer.objective, wanted_weights)
    output, shown = explainer.masked_model_.output, check_whole("shown", shown)
    if Path(path).is_dir():
        raise IsADirectoryError(f"path={str(path)!r} is a folder: give the path of an .html file")
    check_writable(Path(path).parent, "path")
    others = find_methods(explainer, against, examples=examples, seed=seed)
    outputs: Literal["predicted", "all"] = "predicted" if KINDS[output] == "classes" else "all"
    explained = explainer.explain(x, weights=several, outputs=outputs)
    wanted = explained.outputs[:, 0] if labels is None else check_labels(labels, explained)
    began = time.perf_counter()  # of a second time, when all is warm
    explainer.explain(x, weights=several, outputs=outputs).to("cpu")
    took = (time.perf_counter() - began) / len(explained)
    halves = sample_halves(explainer, explained, several, calls=calls, seed=seed, progress=progress)
    page = Report(
        f"Explanations of {type(explainer.model).__name__}",
        f"{explained.players.n_players} players, {len(explained.output_names)} outputs, what a coalition is worth: "
        f"{output}. {len(explained)} inputs explained under {len(several)} weightings, {1e3 * took:.2f} ms each.",
    )
    reproduced, error = measure_reproduced(explainer, x), _measure_error(explained, halves, _reference(several))
    page.section("Can the explanations be relied on?")
    if KINDS[output] != "classes":
        page.text(verdict(None, reproduced=reproduced, error=error))
        _add_agreement(page, explained, several, halves)
    else:
        methods = {f"learned, {each}": one[..., 0] for each, one in zip(several, explained.values, strict=True)}
        for other in others:
            found = other.explain(x, outputs=explained.outputs, progress=progress)
            methods[other.name if str(found.weights) == other.name else f"{other.name}, {found.weights}"] = (
                found.values[..., 0]
            )
        methods[SAMPLED] = halves.mean(0)[_reference(several), ..., 0]
        shuffled = torch.rand(methods[SAMPLED].shape, generator=torch.Generator().manual_seed(seed))
        methods[RANDOM] = shuffled.to(wanted.device)
        judged = judge_methods(judge or evaluator_of(explainer), explained.inputs, wanted, methods)
        learned = judged[f"learned, {several[_reference(several)]}"]
        given = labels is not None
        page.text(tell(learned, judged[RANDOM], judged[SAMPLED], given=given, reproduced=reproduced, error=error))
        _add_agreement(page, explained, several, halves)
        _add_curves(page, judged, unseen=judge is not None, given=given)
    page.section("Explanations").figure(
        explained.plot(shown), "Red or orange speaks for the output, blue against it; a column for each weighting."
    )
    _add_training(page, explainer)
    _add_provenance(page, explained)
    return page.write(path)


def sample_halves(
    explainer: FeatureExplainer,
    explained: Attribution,
    weights: Sequence[Semivalue],
    *,
    calls: int | None,
    seed: int,
    progress: bool,
) -> Float[Tensor, "2 weights inputs players outputs"]:
    """Values of the same outputs by two independent runs of least squares."""
    calls = calls or choose_calls(explained.players.n_players)
    masked, outputs = explainer.masked_model_, explained.outputs
    game = ManyPredictionsGame(masked, explained.inputs.to(masked.device), outputs)
    runs = [
        least_squares_values(game, each, n_calls=calls, seed=number, batch_size=BATCH, progress=progress).values
        for number in (seed + 1, seed + 2)
        for each in weights
    ]
    several = torch.stack(runs).unflatten(0, (2, len(weights))).float()
    return several.reshape(*several.shape[:3], *outputs.shape).transpose(2, 3)


def choose_calls(n_players: int) -> int:
    """Calls of a run of sampling, where nobody says otherwise."""
    return min(max(CALLS_PER_PLAYER * n_players, LEAST_CALLS), MOST_CALLS)


def judge_methods(
    evaluator: Evaluator,
    x: Float[Tensor, "inputs ..."],
    labels: Int[Tensor, " inputs"],
    methods: Mapping[str, Float[Tensor, "inputs players"]],
) -> dict[str, Judged]:
    """Curves of each method's values."""
    x = x.to(labels.device)
    judged = {}
    for name, values in methods.items():
        included = inclusion_curves(evaluator, x, values, labels, steps=STEPS)
        judged[name] = Judged(included.cpu(), exclusion_curves(evaluator, x, values, labels, steps=STEPS).cpu())
    return judged


def measure_gap(random: Judged, best: Judged, way: Way = "included") -> Gap:
    """How much better the best orders are than random ones, paired over inputs."""
    gap = best.areas(way) - random.areas(way)
    stderr = float(gap.std()) / math.sqrt(len(gap)) if len(gap) > 1 else math.inf
    return Gap(float(gap.mean()), stderr, len(gap), int(gap.count_nonzero()))


def measure_skill(method: Judged, random: Judged, best: Judged, way: Way = "included") -> Skill:
    """Skill of a method, with its standard error over inputs by the delta method.

    Not defined for one input, nor where the best orders are not clearly better than random ones.
    """
    gap = measure_gap(random, best, way)
    if not gap.is_clear:
        return Skill(math.nan, math.nan)
    area, low, high = (each.areas(way) for each in (method, random, best))
    value = float((area - low).mean()) / gap.value
    return Skill(value, float((area - low - value * (high - low)).std()) / (math.sqrt(gap.inputs) * gap.value))


def find_methods(
    explainer: FeatureExplainer, names: Sequence[str], *, examples: Array | None, seed: int
) -> list[Baseline]:
    """Return other methods, with the options that they take."""
    options = {"seed": seed} if examples is None else {"seed": seed, "examples": examples}
    found = []
    for name in check_list("against", names):
        check_choice("against", name, tuple(BASELINES))
        taken = {option: value for option, value in options.items() if option in BASELINES[name].options}
        found.append(baseline(name, explainer, **taken))
    return found


def check_labels(labels: Int[Tensor, " inputs"] | Sequence[int], explained: Attribution) -> Int[Tensor, " inputs"]:
    """Return the classes of the inputs, one for each."""
    numbers = check_classes("labels", labels, len(explained.output_names))
    if len(numbers) != len(explained):
        raise ValueError(f"labels must be {len(explained)} numbers of classes, one for each input, got {len(numbers)}")
    return numbers.to(explained.outputs)


def _reference(weights: Sequence[Semivalue]) -> int:
    """Which weighting the others are held against: Shapley, or the first."""
    return weights.index(Shapley()) if Shapley() in weights else 0


def relative_error(
    values: Float[Tensor, "inputs players"],
    one: Float[Tensor, "inputs players"],
    other: Float[Tensor, "inputs players"],
) -> float:
    """Root mean square error of values relative to their true size, both centered over players.

    Of two independent estimates of the truth, the mean of (values - one) (values - other) is the squared error without
    their noise. Infinite where the two have nothing in common.
    """
    v, a, b = (each.double() - each.double().mean(1, keepdim=True) for each in (values, one, other))
    size = float((a * b).sum())
    return math.sqrt(max(float(((v - a) * (v - b)).sum()), 0.0) / size) if size > 0 else math.inf


def _measure_error(
    explained: Attribution, halves: Float[Tensor, "2 weights inputs players outputs"], number: int
) -> float:
    """Return the relative error of one of the weightings."""
    parts = (explained.values[number], *halves[:, number])
    return relative_error(*(part.transpose(1, 2).flatten(0, 1).cpu() for part in parts))


def _add_agreement(
    page: Report,
    explained: Attribution,
    weights: Sequence[Semivalue],
    halves: Float[Tensor, "2 weights inputs players outputs"],
) -> None:
    """Correlation with sampled values, beside what their own noise allows."""
    rows = []
    for number, (each, values, first, second) in enumerate(zip(weights, explained.values, *halves, strict=True)):
        mine, one, other = (part.transpose(1, 2).flatten(0, 1).cpu() for part in (values, first, second))
        found, between = measure_agreement(mine, (one + other) / 2), measure_agreement(one, other).pearson
        ceiling = math.sqrt(max(2 * between / (1 + between), 0.0))
        error = _measure_error(explained, halves, number)
        rows.append([str(each), f"{found.pearson:.3f}", f"{ceiling:.3f}", f"{found.pearson_10:.3f}", f"{error:.2f}"])
    page.section("Agreement with long sampling").table(
        ["weighting", "correlation", "ceiling", "worst tenth", "error"],
        rows,
        "Correlation over players with values sampled from the same surrogate, mean over inputs and at their tenth "
        "percentile; the ceiling is what the noise of the sampled values allows. Error: root mean square, relative to "
        "the size of the values, without that noise.",
    )


def measure_reproduced(explainer: FeatureExplainer, x: Array) -> float | None:
    """Share of the model's decisions, or of the variance of its values, that the surrogate has; None if not known.

    As it was measured on inputs held out in training. The inputs to report on, if there are many, may lower it; they
    are all that is known where the surrogate was not trained here.
    """
    fidelity = explainer.fidelity_
    held_out = None if fidelity is None else fidelity.agreement if fidelity.explained is None else fidelity.explained
    said = explainer.predictions(x)
    if said.model is None or (held_out is not None and len(said.surrogate) < ENOUGH_INPUTS):
        return held_out
    if said.differ is not None:
        here = 1 - float(said.differ.double().mean())
    elif len(said.surrogate) > 1:
        model, left = said.model.double(), (said.model - said.surrogate).double()
        here = float((1 - left.square().mean(0) / model.var(0, correction=0).clamp(min=_TINY)).min().clamp(min=0))
    else:
        return held_out
    return here if held_out is None else min(held_out, here)


def _add_curves(page: Report, judged: Mapping[str, Judged], *, unseen: bool, given: bool) -> None:
    """Inclusion and exclusion curves, areas and skill."""
    random, best = judged[RANDOM], judged[SAMPLED]
    bounds = {SAMPLED: "1", RANDOM: "0"}
    rows = [
        [
            name,
            f"{float(areas(each.included).mean()):.3f}",
            f"{float(areas(each.excluded).mean()):.3f}",
            *(bounds.get(name) or str(measure_skill(each, random, best, way)) for way in get_args(Way)),
        ]
        for name, each in judged.items()
    ]
    told = "given labels" if given else "the model's predictions"
    who = "a judge that the explainer has not seen" if unseen else "the surrogate that the explainer was trained by"
    page.section("Do the players that matter come first?").table(
        ["order of the players", "inclusion area ↑", "exclusion area ↓", "skill", "skill in exclusion"],
        rows,
        f"Share of inputs that keep their class ({told}) as the first players are shown, or hidden; judged by {who}. "
        "Skill is 0 for random orders and 1 for those of long sampling; it is not defined where these are not clearly "
        "apart.",
    )
    curves = {name: (each.included.mean(0).numpy(), each.excluded.mean(0).numpy()) for name, each in judged.items()}
    page.figure(
        plots.plot_curves(curves, bounds=(SAMPLED, RANDOM)),
        "The share of inputs that keep their class, by share of players.",
    )


def tell(learned: Judged, random: Judged, best: Judged, *, given: bool, reproduced: float | None, error: float) -> str:
    """Say in words whether explanations can be relied on.

    The order is judged by inclusion, or by exclusion where that cannot tell.
    Hiding what speaks for the class predicted makes other classes likelier, and so by itself loses given labels where
    one class is frequent, whatever they depend on: by those, exclusion alone proves nothing.

    Args:
        learned: curves of the explainer's order.
        random: curves of random orders.
        best: curves of the orders of long sampling.
        given: whether labels were given, rather than predicted by the model.
        reproduced: share of the model's predictions that the surrogate reproduces; None if not known.
        error: of the values, relative to their own size.
    """
    skill, otherwise = (measure_skill(learned, random, best, way) for way in get_args(Way))
    if skill.is_known:
        return verdict(skill, reproduced=reproduced, error=error)
    shown, hidden = (measure_gap(random, best, way) for way in get_args(Way))
    gaps = f"better by {shown} in inclusion area, by {hidden} in exclusion area"
    if hidden.is_clear and not given:
        return (
            f"{verdict(otherwise, reproduced=reproduced, error=error)} The order is judged by what is hidden first, "
            f"since what is shown first cannot tell long sampling from random orders here ({gaps})."
        )
    if hidden.is_clear:
        return (
            f"Not known by these {shown.inputs} labels: long sampling beats random orders as players are hidden, which "
            f"unequal classes alone can bring about, but not clearly as they are shown ({gaps}). Give more inputs. "
            "Do not rely on it until then."
        )
    if shown.is_small and hidden.is_small:
        return (
            "There is nothing to tell apart: players shown, or hidden, in the order of long sampling do no better than "
            f"in a random one ({gaps}), so these labels do not depend on which players are shown, and no explanation "
            "of them has skill."
        )
    return (
        f"Too few inputs to tell ({shown.inputs}): long sampling may be ahead of random orders by chance ({gaps}). "
        "Give more. Do not rely on it until then: where many do not help, labels do not depend on which players are "
        "shown."
    )


def verdict(skill: Skill | None, *, reproduced: float | None, error: float) -> str:
    """Say in words what can be relied on: the order of players, the sizes of their values, of the model or not.

    Args:
        skill: of the order, where it is known; None where outputs are no classes, so that there are no curves.
        reproduced: share of the model's predictions that the surrogate reproduces; None if not known.
        error: of the values, relative to their own size.
    """
    order = "" if skill is None else f"a skill of {skill}"
    if skill is not None and not skill.value - 2 * skill.stderr > NO_SKILL:
        return f"No: with {order}, the learned order may be no better than a random one. Do not rely on it."
    if reproduced is not None and reproduced < ENOUGH_AGREEMENT:
        return (
            f"No: the surrogate reproduces {reproduced:.1%} of the model's predictions, less than "
            f"{ENOUGH_AGREEMENT:.0%}. Explanations are of the surrogate: do not rely on them for the model. Train "
            "longer or on more inputs."
        )
    doubts = []
    if reproduced is None:
        doubts.append(
            "they hold for the surrogate, and how well it stands in for the model is not known: load the explainer "
            "with its model and report again"
        )
    if skill is not None and skill.value < ENOUGH_SKILL:
        doubts.append("the order is better than a random one, but far from that of long sampling: train longer")
    if not error <= LARGE_ERROR:
        doubts.append(
            f"do not rely on the sizes of values, whose error is {error:.2f} of their own size: correct them with "
            "explainer.refine, or train longer"
        )
    measured = ", ".join(filter(None, [order, f"an error of {error:.2f}"]))
    if doubts:
        return f"In part: explanations have {measured}, but {'; '.join(doubts)}."
    of_order = "order of players and the " if skill is not None else ""
    return (
        f"Yes: rely on the {of_order}sizes of values. Explanations have {measured} of the values' own size, and the "
        f"surrogate reproduces {reproduced:.1%} of the model's predictions."
    )


def _add_training(page: Report, explainer: FeatureExplainer) -> None:
    page.section("Surrogate and training")
    fidelity = explainer.fidelity_
    if fidelity is None:
        page.text("The surrogate was not trained here, so that how well it stands in for the model is not known.")
    else:
        told = str(fidelity)
        page.text(
            f"{told[0].upper()}{told[1:]}. With nothing shown, it is {fidelity.prior_distance:.3g} away from the "
            "model's mean prediction."
        )
        page.figure(
            plots.plot_fidelity(fidelity.divergence),
            "How far the surrogate is from the model's prediction for the whole input, by the share of players shown. "
            "What is hidden cannot be known, so the left end is not an error.",
        )
    trained = {name: each.validation for name, each in explainer.histories_.items() if each.validation}
    if trained:
        page.figure(plots.plot_training(trained), "Loss on held-out inputs during training.")


def _add_provenance(page: Report, explained: Attribution) -> None:
    facts = {name: value for name, value in explained.provenance.items() if name != "fidelity"}
    training = facts.pop("training", {})
    rows = [[name, value if isinstance(value, str) else json.dumps(value)] for name, value in facts.items()]
    page.section("Provenance").table(["fact", "value"], rows)
    if training:
        parts = [
            [name, f"{part['steps']:,}", f"{part['seconds']:.1f}", part["stopped"]] for name, part in training.items()
        ]
        page.table(["part trained", "steps", "seconds", "ended by"], parts)
