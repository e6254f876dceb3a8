"""`fwshapley fit`: make an explainer of a model, exact where the model allows it, else trained."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.markup import escape
from rich.text import Text

import fwshapley as fw
from fwshapley._internal.checks import MAX_SEED
from fwshapley._internal.files import check_free, locked
from fwshapley._internal.tensor_checks import choose_device
from fwshapley._internal.wording import counted
from fwshapley.cli.checkpoints import Checkpoints
from fwshapley.cli.console import (
    MAX_STEPS,
    about_budget,
    check_matplotlib,
    console,
    errors_explained,
    print_line,
    print_notes,
)
from fwshapley.cli.exact import NamedModel, about_scale
from fwshapley.cli.fit_record import COMMAND, FitRecord, open_explainer
from fwshapley.cli.input_files import Inputs, read_inputs
from fwshapley.cli.input_format import InputFormat, image_format
from fwshapley.cli.model_loading import OutputChoice, as_in_file
from fwshapley.cli.texts import fit_texts
from fwshapley.cli.training import (
    calibrate_errors,
    learned_weights,
    report_explainer,
    train_explainer,
    validation_inputs,
)
from fwshapley.explanation.learned.error_model import MIN_INPUTS
from fwshapley.explanation.learned.fitting import PARTS, NetworkName, ObjectiveName
from fwshapley.explanation.learned.persistence import FILE
from fwshapley.explanation.method_choice import Choice, Game, Method
from fwshapley.explanation.untrained.exact_explainer import ExactExplainer
from fwshapley.tables.file_reader import check_exists
from fwshapley.text_players import Unit

DEFAULT_SECONDS = 120.0
REPORT = "report.html"

OF_TRAINING = ("valid", "seconds", "steps", "objective", "alpha", "beta", "network", "resume", "calibrate", "report")
"""Options of training: whoever gives one wants a learned explainer."""

MAX_PATCHES = 16
"""Largest number of patches along a side, without --patch."""

read = partial(typer.Option, rich_help_panel="Inputs")
explained = partial(typer.Option, rich_help_panel="What to explain")
trained = partial(typer.Option, rich_help_panel="Training")
written = partial(typer.Option, rich_help_panel="Results")

MODEL_HELP = (
    "package.module:attribute or file.py:attribute: a torch module, a function or an estimator; with () at the end, "
    "the attribute is called and returns one. Or a .pt2 file of torch.export. Each of these can run code, so use only "
    "models that you trust. Or a model file of XGBoost or CatBoost (.json) or LightGBM (.txt)."
)
DATA_HELP = (
    "Inputs without labels, like those to explain: a .csv (also .csv.gz), .parquet, .xlsx (also file.xlsx:sheet) or "
    ".npz file, or a folder of pictures."
)
METHOD_HELP = (
    "How values are computed. auto: exactly, by the first of trees, linear and enumeration (at most 12 columns) that "
    "the model allows, if no option of training is given; otherwise learned, or with --game interventional by sampling."
)
GAME_HELP = (
    "What hidden columns become. interventional: values of rows of DATA; trains nothing, and samples coalitions if "
    "there is no exact method. conditional: unknown, to a network that is trained."
)
CALLS_HELP = "Coalitions to sample with each row that stands in for hidden columns; otherwise as many as usual."
VALID_HELP = "Inputs for validation of training; otherwise a tenth of DATA is held out."
PATCH_HELP = "Players are patches of N x N pixels; by default at most 16 along a side."
TEXT_HELP = (
    "Explain the texts in this column. MODEL is then a folder that save_pretrained of transformers wrote, with the "
    "tokenizer; its code is that of transformers."
)
UNIT_HELP = "Players of texts."
SEGMENTS_HELP = "Players are segments of images: a .npy file of whole numbers, (height, width)."
OUTPUT_HELP = (
    "How to read outputs. auto: probabilities of classes for a torch module, and for other models whose outputs sum "
    "to 1; otherwise raw numbers."
)
CALIBRATE_HELP = "Also estimate the errors of values, for `fwshapley explain --errors`; takes some seconds."
OBJECTIVE_HELP = "Learn all semivalues at once, or one (kernel)."
NETWORK_HELP = "Network that predicts values; unet and slim need images."
KERNEL_HELP = "Only with --objective kernel, the semivalue to learn: Beta(alpha, beta)."


def fit(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    data: Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP)],
    *,
    valid: Annotated[Path | None, read(metavar="DATA", help=VALID_HELP)] = None,
    label: Annotated[str | None, read("--label", "-l", metavar="COLUMN", help="Column of labels: left out.")] = None,
    ignore: Annotated[list[str] | None, read(metavar="COLUMN", help="Column to leave out; may be repeated.")] = None,
    encoding: Annotated[str, read(metavar="NAME", help="Of .csv files, such as cp1252.")] = "utf-8",
    size: Annotated[str | None, read(metavar="HxW", help="Resize pictures, such as to 32x32.")] = None,
    gray: Annotated[bool | None, read("--gray/--rgb", help="Convert pictures to gray or to color.")] = None,
    scale: Annotated[bool, read(help="Divide bytes of images by 255.")] = True,
    mean: Annotated[str | None, read(metavar="X,X,X", help="Subtracted from each channel, after scaling.")] = None,
    std: Annotated[str | None, read(metavar="X,X,X", help="Each channel is divided by it, after that.")] = None,
    sample: Annotated[int | None, read(min=2, metavar="N", help="Use only N inputs, chosen at random.")] = None,
    text: Annotated[str | None, explained(metavar="COLUMN", help=TEXT_HELP)] = None,
    unit: Annotated[Unit | None, explained(help=UNIT_HELP, show_default="word")] = None,
    patch: Annotated[int | None, explained(min=1, metavar="N", help=PATCH_HELP)] = None,
    segments: Annotated[Path | None, explained(metavar="FILE", help=SEGMENTS_HELP)] = None,
    game: Annotated[Game, explained(help=GAME_HELP)] = "auto",
    method: Annotated[Method, explained(help=METHOD_HELP)] = "auto",
    n_calls: Annotated[int | None, explained(min=1, metavar="N", help=CALLS_HELP)] = None,
    output: Annotated[OutputChoice, explained(help=OUTPUT_HELP)] = "auto",
    names: Annotated[str | None, explained(metavar="A,B,C", help="Names of the model's outputs.")] = None,
    seconds: Annotated[float | None, trained(metavar="X", help="Time to train; 120 without --steps.")] = None,
    steps: Annotated[int | None, trained(min=1, max=MAX_STEPS, metavar="N", help="Steps to train.")] = None,
    objective: Annotated[ObjectiveName | None, trained(help=OBJECTIVE_HELP, show_default="multilinear")] = None,
    alpha: Annotated[float | None, trained(metavar="X", help=KERNEL_HELP)] = None,
    beta: Annotated[float | None, trained(metavar="X", help=KERNEL_HELP)] = None,
    network: Annotated[NetworkName | None, trained(help=NETWORK_HELP, show_default="auto")] = None,
    seed: Annotated[int, trained(min=0, max=MAX_SEED, metavar="N", help="Of everything random.")] = 0,
    device: Annotated[
        str, trained(metavar="NAME", help="Such as cpu or cuda; auto is a GPU if there is one.")
    ] = "auto",
    resume: Annotated[bool, trained("--resume", help="Continue training that was stopped.")] = False,
    out: Annotated[Path, written("--out", "-o", metavar="FOLDER", help="Folder for the explainer.")],
    calibrate: Annotated[bool, written("--calibrate", help=CALIBRATE_HELP)] = False,
    report: Annotated[bool, written(help="Also measure the explainer and write report.html; takes minutes.")] = False,
    force: Annotated[bool, written("--force", help="Replace what the folder contains, also stopped training.")] = False,
) -> None:
    """Make an explainer of a model; then `fwshapley explain` explains inputs.

    Tree ensembles, linear models, and other models of at most 12 columns have exact values.
    Nothing is trained then; the rows of DATA stand in for hidden features.

    For all other models, a network is trained that explains each input in milliseconds.
    Progress is saved every 20 seconds and on Ctrl-C; --resume continues.

    Players, to which values are assigned, are the columns of a table or patches of an image.

    Start with: fwshapley fit model.py:model train.csv --label species --out explainer
    """
    arguments = dict(locals())
    saved = Checkpoints(out, PARTS)
    with errors_explained(saved.about_stopping), ExitStack() as stack:
        choose_device(device)  # or raise an error before any work
        stack.enter_context(locked(out))
        _check_folder(saved, resume=resume, report=report, force=force)
        left_out = tuple(dict.fromkeys([*([] if label is None else [label]), *(ignore or [])]))
        wanted = image_format(size, gray, mean, std, scaled=scale, left_out=left_out, encoding=encoding)
        budget = fw.Budget(DEFAULT_SECONDS if seconds is None and steps is None else seconds, steps)
        weights = learned_weights(objective or "multilinear", alpha, beta)
        asked, why = _asked_method(arguments)
        check_exists(data)
        if text is not None or unit is not None:
            _fit_texts(arguments, budget, saved)
            return
        found = NamedModel.find(model, output, exact=asked != "learned")
        inputs, wanted = read_inputs([data], found.with_columns(wanted), most=sample, seed=seed)
        players, about_players = _players_of_options(inputs, wanted, patch, segments)
        output_names = None if names is None else [name.strip() for name in names.split(",")]
        if wanted.kind == "images":
            _check_method_for_images(asked, game, data)
        choice = Choice(None, "learned", "conditional", why or "images have no exact values")
        if asked != "learned" and wanted.kind != "images":
            choice = found.choose(
                inputs,
                wanted.columns or inputs.names,
                method=asked,
                game=game,
                n_calls="auto" if n_calls is None else n_calls,
                output=output,
                output_names=output_names,
                device=device,
                seed=seed,
            )
        about_method = f"method {choice}"
        if choice.explainer is not None:
            notes = (*inputs.notes, *filter(None, [found.about_columns]), about_players, about_method)
            _print_plan(found, (*notes, about_scale(choice.explainer)))
            print_line("nothing is trained; --method learned trains a network, which explains in one forward pass")
            choice.explainer.metadata = {COMMAND: FitRecord(model, wanted, notes, arguments).facts()}
            _save(choice.explainer, saved)
            _print_next(out, model if open_explainer(out).needs_model else None, [FILE])
            return
        x, x_valid, about_valid = validation_inputs(inputs, valid, wanted, seed)
        if calibrate and len(x_valid) < MIN_INPUTS:
            raise ValueError(
                f"--calibrate needs at least {MIN_INPUTS} inputs that are not trained on, got {len(x_valid)}: give "
                "them by --valid"
            )
        notes = (*inputs.notes, about_valid, about_players, about_method)
        _print_plan(found, notes)
        print_line(f"training for {about_budget(budget)}; Ctrl-C stops it, --resume continues")
        explainer = fw.FeatureExplainer(
            as_in_file(found.model, wanted.layout),
            players,
            output=output,
            objective=objective or "multilinear",
            weights=weights,
            network=network or "auto",
            output_names=output_names,
            device=device,
            seed=seed,
        )
        train_explainer(explainer, x, x_valid, budget, saved, resume=resume)
        if calibrate:
            calibrate_errors(explainer, x_valid)
        explainer.metadata = {COMMAND: FitRecord(model, wanted, notes, arguments).facts()}
        _save(explainer, saved)
        if report:
            report_explainer(explainer, x_valid, out / REPORT)
        _print_next(out, model, [FILE, *[REPORT] * report])


def _fit_texts(arguments: Mapping[str, Any], budget: fw.Budget, saved: Checkpoints) -> None:
    """Train an explainer of texts, and write it."""
    if arguments["text"] is None:
        raise ValueError("--unit is for texts: name their column by --text")
    table = InputFormat(kind="texts", columns=(arguments["text"],), encoding=arguments["encoding"])
    explainer, notes = fit_texts(arguments, table, budget, saved)
    explainer.metadata = {COMMAND: FitRecord(arguments["model"], table, notes, arguments).facts()}
    _save(explainer, saved)
    _print_next(saved.out, None, [FILE])


def _asked_method(arguments: Mapping[str, Any]) -> tuple[Method, str]:
    """Return the method, which is learned if an option of training is given, and why."""
    method: Method = arguments["method"]
    game: Game = arguments["game"]
    if method == "auto" and game == "conditional":
        return "learned", "--game conditional asks for it"
    if method == "learned" and game == "interventional":
        raise ValueError("--method learned explains the conditional game: leave it out, or --game interventional")
    given = [name for name in OF_TRAINING if arguments[name] is not None and arguments[name] is not False]
    if not given:
        return method, "it was asked for" if method == "learned" else ""
    option = f"--{given[0]}"
    if game == "interventional":
        raise ValueError(f"{option} is an option of training, and --game interventional trains nothing: leave one out")
    if method in ("auto", "learned"):
        return "learned", f"{option} is an option of training"
    raise ValueError(f"{option} is an option of training, and --method {method} trains nothing: leave one of them out")


def _check_method_for_images(method: Method, game: Game, data: Path) -> None:
    """Raise an error if a method or a game is requested that images do not have."""
    option = "--game interventional" if game == "interventional" else f"--method {method}"
    if method not in ("auto", "learned") or game == "interventional":
        raise ValueError(f"{option} is for tables; {data} contains images: leave it out")


def _print_next(out: Path, model: str | None, files: list[str]) -> None:
    """Print what was written, and the next command."""
    named = [] if model is None else ["--model", model]
    command = shlex.join(["fwshapley", "explain", str(out), "INPUT", *named, "--out", "explanations"])
    print_line(f"written to [bold]{escape(str(out))}[/bold]: {', '.join(files)}")
    print_line(f"next: {escape(command)}")


def _check_folder(saved: Checkpoints, *, resume: bool, report: bool, force: bool) -> None:
    """Raise an error if results cannot be written to the folder, before there is any work to lose."""
    if report:
        check_matplotlib("it: --no-report")
    saved.check(resume=resume, force=force)
    check_free(saved.out, [FILE, *[REPORT] * (report or _has_our_report(saved.out))], force=force)


def _has_our_report(folder: Path) -> bool:
    """Whether the fit that wrote the explainer in a folder also wrote a report; a user's own is not removed."""
    if not (folder / FILE).exists():
        return False
    try:
        return bool((open_explainer(folder).record.arguments or {}).get("report"))
    except (OSError, ValueError):  # damaged
        return False


