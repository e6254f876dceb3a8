from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import fwshapley as fw
from fwshapley.explanation.learned.quality import Score
from fwshapley.explanation.learned.reliability import (
    OrderCurves,
    Skill,
    draw_curves,
    judge,
    judge_order,
    measure_reproduction,
    measure_skill,
)
from fwshapley.explanation.metrics import area, inclusion_curve
from fwshapley.explanation.report import sample_twice, write_report
from models import ImageModel, TableModel, images, rows, seeded

N, CLASSES, INPUTS = 4, 3, 6
MOST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def classifier() -> fw.FeatureExplainer:
    explainer = fw.FeatureExplainer(seeded(TableModel), output_names=["ant", "bee", "<cat>"])
    return explainer.fit(rows(300, N), budget=fw.Budget(steps=40), progress=False)


def flat_curves(heights: list[float], points: int = 5) -> OrderCurves:
    """Flat curves of some inputs."""
    curves = torch.tensor(heights, dtype=torch.float64)[:, None].expand(-1, points)
    return OrderCurves(curves, 1 - curves)


def text_of(page: Path) -> str:
    return re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8"))


def test_skill_is_the_place_between_random_and_best() -> None:
    random, best = flat_curves([0.1, 0.2, 0.3] * 3), flat_curves([0.9, 1.0, 0.9] * 3)
    assert measure_skill(best, random, best).value == pytest.approx(1)
    assert measure_skill(random, random, best).value == pytest.approx(0)
    half = OrderCurves((random.included + best.included) / 2, random.excluded)
    found = measure_skill(half, random, best)
    assert found.value == pytest.approx(0.5)
    assert found.stderr == pytest.approx(0, abs=1e-12)
    assert str(found) == "0.50 ± 0.00"


def test_there_is_no_skill_where_the_best_order_is_no_better_than_a_random_one() -> None:
    random, best = flat_curves([0.1, 0.9, 0.2]), flat_curves([0.9, 0.1, 0.21])
    found = measure_skill(best, random, best)
    assert math.isnan(found.value)
    assert str(found) == "not defined"


def test_skill_is_not_defined_by_one_input_nor_by_one_that_differs() -> None:
    assert math.isnan(measure_skill(flat_curves([0.9]), flat_curves([0.1]), flat_curves([1.0])).value)
    random, best = flat_curves([0.5, 0.5, 0.5, 0.5, 0.5]), flat_curves([0.5, 0.5, 0.5, 0.5, 0.9])
    assert math.isnan(measure_skill(random, random, best).value)


def test_the_standard_error_of_skill_is_its_spread_over_samples() -> None:
    generator = torch.Generator().manual_seed(0)
    low = torch.rand(400, 50, generator=generator, dtype=torch.float64) * 0.2
    noise = torch.rand(400, 50, generator=generator, dtype=torch.float64) * 0.4
    found = [
        measure_skill(flat_curves((row + dip).tolist()), flat_curves(row.tolist()), flat_curves((row + 0.5).tolist()))
        for row, dip in zip(low, noise, strict=True)
    ]
    spread = torch.tensor([each.value for each in found]).std()
    assert torch.tensor([each.stderr for each in found]).mean() == pytest.approx(float(spread), rel=0.2)


def test_curves_are_those_of_the_metrics(classifier: fw.FeatureExplainer) -> None:
    x, labels = rows(INPUTS, N, seed=3), torch.arange(INPUTS) % CLASSES
    values = rows(INPUTS, N, seed=4)
    found = draw_curves(classifier.surrogate_, x, labels, {"some": values})["some"]
    expected = inclusion_curve(classifier.surrogate_, x, values, labels, steps=16)
    assert float(torch.trapezoid(found.included.mean(0), dx=1 / 16)) == pytest.approx(area(expected))


