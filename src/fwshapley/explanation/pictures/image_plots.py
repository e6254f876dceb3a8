"""Pictures of an attribution of images: values over the images, and what the most important players suffice for."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int, Num
from numpy import ndarray

from fwshapley import plots
from fwshapley._internal.arrays import to_numpy
from fwshapley._internal.checks import Array, check_path, check_whole, shorten
from fwshapley._internal.files import written_whole
from fwshapley.explanation.pictures.shown_values import ShownValues, check_place, of_output
from fwshapley.plots.figure import percent, readable, short_number
from fwshapley.plots.overlays import MIN_SIDE, as_picture, enlarge, scale_pixels, spread_values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fwshapley.games.game import AnyGame

UNITS: Mapping[str, str] = {
    "probability": "probability",
    "logit": "log odds",
    "label_probability": "probability",
    "label_logit": "log odds",
}
"""What values of a scale change; others change the output itself."""

LOG_ODDS = ("logit", "label_logit")
"""Scales of log odds."""

MAX_TITLE = 24
"""Letters of the name of an output above an image."""

OneOutput = int | str | None
"""One of the explained outputs: a number, a name, or the one with the largest prediction."""


class ImagePlots(ShownValues):
    """The pictures of an `Attribution` of images."""

    def plot_inclusion(
        self,
        game: AnyGame,
        row: int = 0,
        *,
        output: OneOutput = None,
        name: str | None = None,
        n_shown: int = 8,
        images: Array | None = None,
        seed: int = 0,
    ) -> Figure:
        """Draw what suffices: the image with more and more of its players shown, those of the largest values first.

        The strip has a row per weighting; the output is written below each image. A black frame marks the fewest
        players that raise the output by 90 % of what all players raise it. The curves below show the output as players
        are shown, as they are hidden, and, for comparison, as they are shown in random orders.

        The game is evaluated about 130 times for each weighting, and 260 times for the random orders; less often if
        there are fewer than 64 players.

        Args:
            game: of the input: `explainer.game(x[row])`, or any other with the same players and outputs.
            row: number of the input.
            output: which of the explained outputs, or its name; by default the one with the largest prediction.
            name: of the input, for the title.
            n_shown: images in a row, at least 3.
            images: drawn instead of the inputs, one for each, as in `plot`.
            seed: of the random orders.

        Example:
            >>> x, players = torch.rand(64, 1, 8, 8), fw.grid(8, 8, patch=2)
            >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
            >>> explainer = fw.FeatureExplainer(model, players, network="slim")
            >>> explainer = explainer.fit(x, budget=fw.Budget(steps=2), progress=False)
            >>> attribution = explainer.explain(x[:2], outputs="predicted")
            >>> attribution.plot_inclusion(explainer.game(x[1]), row=1).savefig("inclusion.png")
        """
        column, heading = self._followed("plot_inclusion", row, output, name)
        return plots.plot_inclusion(
            self._picture_of(row, images),
            self._assignment_of(row),
            self._inclusions(game, row, column, seed),
            [str(weighting) for weighting in self.weightings],
            heading=heading,
            n_shown=check_whole("n_shown", n_shown, minimum=3),
            **self._scale_of(row, column),
        )

    def animate_inclusion(
        self,
        game: AnyGame,
        path: str | os.PathLike[str],
        row: int = 0,
        *,
        output: OneOutput = None,
        name: str | None = None,
        images: Array | None = None,
        seed: int = 0,
    ) -> Path:
        """Write a GIF in which the players of an image are shown one after another, those of the largest values first.

        It needs pillow, and an attribution under a single weighting, such as `attribution.of(fw.Shapley())`.

        Args:
            game: as in `plot_inclusion`.
            path: of the file.
            row: number of the input.
            output: as in `plot_inclusion`.
            name: of the input, for the title.
            images: as in `plot_inclusion`.
            seed: of the random orders.

        Returns:
            The path.
        """
        path = check_path("path", path)
        if path.suffix.lower() != ".gif":
            raise ValueError(f"path must end in .gif, got {path.name!r}")
        column, heading = self._followed("animate_inclusion", row, output, name)
        (inclusion,) = self.unstacked()._inclusions(game, row, column, seed)  # noqa: SLF001 - of this class
        with written_whole(path) as temporary:
            plots.animate_inclusion(
                self._picture_of(row, images),
                self._assignment_of(row),
                inclusion,
                temporary,
                heading=f"{heading}, {self.weightings[0]}",
                **self._scale_of(row, column),
            )
        return path

    def _plot_images(
        self,
        rows: Int[ndarray, " rows"],
        output: OneOutput | Sequence[int | str],
        names: Sequence[str],
        style: plots.ImageStyle,
        *,
        smooth: bool,
        images: Array | None,
    ) -> Figure:
        """Draw values over images, a panel for each weighting and output."""
        chosen = self._output_list(output)
        columns = np.stack([self._columns_of(rows, each) for each in chosen])  # (outputs, rows)
        values = np.stack([of_output(self._stacked(self.values)[:, rows], each) for each in columns], 1)
        pictures = self._pictures(images)[rows]
        times = math.ceil(MIN_SIDE / max(pictures.shape[-2:]))
        grid = self.players.grid if smooth else None
        maps = [
            spread_values(values[:, :, place], self._assignment_of(row), grid=grid, times=times)
            for place, row in enumerate(rows.tolist())
        ]
        errors, about_errors = self._errors_of_outputs(rows, columns)
        unit = f"|{self._unit}|" if style.sign == "absolute" else self._unit
        captions = self._captions(rows, columns, names)._replace(
            note="; ".join(filter(None, [f"colors: {unit}", about_errors]))
        )
        return plots.plot_heat_maps(enlarge(pictures, times), np.stack(maps, 2), captions, style, errors=errors)

    def _output_list(self, output: OneOutput | Sequence[int | str]) -> Sequence[OneOutput]:
        """Return outputs that are drawn side by side."""
        if not isinstance(output, list | tuple):
            return [output]  # type: ignore[list-item]  # checked where it is looked up
        if not output or any(each is None for each in output):
            raise ValueError(f"output must be an output or a list of outputs, got {output!r}")
        return output

    def _captions(
        self, rows: Int[ndarray, " rows"], columns: Int[ndarray, "outputs rows"], names: Sequence[str]
    ) -> plots.Captions:
        """Return what is written around images; outputs are written above their values if there are several."""
        titles = np.array([self._titles_of(rows, each) for each in columns], dtype=object).T  # (rows, outputs)
        weights = list(map(str, self.weightings))
        blank = [""] * len(rows)
        if len(columns) > 1:
            return plots.Captions(names or blank, blank, titles.tolist(), weights)
        return plots.Captions(names or blank, titles[:, 0].tolist(), [[""]] * len(rows), weights)

    def _titles_of(self, rows: Int[ndarray, " rows"], columns: Int[ndarray, " rows"]) -> list[str]:
        """Return the name of an output of each row, with what the model predicts if that is known."""
        labels = [readable(label, MAX_TITLE) for label in self._output_labels(rows, columns)]
        if self.predictions is None:
            return labels
        scale = self.provenance.get("output")
        predictions = to_numpy(self.predictions)[rows, columns].astype(np.float64)
        if scale in LOG_ODDS:
            predictions = (1 + np.tanh(predictions / 2)) / 2  # the logistic function, without overflow
        texts = [percent(share) if scale in UNITS else short_number(share) for share in predictions.tolist()]
        return [f"{label}\nmodel: {text}" for label, text in zip(labels, texts, strict=True)]

    def _errors_of_outputs(
        self, rows: Int[ndarray, " rows"], columns: Int[ndarray, "outputs rows"]
    ) -> tuple[Float[ndarray, "weights outputs rows"] | None, str]:
        """Return the root mean square error over the players of each panel, and a note on what it is."""
        errors = [self._plotted_errors(rows, each) for each in columns]
        lines = f"lines on color bars: two {errors[0].kind}s from 0" if errors[0].sizes is not None else ""
        sizes = [np.sqrt(np.square(each.sizes).mean(-1)) for each in errors if each.sizes is not None]
        return (np.stack(sizes, 1) if sizes else None), "; ".join(filter(None, [errors[0].source, lines]))

    @property
    def _unit(self) -> str:
        """What values are, in words."""
        from fwshapley.explanation.attribution import Unweighted  # noqa: PLC0415 - it imports this module

        if any(isinstance(weighting, Unweighted) for weighting in self.weightings) or "output" not in self.provenance:
            return "value"
        return f"change in {UNITS.get(self.provenance['output'], 'output')}"

    def _assignment_of(self, row: int) -> Int[ndarray, "height width"]:  # noqa: ARG002 - players are those of all inputs
        """Return the player of each pixel of an input."""
        return self.players.assignment

    def _pictures(self, images: Array | None) -> Num[ndarray, "batch channels height width"]:
        """Return the images to draw: those that were explained, unless others are passed."""
        inputs = to_numpy(self.inputs)
        if images is None:
            return inputs
        try:
            pictures = to_numpy(images)
            fits = pictures.shape[:1] + pictures.shape[2:] == inputs.shape[:1] + inputs.shape[2:]
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"images must be an array like the inputs, got {shorten(images)}") from error
        if not fits or pictures.dtype.kind not in "iuf" or not np.isfinite(pictures).all():
            batch, _, height, width = inputs.shape
            raise ValueError(
                f"images must be finite numbers of shape ({batch}, channels, {height}, {width}), one image for each "
                f"input; got {pictures.dtype} of shape {pictures.shape}"
            )
        return pictures

    def _followed(self, method: str, row: int, output: OneOutput, name: str | None) -> tuple[int, str]:
        """Return which of the explained outputs a picture follows, and its title."""
        if not self.players.is_image:
            raise ValueError(f"{method} needs players that are parts of images, and these are columns of a table")
        rows = np.array([check_place("row", row, len(self), "inputs")])
        columns = self._columns_of(rows, output)
        (label,) = self._output_labels(rows, columns)
        return int(columns[0]), self._with_output(f"input {row}" if name is None else name, label)

    def _inclusions(self, game: AnyGame, row: int, column: int, seed: int) -> list[plots.Inclusion]:
        """Evaluate the game of a row along the order of its values, under each weighting."""
        from fwshapley.explanation.pictures.inclusion import follow_order  # noqa: PLC0415 - imports torch

        if getattr(game, "n_players", self.players.n_players) != self.players.n_players:
            raise ValueError(f"game must have {self.players.n_players} players, got {game.n_players}")  # type: ignore[union-attr]
        played = getattr(game, "x", None)
        if played is not None and not np.array_equal(to_numpy(played)[0], to_numpy(self.inputs)[row]):
            raise ValueError(f"game is that of another input than row={row}; pass explainer.game(x[{row}])")
        return follow_order(
            game,
            self._stacked(self.values)[:, row, :, column],
            int(to_numpy(self.outputs)[row, column]),
            n_players=self.players.n_players,
            seed=seed,
        )

    def _picture_of(self, row: int, images: Array | None) -> Float[ndarray, "height width *channels"]:
        return as_picture(scale_pixels(self._pictures(images)[row]))

    def _scale_of(self, row: int, column: int) -> dict[str, Any]:
        """Return what the axis of outputs is called, and whether they are shares."""
        (label,) = self._output_labels(np.array([row]), np.array([column]))
        unit = UNITS.get(self.provenance.get("output", ""), "")
        return {"output": f"{unit} of {label}" if unit else label, "is_share": unit == "probability"}
