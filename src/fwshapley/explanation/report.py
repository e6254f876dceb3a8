"""A self-contained HTML page on an explainer: whether to rely on it, some explanations, its surrogate and training."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fwshapley import plots
from fwshapley._internal.checks import (
    Array,
    check_callable,
    check_choice,
    check_kind,
    check_list,
    check_path,
    check_seed,
    check_whole,
)
from fwshapley._internal.files import check_writable
from fwshapley._internal.html import Report
from fwshapley._internal.tensor_checks import check_classes
from fwshapley._internal.wording import counted, duration
from fwshapley.coalitions import make_generator
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.baselines import BASELINES, Baseline, baseline
from fwshapley.explanation.learned.feature_explainer import FeatureExplainer
from fwshapley.explanation.learned.fidelity import MIN_AGREEMENT, Fidelity
from fwshapley.explanation.learned.quality import GOOD_ERROR, Score
from fwshapley.explanation.learned.reliability import (
    AGREEMENT_MEANING,
    ENOUGH_CORRELATION,
    ENOUGH_SKILL,
    ERROR_MEANING,
    SKILL_MEANING,
    OrderCurves,
    Skill,
    Way,
    draw_curves,
    judge,
    judge_order,
    measure_reproduction,
    measure_skill,
)
from fwshapley.explanation.learned.sampled_values import sample_values
from fwshapley.explanation.metrics import Evaluator, measure_agreement
from fwshapley.explanation.pictures.report_pictures import add_pictures
from fwshapley.explanation.semivalue_selection import surrogate_evaluator
from fwshapley.games.scales import KINDS, Output
from fwshapley.objectives import Kernel
from fwshapley.semivalues import Beta, Semivalue, Shapley

WEIGHTS = (Beta(16, 1), Beta(4, 1), Shapley(), Beta(1, 4))
"""Weightings of a report by default."""

MIN_CALLS = 512
MAX_CALLS = 4096
CALLS_PER_PLAYER = 16

LONG_SAMPLING = "long sampling"
RANDOM_ORDER = "random order"

SCALES: dict[Output, str] = {
    "probability": "probabilities of classes",
    "logit": "log odds of classes",
    "label_probability": "probabilities of labels",
    "label_logit": "log odds of labels",
    "raw": "the model's outputs",
}
"""The scale of the values, in words."""


class Evidence(NamedTuple):
    """What a report measured.

    Attributes:
        explained: values of the explainer, for each of the weightings.
        halves: the same values by two independent runs of long sampling.
        reference: index of the weighting that methods are compared under.
        n_calls: surrogate evaluations of each run.
        reproduction: share of the model's predictions that the surrogate reproduces; None if unknown.
    """

    explained: Attribution
    halves: Float[Tensor, "2 weights inputs players outputs"]
    reference: int
    n_calls: int
    reproduction: float | None

    def score(self, number: int) -> Score:
        """Agreement of the explainer's values with those of the game under one of the weightings."""
        return Score.of(*(values[number] for values in (self.explained.values, *self.halves)))


