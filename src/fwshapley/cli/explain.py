"""`fwshapley explain`: explain inputs, with a fitted explainer or with a model itself, without training."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import typer
from rich.markup import escape

import fwshapley as fw
from fwshapley._internal.files import check_free, locked
from fwshapley._internal.tensor_checks import choose_device
from fwshapley._internal.wording import duration
from fwshapley.cli.console import check_matplotlib, errors_explained, print_line, print_notes
from fwshapley.cli.exact import (
    NamedModel,
    about_scale,
    about_unknown,
    explain_exactly,
    load_exact,
    make_untrained,
    refuse_estimates,
)
from fwshapley.cli.explanation_files import FILES, Explanations, FileFormat, write_explanations
from fwshapley.cli.explanation_table import show_players
from fwshapley.cli.fit_record import open_explainer
from fwshapley.cli.input_files import Inputs, read_inputs
from fwshapley.cli.input_format import InputFormat
from fwshapley.cli.learned import about_surrogate, check_errors, explain_learned, load_learned
from fwshapley.cli.model_loading import EXPORTED, FOREIGN, KINDS_OF_MODEL, PICKLED, TREE_FILES
from fwshapley.cli.request import Request, read_weights
from fwshapley.cli.skipped_rows import skip_rows
from fwshapley.cli.texts import explain_texts, report_texts
from fwshapley.explanation.method_choice import Game
from fwshapley.explanation.untrained.exact_explainer import ExactExplainer
from fwshapley.semivalues import Total
from fwshapley.tables.file_reader import check_exists

SAVED = ".safetensors"

given = partial(typer.Option, rich_help_panel="Inputs of a model")
asked = partial(typer.Option, rich_help_panel="What to compute")
written = partial(typer.Option, rich_help_panel="Results")

SOURCE_HELP = (
    "The --out of fwshapley fit, or an explainer saved by Python. Or a model, as for fit, which is explained without "
    "fitting: a tree ensemble (also a model file of XGBoost or CatBoost in .json, of LightGBM in .txt); with "
    "--background, any model of a table. Values are exact for trees, linear models and at most 12 columns, otherwise "
    "sampled."
)
INPUT_HELP = (
    "Inputs in the format of fit: .csv (also .csv.gz), .parquet, .xlsx (also file.xlsx:sheet) or .npz files, pictures, "
    "or folders of pictures. Rows with entries that the explainer has no rule for are skipped and listed."
)
BACKGROUND_HELP = (
    "Rows that stand in for hidden features, such as the training data. Without it, the training weights of trees do."
)
CALLS_HELP = (
    "Coalitions to sample with each background row, if values are sampled; more take longer and have smaller errors."
)
LABEL_HELP = "Column of labels: left out."
TEXT_HELP = "Column of the texts, if not that of fit; for explainers of texts."
MODEL_HELP = "The model of an explainer that does not contain it. Its code runs only if you name it."
WEIGHTS_HELP = "Alpha and beta of one of several semivalues; may be repeated."
OUTPUTS_HELP = (
    "all, predicted, or names or numbers of outputs. By default the positive one of two classes, the predicted one of "
    "several, and otherwise all."
)
GAME_HELP = (
    "What hidden columns become. interventional: values of background rows. conditional: unknown, to an explainer that "
    "fwshapley fit trains."
)
TOTAL_HELP = "raw values, or efficient: shifted to sum to the prediction; auto is raw if the explainer can."
REFINE_HELP = "Correct learned values with N sampled coalitions per input, such as 256: unbiased, with standard errors."
ERRORS_HELP = "Also estimate the error of each learned value, if the explainer was fitted with --calibrate."
METHOD_HELP = (
    "network: one pass. auto: the network if its values were measured to be good by the fit, otherwise sampled "
    "coalitions of each input."
)
FORMAT_HELP = "Format of values: by default csv for tables, npz for images."
OUT_HELP = "Folder for values and pictures; without it they are only shown."


class Background(NamedTuple):
    """What becomes of hidden columns of a model.

    Attributes:
        path: of the rows that stand in for them.
        game: as for `fw.Explainer`.
        n_calls: as for `fw.Explainer`.
    """

    path: Path | None
    game: Game
    n_calls: int | Literal["auto"]


class Opened(NamedTuple):
    """What explains, the inputs that were read for it, and notes.

    Attributes:
        explainer: exact or learned.
        batch: the inputs.
        read_as: their format.
        notes: on the explainer and the inputs.
    """

    explainer: fw.FeatureExplainer | ExactExplainer
    batch: Inputs
    read_as: InputFormat
    notes: list[str]


def explain(
    source: Annotated[str, typer.Argument(metavar="MODEL|FOLDER", help=SOURCE_HELP)],
    inputs: Annotated[list[Path], typer.Argument(metavar="INPUT...", help=INPUT_HELP)],
    *,
    background: Annotated[Path | None, given(metavar="DATA", help=BACKGROUND_HELP)] = None,
    game: Annotated[Game, given(help=GAME_HELP)] = "auto",
    n_calls: Annotated[int | None, given(min=1, metavar="N", help=CALLS_HELP)] = None,
    label: Annotated[str | None, given("--label", "-l", metavar="COLUMN", help=LABEL_HELP)] = None,
    ignore: Annotated[list[str] | None, given(metavar="COLUMN", help="Column to leave out; may be repeated.")] = None,
    text: Annotated[str | None, given(metavar="COLUMN", help=TEXT_HELP)] = None,
    names: Annotated[str | None, given(metavar="A,B,C", help="Names of the model's outputs.")] = None,
    encoding: Annotated[str | None, given(metavar="NAME", help="Of .csv files, if not that of fit, or utf-8.")] = None,
    model: Annotated[str | None, asked(metavar="MODEL", help=MODEL_HELP)] = None,
    alpha: Annotated[float | None, asked(metavar="X", help="Larger: small coalitions count more.")] = None,
    beta: Annotated[float | None, asked(metavar="X", help="Larger: large ones do. 1 and 1 is Shapley.")] = None,
    weights: Annotated[list[str] | None, asked("--weights", "-w", metavar="A,B", help=WEIGHTS_HELP)] = None,
    outputs: Annotated[str | None, asked(metavar="NAMES", help=OUTPUTS_HELP)] = None,
    total: Annotated[Literal["auto", Total], asked(help=TOTAL_HELP)] = "auto",
    refine: Annotated[int | None, asked(min=1, metavar="N", help=REFINE_HELP)] = None,
    errors: Annotated[bool, asked("--errors", help=ERRORS_HELP)] = False,
    method: Annotated[Literal["auto", "network"], asked(help=METHOD_HELP)] = "auto",
    device: Annotated[str, asked(metavar="NAME", help="Such as cpu or cuda; auto is a GPU if there is one.")] = "auto",
    out: Annotated[Path | None, written("--out", "-o", metavar="FOLDER", help=OUT_HELP)] = None,
    form: Annotated[FileFormat | None, written("--format", help=FORMAT_HELP)] = None,
    pictures: Annotated[int, written(min=0, metavar="N", help="Draw the first N inputs; 0 draws none.")] = 16,
    top: Annotated[int, written(min=0, metavar="N", help="Inputs to show in the terminal.")] = 5,
    force: Annotated[bool, written("--force", help="Replace what the folder contains.")] = False,
) -> None:
    """Explain inputs: which columns or patches increase an output, and which decrease it.

    A model of a table needs no fitting; start with:
    fwshapley explain forest.py:model test.csv --background train.csv

    After fwshapley fit, for any model: fwshapley explain explainer test.csv --out explanations
    """
    with errors_explained(), ExitStack() as stack:
        request = Request(read_weights(alpha, beta, weights), outputs, total, refine, errors, method)
        choose_device(device)  # or raise an error before any work
        if out is not None:
            stack.enter_context(locked(out))
            check_free(out, FILES, force=force)
        if out is not None and pictures:
            check_matplotlib("pictures: --pictures 0")
        left_out = tuple(dict.fromkeys([*([] if label is None else [label]), *(ignore or [])]))
        wanted = InputFormat(left_out=left_out, encoding=encoding or "")
        output_names = None if names is None else [name.strip() for name in names.split(",")]
        if _explains_texts(source, text):
            explained = explain_texts(source, inputs, request, column=text, encoding=encoding, device=device)
            report_texts(explained, top, out)
            return
        if _is_model(source):
            if model is not None:
                raise ValueError(f"--model is for a folder that does not contain its model: {source} is the model")
            table = Background(background, game, "auto" if n_calls is None else n_calls)
            opened = _open_model(
                source, inputs, table, wanted=wanted, output_names=output_names, request=request, device=device
            )
        else:
            of_model = {"--background": background, "--names": names, "--n-calls": n_calls}
            of_model["--game"] = None if game == "auto" else game
            for option in [option for option, value in of_model.items() if value is not None]:
                raise ValueError(f"{option} is for a model, and {source} is an explainer, which has its own")
            opened = _open_saved(Path(source), inputs, wanted=wanted, request=request, model=model, device=device)
        print_notes(filter(None, [*opened.notes, *opened.batch.notes, opened.batch.about_rows]))
        began = time.perf_counter()
        results, notes = _explain(opened, request)
        took = time.perf_counter() - began
        count = len(results.inputs)
        per_input = f", {duration(took / count)} each" if count > 1 else ""
        print_notes([f"{results.attribution}: {duration(took)}{per_input}", *notes])
        if top:
            show_players(results, top)
        if out is not None:
            names = write_explanations(results, out, form=form, pictures=pictures)
            print_line(f"written to [bold]{escape(str(out))}[/bold]: {names}")


def _is_model(source: str) -> bool:
    """Whether the command line names a model, not an explainer; raise an error if it is neither."""
    path = Path(source)
    if path.is_dir() or path.suffix == SAVED:
        return False
    if ":" in source or path.suffix.lower() in {EXPORTED, *TREE_FILES, *PICKLED, *FOREIGN}:
        return True
    if not path.exists():
        raise FileNotFoundError(f"there is no folder {source}, and a model must be {KINDS_OF_MODEL}")
    raise ValueError(f"{source} is not a folder of fwshapley fit, and a model must be {KINDS_OF_MODEL}")


def _explains_texts(source: str, text: str | None) -> bool:
    """Whether the command line names an explainer of texts; raise an error if it is none and --text is given."""
    of_texts = not _is_model(source) and open_explainer(Path(source)).record.format.kind == "texts"
    if text is not None and not of_texts:
        raise ValueError(f"--text is for explainers of texts, and {source} is none")
    return of_texts


def _open_model(
    name: str,
    inputs: list[Path],
    background: Background,
    *,
    wanted: InputFormat,
    output_names: list[str] | None,
    request: Request,
    device: str,
) -> Opened:
    """Read inputs and background, and make the explainer of a model without training."""
    refuse_estimates(name, request)
    for path in [*inputs, *([] if background.path is None else [background.path])]:
        check_exists(path)
    model = NamedModel.find(name, "auto")
    wanted = model.with_columns(replace(wanted, encoding=wanted.encoding or InputFormat.encoding))
    rows = None
    if background.path is not None:
        rows, wanted = read_inputs([background.path], wanted)
    batch, wanted = read_inputs(inputs, wanted)
    if wanted.kind == "images":
        raise ValueError(f"{batch.files[0]}: images need an explainer that is trained, by fwshapley fit")
    columns = wanted.columns or batch.names
    explainer, note = make_untrained(
        model, rows, columns, game=background.game, n_calls=background.n_calls, output_names=output_names, device=device
    )
    notes = [*(rows.notes if rows is not None else ()), model.about_columns, note, about_scale(explainer)]
    return Opened(explainer, batch, wanted, notes)


def _open_saved(
    path: Path,
    inputs: list[Path],
    *,
    wanted: InputFormat,
    request: Request,
    model: str | None,
    device: str,
) -> Opened:
    """Load an explainer, and read inputs in the format that it was fitted with."""
    saved = open_explainer(path)
    fitted = saved.record.format
    if wanted.left_out and fitted.columns is not None:
        raise ValueError(
            f"--label and --ignore are for a model: {path} knows its columns, and all others are left out without them"
        )
    wanted = replace(fitted, left_out=wanted.left_out, encoding=wanted.encoding or fitted.encoding)
    notes = []
    explainer: fw.FeatureExplainer | ExactExplainer
    if saved.is_exact:
        refuse_estimates(str(path), request)
        explainer = load_exact(path, saved, model, device)
        notes = [f"values by {explainer!r}", about_scale(explainer)]
    else:
        explainer = load_learned(path, saved, model, device)
        check_errors(explainer, request)
    batch, wanted = read_inputs(inputs, wanted)
    if not saved.is_recorded:
        notes.append("fwshapley fit did not make this explainer: the input format is a guess")
    return Opened(explainer, batch, wanted, notes)


def _explain(opened: Opened, request: Request) -> tuple[Explanations, list[str]]:
    """Return values of the inputs that can be explained, and notes on them."""
    explainer, batch, read_as, _ = opened
    batch, about_skipped = skip_rows(explainer, batch)
    print_notes(about_skipped)
    if isinstance(explainer, fw.FeatureExplainer):
        results = explain_learned(explainer, batch, read_as, request)
        return results, about_surrogate(explainer, results)
    return explain_exactly(explainer, batch, read_as, request), about_unknown(batch, explainer)
