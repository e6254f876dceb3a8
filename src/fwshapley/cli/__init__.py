"""The `fwshapley` command: one module per command, beside what they share."""

from __future__ import annotations

from typing import Annotated

import typer

from fwshapley._internal.version import __version__
from fwshapley.cli import audit, explain, export, fit, serve, value, weights
from fwshapley.cli.console import Command, console

app = typer.Typer(
    name="fwshapley",
    help="Explain predictions, and find wrong labels, with weighted Shapley values.\n\n"
    "A semivalue is the average of what a player adds to coalitions of the others; its weights say how much each "
    "coalition size counts.\n\nStart with: fwshapley weights --alpha 16 --beta 1 --players 12",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(flag: bool) -> bool:  # noqa: FBT001 - typer passes it by position
    """Print the version and exit, with --version."""
    if flag:
        console.print(f"fwshapley {__version__}", highlight=False)
        raise typer.Exit
    return flag


@app.callback()
def main(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """Explain predictions, and find wrong labels, with weighted Shapley values."""
    del version  # handled by its callback


for command in (fit.fit, explain.explain, export.export, serve.serve, value.value, audit.audit, weights.weights):
    app.command(cls=Command)(command)
