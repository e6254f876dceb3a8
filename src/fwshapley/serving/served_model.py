"""Explainers as a server uses them: what each takes, what can be computed at once, and the answer to each request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int64
from numpy import ndarray
from numpy.typing import NDArray

from fwshapley.explanation.untrained.exact_explainer import ExactExplainer, describe_scale
from fwshapley.players import Players
from fwshapley.semivalues import Banzhaf, Semivalue, Shapley
from fwshapley.serving.exported_explainer import Computed, ExportedExplainer
from fwshapley.serving.input_columns import InputColumn, InputFields, Rows, join_rows
from fwshapley.serving.mixtures import BanzhafNodes, Basis
from fwshapley.serving.output_choice import choose_output_numbers
from fwshapley.serving.query import Query
from fwshapley.serving.request_errors import RequestError

MAX_TOLD = 200
"""Letters of an error of an explainer that a client gets."""

Prepared = TypeVar("Prepared")
Result = TypeVar("Result")


class Answer(NamedTuple):
    """What a request gets.

    Attributes:
        values: of each weighting.
        base_values: value of the empty coalition.
        outputs: numbers of the explained outputs.
        predictions: of all outputs, on the scale of the values.
        expected_error: of each weighting, if it was asked for.
        coefficients: of all outputs, if they were asked for.
    """

    values: Float[ndarray, "weights batch players outputs"]
    base_values: Float[ndarray, "batch outputs"]
    outputs: Int64[ndarray, "batch outputs"]
    predictions: Float[ndarray, "batch all_outputs"]
    expected_error: Float[ndarray, "weights batch outputs"] | None = None
    coefficients: Float[ndarray, "batch players functions all_outputs"] | None = None


@dataclass(frozen=True, eq=False)
class ServedModel(ABC, Generic[Prepared, Result]):
    """An explainer with a name. It never changes, so threads may share it.

    Attributes:
        name: in addresses.
        fields: of its instances.
        basis: of its coefficients.
        samples: instances that the page offers, as JSON has them.
    """

    name: str
    fields: InputFields
    basis: Basis
    samples: tuple[Any, ...]

    @property
    @abstractmethod
    def players(self) -> Players:
        """Players of the game."""

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """Return what it explains and how, JSON-compatible."""

    @abstractmethod
    def prepare(self, rows: Rows, query: Query) -> Prepared:
        """Return checked inputs; raise a RequestError that names what cannot be used of the inputs or the query."""

    @abstractmethod
    def batch_key(self, query: Query) -> Hashable:
        """Return what requests must have in common to be computed at once."""

    @abstractmethod
    def compute(self, parts: Sequence[Prepared], key: Any) -> list[Result]:  # noqa: ANN401 - from `batch_key`
        """Compute several requests at once; return the result of each."""

    @abstractmethod
    def answer(self, prepared: Prepared, result: Result, query: Query) -> Answer:
        """Return the answer to one request."""


@dataclass(frozen=True, eq=False)
class LearnedModel(ServedModel[NDArray[Any], Computed]):
    """A learned explainer: one pass of its network serves requests of any weightings.

    Attributes:
        explainer: from an ONNX file, or in torch.
        runtime: that computes the network.
    """

    explainer: ExportedExplainer
    runtime: str

    @property
    def players(self) -> Players:  # noqa: D102 - as documented in the base class
        return self.explainer.players

    def about(self) -> dict[str, Any]:  # noqa: D102 - as documented in the base class
        explainer = self.explainer
        return {
            "kind": "learned",
            "runtime": self.runtime,
            "outputs": explainer.output_names,
            "has_classes": explainer.has_classes,
            "scale": describe_scale(explainer.output),
            "base_values": explainer.base_values.tolist(),
            "errors": [] if explainer.error_model is None else [w.to_json() for w in explainer.error_model.weights],
            "error_model": explainer.facts["error_model"],
            "provenance": explainer.provenance,
            "metadata": explainer.metadata,
        }

    def prepare(self, rows: Rows, query: Query) -> NDArray[Any]:  # noqa: D102 - as documented in the base class
        _refuse_unusable(self.explainer, rows)
        with _told("parameters"):
            weightings = self.explainer.check_weights(_weights_of(query))
            self.explainer.mixtures(weightings)
        with _told("instances"):
            return self.explainer.encode(rows)

    def batch_key(self, query: Query) -> Hashable:  # noqa: ARG002, D102 - all can be computed at once
        return "network"

    def compute(self, parts: Sequence[NDArray[Any]], key: Any) -> list[Computed]:  # noqa: ANN401, ARG002, D102 - as documented in the base class
        computed = self.explainer.compute(np.concatenate(parts) if len(parts) > 1 else parts[0])
        ends = np.cumsum([len(part) for part in parts]).tolist()
        return [
            Computed(*(array[end - len(part) : end] for array in computed))
            for part, end in zip(parts, ends, strict=True)
        ]

    def answer(self, prepared: NDArray[Any], result: Computed, query: Query) -> Answer:  # noqa: D102 - as documented in the base class
        weightings = list(self.explainer.check_weights(_weights_of(query)))
        with _told("parameters"):
            attribution: Any = self.explainer.attribute(
                prepared, result, weightings, outputs=_outputs_of(query), total=query.total, errors=query.errors
            )
        return Answer(
            attribution.values,
            attribution.base_values,
            attribution.outputs,
            result.predictions,
            attribution.expected_error,
            result.coefficients if query.coefficients else None,
        )


class ExactResult(NamedTuple):
    """What an exact explainer computes of a request.

    Attributes:
        values: raw, of all outputs.
        predictions: of all outputs.
    """

    values: Float[ndarray, "weights batch players outputs"]
    predictions: Float[ndarray, "batch outputs"]


@dataclass(frozen=True, eq=False)
class ExactModel(ServedModel[Rows, ExactResult]):
    """An exact explainer, such as one of trees: requests of the same weightings are computed at once.

    Attributes:
        explainer: exact.
    """

    explainer: ExactExplainer

    @property
    def players(self) -> Players:  # noqa: D102 - as documented in the base class
        return self.explainer.players

    def about(self) -> dict[str, Any]:  # noqa: D102 - as documented in the base class
        explainer = self.explainer
        return {
            "kind": "exact",
            "runtime": repr(explainer),
            "outputs": explainer.output_names,
            "has_classes": explainer.has_classes,
            "scale": describe_scale(explainer.provenance["output"]),
            "base_values": explainer.base_values.tolist(),
            "errors": [],
            "error_model": None,
            "provenance": explainer.provenance,
            "metadata": explainer.metadata,
        }

    def prepare(self, rows: Rows, query: Query) -> Rows:  # noqa: D102 - as documented in the base class
        if query.errors:
            raise RequestError("exact values have no errors", "parameters.errors")
        with _told("parameters"):
            for weighting in query.weights or ():
                weighting.join_law(self.players.n_players)
            if query.coefficients and query.weights:
                self.basis.mixtures(query.weights)
        _refuse_unusable(self.explainer, rows)
        return rows

    def batch_key(self, query: Query) -> Hashable:  # noqa: D102 - as documented in the base class
        weightings = query.weights or (Shapley(),)
        if query.coefficients and isinstance(self.basis, BanzhafNodes):
            return weightings + tuple(Banzhaf(t) for t in self.basis.t)
        return weightings

    def compute(self, parts: Sequence[Rows], key: Sequence[Semivalue]) -> list[ExactResult]:  # noqa: D102 - as documented in the base class
        rows = join_rows(parts)
        values: Any = self.explainer.explain(rows, weights=list(key), outputs="all").values
        predictions = self.explainer.predict(rows)
        ends = np.cumsum([len(part) for part in parts]).tolist()
        return [
            ExactResult(values[:, end - len(part) : end], predictions[end - len(part) : end])
            for part, end in zip(parts, ends, strict=True)
        ]

    def answer(self, prepared: Rows, result: ExactResult, query: Query) -> Answer:  # noqa: ARG002, D102 - as documented in the base class
        explainer = self.explainer
        count = len(query.weights or (Shapley(),))
        values, nodes = result.values[:count], result.values[count:]
        if query.total == "efficient":
            gap = result.predictions - explainer.base_values - values.sum(2)
            values = values + gap[:, :, None] / self.players.n_players
        with _told("parameters.outputs"):
            numbers = choose_output_numbers(
                _outputs_of(query), explainer.output_names, result.predictions, has_classes=explainer.has_classes
            )
        return Answer(
            np.take_along_axis(values, numbers[None, :, None], 3),
            explainer.base_values[numbers],
            numbers,
            result.predictions,
            coefficients=nodes.transpose(1, 2, 0, 3) if query.coefficients else None,
        )


def fields_of_exact(explainer: Any) -> InputFields:  # noqa: ANN401 - one of trees, or of a linear model
    """Return the instances that an exact explainer takes."""
    schema = getattr(explainer, "schema", None)
    if schema is not None:
        return InputFields.of_schema(schema)
    ensemble = explainer.ensemble
    levels: Mapping[int, Sequence[Any]] = ensemble.levels
    columns = tuple(
        InputColumn(name, "category" if place in levels else "number", tuple(levels.get(place, ())))
        for place, name in enumerate(ensemble.feature_names)
    )
    return InputFields((len(columns),), columns, is_frame=ensemble.named or bool(levels))


class _told:  # noqa: N801 - reads as a statement: with _told("parameters"):
    """Turn errors of an explainer into a RequestError about a field."""

    def __init__(self, field: str) -> None:
        self.field = field

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, ValueError | TypeError) and not isinstance(error, RequestError):
            message = str(error)
            raise RequestError(message if len(message) <= MAX_TOLD else f"{message[:MAX_TOLD]} ...", self.field)


def _refuse_unusable(explainer: ExportedExplainer | ExactExplainer, rows: Rows) -> None:
    """Raise a RequestError that names the first entry that the explainer has no rule for."""
    with _told("instances"):
        unusable = explainer.find_unusable(rows)
    if unusable:
        first = unusable[0]
        column = f".{first.column}" if first.column else ""
        message = f"{str(first.entry)[:60]!r} {first.problem} ({len(unusable):,} such entries in all)"
        raise RequestError(message, f"instances[{first.row}]{column}")


def _weights_of(query: Query) -> list[Semivalue] | None:
    return None if query.weights is None else list(query.weights)


def _outputs_of(query: Query) -> str | list[Any]:
    return query.outputs if isinstance(query.outputs, str) else list(query.outputs)
