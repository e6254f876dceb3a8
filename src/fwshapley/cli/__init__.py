"""The `fwshapley` command: one module for each thing that it does."""

from __future__ import annotations

from typing import Annotated

import typer

from fwshapley.cli import explain, fit, value, weights
from fwshapley.cli.command import Command
from fwshapley.cli.console import console
from fwshapley.version import __version__

app = typer.Typer(
    name="fwshapley",
    help="Weighted Shapley values.\n\n"
    "A semivalue credits each player of a game for what it adds to coalitions of the others; the weighting says "
    "which coalition sizes count. Start with: fwshapley weights --alpha 16 --beta 1 --players 12",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(wanted: bool) -> bool:  # noqa: FBT001 - typer calls it so
    """Print the version and stop, if wanted."""
    if wanted:
        console.print(f"fwshapley {__version__}", highlight=False)
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


for command in (fit.fit, explain.explain, value.value, weights.weights):
    app.command(cls=Command)(command)
