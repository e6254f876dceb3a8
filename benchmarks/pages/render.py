"""Write docs/results and the results section of README.md from the records.

    python benchmarks/pages/render.py            # write the pages
    python benchmarks/pages/render.py --check    # fail if a page differs from what the records say (a test runs this)

A page is a Markdown template in templates/: its sentences are written by hand, its numbers are computed from the
records. Where a sentence depends on numbers, the template chooses it with {% if %}, or calls `holds(...)`, which fails
when the numbers no longer support the sentence.
"""

from __future__ import annotations

import argparse
import operator
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

if not __package__:  # called as a script: import from the root of the repository
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from benchmarks.harness.comparison import listed_seeds
from benchmarks.harness.formats import duration, emphasis, listed
from benchmarks.harness.provenance import (
    experiments,
    measured_on,
    measured_with,
    read_records,
    recompressed,
    seconds_spent,
)
from benchmarks.pages import inclusion_numbers

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "results"
README = ROOT / "README.md"
BEGIN, END = "<!-- results: made by benchmarks/pages/render.py -->", "<!-- end of results -->"
TITLES = {"cifar10": "CIFAR-10", "fashion_mnist": "Fashion-MNIST", "svhn": "SVHN"}


def spread(summary: Sequence[float] | Mapping[str, float], digits: int = 3) -> str:
    """Mean and standard deviation, from a pair or from a dictionary of both."""
    mean, deviation = summary.values() if isinstance(summary, Mapping) else summary
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def over_seeds(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation of the figures of several seeds."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def fixed(value: float, digits: int = 2) -> str:
    """Return a number with so many decimals, never "-0"."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def percent(share: float, digits: int = 0) -> str:
    """Return a share in percent."""
    return f"{fixed(100 * share, digits)} %"


def gain(share: float, digits: int = 1) -> str:
    """Return a relative difference in percent, with its sign."""
    return f"{round(100 * share, digits) + 0.0:+.{digits}f} %"


def interval(found: Sequence[float] | None) -> str:
    """Return a relative difference with its 95 % interval."""
    return "" if found is None else f"{gain(found[0])} ({100 * found[1]:+.1f} to {100 * found[2]:+.1f})"


def span(values: Sequence[float], form: str) -> str:
    """Smallest and largest of some numbers, each in a form such as ".2f"."""
    low, high = (f"{value:{form}}".replace("%", " %") for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def grouped(value: float) -> str:
    """Return a whole number with separators of thousands."""
    return f"{value:,.0f}"


def sort_by_emphasis(weightings: Iterable[str]) -> list[str]:
    """Return weightings from small coalitions to large ones."""
    return sorted(weightings, key=emphasis)


def sum_values(numbers: Mapping[str, float]) -> float:
    """Return the sum of the values of a dictionary."""
    return sum(numbers.values())


def holds(condition: object) -> None:
    """Fail if the numbers no longer support the sentence that follows in a template."""
    if not condition:
        raise ValueError("the numbers no longer support the sentence after this holds(...): rewrite it")


FILTERS = {
    "duration": duration,
    "fixed": fixed,
    "gain": gain,
    "grouped": grouped,
    "interval": interval,
    "item": operator.getitem,  # map(attribute="128") would look for the number 128
    "listed": listed,
    "over_seeds": over_seeds,
    "percent": percent,
    "span": span,
    "sort_by_emphasis": sort_by_emphasis,
    "spread": spread,
    "sum_values": sum_values,
}
HELPERS = {
    "holds": holds,
    "inclusion": inclusion_numbers,
    "listed_seeds": listed_seeds,
    "measured_on": measured_on,
    "measured_with": measured_with,
    "recompressed": recompressed,
    "seconds_spent": seconds_spent,
    "titles": TITLES,
}


def make_environment() -> Environment:
    """Templates, filters and helpers; an unknown name in a template is an error."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        extensions=["jinja2.ext.do"],
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - Markdown of our own
    )
    environment.filters.update(FILTERS)
    environment.globals.update(HELPERS)
    return environment


def render_pages() -> dict[Path, str]:
    """Return the text of every page by its path, and of README.md with a new results section."""
    environment = make_environment()
    by_experiment = {name: read_records(name) for name in experiments()}
    records = {stem: document for documents in by_experiment.values() for stem, document in documents.items()}
    recorded = [name for name, documents in by_experiment.items() if documents]  # others have no page yet
    pages = {
        PAGES / f"{name}.md": tidy(environment.get_template(f"{name}.md").render(records=records))
        for name in ("index", "paper_claims", *recorded)
    }
    before, rest = README.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    section = tidy(environment.get_template("readme.md").render(records=records))
    return pages | {README: f"{before}{BEGIN}\n{section}{END}{after}"}


def tidy(text: str) -> str:
    """Return a text without spaces at the ends of lines and blank lines at its end."""
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n")) + "\n"


def main(options: Sequence[str]) -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(allow_abbrev=False, description="Write docs/results and README.md's results.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    check = parser.parse_args(options).check
    pages = render_pages()
    for path, text in pages.items():
        current = path.read_text(encoding="utf-8") if path.exists() else ""
        if check and current != text:
            sys.exit(f"{path.relative_to(ROOT)} is out of date: run python benchmarks/pages/render.py")
        if current != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if not check:
        for path in set(PAGES.glob("*.md")) - pages.keys():
            path.unlink()  # of an experiment that is gone


if __name__ == "__main__":
    main(sys.argv[1:])
