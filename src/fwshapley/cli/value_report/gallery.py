"""Suspicious pictures beside their nearest neighbors."""

from __future__ import annotations

from fwshapley._internal.html import Picture, Report
from fwshapley._internal.wording import shortened
from fwshapley.cli.images import Pictures
from fwshapley.cli.images.thumbnails import make_thumbnail
from fwshapley.cli.value_report.findings import Findings
from fwshapley.cli.value_report.ranking import suspect_cells

MOST_PICTURES = 360
"""Pictures on a page, so that it stays below three megabytes."""

MOST_NEIGHBORS = 8


def add_gallery(report: Report, findings: Findings, pictures: Pictures) -> None:
    """Add the suspects to a report, a row for each: what it is, then its neighbors and their labels."""
    beside = min(findings.asked, MOST_NEIGHBORS)
    cells = suspect_cells(findings)
    shown = min(len(cells), MOST_PICTURES // (beside + 1))
    rows = [
        [_suspect(findings, pictures, rank, cells[rank]), *_neighbors(findings, pictures, rank, beside)]
        for rank in range(shown)
    ]
    some = f" The first {shown} of {len(cells)} are shown." if shown < len(cells) else ""
    report.gallery(
        rows,
        f"Beside each are its {beside} nearest neighbors, from the nearest on: = has the same label, ≠ (and a broken "
        f"frame) another one. A label is suggested where most of {findings.asked} neighbors have it and the picture "
        f"has not; otherwise they agree with the label there is.{some}",
    )


def _suspect(findings: Findings, pictures: Pictures, rank: int, cells: list[str]) -> Picture:
    number, file, label, _, votes, value = cells
    suggested = findings.suggested[rank]
    opinion = f"{votes} neighbors agree" if suggested is None else f"suggested: {shortened(suggested)} ({votes})"
    picture = make_thumbnail(pictures.folder.files[int(findings.suspects[rank])])
    lines = (f"{number}. {file}", f"label: {label}", opinion, f"value: {value}")
    return picture._replace(title=f"{file}, label {label}", caption=lines)


def _neighbors(findings: Findings, pictures: Pictures, rank: int, beside: int) -> list[Picture]:
    own = int(pictures.y[int(findings.suspects[rank])])
    shown = []
    for point in findings.suggestions.neighbors[rank, :beside].tolist():
        theirs = int(pictures.y[point])
        label = pictures.classes.names[theirs]
        picture = make_thumbnail(pictures.folder.files[point])
        shown.append(
            picture._replace(
                title=f"{pictures.folder.name_of(point)}, label {label}",
                caption=(f"{'=' if theirs == own else '≠'} {label}",),
                marked=theirs != own,
            )
        )
    return shown
