"""A learned explainer that runs without torch: its network by onnxruntime, everything else by numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Float64
from numpy import ndarray
from numpy.typing import NDArray

from fwshapley._internal.checks import Array, check_choice, check_flag, shorten
from fwshapley.explanation.attribution import Attribution
from fwshapley.games.scales import KINDS
from fwshapley.players import Players
from fwshapley.semivalues import Semivalue, Shapley, Total, check_weights
from fwshapley.serving.expected_errors import ErrorFeatures, SavedErrorModel
from fwshapley.serving.mixtures import Basis, OneWeighting, read_basis
from fwshapley.serving.output_choice import choose_output_numbers
from fwshapley.tables.network_encoding import TableSchema
from fwshapley.tables.unusable_entries import UnusableEntry, mark_usable, refuse

if TYPE_CHECKING:
    from fwshapley.explanation.learned.feature_explainer import FeatureExplainer

MAX_BATCH = 256
"""Inputs that the network gets at once."""

RunNetwork = Callable[[Sequence[str], Mapping[str, NDArray[Any]]], list[NDArray[Any]]]
"""Returns outputs of a graph by their names, given its inputs by theirs."""


class Computed(NamedTuple):
    """What the network computes of a batch, for any weighting.

    Attributes:
        coefficients: of the basis.
        predictions: of the surrogate from complete inputs, on the scale of the values.
        disagreement: half of the difference of the surrogate's two networks; 0 for other surrogates.
    """

    coefficients: Float[ndarray, "batch players functions outputs"]
    predictions: Float[ndarray, "batch outputs"]
    disagreement: Float[ndarray, "batch outputs"]


class ExportedExplainer:
    """Explains as the `FeatureExplainer` that was exported, without torch; made by `fw.load_onnx`.

    Attributions contain numpy arrays. The outputs that are "predicted" are those that the surrogate predicts, because
    the model is not in the file.

    Args:
        facts: about the explainer, from the metadata of its file.
        run: computes outputs of its graph.
        source: the explainer that was not exported.

    Attributes:
        players: of the game.
        output_names: one per output.
        base_values: value of the empty coalition, for each output.
        output: scale of the values.
        basis: in which the network expands values.
        schema: of the table that is explained; None for images and other tensors.
        provenance: how the explainer was made.
    """

    def __init__(self, facts: Mapping[str, Any], run: RunNetwork, source: FeatureExplainer | None = None) -> None:
        self.facts, self.source = facts, source
        self._run = run
        players = dict(facts["players"])
        self.players = Players.from_facts(players, np.array(players.pop("assignment")))
        self.output_names: tuple[str, ...] = tuple(facts["output_names"])
        self.output: str = facts["output"]
        self.base_values: Float[ndarray, " outputs"] = np.array(facts["base_values"], dtype=np.float32)
        self.basis: Basis = read_basis(facts["objective"])
        self.schema = None if facts["schema"] is None else TableSchema.from_facts(facts["schema"])
        self.input_shape: tuple[int, ...] = tuple(facts["input_shape"])
        self.provenance: dict[str, Any] = facts["provenance"]
        self.metadata: dict[str, Any] | None = facts["metadata"]
        error_model = facts["error_model"]
        self.error_model = None if error_model is None else SavedErrorModel.from_facts(error_model)

    @classmethod
    def of(cls, explainer: FeatureExplainer) -> ExportedExplainer:
        """Return the same for an explainer that was not exported: its network runs in torch.

        Args:
            explainer: a fitted explainer.
        """
        explainer.fitted_.check_same_players("serving")
        export = import_module("fwshapley.explanation.learned.onnx_export")  # imports torch
        return cls(export.describe_explainer(explainer), export.TorchNetwork(explainer), explainer)

    def __repr__(self) -> str:
        return f"ExportedExplainer(output={self.output!r}, {self.players.n_players} players)"

    @property
    def has_classes(self) -> bool:
        """Whether outputs are mutually exclusive classes."""
        return KINDS[self.output] == "classes"  # type: ignore[index]  # it was one when it was written

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """Dtype of the network's inputs."""
        return np.float64 if self.schema is not None and self.schema.double else np.float32

    def mixtures(self, weights: Semivalue | Sequence[Semivalue] | None = None) -> Float[ndarray, "weights functions"]:
        """Return the mixtures of weightings: the input "mixtures" of the graph.

        Args:
            weights: a semivalue or a list of them; by default Shapley, or the one that was learned.
        """
        return self.basis.mixtures(self.check_weights(weights)).astype(np.float32)

    def explain(
        self,
        x: Array,
        *,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        outputs: str | Sequence[int] | Sequence[str] = "auto",
        total: Total | Literal["auto"] = "auto",
        errors: bool = False,
    ) -> Attribution:
        """Explain inputs, as `FeatureExplainer.explain` does.

        Args:
            x: a batch of inputs, as the explainer was fitted with.
            weights: a semivalue or a list of them; by default Shapley, or the one that was learned.
            outputs: "all"; "predicted", the class that the surrogate predicts; or names or numbers of some. "auto" is
                the positive one of two classes, otherwise all.
            total: "raw" is the semivalue itself; "efficient" shifts it to sum to the prediction less the base value;
                "auto" is raw, except for explainers that learned efficient values only.
            errors: also return expected errors, if the explainer was calibrated before it was exported.
        """
        check_flag("errors", errors)
        inputs = self.encode(x)
        return self.attribute(inputs, self.compute(inputs), weights, outputs=outputs, total=total, errors=errors)

    def encode(self, x: Array) -> Float[ndarray, "batch ..."]:
        """Return inputs as the network takes them, or raise an error that names what cannot be used.

        Args:
            x: a batch of inputs.
        """
        inputs, unusable = self.read_inputs(x)
        if self.schema is None and unusable:
            row = unusable[0].row
            raise ValueError(f"input {row} contains NaN or infinite values, or numbers that overflow float32")
        refuse(unusable, x.index if isinstance(x, pd.DataFrame) else range(len(inputs)))
        return inputs

    def usable(self, x: Array) -> Bool[ndarray, " rows"]:
        """Return which inputs can be explained: not those with missing or unknown entries that there is no rule for.

        Args:
            x: a batch of inputs.
        """
        return mark_usable(self.find_unusable(x), len(x))

    def find_unusable(self, x: Array) -> list[UnusableEntry]:
        """Return the entries for which `explain` refuses inputs: where each is, what is there, and what is wrong.

        Args:
            x: a batch of inputs.
        """
        return self.read_inputs(x)[1]

    def read_inputs(self, x: Array) -> tuple[Float[ndarray, "batch ..."], list[UnusableEntry]]:
        """Return inputs as the network takes them, and the entries that cannot be used.

        Args:
            x: a batch of inputs.
        """
        if self.schema is not None:
            if isinstance(x, pd.Series):
                raise TypeError("inputs must be a batch, got a Series; pass one row as a table, e.g. frame.iloc[[0]]")
            numbers, unusable = self.schema.read(x)
            if not len(numbers):
                raise ValueError("inputs must be a batch of at least one input, got no rows")
            with np.errstate(over="ignore"):  # of what is unusable
                return numbers.astype(self.dtype), unusable
        inputs = self._check_tensor(x)
        if np.isfinite(inputs).all():
            return inputs, []
        rows = np.flatnonzero(~np.isfinite(inputs).reshape(len(inputs), -1).all(1)).tolist()
        return inputs, [UnusableEntry(row, "", np.nan, "contains NaN or infinite values") for row in rows]

    def compute(self, inputs: Float[ndarray, "batch ..."]) -> Computed:
        """Run the network on encoded inputs.

        Args:
            inputs: from `encode`.
        """
        names = ["coefficients", "predictions", *(["disagreement"] if self.facts["tells_disagreement"] else [])]
        mixtures = np.zeros((1, self._n_functions), dtype=np.float32)
        starts = range(0, len(inputs), MAX_BATCH)
        parts = [self._run(names, {"inputs": inputs[at : at + MAX_BATCH], "mixtures": mixtures}) for at in starts]
        arrays = [part[0] if len(parts) == 1 else np.concatenate(part) for part in zip(*parts, strict=True)]
        return Computed(arrays[0], arrays[1], arrays[2] if len(arrays) == len(Computed._fields) else 0 * arrays[1])

    def attribute(
        self,
        inputs: Float[ndarray, "batch ..."],
        computed: Computed,
        weights: Semivalue | Sequence[Semivalue] | None,
        *,
        outputs: str | Sequence[int] | Sequence[str] = "auto",
        total: Total | Literal["auto"] = "auto",
        errors: bool = False,
    ) -> Attribution:
        """Return the values under weightings, given what the network computed; arguments as in `explain`."""
        weightings = self.check_weights(weights)
        total = self._check_total(total)
        coefficients, predictions, _ = computed
        check_finite_coefficients(coefficients)
        values: Any = np.einsum("wj,bnjo->wbno", self.mixtures(weightings), coefficients)
        if total == "efficient":
            gap = predictions - self.base_values - values.sum(2)
            values = values + gap[:, :, None] / self.players.n_players
        numbers: Any = choose_output_numbers(outputs, self.output_names, predictions, has_classes=self.has_classes)
        expected: Any = self._expected_errors(computed, values, weightings, total) if errors else None
        if not np.array_equal(numbers[0], range(len(self.output_names))) or outputs == "predicted":
            values = np.take_along_axis(values, numbers[None, :, None], 3)
            expected = np.take_along_axis(expected, numbers[None], 2) if errors else None
        is_list = isinstance(weights, list | tuple)
        shown: Any = inputs
        return Attribution(
            values=values if is_list else values[0],
            base_values=self.base_values[numbers],
            outputs=numbers,
            inputs=shown,
            weights=weightings if is_list else weightings[0],
            total=total,
            players=self.players,
            output_names=self.output_names,
            provenance={**self.provenance, "method": "network"},
            expected_error=expected if is_list or expected is None else expected[0],
            encodings={} if self.schema is None else self.schema.encodings,
        )

    def check_request(
        self,
        weights: Semivalue | Sequence[Semivalue] | None,
        outputs: str | Sequence[int] | Sequence[str],
        total: Total | Literal["auto"],
        *,
        errors: bool,
    ) -> None:
        """Raise an error if `explain` would, whatever the inputs are; arguments as there."""
        weightings = self.check_weights(weights)
        self.basis.mixtures(weightings)
        total = self._check_total(total)
        predictions = np.zeros((1, len(self.output_names)))
        choose_output_numbers(outputs, self.output_names, predictions, has_classes=self.has_classes)
        if errors:
            self._check_errors(weightings, total)

    def check_weights(self, weights: Semivalue | Sequence[Semivalue] | None) -> list[Semivalue]:
        """Return weightings as a list; None is Shapley, or the one that was learned."""
        if weights is None and isinstance(self.basis, OneWeighting):
            return [self.basis.weights]
        return check_weights(weights)

    @property
    def _n_functions(self) -> int:
        return len(self.basis.facts()["units"])

    def _check_tensor(self, x: Array) -> Float[ndarray, "batch ..."]:
        """Return an array as the network takes it, or raise an error that names what cannot be used."""
        try:
            numbers = np.asarray(x)
            if numbers.dtype.kind not in "iufb":
                raise TypeError(f"got {numbers.dtype}")  # noqa: TRY301 - one error for all that cannot be converted
            with np.errstate(over="ignore"):  # infinite numbers are refused below
                inputs = numbers.astype(np.float32)
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"inputs must be an array of numbers ({shorten(str(error))})") from error
        if inputs.shape[1:] != self.input_shape or not len(inputs):
            expected = ", ".join(map(str, self.input_shape))
            raise ValueError(f"inputs must have shape (batch, {expected}), got {inputs.shape}")
        return inputs

    def _check_total(self, total: Total | Literal["auto"]) -> Total:
        """Return "raw" or "efficient", as `FeatureExplainer` does."""
        check_choice("total", total, ("auto", *get_args(Total)))
        if not isinstance(self.basis, OneWeighting):
            return "raw" if total == "auto" else total
        if total == "raw" and self.basis.weights != Shapley():
            raise ValueError(
                "total='raw' needs an explainer that learned every weighting; this one learned values up to a common "
                "shift, so pass total='efficient'"
            )
        return "efficient"

    def _expected_errors(
        self,
        computed: Computed,
        values: Float[ndarray, "weights batch players outputs"],
        weightings: Sequence[Semivalue],
        total: Total,
    ) -> Float64[ndarray, "weights batch outputs"]:
        error_model = self._check_errors(weightings, total)
        coefficients = computed.coefficients.astype(np.float64)
        is_fixed = isinstance(self.basis, OneWeighting)
        shapley = (
            values[0].astype(np.float64)
            if is_fixed
            else np.einsum("j,bnjo->bno", self.basis.mixtures([Shapley()])[0], coefficients)
        )
        features = ErrorFeatures(
            shapley,
            computed.predictions.astype(np.float64),
            self.base_values.astype(np.float64),
            computed.disagreement.astype(np.float64),
            is_probability=self.output.endswith("probability"),
        )
        return error_model.expect(values, weightings, features)

    def _check_errors(self, weightings: Sequence[Semivalue], total: Total) -> SavedErrorModel:
        """Return the error model; raise an error if errors of these values are not known."""
        if self.error_model is None:
            raise ValueError("errors=True needs an explainer that was calibrated before it was exported")
        self.error_model.check(weightings, total)
        return self.error_model


def check_finite_coefficients(coefficients: Float[ndarray, "batch players functions outputs"]) -> None:
    """Raise an error that names the first input whose values are not finite."""
    finite = np.isfinite(coefficients)
    if not finite.all():
        row = int(np.flatnonzero(~finite.reshape(len(finite), -1).all(1))[0])
        raise ValueError(f"the values of input {row} are not finite: its numbers are too large for float32")
