"""The `fwshapley` command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.bar import Bar
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import fwshapley as fw
from fwshapley import valuation_report
from fwshapley.files import written_whole
from fwshapley.games.neighbours import Utility
from fwshapley.plots import new_figure, plot_weights
from fwshapley.tables import read_table
from fwshapley.tables.wording import counted
from fwshapley.valuation.distances import Metric

MOST_ROWS = 24
BAR_WIDTH = 12
PLOT_SUFFIXES = (".png", ".svg", ".pdf")

reading = partial(typer.Option, rich_help_panel="What is read")
writing = partial(typer.Option, rich_help_panel="What is written")
valuing = partial(typer.Option, rich_help_panel="How rows are valued")

LABEL_HELP = "Column of labels; an .npz file can do without."
REFERENCE_HELP = "Table of rows to be predicted, best known to be right. Without it rows are valued by each other."
UTILITY_HELP = (
    "What neighbours are worth: the share of k that has the right label (soft), the share of those there are "
    "(normalised), or whether it wins the vote."
)

INTERRUPTED = 130
"""Exit status of a command stopped by Ctrl-C."""

MANY_PAIRS = 10**10
"""Pairs of rows from which on a valuation takes a quarter of an hour or more on one core."""

app = typer.Typer(
    name="fwshapley",
    help="Weighted Shapley values.\n\n"
    "A semivalue credits each player of a game for what it adds to coalitions of the others; the weighting says "
    "which coalition sizes count. Start with: fwshapley weights --alpha 16 --beta 1 --players 12",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console()
errors = Console(stderr=True)


def show_version(wanted: bool) -> bool:  # noqa: FBT001 - typer calls it so
    """Print the version and stop, if wanted."""
    if wanted:
        console.print(f"fwshapley {fw.__version__}", highlight=False)
        raise typer.Exit
    return wanted


@app.callback()
def main(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """Weighted Shapley values."""
    del version  # its callback has dealt with it


@app.command()
def weights(
    alpha: Annotated[float, typer.Option(help="Larger favours small coalitions.")] = 1.0,
    beta: Annotated[float, typer.Option(help="Larger favours large coalitions.")] = 1.0,
    players: Annotated[int, typer.Option("--players", "-n", help="Number of players in the game.")] = 12,
    plot: Annotated[Path | None, typer.Option(help="Also draw them, beside Shapley's: FILE.png, .svg or .pdf.")] = None,
) -> None:
    """Show which coalition sizes count under Beta(alpha, beta)-weighted Shapley values.

    alpha = beta = 1 is the Shapley value, under which every size counts the same.
    """
    with _errors_explained():
        semivalue = fw.Beta(alpha=alpha, beta=beta)
        _check_plot(plot)
        console.print(_weights_table(semivalue, players))
        if plot is not None:
            both = [semivalue] if semivalue == fw.Shapley() else [semivalue, fw.Shapley()]
            figure = plot_weights(both, players)
            with written_whole(plot) as path:
                figure.savefig(path)
            console.print(f"plot written to [bold]{escape(str(plot))}[/bold]", highlight=False)


@app.command()
def value(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A .csv file, or an .npz file with arrays x and y.")],
    *,
    label: Annotated[str | None, reading("--label", "-l", metavar="COLUMN", help=LABEL_HELP)] = None,
    reference: Annotated[Path | None, reading("--reference", "-r", metavar="FILE", help=REFERENCE_HELP)] = None,
    ignore: Annotated[list[str] | None, reading(metavar="COLUMN", help="Column to leave out; may be repeated.")] = None,
    scale: Annotated[bool, reading(help="Standardise numbers, or use them as they are.")] = True,
    encoding: Annotated[str, reading(metavar="NAME", help="Of .csv files, such as cp1252.")] = "utf-8",
    alpha: Annotated[float, valuing(metavar="X", help="Larger favours small coalitions.")] = 1.0,
    beta: Annotated[float, valuing(metavar="X", help="Larger favours large ones; 1 and 1 is Shapley.")] = 1.0,
    k: Annotated[int, valuing("--k", "-k", min=1, metavar="N", help="Nearest neighbours that decide.")] = 5,
    utility: Annotated[Utility, valuing(help=UTILITY_HELP)] = "soft",
    metric: Annotated[Metric, valuing(help="How far two rows are apart.")] = "euclidean",
    jobs: Annotated[
        int | None, valuing("--jobs", "-j", min=1, metavar="N", help="Cores to use instead of all.")
    ] = None,
    out: Annotated[Path, writing("--out", "-o", metavar="FOLDER", help="Folder for the results.")],
    top: Annotated[int, writing(min=1, metavar="N", help="Suspicious rows to show.")] = 20,
    report: Annotated[bool, writing(help="Write report.html, which needs matplotlib.")] = True,
    force: Annotated[bool, writing("--force", help="Replace results that are in the folder.")] = False,
) -> None:
    """Find rows of a table whose label is probably wrong: what each row is worth to its neighbours.

    Numbers are standardised, categories and dates turned into numbers, and what was done is said.
    The folder gets ranking.csv with all rows, the most suspicious first, report.html and valuation.safetensors.

    Start with: fwshapley value train.csv --label species --out results
    """
    with _errors_explained():
        weights = fw.Beta(alpha=alpha, beta=beta)
        valuation_report.check_folder(out, report=report, force=force)
        if report:
            _check_matplotlib()
        rows = read_table(table, label, encoding=encoding, ignore=ignore or (), scale=scale)
        references = None if reference is None else rows.read_reference(reference, encoding=encoding)
        _warn_of_long_work(len(rows), len(rows if references is None else references))
        findings = valuation_report.value_table(
            rows, references, weights=weights, k=k, utility=utility, metric=metric, top=top, jobs=jobs
        )
        written = valuation_report.write(findings, out, report=report)
        valuation_report.show(findings, console)
        names = ", ".join(path.name for path in written)
        console.print(f"\nwritten to [bold]{escape(str(out))}[/bold]: {names}", highlight=False, soft_wrap=True)


@contextmanager
def _errors_explained() -> Iterator[None]:
    """Print what was wrong on one line, instead of where in the code it was met."""
    try:
        yield
    except (ValueError, OSError, ModuleNotFoundError) as error:
        errors.print(f"[bold red]error:[/bold red] {escape(str(error))}", highlight=False, soft_wrap=True)
        raise typer.Exit(code=2) from error
    except KeyboardInterrupt as error:
        errors.print("stopped")
        raise typer.Exit(INTERRUPTED) from error


def _check_matplotlib() -> None:
    try:
        new_figure(width=1, height=1)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error}; or do without the report: --no-report") from error


def _warn_of_long_work(rows: int, references: int) -> None:
    if rows * references > MANY_PAIRS:
        errors.print(
            f"{counted(rows, 'row')} for {counted(references, 'reference')} are many: this takes long. "
            "A --reference of some thousand rows would do.",
            highlight=False,
        )


def _check_plot(path: Path | None) -> None:
    if path is not None and path.suffix not in PLOT_SUFFIXES:
        raise ValueError(f"{path} must end in {', '.join(PLOT_SUFFIXES)}")


def _weights_table(semivalue: fw.Semivalue, n: int) -> Table:
    join, log_weights = semivalue.join_law(n), semivalue.log_weights(n)
    log_kernel, sampled = semivalue.log_kernel(n), semivalue.size_law(n)
    shown = range(n) if n <= MOST_ROWS else sorted({round(row * (n - 1) / (MOST_ROWS - 1)) for row in range(MOST_ROWS)})
    omitted = "" if len(shown) == n else f" ({len(shown)} of {n} sizes shown)"
    table = Table(
        title=f"{semivalue}, {n} player{'s' * (n > 1)}{omitted}",
        caption="w(s)  probability that the coalition a player joins has size s\n"
        "p(s)  weight of one such coalition\n"
        "m(s)  exact least-squares weight of one coalition of size s\n"
        "P(s)  probability that a coalition drawn for least squares has size s",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    for heading in ("s", "w(s)", "", "log p(s)", "log m(s)", "P(s)", ""):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for s in shown:
        inside = 0 < s < n
        table.add_row(
            str(s),
            f"{join[s]:.3g}",
            Bar(float(join.max()), 0, float(join[s]), width=BAR_WIDTH, color="blue"),
            f"{log_weights[s]:.6g}",
            f"{log_kernel[s - 1]:.6g}" if inside else "",
            f"{sampled[s - 1]:.3g}" if inside else "",
            Bar(float(sampled.max()), 0, float(sampled[s - 1]), width=BAR_WIDTH, color="green") if inside else "",
        )
    return table
