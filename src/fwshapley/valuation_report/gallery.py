"""Suspicious pictures beside their nearest neighbours."""

from __future__ import annotations

from fwshapley.pictures import Pictures
from fwshapley.pictures.thumbnails import make_thumbnail
from fwshapley.report import Picture, Report
from fwshapley.valuation_report.findings import Findings
from fwshapley.valuation_report.ranking import suspect_cells

MOST_PICTURES = 360
"""Pictures on a page, so that it stays below three megabytes."""

MOST_NEIGHBOURS = 8


def add_gallery(report: Report, findings: Findings, pictures: Pictures) -> None:
    """Add the suspects to a report, a row for each: what it is, then its neighbours and their labels."""
    beside = min(findings.asked, MOST_NEIGHBOURS)
    cells = suspect_cells(findings)
    shown = min(len(cells), MOST_PICTURES // (beside + 1))
    rows = [
        [_suspect(findings, pictures, rank, cells[rank]), *_neighbours(findings, pictures, rank, beside)]
        for rank in range(shown)
    ]
    some = f" The first {shown} of {len(cells)} are shown." if shown < len(cells) else ""
    report.gallery(
        rows,
        f"Beside each are its {beside} nearest neighbours, from the nearest on: = has the same label, ≠ (and a broken "
        f"frame) another one.{some}",
    )


def _suspect(findings: Findings, pictures: Pictures, rank: int, cells: list[str]) -> Picture:
    number, file, label, suggested, votes, value = cells
    picture = make_thumbnail(pictures.folder.files[int(findings.suspects[rank])])
    lines = (f"{number}. {file}", f"label: {label}", f"neighbours say: {suggested} ({votes})", f"value: {value}")
    return picture._replace(title=f"{file}, label {label}", caption=lines)


def _neighbours(findings: Findings, pictures: Pictures, rank: int, beside: int) -> list[Picture]:
    own = int(pictures.y[int(findings.suspects[rank])])
    shown = []
    for point in findings.suggestions.neighbours[rank, :beside].tolist():
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
