"""The table of explanations in the terminal: the players that increase or decrease an output of each input most."""

from __future__ import annotations

from rich.text import Text

from fwshapley._internal.wording import counted, decimals_for, printable, shortened
from fwshapley.cli.console import new_table, print_table
from fwshapley.cli.explanation_files import Explanations

MAX_PLAYERS = 3
"""Players shown of each sign."""


def show_players(results: Explanations, top: int) -> None:
    """Print the players with the largest values for the first inputs."""
    attribution = results.attribution
    patches = "patches are (row, column), from 0; " if attribution.players.grid else ""
    errors = "± is a standard error; " if attribution.stderr is not None else ""
    output = "output" if results.predicted_by is None else f"predicted by\n{results.predicted_by}"
    headings = ("input", output, "increase it", "decrease it")
    caption = f"{patches}{errors}{counted(len(results.inputs), 'input')} in all"
    table = new_table(f"{results.weights[0]} values", headings, headings, caption)
    shown = min(top, len(results.inputs))
    decimals = decimals_for(attribution.values[0, :shown])
    for place in range(shown):
        table.add_row(*map(Text, _cells(results, place, decimals)))
    print_table(table)


def _cells(results: Explanations, place: int, decimals: int) -> list[str]:
    """Return name, output and players of an input, for the explained output whose prediction is largest."""
    attribution = results.attribution
    values = attribution.values[0, place].float()
    strongest = int((attribution.base_values[place] + values.sum(0)).argmax())
    value = values[:, strongest]
    order = value.argsort(descending=True).tolist()
    positive = [player for player in order if value[player] > 0][:MAX_PLAYERS]
    negative = [player for player in order[::-1] if value[player] < 0][:MAX_PLAYERS]
    output = shortened(attribution.output_names[int(attribution.outputs[place, strongest])])
    differ = results.differ
    if differ is not None and differ[place]:
        output += "\n(not by the surrogate)"
    if attribution.expected_error is not None:
        output += f"\nexpected error {float(attribution.expected_error[0, place, strongest]):.{decimals}f}"
    names = [shortened(name) for name in attribution.players.names]
    if attribution.stderr is not None:
        stderr = attribution.stderr[0, place, :, strongest]
        names = [f"± {float(error):.{decimals}f} {name}" for error, name in zip(stderr, names, strict=True)]
    columns = (
        "\n".join(f"{float(value[player]):+.{decimals}f} {names[player]}" for player in players)
        for players in (positive, negative)
    )
    return [printable(results.name(place)), output, *columns]
