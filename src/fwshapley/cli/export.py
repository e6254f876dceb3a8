"""`fwshapley export`: write a fitted explainer to an ONNX file, or to a page that needs no server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import fwshapley as fw
from fwshapley._internal.files import check_writable_file
from fwshapley.cli.console import errors_explained, print_line, print_notes
from fwshapley.cli.explain import MODEL_HELP
from fwshapley.cli.fit_record import SavedExplainer, open_explainer
from fwshapley.cli.learned import load_learned
from fwshapley.serving.model_folder import load_model, make_learned, read_samples
from fwshapley.serving.page import write_page

ONNX, PAGE = ".onnx", ".html"

FILE_HELP = "File to write: .onnx, which runs without torch, or .html, a page that shows samples without a server."
SURROGATE_HELP = "Also write the surrogate: inputs and coalitions give the value of each coalition."
SAMPLES_HELP = 'Inputs that an .html page shows: {"instances": [...]}; by default samples.json of the folder.'


def export(
    folder: Annotated[Path, typer.Argument(help="The --out of fwshapley fit, or an explainer saved by Python.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help=FILE_HELP)],
    *,
    surrogate: Annotated[Path | None, typer.Option(metavar="FILE.onnx", help=SURROGATE_HELP)] = None,
    samples: Annotated[Path | None, typer.Option(metavar="FILE.json", help=SAMPLES_HELP)] = None,
    model: Annotated[str | None, typer.Option(metavar="MODEL", help=MODEL_HELP)] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
) -> None:
    """Write a learned explainer to an ONNX file: one network for every weighting, which is an input of its graph.

    The file has all that explaining needs: players, outputs, base values and how well the surrogate predicts. Run it
    with fw.load_onnx in Python, serve it with fwshapley serve, or with any other server of ONNX files.

    A file that ends in .html is the page of fwshapley serve for some samples, and needs no server.
    """
    with errors_explained():
        saved = open_explainer(folder)
        _check_files(file, surrogate, samples, force=force)
        if file.suffix == PAGE:
            _export_page(folder, file, samples, saved, model)
            print_line(f"written to [bold]{escape(str(file))}[/bold]: open it in a browser")
            return
        if saved.is_exact:
            raise ValueError(
                f"{folder} contains a {saved.kind}, which has no network: fwshapley serve takes it as it is"
            )
        explainer = load_learned(folder, saved, model, "cpu")
        explainer.to_onnx(file, surrogate=surrogate)
        fidelity = explainer.fidelity_
        print_notes([] if fidelity is None else [f"the surrogate {fidelity.summary}"])
        names = " and ".join(f"[bold]{escape(str(path))}[/bold]" for path in filter(None, [file, surrogate]))
        print_line(f"written to {names}")
        print_line(f"next: fwshapley serve {escape(str(file))}")


def _check_files(file: Path, surrogate: Path | None, samples: Path | None, *, force: bool) -> None:
    """Raise an error that names a file that cannot be written or read."""
    if file.suffix not in (ONNX, PAGE):
        raise ValueError(f"the file to write must end in {ONNX} or {PAGE}, got {file}")
    if surrogate is not None and (surrogate.suffix != ONNX or file.suffix != ONNX):
        raise ValueError(f"--surrogate is another file that ends in {ONNX}, beside one of the explainer")
    if samples is not None and file.suffix != PAGE:
        raise ValueError(f"--samples is for a file that ends in {PAGE}, got {file}")
    if samples is not None and not samples.is_file():
        raise FileNotFoundError(f"there is no file {samples}")
    for path in filter(None, [file, surrogate]):
        check_writable_file(path, "the file to write")
        if path.exists() and not force:
            raise FileExistsError(f"{path} exists already: replace it with --force, or choose another name")


def _export_page(folder: Path, file: Path, samples: Path | None, saved: SavedExplainer, model: str | None) -> None:
    """Write the page of an explainer for the samples of a file, or of its folder."""
    if saved.is_exact or model is None:
        served = load_model(folder)
    else:
        exported = fw.serving.ExportedExplainer.of(load_learned(folder, saved, model, "cpu"))
        served = make_learned(folder.resolve().name, exported, "torch", None)
    if samples is not None:
        served = replace(served, samples=read_samples(samples, served.fields))
    write_page(file, served)
