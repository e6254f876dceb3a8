"""What explainers share that compute exact values, without training. Nothing here imports torch."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from fwshapley._internal.checks import Array, check_choice, check_kind, check_whole, shorten
from fwshapley._internal.wording import counted, listed
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.default_outputs import default_outputs
from fwshapley.explanation.shap_explanation import to_shap
from fwshapley.players import Players, columns
from fwshapley.semivalues import Semivalue, Total, check_weights, join_laws
from fwshapley.tables.unusable_entries import UnusableEntry, mark_usable

if TYPE_CHECKING:
    from shap import Explanation

MAX_NAMED = 12
"""Outputs that an error lists."""

SAME_MODEL = 1e-4
"""Largest difference, relative and absolute, between predictions of the same model on different machines."""


WeightedValues = Float64[ndarray, "weightings rows players outputs"]


SCALES: Mapping[str, str] = {
    "margin": "the margin, the score before the link function (for a classifier, log odds)",
    "value": "the prediction",
    "raw": "the model's output",
    "score": "the decision function",
    "probability": "the probability of each class",
    "logit": "the log odds of each class",
    "label_probability": "the probability of each label",
    "label_logit": "the log odds of each label",
}
"""What values add up to, by the output of an explainer."""


class ExactExplainer(ABC):
    """Computes values of the players of each input without training, under any number of weightings.

    They are exact, except those that `InterventionalExplainer` samples.

    Attributes:
        players: of the game.
        output_names: one per output.
        base_values: (outputs,), the value of the empty coalition.
        has_classes: whether the outputs are mutually exclusive classes.
        metadata: anything JSON-compatible that `save` writes into the file, such as how the explainer was made.
    """

    players: Players
    output_names: tuple[str, ...]
    base_values: Float64[ndarray, " outputs"]
    has_classes: bool
    metadata: dict[str, Any] | None = None

    def explain(
        self,
        x: Array,
        *,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        outputs: str | Sequence[int] | Sequence[str] = "auto",
        total: Total = "raw",
    ) -> Attribution:
        """Return the values of the players of each row.

        Args:
            x: (rows, features), an array or a DataFrame.
            weights: a semivalue or a list of them, which costs little more; by default Shapley.
            outputs: "all"; "predicted", the class with the largest prediction; or names or numbers of some. "auto" is
                the positive one of two classes, otherwise all.
            total: "raw" for the semivalue itself; "efficient" shifts it to sum to the prediction less the base value.
        """
        check_choice("total", total, get_args(Total))
        weightings = check_weights(weights)
        join_laws(weightings, self.players.n_players)  # refuses weights for another number of players
        rows = self._encode(x)
        if isinstance(outputs, str) and outputs == "auto":
            outputs = default_outputs(len(self.output_names), are_classes=self.has_classes)
        chosen: Any = self._choose_outputs(outputs, rows)  # numpy arrays, which an Attribution may hold
        values: Any
        stderr: Any
        values, stderr = self._estimate(rows, weightings, total)
        if not (isinstance(outputs, str) and outputs == "all"):
            values = np.take_along_axis(values, chosen[None, :, None], 3)
            stderr = None if stderr is None else np.take_along_axis(stderr, chosen[None, :, None], 3)
        inputs: Any
        inputs, encodings = self._as_shown(x, rows)
        is_list = isinstance(weights, list | tuple)
        return Attribution(
            values=values if is_list else values[0],
            stderr=stderr if is_list or stderr is None else stderr[0],
            base_values=self.base_values[chosen],
            outputs=chosen,
            inputs=inputs,
            weights=weightings if is_list else weightings[0],
            total=total,
            players=self.players,
            output_names=self.output_names,
            provenance=self.provenance,
            encodings=encodings,
        )

    def __call__(
        self,
        x: Array,
        *,
        weights: Semivalue | None = None,
        outputs: str | Sequence[int] | Sequence[str] = "auto",
    ) -> Explanation:
        """Explain inputs as shap's explainers do; values and base value add up to the prediction.

        Args:
            x: (rows, features), an array or a DataFrame.
            weights: a semivalue; by default Shapley.
            outputs: as in `explain`.
        """
        return to_shap(self.explain(x, weights=weights, outputs=outputs, total="efficient"))

    def predict(self, x: Array) -> Float64[ndarray, "rows outputs"]:
        """Return what the model predicts, on the scale of the values: the value of all players together.

        Args:
            x: (rows, features), an array or a DataFrame.
        """
        return self._predict(self._encode(x))

    def usable(self, x: Array) -> Bool[ndarray, " rows"]:
        """Return which rows can be explained: not those with missing or unknown entries that there is no rule for.

        Args:
            x: (rows, features), an array or a DataFrame.
        """
        return mark_usable(self.find_unusable(x), len(x))

    @abstractmethod
    def find_unusable(self, x: Array) -> list[UnusableEntry]:
        """Return the entries for which `explain` refuses rows: where each is, what is there, and what is wrong with it.

        Args:
            x: (rows, features), an array or a DataFrame.
        """

    @abstractmethod
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the explainer to one safetensors file, without pickle.

        Args:
            path: file to write; an existing file is replaced.
        """

    @property
    @abstractmethod
    def provenance(self) -> dict[str, Any]:
        """How values are computed, JSON-compatible."""

    @abstractmethod
    def _encode(self, x: Array) -> Float64[ndarray, "rows features"]:
        """Return checked rows as numbers."""

    @abstractmethod
    def _predict(self, rows: Float64[ndarray, "rows features"]) -> Float64[ndarray, "rows outputs"]:
        """Return what the model predicts from encoded rows: the value of all players together."""

    def _estimate(
        self, rows: Float64[ndarray, "rows features"], weightings: Sequence[Semivalue], total: Total
    ) -> tuple[WeightedValues, WeightedValues | None]:
        """Return the values of encoded rows, and their standard errors unless they are exact."""
        values = self._values(rows, weightings)
        if total == "efficient":
            gain = self._predict(rows) - self.base_values
            values += ((gain - values.sum(2)) / self.players.n_players)[:, :, None]
        return values, None

    @abstractmethod
    def _values(self, rows: Float64[ndarray, "rows features"], weightings: Sequence[Semivalue]) -> WeightedValues:
        """Return the exact values of encoded rows."""

    @abstractmethod
    def _as_shown(
        self, x: Array, rows: Float64[ndarray, "rows features"]
    ) -> tuple[Float64[ndarray, "rows features"], Mapping[str, Any]]:
        """Return rows as numbers for display, and what these stand for: the encodings of an `Attribution`.

        Args:
            x: as it was passed.
            rows: as it was encoded.
        """

    def _choose_outputs(
        self, outputs: str | Sequence[int] | Sequence[str], rows: Float64[ndarray, "rows features"]
    ) -> Int64[ndarray, "rows some"]:
        """Return the numbers of the outputs to explain for each row."""
        names = self.output_names
        if isinstance(outputs, str) and outputs == "predicted":
            if len(names) == 1:
                raise ValueError(
                    f"outputs='predicted' needs an output for each class, and there is only {names[0]!r}: leave "
                    "outputs out"
                )
            if not self.has_classes:
                raise ValueError("outputs='predicted' needs a classifier; pass names or numbers of outputs instead")
            return self._predict(rows).argmax(1)[:, None]
        chosen: Any = [outputs] if isinstance(outputs, str) else outputs
        if isinstance(outputs, str) and outputs == "all":
            chosen = range(len(names))
        if not isinstance(chosen, Sequence | ndarray) or len(chosen) == 0:
            raise ValueError(
                f"outputs must be 'all', 'predicted', or names or numbers of some outputs, got {shorten(outputs)}"
            )
        numbers = [_output_number(output, names) for output in chosen]
        return np.broadcast_to(np.array(numbers), (len(rows), len(numbers)))