def write_report(
    explainer: FeatureExplainer,
    x: Array,
    path: str | Path,
    *,
    labels: Int[Tensor, " inputs"] | Sequence[int] | None = None,
    weights: Semivalue | Sequence[Semivalue] | None = None,
    evaluator: Evaluator | None = None,
    baselines: Sequence[str] = (),
    examples: Array | None = None,
    n_calls: int | None = None,
    n_shown: int = 6,
    seed: int = 0,
    progress: bool = True,
) -> Path:
    """Write an HTML page on an explainer: whether to rely on it, some explanations, its surrogate and its training.

    Explanations are compared with long sampling, which evaluates the surrogate 2 * n_calls times for each input and
    weighting.

    Args:
        explainer: a fitted explainer.
        x: inputs that it was not trained on; a few dozen are enough.
        path: of the .html file.
        labels: classes that inputs should keep as players are shown; by default those that the model predicts.
        weights: a semivalue or a list of them; by default four, or the one that was learned.
        evaluator: predicts the classes of partial inputs; by default the surrogate that the explainer was trained
            with. A second surrogate that the explainer has never used is fairer.
        baselines: names of other methods to compare with, out of `baselines.BASELINES`.
        examples: inputs that the baseline "class_mean" averages over.
        n_calls: surrogate evaluations of each of two runs of sampling; by default 16 per player, from 512 to 4096.
        n_shown: number of inputs whose explanations are drawn.
        seed: of everything random.
        progress: show progress if it takes long: a bar on a terminal, lines elsewhere.

    Example:
        >>> import tempfile
        >>> x = torch.randn(96, 4)
        >>> explainer = fw.FeatureExplainer(torch.nn.Linear(4, 2)).fit(x, budget=fw.Budget(steps=20), progress=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = fw.write_report(explainer, x[:8], f"{folder}/report.html", n_calls=16, progress=False)
        ...     page.stat().st_size > 10_000
        True
    """
    check_kind("explainer", explainer, FeatureExplainer)
    fitted = explainer.fitted_
    fitted.check_same_players("write_report")
    if evaluator is not None:
        check_callable("evaluator", evaluator)
    n_calls = long_calls(fitted.players.n_players) if n_calls is None else check_whole("n_calls", n_calls)
    n_shown, seed, path = check_whole("n_shown", n_shown), check_seed(seed), check_path("path", path)
    learns_all = not isinstance(fitted.objective, Kernel)
    weightings = fitted.check_weights(list(WEIGHTS) if weights is None and learns_all else weights)
    if path.is_dir():
        raise IsADirectoryError(f"path must be an .html file, and {path} is a folder")
    check_writable(path.parent, "path")
    methods = _make_baselines(explainer, baselines, examples=examples, seed=seed)

    has_classes = KINDS[fitted.masked_model.output] == "classes"
    outputs = "predicted" if has_classes else "all"
    explained = explainer.explain(x, weights=weightings, outputs=outputs)
    labels_given = labels is not None
    classes = _check_labels(labels, explained) if labels_given else explained.outputs[:, 0]
    began = time.perf_counter()  # of a second run, when caches are warm
    explainer.explain(x, weights=weightings, outputs=outputs).to("cpu")
    seconds = (time.perf_counter() - began) / len(explained)
    evidence = Evidence(
        explained,
        sample_twice(explainer, explained, n_calls=n_calls, seed=seed, progress=progress),
        reference=weightings.index(Shapley()) if Shapley() in weightings else 0,
        n_calls=n_calls,
        reproduction=measure_reproduction(explainer, x),
    )
    page = Report(
        f"Explanations of {_name_of(explainer)}",
        f"{explained.players.n_players} players (features that get a value), {len(explained.output_names)} outputs, "
        f"values on the scale of {SCALES[fitted.masked_model.output]}. {len(explained)} inputs were explained under "
        f"{counted(len(weightings), 'weighting')} of coalition sizes, in {duration(seconds)} each.",
    )
    page.section("Can you rely on the explanations?")
    if has_classes:
        orders = _rank_players(x, evidence, methods, seed=seed, progress=progress)
        curves = draw_curves(evaluator or surrogate_evaluator(fitted.masked_model), explained.inputs, classes, orders)
        learned = curves[_learned(weightings[evidence.reference])]
        _add_class_verdict(page, evidence, learned, curves, explainer.fidelity_, labels_given=labels_given)
        _add_agreement(page, evidence)
        _add_curves(page, curves, labels_given=labels_given, unseen=evaluator is not None)
    else:
        score = evidence.score(evidence.reference)
        page.text(str(judge(None, reproduction=evidence.reproduction, score=score)))
        _add_checks(page, evidence, None, explainer.fidelity_)
        _add_agreement(page, evidence)
    add_pictures(page, explainer, explained, weightings[evidence.reference], n_shown=n_shown)
    _add_training(page, explainer)
    _add_provenance(page, explained)
    return page.write(path)


def _name_of(explainer: FeatureExplainer) -> str:
    """Return the class of the model, or the name of a function."""
    return (
        "a model"
        if explainer.fitted_.model is None
        else getattr(explainer.model, "__name__", type(explainer.model).__name__)
    )


def long_calls(n_players: int) -> int:
    """Number of calls of a run of long sampling, unless given."""
    return min(max(CALLS_PER_PLAYER * n_players, MIN_CALLS), MAX_CALLS)


def sample_twice(
    explainer: FeatureExplainer, explained: Attribution, *, n_calls: int, seed: int, progress: bool
) -> Float[Tensor, "2 weights inputs players outputs"]:
    """Values of an attribution's outputs by two independent samplings."""
    masked = explainer.fitted_.masked_model
    x, outputs = explained.inputs.to(masked.device), explained.outputs.to(masked.device)
    generator = make_generator(seed, masked.device)
    options: dict[str, Any] = {"n_calls": n_calls, "generator": generator, "progress": progress}
    halves = [
        [sample_values(masked, x, outputs, [weighting], **options).values[0] for weighting in explained.weightings]
        for _ in range(2)
    ]
    return torch.stack([torch.stack(half) for half in halves]).float()


