"""The game of training: a coalition of training points is worth the score of a model fitted to it alone.

    v(S) = score of a fresh copy of the model, fitted to the points of S, on the reference points

What a coalition is worth follows from its members alone: rows keep their order, every copy starts alike, and a model
that draws random numbers draws the same ones each time. Nobody is worth what a model earns that has never seen a
feature: it predicts the most frequent label (with the shares of the labels as probabilities), or the mean target. So is
a coalition that the model cannot be fitted to because points or classes are missing.

scikit-learn is imported when it is needed, and not before.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any, SupportsFloat

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64
from numpy.typing import NDArray
from torch import Tensor, nn

from fwshapley._internal.checks import Array, check_real, check_seed
from fwshapley.games.game import Coalitions

Score = Callable[[Any, Any, Any], SupportsFloat]
"""How good a fitted model is on some points: from (model, x, y) to a number, the higher the better."""

Features = NDArray[Any] | pd.DataFrame


@dataclass(frozen=True, eq=False)
class RetrainingUtility:
    """What training points are for: a model, and how its predictions are scored.

    Args:
        model: with `fit` and `predict` as scikit-learn has them; it is copied, never fitted itself.
        scoring: name of one of scikit-learn's scorers, or a function of (model, x, y). None is "accuracy", or "r2" for
            a regressor.
        nobody: worth of the empty coalition; None is the score of a model that has seen labels, but no features.
        seed: for each `random_state` of the model that is None.

    Example:
        >>> game = RetrainingUtility(LogisticRegression()).on(x, y, x_valid, y_valid)
        >>> least_squares_values(game, Banzhaf(), n_calls=5000).values
    """

    model: Any
    _: KW_ONLY
    scoring: str | Score | None = None
    nobody: float | None = None
    seed: int = 0

    def __str__(self) -> str:
        return f"{name_model(self.model)}, {name_scoring(self.scoring, self.model)}"

    def on(self, x: Array, y: Array, x_reference: Array, y_reference: Array) -> RetrainingGame:
        """Return the game of the points x: features, as the model takes them, and labels or targets.

        Args:
            x: a row per point; a DataFrame reaches the model as one.
            y: its label or target.
            x_reference: points that the model is scored on.
            y_reference: their labels or targets.
        """
        rows, labels = _check_rows("x", x), _check_labels("y", y)
        others, other_labels = _check_rows("x_reference", x_reference), _check_labels("y_reference", y_reference)
        for name, one, other in (("y", labels, rows), ("y_reference", other_labels, others)):
            if len(one) != len(other):
                raise ValueError(f"{name} must be one label or target per point, {len(other)} of them, got {len(one)}")
        model = _with_seeds(self.model, check_seed(self.seed))
        score = find_score(self.scoring, model)
        return RetrainingGame(
            model=model,
            score=score,
            x=rows,
            y=labels,
            x_reference=others,
            y_reference=other_labels,
            nobody=self._worth_of_nobody(score, labels, others, other_labels),
        )

    def _worth_of_nobody(
        self, score: Score, y: NDArray[Any], x_reference: Features, y_reference: NDArray[Any]
    ) -> float:
        if self.nobody is not None:
            return check_real("nobody", self.nobody)
        _need_sklearn()
        from sklearn.dummy import DummyClassifier, DummyRegressor  # noqa: PLC0415 - optional

        ignorant = DummyRegressor() if is_regressor(self.model) else DummyClassifier(strategy="prior")
        try:
            worth = float(score(ignorant.fit(np.zeros((len(y), 1)), y), x_reference, y_reference))
        except Exception as error:
            raise ValueError(
                f"scoring={self.scoring!r} cannot tell what nobody is worth ({error}): say it, by nobody=..."
            ) from error
        if not math.isfinite(worth):
            raise ValueError(f"scoring={self.scoring!r} is {worth} where nothing is known: say nobody=... instead")
        return worth


@dataclass(frozen=True, eq=False)
class RetrainingGame:
    """Training points as players, as `RetrainingUtility.on` makes the game.

    Attributes:
        model: copied for every coalition.
        score: of a copy once fitted.
        x: features of the training points.
        y: their labels or targets.
        x_reference: points that it is scored on.
        y_reference: their labels or targets.
        nobody: worth of the empty coalition.
    """

    model: Any
    score: Score
    x: Features
    y: NDArray[Any]
    x_reference: Features
    y_reference: NDArray[Any]
    nobody: float

    @property
    def n_players(self) -> int:
        """Number of training points."""
        return len(self.y)

    def __call__(self, coalitions: Coalitions, /) -> Float64[Tensor, " coalitions"]:
        """Worth of each coalition: one fit each."""
        worth = [self._worth(rows) for rows in coalitions.cpu().numpy()]
        return torch.tensor(worth, dtype=torch.float64)

    def _worth(self, members: NDArray[np.bool_]) -> float:
        rows = members.nonzero()[0]
        if not len(rows):
            return self.nobody
        try:
            fitted = _copy(self.model).fit(_take(self.x, rows), self.y[rows])
            worth = float(self.score(fitted, self.x_reference, self.y_reference))
        except Exception as error:
            if isinstance(error, ValueError) and self._is_short(members):
                return self.nobody
            which = "all" if members.all() else "a coalition of"
            raise RuntimeError(
                f"{type(self.model).__name__} could not be fitted to {which} {len(rows)} points and scored: "
                f"{type(error).__name__}: {error}"
            ) from error
        if not math.isfinite(worth):
            raise ValueError(f"the score of a model fitted to a coalition of {len(rows)} points is {worth}")
        return worth

    def _is_short(self, members: NDArray[np.bool_]) -> bool:
        """Whether a coalition lacks half the points of some class: a model may well find these too few."""
        present = np.bincount(self._classes[members], minlength=len(self._sizes))
        return bool((2 * present <= self._sizes).any())

    @cached_property
    def _classes(self) -> NDArray[np.int64]:
        """Class number of each point; all targets of a regressor are of one class."""
        if is_regressor(self.model):
            return np.zeros(len(self.y), dtype=np.int64)
        return np.unique(self.y, return_inverse=True)[1].astype(np.int64)

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        return np.bincount(self._classes)


def name_model(model: object) -> str:
    """Return what tells a model from others, the same in every process: no addresses, but a module's weights."""
    if model is None:
        return "logistic regression"
    name = re.sub(r" at 0x[0-9a-f]+", "", f"{model!r}")
    if not isinstance(model, nn.Module):
        return name
    weights = hashlib.blake2b(digest_size=16)
    for tensor in model.state_dict().values():
        weights.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return f"{name} {weights.hexdigest()}"


