"""Bad calls of everything public: what is called, with what, and a word that the error must hold.

A row is a call that must be refused.
"""

# mypy: disable-error-code="misc"
# Lambdas that bind a loop's variable by a default have no type that mypy could infer.

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from torch import Tensor

import fwshapley
from contract_world import Call, Case, Fault, Majority, Odd, World, accuracy, of_shape, only, without
from fwshapley import datasets, games, valuation
from fwshapley.explanation import baselines, metrics
from models import ImageModel, TableModel, images, rows, seeded
from text_models import make_model, make_texts, make_tokenizer

# Untyped on purpose: the calls below hand over what the types forbid.
fw: Any = fwshapley
play: Any = games
value: Any = valuation
measure: Any = metrics
data: Any = datasets
other: Any = baselines

HUGE = 10**18
"""Too many of anything, and too many bytes for any allocator: refused at once."""
BEYOND = 2**70
"""A whole number that fits no integer of 64 bits."""

REFUSED: Fault = (TypeError, ValueError, OSError)
UNREADY: Fault = (RuntimeError, NotFittedError)
"""Not the arguments are wrong, but what they are given to: it is not fitted, or has no model."""

TABLE: list[Case] = []


def row(of: Callable[..., object], what: str, words: str, call: Call, error: Fault = REFUSED) -> None:
    """Add a row; words are divided by |."""
    TABLE.append(Case(of, what, call, tuple(words.split("|")), error))


def each(
    of: Callable[..., object],
    name: str,
    bad: Mapping[str, object],
    call: Callable[[World, Any], object],
    words: str = "",
) -> None:
    """Add a row for each bad value of an argument."""
    told = words or WORDS.get(name, name)
    for kind, wrong in bad.items():
        row(of, f"{name} is {kind}", told, lambda w, wrong=wrong: call(w, wrong))


def named(of: Callable[..., object], ask: Callable[..., object], bad: Mapping[str, Mapping[str, object]]) -> None:
    """Add a row for each bad value of each of some arguments that are given by name."""
    for name, values in bad.items():
        each(of, name, values, lambda w, wrong, name=name: ask(w, **{name: wrong}))


IN_X = "x|inputs|input|columns|column|images|batch|rows"
WORDS = {
    "weights": "weights|semivalue|Cardinality",
    "candidates": "candidates|weights|semivalue|Cardinality",
    "x": IN_X,
    "x of images": IN_X,
    "x_train": f"{IN_X}|x_train",
    "x_valid": "x_valid|inputs|input|columns|rows",
    "reference": "reference|x_reference|y_reference",
    "path": "path|folder|root|PathLike",
    "folder": "path|folder|root|PathLike",
    "checkpoint": "checkpoint|folder|text.txt|PathLike",
    "checkpoints": "checkpoints|text.txt|PathLike",
    "images": "images|image",
    "reporter": "reporter|evaluator",
    "judge": "judge|evaluator",
}
"""What an error may say of an argument besides its name."""

# The check of a number is shared: a text or a flag shows that it is made. All kinds are tried on a few arguments.
WHOLE: dict[str, object] = {"text": "3", "a bool": True, "negative": -1}
ABOVE_ZERO: dict[str, object] = {"text": "3", "a bool": True, "zero": 0}
EVERY_WHOLE: dict[str, object] = ABOVE_ZERO | {"a fraction": 1.5, "an object": Odd(), "negative": -1}
REAL: dict[str, object] = {"text of a number": "1", "NaN": math.nan}
POSITIVE: dict[str, object] = REAL | {"zero": 0}
EVERY_REAL: dict[str, object] = POSITIVE | {"text": "many", "complex": 1j, "infinite": math.inf, "negative": -1.0}
NONE: dict[str, object] = {"None": None}
SEEDS: dict[str, object] = {"None": None, "a bool": True, "negative": -1, "too large": BEYOND}
GENERATORS: dict[str, object] = {"a generator of numpy": np.random.default_rng(0)}
TORCH_GENERATORS: dict[str, object] = {"a generator of torch": torch.Generator()}
CHOICE: dict[str, object] = {"unknown": "nonsense", "None": None, "a list": ["nonsense"]}
DEVICES: dict[str, object] = {
    "unknown": "nonsense",
    "not there": "cuda:99",
    "meta": "meta",
    "None": None,
    "a fraction": 1.5,
}
JOBS: dict[str, object] = {"zero": 0, "text": "2", "a fraction": 1.5}
PATHS: dict[str, object] = {"None": None, "a number": 3}
BUDGETS: dict[str, object] = {"a number": 10, "text": "10", "a dict": {"steps": 1}}
LISTS: dict[str, object] = {"an empty list": [], "a list with a number": [fw.Shapley(), 3], "a list with None": [None]}
ONE_WEIGHTING: dict[str, object] = {"text": "Shapley", "a function": fw.Shapley, "a number": 3, "a dict": {}}
OTHER_PLAYERS: dict[str, object] = {"of another number of players": fw.Cardinality([1] * 7)}
WEIGHTS: dict[str, object] = ONE_WEIGHTING | OTHER_PLAYERS | LISTS
ARRAYS: dict[str, object] = {
    "None": None,
    "a dict": {},
    "text": "numbers",
    "a number": 3.0,
    "ragged": [[1.0, 2.0], [3.0]],
    "objects": np.array([[Odd(), 1.0]]),
    "empty": [],
}


def files(of: Callable[..., object], read: Callable[[World, Any], object], *kinds: str) -> None:
    """Add a row for each kind of path that cannot be read; the error names the file."""
    told = {"a folder": "folder", "text": "text.txt"}
    for kind in kinds:
        said = told.get(kind, f"{kind}.safetensors")
        row(of, f"the file is {kind}", said, lambda w, kind=kind: read(w, w.files[kind]))
    each(of, "path", PATHS | {"a list": []}, read)


# Weights -------------------------------------------------------------------------------------------------------------

each(fw.Beta, "alpha", EVERY_REAL | NONE, lambda _, bad: fw.Beta(bad, 1))
each(fw.Beta, "beta", POSITIVE, lambda _, bad: fw.Beta(1, bad))
each(fw.Banzhaf, "t", POSITIVE | {"one": 1}, lambda _, bad: fw.Banzhaf(bad))
each(
    fw.Cardinality,
    "weights",
    ARRAYS | of_shape(3) | {"negative": [1, -1], "all zero": [0, 0], "a table": [[1, 1]]},
    lambda _, bad: fw.Cardinality(bad),
)
each(
    fw.Cardinality.from_log_weights,
    "log_weights",
    ARRAYS | {"with NaN": [0, math.nan], "with inf": [0, math.inf], "all -inf": [-math.inf] * 2, "a table": [[1, 1]]},
    lambda _, bad: fw.Cardinality.from_log_weights(bad),
)
HUGE_TOO: dict[str, object] = ABOVE_ZERO | {"huge": HUGE}
each(fw.Cardinality.at_least, "size", WHOLE | {"too large": 5}, lambda _, bad: fw.Cardinality.at_least(bad, 5))
each(fw.Cardinality.at_least, "n", HUGE_TOO, lambda _, bad: fw.Cardinality.at_least(1, bad))
each(
    fw.Cardinality.at_least,
    "of",
    ONE_WEIGHTING | {"without such sizes": fw.Cardinality([1, 0, 0])},
    lambda _, bad: fw.Cardinality.at_least(1, 3, bad),
)
for weights in (fw.Beta(4, 1), fw.Banzhaf(), fw.LeaveOneOut(), fw.Cardinality([1, 1])):
    law = type(weights)
    each(law.log_join_law, "n", HUGE_TOO, lambda _, bad, weights=weights: weights.log_join_law(bad))
    each(law.quadrature, "nodes", ABOVE_ZERO, lambda _, bad, weights=weights: weights.quadrature(bad))
    each(law.membership_law, "n", HUGE_TOO, lambda _, bad, weights=weights: weights.membership_law(bad, 1))
    each(law.membership_law, "most", WHOLE, lambda _, bad, weights=weights: weights.membership_law(2, bad))
each(fw.Beta.quadrature, "nodes", {"huge": HUGE}, lambda _, bad: fw.Shapley().quadrature(bad))
for method in ("join_law", "log_weights", "log_kernel", "log_paper_kernel", "size_law", "error_per_loss"):
    each(getattr(fw.Semivalue, method), "n", HUGE_TOO, lambda _, bad, method=method: getattr(fw.Shapley(), method)(bad))
each(fw.Semivalue.size_law, "kernel", CHOICE, lambda _, bad: fw.Shapley().size_law(4, bad))
JSON: dict[str, object] = {
    "no JSON": "{",
    "a list": "[]",
    "unknown": '{"semivalue": "Owen"}',
    "None": None,
    "a number": 3,
    "a dict": {},
    "without alpha": '{"semivalue": "Beta", "beta": 1}',
    "of a wrong alpha": '{"semivalue": "Beta", "alpha": [], "beta": 1}',
}
each(fw.Semivalue.from_json, "the text", JSON, lambda _, bad: fw.Semivalue.from_json(bad), words="semivalue|alpha")

# Games ---------------------------------------------------------------------------------------------------------------


def nothing(coalitions: Tensor) -> Tensor:
    """A game in which nothing is worth anything."""
    return coalitions.new_zeros(len(coalitions), dtype=torch.float64)


GAMES: dict[str, object] = {
    "None": None,
    "a number": 3,
    "of too few rows": lambda s: s[:1].double(),
    "of a scalar": lambda _: 3.0,
    "of text": lambda _: "worth",
    "of None": lambda _: None,
    "of NaN": lambda s: s.sum(1) * math.nan,
    "of inf": lambda s: s.sum(1) * math.inf,
    "of complex numbers": lambda s: s.sum(1) * 1j,
    "of three axes": lambda s: s[:, :, None].double(),
    "of no outputs": lambda s: s[:, :0].double(),
    "of ragged lists": lambda s: [[1.0], [1.0, 2.0]] * len(s),
    "of objects": lambda s: np.array([Odd()] * len(s)),
}
ENUMERATING = (fw.exact_values, fw.estimators.exact_wls_values)
SAMPLING = (fw.least_squares_values, fw.permutation_values, fw.multilinear_values, fw.proxy_values)


def asking(estimator: Any) -> Callable[..., Any]:  # noqa: ANN401 - untyped, as all that is called
    """Return an estimator that has what it needs and shows no progress."""

    def ask(w: World, **options: Any) -> Any:  # noqa: ANN401 - any argument
        chosen = {"game": w.game, "weights": fw.Shapley(), "progress": False} | options
        if estimator in SAMPLING:
            chosen = {"n_calls": 64} | chosen
        return estimator(chosen.pop("game"), chosen.pop("weights"), **chosen)

    return ask


for estimator in (*ENUMERATING, *SAMPLING):
    ask = asking(estimator)
    first = estimator is fw.exact_values  # the game is checked by the same code in all
    games_tried = GAMES if first else only(GAMES, "None", "of too few rows", "of NaN")
    each(estimator, "game", games_tried, lambda w, bad, ask=ask: ask(w, game=bad, n_players=4))
    row(estimator, "game is without players", "n_players", lambda w, ask=ask: ask(w, game=nothing))
    each(
        estimator,
        "n_players of a function",
        (EVERY_WHOLE if first else ABOVE_ZERO) | {"huge": HUGE},
        lambda w, bad, ask=ask: ask(w, game=nothing, n_players=bad),
        words=f"n_players|players|{HUGE}",
    )
    named(
        estimator,
        ask,
        {
            "weights": WEIGHTS | NONE if first else only(WEIGHTS, "text", "an empty list", *OTHER_PLAYERS),
            "n_players": ABOVE_ZERO | {"another": 7},
            "batch_size": EVERY_WHOLE | NONE if first else ABOVE_ZERO,
        },
    )
    if not first:
        each(estimator, "total", {"unknown": "nonsense"}, lambda w, bad, ask=ask: ask(w, total=bad))
    if estimator in SAMPLING:
        targets = without(EVERY_REAL, "None") if estimator is fw.least_squares_values else POSITIVE
        counts = ABOVE_ZERO | NONE | {"too small": 3}
        named(estimator, ask, {"n_calls": counts, "target_stderr": targets, "seed": SEEDS | GENERATORS})
each(
    fw.least_squares_values,
    "shared",
    {"a number": 1, "None": None},
    lambda w, bad: asking(fw.least_squares_values)(w, shared=bad),
)
each(
    fw.Estimate.interval,
    "level",
    EVERY_REAL | NONE | {"one": 1.0},
    lambda w, bad: asking(fw.permutation_values)(w).interval(bad),
)
named(
    fw.estimators.exact_wls_values,
    asking(fw.estimators.exact_wls_values),
    {"kernel": CHOICE, "total": {"None": None, "complex": 1j, "NaN": math.nan, "a dict": {}}},
)

