"""The results pages: they say what was recorded, and their filters and numbers are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest
from benchmarks.harness.formats import duration, emphasis, listed
from benchmarks.harness.provenance import experiments, read_records
from benchmarks.pages import inclusion_numbers as inclusion
from benchmarks.pages import render

JUDGE = inclusion.JUDGES[0]


def test_pages_are_up_to_date() -> None:
    render.main(["--check"])


def test_a_page_that_differs_fails_the_check_and_is_rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "ROOT", tmp_path)
    monkeypatch.setattr(render, "PAGES", tmp_path / "pages")
    page = tmp_path / "pages" / "index.md"
    monkeypatch.setattr(render, "render_pages", lambda: {page: "new\n"})
    with pytest.raises(SystemExit, match=r"pages/index\.md is out of date"):
        render.main(["--check"])
    render.main([])
    gone = page.with_name("gone.md")
    gone.write_text("old\n")
    render.main([])
    assert page.read_text() == "new\n"
    assert not gone.exists()


def test_every_recorded_experiment_has_a_page_in_the_index() -> None:
    index = (render.PAGES / "index.md").read_text(encoding="utf-8")
    for name in (*filter(read_records, experiments()), "paper_claims"):
        assert f"({name}.md)" in index
        assert f"\n{name}\n" in index  # the table of contents


def test_tables_fit_a_screen() -> None:
    for page in render.PAGES.glob("*.md"):
        lines = page.read_text(encoding="utf-8").splitlines()
        tables = "\n".join(line if line.startswith("|") else "" for line in lines).split("\n\n")
        for rows in (table.strip().splitlines() for table in tables):
            assert len(rows) <= 14, page.name  # twelve, a header and a rule
            assert all(row.count("|") <= 8 for row in rows), page.name  # seven columns


def test_the_readme_has_a_small_table() -> None:
    text = render.README.read_text(encoding="utf-8")
    section = text.split(render.BEGIN)[1].split(render.END)[0]
    assert section.count("\n| ") <= 12
    assert max(map(len, section.splitlines())) <= 200


def test_numbers_are_written_plainly() -> None:
    assert render.spread([0.98765, 0.01]) == "0.988 ± 0.010"
    assert render.spread({"mean": 1.0, "deviation": 0.25}, 1) == "1.0 ± 0.2"
    assert render.over_seeds([1.0, 3.0]) == pytest.approx((2, 2**0.5))
    assert render.over_seeds([1.0]) == (1, 0)
    assert render.fixed(-0.001) == "0.00"
    assert render.percent(0.276) == "28 %"
    assert render.gain(-0.0001) == "+0.0 %"
    assert render.interval([0.05, -0.01, 0.11]) == "+5.0 % (-1.0 to +11.0)"
    assert render.interval(None) == ""
    assert render.span([0.2, 0.1], ".1%") == "10.0 % to 20.0 %"
    assert render.span([0.101, 0.1], ".1f") == "0.1"
    assert render.grouped(12345.6) == "12,346"
    assert [duration(each) for each in (0.0131, 61.37, 600, 10**4)] == ["13.1 ms", "61.4 s", "10 min", "3 h"]
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert render.sort_by_emphasis(["Shapley", "Beta(1, 4)", "Beta(16, 1)"]) == ["Beta(16, 1)", "Shapley", "Beta(1, 4)"]
    assert emphasis("Beta(1, 4)") == 4


def test_templates_refuse_unknown_names_and_sentences_that_do_not_hold() -> None:
    environment = render.make_environment()
    with pytest.raises(jinja2.UndefinedError):
        environment.from_string("{{ missing }}").render()
    assert environment.from_string("{% do holds(2 > 1) %}true").render() == "true"
    with pytest.raises(ValueError, match="no longer support"):
        environment.from_string("{% do holds(1 > 2) %}false").render()


def trained(area: float, seconds: float = 60, *, by_spread: bool = False, gain: list[float] | None = None) -> Any:  # noqa: ANN401 - as JSON
    """Figures of a method that was trained once."""
    name = f"inclusion, {JUDGE}"
    return {
        "areas": {name: [area, 0, 1]},
        "by seed": {name: [area]},
        "curves": {name: [0.0, area, area, area, 1.0]},
        "over base": {name: {"relative": gain}},
        "training": {"seconds": seconds, "budget": seconds, "by spread": by_spread},
    }


def sitting_of(**methods: Any) -> Any:  # noqa: ANN401 - as JSON
    """One sitting, in which Shapley was chosen."""
    names = {name.replace("_", " "): {"Shapley": row} for name, row in methods.items()}
    return {"methods": names, "choice": {"chosen": "Shapley"}, "search": {"Beta(2, 1)": 0.9, "Beta(1, 2)": 0.3}}


def test_room_is_what_is_left_between_no_patch_and_all_patches() -> None:
    sitting = sitting_of(FastSHAP=trained(0.5))
    assert inclusion.room(sitting, JUDGE) == pytest.approx((0.5 + 3) / 4 / 0.5 - 1)


@pytest.mark.parametrize(("gain", "confirmed"), [([0.3, 0.28, 0.32], True), ([0.3, 0.2, 0.4], False), (None, False)])
def test_the_claim_is_confirmed_by_a_whole_interval_only(gain: list[float] | None, confirmed: bool) -> None:  # noqa: FBT001 - a case
    sitting = sitting_of() | {"methods": {inclusion.PAPER: {"Shapley": trained(0.6, gain=gain)}}}
    assert inclusion.confirmed(sitting, JUDGE) is confirmed


def test_trainings_are_pooled_over_sittings_of_the_same_objective() -> None:
    old = sitting_of(encoder=trained(0.5), every_weighting=trained(0.7))
    new = sitting_of(encoder=trained(0.9, by_spread=True), every_weighting=trained(0.8))
    assert inclusion.areas([old, new], "encoder", JUDGE) == [0.9]
    assert inclusion.areas([old, new], inclusion.OURS, JUDGE) == [0.7, 0.8]
    assert inclusion.areas([old, new], "saliency", JUDGE) == []


def test_methods_are_sorted_by_the_time_they_were_trained() -> None:
    short = sitting_of(FastSHAP=trained(0.5))
    long = sitting_of(FastSHAP=trained(0.5)) | {}
    long["methods"]["FastSHAP, 240 s"] = {"Shapley": trained(0.6, 240)}
    assert list(inclusion.by_time(long, "FastSHAP")) == [60, 240]
    assert inclusion.longest([short, long]) is long


def test_searched_weightings_below_a_random_order_are_named() -> None:
    sitting = sitting_of()
    sitting["methods"]["random"] = {"random": trained(0.5)}
    assert inclusion.below_random(sitting) == ["Beta(1, 2)"]
