"""Explainers in folders and files, as models of a server. What a file contains is read, and no code of it runs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from fwshapley._internal.loading import EXPLAINER_FILE, load
from fwshapley._internal.safetensors_file import read_metadata
from fwshapley.serving.exported_explainer import ExportedExplainer
from fwshapley.serving.input_columns import InputFields, Rows
from fwshapley.serving.mixtures import BanzhafNodes
from fwshapley.serving.onnx_file import load_onnx
from fwshapley.serving.query import Query
from fwshapley.serving.request_errors import RequestError
from fwshapley.serving.served_model import ExactModel, LearnedModel, ServedModel, fields_of_exact

ONNX = ".onnx"
ONNX_FILE = "explainer.onnx"
SAMPLES = "samples.json"
"""File beside an explainer with instances that the page offers: {"instances": [...]}."""

MAX_SAMPLES = 64
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
LEARNED = "explainer"
EXACT = ("tree explainer", "linear explainer")


def load_models(paths: Sequence[Path]) -> dict[str, ServedModel[Any]]:
    """Return the models of several folders and files, by name.

    Args:
        paths: of explainers.
    """
    models: dict[str, ServedModel[Any]] = {}
    for path in paths:
        model = load_model(path)
        if model.name in models:
            raise ValueError(f"two explainers have the name {model.name!r}: rename the folder {path}")
        models[model.name] = model
    return models


def load_model(path: Path) -> ServedModel[Any]:
    """Return the explainer in a folder or an ONNX file as a model; its name is that of the folder, or of the file.

    Args:
        path: a folder with explainer.onnx or with what `fwshapley fit` or `save` wrote; or one of these files.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no folder or file {path}")
    place = path.resolve()
    if path.is_file() and path.name in (ONNX_FILE, EXPLAINER_FILE):
        place = place.parent
    name = place.stem if place.is_file() else place.name
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be in an address: rename it to letters, digits, '.', '_' and '-'")
    file = _find_explainer(path)
    samples_file = (path if path.is_dir() else path.parent) / SAMPLES
    if file.suffix == ONNX:
        return make_learned(name, load_onnx(file), "onnxruntime", samples_file)
    kind = read_metadata(file, "explainer")["kind"]
    if kind == LEARNED:
        return make_learned(name, ExportedExplainer.of(_load_learned(file)), "torch", samples_file)
    if kind not in EXACT:
        raise ValueError(
            f"{file} is of the kind {kind!r}; a server takes learned explainers, exact ones of trees and of linear "
            "models, and ONNX files"
        )
    explainer = load(file)
    fields = fields_of_exact(explainer)
    basis = BanzhafNodes.of(explainer.players.n_players)
    model = ExactModel(name, fields, basis, read_samples(samples_file, fields), explainer)
    _warm_up(model)
    return model


def make_learned(name: str, explainer: ExportedExplainer, runtime: str, samples_file: Path | None) -> LearnedModel:
    """Return a learned explainer as a model.

    Args:
        name: of the model.
        explainer: from an ONNX file, or in torch.
        runtime: that computes its network.
        samples_file: with instances that the page offers, if it exists.
    """
    is_table = explainer.schema is not None
    fields = InputFields.of_schema(explainer.schema) if explainer.schema else InputFields(explainer.input_shape)
    if not is_table and not explainer.players.is_image:
        fields = InputFields(explainer.input_shape)
    samples = () if samples_file is None else read_samples(samples_file, fields)
    model = LearnedModel(name, fields, explainer.basis, samples, explainer, runtime)
    model.answer([(np.zeros((1, *explainer.input_shape), explainer.dtype), Query())])  # the first time takes longer
    return model


def read_samples(path: Path, fields: InputFields) -> tuple[Any, ...]:
    """Return the instances of a file of samples; raise an error that names the file if they do not fit.

    Args:
        path: of the file; there are no samples if it does not exist.
        fields: of the model.
    """
    if not path.is_file():
        return ()
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        instances = facts["instances"] if isinstance(facts, dict) else facts
        fields.read_instances(instances, MAX_SAMPLES)
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError) as error:
        raise ValueError(f'{path} must contain JSON such as {{"instances": [...]}} ({error!r})') from error
    except RequestError as error:
        raise ValueError(f"{path}: {error.field}: {error}") from error
    return tuple(instances)


def _find_explainer(path: Path) -> Path:
    if path.is_file():
        return path
    for name in (ONNX_FILE, EXPLAINER_FILE):
        if (path / name).is_file():
            return path / name
    raise FileNotFoundError(f"{path} contains neither {ONNX_FILE} nor {EXPLAINER_FILE}")


def _warm_up(model: ExactModel) -> None:
    """Compute once, since the code of trees is compiled when it is first used: no client shall wait for that."""
    rows: Rows = np.zeros((1, *model.fields.shape))
    if model.samples:
        rows = model.fields.read_instances(list(model.samples[:1]), 1)
    elif model.fields.is_frame and model.fields.columns is not None:
        rows = model.fields.read_instances([[(column.categories or (0,))[0] for column in model.fields.columns]], 1)
    query = Query(coefficients=True)
    with suppress(RequestError):  # of a column that has no zero: then the first request takes longer
        model.answer([(model.prepare(rows, query), query)])


def _load_learned(file: Path) -> Any:  # noqa: ANN401 - imports torch
    """Load a learned explainer whose file has all of it."""
    try:
        return load(file, device="cpu")
    except ValueError as error:
        raise ValueError(
            f"{file} cannot be served as it is, since its surrogate needs code of yours: run fwshapley export "
            f"{file.parent} {file.parent / ONNX_FILE} --model ..., where that code is ({error})"
        ) from error
