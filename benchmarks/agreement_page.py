"""What the pages say of learned values beside long-run references, from benchmarks/results/agreement.json."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from agreement import ITS_SEED, is_known
from page_text import emphasis, listed, rounded, table
from provenance import provenance, without_folders

Runs = Mapping[str, Sequence[Mapping[str, Any]]]
"""What was recorded of each run, by seed."""

USUAL, LOG_ODDS, LARGE = "2 minutes", "2 minutes, log odds", "Beta(1, 4)"
LEARNT = 0.5
"""Correlation below which a weighting is called not learnt."""

PAGE = """## Learned values against long-run references: CIFAR-10

A ResNet-18 ({accuracies} accurate, retrained with surrogates and references for each sitting at the GPU; 40 epochs, 24
for "uneven") and 256 players of 2 x 2 pixels. Pearson correlation over players with references of {calls:,} game calls,
for the predicted class, mean over {images} test images; the ceiling is what the agreement of the references' halves
allows. One network is trained for all weightings, for the GPU time named{seeds}.

{cifar}

![Correlation by weighting](figures/agreement.png)

"Uneven" gives all probabilities t, with which players take part, the weight that the plain loss gives them, instead of
dividing by the root of its level ([math.md](math.md), section 3); it was held against references in bf16, whose
rounding is as large as what one player adds to a large coalition, so that beta above 1 is left out.{large}
"FastSHAP" is the kernel objective for Shapley values with the paper's UNet. "Class mean" explains every image by the
mean explanation of its class.

How well such a network finds what matters is in the next section.

{provenance}{others}
"""


def agreement_section(document: Mapping[str, Any]) -> str:
    """Return the section, from what was recorded."""
    found = document["results"]
    runs, seeds = by_run(found["runs"]), len(document["seeds"])
    commands = dict.fromkeys(without_folders(run["how"]["command"]) for run in found["runs"].values())
    others = [f"`{each}`" for each in commands if each != without_folders(document["command"])]
    return PAGE.format(
        accuracies=between([run["accuracy"] for run in found["runs"].values()]),
        calls=found["calls"],
        images=found["images"],
        seeds="; one seed" if seeds == 1 else f"; mean and standard deviation over up to {seeds} seeds",
        cifar=cifar_table(runs),
        large=large_text(runs),
        provenance=provenance(document),
        others=f" Other runs are by {listed(others)}." if others else "",
    )


def agreement_text(document: Mapping[str, Any]) -> str:
    """What the first page says of the explainer on CIFAR-10."""
    runs = by_run(document["results"]["runs"])
    minutes = {run: rows for run, rows in runs.items() if re.fullmatch(r"\d+ minutes", run)}
    weightings = ("Beta(16, 1)", "Beta(4, 1)", "Shapley", "Beta(1, 4)", "Beta(1, 16)")
    found = "; ".join(
        f"{name} {', '.join(f'{statistics.fmean(known):.2f}' for known in several)}"
        for name in weightings
        if (several := [known for rows in minutes.values() if (known := correlations(rows, name))])
    )
    times = listed(run.removesuffix(" minutes") for run in minutes)
    accuracies = between([run["accuracy"] for rows in minutes.values() for run in rows])
    seeds = "one seed each" if len(document["seeds"]) == 1 else f"up to {len(document['seeds'])} seeds each"
    return (
        f"One network for every weighting of a ResNet-18 on CIFAR-10 ({accuracies} accurate, 256 players): after "
        f"{times} minutes on one {document['machine']['gpu']}, correlation with long sampling is, from small "
        f"coalitions to large: {found} ({seeds}; large coalitions are hard to learn: [all figures](docs/results.md))."
    )


def by_run(found: Mapping[str, Mapping[str, Any]]) -> Runs:
    """Return what was recorded of each run, one for each seed."""
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for name, row in found.items():
        runs.setdefault(ITS_SEED.sub("", name), []).append(row)
    return runs


def cifar_table(runs: Runs) -> str:
    """Correlation by weighting and run."""
    every = [row for rows in runs.values() for row in rows]
    whole = next(row for row in every if len(row["agreement"]) > 1)["agreement"]
    means = next(row["class mean"] for row in reversed(every) if "class mean" in row)
    rows = [
        [
            name,
            *(pearson(rows, name) for rows in runs.values()),
            f"{means[name]:.2f}",
            f"{whole[name]['ceiling']:.2f}",
        ]
        for name in sorted(whole, key=emphasis)
    ]
    return table(["weighting", *runs, "class mean", "ceiling"], rows)


def pearson(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    """Correlation, mean over seeds with its spread, or nothing where it is not known."""
    known = correlations(rows, name)
    spread = f" ± {statistics.stdev(known):.2f}" if len(known) > 1 else ""
    return f"{rounded(statistics.fmean(known), 2)}{spread}" if known else ""


def correlations(rows: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """By seed; none where a run has not learnt the weighting or its references do not know it."""
    return [row["agreement"][name]["pearson"] for row in rows if is_known(row, name)]


def large_text(runs: Runs) -> str:
    """Say whether weightings of large coalitions are learnt, and whether log odds help."""
    known = {run: statistics.fmean(found) for run, rows in runs.items() if (found := correlations(rows, LARGE))}
    if not known or max(known.values()) >= LEARNT:
        return ""
    text = (
        f" Large beta is where this network fails, with {max(known.values()):.2f} at best for {LARGE}: the class is "
        "nearly certain once most of the image is seen, and what little is left to explain is not learnt."
    )
    if not {USUAL, LOG_ODDS} <= known.keys():
        return text
    verdict = "help" if known[LOG_ODDS] > known[USUAL] else "do not help"
    return f"{text} Log odds, which do not saturate, {verdict} ({known[LOG_ODDS]:.2f} beside {known[USUAL]:.2f})."


def between(shares: Sequence[float]) -> str:
    """Lowest and highest share, in percent."""
    return f"{100 * min(shares):.1f} to {max(shares):.1%}"
