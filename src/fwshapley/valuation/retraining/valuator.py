"""Values of training points for any model and any score, by fitting the model to many coalitions of them."""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args

import torch
from torch import nn

from fwshapley._internal.checks import (
    Array,
    check_checkpoint,
    check_choice,
    check_jobs,
    check_real,
    check_seed,
    check_whole,
)
from fwshapley._internal.files import check_writable_file
from fwshapley._internal.safetensors_file import digest
from fwshapley._internal.tensor_checks import as_tensor
from fwshapley._internal.version import __version__
from fwshapley.games.retraining import RetrainingGame, Score, scoring_name
from fwshapley.semivalues import Banzhaf, Beta, LeaveOneOut, Semivalue, Shapley, check_weights
from fwshapley.valuation.base import Valuator
from fwshapley.valuation.result import Valuation
from fwshapley.valuation.retraining.banzhaf import BanzhafSampler
from fwshapley.valuation.retraining.checkpoint import Checkpoint
from fwshapley.valuation.retraining.data import TrainingData, check_data
from fwshapley.valuation.retraining.g_shapley import GradientSampler, LinearSoftmax, TorchScore, find_torch_score
from fwshapley.valuation.retraining.least_squares import fit_least_squares
from fwshapley.valuation.retraining.leave_one_out import LeaveOneOutSampler
from fwshapley.valuation.retraining.sampling import Outcome, Sampler, run_sampler, value_of
from fwshapley.valuation.retraining.tmc import TMCSampler
from fwshapley.valuation.validation import check_points

Method = Literal["tmc", "beta", "least_squares", "banzhaf", "leave_one_out", "gradient"]

DEFAULT_WEIGHTS: Mapping[Method, Semivalue] = {
    "tmc": Shapley(),
    "beta": Beta(16, 1),
    "least_squares": Shapley(),
    "banzhaf": Banzhaf(),
    "leave_one_out": LeaveOneOut(),
    "gradient": Shapley(),
}
DEFAULT_TOLERANCE = 0.01
"""Tolerance of "tmc", as a share of v(all points) - v(no points)."""

DEFAULT_FITS = 50
"""Fits per point, or passes of "gradient"."""

TRUNCATION_BIAS = 2.5
"""Largest error of a value, in tolerances, if a score that has been steady stays steady; docs/math.md, section 8."""


