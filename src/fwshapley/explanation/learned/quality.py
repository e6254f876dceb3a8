"""How good values are: their correlation with, and their error relative to, the values of the game that they explain.

Let phi be the values of an input, v those of a method, and a and b two independent samplings of phi, all centered over
players; players that an input does not have are NaN. The errors of a and b are independent and have mean zero, so that,
as sums over players,

    |phi|**2 = E[a b],    v phi = E[v (a + b) / 2],    |v - phi|**2 = E[(v - a) (v - b)].

Summed over inputs, these give both numbers free of the noise of sampling, without exact values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from jaxtyping import Float, Float64
from torch import Tensor

from fwshapley._internal.wording import counted
from fwshapley.explanation.learned.sampled_values import fewest_calls
from fwshapley.semivalues import Semivalue, Total

Method = Literal["network", "refinement", "sampling"]
"""Where the values of an explainer come from: one pass of its network, `refine`, or `sample`."""

GOOD_ERROR = 0.5
"""Largest error, relative to the size of the values, to rely on: a quarter of their variance. Correlations are then at
least 0.86."""

MIN_GAIN = 0.1
"""Share of the squared error of zeros, and of class means, that a network must do away with to be worth anything."""

MOST_CALLS = 16
"""Most coalitions that are chosen for an input, relative to the number that methods were measured with."""


ROUNDING = 1e-3
"""Relative error up to which values are exact but for rounding."""


class QualityWarning(UserWarning):
    """The values of an explainer are hardly better than zeros, or than the mean values of each class.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("error", fw.explanation.QualityWarning)  # `fit` raises it
        >>> warnings.simplefilter("default", fw.explanation.QualityWarning)
    """


@dataclass(frozen=True)
class Score:
    """Agreement of a method's values with those of the game, both centered over players, without sampling noise.

    Attributes:
        correlation: over the players of all inputs.
        error: root mean square error, relative to the size of the values: 0 for exact values, 1 for zeros. Infinite if
            the values are too small to be told from sampling noise.
        stderr: standard error of `error` over inputs.

    Example:
        >>> exact = torch.randn(5, 4, 1, dtype=torch.float64)  # inputs, players, outputs
        >>> round(fw.explanation.Score.of(exact / 2, exact, exact).error, 6)
        0.5
    """

    correlation: float
    error: float
    stderr: float

    @classmethod
    def of(
        cls,
        values: Float[Tensor, "inputs players outputs"],
        one: Float[Tensor, "inputs players outputs"],
        other: Float[Tensor, "inputs players outputs"],
    ) -> Self:
        """Compare values with two independent samplings of the values of the game."""
        values = values.masked_fill(one.isnan(), math.nan)
        v, a, b = (_centered(part) for part in (values, one, other))
        sizes, squares = _by_input(a * b), _by_input((v - a) * (v - b))
        size, square = float(sizes.sum()), float((v * v).sum())
        shared = float((v * (a + b)).sum()) / 2
        correlation = shared / math.sqrt(size * square) if size > 0 and square > 0 else 0.0
        return cls(min(max(correlation, -1.0), 1.0), *_relative(squares, sizes))

    @classmethod
    def of_samplings(
        cls, one: Float[Tensor, "inputs players outputs"], other: Float[Tensor, "inputs players outputs"]
    ) -> Self:
        """Return the score of one of two independent samplings."""
        a, b = _centered(one), _centered(other)
        sizes, squares = _by_input(a * b), _by_input((a - b).square()) / 2
        size, square = float(sizes.sum()), float(squares.sum())
        return cls(math.sqrt(size / (size + square)) if size > 0 else 0.0, *_relative(squares, sizes))

    def __str__(self) -> str:
        if math.isinf(self.error):
            return "sizes that cannot be told from sampling noise"
        return f"correlation {self.correlation:.2f}, relative error {self.error:.2f} ± {self.stderr:.2f}"


@dataclass(frozen=True)
class MethodScores:
    """Scores of the ways to explain, under one weighting.

    Attributes:
        weights: the semivalue.
        network: of one pass of the network.
        class_mean: of the network's mean values over other inputs with the same predicted class; for outputs that are
            not classes, over all other inputs.
        sampling: of least squares from sampled coalitions.
        refinement: of the network's values corrected by sampled coalitions; None if there was no time to measure it.

    Example:
        >>> half, none = fw.explanation.Score(0.9, 0.5, 0.1), fw.explanation.Score(0.0, 1.0, 0.1)
        >>> fw.explanation.MethodScores(fw.Shapley(), none, none, half, None).is_poor
        True
    """

    weights: Semivalue
    network: Score
    class_mean: Score
    sampling: Score
    refinement: Score | None

    @property
    def is_poor(self) -> bool:
        """Whether the network's values are hardly better than zeros or than the mean values of each class."""
        simple = min(self.class_mean.error, 1.0)
        error = self.network.error
        return math.isfinite(error) and error > GOOD_ERROR and error**2 > (1 - MIN_GAIN) * simple**2

    def error(self, method: Method) -> float:
        """Relative error of a method; infinite if it was not measured."""
        score: Score | None = getattr(self, method)
        return math.inf if score is None else score.error


