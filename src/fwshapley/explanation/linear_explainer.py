"""Exact values of linear models, also behind preprocessing that treats each column by itself.

Such a model is a sum of effects of its columns, f(x) = c + sum of g_i(x_i). In the interventional game, player i adds
g_i(x_i) - E[g_i(z_i)] to every coalition, with z from the background: this is its value under every weighting.
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
from fwshapley.explanation.black_box import call_function
from fwshapley.explanation.exact_explainer import ExactExplainer
from fwshapley.explanation.inputs import is_table
from fwshapley.players import Players, columns
from fwshapley.semivalues import Semivalue
from fwshapley.tables.network_encoding import TableSchema, describe_table

Rows = Float64[ndarray, "rows columns"]
Effects = Callable[[Rows], Float64[ndarray, "rows columns outputs"]]

TOLERANCE = 1e-6
"""Largest difference between the model and the sum of effects, relative to the spread of its outputs."""

MOST_CHECKED = 200
"""Background rows on which a model is compared with the sum of its effects."""

COLUMN_WISE = {
    "Binarizer",
    "KBinsDiscretizer",
    "MaxAbsScaler",
    "MinMaxScaler",
    "MissingIndicator",
    "OneHotEncoder",
    "OrdinalEncoder",
    "PowerTransformer",
    "QuantileTransformer",
    "RobustScaler",
    "SelectKBest",
    "SelectPercentile",
    "SimpleImputer",
    "SplineTransformer",
    "StandardScaler",
    "TargetEncoder",
    "VarianceThreshold",
}
"""Transformers of scikit-learn, each of whose outputs depends on one column."""


class LinearModel(NamedTuple):
    """A model that is a sum of effects of its columns.

    Attributes:
        predict: from inputs in the user's form to scores, (rows,) or (rows, outputs).
        coefficients: (outputs, columns), if the model is linear in the columns themselves.
        output_names: of its classes; None for regressions.
        source: name of its class.
    """

    predict: Callable[[Any], Any]
    coefficients: Float64[ndarray, "outputs columns"] | None
    output_names: tuple[str, ...] | None
    source: str


class LinearExplainer(ExactExplainer):
    """Exact values of a linear model, which are the same for every semivalue.

    Explained are scores: predictions of a regression, and log odds (the decision function) of a classifier.

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
        if not is_table(background):
            raise ValueError(f"background must be a table, (rows, columns); got shape {np.shape(background)}")
        self.schema = describe_table(background, any_model=True)
        rows = self._encode(background)
        if not len(rows):
            raise ValueError("background has no rows")
        self.players = _choose_players(players, self.schema)
        self.source = linear.source

        def predict(some: Rows) -> Float64[ndarray, "rows outputs"]:
            return _call(linear.predict, self.schema, some)

        reference = predict(rows[:1])
        count = reference.shape[1]
        self.has_classes = linear.output_names is not None
        self.output_names = _name_outputs(linear.output_names, count)
        self.coefficients = None if linear.coefficients is None else linear.coefficients.T.copy()
        if self.coefficients is None:
            self._effects: Effects = _effects_of_pipeline(predict, rows[:1])
            self._intercept = reference[0]
        else:
            self._effects = _linear_effects(self.coefficients)
            self._intercept = reference[0] - self._effects(rows[:1])[0].sum(0)
        self.mean_effects = self._effects(rows).mean(0)
        self.base_values = self._intercept + self.mean_effects.sum(0)
        _check_sum(self._predict, predict, rows[:MOST_CHECKED], linear.source)

    def __repr__(self) -> str:
        return f"LinearExplainer({self.source}, {self.players.n_players} players)"

    @property
    def provenance(self) -> dict[str, Any]:
        """How values are computed, for results."""
        return {"method": self.method, "game": "interventional", "model": self.source, "version": __version__}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the explainer to one safetensors file, without pickle; that of a pipeline cannot be saved.

        Args:
            path: file to write; an existing file is replaced.
        """
        if self.coefficients is None:
            raise TypeError(
                f"an explainer of {self.source} calls the pipeline, which cannot be saved without pickle; make it "
                "again with LinearExplainer(model, background), which takes no training"
            )
        facts = {
            "schema": self.schema.facts(),
            "players": self.players.facts(),
            "output_names": self.output_names,
            "has_classes": self.has_classes,
            "source": self.source,
        }
        arrays = {
            "coefficients": self.coefficients,
            "mean_effects": self.mean_effects,
            "intercept": self._intercept,
            "assignment": self.players.assignment,
        }
        save_bundle(check_path("path", path), self.kind, facts, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LinearExplainer:
        """Read an explainer that `save` wrote.

        Args:
            path: the file.
        """
        facts, arrays = load_bundle(check_path("path", path), cls.kind)
        explainer = cls.__new__(cls)
        explainer.schema = TableSchema.from_facts(facts["schema"])
        explainer.players = Players.from_facts(facts["players"], arrays["assignment"])
        explainer.output_names, explainer.source = tuple(facts["output_names"]), facts["source"]
        explainer.has_classes = facts["has_classes"]
        explainer.coefficients, explainer.mean_effects = arrays["coefficients"], arrays["mean_effects"]
        explainer._effects = _linear_effects(arrays["coefficients"])  # noqa: SLF001 - of this class
        explainer._intercept = arrays["intercept"]  # noqa: SLF001 - of this class
        explainer.base_values = arrays["intercept"] + arrays["mean_effects"].sum(0)
        return explainer

    def _encode(self, x: Array) -> Rows:
        if not is_table(x):
            raise ValueError(f"x must be a table, (rows, columns); got shape {np.shape(x)}")
        rows = self.schema.encode(x).numpy()
        if rows.shape[1] != len(self.schema.columns):
            raise ValueError(f"x must have {len(self.schema.columns)} columns, as the background; got {rows.shape[1]}")
        return rows

    def _predict(self, rows: Rows) -> Float64[ndarray, "rows outputs"]:
        return self._intercept + self._effects(rows).sum(1)

    def _values(
        self, rows: Rows, weightings: Sequence[Semivalue]
    ) -> Float64[ndarray, "weightings rows players outputs"]:
        effects = self._effects(rows) - self.mean_effects
        values = np.zeros((len(rows), self.players.n_players, effects.shape[2]))
        for column, player in enumerate(self.players.assignment):
            values[:, player] += effects[:, column]
        return np.repeat(values[None], len(weightings), 0)


def read_linear(model: Any) -> LinearModel:  # noqa: ANN401 - any model
    """Return a model of scikit-learn as a sum of effects, or raise a TypeError that says why it is none."""
    steps = [step for _, step in model.steps] if type(model).__name__ == "Pipeline" else [model]
    final = steps[-1]
    name = type(final).__name__
    if not (hasattr(final, "coef_") and hasattr(final, "intercept_")):
        raise TypeError(f"{name} has no coefficients (coef_ and intercept_): it is not a fitted linear model")
    for step in steps[:-1]:
        wrong = _not_column_wise(step)
        if wrong is not None:
            raise TypeError(f"{wrong} may combine columns, so that the values of {name} have no closed form behind it")
    is_classifier = hasattr(final, "classes_")
    if is_classifier and not hasattr(final, "decision_function"):
        raise TypeError(f"{name} has no decision_function, whose values have a closed form")
    coefficients = np.atleast_2d(np.asarray(final.coef_, np.float64))
    return LinearModel(
        predict=model.decision_function if is_classifier else model.predict,
        coefficients=coefficients if len(steps) == 1 else None,
        output_names=tuple(map(str, final.classes_)) if is_classifier else None,
        source=" + ".join(type(step).__name__ for step in steps if step != "passthrough"),
    )


def _not_column_wise(step: Any) -> str | None:  # noqa: ANN401 - of scikit-learn
    """Return the name of a transformer in a step that may combine columns; None if there is none."""
    name = type(step).__name__
    if step is None or isinstance(step, str) or name in COLUMN_WISE:  # "passthrough" and "drop"
        return None
    inner = {"Pipeline": "steps", "ColumnTransformer": "transformers_", "FeatureUnion": "transformer_list"}.get(name)
    if inner is None:
        return name
    return next(filter(None, (_not_column_wise(part[1]) for part in getattr(step, inner))), None)


def _choose_players(players: Players | None, schema: TableSchema) -> Players:
    """Return the players, by default one per column."""
    count = len(schema.columns)
    if players is None:
        return columns(count, schema.names)
    if players.is_image or players.assignment.shape != (count,):
        raise ValueError(
            f"players must be made of the table's {count} columns, got an assignment of shape "
            f"{players.assignment.shape}"
        )
    return players.for_table(schema.names) if schema.is_frame else players


def _name_outputs(classes: tuple[str, ...] | None, count: int) -> tuple[str, ...]:
    """Return a name per output; the score of two classes is for the second one."""
    if classes is not None and len(classes) == count:
        return classes
    if classes is not None and count == 1:
        return classes[1:2]
    return tuple(f"output {number}" for number in range(count))


def _call(predict: Callable[[Any], Any], schema: TableSchema, rows: Rows) -> Float64[ndarray, "rows outputs"]:
    """Return a model's scores of encoded rows."""
    import torch  # noqa: PLC0415 - the schema has imported it

    return call_function(predict, schema.decode(torch.from_numpy(rows)), len(rows)).numpy()


