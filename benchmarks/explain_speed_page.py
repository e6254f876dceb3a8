"""What the pages say of the time an explanation takes, from benchmarks/results/explain_speed*.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from page_text import emphasis, hardware, listed, spanned, table
from provenance import provenance

PAGE = """## What an explanation costs

All classes under nine weightings, over one forward pass of the ResNet-18 that is explained{untrained}:

{speed}

{figures}

{student}

{provenance}
"""

TEXT = """To explain {batches} images at once, all classes under nine weightings, takes as long as {ratios} forward
passes of the ResNet-18."""


def explain_speed_section(documents: Sequence[Mapping[str, Any]], student: Mapping[str, Any]) -> str:
    """Return the section, from what was recorded on each machine, and of a student."""
    trained = any(document["results"].get("trained", False) for document in documents)
    return PAGE.format(
        untrained="" if trained else " (none of them trained, which changes no operation)",
        speed=speed_table(documents),
        figures="\n\n".join(
            f"![Time over one forward pass, on {hardware(each['machine'])}](figures/{each['benchmark']}.png)"
            for each in documents
        ),
        student=student_text(student["results"]),
        provenance="\n\n".join(map(provenance, (*documents, student))),
    )


def explain_speed_text(documents: Sequence[Mapping[str, Any]]) -> str:
    """What the first page says, of all machines."""
    told: list[str] = []
    batches: dict[str, None] = {}
    for document in documents:
        rows = [row for row in document["results"]["times"] if "explainer_ratio" in row]
        ratios = [row["explainer_ratio"] for row in rows]
        batches |= dict.fromkeys(str(row["batch"]) for row in rows)
        told.append(f"{spanned(ratios, '.1f')} (on {hardware(document['machine'])})")
    return TEXT.format(ratios=listed(told), batches=" or ".join(batches))


def speed_table(documents: Sequence[Mapping[str, Any]]) -> str:
    """Milliseconds and ratios, by machine and batch size."""
    rows = []
    for document in documents:
        where = hardware(document["machine"])
        for row in document["results"]["times"]:
            cells = [f"{1e3 * row['forward_s']:.2f} ms" if row["forward_s"] else "-"]
            cells += [with_ratio(row[f"{name}_s"], row.get(f"{name}_ratio")) for name in ("explainer", "student")]
            rows.append(
                [f"{where}, {row['batch']} image{'s' * (row['batch'] > 1)}{', compiled' * row['compiled']}", *cells]
            )
    return table(["", "forward pass", "explanation", "slim student"], rows)


def with_ratio(seconds: float, ratio: float | None) -> str:
    """Time, and how many forward passes that is."""
    return f"{1e3 * seconds:.2f} ms" if ratio is None else f"{1e3 * seconds:.2f} ms ({ratio:.2f})"


def student_text(student: Mapping[str, Any]) -> str:
    """How the student agrees with the references, beside its teacher."""
    rows = [
        [name, f"{found['teacher']:.3f}", f"{found['student']:.3f}"]
        for name, found in sorted(student["pearson"].items(), key=lambda item: emphasis(item[0]))
        if emphasis(name) <= 1
    ]
    sizes = student["parameters"]
    return (
        f"A student ({sizes['student'] / 1e6:.1f} of {sizes['teacher'] / 1e6:.1f} million parameters) was distilled "
        f"in {student['seconds']} s from the explainer of {student['explainer']}. Correlation with the references:\n\n"
        + table(["weighting", "explainer", "student"], rows)
    )
