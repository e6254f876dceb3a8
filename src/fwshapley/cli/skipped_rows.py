"""Rows that cannot be explained: skipped, told, and listed, so that they do not stop the others."""

from __future__ import annotations

from pathlib import Path

import fwshapley as fw
from fwshapley._internal.wording import counted, listed_whole, printable
from fwshapley.cli.input_files import Inputs, named
from fwshapley.explanation.untrained.exact_explainer import ExactExplainer

TABLE_AXES = 2
MAX_NAMED = 5
"""Rows that a note or an error names."""


def skip_rows(explainer: fw.FeatureExplainer | ExactExplainer, batch: Inputs) -> tuple[Inputs, list[str]]:
    """Return the inputs without rows that the explainer has no rule for, and a note on these; raise if none is left."""
    if batch.x.ndim != TABLE_AXES:
        return batch, []
    with named(batch):
        unusable = explainer.find_unusable(batch.x)
    if not unusable:
        return batch, []
    first: dict[str, str] = {}
    for entry in unusable:
        first.setdefault(batch.name(entry.row), printable(entry.about))
    names = listed_whole((f"{name}: {about}" for name, about in first.items()), MAX_NAMED)
    if len(first) == len(batch):
        files = listed_whole(dict.fromkeys(Path(file).name for file in batch.files))
        raise ValueError(f"no row of {files} can be explained: {names}")
    note = f"warning: {len(first):,} of {counted(len(batch), 'row')} cannot be explained and are skipped: {names}"
    return batch.without(unusable), [note]
