"""The retraining game: the value of a coalition of training points is the score of a model fitted to them.

    v(S) = score of a fresh copy of the model, fitted to the points of S, on the reference points

The value of a coalition depends on its members alone: rows keep their order, every copy starts in the same state, and
a model that draws random numbers draws the same ones in every fit. The empty coalition has the score of a model that
knows the labels but no features: it predicts the most frequent label (with the labels' shares as probabilities), or
the mean target. So has a coalition that the model cannot be fitted to because points or classes are missing.

scikit-learn is imported only when it is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, SupportsFloat

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.arrays import is_tensor
from fwshapley._internal.checks import Array, check_real, check_seed, shorten
from fwshapley.games.game import Coalitions

Score = Callable[[Any, Any, Any], SupportsFloat]
"""Function of (fitted model, x, y) that returns a number, the higher the better."""

Features = NDArray[Any] | pd.DataFrame


class RetrainingGame:
    """Training points as players: the value of a coalition is the score of a model fitted to it.

    Args:
        model: a model with `fit` and `predict` as in scikit-learn. It is copied and never fitted itself.
        x: features of the training points, one row per point; a DataFrame reaches the model as a DataFrame.
        y: their labels or targets.
        reference: (x, y) of the reference points that fitted models are scored on.
        scoring: name of a scikit-learn scorer, or a function of (model, x, y). None is "accuracy", or "r2" for a
            regressor.
        empty_value: value of the empty coalition. None is the score of a model that knows the labels but no features.
        seed: for each `random_state` of the model that is None.

    Attributes:
        x_reference: features of the reference points.
        y_reference: their labels or targets.
        score: the function that scores a fitted model.

    Example:
        >>> import fwshapley as fw
        >>> import numpy as np
        >>> from sklearn.neighbors import KNeighborsClassifier
        >>> x, y = np.array([[0.0], [0.2], [1.0], [1.2]]), np.array([0, 0, 1, 1])
        >>> game = fw.games.RetrainingGame(KNeighborsClassifier(1), x, y, reference=(x + 0.1, y))
        >>> fw.exact_values(game, fw.Shapley(), progress=False).tolist()
        [0.125, 0.125, 0.125, 0.125]
    """

    def __init__(
        self,
        model: Any,  # noqa: ANN401 - any model
        x: Array,
        y: Array,
        reference: tuple[Array, Array],
        *,
        scoring: str | Score | None = None,
        empty_value: float | None = None,
        seed: int = 0,
    ) -> None:
        reference = check_reference_pair(reference)
        self.x, self.y = _check_points(x, y, ("x", "y"))
        self.x_reference, self.y_reference = _check_points(*reference, ("reference[0]", "reference[1]"))
        self.model = _copy_with_seed(model, check_seed(seed))
        self.score = find_score(scoring, model)
        self.empty_value = self._score_without_features(scoring) if empty_value is None else empty_value
        self.empty_value = check_real("empty_value", self.empty_value)
        targets = np.zeros(len(self.y)) if is_regressor(model) else self.y
        self._class_numbers = np.unique(targets, return_inverse=True)[1]

    @property
    def n_players(self) -> int:
        """Number of training points."""
        return len(self.y)

    def __call__(self, coalitions: Coalitions, /) -> Float64[Tensor, " coalitions"]:
        """Value of each coalition; every coalition that is not empty takes one fit."""
        values = [self._fit_and_score(members) for members in coalitions.cpu().numpy()]
        return torch.tensor(values, dtype=torch.float64)

    def _fit_and_score(self, members: NDArray[np.bool_]) -> float:
        rows = members.nonzero()[0]
        if not len(rows):
            return self.empty_value
        x = self.x.iloc[rows] if isinstance(self.x, pd.DataFrame) else self.x[rows]
        try:
            fitted = _copy(self.model).fit(x, self.y[rows])
            value = float(self.score(fitted, self.x_reference, self.y_reference))
        except Exception as error:
            if isinstance(error, ValueError) and self._lacks_points(members):
                return self.empty_value
            which = "all" if members.all() else "a coalition of"
            raise RuntimeError(
                f"{type(self.model).__name__} could not be fitted to {which} {len(rows)} points and scored: "
                f"{type(error).__name__}: {error}"
            ) from error
        if not math.isfinite(value):
            raise ValueError(f"scoring must return a finite number, got {value} for a coalition of {len(rows)} points")
        return value

    def _lacks_points(self, members: NDArray[np.bool_]) -> bool:
        """Whether a coalition lacks half the points of some class, so that a model may fail to fit."""
        sizes = np.bincount(self._class_numbers)
        present = np.bincount(self._class_numbers[members], minlength=len(sizes))
        return bool((2 * present <= sizes).any())

    def _score_without_features(self, scoring: object) -> float:
        _require_sklearn()
        from sklearn.dummy import DummyClassifier, DummyRegressor  # noqa: PLC0415 - optional

        baseline = DummyRegressor() if is_regressor(self.model) else DummyClassifier(strategy="prior")
        advice = "pass the value of the empty coalition as empty_value=..."
        try:
            baseline.fit(np.zeros((len(self.y), 1)), self.y)
            value = float(self.score(baseline, self.x_reference, self.y_reference))
        except Exception as error:
            raise ValueError(
                f"scoring={scoring!r} cannot score a model without features ({error}); {advice}"
            ) from error
        if not math.isfinite(value):
            raise ValueError(f"scoring={scoring!r} returns {value} for a model without features; {advice}")
        return value


def check_reference_pair(reference: object) -> tuple[Array, Array]:
    """Return reference points and their labels, or raise an error unless they are a pair."""
    if not isinstance(reference, (tuple, list)) or len(reference) != 2:  # noqa: PLR2004 - a pair
        raise ValueError(f"reference must be a pair (x, y) of points and labels, got {shorten(reference)}")
    return reference[0], reference[1]


def is_regressor(model: object) -> bool:
    """Whether a model declares that it predicts numbers; every other model predicts classes."""
    if hasattr(model, "__sklearn_tags__") and not isinstance(model, type):
        from sklearn.base import is_regressor as sklearn_is_regressor  # noqa: PLC0415 - optional

        return bool(sklearn_is_regressor(model))
    return getattr(model, "_estimator_type", None) == "regressor"


def scoring_name(scoring: object, model: object) -> object:
    """Return the scoring, or the name of the default one for a model if it is None."""
    return scoring or ("r2" if is_regressor(model) else "accuracy")


def find_score(scoring: str | Score | None, model: object) -> Score:
    """Return the function that scores a model."""
    if callable(scoring):
        return scoring
    name = scoring_name(scoring, model)
    _require_sklearn()
    from sklearn.metrics import get_scorer, get_scorer_names  # noqa: PLC0415 - optional

    names = get_scorer_names()
    if name not in names:
        similar = ", ".join(map(repr, get_close_matches(str(name), names, cutoff=0.4))) or "'accuracy', 'r2'"
        raise ValueError(
            f"scoring must be a function of (model, x, y) or the name of a scikit-learn scorer such as {similar}; "
            f"got {scoring!r}"
        )
    score: Score = get_scorer(name)
    return score


def _require_sklearn() -> None:
    try:
        import sklearn  # noqa: F401, PLC0415 - optional, so imported where it is needed
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("retraining a model needs scikit-learn: pip install scikit-learn") from error


def _copy(model: Any) -> Any:  # noqa: ANN401 - any model
    """Return an unfitted copy: by scikit-learn's `clone`, or a deep copy of an object that has no `get_params`."""
    _require_sklearn()
    from sklearn.base import clone  # noqa: PLC0415 - optional

    return clone(model, safe=False)