each(play.as_game, "game", {"None": None, "a number": 3, "text": "game"}, lambda _, bad: play.as_game(bad))
each(play.as_game, "n_players", {"another": 7, "text": "4"}, lambda w, bad: play.as_game(w.game, bad))
row(play.as_game, "n_players is missing", "n_players", lambda _: play.as_game(nothing))
each(play.FunctionGame, "n_players", ABOVE_ZERO, lambda _, bad: play.FunctionGame(nothing, bad))
each(play.FunctionGame, "function", {"None": None, "a number": 3}, lambda _, bad: play.FunctionGame(bad, 4))
each(play.CheckedGame, "game", {"None": None, "a number": 3}, lambda _, bad: play.CheckedGame(bad))
each(play.CheckedGame, "n_players", ABOVE_ZERO, lambda _, bad: play.CheckedGame(nothing, bad))
each(play.CheckedGame, "batch_size", ABOVE_ZERO, lambda w, bad: play.CheckedGame(w.game, batch_size=bad))
EFFECTS: dict[str, object] = ARRAYS | of_shape(3) | {"a table": [[1.0]]}
TABLES: dict[str, object] = ARRAYS | of_shape(3, 3) | {"of another size": np.ones((2, 2))}
each(play.Additive, "contributions", EFFECTS, lambda _, bad: play.Additive(bad))
each(play.Airport, "costs", EFFECTS | {"negative": [1.0, -1.0]}, lambda _, bad: play.Airport(bad))
each(play.Pairwise, "main", EFFECTS, lambda _, bad: play.Pairwise(bad, np.ones((3, 3))))
each(play.Pairwise, "interactions", TABLES, lambda _, bad: play.Pairwise([1.0, 2.0, 3.0], bad))
each(play.Glove, "left", WHOLE, lambda _, bad: play.Glove(left=bad, right=2))
each(play.Glove, "right", WHOLE, lambda _, bad: play.Glove(left=2, right=bad))
row(play.Glove, "there are no gloves", "left|glove", lambda _: play.Glove(left=0, right=0))
each(play.Random, "n_players", ABOVE_ZERO | {"too large": 40}, lambda _, bad: play.Random(bad), words="n_players|40")
each(play.Random, "outputs", ABOVE_ZERO, lambda _, bad: play.Random(3, outputs=bad))
each(play.Random, "seed", SEEDS | GENERATORS, lambda _, bad: play.Random(3, seed=bad))
CARRIERS: dict[str, object] = {
    "None": None,
    "a number": 1,
    "text": "01",
    "empty": (),
    "twice the same": (1, 1),
    "out of range": (9,),
    "negative": (-1,),
    "a fraction": (0.5,),
}
VOTES: dict[str, object] = {
    "None": None,
    "a number": 3,
    "text": "12",
    "fractions": (0.5,),
    "negative": (-1,),
    "empty": (),
    "ragged": ((1,), 2),
}
each(play.Unanimity, "carrier", CARRIERS, lambda _, bad: play.Unanimity(3, bad))
each(play.Unanimity, "n_players", ABOVE_ZERO, lambda _, bad: play.Unanimity(bad, (0,)))
each(play.Voting, "votes", VOTES, lambda _, bad: play.Voting(bad, 3))
each(play.Voting, "quota", ABOVE_ZERO, lambda _, bad: play.Voting((1, 2), bad))
for known in (
    play.Additive([1.0, 2.0]),
    play.Airport([1.0, 2.0]),
    play.Glove(1, 1),
    play.Pairwise([1.0, 2.0], [[0.0, 1.0], [1.0, 0.0]]),
    play.Unanimity(2, (0,)),
    play.Voting((1, 2), 2),
):
    wrong = NONE | only(ONE_WEIGHTING, "text", "a function") | OTHER_PLAYERS
    each(type(known).values, "weights", wrong, lambda _, bad, known=known: known.values(bad))
CODES: dict[str, object] = {"fractions": [0.5, 1.0], "negative": [-1, 0], "too large": [0, 7]}
named(
    play.NeighborGame,
    lambda _, **bad: play.NeighborGame(**{"labels": torch.tensor([0, 1, 0]), "label": 0, "classes": 2, "k": 1} | bad),
    {
        "labels": ARRAYS | CODES,
        "label": WHOLE | {"too large": 7},
        "classes": ABOVE_ZERO,
        "k": ABOVE_ZERO,
        "utility": CHOICE,
        "ties": CHOICE,
        "closeness": without(ARRAYS, "None") | {"for ranks": [1.0] * 3},
    },
)
named(
    play.NeighborRegressionGame,
    lambda _, **bad: play.NeighborRegressionGame(
        **{"targets": [0.0, 1.0, 2.0], "target": 1.0, "k": 1, "utility": "kernel_error", "closeness": [1.0] * 3} | bad
    ),
    {
        "targets": ARRAYS | {"with NaN": [0.0, math.nan, 1.0], "a table": np.zeros((3, 2))},
        "target": REAL,
        "k": ABOVE_ZERO,
        "utility": CHOICE,
        "default": REAL,
        "closeness": ARRAYS | {"negative": [-1.0] * 3, "of another length": [1.0]},
    },
)

# A model that is retrained: the game, and the valuator

MODELS: dict[str, object] = {"a number": 3, "text": "model", "a class": Majority, "without fit": Odd()}
SCORING: dict[str, object] = {"unknown": "nonsense", "a number": 3, "a list": ["accuracy"]}


def retraining(w: World, **given: Any) -> object:  # noqa: ANN401 - any argument
    chosen = {"model": Majority(), "x": w.points, "y": w.labels, "scoring": accuracy, "empty_value": 0.0} | given
    pair = chosen.pop("reference[0]", w.points), chosen.pop("reference[1]", w.labels)
    return play.RetrainingGame(**{"reference": pair} | chosen)


def sampled(w: World, **options: Any) -> object:  # noqa: ANN401 - any argument
    return w.retrain(**{"method": "tmc", "n_fits": 100} | options)


ROWS: dict[str, object] = {"None": None, "a number": 3.0, "a dict": {}, "empty": [], "ragged": [[1.0], [1.0, 2.0]]}
COLUMN: dict[str, object] = {"None": None, "a number": 3, "a dict": {}, "a table": [[0, 1]], "ragged": [[0], 1]}
TOO_SHORT = {"x": rows(5, 2), "y": [0, 1]}
for x_name, y_name in (("x", "y"), ("reference[0]", "reference[1]")):
    for name, wrong in (
        (x_name, ROWS | {"too short": TOO_SHORT["x"]}),
        (y_name, COLUMN | {"too short": TOO_SHORT["y"]}),
    ):
        each(
            play.RetrainingGame,
            name,
            wrong,
            lambda w, bad, name=name: retraining(w, **{name: bad}),
            words=f"{x_name}|{y_name}",
        )
named(
    play.RetrainingGame,
    retraining,
    {
        "model": MODELS | NONE,
        "scoring": SCORING,
        "empty_value": REAL,
        "seed": SEEDS | GENERATORS,
        "reference": {"a number": 3, "text": "ab", "one array": rows(6, 2), "None": None},
    },
)
each(fw.RetrainingValuator, "model", MODELS | NONE, lambda w, bad: w.retrain(bad or 0))
each(
    fw.RetrainingValuator,
    "model of gradient",
    {"a number": 3, "a model of another kind": Majority()},
    lambda w, bad: w.retrain(bad, method="gradient", n_fits=8),
    words="gradient",
)
each(fw.RetrainingValuator, "weights", WEIGHTS, lambda w, bad: w.retrain(method="beta", weights=bad, n_fits=100))
named(
    fw.RetrainingValuator,
    lambda w, **bad: w.retrain(**bad),
    {
        "scoring": SCORING,
        "method": CHOICE,
        "empty_value": REAL,
        "seed": SEEDS | GENERATORS,
        "n_jobs": JOBS,
        "checkpoint": {"a number": 3, "a list": []},
    },
)
named(
    fw.RetrainingValuator,
    sampled,
    {
        "n_fits": ABOVE_ZERO | {"too small": 1},
        "tolerance": REAL | {"negative": -1.0},
        "target_error": POSITIVE,
        "learning_rate": POSITIVE,
    },
)


def paths(of: Callable[..., object], write: Callable[[World, Path], object]) -> None:
    """Add rows for paths that cannot be written to."""
    row(of, "the file is a folder", "folder", lambda w: write(w, w.folder))
    row(of, "the file is below a file", "text.txt", lambda w: write(w, w.files["text"] / "there"))


paths(fw.RetrainingValuator, lambda w, path: w.retrain(checkpoint=path))
row(
    fw.RetrainingValuator,
    "checkpoint to resume is of another kind",
    "valuation.safetensors",
    lambda w: w.retrain(checkpoint=w.files["valuation"], resume=True),
)
row(fw.RetrainingValuator, "resume has no checkpoint", "checkpoint", lambda w: w.retrain(resume=True))
row(
    fw.RetrainingValuator,
    "weights are not of the method",
    "banzhaf",
    lambda w: w.retrain(method="banzhaf", weights=fw.Shapley()),
)
for valuator in (fw.RetrainingValuator, fw.KNNValuator, fw.AmortizedValuator):
    row(
        valuator.set_params,
        f"an argument of {valuator.__name__} is unknown",
        "nonsense",
        lambda _, valuator=valuator: valuator().set_params(nonsense=1),
    )

# Points and labels, as all valuators take them

POINTS: dict[str, object] = (
    ARRAYS
    | of_shape(12, 2)
    | {"one row": [1.0, 2.0], "without columns": np.ones((12, 0)), "of another length": rows(5, 2)}
)
CLASSES: dict[str, object] = {
    "None": None,
    "a number": 3,
    "text": "labels",
    "a dict": {},
    "empty": [],
    "dicts": [{"a": 1}] * 12,
    "objects": [Odd()] * 12,
    "lists": [[0], [1]] * 6,
    "ragged": [[0], [1, 2]] * 6,
    "fractions": [0.5] * 12,
    "complex": [1j, 2j] * 6,
    "NaN": [math.nan, 1.0] * 6,
    "None among others": [None, "a"] * 6,
    "text and numbers": [1, "a"] * 6,
    "of another length": [0, 1],
    "of one class": [1] * 12,
    "a table": np.zeros((12, 2), dtype=int),
}
REFERENCES: dict[str, object] = {
    "a number": 3,
    "text": "ab",
    "one array": rows(6, 2),
    "of three": (rows(6, 2), [0] * 6, [0] * 6),
    "without labels": (rows(6, 2), None),
    "of another width": (rows(6, 5), [0] * 6),
    "of unknown classes": (rows(6, 2), [9] * 6),
    "of another length": (rows(6, 2), [0] * 5),
    "with NaN": (rows(6, 2) * math.nan, [0] * 6),
    "empty": (rows(6, 2)[:0], []),
}


def new_knn() -> Any:  # noqa: ANN401 - untyped, as all that is called
    return fw.KNNValuator(device="cpu", progress=False)


def new_retraining() -> Any:  # noqa: ANN401 - untyped, as all that is called
    return fw.RetrainingValuator(Majority(), method="leave_one_out", scoring=accuracy, empty_value=0.0, progress=False)


for of, ask_points in {
    fw.KNNValuator.fit: lambda _, x, y, *reference: new_knn().fit(x, y, *reference),
    fw.AmortizedValuator.fit: lambda w, x, y, *reference: w.learner().fit(x, y, *reference),
    fw.RetrainingValuator.fit: lambda w, x, y, *reference: new_retraining().fit(
        x, y, *reference or [(w.points, w.labels)]
    ),
}.items():
    each(of, "x", POINTS, lambda w, bad, ask=ask_points: ask(w, bad, w.labels), words="x|y")
    each(of, "y", CLASSES, lambda w, bad, ask=ask_points: ask(w, w.points, bad))
    each(of, "reference", REFERENCES, lambda w, bad, ask=ask_points: ask(w, w.points, w.labels, bad))
row(
    fw.RetrainingValuator.fit,
    "reference is None",
    "reference",
    lambda w: new_retraining().fit(w.points, w.labels, None),
)
each(fw.value_neighbors, "x", only(POINTS, "text", "with NaN"), lambda w, bad: w.neighbors(bad), words="x|y")
each(fw.value_neighbors, "y", only(CLASSES, "fractions", "of one class"), lambda w, bad: w.neighbors(y=bad))
each(
    fw.value_neighbors,
    "reference[0]",
    without(ARRAYS, "None") | of_shape(12, 2) | {"of another width": rows(12, 5)},
    lambda w, bad: w.neighbors(reference=(bad, w.labels)),
    words="reference",
)
each(
    fw.value_neighbors,
    "reference[1]",
    without(CLASSES, "of one class"),
    lambda w, bad: w.neighbors(reference=(w.points, bad)),
    words="reference",
)
NEIGHBOR_OPTIONS: dict[str, Mapping[str, object]] = {
    "k": ABOVE_ZERO | {"too large": 99},
    "weights": WEIGHTS,
    "task": CHOICE,
    "utility": without(CHOICE, "None"),
    "ties": CHOICE,
    "radius": without(EVERY_REAL, "complex") | {"for ranks": 1.0},
    "metric": CHOICE,
    "scale": {"a number": 3, "text": "yes", "for an array": True},
    "tolerance": REAL | {"negative": -1.0},
    "n_references": EVERY_WHOLE | {"one": 1, "too large": 99},
    "seed": SEEDS | GENERATORS,
    "device": DEVICES,
    "n_jobs": JOBS,
}
QUIET = {"device": "cpu", "progress": False}
named(
    fw.value_neighbors,
    lambda w, **bad: fw.value_neighbors(w.points, w.labels, **QUIET | bad),
    {name: only(bad, next(iter(bad))) for name, bad in NEIGHBOR_OPTIONS.items()},  # it is a KNNValuator's fit
)
named(fw.KNNValuator, lambda w, **bad: fw.KNNValuator(**QUIET | bad).fit(w.points, w.labels), NEIGHBOR_OPTIONS)
NEWCOMERS: dict[str, object] = ARRAYS | of_shape(12, 2) | {"of another width": rows(12, 5), "one row": [1.0, 2.0]}
NEW_LABELS: dict[str, object] = without(CLASSES, "of one class") | {"unknown": [9] * 12, "text of others": ["a"] * 12}
for of, ask_new, new in (
    (fw.KNNValuator.value, lambda w, x, y: w.knn.value(x, y), lambda _: new_knn()),
    (fw.AmortizedValuator.value, lambda w, x, y: w.learned.value(x, y), lambda w: w.learner()),
):
    ask_them: Any = ask_new
    each(of, "x", NEWCOMERS, lambda w, bad, ask=ask_them: ask(w, bad, w.labels), words="x|y")
    each(of, "y", NEW_LABELS, lambda w, bad, ask=ask_them: ask(w, w.points, bad))
    row(of, "it is not fitted", "fit", lambda w, new=new: new(w).value(w.points, w.labels), UNREADY)