def _players_of_options(
    inputs: Inputs, wanted: InputFormat, patch: int | None, segments: Path | None
) -> tuple[fw.players.Players | None, str]:
    """Return the players, None for the columns of a DataFrame, and a note on them."""
    if wanted.size is None:
        if patch is not None or segments is not None:
            raise ValueError("--patch and --segments are for images; players of a table are its columns")
        count = inputs.x.shape[1]
        players = None if inputs.names is None else fw.columns(count, inputs.names)
        return players, f"players: {counted(count, 'column')}"
    if segments is not None:
        if patch is not None:
            raise ValueError("--patch and --segments exclude each other")
        players = fw.segments(_read_segments(segments))
        return players, f"players: {counted(players.n_players, 'segment')} of {segments.name}"
    height, width = wanted.size
    side = _choose_patch(height, width) if patch is None else patch
    players = fw.grid(height, width, patch=side)
    hint = "" if patch is not None else "; --patch gives another size"
    return players, f"players: {players.n_players} patches of {side} x {side} pixels{hint}"


def _choose_patch(height: int, width: int) -> int:
    """Return the smallest side of square patches, at most 16 along a side; they tile the image if any do."""
    common = math.gcd(height, width)
    for side in range(1, common + 1):
        if common % side == 0 and max(height, width) <= side * MAX_PATCHES and (height, width) != (side, side):
            return side
    return min(height, width, math.ceil(max(height, width) / MAX_PATCHES))


def _read_segments(path: Path) -> NDArray[np.int64]:
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with path.open("rb") as file:
            numbers = np.load(file, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is not a .npy file of segments") from error
    if not isinstance(numbers, np.ndarray) or numbers.dtype.kind not in "iu":
        raise ValueError(f"{path} must be a .npy file of whole numbers, (height, width)")
    return numbers.astype(np.int64)


def _print_plan(found: NamedModel, notes: tuple[str, ...]) -> None:
    """Print the model and what was read."""
    kind = found.trees.source if found.is_file else type(found.model).__name__
    about = "" if isinstance(found.model, FunctionType) else f" ({kind})"
    console.print(Text(f"Explaining {found.name}{about}", style="bold"), soft_wrap=True)
    print_notes(notes)


def _save(explainer: fw.FeatureExplainer | ExactExplainer, saved: Checkpoints) -> None:
    """Write the explainer; remove its checkpoints, and the report of the explainer that it replaces."""
    outdated = _has_our_report(saved.out)
    explainer.save(saved.out if isinstance(explainer, fw.FeatureExplainer) else saved.out / FILE)
    saved.remove()
    if outdated:
        (saved.out / REPORT).unlink(missing_ok=True)
