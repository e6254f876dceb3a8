from __future__ import annotations

from pathlib import Path

import pytest

from fwshapley.audit.review.decisions import read_decisions

HEADER = "index,name,label,decision,new_label\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "decisions.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_decisions_are_read(tmp_path: Path) -> None:
    lines = '3,"a,b.png",cat,accept,dog\n0,7,cat,keep,cat\n\n8,9,cat,skip,\n5,"say ""hi""",dog,other,große Katze\n'
    decisions = read_decisions(written(tmp_path, HEADER + lines))
    facts = [(each.index, each.name, each.label, each.choice, each.new_label, each.line) for each in decisions]
    assert facts == [
        (3, "a,b.png", "cat", "accept", "dog", 2),
        (0, "7", "cat", "keep", "cat", 3),
        (8, "9", "cat", "skip", "", 5),
        (5, 'say "hi"', "dog", "other", "große Katze", 6),
    ]
    assert [each.is_correction for each in decisions] == [True, False, False, True]


def test_decisions_that_a_spreadsheet_has_saved_are_read(tmp_path: Path) -> None:
    text = "\ufeff" + HEADER.replace(",", ";") + "3;x;cat;Accept ;dog\n"
    (decision,) = read_decisions(written(tmp_path, text))
    assert (decision.choice, decision.new_label) == ("accept", "dog")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        (HEADER, "no rows below it"),
        (HEADER + ",,,,\n", "no decisions"),
        ("index,name,label\n1,a,cat\n", "no column decision, new_label"),
        (HEADER + "1,a,cat,keep,\n2,b,cat,acept,dog\n", "line 3 of .*'acept' is unknown .did you mean 'accept'"),
        (HEADER + "1,a,cat,accept,\n", "line 2 of .* accept needs a new_label"),
        (HEADER + "1,a,cat,other,\n", "line 2 of .* other needs a new_label"),
        (HEADER + "1,a,cat,keep,dog\n", "line 2 of .* keep, but new_label is 'dog'"),
        (HEADER + "x,a,cat,keep,\n", "line 2 of .*index must be a whole number from 0, got 'x'"),
        (HEADER + "1,,cat,keep,\n", "line 2 of .* has no name"),
        (HEADER + "1,a,,keep,\n", "line 2 of .* has no label"),
        (HEADER + "1,a,cat,keep,\n2,b,cat,keep,\n1,c,cat,keep,\n", "lines 2 and 4 of .* the same index, 1"),
        (HEADER + "1,a,cat,keep,\n2,a,cat,keep,\n", "lines 2 and 3 of .* the same name, a"),
    ],
)
def test_bad_decisions_are_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_decisions(written(tmp_path, text))
