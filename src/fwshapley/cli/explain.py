"""`fwshapley explain`: explain inputs with an explainer that was fitted."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.text import Text
from torch import nn

import fwshapley as fw
from fwshapley._internal.checks import find_closest
from fwshapley._internal.files import check_free, locked
from fwshapley._internal.tensor_checks import choose_device
from fwshapley._internal.wording import counted, decimals_for, duration, listed, listed_whole, printable, shortened
from fwshapley.cli.console import (
    check_matplotlib,
    errors_explained,
    new_table,
    print_line,
    print_notes,
    print_table,
)
from fwshapley.cli.explanation_files import FILES, Explanations, FileFormat, write_explanations
from fwshapley.cli.fit_record import ExplainerFile, open_explainer
from fwshapley.cli.input_files import parse_number_list, read_inputs
from fwshapley.cli.model_loading import as_in_file, find_model
from fwshapley.explanation.predictions import Predictions
from fwshapley.semivalues import Total

MOST_PLAYERS = 3
"""Players shown of each sign."""

MOST_WARNINGS = 3
"""Inputs with a warning of their own; more share a line."""

MOST_LISTED = 10

asked = partial(typer.Option, rich_help_panel="What to compute")
written = partial(typer.Option, rich_help_panel="Results")

INPUT_HELP = "Inputs in the format of fit: .csv (also .csv.gz) or .npz files, pictures, or folders of pictures."
MODEL_HELP = "The model, as for fit; needed for images explained by a torch module. Its code runs only if you name it."
WEIGHTS_HELP = "Alpha and beta of one of several semivalues; may be repeated."
OUTPUTS_HELP = "all, predicted, or names or numbers of outputs; by default predicted for classes, otherwise all."
TOTAL_HELP = "raw values, or efficient: shifted to sum to the prediction; auto is raw if the explainer can."
REFINE_HELP = "Correct values with N sampled coalitions per input, such as 256: unbiased, with standard errors."
ERRORS_HELP = "Also estimate the error of each value, if the explainer was fitted with --calibrate."
FORMAT_HELP = "Format of values: by default csv for tables, npz for images."
OUT_HELP = "Folder for values and pictures; without it they are only shown."


def explain(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The --out of fwshapley fit.")],
    inputs: Annotated[list[Path], typer.Argument(metavar="INPUT...", help=INPUT_HELP)],
    *,
    model: Annotated[str | None, asked(metavar="MODEL", help=MODEL_HELP)] = None,
    alpha: Annotated[float | None, asked(metavar="X", help="Larger: small coalitions count more.")] = None,
    beta: Annotated[float | None, asked(metavar="X", help="Larger: large ones do. 1 and 1 is Shapley.")] = None,
    weights: Annotated[list[str] | None, asked("--weights", "-w", metavar="A,B", help=WEIGHTS_HELP)] = None,
    outputs: Annotated[str | None, asked(metavar="NAMES", help=OUTPUTS_HELP)] = None,
    total: Annotated[Literal["auto", Total], asked(help=TOTAL_HELP)] = "auto",
    refine: Annotated[int | None, asked(min=1, metavar="N", help=REFINE_HELP)] = None,
    errors: Annotated[bool, asked("--errors", help=ERRORS_HELP)] = False,
    encoding: Annotated[str | None, asked(metavar="NAME", help="Of .csv files, if not that of fit.")] = None,
    device: Annotated[str, asked(metavar="NAME", help="Such as cpu or cuda; auto is a GPU if there is one.")] = "auto",
    out: Annotated[Path | None, written("--out", "-o", metavar="FOLDER", help=OUT_HELP)] = None,
    form: Annotated[FileFormat | None, written("--format", help=FORMAT_HELP)] = None,
    pictures: Annotated[int, written(min=0, metavar="N", help="Draw the first N inputs; 0 draws none.")] = 16,
    top: Annotated[int, written(min=0, metavar="N", help="Inputs to show in the terminal.")] = 5,
    force: Annotated[bool, written("--force", help="Replace what the folder contains.")] = False,
) -> None:
    """Explain inputs: which columns or patches increase an output, and which decrease it.

    Start with: fwshapley explain explainer test.csv --alpha 16 --beta 1 --out explanations
    """
    with errors_explained(), ExitStack() as stack:
        semivalues = _choose_weights(alpha, beta, weights)
        if refine is not None and errors:
            raise ValueError("--errors is for values without --refine, which has standard errors: give one of them")
        if refine is not None and total == "efficient":
            raise ValueError("--refine gives raw values: leave --total efficient out")
        choose_device(device)  # or raise an error before any work
        if out is not None:
            stack.enter_context(locked(out))
            check_free(out, FILES, force=force)
        if out is not None and pictures:
            check_matplotlib("pictures: --pictures 0")
        saved = open_explainer(folder)
        explainer = _load(folder, saved, model, device)
        if errors and explainer.error_model_ is None:
            raise ValueError(
                "--errors needs an explainer fitted with --calibrate; or give --refine for standard errors"
            )
        wanted = saved.record.format if encoding is None else replace(saved.record.format, encoding=encoding)
        batch, wanted = read_inputs(inputs, wanted)
        guessed = "" if saved.is_recorded else "fwshapley fit did not make this explainer: the input format is a guess"
        print_notes(filter(None, [*batch.notes, batch.about_rows, guessed]))
        if refine is not None:
            count = counted(refine * len(batch), "coalition")
            print_notes(
                [f"refining with {refine:,} coalitions for each of {counted(len(batch), 'input')}: {count} in all"]
            )
        predictions = explainer.predictions(batch.x)
        chosen, predicted_by = _choose_outputs(explainer, predictions, outputs)
        began = time.perf_counter()
        if refine is None:
            attribution = explainer.explain(batch.x, weights=semivalues, outputs=chosen, total=total, errors=errors)
        else:
            attribution = explainer.refine(batch.x, weights=semivalues, outputs=chosen, n_calls=refine)
        attribution = _stacked(attribution.to("cpu"))
        took = time.perf_counter() - began
        results = Explanations(attribution, batch, wanted, predictions.to("cpu"), predicted_by)
        per_input = f", {duration(took / len(batch))} each" if len(batch) > 1 else ""
        print_notes(
            [
                *_about_outputs(explainer, predicted_by),
                f"{attribution}: {duration(took)}{per_input}",
                *_warnings(results),
            ]
        )
        if top:
            _show_players(results, top)
        if out is not None:
            names = write_explanations(results, out, form=form, pictures=pictures)
            print_line(f"written to [bold]{escape(str(out))}[/bold]: {names}")


def _choose_weights(alpha: float | None, beta: float | None, pairs: Sequence[str] | None) -> list[fw.Semivalue] | None:
    """Return the semivalues that the options name; None if they name none."""
    if not pairs:
        if alpha is None and beta is None:
            return None
        return [fw.Beta(1.0 if alpha is None else alpha, 1.0 if beta is None else beta)]
    if alpha is not None or beta is not None:
        raise ValueError("--alpha and --beta give one semivalue, --weights several: use one of the two")
    semivalues: list[fw.Semivalue] = []
    for pair in pairs:
        numbers = parse_number_list(pair)
        if len(numbers) != 2:  # noqa: PLR2004 - alpha and beta
            raise ValueError(f"--weights must be alpha and beta, such as 16,1; got {pair}")
        semivalues.append(fw.Beta(*numbers))
    return semivalues


def _load(folder: Path, saved: ExplainerFile, name: str | None, device: str) -> fw.FeatureExplainer:
    """Load an explainer, with its model where one is named; the folder never determines which code runs."""
    if name is None:
        if saved.needs_model is None:
            return fw.FeatureExplainer.load(folder, device=device)
        example = "package.module:attribute" if saved.record.model is None else shlex.quote(saved.record.model)
        fitted = "" if saved.record.model is None else f" It was fitted with {saved.record.model}."
        raise ValueError(
            f"{folder} contains the weights of a {saved.needs_model}, not its code: give --model {example}, a module "
            f"of the same architecture, trained or not.{fitted} This is not imported automatically, since a folder "
            "must not choose which code runs"
        )
    model = find_model(name, saved.output)
    if isinstance(model, nn.Module) == saved.is_black_box:
        expected, actual = "a torch module", "a function or an estimator"
        if saved.is_black_box:
            expected, actual = actual, expected
        raise TypeError(f"{folder} explains {expected}, and {name} is {actual}; is () missing or too much at its end?")
    return fw.FeatureExplainer.load(folder, model=as_in_file(model, saved.record.format.layout), device=device)


def _stacked(attribution: fw.Attribution) -> fw.Attribution:
    """Return the attribution with a list of semivalues, also if it is of one."""
    if isinstance(attribution.weights, list):
        return attribution
    errors: dict[str, Any] = {
        name: None if error is None else error[None]
        for name, error in (("stderr", attribution.stderr), ("expected_error", attribution.expected_error))
    }
    return replace(attribution, values=attribution.values[None], weights=[attribution.weights], **errors)


def _choose_outputs(
    explainer: fw.FeatureExplainer, predictions: Predictions, wanted: str | None
) -> tuple[Any, str | None]:
    """Return outputs as `FeatureExplainer.explain` takes them, and who predicts them if they are those predicted."""
    classes = predictions.kind == "classes"
    if wanted is None:
        wanted = "predicted" if classes else "all"
    if wanted == "all":
        return "all", None
    if wanted != "predicted":
        return [_output_number(name.strip(), explainer.output_names_) for name in wanted.split(",")], None
    if not classes:
        return "predicted", None
    if predictions.model is not None:
        return predictions.model.argmax(1, keepdim=True), "the model"
    return predictions.surrogate.argmax(1, keepdim=True), "the surrogate"


def _output_number(wanted: str, names: Sequence[str]) -> int:
    if wanted in names:
        return names.index(wanted)
    if wanted.isdecimal() and int(wanted) < len(names):
        return int(wanted)
    meant = find_closest(wanted, names)
    hint = f" (did you mean {meant!r}?)" if meant else ""
    raise ValueError(f"there is no output {wanted!r}{hint}; the outputs are {listed(names)}")


def _about_outputs(explainer: fw.FeatureExplainer, predicted_by: str | None) -> list[str]:
    """Say who predicts the outputs, and how far the surrogate agrees with the model."""
    if predicted_by != "the surrogate":
        return [] if predicted_by is None else [f"outputs: predicted by {predicted_by}"]
    share = None if explainer.fidelity_ is None else explainer.fidelity_.agreement
    agreement = "" if share is None else f", which agrees with the model on {share:.1%} of inputs"
    return [f"outputs: predicted by the surrogate{agreement}; give --model to use the model's predictions"]


def _warnings(results: Explanations) -> list[str]:
    """Warn of inputs for which the surrogate, which is explained, predicts something else than the model."""
    differ = results.predictions.differ
    if differ is None or not differ.any():
        return []
    places = differ.nonzero()[:, 0].tolist()
    if len(places) <= MOST_WARNINGS:
        lines = (f"{results.name(place)}: {_contradiction(results, place)}" for place in places)
        return [f"warning: {line}: do not trust this explanation" for line in lines]
    names = listed_whole(map(results.name, places), MOST_LISTED)
    return [f"warning: {results.predictions}: do not trust the explanations of {names}"]


def _contradiction(results: Explanations, place: int) -> str:
    """Return what the model predicts for an input, and what the surrogate predicts instead."""
    predictions, names = results.predictions, results.attribution.output_names
    assert predictions.model is not None  # noqa: S101 - otherwise nothing differs
    both = predictions.model[place], predictions.surrogate[place]
    if predictions.kind == "classes":
        model, surrogate = (shortened(names[int(outputs.argmax())]) for outputs in both)
        return f"the model predicts {model}, the surrogate {surrogate}"
    labels = ((both[0] > 1 / 2) != (both[1] > 1 / 2)).nonzero()[:, 0].tolist()
    return f"model and surrogate differ on {listed(names[label] for label in labels)}"


def _show_players(results: Explanations, top: int) -> None:
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
    positive = [player for player in order if value[player] > 0][:MOST_PLAYERS]
    negative = [player for player in order[::-1] if value[player] < 0][:MOST_PLAYERS]
    output = shortened(attribution.output_names[int(attribution.outputs[place, strongest])])
    differ = results.predictions.differ
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
