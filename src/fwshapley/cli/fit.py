"""`fwshapley fit`: train an explainer of a model, once."""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

import fwshapley as fw
from fwshapley._internal.checks import MAX_SEED
from fwshapley._internal.files import locked
from fwshapley.cli.console import MOST_STEPS, console, errors_explained
from fwshapley.cli.fitting import (
    CHECKPOINTS,
    about_going_on,
    announce,
    check_calibration,
    check_folder,
    learned_weights,
    measure_errors,
    prepare_task,
    show_training,
    write_explainer,
)
from fwshapley.cli.images.files import parse_size
from fwshapley.cli.input_reading import Reading, parse_numbers
from fwshapley.cli.model_loading import OutputChoice
from fwshapley.explanation.fitting import NetworkName
from fwshapley.explanation.inputs import choose_device
from fwshapley.explanation.options import ObjectiveName

DEFAULT_SECONDS = 120.0

read = partial(typer.Option, rich_help_panel="What is read")
explained = partial(typer.Option, rich_help_panel="What is explained")
trained = partial(typer.Option, rich_help_panel="How it is trained")
written = partial(typer.Option, rich_help_panel="What is written")

MODEL_HELP = (
    "package.module:attribute or file.py:attribute, which is a torch module, a function or an estimator; with () "
    "behind it, it is called and returns one. Or a .pt2 file of torch.export. Each may run code: take it from whom you "
    "trust."
)
DATA_HELP = "Inputs like those to explain: a .csv or .npz file, or a folder of pictures. Labels are not needed."
VALID_HELP = "Other inputs, to select by; otherwise a tenth is held out."
PATCH_HELP = "Players are patches of N x N pixels; by default 16 a side at most."
SEGMENTS_HELP = "Players are segments of images: a .npy file of (height, width) numbers from 0."
OUTPUT_HELP = (
    "What is explained: classes that exclude each other, labels that do not, or raw outputs. auto: classes of a torch "
    "module, and of others if they return probabilities."
)
CALIBRATE_HELP = "Also measure how far off values are, for `fwshapley explain --errors`; some seconds."
LEARNED_HELP = "With --objective kernel: the weighting to learn."


def fit(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    data: Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP)],
    *,
    valid: Annotated[Path | None, read(metavar="DATA", help=VALID_HELP)] = None,
    label: Annotated[str | None, read("--label", "-l", metavar="COLUMN", help="Column of labels: left out.")] = None,
    ignore: Annotated[list[str] | None, read(metavar="COLUMN", help="Column to leave out; may be repeated.")] = None,
    encoding: Annotated[str, read(metavar="NAME", help="Of .csv files, such as cp1252.")] = "utf-8",
    size: Annotated[str | None, read(metavar="HxW", help="Resize pictures, such as 32x32.")] = None,
    gray: Annotated[bool | None, read("--gray/--rgb", help="Color of pictures; by default as they are.")] = None,
    scale: Annotated[bool, read(help="Divide bytes of images by 255.")] = True,
    mean: Annotated[str | None, read(metavar="X,X,X", help="Subtracted from each channel, after scaling.")] = None,
    std: Annotated[str | None, read(metavar="X,X,X", help="Each channel is divided by it, after that.")] = None,
    sample: Annotated[int | None, read(min=2, metavar="N", help="Use only N inputs, chosen at random.")] = None,
    patch: Annotated[int | None, explained(min=1, metavar="N", help=PATCH_HELP)] = None,
    segments: Annotated[Path | None, explained(metavar="FILE", help=SEGMENTS_HELP)] = None,
    output: Annotated[OutputChoice, explained(help=OUTPUT_HELP)] = "auto",
    names: Annotated[str | None, explained(metavar="A,B,C", help="Names of the model's outputs.")] = None,
    seconds: Annotated[float | None, trained(metavar="X", help="Time to train; 120 without --steps.")] = None,
    steps: Annotated[int | None, trained(min=1, max=MOST_STEPS, metavar="N", help="Steps to train.")] = None,
    objective: Annotated[ObjectiveName, trained(help="Learn all weightings at once, or one.")] = "multilinear",
    alpha: Annotated[float | None, trained(metavar="X", help=LEARNED_HELP)] = None,
    beta: Annotated[float | None, trained(metavar="X", help=LEARNED_HELP)] = None,
    network: Annotated[NetworkName, trained(help="What explains; unet and slim are for images.")] = "auto",
    seed: Annotated[int, trained(min=0, max=MAX_SEED, metavar="N", help="Of everything random.")] = 0,
    device: Annotated[str, trained(metavar="NAME", help="Such as cpu or cuda; auto is a GPU if any.")] = "auto",
    resume: Annotated[bool, trained("--resume", help="Go on with a fit that was stopped.")] = False,
    out: Annotated[Path, written("--out", "-o", metavar="FOLDER", help="Folder for the explainer.")],
    calibrate: Annotated[bool, written("--calibrate", help=CALIBRATE_HELP)] = False,
    report: Annotated[bool, written(help="Also measure it, which takes a while: report.html.")] = False,
    force: Annotated[bool, written("--force", help="Replace what is in the folder, also a fit that stopped.")] = False,
) -> None:
    """Train an explainer of a model, once; then `fwshapley explain` takes milliseconds.

    Players are the columns of a table, or patches of an image.
    The folder gets the explainer, in one file with all that was done.
    Progress is saved every 20 seconds and on Ctrl-C: --resume goes on.

    Start with: fwshapley fit model.py:model train.csv --label species --out explainer
    """
    arguments = dict(locals())
    with errors_explained(partial(about_going_on, out, time.time())), ExitStack() as kept:
        choose_device(device)  # or say that it cannot be used
        kept.enter_context(locked(out))
        check_folder(out, resume=resume, report=report, force=force)
        how = Reading(
            left_out=tuple(dict.fromkeys([*([] if label is None else [label]), *(ignore or [])])),
            encoding=encoding,
            size=None if size is None else parse_size(size),
            color=None if gray is None else "gray" if gray else "rgb",
            scaled=scale,
            mean=None if mean is None else parse_numbers(mean),
            std=None if std is None else parse_numbers(std),
        )
        budget = fw.Budget(DEFAULT_SECONDS if seconds is None and steps is None else seconds, steps)
        weights = learned_weights(objective, alpha, beta)
        task = prepare_task(
            model, data, how, valid=valid, sample=sample, patch=patch, segments=segments, output=output, seed=seed
        )
        check_calibration(task, wanted=calibrate)
        announce(task, budget)
        explainer = fw.FeatureExplainer(
            task.model,
            task.players,
            output=output,
            objective=objective,
            weights=weights,
            network=network,
            output_names=None if names is None else [name.strip() for name in names.split(",")],
            device=device,
            seed=seed,
        )
        if not resume:
            shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)
        explainer.fit(task.x, task.valid, budget=budget, checkpoint=out / CHECKPOINTS, resume=resume)
        show_training(explainer)
        if calibrate:
            measure_errors(explainer, task)
        written_to = write_explainer(explainer, task, out, arguments=arguments, report=report)
        console.print(written_to, highlight=False, soft_wrap=True)
