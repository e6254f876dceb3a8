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
from fwshapley.audit.boosting import BoostingTask, cross_fit_boosting, is_affordable
from fwshapley.audit.cross_fitted import CrossFitted, mixture_weights
from fwshapley.audit.evidence import Judgement
from fwshapley.audit.fold_networks import NetworkTraining, cross_fit_networks
from fwshapley.audit.points import AuditPoints
from fwshapley.training.budget import Budget
from fwshapley.valuation.folds import draw_folds
from fwshapley.valuation.image_features import NetworkMaker, cross_fit
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
        network: that is trained on images; None is a small one.
        batch_size: images in a step of its training.
        learning_rate: of its training.
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
    network: NetworkMaker | None
    batch_size: int
    learning_rate: float
    budget: Budget | None
    seed: int
    device: torch.device
    n_jobs: int | None
    checkpoint: Path | None
    resume: bool
    progress: bool


@dataclass(frozen=True, eq=False)
class Judge:
    """Judges the labels of points.

    Attributes:
        points: whose labels are judged.
        classes: number of classes.
        neighbors: of the points.
        options: how they are judged.
    """

    points: AuditPoints
    classes: int
    neighbors: Neighbors
    options: JudgingOptions

    def judge(self, labels: Int64[ndarray, " n"], name: str) -> Judgement:
        """Return what models and neighbors say of labels; from a file if it is there.

        Args:
            labels: class numbers, of which some may be wrong.
            name: of the judgement: that of its file, and in descriptions.
        """
        path, options = self._file(name), self.options
        identity = {} if path is None else _identify(self.points, labels, options)
        if path is not None and options.resume and path.exists():
            facts, arrays = load_bundle(path, KIND)
            check_same_run(path, facts["identity"], identity)
            return Judgement(**arrays, model_weights=facts["model_weights"])
        judgement = self._judge(labels, name)
        if path is not None:
            arrays = asdict(judgement)
            facts = {"identity": identity, "model_weights": arrays.pop("model_weights")}
            save_bundle(path, KIND, facts, arrays)
            self._forget_training(path)
        return judgement

    def _judge(self, labels: Int64[ndarray, " n"], name: str) -> Judgement:
        options, neighbors, coordinates = self.options, self.neighbors, self.points.neighbors
        if self.points.images is None:
            fitted = self._fit_to_features(labels, name)
        else:
            fitted, coordinates = self._fit_to_images(labels, name)
            neighbors = find_neighbors(coordinates, options.k, n_jobs=options.n_jobs, progress=options.progress)
        shares = mixture_weights(fitted, labels)
        valuation = value_neighbors(
            coordinates,
            labels,
            k=neighbors.indices.shape[1],
            task="classification",
            n_jobs=options.n_jobs,
            progress=options.progress,
        )
        return Judgement(
            labels=labels,
            held_out=_mix(shares, [kind.held_out for kind in fitted]),
            trained=_mix(shares, [kind.trained for kind in fitted]),
            margins=np.mean([kind.margins for kind in fitted if kind.margins is not None], axis=0),
            votes=np.sum([kind.votes for kind in fitted], axis=0),
            neighbors=neighbors.indices.numpy(),
            values=valuation.values.numpy(),
            model_weights={kind.kind: float(share) for kind, share in zip(fitted, shares, strict=True)},
        )

    def _fit_to_features(self, labels: Int64[ndarray, " n"], name: str) -> list[CrossFitted]:
        """Cross-fit networks to features, and gradient boosting if it is affordable."""
        points, options, budget = self.points, self.options, self.options.budget
        folds = draw_folds(labels, options.folds, options.seed)
        boosts = is_affordable(points.trees.shape[1], self.classes)
        is_divided = boosts and budget is not None and budget.seconds is not None
        path = self._file(name)
        training = NetworkTraining(
            budget.part(NETWORK_SHARE) if is_divided and budget is not None else budget,
            options.seed,
            options.device,
            None if path is None else path.with_stem(f"{path.stem}_networks"),
            options.resume,
            options.progress,
            f"training networks, {name}",
        )
        fitted = cross_fit_networks(points.form.to_networks(points.features), labels, self.classes, folds, training)
        if boosts:
            share = budget.part(1 - NETWORK_SHARE) if is_divided and budget is not None else budget
            task = BoostingTask(
                points.trees, points.is_category, labels, self.classes, folds.numpy(), share, options.seed
            )
            fitted.append(cross_fit_boosting(task, progress=options.progress))
        return fitted

    def _fit_to_images(
        self, labels: Int64[ndarray, " n"], name: str
    ) -> tuple[list[CrossFitted], Float64[ndarray, "n classes"]]:
        """Cross-fit networks to pixels; their log probabilities of the classes are coordinates."""
        options, path = self.options, self._file(name)
        fitted = cross_fit(
            self.points.images,
            labels,
            folds=options.folds,
            network=options.network,
            batch_size=options.batch_size,
            learning_rate=options.learning_rate,
            budget=options.budget,
            seed=options.seed,
            device=options.device,
            checkpoint=None if path is None else path.with_suffix(""),
            resume=options.resume,
            progress=options.progress,
        )
        said = CrossFitted.of(
            "convolutional network", fitted.probabilities.numpy(), fitted.folds.numpy(), fitted.margins
        )
        return [said], fitted.features.numpy().astype(np.float64)

    def _forget_training(self, path: Path) -> None:
        """Remove what training has saved, which the file of a judgement makes superfluous."""
        networks, folder = path.with_stem(f"{path.stem}_networks"), path.with_suffix("")
        for file in (networks, *folder.glob("fold_*.safetensors")):
            file.unlink(missing_ok=True)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()

    def _file(self, name: str) -> Path | None:
        folder = self.options.checkpoint
        return None if folder is None else folder / f"{name.replace(' ', '_')}.safetensors"


def _mix(shares: Float64[ndarray, " kinds"], probabilities: Sequence[Any]) -> Any:  # noqa: ANN401 - arrays (n, classes)
    return np.einsum("k,knc->nc", shares, np.stack(probabilities)).astype(np.float32)


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
