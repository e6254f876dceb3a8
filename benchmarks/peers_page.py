"""What the results page says of a thousand explanations beside shap and captum, from benchmarks/results/peers.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from page_text import table
from provenance import provenance

MANY_INPUTS = 1000

PAGE = """## A thousand explanations: beside shap and captum

Shapley values of the predicted class, on inputs that were not trained on. Every method that asks about coalitions asks
the same surrogate, with its own default number of calls; correlation over players with references of {calls:,}
calls on {inputs} inputs (in brackets the relative error, nRMSE), and seconds for {many:,} inputs; "~" is
extrapolated from fewer. Mean over seeds: {seeds}. Ours was trained for {seconds} s, surrogate included, and
explains all classes and weightings in that time. `refine` saves calls, which here cost next to nothing; its own sums
take the time. Gradient methods ask the network itself, so they answer another question; integrated gradients start
from a blank image. For trees alone, shap's TreeExplainer is exact and fast, for yet another game.

{peers}

![Correlation against time](figures/peers.png)

{sanity}

{provenance}
"""


def peers_section(document: Mapping[str, Any]) -> str:
    """Return the section, from what was recorded."""
    found = document["results"]
    return PAGE.format(
        **{name: found[name] for name in ("calls", "inputs", "many", "seconds")},
        seeds=len(document["seeds"]),
        peers=peers_table(found),
        sanity=sanity_text(found),
        provenance=provenance(document),
    )


def peers_table(found: Mapping[str, Any]) -> str:
    """Agreement and time of each method, by case."""
    cases = found["tables"]
    methods = dict.fromkeys(method for rows in cases.values() for method in rows if method != "ceiling")
    rows = [
        [method, *(cell for found_here in cases.values() for cell in peers_cells(found_here.get(method)))]
        for method in methods
    ]
    ceilings = [cell for rows in cases.values() for cell in (f"{rows['ceiling']['pearson']['mean']:.3f}", "")]
    header = [f"{case}: {what}" for case in cases for what in ("correlation", "time")]
    return table(["", *header], [*rows, ["ceiling of the references", *ceilings]])


def peers_cells(row: Mapping[str, Any] | None) -> list[str]:
    """Correlation with its spread and error; time, marked where it was extrapolated."""
    if row is None:
        return ["", ""]
    deviation = row["pearson"]["deviation"]
    varied = f" ± {deviation:.3f}" if deviation else ""
    agreed = f"{row['pearson']['mean']:.3f}{varied} ({row['nrmse']['mean']:.2f})"
    about = "" if row["measured"]["mean"] >= MANY_INPUTS else "~"
    return [agreed, f"{about}{row['seconds']['mean']:.3g} s"]


def sanity_text(found: Mapping[str, Any]) -> str:
    """What the sanity run found."""
    told = []
    for name, runs in found["sanity"].items():
        skills = [run["skill"] for run in runs]
        known = ", ".join("not defined" if skill is None else f"{skill:.2f}" for skill in skills)
        warned = f"{sum(run['report warns'] for run in runs)} of {len(runs)} reports warn"
        told.append(f"with {name} the skill is {known}, and {warned}")
    return (
        "A sanity run: gradient boosting on breast cancer, judged by the labels of held-out inputs. "
        f"By seed, {'; '.join(told)}. Skill is not defined where even the order of long sampling is no better than a "
        "random one."
    )
