"""Exact weighted Shapley values of tree ensembles, for every weighting and without training."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from fwshapley._internal.checks import Array, check_numbers, check_path
from fwshapley._internal.safetensors_file import Bundle, load_bundle, save_bundle
from fwshapley._internal.version import __version__
from fwshapley.explanation.untrained.exact_explainer import ExactExplainer, choose_players
from fwshapley.players import Players
from fwshapley.semivalues import Semivalue, check_weights
from fwshapley.tables.unusable_entries import UnusableEntry
from fwshapley.trees.decisions import sum_leaf_values
from fwshapley.trees.engine import Background, Engine
from fwshapley.trees.ensemble import TreeEnsemble
from fwshapley.trees.model_reader import read_model
from fwshapley.trees.path_dependent import cover_means
from fwshapley.trees.row_encoding import select_columns


class TreeExplainer(ExactExplainer):
    """Exact semivalues of a tree ensemble's players, under any number of weightings.

    With a background, hidden features take the values of background rows (interventional game); the time grows with
    the rows plus the background, not with their product. Without one, the training weights of the trees stand in for
    hidden features (path-dependent game).

    Args:
        model: a fitted scikit-learn, XGBoost, LightGBM or CatBoost model, or a `TreeEnsemble`.
        background: (rows, features), or None for the path-dependent game.
        players: groups of columns; by default each feature is a player.
        background_weights: weight of each background row; by default all the same.
        output: "margin", "value" or "probability", as for `read_model`; by default what the trees add up to.
        device: "cpu", all its cores; or a GPU such as "cuda", for thousands of rows.

    Attributes:
        ensemble: the trees that were read.
        players: the players.
        base_values: (outputs,), the value of the empty coalition.

    Example:
        >>> import fwshapley as fw, numpy as np
        >>> from sklearn.ensemble import RandomForestRegressor
        >>> from fwshapley.trees import TreeExplainer
        >>> x = np.random.default_rng(0).normal(size=(200, 4))
        >>> explainer = TreeExplainer(RandomForestRegressor(10, random_state=0).fit(x, x[:, 0] * x[:, 1]), background=x)
        >>> explainer.explain(x[:5], weights=[fw.Shapley(), fw.Beta(4, 1)]).values.shape
        (2, 5, 4, 1)
    """

    kind = "tree explainer"
    method = "exact tree values"

    def __init__(
        self,
        model: TreeEnsemble | Any,  # noqa: ANN401 - a model of another library
        background: Array | None = None,
        *,
        players: Players | None = None,
        background_weights: Array | None = None,
        output: str | None = None,
        device: str = "cpu",
    ) -> None:
        self.device = device
        ensemble = read_model(model, output=output, categories=background)
        self._assemble(
            ensemble,
            choose_players(players, ensemble.feature_names, named=ensemble.named),
            _check_background(background, background_weights, ensemble),
        )

    def _assemble(
        self,
        ensemble: TreeEnsemble,
        players: Players,
        background: Background | None,
        player_of: Int64[ndarray, " features"] | None = None,
    ) -> None:
        """Keep what values are computed of.

        Args:
            ensemble: the trees.
            players: the players.
            background: rows of the features of the trees.
            player_of: player of each feature, if features are not the columns that the players are made of.
        """
        self.ensemble = ensemble
        self.players = players
        self.background = background
        player_of = (players.assignment if player_of is None else player_of).astype(np.int32)
        self._engine = Engine(ensemble, player_of, players.n_players, background, self.device)
        self.output_names = ensemble.output_names
        self.has_classes = ensemble.has_classes
        self.base_values = self._empty_value()

    def __repr__(self) -> str:
        ensemble = self.ensemble
        game = "path-dependent" if self.background is None else f"background of {len(self.background.rows):,} rows"
        return f"TreeExplainer({ensemble.n_trees:,} trees, {self.players.n_players} players, {game})"

    def interactions(
        self, x: Array, *, weights: Semivalue | Sequence[Semivalue] | None = None
    ) -> Float64[ndarray, "*weightings rows players players outputs"]:
        """Return how each player's value divides among the players that it interacts with, as shap does.

        Off the diagonal are halves of the interaction index E[v(S+i+j) - v(S+i) - v(S+j) + v(S)], on the diagonal is
        what remains of the player's value: each row of the matrix sums to a value.

        Args:
            x: (rows, features), an array or a DataFrame.
            weights: a semivalue or a list of them; by default Shapley.
        """
        weightings = check_weights(weights)
        rows = self._encode(x)
        n = self.players.n_players
        pairs = self._engine.interactions(rows, weightings)
        matrix = np.zeros((len(weightings), len(rows), n, n, self.ensemble.n_outputs))
        first, second = np.triu_indices(n, 1)
        matrix[:, :, first, second] = matrix[:, :, second, first] = pairs / 2
        diagonal = np.arange(n)
        matrix[:, :, diagonal, diagonal] = self._engine.values(rows, weightings) - matrix.sum(3)
        return matrix if isinstance(weights, list | tuple) else matrix[0]

    @property
    def provenance(self) -> dict[str, Any]:
        """How values are computed, for results."""
        return {
            "method": self.method,
            "game": "path-dependent" if self.background is None else "interventional",
            "background_rows": 0 if self.background is None else len(self.background.rows),
            "model": self.ensemble.source,
            "output": self.ensemble.output,
            "version": __version__,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the explainer to one safetensors file, without pickle.

        Args:
            path: file to write; an existing file is replaced.
        """
        facts, arrays = self.ensemble.to_bundle()
        arrays = {f"ensemble.{name}": array for name, array in arrays.items()}
        arrays["assignment"] = self.players.assignment
        if self.background is not None:
            arrays |= {"background": self.background.rows, "background_weights": self.background.weight}
        facts = {"ensemble": facts, "players": self.players.facts(), "metadata": self.metadata}
        save_bundle(check_path("path", path), self.kind, facts, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: str = "cpu") -> TreeExplainer:
        """Read an explainer that `save` wrote.

        Args:
            path: the file.
            device: as in the constructor.
        """
        facts, arrays = load_bundle(check_path("path", path), cls.kind)
        prefix = "ensemble."
        trees = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        explainer = cls.__new__(cls)
        explainer.device = device
        background = None
        if "background" in arrays:
            background = Background(arrays["background"], arrays["background_weights"])
        ensemble = TreeEnsemble.from_bundle(Bundle(facts["ensemble"], trees))
        explainer._assemble(ensemble, Players.from_facts(facts["players"], arrays["assignment"]), background)  # noqa: SLF001 - its own class
        explainer.metadata = facts["metadata"]
        return explainer

    def _encode(self, x: Array) -> Float64[ndarray, "rows features"]:
        return self.ensemble.encode(x)

    def find_unusable(self, x: Array) -> list[UnusableEntry]:  # noqa: D102 - as documented in the base class
        return self.ensemble.find_unusable(x)

    def _as_shown(
        self, x: Array, rows: Float64[ndarray, "rows features"]
    ) -> tuple[Float64[ndarray, "rows features"], dict[str, Any]]:
        ensemble = self.ensemble
        try:
            return check_numbers(
                "x", select_columns("x", x, ensemble.feature_names) if ensemble.named else x
            ), {}  # not rounded
        except TypeError:
            return rows, {str(column): list(map(str, levels)) for column, levels in ensemble.levels.items()}

    def _values(
        self, rows: Float64[ndarray, "rows features"], weightings: Sequence[Semivalue]
    ) -> Float64[ndarray, "weightings rows players outputs"]:
        return self._engine.values(rows, weightings)

    def _predict(self, rows: Float64[ndarray, "rows features"]) -> Float64[ndarray, "rows outputs"]:
        ensemble = self.ensemble
        return ensemble.base + sum_leaf_values(ensemble.splits, ensemble.roots, ensemble.value, rows)

    def _empty_value(self) -> Float64[ndarray, " outputs"]:
        """Return the value of the empty coalition: the background's mean prediction, or that of the cover shares."""
        if self.background is not None:
            return self.background.weight @ self._predict(self.background.rows)
        return self.ensemble.base + cover_means(self.ensemble)[self.ensemble.roots].sum(0)


def _check_background(background: Array | None, weights: Array | None, ensemble: TreeEnsemble) -> Background | None:
    """Return encoded background rows with weights that sum to 1."""
    if background is None:
        if weights is not None:
            raise ValueError("background_weights need a background")
        return None
    rows = ensemble.encode(background, argument="background")
    if not len(rows):
        raise ValueError("background has no rows; pass None for the path-dependent game")
    weight = np.ones(len(rows)) if weights is None else check_numbers("background_weights", weights)
    if weight.shape != (len(rows),):
        raise ValueError(f"background_weights must have shape ({len(rows)},), got {weight.shape}")
    if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.any()):
        raise ValueError("background_weights must be finite and not negative, and not all zero")
    return Background(rows, weight / weight.sum())
