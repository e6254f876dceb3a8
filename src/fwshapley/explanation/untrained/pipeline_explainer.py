"""Exact values of tree ensembles behind preprocessing that treats each column by itself.

Every input of the trees comes from one column of the table. In the interventional game a hidden column takes the value
of a background row, and so do the inputs that come from it: the game is that of the trees on preprocessed rows, with
the inputs from a player's columns as this player. Nothing here imports torch.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64
from numpy import ndarray

from fwshapley._internal.checks import Array, check_names, check_path, shorten
from fwshapley._internal.safetensors_file import Bundle, load_bundle, save_bundle
from fwshapley.explanation.inputs.model_functions import call_function, find_function
from fwshapley.explanation.untrained.background_rows import check_table
from fwshapley.explanation.untrained.exact_explainer import check_same_model, choose_players, name_outputs
from fwshapley.explanation.untrained.pipeline_inputs import PipelineInputs, Table, labels_of, mix_rows
from fwshapley.explanation.untrained.preprocessing import find_mixing, split_pipeline, trace_columns
from fwshapley.players import Players
from fwshapley.tables.network_encoding import TableSchema, describe_table
from fwshapley.tables.unusable_entries import UnusableEntry, mark_usable, refuse
from fwshapley.trees.engine import Background
from fwshapley.trees.ensemble import TreeEnsemble
from fwshapley.trees.explainer import TreeExplainer
from fwshapley.trees.libraries import find_library, is_tree_model
from fwshapley.trees.model_reader import read_model

Rows = Float64[ndarray, "rows features"]

MAX_REFERENCE = 20
"""Background rows on which a model that is passed to `load` is compared with the one that was explained."""

MAX_PROBED = 50
NUMBERS_AT_ONCE = 2**22
"""Background rows, at most, and numbers, about, for the check that features depend on one column."""

TOLERANCE = 1e-6
PREFIX = "ensemble."


class PipelineExplainer(TreeExplainer):
    """Exact values of a tree ensemble behind column-wise preprocessing, with the columns of the table as players.

    The game is the interventional one. `fw.Explainer` chooses this class for pipelines that it can explain.

    Args:
        model: a fitted pipeline of scikit-learn. Its last step is a model that `TreeExplainer` takes; the other steps
            are scalers, imputers, encoders and others that treat each column by itself, also in a ColumnTransformer.
        background: rows that stand in for hidden columns, in the form that the pipeline takes.
        players: groups of columns; by default each column is a player.
        output_names: one per output; by default those of the last step, such as its classes.
        device: "cpu", all its cores; or a GPU such as "cuda", for thousands of rows.

    Attributes:
        ensemble: the trees of the last step, whose features are the outputs of the preprocessing.

    Example:
        >>> import fwshapley as fw, pandas as pd
        >>> from sklearn.compose import make_column_transformer
        >>> from sklearn.ensemble import RandomForestRegressor
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import OneHotEncoder
        >>> homes = pd.DataFrame({"size": [40, 70, 90, 60], "town": ["Rome", "Oslo", "Rome", "Bonn"]})
        >>> encode = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
        >>> pipeline = make_pipeline(encode, RandomForestRegressor(5, random_state=0)).fit(homes, [2, 3, 5, 3])
        >>> explainer = fw.PipelineExplainer(pipeline, background=homes)
        >>> explainer.explain(homes[:2], weights=[fw.Shapley(), fw.Beta(4, 1)]).values.shape
        (2, 2, 2, 1)
    """

    kind = "pipeline explainer"

    def __init__(
        self,
        model: Any,  # noqa: ANN401 - of scikit-learn
        background: Array,
        *,
        players: Players | None = None,
        output_names: Sequence[str] | None = None,
        device: str = "cpu",
    ) -> None:
        self.device = device
        table = check_table("background", background)
        schema = describe_table(table[:MAX_REFERENCE], any_model=True)
        self._connect(model, schema)
        table = self._inputs.select("background", table)
        prepared = self._inputs.prepare("background", table)
        self._inputs.base = table[:1]
        try:
            self.ensemble = read_model(self._final, categories=prepared)
        except ValueError as error:
            raise TypeError(str(error)) from error
        self._inputs.check = self.ensemble.find_unusable
        if output_names is not None:
            names = name_outputs(check_names("output_names", output_names), self.ensemble.n_outputs)
            self.ensemble = replace(self.ensemble, output_names=names)
        rows = self._read("background", table)
        self._check_sources(table, rows)
        self._reference = schema.to_numbers(table[:MAX_REFERENCE])
        self._expected = self._predict_reference()
        self._make_engine(choose_players(players, schema.names, named=schema.is_frame), rows)

    def _connect(self, model: Any, schema: TableSchema) -> None:  # noqa: ANN401 - of scikit-learn
        """Keep the parts of a pipeline, or raise a TypeError that says why its values have no closed form."""
        if type(model).__name__ != "Pipeline":
            raise TypeError(
                f"model must be a pipeline of scikit-learn, got {shorten(model)}; use TreeExplainer for trees without "
                "preprocessing"
            )
        steps, final = split_pipeline(model)
        name = type(final).__name__
        if isinstance(final, str) or not is_tree_model(final):
            raise TypeError(f"{name}, the last step of the model, is not a tree ensemble")
        wrong = next(filter(None, map(find_mixing, steps)), None)
        if wrong is not None:
            raise TypeError(f"{wrong} may combine columns, so that the values of {name} have no closed form behind it")
        self._model, self._final = model, final
        self._inputs = PipelineInputs(steps, schema, gap=np.nan if find_library(final) == "xgboost" else 0.0)

    def _make_engine(self, players: Players, rows: Rows) -> None:
        """Prepare the computation of values with these background rows."""
        background = Background(rows, np.full(len(rows), 1 / len(rows)))
        self._assemble(self.ensemble, players, background, players.assignment[self._sources])

    @cached_property
    def _sources(self) -> Int64[ndarray, " features"]:
        """The column of the table that each feature of the trees comes from."""
        order = self._inputs.order
        sources = order[trace_columns(self._inputs.steps, len(order))]
        if len(sources) != self.ensemble.n_features or (sources < 0).any():
            raise TypeError(
                f"the {self.ensemble.n_features} features of {type(self._final).__name__} cannot be matched with the "
                f"columns of the table: its preprocessing seems to have {len(sources)} outputs"
            )
        return sources

    def _check_sources(self, table: Table, rows: Rows) -> None:
        """Raise a TypeError unless exchanging the entries of a column exchanges the features that come from it alone.

        That no transformer combines columns is known by its class; this would find a class that has changed.
        """
        names = self._inputs.schema.names
        n = len(names)
        count = min(len(table), max(2, min(MAX_PROBED, NUMBERS_AT_ONCE // (n * max(n, rows.shape[1])))))
        chosen = np.tile(np.arange(count), (n, n, 1))  # (columns, blocks, rows): in each block, one column is exchanged
        chosen[np.arange(n), np.arange(n)] = np.roll(np.arange(count), 1)
        found = self._read("background", mix_rows(table, chosen.reshape(n, -1))).reshape(n, count, -1)
        exchanged = np.roll(rows[:count], 1, 0)
        for column, features in enumerate(found):
            expected = np.where(self._sources == column, exchanged, rows[:count])
            if not np.allclose(features, expected, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
                raise TypeError(
                    f"the preprocessing of {type(self._final).__name__} does not treat column {names[column]!r} by "
                    "itself, so that its values have no closed form"
                )

    def __repr__(self) -> str:
        rows = self._background_rows
        return f"PipelineExplainer({self.source}, {self.players.n_players} players, background of {len(rows):,} rows)"

    @property
    def source(self) -> str:
        """The model, and what is before it."""
        before = " + ".join(type(step).__name__ for step in self._inputs.steps)
        return f"{self.ensemble.source} behind {before}" if before else self.ensemble.source

    @property
    def provenance(self) -> dict[str, Any]:
        """How values are computed, for results."""
        return super().provenance | {"model": self.source}

    @property
    def _background_rows(self) -> Rows:
        assert self.background is not None  # noqa: S101 - the constructor needs it
        return self.background.rows

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the explainer to one safetensors file, without pickle and without the preprocessing.

        Args:
            path: file to write; an existing file is replaced.
        """
        trees = self.ensemble.to_bundle()
        facts = {
            "schema": self._inputs.schema.facts(),
            "ensemble": trees.facts,
            "players": self.players.facts(),
            "source": self.source,
            "metadata": self.metadata,
        }
        arrays = {
            **{f"{PREFIX}{name}": array for name, array in trees.arrays.items()},
            "assignment": self.players.assignment,
            "background": self._background_rows,
            "reference": self._reference,
            "expected": self._expected,
        }
        save_bundle(check_path("path", path), self.kind, facts, arrays)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        model: Any = None,  # noqa: ANN401 - of scikit-learn
        device: str = "cpu",
    ) -> PipelineExplainer:
        """Read an explainer that `save` wrote.

        Args:
            path: the file.
            model: the pipeline that was explained, whose preprocessing the file does not contain.
            device: as in the constructor.
        """
        facts, arrays = load_bundle(check_path("path", path), cls.kind)
        if model is None:
            raise ValueError(
                f"{path} does not contain the preprocessing of {facts['source']}: pass the pipeline as model=..."
            )
        explainer = cls.__new__(cls)
        explainer.device, explainer.metadata = device, facts["metadata"]
        explainer._connect(model, TableSchema.from_facts(facts["schema"]))  # noqa: SLF001 - of this class
        explainer._restore(facts, arrays, str(path))  # noqa: SLF001 - of this class
        return explainer

    def _restore(self, facts: Mapping[str, Any], arrays: Mapping[str, ndarray], path: str) -> None:
        """Take what was saved, or raise an error unless the pipeline is the one that was explained."""
        trees = {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
        self.ensemble = TreeEnsemble.from_bundle(Bundle(facts["ensemble"], trees))
        self._inputs.check = self.ensemble.find_unusable
        self._reference, self._expected = arrays["reference"], arrays["expected"]
        check_same_model(self._expected, self._predict_reference(), path)
        self._inputs.base = self._inputs.schema.from_numbers(self._reference[:1])
        self._make_engine(Players.from_facts(facts["players"], arrays["assignment"]), arrays["background"])

    def _predict_reference(self) -> Float64[ndarray, " numbers"]:
        """Return what the pipeline itself predicts from some background rows, such as probabilities."""
        rows = self._inputs.as_fitted(self._inputs.schema.from_numbers(self._reference))
        return call_function(find_function(self._model).call, rows, len(rows)).ravel()

    def find_unusable(self, x: Array) -> list[UnusableEntry]:  # noqa: D102 - as documented in the base class
        table = self._inputs.select("x", x)
        refused = self._inputs.find_refused(table)
        kept = np.flatnonzero(mark_usable(refused, len(table)))
        if not len(kept):
            return refused
        some = table.iloc[kept] if isinstance(table, pd.DataFrame) else table[kept]
        unread = self._find_unread(some, self._inputs.prepare("x", some))
        located = [entry._replace(row=int(kept[entry.row])) for entry in unread]
        return sorted(refused + located, key=lambda entry: entry.row)

    def _find_unread(self, table: Table, prepared: Table) -> list[UnusableEntry]:
        """Return the entries of a table for whose features the trees have no rule, such as missing ones."""
        names, features = self._inputs.schema.names, self.ensemble.feature_names
        found = {}
        for entry in self.ensemble.find_unusable(prepared):
            place = int(self._sources[features.index(entry.column)])
            value = table.iloc[entry.row, place] if isinstance(table, pd.DataFrame) else table[entry.row, place]
            plain = value.item() if isinstance(value, np.generic) else value
            found[entry.row, place] = UnusableEntry(entry.row, names[place], plain, entry.problem)
        return list(found.values())

    def _encode(self, x: Array) -> Rows:
        return self._read("x", self._inputs.select("x", x))

    def _read(self, argument: str, table: Table) -> Rows:
        """Return rows of the features of the trees, or raise an error that names the entry that cannot be used."""
        prepared = self._inputs.prepare(argument, table)
        try:
            return self.ensemble.encode(prepared, argument=argument)
        except (TypeError, ValueError):
            refused = self._inputs.find_refused(table)
            refuse(refused or self._find_unread(table, prepared), labels_of(table))
            raise

    def _as_shown(
        self,
        x: Array,
        rows: Rows,  # noqa: ARG002 - as other explainers do
    ) -> tuple[Float64[ndarray, "rows columns"], dict[str, Any]]:
        return self._inputs.show(self._inputs.select("x", x))