class RetrainingValuator(Valuator):
    """Values of training points for any model, by fitting it to many coalitions of them.

    The value of a point is the semivalue of `RetrainingGame`. For a nearest-neighbor model use `KNNValuator`, which is
    exact and needs no fits.

    Args:
        model: with `fit` and `predict` as in scikit-learn. For method="gradient" a torch module from features to a
            logit per class, or None for logistic regression.
        scoring: name of a scikit-learn scorer, or a function of (model, x, y) that returns a number, the higher the
            better. None is "accuracy", or "r2" for a regressor. "gradient" accepts "accuracy", "neg_log_loss" and
            functions of (module, x, class numbers).
        method: "tmc", Shapley values by random orders that are truncated once the score no longer changes; "beta", any
            semivalue by coalitions whose sizes follow its law; "least_squares", any semivalue by regression, with the
            fewest fits by far; "banzhaf", in which each coalition counts for all points; "leave_one_out"; "gradient",
            a step of gradient descent per point instead of a fit.
        weights: the semivalue, or a list of one, which gives values of shape (1, n). None is Shapley, but Beta(16, 1)
            for "beta", Banzhaf for "banzhaf", and leave-one-out for "leave_one_out". "tmc", "beta" and "least_squares"
            accept any, "banzhaf" accepts Banzhaf(t).
        n_fits: most model fits, or passes of "gradient". None is 50 per point (50 passes of "gradient"), or what
            leave-one-out takes.
        tolerance: for "tmc" and "beta": a difference to the score of all points that counts as no change. None is 1 %
            of v(all points) - v(no points) for "tmc", and 0, no truncation, for "beta". A tolerance saves fits and
            adds a bias (docs/math.md, section 8).
        target_error: stop early once the standard errors (root mean square) are at most this share of the values'
            standard deviation: 0.3 is a reliability of about 0.9. Checked after 32 draws, then after half as many
            again. Not for "least_squares".
        learning_rate: of "gradient".
        empty_value: value of the empty coalition; None is the score of a model that knows the labels but no features.
        seed: of all random numbers, also for each `random_state` of the model that is None.
        n_jobs: number of processes to fit in, as joblib has it; None is one, or the active `joblib.parallel_config`.
            Values are identical for any number. During the fits the BLAS libraries of this process use one thread.
        checkpoint: file to save to every 20 seconds, at the end, and when interrupted.
        resume: continue from the checkpoint if it exists. `n_fits` may then be larger, except for "least_squares".
        progress: announce what a long run will cost, and show progress in fits: a bar on a terminal, lines elsewhere.

    Attributes:
        result_: the Valuation, after `fit`; its standard errors are those of sampling.
        values_: its values.

    Example:
        >>> import fwshapley as fw
        >>> import numpy as np
        >>> from sklearn.neighbors import KNeighborsClassifier
        >>> x, y = np.array([[0.0], [0.2], [1.0], [1.2]]), np.array([0, 0, 1, 0])
        >>> valuator = fw.RetrainingValuator(KNeighborsClassifier(1), method="leave_one_out")
        >>> valuator.fit(x, y, reference=([[0.1], [1.1], [1.3]], [0, 1, 1])).result_.suspects(1).tolist()
        [3]
    """

    how_to_fit = "fit(x, y, reference=...)"

    def __init__(
        self,
        model: Any = None,  # noqa: ANN401 - any model
        *,
        scoring: str | Score | TorchScore | None = None,
        method: Method = "tmc",
        weights: Semivalue | Sequence[Semivalue] | None = None,
        n_fits: int | None = None,
        tolerance: float | None = None,
        target_error: float | None = None,
        learning_rate: float = 0.01,
        empty_value: float | None = None,
        seed: int = 0,
        n_jobs: int | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        progress: bool = True,
    ) -> None:
        self.model = model
        self.scoring = scoring
        self.method = method
        self.weights = weights
        self.n_fits = n_fits
        self.tolerance = tolerance
        self.target_error = target_error
        self.learning_rate = learning_rate
        self.empty_value = empty_value
        self.seed = seed
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.resume = resume
        self.progress = progress

    def fit(self, x: Array, y: Array, reference: tuple[Array, Array]) -> Self:
        """Value the points of x by the scores, on reference points, of models that are fitted to them.

        Args:
            x: features of the training points, as the model takes them; a DataFrame reaches it unchanged, with text and
                missing entries.
            y: their labels, or targets of a regressor.
            reference: (x, y) of the reference points that models are scored on.
        """
        weights = self._check_arguments()
        data = check_data(self.model, x, y, reference)
        identity = self._identity(data, weights)
        path = None if self.checkpoint is None else Path(self.checkpoint)
        checkpoint = Checkpoint(path, identity, resume=self.resume)
        outcome, tolerance = self._estimate(data, weights, checkpoint)
        result = _make_valuation(data, weights, outcome, {**identity, "tolerance": tolerance})
        self.result_ = result.stacked() if isinstance(self.weights, (list, tuple)) else result
        self.n_features_in_ = math.prod(data.x.shape[1:])
        return self

    def _check_arguments(self) -> Semivalue:
        """Return the semivalue, after a check of all arguments that do not depend on the data."""
        check_choice("method", self.method, get_args(Method))
        if self.tolerance is not None and check_real("tolerance", self.tolerance) < 0:
            raise ValueError(f"tolerance must be at least 0, got {self.tolerance:g}")
        for name in ("target_error", "learning_rate"):
            value = getattr(self, name)
            if value is not None and check_real(name, value) <= 0:
                raise ValueError(f"{name} must be positive, got {value:g}")
        if self.n_fits is not None:
            check_whole("n_fits", self.n_fits)
        check_seed(self.seed)
        check_jobs(self.n_jobs)
        check_writable_file(check_checkpoint(self.checkpoint, resume=self.resume))
        if self.method == "least_squares" and self.target_error is not None:
            raise ValueError("target_error must be None for method='least_squares', which makes all n_fits fits")
        weights = check_weights(self.weights if self.weights is not None else DEFAULT_WEIGHTS[self.method])
        if len(weights) > 1:
            raise ValueError(
                f"weights must be one semivalue, got {len(weights)}; RetrainingValuator estimates one weighting at a "
                "time; fit one valuator for each"
            )
        return self._check_weights_of_method(weights[0])

    def _check_weights_of_method(self, weights: Semivalue) -> Semivalue:
        is_default = weights == DEFAULT_WEIGHTS[self.method]
        possible = {"banzhaf": isinstance(weights, Banzhaf), "leave_one_out": is_default, "gradient": is_default}
        if not possible.get(self.method, True):
            raise ValueError(
                f"method={self.method!r} does not estimate weights={weights}; 'least_squares' and 'beta' estimate any "
                "semivalue"
            )
        return weights

    def _estimate(self, data: TrainingData, weights: Semivalue, checkpoint: Checkpoint) -> tuple[Outcome, float]:
        """Return the estimate, and the tolerance of truncation."""
        n_fits = self._n_fits(data.n)
        parallel: dict[str, Any] = {"n_jobs": self.n_jobs, "progress": self.progress}
        sampler: Sampler
        if self.method == "gradient":
            sampler = self._gradient_sampler(data)
            seconds = sampler.seconds_per_pass()
        else:
            game = RetrainingGame(
                self.model,
                data.x,
                data.y,
                (data.x_reference, data.y_reference),
                scoring=self.scoring,
                empty_value=self.empty_value,
                seed=self.seed,
            )
            if self.method == "least_squares":
                return fit_least_squares(game, weights, checkpoint, n_fits=n_fits, seed=self.seed, **parallel), 0.0
            started = time.perf_counter()
            full_value = value_of(game, torch.ones(data.n, dtype=torch.bool))
            seconds = time.perf_counter() - started
            sampler = self._sampler(game, weights, full_value)
        outcome = run_sampler(
            sampler, checkpoint, n_fits=n_fits, seconds_per_fit=seconds, target_error=self.target_error, **parallel
        )
        return outcome, getattr(sampler, "tolerance", 0.0)

    def _n_fits(self, n: int) -> int:
        if self.n_fits is not None:
            return self.n_fits
        return n + 1 if self.method == "leave_one_out" else DEFAULT_FITS * (1 if self.method == "gradient" else n)

    def _sampler(self, game: RetrainingGame, weights: Semivalue, full_value: float) -> Sampler:
        if self.method == "leave_one_out":
            return LeaveOneOutSampler(game, full_value)
        if self.method == "banzhaf" and isinstance(weights, Banzhaf):
            return BanzhafSampler(game, weights.t, full_value, self.seed)
        tolerance = self.tolerance
        if tolerance is None:
            tolerance = DEFAULT_TOLERANCE * abs(full_value - game.empty_value) if self.method == "tmc" else 0.0
        return TMCSampler(
            game, weights, empty_value=game.empty_value, full_value=full_value, tolerance=tolerance, seed=self.seed
        )

    def _gradient_sampler(self, data: TrainingData) -> GradientSampler:
        check_points("x", data.x)
        check_points("reference[0]", data.x_reference)
        x = as_tensor(data.x).double()
        module = LinearSoftmax(x, len(data.classes)) if self.model is None else self.model
        if not isinstance(module, nn.Module):
            raise TypeError(
                f"model must be a torch module, or None for logistic regression, with method='gradient'; got {module!r}"
            )
        return GradientSampler(
            module,
            find_torch_score(self.scoring),
            points=(x, data.labels),
            reference=(as_tensor(data.x_reference).double(), data.reference_labels),
            learning_rate=self.learning_rate,
            seed=self.seed,
        )

    def _identity(self, data: TrainingData, weights: Semivalue) -> dict[str, Any]:
        """Return what a resumed run must have in common with the one that wrote the checkpoint."""
        scoring = scoring_name(self.scoring, self.model)
        return {
            **data.digests(),
            "model": _describe_model(self.model),
            "scoring": _without_addresses(getattr(scoring, "__qualname__", None) or str(scoring)),
            "method": self.method,
            "weights": weights.to_json(),
            "tolerance": self.tolerance,
            "learning_rate": self.learning_rate,
            "empty_value": self.empty_value,
            "seed": self.seed,
            "n_fits": self._n_fits(data.n) if self.method == "least_squares" else None,  # coalitions depend on it
        }


