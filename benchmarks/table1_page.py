"""What the results page says of the time to explain images, the paper's Table 1: benchmarks/results/table1.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inclusion_results import BASE, EVERY
from page_text import listed, table
from provenance import provenance
from table1 import title_of

PAPER_SECONDS = {"gradcam": 17.89, "integrated gradients": 147.45, "saliency": 10.59, BASE: 1.42, EVERY: 1.42}
"""Its Table 1, on a GTX 1080."""

PAGE = """### Time for {many:,} images

{summary}

{times}

{reconciled}

![Seconds for each method](figures/table1.png)

{provenance}
"""

TIMING = """Medians of repeated calls in one run on one machine, {at_once} images at once{precision}; networks that
learn give all classes, gradient methods (captum's) the predicted one. "All at once" is {weightings} weightings. "~" is
extrapolated from a few images, with {calls:,} calls each. Beside it, what the paper reports for a GTX 1080. Training
comes on top where a method learns. Networks for one weighting also ask the masked model what everyone is worth, to
which their values must sum; the one for every weighting knows that.{untrained}

{times}"""


def timing_section(document: Mapping[str, Any], speeds: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return a section of the results page, beside what was recorded of single explanations."""
    return PAGE.format(
        many=document["results"]["images"],
        summary=timing_summary(document),
        times=timing_text(document),
        reconciled=reconciled_text(document, speeds),
        provenance=provenance(document),
    )


def timing_summary(document: Mapping[str, Any]) -> str:
    """Return what was asked of times and what was found, in two sentences."""
    found = document["results"]
    rows = found["methods"]
    every, base, sampled = (rows[name]["seconds"] for name in (EVERY, BASE, "least squares"))
    return (
        f"How long does it take to explain {found['images']:,} images? The network for every weighting takes "
        f"{1e3 * every:.1f} ms for {found['weightings']} weightings and all classes, {rows[EVERY]['over forward']:.1f} "
        f"times a forward pass of the model, and {BASE}'s {1e3 * base:.1f} ms for one; our sampling takes some "
        f"{float(f'{sampled / every:.1g}'):,.0f} times as long."
    )


def reconciled_text(document: Mapping[str, Any], speeds: Sequence[Mapping[str, Any]]) -> str:
    """Say where another section has other times for the same machine and number of images."""
    found, machine = document["results"], document["machine"]["gpu"]
    other = next((each for each in speeds if machine and each["machine"]["gpu"] == machine), None)
    if other is None:
        return ""
    times = [row for row in other["results"]["times"] if row["batch"] == found["images"]]
    told = listed(f"{1e3 * row['explainer_s']:.1f} ms{' compiled' * row['compiled']}" for row in times)
    return (
        f"[What an explanation costs](#what-an-explanation-costs) has {told} for as many images and weightings on the "
        f"same GPU, where this table, with nothing compiled, has {1e3 * found['methods'][EVERY]['seconds']:.1f} ms. "
        "Those are two processes: compare times within a table, not across."
    )


def timing_text(document: Mapping[str, Any]) -> str:
    """Return the table of times."""
    found = document["results"]
    rows = [
        [
            title_of(name, trained=found["trained"]),
            f"{'~' * row['extrapolated']}{row['seconds']:.3g} s",
            f"{row['over forward']:.3g}",
            f"{row['peak_mb'] / 1024:.2f} GB" if row["peak_mb"] is not None else "",
            f"{PAPER_SECONDS[name]} s" if name in PAPER_SECONDS else "",
        ]
        for name, row in sorted(found["methods"].items(), key=lambda item: item[1]["seconds"])
    ]
    return TIMING.format(
        at_once=found["at once"],
        precision=", in bf16" if document["machine"]["gpu"] else "",
        weightings=found["weightings"],
        untrained="" if found["trained"] else " Networks were not trained, which changes no operation.",
        calls=found["calls"],
        times=table(["", "time", "forward passes", "peak memory", "paper"], rows),
    )
