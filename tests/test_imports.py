import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "fwshapley"

LAYERS = [
    ("_internal",),
    ("semivalues",),
    ("_internal.result",),
    ("coalitions", "players"),
    ("games", "plots", "superpixels", "text_players"),
    ("estimators", "training"),
    ("networks",),
    ("tables",),
    ("objectives",),
    ("explanation", "trees"),
    ("valuation",),
    ("audit",),
    ("datasets",),
    ("serving",),
    ("fwshapley",),  # the package itself, __init__.py
    ("cli",),
    ("__main__",),
]
"""Modules and folders of the package: each imports from its own layer and those above it in this list alone."""

PEERS = {"captum", "catboost", "lightgbm", "pydvl", "shap", "shapiq", "woodelf", "xgboost"}
WRAPPED = {"captum": {"explanation"}, "catboost": {"trees"}, "shap": {"explanation", "trees"}}
"""Parts that wrap a peer; they import it where it is needed, or for types alone."""

MODULES = sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    """Top-level module or folder that a file belongs to, or the module itself if it has a layer of its own."""
    inside = path.relative_to(PACKAGE).with_suffix("").parts
    return own_layer(inside) or inside[0].replace("__init__", "fwshapley")


def own_layer(parts: Sequence[str]) -> str | None:
    """Name of a module inside a folder that LAYERS places apart from its folder."""
    name = ".".join(parts[:2])
    return name if len(parts) > 1 and any(name in layer for layer in LAYERS) else None


def layer_of(part: str) -> int:
    for number, layer in enumerate(LAYERS):
        if part in layer:
            return number
    pytest.fail(f"{part} has no layer yet: place it in LAYERS of tests/test_imports.py, below all it imports")


@cache
def parsed(path: Path) -> ast.Module:
    """Syntax tree of a file, which several tests walk."""
    return ast.parse(path.read_text())


def imports_of(path: Path) -> Iterator[tuple[str, ...]]:
    """Every import of a file, as the dotted path's parts."""
    for node in ast.walk(parsed(path)):
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
            yield own_layer(inside) or (inside[0] if is_part else "fwshapley")


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
    for node in parsed(path).body:
        paths = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        paths += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert PEERS.isdisjoint(each.split(".")[0] for each in paths)


def test_there_are_modules_to_check() -> None:
    assert {"semivalues", "games", "fwshapley"} <= {part_of(path) for path in MODULES}
