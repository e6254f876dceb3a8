"""Findings as a page."""

from __future__ import annotations

from fwshapley._internal.html import Report
from fwshapley.cli.images import Pictures
from fwshapley.cli.value_report.findings import Findings
from fwshapley.cli.value_report.gallery import add_gallery
from fwshapley.cli.value_report.ranking import about_headings, class_cells, headings, suspect_cells


def make_report(findings: Findings) -> Report:
    """Return the report: summary, suspects, a picture of the values, classes, notes."""
    points, valuation, nouns = findings.points, findings.valuation, f"{findings.points.noun}s"
    report = Report(
        f"Which {nouns} of {points.path.name} help, which harm",
        f"The lower its value, the more suspicious a {points.noun}.",
    )
    for sentence in findings.summary:
        report.text(sentence)
    report.section(f"Most suspicious {nouns}")
    if isinstance(points, Pictures):
        add_gallery(report, findings, points)
    else:
        report.table(headings(findings), suspect_cells(findings), about_headings(findings))
    report.section("Values").figure(
        valuation.plot(), f"How many {nouns} have which value, and all {nouns} in order of value."
    )
    report.section("Classes").table(
        ["class", nouns, "mean value", "share negative"],
        class_cells(valuation),
        "A class of low values is hard to tell from others, or has many wrong labels.",
    )
    report.section(f"What was done to the {points.whole}")
    for note in findings.notes:
        report.text(note)
    return report
