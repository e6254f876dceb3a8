"""`fwshapley export`: write a fitted explainer to an ONNX file, which runs without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fwshapley.cli.console import errors_explained, print_line, print_notes
from fwshapley.cli.explain import MODEL_HELP
from fwshapley.cli.fit_record import open_explainer
from fwshapley.cli.learned import load_learned

SUFFIX = ".onnx"
SURROGATE_HELP = "Also write the surrogate: inputs and coalitions give the value of each coalition."


def export(
    folder: Annotated[Path, typer.Argument(help="The --out of fwshapley fit, or an explainer saved by Python.")],
    file: Annotated[Path, typer.Argument(metavar="FILE.onnx", help="File to write.")],
    *,
    surrogate: Annotated[Path | None, typer.Option(metavar="FILE.onnx", help=SURROGATE_HELP)] = None,
    model: Annotated[str | None, typer.Option(metavar="MODEL", help=MODEL_HELP)] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
) -> None:
    """Write a learned explainer to an ONNX file: one network for every weighting, which is an input of its graph.

    The file has all that explaining needs: players, outputs, base values and how well the surrogate predicts. Run it
    with fw.load_onnx in Python, serve it with fwshapley serve, or with any other server of ONNX files.
    """
    with errors_explained():
        saved = open_explainer(folder)
        if saved.is_exact:
            raise ValueError(
                f"{folder} contains a {saved.kind}, which has no network: fwshapley serve takes it as it is"
            )
        for path in filter(None, [file, surrogate]):
            if path.suffix != SUFFIX:
                raise ValueError(f"the file to write must end in {SUFFIX}, got {path}")
            if path.exists() and not force:
                raise FileExistsError(f"{path} exists already: replace it with --force, or choose another name")
        explainer = load_learned(folder, saved, model, "cpu")
        explainer.to_onnx(file, surrogate=surrogate)
        fidelity = explainer.fidelity_
        print_notes([] if fidelity is None else [f"the surrogate {fidelity.summary}"])
        names = " and ".join(f"[bold]{escape(str(path))}[/bold]" for path in filter(None, [file, surrogate]))
        print_line(f"written to {names}")
        print_line(f"next: fwshapley serve {escape(str(file))}")
