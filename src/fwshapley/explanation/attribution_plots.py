"""Pictures of an attribution: which rows, output and players they show. `fwshapley.plots` draws them."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from fwshapley import plots
from fwshapley._internal.arrays import to_numpy
from fwshapley._internal.checks import Array, check_choice, check_names, check_whole, find_closest, shorten
from fwshapley._internal.result import Result
from fwshapley.players import Players
from fwshapley.plots.figure import short_number
from fwshapley.plots.ranking import MAX_PLAYERS
from fwshapley.plots.waterfall import Sum
from fwshapley.semivalues import Semivalue, Shapley, Total

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_INPUTS = 4
"""Inputs that `plot` shows by default."""

MAX_GAP = 0.1
MAX_GAP_ERRORS = 3
"""Largest gap between a sum of values and the model's prediction to say nothing about: relative to the prediction less
the base value, and relative to the mean error of the surrogate."""


class Gaps(NamedTuple):
    """How far the sums of base value and values are from what the model itself predicts.

    Attributes:
        sums: of base value and values, for each input and explained output.
        predictions: of the model.
        are_large: gaps that are larger than one would expect, and not small beside what is explained.
    """

    sums: Float[ndarray, "batch outputs"]
    predictions: Float[ndarray, "batch outputs"]
    are_large: Bool[ndarray, "batch outputs"]

    def warn(self) -> None:
        """Warn if some gaps are large."""
        rows = np.flatnonzero(self.are_large.any(1))
        if len(rows):
            from fwshapley.explanation.fidelity import FidelityWarning  # noqa: PLC0415 - imports torch

            row, column = rows[0], self.are_large[rows[0]].argmax()
            total, prediction = (short_number(float(part[row, column])) for part in (self.sums, self.predictions))
            warnings.warn(
                f"values of {len(rows):,} of {len(self.sums):,} inputs do not add up to what the model predicts "
                f"(input {row}: to {total}, and the model predicts {prediction}): they explain a surrogate, which "
                "predicts differently here. Train it longer, or do not rely on these explanations",
                FidelityWarning,
                stacklevel=3,
            )


class Chosen(NamedTuple):
    """One output of some rows.

    Attributes:
        rows: numbers of the rows.
        columns: for each row, which of its explained outputs.
        title: what the output is called, and how many rows have it if not all do.
    """

    rows: Int[ndarray, " rows"]
    columns: Int[ndarray, " rows"]
    title: str


class AttributionPlots(Result):
    """The pictures of an `Attribution`."""

    values: Array
    base_values: Array
    outputs: Array
    inputs: Array
    total: Total
    players: Players
    output_names: tuple[str, ...]
    provenance: Mapping[str, Any]
    stderr: Array | None
    expected_error: Array | None
    predictions: Array | None
    encodings: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def n_calls(self) -> int | None:
        """Calls of a learned explainer's surrogate per input, if its values were refined or sampled; otherwise None."""
        n_calls: int | None = self.provenance.get("calls_per_input")
        return n_calls

    def plot(
        self,
        rows: int | Sequence[int] = MAX_INPUTS,
        *,
        output: int | str | None = None,
        names: Sequence[str] | None = None,
    ) -> Figure:
        """Draw heat maps over images, or bars for the rows of a table: a row per input, a column per weighting.

        If standard errors are known, or else expected errors, bars have whiskers of two errors to either side, and the
        size of the errors is written below heat maps.

        Args:
            rows: which inputs, or how many of the first.
            output: which of the explained outputs, or its name; by default the one with the largest prediction.
            names: of the inputs that are drawn, for the titles of bars; by default "input 0" and so on.
        """
        shown = np.array(self._check_rows(rows))
        chosen = self._columns_of(shown, output)
        labels = self._output_labels(shown, chosen)
        titles = [str(weights) for weights in self.weightings]
        errors = self._plotted_errors(shown, chosen)
        drawn = _of_output(self._stacked(self.values)[:, shown], chosen)
        if self.players.is_image:
            maps = drawn[..., self.players.assignment]
            return plots.plot_heat_maps(to_numpy(self.inputs)[shown], maps, labels, titles, errors)
        row_names = [f"input {row}" for row in shown] if names is None else list(check_names("names", names))
        if len(row_names) != len(shown):
            raise ValueError(f"names has {len(row_names)} entries for {len(shown)} inputs")
        row_titles = [self._with_output(name, label) for name, label in zip(row_names, labels, strict=True)]
        features = self._features(shown)
        entries = [[feature.text(row) for feature in features] for row in range(len(shown))]
        return plots.plot_bars(drawn, self.players.names, row_titles, titles, errors, entries=entries)

    def plot_importance(self, *, output: int | str | None = None, n_shown: int = MAX_PLAYERS) -> Figure:
        """Draw the mean |value| of each player over all rows of a table, a bar per weighting.

        Args:
            output: which of the explained outputs, or its name; by default the one with the largest prediction in each
                row.
            n_shown: players that have bars of their own, those of the largest means under the first weighting.

        Example:
            >>> x = np.random.default_rng(0).normal(size=(20, 3))
            >>> attribution = fw.InterventionalExplainer(lambda rows: rows @ [3.0, 2.0, 1.0], x).explain(x)
            >>> [label.get_text() for label in attribution.plot_importance().axes[0].get_yticklabels()]
            ['column 0', 'column 1', 'column 2']
        """
        self._check_table("plot_importance")
        check_whole("n_shown", n_shown)
        chosen = self._choose(output, same_for_all=False)
        values = self._values_of(chosen)
        names, titles = self.players.names, list(map(str, self.weightings))
        return plots.plot_importance(
            values, names, titles, heading=self._heading(chosen), kind=self._kind, n_shown=n_shown
        )

    def plot_beeswarm(self, *, output: int | str | None = None, n_shown: int = MAX_PLAYERS) -> Figure:
        """Draw all values as points, a line per player and a panel per weighting, colored by the values of the columns.

        Args:
            output: which of the explained outputs, or its name; by default the one that has the largest prediction in
                most rows. Rows for which it was not explained are left out, and the title says how many remain.
            n_shown: players that have a line of their own, those of the largest mean |value| under the first weighting.

        Example:
            >>> x = np.random.default_rng(0).normal(size=(20, 3))
            >>> attribution = fw.InterventionalExplainer(lambda rows: rows @ [3.0, 2.0, 1.0], x).explain(x)
            >>> attribution.plot_beeswarm(n_shown=2).savefig("beeswarm.png")
        """
        self._check_table("plot_beeswarm")
        check_whole("n_shown", n_shown)
        chosen = self._choose(output, same_for_all=True)
        return plots.plot_beeswarm(
            self._values_of(chosen),
            self._features(chosen.rows),
            list(map(str, self.weightings)),
            heading=self._heading(chosen),
            kind=self._kind,
            n_shown=n_shown,
        )

    def plot_waterfall(
        self,
        row: int = 0,
        *,
        output: int | str | None = None,
        n_shown: int = MAX_PLAYERS,
        name: str | None = None,
    ) -> Figure:
        """Draw how the values of one row of a table lead from the base value to its prediction, a panel per weighting.

        Shapley values, and those with total="efficient", add up to the prediction less the base value. The values of
        other weightings do not; their sum is then not called the prediction. If a surrogate was explained, this is its
        prediction; that of the model itself is a mark beside it, and a note tells if both differ more than expected. If
        standard errors are known, or else expected errors, bars have whiskers of two errors to either side.

        Args:
            row: number of the row.
            output: which of the explained outputs, or its name; by default the one with the largest prediction.
            n_shown: players that have a bar of their own, those of the largest |value| under the first weighting.
            name: of the row, for the title; by default "input 0" and so on.

        Example:
            >>> x = np.random.default_rng(0).normal(size=(20, 3))
            >>> attribution = fw.InterventionalExplainer(lambda rows: rows @ [3.0, 2.0, 1.0], x).explain(x)
            >>> attribution.plot_waterfall(4).savefig("row_4.png")
        """
        self._check_table("plot_waterfall")
        check_whole("n_shown", n_shown)
        rows = np.array([_check_place("row", row, len(self), "inputs")])
        columns = self._columns_of(rows, output)
        label = self._output_labels(rows, columns)[0]
        gaps = self.gaps()
        return plots.plot_waterfall(
            _of_output(self._stacked(self.values)[:, rows], columns)[:, 0],
            float(to_numpy(self.base_values)[rows[0], columns[0]]),
            [feature.text(0) for feature in self._features(rows)],
            list(map(str, self.weightings)),
            sums=[self._sum_of(weighting) for weighting in self.weightings],
            heading=self._with_output(f"input {rows[0]}" if name is None else name, label),
            kind=self._kind,
            n_shown=n_shown,
            errors=self._plotted_errors(rows, columns),
            model_prediction=None if gaps is None else float(gaps.predictions[rows[0], columns[0]]),
            is_far=gaps is not None and bool(gaps.are_large[rows[0], columns[0]]),
        )

    def plot_dependence(
        self,
        player: int | str,
        *,
        color: int | str | None = "auto",
        output: int | str | None = None,
    ) -> Figure:
        """Draw the values of a player against the values of its column in a table, a panel per weighting.

        Args:
            player: name or number of a player that is one column.
            color: name or number of another player, whose column colors the points, or None. "auto" chooses the column
                that best explains what the player's own column does not, or none: see `fwshapley.plots.find_partner`.
            output: as in `plot_beeswarm`.

        Example:
            >>> x = np.random.default_rng(0).normal(size=(20, 3))
            >>> attribution = fw.InterventionalExplainer(lambda rows: rows[:, 0] * rows[:, 1], x).explain(x)
            >>> attribution.plot_dependence("column 0", color="column 1").savefig("dependence.png")
        """
        self._check_table("plot_dependence")
        number = self._check_player("player", player)
        chosen = self._choose(output, same_for_all=True)
        features = self._features(chosen.rows)
        if features[number].numbers is None:
            raise ValueError(
                f"player must be one column, and {self.players.names[number]!r} is a group of several, which has no "
                "single value; use plot_beeswarm"
            )
        values = self._values_of(chosen)[..., number]
        if isinstance(color, str) and color == "auto" and "auto" not in self.players.names:
            partner = plots.find_partner(values[0], number, features)
        else:
            partner = None if color is None else self._check_player("color", color)
        if partner is not None and features[partner].numbers is None:
            raise ValueError(f"color must be one column, and {self.players.names[partner]!r} is a group of several")
        return plots.plot_dependence(
            values,
            features[number],
            list(map(str, self.weightings)),
            color=None if partner is None else features[partner],
            heading=self._heading(chosen),
        )

    def gaps(self) -> Gaps | None:
        """Compare sums of base value and values with the model's predictions, under the first weighting that adds up.

        None if the predictions are not known, or no weighting adds up to them.
        """
        adding_up = [
            n for n, weighting in enumerate(self.weightings) if self._sum_of(weighting) != "not the prediction"
        ]
        if self.predictions is None or not adding_up:
            return None
        first, n = adding_up[0], self.players.n_players
        base, predictions = to_numpy(self.base_values), to_numpy(self.predictions)
        sums = base + self._stacked(self.values)[first].sum(1)
        if self.expected_error is not None:  # of single values; those of different players are taken as independent
            expected = 2 * np.sqrt(n) * self._stacked(self.expected_error)[first]
        else:
            fidelity = self.provenance.get("fidelity")
            expected = np.full_like(sums, MAX_GAP_ERRORS * fidelity["error"] if fidelity else 0.0)
        gap = np.abs(predictions - sums)
        return Gaps(sums, predictions, gap > np.maximum(expected, MAX_GAP * np.abs(predictions - base)))

    @property
    def _kind(self) -> str:
        """What the players of a table are called."""
        return "columns" if self.players.n_players == self.players.assignment.size else "players"

    def _sum_of(self, weighting: Semivalue) -> Sum:
        """Return what the sum of base value and values is."""
        if self.total == "efficient":
            return "the prediction"
        if weighting != Shapley() and not self.provenance.get("additive"):  # a linear model's values always add up
            return "not the prediction"
        is_estimate = "fidelity" in self.provenance or self.stderr is not None
        return "about the prediction" if is_estimate else "the prediction"

    def _features(self, rows: Int[ndarray, " rows"]) -> list[plots.Feature]:
        """Return the players of a table with the values of their columns in some rows."""
        inputs = to_numpy(self.inputs)[rows].astype(np.float64)
        features = []
        for number, name in enumerate(self.players.names):
            columns = np.flatnonzero(self.players.assignment == number)
            if len(columns) > 1:
                features.append(plots.Feature(name))
                continue
            encoding = self.encodings.get(str(columns[0]), ())
            is_date = isinstance(encoding, str)
            categories = () if is_date else tuple(map(str, encoding))
            features.append(plots.Feature(name, inputs[:, columns[0]], categories, is_date))
        return features

    def _values_of(self, chosen: Chosen) -> Float[ndarray, "weights rows players"]:
        return _of_output(self._stacked(self.values)[:, chosen.rows], chosen.columns).astype(np.float64)

    def _choose(self, output: int | str | None, *, same_for_all: bool) -> Chosen:
        """Return the output that a picture of all rows shows.

        Args:
            output: as users pass it.
            same_for_all: whether the default is one output for all rows, or the largest prediction of each.
        """
        rows = np.arange(len(self))
        if output is None and same_for_all:
            numbers = to_numpy(self.outputs)[rows, self._largest(rows)]
            output = self.output_names[Counter(numbers.tolist()).most_common(1)[0][0]]
        if isinstance(output, str):
            is_output = to_numpy(self.outputs) == self._output_number(output)
            rows = np.flatnonzero(is_output.any(1))
            some = "" if len(rows) == len(self) else f", explained for {len(rows):,} of {len(self):,} inputs"
            return Chosen(rows, is_output[rows].argmax(1), f"{_output_title(output)}{some}")
        columns = self._columns_of(rows, output)
        labels = set(self._output_labels(rows, columns))
        title = _output_title(labels.pop()) if len(labels) == 1 else "largest output of each input"
        return Chosen(rows, columns, title)

    def _heading(self, chosen: Chosen) -> str:
        if len(chosen.rows) < len(self):
            return chosen.title  # says how many
        count = f"{len(chosen.rows):,} input{'' if len(chosen.rows) == 1 else 's'}"
        return count if self._has_nameless_output else f"{chosen.title} ({count})"

    def _with_output(self, name: str, label: str) -> str:
        """Return the name of a row and of its output, unless there is a single output without a name."""
        return name if self._has_nameless_output else f"{name}, {_output_title(label)}"

    @property
    def _has_nameless_output(self) -> bool:
        return self.output_names == ("output 0",)

    def _output_labels(self, rows: Int[ndarray, " rows"], columns: Int[ndarray, " rows"]) -> list[str]:
        """Return the names of one output of each row."""
        return [self.output_names[int(number)] for number in to_numpy(self.outputs)[rows, columns]]

    def _largest(self, rows: Int[ndarray, " rows"]) -> Int[ndarray, " rows"]:
        """Return the output of each row that has the largest prediction, under the first weighting."""
        return (to_numpy(self.base_values)[rows] + self._stacked(self.values)[0, rows].sum(1)).argmax(1)

    def _columns_of(self, rows: Int[ndarray, " rows"], output: int | str | None) -> Int[ndarray, " rows"]:
        """Return which explained output of each row is shown."""
        if output is None:
            return self._largest(rows)
        if isinstance(output, str):
            is_output = to_numpy(self.outputs)[rows] == self._output_number(output)
            lacking = rows[~is_output.any(1)]
            if len(lacking):
                raise ValueError(f"output {output!r} was not explained for input {lacking[0]}")
            return is_output.argmax(1)
        index = _check_place("output", output, to_numpy(self.outputs).shape[1], "explained outputs")
        return np.full_like(rows, index)

    def _output_number(self, output: str) -> int:
        """Return the number of an explained output by its name."""
        explained = np.unique(to_numpy(self.outputs)).tolist()
        check_choice("output", output, [self.output_names[number] for number in explained])
        return self.output_names.index(output)

    def _check_player(self, argument: str, player: int | str) -> int:
        """Return the number of a player that is given by name or number."""
        names = self.players.names
        if isinstance(player, str):
            if player not in names:
                similar = find_closest(player, names)
                hint = f" (did you mean {similar!r}?)" if similar else ""
                raise ValueError(
                    f"{argument} must be one of the players {shorten(list(names), 200)}; got {player!r}{hint}"
                )
            return names.index(player)
        return _check_place(argument, player, len(names), "players")

    def _check_table(self, method: str) -> None:
        """Raise an error that says which picture to draw instead, unless players are columns of a table."""
        if self.players.is_image:
            raise ValueError(
                f"{method} needs players that are columns of a table, and these are parts of images; use plot()"
            )

    def _check_rows(self, rows: object) -> list[int]:
        if isinstance(rows, int):
            return list(range(min(check_whole("rows", rows), len(self))))
        if isinstance(rows, str) or not isinstance(rows, Sequence | ndarray) or not len(rows):
            raise TypeError(f"rows must be a number of inputs or a list of their indices, got {rows!r}")
        return [_check_place("rows", row, len(self), "inputs") for row in rows]

    def _plotted_errors(self, rows: Int[ndarray, " rows"], columns: Int[ndarray, " rows"]) -> plots.Errors:
        source = "" if self.n_calls is None else f"{self.provenance['method']}, {self.n_calls:,} calls"
        errors: Array
        if self.stderr is not None:
            errors, note = self.stderr, "standard error"
        elif self.expected_error is not None:
            errors, note = self._error_per_player(), "expected error"
        else:
            return plots.Errors(None, "", source)
        return plots.Errors(_of_output(self._stacked(errors)[:, rows], columns), note, source)

    def _stacked(self, array: Array) -> Float[ndarray, "weights batch players outputs"]:
        """Return values or errors as a numpy array that has an axis for the weightings in any case."""
        plain = to_numpy(array)
        return plain if isinstance(self.weights, list) else plain[None]

    def _error_per_player(self) -> Float[ndarray, "*weights batch players outputs"]:
        return np.broadcast_to(to_numpy(self.expected_error)[..., None, :], tuple(self.values.shape))


def _check_place(argument: str, place: int, count: int, what: str) -> int:
    """Return a number from 0 to below a count, or raise an error that names the argument."""
    number = check_whole(argument, place, minimum=0)
    if number >= count:
        raise ValueError(f"{argument} must be below {count}, the number of {what}; got {number}")
    return number


def _of_output(
    values: Float[ndarray, "weights rows players outputs"], output: Int[ndarray, " rows"]
) -> Float[ndarray, "weights rows players"]:
    """Return the values of one output of each row."""
    return values[:, np.arange(len(output)), :, output].transpose(1, 0, 2)


def _output_title(name: str) -> str:
    """Return a title for an output, whose name may already start with "output"."""
    return name if name.startswith("output") else f"output {name}"
