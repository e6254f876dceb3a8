"""Corrected data: a copy of a data set in which points have the labels that a person decided on."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from fwshapley._internal.checks import check_kind, check_list, check_path, find_closest
from fwshapley._internal.wording import listed, shortened
from fwshapley.audit.review.decisions import Decision
from fwshapley.audit.review.labeled_data import LabeledData, open_labeled
from fwshapley.tables.file_reader import check_exists
from fwshapley.tables.typed_files import split_sheet


def apply_decisions(
    decisions: Iterable[Decision],
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    label: str | None = None,
    encoding: str = "utf-8",
) -> Path:
    r"""Write a copy of a data set with corrected labels; the data set itself stays as it is.

    All decisions are checked before anything is written. In a .csv file only cells of the label column change; a
    .parquet, .xlsx or .npz file keeps its types; a folder is copied, and corrected files move to the folders of their
    new classes.

    Args:
        decisions: as `read_decisions` returns them.
        data: a .csv (perhaps compressed), .parquet, .xlsx or .npz file, or a folder with one folder per class.
        out: file to write, of the same format, or a new folder.
        label: column of labels; not needed for an .npz file or a folder.
        encoding: of a .csv file.

    Returns:
        The path of the copy.

    Raises:
        ValueError: if a decision is about a point that the data set does not have, or that has another label by now.

    Example:
        >>> _ = Path("pets.csv").write_text("weight,kind\n4,cat\n30,dog\n28,cat\n")
        >>> _ = Path("decisions.csv").write_text("index,name,label,decision,new_label\n2,4,cat,accept,dog\n")
        >>> decisions = fw.audit.read_decisions("decisions.csv")
        >>> print(apply_decisions(decisions, "pets.csv", "corrected.csv", label="kind").read_text())
        weight,kind
        4,cat
        30,dog
        28,dog
    """
    chosen = check_list("decisions", decisions)
    for decision in chosen:
        check_kind("each of decisions", decision, Decision)
    source, target = check_path("data", data), check_path("out", out)
    _check_target(source, target)
    labeled = open_labeled(source, label, encoding)
    labeled.write(target, _find_donors(chosen, labeled))
    return target


def _check_target(source: Path, target: Path) -> None:
    """Raise an error unless a copy of a data set can be written to a path."""
    check_exists(source)
    source, _ = split_sheet(source)
    if source.is_dir():
        if target.resolve().is_relative_to(source.resolve()):
            raise ValueError(f"out must be another folder than {source}, and not inside it; got {target}")
        return
    if target.is_dir():
        raise IsADirectoryError(f"out must be a file, got the folder {target}")
    if target.exists() and target.samefile(source):
        raise ValueError(f"out must be another file than {source}, which is not changed")
    if target.suffix.lower() != source.suffix.lower():
        raise ValueError(f"out must end in {source.suffix}, as {source} does; got {target}")


def _find_donors(decisions: list[Decision], labeled: LabeledData) -> dict[str, str]:
    """Return, for each point that gets another label, the first point that has this label."""
    positions = labeled.classes.positions
    old = positions([decision.label for decision in decisions]).tolist()
    new = positions([decision.new_label or decision.label for decision in decisions]).tolist()
    present = dict(zip(labeled.labels, positions(labeled.labels.values()).tolist(), strict=True))
    first = {position: name for name, position in reversed(present.items())}
    donors = {}
    for decision, expected, wanted in zip(decisions, old, new, strict=True):
        where, point = f"line {decision.line} of the decisions", f"{labeled.noun} {shortened(decision.name)}"
        if decision.name not in present:
            raise ValueError(
                f"{where}: {labeled.path} has no {point} with a label; it has {listed(present, most=3)}. Give the data "
                "that were reviewed, or remove the line"
            )
        if present[decision.name] != expected:
            raise ValueError(
                f"{where}: {point} had the label {shortened(decision.label)!r} when it was reviewed, and has "
                f"{shortened(labeled.labels[decision.name])!r} in {labeled.path}. Give the data that were reviewed, or "
                "remove the line"
            )
        if wanted not in first:
            similar = find_closest(decision.new_label, labeled.classes.names)
            hint = f" (did you mean {similar!r}?)" if similar else ""
            raise ValueError(
                f"{where}: no {labeled.noun} of {labeled.path} has the label {shortened(decision.new_label)!r}{hint}; "
                f"write one of {listed(labeled.classes.names)}"
            )
        if wanted != expected:
            donors[decision.name] = first[wanted]
    return donors
