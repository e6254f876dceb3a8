"""What the pages say of sampled values, of what the core itself costs, and of Lemma 5.1: core.json and lemma.json."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from page_text import listed, table
from provenance import provenance

LABELS = (
    "least squares",
    "permutations",
    "permutations, one way",
    "multilinear",
    "shapiq KernelSHAP",
    "shapiq KernelSHAP, paired",
    "shapiq permutations",
)

PAGE = """## Estimators: error against game calls

Game calls that each method needs for the error that the better of shapiq's two KernelSHAPs reaches with its own, as
a geometric mean over budgets and instances of the game, in brackets the range over instances: below 1 is better. At
the Shapley value, which all of them can estimate.

{calls}

![Relative error against game calls](figures/core.png)

Least squares is the one to use. Permutations and the multilinear extension give n contributions for n calls, where
least squares learns about every player from every call; they are unbiased, and checks on it. Walking an order
backwards too pays on smooth games (forest) and is wasted where a coalition and its complement decide alike (voting):
`permutation_values(antithetic=False)`, one way, is for those.

{provenance}

## The core's own cost

Exact values of nine weightings in one pass, over calling a game that only looks values up:

{enumeration}

Coalitions of given sizes, one argsort and a scatter against the usual two argsorts:

{sampling}

Weights of Beta(16, 1) for {players:,} players: log weights {log_weights:.0f} ms, log kernel {log_kernel:.0f} ms, size
law {size_law:.0f} ms; w(s) sums to 1 within {rounding:.1g}.
"""

LEMMA = """## Lemma 5.1 and the paper's kernel

The figures and what they mean are in [math.md](math.md#4-where-the-paper-is-inexact).

{provenance}
"""

TEXT = """\
On {games} games of {players} players, at the Shapley value, `least_squares_values` needs {best:.2f} to {worst:.2f}
times the game calls of shapiq's better KernelSHAP for the same error (geometric means over instances, at worst
{highest:.2f} on one of them; {seeds} seeds each; [all figures](docs/results.md)). Unlike KernelSHAP it works for every
weighting and gives standard errors."""


def core_section(document: Mapping[str, Any]) -> str:
    """Return the sections on estimators and on the core's own cost, from what was recorded."""
    found = document["results"]
    weights = found["weights"]
    return PAGE.format(
        calls=calls_table(found),
        provenance=provenance(document),
        enumeration=enumeration_table(found),
        sampling=sampling_table(found),
        players=weights["players"],
        log_weights=1e3 * weights["log_weights_s"],
        log_kernel=1e3 * weights["log_kernel_s"],
        size_law=1e3 * weights["size_law_s"],
        rounding=max(abs(weights["sum_minus_one"]), sys.float_info.epsilon),
    )


def lemma_section(document: Mapping[str, Any]) -> str:
    """Return the section on Lemma 5.1, whose figures are on another page."""
    return LEMMA.format(provenance=provenance(document))


def core_text(document: Mapping[str, Any]) -> str:
    """What the first page says."""
    found = document["results"]["calls_ratio"]
    ratios = [row["least squares"] for games in found.values() for row in games.values()]
    means = [ratio["mean"] for ratio in ratios]
    return TEXT.format(
        best=min(means),
        worst=max(means),
        highest=max(ratio["high"] for ratio in ratios),
        seeds=len(document["seeds"]),
        games=len(next(iter(found.values()))),
        players=listed(found),
    )


def calls_table(found: Mapping[str, Any]) -> str:
    """Calls needed relative to the better KernelSHAP, by game and method, with the range over instances."""
    rows = [
        [f"{game}, n = {n}", *(with_range(by_method[label]) for label in LABELS)]
        for n, games in found["calls_ratio"].items()
        for game, by_method in games.items()
    ]
    return table(["game", *LABELS], rows)


def with_range(ratio: Mapping[str, float]) -> str:
    """Mean, and lowest and highest."""
    return f"{ratio['mean']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"


def enumeration_table(found: Mapping[str, Any]) -> str:
    """Time of exact values beside that of the game, by players."""
    rows = [
        [
            str(row["players"]),
            f"{row['bare_game_s']:.3f}",
            f"{row['exact_values_s']:.3f}",
            f"{row['us_per_coalition']:.2f}",
        ]
        for row in found["enumeration"]
    ]
    return table(["players", "bare game, s", "exact values, s", "µs a coalition beyond the game"], rows)


def sampling_table(found: Mapping[str, Any]) -> str:
    """Time of drawing coalitions, in two ways."""
    rows = [
        [
            f"{row['coalitions']} of {row['players']} players",
            f"{1e3 * row['ours_s']:.2f}",
            f"{1e3 * row['two_argsorts_s']:.2f}",
            f"{row['two_argsorts_s'] / row['ours_s']:.2f}",
        ]
        for row in found["sampling"]
    ]
    return table(["drawn", "ours, ms", "two argsorts, ms", "ratio"], rows)