def test_sampled_values_are_those_of_each_input_and_output(classifier: fw.FeatureExplainer) -> None:
    """All coalitions of four players are within the calls, so that sampling is exact."""
    weights = [fw.Shapley(), fw.Beta(4, 1)]
    explained = classifier.explain(rows(3, N, seed=5), weights=weights, outputs=[2, 0])
    halves = sample_twice(classifier, explained, n_calls=64, seed=0, progress=False)
    exact = [fw.exact_values(classifier.game(x), weights)[..., [2, 0]] for x in rows(3, N, seed=5)]
    for half in halves:
        assert_close(half, torch.stack(exact, 1).float(), rtol=1e-4, atol=1e-5)


def test_a_report_is_one_small_page_that_says_what_was_measured(
    classifier: fw.FeatureExplainer, tmp_path: Path
) -> None:
    page = write_report(
        classifier,
        rows(INPUTS, N, seed=6),
        tmp_path / "page.html",
        baselines=["class_mean", "permutation"],
        examples=rows(50, N, seed=9),
        progress=False,
    )
    source, text = page.read_text(encoding="utf-8"), text_of(page)
    assert page.stat().st_size < MOST_BYTES
    assert not re.search(r'(src|href)="(?!data:)', source)  # nothing from elsewhere
    for words in (
        "TableModel",
        "Beta(16, 1)",
        "class_mean",
        "permutation, Shapley",
        "long sampling",
        "skill",
        "Provenance",
        "trained part",
        "highest possible",
    ):
        assert words in text
    assert "{" not in source.split("Provenance")[1]  # no raw JSON
    assert source.count("<img") == 7  # curves, bars, waterfall, importance, beeswarm, fidelity, training


def test_labels_that_nothing_can_tell_are_said_to_be_such(classifier: fw.FeatureExplainer, tmp_path: Path) -> None:
    x = rows(40, N, seed=7)
    chance = torch.randint(CLASSES, (40,), generator=torch.Generator().manual_seed(0))
    told = text_of(write_report(classifier, x, tmp_path / "page.html", labels=chance, n_calls=64, progress=False))
    assert "Yes." not in told
    assert "In part." not in told


FINE: dict[str, Any] = {"reproduction": 0.98, "score": Score(correlation=0.98, error=0.2, stderr=0.01)}
"""Fidelity, correlation and error that leave no doubt."""


def both_ways(included: list[float], excluded: list[float]) -> OrderCurves:
    """Flat curves of some inputs, others as players are shown than as they are hidden."""
    return OrderCurves(flat_curves(included).included, flat_curves(excluded).included)


def test_a_gap_that_few_inputs_leave_open_is_not_called_none() -> None:
    random, best = flat_curves([0.9, 0.9, 1.0, 1.0] * 4), flat_curves([1.0, 0.9, 1.0, 0.9] * 4)
    verdict = judge_order(best, random, best, labels_given=False, **FINE)
    assert (verdict.answer, verdict.reasons[:3]) == ("not known", "16 ")
    one = judge_order(flat_curves([0.9]), flat_curves([0.1]), flat_curves([1.0]), labels_given=False, **FINE)
    assert (one.answer, one.reasons[:2]) == ("not known", "1 ")


def test_predictions_that_depend_on_what_is_hidden_are_judged_by_that() -> None:
    random = both_ways([0.9, 1.0] * 8, [0.9, 0.8] * 8)
    best = both_ways([1.0, 0.9] * 8, [0.6, 0.7] * 8)
    verdict = judge_order(best, random, best, labels_given=False, **FINE)
    assert verdict.answer == "yes"
    assert "hiding" in verdict.reasons
    assert judge_order(random, random, best, labels_given=False, **FINE).answer == "no"


def test_given_labels_are_not_explained_because_hiding_loses_the_frequent_one() -> None:
    """Hiding what speaks for the frequent class loses it, also where labels are shuffled."""
    random = both_ways([0.9, 1.0] * 8, [0.9, 0.8] * 8)
    best = both_ways([1.0, 0.9] * 8, [0.6, 0.7] * 8)
    assert judge_order(best, random, best, labels_given=True, **FINE).answer == "not known"


