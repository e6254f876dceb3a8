"""Pictures of an attribution: which rows, output and players they show. `fwshapley.plots` draws them."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from fwshapley import plots
from fwshapley._internal.arrays import to_numpy
from fwshapley._internal.checks import (
    Array,
    check_choice,
    check_flag,
    check_names,
    check_real,
    check_whole,
    find_closest,
    shorten,
)
from fwshapley.explanation.pictures.image_plots import ImagePlots
from fwshapley.explanation.pictures.shown_values import check_place, of_output, output_title
from fwshapley.plots.figure import short_number
from fwshapley.plots.overlays import Sign, Style
from fwshapley.plots.ranking import MAX_PLAYERS
from fwshapley.plots.waterfall import Sum
from fwshapley.semivalues import Semivalue, Shapley

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
            from fwshapley.explanation.learned.fidelity import FidelityWarning  # noqa: PLC0415 - imports torch

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


class AttributionPlots(ImagePlots):
    """The pictures of an `Attribution`."""

    def plot(
        self,
        rows: int | Sequence[int] = MAX_INPUTS,
        *,
        output: int | str | Sequence[int | str] | None = None,
        names: Sequence[str] | None = None,
        style: Style = "blended",
        sign: Sign | Literal["auto"] = "auto",
        smooth: bool = True,
        limit: float | None = None,
        images: Array | None = None,
    ) -> Figure:
        """Draw values over images, or bars for the rows of a table: a row per input, a column per weighting.

        Colors over images are as strong as values are large, relative to the largest of the row and weighting, which
        the color bar states. Orange raises the output, blue lowers it. If standard errors are known, or else expected
        errors, bars have whiskers of two errors to either side; color bars have lines there.

        Args:
            rows: which inputs, or how many of the first.
            output: which of the explained outputs, or its name; by default the one with the largest prediction. For
                images also a list of them, which are drawn side by side on one scale.
            names: of the inputs that are drawn; by default "input 0" and so on for tables, none for images.
            style: of images. "blended": a gray image in the hues of its values. "heat_map": the values without the
                image. "masked_image": the image, visible where values are large.
            sign: of the values over images: "all", "positive", "negative", or "absolute", the size of all. "auto" is
                all, but for masked images, which cannot show two signs, positive.
            smooth: interpolate values between the centers of patches. Other players of images always have edges.
            limit: value with the strongest color, the same for all images and weightings. It makes them comparable.
            images: drawn instead of the inputs, one for each input, e.g. as they were before normalization.

        Example:
            >>> x, players = torch.rand(64, 3, 8, 8), fw.grid(8, 8, patch=2)
            >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 3))
            >>> explainer = fw.FeatureExplainer(model, players, network="slim", output_names=["cat", "dog", "cow"])
            >>> explainer = explainer.fit(x, budget=fw.Budget(steps=2), progress=False)
            >>> attribution = explainer.explain(x[:2], weights=[fw.Shapley(), fw.Beta(16, 1)])
            >>> attribution.plot(output=["cat", "dog"]).savefig("cats_and_dogs.png")
            >>> attribution.plot(style="masked_image").savefig("masked.png")
        """
        shown = np.array(self._check_rows(rows))
        row_names = [] if names is None else list(check_names("names", names))
        if names is not None and len(row_names) != len(shown):
            raise ValueError(f"names has {len(row_names)} entries for {len(shown)} inputs")
        image_style = _check_style(style, sign, limit)
        check_flag("smooth", smooth)
        if self.players.is_image:
            return self._plot_images(shown, output, row_names, image_style, smooth=smooth, images=images)
        if image_style != plots.ImageStyle() or not smooth or images is not None:
            raise ValueError(
                "style, sign, smooth, limit and images are for images, and these inputs are rows of a table"
            )
        return self._plot_bars(shown, output, row_names or [f"input {row}" for row in shown])

    def _plot_bars(
        self, rows: Int[ndarray, " rows"], output: int | str | Sequence[int | str] | None, names: Sequence[str]
    ) -> Figure:
        """Draw bars for rows of a table, a panel for each weighting."""
        columns = self._columns_of(rows, output)  # type: ignore[arg-type]  # a list is refused there
        labels = self._output_labels(rows, columns)
        features = self._features(rows)
        return plots.plot_bars(
            of_output(self._stacked(self.values)[:, rows], columns),
            self.players.names,
            [self._with_output(name, label) for name, label in zip(names, labels, strict=True)],
            [str(weights) for weights in self.weightings],
            self._plotted_errors(rows, columns),
            entries=[[feature.text(row) for feature in features] for row in range(len(rows))],
        )

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
        rows = np.array([check_place("row", row, len(self), "inputs")])
        columns = self._columns_of(rows, output)
        label = self._output_labels(rows, columns)[0]
        gaps = self.gaps()
        return plots.plot_waterfall(
            of_output(self._stacked(self.values)[:, rows], columns)[:, 0],
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
        return of_output(self._stacked(self.values)[:, chosen.rows], chosen.columns).astype(np.float64)

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
            return Chosen(rows, is_output[rows].argmax(1), f"{output_title(output)}{some}")
        columns = self._columns_of(rows, output)
        labels = set(self._output_labels(rows, columns))
        title = output_title(labels.pop()) if len(labels) == 1 else "largest output of each input"
        return Chosen(rows, columns, title)

    def _heading(self, chosen: Chosen) -> str:
        if len(chosen.rows) < len(self):
            return chosen.title  # says how many
        count = f"{len(chosen.rows):,} input{'' if len(chosen.rows) == 1 else 's'}"
        return count if self._has_nameless_output else f"{chosen.title} ({count})"

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
        return check_place(argument, player, len(names), "players")

    def _check_table(self, method: str) -> None:
        """Raise an error that says which picture to draw instead, unless players are columns of a table."""
        if self.players.is_image:
            raise ValueError(
                f"{method} needs players that are columns of a table, and these are parts of images; use plot()"
            )


def _check_style(style: Style, sign: Sign | Literal["auto"], limit: float | None) -> plots.ImageStyle:
    """Return how values are drawn over images, or raise an error that names the argument."""
    check_choice("style", style, get_args(Style))
    check_choice("sign", sign, ("auto", *get_args(Sign)))
    if style == "masked_image" and sign == "all":
        raise ValueError("sign='all' needs colors, which a masked image has none of; use 'positive' or 'absolute'")
    if limit is not None and check_real("limit", limit) <= 0:
        raise ValueError(f"limit must be above 0, got {limit:g}")
    drawn: Sign = ("positive" if style == "masked_image" else "all") if sign == "auto" else sign
    return plots.ImageStyle(style, drawn, None if limit is None else float(limit))
