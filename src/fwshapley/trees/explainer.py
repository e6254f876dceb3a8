"""Exact weighted Shapley values of tree ensembles, for every weighting and without training."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from fwshapley._internal.checks import Array, check_choice, check_kind, check_numbers, check_path, check_whole, shorten
from fwshapley._internal.safetensors_file import Bundle, load_bundle, save_bundle
from fwshapley.explanation.attribution import Attribution
from fwshapley.players import Players, columns
from fwshapley.semivalues import Semivalue, Total, check_weights
from fwshapley.trees.decisions import sum_leaf_values
from fwshapley.trees.engine import Background, Engine
from fwshapley.trees.ensemble import TreeEnsemble
from fwshapley.trees.path_dependent import cover_means
from fwshapley.version import __version__

if TYPE_CHECKING:
    import shap

MAX_NAMED = 12
"""Outputs that an error lists."""


class TreeExplainer:
    """Exact semivalues of a tree ensemble's players, under any number of weightings.

    With a background, hidden features take the values of background rows (interventional game); the time grows with
    the rows plus the background, not with their product. Without one, the training weights of the trees stand in for
    hidden features (path-dependent game).

    Args:
        model: a fitted scikit-learn, XGBoost, LightGBM or CatBoost model, or a `TreeEnsemble`.
        background: (rows, features), or None for the path-dependent game.
        players: groups of columns; by default each feature is a player.
        background_weights: weight of each background row; by default all the same.

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

    def __init__(
        self,
        model: TreeEnsemble | Any,  # noqa: ANN401 - a model of another library
        background: Array | None = None,
        *,
        players: Players | None = None,
        background_weights: Array | None = None,
    ) -> None:
        ensemble = _read(model)
        self._assemble(
            ensemble,
            _choose_players(players, ensemble),
            _check_background(background, background_weights, ensemble),
        )

    def _assemble(self, ensemble: TreeEnsemble, players: Players, background: Background | None) -> None:
        self.ensemble = ensemble
        self.players = players
        self.background = background
        player_of = players.assignment.astype(np.int32)
        self._engine = Engine(ensemble, player_of, players.n_players, background)
        self.base_values = self._empty_value()

    def __repr__(self) -> str:
        ensemble = self.ensemble
        game = "path-dependent" if self.background is None else f"background of {len(self.background.rows):,} rows"
        return f"TreeExplainer({ensemble.n_trees:,} trees, {self.players.n_players} players, {game})"

    def __call__(self, x: Array) -> shap.Explanation:
        """Return Shapley values as shap's plots take them; with the base values they add up to the prediction.

        Args:
            x: (rows, features), an array or a DataFrame.
        """
        try:
            from shap import Explanation  # noqa: PLC0415 - optional, and slow to import
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("an Explanation needs shap: pip install shap") from error
        attribution = self.explain(x)
        values, base_values = attribution.values, attribution.base_values
        names: list[str] | None = list(self.ensemble.output_names)
        if values.shape[2] == 1:  # as shap returns a single output
            values, base_values, names = values[..., 0], base_values[:, 0], None
        is_single = len(self.ensemble.feature_names) == self.players.n_players
        return Explanation(
            values=values,
            base_values=base_values,
            data=attribution.inputs if is_single else None,
            feature_names=list(self.players.names),
            output_names=names,
        )

    def explain(
        self,
        x: Array,
        *,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        outputs: str | Sequence[int] | Sequence[str] = "all",
        total: Total = "raw",
    ) -> Attribution:
        """Return the values of the players of each row.

        Args:
            x: (rows, features), an array or a DataFrame.
            weights: a semivalue or a list of them, which costs little more; by default Shapley.
            outputs: "all"; "predicted", the output with the largest prediction; or names or numbers of some.
            total: "raw" for the semivalue itself; "efficient" shifts it to sum to the prediction less the base value.
        """
        check_choice("total", total, get_args(Total))
        weightings = check_weights(weights)
        rows = self.ensemble.encode(x)
        chosen: Any = self._choose_outputs(outputs, rows)
        values: Any = self._engine.values(rows, weightings)  # numpy arrays, which an Attribution may hold
        if total == "efficient":
            gain = self._predict(rows) - self.base_values
            values += ((gain - values.sum(2)) / self.players.n_players)[:, :, None]
        if outputs != "all":
            values = np.take_along_axis(values, chosen[None, :, None], 3)
        return Attribution(
            values=values if isinstance(weights, list | tuple) else values[0],
            base_values=self.base_values[chosen],
            outputs=chosen,
            inputs=_as_shown(x, rows),
            weights=weightings if isinstance(weights, list | tuple) else weightings[0],
            total=total,
            players=self.players,
            output_names=self.ensemble.output_names,
            provenance=self.provenance,
        )

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
        rows = self.ensemble.encode(x)
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
            "method": "exact tree values",
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
        facts = {"ensemble": facts, "players": self.players.facts()}
        save_bundle(check_path("path", path), self.kind, facts, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TreeExplainer:
        """Read an explainer that `save` wrote.

        Args:
            path: the file.
        """
        facts, arrays = load_bundle(check_path("path", path), cls.kind)
        prefix = "ensemble."
        trees = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        explainer = cls.__new__(cls)
        background = None
        if "background" in arrays:
            background = Background(arrays["background"], arrays["background_weights"])
        ensemble = TreeEnsemble.from_bundle(Bundle(facts["ensemble"], trees))
        explainer._assemble(ensemble, Players.from_facts(facts["players"], arrays["assignment"]), background)  # noqa: SLF001 - its own class
        return explainer

    def _predict(self, rows: Float64[ndarray, "rows features"]) -> Float64[ndarray, "rows outputs"]:
        ensemble = self.ensemble
        return ensemble.base + sum_leaf_values(ensemble.splits, ensemble.roots, ensemble.value, rows)

    def _empty_value(self) -> Float64[ndarray, " outputs"]:
        """Return the value of the empty coalition: the background's mean prediction, or that of the cover shares."""
        if self.background is not None:
            return self.background.weight @ self._predict(self.background.rows)
        return self.ensemble.base + cover_means(self.ensemble)[self.ensemble.roots].sum(0)

    def _choose_outputs(
        self, outputs: str | Sequence[int] | Sequence[str], rows: Float64[ndarray, "rows features"]
    ) -> Int64[ndarray, "rows some"]:
        """Return the numbers of the outputs to explain for each row."""
        names = self.ensemble.output_names
        if isinstance(outputs, str) and outputs == "predicted":
            if self.ensemble.output == "value" and len(names) > 1:
                raise ValueError("outputs='predicted' needs a classifier; pass names or numbers of outputs instead")
            return self._predict(rows).argmax(1)[:, None]
        listed: Any = [outputs] if isinstance(outputs, str) else outputs
        if isinstance(outputs, str) and outputs == "all":
            listed = range(len(names))
        if not isinstance(listed, Sequence | ndarray) or len(listed) == 0:
            raise ValueError(
                f"outputs must be 'all', 'predicted', or names or numbers of some outputs, got {shorten(outputs)}"
            )
        numbers = [_output_number(output, names) for output in listed]
        return np.broadcast_to(np.array(numbers), (len(rows), len(numbers)))


def _read(model: TreeEnsemble | Any) -> TreeEnsemble:  # noqa: ANN401 - a model of another library
    """Return the trees of a model."""
    if isinstance(model, TreeEnsemble):
        return model
    from fwshapley.trees.reading import read_model  # noqa: PLC0415 - an ensemble needs no readers

    return read_model(model)


def _choose_players(players: Players | None, ensemble: TreeEnsemble) -> Players:
    """Return the players, by default one per feature."""
    if players is None:
        return columns(ensemble.n_features, names=ensemble.feature_names)
    check_kind("players", players, Players)
    if players.is_image or players.assignment.shape != (ensemble.n_features,):
        raise ValueError(
            f"players must be made of the model's {ensemble.n_features} features, got an assignment of shape "
            f"{players.assignment.shape}"
        )
    return players.for_table(ensemble.feature_names) if ensemble.named else players


def _check_background(background: Array | None, weights: Array | None, ensemble: TreeEnsemble) -> Background | None:
    """Return encoded background rows with weights that sum to 1."""
    if background is None:
        if weights is not None:
            raise ValueError("background_weights need a background")
        return None
    rows = ensemble.encode(background)
    if not len(rows):
        raise ValueError("background has no rows; pass None for the path-dependent game")
    weight = np.ones(len(rows)) if weights is None else check_numbers("background_weights", weights)
    if weight.shape != (len(rows),):
        raise ValueError(f"background_weights must have shape ({len(rows)},), got {weight.shape}")
    if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.any()):
        raise ValueError("background_weights must be finite and not negative, and not all zero")
    return Background(rows, weight / weight.sum())


def _output_number(output: object, names: Sequence[str]) -> int:
    """Return the number of an output that is given by name or number."""
    if isinstance(output, str):
        if output not in names:
            known = ", ".join(map(repr, names[:MAX_NAMED])) + ", ..." * (len(names) > MAX_NAMED)
            raise ValueError(f"outputs must be 'all', 'predicted', or among {known}; got {output!r}")
        return names.index(output)
    number = check_whole("outputs", output, minimum=0)  # type: ignore[arg-type]  # or it raises
    if number >= len(names):
        raise ValueError(f"outputs must be between 0 and {len(names) - 1}, got {number}")
    return number


def _as_shown(x: Array, rows: Float64[ndarray, "rows features"]) -> Array:
    """Return the rows as numbers for display: those that were passed, or codes where they have categories."""
    try:
        return check_numbers("x", x)
    except TypeError:
        return rows