class Plan(NamedTuple):
    """How inputs will be explained.

    Attributes:
        method: where values come from.
        n_calls: coalitions of each input; None for the network.
        error: expected relative error, that of the worst weighting.
    """

    method: Method
    n_calls: int | None
    error: float


@dataclass(frozen=True)
class Quality:
    """How good the values of an explainer are, measured on held-out inputs against sampled values of the same game.

    The game is that of the surrogate: how well this reproduces the model is a question of its `Fidelity`. Classifiers
    are measured for the class that the surrogate predicts, other models for all outputs together.

    Attributes:
        scores: for each weighting that was measured, Shapley first (or the one that was learned).
        n_inputs: number of held-out inputs.
        n_calls: coalitions of each input in each run of `sample` and `refine`. Each input was sampled twice.
        seconds: per input, of each method that was measured.

    Example:
        >>> x = torch.randn(120, 4)
        >>> explainer = fw.FeatureExplainer(lambda rows: rows[:, 0] * rows[:, 1])
        >>> explainer = explainer.fit(x[:80], budget=fw.Budget(steps=20), progress=False)
        >>> quality = explainer.measure_quality(x[80:], progress=False)
        >>> quality.n_inputs, 0 < quality.error < 2
        (40, True)
    """

    scores: tuple[MethodScores, ...]
    n_inputs: int
    n_calls: int
    seconds: Mapping[str, float]

    @property
    def correlation(self) -> float:
        """Correlation of the network's values with those of the game, under the first weighting."""
        return self.scores[0].network.correlation

    @property
    def error(self) -> float:
        """Relative error of the network's values, under the first weighting."""
        return self.scores[0].network.error

    @property
    def is_poor(self) -> bool:
        """Whether the network is hardly better than zeros or than class means, under the first weighting."""
        return self.scores[0].is_poor

    def __str__(self) -> str:
        first, *others = self.scores
        text = (
            f"on {counted(self.n_inputs, 'held-out input')}, the network's {first.weights} values of the "
            f"surrogate's game have {first.network}"
        )
        if math.isinf(first.network.error):
            return text
        more = [f"{row.network.error:.2f} at {row.weights}" for row in others if math.isfinite(row.network.error)]
        text += f" ({', '.join(more)})" if more else ""
        sampling = f"sampling with {self.n_calls:,} calls per input has {first.sampling.error:.2f}"
        return f"{text}; mean values of other inputs have {first.class_mean.error:.2f}, {sampling}"

    def nearest(self, weights: Semivalue, n_players: int) -> MethodScores:
        """Return the scores under a weighting, or under the measured one whose mean coalition size is nearest."""
        measured = [row.weights for row in self.scores]
        if weights in measured:
            return self.scores[measured.index(weights)]
        size, *sizes = (_mean_size(weighting, n_players) for weighting in (weights, *measured))
        return self.scores[int(np.abs(np.array(sizes) - size).argmin())]

    def worst_error(self, method: Method, weightings: Sequence[Semivalue], n_players: int) -> float:
        """Relative error of a method for several weightings: the largest."""
        return max(self.nearest(weights, n_players).error(method) for weights in weightings)

    def choose(self, weightings: Sequence[Semivalue], n_players: int, total: Total = "raw") -> Plan:
        """Choose how to explain: by the network if its error is at most `GOOD_ERROR`, else by sampled coalitions.

        Of refinement and sampling, the one is chosen that reaches the same error sooner, with as many coalitions as
        that error takes. The network stays the choice if neither would be better with the most coalitions.

        Args:
            weightings: all that are requested.
            n_players: of the game.
            total: of the values; refined values are raw.
        """
        network = Plan("network", None, self.worst_error("network", weightings, n_players))
        if network.error <= GOOD_ERROR:
            return network
        methods: list[Method] = ["sampling"]
        if total == "raw" and "refinement" in self.seconds:
            methods.append("refinement")
        errors = {method: self.worst_error(method, weightings, n_players) for method in methods}
        # Squared errors are in proportion to 1 / calls, so this is in proportion to the time for any error.
        best = min(methods, key=lambda method: max(errors[method], ROUNDING) ** 2 * self.seconds[method])
        n_calls = min(math.ceil(self.n_calls * min(max(errors[best] / GOOD_ERROR, 1) ** 2, MOST_CALLS)), 2**n_players)
        error = 0.0 if n_calls == 2**n_players else errors[best] * math.sqrt(self.n_calls / n_calls)
        plan = Plan(best, n_calls, error)
        return network if network.error <= plan.error < math.inf else plan

    def break_even(self, training_seconds: float, n_players: int) -> float:
        """Return the number of inputs from which on training has cost less time than sampling them all.

        Sampling is given as many coalitions as have the network's error, under the first weighting.

        Args:
            training_seconds: what the training of the network took.
            n_players: of the game, which needs a number of coalitions in any case.
        """
        network, sampling = self.scores[0].network.error, self.scores[0].sampling.error
        calls = (sampling / network) ** 2 if network > 0 else math.inf
        calls = 1.0 if sampling == 0 else max(calls, min(fewest_calls(n_players) / self.n_calls, 1.0))
        saved = calls * self.seconds["sampling"] - self.seconds["network"]
        return training_seconds / saved if saved > 0 else math.inf

    def facts(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        rows = [asdict(row) | {"weights": row.weights.to_json()} for row in self.scores]
        return {**asdict(self), "scores": rows}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        """Return the quality whose `facts` were saved."""
        scores = []
        for row in facts["scores"]:
            parts: dict[str, Any] = {
                name: None if part is None else Score(**part) for name, part in row.items() if name != "weights"
            }
            scores.append(MethodScores(Semivalue.from_json(row["weights"]), **parts))
        return cls(**{**facts, "scores": tuple(scores)})


@lru_cache(maxsize=256)  # explanations mostly repeat the same weightings
def _mean_size(weights: Semivalue, n_players: int) -> float:
    """Mean size of the coalition that a player joins."""
    return float(weights.join_law(n_players) @ np.arange(n_players))


def _centered(values: Float[Tensor, "inputs players outputs"]) -> Float64[Tensor, "inputs players outputs"]:
    values = values.double()
    return (values - values.nanmean(1, keepdim=True)).nan_to_num(0.0)


def _by_input(products: Float64[Tensor, "inputs players outputs"]) -> Float64[Tensor, " inputs"]:
    return products.sum((1, 2))


def _relative(squares: Float64[Tensor, " inputs"], sizes: Float64[Tensor, " inputs"]) -> tuple[float, float]:
    """Root of the ratio of two sums over inputs, and its standard error by the delta method; infinite if undefined."""
    size, count = float(sizes.sum()), len(sizes)
    if size <= 0:
        return math.inf, math.inf
    ratio = float(squares.sum()) / size
    error = math.sqrt(max(ratio, 0.0))
    if count == 1:
        return error, math.inf
    spread = float((squares - ratio * sizes).square().sum())
    stderr = math.sqrt(spread * count / (count - 1)) / size
    return error, stderr / (2 * error) if error > 0 else math.sqrt(stderr)
