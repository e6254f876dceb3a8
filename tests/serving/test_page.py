"""The page in a browser: sliders re-weigh as Python does, uploads are checked, and one file works without a server.

It needs chromium; see chromium.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

import chromium
import fwshapley as fw
from fwshapley.serving.http import refining
from fwshapley.serving.http.settings import ServerSettings
from fwshapley.serving.page import describe_model, write_page
from models import images
from serving_parts import PATIENCE, Explained, Running, running, wines

TOLERANCE = 1e-5
SLIDERS = [(1.0, 1.0), (16.0, 1.0), (0.5, 2.0), (32.0, 0.25)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.launched() as launched:
        yield launched


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    opened = browser.new_page()
    errors: list[Any] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    opened.close()
    assert errors == []


def set_sliders(page: Page, alpha: float, beta: float) -> None:
    page.locator("#alpha").fill(str(np.log2(alpha)))
    page.locator("#beta").fill(str(np.log2(beta)))


def shown_values(page: Page) -> np.ndarray[Any, Any]:
    return np.array(json.loads(page.locator("body").get_attribute("data-values") or ""))


def assert_close(ours: np.ndarray[Any, Any], theirs: Any) -> None:  # noqa: ANN401 - an array or a tensor
    expected = np.asarray(theirs)
    np.testing.assert_allclose(ours, expected, rtol=TOLERANCE, atol=TOLERANCE * np.abs(expected).max())


def open_model(page: Page, server: Running, name: str) -> None:
    page.goto(server.address)
    page.get_by_label("Model").select_option(name)
    expect(page.locator("#about")).to_contain_text(f"{name}:")
    if name != "linear":  # which has no samples
        expect(page.locator("body")).to_have_attribute("data-model", name)


def test_sliders_reweigh_a_table_as_python_does(page: Page, server: Running, explained: dict[str, Explained]) -> None:
    open_model(page, server, "wines")
    explainer = explained["wines"].explainer
    expect(page.locator(".bars li")).to_have_count(3)
    pictures = set()
    for alpha, beta in SLIDERS:
        set_sliders(page, alpha, beta)
        expected = explainer.explain(wines(4)[:1], weights=fw.Beta(alpha, beta), outputs=["price"])
        assert_close(shown_values(page), expected.values[0, :, 0])
        pictures.add(page.locator(".bars").inner_html())
        assert page.locator(".whisker").count() == (3 if (alpha, beta) == (1, 1) else 0)  # errors are known for Shapley
    assert len(pictures) == len(SLIDERS)
    page.get_by_role("button", name="Beta(4, 1)").click()
    page.get_by_label("add up to the prediction").check()
    page.get_by_role("radio", name="age").check()
    expected = explainer.explain(wines(4)[:1], weights=fw.Beta(4, 1), outputs=["age"], total="efficient")
    assert_close(shown_values(page), expected.values[0, :, 0])
    with page.expect_download() as download:
        page.get_by_role("button", name="Download JSON").click()
    saved = json.loads(download.value.path().read_text(encoding="utf-8"))
    assert (saved["alpha"], saved["beta"], saved["total"]) == (4, 1, "efficient")
    assert_close(np.array(saved["values"])[:, 1], expected.values[0, :, 0])
    assert 'weights=fw.Beta(4, 1), outputs=[1], total="efficient"' in page.locator("#python").inner_text()


def test_sliders_change_the_picture_of_an_image(page: Page, server: Running, explained: dict[str, Explained]) -> None:
    open_model(page, server, "shapes")
    page.get_by_role("button", name="Sample 2").click()
    x = images(3, seed=1)[1:2]
    pixels = set()
    for alpha, beta in SLIDERS[:2]:
        set_sliders(page, alpha, beta)
        output = int(page.locator("input[name=output]").evaluate_all("radios => radios.findIndex(one => one.checked)"))
        expected = explained["shapes"].explainer.explain(x, weights=fw.Beta(alpha, beta), outputs=[output])
        assert_close(shown_values(page), expected.values[0, :, 0])
        pixels.add(page.locator("#view canvas").first.evaluate("canvas => canvas.toDataURL()"))
    assert len(pixels) == 2
    page.get_by_label("all outputs").check()
    expect(page.locator("#view figure")).to_have_count(3)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download PNG").click()
    with Image.open(download.value.path()) as picture:
        assert picture.size == (640, 700)


def test_an_explanation_is_refined_with_live_progress(
    page: Page, server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refining, "CALLS", 40)  # so that it is fast
    open_model(page, server, "shapes")
    set_sliders(page, 4, 1)
    before = shown_values(page)
    page.get_by_role("button", name="Refine").click()
    expect(page.locator("#status")).to_contain_text("Refined with 320 sampled coalitions", timeout=1000 * PATIENCE)
    body = {"instances": images(3, seed=1)[:1].tolist(), "parameters": {"alpha": 4, "beta": 1}}
    last = json.loads(server.post("/v1/models/shapes:refine", body).text.splitlines()[-1])
    output = int(page.locator("input[name=output]").evaluate_all("radios => radios.findIndex(one => one.checked)"))
    assert_close(shown_values(page), np.array(last["values"])[:, output])
    assert "seed=seed) for seed in range(8)]" in page.locator("#python").inner_text()
    page.get_by_role("button", name="Shapley").click()  # which was not refined
    expect(page.locator("#errors")).not_to_contain_text("Refined")
    page.get_by_role("button", name="Beta(4, 1)").click()
    expect(page.locator("#errors")).to_contain_text("standard error")
    for sample in ("Sample 2", "Sample 1"):
        page.get_by_role("button", name=sample).click()
        expect(page.get_by_role("button", name=sample)).to_have_attribute("aria-pressed", "true")
    assert_close(shown_values(page), before)
    page.get_by_role("button", name="Refine").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#status")).to_have_text("The refinement was stopped.")
    open_model(page, server, "linear")
    expect(page.locator("#refine-row")).to_be_hidden()  # its values are exact


def test_sliders_reweigh_exact_values(page: Page, server: Running, explained: dict[str, Explained]) -> None:
    open_model(page, server, "linear")
    page.locator("#form input").nth(0).fill("2")
    page.locator("#form input").nth(1).fill("-1")
    page.locator("#form input").nth(2).fill("0.5")
    page.get_by_role("button", name="Explain this row").click()
    expect(page.locator(".bars li")).to_have_count(3)
    expect(page.locator("#errors")).to_have_text("These values are exact.")
    set_sliders(page, 16, 1)
    assert_close(shown_values(page), explained["linear"].explainer.explain([[2, -1, 0.5]]).values[0, :, 0])


def test_uploads_are_checked(page: Page, server: Running, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no picture")
    Image.new("RGB", (40, 30), "white").save(tmp_path / "white.png")
    open_model(page, server, "shapes")
    page.locator("#upload").set_input_files(tmp_path / "notes.txt")
    expect(page.locator("#status")).to_contain_text("notes.txt is not a picture: choose a PNG")
    page.locator("#upload").set_input_files(tmp_path / "white.png")
    expect(page.locator("#status")).to_have_text("")
    (tmp_path / "other.csv").write_text("acid,region\n1,Chianti\n")
    (tmp_path / "unknown.csv").write_text("acid,region,bottled\n1,Mosel,2021-01-01\n")
    (tmp_path / "good.csv").write_text('region,acid,bottled\n"Médoc",1.5,2021-01-01\n', encoding="utf-8")
    open_model(page, server, "wines")
    page.locator("#upload").set_input_files(tmp_path / "other.csv")
    expect(page.locator("#status")).to_contain_text("has no column bottled")
    page.locator("#upload").set_input_files(tmp_path / "unknown.csv")
    expect(page.locator("#status")).to_contain_text("instances[0].region: 'Mosel' is an unknown category")
    page.locator("#upload").set_input_files(tmp_path / "good.csv")
    expect(page.locator("#status")).to_have_text("")
    expect(page.locator(".bars")).to_contain_text("= Médoc")


def test_the_page_asks_for_the_token(page: Page, explained: dict[str, Explained]) -> None:
    with running(lambda: {"wines": explained["wines"].model}, ServerSettings(token="secret")) as server:  # noqa: S106 - of a test
        page.goto(server.address)
        expect(page.locator("#status")).to_contain_text("a token is needed")
        page.get_by_label("Token of this server").fill("secret")
        page.get_by_role("button", name="Use it").click()
        expect(page.locator(".bars li")).to_have_count(3)
        expect(page.locator("#login")).to_be_hidden()


def test_one_file_shows_the_samples_without_a_server(
    page: Page, explained: dict[str, Explained], tmp_path: Path
) -> None:
    model = explained["wines"].model
    write_page(tmp_path / "wines.html", model)
    page.route("http*://**", lambda route: pytest.fail(f"it asks for {route.request.url}"))
    page.goto((tmp_path / "wines.html").as_uri())
    page.get_by_role("button", name="Sample 3").click()
    set_sliders(page, 4, 1)
    expected = explained["wines"].explainer.explain(wines(4)[2:3], weights=fw.Beta(4, 1), outputs=["price"])
    assert_close(shown_values(page), expected.values[0, :, 0])
    expect(page.locator(".whisker")).to_have_count(3)
    expect(page.locator("#upload-row")).to_be_hidden()


def test_mixtures_are_those_of_python_for_any_weighting(
    page: Page, server: Running, explained: dict[str, Explained]
) -> None:
    page.goto(f"{server.address}")
    for name in ("wines", "linear"):
        basis = explained[name].model.basis
        facts = describe_model(explained[name].model)["basis"]
        for alpha, beta in [(1, 1), (0.13, 0.13), (32, 0.13), (0.13, 32), (3.7, 2.1), (32, 32)]:
            ours = page.evaluate("([basis, alpha, beta]) => mixture(basis, alpha, beta)", [facts, alpha, beta])
            np.testing.assert_allclose(ours, basis.mixture(fw.Beta(alpha, beta)), rtol=1e-8, atol=1e-10)


def test_it_is_usable_by_keyboard_and_on_a_phone(browser: Browser, server: Running) -> None:
    page = browser.new_page(viewport={"width": 360, "height": 740}, color_scheme="dark")
    try:
        open_model(page, server, "wines")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.locator("#alpha").focus()
        before = shown_values(page)
        page.keyboard.press("ArrowRight")
        assert not np.allclose(shown_values(page), before)
        unnamed = page.evaluate(
            "[...document.querySelectorAll('button, input, select')].filter(one => !one.hidden && !one.disabled && "
            "!(one.labels?.length || one.textContent.trim() || one.ariaLabel)).map(one => one.outerHTML)"
        )
        assert unnamed == []
    finally:
        page.close()