MIXTURES: dict[str, object] = ONE_WEIGHTING | LISTS | {"no mixture": fw.Cardinality([1] * 12)}
each(fw.AmortizedValuator.value, "weights", MIXTURES, lambda w, bad: w.learned.value(w.points, w.labels, bad))
named(
    fw.AmortizedValuator,
    lambda w, **bad: w.learner(**bad).fit(w.points, w.labels),
    {
        "weights": MIXTURES,
        "utility": CHOICE | {"a model": Majority()},
        "k": ABOVE_ZERO | {"too large": 99},
        "method": CHOICE,
        "metric": CHOICE,
        "batch_size": ABOVE_ZERO | {"one": 1},
        "budget": BUDGETS | {"seconds": 1.5},
        "seed": SEEDS | GENERATORS,
        "n_jobs": JOBS,
        "device": DEVICES,
    },
)
paths(fw.AmortizedValuator, lambda w, path: w.learner(checkpoint=path).fit(w.points, w.labels))
row(
    fw.AmortizedValuator,
    "resume has no checkpoint",
    "checkpoint",
    lambda w: w.learner(resume=True).fit(w.points, w.labels),
)
row(fw.AmortizedValuator.save, "it is not fitted", "fit", lambda w: w.learner().save(w.folder / "learner"), UNREADY)
each(fw.AmortizedValuator.save, "path", PATHS, lambda w, bad: w.learned.save(bad))
row(fw.AmortizedValuator.save, "path is a folder", "folder", lambda w: w.learned.save(w.folder))
files(
    fw.AmortizedValuator.load,
    lambda _, bad: fw.AmortizedValuator.load(bad, device="cpu"),
    *("a folder", "missing", "text", "damaged", "valuation"),
)


def load_learned(w: World, device: object) -> object:
    w.learned.save(w.folder / "learned.safetensors")
    return fw.AmortizedValuator.load(w.folder / "learned.safetensors", device=device)


each(fw.AmortizedValuator.load, "device", DEVICES, load_learned)

# What a valuation says

ASKED: dict[str, object] = without(ONE_WEIGHTING, "a dict") | {"not asked for": fw.LeaveOneOut()}
SAID = "weights|semivalue|3|leave-one-out"
each(fw.Valuation.of, "weights", ASKED, lambda w, bad: w.valuation.of(bad), words=SAID)
each(fw.Valuation.suspects, "k", ABOVE_ZERO, lambda w, bad: w.valuation.of(fw.Shapley()).suspects(bad))
row(fw.Valuation.suspects, "there are several weightings", "weightings", lambda w: w.valuation.suspects())
paths(
    value.write_valuation_report,
    lambda w, path: value.write_valuation_report(w.valuation.of(fw.Shapley()), path),
)
WRONG_REPORTS: list[dict[str, Any]] = [{"names": [1]}, {"x": rows(3, 2)}, {"images": rows(3, 2)}, {"n_shown": 0}]
for wrong in WRONG_REPORTS:
    row(
        value.write_valuation_report,
        f"{next(iter(wrong))} is wrong",
        next(iter(wrong)),
        lambda w, wrong=wrong: value.write_valuation_report(
            w.valuation.of(fw.Shapley()), w.folder / "report.html", **wrong
        ),
    )
WRONG_SUGGESTIONS: list[dict[str, Any]] = [
    *({"x": rows(3, 2)}, {"y": [0]}, {"points": [99]}, {"points": "text"}, {"k": 99}, {"metric": "odd"}),
]
for wrong in WRONG_SUGGESTIONS:
    row(
        value.suggest_labels,
        f"{next(iter(wrong))} is {next(iter(wrong.values()))!r:.4}",
        "x|y" if "x" in wrong else next(iter(wrong)),
        lambda w, wrong=wrong: value.suggest_labels(**{"x": w.points, "y": w.labels, "points": [0], "k": 2} | wrong),
    )
    row(
        value.suggest_targets,
        f"{next(iter(wrong))} is {next(iter(wrong.values()))!r:.4}",
        "x|y" if "x" in wrong else next(iter(wrong)),
        lambda w, wrong=wrong: value.suggest_targets(**{"x": w.points, "y": w.labels, "points": [0], "k": 2} | wrong),
    )
REAL_TARGETS: dict[str, object] = without(CLASSES, "fractions", "of one class") | {
    "of one target": [1.0] * 12,
    "infinite": [math.inf] * 12,
    "too large to square": [1e200, 0.0] * 6,
    "of texts": ["a", "b"] * 6,
}
each(
    fw.value_neighbors,
    "y",
    {f"{name}, for regression": bad for name, bad in REAL_TARGETS.items()},
    lambda w, bad: fw.value_neighbors(w.points, bad, task="regression", device="cpu", progress=False),
)
paths(fw.Valuation.write_report, lambda w, path: w.valuation.of(fw.Shapley()).write_report(path))
each(fw.Valuation.save, "path", PATHS, lambda w, bad: w.valuation.save(bad))
paths(fw.Valuation.save, lambda w, path: w.valuation.save(path))
READ = ("a folder", "missing", "text", "damaged")
files(fw.Valuation.load, lambda _, bad: fw.Valuation.load(bad), *READ, "attribution")


def valued(w: World, shift: float = 0.0, **options: Any) -> Any:  # noqa: ANN401 - any argument
    return w.neighbors(x=w.points + shift * w.points.square(), reference=(w.points, w.labels), **options)


PARTS: dict[str, object] = {"None": None, "a number": 3, "empty": [], "text": "ab", "numbers": [1, 2]}
each(
    fw.Valuation.merge,
    "parts",
    PARTS | {"None among others": [None]},
    lambda _, bad: fw.Valuation.merge(bad),
    words="parts|merge|merged",
)
MERGED: dict[str, Call] = {
    "one valuation": valued,
    "of different points": lambda w: [valued(w), valued(w, 1.0)],
    "twice the same": lambda w: [valued(w), valued(w)],
    "of different k": lambda w: [valued(w), valued(w, k=3)],
    "valued by each other": lambda w: [w.valuation, w.valuation],
}
for kind, parts in MERGED.items():
    told = "parts|merge|merged|points|twice|same"
    row(fw.Valuation.merge, f"parts are {kind}", told, lambda w, parts=parts: fw.Valuation.merge(parts(w)))

# Wrong labels and curves

NUMBERS: dict[str, object] = ARRAYS | of_shape(12) | {"a table": np.ones((12, 2))}
MASKS: dict[str, object] = ARRAYS | {
    "of another length": [0, 1],
    "indices": np.arange(12),
    "fractions": np.full(12, 0.5),
    "all wrong": np.ones(12),
    "none wrong": np.zeros(12),
    "with NaN": np.full(12, math.nan),
}
for of in (value.measure_detection, value.detection_curve):
    each(of, "values", NUMBERS, lambda _, bad, of=of: of(bad, np.arange(12) < 3))
    each(of, "wrong", MASKS, lambda _, bad, of=of: of(np.arange(12.0), bad))
FLIPS: dict[str, object] = CHOICE | {
    "of another size": np.ones((2, 2)),
    "with a diagonal": np.full((3, 3), 1 / 3),
    "of no sum": 1 - np.eye(3),
    "zero": np.zeros((3, 3)),
    "negative": np.eye(3) - 1,
    "with NaN": np.full((3, 3), math.nan),
    "ragged": [[0.0], [1.0, 0.0]],
}
named(
    value.flip_labels,
    lambda w, **bad: value.flip_labels(**{"y": w.labels} | bad),
    {
        "y": without(CLASSES, "of another length"),
        "share": REAL | NONE | {"negative": -0.1, "above 1": 1.5},
        "how": FLIPS,
        "seed": without(SEEDS, "too large") | TORCH_GENERATORS,
    },
)


def score_rows(points: Any) -> float:  # noqa: ANN401 - rows
    return float(len(points))


def fail(_: object) -> float:
    raise KeyError("a label")


FUNCTIONS: dict[str, object] = {"None": None, "a number": 3, "text": "accuracy", "a model": Majority()}
ANSWERS: dict[str, object] = {"None": None, "text": "high", "NaN": math.nan, "a dict": {}}
for of in (value.removal_curve, value.addition_curve):

    def score(_: World, of: Any = of, **options: Any) -> object:  # noqa: ANN401 - any argument
        chosen = {"values": np.arange(12.0), "fit_and_score": score_rows, "progress": False} | options
        return of(chosen.pop("values"), chosen.pop("fit_and_score"), **chosen)

    each(of, "the score", ANSWERS, lambda w, bad, score=score: score(w, fit_and_score=lambda _: bad), words="score")
    row(of, "fit_and_score fails", "fit_and_score", lambda w, score=score: score(w, fit_and_score=fail), UNREADY)
    seeds = without(SEEDS, "too large") | TORCH_GENERATORS
    each(of, "seed", seeds, lambda w, bad, score=score: score(w, order="random", seed=bad))
    shares = POSITIVE | {"above 1": 1.5, "too small": 1e-9}
    named(
        of, score, {"values": NUMBERS, "fit_and_score": FUNCTIONS, "steps": ABOVE_ZERO, "most": shares, "order": CHOICE}
    )

# Features of images

PICTURES: dict[str, object] = (
    ARRAYS
    | of_shape(8, 1, 4, 4)
    | {
        "a table": np.ones((8, 4)),
        "of five axes": np.ones((8, 1, 1, 4, 4)),
        "of too large numbers": np.full((8, 1, 4, 4), 1e300),
    }
)
PICTURE_LABELS: dict[str, object] = {
    "None among others": [None, "a"] * 4,
    "dicts": [{}] * 8,
    "a number": 3,
    "of another length": [0, 1],
    "of one class": [1] * 8,
    "fractions": [0.5] * 8,
}
FOLDS: dict[str, object] = EVERY_WHOLE | {
    "None": None,
    "a dict": {},
    "one": 1,
    "too many": 99,
    "of another length": [0, 1],
    "of one fold": [0] * 8,
    "one class each": [0, 1] * 4,
}
named(
    fw.cross_fit,
    lambda w, **bad: w.cross_fit(w.pictures, **bad),
    {
        "labels": PICTURE_LABELS,
        "network": {"text": "resnet", "not a module": lambda classes: classes},
        "batch_size": ABOVE_ZERO,
        "learning_rate": POSITIVE,
        "budget": BUDGETS,
        "seed": SEEDS | GENERATORS,
        "device": DEVICES,
        "checkpoint": {"a number": 3, "a list": []},
    },
)
each(fw.cross_fit, "images", PICTURES, lambda w, bad: w.cross_fit(bad))
each(fw.cross_fit, "folds", FOLDS, lambda w, bad: w.cross_fit(w.pictures, folds=bad), words="folds|fold")
row(
    fw.cross_fit,
    "checkpoint is a file",
    "checkpoint|text.txt",
    lambda w: w.cross_fit(w.pictures, checkpoint=w.files["text"]),
)
row(fw.cross_fit, "resume has no checkpoint", "checkpoint", lambda w: w.cross_fit(w.pictures, resume=True))
each(
    fw.valuation.CrossFit.embed,
    "images",
    PICTURES | {"of other channels": np.ones((2, 3, 4, 4))},
    lambda w, bad: w.fitted_twice.embed(bad),
)

# Players -------------------------------------------------------------------------------------------------------------

