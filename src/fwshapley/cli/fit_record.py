"""What `fwshapley fit` writes into the file of an explainer, so that `explain` reads inputs in the same format."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fwshapley._internal.safetensors_file import load_bundle, read_metadata
from fwshapley._internal.version import __version__
from fwshapley.cli.input_format import InputFormat
from fwshapley.cli.model_loading import OutputChoice
from fwshapley.cli.pictures.files import Size
from fwshapley.explanation.learned.persistence import FILE, KIND
from fwshapley.tables.network_encoding import TableSchema

COMMAND = "fwshapley fit"
"""Key of the record in the explainer's metadata."""

EXPLAINERS = (KIND, "tree explainer", "pipeline explainer", "linear explainer", "interventional explainer")
"""Kinds of files that `fwshapley explain` takes."""


@dataclass(frozen=True)
class FitRecord:
    """How an explainer was fitted.

    Attributes:
        model: its name on the command line; it is shown, and never imported from here.
        format: of the inputs.
        notes: what was read and done.
        arguments: of the command.
        version: of fwshapley.
    """

    model: str | None
    format: InputFormat
    notes: tuple[str, ...] = ()
    arguments: Mapping[str, Any] | None = None
    version: str = __version__

    def facts(self) -> dict[str, Any]:
        """Return the record, JSON-compatible; paths among the arguments become text."""
        facts: dict[str, Any] = json.loads(json.dumps(asdict(self), default=str))
        return facts

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> FitRecord:
        """Return the record whose `facts` were saved."""
        return cls(**{**facts, "format": InputFormat.from_facts(facts["format"]), "notes": tuple(facts["notes"])})


@dataclass(frozen=True)
class SavedExplainer:
    """What the file of an explainer contains besides networks, trees and numbers.

    Attributes:
        kind: of the file.
        record: how the explainer was fitted; guessed if Python saved it.
        is_recorded: whether `fwshapley fit` saved it.
        needs_model: class of the model, if it is needed to load the explainer; otherwise None.
        output: what the value of a coalition is.
        is_black_box: whether the model was not a torch module.
    """

    kind: str
    record: FitRecord
    is_recorded: bool
    needs_model: str | None = None
    output: OutputChoice = "auto"
    is_black_box: bool = True

    @property
    def is_exact(self) -> bool:
        """Whether the explainer computes exact values, rather than learned ones."""
        return self.kind != KIND

    def how_to_name_model(self, what: str) -> str:
        """Return the option that names the model, and why it is not taken from the file.

        Args:
            what: what the model must be.
        """
        name = self.record.model
        example = "package.module:attribute" if name is None else shlex.quote(name)
        fitted = "" if name is None else f" It was fitted with {name}."
        return (
            f"--model {example}, {what}.{fitted} This is not imported automatically, since a folder must not choose "
            "which code runs"
        )


def find_file(path: Path) -> Path:
    """Return the file of an explainer, which may be in a folder."""
    return path / FILE if path.is_dir() else path


def open_explainer(path: Path) -> SavedExplainer:
    """Read the description of the explainer in a folder or a file."""
    file = find_file(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no folder or file {path}")
    if not file.exists():
        raise FileNotFoundError(f"{path} contains no explainer ({FILE}): make one with fwshapley fit")
    kind = read_metadata(file)["kind"]
    if kind not in EXPLAINERS:
        raise ValueError(f"{file} contains a saved {kind}, expected an explainer")
    facts, tensors = load_bundle(file, kind)
    saved = (facts["metadata"] or {}).get(COMMAND)
    try:
        record = None if saved is None else FitRecord.from_facts(saved)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{file} contains a record of fwshapley fit that cannot be read: {error}") from error
    is_recorded = record is not None
    if kind == "tree explainer":
        return SavedExplainer(kind, record or FitRecord(None, _format_of_trees(facts["ensemble"])), is_recorded)
    if kind == "pipeline explainer":
        record = record or FitRecord(None, _format_of_table(facts["schema"]))
        return SavedExplainer(kind, record, is_recorded, facts["source"])
    if kind == "linear explainer":
        record = record or FitRecord(None, _format_of_table(facts["schema"]))
        return SavedExplainer(kind, record, is_recorded, facts["source"] if facts["needs_model"] else None)
    if kind == "interventional explainer":
        record = record or FitRecord(None, _format_of_table(facts["schema"]))
        needs_model = "torch module" if facts["is_module"] else "function or estimator"
        return SavedExplainer(kind, record, is_recorded, needs_model, facts["output"], not facts["is_module"])
    surrogate = facts["surrogate"]
    has_code = (surrogate["class"] == "TableSurrogate", surrogate.get("shape"), surrogate.get("config"))
    has_own_code = not any(has_code)
    return SavedExplainer(
        kind=kind,
        record=record or FitRecord(None, _guess_format(facts, tuple(tensors["players"].shape))),
        is_recorded=is_recorded,
        needs_model=surrogate["network"] if has_own_code else None,
        output=facts["output"],
        is_black_box=facts["is_black_box"],
    )


def _guess_format(facts: Mapping[str, Any], shape: tuple[int, ...]) -> InputFormat:
    """Return the likely format of inputs of a learned explainer that Python saved."""
    if "tokenizer" in facts["players"]:
        return InputFormat(kind="texts")
    if facts["schema"] is None:
        return InputFormat(kind="images", size=Size(*shape), channels=facts["input_shape"][0], layout="NCHW")
    return _format_of_table(facts["schema"])


def _format_of_table(facts: Mapping[str, Any]) -> InputFormat:
    """Return the likely format of the table that a schema describes."""
    schema = TableSchema.from_facts(facts)
    if not schema.is_frame:
        return InputFormat(kind="rows")
    texts = tuple(
        column.name for column in schema.columns if column.categories and isinstance(column.categories[0], str)
    )
    return InputFormat(kind="table", columns=schema.names, texts=texts)


def _format_of_trees(facts: Mapping[str, Any]) -> InputFormat:
    """Return what trees say of their inputs: names of columns, and which of them contain text."""
    names = tuple(facts["feature_names"])
    return columns_of_trees(names, dict(facts["levels"])) if facts["named"] else InputFormat()


def columns_of_trees(names: tuple[str, ...], levels: Mapping[int, Sequence[Any]]) -> InputFormat:
    """Return a format with the columns of trees; those whose categories are text are read as text."""
    texts = tuple(names[column] for column, of in levels.items() if of and isinstance(of[0], str))
    return InputFormat(columns=names, texts=texts)
