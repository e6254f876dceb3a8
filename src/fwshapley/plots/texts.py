"""Texts whose words are colored by their values, as a figure, as HTML, and in a terminal."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from fwshapley._internal.checks import check_real
from fwshapley.plots.figure import new_figure, short_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.text import Text

RAISES, LOWERS = (213, 94, 0), (0, 114, 178)
"""Orange and blue of Okabe and Ito, as in all pictures of values."""

STRONGEST = 0.75
"""Opacity of the largest value, over which black letters can be read."""

LETTERS = 90
"""In a line of a figure."""

LINE_HEIGHT, LETTER_WIDTH = 0.26, 0.085
"""Of monospaced letters, in inches."""

Color = tuple[int, int, int]


class ColoredText(NamedTuple):
    """A text and the values of its players.

    Attributes:
        text: the text.
        spans: where its players begin and end; they do not overlap.
        values: one per player.
        title: such as "input 0, Shapley".
    """

    text: str
    spans: Sequence[tuple[int, int]]
    values: Float[ndarray, " players"]
    title: str

    def pieces(self) -> Iterator[tuple[str, float | None]]:
        """Yield the whole text in pieces: players with their values, and what lies between them with None."""
        place = 0
        for (begin, end), value in zip(self.spans, self.values, strict=True):
            if begin > place:
                yield self.text[place:begin], None
            yield self.text[begin:end], float(value)
            place = max(place, end)
        if place < len(self.text):
            yield self.text[place:], None

    def limit(self) -> float:
        """Return the largest size of a value."""
        return float(np.abs(self.values).max(initial=0.0)) or 1.0


def shade(value: float, limit: float) -> tuple[Color, float]:
    """Return the color of a value, and how opaque it is."""
    return RAISES if value > 0 else LOWERS, STRONGEST * min(abs(value) / limit, 1.0)


def over_white(color: Color, opacity: float) -> Color:
    """Return the color that one with some opacity gives on white paper."""
    red, green, blue = (round(255 + opacity * (part - 255)) for part in color)
    return red, green, blue


def to_html(texts: Sequence[ColoredText], note: str = "") -> str:
    """Return texts as a part of a page; the value of a word appears when the pointer is on it.

    Args:
        texts: with the values of their words.
        note: below them.
    """
    parts = []
    for text in texts:
        spans = "".join(_span(piece, value, text.limit()) for piece, value in text.pieces())
        title = f'<small style="opacity:0.7">{html.escape(text.title)}</small>'
        parts.append(f'<p style="margin:0.6em 0;line-height:1.9">{title}<br>{spans}</p>')
    if note:
        parts.append(f"<p><small>{html.escape(note)}</small></p>")
    return f'<div class="fwshapley-texts">{"".join(parts)}</div>'


def to_rich(texts: Sequence[ColoredText]) -> Text:
    """Return texts for `rich.print`, each below its title.

    Args:
        texts: with the values of their words.
    """
    from rich.text import Text  # noqa: PLC0415 - for terminals alone

    whole = Text()
    for text in texts:
        whole.append(f"{text.title}\n", style="dim")
        for piece, value in text.pieces():
            if value is None or value == 0:
                whole.append(piece)
                continue
            color = over_white(*shade(value, text.limit()))
            whole.append(piece, style=f"black on rgb({color[0]},{color[1]},{color[2]})")
        whole.append("\n")
    return whole


def plot_texts(texts: Sequence[ColoredText], limit: float | None = None) -> Figure:
    """Draw texts in monospaced letters.

    Args:
        texts: with the values of their words.
        limit: value with the strongest color, the same for all texts; None is the largest of each.

    Example:
        >>> plot_texts([ColoredText("a good film", [(2, 6), (7, 11)], np.array([0.5, -0.1]), "input 0")])
        <Figure size 930x117.6 with 1 Axes>
    """
    if limit is not None and check_real("limit", limit) <= 0:
        raise ValueError(f"limit must be positive, got {limit:g}")
    lines = [_lines(text) for text in texts]
    rows = sum(len(part) + 2 for part in lines)
    figure = new_figure(width=LETTERS * LETTER_WIDTH + 0.1, height=rows * LINE_HEIGHT + 0.2)
    axes = figure.add_subplot()
    axes.set(xlim=(0, LETTERS), ylim=(rows, 0))
    axes.axis("off")
    row = 0
    for text, part in zip(texts, lines, strict=True):
        strongest = text.limit() if limit is None else limit
        axes.text(0, row + 0.5, f"{text.title} (strongest color: {short_number(strongest)})", va="center", size="small")
        for number, line in enumerate(part):
            for column, piece, value in line:
                color = (1.0, 1.0, 1.0)
                if value is not None:
                    red, green, blue = over_white(*shade(value, strongest))
                    color = (red / 255, green / 255, blue / 255)
                axes.barh(row + 1.5 + number, len(piece), 0.8, left=column, color=color)
                axes.text(column, row + 1.5 + number, piece, va="center", family="monospace", size=10, parse_math=False)
        row += len(part) + 2
    return figure


def _span(piece: str, value: float | None, limit: float) -> str:
    written = html.escape(piece).replace("\n", "<br>")
    if value is None:
        return written
    (red, green, blue), opacity = shade(value, limit)
    style = f"background:rgba({red},{green},{blue},{opacity:.2f});border-radius:3px"
    return f'<span title="{short_number(value)}" style="{style}">{written}</span>'


def _lines(text: ColoredText) -> list[list[tuple[int, str, float | None]]]:
    """Return the pieces of each line of a figure with the column that they begin at; long words are broken."""
    lines: list[list[tuple[int, str, float | None]]] = [[]]
    column = 0
    for piece, value in text.pieces():
        for part in _breakable(piece):
            if part == "\n" or column + len(part.rstrip()) > LETTERS:
                lines.append([])
                column = 0
            if part.strip("\n") and (column or part.strip()):
                lines[-1].append((column, part, value))
                column += len(part)
    return [line for line in lines if line] or [[]]


def _breakable(piece: str) -> Iterator[str]:
    """Yield the words of a piece with the spaces after them, none longer than a line, and the ends of its lines."""
    for number, line in enumerate(piece.split("\n")):
        if number:
            yield "\n"
        for word in re.findall(r"\S+|\s+", line):
            yield from (word[begin : begin + LETTERS] for begin in range(0, len(word), LETTERS))