NAMES: dict[str, object] = {
    "a number": 3,
    "too few": ["a"],
    "twice the same": ["a", "a", "b"],
    "one text": "abc",
    "with None": ["a", "b", None],
}
MEMBERS: dict[str, object] = {
    "None": None,
    "a number": 3,
    "a list": [[0], [1, 2]],
    "text": "ab",
    "empty groups": {"a": []},
    "numbers as groups": {"a": 0},
    "fractions": {"a": [0.5]},
    "overlapping": {"a": [0], "b": [0]},
    "out of range": {"a": [9]},
    "negative": {"a": [-1]},
    "unknown names": {"a": ["city"]},
    "one text": {"a": "city"},
    "None in a group": {"a": [None]},
    "bools": {"a": [True]},
    "NaN": {"a": [math.nan]},
}
SEGMENTS: dict[str, object] = {
    "fractions": [[0.5, 1.0]],
    "one row": [0, 1],
}
ASSIGNMENTS: dict[str, object] = {
    "None": None,
    "fractions": torch.tensor([0.5, 1.0]),
    "with a gap": torch.tensor([0, 2]),
    "negative": torch.tensor([-1, 0]),
    "empty": torch.tensor([], dtype=torch.int64),
}
each(fw.columns, "count", EVERY_WHOLE | NONE | {"huge": HUGE}, lambda _, bad: fw.columns(bad))
each(fw.columns, "names", NAMES, lambda _, bad: fw.columns(3, bad))
each(fw.groups, "members", MEMBERS, lambda _, bad: fw.groups(bad, 3), words="members|group|groups|column")
each(fw.groups, "count", ABOVE_ZERO, lambda _, bad: fw.groups({"a": [0]}, bad))
each(
    fw.groups,
    "names",
    only(NAMES, "a number", "twice the same", "too few"),
    lambda _, bad: fw.groups({"g": [0, 1, 2]}, 3, names=bad),
    words="names|name",
)
for name in ("height", "width", "patch"):
    each(
        fw.grid,
        name,
        ABOVE_ZERO | ({"too large": (2, 5), "of three sides": (1, 2, 3), "None": None} if name == "patch" else {}),
        lambda _, bad, name=name: fw.grid(**{"height": 4, "width": 4, "patch": 2} | {name: bad}),
        words=f"{name}|patches",
    )
row(fw.grid, "there are too many patches", f"height|width|patches|{HUGE}", lambda _: fw.grid(HUGE, 1, patch=HUGE))
each(
    fw.segments,
    "assignment",
    ARRAYS | of_shape(2, 2) | SEGMENTS,
    lambda _, bad: fw.segments(bad),
    words="assignment|segments|players",
)
each(fw.segments, "names", NAMES, lambda _, bad: fw.segments([[0, 1, 2]], bad))
each(
    fw.players.Players,
    "assignment",
    ASSIGNMENTS,
    lambda _, bad: fw.players.Players(bad, ("a", "b")),
    words="assignment|players",
)
each(
    fw.players.Players,
    "names",
    {"None": None, "too few": ("a",), "twice the same": ("a", "a"), "a number": 3},
    lambda _, bad: fw.players.Players(torch.tensor([0, 1]), bad),
    words="names|players",
)
each(
    fw.players.Players.check,
    "x",
    {"None": None, "of another width": rows(2, 7), "one row": torch.ones(3), "an image": images(2)},
    lambda _, bad: fw.columns(3).check(bad),
)

# Recipes -------------------------------------------------------------------------------------------------------------

row(fw.Budget, "nothing is given", "seconds", lambda _: fw.Budget())
each(fw.Budget, "seconds", EVERY_REAL, lambda _, bad: fw.Budget(seconds=bad))
each(fw.Budget, "steps", EVERY_WHOLE, lambda _, bad: fw.Budget(steps=bad))
each(fw.Budget.part, "share", EVERY_REAL | NONE, lambda _, bad: fw.Budget(seconds=10).part(bad))
named(
    fw.training.TrainingOptions,
    lambda _, **bad: fw.training.TrainingOptions(**{"budget": fw.Budget(steps=1), "batch_size": 2} | bad),
    {
        "budget": BUDGETS | NONE,
        "batch_size": ABOVE_ZERO,
        "n_validations": ABOVE_ZERO,
        "patience": ABOVE_ZERO,
        "learning_rate": POSITIVE,
        "weight_decay": REAL | {"negative": -1.0},
        "compiled": {"None": None, "text": "no"},
        "optimizer": {"None": None, "text": "sgd"},
        "resume": {"None": None},
        "progress": {"None": None},
        "warm_start": {"None": None},
        "seed": SEEDS | GENERATORS,
        "checkpoint": {"a number": 3, "text": "file"},
    },
)

# An explainer --------------------------------------------------------------------------------------------------------

each(
    fw.FeatureExplainer,
    "model",
    {"None": None, "a number": 3, "text": "model", "a class": TableModel, "an object": Odd(), "a list": []},
    lambda w, bad: w.fit(rows(20, 4), fw.FeatureExplainer(bad, device="cpu")),
)
OUTPUT_NAMES: dict[str, object] = {"empty": []} | without(NAMES, "too few")
REMOVALS: dict[str, object] = {
    "unknown": "nonsense",
    "None": None,
    "a dict": {},
    "with NaN": [math.nan] * 4,
    "complex": [1j] * 4,
    "ragged": [[1.0], [1.0, 2.0]],
    "objects": [Odd()] * 4,
}
named(
    fw.FeatureExplainer,
    lambda w, **bad: w.fit(rows(20, 4), fw.FeatureExplainer(seeded(TableModel), **{"device": "cpu"} | bad)),
    {
        "players": {"a number": 4, "text": "columns", "a list": [0, 1], "a class": fw.players.Players},
        "surrogate": {"unknown": "nonsense", "a number": 3, "a function": nothing, "a class": TableModel},
        "objective": CHOICE | {"kernel without weights": "kernel"},
        "output": CHOICE,
        "network": CHOICE | {"a fraction": 0.5},
        "removal": REMOVALS,
        "output_names": OUTPUT_NAMES,
        "device": DEVICES,
        "seed": SEEDS | GENERATORS,
    },
)
each(fw.FeatureExplainer, "weights", WEIGHTS, lambda w, bad: w.fit(rows(20, 4), w.new(objective="kernel", weights=bad)))
row(
    fw.FeatureExplainer,
    "weights go with another objective",
    "weights",
    lambda w: w.fit(rows(20, 4), w.new(weights=fw.Shapley())),
)
row(fw.FeatureExplainer.set_params, "an argument is unknown", "nonsense", lambda w: w.new().set_params(nonsense=1))

INPUTS: dict[str, object] = (
    ARRAYS
    | of_shape(6, 4)
    | {
        "too large for single precision": np.full((6, 4), 1e300),
        "one row": torch.ones(4),
        "a Series": pd.Series([1.0, 2.0, 3.0, 4.0]),
        "of another width": rows(6, 7),
        "an image": images(6),
        "dates": np.full((6, 4), "2020-01-01", dtype="datetime64[D]"),
        "a DataFrame of text": pd.DataFrame({"a": ["b"], "b": ["c"], "c": ["d"], "d": ["e"]}),
        "on no device": torch.ones(6, 4, device="meta"),
    }
)
SOME_INPUTS = only(INPUTS, "text", "with NaN", "of complex numbers", "of another width")
"""Of the kinds above, for methods that hand their inputs to `explain`."""
IMAGES: dict[str, object] = (
    ARRAYS
    | of_shape(3, 1, 8, 8)
    | {
        "too large for single precision": np.full((3, 1, 8, 8), 1e300),
        "a table": rows(6, 4),
        "of another size": images(3, size=6),
        "of other channels": images(3, channels=3),
    }
)
TRAINING = without(INPUTS, "of another width", "an image", "a DataFrame of text")
each(fw.FeatureExplainer.fit, "x_train", TRAINING, lambda w, bad: w.fit(bad))
AUGMENT: dict[str, object] = {
    "a number": 3,
    "text": "flip",
    "of another shape": lambda x, _: x[:1],
    "of None": lambda _, __: None,
}
named(
    fw.FeatureExplainer.fit,
    lambda w, **bad: w.fit(rows(20, 4), **bad),
    {
        "x_valid": without(INPUTS, "None"),
        "budget": BUDGETS | NONE,
        "batch_size": ABOVE_ZERO,
        "n_coalitions": ABOVE_ZERO | {"one": 1},
        "learning_rate": POSITIVE,
        "augment": AUGMENT,
        "checkpoint": {"a number": 3, "a list": []},
        "warm_start": {"None": None, "text": "yes"},
    },
)
row(fw.FeatureExplainer.fit, "x_train is an image without players", "players", lambda w: w.fit(images(20)))
row(
    fw.FeatureExplainer.fit,
    "x_train is of text for a module",
    "x_train|column|columns|number|numbers",
    lambda w: w.fit(pd.DataFrame({name: ["u", "v"] * 10 for name in "abcd"})),
)
row(fw.FeatureExplainer.fit, "x_train does not fit the model", "model", lambda w: w.fit(rows(20, 7)))
row(fw.FeatureExplainer.fit, "x_train has a row alone", "x_valid", lambda w: w.fit(rows(1, 4)))
row(fw.FeatureExplainer.fit, "resume has no checkpoint", "checkpoint", lambda w: w.fit(rows(20, 4), resume=True))
row(
    fw.FeatureExplainer.fit,
    "checkpoint is a file",
    "checkpoint|text.txt",
    lambda w: w.fit(rows(20, 4), checkpoint=w.files["text"]),
)
row(fw.FeatureExplainer.fit, "the model is not there", "model", lambda w: w.fit(rows(20, 4), w.loaded), UNREADY)
UNFIT: dict[str, tuple[str, dict[str, object]]] = {
    "output_names are too few": ("output_names|names", {"output_names": ["a"]}),
    "removal is of another width": ("removal", {"surrogate": None, "removal": [0.0] * 7}),
    "the network is of another shape": ("network", {"network": lambda _: torch.nn.Linear(4, 2)}),
    "the network is no module": ("network", {"network": lambda _: 3}),
}
for what, (told, chosen) in UNFIT.items():
    row(fw.FeatureExplainer.fit, what, told, lambda w, chosen=chosen: w.fit(rows(20, 4), w.new(**chosen)))


class Heads(torch.nn.Module):
    """A model of two outputs."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


class Breaking(torch.nn.Module):
    """A model that raises an error of another kind."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: Tensor) -> Tensor:
        del x
        raise self.error


for broken in (RuntimeError, KeyError, AssertionError, AttributeError, IndexError, TypeError):
    row(
        fw.FeatureExplainer.fit,
        f"the model raises {broken.__name__}",
        "model",
        lambda w, broken=broken: w.fit(rows(20, 4), fw.FeatureExplainer(Breaking(broken("odd")), device="cpu")),
    )
each(
    fw.FeatureExplainer.fit,
    "what a function returns",
    {"None": None, "text": "class", "NaN": math.nan, "one number": 3.0},
    lambda w, bad: w.fit(rows(20, 4), fw.FeatureExplainer(lambda _: bad, device="cpu")),
    words="model|function|outputs|returned",
)

named(
    fw.explanation.SelectOutput,
    lambda _, **bad: fw.explanation.SelectOutput(**{"model": seeded(TableModel), "entry": "logits"} | bad),
    {
        "model": {"None": None, "a function": nothing, "a class": TableModel},
        "entry": {"None": None, "a bool": True, "a list": ["logits"]},
    },
)
row(
    fw.FeatureExplainer.fit,
    "the model returns several outputs",
    "SelectOutput",
    lambda w: w.fit(rows(20, 4), fw.FeatureExplainer(Heads(), device="cpu")),
)

row(
    fw.FeatureExplainer,
    "players differ from image to image",
    "players",
    lambda w: w.fit(images(20), fw.FeatureExplainer(seeded(ImageModel), fw.Superpixels(9), device="cpu")),
)
row(
    fw.Explainer,
    "players differ from image to image",
    "players",
    lambda _: fw.Explainer(seeded(ImageModel), images(20), players=fw.Superpixels(9), progress=False),
)
READERS: dict[str, object] = {
    "an empty Dataset": torch.utils.data.TensorDataset(images(0)),
    "a DataLoader of other images": torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images(2, size=6))),
    "of several shapes": [images(1)[0], images(1, size=6)[0]],
    "a list of texts": ["text", "text"],
}
each(
    fw.FeatureExplainer.fit,
    "x_train of images",
    READERS,
    lambda w, bad: w.fit(bad, fw.FeatureExplainer(seeded(ImageModel), fw.grid(8, 8, patch=4), device="cpu")),
    words=f"{IN_X}|x_train",
)
each(fw.FeatureExplainer.explain, "x that is read", READERS, lambda w, bad: w.image.explain(bad), words=IN_X)
each(
    fw.FeatureExplainer,
    "transform",
    {"a number": 3, "text": "flip", "a class of another kind": Odd()},
    lambda w, bad: w.fit(rows(20, 4), w.new(transform=bad)),
)
each(
    fw.FeatureExplainer.load,
    "transform",
    {"a number": 3},
    lambda w, bad: fw.FeatureExplainer.load(w.saved, model=ImageModel(), transform=bad),
)