def name_scoring(scoring: object, model: object) -> str:
    """Return what tells a way of scoring from others, the same in every process."""
    given = scoring or ("r2" if is_regressor(model) else "accuracy")
    return re.sub(r" at 0x[0-9a-f]+", "", getattr(given, "__qualname__", None) or str(given))


def is_regressor(model: object) -> bool:
    """Whether a model says that it predicts numbers; all others predict classes."""
    if hasattr(model, "__sklearn_tags__") and not isinstance(model, type):
        from sklearn.base import is_regressor as asks  # noqa: PLC0415 - optional

        return bool(asks(model))
    return getattr(model, "_estimator_type", None) == "regressor"


def find_score(scoring: str | Score | None, model: object) -> Score:
    """Return the function that scores a model."""
    if callable(scoring):
        return scoring
    name = scoring or ("r2" if is_regressor(model) else "accuracy")
    _need_sklearn()
    from sklearn.metrics import get_scorer, get_scorer_names  # noqa: PLC0415 - optional

    known = get_scorer_names()
    if name not in known:
        close = ", ".join(map(repr, get_close_matches(str(name), known, cutoff=0.4))) or "'accuracy', 'r2'"
        raise ValueError(
            f"scoring must be a function of (model, x, y) or the name of one of scikit-learn's scorers, such as "
            f"{close}; got {scoring!r}"
        )
    score: Score = get_scorer(name)
    return score


def _need_sklearn() -> None:
    try:
        import sklearn  # noqa: F401, PLC0415 - optional, so imported where it is needed
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("retraining a model needs scikit-learn: pip install scikit-learn") from error


def _copy(model: Any) -> Any:  # noqa: ANN401 - any model
    """Return an unfitted copy: by scikit-learn's `clone`, or of the object as it is where it has no `get_params`."""
    _need_sklearn()
    from sklearn.base import clone  # noqa: PLC0415 - optional

    return clone(model, safe=False)


def _with_seeds(model: Any, seed: int) -> Any:  # noqa: ANN401 - any model
    """Return a copy of a model whose random numbers will be the same in every copy of it."""
    if not hasattr(model, "fit"):
        raise TypeError(f"model must have fit and predict as scikit-learn's models do, got {model!r}")
    if isinstance(model, type):
        raise TypeError(f"model must be a model, not a class of models: write {model.__name__}()")
    ours = _copy(model)
    if hasattr(ours, "get_params"):
        asked = (name for name in ours.get_params() if name == "random_state" or name.endswith("__random_state"))
        unset = {name: seed for name in sorted(asked) if ours.get_params()[name] is None}
        if unset:
            ours.set_params(**unset)
    return ours


def _check_rows(name: str, x: Array) -> Features:
    rows = x if isinstance(x, pd.DataFrame) else np.asarray(_plain(x))
    if not rows.ndim or not len(rows):
        raise ValueError(f"{name} must have a row per point, got shape {rows.shape}")
    return rows


def _check_labels(name: str, y: Array) -> NDArray[Any]:
    labels = np.asarray(_plain(y))
    if labels.ndim != 1:
        raise ValueError(f"{name} must be one label or target per point, got shape {labels.shape}")
    for row, label in enumerate([] if labels.dtype.kind in "biufUT" else labels.tolist()):
        if label is None or not isinstance(label, (str, SupportsFloat)):
            raise ValueError(
                f"{name} must be numbers or text, but the label or target in row {row} is of type "
                f"{type(label).__name__}: {label!r:.60}"
            )
    return labels


def _take(x: Features, rows: NDArray[np.int64]) -> Features:
    return x.iloc[rows] if isinstance(x, pd.DataFrame) else x[rows]


def _plain(array: Array) -> Any:  # noqa: ANN401 - anything that numpy takes
    return array.detach().cpu().numpy() if isinstance(array, Tensor) else array
