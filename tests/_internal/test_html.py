from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from fwshapley._internal.html import Picture, Report
from fwshapley.plots import new_figure


class Tags(HTMLParser):
    """Every tag of a page with its attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_report_is_one_page_with_all_that_was_added(tmp_path: Path) -> None:
    report = Report("Title", "lead").section("Part").text("a < b & c").table(["name", "x"], [["ours", "1"]], "caption")
    path = report.figure(new_figure(width=1, height=1), "what is seen").write(tmp_path / "new" / "report.html")
    page = Tags(path.read_text(encoding="utf-8"))
    assert [tag for tag, _ in page.tags].count("td") == 2
    assert all(text in page.text for text in ("Title", "lead", "Part", "a < b & c", "caption", "what is seen"))
    pictures = [attributes for tag, attributes in page.tags if tag == "img"]
    assert [picture["alt"] for picture in pictures] == ["what is seen"]


def test_a_report_needs_nothing_but_itself(tmp_path: Path) -> None:
    path = Report("Title").figure(new_figure(width=1, height=1), "picture").write(tmp_path / "report.html")
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"(?:src|href)=.(?!data:)", text) == []
    assert "prefers-color-scheme: dark" in text


def test_a_gallery_marks_pictures_by_more_than_color(tmp_path: Path) -> None:
    rows = [
        [Picture(b"one", "png", "a <b>", ["1. a <b>", "label: x"]), Picture(b"two", "jpeg", "c", ["≠ y"], marked=True)]
    ]
    path = Report("Title").gallery(rows, "what is beside what").write(tmp_path / "report.html")
    page = Tags(path.read_text(encoding="utf-8"))
    pictures = [attributes for tag, attributes in page.tags if tag == "img"]
    assert [picture["alt"] for picture in pictures] == ["a <b>", "c"]
    assert [str(picture["src"])[:15] for picture in pictures] == ["data:image/png;", "data:image/jpeg"]
    assert [attributes.get("class") for tag, attributes in page.tags if tag == "figure"] == [None, "marked"]
    assert all(text in page.text for text in ("what is beside what", "1. a <b>", "label: x", "≠ y"))
