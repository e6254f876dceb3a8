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
from fwshapley.baselines import BASELINES, Baseline, baseline
from fwshapley.checks import Array, check_choice, check_whole
from fwshapley.choices import choose_weightings
from fwshapley.choosing import evaluator_of
from fwshapley.explainer import FeatureExplainer
from fwshapley.files import check_writable
from fwshapley.games.masking import KINDS, ManyPredictionsGame
from fwshapley.metrics import Evaluator, areas, exclusion_curves, inclusion_curves, measure_agreement
from fwshapley.montecarlo import least_squares_values
from fwshapley.objective import Kernel
from fwshapley.report import Report
from fwshapley.results import Attribution
from fwshapley.weights import Beta, Semivalue, Shapley

WEIGHTS = (Beta(alpha=16, beta=1), Beta(alpha=4, beta=1), Shapley(), Beta(alpha=1, beta=4))
STEPS = 16
BATCH = 64
LEAST_CALLS, MOST_CALLS, CALLS_PER_PLAYER = 512, 4096, 16

Way = Literal["included", "excluded"]
"""Whether the players that come first are shown, or hidden."""

SAMPLED, RANDOM = "long sampling", "random order"
NO_SKILL = 0.1
"""Skill below which explanations are called no better than chance."""

SMALL_GAP, ENOUGH_INPUTS = 0.05, 32
"""Area below which orders are called alike, if that is known from enough inputs."""


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
    """

    value: float
    stderr: float
    inputs: int

    @property
    def is_clear(self) -> bool:
        """Whether long sampling is better beyond doubt."""
        return self.value > 2 * self.stderr

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
    several = WEIGHTS if weights is None and not isinstance(explainer.objective, Kernel) else weights
    several = choose_weightings(explainer.objective, None if several is None else list(several))
    output, shown = explainer.masked.output, check_whole("shown", shown)
    check_writable(Path(path).parent)
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
    _add_agreement(page, explained, several, halves)
    if KINDS[output] == "classes":
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
        _add_curves(page, judged, several, unseen=judge is not None, given=labels is not None)
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
    masked, outputs = explainer.masked, explained.outputs
    game = ManyPredictionsGame(masked, explained.inputs.to(masked.device), outputs)
    runs = [
        least_squares_values(game, each, budget=calls, seed=number, batch_size=BATCH, progress=progress).values
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
    return Gap(float(gap.mean()), float(gap.std()) / math.sqrt(len(gap)) if len(gap) > 1 else math.inf, len(gap))


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
    for name in names:
        check_choice("against", name, tuple(BASELINES))
        taken = {option: value for option, value in options.items() if option in BASELINES[name].options}
        found.append(baseline(name, explainer, **taken))
    return found


def check_labels(labels: Int[Tensor, " inputs"] | Sequence[int], explained: Attribution) -> Int[Tensor, " inputs"]:
    """Return the classes of the inputs, one for each."""
    numbers, classes = torch.as_tensor(labels), len(explained.output_names)
    if numbers.is_floating_point() or numbers.shape != (len(explained),):
        shape = tuple(numbers.shape)
        raise ValueError(f"labels must be {len(explained)} numbers of classes, got {numbers.dtype} of shape {shape}")
    if bool(((numbers < 0) | (numbers >= classes)).any()):
        raise ValueError(f"labels must be between 0 and {classes - 1}, got {labels}")
    return numbers.to(explained.outputs)


def _reference(weights: Sequence[Semivalue]) -> int:
    """Which weighting the others are held against: Shapley, or the first."""
    return weights.index(Shapley()) if Shapley() in weights else 0


def _add_agreement(
    page: Report,
    explained: Attribution,
    weights: Sequence[Semivalue],
    halves: Float[Tensor, "2 weights inputs players outputs"],
) -> None:
    """Correlation with sampled values, beside what their own noise allows."""
    rows = []
    for each, values, first, second in zip(weights, explained.values, *halves, strict=True):
        mine, one, other = (part.transpose(1, 2).flatten(0, 1).cpu() for part in (values, first, second))
        found, between = measure_agreement(mine, (one + other) / 2), measure_agreement(one, other).pearson
        ceiling = math.sqrt(max(2 * between / (1 + between), 0.0))
        rows.append(
            [str(each), f"{found.pearson:.3f}", f"{ceiling:.3f}", f"{found.pearson_10:.3f}", f"{found.nrmse:.2f}"]
        )
    page.section("Agreement with long sampling").table(
        ["weighting", "correlation", "ceiling", "worst tenth", "error"],
        rows,
        "Correlation over players with values sampled from the same surrogate, mean over inputs and at their tenth "
        "percentile; the ceiling is what the noise of the sampled values allows. Error: root mean square, relative to "
        "the values' own.",
    )


def _add_curves(
    page: Report, judged: Mapping[str, Judged], weights: Sequence[Semivalue], *, unseen: bool, given: bool
) -> None:
    """Inclusion and exclusion curves, areas and skill, with a verdict in words."""
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
    page.section("Do the players that matter come first?").text(
        tell(judged[f"learned, {weights[_reference(weights)]}"], random, best, given=given)
    )
    page.table(
        ["order of the players", "inclusion area ↑", "exclusion area ↓", "skill", "skill in exclusion"],
        rows,
        f"Share of inputs that keep their class ({told}) as the first players are shown, or hidden; judged by {who}. "
        "Skill is 0 for random orders and 1 for those of long sampling; it is not defined where these are not clearly "
        "apart.",
    )
    curves = {name: (each.included.mean(0), each.excluded.mean(0)) for name, each in judged.items()}
    page.figure(
        plots.plot_curves(curves, bounds=(SAMPLED, RANDOM)),
        "The share of inputs that keep their class, by share of players.",
    )


def tell(learned: Judged, random: Judged, best: Judged, *, given: bool) -> str:
    """Say in words whether the learned order can be relied on: by inclusion, or by exclusion where that cannot tell.

    Hiding what speaks for the class predicted makes other classes likelier, and so by itself loses given labels where
    one class is frequent, whatever they depend on: by those, exclusion alone proves nothing.
    """
    skill, otherwise = (measure_skill(learned, random, best, way) for way in get_args(Way))
    if skill.is_known:
        return verdict(skill)
    shown, hidden = (measure_gap(random, best, way) for way in get_args(Way))
    gaps = f"better by {shown} in inclusion area, by {hidden} in exclusion area"
    if hidden.is_clear and not given:
        return (
            "Judged by what is hidden first, since what is shown first cannot tell long sampling from random orders "
            f"here ({gaps}). {verdict(otherwise)}"
        )
    if hidden.is_clear:
        return (
            f"Not known by these {shown.inputs} labels: long sampling beats random orders as players are hidden, which "
            f"unequal classes alone can bring about, but not clearly as they are shown ({gaps}). Give more. "
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


def verdict(skill: Skill) -> str:
    """Say in words what a skill that is known means."""
    if not skill.value - 2 * skill.stderr > NO_SKILL:
        return f"No: with a skill of {skill}, the learned order may be no better than a random one. Do not rely on it."
    return (
        f"Yes: the learned order has a skill of {skill}. Skill is about the order of players; how large their values "
        "are is another matter, on which the errors above tell."
    )


def _add_training(page: Report, explainer: FeatureExplainer) -> None:
    page.section("Surrogate and training")
    fidelity = explainer.fidelity
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
    trained = {name: each.validation for name, each in explainer.histories.items() if each.validation}
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
