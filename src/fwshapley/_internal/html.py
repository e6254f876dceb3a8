"""A report as one self-contained HTML file: text, tables and pictures, light and dark."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from fwshapley._internal.files import written_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
:root { color-scheme: light dark; --line: #d8dde3; --soft: #5b6672; --paper: #ffffff; --ink: #1b1f24; }
@media (prefers-color-scheme: dark) { :root { --line: #363c44; --soft: #9aa5b1; --paper: #14171b; --ink: #e6e9ed; } }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 60rem; margin: 2.5rem auto; padding: 0 1.2rem;
       background: var(--paper); color: var(--ink); }
h1 { font-size: 1.7rem; margin-bottom: 0.2rem; } h2 { font-size: 1.2rem; margin-top: 2.4rem; }
p, figcaption { max-width: 46rem; } .lead, figcaption { color: var(--soft); }
table { border-collapse: collapse; margin: 0.5rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.9rem 0.3rem 0; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
figure { margin: 1.2rem 0; } img { max-width: 100%; background: #ffffff; border-radius: 6px; }
.gallery { display: flex; flex-wrap: wrap; gap: 0.5rem; padding: 0.9rem 0; border-bottom: 1px solid var(--line); }
.gallery figure { margin: 0; width: 104px; } .gallery figure:first-child { width: 15rem; }
.gallery img { width: 96px; height: 96px; object-fit: contain; background: none; border: 2px solid var(--line); }
.gallery .marked img { border: 2px dashed var(--ink); }
.gallery figcaption { font-size: 0.85rem; line-height: 1.35; overflow-wrap: anywhere; }
.gallery figure:first-child figcaption { color: var(--ink); }
"""


class Picture(NamedTuple):
    """A picture of a gallery.

    Attributes:
        data: contents of the image file.
        kind: format of that file.
        title: text for screen readers, also shown on hover.
        caption: lines below it.
        marked: whether its frame is dashed, which the caption should explain.
    """

    data: bytes
    kind: Literal["png", "jpeg"]
    title: str = ""
    caption: Sequence[str] = ()
    marked: bool = False


class Report:
    """Collects sections and writes them as a page.

    Args:
        title: of the page.
        lead: a sentence below it.

    Example:
        >>> Report("Digits").text("How it went.").table(["method", "Pearson"], [["ours", "0.97"]]).write("report.html")
    """

    def __init__(self, title: str, lead: str = "") -> None:
        self.title = title
        self._parts = [f"<h1>{_escape(title)}</h1>", f'<p class="lead">{_escape(lead)}</p>']

    def section(self, heading: str) -> Report:
        """Start a section."""
        return self._add(f"<h2>{_escape(heading)}</h2>")

    def text(self, paragraph: str) -> Report:
        """Add a paragraph."""
        return self._add(f"<p>{_escape(paragraph)}</p>")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> Report:
        """Add a table; the first column names its rows."""
        head = "".join(f"<th>{_escape(cell)}</th>" for cell in header)
        body = "".join("<tr>" + "".join(f"<td>{_escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        table = f"<table><tr>{head}</tr>{body}</table>"
        return self._add(f"<figure><figcaption>{_escape(caption)}</figcaption>{table}</figure>")

    def figure(self, figure: Figure, caption: str) -> Report:
        """Add a picture, inside the page itself."""
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
        data = base64.b64encode(buffer.getvalue()).decode()
        picture = f'<img alt="{_escape(caption)}" src="data:image/png;base64,{data}">'
        return self._add(f"<figure>{picture}<figcaption>{_escape(caption)}</figcaption></figure>")

    def fragment(self, part: str) -> Report:
        """Add a part that is HTML already, such as a text with colored words."""
        return self._add(part)

    def gallery(self, rows: Sequence[Sequence[Picture]], caption: str) -> Report:
        """Add rows of small pictures; the first of each row has more room below it."""
        self._add(f'<p class="lead">{_escape(caption)}</p>')
        for row in rows:
            self._add(f'<div class="gallery">{"".join(map(_figure_of, row))}</div>')
        return self

    def write(self, path: str | Path) -> Path:
        """Write the page, completely or not at all, and return its path."""
        head = f'<meta charset="utf-8"><title>{_escape(self.title)}</title><style>{STYLE}</style>'
        page = f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(self._parts)
        with written_whole(Path(path)) as temporary:
            temporary.write_text(page + "\n</body></html>\n", encoding="utf-8")
        return Path(path)

    def _add(self, part: str) -> Report:
        self._parts.append(part)
        return self


def _figure_of(picture: Picture) -> str:
    data, title = base64.b64encode(picture.data).decode(), _escape(picture.title)
    image = f'<img alt="{title}" title="{title}" src="data:image/{picture.kind};base64,{data}">'
    lines = "<br>".join(map(_escape, picture.caption))
    return f"<figure{' class=marked' * picture.marked}>{image}<figcaption>{lines}</figcaption></figure>"


def _escape(text: str) -> str:
    return html.escape(text)