def test_a_gap_known_to_be_small_leaves_nothing_to_tell_apart() -> None:
    same, few = flat_curves([0.5, 0.9] * 20), flat_curves([0.5, 0.9])
    assert judge_order(same, same, same, labels_given=False, **FINE).answer == "no"
    assert judge_order(few, few, few, labels_given=False, **FINE).answer == "not known"


@pytest.mark.parametrize("skill", [Skill(0.05, 0.01), Skill(0.3, 0.2), Skill(0.9, math.nan)])
def test_little_skill_is_a_warning(skill: Skill) -> None:
    assert judge(skill, **FINE).answer == "no"
    assert judge(Skill(0.8, 0.05), **FINE).answer == "yes"


@pytest.mark.parametrize("skill", [Skill(1.0, 0.01), None])
def test_a_surrogate_of_another_model_is_not_relied_on(skill: Skill | None) -> None:
    """However good the order is: it explains the surrogate, not the model."""
    verdict = judge(skill, **FINE | {"reproduction": 0.6})
    assert verdict.answer == "no"
    assert "60.0%" in verdict.reasons
    unknown = judge(skill, **FINE | {"reproduction": None})
    assert unknown.answer == "in part"
    assert "not known" in unknown.reasons


SKILLS = [Skill(0.58, 0.05), Skill(1.0, 0.01), None]


@pytest.mark.parametrize("skill", SKILLS)
def test_no_skill_makes_up_for_values_that_are_far_off(skill: Skill | None) -> None:
    """Skill 0.58 with a relative error of 0.98 was once answered with yes."""
    for hundredths in range(51, 140):
        error = hundredths / 100
        score = Score(correlation=math.sqrt(max(1 - error**2, 0)), error=error, stderr=0.01)
        verdict = judge(skill, reproduction=0.98, score=score)
        assert verdict.answer == ("no" if error >= 0.95 else "in part")
        assert f"{error:.2f}" in verdict.reasons
        assert "refine" in verdict.reasons
        assert ("rely on the order" in verdict.reasons) == (error < 0.72)  # correlation 0.7


def test_values_that_noise_hides_are_not_judged() -> None:
    verdict = judge(Skill(1.0, 0.01), reproduction=0.98, score=Score(0.0, math.inf, math.inf))
    assert verdict.answer == "not known"


def test_an_order_that_is_only_a_little_better_than_chance_is_no_yes() -> None:
    assert judge(Skill(0.3, 0.02), **FINE).answer == "in part"


def test_the_report_warns_of_a_surrogate_that_decides_otherwise(tmp_path: Path) -> None:
    """It was trained by another model, so that no fidelity was measured."""
    other = fw.FeatureExplainer(seeded(TableModel, seed=1)).fit(
        rows(300, N), budget=fw.Budget(steps=60), progress=False
    )
    explainer = fw.FeatureExplainer(seeded(TableModel), surrogate=other.surrogate_)
    explainer.fit(rows(300, N), budget=fw.Budget(steps=60), progress=False)
    x = rows(60, N, seed=8)
    reproduced = measure_reproduction(explainer, x)
    assert reproduced is not None
    assert reproduced < 0.9
    told = text_of(
        write_report(explainer, x, tmp_path / "page.html", weights=[fw.Shapley()], n_calls=16, progress=False)
    )
    assert f"reproduces only {reproduced:.1%}" in told
    assert "Yes." not in told


