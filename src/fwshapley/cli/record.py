"""What `fit` leaves beside an explainer, fit.json, so that `explain` reads its inputs in the same way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fwshapley.cli.reading import Reading
from fwshapley.forms import Form
from fwshapley.games.masking import Output
from fwshapley.pictures.files import Size
from fwshapley.saving import FILE, KIND
from fwshapley.storage import load_bundle
from fwshapley.version import __version__

RECORD = "fit.json"


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

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2, default=str) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Record:
        """Return what `write` wrote."""
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{**facts, "reading": Reading.from_facts(facts["reading"]), "notes": tuple(facts["notes"])})
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is damaged: {error}") from error


@dataclass(frozen=True)
class Stored:
    """What a folder with an explainer holds, as far as it can be told without the model.

    Attributes:
        record: how it was fitted; guessed where it was not saved by `fwshapley fit`.
        recorded: whether it was.
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
    recorded = (folder / RECORD).exists()
    surrogate = facts["surrogate"]
    return Stored(
        record=Record.read(folder / RECORD)
        if recorded
        else Record(None, _guess(facts, tuple(tensors["players"].shape))),
        recorded=recorded,
        needs_model=surrogate["model"] if surrogate["model"] and surrogate["fresh"] is None else None,
        output=facts["output"],
        black_box=facts["black_box"],
        output_names=tuple(facts["output_names"]),
        agreement=(facts["fidelity"] or {}).get("agreement"),
    )


def _guess(facts: Mapping[str, Any], shape: tuple[int, ...]) -> Reading:
    """Return how inputs are read for an explainer that was saved by Python."""
    form = None if facts["form"] is None else Form.from_facts(facts["form"])
    if form is None:
        return Reading(kind="images", size=Size(*shape), channels=facts["example"][1], layout="NCHW")
    if not form.frame:
        return Reading(kind="rows")
    texts = tuple(each.name for each in form.columns if each.categories and isinstance(each.categories[0], str))
    return Reading(kind="table", columns=form.names, texts=texts)
