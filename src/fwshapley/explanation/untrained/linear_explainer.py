"""Exact values of linear models, also behind preprocessing that treats each column by itself.

Such a model is a sum of effects of its columns, f(x) = c + sum of g_i(x_i). In the interventional game, player i adds
g_i(x_i) - E[g_i(z_i)] to every coalition, with z from the background: this is its value under every weighting;
docs/math.md, eq. 17. Nothing here imports torch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from fwshapley._internal.checks import Array, check_path
from fwshapley._internal.safetensors_file import load_bundle, save_bundle
from fwshapley._internal.version import __version__
from fwshapley.explanation.inputs.model_functions import call_function
from fwshapley.explanation.untrained.background_rows import Rows, encode_rows, find_unusable, read_background
from fwshapley.explanation.untrained.exact_explainer import (
    ExactExplainer,
    check_same_model,
    choose_players,
    name_outputs,
)
from fwshapley.explanation.untrained.preprocessing import find_mixing
from fwshapley.players import Players
from fwshapley.semivalues import Semivalue
from fwshapley.tables.network_encoding import TableSchema
from fwshapley.tables.unusable_entries import UnusableEntry

Score = Callable[[Rows], Float64[ndarray, "rows outputs"]]
Effects = Callable[[Rows], Float64[ndarray, "rows columns outputs"]]

TOLERANCE = 1e-6
"""Largest difference between the model and the sum of effects, relative to the spread of its scores."""

ROUNDING = {"float32": 1e-6, "float64": 1e-12}
"""What rounding may add to it, relative to the largest score or effect, by the precision of the table."""

NUMBERS_AT_ONCE = 2**22
"""Numbers in the rows of one call of the model, about."""


class LinearModel(NamedTuple):
    """A model that is a sum of effects of its columns.

    Attributes:
        predict: from inputs in the user's form to scores, (rows,) or (rows, outputs).
        coefficients: (outputs, columns), if nothing is done to the columns first.
        output_names: of its classes; None for regressions.
        source: name of its class.
    """

    predict: Callable[[Any], Any]
    coefficients: Float64[ndarray, "outputs columns"] | None
    output_names: tuple[str, ...] | None
    source: str


class LinearExplainer(ExactExplainer):
    """Exact values of a linear model, which are the same for every semivalue.

    Explained are scores: predictions of a regression, and the `decision_function` of a classifier.

    Args:
        model: a fitted linear model of scikit-learn, or a pipeline of column-wise preprocessing and one.
        background: rows that stand in for hidden features, an array or a DataFrame.
        players: groups of columns; by default each column is a player.

    Example:
        >>> import fwshapley as fw, numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> x = np.random.default_rng(0).normal(size=(50, 3))
        >>> explainer = fw.LinearExplainer(LinearRegression().fit(x, x @ [1.0, 2.0, 3.0]), background=x)
        >>> bool(np.allclose(explainer.explain(x).values[..., 0], (x - x.mean(0)) * [1.0, 2.0, 3.0]))
        True
    """

    kind = "linear explainer"
    method = "exact linear values"

    def __init__(
        self,
        model: Any,  # noqa: ANN401 - of scikit-learn
        background: Array,
        *,
        players: Players | None = None,
    ) -> None:
        linear = read_linear(model)
        self.schema, rows = read_background(background, any_model=True)
        self.players = choose_players(players, self.schema.names, named=self.schema.is_frame)
        self.source = linear.source
        self.n_background = len(rows)
        scores = self._connect(linear, rows)
        self.reference, self.reference_score = rows[:1], scores[0]
        self.has_classes = linear.output_names is not None
        self.output_names = _name_scores(linear.output_names, scores.shape[1])
        self.coefficients = _usable_coefficients(linear, self.schema, scores.shape[1])
        self._find_effects()
        effects = self._effects(rows)
        self.mean_effects = effects.mean(0)
        self.base_values = self._intercept + self.mean_effects.sum(0)
        self._check_sum(effects, scores)
        if self.coefficients is not None:  # a link function has no effect on a background of one row
            other = self.schema.from_numbers(rows[:1] + np.sign(self.coefficients[:, 0]))
            other_row = self.schema.to_numbers(other)  # rounded, where a column contains whole numbers
            self._check_sum(self._effects(other_row), self._connect(linear, other_row))

    def _connect(self, linear: LinearModel, rows: Rows) -> Float64[ndarray, "rows outputs"]:
        """Keep the model's scores as a function of rows, and return those of some."""

        def score(some: Rows) -> Float64[ndarray, "rows outputs"]:
            return call_function(linear.predict, self.schema.from_numbers(some), len(some))

        self._score: Score | None = score
        return score(rows)

    def _find_effects(self) -> None:
        """Find the effects of columns, by coefficients or by calling the model, and what is added to their sum."""
        if self.coefficients is not None:
            self._effects: Effects = _linear_effects(self.coefficients)
        else:
            assert self._score is not None  # noqa: S101 - the model is at hand where there are no coefficients
            self._effects = _effects_of_entries(self._score, self.reference)
        self._intercept = self.reference_score - self._effects(self.reference)[0].sum(0)

    def __repr__(self) -> str:
        return f"LinearExplainer({self.source}, {self.players.n_players} players)"

    @property
    def provenance(self) -> dict[str, Any]:
        """How values are computed, for results."""
        return {
            "method": self.method,
            "game": "interventional",
            "background_rows": self.n_background,
            "model": self.source,
            "output": "score" if self.has_classes else "value",
            "additive": True,
            "version": __version__,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the explainer to one safetensors file, without pickle; a model that it calls is not saved.

        Args:
            path: file to write; an existing file is replaced.
        """
        facts = {
            "schema": self.schema.facts(),
            "players": self.players.facts(),
            "output_names": self.output_names,
            "has_classes": self.has_classes,
            "source": self.source,
            "n_background": self.n_background,
            "needs_model": self.coefficients is None,
            "metadata": self.metadata,
        }
        arrays = {
            "mean_effects": self.mean_effects,
            "reference": self.reference,
            "reference_score": self.reference_score,
            "assignment": self.players.assignment,
        }
        if self.coefficients is not None:
            arrays["coefficients"] = self.coefficients
        save_bundle(check_path("path", path), self.kind, facts, arrays)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        model: Any = None,  # noqa: ANN401 - of scikit-learn
    ) -> LinearExplainer:
        """Read an explainer that `save` wrote.

        Args:
            path: the file.
            model: the model that was explained. It is needed if it is a pipeline, which the file does not contain.
        """
        facts, arrays = load_bundle(check_path("path", path), cls.kind)
        if model is None and facts["needs_model"]:
            raise ValueError(f"{path} calls the pipeline that it explains, {facts['source']}: pass it as model=...")
        linear = None if model is None else read_linear(model)
        explainer = cls.__new__(cls)
        explainer.schema = TableSchema.from_facts(facts["schema"])
        explainer.players = Players.from_facts(facts["players"], arrays["assignment"])
        explainer.output_names = tuple(facts["output_names"])
        explainer.source = facts["source"]
        explainer.n_background = facts["n_background"]
        explainer.has_classes = facts["has_classes"]
        explainer.coefficients, explainer.mean_effects = arrays.get("coefficients"), arrays["mean_effects"]
        explainer.reference, explainer.reference_score = arrays["reference"], arrays["reference_score"]
        explainer.metadata = facts["metadata"]
        explainer._score = None  # noqa: SLF001 - of this class
        if linear is not None:
            scores = explainer._connect(linear, explainer.reference)  # noqa: SLF001 - of this class
            check_same_model(explainer.reference_score, scores[0], str(path))
        explainer._find_effects()  # noqa: SLF001 - of this class
        explainer.base_values = explainer._intercept + explainer.mean_effects.sum(0)  # noqa: SLF001 - of this class
        return explainer

    def find_unusable(self, x: Array) -> list[UnusableEntry]:  # noqa: D102 - as documented in the base class
        return find_unusable("x", x, self.schema)

    def _encode(self, x: Array) -> Rows:
        return encode_rows("x", x, self.schema)

    def _as_shown(self, x: Array, rows: Rows) -> tuple[Rows, dict[str, Any]]:  # noqa: ARG002 - as other explainers do
        return rows, self.schema.encodings

    def _predict(self, rows: Rows) -> Float64[ndarray, "rows outputs"]:
        return self._intercept + self._effects(rows).sum(1)

    def _values(
        self, rows: Rows, weightings: Sequence[Semivalue]
    ) -> Float64[ndarray, "weightings rows players outputs"]:
        effects = self._effects(rows)
        if self._score is not None:  # a loaded explainer has no model to ask
            self._check_sum(effects, self._score(rows))
        effects -= self.mean_effects
        values = np.zeros((len(rows), self.players.n_players, effects.shape[2]))
        for column, player in enumerate(self.players.assignment):
            values[:, player] += effects[:, column]
        return np.repeat(values[None], len(weightings), 0)

    def _check_sum(
        self, effects: Float64[ndarray, "rows columns outputs"], scores: Float64[ndarray, "rows outputs"]
    ) -> None:
        """Raise a TypeError unless effects add up to the model's scores."""
        difference = np.abs(self._intercept + effects.sum(1) - scores).max()
        largest = max(np.abs(effects).max(), np.abs(scores).max())
        single = any(column.dtype == "float32" for column in self.schema.columns)
        allowed = TOLERANCE * np.ptp(scores) + ROUNDING["float32" if single else "float64"] * largest
        if difference > allowed:
            raise TypeError(
                f"{self.source} is not a sum of effects of its columns: they miss its score by up to {difference:.3g}; "
                "it may have a link function"
            )


def read_linear(model: Any) -> LinearModel:  # noqa: ANN401 - any model
    """Return a model of scikit-learn as a sum of effects, or raise a TypeError that says why it is none."""
    steps = [step for _, step in model.steps] if type(model).__name__ == "Pipeline" else [model]
    final = steps[-1]
    name = type(final).__name__
    if not (hasattr(final, "coef_") and hasattr(final, "intercept_")):
        raise TypeError(f"{name} has no coefficients (coef_ and intercept_): it is not a fitted linear model")
    for step in steps[:-1]:
        wrong = find_mixing(step)
        if wrong is not None:
            raise TypeError(f"{wrong} may combine columns, so that the values of {name} have no closed form behind it")
    is_classifier = hasattr(final, "classes_")
    if is_classifier and not hasattr(final, "decision_function"):
        raise TypeError(f"{name} has no decision_function, whose values have a closed form")
    coefficients = final.coef_.toarray() if hasattr(final.coef_, "toarray") else final.coef_
    return LinearModel(
        predict=model.decision_function if is_classifier else model.predict,
        coefficients=np.atleast_2d(np.asarray(coefficients, np.float64)) if len(steps) == 1 else None,
        output_names=tuple(map(str, final.classes_)) if is_classifier else None,
        source=" + ".join(type(step).__name__ for step in steps if step != "passthrough"),
    )


def _name_scores(classes: tuple[str, ...] | None, count: int) -> tuple[str, ...]:
    """Return a name per score; the only score of two classes is that of the second one."""
    if classes is not None and count == 1:
        return classes[1:2]
    return name_outputs(classes if classes is not None and len(classes) == count else None, count)


def _usable_coefficients(
    linear: LinearModel, schema: TableSchema, n_outputs: int
) -> Float64[ndarray, "columns outputs"] | None:
    """Return coefficients that multiply numbers of a table; None if it has dates or categories."""
    coefficients = linear.coefficients
    if coefficients is None:
        return None
    if len(coefficients) != n_outputs:
        raise TypeError(f"{linear.source} has {n_outputs} scores of {len(coefficients)} linear functions")
    return coefficients.T.copy() if all(column.kind == "number" for column in schema.columns) else None


def _linear_effects(coefficients: Float64[ndarray, "columns outputs"]) -> Effects:
    return lambda rows: rows[:, :, None] * coefficients


def _effects_of_entries(predict: Score, reference: Rows) -> Effects:
    """Return how much each column's entries change the score of a reference row; each entry is asked for once."""

    def effects(rows: Rows) -> Float64[ndarray, "rows columns outputs"]:
        parts = []
        at_once = max(1, NUMBERS_AT_ONCE // max(rows.size, 1))
        for begin in range(0, rows.shape[1], at_once):
            probes, of_probe = [reference], []
            position = 1
            for column in range(begin, min(begin + at_once, rows.shape[1])):
                entries, inverse = np.unique(rows[:, column], return_inverse=True)
                changed = np.repeat(reference, len(entries), 0)
                changed[:, column] = entries
                probes.append(changed)
                of_probe.append(position + inverse)
                position += len(entries)
            scores = predict(np.concatenate(probes))
            parts.append(np.stack([scores[index] for index in of_probe], 1) - scores[0])
        return np.concatenate(parts, 1)

    return effects