def _describe_model(model: object) -> str:
    """Return a description that tells models apart and is the same in every process; module weights are hashed."""
    if model is None:
        return "logistic regression"
    name = _without_addresses(repr(model))
    if not isinstance(model, nn.Module):
        return name
    weights = hashlib.blake2b(digest_size=16)
    for tensor in model.state_dict().values():
        weights.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return f"{name} {weights.hexdigest()}"


def _without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _make_valuation(data: TrainingData, weights: Semivalue, outcome: Outcome, facts: Mapping[str, Any]) -> Valuation:
    unknown = ~(outcome.values + outcome.stderr).isfinite()
    if bool(unknown.any()):
        raise ValueError(
            f"{outcome.n_fits} fits were too few for a standard error of the value of point "
            f"{int(unknown.nonzero()[0])}; raise n_fits"
        )
    return Valuation(
        outcome.values,
        outcome.stderr,
        weights,
        labels=data.labels,
        classes=data.classes,
        references=len(data.y_reference),
        error_bound=TRUNCATION_BIAS * facts["tolerance"],
        provenance={
            "method": f"retraining, {facts['method']}",
            **{name: facts[name] for name in ("model", "scoring", "tolerance", "seed")},
            "fits": outcome.n_fits,
            "draws": outcome.n_draws,
            "stopped": outcome.stopped,
            "reference": "given",
            "run": digest({}, json.dumps(facts, sort_keys=True)),
            "fwshapley": __version__,
        },
    )