TARGETS: dict[str, object] = {
    "missing": None,
    "too large": 9,
    "negative": -1,
    "a fraction": 0.5,
    "text": "first",
    "a dict": {},
    "NaN": math.nan,
    "a bool": True,
    "of another length": [0, 1],
    "too large for one": torch.tensor([0, 1, 2, 0, 1, 9]),
    "many and too large": torch.full((6,), 9),
    "a list with None": [None],
    "complex": 1j,
    "huge": HUGE,
}
OUTPUTS: dict[str, object] = {
    "unknown": "nonsense",
    "unknown in a list": ["nonsense"],
    "None": None,
    "too large": [9],
    "negative": [-1],
    "fractions": [0.5],
    "complex": [1j],
    "a dict": {},
    "an object": Odd(),
    "empty": [],
    "of another length": torch.zeros(2, 1, dtype=torch.long),
    "of three axes": torch.zeros(6, 1, 1, dtype=torch.long),
    "many and too large": torch.full((6, 1), 9),
    "bools": [True, False],
    "ragged": [[0], [0, 1]],
    "huge": [HUGE],
    "beyond": [BEYOND],
}
SOME_OUTPUTS = only(OUTPUTS, "unknown", "too large", "fractions", "bools")


def sampled_images(**options: Any) -> Any:  # noqa: ANN401 - any argument
    """Return an explainer of images that samples."""
    chosen = {"players": fw.grid(8, 8, patch=4), "device": "cpu", "progress": False} | options
    return fw.ImageExplainer(chosen.pop("model", seeded(ImageModel)), chosen.pop("players"), **chosen)


named(
    fw.ImageExplainer,
    lambda _, **bad: sampled_images(**bad).explain(images(2)),
    {
        "model": {"None": None, "a number": 3, "a class": ImageModel},
        "players": {
            "None": None,
            "a number": 3,
            "a class": fw.players.Players,
            "of a table": fw.columns(3),
            "a function of something else": lambda _: 3,
        },
        "removal": only(REMOVALS, "unknown", "None", "ragged"),
        "output": CHOICE,
        "n_calls": WHOLE | {"too few": 3, "None": None},
        "output_names": OUTPUT_NAMES,
        "transform": {"a number": 3},
        "device": only(DEVICES, "unknown", "not there"),
        "seed": SEEDS,
    },
)
each(fw.ImageExplainer.explain, "x", IMAGES, lambda _, bad: sampled_images().explain(bad))
each(fw.ImageExplainer.explain, "x that is read", READERS, lambda _, bad: sampled_images().explain(bad), words=IN_X)
each(fw.ImageExplainer.explain, "weights", WEIGHTS, lambda _, bad: sampled_images().explain(images(2), weights=bad))
each(
    fw.ImageExplainer.explain,
    "outputs",
    SOME_OUTPUTS,
    lambda _, bad: sampled_images().explain(images(2), outputs=bad),
)
each(fw.ImageExplainer.explain, "total", CHOICE, lambda _, bad: sampled_images().explain(images(2), total=bad))


TEXTS: dict[str, object] = {
    "None": None,
    "a number": 3,
    "with a number": ["good", 3],
    "empty": [],
    "an empty text": ["good", ""],
    "too long": ["good " * 40],
}


def of_texts(**options: Any) -> Any:  # noqa: ANN401 - any argument
    """Return an explainer of texts that samples."""
    chosen = {"players": fw.words(make_tokenizer()), "device": "cpu"} | options
    return fw.TextExplainer(chosen.pop("model", make_model()), chosen.pop("players"), **chosen)


for unit in (fw.tokens, fw.words, fw.sentences):
    each(unit, "tokenizer", {"None": None, "a function": str.split}, lambda _, bad, unit=unit: unit(bad))
    each(unit, "max_length", ABOVE_ZERO, lambda _, bad, unit=unit: unit(make_tokenizer(), max_length=bad))
    each(unit, "truncate", CHOICE, lambda _, bad, unit=unit: unit(make_tokenizer(), truncate=bad))
named(
    fw.TextExplainer,
    lambda _, **bad: of_texts(**bad).explain(make_texts(2)),
    {
        "model": {"None": None, "a number": 3, "a function": len},
        "players": {"None": None, "a number": 3, "of a table": fw.columns(3)},
        "removal": {"unknown": "nonsense", "of tables": "mean", "None": None},
        "output": CHOICE,
        "n_calls": ABOVE_ZERO | {"too few": 1, "None": None},
        "output_names": OUTPUT_NAMES,
        "device": only(DEVICES, "unknown", "not there"),
        "seed": SEEDS,
    },
)
each(fw.TextExplainer.explain, "x", TEXTS, lambda _, bad: of_texts().explain(bad))
each(fw.TextExplainer.explain, "weights", WEIGHTS, lambda _, bad: of_texts().explain(make_texts(2), weights=bad))
each(fw.TextExplainer.explain, "outputs", SOME_OUTPUTS, lambda _, bad: of_texts().explain(make_texts(2), outputs=bad))
each(fw.TextExplainer.explain, "total", CHOICE, lambda _, bad: of_texts().explain(make_texts(2), total=bad))
each(fw.TextExplainer.game, "x", TEXTS | {"several": ["good", "bad"]}, lambda _, bad: of_texts().game(bad))


@cache
def explained_texts() -> Any:  # noqa: ANN401 - see fw
    """Return values of two texts."""
    return of_texts().explain(["good film", "bad"], progress=False)


named(
    fwshapley.explanation.TextAttribution.plot,
    lambda _, **bad: explained_texts().plot(**bad),
    {
        "rows": {"text": "all", "too large": [2], "zero": 0, "empty": []},
        "output": {"unknown": "nonsense", "too large": 7},
        "limit": POSITIVE,
    },
)
each(
    fwshapley.explanation.TextAttribution.colored,
    "row",
    {"text": "all", "too large": 2},
    lambda _, bad: explained_texts().colored(bad),
)
each(fw.Superpixels, "n_segments", ABOVE_ZERO, lambda _, bad: fw.Superpixels(bad))
each(fw.Superpixels, "compactness", POSITIVE, lambda _, bad: fw.Superpixels(9, compactness=bad))

explainer_type = fw.FeatureExplainer
row(explainer_type.explain, "it is not fitted", "fit", lambda w: w.new().explain(w.x), UNREADY)
each(explainer_type.explain, "x", INPUTS, lambda w, bad: w.table.explain(bad))
each(explainer_type.explain, "x of images", IMAGES, lambda w, bad: w.image.explain(bad))
named(
    explainer_type.explain,
    lambda w, **bad: w.table.explain(w.x, **bad),
    {"weights": WEIGHTS, "outputs": OUTPUTS, "total": CHOICE, "batch_size": ABOVE_ZERO | NONE | {"unknown": "none"}},
)
NO_INPUTS = only(INPUTS, "text", "None", "ragged", "of complex numbers", "of another width", "a Series")
for ask_usable in (explainer_type.usable, explainer_type.find_unusable):
    each(ask_usable, "x", NO_INPUTS, lambda w, bad, ask=ask_usable: ask(w.table, bad), words=IN_X)
    row(ask_usable, "it is not fitted", "fit", lambda w, ask=ask_usable: ask(w.new(), w.x), UNREADY)
each(explainer_type.predictions, "x", SOME_INPUTS, lambda w, bad: w.table.predictions(bad))
each(explainer_type.attribute, "x", only(INPUTS, "None", "a number"), lambda w, bad: w.table.attribute(bad, 0))
each(explainer_type.attribute, "target", TARGETS, lambda w, bad: w.table.attribute(w.x, bad))
for of, ask_x, taken in (
    (explainer_type.__call__, lambda e, x, **o: e(x, **o), ("outputs", "total")),
    (explainer_type.attribute, lambda e, x, **o: e.attribute(x, 0, **o), ("total",)),
    (explainer_type.refine, lambda e, x, **o: e.refine(x, n_calls=34, progress=False, **o), ("outputs",)),
    (explainer_type.sample, lambda e, x, **o: e.sample(x, n_calls=16, progress=False, **o), ("outputs",)),
):
    ask_any: Any = ask_x
    some: dict[str, Mapping[str, object]] = {"outputs": SOME_OUTPUTS, "total": only(CHOICE, "unknown")}
    each(of, "x", SOME_INPUTS, lambda w, bad, ask=ask_any: ask(w.table, bad))
    each(of, "weights", WEIGHTS, lambda w, bad, ask=ask_any: ask(w.table, w.x, weights=bad))
    named(of, lambda w, ask=ask_any, **bad: ask(w.table, w.x, **bad), only(some, *taken))
    if "total" in taken:
        row(of, "total is raw of a kernel", "total", lambda w, ask=ask_any: ask(w.kernel, w.x, total="raw"))
        row(
            of,
            "weights are several",
            "weights|weighting",
            lambda w, ask=ask_any: ask(w.table, w.x, weights=[fw.Shapley()]),
        )
row(explainer_type.explain, "total is raw of a kernel", "total", lambda w: w.kernel.explain(w.x, total="raw"))
row(explainer_type.__call__, "total is raw", "total", lambda w: w.table(w.x, total="raw"))
each(
    explainer_type.explain,
    "errors",
    {"None": None, "text": "yes", "a number": 1},
    lambda w, bad: w.calibrated.explain(w.x, errors=bad),
)
row(explainer_type.explain, "errors are not calibrated", "calibrate", lambda w: w.table.explain(w.x, errors=True))
row(
    explainer_type.explain,
    "errors are of other weights",
    "calibrated|calibrate",
    lambda w: w.calibrated.explain(w.x, errors=True, weights=fw.Banzhaf()),
)
row(
    explainer_type.explain,
    "the model is not there",
    "model",
    lambda w: w.loaded.explain(w.x, outputs="predicted"),
    UNREADY,
)
named(
    explainer_type.refine,
    lambda w, **bad: w.table.refine(w.x, **{"n_calls": 34, "progress": False} | bad),
    {"n_calls": ABOVE_ZERO | NONE | {"too few": 3}, "seed": SEEDS | GENERATORS},
)
named(
    explainer_type.sample,
    lambda w, **bad: w.table.sample(w.x, **{"n_calls": 16, "progress": False} | bad),
    {"n_calls": ABOVE_ZERO | NONE | {"too few": 15}, "total": CHOICE, "seed": SEEDS | GENERATORS},
)
each(explainer_type.explain, "method", CHOICE, lambda w, bad: w.table.explain(w.x, method=bad))
row(
    explainer_type.explain,
    "auto is of an unknown quality",
    "measure_quality",
    lambda w: w.kernel.explain(w.x, method="auto"),
)
row(
    explainer_type.explain,
    "auto has no expected errors",
    "errors",
    lambda w: w.calibrated.explain(w.x, method="auto", errors=True),
)
each(explainer_type.__call__, "method", CHOICE, lambda w, bad: w.table(w.x, method=bad))


def measure_quality(w: World, **options: Any) -> object:  # noqa: ANN401 - any argument
    """Measure the quality of an explainer that no other row asks for it."""
    chosen = {"x": rows(16, 4, seed=1), "n_calls": 16, "progress": False} | options
    return w.calibrated.measure_quality(chosen.pop("x"), **chosen)


named(
    explainer_type.measure_quality,
    measure_quality,
    {
        "x": SOME_INPUTS,
        "n_calls": ABOVE_ZERO | NONE | {"too few": 3},
        "n_inputs": ABOVE_ZERO | {"too few": 4},
        "weights": WEIGHTS,
        "seed": SEEDS | GENERATORS,
    },
)
row(explainer_type.measure_quality, "x is of too few rows", IN_X, lambda w: measure_quality(w, x=rows(4, 4)))


def calibrate(w: World, **options: Any) -> object:  # noqa: ANN401 - any argument
    """Calibrate an explainer that no other row asks for its errors."""
    chosen = {"x": rows(16, 4, seed=1), "n_calls": 16, "progress": False} | options
    return w.kernel.calibrate(chosen.pop("x"), **chosen)


named(
    explainer_type.calibrate,
    calibrate,
    {
        "x": SOME_INPUTS,
        "n_calls": ABOVE_ZERO | NONE | {"too few": 3},
        "n_inputs": ABOVE_ZERO | {"too few": 4},
        "weights": WEIGHTS,
        "seed": SEEDS | GENERATORS,
    },
)
row(explainer_type.calibrate, "x is of too few rows", f"{IN_X}|calls", lambda w: calibrate(w, x=rows(4, 4)))
SHOWN: dict[str, dict[str, object]] = {
    "of other weights": {"weights": fw.Banzhaf()},
    "of another total": {"total": "efficient"},
}
each(
    fw.explanation.ErrorModel.expect,
    "attribution",
    SHOWN,
    lambda w, bad: w.calibrated.error_model_.expect(w.calibrated, w.calibrated.explain(w.x, **bad)),
    words="attribution|calibrated|total",
)
row(explainer_type.compile, "it is not fitted", "fit", lambda w: w.new().compile(), UNREADY)
ALONE = without(INPUTS, "one row", "a Series")
each(explainer_type.game, "x", ALONE | {"several": rows(2, 4)}, lambda w, bad: w.table.game(bad))
each(
    explainer_type.game,
    "players",
    {"a number": 3, "a function of something else": lambda _: 3, "a table's": fw.columns(4), "a class": fw.Superpixels},
    lambda w, bad: w.image.game(images(1), bad),
)
row(explainer_type.game, "players are given for a table", "players", lambda w: w.table.game(w.x[:1], fw.columns(4)))
row(explainer_type.game, "it is not fitted", "fit", lambda w: w.new().game(w.x[:1]), UNREADY)


