"""Exact values of any model of a table with few players, by enumeration of all coalitions.

The game is the interventional one: hidden columns take the values of background rows, and the value of a coalition is
the model's mean prediction. No surrogate is trained; an explanation takes 2**players predictions per background row.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float64
from numpy import ndarray
from torch import Tensor, nn

from fwshapley._internal.checks import Array, check_choice, check_names, check_path, check_seed, check_whole
from fwshapley._internal.progress import ProgressBar
from fwshapley._internal.safetensors_file import load_bundle, save_bundle
from fwshapley._internal.tensor_checks import choose_device
from fwshapley._internal.version import __version__
from fwshapley.estimators import exact_values
from fwshapley.explanation.background_rows import Rows, encode_rows, find_unusable, read_background
from fwshapley.explanation.exact_explainer import ExactExplainer, check_same_model, choose_players, name_outputs
from fwshapley.explanation.input_checks import check_model
from fwshapley.explanation.model_functions import call_function, find_function, find_output
from fwshapley.explanation.predictions import predict
from fwshapley.games.scales import KINDS, Output
from fwshapley.players import Players
from fwshapley.semivalues import Semivalue
from fwshapley.tables.network_encoding import TableSchema
from fwshapley.tables.trained_categories import find_categories
from fwshapley.tables.unusable_entries import UnusableEntry

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

    kind = "interventional explainer"
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
        check_choice("output", output, ("auto", *get_args(Output)))
        self.is_module = isinstance(model, nn.Module)
        trained = None if self.is_module else find_categories(model)
        self.schema, rows = read_background(background, any_model=not self.is_module, trained=trained)
        self.progress = progress
        self.players = _choose_few_players(players, self.schema)
        self.n_available = len(rows)
        most = min(check_whole("n_background", n_background), len(rows))
        generator = np.random.default_rng(check_seed(seed))
        self.background = rows[np.sort(generator.choice(len(rows), most, replace=False))]
        self._ask, self.output, names = _as_function(model, self.schema, self.background, output, choose_device(device))
        count = self._ask(self.background[:1]).shape[1]
        if output_names is not None:
            names = check_names("output_names", output_names)
        self.output_names = name_outputs(names, count)
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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the explainer to one safetensors file, without pickle; the model itself is not saved.

        Args:
            path: file to write; an existing file is replaced.
        """
        facts = {
            "schema": self.schema.facts(),
            "players": self.players.facts(),
            "output": self.output,
            "output_names": self.output_names,
            "n_available": self.n_available,
            "is_module": self.is_module,
            "metadata": self.metadata,
        }
        arrays = {
            "background": self.background,
            "base_values": self.base_values,
            "assignment": self.players.assignment,
        }
        save_bundle(check_path("path", path), self.kind, facts, arrays)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        model: nn.Module | Any = None,  # noqa: ANN401 - a function or an estimator
        device: str | torch.device = "auto",
        progress: bool = True,
    ) -> InterventionalExplainer:
        """Read an explainer that `save` wrote.

        Args:
            path: the file.
            model: the model that was explained, which the file does not contain.
            device: as in the constructor.
            progress: as in the constructor.
        """
        facts, arrays = load_bundle(check_path("path", path), cls.kind)
        if model is None:
            raise ValueError(f"{path} calls the model that it explains, and does not contain it: pass it as model=...")
        if isinstance(model, nn.Module) != facts["is_module"]:
            expected = "a torch module" if facts["is_module"] else "a function or an estimator"
            raise TypeError(f"model must be {expected}, as the one that {path} explains; got {type(model).__name__}")
        explainer = cls.__new__(cls)
        explainer.schema = TableSchema.from_facts(facts["schema"])
        explainer.players = Players.from_facts(facts["players"], arrays["assignment"])
        explainer.progress, explainer.is_module = progress, facts["is_module"]
        explainer.n_available, explainer.background = facts["n_available"], arrays["background"]
        explainer._ask, explainer.output, _ = _as_function(  # noqa: SLF001 - of this class
            model, explainer.schema, explainer.background, facts["output"], choose_device(device)
        )
        explainer.output_names = tuple(facts["output_names"])
        explainer.has_classes = KINDS[explainer.output] == "classes"
        explainer.base_values = arrays["base_values"]
        means = explainer._link(explainer._ask(explainer.background).mean(0))  # noqa: SLF001 - of this class
        check_same_model(explainer.base_values, means, str(path))
        explainer.metadata = facts["metadata"]
        return explainer

    def find_unusable(self, x: Array) -> list[UnusableEntry]:  # noqa: D102 - as documented in the base class
        return find_unusable("x", x, self.schema)

    def _encode(self, x: Array) -> Rows:
        return encode_rows("x", x, self.schema)

    def _as_shown(self, x: Array, rows: Rows) -> tuple[Rows, dict[str, Any]]:  # noqa: ARG002 - as other explainers do
        return rows, self.schema.encodings

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


def _choose_few_players(players: Players | None, schema: TableSchema) -> Players:
    """Return the players, by default one per column; raise an error if they are too many to enumerate coalitions."""
    chosen = choose_players(players, schema.names, named=schema.is_frame)
    if chosen.n_players > MAX_PLAYERS:
        raise ValueError(
            f"enumeration takes 2**{chosen.n_players} coalitions per row (limit {MAX_PLAYERS} players); use "
            "FeatureExplainer, or group columns with players=fw.groups(...)"
        )
    return chosen


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
            predictions = predict(frozen, torch.from_numpy(some).float(), meaning)
            if not bool(predictions.isfinite().all()):
                raise ValueError("the model's outputs are not finite for some rows with background values")
            return predictions.double().cpu().numpy()

        return run, meaning, None
    function = find_function(model)

    def ask(some: Rows) -> Float64[ndarray, "rows outputs"]:
        return call_function(function.call, schema.from_numbers(some), len(some))

    meaning = find_output(ask(rows), output, probabilities=function.probabilities)
    return ask, meaning, function.names
