"""The page of a review in a browser: decisions by keyboard, what is kept, what is exported, and thousands of points."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from chromium import launched
from fwshapley._internal.html import Picture
from fwshapley.audit.review.decisions import read_decisions
from fwshapley.audit.review.page import write_review
from fwshapley.audit.review.points import ReviewNeighbor, ReviewPoint

CLASSES = ["cat", "dog", "fox"]
TEXT = "a long text that has more than forty letters in"


def picture_of(shade: int) -> Picture:
    buffer = io.BytesIO()
    Image.new("L", (4, 4), shade).save(buffer, "PNG")
    return Picture(buffer.getvalue(), "png")


def pets(count: int = 6, *, pictured: bool = False) -> list[ReviewPoint]:
    """Suspects that alternate between cats, which should be dogs, and dogs, which should be foxes."""
    points = []
    for place in range(count):
        label, suggested = CLASSES[place % 2], CLASSES[place % 2 + 1]
        row = {"weight": f"{place}.5", "color": "red" if place % 2 else "gray", "note": f"{TEXT} it {place}"}
        like = ReviewNeighbor(f"{100 + place}", suggested, picture_of(place) if pictured else None, row)
        unlike = replace(like, name="99", label=label, row={"weight": "90", "color": "gray", "note": "short"})
        points.append(
            ReviewPoint(
                10 * place,
                f"{place + 2}" if place else 'a "b", c</script>.png',
                label,
                suggested,
                0.9,
                max(0.95 - 0.15 * place, 0),
                ("5 of 5 networks disagree <b>.", "Its neighbors do, too."),
                like.picture,
                row,
                (like, unlike),
            )
        )
    return points


def write(path: Path, points: Sequence[ReviewPoint], **options: Any) -> Path:  # noqa: ANN401 - of write_review
    wrong = np.array([point.wrong_probability for point in points])
    precision = (wrong.cumsum() / np.arange(1, len(wrong) + 1)).tolist()
    facts = {"title": "Pets & more", "classes": CLASSES, "noun": "row", "expected_precision": precision}
    return write_review(path, points, **{**facts, **options})


@pytest.fixture(scope="module")
def window() -> Iterator[Page]:
    with launched() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text))  # also what the policy has blocked
        page.route("http*://**", lambda route: faults.append(route.request.url))
        yield page
        page.close()
        assert faults == []


@pytest.fixture
def page(window: Page, tmp_path: Path) -> Iterator[Page]:
    """The page of six pets, with nothing decided."""
    window.goto(write(tmp_path / "pets.html", pets(), summary=["Six suspects."], notes=["Scaled."]).as_uri())
    yield window
    window.evaluate("localStorage.clear()")


def press(page: Page, keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def exported(page: Page, button: str, folder: Path) -> Path:
    with page.expect_download() as download:
        page.get_by_role("button", name=button).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def decided(page: Page, folder: Path) -> list[tuple[int, str, str]]:
    decisions = read_decisions(exported(page, "Export decisions", folder))
    return [(decision.index, decision.choice, decision.new_label) for decision in decisions]


def test_decisions_by_keyboard_are_exported_as_python_reads_them(page: Page, tmp_path: Path) -> None:
    press(page, "ak31jsu")  # accept, keep, fox, cat (as it was), next, skip, which is undone
    expect(page.locator("#name")).to_have_text("6 of 6: row 7")
    expect(page.locator("#count")).to_have_text("4 of the first 4 decided. In all: 3 corrected, 1 kept, 0 skipped.")
    expect(page.locator("#status")).to_have_text("Undone: 1 decision.")
    press(page, "s")
    decisions = read_decisions(exported(page, "Export decisions", tmp_path))
    assert [(one.index, one.choice, one.new_label) for one in decisions] == [
        (0, "accept", "dog"),
        (10, "keep", "dog"),
        (20, "other", "fox"),
        (30, "other", "cat"),
        (50, "skip", ""),
    ]
    assert decisions[0].name == pets()[0].name
    corrected = pd.read_csv(exported(page, "Export corrected labels", tmp_path))
    assert corrected["label"].tolist() == ["dog", "fox", "cat"]
    assert corrected["index"].tolist() == [0, 20, 30]


def test_buttons_do_the_same_and_a_decision_can_be_cleared(page: Page, tmp_path: Path) -> None:
    page.get_by_role("button", name="Accept dog").click()
    page.get_by_role("button", name="Keep dog").click()
    page.get_by_role("button", name="Skip").click()
    page.locator("#chips").get_by_role("button", name="cat").click()
    page.keyboard.press("ArrowLeft")
    page.get_by_role("button", name="Clear").click()
    page.locator(".item").nth(2).click()
    expect(page.locator("#decided")).to_contain_text("You skipped.")
    press(page, "x")
    assert decided(page, tmp_path) == [(0, "accept", "dog"), (10, "keep", "dog")]
    press(page, "uuuuuu")
    expect(page.get_by_role("button", name="Export decisions")).to_be_disabled()
    page.get_by_label("Keyboard").uncheck()
    press(page, "a")
    expect(page.get_by_role("button", name="Export decisions")).to_be_disabled()


def test_a_reload_keeps_decisions(page: Page, tmp_path: Path) -> None:
    press(page, "ak")
    page.get_by_label("Review the first").fill("2")
    page.get_by_label("Review the first").press("Enter")
    page.reload()
    expect(page.locator("#name")).to_have_text("3 of 6: row 4")
    expect(page.locator("#count")).to_contain_text("2 of the first 2 decided.")
    assert decided(page, tmp_path) == [(0, "accept", "dog"), (10, "keep", "dog")]
    page.goto(write(tmp_path / "others.html", pets()[:5]).as_uri())  # other suspects have decisions of their own
    expect(page.locator("#count")).to_contain_text("0 of the first 4 decided.")


def test_decisions_are_imported(page: Page, tmp_path: Path) -> None:
    press(page, "ak3s")
    path = exported(page, "Export decisions", tmp_path)
    expected = decided(page, tmp_path)
    page.evaluate("localStorage.clear()")
    page.reload()
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    table.loc[len(table)] = ["7", "unknown", "cat", "keep", "cat"]
    table.to_csv(path, sep=";", index=False, encoding="utf-8-sig")  # as a spreadsheet may save it
    page.locator("#import").set_input_files(path)
    expect(page.locator("#status")).to_have_text(
        "4 decisions imported from decisions.csv. 1 line left out: not suspects of this page."
    )
    assert decided(page, tmp_path) == expected
    press(page, "u")
    expect(page.get_by_role("button", name="Export decisions")).to_be_disabled()
    path.write_text("index,name,label,decision,new_label\n10,3,dog,accept,fox\n20,4,fox,keep,\n")
    page.locator("#import").set_input_files(path)
    expect(page.locator("#status")).to_have_text(
        "decisions.csv: line 3: 4 has the label cat here, not fox. Nothing was imported."
    )
    expect(page.get_by_role("button", name="Export decisions")).to_be_disabled()


def test_filters_and_bulk_decisions(page: Page, tmp_path: Path) -> None:
    expect(page.locator("#cut")).to_have_value("4")  # the others are more likely right than wrong
    expect(page.locator("#expected")).to_have_text("About 3 of the first 4 have wrong labels (73 %).")
    page.get_by_label("Number of suspects to review").fill("1")
    expect(page.locator("#expected")).to_have_text("The first has a wrong label with a probability of 95 %.")
    page.get_by_role("button", name="Proposed: 4").click()
    page.get_by_label("Label", exact=True).select_option("dog")
    expect(page.locator("#shown")).to_have_text("3 of 6 suspects")
    expect(page.locator("#name")).to_have_text("2 of 6: row 3")
    page.locator("#name").click()
    press(page, "jk")
    page.get_by_role("button", name="Accept 1 suggestion above").click()
    expect(page.locator("#question")).to_contain_text("that pass the filters")
    page.get_by_role("button", name="Cancel").click()
    assert decided(page, tmp_path) == [(30, "keep", "dog")]
    page.get_by_label("Label", exact=True).select_option("")
    page.get_by_label("Show").select_option("undecided")
    expect(page.locator(".item")).to_have_count(5)
    page.get_by_role("button", name="Accept 3 suggestions above").click()
    page.get_by_role("button", name="Accept them").click()
    expect(page.locator(".item")).to_have_count(2)
    assert [index for index, _, _ in decided(page, tmp_path)] == [0, 10, 20, 30]
    page.get_by_role("button", name="Undo").click()
    assert decided(page, tmp_path) == [(30, "keep", "dog")]


def test_cells_that_differ_from_neighbors_are_marked(page: Page) -> None:
    expect(page.locator("#comparison h3")).to_have_text("2 nearest neighbors: 1 × dog, 1 × cat")
    press(page, "j")
    marked = page.locator("#comparison tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.querySelectorAll('mark').length))"
    )
    assert marked == [[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0]]  # 90 is far from 1.5; gray is not red
    page.get_by_label("only columns that differ").check()
    expect(page.locator("#comparison tbody tr")).to_have_count(3)
    expect(page.locator("#reasons li").first).to_have_text("5 of 5 networks disagree <b>.")
    compared = page.evaluate("([cell, own]) => compareCell(cell, own, null).innerHTML", [f"{TEXT} them", f"{TEXT} it"])
    assert compared == f"{TEXT} <mark>them</mark>"


def test_thousands_of_suspects_stay_fast(page: Page, tmp_path: Path) -> None:
    (picture,) = (point.picture for point in pets(1, pictured=True))
    points = [
        ReviewPoint(index, f"{index}.png", "cat", "dog", 0.8, 1 - index / 5000, picture=picture)
        for index in range(5000)
    ]
    path = write(tmp_path / "many.html", points)
    assert path.stat().st_size < 3e6  # equal pictures of different points aside, it is 150 bytes a point
    page.goto(path.as_uri())
    for is_grid in (False, True):
        page.locator("#overview").evaluate("box => box.scrollTo(0, 0)")
        expect(page.locator("#suspect-0")).to_be_visible()
        page.locator("#overview").evaluate("box => box.scrollTo(0, box.scrollHeight)")
        expect(page.locator("#suspect-4999")).to_be_visible()
        assert page.locator("*").count() < 1500
        if not is_grid:
            press(page, "g")
    page.locator("#suspect-4999").click()
    expect(page.locator("#name")).to_have_text("5000 of 5,000: 4999.png")
    assert page.locator("#comparison img").evaluate("image => image.naturalWidth") == 4
    expect(page.locator("#comparison img")).to_have_class("tiny")  # whose pixels are shown
    page.locator("#overview").focus()
    page.keyboard.press("Home")
    expect(page.locator("#suspect-0")).to_have_attribute("aria-selected", "true")


def test_many_classes_have_a_list_and_a_label_may_be_the_suggested_one(page: Page, tmp_path: Path) -> None:
    classes = [*CLASSES, *(f"class {number}" for number in range(20))]
    first, second, *_ = pets()
    points = [first, replace(second, suggested="dog")]
    page.goto(write(tmp_path / "many.html", points, classes=classes).as_uri())
    assert page.locator("#chips button").all_inner_texts() == ["1 dog", "2 cat"]
    press(page, "o")
    page.keyboard.type("class 70")
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_have_text("There is no label class 70: choose one of the list.")
    page.keyboard.press("Backspace")
    page.keyboard.press("Enter")
    expect(page.locator("#labels")).to_contain_text("no other label is more likely")
    expect(page.locator("#accept")).to_be_disabled()
    press(page, "a1")
    assert decided(page, tmp_path) == [(0, "other", "class 7"), (10, "keep", "dog")]


def test_it_fits_a_phone_and_names_its_controls(page: Page, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.emulate_media(color_scheme="dark")
    try:
        page.goto(write(tmp_path / "pictures.html", pets(pictured=True)).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        expect(page.locator("figure img")).to_have_count(3)
        unnamed = page.evaluate(
            "[...document.querySelectorAll('button, input, select')].filter(one => !one.hidden && "
            "!(one.labels?.length || one.textContent.trim() || one.ariaLabel)).map(one => one.outerHTML)"
        )
        assert unnamed == []
    finally:
        page.set_viewport_size({"width": 1280, "height": 800})
        page.emulate_media(color_scheme="light")


def test_it_is_one_file_that_loads_nothing(tmp_path: Path) -> None:
    text = write(tmp_path / "pets.html", pets(pictured=True)).read_text(encoding="utf-8")
    assert "default-src 'none'; script-src 'sha256-" in text
    assert "unsafe" not in text
    assert "://" not in text.replace("data:image/png;base64,", "")
    assert "<title>Pets &amp; more</title>" in text
    assert text.count("</script>") == 2  # that in the name of a point does not end the data


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"points": []}, "points must contain at least one"),
        ({"points": [1]}, r"points\[0\] must be a ReviewPoint"),
        ({"points": [pets(1)[0], pets(1)[0]]}, "different names and indices, but the index 0"),
        ({"points": [replace(pets(1)[0], label="cow")]}, r"points\[0\].label must be one of classes, got 'cow'"),
        ({"points": [replace(pets(1)[0], wrong_probability=2.0)]}, "wrong_probability must be from 0 to 1, got 2"),
        ({"points": [replace(pets(1)[0], row={"age": "1"})]}, "must have the same columns"),
        ({"expected_precision": [0.5, 0.5]}, "expected_precision must have a share per point, 1, got 2"),
        ({"expected_precision": [float("nan")]}, "expected_precision must be finite"),
        ({"classes": ["cat", "cat"]}, "classes must be different"),
        ({"path": "."}, "path must be a file"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_arguments_are_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {"path": "page.html", "points": pets(1), "title": "Pets", "classes": CLASSES}
    arguments |= {"expected_precision": [0.5], **changes}
    arguments["path"] = tmp_path / arguments["path"]
    with pytest.raises((ValueError, TypeError, IsADirectoryError), match=words):
        write_review(**arguments)
    assert list(tmp_path.iterdir()) == []