def distil(w: World, **options: Any) -> object:  # noqa: ANN401 - any argument
    chosen = {"x_train": rows(20, 4), "budget": fw.Budget(steps=1), "progress": False, "network": "auto"} | options
    return w.table.distill(chosen.pop("x_train"), **chosen)


named(
    explainer_type.distill,
    distil,
    {
        "x_train": SOME_INPUTS | NONE,
        "x_valid": SOME_INPUTS,
        "network": CHOICE | {"for images": "slim", "of no module": lambda _: 3},
        "budget": BUDGETS | NONE,
        "batch_size": ABOVE_ZERO,
        "learning_rate": POSITIVE,
        "augment": AUGMENT,
    },
)

# Files of an explainer

row(explainer_type.save, "it is not fitted", "fit", lambda w: w.new().save(w.folder / "nothing"), UNREADY)
each(explainer_type.save, "folder", PATHS, lambda w, bad: w.table.save(bad))
row(explainer_type.save, "folder is a file", "text.txt", lambda w: w.table.save(w.files["text"]))

each(explainer_type.to_onnx, "path", PATHS, lambda w, bad: w.table.to_onnx(bad))
row(explainer_type.to_onnx, "path is a folder", "folder", lambda w: w.table.to_onnx(w.folder))
same = "surrogate is the same file"
row(explainer_type.to_onnx, same, "surrogate", lambda w: w.table.to_onnx("a.onnx", surrogate=Path("a.onnx")))
row(explainer_type.to_onnx, "it is not fitted", "fit", lambda w: w.new().to_onnx("nothing.onnx"), UNREADY)
each(fw.load_onnx, "path", PATHS, lambda _, bad: fw.load_onnx(bad))
row(fw.load_onnx, "path is missing", "missing", lambda w: fw.load_onnx(w.folder / "missing"))
row(fw.load_onnx, "path is a text", "text.txt", lambda w: fw.load_onnx(w.files["text"]))
each(fw.load_onnx, "n_threads", ABOVE_ZERO, lambda w, bad: fw.load_onnx(w.files["text"], n_threads=bad))


def load(w: World, folder: object = None, **options: Any) -> object:  # noqa: ANN401 - any argument
    chosen = {"model": seeded(ImageModel), "device": "cpu"} | options
    return explainer_type.load(w.saved if folder is None else folder, **chosen)


def damaged(w: World) -> Path:
    """Return a folder whose explainer is cut off."""
    folder = w.folder / "damaged"
    folder.mkdir(exist_ok=True)
    (folder / "explainer.safetensors").write_bytes((w.saved / "explainer.safetensors").read_bytes()[:-9])
    return folder


for of, read in ((explainer_type.load, load), (fw.load, lambda _, path: fw.load(path))):
    read_any: Any = read
    row(of, "folder is missing", "missing", lambda w, read=read_any: read(w, w.folder / "missing"))
    row(of, "folder is a file", "text.txt", lambda w, read=read_any: read(w, w.files["text"]))
    row(of, "folder is damaged", "damaged", lambda w, read=read_any: read(w, damaged(w)))
each(fw.load, "path", PATHS, lambda _, bad: fw.load(bad))
each(explainer_type.load, "path", PATHS, lambda _, bad: explainer_type.load(bad))
LOADED: dict[str, object] = {
    "missing": None,
    "a number": 3,
    "text": "model",
    "a class": ImageModel,
    "of another architecture": TableModel(),
    "a function": nothing,
}
named(
    explainer_type.load,
    load,
    {
        "model": LOADED,
        "surrogate": {"a number": 3, "text": "auto"},
        "network": {"a number": 3, "text": "nonsense", "of no module": lambda _: 3},
        "device": DEVICES,
    },
)

# What an explainer says

each(fw.Attribution.to, "device", only(DEVICES, "unknown", "not there"), lambda w, bad: w.attribution.to(bad))
named(
    fw.Attribution.plot,
    lambda w, **bad: w.attribution.plot(**bad),
    {
        "rows": ABOVE_ZERO | NONE | {"too large": [99], "empty": []},
        "output": WHOLE | {"too large": 9},
        "names": {"a number": 3, "too few": ["a"]},
    },
)
named(
    fw.Attribution.plot,
    lambda w, **bad: w.image_attribution.plot(**bad),
    {
        "output": {"an empty list": [], "a list with None": [0, None], "a list with a number too large": [0, 9]},
        "style": {"unknown": "nonsense", "a number": 3, "None": None},
        "sign": {"unknown": "nonsense", "a number": 3, "None": None},
        "smooth": {"None": None, "text": "no"},
        "limit": {"zero": 0.0, "NaN": math.nan, "text": "large"},
        "images": {"a number": 3, "text": "images", "too few": images(2), "of another size": images(3, size=4)},
    },
)
row(fw.Attribution.plot, "style of a table", "style", lambda w: w.attribution.plot(style="heat_map"))
row(
    fw.Attribution.plot,
    "all signs of masked images",
    "sign",
    lambda w: w.image_attribution.plot(style="masked_image", sign="all"),
)
A_PLACE: dict[str, object] = WHOLE | {"too large": 99, "unknown": "nonsense", "a fraction": 1.5}
AN_OUTPUT: dict[str, object] = A_PLACE | {"a list": [0]}
for summary in (fw.Attribution.plot_importance, fw.Attribution.plot_beeswarm):
    named(
        summary,
        lambda w, summary=summary, **bad: summary(w.attribution, **bad),
        {"output": AN_OUTPUT, "n_shown": ABOVE_ZERO | NONE},
    )
named(
    fw.Attribution.plot_waterfall,
    lambda w, **bad: w.attribution.plot_waterfall(**bad),
    {"row": A_PLACE | NONE, "output": AN_OUTPUT, "n_shown": ABOVE_ZERO | NONE},
)
named(
    fw.Attribution.plot_dependence,
    lambda w, **bad: w.attribution.plot_dependence(**({"player": 0} | bad)),
    {"player": A_PLACE | NONE, "color": A_PLACE, "output": AN_OUTPUT},
)


def follow(w: World, method: str, **options: Any) -> object:  # noqa: ANN401 - any argument
    chosen = {"game": lambda coalitions: coalitions.sum(1) * 1.0} | options
    return getattr(w.image_attribution, method)(**chosen)


NOT_GAMES: dict[str, object] = {
    "None": None,
    "a number": 3,
    "text": "game",
    "of None": lambda _: None,
    "of too few rows": lambda coalitions: coalitions[:1].sum(1),
    "of NaN": lambda coalitions: coalitions.sum(1) * math.nan,
    "of too many players": play.Glove(left=3, right=3),
    "of too few outputs": lambda coalitions: coalitions[:, :2] * 1.0,
}
INCLUSION: dict[str, dict[str, object]] = {
    "game": NOT_GAMES,
    "row": A_PLACE | NONE,
    "output": AN_OUTPUT,
    "images": {"a number": 3, "too few": images(2)},
    "seed": SEEDS,
}
named(
    fw.Attribution.plot_inclusion,
    lambda w, **bad: follow(w, "plot_inclusion", **({"output": 2} | bad)),
    INCLUSION | {"n_shown": {"one": 1, "text": "all", "None": None}},
)
named(
    fw.Attribution.animate_inclusion,
    lambda w, **bad: follow(w, "animate_inclusion", **({"output": 2, "path": w.folder / "film.gif"} | bad)),
    INCLUSION | {"path": PATHS | {"a picture": "film.png"}},
)
row(fw.Attribution.plot_inclusion, "rows of a table", "plot_inclusion", lambda w: w.attribution.plot_inclusion(len))
row(fw.Attribution.save, "path is a folder", "folder", lambda w: w.attribution.save(w.folder))


def choose(w: World, **options: Any) -> object:  # noqa: ANN401 - any argument
    chosen = {"explainer": w.table, "x": w.x, "steps": 2, "progress": False} | options
    return fw.choose_weights(chosen.pop("explainer"), chosen.pop("x"), **chosen)


EXPLAINERS: dict[str, object] = {
    "None": None,
    "a model": TableModel(),
    "text": "explainer",
    "a class": fw.FeatureExplainer,
}
JUDGES: dict[str, object] = {
    "a number": 3,
    "text": "judge",
    "of None": lambda _, __: None,
    "of too few rows": lambda x, _: x[:1],
    "of one axis": lambda x, _: x[:, 0],
    "of NaN": lambda x, _: x * math.nan,
    "of too few classes": lambda x, _: x[:, :0],
}
CANDIDATES: dict[str, object] = LISTS | {
    "None": None,
    "one": fw.Shapley(),
    "a number": 3,
    "text": "Shapley",
    "of another number of players": [fw.Cardinality([1, 1])],
}
named(
    fw.choose_weights,
    choose,
    {
        "explainer": EXPLAINERS,
        "x": SOME_INPUTS,
        "candidates": CANDIDATES,
        "per_input": {"None": None, "text": "no"},
        "steps": ABOVE_ZERO,
        "evaluator": JUDGES,
        "reporter": only(JUDGES, "a number", "of NaN"),
    },
)
row(fw.choose_weights, "the explainer is not fitted", "fit", lambda w: choose(w, explainer=w.new()), UNREADY)
row(fw.choose_weights, "the explainer knows one weighting", "objective", lambda w: choose(w, explainer=w.kernel))


def report(w: World, **options: Any) -> object:  # noqa: ANN401 - any argument
    chosen: dict[str, Any] = {"explainer": w.table, "x": w.x[:2], "path": w.folder / "report.html", "n_calls": 16}
    chosen |= {"weights": [fw.Shapley()], "n_shown": 1, "progress": False} | options
    return fw.write_report(chosen.pop("explainer"), chosen.pop("x"), chosen.pop("path"), **chosen)


WANTED: dict[str, object] = {
    "of another length": [0],
    "too large": [9, 9],
    "negative": [-1, 0],
    "fractions": [0.5, 1.0],
    "text": ["a", "b"],
    "None among others": [None, 0],
    "a number": 0,
    "a dict": {},
    "complex": [1j, 1j],
}
named(
    fw.write_report,
    report,
    {
        "explainer": EXPLAINERS,
        "x": SOME_INPUTS,
        "path": PATHS,
        "labels": WANTED,
        "weights": WEIGHTS,
        "evaluator": only(JUDGES, "a number", "of too few rows"),
        "baselines": {"unknown": ["nonsense"], "one text": "random", "a number": 3, "None": None, "numbers": [3]},
        "n_shown": ABOVE_ZERO,
        "seed": SEEDS | GENERATORS,
    },
)
row(fw.write_report, "the explainer is not fitted", "fit", lambda w: report(w, explainer=w.new()), UNREADY)
paths(fw.write_report, lambda w, path: report(w, path=path))
each(fw.write_report, "n_calls", ABOVE_ZERO | {"too few": 3}, lambda w, bad: report(w, n_calls=bad))
each(
    fw.write_report,
    "examples",
    {"a number": 3, "of another width": rows(4, 7), "empty": []},
    lambda w, bad: report(w, baselines=["class_mean"], examples=bad),
    words=f"examples|{IN_X}",
)
row(fw.write_report, "examples are missing", "examples", lambda w: report(w, baselines=["class_mean"]))

# Surrogates


def fill(_: World | None = None, **options: Any) -> Any:  # noqa: ANN401 - any argument
    chosen = {"network": seeded(TableModel), "players": fw.columns(4), "fill": torch.zeros(1, 4)} | options
    return fw.explanation.Surrogate(chosen.pop("network"), chosen.pop("players"), chosen.pop("fill"), **chosen).eval()


def tell(_: World | None = None, **options: Any) -> Any:  # noqa: ANN401 - any argument
    chosen = {"x": rows(20, 4), "players": fw.columns(4), "n_outputs": 3} | options
    return fw.explanation.TableSurrogate(chosen.pop("x"), chosen.pop("players"), chosen.pop("n_outputs"), **chosen)


MODULES: dict[str, object] = {"None": None, "a number": 3, "a function": nothing}
WHO: dict[str, object] = {"None": None, "a number": 4, "a list": [0, 1]}
FILLS: dict[str, object] = {
    "None": None,
    "a number": 0.0,
    "a list": [0.0] * 4,
    "without rows": torch.zeros(0, 4),
    "of another width": torch.zeros(1, 7),
    "with NaN": torch.full((1, 4), math.nan),
}
TENSORS: dict[str, object] = {
    "None": None,
    "a list": [[1.0] * 4],
    "without rows": rows(6, 4)[:0],
    "of another width": rows(6, 7),
    "with NaN": rows(6, 4) * math.nan,
    "complex": rows(6, 4) + 1j,
}
named(fw.explanation.Surrogate, fill, {"network": MODULES, "players": WHO, "fill": FILLS, "kind": CHOICE})
named(
    fw.explanation.TableSurrogate,
    tell,
    {
        "x": TENSORS | {"one row": torch.ones(4)},
        "players": WHO | {"of images": fw.grid(4, 4, patch=2)},
        "n_outputs": ABOVE_ZERO,
    },
)


