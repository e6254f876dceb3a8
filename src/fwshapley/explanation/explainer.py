"""The front door: explain any model, exactly where that is possible, else by a network that is trained to."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from fwshapley._internal.checks import Array, check_choice, check_flag, check_kind, check_names, check_seed, shorten
from fwshapley._internal.progress import announce
from fwshapley._internal.wording import counted, duration
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.exact_explainer import ExactExplainer
from fwshapley.games.scales import Output
from fwshapley.players import Players
from fwshapley.semivalues import Semivalue, Total
from fwshapley.training.budget import Budget, check_budget

if TYPE_CHECKING:
    from shap import Explanation

    from fwshapley.explanation.feature_explainer import FeatureExplainer

Method = Literal["auto", "trees", "linear", "enumeration", "learned"]

DEFAULT_BUDGET = Budget(seconds=120)

MAX_ENUMERATED = 12
"""Players up to which enumeration is chosen: with 100 background rows, 409,600 predictions per explained row."""


class Explainer:
    """Explains a model by the exact method that it allows; if there is none, trains a network to explain it.

    In this order: closed forms of tree ensembles, closed forms of linear models, enumeration of the coalitions of at
    most 12 players, and a `FeatureExplainer`, which is trained here. One line on standard error says which was chosen
    and why, as do `method` and `reason`. Exact methods average predictions over rows of `data` in place of hidden
    features (interventional game); a learned one explains a surrogate that predicts from the visible features.

    Args:
        model: what `TreeExplainer`, `LinearExplainer` or `FeatureExplainer` accept: an estimator, a function of arrays
            or DataFrames, a torch module that returns logits.
        data: rows that stand in for hidden features, or that a network is trained on; enumeration chooses 100 of them.
            None is possible for trees alone, whose training weights then stand in (path-dependent game).
        players: what gets credit; by default each column of a table.
        output: scale of the values. "auto" is what the method explains: margins of boosted trees, probabilities of
            forests, scores of linear classifiers (`decision_function`), probabilities of other classifiers.
        output_names: one per output; by default the classes of an estimator.
        method: "auto", or one that must be used.
        budget: of training, if there is any.
        device: of torch modules and of training, and of trees if it is a GPU such as "cuda".
        seed: of everything random.
        progress: say what was chosen, and show progress.

    Attributes:
        explainer: the explainer that was chosen.
        method: "trees", "linear", "enumeration" or "learned".
        reason: why.

    Example:
        >>> import fwshapley as fw, numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> x = np.random.default_rng(0).normal(size=(50, 3))
        >>> explainer = fw.Explainer(LinearRegression().fit(x, x[:, 0] - x[:, 1]), x, progress=False)
        >>> explainer.method, explainer.reason.split(";")[0]
        ('linear', 'LinearRegression is a sum of effects of its columns')
        >>> explainer.explain(x[:5], weights=fw.Beta(16, 1)).values.shape
        (5, 3, 1)
    """

    explainer: ExactExplainer | FeatureExplainer
    method: Method
    reason: str

    def __init__(
        self,
        model: Any,  # noqa: ANN401 - any model
        data: Array | None = None,
        *,
        players: Players | None = None,
        output: Output | Literal["auto"] = "auto",
        output_names: Sequence[str] | None = None,
        method: Method = "auto",
        budget: Budget = DEFAULT_BUDGET,
        device: Any = "auto",  # noqa: ANN401 - a name or a torch device
        seed: int = 0,
        progress: bool = True,
    ) -> None:
        check_choice("method", method, get_args(Method))
        check_choice("output", output, ("auto", *get_args(Output)))
        if players is not None:
            check_kind("players", players, Players)
        check_budget(budget)
        check_seed(seed)
        check_flag("progress", progress)
        explainer, self.method, self.reason = choose_method(
            model,
            data,
            players=players,
            output=output,
            output_names=output_names,
            method=method,
            device=device,
            seed=seed,
            progress=progress,
        )
        if explainer is None:
            _require(data)
        work = f"training a network for up to {_spelled(budget)}" if explainer is None else "exact values"
        announce("fw.Explainer", work, f"since {self.reason}", enabled=progress)
        if explainer is None:
            from fwshapley.explanation.feature_explainer import FeatureExplainer  # noqa: PLC0415 - it needs torch

            learned = FeatureExplainer(
                model, players, output=output, output_names=output_names, device=device, seed=seed
            )
            explainer = learned.fit(data, budget=budget, progress=progress)
        self.explainer = explainer

    def __repr__(self) -> str:
        return f"Explainer({self.method}: {self.reason})"

    def explain(
        self,
        x: Array,
        *,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        outputs: str | Sequence[int] | Sequence[str] = "all",
        total: Total = "raw",
    ) -> Attribution:
        """Return the values of the players of each input.

        Args:
            x: a batch of inputs.
            weights: a semivalue or a list of them; by default Shapley.
            outputs: "all"; "predicted", the class that the model predicts; or names or numbers of some.
            total: "raw" for the semivalue itself; "efficient" shifts it to sum to the prediction less the base value.
        """
        return self.explainer.explain(x, weights=weights, outputs=outputs, total=total)

    def __call__(self, x: Array, *, weights: Semivalue | None = None) -> Explanation:
        """Explain inputs as shap's explainers do; values and base value add up to the prediction.

        Args:
            x: a batch of inputs.
            weights: a semivalue; by default Shapley.
        """
        return self.explainer(x, weights=weights)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the explainer that was chosen, which `fw.load` reads.

        Enumeration and linear pipelines call the model, which is not saved: pass it to `fw.load` as model=...

        Args:
            path: a file; for a learned explainer a folder.
        """
        self.explainer.save(path)


