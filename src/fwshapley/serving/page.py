"""The page of a server: what it shows of a model, and the same page as one file that needs no server."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fwshapley._internal.files import written_whole
from fwshapley._internal.version import __version__
from fwshapley.serving.query import Query, read_query
from fwshapley.serving.served_model import LearnedModel, ServedModel

EMBEDDED = '<script type="application/json" id="embedded"></script>'
"""Where the offline page has its data."""

FIT_RECORD = "fwshapley fit"
"""Key of what the command line has noted in the metadata of an explainer."""


def read_asset(name: str) -> bytes:
    """Return a file of the page, which is part of the package."""
    return (files("fwshapley.serving") / "assets" / name).read_bytes()


def describe_model(model: ServedModel[Any]) -> dict[str, Any]:
    """Return what the page needs to know of a model, JSON-compatible."""
    about, players = model.about(), model.players
    columns = model.fields.columns
    return {
        **about,
        "name": model.name,
        "version": __version__,
        "players": {
            "names": players.names,
            "grid": players.grid,
            "assignment": players.assignment.tolist() if players.is_image else None,
        },
        "shape": model.fields.shape,
        "is_frame": model.fields.is_frame,
        "columns": None if columns is None else [vars(column) for column in columns],
        "basis": model.basis.facts(),
        "errors": [json.loads(weights) for weights in about["errors"]],
        "error_total": None if about["error_model"] is None else about["error_model"]["total"],
        "error_model": None,  # nor does a page need how the explainer was fitted, with its paths
        "metadata": None,
        "fidelity": _spell_fidelity(about["provenance"].get("fidelity")),
        "code": model.code or _load_code(model),
        "can_refine": isinstance(model, LearnedModel) and model.explainer.source is not None,
        "pixels": _find_pixels(about.get("metadata")),
        "samples": model.samples,
    }


def write_page(path: Path, model: ServedModel[Any]) -> None:
    """Write the page for the samples of a model as one HTML file, which needs no server.

    Args:
        path: the file; an existing one is replaced.
        model: with samples.
    """
    if not model.samples:
        raise ValueError(f"the model {model.name!r} has no samples to show: give some, or put samples.json beside it")
    description = describe_model(model)
    parameters: dict[str, Any] = {"outputs": "all", "coefficients": True}
    if description["errors"]:
        parameters |= {"errors": True, "weights": description["errors"], "total": description["error_total"]}
    query = read_query(parameters)
    embedded = {"model": description, "answers": [_pack_answer(model, sample, query) for sample in model.samples]}
    text = read_asset("index.html").decode()
    data = json.dumps(embedded).replace("<", "\\u003c")  # so that no text of a model ends the element
    parts = {
        EMBEDDED: EMBEDDED.replace("></", f">{data}</"),
        '<link rel="stylesheet" href="page.css">': f"<style>{read_asset('page.css').decode()}</style>",
        '<script src="mixtures.js" defer></script>': "",
        '<script src="page.js" defer></script>': "",
        "</body>": f"<script>{read_asset('mixtures.js').decode()}\n{read_asset('page.js').decode()}</script></body>",
    }
    for part, replacement in parts.items():
        assert text.count(part) == 1, part  # noqa: S101 - the page has it once
        text = text.replace(part, replacement)
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _pack_answer(model: ServedModel[Any], sample: object, query: Query) -> dict[str, Any]:
    """Return what the server would answer for a sample, as the page keeps it."""
    (answer,) = model.answer([(model.read([sample], query, 1), query)])
    assert answer.coefficients is not None  # noqa: S101 - the query asks for them
    packed = {"coefficients": _pack(answer.coefficients[0]), "predictions": _pack(answer.predictions[0])}
    if answer.expected_error is not None:
        packed["expected_error"] = _pack(answer.expected_error[:, 0])
    return packed


def _pack(array: NDArray[Any]) -> dict[str, Any]:
    """Return an array as its shape and its bytes as text."""
    data = base64.b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode()
    return {"shape": array.shape, "data": data}


def _load_code(model: ServedModel[Any]) -> str:
    """Return Python that loads the explainer from where the server did, if it is run there."""
    is_onnx = isinstance(model, LearnedModel) and model.runtime == "onnxruntime"
    return f'explainer = fw.load_onnx("{model.name}.onnx")' if is_onnx else f'explainer = fw.load("{model.name}")'


def _spell_fidelity(fidelity: Mapping[str, Any] | None) -> str:
    """Return how well the surrogate predicts, in a sentence; empty if there is no surrogate of its own."""
    if fidelity is None:
        return ""
    share, error = max(fidelity["explained"], 0), fidelity["error"]
    text = f"explains {share:.1%} of the variance of the model's predictions and is off by {error:.2g} on average"
    if fidelity["agreement"] is None:
        return f"The surrogate {text}."
    return f"The surrogate {text}; it predicts the model's class for {fidelity['agreement']:.1%} of inputs."


def _find_pixels(metadata: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return how `fwshapley fit` made numbers of pixels; None if it is not known."""
    record = (metadata or {}).get(FIT_RECORD)
    if record is None or record["format"]["kind"] != "images":
        return None
    form = record["format"]
    plain: Sequence[str] = ("scaled", "mean", "std")
    return {name: form[name] for name in plain}
