"""`fwshapley fit` and `fwshapley explain` for texts: a model of transformers in a folder, and a column of a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from rich.markup import escape
from rich.text import Text
from torch import nn

import fwshapley as fw
from fwshapley._internal.files import written_whole
from fwshapley._internal.html import Report
from fwshapley._internal.version import __version__
from fwshapley._internal.wording import counted
from fwshapley.cli.checkpoints import Checkpoints
from fwshapley.cli.console import about_budget, console, print_line, print_notes
from fwshapley.cli.explanation_files import RECORD, TEXTS_PAGE
from fwshapley.cli.fit_record import open_explainer
from fwshapley.cli.input_format import InputFormat
from fwshapley.cli.request import Request
from fwshapley.cli.training import train_explainer
from fwshapley.explanation import TextAttribution
from fwshapley.plots.texts import to_html, to_rich
from fwshapley.tables.file_reader import check_column, check_exists, open_table

UNITS = {"token": fw.tokens, "word": fw.words, "sentence": fw.sentences}
VALUES_FILE = "values.csv"
NOT_FOR_TEXTS = ("patch", "segments", "size", "gray", "mean", "std", "calibrate", "report", "alpha", "beta", "n_calls")
"""Options of fit that texts do not have."""

MAX_SHOWN = 200
"""Texts of the page with colored words."""


class Texts(NamedTuple):
    """Texts of some files.

    Attributes:
        texts: that are not empty.
        names: of each: its file and row.
        notes: on what was read.
    """

    texts: list[str]
    names: list[str]
    notes: tuple[str, ...]


class ExplainedTexts(NamedTuple):
    """Values of texts, and where these come from."""

    attribution: TextAttribution
    names: list[str]


def fit_texts(
    arguments: Mapping[str, Any], table: InputFormat, budget: fw.Budget, saved: Checkpoints
) -> tuple[fw.FeatureExplainer, tuple[str, ...]]:
    """Train an explainer of a model of texts, and return it with notes.

    Args:
        arguments: of `fwshapley fit`.
        table: the column of the texts, and the encoding of its file.
        budget: of the training.
        saved: the files that training saves its progress to.
    """
    for name in NOT_FOR_TEXTS:
        if arguments[name] not in (None, False):
            raise ValueError(f"--{name.replace('_', '-')} is not for texts: leave it out")
    if arguments["method"] not in ("auto", "learned") or arguments["game"] == "interventional":
        raise ValueError("texts have learned values: leave out --method and --game")
    model, tokenizer = load_model(Path(arguments["model"]))
    players = UNITS[arguments["unit"] or "word"](tokenizer, truncate=True)
    train = read_texts([arguments["data"]], table)
    chosen = train.texts
    if arguments["sample"] is not None and arguments["sample"] < len(chosen):
        order = np.random.default_rng(arguments["seed"]).permutation(len(chosen))[: arguments["sample"]]
        chosen = [chosen[number] for number in order]
    valid = None if arguments["valid"] is None else read_texts([arguments["valid"]], table).texts
    notes = (*train.notes, f"players: {players.unit}s of up to {players.n_players} tokens")
    console.print(Text(f"Explaining {arguments['model']} ({type(model).__name__})", style="bold"), soft_wrap=True)
    print_notes(notes)
    print_line(f"training for {about_budget(budget)}; Ctrl-C stops it, --resume continues")
    names = arguments["names"]
    explainer = fw.FeatureExplainer(
        model,
        players,
        output=arguments["output"],
        output_names=None if names is None else [name.strip() for name in names.split(",")],
        device=arguments["device"],
        seed=arguments["seed"],
    )
    train_explainer(explainer, chosen, valid, budget, saved, resume=arguments["resume"])
    return explainer, notes


def explain_texts(
    source: str, files: Sequence[Path], request: Request, *, column: str | None, encoding: str | None, device: str
) -> ExplainedTexts:
    """Explain the texts of some files.

    Args:
        source: folder or file of the explainer.
        files: with the texts.
        request: what to compute.
        column: of the texts; None is that of the fit.
        encoding: of the files; None is that of the fit.
        device: where.
    """
    table = open_explainer(Path(source)).record.format
    columns = table.columns if column is None else (column,)
    table = replace(table, columns=columns, encoding=encoding or table.encoding)
    if request.errors:
        raise ValueError("--errors is not for texts: give --refine for standard errors")
    explainer = fw.FeatureExplainer.load(source, device=device)
    read = read_texts(files, table)
    print_notes(read.notes)
    are_classes = explainer.masked_model_.output in ("probability", "logit")
    outputs: Any = request.choose_outputs(explainer.output_names_, are_classes=are_classes)
    options: dict[str, Any] = {"weights": request.weights, "outputs": outputs}
    if request.refine is None:
        is_planned = request.method == "auto" and explainer.quality_ is not None
        method: Literal["auto", "network"] = "auto" if is_planned else "network"
        attribution = explainer.explain(read.texts, total=request.total, method=method, **options)
    else:
        attribution = explainer.refine(read.texts, n_calls=request.refine, **options)
    assert isinstance(attribution, TextAttribution)  # noqa: S101 - of texts
    print_notes([str(attribution)])
    differ = explainer.predictions(read.texts).differ
    if differ is not None and bool(differ.any()):
        count = f"{int(differ.sum()):,} of {counted(len(read.texts), 'text')}"
        print_notes([f"warning: surrogate and model predict different classes for {count}: do not trust these"])
    return ExplainedTexts(attribution.to("cpu"), read.names)


def report_texts(results: ExplainedTexts, top: int, out: Path | None) -> None:
    """Print the first few texts with colored words, and write all of them to a folder, if there is one."""
    for row in range(min(top, len(results.names))):
        console.print(to_rich([part._replace(title=title) for title, part in _titled(results, row)]), soft_wrap=True)
    if out is not None:
        print_line(f"written to [bold]{escape(str(out))}[/bold]: {write_texts(results, out)}")


def write_texts(results: ExplainedTexts, folder: Path) -> str:
    """Write values as a table and texts as a page, both or none; return the names of the files."""
    frame = results.attribution.to_dataframe()
    frame.insert(0, "text", [results.names[number] for number in frame["input"]])
    page = Report("Explained texts", "Orange words raise the output, blue words lower it; the pointer shows values.")
    shown = range(min(MAX_SHOWN, len(results.names)))
    page.fragment(to_html([part._replace(title=title) for row in shown for title, part in _titled(results, row)]))
    with ExitStack() as stack:
        facts = {"version": __version__, "files": [VALUES_FILE, TEXTS_PAGE], "skipped": []}
        record = stack.enter_context(written_whole(folder / RECORD))
        record.write_text(f"{json.dumps(facts, indent=2)}\n", encoding="utf-8")
        frame.drop(columns="input").to_csv(stack.enter_context(written_whole(folder / VALUES_FILE)), index=False)
        page.write(folder / TEXTS_PAGE)
    return f"{VALUES_FILE}, {TEXTS_PAGE}"


def load_model(folder: Path) -> tuple[nn.Module, Any]:
    """Return the model and the tokenizer in a folder of transformers; nothing is downloaded, and no code of it runs."""
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(
            f"{folder} must be a folder that save_pretrained of transformers wrote, with config.json, to explain texts"
        )
    try:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer  # noqa: PLC0415 - optional
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("texts need transformers: pip install 'fwshapley[transformers]'") from error
    options = {"local_files_only": True, "trust_remote_code": False}
    try:
        model = AutoModelForSequenceClassification.from_pretrained(folder, use_safetensors=True, **options)
        return model, AutoTokenizer.from_pretrained(folder, **options)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"{folder} has no model and tokenizer of texts that can be loaded: {reason}") from error


def read_texts(files: Sequence[Path], table: InputFormat) -> Texts:
    """Return the texts in a column of some tables, without empty ones.

    Args:
        files: .csv, .parquet or .xlsx.
        table: the column and the encoding.
    """
    texts, names, empty = [], [], 0
    for path in files:
        check_exists(path)
        opened = open_table(path, table.encoding)
        wanted = None if table.columns is None else table.columns[0]
        column = check_column(path, wanted, opened.names, "--text")
        frame, _ = opened.read([column])
        for row, entry in frame[column].items():
            if isinstance(entry, str) and entry.strip():
                texts.append(entry)
                names.append(f"row {row} of {path.name}")
            else:
                empty += 1
    if not texts:
        raise ValueError(f"{files[0]} has no text in column {column!r}")
    notes = [f"{counted(len(texts), 'text')} in column {column!r}"]
    notes += [f"{counted(empty, 'row')} without a text left out"] if empty else []
    return Texts(texts, names, tuple(notes))


def _titled(results: ExplainedTexts, row: int) -> list[tuple[str, Any]]:
    """Return a text under each weighting, with a title that names its file."""
    parts = results.attribution.colored(row)
    return [(part.title.replace(f"input {row}", results.names[row], 1), part) for part in parts]
