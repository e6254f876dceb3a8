"""`fwshapley explain`: explain inputs with an explainer that was fitted."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from fwshapley.cli.console import check_matplotlib, console, errors_explained
from fwshapley.cli.explaining import (
    ask,
    check_refinement,
    choose_weights,
    load_explainer,
    read_like_fitted,
    show_answer,
)
from fwshapley.cli.explanation_files import Format, check_folder, write_explanations
from fwshapley.explanation.inputs import choose_device
from fwshapley.semivalues import Total

asked = partial(typer.Option, rich_help_panel="What is asked")
written = partial(typer.Option, rich_help_panel="What is written")

INPUT_HELP = "Inputs as it was fitted with: .csv (also .csv.gz) or .npz files, pictures, or folders of them."
MODEL_HELP = "The model, as for fit: needed for images explained by a torch module. It is never imported unasked."
WEIGHTS_HELP = "Alpha and beta of one of several weightings; may be repeated."
OUTPUTS_HELP = "all, predicted, or names or numbers of outputs; predicted unless there are no classes."
TOTAL_HELP = "raw values, or shifted to add up to the prediction; auto is raw where it is known."
REFINE_HELP = "Mend values by CALLS coalitions of each input, such as 256: without bias, with standard errors."
ERRORS_HELP = "Say how far off values are likely to be, if it was fitted with --calibrate."
FORMAT_HELP = "Values as a table or as arrays; csv for tables and npz for images unless given."


def explain(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where `fwshapley fit` left an explainer.")],
    inputs: Annotated[list[Path], typer.Argument(metavar="INPUT...", help=INPUT_HELP)],
    *,
    model: Annotated[str | None, asked(metavar="MODEL", help=MODEL_HELP)] = None,
    alpha: Annotated[float | None, asked(metavar="X", help="Larger favors small coalitions.")] = None,
    beta: Annotated[float | None, asked(metavar="X", help="Larger favors large ones; 1 and 1 is Shapley.")] = None,
    weights: Annotated[list[str] | None, asked("--weights", "-w", metavar="A,B", help=WEIGHTS_HELP)] = None,
    outputs: Annotated[str | None, asked(metavar="NAMES", help=OUTPUTS_HELP)] = None,
    total: Annotated[Literal["auto", Total], asked(help=TOTAL_HELP)] = "auto",
    refine: Annotated[int | None, asked(min=1, metavar="CALLS", help=REFINE_HELP)] = None,
    errors: Annotated[bool, asked("--errors", help=ERRORS_HELP)] = False,
    encoding: Annotated[str | None, asked(metavar="NAME", help="Of .csv files, if not as fitted.")] = None,
    device: Annotated[str, asked(metavar="NAME", help="Such as cpu or cuda; auto is a GPU if any.")] = "auto",
    out: Annotated[
        Path | None,
        written("--out", "-o", metavar="FOLDER", help="Folder for values and pictures; else they are shown."),
    ] = None,
    form: Annotated[Format | None, written("--format", help=FORMAT_HELP)] = None,
    pictures: Annotated[int, written(min=0, metavar="N", help="Draw the first N inputs; 0 draws none.")] = 16,
    top: Annotated[int, written(min=0, metavar="N", help="Inputs to show on the terminal.")] = 5,
    force: Annotated[bool, written("--force", help="Replace what is in the folder.")] = False,
) -> None:
    """Explain inputs: which columns or patches speak for an output, which against it.

    Start with: fwshapley explain explainer test.csv --alpha 16 --beta 1 --out explanations
    """
    with errors_explained():
        several = choose_weights(alpha, beta, weights)
        check_refinement(refine, errors=errors, total=total)
        choose_device(device)  # or say that it cannot be used
        if out is not None:
            check_folder(out, force=force)
        if out is not None and pictures:
            check_matplotlib("pictures: --pictures 0")
        loaded = load_explainer(folder, model, device=device)
        found = read_like_fitted(loaded, inputs, encoding)
        answer = ask(loaded, found, weights=several, outputs=outputs, total=total, calls=refine, errors=errors)
        show_answer(answer, top)
        if out is not None:
            written = write_explanations(answer, out, form=form, pictures=pictures)
            console.print(f"written to [bold]{escape(str(out))}[/bold]: {written}", highlight=False, soft_wrap=True)
