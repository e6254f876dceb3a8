"""A valuation as an HTML page: the points whose labels or targets are most suspicious, the values, and the classes."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fwshapley._internal.arrays import to_numpy
from fwshapley._internal.checks import Array, check_kind, check_list, check_path, check_whole
from fwshapley._internal.files import check_writable
from fwshapley._internal.html import Picture, Report
from fwshapley._internal.wording import counted, decimals_for, listed, shortened
from fwshapley.valuation.knn.suggestions import SuggestedTargets
from fwshapley.valuation.result import OTHER_POINTS, Valuation
from fwshapley.valuation.suspects import Suspects, find_suspects

MAX_PICTURES = 360
"""Most pictures on a page, which keeps it below three megabytes."""

MAX_NEIGHBORS = 8
"""Most neighbors beside a suspicious picture."""

MIN_SIDE = 96
"""Pixels along the shorter side from which pictures are not enlarged."""

PictureOf = Callable[[int], Picture]
"""Returns the picture of a point, given its index."""


def write_valuation_report(
    valuation: Valuation,
    path: str | os.PathLike[str],
    *,
    x: Array | None = None,
    names: Sequence[object] | None = None,
    images: Array | PictureOf | None = None,
    n_shown: int = 20,
    title: str | None = None,
    noun: str = "point",
    notes: Sequence[str] = (),
) -> Path:
    """Write a valuation as one self-contained HTML page: suspicious points first, then all values, then the classes.

    Args:
        valuation: values under one weighting; of several, choose one with `of`.
        path: the .html file to write; an existing file is replaced. Plots need matplotlib.
        x: features of the points, as they were valued. If given, the page shows for each suspicious point which label
            its nearest neighbors have, or the mean of their targets.
        names: names of the points; by default their numbers, from 0.
        images: pictures of the points: (n, height, width) or (n, channels, height, width) with 1 or 3 channels. If
            given, the page shows suspicious points as pictures, beside their nearest neighbors if x is given.
        n_shown: number of suspicious points on the page.
        title: title of the page.
        noun: what a point is called.
        notes: sentences on the data, for the end of the page.

    Returns:
        The path of the file.

    Example:
        >>> import fwshapley as fw, tempfile
        >>> x, y = np.arange(8.0)[:, None], [0, 0, 0, 0, 1, 1, 1, 0]
        >>> valuation = fw.value_neighbors(x, y, k=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = fw.valuation.write_valuation_report(valuation, f"{folder}/report.html", x=x)
        >>> path.name
        'report.html'
    """
    check_kind("valuation", valuation, Valuation)
    valuation = valuation.unstacked()
    n_shown = check_whole("n_shown", n_shown)
    file = check_path("path", path)
    if file.is_dir():
        raise IsADirectoryError(f"path must be a file, got the folder {file}; pass the path of an .html file")
    check_writable(file.parent, "path")
    listed_names = None if names is None else [str(name) for name in check_list("names", names)]
    for name, values in (("names", listed_names), ("x", x)):
        if values is not None and len(values) != len(valuation):
            raise ValueError(f"{name} must have one entry per point, {len(valuation)}, got {len(values)}")
    picture_of = images if images is None or callable(images) else draw_pictures(images, len(valuation))
    suspects = find_suspects(valuation, n_shown, x=x, names=listed_names)
    kind = "target" if valuation.has_targets else "label"
    page = Report(
        title or f"Values of {counted(len(valuation), noun)}",
        f"The lower the value of a {noun}, the more likely its {kind} is wrong.",
    )
    for sentence in summarize(valuation, noun):
        page.text(sentence)
    page.section(f"Most suspicious {noun}s")
    if picture_of is None:
        page.table(suspects.headings(noun), suspects.cells(n_shown), suspects.explain_headings())
    else:
        _add_gallery(page, suspects, picture_of)
    page.section("Values").figure(
        valuation.plot(), f"Left: how many {noun}s have which value. Right: all {noun}s in increasing order of value."
    )
    if not valuation.has_targets:
        page.section("Classes").table(
            ["class", f"{noun}s", "mean value", "negative values"],
            class_cells(valuation),
            "A class with a low mean value is hard to tell from the others, or has many wrong labels.",
        )
    if notes:
        page.section("How the data were prepared")
    for note in notes:
        page.text(note)
    return page.write(file)


def summarize(valuation: Valuation, noun: str, reference: str | None = None) -> list[str]:
    """Return sentences on what was valued, how, and how many values are negative.

    Args:
        valuation: under one weighting.
        noun: what a point is called.
        reference: what the reference points are called, such as "the 40 rows of trusted.csv".
    """
    facts, n = valuation.provenance, len(valuation)
    if reference is None:
        reference = counted(valuation.references, "reference point")
    by = reference
    if facts.get("reference") == OTHER_POINTS:
        by = f"a sample of {facts['n_references']:,} of them" if "n_references" in facts else "the others"
    how = "" if "metric" not in facts else f" utility, {facts['metric']} distance"
    what = (
        f"{counted(n, noun)} {_describe_labels(valuation)}, valued by how much each helps to predict {by}: "
        f"{valuation.weights} values, {facts.get('method', 'method not recorded')}{how}."
    )
    negative = int((valuation.values < 0).sum())
    if not negative:
        return [what, f"No {noun} has a negative value. Under this weighting, only the order of the values matters."]
    verb = "has a negative value: it makes" if negative == 1 else "have negative values: they make"
    return [what, f"{counted(negative, noun)} ({negative / n:.0%}) {verb} predictions worse."]


def _describe_labels(valuation: Valuation) -> str:
    """Return how many points each class has, or the range of the targets."""
    labels = to_numpy(valuation.labels)
    if valuation.has_targets:
        return f"with targets from {labels.min():.4g} to {labels.max():.4g} (mean {labels.mean():.4g})"
    sizes = np.bincount(labels, minlength=len(valuation.classes)).tolist()
    classes = listed(f"{name}: {size:,}" for name, size in zip(valuation.classes, sizes, strict=True))
    return f"in {len(sizes)} classes ({classes})"


def class_cells(valuation: Valuation) -> list[list[str]]:
    """Return the cells of the table of classes: name, number of points, mean value, share of negative values."""
    labels, values = to_numpy(valuation.labels), to_numpy(valuation.values)
    sizes, total, negative = (
        np.bincount(labels, weights=weights, minlength=len(valuation.classes)) for weights in (None, values, values < 0)
    )
    decimals = decimals_for(values)
    rows = zip(valuation.classes, sizes, total / sizes.clip(min=1), negative / sizes.clip(min=1), strict=True)
    return [[shortened(name), f"{n:,.0f}", f"{mean:.{decimals}f}", f"{share:.0%}"] for name, n, mean, share in rows]


def draw_pictures(images: Array, n: int) -> PictureOf:
    """Return a function that draws one of the images."""
    pixels = to_numpy(images)
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels  # noqa: PLR2004 - without channels
    if pixels.ndim != 4 or len(pixels) != n or pixels.shape[1] not in (1, 3) or pixels.dtype.kind not in "iuf":  # noqa: PLR2004 - with channels
        raise ValueError(
            f"images must be {n} arrays of numbers, (n, height, width) or (n, channels, height, width) with 1 or 3 "
            f"channels, got shape {to_numpy(images).shape}"
        )
    low, high = float(pixels.min()), float(pixels.max())

    def draw(point: int) -> Picture:
        from matplotlib.image import imsave  # noqa: PLC0415 - optional

        unit = (pixels[point].astype(np.float64) - low) / (high - low or 1.0)
        times = max(MIN_SIDE // min(unit.shape[1:]), 1)
        enlarged = np.kron(unit, np.ones((times, times))).transpose(1, 2, 0)
        buffer = io.BytesIO()
        imsave(buffer, np.broadcast_to(enlarged, (*enlarged.shape[:2], 3)).copy(), format="png")
        return Picture(buffer.getvalue(), "png")

    return draw


def _add_gallery(page: Report, suspects: Suspects, picture_of: PictureOf) -> None:
    """Add a row of pictures for each suspect: the suspect, then its nearest neighbors with their labels."""
    beside = min(suspects.n_neighbors, MAX_NEIGHBORS)
    cells = suspects.cells(len(suspects.points))
    shown = min(len(cells), MAX_PICTURES // (beside + 1))
    rows = [
        [_draw_suspect(suspects, picture_of, rank), *_draw_neighbors(suspects, picture_of, rank, beside)]
        for rank in range(shown)
    ]
    caption = f"The first {shown} of {len(cells)} are shown." if shown < len(cells) else ""
    if beside and suspects.valuation.has_targets:
        caption = (
            f"Each row shows a suspicious picture and its {beside} nearest neighbors, the nearest first. {caption}"
        )
    elif beside:
        caption = (
            f"Each row shows a suspicious picture and its {beside} nearest neighbors, the nearest first: = marks the "
            "same label, ≠ and a dashed frame another one. A label is suggested if most of the "
            f"{suspects.n_neighbors} nearest neighbors have it and the picture does not. {caption}"
        )
    page.gallery(rows, caption.strip())


def _draw_suspect(suspects: Suspects, picture_of: PictureOf, rank: int) -> Picture:
    point, suggested = int(suspects.points[rank]), suspects.suggested[rank]
    row = suspects.cells(rank + 1)[rank]
    kind = "target" if suspects.valuation.has_targets else "label"
    lines = [f"{row[0]}. {row[1]}", f"{kind}: {row[2]}"]
    if isinstance(suspects.suggestions, SuggestedTargets):
        lines.append(f"neighbors' mean: {suggested}")
    elif suspects.suggestions is not None:
        votes = suspects.votes[rank]
        lines.append(
            f"{votes} neighbors agree" if suggested is None else f"suggested: {shortened(suggested)} ({votes})"
        )
    lines.append(f"value: {row[-1]}")
    return picture_of(point)._replace(title=f"{row[1]}, {kind} {row[2]}", caption=lines)


def _draw_neighbors(suspects: Suspects, picture_of: PictureOf, rank: int, count: int) -> list[Picture]:
    if suspects.suggestions is None:
        return []
    labels, has_targets = suspects.valuation.labels, suspects.valuation.has_targets
    label = labels[suspects.points[rank]]
    pictures = []
    for neighbor in suspects.suggestions.neighbors[rank, :count].tolist():
        name, differs = suspects.describe(neighbor), not has_targets and bool(labels[neighbor] != label)
        mark = "" if has_targets else "≠ " if differs else "= "
        pictures.append(
            picture_of(neighbor)._replace(
                title=f"{suspects.names[neighbor]}, {'target' if has_targets else 'label'} {name}",
                caption=(f"{mark}{name}",),
                marked=differs,
            )
        )
    return pictures