def game_of_surrogate() -> Any:  # noqa: ANN401 - untyped, as all that is called
    return play.MaskedModel(tell(), "probability", 4, torch.device("cpu"))


def teach(_: World, **options: Any) -> object:  # noqa: ANN401 - any argument
    chosen: dict[str, Any] = {"masked_model": game_of_surrogate(), "model": seeded(TableModel), "x": rows(20, 4)}
    chosen |= {"x_valid": rows(6, 4)}
    chosen |= {"options": fw.training.TrainingOptions(fw.Budget(steps=1), batch_size=4, progress=False)} | options
    return fw.explanation.train_surrogate(**chosen)


def compare(_: World, **options: Any) -> object:  # noqa: ANN401 - any argument
    chosen: dict[str, Any] = {"masked_model": game_of_surrogate(), "model": seeded(TableModel), "x": rows(20, 4)}
    return fw.explanation.measure_fidelity(**chosen | options)


SHARED: dict[str, Mapping[str, object]] = {
    "masked_model": MODULES,
    "model": MODULES | {"of another width": TableModel(7)},
    "x": TENSORS,
}
named(fw.explanation.measure_fidelity, compare, SHARED | {"seed": SEEDS | GENERATORS})
named(
    fw.explanation.train_surrogate,
    teach,
    SHARED | {"x_valid": TENSORS, "options": {"None": None, "a number": 3, "text": "adam"}, "augment": AUGMENT},
)

# Other methods -------------------------------------------------------------------------------------------------------

each(fw.baseline, "name", CHOICE, lambda w, bad: fw.baseline(bad, w.table))
each(fw.baseline, "explainer", EXPLAINERS, lambda _, bad: fw.baseline("random", bad))
row(fw.baseline, "the explainer is not fitted", "fit", lambda w: fw.baseline("random", w.new()), UNREADY)
row(fw.baseline, "an option is unknown", "nonsense", lambda w: fw.baseline("random", w.table, nonsense=1))
row(fw.baseline, "examples are missing", "examples", lambda w: fw.baseline("class_mean", w.table))
row(fw.baseline, "it is for images", "images", lambda w: fw.baseline("gradcam", w.table))
row(fw.baseline, "the model is not there", "model", lambda w: fw.baseline("saliency", w.loaded), UNREADY)
row(other.Baseline, "options is a list", "options", lambda w: other.Baseline("random", w.table, [("seed", 1)]))


def by(w: World, method: str, x: object = None, options: Mapping[str, object] | None = None, **asked: Any) -> object:  # noqa: ANN401 - any
    made = fw.baseline(method, w.table, **options or {})
    return made.explain(w.x[:2] if x is None else x, **{"outputs": [0], "progress": False} | asked)


each(other.Baseline.explain, "x", SOME_INPUTS, lambda w, bad: by(w, "random", bad))
each(
    other.Baseline.explain,
    "weights",
    WEIGHTS,
    lambda w, bad: by(w, "least_squares", options={"n_calls": 40}, weights=bad),
)
row(
    other.Baseline.explain,
    "weights are given to a method without",
    "weights",
    lambda w: by(w, "random", weights=fw.Shapley()),
)
row(other.Baseline.explain, "weights are not Shapley", "Shapley", lambda w: by(w, "kernel_shap", weights=fw.Banzhaf()))
each(other.Baseline.explain, "outputs", SOME_OUTPUTS, lambda w, bad: by(w, "random", outputs=bad))
each(other.Baseline.explain, "batch_size", ABOVE_ZERO, lambda w, bad: by(w, "saliency", batch_size=bad))
for method in ("kernel_shap", "shapley_sampling", "permutation", "least_squares", "multilinear", "random"):
    each(
        other.Baseline.explain,
        f"seed of {method}",
        SEEDS,
        lambda w, bad, method=method: by(w, method, options={"seed": bad}),
        words="seed",
    )
    if method != "random":
        each(
            other.Baseline.explain,
            f"n_calls of {method}",
            ABOVE_ZERO | {"too few": 3},
            lambda w, bad, method=method: by(w, method, options={"n_calls": bad}),
            words="n_calls",
        )
STARTS: dict[str, object] = without(ARRAYS, "None", "a number") | {"of another width": [0.0] * 7, "NaN": math.nan}
named(
    other.Baseline.explain,
    lambda w, **bad: by(w, "integrated_gradients", options=bad),
    {"steps": ABOVE_ZERO, "start": STARTS},
)
each(
    other.Baseline.explain,
    "layer",
    {"unknown": "nonsense", "a number": 3, "no map": "head", "a module": torch.nn.Linear(1, 1)},
    lambda w, bad: fw.baseline("gradcam", w.image, layer=bad).explain(w.pixels[:1], outputs=[0], progress=False),
)
each(
    other.Baseline.explain,
    "examples",
    {"of another width": rows(4, 7), "with NaN": rows(4, 4) * math.nan, "a number": 3, "text": "some"},
    lambda w, bad: by(w, "class_mean", options={"examples": bad}),
    words=f"examples|example|{IN_X}",
)

# Metrics -------------------------------------------------------------------------------------------------------------

RANKED: dict[str, object] = {
    "None": None,
    "of another length": rows(2, 4),
    "of three axes": torch.ones(6, 4, 3),
    "with NaN": rows(6, 4) * math.nan,
    "one row": torch.ones(4),
}
LABELS: dict[str, object] = {
    "None": None,
    "a number": 0,
    "of another length": torch.tensor([0, 1]),
    "too large": torch.full((6,), 9),
    "negative": torch.full((6,), -1),
    "fractions": torch.full((6,), 0.5),
    "text": ["a"] * 6,
}


def curve(w: World, of: Any = measure.inclusion_curves, **options: Any) -> object:  # noqa: ANN401 - any argument
    """Ask for a curve of inputs."""
    chosen = {"evaluator": w.evaluator, "x": w.x, "values": w.x, "labels": torch.arange(6) % 3, "steps": 2} | options
    return of(*[chosen.pop(name) for name in ("evaluator", "x", "values", "labels")], **chosen)


named(
    measure.inclusion_curves,
    curve,
    {
        "evaluator": JUDGES | NONE,
        "x": {"None": None, "a list": [[1.0] * 4] * 6, "of another length": rows(2, 4), "without rows": rows(6, 4)[:0]},
        "values": RANKED,
        "labels": LABELS,
        "steps": ABOVE_ZERO,
        "score": CHOICE,
    },
)
for of in (measure.inclusion_curve, measure.exclusion_curve, measure.exclusion_curves):
    named(of, lambda w, of=of, **bad: curve(w, of, **bad), {"values": only(RANKED, "None"), "steps": ABOVE_ZERO})
each(measure.exclusion_curves, "score", CHOICE, lambda w, bad: curve(w, measure.exclusion_curves, score=bad))
LINE: dict[str, object] = {
    "None": None,
    "a number": 3,
    "empty": torch.ones(0),
    "one point": torch.ones(1),
    "with NaN": torch.tensor([0.0, math.nan, 1.0]),
    "text": "curve",
}
LINES: dict[str, object] = {
    "None": None,
    "a number": 3,
    "one curve": torch.ones(4),
    "one point each": torch.ones(3, 1),
    "with NaN": torch.full((2, 3), math.nan),
}
AGREEING: dict[str, object] = {
    "None": None,
    "of another shape": rows(2, 7),
    "one row": torch.ones(4),
    "with NaN": rows(6, 4) * math.nan,
    "without rows": rows(6, 4)[:0],
}
each(measure.area, "curve", LINE, lambda _, bad: measure.area(bad), words="curve|points")
each(
    measure.area,
    "share",
    EVERY_REAL | NONE | {"above 1": 2.0, "too small": 1e-9},
    lambda _, bad: measure.area(torch.linspace(0, 1, 9), bad),
    words="share|first",
)
each(measure.areas, "curves", LINES, lambda _, bad: measure.areas(bad))
each(measure.skill, "area_of_interest", REAL, lambda _, bad: measure.skill(bad, random=0.0, best=1.0))
each(measure.skill, "random", REAL | {"equal to best": 1.0}, lambda _, bad: measure.skill(0.5, random=bad, best=1.0))
each(measure.skill, "best", REAL, lambda _, bad: measure.skill(0.5, random=0.0, best=bad))
each(measure.measure_agreement, "estimate", AGREEING, lambda w, bad: measure.measure_agreement(bad, w.x))
each(measure.measure_agreement, "reference", AGREEING, lambda w, bad: measure.measure_agreement(w.x, bad))

# Data sets -----------------------------------------------------------------------------------------------------------

each(data.load, "name", CHOICE, lambda w, bad: data.load(bad, w.folder, download=False))
each(data.load, "split", CHOICE, lambda w, bad: data.load("cifar10", w.folder, split=bad, download=False))
each(
    data.load,
    "root",
    {"a number": 3, "a list": [1]},
    lambda _, bad: data.load("cifar10", bad, download=False),
    words="path|folder|root|PathLike",
)
row(
    data.load,
    "root has no files",
    "cifar-10-binary.tar.gz|CIFAR-10",
    lambda w: data.load("cifar10", w.folder / "empty", download=False),
)
row(data.load, "root is a file", "text.txt", lambda w: data.load("cifar10", w.files["text"], download=False))
row(
    data.load,
    "root is a missing file",
    "there.npz",
    lambda w: data.load("cifar10", w.folder / "there.npz", download=False),
)


def packed(w: World, **arrays: Any) -> Path:  # noqa: ANN401 - any array
    path = w.folder / "packed.npz"
    np.savez(path, **arrays)
    return path


def cut_off(w: World) -> Path:
    whole = packed(w, x_train=np.zeros((4, 8, 8), np.uint8), y_train=np.zeros(4, int)).read_bytes()
    (w.folder / "cut.npz").write_bytes(whole[:-40])
    return w.folder / "cut.npz"


BLACK = np.zeros((2, 4, 4), np.uint8)
PACKED: dict[str, tuple[str, Callable[[World], Path]]] = {
    "the file is missing": ("there.npz", lambda w: w.folder / "there.npz"),
    "the file is a folder": ("folder", lambda w: w.folder),
    "the file is text": ("text.txt", lambda w: w.files["text"]),
    "the file is cut off": ("cut.npz", cut_off),
    "the file has objects": ("packed.npz", lambda w: packed(w, x_train=np.array([Odd()]), y_train=[0])),
    "the file has no labels": ("y_train", lambda w: packed(w, x_train=BLACK)),
    "the file has too few labels": ("labels", lambda w: packed(w, x_train=BLACK, y_train=[0])),
    "the file has fractions": ("bytes", lambda w: packed(w, x_train=BLACK / 2, y_train=[0, 1])),
    "labels are text": ("labels|y_train", lambda w: packed(w, x_train=BLACK, y_train=["a", "b"])),
    "labels are fractions": ("labels|y_train", lambda w: packed(w, x_train=BLACK, y_train=[0.5, 1.0])),
}
for what, (told, write) in PACKED.items():
    row(data.read_packed, what, told, lambda w, write=write: data.read_packed(write(w)))
each(data.read_packed, "path", PATHS, lambda _, bad: data.read_packed(bad), words="path|None|3")
each(data.read_packed, "split", CHOICE, lambda w, bad: data.read_packed(packed(w, x_train=BLACK, y_train=[0, 1]), bad))

# Trees ---------------------------------------------------------------------------------------------------------------


@cache
def trees() -> fw.TreeExplainer:
    """Explainer of a small tree of three features."""
    x = rows(40, 3).numpy()
    return fw.TreeExplainer(DecisionTreeRegressor(max_depth=3, random_state=0).fit(x, x[:, 0]), x)


NOT_TREES: dict[str, object] = {"None": None, "a number": 3, "not fitted": DecisionTreeRegressor(), "a class": dict}
TREE_ROWS: dict[str, object] = ARRAYS | {"of too few columns": np.zeros((4, 2)), "complex": np.zeros((4, 3)) + 1j}
tree_type = fw.TreeExplainer
each(tree_type, "model", NOT_TREES, lambda _, bad: tree_type(bad))
named(
    tree_type,
    lambda _, **bad: tree_type(trees().ensemble, **{"background": np.zeros((4, 3))} | bad),
    {
        "players": {"a number": 3, "of other columns": fw.columns(2), "of an image": fw.grid(4, 4, patch=2)},
        "background_weights": {"text": "x", "negative": [-1.0] * 4, "too few": [1.0]},
    },
)
each(
    tree_type,
    "background",
    without(TREE_ROWS, "None"),
    lambda _, bad: tree_type(trees().ensemble, bad),
)
each(tree_type.explain, "x", TREE_ROWS, lambda _, bad: trees().explain(bad))
for ask_usable in (tree_type.usable, tree_type.find_unusable):
    each(ask_usable, "x", TREE_ROWS, lambda _, bad, ask=ask_usable: ask(trees(), bad))
