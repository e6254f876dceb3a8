"""README and docs: their Python runs, their links and pictures exist, and the reference has all public names."""

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
PUBLIC = [
    *("", "audit", "datasets", "estimators", "explanation", "explanation.baselines", "explanation.metrics", "games"),
    *("players", "plots", "serving", "training", "trees", "valuation"),
]
"""Modules whose public names must be in the reference. (Those of semivalues are public in the package itself.)"""


@pytest.mark.slow
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
    assert {"demo", "test"} <= used
    assert used <= targets


def documented(page: Path) -> Iterator[tuple[str, object]]:
    """Yield what a page of the reference lists: the kind of directive, and the object."""
    module = importlib.import_module("fwshapley")
    for block in find_blocks(page, "{eval-rst}"):
        for kind, name in re.findall(r"^\.\. (auto\w+|currentmodule):: (\S+)", block, re.MULTILINE):
            if kind == "currentmodule":
                module = importlib.import_module(name)
            else:
                yield kind, importlib.import_module(name) if kind == "automodule" else getattr(module, name)


def public_names(module: ModuleType) -> dict[str, object]:
    """Return the names of a module's __all__, or else the functions and classes that it defines."""
    if hasattr(module, "__all__"):
        return {name: getattr(module, name) for name in module.__all__}
    defined = {name: member for name, member in vars(module).items() if is_defined_in(module, member)}
    return {name: member for name, member in defined.items() if not name.startswith("_") and callable(member)}


def is_defined_in(module: ModuleType, member: object) -> bool:
    return getattr(member, "__module__", "") == module.__name__


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    module = importlib.import_module(f"fwshapley.{name}".rstrip("."))
    listed = [member for page in REFERENCE for _, member in documented(page)]
    listed += [importlib.import_module(f"fwshapley.{public}".rstrip(".")) for public in (*PUBLIC, "semivalues")]
    members = public_names(module)
    missing = [name for name in members if not any(members[name] is member for member in listed)]
    assert missing == [], "add them to a page in docs/api, modules to PUBLIC"


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.name)
def test_directives_of_the_reference_match_their_objects(page: Path) -> None:
    for kind, member in documented(page):
        assert (kind == "autofunction") == inspect.isroutine(member), member
        assert (kind == "autoclass") == inspect.isclass(member), member
