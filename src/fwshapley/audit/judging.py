"""One judgement of all labels: cross-fitted models, nearest neighbors and data values, put on record in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy import ndarray

from fwshapley._internal.safetensors_file import check_same_run, digest, load_bundle, save_bundle
from fwshapley.audit.boosting import cross_fit_boosting, is_affordable
from fwshapley.audit.cross_fitted import CrossFitted, mixture_weights
from fwshapley.audit.evidence import Judgement
from fwshapley.audit.fold_networks import NetworkTraining, cross_fit_networks
from fwshapley.audit.points import AuditPoints
from fwshapley.training.budget import Budget
from fwshapley.valuation.folds import draw_folds
from fwshapley.valuation.image_features import cross_fit
from fwshapley.valuation.knn.neighbor_search import Neighbors, find_neighbors
from fwshapley.valuation.knn.valuator import value_neighbors

KIND = "judgement of labels"
NETWORK_SHARE = 0.6
"""Share of a budget in seconds for networks, where gradient boosting gets the rest."""


@dataclass(frozen=True)
class JudgingOptions:
    """How labels are judged.

    Attributes:
        folds: number of folds.
        k: number of nearest neighbors.
        budget: of all training for one judgement; None depends on the number of points.
        seed: of folds and models.
        device: where networks are trained.
        n_jobs: number of CPU cores for neighbors.
        checkpoint: folder to save to, or None.
        resume: continue from that folder.
        progress: whether to show progress.
    """

    folds: int
    k: int
    budget: Budget | None
    seed: int
    device: torch.device
    n_jobs: int | None
    checkpoint: Path | None
    resume: bool
    progress: bool


def judge_labels(
    points: AuditPoints,
    labels: Int64[ndarray, " n"],
    classes: int,
    neighbors: Neighbors,
    options: JudgingOptions,
    name: str,
) -> tuple[Judgement, dict[str, float]]:
    """Return what models and neighbors say of labels, and the weights of the models; from a file if it is there.

    Args:
        points: whose labels are judged.
        labels: class numbers, of which some may be wrong.
        classes: number of classes.
        neighbors: of the points.
        options: how they are judged.
        name: of the judgement: that of its file, and in descriptions.
    """
    path = None if options.checkpoint is None else options.checkpoint / f"{name.replace(' ', '_')}.safetensors"
    identity = _identify(points, labels, options) if path is not None else {}
    if path is not None and options.resume and path.exists():
        facts, arrays = load_bundle(path, KIND)
        check_same_run(path, facts["identity"], identity)
        return Judgement(**arrays), facts["weights"]
    fit = _fit_to_images if points.images is not None else _fit_to_features
    fitted, coordinates = fit(points, labels, classes, options, name)
    shares = mixture_weights(fitted, labels)
    if points.images is not None:
        neighbors = find_neighbors(coordinates, options.k, n_jobs=options.n_jobs, progress=options.progress)
    judgement = Judgement(
        labels=labels,
        held_out=_mix(shares, [kind.held_out for kind in fitted]),
        trained=_mix(shares, [kind.trained for kind in fitted]),
        margins=np.mean([kind.margins for kind in fitted if kind.margins is not None], axis=0),
        votes=np.sum([kind.votes for kind in fitted], axis=0),
        disagreement=(labels[neighbors.indices.numpy()] != labels[:, None]).mean(1),
        values=value_neighbors(
            coordinates, labels, k=min(options.k, len(labels) - 1), n_jobs=options.n_jobs, progress=options.progress
        ).values.numpy(),
    )
    weights = {kind.kind: float(share) for kind, share in zip(fitted, shares, strict=True)}
    if path is not None:
        save_bundle(path, KIND, {"identity": identity, "weights": weights}, asdict(judgement))
        for rest in _training_files(options, name):
            rest.unlink(missing_ok=True)
    return judgement, weights


def _mix(shares: Float64[ndarray, " kinds"], probabilities: Sequence[Any]) -> Any:  # noqa: ANN401 - arrays (n, classes)
    return np.einsum("k,knc->nc", shares, np.stack(probabilities)).astype(np.float32)


def _fit_to_features(
    points: AuditPoints, labels: Int64[ndarray, " n"], classes: int, options: JudgingOptions, name: str
) -> tuple[list[CrossFitted], Float64[ndarray, "n columns"]]:
    """Cross-fit models to features; return what they say, and coordinates to measure distances between."""
    folds = draw_folds(labels, options.folds, options.seed)
    boosts = is_affordable(points.trees.shape[1], classes)
    budget = options.budget
    (file,) = _training_files(options, name) or [None]
    training = NetworkTraining(
        budget.part(NETWORK_SHARE) if boosts and budget is not None and budget.seconds is not None else budget,
        options.seed,
        options.device,
        file,
        options.resume,
        options.progress,
        f"training networks, {name}",
    )
    fitted = cross_fit_networks(points.form.to_networks(points.features), labels, classes, folds, training)
    if boosts:
        fitted.append(
            cross_fit_boosting(
                points.trees,
                points.is_category,
                labels,
                classes,
                folds.numpy(),
                budget=budget if budget is None or budget.seconds is None else budget.part(1 - NETWORK_SHARE),
                seed=options.seed,
                n_jobs=options.n_jobs,
                progress=options.progress,
            )
        )
    return fitted, points.neighbors


def _fit_to_images(
    points: AuditPoints, labels: Int64[ndarray, " n"], classes: int, options: JudgingOptions, name: str
) -> tuple[list[CrossFitted], Float64[ndarray, "n classes"]]:
    """Cross-fit networks to pixels; their log probabilities of the classes are coordinates."""
    del classes  # `cross_fit` counts them
    fitted = cross_fit(
        points.images,
        labels,
        folds=options.folds,
        budget=options.budget,
        seed=options.seed,
        device=options.device,
        checkpoint=None if options.checkpoint is None else options.checkpoint / name.replace(" ", "_"),
        resume=options.resume,
        progress=options.progress,
    )
    said = CrossFitted.of("convolutional network", fitted.probabilities.numpy(), fitted.folds.numpy(), fitted.margins)
    return [said], fitted.features.numpy().astype(np.float64)


def _training_files(options: JudgingOptions, name: str) -> list[Path]:
    """Return the files that training saves to, which are not needed once the judgement is saved."""
    if options.checkpoint is None:
        return []
    return [options.checkpoint / f"{name.replace(' ', '_')}_networks.safetensors"]


def _identify(points: AuditPoints, labels: Int64[ndarray, " n"], options: JudgingOptions) -> dict[str, Any]:
    """Return what a saved judgement must have in common with this one, JSON-compatible."""
    return {
        "points": digest({"x": points.features, "trees": points.trees, "y": labels}),
        "metric": points.form.metric,
        "folds": options.folds,
        "k": options.k,
        "budget": None if options.budget is None else asdict(options.budget),
        "seed": options.seed,
    }
