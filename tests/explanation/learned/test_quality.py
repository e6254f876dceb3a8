"""Measured quality is the exact one within its uncertainty, warnings come when they must, and "auto" chooses by it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.testing import assert_close

import fwshapley as fw
from fwshapley.coalitions import make_generator
from fwshapley.explanation.learned import quality_measurement
from fwshapley.explanation.learned.quality import Method, MethodScores, Quality, QualityWarning, Score
from fwshapley.explanation.learned.quality_measurement import (
    BUDGET_SHARE,
    MAX_SECONDS,
    MAX_SHARE,
    MIN_INPUTS,
    MIN_SECONDS,
    Allowance,
    divide_budget,
    measure,
    with_quality,
)
from fwshapley.explanation.learned.sampled_values import sample_values
from fwshapley.objectives import Multilinear
from models import ImageModel, TableModel, images, rows, seeded

PLAYERS, CLASSES = 9, 3

Explainer = Callable[[nn.Module], fw.FeatureExplainer]


class Patches(nn.Module):
    """A model of tiny images whose game is known: the classes' logits are products of neighboring patches."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.randn(PLAYERS, CLASSES, generator=torch.Generator().manual_seed(5)))

    def forward(self, x: Tensor) -> Tensor:
        patches = nn.functional.avg_pool2d(x, 2).flatten(1)
        return 2 * (patches + patches.roll(1, 1) * patches.roll(3, 1)) @ self.mix


def tiny(count: int, seed: int = 0) -> Tensor:
    """Return images of nine patches of 2 x 2 pixels."""
    return images(count, size=6, seed=seed)


class Table(nn.Module):
    """A network that looks up the values of known inputs, the same for every t."""

    def __init__(self, x: Tensor, values: Tensor, maps: int) -> None:
        super().__init__()
        self.x, self.values, self.maps = x, values, maps

    def forward(self, x: Tensor) -> Tensor:
        found = (x.flatten(1)[:, None] == self.x.flatten(1)).all(2).double().argmax(1)
        return self.values[found].float().repeat(1, 1, self.maps)


@pytest.fixture(scope="module")
def explainer() -> fw.FeatureExplainer:
    """An explainer of the model itself, with the zeros of an untrained network."""
    made = fw.FeatureExplainer(seeded(Patches), fw.grid(6, 6, patch=2), surrogate=None, network="slim", device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QualityWarning)
        return made.fit(tiny(60), budget=fw.Budget(steps=1), progress=False)


X = tiny(40, seed=1)


@pytest.fixture(scope="module")
def truth(explainer: fw.FeatureExplainer) -> Tensor:
    """Shapley values of all classes by enumeration: (inputs, players, outputs)."""
    return torch.stack([fw.exact_values(explainer.game(x), fw.Shapley(), progress=False) for x in X])


def with_values(explainer: fw.FeatureExplainer, values: Tensor) -> fw.FeatureExplainer:
    """Return the explainer with a network that predicts the given values of X, whatever the weighting."""
    fitted = explainer.fitted_
    known = fw.FeatureExplainer(explainer.model, explainer.players, surrogate=None, device="cpu")
    # Basis functions sum to one, so that equal maps are a value that does not depend on t.
    objective = Multilinear()
    network = Table(X, values, objective.maps)
    known._set_fitted(replace(fitted, network=network, objective=objective, quality=None))  # noqa: SLF001 - no other way
    return known


def exact_score(values: Tensor, truth: Tensor, classes: Tensor) -> Score:
    """Score by the exact values of each input's class."""
    v, phi = (each.gather(2, classes[:, None, None].expand(-1, PLAYERS, 1)) for each in (values, truth))
    return Score.of(v, phi, phi)


def predicted(explainer: fw.FeatureExplainer) -> Tensor:
    return explainer.masked_model_.full_values(X).argmax(1)


