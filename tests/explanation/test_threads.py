"""Several threads may ask one fitted explainer at once: each gets, bit for bit, what it gets alone."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
import torch
from torch import Tensor

import fwshapley as fw
from models import ImageModel, TableModel, images, rows, seeded

THREADS, INPUTS, ROUNDS = 8, 4, 2
"""Threads, different inputs that they ask about, and how often each is asked about by every thread."""

Ask = Callable[[fw.FeatureExplainer, Tensor], Any]

SEVERAL = [fw.Shapley(), fw.Beta(4, 1), fw.Banzhaf()]


def explained(attribution: fw.Attribution) -> list[Tensor]:
    """Return the tensors of an explanation."""
    tensors = (attribution.values, attribution.base_values, attribution.outputs, attribution.stderr)
    return [each for each in tensors if each is not None]


def measured(explainer: fw.FeatureExplainer, x: Tensor) -> tuple[fw.explanation.MethodScores, ...]:
    """Scores on enough inputs."""
    return explainer.measure_quality(torch.cat([x, x, x]), n_calls=16, progress=False).scores


def by(name: str, **options: Any) -> Ask:  # noqa: ANN401 - a method's own
    """Ask a baseline that all threads share for each explainer."""
    made: dict[int, Any] = {}

    def ask(explainer: fw.FeatureExplainer, x: Tensor) -> list[Tensor]:
        shared = made.setdefault(id(explainer), fw.baseline(name, explainer, **options))
        return explained(shared.explain(x, outputs=[0], progress=False))

    return ask


def estimate(estimator: Callable[..., Any]) -> Ask:
    """Ask an estimator about the game of an input."""

    def ask(explainer: fw.FeatureExplainer, x: Tensor) -> Tensor:
        options = {} if estimator is fw.exact_values else {"n_calls": 64}
        found = estimator(explainer.game(x[:1]), fw.Shapley(), progress=False, **options)
        return found if isinstance(found, Tensor) else torch.stack([found.values, found.stderr])

    return ask


WAYS: dict[str, Ask] = {
    "explain": lambda e, x: explained(e.explain(x)),
    "explain, predicted": lambda e, x: explained(e.explain(x, outputs="predicted")),
    "explain, numbers": lambda e, x: explained(e.explain(x, outputs=[2, 0])),
    "explain, names": lambda e, x: explained(e.explain(x, outputs="output 1")),
    "explain, numbers of each": lambda e, x: explained(e.explain(x, outputs=torch.arange(len(x))[:, None] % 3)),
    "explain, several weights": lambda e, x: explained(e.explain(x, weights=SEVERAL)),
    "explain, several weights, predicted": lambda e, x: explained(e.explain(x, weights=SEVERAL, outputs="predicted")),
    "explain, efficient": lambda e, x: explained(e.explain(x, total="efficient")),
    "explain, in batches": lambda e, x: explained(e.explain(x, batch_size=1)),
    "explain, errors": lambda e, x: [e.explain(x, errors=True).expected_error],
    "refine": lambda e, x: explained(e.refine(x, n_calls=40, weights=SEVERAL, progress=False)),
    "refine, predicted": lambda e, x: explained(e.refine(x, n_calls=40, outputs="predicted", progress=False)),
    "sample": lambda e, x: explained(e.sample(x, n_calls=16, weights=SEVERAL, progress=False)),
    "measure_quality": lambda e, x: [
        torch.tensor([(row.network.error, row.class_mean.error, row.sampling.error) for row in measured(e, x)])
    ],
    "attribute": lambda e, x: [e.attribute(x, 1)],
    "predictions": lambda e, x: [e.predictions(x).model, e.predictions(x).surrogate],
    "call": lambda e, x: [torch.from_numpy(e(x).values)],
    "game": lambda e, x: [e.game(x[:1])(torch.eye(e.masked_model_.n_players, dtype=torch.bool))],
    "choose_weights": lambda e, x: [
        torch.tensor(fw.choose_weights(e, x, steps=2, per_input=True, progress=False).areas)
    ],
    "exact_values": estimate(fw.exact_values),
    "least_squares_values": estimate(fw.least_squares_values),
    "permutation_values": estimate(fw.permutation_values),
    "multilinear_values": estimate(fw.multilinear_values),
    "saliency": by("saliency"),
    "integrated_gradients": by("integrated_gradients", steps=4),
    "gradcam": by("gradcam"),
    "kernel_shap": by("kernel_shap", n_calls=40),
    "shapley_sampling": by("shapley_sampling", n_calls=40),
    "permutation": by("permutation", n_calls=64),
    "least_squares": by("least_squares", n_calls=64),
    "multilinear": by("multilinear", n_calls=64),
    "class_mean": by("class_mean", examples=rows(24, 4, seed=5)),
    "class mean of images": by("class_mean", examples=images(24, seed=5)),
    "random": by("random"),
}


@pytest.fixture(scope="module")
def explainers() -> dict[str, fw.FeatureExplainer]:
    """One of a table and one of images, calibrated, trained for a few steps."""
    table = fw.FeatureExplainer(seeded(TableModel), device="cpu")
    table.fit(rows(40, 4), budget=fw.Budget(steps=4), progress=False)
    image = fw.FeatureExplainer(seeded(ImageModel), fw.grid(8, 8, patch=4), device="cpu")
    image.fit(images(24), budget=fw.Budget(steps=4), progress=False)
    table.calibrate(rows(16, 4, seed=1), n_calls=16, progress=False)
    image.calibrate(images(12, seed=1), n_calls=16, progress=False)
    return {"table": table, "images": image}


def cases() -> list[Any]:
    """Every way of asking that an explainer of either kind has."""
    unlike = {"table": ("gradcam", "class mean of images"), "images": ("class_mean",)}
    return [
        pytest.param(kind, way, id=f"{kind}: {way}")
        for kind in ("table", "images")
        for way in WAYS
        if way not in unlike[kind]
    ]


@pytest.mark.parametrize(("kind", "way"), cases())
@pytest.mark.usefixtures("unchecked")
def test_threads_get_what_one_alone_gets(kind: str, way: str, explainers: dict[str, fw.FeatureExplainer]) -> None:
    explainer, ask = explainers[kind], WAYS[way]
    seeds = range(10, 10 + INPUTS)
    inputs = [rows(3, 4, seed=seed) if kind == "table" else images(3, seed=seed) for seed in seeds]
    alone = [ask(explainer, x) for x in inputs]
    barrier = Barrier(THREADS)

    def work(first: int) -> list[tuple[int, Any]]:
        barrier.wait()
        order = [(first + turn) % INPUTS for turn in range(INPUTS * ROUNDS)]
        return [(number, ask(explainer, inputs[number])) for number in order]

    with ThreadPoolExecutor(THREADS) as pool:
        answers = [each for found in pool.map(work, range(THREADS)) for each in found]
    assert len(answers) == THREADS * INPUTS * ROUNDS
    for number, found in answers:
        for ours, theirs in zip(found, alone[number], strict=True):
            assert torch.equal(ours, theirs)


def test_estimators_share_a_game_object() -> None:
    game = fw.games.Random(6, outputs=3)
    ways: list[Callable[[int], Tensor]] = [
        lambda _: fw.exact_values(game, fw.Shapley(), progress=False),
        lambda seed: fw.least_squares_values(game, fw.Banzhaf(), n_calls=50, seed=seed, progress=False).values,
        lambda seed: fw.permutation_values(game, fw.Shapley(), n_calls=200, seed=seed, progress=False).values,
        lambda seed: fw.multilinear_values(game, fw.Shapley(), n_calls=200, seed=seed, progress=False).values,
    ]
    asked = [(way, seed) for _ in range(THREADS) for way in range(len(ways)) for seed in range(INPUTS)]
    alone = [ways[way](seed) for way, seed in asked]
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(lambda each: ways[each[0]](each[1]), asked))
    assert all(torch.equal(one, other) for one, other in zip(found, alone, strict=True))