each(tree_type.interactions, "x", TREE_ROWS, lambda _, bad: trees().interactions(bad))
each(tree_type.interactions, "weights", WEIGHTS, lambda _, bad: trees().interactions(np.zeros((2, 3)), weights=bad))
named(
    tree_type.explain,
    lambda _, **bad: trees().explain(np.zeros((2, 3)), **bad),
    {
        "weights": WEIGHTS,
        "outputs": {"unknown": "odd", "too large": [9], "a number": 9, "None": None, "an empty list": []},
        "total": CHOICE,
    },
)
each(tree_type.save, "path", PATHS, lambda _, bad: trees().save(bad))
row(tree_type.save, "path is a folder", "folder", lambda w: trees().save(w.folder))
files(tree_type.load, lambda _, bad: tree_type.load(bad), *READ, "attribution")
table_x = pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=list("abc"))
row(
    tree_type.explain,
    "x has renamed columns",
    "columns",
    lambda _: tree_type(DecisionTreeRegressor().fit(table_x, [0, 1, 2, 3])).explain(table_x.rename(columns={"a": "z"})),
)
row(
    tree_type.explain,
    "x has NaN for which the model has no rule",
    "missing",
    lambda _: tree_type(GradientBoostingRegressor(n_estimators=2).fit(table_x, [0, 1, 2, 3])).explain(
        np.full((1, 3), np.nan)
    ),
)


def written(w: World, text: str) -> Path:
    path = w.folder / "model.txt"
    path.write_text(text)
    return path


row(tree_type, "the file is of an unknown version", "v9", lambda w: tree_type(written(w, "tree\nversion=v9\n")))
row(tree_type, "the file has no trees", "JSON", lambda w: tree_type(written(w, '{"nodeid": 0, "leaf": 1.0}')))
row(tree_type, "the file is missing", "missing", lambda w: tree_type(w.folder / "missing.json"))

# Linear models, enumeration, and the front door ----------------------------------------------------------------------

POINTS_OF_THREE: Any = rows(20, 3).numpy().astype(np.float64)


@cache
def linear() -> Any:  # noqa: ANN401 - untyped, as all that is called
    """A fitted linear model of three columns."""
    return LinearRegression().fit(POINTS_OF_THREE, POINTS_OF_THREE[:, 0])


@cache
def pipeline() -> Any:  # noqa: ANN401 - untyped, as all that is called
    """Fitted boosted trees behind a scaler, of three columns, none of which may be missing."""
    trees_of_three = GradientBoostingRegressor(n_estimators=3, random_state=0)
    return make_pipeline(StandardScaler(), trees_of_three).fit(POINTS_OF_THREE, POINTS_OF_THREE[:, 0])


def product(some: Any) -> Any:  # noqa: ANN401 - rows
    """A function of three columns."""
    return some[:, 0] * some[:, 1] + some[:, 2]


NO_TABLES: dict[str, object] = ARRAYS | {
    "of too few columns": np.zeros((4, 2)),
    "complex": np.zeros((4, 3)) + 1j,
    "with NaN": np.full((2, 3), math.nan),
    "one row": np.zeros(3),
    "without rows": np.zeros((0, 3)),
    "dates": np.full((2, 3), "2020-01-01", dtype="datetime64[D]"),
}
NOT_ITS_PLAYERS: dict[str, object] = {
    "a number": 3,
    "of other columns": fw.columns(2),
    "of an image": fw.grid(4, 4, patch=2),
}
SOME_OF_ONE: dict[str, object] = {"unknown": "odd", "too large": [9], "a number": 9, "None": None, "empty": []}
MAKERS: dict[Any, Callable[..., Any]] = {
    fw.LinearExplainer: lambda background=POINTS_OF_THREE, **options: fw.LinearExplainer(
        linear(), background, **options
    ),
    fw.PipelineExplainer: lambda background=POINTS_OF_THREE, **options: fw.PipelineExplainer(
        pipeline(), background, **options
    ),
    fw.InterventionalExplainer: lambda background=POINTS_OF_THREE, **options: fw.InterventionalExplainer(
        product, background, **{"progress": False, "device": "cpu"} | options
    ),
    fw.Explainer: lambda background=POINTS_OF_THREE, model=product, **options: fw.Explainer(
        model, background, **{"progress": False, "device": "cpu"} | options
    ),
}
for kind, make in MAKERS.items():
    each(
        kind,
        "data" if kind is fw.Explainer else "background",
        NO_TABLES,
        lambda _, bad, make=make: make(bad),
        words="background|data|inputs|model|x",
    )
    named(kind, lambda _, make=make, **bad: make(**bad), {"players": NOT_ITS_PLAYERS})
    asked: dict[str, tuple[Mapping[str, object], str]] = {
        "weights": (WEIGHTS, WORDS["weights"]),
        "outputs": (SOME_OF_ONE, "outputs"),
        "total": (CHOICE, "total"),
    }
    each(kind.explain, f"x of {kind.__name__}", NO_TABLES, lambda _, bad, make=make: make().explain(bad), words=IN_X)
    for name, (bad_values, told) in asked.items():
        each(
            kind.explain,
            f"{name} of {kind.__name__}",
            bad_values,
            lambda _, bad, make=make, name=name: make().explain(POINTS_OF_THREE, **{name: bad}),
            words=told,
        )
for kind, make in MAKERS.items():
    for ask_usable in (kind.usable, kind.find_unusable):
        each(
            ask_usable,
            f"x of {kind.__name__}",
            without(NO_TABLES, "with NaN"),  # which is an answer
            lambda _, bad, ask=ask_usable, make=make: ask(make(), bad),
            words=IN_X,
        )
for kind in (fw.LinearExplainer, fw.PipelineExplainer, fw.InterventionalExplainer):
    each(
        kind.predict,
        f"x of {kind.__name__}",
        NO_TABLES,
        lambda _, bad, kind=kind: MAKERS[kind]().predict(bad),
        words=IN_X,
    )
each(tree_type.predict, "x", TREE_ROWS, lambda _, bad: trees().predict(bad))
named(
    fw.InterventionalExplainer,
    lambda _, **bad: MAKERS[fw.InterventionalExplainer](**bad),
    {
        "n_background": ABOVE_ZERO,
        "n_calls": ABOVE_ZERO | NONE | {"too small": 7},
        "seed": SEEDS,
        "output": CHOICE,
        "output_names": {"too many": ["a", "b"], "text": "a"},
        "device": only(DEVICES, "unknown", "not there"),
    },
)
each(
    fw.InterventionalExplainer,
    "model",
    {"None": None, "a number": 3, "a class": dict, "a function that fails": math.sqrt, "of text": lambda _: ["a"]},
    lambda _, bad: fw.InterventionalExplainer(bad, POINTS_OF_THREE, progress=False),
)
each(
    fw.LinearExplainer,
    "model",
    {"None": None, "a number": 3, "not fitted": LinearRegression(), "a tree": DecisionTreeRegressor(), "a class": dict},
    lambda _, bad: fw.LinearExplainer(bad, POINTS_OF_THREE),
    words="coef_|model",
)
each(
    fw.PipelineExplainer,
    "model",
    NOT_TREES | {"not a pipeline": DecisionTreeRegressor(), "a linear model": make_pipeline(LinearRegression())},
    lambda _, bad: fw.PipelineExplainer(bad, POINTS_OF_THREE),
)
named(
    fw.PipelineExplainer,
    lambda _, **bad: MAKERS[fw.PipelineExplainer](**bad),
    {"output_names": {"too many": ["a", "b"], "text": "a"}},
)
each(
    fw.PipelineExplainer.interactions,
    "x of PipelineExplainer",
    NO_TABLES,
    lambda _, bad: MAKERS[fw.PipelineExplainer]().interactions(bad),
    words=IN_X,
)
each(fw.PipelineExplainer.save, "path", PATHS, lambda _, bad: MAKERS[fw.PipelineExplainer]().save(bad))
files(fw.PipelineExplainer.load, lambda _, bad: fw.PipelineExplainer.load(bad, model=pipeline()), *READ, "attribution")
each(fw.LinearExplainer.save, "path", PATHS, lambda _, bad: fw.LinearExplainer(linear(), POINTS_OF_THREE).save(bad))
files(fw.LinearExplainer.load, lambda _, bad: fw.LinearExplainer.load(bad), *READ, "attribution")
named(
    fw.Explainer,
    lambda _, **bad: MAKERS[fw.Explainer](**bad),
    {
        "game": CHOICE,
        "method": CHOICE,
        "n_calls": ABOVE_ZERO | NONE,
        "output": CHOICE,
        "budget": BUDGETS | NONE,
        "seed": SEEDS,
        "progress": {"a number": 3, "None": None},
        "model": {"None": None, "a number": 3, "a class": dict},
    },
)
row(fw.Explainer, "the method cannot be used", "linear", lambda _: MAKERS[fw.Explainer](method="linear"))
row(
    fw.Explainer,
    "the method is of another game",
    "game",
    lambda _: MAKERS[fw.Explainer](method="enumeration", game="conditional"),
)
each(
    fw.Explainer.save,
    "path",
    PATHS,
    lambda _, bad: fw.Explainer(linear(), POINTS_OF_THREE, progress=False).save(bad),
)


@cache
def enumerated() -> fw.InterventionalExplainer:
    """Explainer of a function of three columns."""
    return fw.InterventionalExplainer(product, POINTS_OF_THREE, progress=False)


enumerated_type = fw.InterventionalExplainer
each(enumerated_type.save, "path", PATHS, lambda _, bad: enumerated().save(bad))
row(enumerated_type.save, "path is a folder", "folder", lambda w: enumerated().save(w.folder))
files(enumerated_type.load, lambda _, bad: enumerated_type.load(bad), *READ, "attribution")


# Audits of labels


@cache
def audited() -> Any:  # noqa: ANN401 - untyped, as all that is called
    """A fitted audit."""
    return new_audit().fit(rows(24, 2), [0, 1] * 12)


def new_audit(**options: Any) -> Any:  # noqa: ANN401 - any argument
    """Return an audit that is not fitted."""
    quick = {"folds": 2, "k": 3, "budget": fw.Budget(steps=2), "device": "cpu", "progress": False}
    return fw.LabelAudit(**quick | options)


named(
    fw.LabelAudit,
    lambda _, **bad: new_audit(**bad).fit(rows(24, 2), [0, 1] * 12),
    {
        "folds": EVERY_WHOLE | {"one": 1},
        "k": ABOVE_ZERO,
        "metric": CHOICE,
        "batch_size": ABOVE_ZERO,
        "learning_rate": POSITIVE,
        "network": {"text": "resnet"},
        "budget": BUDGETS,
        "seed": SEEDS,
        "device": DEVICES,
        "n_jobs": JOBS,
        "checkpoint": {"a number": 3, "a list": []},
        "resume": {"text": "yes"},
        "progress": {"text": "yes"},
    },
)
each(fw.LabelAudit.fit, "x", POINTS, lambda w, bad: new_audit().fit(bad, w.labels), words="x|y")
each(fw.LabelAudit.fit, "y", CLASSES, lambda w, bad: new_audit().fit(w.points, bad))
each(
    fw.LabelAudit.reasons, "point", WHOLE | {"a fraction": 1.5, "too large": 24}, lambda _, bad: audited().reasons(bad)
)
each(
    fw.LabelAudit.find_leakage,
    "x",
    without(POINTS, "of another length"),
    lambda _, bad: audited().find_leakage(bad),
    words="x|y",
)
named(
    fw.LabelAudit.write_review,
    lambda w, **bad: audited().write_review(**{"path": w.folder / "review.html"} | bad),
    {
        "path": PATHS,
        "n_points": ABOVE_ZERO,
        "names": {"text": "cats", "too few": ["a"]},
        "images": {"too few": images(3)},
        "rows": {"too few": pd.DataFrame({"a": [1]})},
        "title": {"None": None},
    },
)
for name in ("reasons", "find_leakage", "to_dataframe"):
    ask = getattr(fw.LabelAudit, name)
    if name != "to_dataframe":
        row(ask, "not fitted", "fit", lambda _, name=name: getattr(new_audit(), name)(0), UNREADY)
review: Any = fwshapley.audit
each(
    review.photo_features,
    "images",
    {"a table": rows(3, 2), "negative": -images(2) - 1},
    lambda _, bad: review.photo_features(bad),
)
SUSPECT = review.ReviewPoint(0, "1", "cat", "dog", 0.9, 0.9)
named(
    review.write_review,
    lambda w, **bad: review.write_review(
        **{
            "path": w.folder / "page.html",
            "points": [SUSPECT],
            "title": "Pets",
            "classes": ["cat", "dog"],
            "expected_precision": [0.9],
        }
        | bad
    ),
    {
        "path": PATHS,
        "points": {"None": None, "empty": [], "numbers": [1]},
        "classes": {"text": "cat", "unknown": ["cow"]},
        "expected_precision": {"too many": [0.9, 0.8], "too large": [2.0]},
    },
)
each(review.read_decisions, "path", PATHS, lambda _, bad: review.read_decisions(bad))
named(
    review.apply_decisions,
    lambda w, **bad: review.apply_decisions(
        **{"decisions": [], "data": w.files["text"], "out": w.folder / "new"} | bad
    ),
    {"decisions": {"None": None, "numbers": [1]}, "data": PATHS, "out": PATHS},
)
