"""What the results page says of what data values cost: the paper's Table 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from page_text import duration, listed, preliminary, table
from provenance import calls_text

TIMES = """## What data values cost: the paper's Table 2

{speedup}

{preliminary}Every method values the same {points:,} training images of SVHN for the same {references:,} references, its
whole test set: 512 features ({features}), K = {k}, all on one machine: {machine}. The first row, which all the others
need and none includes, is of {images:,} images. "~" is extrapolated to one contribution of every image, from what was
measured; values of any use take many times that. A learned network's time to learn comes second; "improved" is ours,
which is taught by exact values of every point under every label at many weightings, and works these out first. Methods
that retrain use one core of the processor. Each was timed once. The paper's times are minutes on a GTX 1080.

{times}

![Seconds by method](figures/table2.png)

{command}, {date}.
"""

TIMES_FASTER = 14
EXACT, EXACT_VOTE, PUBLISHED = "KNN-Shapley", "KNN-Shapley, vote", "learned, published"


def times_section(document: Mapping[str, Any]) -> str:
    """Return the section on time."""
    found = document["results"]
    rows = found["rows"]
    usual = next((row for row in rows if row["references"]), rows[0])
    images = next((row["points"] for row in rows if not row["references"]), usual["points"] + usual["references"])
    return TIMES.format(
        preliminary=preliminary(f"{listed(found['missing'])} not timed yet" if found["missing"] else ""),
        points=usual["points"],
        references=usual["references"],
        images=images,
        features=found["features"],
        k=found["k"],
        machine=listed(found["machines"]),
        times=table(*time_rows(found)),
        speedup=speedup_text(rows),
        command=calls_text(document),
        date=document["date"][:10],
    )


def time_rows(found: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Seconds of each method, beside the paper's minutes."""
    lines = []
    for row in found["rows"]:
        about = "~" if row["extrapolated"] else ""
        learning = f" + {duration(row['learning'])}" if "learning" in row else ""
        paper = found["paper minutes"].get(row["method"], "")
        measured = row["extrapolated"] or "whole"
        lines.append([row["method"], f"{about}{duration(row['seconds'])}{learning}", measured, paper])
    return ["", "time", "measured", "paper, min"], lines


@dataclass(frozen=True)
class Speed:
    """Seconds of exact values and of the paper's network.

    Attributes:
        exact: KNN-Shapley, the soft utility.
        vote: the same of the vote, which the network learns, if it was timed.
        learning: of the network.
        asking: values of all points, once it has learnt.
    """

    exact: float
    vote: float | None
    learning: float
    asking: float

    @staticmethod
    def of(rows: Sequence[Mapping[str, Any]]) -> Speed | None:
        """Return what was timed, if both were."""
        times = {row["method"]: row for row in rows}
        if not {EXACT, PUBLISHED} <= times.keys():
            return None
        learned, vote = times[PUBLISHED], times.get(EXACT_VOTE, {})
        return Speed(times[EXACT]["seconds"], vote.get("seconds"), learned["learning"], learned["seconds"])

    @property
    def verdict(self) -> str:
        """How many times as fast the network is as KNN-Shapley."""
        once, together = self.exact / self.asking, self.exact / (self.asking + self.learning)
        whole = f"{together:.2g} times as fast" if together > 1 else f"{1 / together:.2g} times as slow"
        return f"{once:.2g} times as fast once it has learnt, {whole} with learning"


def speedup_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Is a learned network 14 times as fast as KNN-Shapley, as the paper says?"""
    speed = Speed.of(rows)
    if speed is None:
        return "Exact and learned values are not both timed yet."
    vote = "was not timed" if speed.vote is None else f"takes {duration(speed.vote)}"
    return (
        f"Is the paper's network {TIMES_FASTER} times as fast as KNN-Shapley? Exact values take "
        f"{duration(speed.exact)}; the network learns for {duration(speed.learning)}, then takes "
        f"{duration(speed.asking)}: {speed.verdict}. How long it learns was our choice. KNN-Shapley has the soft "
        f"utility; that of the vote, which the network learns, {vote}."
    )
