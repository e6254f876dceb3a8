"""What `fit` keeps in the file of an explainer, so that `explain` reads its inputs in the same way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fwshapley._internal.bundle import load_bundle
from fwshapley.cli.images.files import Size
from fwshapley.cli.input_reading import Reading
from fwshapley.explanation.persistence import FILE, KIND
from fwshapley.games.masked_model import Output
from fwshapley.tables.encoding import Form
from fwshapley.version import __version__

COMMAND = "fwshapley fit"
"""Under what name the explainer holds the record."""


@dataclass(frozen=True)
class Record:
    """How an explainer was fitted.

    Attributes:
        model: what it was called on the command line; it is shown, and never imported from here.
        reading: how inputs were read.
        notes: what was read and done.
        arguments: of the command.
        version: of fwshapley.
    """

    model: str | None
    reading: Reading
    notes: tuple[str, ...] = ()
    arguments: Mapping[str, Any] | None = None
    version: str = __version__

    def facts(self) -> dict[str, Any]:
        """Return everything about it, as JSON holds it; paths among the arguments as text."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self), default=str))
        return found

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Record:
        """Return the record whose `facts` were saved."""
        return cls(**{**facts, "reading": Reading.from_facts(facts["reading"]), "notes": tuple(facts["notes"])})


@dataclass(frozen=True)
class Stored:
    """What a folder with an explainer holds, as far as it can be told without the model.

    Attributes:
        record: how it was fitted; guessed where that was not saved.
        recorded: whether it was saved by `fwshapley fit`.
        needs_model: name of the class of the model, whose code is needed to load it; None where it is not needed.
        output: what a coalition is worth.
        black_box: whether the model was no torch module.
        output_names: one per output.
        agreement: share of inputs on which surrogate and model decide alike; None where it is not known.
    """

    record: Record
    recorded: bool
    needs_model: str | None
    output: Output
    black_box: bool
    output_names: tuple[str, ...]
    agreement: float | None


def look_into(folder: Path) -> Stored:
    """Return what a folder holds, or say that it holds no explainer."""
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    if not (folder / FILE).exists():
        raise FileNotFoundError(f"{folder} holds no explainer ({FILE}): make one with fwshapley fit")
    facts, tensors = load_bundle(folder / FILE, KIND)
    surrogate, known = facts["surrogate"], _read_record(facts["record"], folder / FILE)
    return Stored(
        record=known or Record(None, _guess(facts, tuple(tensors["players"].shape))),
        recorded=known is not None,
        needs_model=surrogate["model"] if surrogate["model"] and surrogate["fresh"] is None else None,
        output=facts["output"],
        black_box=facts["black_box"],
        output_names=tuple(facts["output_names"]),
        agreement=(facts["fidelity"] or {}).get("agreement"),
    )


def _read_record(record: Mapping[str, Any] | None, path: Path) -> Record | None:
    """Return what `fit` recorded; None where a program saved the explainer, with a record of its own or with none."""
    if record is None or COMMAND not in record:
        return None
    try:
        return Record.from_facts(record[COMMAND])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} holds a record of fwshapley fit that cannot be read: {error}") from error


def _guess(facts: Mapping[str, Any], shape: tuple[int, ...]) -> Reading:
    """Return how inputs are read for an explainer that was saved by Python."""
    form = None if facts["form"] is None else Form.from_facts(facts["form"])
    if form is None:
        return Reading(kind="images", size=Size(*shape), channels=facts["example"][1], layout="NCHW")
    if not form.frame:
        return Reading(kind="rows")
    texts = tuple(each.name for each in form.columns if each.categories and isinstance(each.categories[0], str))
    return Reading(kind="table", columns=form.names, texts=texts)
