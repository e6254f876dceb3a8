"""Decisions on suspicious labels, as the page of a review exports them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from fwshapley._internal.checks import check_path, find_closest
from fwshapley._internal.wording import listed, shortened
from fwshapley.tables.file_reader import open_csv

Choice = Literal["accept", "keep", "skip", "other"]
"""Accept the suggested label, keep the label, skip the point without a decision, or give it another label."""

CHOICES: tuple[Choice, ...] = get_args(Choice)
COLUMNS = ("index", "name", "label", "decision", "new_label")


@dataclass(frozen=True)
class Decision:
    """What a person decided on a point.

    Attributes:
        index: position of the point among the points of the audit.
        name: what the data set calls the point.
        label: that it had when it was reviewed.
        choice: what was decided.
        new_label: what it should have instead; empty if it was skipped.
        line: of the file of decisions, where line 1 has the names of the columns.
    """

    index: int
    name: str
    label: str
    choice: Choice
    new_label: str
    line: int

    @property
    def is_correction(self) -> bool:
        """Whether the point gets another label."""
        return self.choice in ("accept", "other") and self.new_label != self.label


def read_decisions(path: str | os.PathLike[str]) -> list[Decision]:
    r"""Read the decisions that the page of a review has exported.

    Args:
        path: of a .csv file with the columns index, name, label, decision (accept, keep, skip or other) and new_label.

    Raises:
        ValueError: names the first line that cannot be applied, and what to do.

    Example:
        >>> columns = "index,name,label,decision,new_label"
        >>> _ = Path("decisions.csv").write_text(f"{columns}\n7,cat/7.png,cat,accept,dog\n9,cat/9.png,cat,skip,\n")
        >>> [(each.name, each.new_label) for each in read_decisions("decisions.csv") if each.is_correction]
        [('cat/7.png', 'dog')]
    """
    file = open_csv(check_path("path", path))
    absent = [name for name in COLUMNS if name not in file.names]
    if absent:
        raise ValueError(
            f"{file.path} has no column {listed(absent)}: decisions have the columns {', '.join(COLUMNS)}. Export them "
            "again from the page of the review"
        )
    texts = file.read_texts()[list(COLUMNS)].fillna("")
    lines = zip(texts.index.tolist(), texts.itertuples(index=False, name=None), strict=True)
    decisions = [_read_line(file.path, line, cells) for line, cells in lines if any(cells)]
    if not decisions:
        raise ValueError(f"{file.path} has no decisions, only blank lines: export them again from the review")
    _check_different(file.path, decisions)
    return decisions


def _read_line(path: Path, line: int, cells: tuple[str, ...]) -> Decision:
    """Return the decision of a line, or raise an error that says what is wrong with it."""
    where = f"line {line} of {path}"
    index, name, label, choice, new_label = cells[0], cells[1], *(cell.strip() for cell in cells[2:])
    choice = choice.lower()
    if not index.strip().isdecimal():
        raise ValueError(f"{where}: index must be a whole number from 0, got {shortened(index)!r}")
    if not name or not label:
        raise ValueError(f"{where} has no {'label' if name else 'name'}: fill it in, or remove the line")
    known = next((one for one in CHOICES if one == choice), None)
    if known is None:
        similar = find_closest(choice, CHOICES)
        hint = f" (did you mean {similar!r}?)" if similar else ""
        raise ValueError(
            f"{where}: the decision {shortened(choice)!r} is unknown{hint}; write one of {', '.join(CHOICES)}"
        )
    if known in ("accept", "other") and not new_label:
        raise ValueError(f"{where}: the decision {known} needs a new_label; fill it in, or write keep")
    if known in ("keep", "skip") and new_label not in ("", label):
        raise ValueError(
            f"{where}: the decision is {known}, but new_label is {shortened(new_label)!r}: write the decision other, "
            "or remove the new label"
        )
    return Decision(int(index), name, label, known, "" if known == "skip" else new_label or label, line)


def _check_different(path: Path, decisions: list[Decision]) -> None:
    """Raise an error if two lines are about the same point."""
    for key in ("index", "name"):
        first: dict[object, int] = {}
        for decision in decisions:
            point = getattr(decision, key)
            before = first.setdefault(point, decision.line)
            if before != decision.line:
                raise ValueError(
                    f"lines {before} and {decision.line} of {path} have the same {key}, {shortened(str(point))}: "
                    "remove one of them"
                )