def mean_of_others(values: Tensor, classes: Tensor) -> Tensor:
    """Mean values of the other inputs of the same class, one input at a time."""
    means = []
    for number, of_class in enumerate(classes):
        others = (classes == of_class) & (torch.arange(len(classes)) != number)
        means.append(values[others].mean(0) if bool(others.any()) else torch.zeros_like(values[0]))
    return torch.stack(means)


def test_the_score_is_free_of_the_noise_of_sampled_values() -> None:
    generator = torch.Generator().manual_seed(0)
    phi, *noise = torch.randn(3, 2000, 10, 1, generator=generator, dtype=torch.float64).unbind()
    phi -= phi.mean(1, keepdim=True)
    one, other = phi + noise[0], phi + noise[1]
    shift = torch.randn(2000, 1, 1, generator=generator, dtype=torch.float64)  # levels do not count
    for values, error, correlation in ((phi + shift, 0.0, 1.0), (0.5 * phi, 0.5, 1.0), (0 * phi, 1.0, 0.0)):
        score = Score.of(values, one, other)
        assert abs(score.error**2 - error**2) < 4 * max(2 * score.error * score.stderr, 0.02)
        assert score.correlation == pytest.approx(correlation, abs=0.05)
    sampled = Score.of_samplings(one, other)
    assert sampled.error == pytest.approx(1, abs=4 * sampled.stderr)
    assert math.isinf(Score.of(phi, one, -one).error)


def test_the_standard_error_of_the_score_is_its_spread() -> None:
    generator = torch.Generator().manual_seed(1)
    phi, noise, a, b = torch.randn(4, 200, 30, 8, 1, generator=generator, dtype=torch.float64).unbind()
    scores = [Score.of(*each) for each in zip(phi + 0.6 * noise, phi + 0.3 * a, phi + 0.3 * b, strict=True)]
    spread = torch.tensor([score.error for score in scores]).std()
    assert torch.tensor([score.stderr for score in scores]).mean() == pytest.approx(float(spread), rel=0.2)


