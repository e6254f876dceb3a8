"""Audits of labels: how probable it is that each label is wrong, which label is right, and why."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, SupportsIndex

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64
from numpy import ndarray
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from fwshapley._internal.checks import (
    Array,
    check_callable,
    check_checkpoint,
    check_flag,
    check_jobs,
    check_list,
    check_real,
    check_seed,
    check_whole,
)
from fwshapley._internal.files import check_writable
from fwshapley._internal.tensor_checks import choose_device
from fwshapley.audit.combination import calibrate, learn_combination
from fwshapley.audit.evidence import COMBINED, Judgement
from fwshapley.audit.findings import (
    duplicate_distance,
    find_confusions,
    find_duplicates,
    find_outliers,
    find_shared,
)
from fwshapley.audit.injection import inject_errors
from fwshapley.audit.judging import Judge, JudgingOptions
from fwshapley.audit.points import AuditMetric, AuditPoints, PointForm, read_points
from fwshapley.audit.reasons import explain_point
from fwshapley.audit.review.page import write_review
from fwshapley.audit.suspects import Looks, choose_suspects, describe_suspects, expected_precision, summarize
from fwshapley.training.batches import derive_seed
from fwshapley.training.budget import Budget, check_budget
from fwshapley.valuation.image_features import BATCH_SIZE, LEARNING_RATE, NetworkMaker
from fwshapley.valuation.knn.neighbor_search import Neighbors, find_neighbors
from fwshapley.valuation.report import draw_pictures
from fwshapley.valuation.validation import check_labels

GIVEN, INJECTED = "given labels", "injected errors"
"""Names of the two judgements of an audit."""

MIN_POINTS = 10


class LabelAudit(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Find labels that are probably wrong, with the right label and the reasons, with the interface of scikit-learn.

    Models are cross-fitted: of a point, those speak that were not trained on it, and those that were, for a network
    that doubts a label it was trained with is strong evidence. Nearest neighbors and exact data values add to it. Then
    the audit makes some labels wrong itself and learns from them how the kinds of evidence are best combined into a
    probability (`fwshapley.audit.combination`). No clean labels are needed.

    Args:
        folds: number of folds; models of a fold are trained on the points of the others.
        k: number of nearest neighbors.
        metric: how neighbors are found: "euclidean", "cosine" (of centered features), or "auto", which is the cosine
            for arrays of more than 256 columns, since those are embeddings.
        network: for images, returns a new network given the number of classes, as `cross_fit` takes it; None is a small
            convolutional network.
        batch_size: images in a step of its training.
        learning_rate: of its training.
        budget: of all training together, `fwshapley.Budget`; by default twelve passes over the points.
        seed: of everything random.
        device: "cpu", "cuda", or "auto" for a GPU if there is one.
        n_jobs: number of CPU cores for neighbors and values; None is all.
        checkpoint: folder to save to: what models say is kept there, so that another audit of the same points, with
            `resume=True`, takes seconds.
        resume: use what the checkpoint contains; it must be of the same points and options.
        progress: show progress when it takes long: a bar on a terminal, lines elsewhere.

    Attributes:
        classes_: the different labels, in order.
        wrong_probability_: probability that the label of each point is wrong.
        suggested_labels_: the most probable label of each point, which is the given one unless that is probably wrong.
        suggested_probability_: probability of that label.
        label_probabilities_: probability of each class to be the true label, (n, classes).
        ranking_: indices of the points, the most suspicious first.
        evidence_: a DataFrame with a row per point: `self_confidence`, the probability of the label by models that
            were not trained on the point; `normalized_margin`, that minus the probability of the best other class;
            `trained_confidence`, the probability by models that were trained on it; `training_margin`, the margin of
            the label while networks were trained on it; `neighbor_disagreement`, the share of the k nearest neighbors
            with another label; `data_value`, the exact Shapley value for prediction by nearest neighbors;
            `agreement`, the share of all models that predict the label.
        evidence_weights_: weight of each kind of evidence in the combination, per standard deviation.
        model_weights_: weight of each kind of model.
        noise_: estimated share of wrong labels.
        near_duplicates_: a DataFrame of points with near duplicates: their `group`, and whether `labels_differ` in it.
        outliers_: a DataFrame of points that are far from all others, with the mean `distance` to their neighbors
            relative to that of the median point.
        confusions_: a DataFrame of expected numbers of points by given (rows) and true label (columns).
        neighbors_: indices of the nearest neighbors of each point, (n, k).
        notes_: sentences on how the points were prepared.

    Example:
        >>> import fwshapley as fw
        >>> x = np.random.default_rng(0).normal(size=(200, 2)) + np.repeat([[0], [6]], 100, axis=0)
        >>> y = np.repeat(["cat", "dog"], 100)
        >>> y[7] = "dog"  # a wrong label
        >>> audit = fw.LabelAudit(budget=fw.Budget(steps=100), progress=False).fit(x, y)
        >>> audit.ranking_[0], audit.suggested_labels_[7]
        (np.int64(7), np.str_('cat'))
    """

    classes_: NDArray[Any]
    wrong_probability_: Float64[ndarray, " n"]
    suggested_labels_: NDArray[Any]
    suggested_probability_: Float64[ndarray, " n"]
    label_probabilities_: Float64[ndarray, "n classes"]
    ranking_: Int64[ndarray, " n"]
    evidence_: pd.DataFrame
    evidence_weights_: dict[str, float]
    model_weights_: dict[str, float]
    noise_: float
    near_duplicates_: pd.DataFrame
    outliers_: pd.DataFrame
    confusions_: pd.DataFrame
    neighbors_: Int64[ndarray, "n k"]
    notes_: tuple[str, ...]
    judgement_: Judgement

    def __init__(
        self,
        *,
        folds: int = 5,
        k: int = 10,
        metric: AuditMetric = "auto",
        network: NetworkMaker | None = None,
        batch_size: int = BATCH_SIZE,
        learning_rate: float = LEARNING_RATE,
        budget: Budget | None = None,
        seed: int = 0,
        device: str = "auto",
        n_jobs: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        progress: bool = True,
    ) -> None:
        self.folds = folds
        self.k = k
        self.metric: AuditMetric = metric
        self.network = network
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.budget = budget
        self.seed = seed
        self.device = device
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.resume = resume
        self.progress = progress

    def fit(self, x: Array, y: Array) -> Self:
        """Audit the labels of points.

        Args:
            x: features, (n, columns), such as embeddings of a pre-trained network; a DataFrame of numbers, texts, dates
                and flags, which is prepared as `value_neighbors` prepares one; or images, (n, channels, height, width),
                on which small networks are trained.
            y: labels, numbers or text, of which some may be wrong.
        """
        options = self._check_options()
        points = read_points(x, self.metric)
        labels, classes = check_labels("y", y, len(points))
        if len(points) < MIN_POINTS:
            raise ValueError(f"x must have at least {MIN_POINTS} points to be audited, got {len(points)}")
        neighbors = find_neighbors(points.neighbors, options.k, n_jobs=options.n_jobs, progress=options.progress)
        judge = Judge(points, len(classes), neighbors, options)
        given = judge.judge(labels, GIVEN)
        generator = np.random.default_rng(derive_seed(options.seed, "injected errors", 0))
        noisy, is_injected = inject_errors(labels, given.held_out, generator)
        injected = judge.judge(noisy, INJECTED)

        combination = learn_combination(injected.suspicion(), is_injected)
        share_before = float(expit(combination.log_odds(injected.suspicion())).mean())
        log_odds = calibrate(combination.log_odds(given.suspicion()), share_before)
        self.classes_ = classes
        self.judgement_ = given
        self.evidence_ = given.table()
        self.evidence_weights_ = dict(zip(COMBINED, combination.weights.tolist(), strict=True))
        self.model_weights_ = dict(given.model_weights)
        self.wrong_probability_ = expit(log_odds)
        self.noise_ = float(self.wrong_probability_.mean())
        self.ranking_ = np.argsort(-log_odds, kind="stable")
        self._suggest()
        self._find(points, neighbors, labels)
        return self

    def reasons(self, point: SupportsIndex) -> tuple[str, ...]:
        """Return what models, neighbors and values say of the label of a point, in short sentences.

        Args:
            point: index of the point.
        """
        self._check_fitted()
        chosen = check_whole("point", point, 0)
        if chosen >= len(self.wrong_probability_):
            raise ValueError(f"point must be below {len(self.wrong_probability_)}, the number of points, got {chosen}")
        names = [str(name) for name in self.classes_.tolist()]
        return explain_point(chosen, self.judgement_, names, self._twins.get(chosen, ()))

    def to_dataframe(self) -> pd.DataFrame:
        """Return a table with a row per point: its label, the suggested one, probabilities, rank, and all evidence."""
        self._check_fitted()
        rank = np.empty(len(self.ranking_), dtype=np.int64)
        rank[self.ranking_] = np.arange(1, len(rank) + 1)
        ours = {
            "rank": rank,
            "label": self.classes_[self.judgement_.labels],
            "suggested": self.suggested_labels_,
            "suggested_probability": self.suggested_probability_,
            "wrong_probability": self.wrong_probability_,
        }
        return pd.concat([pd.DataFrame(ours), self.evidence_], axis=1)

    def write_review(
        self,
        path: str | os.PathLike[str],
        *,
        n_points: int | None = None,
        names: Sequence[object] | None = None,
        images: Array | None = None,
        rows: pd.DataFrame | None = None,
        title: str = "Suspicious labels",
    ) -> Path:
        """Write a page on which a person decides on suspicious labels; it is one file that works offline.

        Args:
            path: of the .html file; an existing one is replaced.
            n_points: number of points on the page; by default those whose label is wrong with a probability of 10 % or
                more, up to 1,000.
            names: of the points; by default their indices.
            images: pictures of the points, (n, height, width) or (n, channels, height, width); need matplotlib.
            rows: a DataFrame with a row for each point, which the page shows.
            title: of the page.

        Returns:
            The path. `fwshapley.audit.review.decisions.read_decisions` reads what the page exports.
        """
        self._check_fitted()
        n = len(self.wrong_probability_)
        chosen = choose_suspects(self, None if n_points is None else check_whole("n_points", n_points))
        called = [str(name) for name in (range(n) if names is None else check_list("names", names))]
        for name, values in (("names", called), ("rows", rows)):
            if values is not None and len(values) != n:
                raise ValueError(f"{name} must have one entry per point, {n}, got {len(values)}")
        looks = Looks(called, None if images is None else draw_pictures(images, n), rows)
        return write_review(
            path,
            describe_suspects(self, chosen, looks),
            title=title,
            classes=[str(name) for name in self.classes_.tolist()],
            expected_precision=expected_precision(self, chosen).tolist(),
            summary=summarize(self, "point"),
            notes=self.notes_,
        )

    def find_leakage(self, x: Array) -> pd.DataFrame:
        """Return which points of another data set, such as test data, are near duplicates of the points.

        Args:
            x: the other points, in the form of those of `fit`.

        Returns:
            A DataFrame with a row for each such point: `other`, its index; `point`, the nearest of the points of `fit`;
            and their `distance`.
        """
        self._check_fitted()
        others = self._form.place("x", x)
        neighbors = find_neighbors(self._places, 1, others, n_jobs=check_jobs(self.n_jobs), progress=self.progress)
        return find_shared(neighbors, self._duplicate_distance)

    def _suggest(self) -> None:
        """Set the probabilities of all classes to be the true label, and what follows from them."""
        given, wrong = self.judgement_, self.wrong_probability_
        rows = np.arange(len(wrong))
        others = (given.held_out.astype(np.float64) + given.trained) / 2 + np.finfo(np.float32).tiny
        others[rows, given.labels] = 0
        posterior = wrong[:, None] * others / others.sum(axis=1, keepdims=True)
        posterior[rows, given.labels] = 1 - wrong
        best = posterior.argmax(1)
        self.label_probabilities_ = posterior
        self.suggested_labels_ = self.classes_[best]
        self.suggested_probability_ = posterior[rows, best]
        self.confusions_ = find_confusions(posterior, given.labels, self.classes_)

    def _find(self, points: AuditPoints, neighbors: Neighbors, labels: Int64[ndarray, " n"]) -> None:
        """Set what the neighbors say beside labels."""
        self._form: PointForm = points.form
        self._places = points.neighbors
        self.neighbors_ = self.judgement_.neighbors
        self._duplicate_distance = duplicate_distance(neighbors)
        self.near_duplicates_ = find_duplicates(neighbors, self.classes_[labels], self._duplicate_distance)
        self.outliers_ = find_outliers(neighbors)
        self.notes_ = points.notes
        groups = self.near_duplicates_.groupby("group")["point"].apply(list)
        self._twins = {point: [other for other in group if other != point] for group in groups for point in group}

    def _check_options(self) -> JudgingOptions:
        """Return the options of judgements, each of which gets half of the budget, or raise an error."""
        check_flag("progress", self.progress)
        if self.budget is not None:
            check_budget(self.budget)
        if self.network is not None:
            check_callable("network", self.network)
        if check_real("learning_rate", self.learning_rate) <= 0:
            raise ValueError(f"learning_rate must be positive, got {self.learning_rate:g}")
        checkpoint = check_checkpoint(self.checkpoint, resume=self.resume)
        if checkpoint is not None:
            check_writable(checkpoint, "checkpoint=...")
        return JudgingOptions(
            folds=check_whole("folds", self.folds, 2),
            k=check_whole("k", self.k),
            network=self.network,
            batch_size=check_whole("batch_size", self.batch_size),
            learning_rate=self.learning_rate,
            budget=None if self.budget is None else self.budget.part(1 / 2),
            seed=check_seed(self.seed),
            device=choose_device(self.device),
            n_jobs=check_jobs(self.n_jobs),
            checkpoint=checkpoint,
            resume=self.resume,
            progress=self.progress,
        )

    def _check_fitted(self) -> None:
        if not hasattr(self, "wrong_probability_"):
            raise NotFittedError("this LabelAudit is not fitted; call fit(x, y) first")