def _linear_effects(coefficients: Float64[ndarray, "columns outputs"]) -> Effects:
    return lambda rows: rows[:, :, None] * coefficients


def _effects_of_pipeline(predict: Callable[[Rows], Float64[ndarray, "rows outputs"]], reference: Rows) -> Effects:
    """Return how much each column's entries change the score of a reference row; each entry is asked for once."""

    def effects(rows: Rows) -> Float64[ndarray, "rows columns outputs"]:
        probes, of_probe = [reference], []
        position = 1
        for column in range(rows.shape[1]):
            entries, inverse = np.unique(rows[:, column], return_inverse=True)
            changed = np.repeat(reference, len(entries), 0)
            changed[:, column] = entries
            probes.append(changed)
            of_probe.append(position + inverse)
            position += len(entries)
        scores = predict(np.concatenate(probes))
        return np.stack([scores[index] for index in of_probe], 1) - scores[0]

    return effects


def _check_sum(
    added: Callable[[Rows], Float64[ndarray, "rows outputs"]],
    predict: Callable[[Rows], Float64[ndarray, "rows outputs"]],
    rows: Rows,
    source: str,
) -> None:
    """Raise a TypeError unless a model is the sum of its effects on some rows."""
    expected = predict(rows)
    difference = np.abs(added(rows) - expected).max()
    if difference > TOLERANCE * max(float(np.ptp(expected)), 1e-300):
        raise TypeError(
            f"{source} is not a sum of effects of its columns: they miss its score by up to {difference:.3g}; it may "
            "have a link function"
        )