def describe_scale(output: str) -> str:
    """Return what values add up to, in words; `output` is that of an explainer's provenance."""
    return SCALES[output]


def choose_players(players: Players | None, names: Sequence[str], *, named: bool) -> Players:
    """Return the players of a table, by default one per column, or raise an error if they are those of another.

    Args:
        players: as an explainer got them.
        names: of the table's columns.
        named: whether they are known from a DataFrame, rather than numbers.
    """
    if players is None:
        return columns(len(names), names)
    check_kind("players", players, Players)
    if players.is_image or players.assignment.shape != (len(names),):
        raise ValueError(
            f"players must be made of the table's {counted(len(names), 'column')}, got an assignment of shape "
            f"{players.assignment.shape}"
        )
    return players.for_table(names) if named else players


def name_outputs(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """Return the names of a model's outputs, by default numbers."""
    if names is not None and len(names) != count:
        raise ValueError(f"output_names has {len(names)} names for a model of {counted(count, 'output')}")
    return tuple(f"output {number}" for number in range(count)) if names is None else tuple(names)


def check_same_model(saved: Float64[ndarray, " outputs"], found: Float64[ndarray, " outputs"], path: str) -> None:
    """Raise a ValueError unless a model that is passed to `load` predicts what the one that was explained predicts."""
    if saved.shape != found.shape or not np.allclose(saved, found, rtol=SAME_MODEL, atol=SAME_MODEL):
        expected, got = (", ".join(f"{value:.6g}" for value in values[:MAX_NAMED]) for values in (saved, found))
        raise ValueError(f"model must be the model that {path} explains, which predicts {expected}; this one: {got}")


def _output_number(output: object, names: Sequence[str]) -> int:
    """Return the number of an output that is given by name or number."""
    if isinstance(output, str):
        if output not in names:
            known = listed(map(repr, names), MAX_NAMED)
            raise ValueError(f"outputs must be 'all', 'predicted', or among {known}; got {output!r}")
        return names.index(output)
    number = check_whole("outputs", output, minimum=0)  # type: ignore[arg-type]  # or it raises
    if number >= len(names):
        raise ValueError(f"outputs must be between 0 and {len(names) - 1}, got {number}")
    return number
