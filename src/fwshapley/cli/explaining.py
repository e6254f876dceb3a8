"""What `fwshapley explain` does: load an explainer, read inputs as it was fitted, ask it, and say what it answers."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text
from torch import nn

import fwshapley as fw
from fwshapley._internal.checks import find_closest
from fwshapley._internal.printing import print_notes, print_table
from fwshapley._internal.wording import counted, decimals_for, duration, listed, listed_whole, printable, shortened
from fwshapley.cli.console import console
from fwshapley.cli.fit_record import Stored, look_into
from fwshapley.cli.input_reading import Inputs, Reading, parse_numbers, read_inputs
from fwshapley.cli.model_loading import as_in_file, find_model
from fwshapley.explanation.surrogate import Predictions
from fwshapley.games.masked_model import KINDS
from fwshapley.semivalues import Total

MOST_PLAYERS = 3
"""Players shown of each sign."""

MOST_WARNINGS = 3
"""Inputs that are warned of one by one; more share a line."""

MOST_LISTED = 10


@dataclass(frozen=True, eq=False)
class Loaded:
    """An explainer, with what its folder says about it, and whether its model is at hand."""

    explainer: fw.FeatureExplainer
    stored: Stored
    has_model: bool


@dataclass(frozen=True, eq=False)
class Answer:
    """Values of some inputs.

    Attributes:
        attribution: under a list of weightings.
        inputs: what was explained.
        reading: how it was read.
        predictions: of the surrogate, and of the model where it is at hand.
        predicted_by: who says which outputs are explained, if they are those predicted.
        notes: on what was asked.
    """

    attribution: fw.Attribution
    inputs: Inputs
    reading: Reading
    predictions: Predictions
    predicted_by: str | None
    notes: tuple[str, ...]

    @property
    def weights(self) -> list[fw.Semivalue]:
        """The weightings."""
        assert isinstance(self.attribution.weights, list)  # noqa: S101 - as `ask` makes it
        return self.attribution.weights

    def name(self, place: int) -> str:
        """Name of an input: a file, or the row of one."""
        row = self.inputs.rows[place]
        several = len(set(self.inputs.files)) > 1
        file = Path(self.inputs.files[place]) if row is None else Path(self.inputs.files[place]).name
        return str(file) if row is None else f"row {row} of {file}" if several else f"row {row}"


def choose_weights(alpha: float | None, beta: float | None, pairs: Sequence[str] | None) -> list[fw.Semivalue] | None:
    """Return the weightings that were asked for; None where none was."""
    if pairs:
        if alpha is not None or beta is not None:
            raise ValueError("give --alpha and --beta for one weighting, or --weights for each of several")
        return [_parse_weights(pair) for pair in pairs]
    if alpha is None and beta is None:
        return None
    return [fw.Beta(1.0 if alpha is None else alpha, 1.0 if beta is None else beta)]


def _parse_weights(pair: str) -> fw.Semivalue:
    numbers = parse_numbers(pair)
    if len(numbers) != 2:  # noqa: PLR2004 - alpha and beta
        raise ValueError(f"--weights {pair} is no weighting: give alpha and beta, such as 16,1")
    return fw.Beta(numbers[0], numbers[1])


def check_refinement(calls: int | None, *, errors: bool, total: Total | Literal["auto"]) -> None:
    """Raise an error about options that do not go together."""
    if calls is not None and errors:
        raise ValueError("--errors are those of answers that are not refined: give --refine or --errors")
    if calls is not None and total == "efficient":
        raise ValueError("--refine gives raw values: leave --total efficient out")


def load_explainer(folder: Path, name: str | None, *, device: str) -> Loaded:
    """Load an explainer, with its model where one is named; which code to run is never taken from the folder."""
    stored = look_into(folder)
    if name is None:
        if stored.needs_model is not None:
            raise ValueError(_about_model(folder, stored))
        return Loaded(fw.load(folder, device=device), stored, has_model=False)
    model = find_model(name, stored.output)
    if isinstance(model, nn.Module) == stored.black_box:
        kinds = ("a function or an estimator", "a torch module")
        was, given = kinds if stored.black_box else kinds[::-1]
        raise TypeError(f"{folder} explains {was}, and {name} is {given}; is () missing or too much behind it?")
    layout = stored.record.reading.layout
    if layout is not None and not isinstance(model, nn.Module):
        model = as_in_file(model, layout)
    return Loaded(fw.load(folder, model=model, device=device), stored, has_model=True)


def _about_model(folder: Path, stored: Stored) -> str:
    known = stored.record.model
    example = "package.module:attribute" if known is None else shlex.quote(known)
    was = "" if known is None else f" It was fitted from {known}."
    return (
        f"{folder} holds the numbers of a {stored.needs_model}, not its code: pass --model {example}, a module of that "
        f"architecture, trained or not.{was} That is not imported by itself, since a folder should not say what code "
        "to run"
    )


def read_like_fitted(loaded: Loaded, paths: Sequence[Path], encoding: str | None) -> tuple[Inputs, Reading]:
    """Read inputs as those that the explainer was fitted with."""
    reading = loaded.stored.record.reading
    inputs, settled = read_inputs(paths, reading if encoding is None else replace(reading, encoding=encoding))
    print_notes(filter(None, [*inputs.notes, inputs.about_rows]), console)
    if not loaded.stored.recorded:
        print_notes(["it was not made by fwshapley fit, so how inputs are to be read is a guess"], console)
    return inputs, settled


def ask(
    loaded: Loaded,
    read: tuple[Inputs, Reading],
    *,
    weights: list[fw.Semivalue] | None,
    outputs: str | None,
    total: Total | Literal["auto"],
    calls: int | None = None,
    errors: bool = False,
) -> Answer:
    """Explain inputs, refined where calls are given, and say how long it took."""
    (inputs, reading), explainer = read, loaded.explainer
    _check_calibrated(loaded, errors=errors)
    predictions = explainer.predictions(inputs.x)
    chosen, predicted_by = _choose_outputs(loaded, predictions, outputs)
    began = time.perf_counter()
    if calls is None:
        attribution = explainer.explain(inputs.x, weights=weights, outputs=chosen, total=total, errors=errors)
    else:
        attribution = explainer.refine(inputs.x, weights=weights, outputs=chosen, n_calls=calls)
    attribution = _stacked(attribution.to("cpu"))
    took = time.perf_counter() - began
    each = f", {duration(took / len(inputs))} each" if len(inputs) > 1 else ""
    notes = [*_about_predicted(loaded, predicted_by), f"{attribution}: {duration(took)}{each}"]
    return Answer(attribution, inputs, reading, predictions.to("cpu"), predicted_by, tuple(notes))


def _check_calibrated(loaded: Loaded, *, errors: bool) -> None:
    if errors and loaded.explainer.error_model_ is None:
        raise ValueError("--errors are not known: fit it with --calibrate, or give --refine CALLS for standard errors")


def _stacked(attribution: fw.Attribution) -> fw.Attribution:
    """Return it under a list of weightings, if only of one."""
    if isinstance(attribution.weights, list):
        return attribution
    errors: dict[str, Any] = {
        name: None if error is None else error[None]
        for name, error in (("stderr", attribution.stderr), ("expected_error", attribution.expected_error))
    }
    return replace(attribution, values=attribution.values[None], weights=[attribution.weights], **errors)


def _choose_outputs(loaded: Loaded, predictions: Predictions, wanted: str | None) -> tuple[Any, str | None]:
    """Return outputs as `explain` takes them, and who predicts them if those predicted are meant."""
    names, classes = loaded.stored.output_names, KINDS[loaded.stored.output] == "classes"
    if wanted is None:
        wanted = "predicted" if classes else "all"
    if wanted == "all":
        return "all", None
    if wanted != "predicted":
        return [_number_of(each.strip(), names) for each in wanted.split(",")], None
    if not classes:
        return "predicted", None
    if predictions.model is not None:
        return predictions.model.argmax(1, keepdim=True), "the model"
    return predictions.surrogate.argmax(1, keepdim=True), "the surrogate"


def _about_predicted(loaded: Loaded, who: str | None) -> list[str]:
    """Say who predicts, and if that is the surrogate how far it may be relied on."""
    if who != "the surrogate":
        return [] if who is None else [f"outputs: those predicted by {who}"]
    alike = loaded.stored.agreement
    trust = "" if alike is None else f", which agrees with the model on {alike:.1%} of inputs"
    return [f"outputs: those predicted by the surrogate{trust}; with --model, by the model"]


def _number_of(wanted: str, names: Sequence[str]) -> int:
    if wanted in names:
        return names.index(wanted)
    if wanted.isdecimal() and int(wanted) < len(names):
        return int(wanted)
    meant = find_closest(wanted, names)
    hint = f" (did you mean {meant!r}?)" if meant else ""
    raise ValueError(f"there is no output {wanted!r}{hint}; there are {listed(names)}")


def show_answer(answer: Answer, top: int) -> None:
    """Print the players that matter most for the first inputs."""
    print_notes([*answer.notes, *_warnings(answer)], console)
    if not top:
        return
    first = answer.weights[0]
    table = Table(
        title=f"Under {first}", title_justify="left", box=SIMPLE_HEAD, pad_edge=False,
        caption=_about_players(answer), caption_justify="left",
    )  # fmt: skip
    output = "output" if answer.predicted_by is None else f"predicted by\n{answer.predicted_by}"
    for heading in ("input", output, "speak for it", "speak against it"):
        table.add_column(heading)
    shown = min(top, len(answer.inputs))
    decimals = decimals_for(answer.attribution.values[0, :shown])
    for place in range(shown):
        table.add_row(*map(Text, _cells(answer, place, decimals)))
    print_table(table, console)


def _warnings(answer: Answer) -> list[str]:
    """Say of which inputs the surrogate, which is explained, does not say what the model says."""
    differ = answer.predictions.differ
    if differ is None or not differ.any():
        return []
    places = differ.nonzero()[:, 0].tolist()
    if len(places) <= MOST_WARNINGS:
        said = (f"{answer.name(place)}: {_contradiction(answer, place)}" for place in places)
        return [f"warning: {each}: do not trust this explanation" for each in said]
    named = listed_whole(map(answer.name, places), MOST_LISTED)
    return [f"warning: {answer.predictions}: do not trust the explanations of {named}"]


def _contradiction(answer: Answer, place: int) -> str:
    """Return what the model says of an input, and what the surrogate says instead."""
    both, names = answer.predictions, answer.attribution.output_names
    assert both.model is not None  # noqa: S101 - else nothing differs
    if both.kind == "classes":
        model, surrogate = (shortened(names[int(each[place].argmax())]) for each in (both.model, both.surrogate))
        return f"the model says {model}, the surrogate {surrogate}"
    labels = ((both.model[place] > 1 / 2) != (both.surrogate[place] > 1 / 2)).nonzero()[:, 0].tolist()
    return f"model and surrogate differ on {listed(names[label] for label in labels)}"


def _about_players(answer: Answer) -> str:
    about = "patches are (row, column), from 0; " if answer.attribution.players.grid else ""
    errors = "± is a standard error; " if answer.attribution.stderr is not None else ""
    return f"{about}{errors}{counted(len(answer.inputs), 'input')} in all"


def _cells(answer: Answer, place: int, decimals: int) -> list[str]:
    """Return name, output and players of an input: of the output that its players speak for most."""
    attribution = answer.attribution
    values = attribution.values[0, place].float()
    strongest = int((attribution.base_values[place] + values.sum(0)).argmax())
    value = values[:, strongest]
    order = value.argsort(descending=True).tolist()
    helpful = [player for player in order if value[player] > 0]
    harmful = [player for player in order[::-1] if value[player] < 0]
    both = helpful[:MOST_PLAYERS], harmful[:MOST_PLAYERS]
    output = shortened(attribution.output_names[int(attribution.outputs[place, strongest])])
    differ = answer.predictions.differ
    if differ is not None and differ[place]:
        output += "\nnot so the surrogate"
    if attribution.expected_error is not None:
        output += f"\nexpected error {float(attribution.expected_error[0, place, strongest]):.{decimals}f}"
    names = [shortened(name) for name in attribution.players.names]
    if attribution.stderr is not None:
        stderr = attribution.stderr[0, place, :, strongest]
        names = [f"± {float(error):.{decimals}f} {name}" for error, name in zip(stderr, names, strict=True)]
    columns = ("\n".join(f"{float(value[each]):+.{decimals}f} {names[each]}" for each in some) for some in both)
    return [printable(answer.name(place)), output, *columns]
