"""Output of `fwshapley audit`: a summary and suspects on the terminal; the ranking, a review and findings in files."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.text import Text

import fwshapley as fw
from fwshapley._internal.files import written_whole
from fwshapley._internal.html import Picture
from fwshapley._internal.wording import printable, shortened
from fwshapley.audit.review.page import write_review
from fwshapley.audit.suspects import Looks, choose_suspects, describe_suspects, expected_precision, summarize
from fwshapley.cli.audit_input import AuditedData
from fwshapley.cli.console import console, new_table, print_notes, print_table
from fwshapley.cli.pictures.files import make_thumbnail
from fwshapley.cli.pictures.labeled_folder import Pictures
from fwshapley.tables.labeled_table import Table

RANKING, REVIEW = "ranking.csv", "review.html"
DUPLICATES, OUTLIERS, CONFUSIONS, SHARED = "near_duplicates.csv", "outliers.csv", "confusions.csv", "leakage.csv"
RESULTS = (RANKING, REVIEW, DUPLICATES, OUTLIERS, CONFUSIONS, SHARED)

DECIMALS = 4


@dataclass(frozen=True, eq=False)
class Audited:
    """Data and what an audit has found in them.

    Attributes:
        data: what was audited.
        audit: that is fitted.
        leaked: near duplicates in other data; None without such.
        test_name: name of these.
    """

    data: AuditedData
    audit: fw.LabelAudit
    leaked: pd.DataFrame | None
    test_name: str | None

    @property
    def noun(self) -> str:
        """What a point is called."""
        return self.data.source.noun

    @property
    def notes(self) -> list[str]:
        """How the points were read and prepared."""
        return [*self.data.source.notes]

    def sentences(self) -> list[str]:
        """Return sentences on what was found."""
        found = summarize(self.audit, self.noun)
        if self.leaked is not None:
            found.append(f"{len(self.leaked):,} {self.noun}s of {self.test_name} are near duplicates of audited ones.")
        return found


def rank_points(audited: Audited) -> pd.DataFrame:
    """Return all points, the most suspicious first: our columns, then the reasons, then the file's own columns."""
    audit, source = audited.audit, audited.data.source
    ours = audit.to_dataframe().round(DECIMALS)
    ours.insert(1, source.key, list(source.keys))
    ours.insert(6, "reasons", ["; ".join(audit.reasons(point)) for point in range(len(ours))])
    others = pd.DataFrame(index=ours.index)
    if isinstance(source, Table) and source.is_spreadsheet:
        others = source.texts().reset_index(drop=True).drop(columns=source.label)
    others = others.rename(columns={name: f"{name} ({source.path.name})" for name in ours.columns})
    return pd.concat([ours, others], axis=1).sort_values("rank")


def write_results(audited: Audited, folder: Path, n_suspects: int | None) -> list[Path]:
    """Write the ranking, the review and what else was found: all files or none."""
    audit, keys = audited.audit, audited.data.keys
    tables = {
        RANKING: rank_points(audited),
        CONFUSIONS: audit.confusions_.round(1).reset_index(),
        DUPLICATES: _named(audit.near_duplicates_, keys),
        OUTLIERS: _named(audit.outliers_, keys),
    }
    if audited.leaked is not None:
        tables[SHARED] = _named(audited.leaked, keys)
    with ExitStack() as stack:
        for name, table in tables.items():
            if len(table):
                table.to_csv(stack.enter_context(written_whole(folder / name)), index=False)
        _write_review(audited, stack.enter_context(written_whole(folder / REVIEW)), n_suspects)
    return [folder / name for name in RESULTS if name == REVIEW or len(tables.get(name, ()))]


def _named(table: pd.DataFrame, keys: object) -> pd.DataFrame:
    """Return a table with the names of the points in place of their indices."""
    return table.assign(point=[keys[point] for point in table["point"]])  # type: ignore[index]  # a sequence


def _write_review(audited: Audited, path: Path, n_suspects: int | None) -> None:
    source, audit = audited.data.source, audited.audit
    picture_of = rows = None
    if isinstance(source, Pictures):
        files = source.files

        def picture_of(point: int) -> Picture:
            return make_thumbnail(files[point])

    elif source.is_spreadsheet:
        rows = source.texts().reset_index(drop=True).drop(columns=source.label).fillna("")
    chosen = choose_suspects(audit, n_suspects)
    write_review(
        path,
        describe_suspects(audit, chosen, Looks(list(source.keys), picture_of, rows)),
        title=f"Suspicious labels in {source.path.name}",
        classes=list(source.classes.names),
        expected_precision=expected_precision(audit, chosen).tolist(),
        noun=source.noun,
        summary=audited.sentences(),
        notes=[f"{source.about_keys[:1].upper()}{source.about_keys[1:]}.", *audited.notes],
    )


def show(audited: Audited, top: int) -> None:
    """Print what was done, what was found, and the most suspicious points."""
    audit, source = audited.audit, audited.data.source
    console.print(Text(str(source.path), style="bold"), soft_wrap=True)
    print_notes(audited.notes)
    console.print()
    for sentence in audited.sentences():
        console.print(Text(sentence), soft_wrap=True)
    console.print()
    headings = ["rank", source.key, "label", "suggested", "wrong", "why"]
    table = new_table(
        f"Most suspicious {source.noun}s", headings, ["file", "label", "suggested", "why"],
        f"{source.about_keys}; wrong: probability that the label is wrong; suggested: the most probable label",
    )  # fmt: skip
    for rank, point in enumerate(audit.ranking_[:top].tolist(), 1):
        label, suggested = audited.data.labels[point], str(audit.suggested_labels_[point])
        table.add_row(
            str(rank),
            Text(printable(source.keys[point])),
            Text(shortened(label)),
            Text("(the same)" if suggested == label else shortened(suggested)),
            f"{audit.wrong_probability_[point]:.0%}",
            Text(audit.reasons(point)[0]),
        )
    print_table(table)
