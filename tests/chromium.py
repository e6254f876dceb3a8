"""Debian's chromium, for tests of pages. With FWSHAPLEY_BROWSER=required, as in .ci/run, they fail without it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"


@contextmanager
def launched() -> Iterator[Browser]:
    """Yield the browser; skip the test if it is missing, unless it is required."""
    if not Path(CHROMIUM).exists():
        message = "chromium is missing, so the page is not tested: apt-get install chromium"
        if os.environ.get("FWSHAPLEY_BROWSER") == "required":
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()
