"""What the pages say of wrong labels and nearest-neighbour values, from benchmarks/results/label_noise.json."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from label_noise import title_of
from page_text import emphasis, table
from provenance import provenance

PEER = "cleanlab self-confidence, logistic regression"
"""What the first page holds ours against, as the figure does."""

PAGE = """## Wrong labels: nearest-neighbour values

A tenth of the labels became y + 1; {points:,} training images, 64 principal components of their pixels, K =
{k}, the soft utility. AUROC, and share of the wrong labels found after inspecting 10 % and 20 % of the images,
mean and standard deviation over {seeds} seeds. "Clean reference": valued by {references:,} test images; "no
reference": by each other, wrong labels included. All nearest-neighbour values of a kind share their time.

{noise}

![AUROC by weighting](figures/label_noise.png)

Leave-one-out, done right, counts every point that is among the K nearest of some reference point. {leave_one_out}.
(Of the values that the FW-Shapley authors published for this baseline, at most one is not 0.)

{provenance}
"""


def label_noise_section(document: Mapping[str, Any]) -> str:
    """Return the section, from what was recorded."""
    found = document["results"]
    return PAGE.format(
        **{name: found[name] for name in ("points", "references", "k")},
        seeds=len(document["seeds"]),
        noise=noise_table(found),
        leave_one_out=leave_one_out_text(found),
        provenance=provenance(document),
    )


def label_noise_text(document: Mapping[str, Any]) -> str:
    """What the first page says."""
    found = [
        f"{mean(rows['Shapley, clean reference']['auroc']):.3f} on {title_of(name)} "
        f"({mean(rows['Shapley, no reference']['auroc']):.3f} without clean reference points)"
        for name, rows in document["results"]["tables"].items()
    ]
    peer = [
        f"{mean(rows[PEER]['auroc']):.3f} on {title_of(name)}" for name, rows in document["results"]["tables"].items()
    ]
    return (
        "With a tenth of the labels flipped and no features but principal components of pixels, Shapley values of "
        f"nearest neighbours find them with an AUROC of {' and '.join(found)}; {PEER.replace(',', ' of')}, without "
        f"clean points either, with {' and '.join(peer)}."
    )


def noise_table(found: Mapping[str, Any]) -> str:
    """Detection by method and data set."""
    rows = []
    for method in sorted(next(iter(found["tables"].values())), key=place_of_method):
        cells = [
            cell
            for by_method in found["tables"].values()
            for cell in (
                mean_and_spread(by_method[method]["auroc"]),
                f"{mean(by_method[method]['found_at_10']):.0%} / {mean(by_method[method]['found_at_20']):.0%}",
                f"{mean(by_method[method]['seconds']):.1f} s",
            )
        ]
        rows.append([method, *cells])
    header = [f"{title_of(name)}: {what}" for name in found["tables"] for what in ("AUROC", "at 10 % / 20 %", "time")]
    return table(["", *header], rows)


def place_of_method(method: str) -> tuple[bool, bool, float]:
    """Place in the table: by kind of reference, weightings from small coalitions to large, then the others."""
    weights = re.match(r"Shapley|Beta\([\d.]+, [\d.]+\)", method)
    ours = "reference" in method
    return not ours, "no reference" in method, emphasis(weights[0]) if weights else float("inf")


def leave_one_out_text(found: Mapping[str, Any]) -> str:
    """How leave-one-out compares with Shapley on each data set."""
    compared = [
        f"{mean(rows['leave-one-out, clean reference']['auroc']):.3f} beside "
        f"{mean(rows['Shapley, clean reference']['auroc']):.3f} for Shapley on {title_of(name)}"
        for name, rows in found["tables"].items()
    ]
    return f"Its AUROC is {' and '.join(compared)}"


def mean(numbers: Sequence[float]) -> float:
    """Mean over seeds."""
    return statistics.fmean(numbers)


def mean_and_spread(numbers: Sequence[float]) -> str:
    """Mean and standard deviation over seeds."""
    return f"{mean(numbers):.3f} ± {statistics.stdev(numbers) if len(numbers) > 1 else 0:.3f}"
