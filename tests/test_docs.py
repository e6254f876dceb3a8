"""What README and docs show must work: their Python runs, their links and pictures exist, their commands too."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from readme_code import find_blocks, run_page

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
REFERENCE = sorted((ROOT / "docs" / "api").glob("*.md"))
PUBLIC = ["", "explanation.baselines", "datasets", "games", "explanation.metrics", "plots", "valuation"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_on_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_on_the_page_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if not target.startswith("http")]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_readme_commands_are_make_targets() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    used = {match for block in find_blocks(PAGES[0], "console") for match in re.findall(r"make ([a-z]+)", block)}
    assert used == {"demo", "test"}
    assert used <= targets


def documented(page: Path) -> Iterator[tuple[str, object]]:
    """What a page of the reference lists: kind of directive, and the thing itself."""
    module = importlib.import_module("fwshapley")
    for block in find_blocks(page, "{eval-rst}"):
        for kind, name in re.findall(r"^\.\. (auto\w+|currentmodule):: (\S+)", block, re.MULTILINE):
            if kind == "currentmodule":
                module = importlib.import_module(name)
            else:
                yield kind, importlib.import_module(name) if kind == "automodule" else getattr(module, name)


def public_names(module: ModuleType) -> dict[str, object]:
    """Names that a module offers: those of its __all__, or the functions and classes that it defines."""
    if hasattr(module, "__all__"):
        return {name: getattr(module, name) for name in module.__all__}
    own = {name: thing for name, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__}
    return {name: thing for name, thing in own.items() if not name.startswith("_") and callable(thing)}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    module = importlib.import_module(f"fwshapley.{name}".rstrip("."))
    listed = [thing for page in REFERENCE for _, thing in documented(page)]
    missing = [name for name, thing in public_names(module).items() if not any(thing is each for each in listed)]
    assert missing == [], "add them to a page in docs/api"


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.name)
def test_reference_calls_functions_functions_and_classes_classes(page: Path) -> None:
    for kind, thing in documented(page):
        assert (kind == "autofunction") == inspect.isroutine(thing), thing
        assert (kind == "autoclass") == inspect.isclass(thing), thing