class Choice(NamedTuple):
    """How a model is explained.

    Attributes:
        explainer: the exact explainer; None if one must be trained.
        method: "trees", "linear", "enumeration" or "learned".
        reason: why.
    """

    explainer: ExactExplainer | None
    method: Method
    reason: str


def choose_method(
    model: Any,  # noqa: ANN401 - any model
    data: Array | None,
    *,
    method: Method = "auto",
    players: Players | None = None,
    output: Output | Literal["auto"] = "auto",
    output_names: Sequence[str] | None = None,
    device: Any = "auto",  # noqa: ANN401 - a name or a torch device
    seed: int = 0,
    progress: bool = True,
) -> Choice:
    """Make the exact explainer that a model allows; arguments as in `Explainer`. Nothing is trained."""
    refusals = []
    for name, make in EXACT.items():
        if method not in ("auto", name):
            continue
        try:
            explainer, reason = make(
                model, data, players, output, output_names, device=device, seed=seed, progress=progress
            )
        except NotApplicableError as error:
            if method == name:
                raise ValueError(f"method={name!r} cannot be used: {error}") from error
            refusals.append(str(error))
        else:
            return Choice(explainer, name, reason)
    return Choice(None, "learned", "; ".join(refusals) or "it was requested")


MAX_COMPARED = 100
"""Rows on which scores are compared with probabilities."""

TOLERANCE = 1e-5


class NotApplicableError(Exception):
    """A method cannot explain a model; the message says why."""


def _explain_trees(
    model: Any,  # noqa: ANN401 - any model
    data: Array | None,
    players: Players | None,
    output: Output | Literal["auto"],
    output_names: Sequence[str] | None,
    *,
    device: Any,  # noqa: ANN401 - a name or a torch device
    **_: Any,  # noqa: ANN401 - of other methods
) -> tuple[ExactExplainer, str]:
    from fwshapley.trees.libraries import is_tree_model  # noqa: PLC0415 - not needed by other methods

    if not is_tree_model(model):
        raise NotApplicableError(f"{_name_of(model)} is not a tree ensemble")
    from fwshapley.trees.explainer import TreeExplainer  # noqa: PLC0415 - it needs numba
    from fwshapley.trees.model_reader import read_model  # noqa: PLC0415 - as above

    try:
        ensemble = read_model(model, categories=data)
    except (TypeError, ValueError) as error:
        if isinstance(model, str | os.PathLike):  # nothing else can explain a file
            raise
        raise NotApplicableError(str(error)) from error
    names = _check_output_names(output_names, ensemble.n_outputs)
    if names is not None:
        ensemble = replace(ensemble, output_names=names)
    name = ensemble.source or _name_of(model)
    explainer = TreeExplainer(ensemble, data, players=players, device="cpu" if device == "auto" else str(device))
    if output not in ("auto", "raw", ensemble.output) and not (
        output == "logit" and _predicts_log_odds(explainer, model, data)
    ):
        raise NotApplicableError(f"the trees of {name} add up to a {ensemble.output}, not to a {output}")
    game = "training weights stand in for hidden features" if data is None else _averaged(len(data))
    return explainer, f"{name} is a tree ensemble; {game}"


