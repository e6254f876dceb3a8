"""What the pages say of the time and memory a valuation takes, from benchmarks/results/valuation_speed*.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from page_text import table
from provenance import provenance

PAGE = """## What a valuation costs

Points around ten class centres, K = 5. Every row is a process of its own; its peak memory is that of all processes it
starts, with Python, libraries and the points themselves, or that of the GPU. Table 2 has as many points, of real
images, in another process: compare times within a table, not across.

{speed}

{ratios}

![Growth with points and references](figures/valuation_speed.png)

What a tolerance saves, 60,000 x 1,000 points, 64 columns:

{tolerance}

{provenance}
"""


def valuation_speed_section(document: Mapping[str, Any], on_gpu: Sequence[Mapping[str, Any]]) -> str:
    """Return the section, from what was recorded on processors and, where there is some, on GPUs."""
    found = document["results"]
    return PAGE.format(
        speed=valuation_table([*found["compared"], *found["large"], *map(gpu_row, on_gpu)]),
        ratios=valuation_ratios(found),
        tolerance=tolerance_table(found),
        provenance="\n\n".join(map(provenance, (document, *on_gpu))),
    )


def valuation_speed_text(document: Mapping[str, Any]) -> str:
    """What the first page says."""
    rows = {what_was_run(row): row for row in document["results"]["compared"]}
    large = document["results"]["large"][0]
    peer = next((row for row in rows.values() if row["method"] == "pydvl"), None)
    beside = f", where pyDVL takes {peer['seconds']:.0f} s" if peer else ""
    return (
        f"Exact values of 60,000 points for 1,000 references take {rows['Shapley']['seconds']:.1f} s on "
        f"{document['machine']['cores']} CPU cores{beside}; of {large['n']:,} for {large['m']:,}, "
        f"{large['seconds']:.0f} s."
    )


def valuation_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Seconds and peak memory of each measurement."""
    return table(
        ["", "points x references, columns", "seconds", "peak memory"],
        [
            [
                what_was_run(row),
                f"{row['n']:,} x {row['m']:,}, {row['d']}",
                f"{row['seconds']:.2f}",
                f"{row['peak_mb'] / 1024:.2f} GB",
            ]
            for row in rows
        ],
    )


def gpu_row(document: Mapping[str, Any]) -> dict[str, Any]:
    """Measurement on a GPU, as a row of the table: the median of those after a warm-up, or the slower of two."""
    rows = [row for row in document["results"]["svhn"][1:] if row["weights"] == "Shapley"]
    rows = sorted(rows, key=lambda row: row["seconds"])
    row = rows[len(rows) // 2]
    size = {"method": "fwshapley", "alpha": 1, "beta": 1, "n": 73_257, "m": 26_032, "d": 512}
    return size | {"gpu": document["machine"]["gpu"], "seconds": row["seconds"], "peak_mb": row["gpu_mb"]}


def what_was_run(row: Mapping[str, Any]) -> str:
    """Name of a measurement."""
    if row["method"] == "product":
        return f"bare product of the distances, {row['dtype']}"
    if row["method"] == "pydvl":
        return f"pyDVL, Shapley, {row['jobs']} jobs"
    weights = "Shapley" if row["alpha"] == row["beta"] == 1 else f"Beta({row['alpha']}, {row['beta']})"
    return f"{weights}{', vote' * (row.get('utility') == 'vote')}{', ' + row['gpu'] if 'gpu' in row else ''}"


def valuation_ratios(found: Mapping[str, Any]) -> str:
    """How ours compares, in one run."""
    rows = {what_was_run(row): row for row in found["compared"]}
    ours = rows["Shapley"]
    text = "; ".join(
        f"{ours['seconds'] / row['seconds']:.1f} times the {name}"
        for name, row in rows.items()
        if row["method"] == "product"
    )
    peers = [row for row in rows.values() if row["method"] == "pydvl"]
    compared = "".join(
        f" pyDVL takes {row['seconds'] / ours['seconds']:.0f} times as long, and "
        f"{row['peak_mb'] / ours['peak_mb']:.1f} times the memory."
        for row in peers
    )
    vote = next(row for row in found["large"] if row.get("utility") == "vote")
    return f"Shapley takes {text}.{compared} A vote takes {vote['seconds'] / vote['m']:.3f} s a reference point."


def tolerance_table(found: Mapping[str, Any]) -> str:
    """Seconds by weighting and tolerance."""
    columns = [f"{row['tolerance']:g}" for row in next(iter(found["tolerance"].values()))]
    rows = [[name, *(f"{row['seconds']:.2f} s" for row in several)] for name, several in found["tolerance"].items()]
    return table(["tolerance", *columns], rows)
