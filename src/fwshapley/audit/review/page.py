"""The page of a review: one HTML file, which needs no server, on which a person decides on suspicious labels."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pandas as pd

from fwshapley._internal.checks import check_kind, check_list, check_names, check_path, check_real
from fwshapley._internal.files import written_whole
from fwshapley._internal.html import Picture
from fwshapley._internal.version import __version__
from fwshapley.audit.review.points import ReviewNeighbor, ReviewPoint

SCRIPTS = ("csv.js", "state.js", "comparison.js", "suspect.js", "overview.js", "cutoff.js", "review.js")
"""Parts of the script, in order."""

POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; base-uri 'none'; form-action 'none'"
)
"""What the page may load: its own script and style, known by their hashes, and pictures that it contains."""

DECIMALS = 4
"""Of probabilities."""


def write_review(
    path: str | os.PathLike[str],
    points: Sequence[ReviewPoint],
    *,
    title: str,
    classes: Sequence[str],
    expected_precision: Sequence[float],
    noun: str = "point",
    summary: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Path:
    """Write a page on which a person reviews suspicious labels, one file that works offline.

    It shows each point beside its nearest neighbors. Decisions are made by keyboard, mouse or touch, are kept by the
    browser, and are exported as a .csv file, which `apply_decisions` applies to the data.

    Args:
        path: of the .html file; an existing one is replaced.
        points: the most suspicious first.
        title: of the page.
        classes: all labels that a point may have, in order.
        expected_precision: at each position, the expected share of wrong labels among the points up to it.
        noun: what a point is called, such as row or picture.
        summary: sentences below the title.
        notes: sentences at the end, such as on how the data were prepared.

    Returns:
        The path.

    Example:
        >>> point = ReviewPoint(7, "cat/7.png", "cat", "dog", 0.9, 0.8, ("5 of 5 networks say dog",))
        >>> write_review("review.html", [point], title="Pets", classes=["cat", "dog"], expected_precision=[0.8]).name
        'review.html'
    """
    file = check_path("path", path)
    if file.is_dir():
        raise IsADirectoryError(f"path must be a file, got the folder {file}; pass the path of an .html file")
    check_kind("title", title, str)
    names = check_names("classes", classes)
    listed = _check_points(points, names)
    precision = _check_shares("expected_precision", expected_precision)
    if len(precision) != len(listed):
        raise ValueError(f"expected_precision must have a share per point, {len(listed)}, got {len(precision)}")
    content = {
        **_pack_points(listed),
        "digest": _digest(listed, names),
        "noun": noun,
        "classes": names,
        "precision": precision,
    }
    style, script = _read_asset("review.css"), '"use strict";\n' + "\n".join(map(_read_asset, SCRIPTS))
    page = Template(_read_asset("review.html")).substitute(
        policy=POLICY.format(script=_hash(script), style=_hash(style)),
        title=html.escape(title),
        summary="".join(f"<p>{html.escape(sentence)}</p>" for sentence in summary),
        notes="".join(f"<p>{html.escape(sentence)}</p>" for sentence in notes),
        version=__version__,
        style=style,
        script=script,
        data=json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
    )
    with written_whole(file) as temporary:
        temporary.write_text(page, encoding="utf-8", newline="\n")
    return file


def _check_points(points: Iterable[ReviewPoint], classes: Sequence[str]) -> list[ReviewPoint]:
    """Return points as a list, or raise an error that names the first that cannot be shown."""
    listed = check_list("points", points)
    if not listed:
        raise ValueError("points must contain at least one suspicious point, got none")
    known, seen = set(classes), set()
    for place, point in enumerate(listed):
        where = f"points[{place}]"
        check_kind(where, point, ReviewPoint)
        for kind, label in (("label", point.label), ("suggested", point.suggested)):
            if label not in known:
                raise ValueError(f"{where}.{kind} must be one of classes, got {label!r}")
        for key, value in (("index", point.index), ("name", point.name)):
            if (key, value) in seen:
                raise ValueError(
                    f"points must have different names and indices, but the {key} {value!r} of {where} is repeated"
                )
            seen.add((key, value))
    return listed


def _check_shares(name: str, values: Iterable[float]) -> list[float]:
    """Return numbers from 0 to 1, rounded, or raise an error that names them."""
    shares = [check_real(name, value) for value in check_list(name, values)]
    if any(not 0 <= share <= 1 for share in shares):
        raise ValueError(f"{name} must be from 0 to 1, got {next(share for share in shares if not 0 <= share <= 1)}")
    return [round(share, DECIMALS) for share in shares]


def _pack_points(points: Sequence[ReviewPoint]) -> dict[str, Any]:
    """Return points and neighbors as the page has them: who occurs more than once is stored once."""
    columns = next((list(point.row) for point in points if point.row is not None), [])
    entries: dict[tuple[str, str, bytes | None], int] = {}
    packed: list[dict[str, Any]] = []

    def place(entry: ReviewPoint | ReviewNeighbor) -> int:
        key = (entry.name, entry.label, entry.picture and entry.picture.data)
        if key not in entries:
            entries[key] = len(packed)
            packed.append(_pack_entry(entry, columns))
        return entries[key]

    suspects = [
        {
            "entry": place(point),
            "index": point.index,
            "suggested": point.suggested,
            "likely": likely,
            "wrong": wrong,
            "reasons": point.reasons,
            "neighbors": [place(neighbor) for neighbor in point.neighbors],
        }
        for point, likely, wrong in zip(
            points,
            _check_shares("suggested_probability", [point.suggested_probability for point in points]),
            _check_shares("wrong_probability", [point.wrong_probability for point in points]),
            strict=True,
        )
    ]
    rows = [entry["row"] for entry in packed if entry["row"] is not None]
    spreads = [_find_spread(cells) for cells in zip(*rows, strict=True)]
    return {"points": suspects, "entries": packed, "columns": columns, "spreads": spreads}


def _pack_entry(entry: ReviewPoint | ReviewNeighbor, columns: Sequence[str]) -> dict[str, Any]:
    if entry.row is not None and list(entry.row) != columns:
        raise ValueError(f"all rows of points must have the same columns, but those of {entry.name!r} differ")
    return {
        "name": entry.name,
        "label": entry.label,
        "picture": None if entry.picture is None else _pack_picture(entry.picture),
        "row": None if entry.row is None else list(entry.row.values()),
    }


def _pack_picture(picture: Picture) -> str:
    return f"data:image/{picture.kind};base64,{base64.b64encode(picture.data).decode()}"


def _find_spread(cells: Sequence[str]) -> float | None:
    """Return the standard deviation of a column of numbers; None for other columns."""
    there = pd.Series([cell for cell in cells if cell.strip()], dtype=object)
    numbers = pd.to_numeric(there, errors="coerce").to_numpy(np.float64)
    return float(numbers.std()) if numbers.size and np.isfinite(numbers).all() else None


def _digest(points: Sequence[ReviewPoint], classes: Sequence[str]) -> str:
    """Return a hash of what decisions are about, under which the browser keeps them."""
    facts = [classes, [(point.index, point.name, point.label, point.suggested) for point in points]]
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


def _hash(text: str) -> str:
    """Return the hash of a script or a style as a policy names it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _read_asset(name: str) -> str:
    return (files("fwshapley.audit.review") / "assets" / name).read_text(encoding="utf-8")
