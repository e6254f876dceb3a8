"""An explanation of texts, whose players differ from text to text."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from fwshapley._internal.arrays import to_numpy
from fwshapley._internal.checks import Array
from fwshapley._internal.safetensors_file import Bundle
from fwshapley._internal.wording import counted
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.pictures.attribution_plots import MAX_INPUTS
from fwshapley.explanation.pictures.shown_values import check_place, of_output
from fwshapley.players import columns
from fwshapley.plots.texts import ColoredText, plot_texts, to_html, to_rich
from fwshapley.text_players import Span, TextPlayers, Unit, check_texts

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from rich.text import Text

SHOWN_TEXTS = 20
"""Texts that a notebook shows."""


@dataclass(frozen=True, eq=False)
class TextAttribution(Attribution):
    """Values of the tokens, words or sentences of each text.

    `values` has as many players as the longest text; those that a text does not have are exactly 0. In a notebook
    words are colored: orange ones raise the output, blue ones lower it. `rich.print` colors them in a terminal.

    Attributes:
        texts: as they were passed.
        spans: where the players of each text begin and end in it.
        unit: "token", "word" or "sentence".
    """

    texts: tuple[str, ...] = ()
    spans: tuple[tuple[Span, ...], ...] = ()
    unit: Unit = "token"
    kind: ClassVar[str] = "text attribution"

    def __str__(self) -> str:
        names = ", ".join(map(str, self.weightings))
        most = counted(max(map(len, self.spans)), self.unit)
        return f"{self.total} {names} values of up to {most} for {counted(len(self), 'text')}{self._by_which_method()}"

    @property
    def pieces(self) -> list[list[str]]:
        """The players of each text as strings."""
        return [[text[begin:end] for begin, end in spans] for text, spans in zip(self.texts, self.spans, strict=True)]

    def to_dataframe(self) -> pd.DataFrame:
        """Return a table with one row per text, output and player (and weighting, for a list of weightings).

        Columns are those of `Attribution`; player is its number, and piece the token, word or sentence.
        """
        frame: pd.DataFrame = super().to_dataframe()
        longest = self.players.n_players
        player = np.tile(np.arange(longest), len(frame) // longest)
        counts = np.array([len(spans) for spans in self.spans])[frame["input"]]
        frame["player"] = player
        frame = frame[player < counts].reset_index(drop=True)
        pieces = self.pieces
        written = [pieces[text][number] for text, number in zip(frame["input"], frame["player"], strict=True)]
        frame.insert(list(frame.columns).index("player") + 1, "piece", written)
        return frame

    def plot(  # type: ignore[override]  # a text has no style
        self,
        rows: int | list[int] = MAX_INPUTS,
        *,
        output: int | str | None = None,
        limit: float | None = None,
    ) -> Figure:
        """Draw texts whose words are colored by their values, a row per text and weighting.

        Args:
            rows: which texts, or how many of the first.
            output: which of the explained outputs, or its name; by default the one with the largest prediction.
            limit: value with the strongest color, the same for all; by default the largest of each text and weighting.
        """
        return plot_texts([part for row in self._check_rows(rows) for part in self.colored(row, output)], limit)

    def colored(self, row: int, output: int | str | None = None) -> list[ColoredText]:
        """Return a text with the values of its players, for each weighting.

        Args:
            row: number of the text.
            output: as for `plot`.
        """
        number = np.array([check_place("row", row, len(self), "texts")])
        column = self._columns_of(number, output)
        values: Float[ndarray, "weights 1 players"] = of_output(self._stacked(self.values)[:, number], column)
        label = self._output_labels(number, column)[0]
        titles = [f"input {row}, {weights}" for weights in self.weightings]
        return [
            ColoredText(
                self.texts[row], self.spans[row], part[0, : len(self.spans[row])], self._with_output(title, label)
            )
            for title, part in zip(titles, values, strict=True)
        ]

    def _repr_html_(self) -> str:
        shown = [part for row in range(min(len(self), SHOWN_TEXTS)) for part in self.colored(row)]
        rest = len(self) - SHOWN_TEXTS
        return to_html(shown, f"and {counted(rest, 'more text')}" if rest > 0 else "")

    def __rich__(self) -> Text:
        return to_rich([part for row in range(len(self)) for part in self.colored(row)])

    def _check_table(self, method: str) -> None:
        raise ValueError(
            f"{method} needs players that are columns of a table, and these are parts of texts; use plot()"
        )

    @classmethod
    def _from_bundle(cls, bundle: Bundle) -> Self:
        spans = tuple(tuple((begin, end) for begin, end in text) for text in bundle.facts["spans"])
        return super()._from_bundle(Bundle({**bundle.facts, "spans": spans}, bundle.arrays))


def of_texts(attribution: Attribution, texts: Array, players: TextPlayers) -> TextAttribution:
    """Return an attribution with the texts that it is about, without players that none of them has.

    Args:
        attribution: of encoded texts, with as many players as a text may have.
        texts: as they were passed.
        players: of the texts.
    """
    spans = tuple(map(tuple, players.spans(texts)))
    longest = max(map(len, spans))
    arrays = {name: getattr(attribution, name) for name in ("values", "stderr")}
    arrays = {name: None if array is None else array[..., :longest, :] for name, array in arrays.items()}
    known = {field.name: getattr(attribution, field.name) for field in fields(attribution)}
    named = columns(longest, [f"{players.unit} {number}" for number in range(longest)])
    return TextAttribution(
        **known | arrays | {"players": named}, texts=tuple(check_texts(texts, "texts")), spans=spans, unit=players.unit
    )


def values_of_texts(attribution: TextAttribution) -> list[Float[ndarray, "players outputs"]]:
    """Return the values of each text without those of players that it does not have, under the only weighting."""
    values = to_numpy(attribution.unstacked().values)
    return [part[: len(spans)] for part, spans in zip(values, attribution.spans, strict=True)]
