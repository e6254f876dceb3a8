"""Which method explains a model: closed forms or coalitions of the interventional game, or a network that is trained.

The games are compared in docs/guide/table.md.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from fwshapley._internal.checks import Array, check_names, check_whole, shorten
from fwshapley._internal.wording import counted
from fwshapley.explanation.untrained.exact_explainer import ExactExplainer
from fwshapley.games.scales import Output
from fwshapley.players import Players

if TYPE_CHECKING:
    from fwshapley.trees.explainer import TreeExplainer

Method = Literal["auto", "trees", "linear", "enumeration", "sampling", "learned"]

Game = Literal["auto", "interventional", "conditional"]
"""What hidden columns become: those of background rows, or unknown to a surrogate that is trained for that."""

MAX_ENUMERATED = 12
"""Players up to which enumeration is chosen: with 100 background rows, 409,600 predictions per row."""

MOST_ENUMERATED = 16
"""Players up to which enumeration can be requested: with 100 background rows, 6,553,600 predictions per row."""

BACKGROUND_ROWS = 100
"""Background rows that enumeration and sampling use by default."""

TIMED_ROWS = 8
"""Background rows that sampling is timed with."""

MAX_COMPARED = 100
"""Rows on which scores are compared with probabilities."""

TOLERANCE = 1e-5


class Choice(NamedTuple):
    """How a model is explained.

    Attributes:
        explainer: made without training; None if one must be trained.
        method: "trees", "linear", "enumeration", "sampling" or "learned".
        game: "interventional"; "path-dependent" for trees without data; or "conditional" for what is learned.
        reason: why.
    """

    explainer: ExactExplainer | None
    method: Method
    game: str
    reason: str

    def __str__(self) -> str:
        return f"{self.method}, {self.game} game: {self.reason}"


def choose_method(
    model: Any,  # noqa: ANN401 - any model
    data: Array | None,
    *,
    game: Game = "auto",
    method: Method = "auto",
    players: Players | None = None,
    output: Output | Literal["auto"] = "auto",
    output_names: Sequence[str] | None = None,
    n_calls: int | Literal["auto"] = "auto",
    n_background: int = BACKGROUND_ROWS,
    device: Any = "auto",  # noqa: ANN401 - a name or a torch device
    seed: int = 0,
    progress: bool = True,
) -> Choice:
    """Make the explainer that a model allows without training, if any; arguments as in `Explainer`."""
    if n_calls != "auto":
        check_whole("n_calls", n_calls)
    tried = _methods_of(game, method, sampled=game == "interventional" or n_calls != "auto")
    if game == "interventional":
        data = require_data(data)
    refusals = []
    for name in tried:
        try:
            explainer, reason = UNTRAINED[name](
                model, data, players, output, output_names, n_calls=n_calls, requested=method == name,
                n_background=n_background, device=device, seed=seed, progress=progress,
            )  # fmt: skip
        except NotApplicableError as error:
            if method == name:
                raise ValueError(f"method={name!r} cannot be used: {error}") from error
            refusals.append(str(error))
        else:
            return Choice(explainer, name, explainer.provenance["game"], reason)
    if game == "interventional":
        raise ValueError(f"game='interventional' cannot be used: {'; '.join(refusals)}")
    return Choice(None, "learned", "conditional", "; ".join(refusals) or "it was requested")


def _methods_of(game: Game, method: Method, *, sampled: bool) -> list[Method]:
    """Return the methods without training to try, in order; raise an error if the game is not that of the method.

    Args:
        game: as requested.
        method: as requested.
        sampled: whether coalitions may be sampled unless another method is requested.
    """
    if method == "learned" and game == "interventional":
        raise ValueError("method='learned' explains the conditional game: leave it out, or game='interventional'")
    if method in UNTRAINED and game == "conditional":
        raise ValueError(f"method={method!r} explains the interventional game: leave it out, or game='conditional'")
    if method == "learned" or game == "conditional":
        return []
    if method != "auto":
        return [method]
    return [name for name in UNTRAINED if sampled or name != "sampling"]


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

    on_device = "cpu" if device == "auto" else str(device)
    if type(model).__name__ == "Pipeline":
        return _explain_trees_of_pipeline(model, data, players, output, output_names, device=on_device)
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
    explainer = TreeExplainer(ensemble, data, players=players, device=on_device)
    _check_scale(explainer, model, data, output)
    game = "training weights stand in for hidden features" if data is None else _averaged(len(data))
    return explainer, f"{name} is a tree ensemble; {game}"


def _explain_trees_of_pipeline(
    model: Any,  # noqa: ANN401 - of scikit-learn
    data: Array | None,
    players: Players | None,
    output: Output | Literal["auto"],
    output_names: Sequence[str] | None,
    *,
    device: str,
) -> tuple[ExactExplainer, str]:
    from fwshapley.explanation.untrained.pipeline_explainer import PipelineExplainer  # noqa: PLC0415 - it needs numba

    try:
        explainer = PipelineExplainer(
            model, require_data(data), players=players, output_names=output_names, device=device
        )
    except TypeError as error:
        raise NotApplicableError(str(error)) from error
    _check_scale(explainer, model, data, output)
    return explainer, f"{explainer.source} is a tree ensemble; {_averaged(len(require_data(data)))}"


def _check_scale(
    explainer: TreeExplainer,
    model: Any,  # noqa: ANN401 - any model
    data: Array | None,
    output: Output | Literal["auto"],
) -> None:
    """Raise a NotApplicableError unless trees add up to the requested output."""
    scale, source = explainer.ensemble.output, explainer.provenance["model"] or _name_of(model)
    is_log_odds = output == "logit" and _predicts_log_odds(explainer, model, data)
    if output not in ("auto", "raw", scale) and not is_log_odds:
        raise NotApplicableError(f"the trees of {source} add up to a {scale}, not to a {output}")


def _explain_linear(
    model: Any,  # noqa: ANN401 - any model
    data: Array | None,
    players: Players | None,
    output: Output | Literal["auto"],
    output_names: Sequence[str] | None,
    **_: Any,  # noqa: ANN401 - of other methods
) -> tuple[ExactExplainer, str]:
    from fwshapley.explanation.untrained.linear_explainer import LinearExplainer, read_linear  # noqa: PLC0415 - it needs pandas

    try:
        linear = read_linear(model)
        explainer = LinearExplainer(model, require_data(data), players=players)
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
    *,
    n_calls: int | Literal["auto"],
    requested: bool,
    **options: Any,  # noqa: ANN401 - n_background, device, seed and progress
) -> tuple[ExactExplainer, str]:
    data = require_data(data)
    n_players = _count_players("enumeration", data, players)
    most = MOST_ENUMERATED if requested or n_calls != "auto" else MAX_ENUMERATED
    if n_players > most:
        hint = "" if requested else "; game='interventional' samples some"
        raise NotApplicableError(f"{n_players} players are too many to enumerate coalitions (limit {most}{hint})")
    n_coalitions = 2**n_players
    if n_calls != "auto" and n_calls < n_coalitions:
        raise NotApplicableError(f"enumeration takes n_calls={n_coalitions} coalitions, and n_calls is {n_calls}")
    return _explain_by_coalitions(model, data, players, output, output_names, n_calls=n_coalitions, **options)


def _explain_by_sampling(
    model: Any,  # noqa: ANN401 - any model
    data: Array | None,
    players: Players | None,
    output: Output | Literal["auto"],
    output_names: Sequence[str] | None,
    *,
    n_calls: int | Literal["auto"],
    requested: bool,  # noqa: ARG001 - of enumeration
    **options: Any,  # noqa: ANN401 - n_background, device, seed and progress
) -> tuple[ExactExplainer, str]:
    data = require_data(data)
    n_players = _count_players("sampling", data, players)
    from fwshapley.explanation.learned.sampled_values import default_calls  # noqa: PLC0415 - as above

    n_calls = default_calls(n_players) if n_calls == "auto" else n_calls
    if n_calls >= 2**n_players:
        raise NotApplicableError(
            f"{counted(n_players, 'player')} have only {2**n_players:,} coalitions; use method='enumeration', or lower "
            "n_calls"
        )
    return _explain_by_coalitions(model, data, players, output, output_names, n_calls=n_calls, **options)


def _explain_by_coalitions(
    model: Any,  # noqa: ANN401 - any model
    data: Array,
    players: Players | None,
    output: Output | Literal["auto"],
    output_names: Sequence[str] | None,
    **options: Any,  # noqa: ANN401 - n_calls, n_background, device, seed and progress
) -> tuple[ExactExplainer, str]:
    from fwshapley.explanation.untrained.interventional_explainer import InterventionalExplainer  # noqa: PLC0415 - as above

    explainer = InterventionalExplainer(
        model, data, players=players, output=output, output_names=output_names, **options
    )
    n_players = explainer.players.n_players
    coalitions = f"{counted(n_players, 'player')} have {2**n_players:,} coalitions"
    if explainer.method == "sampling":
        coalitions = f"{explainer.n_calls:,} coalitions of {n_players} players are sampled with each background row"
    return explainer, f"{coalitions}; {_averaged(len(explainer.background), explainer.n_available)}"


def expected_seconds(
    model: Any,  # noqa: ANN401 - any model
    data: Array,
    *,
    players: Players | None,
    output: Output | Literal["auto"],
) -> float:
    """Return about how many seconds sampling takes per row, without training; infinite if it cannot explain the model.

    The time of a few background rows and coalitions is multiplied.
    """
    from fwshapley.explanation.learned.sampled_values import default_calls, fewest_calls  # noqa: PLC0415 - as above
    from fwshapley.explanation.untrained.interventional_explainer import InterventionalExplainer  # noqa: PLC0415 - it needs pandas

    try:
        n_players = _count_players("sampling", data, players)
        explainer = InterventionalExplainer(
            model, data[:TIMED_ROWS], players=players, output=output, n_calls=fewest_calls(n_players), progress=False
        )
        began = time.perf_counter()
        explainer.explain(data[:1])
    except (NotApplicableError, TypeError, ValueError):
        return math.inf
    more_calls = max(default_calls(n_players) / explainer.n_calls, 1.0)
    more_rows = min(BACKGROUND_ROWS, len(data)) / len(explainer.background)
    return more_calls * more_rows * (time.perf_counter() - began)


def _count_players(method: Method, data: Array, players: Players | None) -> int:
    """Return the number of players of a table."""
    shape = _shape_of(data)
    if len(shape) != 2 or (players is not None and players.is_image):  # noqa: PLR2004 - rows and columns
        raise NotApplicableError(f"{method} needs a table")
    return shape[1] if players is None else players.n_players


UNTRAINED: Mapping[Method, Callable[..., tuple[ExactExplainer, str]]] = {
    "trees": _explain_trees,
    "linear": _explain_linear,
    "enumeration": _explain_by_enumeration,
    "sampling": _explain_by_sampling,
}
"""Methods that train nothing, in the order in which they are tried."""


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


def require_data(data: Array | None) -> Array:
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


def _name_of(model: object) -> str:
    """Return a name of a model for messages: its class, or a function's own name."""
    return getattr(model, "__name__", type(model).__name__)
