"""Explainers as a server uses them: what each takes, what can be computed at once, and the answer to each request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate, chain
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

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
from fwshapley.serving.plain_rows import PlainRows
from fwshapley.serving.query import Query
from fwshapley.serving.request_errors import RequestError
from fwshapley.tables.unusable_entries import UnusableEntry

MAX_CHECKED = 256
MAX_TOLD = 200
"""Letters of an error of an explainer that a client gets."""

Prepared = TypeVar("Prepared")


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

    def split(self, ends: Sequence[int]) -> list[Answer]:
        """Return the answers to the requests that were answered together.

        Args:
            ends: number of inputs up to the end of each request but the last one.
        """
        if not len(ends):
            return [self]
        starts = [0, *ends]
        slices = [slice(start, end) for start, end in zip(starts, [*ends, len(self.outputs)], strict=True)]
        errors, coefficients = self.expected_error, self.coefficients
        return [
            Answer(
                self.values[:, rows],
                self.base_values[rows],
                self.outputs[rows],
                self.predictions[rows],
                None if errors is None else errors[:, rows],
                None if coefficients is None else coefficients[rows],
            )
            for rows in slices
        ]


@dataclass(frozen=True, eq=False)
class ServedModel(ABC, Generic[Prepared]):
    """An explainer with a name. It never changes, so threads may share it.

    Attributes:
        name: in addresses.
        fields: of its instances.
        basis: of its coefficients.
        samples: instances that the page offers, as JSON has them.
        explainer: that explains.
        code: Python that gets the explainer, for the page; empty if it is in a folder, or a file, of the model's name.
    """

    name: str
    fields: InputFields
    basis: Basis
    samples: tuple[Any, ...]
    explainer: Any
    code: str = field(default="", kw_only=True)
    kind: ClassVar[str]

    @property
    def players(self) -> Players:
        """Players of the game."""
        players: Players = self.explainer.players
        return players

    @property
    def output_names(self) -> tuple[str, ...]:
        """One name per output."""
        return tuple(self.explainer.output_names)

    @property
    @abstractmethod
    def scale(self) -> str:
        """What values add up to."""

    def about(self) -> dict[str, Any]:
        """Return what it explains and how, JSON-compatible."""
        explainer = self.explainer
        return {
            "kind": self.kind,
            "runtime": repr(explainer),
            "outputs": self.output_names,
            "has_classes": explainer.has_classes,
            "scale": self.scale,
            "base_values": explainer.base_values.tolist(),
            "errors": [],
            "error_model": None,
            "provenance": explainer.provenance,
            "metadata": explainer.metadata,
        }

    def read(self, instances: object, query: Query, most: int) -> Prepared:
        """Return the prepared instances of a JSON request; raise a RequestError that names the first wrong one.

        Args:
            instances: as a client sent them.
            query: what to compute for them.
            most: largest number of instances.
        """
        return self.prepare(self.fields.read_instances(instances, most), query)

    @abstractmethod
    def prepare(self, rows: Rows, query: Query) -> Prepared:
        """Return checked inputs; raise a RequestError that names what cannot be used of the inputs or the query."""

    @abstractmethod
    def batch_key(self, query: Query) -> Hashable:
        """Return what requests must have in common to be answered at once."""

    @abstractmethod
    def answer(self, requests: Sequence[tuple[Prepared, Query]]) -> list[Answer]:
        """Answer several requests at once.

        Args:
            requests: prepared inputs and what to compute for them; all have the same `batch_key`.
        """


@dataclass(frozen=True, eq=False)
class LearnedModel(ServedModel[NDArray[Any]]):
    """A learned explainer: one pass of its network serves requests of any weightings.

    Attributes:
        runtime: that computes the network.
    """

    explainer: ExportedExplainer
    runtime: str
    kind: ClassVar[str] = "learned"

    @property
    def scale(self) -> str:  # noqa: D102 - as documented in the base class
        return describe_scale(self.explainer.output)

    def about(self) -> dict[str, Any]:  # noqa: D102 - as documented in the base class
        error_model = self.explainer.error_model
        return super().about() | {
            "runtime": self.runtime,
            "errors": [] if error_model is None else [w.to_json() for w in error_model.weights],
            "error_model": self.explainer.facts["error_model"],
        }

    @cached_property
    def _plain_rows(self) -> PlainRows | None:
        schema = self.explainer.schema
        return None if schema is None else PlainRows.of(schema)

    def read(self, instances: object, query: Query, most: int) -> NDArray[Any]:  # noqa: D102 - as documented in the base class
        encoded = None if self._plain_rows is None else self._plain_rows.encode(instances, most)
        if encoded is None:
            return super().read(instances, query, most)
        self._check(query)
        return encoded

    def prepare(self, rows: Rows, query: Query) -> NDArray[Any]:  # noqa: D102 - as documented in the base class
        self._check(query)
        with _told("instances"):
            inputs, unusable = self.explainer.read_inputs(rows)
        _refuse(unusable)
        return inputs

    def batch_key(self, query: Query) -> Hashable:  # noqa: ARG002, D102 - all can be computed at once
        return "network"

    def answer(self, requests: Sequence[tuple[NDArray[Any], Query]]) -> list[Answer]:  # noqa: D102 - as documented in the base class
        places: dict[Query, list[int]] = {}
        for place, (_, query) in enumerate(requests):
            places.setdefault(query, []).append(place)
        order = list(chain.from_iterable(places.values()))  # requests of the same query are neighbors
        inputs = requests[0][0] if len(order) == 1 else np.concatenate([requests[place][0] for place in order])
        computed = self.explainer.compute(inputs)
        answers: dict[int, Answer] = {}
        start = 0
        for query, of_query in places.items():
            ends = list(accumulate(len(requests[place][0]) for place in of_query))
            rows = slice(start, start + ends[-1])
            together = self._weigh(inputs[rows], Computed(*(array[rows] for array in computed)), query)
            answers |= zip(of_query, together.split(ends[:-1]), strict=True)
            start = rows.stop
        return [answers[place] for place in range(len(requests))]

    @cached_property
    def _check(self) -> Callable[[Query], None]:
        """Raises a RequestError if a query asks for what there is not, so that it fails no batch."""

        def check(query: Query) -> None:
            with _told("parameters"):
                self.explainer.check_request(_weights_of(query), _outputs_of(query), query.total, errors=query.errors)

        return lru_cache(MAX_CHECKED)(check)  # requests mostly repeat the same queries

    def _weigh(self, inputs: NDArray[Any], computed: Computed, query: Query) -> Answer:
        """Return the answer to all requests of one query."""
        weightings = list(self.explainer.check_weights(_weights_of(query)))
        attribution: Any = self.explainer.attribute(
            inputs, computed, weightings, outputs=_outputs_of(query), total=query.total, errors=query.errors
        )
        return Answer(
            attribution.values,
            attribution.base_values,
            attribution.outputs,
            computed.predictions,
            attribution.expected_error,
            computed.coefficients if query.coefficients else None,
        )


@dataclass(frozen=True, eq=False)
class ExactModel(ServedModel[Rows]):
    """An exact explainer, such as one of trees: requests of the same weightings are answered at once."""

    explainer: ExactExplainer
    kind: ClassVar[str] = "exact"

    @property
    def scale(self) -> str:  # noqa: D102 - as documented in the base class
        return describe_scale(self.explainer.provenance["output"])

    def prepare(self, rows: Rows, query: Query) -> Rows:  # noqa: D102 - as documented in the base class
        if query.errors:
            raise RequestError("exact values have no errors", "parameters.errors")
        with _told("parameters"):
            for weighting in query.weights or ():
                weighting.join_law(self.players.n_players)
            if query.coefficients and query.weights:
                self.basis.mixtures(query.weights)
        with _told("parameters.outputs"):
            self._choose(query, np.zeros((1, len(self.output_names))))
        with _told("instances"):
            unusable = self.explainer.find_unusable(rows)
        _refuse(unusable)
        return rows

    def batch_key(self, query: Query) -> Hashable:  # noqa: D102 - as documented in the base class
        weightings = query.weights or (Shapley(),)
        if query.coefficients and isinstance(self.basis, BanzhafNodes):
            return weightings + tuple(Banzhaf(t) for t in self.basis.t)
        return weightings

    def answer(self, requests: Sequence[tuple[Rows, Query]]) -> list[Answer]:  # noqa: D102 - as documented in the base class
        weightings: Any = self.batch_key(requests[0][1])
        rows = join_rows([part for part, _ in requests])
        values: Any = self.explainer.explain(rows, weights=list(weightings), outputs="all").values
        predictions = self.explainer.predict(rows)
        ends = np.cumsum([len(part) for part, _ in requests])[:-1]
        parts = zip(requests, np.split(values, ends, 1), np.split(predictions, ends), strict=True)
        return [self._select(of_request, predicted, query) for (_, query), of_request, predicted in parts]

    def _select(
        self, values: Float[ndarray, "weights batch players outputs"], predictions: Float[ndarray, "batch outputs"],
        query: Query,
    ) -> Answer:  # fmt: skip
        """Return the answer to one request, given raw values of all outputs."""
        explainer = self.explainer
        count = len(query.weights or (Shapley(),))
        values, nodes = values[:count], values[count:]
        if query.total == "efficient":
            gap = predictions - explainer.base_values - values.sum(2)
            values = values + gap[:, :, None] / self.players.n_players
        numbers = self._choose(query, predictions)
        return Answer(
            np.take_along_axis(values, numbers[None, :, None], 3),
            explainer.base_values[numbers],
            numbers,
            predictions,
            coefficients=nodes.transpose(1, 2, 0, 3) if query.coefficients else None,
        )

    def _choose(self, query: Query, predictions: Float[ndarray, "batch outputs"]) -> Int64[ndarray, "batch some"]:
        return choose_output_numbers(
            _outputs_of(query), self.output_names, predictions, has_classes=self.explainer.has_classes
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


def _refuse(unusable: Sequence[UnusableEntry]) -> None:
    """Raise a RequestError that names the first entry that an explainer has no rule for, if there is any."""
    if unusable:
        first = unusable[0]
        column = f".{first.column}" if first.column else ""
        message = f"{str(first.entry)[:60]!r} {first.problem} ({len(unusable):,} such entries in all)"
        raise RequestError(message, f"instances[{first.row}]{column}")


def _weights_of(query: Query) -> list[Semivalue] | None:
    return None if query.weights is None else list(query.weights)


def _outputs_of(query: Query) -> str | list[Any]:
    return query.outputs if isinstance(query.outputs, str) else list(query.outputs)
