"""How every command takes its arguments, before its own code runs."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from fwshapley.cli.console import errors_explained


class Command(TyperCommand):
    """A command that refuses empty arguments and explains errors, also those met before it starts its work."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - of the click that typer brings
        """Raise on an empty argument: an empty path would be the current folder, and most are a variable not set."""
        for place, arg in enumerate(args):
            if not arg or (arg.startswith("--") and arg.endswith("=")):
                where = arg or (f"behind {args[place - 1]}" if place else "the first one")
                raise typer.BadParameter(f"an argument is empty ({where}): leave it out, or give it a value", ctx=ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - of the click that typer brings
        """Run the command."""
        with errors_explained():
            return super().invoke(ctx)