def _copy_with_seed(model: Any, seed: int) -> Any:  # noqa: ANN401 - any model
    """Return a copy of a model in which the seed replaces every `random_state` that is None."""
    if not hasattr(model, "fit"):
        raise TypeError(f"model must have fit and predict as scikit-learn's models do, got {model!r}")
    if isinstance(model, type):
        raise TypeError(f"model must be a model, not a class of models; write {model.__name__}()")
    copy = _copy(model)
    if hasattr(copy, "get_params"):
        parameters = copy.get_params()
        states = [name for name in parameters if name == "random_state" or name.endswith("__random_state")]
        unset = {name: seed for name in sorted(states) if parameters[name] is None}
        if unset:
            copy.set_params(**unset)
    return copy


def _check_points(x: Array, y: Array, names: tuple[str, str]) -> tuple[Features, NDArray[Any]]:
    """Return features and labels or targets of as many points; the model checks the rest of the features."""
    rows = x if isinstance(x, pd.DataFrame) else _to_array(names[0], x)
    if not rows.ndim or not len(rows):
        raise ValueError(f"{names[0]} must have a row per point, got shape {rows.shape}")
    name, labels = names[1], _to_array(names[1], y)
    if labels.shape != (len(rows),):
        raise ValueError(f"{name} must be one label or target per point, {len(rows)} of them, got shape {labels.shape}")
    for row, label in enumerate([] if labels.dtype.kind in "biufUT" else labels.tolist()):
        if label is None or not isinstance(label, (str, SupportsFloat)):
            raise ValueError(
                f"{name} must be numbers or text, but the label or target in row {row} is of type "
                f"{type(label).__name__}: {label!r:.60}"
            )
    return rows, labels


def _to_array(name: str, values: Array) -> NDArray[Any]:
    try:
        return np.asarray(values.detach().cpu().numpy() if is_tensor(values) else values)
    except ValueError as error:
        raise ValueError(f"{name} must be an array, got {shorten(values)}") from error