def _explain_linear(
    model: Any,  # noqa: ANN401 - any model
    data: Array | None,
    players: Players | None,
    output: Output | Literal["auto"],
    output_names: Sequence[str] | None,
    **_: Any,  # noqa: ANN401 - of other methods
) -> tuple[ExactExplainer, str]:
    from fwshapley.explanation.linear_explainer import LinearExplainer, read_linear  # noqa: PLC0415 - it needs pandas

    try:
        linear = read_linear(model)
        explainer = LinearExplainer(model, _require(data), players=players)
    except TypeError as error:
        raise NotApplicableError(str(error)) from error
    if output not in ("auto", "raw") and not (output == "logit" and _predicts_log_odds(explainer, model, data)):
        raise NotApplicableError(f"the score of {linear.source} is linear, its {output} is not")
    names = _check_output_names(output_names, len(explainer.output_names))
    explainer.output_names = explainer.output_names if names is None else names
    return explainer, f"{linear.source} is a sum of effects of its columns; {_averaged(explainer.n_background)}"


def _explain_by_enumeration(
    model: Any,  # noqa: ANN401 - any model
    data: Array | None,
    players: Players | None,
    output: Output | Literal["auto"],
    output_names: Sequence[str] | None,
    **options: Any,  # noqa: ANN401 - device, seed and progress
) -> tuple[ExactExplainer, str]:
    data = _require(data)
    shape = _shape_of(data)
    if len(shape) != 2 or (players is not None and players.is_image):  # noqa: PLR2004 - rows and columns
        raise NotApplicableError("enumeration needs a table")
    n_players = shape[1] if players is None else players.n_players
    if n_players > MAX_ENUMERATED:
        raise NotApplicableError(f"{n_players} players are too many for enumeration (limit {MAX_ENUMERATED})")
    from fwshapley.explanation.interventional_explainer import InterventionalExplainer  # noqa: PLC0415 - as above

    explainer = InterventionalExplainer(
        model, data, players=players, output=output, output_names=output_names, **options
    )
    coalitions = f"{counted(n_players, 'player')} have {2**n_players:,} coalitions"
    return explainer, f"{coalitions}; {_averaged(len(explainer.background), explainer.n_available)}"


EXACT: Mapping[Method, Callable[..., tuple[ExactExplainer, str]]] = {
    "trees": _explain_trees,
    "linear": _explain_linear,
    "enumeration": _explain_by_enumeration,
}
"""Exact methods, in the order in which they are tried."""


def _averaged(n_background: int, n_available: int | None = None) -> str:
    """Return what becomes of hidden features, for reasons."""
    some = "" if n_available in (None, n_background) else f" of {n_available:,}"
    return (
        f"hidden features take values from {n_background:,}{some} background {'row' if n_background == 1 else 'rows'}"
    )


def _check_output_names(names: Sequence[str] | None, count: int) -> tuple[str, ...] | None:
    """Return names of outputs, or raise an error unless there is one per output."""
    if names is None:
        return None
    checked = check_names("output_names", names)
    if len(checked) != count:
        raise ValueError(f"output_names has {len(checked)} names for a model of {counted(count, 'output')}")
    return checked


def _require(data: Array | None) -> Array:
    """Return the data, or raise a ValueError if there is none, or no batch of inputs."""
    if data is None:
        raise ValueError("data must be given for this model: rows that stand in for hidden features")
    if len(_shape_of(data)) < 2:  # noqa: PLR2004 - rows and columns
        raise ValueError(f"data must be a batch of inputs, (rows, columns) or images; got {shorten(data)}")
    return data


def _shape_of(data: Array) -> tuple[int, ...]:
    """Return the shape of data, or raise a ValueError if its rows are not of equal length."""
    try:
        return tuple(np.shape(data))
    except ValueError as error:
        raise ValueError(f"data must have rows of equal length: {error}") from error


def _predicts_log_odds(explainer: ExactExplainer, model: Any, data: Array | None) -> bool:  # noqa: ANN401 - any model
    """Whether what an explainer predicts are log odds of the second of two classes, by the model's own probabilities.

    Scores of support vector machines, hinge losses and several classes are not.
    """
    if data is None or not hasattr(model, "predict_proba") or len(explainer.output_names) != 1:
        return False
    some = data[:MAX_COMPARED]
    scores = explainer.predict(some)[:, 0]
    probabilities = np.asarray(model.predict_proba(some), np.float64)
    return probabilities.shape == (len(scores), 2) and np.allclose(
        probabilities[:, 1], np.exp(-np.logaddexp(0, -scores)), atol=TOLERANCE
    )


def _spelled(budget: Budget) -> str:
    """Return a budget in words."""
    parts = [] if budget.seconds is None else [duration(budget.seconds)]
    return " or ".join([*parts, *([] if budget.steps is None else [counted(budget.steps, "step")])])


def _name_of(model: object) -> str:
    """Return a name of a model for messages: its class, or a function's own name."""
    return getattr(model, "__name__", type(model).__name__)