def shuffled_answers(inputs: int, players: int, classes: int, trials: int) -> list[str]:
    """Answers about orders of a linear model's features by labels that were drawn without regard to the inputs."""
    generator = torch.Generator().manual_seed(0)
    slopes = torch.randn(players, classes, generator=generator)
    x = torch.randn(1000, players, generator=generator)

    def evaluator(some: Tensor, shown: Tensor) -> Tensor:
        return (some * shown) @ slopes

    predicted = (x @ slopes).argmax(1)
    best = x * (slopes.T[predicted] - slopes.mean(1))
    orders = {"best": best, "random": torch.rand(best.shape, generator=generator)}
    by_class = [draw_curves(evaluator, x, torch.full((len(x),), each), orders) for each in range(classes)]
    curves = {
        name: [torch.stack([getattr(each[name], way) for each in by_class]) for way in ("included", "excluded")]
        for name in orders
    }
    answers: list[str] = []
    for _ in range(trials):
        some = torch.randint(len(x), (inputs,), generator=generator)
        labels = torch.randint(classes, (inputs,), generator=generator)
        sampled, random = (OrderCurves(*(each[labels, some] for each in curves[name])) for name in ("best", "random"))
        answers.append(judge_order(sampled, random, sampled, labels_given=True, **FINE).answer)
    return answers


@pytest.mark.slow
@pytest.mark.parametrize("inputs", [10, 40])
@pytest.mark.parametrize(("players", "classes"), [(4, 2), (12, 3)])
def test_shuffled_labels_hardly_ever_get_a_yes(inputs: int, players: int, classes: int) -> None:
    """Two standard errors, without regard to how few inputs are, said yes to 2 to 4 % of them."""
    answers = shuffled_answers(inputs, players, classes, trials=800)
    assert sum(answer in ("yes", "in part") for answer in answers) / len(answers) < 0.01


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": []}, "empty list"),
        ({"labels": [0] * 3}, "labels must be 6 class numbers"),
        ({"labels": [0.5] * 6}, "labels must be class numbers, got 0.5"),
        ({"labels": [9] * 6}, "labels must be between 0 and 2"),
        ({"baselines": ["guess"]}, "baselines must be one of"),
        ({"baselines": ["class_mean"]}, "examples"),
        ({"n_shown": 0}, "n_shown must be"),
    ],
)
def test_what_cannot_be_reported_is_said_before_anything_is_sampled(
    classifier: fw.FeatureExplainer, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        write_report(classifier, rows(INPUTS, N, seed=6), tmp_path / "page.html", progress=False, **options)
    assert not list(tmp_path.iterdir())


def test_a_path_that_cannot_be_written_to_is_named_as_the_argument(
    classifier: fw.FeatureExplainer, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="path"):
        write_report(classifier, rows(INPUTS, N), tmp_path / "file" / "page.html", progress=False)
    with pytest.raises(IsADirectoryError, match="path"):
        write_report(classifier, rows(INPUTS, N), tmp_path, progress=False)


def test_values_and_labels_have_reports_without_curves(tmp_path: Path) -> None:
    frame = pd.DataFrame({"size": np.linspace(0, 1, 60), "kind": ["a", "b", "c"] * 20})
    price = fw.FeatureExplainer(lambda table: 3 * table["size"] + (table["kind"] == "b"))
    price.fit(frame, budget=fw.Budget(steps=5), progress=False)
    told = text_of(write_report(price, frame[:5], tmp_path / "price.html", n_calls=32, progress=False))
    assert "inclusion area" not in told
    assert "the model&#x27;s outputs" in told


def test_one_weighting_and_images(tmp_path: Path) -> None:
    explainer = fw.FeatureExplainer(
        seeded(ImageModel), fw.grid(8, 8, patch=4), objective="kernel", weights=fw.Beta(4, 1)
    ).fit(images(40), budget=fw.Budget(steps=3), progress=False)
    told = text_of(write_report(explainer, images(3, seed=1), tmp_path / "page.html", n_calls=64, progress=False))
    assert "Beta(4, 1)" in told
    assert "Shapley" not in told.replace("fwshapley", "")
    assert "What suffices: the first input with more and more of its players shown" in told
