"""What the pages say of learned values beside long-run references, from benchmarks/results/agreement.json."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agreement import is_known
from page_text import emphasis, listed, table
from provenance import provenance

PAGE = """## Learned values against long-run references: CIFAR-10

A ResNet-18 ({accuracies} accurate, retrained with surrogates and references for each sitting at the GPU; 40 epochs, 24
for "uneven") and 256 players of 2 x 2 pixels. Pearson correlation over players with references of {calls:,} game calls,
for the predicted class, mean over {images} test images; the ceiling is what the agreement of the references' halves
allows. One network is trained for all weightings, for the GPU time named; one seed.

{cifar}

![Correlation by weighting](figures/agreement.png)

"Uneven" gives all probabilities t, with which players take part, the weight that the plain loss gives them, instead of
dividing by the root of its level ([math.md](math.md), section 3); it was held against references in bf16, whose
rounding is as large as what one player adds to a large coalition, so that beta above 1 is left out. Large beta is where
this network fails: the class is nearly certain once most of the image is seen, little is left to explain, and that
little is not learnt. Log odds, which do not saturate, do not help.
"FastSHAP" is the kernel objective for Shapley values with the paper's UNet. "Class mean" explains every image by the
mean explanation of its class.

The table joins runs of several sittings; the command below is of one of them. How well such a network finds what
matters is in the next section.

{provenance}
"""


def agreement_section(document: Mapping[str, Any]) -> str:
    """Return the section, from what was recorded."""
    found = document["results"]
    return PAGE.format(
        accuracies=between([run["accuracy"] for run in found["runs"].values()]),
        calls=found["calls"],
        images=found["images"],
        cifar=cifar_table(found),
        provenance=provenance(document),
    )


def agreement_text(document: Mapping[str, Any]) -> str:
    """What the first page says of the explainer on CIFAR-10."""
    minutes = {run: found for run, found in document["results"]["runs"].items() if re.fullmatch(r"\d+ minutes", run)}
    weightings = ("Beta(16, 1)", "Beta(4, 1)", "Shapley", "Beta(1, 4)")
    found = "; ".join(
        f"{name} {', '.join(f'{value:.2f}' for value in known)}"
        for name in weightings
        if (known := [float(value) for rows in minutes.values() if (value := pearson(rows, name))])
    )
    times = listed(run.removesuffix(" minutes") for run in minutes)
    return (
        "One network for every weighting of a ResNet-18 on CIFAR-10 "
        f"({between([rows['accuracy'] for rows in minutes.values()])} accurate, 256 players): after {times} minutes on "
        f"one {document['machine']['gpu']}, correlation with long sampling is, from small coalitions to large: {found} "
        "(one seed each; large coalitions are the hard ones: [all figures](docs/results.md))."
    )


def cifar_table(agreement: Mapping[str, Any]) -> str:
    """Correlation by weighting and run."""
    runs = agreement["runs"]
    whole = next(run for run in runs.values() if len(run["agreement"]) > 1)["agreement"]
    means = next(run["class mean"] for run in reversed(runs.values()) if "class mean" in run)
    rows = [
        [
            name,
            *(pearson(run, name) for run in runs.values()),
            f"{means[name]:.2f}",
            f"{whole[name]['ceiling']:.2f}",
        ]
        for name in sorted(whole, key=emphasis)
    ]
    return table(["weighting", *runs, "class mean", "ceiling"], rows)


def pearson(run: Mapping[str, Any], name: str) -> str:
    """Correlation, or nothing where a run has not learnt the weighting or its references do not know it."""
    return f"{run['agreement'][name]['pearson']:.2f}" if is_known(run, name) else ""


def between(shares: Sequence[float]) -> str:
    """Lowest and highest share, in percent."""
    return f"{100 * min(shares):.1f} to {max(shares):.1%}"