def test_many_inputs_are_sampled_at_once_and_without_bias(explainer: fw.FeatureExplainer, truth: Tensor) -> None:
    masked, every = explainer.masked_model_, torch.arange(CLASSES).expand(len(X), -1)
    weights = [fw.Shapley(), fw.Beta(4, 1)]
    exact = sample_values(masked, X, every, weights, n_calls=2**PLAYERS, generator=make_generator(0, "cpu"))
    assert_close(exact.values[0], truth, rtol=1e-4, atol=1e-6)
    assert not exact.stderr.any()
    sampled = sample_values(masked, X, every, weights, n_calls=100, generator=make_generator(0, "cpu"))
    surprise = (sampled.values - exact.values) / sampled.stderr
    assert 0.3 < float(surprise.square().mean()) < 1.5
    attribution = explainer.sample(X[:3], n_calls=100, weights=weights, outputs=[2], progress=False)
    assert attribution.values.shape == (2, 3, PLAYERS, 1)
    assert attribution.provenance["method"] == "sampling"
    assert "sampled with 100 calls per input" in str(attribution)
    efficient = explainer.sample(X[:3], n_calls=100, total="efficient", progress=False)
    gain = explainer.masked_model_.full_values(X[:3]) - explainer.fitted_.base_values
    assert_close(efficient.values.sum(1), gain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("noise", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("n_calls", ["auto", 80])
def test_measured_quality_is_the_exact_one(
    explainer: fw.FeatureExplainer, truth: Tensor, noise: float, n_calls: int | Literal["auto"]
) -> None:
    """Both by enumeration (512 coalitions, of which "auto" samples 256) and by noisy sampling."""
    blurred = truth + noise * truth.std() * torch.randn(truth.shape, generator=torch.Generator().manual_seed(2))
    known = with_values(explainer, blurred)
    quality = known.measure_quality(X, n_inputs=None, n_calls=n_calls, weights=fw.Shapley(), progress=False)
    assert known.quality_ == quality
    assert (quality.n_inputs, quality.scores[0].weights) == (len(X), fw.Shapley())
    classes = predicted(known)
    for measured, values in (
        (quality.scores[0].network, blurred),
        (quality.scores[0].class_mean, mean_of_others(blurred, classes)),
    ):
        expected = exact_score(values, truth, classes)
        assert abs(measured.error**2 - expected.error**2) < 4 * max(2 * measured.error * measured.stderr, 0.01)
        assert measured.correlation == pytest.approx(expected.correlation, abs=0.1)
    sampled = known.sample(X, n_calls=n_calls, outputs=classes[:, None], seed=1, progress=False)
    shown = truth.gather(2, classes[:, None, None].expand(-1, PLAYERS, 1))
    assert quality.scores[0].sampling.error == pytest.approx(Score.of(sampled.values, shown, shown).error, rel=0.4)


def test_only_values_that_are_worth_nothing_are_warned_of(explainer: fw.FeatureExplainer, truth: Tensor) -> None:
    classes = predicted(explainer)
    of_class = torch.stack([truth[classes == each].mean(0) for each in range(CLASSES)])
    for values, words in (
        (torch.zeros_like(truth), "hardly better than zeros"),
        (0.1 * truth[torch.randperm(len(X), generator=torch.Generator().manual_seed(3))], "hardly better than"),
        (of_class[classes], "hardly better than"),  # constant per class
    ):
        known = with_values(explainer, values)
        with pytest.warns(QualityWarning, match=f"{words}.*larger budget.*method='auto'.*refine or sample"):
            known.measure_quality(X, n_calls=2**PLAYERS, weights=fw.Shapley(), progress=False)
        assert known.quality_ is not None
        assert known.quality_.is_poor
    with warnings.catch_warnings():
        warnings.simplefilter("error", QualityWarning)
        for good in (truth, 0.6 * truth):
            with_values(explainer, good).measure_quality(X, n_calls=2**PLAYERS, weights=fw.Shapley(), progress=False)


def test_class_means_that_are_right_are_not_poor() -> None:
    """Where all inputs of a class have the same values, their mean is as good as the network."""
    good = Score(correlation=0.99, error=0.2, stderr=0.01)
    assert not MethodScores(fw.Shapley(), good, good, good, None).is_poor
    bad = Score(correlation=0.6, error=0.8, stderr=0.01)
    assert MethodScores(fw.Shapley(), bad, bad, good, None).is_poor
    assert not MethodScores(fw.Shapley(), bad, Score(0.1, 1.0, 0.01), good, None).is_poor


def made_quality(
    network: float, *, sampling: float = 0.4, refinement: float = 0.4, seconds: tuple[float, float] = (0.02, 0.05)
) -> Quality:
    """Return a quality with some relative errors, and the seconds of sampling and refinement."""
    simple, *others = (Score(math.sqrt(max(1 - e**2, 0)), e, 0.01) for e in (1.0, network, sampling, refinement))
    scores = (MethodScores(fw.Shapley(), others[0], simple, others[1], others[2]),)
    times = {"network": 1e-3, "sampling": seconds[0], "refinement": seconds[1]}
    return Quality(scores, n_inputs=40, n_calls=100, seconds=times)


@pytest.mark.parametrize(
    ("quality", "method", "n_calls"),
    [
        (made_quality(0.45), "network", None),
        (made_quality(0.8), "sampling", 100),
        (made_quality(0.8, refinement=0.2), "refinement", 100),  # half the error is a fourth of the calls
        (made_quality(0.8, seconds=(0.2, 0.05)), "refinement", 100),
        (made_quality(0.95, sampling=0.75, refinement=0.9), "sampling", 225),  # as many as an error of 0.5 takes
        (made_quality(0.95, sampling=math.inf, refinement=0.6, seconds=(0.001, 1.0)), "refinement", 144),
        (made_quality(0.7, sampling=5.0, refinement=5.0), "network", None),  # 1,600 calls would be worse
    ],
)
def test_auto_chooses_by_error_and_time(quality: Quality, method: Method, n_calls: int | None) -> None:
    plan = quality.choose([fw.Shapley()], 20)
    assert (plan.method, plan.n_calls) == (method, n_calls)


@pytest.mark.parametrize(
    ("quality", "method"),
    [
        (made_quality(0.45), "network"),
        (made_quality(0.8), "sampling"),
        (made_quality(0.8, refinement=0.2), "refinement"),
    ],
)
def test_auto_explains_as_chosen_and_says_so(explainer: fw.FeatureExplainer, quality: Quality, method: Method) -> None:
    chosen = with_values(explainer, torch.zeros(len(X), PLAYERS, CLASSES))
    chosen._set_fitted(replace(chosen.fitted_, quality=quality))  # noqa: SLF001 - no other way
    found = chosen.explain(X[:2], outputs=[1], method="auto", progress=False)
    assert found.provenance["method"] == method
    words = {"network": "by the network", "sampling": "sampled with", "refinement": "refined with"}
    assert words[method] in str(found)
    assert "on held-out inputs" in str(found)
    assert found.provenance["relative_error"] == quality.scores[0].error(method)
    same = {
        "network": lambda: chosen.explain(X[:2], outputs=[1]),
        "sampling": lambda: chosen.sample(X[:2], outputs=[1], n_calls=100, progress=False),
        "refinement": lambda: chosen.refine(X[:2], outputs=[1], n_calls=100, progress=False),
    }[method]()
    assert_close(found.values, same.values)
    assert (found.stderr is None) == (method == "network")


def test_auto_is_as_good_as_it_says(explainer: fw.FeatureExplainer, truth: Tensor) -> None:
    """Each of the three ways, by what is measured rather than given; times are as they come."""
    good = with_values(explainer, truth)
    good.measure_quality(X, progress=False)
    assert good.explain(X, method="auto").provenance["method"] == "network"
    poor = with_values(explainer, -truth)
    with pytest.warns(QualityWarning):
        poor.measure_quality(X, n_calls=80, progress=False)
    found = poor.explain(X[:10], outputs="all", method="auto", progress=False)
    assert found.provenance["method"] in ("refinement", "sampling")
    assert Score.of(found.values, truth[:10], truth[:10]).error < 0.6
    efficient = poor.explain(X[:2], method="auto", total="efficient", progress=False)
    assert (efficient.provenance["method"], efficient.total) == ("sampling", "efficient")


def test_a_weighting_that_was_not_measured_counts_as_the_nearest() -> None:
    quality = made_quality(0.3)
    bad = replace(quality.scores[0], weights=fw.Beta(1, 4), network=Score(0.1, 0.99, 0.01))
    both = replace(quality, scores=(*quality.scores, bad))
    for weights, method in ((fw.Beta(2, 1), "network"), (fw.Beta(1, 16), "sampling"), (fw.Banzhaf(0.8), "sampling")):
        assert both.choose([fw.Shapley(), weights], 12).method == method


def test_a_network_pays_off_for_more_inputs_the_better_sampling_is() -> None:
    quality = made_quality(0.4, sampling=0.4)
    assert quality.break_even(19.0, n_players=9) == pytest.approx(19 / (0.02 - 1e-3))
    assert made_quality(0.4, sampling=0.35).break_even(19.0, 9) > quality.break_even(19.0, 9)
    fewest = made_quality(0.9, sampling=0.01).break_even(19.0, n_players=9)  # 68 of 100 calls
    assert fewest == pytest.approx(19 / (0.68 * 0.02 - 1e-3))
    assert math.isinf(made_quality(0.4, seconds=(1e-4, 1.0)).break_even(19.0, n_players=9))


def test_time_for_measuring_is_part_of_the_budget() -> None:
    for seconds, measuring in ((1, MAX_SHARE), (5, MIN_SECONDS), (100, 100 * BUDGET_SHARE)):
        training, allowance = divide_budget(fw.Budget(seconds=seconds), 1024)
        assert allowance.seconds == pytest.approx(measuring)
        assert allowance.calls is None
        assert training.seconds == pytest.approx(seconds - measuring)
    training, allowance = divide_budget(fw.Budget(seconds=1000, steps=50), 1000)
    assert (training, allowance) == (fw.Budget(seconds=1000 - MAX_SECONDS, steps=50), Allowance(MAX_SECONDS, 4000))


@pytest.mark.slow
def test_fit_measures_and_says_how_good_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = fw.FeatureExplainer(seeded(TableModel))
    explainer = made.fit(rows(200, 4), budget=fw.Budget(steps=150), batch_size=32)
    quality = explainer.quality_
    assert quality is not None
    assert [row.weights for row in quality.scores] == [fw.Shapley(), fw.Beta(4, 1), fw.Beta(1, 4)]
    assert f"quality of the explanations: {quality}, " in capsys.readouterr().err
    assert quality.n_inputs == 20  # a tenth is held out
    assert quality.error < 0.5
    assert explainer.explain(rows(2, 4)).provenance["relative_error"] == max(
        row.network.error for row in quality.scores[:1]
    )
    explainer.save(tmp_path / "explainer")
    loaded = fw.load(tmp_path / "explainer", device="cpu")
    assert loaded.quality_ == quality
    student = explainer.distill(rows(200, 4), network="auto", budget=fw.Budget(steps=1), progress=False)
    assert student.quality_ != quality


def test_a_budget_that_is_too_small_leaves_quality_unknown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quality_measurement, "MIN_ANNOUNCED_SECONDS", 0.0)
    image = fw.FeatureExplainer(seeded(ImageModel), fw.grid(8, 8, patch=2))
    explainer = image.fit(images(100), budget=fw.Budget(steps=1), batch_size=8)
    assert explainer.quality_ is None
    assert "quality of the explanations: not measured" in capsys.readouterr().err
    assert explainer.explain(images(2)).provenance["relative_error"] is None
    with pytest.raises(ValueError, match="measure_quality"):
        explainer.explain(images(2), method="auto")


def test_measuring_ends_with_its_time(explainer: fw.FeatureExplainer) -> None:
    fitted, generator = explainer.fitted_, make_generator(0, "cpu")
    quality = measure(fitted, X, [fw.Shapley()], generator=generator, n_calls=80, seconds=0.0)
    assert quality.n_inputs == MIN_INPUTS
    assert quality.scores[0].refinement is None
    assert quality.choose([fw.Shapley()], 20).method == "sampling"
    assert with_quality(fitted, X, Allowance(seconds=1e-9), progress=False).quality is None
    assert with_quality(fitted, X[: MIN_INPUTS - 1], Allowance(), progress=False).quality is None
    too_few = Allowance(calls=2 * 256 * MIN_INPUTS - 1)
    assert with_quality(fitted, X, too_few, progress=False).quality is None


def test_values_of_one_learned_weighting_and_of_several_outputs_are_measured() -> None:
    def prices(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack([x[:, 0] * x[:, 1], 2 * x[:, 2]], 1)

    made = fw.FeatureExplainer(prices, objective="kernel", weights=fw.Beta(4, 1))
    explainer = made.fit(rows(300, 4), budget=fw.Budget(steps=50), progress=False)
    quality = explainer.quality_
    assert quality is not None
    assert [row.weights for row in quality.scores] == [fw.Beta(4, 1)]
    x = rows(20, 4, seed=3)
    exact = torch.stack([fw.exact_values(explainer.game(each), fw.Beta(4, 1), progress=False) for each in x])
    measured = explainer.measure_quality(x, n_inputs=None, progress=False).scores[0].network
    expected = Score.of(explainer.explain(x).values, exact, exact)
    assert (measured.error, measured.correlation) == pytest.approx((expected.error, expected.correlation), rel=1e-3)
