"""What the pages say of learned values against enumeration, from benchmarks/results/enumeration.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from page_text import hardware, listed, spread, table
from provenance import provenance

SHOWN_WEIGHTS = ("Beta(16, 1)", "Beta(4, 1)", "Shapley", "Beta(1, 4)", "Beta(1, 16)")

PAGE = """## Learned values against enumeration: digits and a table

{training} of training on {cores}, surrogate included; inputs that were not trained on are held against enumeration
of the same game. Pearson correlation and, in brackets, relative error (nRMSE), both of values centred over
players, mean over {seeds} seeds with standard deviation. "One weighting" is the kernel objective trained as long as the
other's explainer; "sampled" is least squares with the game calls that take as long as one explanation or, where
that is less, the fewest it accepts ({sampled_calls}).

{enumerated}

![Agreement with enumeration](figures/enumeration.png)

The identity behind training without ground truth (Prop. 2.2): excess loss on shared coalitions, in units of the error,
against the error itself, for explainers on their way.

![Excess loss against squared error](figures/identity.png)

{provenance}
"""

TEXT = """On digits (16 players), where every value can be enumerated, {training} on {cores}
give a correlation of {digits} at {weightings} on held-out images, mean over {seeds} seeds.{sampled}"""

EVERY, SAMPLED = "every weighting", "sampled in equal time"


def enumeration_section(document: Mapping[str, Any]) -> str:
    """Return the section, from what was recorded."""
    games = {game: results for game, results in document["results"].items() if game != "identity"}
    calls = [facts["game calls of the sampled"] for results in games.values() for facts in results["facts"]]
    return PAGE.format(
        seeds=len(document["seeds"]),
        sampled_calls=f"{min(calls)} to {max(calls)}",
        enumerated=enumeration_table(games),
        **setting_of(document),
        provenance=provenance(document),
    )


def enumeration_text(document: Mapping[str, Any]) -> str:
    """What the first page says."""
    agreement = document["results"]["digits, probability"]["agreement"]
    found = agreement[EVERY]
    return TEXT.format(
        digits=", ".join(f"{found[name]['pearson'][0]:.2f}" for name in SHOWN_WEIGHTS),
        weightings=listed(SHOWN_WEIGHTS),
        seeds=len(document["seeds"]),
        sampled=sampled_text(found, agreement[SAMPLED]),
        **setting_of(document),
    )


def setting_of(document: Mapping[str, Any]) -> dict[str, str]:
    """How long was trained, at most, and on what."""
    games = [found for game, found in document["results"].items() if game != "identity"]
    seconds = max(sum(facts["seconds"].values()) for found in games for facts in found["facts"])
    return {"training": f"{round(seconds, -1):.0f} s", "cores": hardware(document["machine"])}


def sampled_text(learned: Mapping[str, Any], sampled: Mapping[str, Any]) -> str:
    """Say at which of the weightings shown sampling in as much time as an explanation takes does better, if at any."""
    closer = [name for name in SHOWN_WEIGHTS if sampled[name]["pearson"][0] > learned[name]["pearson"][0]]
    smaller = [name for name in SHOWN_WEIGHTS if sampled[name]["nrmse"][0] < learned[name]["nrmse"][0]]
    correlations = ", ".join(f"{sampled[name]['pearson'][0]:.2f}" for name in closer)
    told = [f"correlates better at {listed(closer)} ({correlations})"] if closer else []
    told += [f"has the smaller error at {listed(smaller)}"] if smaller else []
    if not told:
        return ""
    return (
        f" Least squares sampled as long as one explanation takes, or with the fewest calls it accepts, {listed(told)}."
    )


def enumeration_table(games: Mapping[str, Any]) -> str:
    """Agreement with enumeration, by game, method and weighting."""
    rows = []
    for game, results in games.items():
        for method, by_weights in results["agreement"].items():
            cells = [mean_and_error(by_weights.get(name)) for name in SHOWN_WEIGHTS]
            rows.append([f"{game}: {method}", *cells])
    return table(["", *SHOWN_WEIGHTS], rows)


def mean_and_error(row: Mapping[str, list[float]] | None) -> str:
    """Correlation with its spread, and relative error."""
    return "" if row is None else f"{spread(row['pearson'])} ({row['nrmse'][0]:.2f})"
