"""What each training point is worth to a model that is fitted again and again: any model, any score."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, get_args

from fwshapley._internal.bundle import digest
from fwshapley._internal.checks import Array, check_choice, check_real, check_seed, check_whole
from fwshapley._internal.files import check_checkpoint
from fwshapley.games.retraining import RetrainingUtility, Score, name_model, name_scoring
from fwshapley.semivalues import Semivalue, check_semivalue
from fwshapley.valuation.base import Valuator
from fwshapley.valuation.result import Valuation
from fwshapley.valuation.retraining.checkpoint import Outcome, work
from fwshapley.valuation.retraining.data import Points, check_data
from fwshapley.valuation.retraining.g_shapley import TorchScore
from fwshapley.valuation.retraining.least_squares import regress
from fwshapley.valuation.retraining.methods import Method, check_weights, make_estimator, make_passes
from fwshapley.valuation.retraining.tmc import Rounds
from fwshapley.version import __version__

CUT_BIAS = 2.5
"""Most that a value is off, in tolerances, if a score that has been steady stays so; docs/math.md, section 8."""

USUAL_FITS = 50
"""Fits per point, or passes of "gradient", where no budget is given."""


class RetrainingValuator(Valuator):
    """Values of training points for any model, by fitting it to many coalitions of them.

    For a nearest-neighbor model there is `KNNValuator`, which is exact and takes no fits.

    Args:
        model: with `fit` and `predict` as scikit-learn has them. For method="gradient" a torch module from features to
            a logit per class, or None for logistic regression.
        scoring: name of one of scikit-learn's scorers, or a function of (model, x, y) to a number, the higher the
            better. None is "accuracy", or "r2" for a regressor. "gradient" knows "accuracy", "neg_log_loss" and
            functions of (module, x, class numbers).
        method: "tmc", Shapley values by random orders that are cut short once the score no longer changes; "beta", any
            semivalue by coalitions whose sizes follow its law; "least squares", any semivalue by regression, which
            takes the fewest fits by far; "banzhaf", each coalition counting for all points; "loo", leave-one-out;
            "gradient", a step of descent per point instead of a fit.
        weights: the semivalue; None is Shapley, but Beta(16, 1) for "beta", Banzhaf for "banzhaf", leave-one-out for
            "loo". "tmc", "beta" and "least squares" take any, "banzhaf" takes Banzhaf(t). A list may hold one alone,
            and values are (1, n) then.
        budget: most fits, or passes of "gradient"; None is 50 per point, or what leave-one-out takes.
        tolerance: of "tmc" and "beta": how near to the score of everyone counts as no change; None is 1 % of what
            everyone gains for "tmc", and 0, for never, for "beta". It saves fits and costs a bias (docs/math.md,
            section 8).
        target_error: stop early once the standard errors (root mean square) are at most this share of the values'
            standard deviation: 0.3 is a reliability of about 0.9. Looked at after 32 draws, then after half as many
            again. Not for "least squares".
        learning_rate: of "gradient".
        nobody: worth of no points at all; None is the score of a model that has seen labels, but no features.
        seed: of all that is random; also for each `random_state` of the model that is None.
        n_jobs: processes to fit in, as joblib has it; None is one, or what an active `joblib.parallel_config` says.
            Values are the same bits for any number. While models are fitted, the BLAS libraries of this process, such
            as numpy's, use one thread.
        checkpoint: file to save to every 20 seconds, at the end, and when interrupted.
        resume: go on from the checkpoint, if there is one, as if nothing had happened. But for "least squares",
            the budget may be raised.
        progress: show progress, in fits, when it takes long: a bar on a terminal, lines elsewhere.

    Attributes:
        result_: the Valuation, after `fit`; its standard errors are those of sampling.
        values_: its values.

    Example:
        >>> valuator = RetrainingValuator(LogisticRegression(), method="beta", budget=20_000, n_jobs=-1)
        >>> valuator.fit(x, y, reference=(x_valid, y_valid)).result_.suspects(20)
    """

    how_to_fit = "fit(x, y, reference=...)"

    def __init__(
        self,
        model: Any = None,  # noqa: ANN401 - any model
        *,
        scoring: str | Score | TorchScore | None = None,
        method: Method = "tmc",
        weights: Semivalue | Sequence[Semivalue] | None = None,
        budget: int | None = None,
        tolerance: float | None = None,
        target_error: float | None = None,
        learning_rate: float = 0.01,
        nobody: float | None = None,
        seed: int = 0,
        n_jobs: int | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        progress: bool = True,
    ) -> None:
        self.model, self.scoring, self.method, self.weights, self.budget = model, scoring, method, weights, budget
        self.tolerance, self.target_error, self.learning_rate = tolerance, target_error, learning_rate
        self.nobody, self.seed, self.n_jobs = nobody, seed, n_jobs
        self.checkpoint, self.resume, self.progress = checkpoint, resume, progress

    def fit(self, x: Array, y: Array, reference: tuple[Array, Array]) -> Self:
        """Value the points of x by what a model fitted to them scores on reference points.

        Args:
            x: features of the training points, as the model takes them; a DataFrame reaches it as one, text and missing
                entries included.
            y: their labels, or targets of a regressor.
            reference: points that models are scored on, and their labels.
        """
        weights = _check_arguments(self)
        points = check_data(self.model, x, y, reference)
        identity = _identity(self, points, weights)
        outcome, tolerance = self._estimate(points, weights, identity)
        result = _valuation(points, weights, outcome, {**identity, "tolerance": tolerance})
        self.result_ = result.stacked() if isinstance(self.weights, (list, tuple)) else result
        return self

    def _estimate(self, points: Points, weights: Semivalue, identity: Mapping[str, Any]) -> tuple[Outcome, float]:
        """Return what sampling came to, and the tolerance that it was cut short by."""
        options: dict[str, Any] = {
            "budget": _budget(self, points.n),
            "identity": identity,
            "n_jobs": self.n_jobs,
            "checkpoint": None if self.checkpoint is None else Path(self.checkpoint),
            "resume": self.resume,
            "progress": self.progress,
        }
        if self.method == "gradient":
            passes = make_passes(
                self.model, points, scoring=self.scoring, learning_rate=self.learning_rate, seed=self.seed
            )
            return work(passes, spent=0, target_error=self.target_error, **options), 0.0
        utility = RetrainingUtility(self.model, scoring=self.scoring, nobody=self.nobody, seed=self.seed)
        game = utility.on(points.x, points.y, points.x_reference, points.y_reference)
        if self.method == "least squares":
            return regress(game, weights, seed=self.seed, **options), 0.0
        estimator = make_estimator(game, self.method, weights, tolerance=self.tolerance, seed=self.seed)
        tolerance = estimator.tolerance if isinstance(estimator, Rounds) else 0.0
        return work(estimator, spent=1, target_error=self.target_error, **options), tolerance


def _check_arguments(asked: RetrainingValuator) -> Semivalue:
    """Return the semivalue that is meant."""
    check_choice("method", asked.method, get_args(Method))
    for name in ("tolerance", "target_error", "learning_rate"):
        value = getattr(asked, name)
        if value is not None and (check_real(name, value) < 0 or (value == 0 and name != "tolerance")):
            raise ValueError(f"{name} must be positive, got {value:g}")
    if asked.resume and asked.checkpoint is None:
        raise ValueError("resume=True needs the checkpoint to go on from: checkpoint=...")
    check_checkpoint(None if asked.checkpoint is None else Path(asked.checkpoint))
    check_seed(asked.seed)
    if asked.method == "least squares" and asked.target_error is not None:
        raise ValueError("method='least squares' uses its whole budget: target_error=... is for the other methods")
    weights = asked.weights
    if isinstance(weights, (list, tuple)):
        if len(weights) != 1:
            raise ValueError(
                f"weights is a list of {len(weights)}, and RetrainingValuator takes one weighting at a time; fit one "
                "valuator for each"
            )
        weights = check_semivalue(weights[0])
    return check_weights(asked.method, weights)


def _budget(asked: RetrainingValuator, n: int) -> int:
    if asked.budget is not None:
        return check_whole("budget", asked.budget)
    return n + 1 if asked.method == "loo" else USUAL_FITS * (1 if asked.method == "gradient" else n)


def _identity(asked: RetrainingValuator, points: Points, weights: Semivalue) -> dict[str, Any]:
    """What must not change between a checkpoint and its resumption."""
    return {
        **points.fingerprints(),
        "model": name_model(asked.model),
        "scoring": name_scoring(asked.scoring, asked.model),
        "method": asked.method,
        "weights": weights.to_json(),
        "tolerance": asked.tolerance,
        "learning_rate": asked.learning_rate,
        "nobody": asked.nobody,
        "seed": asked.seed,
        "budget": _budget(asked, points.n) if asked.method == "least squares" else None,  # which coalitions hang on it
    }


def _valuation(points: Points, weights: Semivalue, outcome: Outcome, facts: Mapping[str, Any]) -> Valuation:
    estimated = outcome.estimated
    unsure = ~(estimated.values + estimated.stderr).isfinite()
    if bool(unsure.any()):
        raise ValueError(
            f"{outcome.fits} fits were too few to tell how far to trust the value of point {int(unsure.nonzero()[0])}: "
            "raise the budget"
        )
    return Valuation(
        estimated.values,
        estimated.stderr,
        weights,
        labels=points.labels,
        classes=points.classes,
        references=len(points.y_reference),
        error_bound=CUT_BIAS * facts["tolerance"],
        provenance={
            "method": f"retraining, {facts['method']}",
            **{name: facts[name] for name in ("model", "scoring", "tolerance", "seed")},
            "fits": outcome.fits,
            "draws": outcome.draws,
            "stopped": outcome.stopped,
            "reference": "given",
            "run": digest({}, json.dumps(facts, sort_keys=True)),
            "fwshapley": __version__,
        },
    )