def _make_baselines(
    explainer: FeatureExplainer, names: Sequence[str], *, examples: Array | None, seed: int
) -> list[Baseline]:
    """Return other methods, with the options that they have."""
    options = {"seed": seed} if examples is None else {"seed": seed, "examples": examples}
    methods = []
    for name in check_list("baselines", names):
        check_choice("baselines", name, tuple(BASELINES))
        accepted = {option: value for option, value in options.items() if option in BASELINES[name].options}
        methods.append(baseline(name, explainer, **accepted))
    return methods


def _check_labels(
    labels: Int[Tensor, " inputs"] | Sequence[int] | None, explained: Attribution
) -> Int[Tensor, " inputs"]:
    """Return the classes of the inputs, one for each."""
    numbers = check_classes("labels", labels, len(explained.output_names))
    if len(numbers) != len(explained):
        raise ValueError(f"labels must be {len(explained)} class numbers, one for each input, got {len(numbers)}")
    return numbers.to(explained.outputs)


def _rank_players(
    x: Array, evidence: Evidence, baselines: Sequence[Baseline], *, seed: int, progress: bool
) -> dict[str, Float[Tensor, "inputs players"]]:
    """Return values of the explainer, of other methods, of long sampling and of random orders, by name."""
    explained = evidence.explained
    pairs = zip(explained.weightings, explained.values, strict=True)
    orders = {_learned(weighting): values[..., 0] for weighting, values in pairs}
    for method in baselines:
        attribution = method.explain(x, outputs=explained.outputs, progress=progress)
        weighting = str(attribution.weights)  # the method's name, if it does not weigh coalitions
        name = method.name if weighting == method.name else f"{method.name}, {weighting}"
        orders[name] = attribution.values[..., 0]
    orders[LONG_SAMPLING] = evidence.halves.mean(0)[evidence.reference, ..., 0]
    shuffled = torch.rand(orders[LONG_SAMPLING].shape, generator=torch.Generator().manual_seed(seed))
    orders[RANDOM_ORDER] = shuffled.to(explained.outputs.device)
    return orders


def _learned(weights: Semivalue) -> str:
    """Return the name of the explainer's own values in tables."""
    return f"this explainer, {weights}"


def _by_input(values: Float[Tensor, "inputs players outputs"]) -> Float[Tensor, "inputs*outputs players"]:
    """Return values with a row for every output of every input."""
    return values.transpose(1, 2).flatten(0, 1).cpu()


def _add_class_verdict(
    page: Report,
    evidence: Evidence,
    learned: OrderCurves,
    curves: dict[str, OrderCurves],
    fidelity: Fidelity | None,
    *,
    labels_given: bool,
) -> None:
    random, best = curves[RANDOM_ORDER], curves[LONG_SAMPLING]
    score = evidence.score(evidence.reference)
    verdict = judge_order(
        learned, random, best, labels_given=labels_given, reproduction=evidence.reproduction, score=score
    )
    page.text(str(verdict))
    _add_checks(page, evidence, measure_skill(learned, random, best), fidelity)


def _add_checks(page: Report, evidence: Evidence, skill: Skill | None, fidelity: Fidelity | None) -> None:
    """The numbers behind the verdict, and what they mean."""
    reproduction = "not known" if evidence.reproduction is None else f"{evidence.reproduction:.1%}"
    score = evidence.score(evidence.reference)
    rows = [
        ["relative error of the values", f"{score.error:.2f} ± {score.stderr:.2f}", f"at most {GOOD_ERROR:g}"],
        ["correlation of the values", f"{score.correlation:.2f}", f"at least {ENOUGH_CORRELATION:g}"],
        ["agreement of surrogate and model", reproduction, f"at least {MIN_AGREEMENT:.0%}"],
    ]
    if fidelity is not None:
        explained = f"{max(fidelity.explained, 0):.1%}, off by {fidelity.error:.2g} on average"
        rows.append(["variance of the model that the surrogate explains", explained, f"at least {MIN_AGREEMENT:.0%}"])
    meanings = [ERROR_MEANING, AGREEMENT_MEANING]
    if skill is not None:
        rows.insert(0, ["skill of the order of players", str(skill), f"at least {ENOUGH_SKILL:g}"])
        meanings.insert(0, SKILL_MEANING)
    weighting = evidence.explained.weightings[evidence.reference]
    how = f"Measured for {weighting} values by long sampling ({2 * evidence.n_calls:,} random coalitions per input)."
    page.table(["check", "result", "needed"], rows, how)
    for meaning in meanings:
        page.text(meaning)


