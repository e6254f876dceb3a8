"""What `fwshapley fit` writes into the file of an explainer, so that `explain` reads inputs in the same format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fwshapley._internal.safetensors_file import load_bundle
from fwshapley._internal.version import __version__
from fwshapley.cli.input_files import InputFormat
from fwshapley.cli.pictures.files import Size
from fwshapley.explanation.persistence import FILE, KIND
from fwshapley.games.scales import Output
from fwshapley.tables.network_encoding import TableSchema

COMMAND = "fwshapley fit"
"""Key of the record in the explainer's metadata."""


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
class ExplainerFile:
    """What the file of an explainer contains besides networks.

    Attributes:
        record: how the explainer was fitted; guessed if Python saved it.
        is_recorded: whether `fwshapley fit` saved it.
        needs_model: class of the model, if its code is needed to load the explainer; otherwise None.
        output: what the value of a coalition is.
        is_black_box: whether the model was not a torch module.
    """

    record: FitRecord
    is_recorded: bool
    needs_model: str | None
    output: Output
    is_black_box: bool


def open_explainer(folder: Path) -> ExplainerFile:
    """Read the description of the explainer in a folder."""
    path = folder / FILE
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    if not path.exists():
        raise FileNotFoundError(f"{folder} contains no explainer ({FILE}): make one with fwshapley fit")
    facts, tensors = load_bundle(path, KIND)
    surrogate = facts["surrogate"]
    saved = (facts["metadata"] or {}).get(COMMAND)
    try:
        record = None if saved is None else FitRecord.from_facts(saved)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} contains a record of fwshapley fit that cannot be read: {error}") from error
    has_own_code = surrogate["class"] != "TableSurrogate" and surrogate["shape"] is None
    return ExplainerFile(
        record=record or FitRecord(None, _guess_format(facts, tuple(tensors["players"].shape))),
        is_recorded=record is not None,
        needs_model=surrogate["network"] if has_own_code else None,
        output=facts["output"],
        is_black_box=facts["is_black_box"],
    )


def _guess_format(facts: Mapping[str, Any], shape: tuple[int, ...]) -> InputFormat:
    """Return the likely format of inputs of an explainer that Python saved."""
    if facts["schema"] is None:
        return InputFormat(kind="images", size=Size(*shape), channels=facts["input_shape"][0], layout="NCHW")
    schema = TableSchema.from_facts(facts["schema"])
    if not schema.is_frame:
        return InputFormat(kind="rows")
    texts = tuple(
        column.name for column in schema.columns if column.categories and isinstance(column.categories[0], str)
    )
    return InputFormat(kind="table", columns=schema.names, texts=texts)
