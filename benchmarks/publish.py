"""Writes what the recorded results say into docs/results.md and the README, so that no figure is ever typed.

python benchmarks/publish.py            # rewrite both
python benchmarks/publish.py --check    # fail if they differ from the recorded results (the tests do this)
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from fwshapley.files import written_whole

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
BEGIN, END = "<!-- results: made by benchmarks/publish.py -->", "<!-- end of results -->"

LABELS = (
    "least squares",
    "permutations",
    "permutations, one way",
    "multilinear",
    "shapiq KernelSHAP",
    "shapiq KernelSHAP, paired",
    "shapiq permutations",
)

README_SECTION = """\
![Relative error against game calls](docs/figures/core.png)

On six games of 12 and 16 players, at the Shapley value, `least_squares_values` needs {best:.2f} to {worst:.2f} times
the game calls of shapiq's better KernelSHAP for the same error (geometric means over instances, at worst {highest:.2f}
on one of them; {seeds} seeds each; [all figures](docs/results.md)). Unlike KernelSHAP it works for every weighting and
gives standard errors."""

RESULTS_PAGE = """\
# Results

Made from `benchmarks/results/*.json` by `python benchmarks/publish.py`; a test fails when they differ.

## Estimators: error against game calls

Game calls that each method needs for the error that the better of shapiq's two KernelSHAPs reaches with its own, as
a geometric mean over budgets and instances of the game, in brackets the range over instances: below 1 is better. At
the Shapley value, which all of them can estimate.

{calls}

![Relative error against game calls](figures/core.png)

Least squares is the one to use. Permutations and the multilinear extension give n contributions for n calls, where
least squares learns about every player from every call; they are unbiased, and checks on it. Walking an order
backwards too pays on smooth games (forest) and is wasted where a coalition and its complement decide alike (voting):
`permutation_values(antithetic=False)`, one way, is for those.

{core_provenance}

## The core's own cost

Exact values of nine weightings in one pass, over calling a game that only looks values up:

{enumeration}

Coalitions of given sizes, one argsort and a scatter against the usual two argsorts:

{sampling}

Weights of Beta(16, 1) for {players:,} players: log weights {log_weights:.0f} ms, log kernel {log_kernel:.0f} ms, size
law {size_law:.0f} ms; w(s) sums to 1 within {rounding:.1g}.

## Lemma 5.1 and the paper's kernel

The figures and what they mean are in [math.md](math.md#4-where-the-paper-is-inexact).

{lemma_provenance}
"""


def load(name: str) -> dict[str, Any]:
    """One benchmark's recorded document."""
    document: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return document


def provenance(document: dict[str, Any]) -> str:
    """One line on where the figures come from."""
    machine, versions = document["machine"], document["versions"]
    where = machine["gpu"] or f"{machine['cores']} cores of {machine['processor']}"
    packages = ", ".join(f"{name} {version}" for name, version in versions.items() if name != "fwshapley")
    seeds = len(document["seeds"])
    return (
        f"`{document['command']}`, {where}, {document['wall_time_s']:.0f} s, {seeds} seed{'s' * (seeds != 1)}, "
        f"{document['date'][:10]}; {packages}."
    )


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, first column left and the others right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def calls_table(core: dict[str, Any]) -> str:
    """Calls needed relative to the better KernelSHAP, by game and method, with the range over instances."""
    rows = [
        [f"{game}, n = {n}", *(with_range(by_method[label]) for label in LABELS)]
        for n, games in core["results"]["calls_ratio"].items()
        for game, by_method in games.items()
    ]
    return table(["game", *LABELS], rows)


def with_range(ratio: dict[str, float]) -> str:
    """Mean, and lowest and highest."""
    return f"{ratio['mean']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"


def readme_section() -> str:
    """What the first page says of the estimators."""
    core = load("core")
    ratios = [row["least squares"] for games in core["results"]["calls_ratio"].values() for row in games.values()]
    means = [ratio["mean"] for ratio in ratios]
    return README_SECTION.format(
        best=min(means), worst=max(means), highest=max(ratio["high"] for ratio in ratios), seeds=len(core["seeds"])
    )


def results_page() -> str:
    """All of docs/results.md."""
    core, lemma = load("core"), load("lemma")
    found = core["results"]
    enumeration = [
        [
            str(row["players"]),
            f"{row['bare_game_s']:.3f}",
            f"{row['exact_values_s']:.3f}",
            f"{row['us_per_coalition']:.2f}",
        ]
        for row in found["enumeration"]
    ]
    sampling = [
        [
            f"{row['coalitions']} of {row['players']} players",
            f"{1e3 * row['ours_s']:.2f}",
            f"{1e3 * row['two_argsorts_s']:.2f}",
            f"{row['two_argsorts_s'] / row['ours_s']:.2f}",
        ]
        for row in found["sampling"]
    ]
    weights = found["weights"]
    return RESULTS_PAGE.format(
        calls=calls_table(core),
        core_provenance=provenance(core),
        enumeration=table(
            ["players", "bare game, s", "exact values, s", "µs a coalition beyond the game"], enumeration
        ),
        sampling=table(["drawn", "ours, ms", "two argsorts, ms", "ratio"], sampling),
        players=weights["players"],
        log_weights=1e3 * weights["log_weights_s"],
        log_kernel=1e3 * weights["log_kernel_s"],
        size_law=1e3 * weights["size_law_s"],
        rounding=max(abs(weights["sum_minus_one"]), sys.float_info.epsilon),
        lemma_provenance=provenance(lemma),
    )


def readme_page() -> str:
    """README with its results section made anew."""
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{readme_section()}\n{END}{after}"


def main() -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="only say which pages are out of date")
    check = parser.parse_args().check
    for path, text in ((README, readme_page()), (ROOT / "docs" / "results.md", results_page())):
        current = path.read_text(encoding="utf-8") if path.exists() else ""
        if check and current != text:
            sys.exit(f"{path.relative_to(ROOT)} differs from the recorded results: run python benchmarks/publish.py")
        if current != text:
            with written_whole(path) as temporary:
                temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
