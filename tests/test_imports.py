import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "fwshapley"

LAYERS = [
    ("checks", "version", "weights"),
    ("players",),
    ("sampling",),
    ("games",),
    ("files", "interrupts", "plots", "progress", "recipes"),
    ("datasets", "storage"),
    ("exact", "montecarlo", "training"),
    ("networks",),
    ("forms",),
    ("blackbox", "objective", "surrogate", "results"),
    ("choices", "fitting", "inputs", "interop"),
    ("saving",),
    ("refinement", "trust"),
    ("explainer", "valuation"),
    ("metrics",),
    ("report",),
    ("baselines", "choosing"),
    ("explainer_report",),
    ("fwshapley",),  # the package itself, __init__.py
    ("pictures", "tables"),
    ("valuation_report",),
    ("cli",),
    ("__main__",),
]
"""Modules and folders of the package: each imports from its own layer and those above it in this list alone."""

PEERS = {"captum", "pydvl", "shap", "shapiq", "sklearn"}
WRAPPED = {"captum": {"baselines"}, "shap": {"explainer", "interop"}, "sklearn": {"games"}}
"""Parts that wrap a peer; they import it where it is needed, or for types alone."""

MODULES = sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    """Top-level module or folder that a file belongs to."""
    inside = path.relative_to(PACKAGE)
    return inside.parts[0].removesuffix(".py").replace("__init__", "fwshapley")


def layer_of(part: str) -> int:
    for number, layer in enumerate(LAYERS):
        if part in layer:
            return number
    pytest.fail(f"{part} has no layer yet: place it in LAYERS of tests/test_imports.py, below all it imports")


def imports_of(path: Path) -> Iterator[tuple[str, ...]]:
    """Every import of a file, as the dotted path's parts."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None, f"{path}:{node.lineno}: write imports in full"
            assert node.level == 0, f"{path}:{node.lineno}: write imports in full"
            yield from ((*node.module.split("."), alias.name) for alias in node.names)


def parts_imported(path: Path) -> Iterator[str]:
    """Top-level modules and folders of the package that a file imports."""
    for package, *inside in imports_of(path):
        if package == "fwshapley":
            is_part = bool(inside) and ((PACKAGE / inside[0]).is_dir() or (PACKAGE / f"{inside[0]}.py").exists())
            yield inside[0] if is_part else "fwshapley"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    own = part_of(path)
    for part in parts_imported(path):
        assert layer_of(part) <= layer_of(own), f"{own} may not import {part}, which is in a later layer"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_peers_are_not_imported_but_where_they_are_wrapped(path: Path) -> None:
    for package, *_ in imports_of(path):
        assert package not in PEERS or part_of(path) in WRAPPED.get(package, set())


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_peers_are_imported_lazily(path: Path) -> None:
    for node in ast.parse(path.read_text()).body:
        paths = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        paths += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert PEERS.isdisjoint(each.split(".")[0] for each in paths)


def test_there_are_modules_to_check() -> None:
    assert {"weights", "games", "fwshapley"} <= {part_of(path) for path in MODULES}
