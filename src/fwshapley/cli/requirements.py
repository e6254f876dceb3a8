"""What a script needs installed, from its imports and those of its neighbours, before it runs."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "fwshapley"
DISTRIBUTIONS = {"PIL": "pillow", "sklearn": "scikit-learn"}
"""Names to install modules by, where those differ."""

DEVELOPING = "dev"
"""Extra that has nearly everything, and so comes last."""

NEEDED = re.compile(r"""([\w.-]+).*;.*extra == ['"]([\w.-]+)['"]""")
"""A requirement of an extra, as metadata have it."""


def check_installed(script: Path, beside: Sequence[Path] = ()) -> None:
    """Raise an error that says what is missing, and how to get it.

    Args:
        script: a file of Python, which may import others of its folder.
        beside: further folders that it imports scripts from.
    """
    modules = dict.fromkeys(_modules(script, (script.parent, *beside), set()))
    missing = [DISTRIBUTIONS.get(name, name) for name in modules if find_spec(name) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise ModuleNotFoundError(
            f"{script.stem} needs {', '.join(missing)}, which {are} not installed: {_how_to_get(missing)}"
        )


def _modules(script: Path, folders: Sequence[Path], seen: set[Path]) -> Iterator[str]:
    """Yield what a script imports as it starts, not from these folders; scripts from them do so in turn."""
    seen.add(script)
    for name in _imports(script):
        found = next((path for folder in folders if (path := folder / f"{name}.py").is_file()), None)
        if found is None:
            yield name
        elif found not in seen:
            yield from _modules(found, folders, seen)


def _imports(script: Path) -> Iterator[str]:
    """Yield the first parts of what is imported outside of functions and conditions, such as TYPE_CHECKING."""
    for node in ast.parse(script.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _how_to_get(missing: Sequence[str]) -> str:
    """Return what to call: extras of this package that have it all, each as small as may be, or the names alone."""
    extras, left = _extras(), set(missing)
    chosen: list[str] = []

    def use(extra: str) -> tuple[bool, int, int]:
        covered = len(left & extras[extra])
        return covered > 0 and extra != DEVELOPING, covered, -len(extras[extra])

    while any(left & names for names in extras.values()):
        best = max(extras, key=use)
        chosen.append(best)
        left -= extras[best]
    others = "".join(f" {name}" for name in missing if name in left)
    if not chosen:
        return f"pip install{others}"
    wanted = f"[{','.join(chosen)}]"
    return f"pip install '{PACKAGE}{wanted}'{others} (in a checkout: pip install '.{wanted}'{others})"


def _extras() -> dict[str, set[str]]:
    """What each extra of this package installs, if it is known."""
    found: dict[str, set[str]] = defaultdict(set)
    try:
        known = requires(PACKAGE) or []
    except PackageNotFoundError:  # a source tree on the path
        known = []
    for match in filter(None, map(NEEDED.match, known)):
        found[match[2]].add(match[1])
    return found
