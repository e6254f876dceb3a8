"""`fwshapley weights`: how much each coalition size counts under a semivalue."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.bar import Bar
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

import fwshapley as fw
from fwshapley._internal.files import written_whole
from fwshapley.cli.console import console, errors_explained, print_line
from fwshapley.plots import plot_weights
from fwshapley.semivalues import check_players

MAX_ROWS = 24
BAR_WIDTH = 12
PLOT_SUFFIXES = (".png", ".svg", ".pdf")
PLOT_HELP = "Also draw the weights, next to those of the Shapley value: a .png, .svg or .pdf file."


def weights(
    alpha: Annotated[float, typer.Option(help="Larger: small coalitions count more.")] = 1.0,
    beta: Annotated[float, typer.Option(help="Larger: large coalitions count more.")] = 1.0,
    players: Annotated[int, typer.Option("--players", "-n", help="Number of players in the game.")] = 12,
    plot: Annotated[Path | None, typer.Option(help=PLOT_HELP)] = None,
) -> None:
    """Show how much each coalition size counts under the semivalue Beta(alpha, beta).

    alpha = beta = 1 is the Shapley value, under which every size counts the same.

    Start with: fwshapley weights --alpha 16 --beta 1 --players 12
    """
    with errors_explained():
        semivalue = fw.Beta(alpha, beta)
        check_players(players, name="--players")
        if plot is not None and plot.suffix not in PLOT_SUFFIXES:
            raise ValueError(f"--plot must end in {', '.join(PLOT_SUFFIXES)}; got {plot}")
        console.print(_weights_table(semivalue, players))
        if plot is not None:
            both = [semivalue] if semivalue == fw.Shapley() else [semivalue, fw.Shapley()]
            figure = plot_weights(both, players)
            with written_whole(plot) as path:
                figure.savefig(path)
            print_line(f"plot written to [bold]{escape(str(plot))}[/bold]")


def _weights_table(semivalue: fw.Semivalue, n: int) -> Table:
    join, log_weights = semivalue.join_law(n), semivalue.log_weights(n)
    log_kernel, sampled = semivalue.log_kernel(n), semivalue.size_law(n)
    shown = range(n) if n <= MAX_ROWS else sorted({round(row * (n - 1) / (MAX_ROWS - 1)) for row in range(MAX_ROWS)})
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
