"""Values of any model of a table without training: all coalitions of few players, sampled coalitions of many.

The game is the interventional one: hidden columns take the values of background rows, and the value of a coalition is
the model's mean prediction, v(S) = mean over b of v_b(S) with v_b(S) = f(x on S, b elsewhere).

Sampling uses that semivalues are linear: phi(v) = mean over b of phi(v_b). Each v_b is estimated from coalitions of its
own, so that its errors average out over the background; KernelSHAP asks for the same coalitions with all background
rows. The coalitions of v_b are those of one least-squares design with the players in an order of its own, so that a
single run of `least_squares_values` serves all background rows, inputs, outputs and weightings.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float64
from numpy import ndarray
from torch import Tensor, nn

from fwshapley._internal.checks import Array, check_choice, check_names, check_path, check_seed, check_whole
from fwshapley._internal.progress import ProgressBar
from fwshapley._internal.safetensors_file import load_bundle, save_bundle
from fwshapley._internal.tensor_checks import choose_device
from fwshapley._internal.version import __version__
from fwshapley.estimators import exact_values, least_squares_values
from fwshapley.explanation.inputs.input_checks import check_model, freeze_module
from fwshapley.explanation.inputs.model_functions import call_function, find_function, find_output
from fwshapley.explanation.inputs.predictions import predict
from fwshapley.explanation.learned.black_box import decode_inputs, find_form
from fwshapley.explanation.learned.sampled_values import REPLICATES, VALUES_AT_ONCE, default_calls, fewest_calls
from fwshapley.explanation.method_choice import BACKGROUND_ROWS, MAX_ENUMERATED
from fwshapley.explanation.untrained.background_rows import (
    Rows,
    choose_representatives,
    encode_rows,
    find_unusable,
    read_background,
)
from fwshapley.explanation.untrained.exact_explainer import (
    ExactExplainer,
    WeightedValues,
    check_same_model,
    choose_players,
    name_outputs,
)
from fwshapley.games.scales import KINDS, Output
from fwshapley.players import Players
from fwshapley.semivalues import Semivalue, Total
from fwshapley.tables.network_encoding import TableSchema
from fwshapley.tables.trained_categories import find_categories
from fwshapley.tables.unusable_entries import UnusableEntry

ROWS_AT_ONCE = 2**14
"""Filled rows in one call of the model: few enough to stay in a processor's cache, which is up to a third faster."""

NUMBERS_AT_ONCE = 2**22
"""Numbers in these rows."""

MIN_PROBABILITY = 1e-15


