"""What the results page says of refining explanations, from benchmarks/results/refinement.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from page_text import spread, table
from provenance import provenance

REFINED = "128"

PAGE = """## Refining an explanation by sampled coalitions

Relative error (nRMSE, all outputs) of Shapley values on inputs that were not trained on: the network alone; `refine`
with {refined} calls an input; and how many times more calls other methods need for that error. Mean and standard
deviation over {seeds} seeds; references are enumerated for 16 players, long least-squares runs otherwise.
"Three at once" is `refine` for three weightings that share the calls.
"Within two standard errors": share of refined values. "Errors foreseen": rank correlation of expected and measured
errors over held-out inputs and outputs (`calibrate`), and over inputs alone for the output that is most likely.

{refinement}

![Error against calls](figures/refinement.png)

The last column is the weak one: which outputs of an input are uncertain is easily foreseen, which inputs are uncertain
in their most likely output much less so.

{provenance}
"""


def refinement_section(document: Mapping[str, Any]) -> str:
    """Return the section, from what was recorded."""
    return PAGE.format(
        refined=REFINED,
        seeds=len(document["seeds"]),
        refinement=refinement_table(document["results"]),
        provenance=provenance(document),
    )


def refinement_table(found: Mapping[str, Any]) -> str:
    """What refinement gains, by game, for Shapley values."""
    rows = []
    for game, results in found.items():
        others = ("refine, three at once", "without the network", "least squares", "shap KernelExplainer")
        ratios = [results["calls ratio"].get(method, {}).get("Shapley", {}).get(REFINED) for method in others]
        most = [max(map(int, results["error"][method])) for method in others]
        calibrated = results["calibration"]["Shapley"]
        rows.append(
            [
                game,
                spread(results["network"]["Shapley"], digits=2),
                spread(results["error"]["refine"][REFINED]["Shapley"], digits=2),
                *(
                    f"beyond {calls} calls" if ratio is None else spread(ratio, digits=1)
                    for ratio, calls in zip(ratios, most, strict=True)
                ),
                f"{results['coverage of two standard errors'][REFINED][0]:.0%}",
                spread(calibrated["spearman"], digits=2),
                spread(calibrated["spearman_top"], digits=2),
            ]
        )
    header = [
        "network alone",
        f"refined, {REFINED} calls",
        "calls three at once",
        "without the network",
        "least squares",
        "KernelSHAP (shap)",
    ]
    return table(["", *header, "within two standard errors", "errors foreseen", "by inputs alone"], rows)
