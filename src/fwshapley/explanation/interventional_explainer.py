"""Exact values of any model of a table with few players, by enumeration of all coalitions.

The game is the interventional one: hidden columns take the values of background rows, and the value of a coalition is
the model's mean prediction. No surrogate is trained; an explanation takes 2**players predictions per background row.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64
from numpy import ndarray
from torch import Tensor, nn

from fwshapley._internal.checks import Array, check_names, check_seed, check_whole
from fwshapley._internal.progress import ProgressBar
from fwshapley._internal.tensor_checks import choose_device
from fwshapley._internal.version import __version__
from fwshapley.estimators import exact_values
from fwshapley.explanation.black_box import call_function, find_function, find_output
from fwshapley.explanation.exact_explainer import ExactExplainer
from fwshapley.explanation.inputs import check_finite_inputs, check_model, is_table
from fwshapley.explanation.predictions import predict
from fwshapley.games.scales import KINDS, Output
from fwshapley.players import Players, columns
from fwshapley.semivalues import Semivalue
from fwshapley.tables.network_encoding import TableSchema, describe_table

Rows = Float64[ndarray, "rows columns"]

MAX_PLAYERS = 16
BACKGROUND_ROWS = 100
NUMBERS_AT_ONCE = 2**22
"""Numbers in the filled rows of one call of the model."""

MIN_PROBABILITY = 1e-15


class InterventionalExplainer(ExactExplainer):
    """Exact semivalues of any model of a table with at most 16 players, by enumeration.

    Hidden columns take the values of background rows, so that the sum of the Shapley values is the model's prediction
    less its mean over the background. Nothing is trained; a row takes 2**players x background rows predictions.

    Args:
        model: a torch module that returns logits, or values with output="raw"; or a function or a fitted estimator with
            predict_proba or predict, which is called with arrays or DataFrames.
        background: rows that stand in for hidden columns, an array or a DataFrame.
        players: groups of columns; by default each column is a player.
        output: scale of the values, as for `FeatureExplainer`.
        n_background: background rows to use at most, chosen by the seed.
        output_names: one per output; by default the classes of an estimator.
        device: of a torch module; "auto" is a GPU if there is one.
        seed: of the choice of background rows.
        progress: show progress if it takes long.

    Example:
        >>> import fwshapley as fw, numpy as np
        >>> x = np.random.default_rng(0).normal(size=(50, 3))
        >>> explainer = fw.InterventionalExplainer(lambda rows: rows[:, 0] * rows[:, 1], background=x)
        >>> explainer.explain(x[:5], weights=[fw.Shapley(), fw.Beta(16, 1)]).values.shape
        (2, 5, 3, 1)
    """

    method = "enumeration"

    def __init__(
        self,
        model: nn.Module | Any,  # noqa: ANN401 - a function or an estimator
        background: Array,
        *,
        players: Players | None = None,
        output: Output | Literal["auto"] = "auto",
        n_background: int = BACKGROUND_ROWS,
        output_names: Sequence[str] | None = None,
        device: str | torch.device = "auto",
        seed: int = 0,
        progress: bool = True,
    ) -> None:
        if not is_table(background):
            raise ValueError(f"background must be a table, (rows, columns); got shape {np.shape(background)}")
        self.schema = describe_table(background, any_model=not isinstance(model, nn.Module))
        rows = self._encode(background)
        if not len(rows):
            raise ValueError("background has no rows")
        self.progress = progress
        self.players = _check_players(players, self.schema)
        self.n_available = len(rows)
        most = min(check_whole("n_background", n_background), len(rows))
        generator = np.random.default_rng(check_seed(seed))
        self.background = rows[np.sort(generator.choice(len(rows), most, replace=False))]
        self._ask, self.output, names = _as_function(model, self.schema, self.background, output, choose_device(device))
        count = self._ask(self.background[:1]).shape[1]
        if output_names is not None:
            names = check_names("output_names", output_names)
        if names is not None and len(names) != count:
            raise ValueError(f"output_names has {len(names)} names for a model of {count} outputs")
        self.output_names = tuple(f"output {number}" for number in range(count)) if names is None else names
        self.has_classes = KINDS[self.output] == "classes"
        self.base_values = self._link(self._ask(self.background).mean(0))

    def __repr__(self) -> str:
        return (
            f"InterventionalExplainer({self.players.n_players} players, background of {len(self.background):,} rows, "
            f"output={self.output!r})"
        )

    @property
    def provenance(self) -> dict[str, Any]:
        """How values are computed, for results."""
        return {
            "method": self.method,
            "game": "interventional",
            "background_rows": len(self.background),
            "background_available": self.n_available,
            "output": self.output,
            "version": __version__,
        }

    def _encode(self, x: Array) -> Rows:
        if isinstance(x, pd.Series) or not is_table(x):
            raise ValueError(f"x must be a table, (rows, columns); got shape {np.shape(x)}")
        encoded = self.schema.encode(x)
        if encoded.shape[1] != len(self.schema.columns):
            raise ValueError(f"x must have {len(self.schema.columns)} columns as the background, got {len(encoded.T)}")
        check_finite_inputs(encoded, self.schema)
        return encoded.double().numpy()

    def _predict(self, rows: Rows) -> Float64[ndarray, "rows outputs"]:
        return self._link(self._ask(rows))

    def _link(self, predictions: Float64[ndarray, "*rows outputs"]) -> Float64[ndarray, "*rows outputs"]:
        """Return predictions on the scale of the values: log odds of probabilities, or as they are."""
        if not self.output.endswith("logit"):
            return predictions
        likely = predictions.clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
        return np.log(likely) - np.log1p(-likely)

    def _values(
        self, rows: Rows, weightings: Sequence[Semivalue]
    ) -> Float64[ndarray, "weightings rows players outputs"]:
        n, n_outputs = self.players.n_players, len(self.output_names)
        at_once = max(1, NUMBERS_AT_ONCE // (2**n * self.background.size))
        parts = []
        calls = 2**n * len(self.background)
        with ProgressBar("enumerating coalitions", calls * len(rows), unit="predictions", enabled=self.progress) as bar:
            for start in range(0, len(rows), at_once):
                some = rows[start : start + at_once]

                def game(coalitions: Tensor, some: Rows = some) -> Float64[ndarray, "coalitions values"]:
                    return self._coalition_values(coalitions.numpy(), some)

                values = exact_values(game, list(weightings), n_players=n, progress=False).numpy()
                values = values.reshape(len(weightings), n, len(some), n_outputs)
                parts.append(values.transpose(0, 2, 1, 3))
                bar.advance(calls * len(some))
        return np.concatenate(parts, 1)

    def _coalition_values(self, coalitions: ndarray, rows: Rows) -> Float64[ndarray, "coalitions values"]:
        """Return the value of each coalition for all outputs of the first row, then for those of the second, ..."""
        mask = coalitions[:, self.players.assignment]
        pieces = math.ceil(len(mask) * len(rows) * self.background.size / NUMBERS_AT_ONCE)
        means = []
        for visible in np.array_split(mask, min(pieces, len(mask))):
            filled = np.where(visible[:, None, None], rows[:, None], self.background)
            predictions = self._ask(filled.reshape(-1, rows.shape[1]))
            means.append(predictions.reshape(*filled.shape[:3], -1).mean(2))
        return self._link(np.concatenate(means)).reshape(len(mask), -1)


def _check_players(players: Players | None, schema: TableSchema) -> Players:
    """Return the players, by default one per column; raise an error if they are too many to enumerate coalitions."""
    count = len(schema.columns)
    if players is None:
        players = columns(count, schema.names)
    if players.is_image or players.assignment.shape != (count,):
        raise ValueError(
            f"players must be made of the table's {count} columns, got an assignment of shape "
            f"{players.assignment.shape}"
        )
    if players.n_players > MAX_PLAYERS:
        raise ValueError(
            f"enumeration takes 2**{players.n_players} coalitions per row (limit {MAX_PLAYERS} players); use "
            "FeatureExplainer, or group columns with players=fw.groups(...)"
        )
    return players.for_table(schema.names) if schema.is_frame else players


def _as_function(
    model: nn.Module | Any,  # noqa: ANN401 - a function or an estimator
    schema: TableSchema,
    rows: Rows,
    output: Output | Literal["auto"],
    device: torch.device,
) -> tuple[Callable[[Rows], Float64[ndarray, "rows outputs"]], Output, tuple[str, ...] | None]:
    """Return the model as a function of encoded rows (of probabilities or values), its scale, and names of classes."""
    if isinstance(model, nn.Module):
        frozen = copy.deepcopy(model).to(device).eval().requires_grad_(requires_grad=False)
        meaning: Output = "probability" if output == "auto" else output
        check_model(frozen, torch.from_numpy(rows[:1]).float().to(device), meaning)

        def run(some: Rows) -> Float64[ndarray, "rows outputs"]:
            return predict(frozen, torch.from_numpy(some).float(), meaning).double().cpu().numpy()

        return run, meaning, None
    function = find_function(model)

    def ask(some: Rows) -> Float64[ndarray, "rows outputs"]:
        return call_function(function.call, schema.decode(torch.from_numpy(some)), len(some)).numpy()

    meaning = find_output(torch.from_numpy(ask(rows)), output, probabilities=function.probabilities)
    return ask, meaning, function.names