class InterventionalExplainer(ExactExplainer):
    """Semivalues of any model of a table, with hidden columns from background rows: exact or sampled, never trained.

    The sum of the Shapley values is the model's prediction less its mean over the background. Values of few players are
    exact, from all coalitions. Those of more players are estimated from sampled ones, and have standard errors in
    `stderr`. A row takes n_calls (or 2**players) predictions per background row.

    Args:
        model: a torch module that returns logits, or values with output="raw"; or a function or a fitted estimator with
            predict_proba or predict, which is called with arrays or DataFrames.
        background: rows that stand in for hidden columns, an array or a DataFrame.
        players: groups of columns; by default each column is a player.
        output: scale of the values, as for `FeatureExplainer`.
        n_background: background rows to use at most, chosen to be distributed like all of them.
        n_calls: coalitions to evaluate with each background row; 2**players or more give exact values. "auto" is all of
            them for at most 12 players; for more it is 8 * players, but at least 256.
        output_names: one per output; by default the classes of an estimator.
        device: of a torch module; "auto" is a GPU if there is one.
        seed: of the coalitions, and of the 2,000 rows of a larger background that `n_background` of them represent.
        progress: show progress if it takes long.

    Attributes:
        method: "enumeration" or "sampling".

    Example:
        >>> import fwshapley as fw, numpy as np
        >>> x = np.random.default_rng(0).normal(size=(50, 20))
        >>> explainer = fw.InterventionalExplainer(lambda rows: rows[:, 0] * rows[:, 1], background=x)
        >>> attribution = explainer.explain(x[:5], weights=[fw.Shapley(), fw.Beta(16, 1)])
        >>> attribution.values.shape, attribution.stderr.shape
        ((2, 5, 20, 1), (2, 5, 20, 1))
    """

    kind = "interventional explainer"

    def __init__(
        self,
        model: nn.Module | Any,  # noqa: ANN401 - a function or an estimator
        background: Array,
        *,
        players: Players | None = None,
        output: Output | Literal["auto"] = "auto",
        n_background: int = BACKGROUND_ROWS,
        n_calls: int | Literal["auto"] = "auto",
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
        self.players = choose_players(players, self.schema.names, named=self.schema.is_frame)
        self.n_calls = _check_calls(n_calls, self.players.n_players)
        self.seed = check_seed(seed)
        self.n_available = len(rows)
        most = check_whole("n_background", n_background)
        self.background = rows[choose_representatives(rows, self.schema, most, self.seed)]
        self._ask, self.output, names = _as_function(model, self.schema, self.background, output, choose_device(device))
        count = self._ask(self.background[:1]).shape[1]
        if output_names is not None:
            names = check_names("output_names", output_names)
        self.output_names = name_outputs(names, count)
        self.has_classes = KINDS[self.output] == "classes"
        self.base_values = self._link(self._ask(self.background).mean(0))

    def __repr__(self) -> str:
        return (
            f"InterventionalExplainer({self.method}, {self.players.n_players} players, n_calls={self.n_calls}, "
            f"background of {len(self.background):,} rows, output={self.output!r})"
        )

    @property
    def method(self) -> str:
        """How values are computed."""
        return "enumeration" if self.n_calls == 2**self.players.n_players else "sampling"

    @property
    def provenance(self) -> dict[str, Any]:
        """How values are computed, for results."""
        return {
            "method": self.method,
            "game": "interventional",
            "n_calls": self.n_calls,
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
            "n_calls": self.n_calls,
            "seed": self.seed,
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
        explainer.n_calls, explainer.seed = facts["n_calls"], facts["seed"]
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

    def _estimate(
        self, rows: Rows, weightings: Sequence[Semivalue], total: Total
    ) -> tuple[WeightedValues, WeightedValues | None]:
        if self.method == "enumeration":
            return super()._estimate(rows, weightings, total)
        per_row = (self.n_calls + REPLICATES * self.players.n_players) * self._n_games * len(self.output_names)
        at_once = max(1, min(VALUES_AT_ONCE // per_row, NUMBERS_AT_ONCE // self.background.size))
        with self._progress_bar("sampling coalitions", len(rows)) as bar:
            parts = [
                self._sample(rows[start : start + at_once], weightings, total, bar)
                for start in range(0, len(rows), at_once)
            ]
        values, stderr = (np.concatenate(arrays, 1) for arrays in zip(*parts, strict=True))
        return values, stderr

    @property
    def _n_games(self) -> int:
        """Games that are sampled: one per background row, or that of their mean where log odds are explained."""
        return 1 if self.output.endswith("logit") else len(self.background)

    def _sample(
        self, rows: Rows, weightings: Sequence[Semivalue], total: Total, bar: ProgressBar
    ) -> tuple[WeightedValues, WeightedValues]:
        """Return values and standard errors from coalitions that all rows share; see the module's docstring."""
        n, n_games = self.players.n_players, self._n_games
        order = np.random.default_rng(self.seed).permuted(np.tile(np.arange(n), (n_games, 1)), axis=1)
        # Player i of game g is player order[g, i] of the design.

        def games(coalitions: Tensor) -> Float64[ndarray, "coalitions values"]:
            visible = coalitions.numpy()[:, order][:, :, self.players.assignment]
            return self._evaluate(visible, rows, bar).reshape(len(coalitions), -1)

        estimate = least_squares_values(
            games, weightings, n_calls=self.n_calls, total=total, shared=True, seed=self.seed, n_players=n,
            progress=False,
        )  # fmt: skip
        players = order.T[None, :, None, :, None]

        def by_game(array: Tensor) -> Float64[ndarray, "weightings players rows games outputs"]:
            of_design = array.numpy().reshape(len(weightings), n, len(rows), n_games, -1)
            return np.take_along_axis(of_design, players, 1)

        values = by_game(estimate.values).mean(3)
        stderr = np.sqrt(np.square(by_game(estimate.stderr)).sum(3)) / n_games
        return values.transpose(0, 2, 1, 3), stderr.transpose(0, 2, 1, 3)

    def _values(self, rows: Rows, weightings: Sequence[Semivalue]) -> WeightedValues:
        n, n_outputs = self.players.n_players, len(self.output_names)
        at_once = max(1, NUMBERS_AT_ONCE // (2**n * self.background.size))
        parts = []
        with self._progress_bar("enumerating coalitions", len(rows)) as bar:
            for start in range(0, len(rows), at_once):
                some = rows[start : start + at_once]

                def game(coalitions: Tensor, some: Rows = some) -> Float64[ndarray, "coalitions values"]:
                    visible = coalitions.numpy()[:, None, self.players.assignment]
                    return self._evaluate(visible, some, bar).reshape(len(coalitions), -1)

                values = exact_values(game, list(weightings), n_players=n, progress=False).numpy()
                values = values.reshape(len(weightings), n, len(some), n_outputs)
                parts.append(values.transpose(0, 2, 1, 3))
        return np.concatenate(parts, 1)

    def _evaluate(
        self, visible: Bool[ndarray, "coalitions games columns"], rows: Rows, bar: ProgressBar
    ) -> Float64[ndarray, "coalitions rows games outputs"]:
        """Return the values of coalitions, in calls of bounded size.

        Args:
            visible: columns of each coalition: for each background row, or the same for all, whose mean is then taken.
            rows: to explain.
            bar: counts predictions.
        """
        together = visible.shape[1] == 1
        at_once = max(1, min(ROWS_AT_ONCE, NUMBERS_AT_ONCE // rows.shape[1]))
        pieces = math.ceil(len(visible) * len(rows) * len(self.background) / at_once)
        values = []
        for some in np.array_split(visible, min(pieces, len(visible))):
            filled = np.where(some[:, None], rows[:, None], self.background)  # (coalitions, rows, background, columns)
            predictions = self._ask(filled.reshape(-1, rows.shape[1])).reshape(*filled.shape[:3], -1)
            values.append(self._link(predictions.mean(2, keepdims=True)) if together else predictions)
            bar.advance(math.prod(filled.shape[:3]))
        return np.concatenate(values)

    def _progress_bar(self, task: str, n_rows: int) -> ProgressBar:
        predictions = self.n_calls * len(self.background) * n_rows
        return ProgressBar(task, predictions, unit="predictions", enabled=self.progress)


def _check_calls(n_calls: int | Literal["auto"], n_players: int) -> int:
    """Return the number of coalitions to evaluate, at most all, or raise an error if it is too small."""
    if n_calls == "auto":
        n_calls = 2**n_players if n_players <= MAX_ENUMERATED else default_calls(n_players)
    fewest = min(fewest_calls(n_players), 2**n_players)
    if check_whole("n_calls", n_calls) < fewest:
        raise ValueError(
            f"n_calls must be at least {fewest} for {n_players} players, got {n_calls}; to save time, lower "
            "n_background, or group columns with players=fw.groups(...)"
        )
    return min(n_calls, 2**n_players)


def _as_function(
    model: nn.Module | Any,  # noqa: ANN401 - a function or an estimator
    schema: TableSchema,
    rows: Rows,
    output: Output | Literal["auto"],
    device: torch.device,
) -> tuple[Callable[[Rows], Float64[ndarray, "rows outputs"]], Output, tuple[str, ...] | None]:
    """Return the model as a function of encoded rows (of probabilities or values), its scale, and names of classes."""
    if isinstance(model, nn.Module):
        frozen = freeze_module(model, torch.from_numpy(rows[:2]).float().to(device))
        meaning: Output = "probability" if output == "auto" else output
        check_model(frozen, torch.from_numpy(rows[:1]).float().to(device), meaning)

        def run(some: Rows) -> Float64[ndarray, "rows outputs"]:
            predictions = predict(frozen, torch.from_numpy(some).float(), meaning)
            if not bool(predictions.isfinite().all()):
                raise ValueError("the model's outputs are not finite for some rows with background values")
            return predictions.double().cpu().numpy()

        return run, meaning, None
    function = find_function(model)
    form, outputs = find_form(function, torch.from_numpy(rows).to(device), schema)

    def ask(some: Rows) -> Float64[ndarray, "rows outputs"]:
        return call_function(function.call, decode_inputs(torch.from_numpy(some).to(device), schema, form), len(some))

    meaning = find_output(outputs, output, probabilities=function.probabilities)
    return ask, meaning, function.names
