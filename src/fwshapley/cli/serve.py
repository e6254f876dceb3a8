"""`fwshapley serve`: explanations over HTTP, and a page that re-weighs them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from fwshapley.cli.console import errors_explained, print_line

if TYPE_CHECKING:
    from fwshapley.serving.served_model import ServedModel

TOKEN_VARIABLE = "FWSHAPLEY_TOKEN"  # noqa: S105 - the name of a variable, not a token

FOLDERS_HELP = (
    "Folders with an explainer of fwshapley fit or of Python's save, or .onnx files of fwshapley export. The name of a "
    "folder, or of a file without .onnx, is the name of the model."
)
HOST_HELP = "Address to listen on; 0.0.0.0 lets other machines in: then set a token."
TOKEN_HELP = f"File with a token that clients must send; or set the variable {TOKEN_VARIABLE}."
ORIGIN_HELP = "Origin of web pages that may use the server, such as https://example.org; may be repeated."
DELAY_HELP = "Milliseconds that an idle server waits for more requests to compute together; a busy one never waits."


def serve(
    folders: Annotated[list[Path] | None, typer.Argument(metavar="[FOLDER...]", help=FOLDERS_HELP)] = None,
    *,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo", help="Serve two explainers of bundled data: digits, by a network that it trains, and wines."
        ),
    ] = False,
    host: Annotated[str, typer.Option(help=HOST_HELP)] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 is a free one.")] = 8080,
    token_file: Annotated[Path | None, typer.Option(metavar="FILE", help=TOKEN_HELP)] = None,
    allow_origin: Annotated[list[str] | None, typer.Option(metavar="URL", help=ORIGIN_HELP)] = None,
    max_body: Annotated[int, typer.Option(min=1, metavar="MIB", help="Largest body of a request, in MiB.")] = 32,
    max_instances: Annotated[int, typer.Option(min=1, metavar="N", help="Most inputs of a request.")] = 1024,
    max_queued: Annotated[int, typer.Option(min=1, metavar="N", help="Most inputs that wait; then 429.")] = 4096,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Most inputs computed together.")] = 256,
    batch_delay: Annotated[float, typer.Option(min=0, metavar="MS", help=DELAY_HELP)] = 0.0,
    timeout: Annotated[float, typer.Option(min=0.1, metavar="S", help="Longest wait for a result, in seconds.")] = 60.0,
) -> None:
    """Serve explanations over HTTP, by KServe's v1 protocol and the Open Inference Protocol v2, and a page at /.

    The page re-weighs an explanation live: sliders change alpha and beta. SIGTERM and Ctrl-C finish what was accepted;
    SIGHUP loads the explainers again, without a dropped request.

    Start with: fwshapley serve --demo
    """
    with errors_explained():
        try:
            from fwshapley.serving.http.batching import BatchLimits  # noqa: PLC0415 - of an extra, as the next three
            from fwshapley.serving.http.server import HttpServer, log_as_json  # noqa: PLC0415
            from fwshapley.serving.http.settings import MEBIBYTE, ServerSettings  # noqa: PLC0415
        except ModuleNotFoundError as error:
            message = f"{error.name} is missing: install it with pip install 'fwshapley[serve]'"
            raise ModuleNotFoundError(message) from error
        paths = list(folders or [])
        if not paths and not demo:
            raise ValueError("give folders of explainers, or --demo")
        examples: dict[str, ServedModel[Any]] = {}
        if demo:
            from fwshapley.cli.serve_demo import make_demo  # noqa: PLC0415 - trains, and imports scikit-learn's data

            print_line("training an explainer of digits, which takes about ten seconds")
            examples |= make_demo()
        settings = ServerSettings(
            host=host,
            port=port,
            token=_read_token(token_file),
            origins=tuple(allow_origin or ()),
            max_body=max_body * MEBIBYTE,
            max_instances=max_instances,
            batches=BatchLimits(rows=batch, delay=batch_delay / 1000, queued=max_queued, seconds=timeout),
        )
        server = HttpServer(partial(_load, paths, examples), settings, _announce)
        log_as_json()
        server.run()


def _load(paths: Sequence[Path], examples: Mapping[str, ServedModel[Any]]) -> dict[str, ServedModel[Any]]:
    """Return the models of folders and of the demo, whose names must differ."""
    from fwshapley.serving.model_folder import load_models  # noqa: PLC0415 - needs the extra

    models = load_models(paths)
    for name in models.keys() & examples.keys():
        raise ValueError(f"the demo has a model {name!r} too: rename the folder, or leave out --demo")
    return models | dict(examples)


def _announce(address: str) -> None:
    print_line(f"serving at [bold]{escape(address)}[/bold]; API at {escape(address)}/docs; Ctrl-C stops it")


def _read_token(file: Path | None) -> str | None:
    """Return the token of the file or the variable, if there is one."""
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    token = file.read_text(encoding="utf-8").strip()
    if not token.isascii() or not token.isprintable() or not token:
        raise ValueError(f"{file} must contain a token: a line of ASCII characters")
    return token