def _add_agreement(page: Report, evidence: Evidence) -> None:
    """Correlation with sampled values, beside the highest one that their noise allows."""
    rows = []
    explained = evidence.explained
    for number, weighting in enumerate(explained.weightings):
        values, one, other = (_by_input(part[number]) for part in (explained.values, *evidence.halves))
        agreement = measure_agreement(values, (one + other) / 2)
        between = measure_agreement(one, other).pearson
        highest = math.sqrt(max(2 * between / (1 + between), 0.0))
        numbers = (agreement.pearson, highest, agreement.pearson_10)
        rows.append([str(weighting), *(f"{value:.3f}" for value in numbers), f"{evidence.score(number).error:.2f}"])
    page.section("Agreement with long sampling").table(
        ["weighting", "correlation", "highest possible", "worst tenth", "relative error"],
        rows,
        f"Long sampling estimates the same values with {2 * evidence.n_calls:,} surrogate evaluations per input. "
        "Correlation of its values with those of this explainer, over the players of an input: mean over inputs, and "
        "the tenth percentile (worst tenth). The highest possible correlation is below 1 because sampled values are "
        "noisy; the relative error does not include that noise.",
    )


def _add_curves(page: Report, curves: dict[str, OrderCurves], *, labels_given: bool, unseen: bool) -> None:
    """Inclusion and exclusion curves, areas and skill."""
    random, best = curves[RANDOM_ORDER], curves[LONG_SAMPLING]
    bounds = {LONG_SAMPLING: "1", RANDOM_ORDER: "0"}
    rows = [
        [
            name,
            f"{float(order.areas('included').mean()):.3f}",
            f"{1 - float(order.areas('excluded').mean()):.3f}",
            *(bounds.get(name) or str(measure_skill(order, random, best, way)) for way in get_args(Way)),
        ]
        for name, order in curves.items()
    ]
    target = "the given label" if labels_given else "the class that the model predicts"
    judge_name = "an evaluator that the explainer has not used" if unseen else "the surrogate"
    page.section("Do the most important players come first?").table(
        ["order of the players", "inclusion area ↑", "exclusion area ↓", "skill, inclusion", "skill, exclusion"],
        rows,
        "The players of each input are shown (inclusion) or hidden (exclusion) one after another, the most important "
        f"first. The area is the mean share of inputs that keep their class ({target}), as predicted by {judge_name}; "
        "high inclusion and low exclusion areas are good. Skill is not defined where long sampling is not clearly "
        "better than random orders.",
    )
    means = {name: (order.included.mean(0).numpy(), order.excluded.mean(0).numpy()) for name, order in curves.items()}
    page.figure(
        plots.plot_curves(means, bounds=(LONG_SAMPLING, RANDOM_ORDER)),
        "Share of inputs that keep their class, by the share of players that are shown or hidden.",
    )


def _add_training(page: Report, explainer: FeatureExplainer) -> None:
    page.section("Surrogate and training")
    if explainer.quality_ is not None:
        page.text(f"Quality when the explainer was fitted: {explainer.quality_}.")
    fidelity = explainer.fidelity_
    if fidelity is None:
        page.text("The surrogate was not trained with this explainer, so its fidelity to the model was not measured.")
    else:
        summary = str(fidelity)
        page.text(
            f"{summary[0].upper()}{summary[1:]}. With all features hidden, its prediction differs from the model's "
            f"mean prediction by {fidelity.prior_distance:.3g}."
        )
        page.figure(
            plots.plot_fidelity(fidelity.divergence),
            "Difference between the surrogate's prediction from a part of the features and the model's prediction from "
            "all of them. The less is shown, the larger it has to be: the right end is the surrogate's error.",
        )
    losses = {name: history.validation for name, history in explainer.histories_.items() if history.validation}
    if losses:
        page.figure(plots.plot_training(losses), "Loss on held-out inputs during training.")


def _add_provenance(page: Report, explained: Attribution) -> None:
    facts = {name: value for name, value in explained.provenance.items() if name not in ("fidelity", "quality")}
    training = facts.pop("training", {})
    rows = [[name, value if isinstance(value, str) else json.dumps(value)] for name, value in facts.items()]
    page.section("Provenance").table(["version or option", "value"], rows)
    if training:
        parts = [
            [name, f"{part['steps']:,}", f"{part['seconds']:.1f}", part["stopped"]] for name, part in training.items()
        ]
        page.table(["trained part", "steps", "seconds", "ended by"], parts)
